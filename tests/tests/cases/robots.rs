//! Cases of robots.txt.

use proto::CrawlUrl;
use serde_json::{Value, json};
use worker::robots::Robots;

use crate::{Verdict, bytes, same, string, verdict};

pub fn check(input: &Value, expected: &Value) -> Verdict {
    let url = CrawlUrl::parse(&string(input, "url")).map_err(|error| error.to_string())?;
    let base = match input["robots_url"].as_str() {
        Some(text) => CrawlUrl::parse(text),
        None => url.join("/robots.txt"),
    };
    let base = base.map_err(|error| error.to_string())?;
    let robots = Robots::parse(&bytes(input, "body"), &string(input, "agent"));
    let mut wrong = Vec::new();
    same(expected, "allowed", &json!(robots.allows(&url)), &mut wrong);
    if let Some(wanted) = expected.get("crawl_delay") {
        let got = robots.crawl_delay().map(|delay| delay.as_secs_f64());
        if wanted.as_f64() != got {
            wrong.push(format!("crawl_delay: expected {wanted}, got {got:?}"));
        }
    }
    same(
        expected,
        "sitemaps",
        &json!(robots.sitemaps(&base)),
        &mut wrong,
    );
    verdict(&wrong)
}
