//! Cases from base and href to the canonical URL.

use std::borrow::Cow;

use encoding_rs::Encoding;
use proto::{CrawlUrl, Skip, TrapRules, UrlError, UrlRules};
use serde_json::{Value, json};

use crate::{Verdict, bytes, same, string, verdict};

pub fn check(input: &Value, expected: &Value) -> Verdict {
    let href = String::from_utf8_lossy(&bytes(input, "href")).into_owned();
    let answer = applied(input, &href);
    let mut wrong = Vec::new();
    let (url, reason) = match answer {
        Ok(url) => (json!(url.as_str()), None),
        Err(Skip::Trap { .. }) => (Value::Null, Some("trap")),
        Err(Skip::TooLong { .. } | Skip::Url(UrlError::TooLong { .. })) => {
            (Value::Null, Some("too_long"))
        }
        Err(Skip::Url(_)) => (Value::Null, Some("no URL to crawl")),
    };
    same(expected, "url", &url, &mut wrong);
    same(expected, "reason", &json!(reason), &mut wrong);
    verdict(&wrong)
}

fn applied(input: &Value, href: &str) -> Result<CrawlUrl, Skip> {
    let options = &input["options"];
    let flag = |name: &str| options[name].as_bool().unwrap_or(false);
    let number = |value: &Value| {
        value
            .as_u64()
            .and_then(|number| usize::try_from(number).ok())
    };
    let traps = &options["trap_filter"];
    let rules = UrlRules {
        strip_tracking: flag("strip_tracking"),
        strip_session: flag("strip_session"),
        sort_query: flag("sort_query"),
        max_len: number(&options["max_len"]),
        traps: traps.is_object().then(|| TrapRules {
            max_repeat: number(&traps["max_repeat"]).unwrap_or(usize::MAX),
            max_segments: number(&traps["max_segments"]).unwrap_or(usize::MAX),
            years: None,
            sessions: false,
        }),
    };
    // A page that has no http address has no relative links for us, only absolute ones.
    let Ok(page) = CrawlUrl::parse(&string(input, "base")) else {
        return rules.rewrite(CrawlUrl::parse(href)?);
    };
    let base = page.with_base_href(options["base_href"].as_str());
    let label = options["encoding"].as_str().unwrap_or("utf-8");
    let encoding = Encoding::for_label(label.as_bytes()).unwrap_or(encoding_rs::UTF_8);
    let encode = encoder(encoding);
    rules.apply_encoded(&base, href, Some(&encode))
}

fn encoder(encoding: &'static Encoding) -> impl Fn(&str) -> Cow<'_, [u8]> {
    fn for_any_text<F: Fn(&str) -> Cow<'_, [u8]>>(encode: F) -> F {
        encode
    }
    for_any_text(move |text| Cow::Owned(worker::page::encode_query(text, encoding)))
}
