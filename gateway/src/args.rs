//! Arguments, parsed by hand against the table: both spellings, bounds, contradictions, unknown names.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::CrawlUrl;
use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::error::Invalid;
use crate::headers;

/// What an argument may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Texts,
    Url,
    Urls,
    Flag,
    Int { min: u64, max: u64 },
    Word(&'static [&'static str]),
    Words(&'static [&'static str]),
    Wait,
    Headers,
    Session,
}

/// One argument of one tool: the only place that knows its names, bound and default.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    /// Other names beside the camel-case spelling, which is always accepted.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    /// JSON text; empty where there is none.
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
}

/// Checked arguments under their own names.
#[derive(Debug, Default)]
pub(crate) struct Args(BTreeMap<&'static str, Value>);

impl Args {
    pub(crate) fn parse(
        params: &'static [Param],
        given: &Map<String, Value>,
        config: &Config,
    ) -> Result<Self, Invalid> {
        let mut args = BTreeMap::new();
        for (name, value) in given {
            let key = snake(name);
            let found = params
                .iter()
                .find(|p| p.name == key || p.aliases.contains(&key.as_str()));
            let Some(param) = found else {
                return Err(Invalid::new(name, unknown(params, &key), value));
            };
            if value.is_null() && !param.required {
                continue;
            }
            let value = check(param, name, value, config)?;
            if let Some(earlier) = args.insert(param.name, value.clone())
                && earlier != value
            {
                let bound = format!("contradicts another spelling of `{}`", param.name);
                return Err(Invalid::new(name, bound, &value));
            }
        }
        if let Some(param) = params
            .iter()
            .find(|p| p.required && !args.contains_key(p.name))
        {
            return Err(Invalid::new(param.name, "is required", &Value::Null));
        }
        Ok(Self(args))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(default)
    }

    pub(crate) fn int(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let list = self.0.get(name).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    }

    pub(crate) fn headers(&self) -> Vec<proto::v1::Header> {
        let given = self.0.get("headers");
        given
            .and_then(|value| headers::parse("headers", value).ok())
            .unwrap_or_default()
    }

    /// How long to wait; `default` where nothing was said.
    pub(crate) fn wait(&self, default: Duration) -> Duration {
        match self.0.get("wait") {
            Some(Value::Bool(false)) => Duration::ZERO,
            Some(Value::Number(seconds)) => {
                Duration::from_secs_f64(seconds.as_f64().unwrap_or(0.0))
            }
            _ => default,
        }
    }

    /// Bytes of an answer: four a token.
    pub(crate) fn budget(&self, config: &Config) -> usize {
        let ceiling = config.bounds.max_tokens;
        let tokens = self
            .int("max_tokens")
            .unwrap_or(config.max_tokens)
            .min(ceiling);
        usize::try_from(tokens * 4).unwrap_or(usize::MAX)
    }
}

fn check(param: &Param, field: &str, value: &Value, config: &Config) -> Result<Value, Invalid> {
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
            let urls = list.iter().enumerate().map(|(at, item)| {
                let item = item.get("url").unwrap_or(item);
                url(&format!("{field}[{at}]"), item).map(Value::String)
            });
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
    }
}

/// The operator's ceiling where it is not the table's.
fn ceiling(name: &str, max: u64, config: &Config) -> u64 {
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

/// `maxPages` and `max_pages` are one name.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

fn unknown(params: &'static [Param], key: &str) -> String {
    let names = params
        .iter()
        .flat_map(|p| std::iter::once(p.name).chain(p.aliases.iter().copied()));
    let nearest = names.map(|name| (distance(name, key), name)).min();
    match nearest {
        Some((far, name)) if far <= 3.max(key.len() / 2) => {
            format!("is not an argument of this tool; did you mean `{name}`?")
        }
        Some(_) => {
            let known: Vec<_> = params.iter().map(|p| p.name).collect();
            format!(
                "is not an argument of this tool; it takes {}",
                known.join(", ")
            )
        }
        None => "is not an argument of this tool; it takes none".to_owned(),
    }
}

/// How many letters have to change.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, a) in left.chars().enumerate() {
        let mut diagonal = line;
        let mut before = line + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(&right) {
            let kept = diagonal + usize::from(a != *b);
            diagonal = *cell;
            before = kept.min(*cell + 1).min(before + 1);
            *cell = before;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// The portable JSON schema of a tool's arguments.
pub(crate) fn schema(params: &[Param], config: &Config) -> Map<String, Value> {
    let mut properties = Map::new();
    for param in params {
        let mut property = match param.kind {
            Kind::Text | Kind::Url | Kind::Session => json!({ "type": "string" }),
            Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Kind::Urls => json!({ "type": "array", "items": { "type": "string" },
                "minItems": 1, "maxItems": config.bounds.max_batch }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Int { min, max } => json!({ "type": "integer", "minimum": min,
                "maximum": ceiling(param.name, max, config) }),
            Kind::Word(words) => json!({ "type": "string", "enum": words }),
            Kind::Words(words) => {
                json!({ "type": "array", "items": { "type": "string", "enum": words } })
            }
            Kind::Wait => json!({ "anyOf": [{ "type": "boolean" },
                { "type": "number", "minimum": 0, "maximum": config.max_wait.as_secs() }] }),
            Kind::Headers => {
                json!({ "type": "object", "additionalProperties": { "type": "string" } })
            }
        };
        property["description"] = json!(param.about);
        if let Ok(default) = serde_json::from_str::<Value>(param.default) {
            property["default"] = default;
        }
        properties.insert(param.name.to_owned(), property);
    }
    let required: Vec<_> = params
        .iter()
        .filter(|p| p.required)
        .map(|p| p.name)
        .collect();
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema.insert("additionalProperties".into(), json!(false));
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Args, distance};
    use crate::config::Config;
    use crate::error::Invalid;
    use crate::table;

    fn crawl(given: Value) -> Result<Args, Invalid> {
        let given = given.as_object().cloned().unwrap_or_default();
        Args::parse(
            table::find("crawl").unwrap().params,
            &given,
            &Config::default(),
        )
    }

    #[test]
    fn both_spellings_name_one_argument_and_may_not_contradict() {
        let url = "https://a.test/";
        assert_eq!(
            crawl(json!({"url": url, "maxPages": 5}))
                .unwrap()
                .int("max_pages"),
            Some(5)
        );
        assert_eq!(
            crawl(json!({"url": url, "max_pages": 5}))
                .unwrap()
                .int("max_pages"),
            Some(5)
        );
        assert!(crawl(json!({"url": url, "max_pages": 5, "maxPages": 5})).is_ok());
        assert!(crawl(json!({"url": url, "max_pages": 5, "maxPages": 6})).is_err());
    }

    #[test]
    fn an_unknown_argument_names_the_nearest_one() {
        let wrong = crawl(json!({"url": "https://a.test/", "max_page": 5})).unwrap_err();
        assert_eq!(wrong.field, "max_page");
        assert!(wrong.bound.contains("`max_pages`"), "{}", wrong.bound);
    }

    #[test]
    fn bounds_and_types_are_kept() {
        for wrong in [
            json!({"url": "ftp://a.test/"}),
            json!({"url": 7}),
            json!({"url": "https://a.test/", "max_pages": 0}),
            json!({"url": "https://a.test/", "max_pages": 100_001}),
            json!({"url": "https://a.test/", "max_pages": "5"}),
            json!({"url": "https://a.test/", "max_pages": 1.5}),
            json!({"url": "https://a.test/", "max_depth": 101}),
            json!({"url": "https://a.test/", "format": "pdf"}),
            json!({"url": "https://a.test/", "wait": 46}),
        ] {
            assert!(crawl(wrong.clone()).is_err(), "{wrong}");
        }
        assert!(crawl(json!({"url": "https://a.test/", "max_pages": 5.0})).is_ok());
    }

    #[test]
    fn distance_counts_changed_letters() {
        assert_eq!(distance("max_pages", "max_page"), 1);
        assert_eq!(distance("url", "urls"), 1);
        assert_eq!(distance("abc", "xyz"), 3);
    }
}
