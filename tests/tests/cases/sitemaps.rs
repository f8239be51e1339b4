//! Cases of sitemaps, and walks through trees of them.

use std::collections::{BTreeSet, VecDeque};
use std::io::Write as _;

use proto::CrawlUrl;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Date, OffsetDateTime};
use worker::sitemap::{self, Sitemap, SitemapError};

use crate::{Verdict, bytes, same, string, verdict};

/// Bound of a walk, far above what any case needs.
const MAX_DOCUMENTS: usize = 1000;

pub fn check(input: &Value, expected: &Value) -> Verdict {
    if input.get("files").is_some() {
        return walk(input, expected);
    }
    let url = CrawlUrl::parse(&string(input, "url")).map_err(|error| error.to_string())?;
    let mut body = bytes(input, "body");
    if input["gz"] == json!(true) {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&body).map_err(|error| error.to_string())?;
        body = packer.finish().map_err(|error| error.to_string())?;
    }
    let answer = sitemap::read(&body, &url);
    let mut wrong = Vec::new();
    match answer {
        Ok(found) => compare(&found, &url, expected, &mut wrong),
        Err(error) => compare_error(error, expected, &mut wrong),
    }
    verdict(&wrong)
}

fn compare_error(error: SitemapError, expected: &Value, wrong: &mut Vec<String>) {
    if expected["or_error"] == json!(true) || expected["or_error"].as_str() == Some(error.word()) {
        return;
    }
    let is_named = match &expected["error"] {
        Value::Array(all) => all.contains(&json!(error.word())),
        one => one.as_str() == Some(error.word()),
    };
    if !is_named {
        wrong.push(format!(
            "expected {expected}, got the error {}",
            error.word()
        ));
    }
}

fn compare(found: &Sitemap, url: &CrawlUrl, expected: &Value, wrong: &mut Vec<String>) {
    same(expected, "type", &json!(found.kind.word()), wrong);
    if let Some(error) = expected.get("error") {
        wrong.push(format!("expected the error {error}, got {found:?}"));
        return;
    }
    let urls: Vec<Value> = found.urls.iter().map(entry).collect();
    let children: Vec<Value> = found
        .sitemaps
        .iter()
        .map(|child| with_lastmod(json!({"loc": child.url.as_str()}), child.lastmod.as_deref()))
        .collect();
    let extra: Vec<&str> = texts(&expected["allow_extra"]);
    compare_list("urls", &urls, &expected["urls"], &extra, wrong);
    compare_list("sitemaps", &children, &expected["sitemaps"], &extra, wrong);
    let all = urls
        .iter()
        .chain(&children)
        .filter_map(|one| one["loc"].as_str());
    let locs: Vec<&str> = all.collect();
    if let Some(foreign) = expected.get("cross_host") {
        let is_foreign = |text: &&&str| {
            CrawlUrl::parse(text).is_ok_and(|one| one.url().host_str() != url.url().host_str())
        };
        let got: Vec<&&str> = locs.iter().filter(is_foreign).collect();
        if json!(got) != *foreign {
            wrong.push(format!("cross_host: expected {foreign}, got {got:?}"));
        }
    }
    if expected["complete"] == json!(false) && found.is_complete {
        wrong.push("reported as complete".to_owned());
    }
    for never in texts(&expected["never"]) {
        if locs.contains(&never) {
            wrong.push(format!("{never} must not be reported"));
        }
    }
}

fn texts(value: &Value) -> Vec<&str> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(Value::as_str).collect()
}

fn compare_list(
    name: &str,
    got: &[Value],
    expected: &Value,
    extra: &[&str],
    wrong: &mut Vec<String>,
) {
    let Some(wanted) = expected.as_array() else {
        return;
    };
    let is_extra = |one: &&Value| one["loc"].as_str().is_some_and(|loc| extra.contains(&loc));
    let got: Vec<Value> = got
        .iter()
        .filter(|one| !is_extra(one))
        .map(normal)
        .collect();
    let wanted: Vec<Value> = wanted.iter().map(normal).collect();
    if got != wanted {
        wrong.push(format!("{name}: expected {wanted:?}, got {got:?}"));
    }
}

fn entry(entry: &sitemap::Entry) -> Value {
    let mut out = with_lastmod(json!({"loc": entry.url.as_str()}), entry.lastmod.as_deref());
    if let Some(word) = entry.changefreq {
        out["changefreq"] = json!(word);
    }
    if let Some(priority) = entry.priority {
        out["priority"] = json!(priority);
    }
    if !entry.alternates.is_empty() {
        let all = entry.alternates.iter();
        out["alternates"] = all
            .map(|one| json!({"hreflang": one.hreflang, "href": one.url.as_str()}))
            .collect();
    }
    out
}

fn with_lastmod(mut out: Value, lastmod: Option<&str>) -> Value {
    if let Some(lastmod) = lastmod {
        out["lastmod"] = json!(lastmod);
    }
    out
}

/// Dates as points in time, numbers as numbers of one kind.
fn normal(one: &Value) -> Value {
    let mut out = one.clone();
    if let Some(text) = one["lastmod"].as_str() {
        out["lastmod"] = json!(moment(text));
    }
    if let Some(priority) = one["priority"].as_f64() {
        out["priority"] = json!(priority);
    }
    out
}

fn moment(text: &str) -> String {
    let day = time::macros::format_description!("[year]-[month]-[day]");
    let minute = time::macros::format_description!(
        "[year]-[month]-[day]T[hour]:[minute][offset_hour sign:mandatory]:[offset_minute]"
    );
    let zoned = text.replace('Z', "+00:00");
    let parsed = OffsetDateTime::parse(text, &Rfc3339)
        .or_else(|_| OffsetDateTime::parse(&zoned, &minute))
        .or_else(|_| Date::parse(text, &day).map(|date| date.midnight().assume_utc()));
    parsed.map_or_else(
        |_| text.to_owned(),
        |moment| moment.unix_timestamp().to_string(),
    )
}

/// Walks a tree of documents breadth first, each once.
fn walk(input: &Value, expected: &Value) -> Verdict {
    let mut queue = VecDeque::from([(string(input, "start"), 0)]);
    let mut known = BTreeSet::from([string(input, "start")]);
    let mut fetched = Vec::new();
    let mut urls: Vec<String> = Vec::new();
    while let Some((at, above)) = queue.pop_front() {
        if fetched.len() >= MAX_DOCUMENTS {
            break;
        }
        fetched.push(at.clone());
        let file = &input["files"][&at];
        let url = CrawlUrl::parse(&at).map_err(|error| error.to_string())?;
        if file["status"].as_u64().unwrap_or(404) != 200 {
            continue;
        }
        let Ok(found) = sitemap::read(&bytes(file, "body"), &url) else {
            continue;
        };
        for entry in found.urls {
            let text = String::from(entry.url);
            if !urls.contains(&text) {
                urls.push(text);
            }
        }
        for child in found.sitemaps {
            let text = String::from(child.url);
            if above < sitemap::MAX_NESTING && known.insert(text.clone()) {
                queue.push_back((text, above + 1));
            }
        }
    }
    let mut wrong = Vec::new();
    if !expected["fetched"].is_null() {
        same(expected, "fetched", &json!(fetched), &mut wrong);
    }
    let most = expected["max_requests"].as_u64().unwrap_or(u64::MAX);
    if fetched.len() as u64 > most {
        wrong.push(format!(
            "{} requests, at most {most} expected",
            fetched.len()
        ));
    }
    let mut wanted = texts(&expected["urls"]);
    if expected["any_order"] == json!(true) {
        wanted.sort_unstable();
        urls.sort_unstable();
    }
    if expected.get("urls").is_some() && wanted != urls {
        wrong.push(format!("urls: expected {wanted:?}, got {urls:?}"));
    }
    verdict(&wrong)
}
