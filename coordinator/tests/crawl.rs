//! Whole sessions against a worker that speaks the real link and answers from a script.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where its stage cannot be set"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coordinator::{Config, Coordinator};
use parking_lot::Mutex;
use proto::v1::{self, SessionKind, SessionState, UrlState, fact, order, outcome};
use proto::{Clock, CrawlUrl, Digest};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};

type SessionsClient = v1::sessions_client::SessionsClient<Channel>;

/// Pages by URL: the links of each.
type Web = BTreeMap<String, Vec<String>>;

struct Running {
    coordinator: Arc<Coordinator>,
    channel: Channel,
    server: JoinHandle<()>,
}

fn config(folder: &std::path::Path) -> Config {
    let mut config = Config::new(folder);
    config.shards = 8;
    config.min_interval = Duration::ZERO;
    config.lease = Duration::from_millis(1500);
    config.heartbeat = Duration::from_millis(300);
    config
}

async fn running(config: Config) -> Running {
    // Connections of an earlier run on the folder may end a moment later than its shutdown.
    let mut started = Coordinator::start(config.clone(), Clock::start()).await;
    for _ in 0..100 {
        if started.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        started = Coordinator::start(config.clone(), Clock::start()).await;
    }
    let coordinator = Arc::new(started.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = coordinator.routes();
    let server = tokio::spawn(async move {
        let incoming = TcpIncoming::from(listener);
        let served = Server::builder()
            .add_routes(routes)
            .serve_with_incoming(incoming);
        drop(served.await);
    });
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = endpoint.connect().await.unwrap();
    Running {
        coordinator,
        channel,
        server,
    }
}

impl Running {
    fn sessions(&self) -> SessionsClient {
        SessionsClient::new(self.channel.clone())
    }

    async fn stop(self) {
        self.server.abort();
        self.coordinator.shutdown().await;
    }
}

/// What a worker was asked for, in order.
type Visits = Arc<Mutex<Vec<String>>>;

fn captured(url: &str, web: &Web) -> outcome::Result {
    let Some(links) = web.get(url) else {
        return outcome::Result::Failed(v1::Failed {
            code: "http_status".into(),
            detail: "the server answered 404".into(),
            status: 404,
            may_retry: false,
        });
    };
    let body = links.join("\n") + url;
    let digest = Digest::of(body.as_bytes());
    let link = |url: &String| v1::Link {
        url: url.clone(),
        ..v1::Link::default()
    };
    outcome::Result::Captured(v1::Captured {
        page: Some(v1::Page {
            url: url.to_owned(),
            final_url: url.to_owned(),
            status: 200,
            size: 10,
            digest: digest.as_bytes().to_vec().into(),
            ..v1::Page::default()
        }),
        links: links.iter().map(link).collect(),
        content_digest: digest.as_bytes().to_vec().into(),
        ..v1::Captured::default()
    })
}

/// Links a worker; it answers each lease from the web, or holds its breath when it is `mute`.
async fn worker(channel: Channel, id: &str, web: Web, mute: bool) -> (Visits, JoinHandle<()>) {
    let mut client = v1::fleet_client::FleetClient::new(channel);
    let (facts, stream) = mpsc::channel(4096);
    let tell = |fact| v1::Fact { fact: Some(fact) };
    let hello = v1::Hello {
        worker_id: id.into(),
        slots: 16,
        weight: 1,
        ..v1::Hello::default()
    };
    facts.send(tell(fact::Fact::Hello(hello))).await.unwrap();
    let mut orders = client
        .link(ReceiverStream::new(stream))
        .await
        .unwrap()
        .into_inner();
    let visits = Visits::default();
    let seen = visits.clone();
    let task = tokio::spawn(async move {
        let mut epochs = BTreeMap::new();
        while let Ok(Some(order)) = orders.message().await {
            let (lease_id, epoch, tickets) = match order.order {
                Some(order::Order::Lease(lease)) => {
                    epochs.insert(lease.lease_id, lease.epoch);
                    (lease.lease_id, lease.epoch, lease.tickets)
                }
                Some(order::Order::Extend(extend)) => {
                    let epoch = epochs.get(&extend.lease_id).copied().unwrap_or(0);
                    (extend.lease_id, epoch, extend.tickets)
                }
                _ => continue,
            };
            for ticket in tickets {
                seen.lock().push(ticket.url.clone());
                if mute {
                    continue;
                }
                let outcome = v1::Outcome {
                    lease_id,
                    ticket_id: ticket.ticket_id,
                    epoch,
                    session_id: ticket.session_id,
                    host: Some(v1::HostFacts {
                        has_started: true,
                        ..v1::HostFacts::default()
                    }),
                    result: Some(captured(&ticket.url, &web)),
                    url: ticket.url,
                    cookies: Vec::new(),
                };
                if facts
                    .send(tell(fact::Fact::Outcome(outcome)))
                    .await
                    .is_err()
                {
                    return;
                }
            }
            if !mute {
                let ended = fact::Fact::LeaseEnded(v1::LeaseEnded { lease_id });
                drop(facts.send(tell(ended)).await);
            }
        }
    });
    (visits, task)
}

/// A site of `count` pages in a binary tree; with `hosts` names in different domains.
fn tree(count: usize, hosts: usize) -> Web {
    let url = |at: usize| format!("http://site{}.test/{at}", at % hosts);
    let links = |at: usize| {
        let children = [2 * at + 1, 2 * at + 2]
            .into_iter()
            .filter(|child| *child < count);
        children.map(url).collect()
    };
    (0..count).map(|at| (url(at), links(at))).collect()
}

fn spec(kind: SessionKind, seeds: &[&str]) -> v1::SessionSpec {
    let mut spec = v1::SessionSpec {
        seeds: seeds.iter().map(|seed| (*seed).to_owned()).collect(),
        scope: Some(v1::Scope {
            reach: v1::scope::Reach::Any.into(),
            ..v1::Scope::default()
        }),
        ..v1::SessionSpec::default()
    };
    spec.set_kind(kind);
    spec
}

async fn start(client: &mut SessionsClient, spec: v1::SessionSpec) -> String {
    let reply = client
        .start(v1::StartRequest { spec: Some(spec) })
        .await
        .unwrap();
    reply.into_inner().status.unwrap().session_id
}

async fn ended(client: &mut SessionsClient, id: &str) -> v1::SessionStatus {
    let request = v1::StatusRequest {
        session_id: id.to_owned(),
        owner: String::new(),
        wait_millis: 20_000,
    };
    let status = client
        .status(request)
        .await
        .unwrap()
        .into_inner()
        .status
        .unwrap();
    assert!(
        status.ended_at_millis > 0,
        "the session goes on: {status:?}"
    );
    let sum: u64 = status.counts.iter().map(|count| count.count).sum();
    assert_eq!(
        sum, status.admitted,
        "the states add up: {:?}",
        status.counts
    );
    for count in &status.counts {
        assert!(
            count.state().is_terminal(),
            "{:?} is not an end",
            count.state()
        );
    }
    status
}

fn count(status: &v1::SessionStatus, state: UrlState) -> u64 {
    let found = status.counts.iter().find(|count| count.state() == state);
    found.map_or(0, |count| count.count)
}

#[tokio::test]
async fn a_crawl_over_many_domains_captures_every_page_once_and_completes() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(config(folder.path())).await;
    let web = tree(200, 9);
    let (visits, _) = worker(running.channel.clone(), "w1", web.clone(), false).await;
    let mut client = running.sessions();
    let id = start(
        &mut client,
        spec(SessionKind::Crawl, &["http://site0.test/0"]),
    )
    .await;
    let status = ended(&mut client, &id).await;
    assert_eq!(status.state(), SessionState::Completed);
    assert_eq!((status.pages, status.admitted), (200, 200));
    assert_eq!(
        status.hosts, 9,
        "hosts are counted once, also those that are done"
    );
    let mut seen = visits.lock().clone();
    seen.sort();
    let wanted: Vec<String> = web.keys().cloned().collect();
    assert_eq!(seen, wanted);

    let mut urls = Vec::new();
    let mut cursor = String::new();
    loop {
        let request = v1::PagesRequest {
            session_id: id.clone(),
            cursor: cursor.clone(),
            limit: 7,
            ..v1::PagesRequest::default()
        };
        let reply = client.pages(request).await.unwrap().into_inner();
        urls.extend(reply.pages.into_iter().map(|page| page.url));
        if reply.next_cursor.is_empty() {
            assert!(reply.is_final);
            break;
        }
        cursor = reply.next_cursor;
    }
    urls.sort();
    assert_eq!(urls, wanted);
    running.stop().await;
}

#[tokio::test]
async fn a_page_limit_is_reached_and_never_passed() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(config(folder.path())).await;
    let (_, _) = worker(running.channel.clone(), "w1", tree(300, 5), false).await;
    let mut client = running.sessions();
    let mut limited = spec(SessionKind::Crawl, &["http://site0.test/0"]);
    limited.budget = Some(v1::Budget {
        max_pages: Some(37),
        ..v1::Budget::default()
    });
    let id = start(&mut client, limited).await;
    let status = ended(&mut client, &id).await;
    assert_eq!(status.state(), SessionState::PageLimit);
    assert_eq!(status.pages, 37);
    assert_eq!(count(&status, UrlState::Captured), 37);
    assert!(count(&status, UrlState::OverBudget) > 0);
    running.stop().await;
}

#[tokio::test]
async fn pages_with_one_content_are_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(config(folder.path())).await;
    let mut client = running.sessions();
    let mut fleet = v1::fleet_client::FleetClient::new(running.channel.clone());
    let (facts, stream) = mpsc::channel(64);
    let hello = v1::Hello {
        worker_id: "w".into(),
        slots: 4,
        weight: 1,
        ..v1::Hello::default()
    };
    let tell = |fact| v1::Fact { fact: Some(fact) };
    facts.send(tell(fact::Fact::Hello(hello))).await.unwrap();
    let mut orders = fleet
        .link(ReceiverStream::new(stream))
        .await
        .unwrap()
        .into_inner();
    let seeds = ["http://a.test/", "http://b.test/", "http://c.test/"];
    let id = start(&mut client, spec(SessionKind::Crawl, &seeds)).await;
    let task = tokio::spawn(async move {
        while let Ok(Some(order)) = orders.message().await {
            let Some(order::Order::Lease(lease)) = order.order else {
                continue;
            };
            for ticket in lease.tickets {
                let outcome = v1::Outcome {
                    lease_id: lease.lease_id,
                    ticket_id: ticket.ticket_id,
                    epoch: lease.epoch,
                    session_id: ticket.session_id,
                    url: ticket.url,
                    cookies: Vec::new(),
                    host: Some(v1::HostFacts {
                        has_started: true,
                        ..v1::HostFacts::default()
                    }),
                    result: Some(outcome::Result::Captured(v1::Captured {
                        page: Some(v1::Page {
                            size: 3,
                            ..v1::Page::default()
                        }),
                        content_digest: Digest::of(b"the same").as_bytes().to_vec().into(),
                        ..v1::Captured::default()
                    })),
                };
                drop(
                    facts
                        .send(v1::Fact {
                            fact: Some(fact::Fact::Outcome(outcome)),
                        })
                        .await,
                );
            }
        }
    });
    let status = ended(&mut client, &id).await;
    assert_eq!(status.pages, 1);
    assert_eq!(count(&status, UrlState::Duplicate), 2);
    task.abort();
    running.stop().await;
}

#[tokio::test]
async fn depth_and_a_dead_link_end_as_they_should() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(config(folder.path())).await;
    let mut web = tree(15, 1);
    let dead = "http://site0.test/gone".to_owned();
    web.get_mut("http://site0.test/0")
        .unwrap()
        .push(dead.clone());
    let (_, _) = worker(running.channel.clone(), "w1", web, false).await;
    let mut client = running.sessions();
    let mut shallow = spec(SessionKind::Crawl, &["http://site0.test/0"]);
    shallow.budget = Some(v1::Budget {
        max_depth: Some(2),
        ..v1::Budget::default()
    });
    let id = start(&mut client, shallow).await;
    let status = ended(&mut client, &id).await;
    assert_eq!(status.state(), SessionState::Completed);
    assert_eq!(status.pages, 7);
    assert_eq!(
        count(&status, UrlState::Refused),
        8,
        "the fourth row is too deep"
    );
    assert_eq!(count(&status, UrlState::Failed), 1);
    let request = v1::LookupRequest {
        session_id: id,
        urls: vec![dead],
        ..v1::LookupRequest::default()
    };
    let found = client.lookup(request).await.unwrap().into_inner();
    assert_eq!(found.entries[0].chain[0].code, "http_status");
    running.stop().await;
}

#[tokio::test]
async fn another_worker_finishes_when_the_first_falls_silent() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(config(folder.path())).await;
    let web = tree(20, 1);
    let (lost, silent) = worker(running.channel.clone(), "silent", web.clone(), true).await;
    let mut client = running.sessions();
    let id = start(
        &mut client,
        spec(SessionKind::Crawl, &["http://site0.test/0"]),
    )
    .await;
    for _ in 0..200 {
        if !lost.lock().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(lost.lock().len(), 1, "the seed went out");
    silent.abort();
    let (_, _) = worker(running.channel.clone(), "lively", web, false).await;
    let status = ended(&mut client, &id).await;
    assert_eq!(status.state(), SessionState::Completed);
    assert_eq!(status.pages, 20);
    running.stop().await;
}

#[tokio::test]
async fn a_crawl_goes_on_after_a_restart_on_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = running(config(folder.path())).await;
    let mut client = first.sessions();
    let (lost, silent) = worker(first.channel.clone(), "w1", Web::new(), true).await;
    let id = start(
        &mut client,
        spec(SessionKind::Crawl, &["http://site0.test/0"]),
    )
    .await;
    for _ in 0..200 {
        if !lost.lock().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    silent.abort();
    drop(client);
    first.stop().await;

    let second = running(config(folder.path())).await;
    let web = tree(30, 3);
    let (_, _) = worker(second.channel.clone(), "w2", web, false).await;
    let mut client = second.sessions();
    let status = ended(&mut client, &id).await;
    assert_eq!(status.state(), SessionState::Completed);
    assert_eq!(status.pages, 30);
    second.stop().await;
}

#[tokio::test]
async fn a_paused_crawl_stands_still_and_a_cancelled_one_ends() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(config(folder.path())).await;
    let mut client = running.sessions();
    let id = start(
        &mut client,
        spec(SessionKind::Crawl, &["http://site0.test/0"]),
    )
    .await;
    let order = |order: v1::control_request::Order| v1::ControlRequest {
        session_id: id.clone(),
        owner: String::new(),
        order: order.into(),
    };
    let paused = client
        .control(order(v1::control_request::Order::Pause))
        .await
        .unwrap();
    assert_eq!(
        paused.into_inner().status.unwrap().state(),
        SessionState::Paused
    );
    let (visits, _) = worker(running.channel.clone(), "w1", tree(3, 1), false).await;
    let cancelled = client
        .control(order(v1::control_request::Order::Cancel))
        .await
        .unwrap();
    let status = cancelled.into_inner().status.unwrap();
    assert_eq!(status.state(), SessionState::Cancelled);
    assert_eq!(count(&status, UrlState::Cancelled), 1);
    assert!(
        visits.lock().is_empty(),
        "a paused session asks for nothing"
    );
    running.stop().await;
}

#[tokio::test]
async fn a_stranger_finds_no_session_of_another_owner() {
    let folder = tempfile::tempdir().unwrap();
    let running = running(config(folder.path())).await;
    let mut client = running.sessions();
    let mut owned = spec(SessionKind::Crawl, &["http://site0.test/0"]);
    owned.owner = "key_1".into();
    owned.request_id = "r1".into();
    let id = start(&mut client, owned.clone()).await;
    assert_eq!(
        start(&mut client, owned).await,
        id,
        "a repeated start is one session"
    );
    let request = v1::StatusRequest {
        session_id: id,
        owner: "key_2".into(),
        wait_millis: 0,
    };
    let refused = client.status(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);
    assert!(CrawlUrl::parse("http://site0.test/0").is_ok());
    running.stop().await;
}
