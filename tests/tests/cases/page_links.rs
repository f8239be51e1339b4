//! Cases of links, title, directives, canonical address and charset of a page.

use std::collections::BTreeSet;

use proto::CrawlUrl;
use serde_json::{Value, json};
use worker::page::{self, Input, Want};

use crate::{Verdict, bytes, same, string, verdict};

pub fn check(input: &Value, expected: &Value) -> Verdict {
    let url = CrawlUrl::parse(&string(input, "base")).map_err(|error| error.to_string())?;
    let body = bytes(input, "html");
    let page = page::read(Input {
        body: &body,
        content_type: input["content_type"].as_str(),
        x_robots_tag: &header(input, "X-Robots-Tag"),
        link_headers: &header(input, "Link"),
        url: &url,
        agent: "CrawlForge",
        want: Want {
            links: true,
            ..Want::default()
        },
    });
    let mut wrong = Vec::new();
    let got: BTreeSet<(String, String, bool)> = page
        .links
        .iter()
        .map(|link| {
            (
                link.url.to_string(),
                link.from.word().to_owned(),
                link.nofollow,
            )
        })
        .collect();
    if let Some(links) = expected["links"].as_array() {
        let wanted: BTreeSet<(String, String, bool)> = links
            .iter()
            .map(|link| {
                let nofollow = link["nofollow"].as_bool().unwrap_or(false);
                (string(link, "url"), string(link, "from"), nofollow)
            })
            .collect();
        if wanted != got {
            wrong.push(format!("links: expected {wanted:?}, got {got:?}"));
        }
    }
    same(expected, "title", &json!(page.title), &mut wrong);
    let robots = json!({"noindex": page.noindex, "nofollow": page.nofollow});
    same(expected, "meta_robots", &robots, &mut wrong);
    let canonical = page.canonical.as_ref().map(CrawlUrl::as_str);
    same(expected, "canonical", &json!(canonical), &mut wrong);
    same(expected, "charset", &json!(page.charset), &mut wrong);
    verdict(&wrong)
}

/// The values of a header: one, or a list.
fn header(input: &Value, name: &str) -> Vec<String> {
    match &input["headers"][name] {
        Value::String(value) => vec![value.clone()],
        Value::Array(values) => values
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}
