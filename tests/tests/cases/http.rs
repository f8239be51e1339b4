//! Misbehaving servers: each case is a script, a coordinator and a worker of its own, and one session over them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use proto::v1::{self, PartKind, SessionKind, UrlState};
use proto::{Clock, Code, Timestamp};
use regex::Regex;
use serde_json::{Value, json};
use tests::certificates::{Certificates, Fault};
use tests::dns::{Answer, NameServer};
use tests::live::Live;
use tests::scripted::{Manners, Scripted};

use super::{Verdict, is_one_of, same, verdict};

/// The longest that a session may take here.
const WAIT: Duration = Duration::from_secs(15);

/// Runs a case.
pub(crate) fn check(input: &Value, expected: &Value) -> Verdict {
    block_on(run(input, expected))
}

/// Runs a future on a small runtime of its own.
pub(crate) fn block_on(case: impl Future<Output = anyhow::Result<Verdict>>) -> Verdict {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let done = runtime.block_on(case);
    runtime.shutdown_timeout(Duration::from_secs(1));
    done.unwrap_or_else(|error| Err(format!("the stage broke: {error:#}")))
}

/// A loopback address that no other case uses.
pub(crate) fn own_address() -> Ipv4Addr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let process = (std::process::id() % 100) as u8;
    Ipv4Addr::new(127, 100 + process, high, low.max(1))
}

/// Host names in any http(s) URL of a case, and every name below `.test`.
pub(crate) fn names_in(case: &Value) -> BTreeSet<String> {
    let text = case.to_string();
    let pattern = r"https?:/+(?:[^/@\s\x22\\]*@)?([\w.-]+)|([\w-]+(?:\.[\w-]+)*\.test)\b";
    let pattern = Regex::new(pattern).expect("a pattern");
    let found = pattern.captures_iter(&text);
    let names = found.filter_map(|found| found.get(1).or_else(|| found.get(2)));
    let names = names.map(|name| name.as_str().to_ascii_lowercase());
    let is_name = |name: &String| name.parse::<IpAddr>().is_err() && name != "localhost";
    names.filter(is_name).collect()
}

/// Ports that a case's URLs name: the server listens there as well.
pub(crate) fn ports_in(case: &Value) -> BTreeSet<u16> {
    let pattern = Regex::new(r"https?://[\w.@-]+:(\d+)").expect("a pattern");
    let text = case.to_string();
    let found = pattern.captures_iter(&text);
    found.filter_map(|found| found[1].parse().ok()).collect()
}

/// Where the server listens: a port of the system's choice, and those that URLs name.
pub(crate) fn addresses(at: Ipv4Addr, case: &Value) -> Vec<SocketAddr> {
    let ports = std::iter::once(0).chain(ports_in(case));
    ports.map(|port| SocketAddr::new(at.into(), port)).collect()
}

/// A worker that finds `names` at the server and may connect to it, and to nothing else that is private.
pub(crate) fn worker_for(server: &Scripted, names: &BTreeSet<String>) -> worker::Config {
    let place = server.addresses[0];
    let mut config = worker::Config::new("cases");
    config.per_address = 0;
    config.allow_net = vec![place.ip().into()];
    let rule = |name: &String| worker::Resolve {
        pattern: name.clone(),
        address: place.ip(),
        port: Some(place.port()),
    };
    config.resolve = names.iter().map(rule).collect();
    config
}

/// What the cases' name server answers.
fn scripted_names(dns: &Value) -> BTreeMap<String, Answer> {
    let list = |list: &Value| -> Vec<IpAddr> {
        let all = list.as_array().into_iter().flatten();
        let all = all.filter_map(Value::as_str);
        all.map(|text| text.parse().expect("an address")).collect()
    };
    let answer = |value: &Value| match value {
        Value::String(word) if word == "timeout" => Answer::Silence,
        Value::Array(lists) if lists.iter().all(Value::is_array) => {
            Answer::Addresses(lists.iter().map(list).collect())
        }
        Value::Array(_) => Answer::Addresses(vec![list(value)]),
        _ => Answer::NoSuchName,
    };
    let names = dns.as_object().into_iter().flatten();
    names
        .map(|(name, value)| (name.clone(), answer(value)))
        .collect()
}

fn limit(input: &Value, name: &str, usual: u64) -> u64 {
    input["limits"][name].as_u64().unwrap_or(usual)
}

fn clock(input: &Value) -> anyhow::Result<Clock> {
    let Some(now) = input["now"].as_str() else {
        return Ok(Clock::start());
    };
    let now = time::OffsetDateTime::parse(now, &time::format_description::well_known::Rfc3339)?;
    let millis = u64::try_from(now.unix_timestamp())? * 1000;
    Ok(Clock::start_at(Timestamp::from_millis(millis)))
}

fn spec(input: &Value, seeds: Vec<String>) -> v1::SessionSpec {
    let mut headers = Vec::new();
    let fields = [
        ("etag", "If-None-Match"),
        ("last_modified", "If-Modified-Since"),
    ];
    for (key, name) in fields {
        if let Some(value) = input["conditional"][key].as_str() {
            headers.push(v1::Header {
                name: name.to_owned(),
                value: value.to_owned(),
            });
        }
    }
    let kind = match seeds.len() {
        1 => SessionKind::Scrape,
        _ => SessionKind::Batch,
    };
    v1::SessionSpec {
        kind: kind.into(),
        seeds,
        scope: Some(v1::Scope {
            reach: v1::scope::Reach::Any.into(),
            ..v1::Scope::default()
        }),
        fetch: Some(v1::FetchOptions {
            keep: vec![PartKind::Body.into()],
            headers,
            ..v1::FetchOptions::default()
        }),
        ..v1::SessionSpec::default()
    }
}

async fn run(input: &Value, expected: &Value) -> anyhow::Result<Verdict> {
    let case = json!([input, expected]);
    let fault = match input["tls"].as_str() {
        Some("self_signed") => Fault::SelfSigned,
        Some("expired") => Fault::Expired,
        Some("wrong_host") => Fault::WrongHost,
        Some(_) | None => Fault::None,
    };
    let certificates = Certificates::new(fault, Vec::new())?;
    let manners = Manners {
        certificates: (input["tls"] != "plain").then(|| Arc::clone(&certificates)),
        hides_robots: true,
    };
    let steps = input["steps"].as_array().cloned().unwrap_or_default();
    let server = Scripted::start(&addresses(own_address(), &case), &steps, manners).await?;
    let scripted = scripted_names(&input["dns"]);
    let mut names = names_in(&case);
    names.retain(|name| !scripted.contains_key(name));
    let mut worker = worker_for(&server, &names);
    let name_server = NameServer::start(scripted, None).await?;
    worker.name_servers = vec![name_server.address];
    worker.extra_roots = vec![certificates.root().into_bytes()];
    worker.fetch_timeout = Duration::from_millis(limit(input, "timeout_ms", 5000));
    worker.max_body = limit(input, "max_body", 10 << 20);
    worker.max_header_bytes = u32::try_from(limit(input, "max_header_bytes", 256 << 10))?;
    worker.max_retry_after = Duration::from_secs(limit(input, "max_retry_after_s", 86_400));
    let folder = tempfile::tempdir()?;
    let mut config = Live::config(folder.path());
    config.max_redirects = u32::try_from(limit(input, "max_redirects", 10))?;
    let mut live = Live::start(config, worker, clock(input)?).await?;

    let then = expected["then"].as_array().cloned().unwrap_or_default();
    let seeds = std::iter::once(&input["url"]).chain(then.iter().map(|next| &next["url"]));
    let seeds = seeds.filter_map(Value::as_str).map(str::to_owned).collect();
    let memory = Memory::start();
    let began = Instant::now();
    let entries = live.run(spec(input, seeds), WAIT).await?;
    let took = began.elapsed();
    let grown = memory.grown();
    live.stop().await;

    let mut wrong = Vec::new();
    let first = entries.first().cloned().unwrap_or_default();
    let got = Got::of(&first.chain);
    got.judge(expected, &mut wrong);
    judge_visits(&server, expected, &mut wrong);
    if let Some(most) = expected["within_ms"].as_u64()
        && took > Duration::from_millis(most)
    {
        wrong.push(format!("within_ms: expected {most}, got {took:?}"));
    }
    if let Some(most) = expected["max_memory_mb"].as_u64()
        && grown > most
    {
        wrong.push(format!("max_memory_mb: expected {most}, got {grown}"));
    }
    for (entry, next) in entries.iter().skip(1).zip(&then) {
        judge_next(entry, next, &mut wrong);
    }
    if !wrong.is_empty() {
        wrong.push(format!("detail: {}", got.detail));
    }
    Ok(verdict(&wrong))
}

/// A later fetch of the same session: a URL that was fetched already is not fetched again.
fn judge_next(entry: &v1::LookupEntry, next: &Value, wrong: &mut Vec<String>) {
    let mut next = next.clone();
    if next["outcome"] == "duplicate" {
        let attempts = entry.chain.first().map_or(0, |row| row.attempts);
        if attempts > 1 {
            wrong.push(format!("then: fetched {attempts} times"));
        }
        next["outcome"] = json!("page");
    }
    Got::of(&entry.chain).judge(&next, wrong);
}

fn judge_visits(server: &Scripted, expected: &Value, wrong: &mut Vec<String>) {
    let visits = server.visits();
    let paths: Vec<&str> = visits.iter().map(|visit| visit.path.as_str()).collect();
    same(expected, "requests", &json!(paths), wrong);
    if let Some(most) = expected["max_requests"].as_u64()
        && visits.len() as u64 > most
    {
        wrong.push(format!("max_requests: expected {most}, got {paths:?}"));
    }
    let never = expected["never_header"].as_object().into_iter().flatten();
    for (host, text) in never {
        let text = text.as_str().unwrap_or_default().to_ascii_lowercase();
        let sent = visits.iter().filter(|visit| visit.host == *host);
        for visit in sent {
            if visit.head.to_ascii_lowercase().contains(&text) {
                wrong.push(format!("never_header: `{text}` was sent to {host}"));
            }
        }
    }
}

/// What the product says of a URL, in the words of the cases.
#[derive(Debug, Default)]
struct Got {
    outcome: &'static str,
    error: String,
    status: u32,
    final_url: String,
    body: Vec<u8>,
    retry_after_s: Option<u64>,
    content_kind: &'static str,
    filename: Option<String>,
    detail: String,
}

impl Got {
    fn of(chain: &[v1::LedgerEntry]) -> Self {
        let Some(last) = chain.last() else {
            return Self {
                outcome: "unknown",
                ..Self::default()
            };
        };
        let page = last.page.clone().unwrap_or_default();
        let mut got = Self {
            error: last.code.clone(),
            status: if page.status == 0 {
                last.status
            } else {
                page.status
            },
            final_url: last.url.clone(),
            retry_after_s: Some(last.retry_after_millis / 1000)
                .filter(|_| last.retry_after_millis > 0),
            content_kind: match page.kind.as_str() {
                "html" => "html",
                "xml" => "xml",
                "text" => "text",
                "json" => "other",
                _ => "binary",
            },
            filename: Some(page.file_name.clone()).filter(|name| !name.is_empty()),
            detail: format!("{:?} {} {}", last.state(), last.code, last.detail),
            ..Self::default()
        };
        got.body = page
            .parts
            .first()
            .map(|part| part.content.to_vec())
            .unwrap_or_default();
        got.outcome = match last.state() {
            UrlState::Captured if page.truncated => "page_truncated",
            UrlState::Captured if page.size == 0 => "empty",
            UrlState::Captured | UrlState::Duplicate => "page",
            UrlState::NotModified => "not_modified",
            UrlState::Refused if last.code == Code::NoContent.word() => "empty",
            UrlState::Refused if last.code == Code::ContentType.word() => "skipped",
            UrlState::Failed if last.code == Code::HttpStatus.word() => "http_error",
            UrlState::Failed if last.code == Code::RetryLater.word() => "retry_later",
            UrlState::Refused | UrlState::Failed => "error",
            other => {
                got.detail = format!("{other:?}");
                "unfinished"
            }
        };
        got
    }

    fn judge(&self, expected: &Value, wrong: &mut Vec<String>) {
        is_one_of(expected, "outcome", self.outcome, wrong);
        if self.outcome == "error" {
            is_one_of(expected, "error", &self.error, wrong);
        }
        if let Some(status) = expected.get("status")
            && self.status != 0
            && status.as_u64() != Some(u64::from(self.status))
        {
            wrong.push(format!("status: expected {status}, got {}", self.status));
        }
        if self.outcome == "page" {
            same(expected, "final_url", &json!(self.final_url), wrong);
            let body = String::from_utf8_lossy(&self.body);
            same(expected, "body", &json!(body), wrong);
            is_one_of(expected, "content_kind", self.content_kind, wrong);
            if let Some(text) = expected["body_contains"].as_str()
                && !body.contains(text)
            {
                wrong.push(format!("body_contains: {text:?} is not in {body:?}"));
            }
            self.judge_name(expected, wrong);
        }
        if self.outcome == "retry_later" {
            self.judge_pause(expected, wrong);
        }
    }

    /// The clock runs while the case does, so a date may be a few seconds nearer.
    fn judge_pause(&self, expected: &Value, wrong: &mut Vec<String>) {
        let wanted = expected["retry_after_s"].as_u64();
        let is_near = wanted.zip(self.retry_after_s);
        let is_near =
            is_near.is_some_and(|(wanted, got)| (wanted.saturating_sub(5)..=wanted).contains(&got));
        if !is_near {
            same(expected, "retry_after_s", &json!(self.retry_after_s), wrong);
        }
    }

    fn judge_name(&self, expected: &Value, wrong: &mut Vec<String>) {
        let Some(most) = expected["filename"]["max_bytes"].as_u64() else {
            same(expected, "filename", &json!(self.filename), wrong);
            return;
        };
        let length = self.filename.as_ref().map_or(0, |name| name.len() as u64);
        if length == 0 || length > most {
            wrong.push(format!("filename: {length} bytes, expected 1 to {most}"));
        }
    }
}

/// How far this process's memory grows while a case runs.
struct Memory {
    before: u64,
}

impl Memory {
    fn start() -> Self {
        // Sets the high-water mark back to what is in use now (proc(5)).
        drop(std::fs::write("/proc/self/clear_refs", "5"));
        Self {
            before: Self::kilobytes("VmRSS:"),
        }
    }

    /// In megabytes.
    fn grown(&self) -> u64 {
        Self::kilobytes("VmHWM:").saturating_sub(self.before) / 1024
    }

    fn kilobytes(field: &str) -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}
