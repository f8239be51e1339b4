//! Arguments, parsed by hand against the table: both spellings, bounds, contradictions, unknown names.

mod check;
pub(crate) mod names;
mod schema;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::config::Config;
use crate::error::Invalid;
use crate::headers;

use check::check;
use names::{snake, unknown};

pub(crate) use schema::schema;

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

/// The argument that `name` spells, in either spelling.
pub(crate) fn find_param(params: &'static [Param], name: &str) -> Option<&'static Param> {
    let key = snake(name);
    params
        .iter()
        .find(|p| p.name == key || p.aliases.contains(&key.as_str()))
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
            let Some(param) = find_param(params, name) else {
                return Err(Invalid::new(name, unknown(params, &snake(name)), value));
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

    /// Numbers that were checked when they were given.
    pub(crate) fn of(numbers: &[(&'static str, Option<u64>)]) -> Self {
        let given = numbers.iter();
        Self(
            given
                .filter_map(|(name, number)| Some((*name, Value::from((*number)?))))
                .collect(),
        )
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Args;
    use crate::config::Config;
    use crate::error::Invalid;
    use crate::table;

    fn crawl(given: &Value) -> Result<Args, Invalid> {
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
            crawl(&json!({"url": url, "maxPages": 5}))
                .unwrap()
                .int("max_pages"),
            Some(5)
        );
        assert_eq!(
            crawl(&json!({"url": url, "max_pages": 5}))
                .unwrap()
                .int("max_pages"),
            Some(5)
        );
        assert!(crawl(&json!({"url": url, "max_pages": 5, "maxPages": 5})).is_ok());
        assert!(crawl(&json!({"url": url, "max_pages": 5, "maxPages": 6})).is_err());
    }

    #[test]
    fn an_unknown_argument_names_the_nearest_one() {
        let wrong = crawl(&json!({"url": "https://a.test/", "max_page": 5})).unwrap_err();
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
            assert!(crawl(&wrong).is_err(), "{wrong}");
        }
        assert!(crawl(&json!({"url": "https://a.test/", "max_pages": 5.0})).is_ok());
    }
}
