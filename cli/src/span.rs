//! A span of time as people write it: `200ms`, `1s`, `1.5s`, `2m`, `1h`, `0`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A span of time in settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Span(pub(crate) Duration);

/// A text is no span of time.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no span of time; write for example `200ms`, `1s`, `1.5s`, `2m`, `1h` or `0`")]
pub(crate) struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let wrong = || SpanError(text.to_owned());
        let trimmed = text.trim();
        let split = trimmed
            .find(|letter: char| letter.is_ascii_alphabetic())
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let value: f64 = number.trim().parse().map_err(|_| wrong())?;
        let seconds = match unit {
            "ms" => value / 1000.0,
            "s" => value,
            "m" | "min" => value * 60.0,
            "h" => value * 3600.0,
            "d" => value * 86_400.0,
            "" if value == 0.0 => 0.0,
            _ => return Err(wrong()),
        };
        Duration::try_from_secs_f64(seconds)
            .map(Self)
            .map_err(|_| wrong())
    }
}

impl TryFrom<String> for Span {
    type Error = SpanError;

    fn try_from(text: String) -> Result<Self, SpanError> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        match millis {
            0 => out.write_str("0"),
            _ if millis.is_multiple_of(3_600_000) => write!(out, "{}h", millis / 3_600_000),
            _ if millis.is_multiple_of(60_000) => write!(out, "{}m", millis / 60_000),
            _ if millis.is_multiple_of(1000) => write!(out, "{}s", millis / 1000),
            _ => write!(out, "{millis}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Span;

    #[test]
    fn a_span_reads_as_people_write_it() {
        for (text, millis, shown) in [
            ("200ms", 200, "200ms"),
            ("1s", 1000, "1s"),
            ("1.5s", 1500, "1500ms"),
            ("2m", 120_000, "2m"),
            ("1h", 3_600_000, "1h"),
            ("0", 0, "0"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0.as_millis(), millis, "{text}");
            assert_eq!(span.to_string(), shown);
        }
        for wrong in ["", "5", "-1s", "1 year", "s", "NaNs"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }
}
