//! How robots.txt is fetched: status, redirects, failures, age and scope, judged by what is asked of the host afterwards.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, SessionKind, UrlState};
use proto::{Clock, Code, Timestamp};
use serde_json::{Value, json};
use tests::certificates::{Certificates, Fault};
use tests::dns::{Answer, NameServer};
use tests::live::Live;
use tests::scripted::{Manners, Scripted, bytes_of, gzip};
use url::Url;

use super::http::{addresses, block_on, names_in, own_address, worker_for};
use super::{Verdict, is_one_of, same, verdict};

const WAIT: Duration = Duration::from_secs(12);
const HOUR: u64 = 3_600_000;
/// When the story of each case begins.
const BEGINNING: u64 = 1_767_225_600_000;

/// Runs a case.
pub(crate) fn check(input: &Value, expected: &Value) -> Verdict {
    block_on(run(input, expected))
}

/// One answer as a step of the script.
fn step(url: &Url, answer: &Value) -> Value {
    let mut step = json!({
        "scheme": url.scheme(),
        "authority": match url.port() {
            Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
            None => url.host_str().unwrap_or_default().to_owned(),
        },
        "path": &url[url::Position::BeforePath..url::Position::AfterQuery],
    });
    match answer["error"].as_str() {
        Some("timeout") => step["then"] = json!("hang"),
        Some(_) => step["then"] = json!("reset"),
        None => {
            use base64::Engine as _;
            let raw = response(answer);
            step["raw_b64"] = json!(base64::engine::general_purpose::STANDARD.encode(raw));
            if answer["truncated"] == true {
                step["then"] = json!("close");
            }
        }
    }
    step
}

fn response(answer: &Value) -> Vec<u8> {
    let mut body = bytes_of(answer, "body", None);
    if answer["gzip_body"] == true {
        body = gzip(&body);
    }
    let status = answer["status"].as_u64().unwrap_or(200);
    let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
    for (name, value) in answer["headers"].as_object().into_iter().flatten() {
        head += &format!("{name}: {}\r\n", value.as_str().unwrap_or_default());
    }
    let has_body = !matches!(status, 204 | 304);
    if has_body {
        let more = if answer["truncated"] == true { 1000 } else { 0 };
        head += &format!("Content-Length: {}\r\n", body.len() + more);
    }
    head += "\r\n";
    let mut out = head.into_bytes();
    if has_body {
        out.extend(body);
    }
    out
}

/// The answers of a URL, in order.
fn answers(value: &Value) -> Vec<Value> {
    value
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![value.clone()])
}

/// Hosts of which an answer is this kind of error.
fn hosts_with(responses: &Value, error: &str) -> BTreeSet<String> {
    let all = responses.as_object().into_iter().flatten();
    let with = all.filter(|(_, value)| answers(value).iter().any(|one| one["error"] == error));
    let hosts = with.filter_map(|(url, _)| Url::parse(url).ok()?.host_str().map(str::to_owned));
    hosts.collect()
}

struct Stage {
    server: Scripted,
    certificates: Arc<Certificates>,
    names: BTreeSet<String>,
    name_server: NameServer,
    dead: BTreeSet<String>,
    dead_end: SocketAddr,
}

impl Stage {
    async fn set(input: &Value, responses: &Value) -> anyhow::Result<Self> {
        let mut steps = Vec::new();
        for (url, value) in responses.as_object().into_iter().flatten() {
            let url = Url::parse(url)?;
            steps.extend(answers(value).iter().map(|answer| step(&url, answer)));
        }
        let silent = hosts_with(responses, "tls").into_iter().collect();
        let certificates = Certificates::new(Fault::None, silent)?;
        let manners = Manners {
            certificates: Some(Arc::clone(&certificates)),
            hides_robots: false,
        };
        let case = json!([input, responses]);
        let server = Scripted::start(&addresses(own_address(), &case), &steps, manners).await?;
        let unknown = hosts_with(responses, "dns");
        let mut names = names_in(&case);
        names.retain(|name| !unknown.contains(name));
        let unknown = unknown.into_iter().map(|name| (name, Answer::NoSuchName));
        let name_server = NameServer::start(unknown.collect(), None).await?;
        // A port that was the system's choice a moment ago, and nobody's now.
        let listener = tokio::net::TcpListener::bind((own_address(), 0)).await?;
        let dead_end = listener.local_addr()?;
        drop(listener);
        Ok(Self {
            server,
            certificates,
            names,
            name_server,
            dead: hosts_with(responses, "refused"),
            dead_end,
        })
    }

    fn worker(&self, input: &Value) -> worker::Config {
        let mut config = worker_for(&self.server, &self.names);
        config.agent = input["agent"].as_str().unwrap_or_default().to_owned();
        config.fetch_timeout = Duration::from_secs(1);
        config.extra_roots = vec![self.certificates.root().into_bytes()];
        config.name_servers = vec![self.name_server.address];
        config.allow_net.push(self.dead_end.ip().into());
        for rule in &mut config.resolve {
            if self.dead.contains(&rule.pattern) {
                rule.address = self.dead_end.ip();
                rule.port = Some(self.dead_end.port());
            }
        }
        config
    }

    /// Asks for the page at `now`; answers how it ended and what is known of its host.
    async fn ask(&self, input: &Value, folder: &Path, now: u64) -> anyhow::Result<Told> {
        let page = input["page"].as_str().unwrap_or_default().to_owned();
        let clock = Clock::start_at(Timestamp::from_millis(now));
        let mut live = Live::start(Live::config(folder), self.worker(input), clock).await?;
        let spec = v1::SessionSpec {
            kind: SessionKind::Scrape.into(),
            seeds: vec![page.clone()],
            scope: Some(v1::Scope {
                reach: v1::scope::Reach::Any.into(),
                ..v1::Scope::default()
            }),
            ..v1::SessionSpec::default()
        };
        let entries = live.run(spec, WAIT).await?;
        let host = live.host(&page).await?;
        let now = clock.now().as_millis();
        live.stop().await;
        let entry = entries.into_iter().next().unwrap_or_default();
        Ok(Told {
            last: entry.chain.last().cloned().unwrap_or_default(),
            host,
            now,
        })
    }
}

struct Told {
    last: v1::LedgerEntry,
    host: v1::HostReply,
    now: u64,
}

async fn run(input: &Value, expected: &Value) -> anyhow::Result<Verdict> {
    let folder = tempfile::tempdir()?;
    let mut now = BEGINNING;
    if let Some(hours) = input["cached"]["age_hours"].as_u64() {
        let page = Url::parse(input["page"].as_str().unwrap_or_default())?;
        let mut headers = json!({"Content-Type": "text/plain"});
        if let Some(etag) = input["cached"]["etag"].as_str() {
            headers["ETag"] = json!(etag);
        }
        let mut robots = page.join("/robots.txt")?;
        let bare = robots.set_username("").and(robots.set_password(None));
        anyhow::ensure!(bare.is_ok(), "an address without a host");
        let copy = json!({"status": 200, "headers": headers, "body": input["cached"]["body"]});
        let earlier = json!({ robots.as_str(): copy });
        let stage = Stage::set(input, &earlier).await?;
        stage.ask(input, folder.path(), now).await?;
        now += hours * HOUR;
    }
    let stage = Stage::set(input, &input["responses"]).await?;
    let mut told = stage.ask(input, folder.path(), now).await?;
    if let Some(hours) = input["ask_again_after_hours"].as_u64() {
        told = stage.ask(input, folder.path(), now + hours * HOUR).await?;
    }
    let mut wrong = Vec::new();
    judge(&stage, &told, input, expected, &mut wrong);
    if !wrong.is_empty() {
        wrong.push(format!("told: {:?} {:?}", told.last, told.host));
    }
    Ok(verdict(&wrong))
}

fn judge(stage: &Stage, told: &Told, input: &Value, expected: &Value, wrong: &mut Vec<String>) {
    let visits = stage.server.visits();
    let urls: Vec<String> = visits.iter().map(tests::scripted::Visit::url).collect();
    let decision = match told.host.robots.as_str() {
        "unreachable" | "unknown" => "disallow_all",
        known => known,
    };
    // A success without any content is a file without rules: both words say the same.
    let is_bare = decision == "rules" && expected["decision"] == "allow_all";
    if !is_bare || expected["allowed"] == false {
        is_one_of(expected, "decision", decision, wrong);
    }
    let was_asked = told.last.status != 0 || told.last.state() == UrlState::Captured;
    let is_refused = told.last.code == Code::Robots.word();
    if let Some(allowed) = expected["allowed"].as_bool()
        && allowed != (was_asked && !is_refused)
    {
        wrong.push(format!("allowed: expected {allowed}"));
    }
    if let Some(wanted) = expected["refetch"].as_bool() {
        // A verdict that is not kept for a whole day from now is asked for again.
        let until = told.host.robots_until_millis;
        let is_temporary = decision == "disallow_all" || until < told.now + 23 * HOUR;
        if is_temporary != wanted {
            wrong.push(format!("refetch: expected {wanted}, kept until {until}"));
        }
    }
    let robots: Vec<&String> = urls
        .iter()
        .filter(|url| url.ends_with("/robots.txt"))
        .collect();
    same(expected, "requests", &json!(robots), wrong);
    for url in input["never"].as_array().into_iter().flatten() {
        if urls
            .iter()
            .any(|visited| Some(visited.as_str()) == url.as_str())
        {
            wrong.push(format!("never: {url} was asked for"));
        }
    }
}
