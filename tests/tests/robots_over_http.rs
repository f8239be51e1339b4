//! robots.txt as servers really answer it: old copies, validators, redirects through other hosts and back, failures.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its stage cannot be set"
)]

use std::net::SocketAddr;
use std::time::Duration;

use proto::v1::{self, SessionKind, UrlState};
use proto::{Clock, Code, Timestamp};
use serde_json::{Value, json};
use tests::live::Live;
use tests::scripted::{Manners, Scripted};

const WITHIN: Duration = Duration::from_secs(30);
const HOUR: u64 = 3_600_000;
const BEGINNING: u64 = 1_767_225_600_000;
const RULES: &str = "User-agent: *\nDisallow: /closed\n";

struct Site {
    server: Scripted,
    folder: tempfile::TempDir,
    now: u64,
}

/// How the page ended, and what is known of its host afterwards.
struct Told {
    state: UrlState,
    code: String,
    host: v1::HostReply,
}

impl Site {
    async fn new(mut steps: Vec<Value>) -> Self {
        steps.push(json!({"path": "/open", "raw": answer("", "<p>open</p>")}));
        steps.push(json!({"path": "/closed", "raw": answer("", "<p>closed</p>")}));
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let server = Scripted::start(&[address], &steps, Manners::default()).await;
        Self {
            server: server.unwrap(),
            folder: tempfile::tempdir().unwrap(),
            now: BEGINNING,
        }
    }

    /// Asks a process of its own for `http://HOST.test/PATH`, the clock moved on by some hours.
    async fn ask(&mut self, hours: u64, path: &str) -> Told {
        self.now += hours * HOUR;
        let place = self.server.addresses[0];
        let mut worker = worker::Config::new("w");
        worker.fetch_timeout = Duration::from_millis(500);
        worker.allow_net = vec![place.ip().into()];
        worker.resolve = vec![worker::Resolve {
            pattern: "*.test".into(),
            address: place.ip(),
            port: Some(place.port()),
        }];
        let clock = Clock::start_at(Timestamp::from_millis(self.now));
        let config = Live::config(self.folder.path());
        let mut live = Live::start(config, worker, clock).await.unwrap();
        let url = format!("http://a.test{path}");
        let spec = v1::SessionSpec {
            kind: SessionKind::Scrape.into(),
            seeds: vec![url.clone()],
            ..v1::SessionSpec::default()
        };
        let entries = live.run(spec, WITHIN).await.unwrap();
        let host = live.host(&url).await.unwrap();
        live.stop().await;
        let last = entries[0].chain.last().cloned().unwrap_or_default();
        Told {
            state: last.state(),
            code: last.code,
            host,
        }
    }

    /// Requests for robots.txt in whatever place, as `host path`.
    fn asked(&self) -> Vec<String> {
        let visits = self.server.visits().into_iter();
        let robots = visits.filter(|visit| visit.path.contains("robots"));
        robots
            .map(|visit| format!("{} {}", visit.host, visit.path))
            .collect()
    }
}

fn answer(fields: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{body}")
}

fn robots(host: &str, raw: impl Into<String>) -> Value {
    json!({"path": "/robots.txt", "host": host, "raw": raw.into()})
}

fn to(host: &str, path: &str, location: &str) -> Value {
    let raw = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    json!({"path": path, "host": host, "raw": raw})
}

fn is_closed(told: &Told) -> bool {
    told.state == UrlState::Refused && told.code == Code::Robots.word()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_copy_holds_while_the_file_cannot_be_read_and_no_longer() {
    let mut site = Site::new(vec![
        robots("a.test", answer("", RULES)),
        robots("a.test", "HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n"),
    ])
    .await;
    assert!(is_closed(&site.ask(0, "/closed").await));
    assert_eq!(site.ask(1, "/open").await.state, UrlState::Captured);
    assert_eq!(site.asked().len(), 1, "within a day the copy is good");
    let told = site.ask(30, "/closed").await;
    assert!(is_closed(&told), "{} {}", told.code, told.host.robots);
    assert_eq!(
        (told.host.robots.as_str(), told.host.robots_tries),
        ("rules", 1)
    );
    assert_eq!(site.asked().len(), 2);
    let told = site.ask(31 * 24, "/open").await;
    assert_eq!(
        told.code,
        Code::RobotsUnreachable.word(),
        "after a month it says nothing any more"
    );
    assert_eq!(told.host.robots, "unreachable");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_asked_for_again_with_its_validator() {
    let mut site = Site::new(vec![
        robots(
            "a.test",
            answer("ETag: \"v1\"\r\nCache-Control: max-age=60\r\n", RULES),
        ),
        robots("a.test", "HTTP/1.1 304 Not Modified\r\n\r\n"),
        robots("a.test", answer("", "User-agent: *\nDisallow:\n")),
    ])
    .await;
    assert!(is_closed(&site.ask(0, "/closed").await));
    assert!(is_closed(&site.ask(1, "/closed").await));
    let heads = site
        .server
        .visits()
        .into_iter()
        .map(|visit| visit.head.to_ascii_lowercase());
    let asked: Vec<bool> = heads
        .map(|head| head.contains("if-none-match: \"v1\""))
        .collect();
    assert_eq!(asked, [false, true]);
    assert_eq!(site.ask(25, "/closed").await.state, UrlState::Captured);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_lead_through_other_hosts_and_back_to_the_first() {
    let mut site = Site::new(vec![
        to("a.test", "/robots.txt", "http://b.test/robots.txt"),
        to("b.test", "/robots.txt", "http://a.test/real-robots"),
        json!({"path": "/real-robots", "host": "a.test", "raw": answer("", RULES)}),
    ])
    .await;
    assert!(is_closed(&site.ask(0, "/closed").await));
    assert_eq!(
        site.asked(),
        [
            "a.test /robots.txt",
            "b.test /robots.txt",
            "a.test /real-robots"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_without_an_end_are_no_file_and_forbid_nothing() {
    let mut site = Site::new(vec![
        to("a.test", "/robots.txt", "http://b.test/robots.txt"),
        to("b.test", "/robots.txt", "http://a.test/robots.txt"),
    ])
    .await;
    let told = site.ask(0, "/closed").await;
    assert_eq!(told.state, UrlState::Captured, "{}", told.code);
    assert_eq!(told.host.robots, "allow_all");
    assert_eq!(site.asked().len(), 6, "five hops: {:?}", site.asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_into_a_private_network_is_a_failure_and_asked_once() {
    let mut site = Site::new(vec![to(
        "a.test",
        "/robots.txt",
        "http://10.0.0.1/robots.txt",
    )])
    .await;
    let told = site.ask(0, "/open").await;
    assert_eq!(told.code, Code::RobotsUnreachable.word());
    assert_eq!(site.asked(), ["a.test /robots.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_the_limit_is_not_read_and_what_is_before_it_counts() {
    let filler = "# nothing in here\n".repeat(60_000);
    let body = format!("{RULES}{filler}User-agent: *\nDisallow: /open\n");
    let mut site = Site::new(vec![robots("a.test", answer("", &body))]).await;
    assert!(is_closed(&site.ask(0, "/closed").await));
    assert_eq!(site.ask(0, "/open").await.state, UrlState::Captured);
}
