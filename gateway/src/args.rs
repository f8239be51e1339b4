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
    Int {
        min: u64,
        max: u64,
    },
    Word(&'static [&'static str]),
    Words(&'static [&'static str]),
    Wait,
    Headers,
    Session,
    /// Names of values, each with a CSS selector.
    Selectors,
    /// An object whose fields count as arguments.
    Options,
    /// Anything; it changes nothing.
    Ignored,
    /// Nothing but the default.
    Refused,
}

/// One argument of one tool: the only place that knows its names, bound and default.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Param {
    pub(crate) name: &'static str,
    /// Other names beside the camel-case spelling, which is always accepted.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    /// Read where it is given, and not listed.
    pub(crate) hidden: bool,
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
pub(crate) struct Args {
    values: BTreeMap<&'static str, Value>,
    /// What was given and changes nothing.
    warnings: Vec<String>,
}

impl Args {
    pub(crate) fn parse(
        params: &'static [Param],
        given: &Map<String, Value>,
        config: &Config,
    ) -> Result<Self, Invalid> {
        let mut args = Self::default();
        for (name, value) in given {
            args.take(params, "", name, value, config)?;
        }
        if let Some(param) = params.iter().find(|p| p.required && !args.has(p.name)) {
            return Err(Invalid::new(param.name, "is required", &Value::Null));
        }
        Ok(args)
    }

    /// Takes one argument; `inside` names the object that it stands in.
    fn take(
        &mut self,
        params: &'static [Param],
        inside: &str,
        name: &str,
        value: &Value,
        config: &Config,
    ) -> Result<(), Invalid> {
        let field = format!("{inside}{name}");
        let Some(param) = find_param(params, name) else {
            return Err(Invalid::new(&field, unknown(params, &snake(name)), value));
        };
        if value.is_null() && !param.required {
            return Ok(());
        }
        let is_default = || serde_json::from_str(param.default).is_ok_and(|d: Value| d == *value);
        match param.kind {
            Kind::Options if inside.is_empty() => {
                let Some(fields) = value.as_object() else {
                    return Err(Invalid::new(&field, "must be an object", value));
                };
                for (name, value) in fields {
                    self.take(params, &format!("{field}."), name, value, config)?;
                }
                return Ok(());
            }
            Kind::Ignored => {
                if !is_default() {
                    let warning = format!("`{field}` changes nothing: {}", param.about);
                    self.warnings.push(warning);
                }
                return Ok(());
            }
            Kind::Refused => {
                if is_default() {
                    return Ok(());
                }
                return Err(Invalid::new(&field, param.about, value));
            }
            _ => {}
        }
        let value = check(param, &field, value, config)?;
        if let Some(earlier) = self.values.insert(param.name, value.clone())
            && earlier != value
        {
            let bound = format!("contradicts another spelling of `{}`", param.name);
            return Err(Invalid::new(&field, bound, &value));
        }
        Ok(())
    }

    /// What the caller should know of arguments that changed nothing.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Numbers that were checked when they were given.
    pub(crate) fn of(numbers: &[(&'static str, Option<u64>)]) -> Self {
        let given = numbers.iter();
        let values = given.filter_map(|(name, number)| Some((*name, Value::from((*number)?))));
        Self {
            values: values.collect(),
            ..Self::default()
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.as_str()
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        self.values
            .get(name)
            .and_then(Value::as_bool)
            .unwrap_or(default)
    }

    pub(crate) fn int(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.as_u64()
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let list = self.values.get(name).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    }

    pub(crate) fn headers(&self) -> Vec<proto::v1::Header> {
        let given = self.values.get("headers");
        given
            .and_then(|value| headers::parse("headers", value).ok())
            .unwrap_or_default()
    }

    /// How long to wait; `default` where nothing was said.
    pub(crate) fn wait(&self, default: Duration) -> Duration {
        match self.values.get("wait") {
            None if self.text("mode") == Some("async") => Duration::ZERO,
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
