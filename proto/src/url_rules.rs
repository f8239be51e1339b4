//! From a page's address and a link's text to the URL to crawl, or the reason to leave it.
//!
//! The rules are options of a session; without any of them the answer is the canonical URL as it is. Parameters are
//! compared by their canonical name without case, and what is kept stays byte for byte as it was.

mod traps;

use serde::{Deserialize, Serialize};
use url::{EncodingOverride, Url};

use crate::{Code, CrawlUrl, Timestamp, UrlError, v1};

pub use traps::{Shape, TrapRules, Years};

/// Query parameters that name a campaign or a click, next to everything that begins with `utm_`.
const TRACKING: [&str; 8] = [
    "gclid", "dclid", "fbclid", "msclkid", "yclid", "mc_cid", "mc_eid", "igshid",
];
const TRACKING_PREFIX: &str = "utm_";

/// Query parameters that name a visit, next to everything that begins with `aspsessionid`.
const SESSION: [&str; 3] = ["jsessionid", "phpsessid", "sessionid"];
const SESSION_PREFIX: &str = "aspsessionid";
const SESSION_PATH: &str = ";jsessionid=";

/// What is done to a link's URL before it is admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UrlRules {
    /// Parameters that name a campaign or a click are removed.
    pub strip_tracking: bool,
    /// Parameters that name a visit are removed, from path and query.
    pub strip_session: bool,
    /// Parameters are sorted by name; equal names keep their order.
    pub sort_query: bool,
    /// Longest URL that is taken, in bytes, once the rules were applied.
    pub max_len: Option<usize>,
    /// Which shapes are taken for traps.
    pub traps: Option<TrapRules>,
}

/// Why a link is left.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skip {
    /// It is no http(s) URL.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// It is longer than the rules allow.
    #[error("the URL has {length} bytes; at most {max} are taken")]
    TooLong {
        /// Length of the canonical form, in bytes.
        length: usize,
        /// The bound.
        max: usize,
    },
    /// It looks like one of many without an end.
    #[error("`{url}` looks endless: {shape}")]
    Trap {
        /// The URL.
        url: CrawlUrl,
        /// What makes it look so.
        shape: Shape,
    },
}

impl Skip {
    /// The stable code of the reason.
    pub const fn code(&self) -> Code {
        match self {
            Self::Url(UrlError::Scheme { .. }) => Code::BlockedScheme,
            Self::Url(UrlError::Malformed { .. }) => Code::OutOfScope,
            Self::Url(UrlError::TooLong { .. }) | Self::TooLong { .. } | Self::Trap { .. } => {
                Code::Trap
            }
        }
    }

    /// The stable word of the reason, finer than the code: what the ledger shows beside it.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Url(UrlError::Scheme { .. }) => "scheme",
            Self::Url(UrlError::Malformed { .. }) => "malformed",
            Self::Url(UrlError::TooLong { .. }) | Self::TooLong { .. } => "too_long",
            Self::Trap { shape, .. } => shape.word(),
        }
    }
}

impl UrlRules {
    /// What a session that began at `started` asks for.
    pub fn of_session(asked: &v1::UrlRules, started: Timestamp) -> Self {
        Self {
            strip_tracking: asked.strip_tracking,
            strip_session: asked.strip_session,
            sort_query: asked.sort_query,
            max_len: usize::try_from(asked.max_length)
                .ok()
                .filter(|max| *max > 0),
            traps: (!asked.allow_traps).then(|| TrapRules::usual(started)),
        }
    }

    /// Resolves `href` on a UTF-8 page at `base` and applies the rules.
    pub fn apply(&self, base: &CrawlUrl, href: &str) -> Result<CrawlUrl, Skip> {
        self.apply_encoded(base, href, None)
    }

    /// Resolves `href` as a page in another encoding means it, and applies the rules.
    pub fn apply_encoded(
        &self,
        base: &CrawlUrl,
        href: &str,
        encode: EncodingOverride<'_>,
    ) -> Result<CrawlUrl, Skip> {
        self.rewrite(base.join_encoded(href, encode)?)
    }

    /// Applies the rules to a URL that is canonical already.
    pub fn rewrite(&self, url: CrawlUrl) -> Result<CrawlUrl, Skip> {
        let url = self.stripped(url)?;
        self.check(&url)?;
        Ok(url)
    }

    /// Whether a URL may be admitted as it is: neither too long nor of a shape that has no end.
    pub fn check(&self, url: &CrawlUrl) -> Result<(), Skip> {
        let length = url.as_str().len();
        if let Some(max) = self.max_len.filter(|max| length > *max) {
            return Err(Skip::TooLong { length, max });
        }
        match self.traps.and_then(|traps| traps.catches(url)) {
            Some(shape) => Err(Skip::Trap {
                url: url.clone(),
                shape,
            }),
            None => Ok(()),
        }
    }

    /// The URL without what the rules remove, its parameters in the order that they ask for.
    pub fn stripped(&self, url: CrawlUrl) -> Result<CrawlUrl, UrlError> {
        if !(self.strip_tracking || self.strip_session || self.sort_query) {
            return Ok(url);
        }
        let mut changed: Option<Url> = None;
        if self.strip_session
            && let Some(path) = without_session(url.url().path())
        {
            changed
                .get_or_insert_with(|| url.url().clone())
                .set_path(&path);
        }
        if let Some(query) = url.url().query() {
            let kept = self.kept_query(query);
            if kept.as_deref() != Some(query) {
                let target = changed.get_or_insert_with(|| url.url().clone());
                target.set_query(kept.as_deref());
            }
        }
        changed.map_or(Ok(url), |changed| CrawlUrl::from_url(&changed))
    }

    /// The query without what the rules remove; `None` when nothing is left of it.
    fn kept_query(&self, query: &str) -> Option<String> {
        let all = query.split('&').count();
        let mut kept: Vec<&str> = query
            .split('&')
            .filter(|parameter| !self.removes(parameter_name(parameter)))
            .collect();
        if kept.is_empty() || (kept.len() < all && kept.iter().all(|part| part.is_empty())) {
            return None;
        }
        if self.sort_query {
            kept.sort_by_key(|parameter| parameter_name(parameter));
        }
        Some(kept.join("&"))
    }

    fn removes(&self, name: &str) -> bool {
        (self.strip_tracking && is_named(name, &TRACKING, TRACKING_PREFIX))
            || (self.strip_session && is_named(name, &SESSION, SESSION_PREFIX))
    }
}

impl CrawlUrl {
    /// The base of a page's links: this address, or what its base element names, if that can be crawled.
    #[must_use]
    pub fn with_base_href(&self, base_href: Option<&str>) -> Self {
        base_href
            .and_then(|href| self.join(href).ok())
            .unwrap_or_else(|| self.clone())
    }
}

fn parameter_name(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or(parameter)
}

fn is_named(name: &str, names: &[&str], prefix: &str) -> bool {
    let starts = name.get(..prefix.len());
    starts.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        || names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The path without its `;jsessionid=` parameters; `None` where there are none.
fn without_session(path: &str) -> Option<String> {
    let lower = path.to_ascii_lowercase();
    let mut out = String::new();
    let mut done = 0;
    while let Some(at) = lower.get(done..).and_then(|rest| rest.find(SESSION_PATH)) {
        let from = done + at;
        out.push_str(&path[done..from]);
        let value = &path[from + 1..];
        done = from + 1 + value.find([';', '/']).unwrap_or(value.len());
    }
    if done == 0 {
        return None;
    }
    out.push_str(&path[done..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{Skip, TrapRules, UrlRules};
    use crate::{Code, CrawlUrl, Timestamp};

    fn page() -> CrawlUrl {
        CrawlUrl::parse("https://shop.test/a/list?x=1").unwrap()
    }

    fn applied(rules: &UrlRules, href: &str) -> String {
        rules.apply(&page(), href).unwrap().to_string()
    }

    #[test]
    fn without_rules_nothing_but_the_canonical_form_changes() {
        let rules = UrlRules::default();
        let url = applied(&rules, "b;jsessionid=1?utm_source=x&b=&a#top");
        assert_eq!(url, "https://shop.test/a/b;jsessionid=1?utm_source=x&b=&a");
    }

    #[test]
    fn tracking_and_session_parameters_go_and_the_rest_keeps_its_order() {
        let rules = UrlRules {
            strip_tracking: true,
            strip_session: true,
            ..UrlRules::default()
        };
        for (href, expected) in [
            ("?b=1&UTM_Source=x&a=2&fbclid=q", "?b=1&a=2"),
            ("?utm_id=1", ""),
            ("?", "?"),
            ("?ASPSESSIONIDQQ=1&k=", "?k="),
            ("?next=%3Futm_x%3D1", "?next=%3Futm_x%3D1"),
            ("list;JSESSIONID=1;v=2?q", ";v=2?q"),
        ] {
            let expected = format!("https://shop.test/a/list{expected}");
            assert_eq!(applied(&rules, href), expected, "{href}");
        }
    }

    #[test]
    fn sorting_is_stable() {
        let rules = UrlRules {
            sort_query: true,
            ..UrlRules::default()
        };
        assert_eq!(
            applied(&rules, "/?b=2&a=9&b=1&a=1"),
            "https://shop.test/?a=9&a=1&b=2&b=1"
        );
    }

    #[test]
    fn every_reason_has_a_word_of_its_own() {
        let rules = UrlRules {
            max_len: Some(60),
            traps: Some(TrapRules::usual(Timestamp::from_millis(1_746_100_800_000))),
            ..UrlRules::default()
        };
        for (href, reason, code) in [
            ("mailto:x", "scheme", Code::BlockedScheme),
            ("http://[", "malformed", Code::OutOfScope),
            ("/abcdefghijk".repeat(6).as_str(), "too_long", Code::Trap),
            ("/x/x/x/x/x", "repeated_segments", Code::Trap),
            ("/a;jsessionid=1", "session_id", Code::Trap),
            ("/calendar/2999/1", "endless_calendar", Code::Trap),
        ] {
            let skip = rules.apply(&page(), href).unwrap_err();
            assert_eq!((skip.reason(), skip.code()), (reason, code), "{skip}");
        }
        assert_eq!(rules.check(&page()), Ok(()));
    }

    #[test]
    fn a_url_over_the_bound_is_too_long() {
        let rules = UrlRules {
            max_len: Some(20),
            ..UrlRules::default()
        };
        let answer = rules.apply(&page(), "/abcdefghijk");
        assert_eq!(
            answer,
            Err(Skip::TooLong {
                length: 29,
                max: 20
            })
        );
    }

    #[test]
    fn the_query_is_written_in_the_encoding_of_the_page() {
        fn latin(text: &str) -> Cow<'_, [u8]> {
            Cow::Owned(text.chars().map(|letter| letter as u8).collect())
        }
        let url = page()
            .join_encoded("/\u{e9}?q=\u{e9}", Some(&latin))
            .unwrap();
        assert_eq!(url.as_str(), "https://shop.test/%C3%A9?q=%E9");
    }

    #[test]
    fn a_base_that_cannot_be_crawled_is_ignored() {
        let base = page().with_base_href(Some("data:text/plain,x"));
        assert_eq!(base, page());
        let base = page().with_base_href(Some("/deep/"));
        assert_eq!(base.as_str(), "https://shop.test/deep/");
    }
}
