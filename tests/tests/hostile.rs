//! One server that does everything wrong, one session over all of it: every address ends in the state, and with the
//! code, that its fault deserves, and nothing that one address does harms another.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its stage cannot be set"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, PartKind, SessionKind, UrlState};
use proto::{Clock, Code};
use serde_json::{Value, json};
use tests::certificates::{Certificates, Fault};
use tests::dns::{Answer, NameServer};
use tests::live::Live;
use tests::scripted::{Manners, Scripted};

const WITHIN: Duration = Duration::from_secs(60);
const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";
/// A stored gzip block of 1 KiB of zeros is 20 bytes or so; this many make the body larger than the cap.
const MAX_BODY: u64 = 256 * 1024;

struct Stage {
    server: Scripted,
    _name_server: NameServer,
    live: Live,
    _folder: tempfile::TempDir,
}

fn config(folder: &Path) -> coordinator::Config {
    Live::config(folder)
}

async fn stage(steps: &[Value], names: BTreeMap<String, Answer>) -> Stage {
    let certificates = Certificates::new(Fault::None, vec!["dumb.test".into()]).unwrap();
    let manners = Manners {
        certificates: Some(Arc::clone(&certificates)),
        hides_robots: true,
    };
    // An address of its own, so that letting it through lets no other loopback address through.
    let address: SocketAddr = "127.77.3.9:0".parse().unwrap();
    let server = Scripted::start(&[address], steps, manners).await.unwrap();
    let place = server.addresses[0];
    let mut worker = worker::Config::new("w");
    worker.allow_net = vec![place.ip().into()];
    worker.per_address = 0;
    let hosts = [
        "bad.test",
        "good.test",
        "dumb.test",
        "www.shop.test",
        "api.shop.test",
    ];
    let rule = |name: &str| worker::Resolve {
        pattern: name.to_owned(),
        address: place.ip(),
        port: Some(place.port()),
    };
    worker.resolve = hosts.into_iter().map(rule).collect();
    worker.extra_roots = vec![certificates.root().into_bytes()];
    worker.fetch_timeout = Duration::from_millis(1500);
    worker.max_body = MAX_BODY;
    let name_server = NameServer::start(names, None).await.unwrap();
    worker.name_servers = vec![name_server.address];
    let folder = tempfile::tempdir().unwrap();
    let live = Live::start(config(folder.path()), worker, Clock::start());
    Stage {
        live: live.await.unwrap(),
        server,
        _name_server: name_server,
        _folder: folder,
    }
}

fn spec(kind: SessionKind, seeds: Vec<String>) -> v1::SessionSpec {
    v1::SessionSpec {
        kind: kind.into(),
        seeds,
        scope: Some(v1::Scope {
            reach: v1::scope::Reach::Any.into(),
            ..v1::Scope::default()
        }),
        fetch: Some(v1::FetchOptions {
            keep: vec![PartKind::Body.into()],
            ..v1::FetchOptions::default()
        }),
        ..v1::SessionSpec::default()
    }
}

fn step(path: &str, raw: impl Into<String>, then: &str) -> Value {
    json!({"path": path, "host": "bad.test", "raw": raw.into(), "then": then})
}

fn redirect(path: &str, location: &str) -> Value {
    let raw = format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    step(path, raw, "keep")
}

/// The faults of `http://bad.test`, and what becomes of each.
fn faults() -> Vec<(Value, UrlState, Option<Code>)> {
    use UrlState::{Captured, Failed, Redirected, Refused};
    let page = |fields: &str, body: &str| format!("{PAGE}{fields}\r\n{body}");
    vec![
        (
            step("/short", page("Content-Length: 500\r\n", "half"), "close"),
            Failed,
            Some(Code::Truncated),
        ),
        (
            step(
                "/cut",
                page("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"),
                "close",
            ),
            Failed,
            Some(Code::Truncated),
        ),
        (
            step(
                "/lengths",
                page("Content-Length: 2\r\nContent-Length: 3\r\n", "abc"),
                "close",
            ),
            Failed,
            Some(Code::BadFraming),
        ),
        (
            step(
                "/chunks",
                page("Transfer-Encoding: chunked\r\n", "zz\r\n"),
                "close",
            ),
            Failed,
            Some(Code::BadFraming),
        ),
        (
            step("/smtp", "220 mail.bad.test ESMTP\r\n", "close"),
            Failed,
            Some(Code::Protocol),
        ),
        (
            step("/silent", "", "close"),
            Failed,
            Some(Code::EmptyResponse),
        ),
        (step("/reset", "", "reset"), Failed, Some(Code::Reset)),
        (step("/never", "", "hang"), Failed, Some(Code::Timeout)),
        (
            step("/stalls", page("Content-Length: 9\r\n", "ab"), "hang"),
            Failed,
            Some(Code::Timeout),
        ),
        (
            step(
                "/huge",
                page("Content-Length: 99999999999\r\n", "x"),
                "hang",
            ),
            Failed,
            Some(Code::TooLarge),
        ),
        (
            json!({"path": "/endless", "raw": page("", ""), "drip": {"repeat": "A", "repeat_count": 65536, "forever": true}}),
            Failed,
            Some(Code::TooLarge),
        ),
        (
            json!({"path": "/bomb", "raw": page("Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", ""), "body_gzip_parts": [["\0", 9_000_000]], "chunked": 4096}),
            Failed,
            Some(Code::TooLarge),
        ),
        (
            step(
                "/lzw",
                page(
                    "Content-Encoding: compress\r\nContent-Length: 3\r\n",
                    "\u{1}\u{2}x",
                ),
                "keep",
            ),
            Failed,
            Some(Code::UnsupportedCoding),
        ),
        (
            step(
                "/torn",
                page(
                    "Content-Encoding: gzip\r\nContent-Length: 4\r\n",
                    "\u{1f}\u{b}\u{8}\u{1}",
                ),
                "keep",
            ),
            Failed,
            Some(Code::Decode),
        ),
        (
            step(
                "/liar",
                page(
                    "Content-Encoding: gzip\r\nContent-Length: 12\r\n",
                    "<p>plain</p>",
                ),
                "keep",
            ),
            Captured,
            None,
        ),
        (
            step(
                "/fields",
                format!(
                    "{PAGE}{}\r\n",
                    format!("X-Long: {}\r\n", "y".repeat(900)).repeat(400)
                ),
                "close",
            ),
            Failed,
            Some(Code::HeadersTooLarge),
        ),
        (
            step(
                "/odd",
                page(
                    "X-A: one\r\n two\r\nBad\u{1}: x\r\nContent-Length: 8\r\n",
                    "<p>a</p>",
                ),
                "keep",
            ),
            Captured,
            None,
        ),
        (
            step(
                "/part",
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nab",
                "keep",
            ),
            Failed,
            Some(Code::Truncated),
        ),
        (
            step("/nothing", "HTTP/1.1 204 No Content\r\n\r\n", "keep"),
            Refused,
            Some(Code::NoContent),
        ),
        (
            step("/same", "HTTP/1.1 304 Not Modified\r\n\r\n", "keep"),
            Failed,
            Some(Code::Protocol),
        ),
        (
            step(
                "/gone",
                "HTTP/1.1 410 Gone\r\nContent-Length: 999\r\n\r\nhalf",
                "close",
            ),
            Failed,
            Some(Code::HttpStatus),
        ),
        (
            step(
                "/busy",
                "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
                "keep",
            ),
            Failed,
            Some(Code::RetryLater),
        ),
        (
            step(
                "/hints",
                format!(
                    "HTTP/1.1 103 Early Hints\r\n\r\n{}",
                    page("Content-Length: 8\r\n", "<p>b</p>")
                ),
                "keep",
            ),
            Captured,
            None,
        ),
        (
            redirect("/nowhere", "http://[oops/"),
            Failed,
            Some(Code::BadRedirect),
        ),
        (
            redirect("/mail", "mailto:a@b.test"),
            Refused,
            Some(Code::BlockedScheme),
        ),
        (redirect("/self", "/self"), Failed, Some(Code::RedirectLoop)),
        (redirect("/inside", "http://0x7f.1/admin"), Redirected, None),
        (
            redirect("/metadata", "http://2852039166/latest"),
            Redirected,
            None,
        ),
        (redirect("/inner", "http://inner.test/"), Redirected, None),
        (redirect("/shift", "https://dumb.test/"), Redirected, None),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_ends_in_its_own_state_and_harms_nobody() {
    let faults = faults();
    let mut steps: Vec<Value> = faults.iter().map(|(step, _, _)| step.clone()).collect();
    let good = format!("{PAGE}Content-Length: 11\r\n\r\n<p>good</p>");
    steps.push(json!({"path": "/", "host": "good.test", "raw": good}));
    let names = BTreeMap::from([
        (
            "inner.test".to_owned(),
            Answer::Addresses(vec![vec!["192.168.7.7".parse().unwrap()]]),
        ),
        (
            "flip.test".to_owned(),
            Answer::Addresses(vec![
                vec!["169.254.169.254".parse().unwrap()],
                vec!["127.0.0.1".parse().unwrap()],
            ]),
        ),
    ]);
    let mut stage = stage(&steps, names).await;
    let bad = |path: &Value| format!("http://bad.test{}", path.as_str().unwrap());
    let mut seeds: Vec<String> = faults
        .iter()
        .map(|(step, _, _)| bad(&step["path"]))
        .collect();
    let others = [
        "http://good.test/",
        "http://unknown.test/",
        "http://flip.test/",
    ];
    seeds.extend(others.map(str::to_owned));
    let entries = stage
        .live
        .run(spec(SessionKind::Batch, seeds), WITHIN)
        .await
        .unwrap();

    let mut wrong = Vec::new();
    let mut ends = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        let first = entry.chain.first().cloned().unwrap_or_default();
        let last = entry.chain.last().cloned().unwrap_or_default();
        ends.insert(entry.url.clone(), (last.state(), last.code.clone()));
        if let Some((_, state, code)) = faults.get(at) {
            let code = code.map(Code::word).unwrap_or_default();
            if first.state() != *state || first.code != code {
                wrong.push(format!(
                    "{}: {:?} {} {}",
                    entry.url,
                    first.state(),
                    first.code,
                    first.detail
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let ended = |url: &str| ends[url].clone();
    let refused = |code: Code| (UrlState::Refused, code.word().to_owned());
    for inside in ["/inside", "/metadata", "/inner"] {
        assert_eq!(
            ended(&bad(&json!(inside))),
            refused(Code::BlockedAddress),
            "{inside}"
        );
    }
    assert_eq!(ended("http://bad.test/shift").1, Code::Tls.word());
    assert_eq!(
        ended("http://good.test/"),
        (UrlState::Captured, String::new())
    );
    assert_eq!(ended("http://unknown.test/").1, Code::Dns.word());
    assert_eq!(ended("http://flip.test/"), refused(Code::BlockedAddress));
    assert_eq!(ended("http://bad.test/nothing"), refused(Code::NoContent));
    stage.live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_site_ends_by_the_shape_of_its_addresses() {
    let raw = format!(
        "{PAGE}\r\n<a href='{{path}}x/'>more</a><a href='/?utm_source={{path}}'>home</a>{{path}}"
    );
    let mut steps = vec![
        json!({"path": "/login", "host": "good.test", "raw": redirect("", "/in;jsessionid=7?a=1")["raw"]}),
    ];
    steps.push(json!({"path": "*", "raw": raw, "then": "close"}));
    let mut stage = stage(&steps, BTreeMap::new()).await;
    let mut spec = spec(
        SessionKind::Crawl,
        vec!["http://bad.test/".into(), "http://good.test/login".into()],
    );
    spec.scope.as_mut().unwrap().reach = v1::scope::Reach::Host.into();
    spec.url_rules = Some(v1::UrlRules {
        strip_tracking: true,
        ..v1::UrlRules::default()
    });
    let (entries, status) = stage.live.run_whole(spec, WITHIN).await.unwrap();
    let visited: Vec<String> = stage
        .server
        .visits()
        .iter()
        .map(|visit| visit.path.clone())
        .collect();
    let deep = |count: usize| format!("/{}", "x/".repeat(count));
    assert!(
        visited.contains(&deep(4)) && !visited.contains(&deep(5)),
        "{visited:?}"
    );
    assert!(
        !visited.iter().any(|path| path.contains("utm_source")),
        "{visited:?}"
    );
    // What a site redirects to is taken as it is; a link of the same shape is not.
    assert!(
        visited.contains(&"/in;jsessionid=7?a=1".to_owned()),
        "{visited:?}"
    );
    assert!(
        !visited
            .iter()
            .any(|path| path.starts_with("/in;jsessionid=7?a=1x")),
        "{visited:?}"
    );
    assert_eq!(entries[0].chain[0].state(), UrlState::Captured);
    let traps = status
        .reasons
        .iter()
        .find(|reason| reason.code == Code::Trap.word());
    assert_eq!(traps.map(|reason| reason.count), Some(2), "{status:?}");
    assert_eq!(status.state(), v1::SessionState::Completed);
    stage.live.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_and_credentials_stay_with_their_site_and_their_session() {
    let set = |path: &str, host: &str, fields: &str, body: &str| {
        let raw = format!("{PAGE}{fields}Content-Length: {}\r\n\r\n{body}", body.len());
        json!({"path": path, "host": host, "raw": raw})
    };
    let links = "<a href=/in>in</a><a href=http://api.shop.test/in>api</a><a href=http://good.test/in>other</a>";
    let steps = [
        set(
            "/",
            "www.shop.test",
            "Set-Cookie: all=1; Domain=shop.test\r\nSet-Cookie: own=2\r\n",
            links,
        ),
        set(
            "/in",
            "www.shop.test",
            "Set-Cookie: own=; Max-Age=0\r\n",
            "<a href=/out>out</a>",
        ),
        set("/in", "api.shop.test", "", "<p>api</p>"),
        set("/in", "good.test", "", "<p>other</p>"),
        set("/out", "www.shop.test", "", "<p>out</p>"),
    ];
    let mut stage = stage(&steps, BTreeMap::new()).await;
    let seed = "http://me:secret@www.shop.test/".to_owned();
    for round in 0..2 {
        let entries = stage
            .live
            .run(spec(SessionKind::Crawl, vec![seed.clone()]), WITHIN);
        assert_eq!(
            entries.await.unwrap()[0].chain[0].state(),
            UrlState::Captured
        );
        let visits = stage.server.visits().split_off(round * 5);
        assert_eq!(visits.len(), 5, "{visits:#?}");
        let sent = |host: &str, path: &str, field: &str| {
            let visit = visits
                .iter()
                .find(|visit| visit.host == host && visit.path == path);
            let lines = visit.unwrap().head.lines().map(str::to_ascii_lowercase);
            let found: Vec<String> = lines.filter(|line| line.starts_with(field)).collect();
            found.join("|")
        };
        assert_eq!(
            sent("www.shop.test", "/", "cookie"),
            "",
            "a session begins without any"
        );
        assert_eq!(
            sent("www.shop.test", "/in", "cookie"),
            "cookie: all=1; own=2"
        );
        assert_eq!(sent("www.shop.test", "/out", "cookie"), "cookie: all=1");
        assert_eq!(sent("api.shop.test", "/in", "cookie"), "cookie: all=1");
        assert_eq!(sent("good.test", "/in", "cookie"), "");
        assert!(sent("www.shop.test", "/", "authorization").contains("basic "));
        assert_eq!(sent("good.test", "/in", "authorization"), "");
    }
    stage.live.stop().await;
}
