//! One value against its kind and bound.

use proto::CrawlUrl;
use serde_json::{Value, json};

use super::{Kind, Param};
use crate::config::Config;
use crate::error::Invalid;
use crate::{headers, selectors};

pub(super) fn check(
    param: &Param,
    field: &str,
    value: &Value,
    config: &Config,
) -> Result<Value, Invalid> {
    let wrong = |bound: String| Invalid::new(field, bound, value);
    match param.kind {
        Kind::Text => match value.as_str() {
            Some(text) if !text.is_empty() && text.len() <= 4_096 => Ok(value.clone()),
            _ => Err(wrong("must be a text of 1 to 4096 bytes".into())),
        },
        Kind::Session => match value.as_str().map(str::parse::<proto::SessionId>) {
            Some(Ok(_)) => Ok(value.clone()),
            _ => Err(wrong("must be a session id such as `ses_...`".into())),
        },
        Kind::Texts => {
            let list = as_list(value);
            if list.len() > 100 || list.iter().any(|item| !item.is_string()) {
                return Err(wrong("must be a list of at most 100 texts".into()));
            }
            Ok(Value::Array(list))
        }
        Kind::Url => Ok(Value::String(url(field, value)?)),
        Kind::Urls => {
            let list = as_list(value);
            let most = config.bounds.max_batch;
            if list.is_empty() || list.len() > most {
                return Err(wrong(format!("must hold 1 to {most} URLs")));
            }
            let urls = list
                .iter()
                .enumerate()
                .map(|(at, item)| url_of(&format!("{field}[{at}]"), item).map(Value::String));
            Ok(Value::Array(urls.collect::<Result<_, _>>()?))
        }
        Kind::Flag if value.is_boolean() => Ok(value.clone()),
        Kind::Flag => Err(wrong("must be true or false".into())),
        Kind::Int { min, max } => {
            let max = ceiling(param.name, max, config);
            match whole(value) {
                Some(number) if (min..=max).contains(&number) => Ok(json!(number)),
                _ => Err(wrong(format!("must be a whole number from {min} to {max}"))),
            }
        }
        Kind::Word(words) => match value.as_str() {
            Some(word) if words.contains(&word) => Ok(value.clone()),
            _ => Err(wrong(format!("must be one of {}", words.join(", ")))),
        },
        Kind::Words(words) => {
            let list = as_list(value);
            let known = |item: &Value| item.as_str().is_some_and(|word| words.contains(&word));
            if list.is_empty() || list.len() > words.len() || !list.iter().all(known) {
                return Err(wrong(format!(
                    "must be one or more of {}",
                    words.join(", ")
                )));
            }
            Ok(Value::Array(list))
        }
        Kind::Wait => {
            let most = config.max_wait.as_secs_f64();
            let fits = value
                .as_f64()
                .is_some_and(|seconds| (0.0..=most).contains(&seconds));
            if value.is_boolean() || fits {
                return Ok(value.clone());
            }
            Err(wrong(format!(
                "must be true, false, or 0 to {most} seconds"
            )))
        }
        Kind::Headers => headers::parse(field, value).map(|_| value.clone()),
        Kind::Selectors => selectors::parse(field, value).map(|_| value.clone()),
        Kind::Options | Kind::Ignored | Kind::Refused => {
            Err(wrong("must not stand inside another object".into()))
        }
    }
}

/// The operator's ceiling where it is not the table's.
pub(super) fn ceiling(name: &str, max: u64, config: &Config) -> u64 {
    match name {
        "max_pages" => config.bounds.max_pages,
        "max_depth" => config.bounds.max_depth,
        "max_tokens" => config.bounds.max_tokens,
        _ => max,
    }
}

fn whole(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    // Some clients write every number with a point.
    let number = value.as_f64()?;
    let fits = number.fract() == 0.0 && (0.0..=9.0e15).contains(&number);
    fits.then(|| format!("{number:.0}").parse().ok())?
}

fn as_list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        one => vec![one.clone()],
    }
}

/// A URL, or an object with one; what else stands in it may not be dropped in silence.
fn url_of(field: &str, item: &Value) -> Result<String, Invalid> {
    let Some(object) = item.as_object() else {
        return url(field, item);
    };
    let other = object
        .iter()
        .find(|(name, _)| *name != "url" && *name != "metadata");
    if let Some((name, value)) = other {
        let bound = "is not taken for one URL of many; give it beside the list";
        return Err(Invalid::new(&format!("{field}.{name}"), bound, value));
    }
    url(field, object.get("url").unwrap_or(&Value::Null))
}

fn url(field: &str, value: &Value) -> Result<String, Invalid> {
    let wrong = |bound: &str| Invalid::new(field, bound, value);
    let text = value
        .as_str()
        .ok_or_else(|| wrong("must be an http or https URL"))?;
    let parsed = CrawlUrl::parse(text);
    parsed.map(|url| url.as_str().to_owned()).map_err(|error| {
        Invalid::new(
            field,
            format!("must be an absolute http or https URL ({error})"),
            value,
        )
    })
}
