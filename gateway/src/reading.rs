//! What a caller asked to read of a session; kept in its spec, so that a later answer, from whatever gateway, reads the same.

use crate::args::Args;

/// Formats and bounds of an answer, as they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) formats: Vec<String>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) search: Option<String>,
}

const MAX_TOKENS: &str = "max_tokens=";
const LIMIT: &str = "limit=";
/// The last one, since its text may hold anything.
const SEARCH: &str = "search=";

impl Reading {
    pub(crate) fn of(args: &Args, formats: Vec<String>) -> Self {
        Self {
            formats,
            max_tokens: args.int("max_tokens"),
            limit: args.int("limit"),
            search: args.text("search").map(str::to_owned),
        }
    }

    /// Reads `markdown,html;max_tokens=500;limit=7;search=words`; each but the first may be left out.
    pub(crate) fn parse(text: &str) -> Self {
        let mut reading = Self::default();
        let (formats, mut rest) = text.split_once(';').unwrap_or((text, ""));
        let formats = formats.split(',').filter(|format| !format.is_empty());
        reading.formats = formats.map(str::to_owned).collect();
        while !rest.is_empty() {
            if let Some(search) = rest.strip_prefix(SEARCH) {
                reading.search = Some(search.to_owned());
                break;
            }
            let (field, left) = rest.split_once(';').unwrap_or((rest, ""));
            if let Some(number) = field.strip_prefix(MAX_TOKENS) {
                reading.max_tokens = number.parse().ok();
            } else if let Some(number) = field.strip_prefix(LIMIT) {
                reading.limit = number.parse().ok();
            }
            rest = left;
        }
        reading
    }

    pub(crate) fn written(&self) -> String {
        let mut text = self.formats.join(",");
        if let Some(number) = self.max_tokens {
            text.push_str(&format!(";{MAX_TOKENS}{number}"));
        }
        if let Some(number) = self.limit {
            text.push_str(&format!(";{LIMIT}{number}"));
        }
        if let Some(search) = &self.search {
            text.push_str(&format!(";{SEARCH}{search}"));
        }
        text
    }

    /// Whether the crawl is to be told as llms.txt.
    pub(crate) fn is_llms(&self) -> bool {
        let known = ["both", "llms-txt", "llms-full-txt"];
        self.formats
            .iter()
            .any(|format| known.contains(&format.as_str()))
    }

    /// The format of a crawl's pages.
    pub(crate) fn format(&self) -> String {
        if self.formats.is_empty() || self.is_llms() {
            return "markdown".to_owned();
        }
        self.formats.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::Reading;

    #[test]
    fn what_was_asked_for_is_read_back() {
        let whole = Reading {
            formats: vec!["markdown".into(), "html".into()],
            max_tokens: Some(500),
            limit: Some(7),
            search: Some("a;limit=3, ü".into()),
        };
        let short = Reading {
            formats: vec!["links".into()],
            ..Reading::default()
        };
        for reading in [whole, short, Reading::default()] {
            assert_eq!(Reading::parse(&reading.written()), reading);
        }
        assert_eq!(Reading::parse("").format(), "markdown");
    }
}
