//! Cases of HTML to Markdown.

use proto::CrawlUrl;
use regex::Regex;
use serde_json::{Value, json};
use worker::page::{self, Input, Want};

use crate::{Verdict, bytes, string, verdict};

pub fn check(input: &Value, expected: &Value) -> Verdict {
    let url = CrawlUrl::parse(&string(input, "base")).map_err(|error| error.to_string())?;
    let body = bytes(input, "html");
    let page = page::read(Input {
        body: &body,
        content_type: Some("text/html; charset=utf-8"),
        x_robots_tag: &[],
        link_headers: &[],
        url: &url,
        agent: "CrawlForge",
        want: Want {
            markdown: true,
            only_main_content: input["options"]["main_content"] == json!(true),
            ..Want::default()
        },
    });
    let markdown = page.markdown.ok_or("no Markdown was written")?;
    let mut wrong = Vec::new();
    for (field, is_wanted) in [("must_contain", true), ("must_not_contain", false)] {
        for text in strings(&expected[field]) {
            if markdown.contains(text) != is_wanted {
                wrong.push(format!("{field} {text:?}"));
            }
        }
    }
    for (field, is_wanted) in [("must_match", true), ("must_not_match", false)] {
        for pattern in strings(&expected[field]) {
            let regex = Regex::new(pattern).map_err(|error| error.to_string())?;
            if regex.is_match(&markdown) != is_wanted {
                wrong.push(format!("{field} {pattern:?}"));
            }
        }
    }
    if !wrong.is_empty() {
        let shown: String = markdown.chars().take(400).collect();
        wrong.push(format!("got {shown:?}"));
    }
    verdict(&wrong)
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}
