//! A whole coordinator over stores in memory, which can be told to fail; compiled under `#[cfg(test)]` only.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::sessions_server::Sessions as _;
use proto::v1::{self, SessionKind, SessionState, order, outcome};
use proto::{Clock, Digest, SessionId, Timestamp};
use tokio::sync::mpsc;
use tonic::{Request, Status};

use crate::body_store::BodyStore;
use crate::catalog::Catalog;
use crate::shard::actor::ShardMsg;
use crate::store::committer::Committer;
use crate::store::memory::MemoryStore;
use crate::store::{Store as _, Table};
use crate::sweep::Sweeper;
use crate::{Config, Coordinator};

const SHARDS: u16 = 4;
const WITHIN: Duration = Duration::from_secs(10);

struct Stage {
    coordinator: Coordinator,
    bulk: Arc<MemoryStore>,
    control: Arc<MemoryStore>,
    _folder: tempfile::TempDir,
}

async fn stage(change: impl FnOnce(&mut Config)) -> Stage {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::new(folder.path());
    config.shards = SHARDS;
    config.min_interval = Duration::ZERO;
    change(&mut config);
    let (bulk, control) = (Arc::<MemoryStore>::default(), Arc::<MemoryStore>::default());
    let catalog = Catalog {
        bulk_committer: Arc::new(Committer::start(bulk.clone()).unwrap()),
        control_committer: Arc::new(Committer::start(control.clone()).unwrap()),
        bulk: bulk.clone(),
        control: control.clone(),
        bodies: Arc::new(BodyStore::open(folder.path()).unwrap()),
        shards: SHARDS,
    };
    let started = Coordinator::over(config, Clock::start(), catalog).await;
    Stage {
        coordinator: started.unwrap(),
        bulk,
        control,
        _folder: folder,
    }
}

/// A lease: its number and its epoch.
type Held = (u64, u64);
type Orders = mpsc::Receiver<Result<v1::Order, Status>>;

impl Stage {
    fn worker(&self, slots: u32) -> Orders {
        let (sender, orders) = mpsc::channel(64);
        let hello = v1::Hello {
            worker_id: "w".into(),
            slots,
            weight: 1,
            ..v1::Hello::default()
        };
        let fleet = &self.coordinator.fleet;
        let (_, waiting) = fleet.fleet.join(hello, sender, fleet.clock.now());
        fleet.mailroom.poke(waiting);
        orders
    }

    fn report(&self, lease: Held, ticket: &v1::Ticket, links: &[&str]) {
        self.report_page(lease, ticket, links, v1::Page::default());
    }

    fn report_page(&self, lease: Held, ticket: &v1::Ticket, links: &[&str], page: v1::Page) {
        let links = links.iter().map(|url| v1::Link {
            url: (*url).to_owned(),
            ..v1::Link::default()
        });
        let digest = Digest::of(ticket.url.as_bytes()).as_bytes().to_vec();
        let outcome = v1::Outcome {
            cookies: Vec::new(),
            lease_id: lease.0,
            ticket_id: ticket.ticket_id,
            epoch: lease.1,
            session_id: ticket.session_id.clone(),
            url: ticket.url.clone(),
            result: Some(outcome::Result::Captured(v1::Captured {
                page: Some(page),
                links: links.collect(),
                content_digest: digest.into(),
                ..v1::Captured::default()
            })),
            ..v1::Outcome::default()
        };
        let shard = u16::try_from(lease.0 & 0xffff).unwrap();
        let message = ShardMsg::Outcome {
            worker: "w".into(),
            outcome: Box::new(outcome),
        };
        self.coordinator.fleet.mailroom.tell(shard, message);
    }

    async fn start(&self, spec: v1::SessionSpec) -> Result<v1::SessionStatus, Status> {
        let request = Request::new(v1::StartRequest { spec: Some(spec) });
        let reply = v1::sessions_server::Sessions::start(&self.coordinator.sessions, request);
        Ok(reply.await?.into_inner().status.unwrap())
    }

    async fn status(&self, id: &str, wait: Duration) -> Result<v1::SessionStatus, Status> {
        let request = Request::new(v1::StatusRequest {
            session_id: id.to_owned(),
            owner: String::new(),
            wait_millis: u64::try_from(wait.as_millis()).unwrap(),
        });
        let reply = self.coordinator.sessions.status(request).await?;
        Ok(reply.into_inner().status.unwrap())
    }
}

fn crawl(seed: &str) -> v1::SessionSpec {
    let mut spec = v1::SessionSpec {
        seeds: vec![seed.to_owned()],
        scope: Some(v1::Scope {
            reach: v1::scope::Reach::Any.into(),
            ..v1::Scope::default()
        }),
        ..v1::SessionSpec::default()
    };
    spec.set_kind(SessionKind::Crawl);
    spec
}

/// The next tickets that go out, with their lease.
async fn tickets(orders: &mut Orders) -> (Held, Vec<v1::Ticket>) {
    loop {
        let order = tokio::time::timeout(WITHIN, orders.recv()).await;
        if let Some(order::Order::Lease(lease)) = order.unwrap().unwrap().unwrap().order {
            return ((lease.lease_id, lease.epoch), lease.tickets);
        }
    }
}

#[tokio::test]
async fn a_shard_that_fails_comes_back_with_its_slot_its_permit_and_its_lease() {
    let stage = stage(|_| {}).await;
    let mut orders = stage.worker(1);
    let mut spec = crawl("http://a.test/");
    spec.concurrency = 1;
    spec.budget = Some(v1::Budget {
        max_pages: Some(3),
        ..v1::Budget::default()
    });
    let id = stage.start(spec).await.unwrap().session_id;
    let (lease, first) = tickets(&mut orders).await;
    let found = ["http://a.test/1", "http://a.test/2", "http://a.test/3"];

    // The page is captured in memory only: its batch fails, and the shard with it.
    stage.bulk.set_full(true);
    stage.report(lease, &first[0], &found);
    let shard = u16::try_from(lease.0 & 0xffff).unwrap();
    let mailroom = &stage.coordinator.fleet.mailroom;
    let fell = async {
        while mailroom.is_home(shard) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WITHIN, fell).await.unwrap();
    stage.bulk.set_full(false);

    // A worker repeats what nobody confirmed; the first tellings may find nobody at home.
    let mut done = 0;
    while done < 3 {
        stage.report(lease, &first[0], &found);
        let next = tokio::time::timeout(Duration::from_millis(100), tickets(&mut orders)).await;
        let Ok((lease, next)) = next else {
            continue;
        };
        for ticket in next {
            stage.report(lease, &ticket, &[]);
            done += 1;
        }
        if done == 2 {
            break;
        }
    }
    let status = stage.status(&id, WITHIN).await.unwrap();
    assert_eq!(status.state(), SessionState::PageLimit, "{status:?}");
    assert_eq!(status.pages, 3, "the page in vain cost no permit");
    for worker in stage.coordinator.fleet.fleet.list() {
        assert_eq!(worker.open_leases, 0, "the slot was counted once");
    }
    stage.coordinator.shutdown().await;
}

#[tokio::test]
async fn a_desk_that_fails_comes_back_and_whoever_watches_sees_the_end() {
    let stage = stage(|_| {}).await;
    let id = stage
        .start(crawl("http://a.test/"))
        .await
        .unwrap()
        .session_id;
    let watching = stage.status(&id, WITHIN);
    let work = async {
        stage.coordinator.sessions.desk.kill();
        let mut orders = stage.worker(1);
        let (lease, found) = tickets(&mut orders).await;
        stage.report(lease, &found[0], &[]);
        orders
    };
    let (status, _orders) = tokio::join!(watching, work);
    let status = status.unwrap();
    assert_eq!(
        (status.state(), status.pages),
        (SessionState::Completed, 1),
        "{status:?}"
    );
    stage.coordinator.shutdown().await;
}

#[tokio::test]
async fn two_starts_at_once_with_one_request_id_are_one_session() {
    let stage = stage(|_| {}).await;
    for (request, kind) in [("r1", SessionKind::Crawl), ("r2", SessionKind::Scrape)] {
        let mut spec = crawl("http://a.test/");
        spec.request_id = request.into();
        spec.set_kind(kind);
        let starts = (0..8).map(|_| stage.start(spec.clone()));
        let started = futures::future::join_all(starts).await;
        let ids: std::collections::BTreeSet<String> = started
            .into_iter()
            .map(|status| status.unwrap().session_id)
            .collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
    }
    assert_eq!(stage.coordinator.sessions.desk.running(), 2);
    stage.coordinator.shutdown().await;
}

#[tokio::test]
async fn a_session_whose_record_is_not_kept_does_not_run() {
    let stage = stage(|_| {}).await;
    stage.control.set_full(true);
    let mut spec = crawl("http://a.test/");
    spec.request_id = "r1".into();
    let refused = stage.start(spec.clone()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Aborted, "{refused:?}");
    let gone = async {
        while stage.coordinator.sessions.desk.running() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(WITHIN, gone).await.unwrap();
    stage.control.set_full(false);
    stage.start(spec).await.unwrap();
    assert_eq!(stage.coordinator.sessions.directory.all().len(), 1);
    stage.coordinator.shutdown().await;
}

/// Rows that name a session, of every table.
fn rows_of(stage: &Stage, id: &str) -> Vec<Table> {
    let id: SessionId = id.parse().unwrap();
    let mut found = Vec::new();
    for store in [&stage.bulk, &stage.control] {
        for table in Table::ALL {
            let rows = store.scan(table, &[], None, usize::MAX).unwrap();
            let names = |bytes: &[u8]| bytes.windows(16).any(|part| part == id.as_bytes());
            found.extend(
                rows.iter()
                    .filter(|(key, value)| names(key) || names(value))
                    .map(|_| table),
            );
        }
    }
    found
}

#[tokio::test]
async fn an_expired_session_leaves_nothing_but_the_bodies_that_another_names() {
    let stage = stage(|_| {}).await;
    let mut orders = stage.worker(4);
    let shared = bytes::Bytes::from_static(b"shared");
    let catalog = stage.coordinator.sessions.catalog.clone();
    let now = stage.coordinator.fleet.clock.now();
    let mut ended = Vec::new();
    for own in ["one", "two"] {
        let own = bytes::Bytes::from_static(own.as_bytes());
        let mut parts = Vec::new();
        for body in [&shared, &own] {
            let digest = Digest::of(body);
            catalog.bodies.put(digest, body.clone(), now).await.unwrap();
            parts.push(v1::Part {
                digest: digest.as_bytes().to_vec().into(),
                ..v1::Part::default()
            });
        }
        let mut spec = crawl("http://a.test/");
        spec.request_id = format!("{own:?}");
        let id = stage.start(spec).await.unwrap().session_id;
        let (lease, found) = tickets(&mut orders).await;
        let page = v1::Page {
            parts,
            ..v1::Page::default()
        };
        stage.report_page(lease, &found[0], &[], page);
        let status = stage.status(&id, WITHIN).await.unwrap();
        assert_eq!(status.state(), SessionState::Completed, "{status:?}");
        ended.push(status);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let sweeper = Sweeper {
        clock: stage.coordinator.fleet.clock,
        catalog: catalog.clone(),
    };
    let size = async |body: &'static [u8]| catalog.bodies.size(&Digest::of(body)).await.unwrap();

    let first = Timestamp::from_millis(ended[0].expires_at_millis);
    assert_eq!(
        sweeper
            .sweep(first - Duration::from_millis(1))
            .await
            .unwrap(),
        0
    );
    assert!(!rows_of(&stage, &ended[0].session_id).is_empty());
    assert_eq!(sweeper.sweep(first).await.unwrap(), 1);
    assert_eq!(rows_of(&stage, &ended[0].session_id), []);
    assert!(
        stage
            .status(&ended[0].session_id, Duration::ZERO)
            .await
            .is_err()
    );
    assert_eq!(size(b"one").await, None);
    assert!(size(b"shared").await.is_some() && size(b"two").await.is_some());

    let second = Timestamp::from_millis(ended[1].expires_at_millis);
    assert_eq!(sweeper.sweep(second).await.unwrap(), 1);
    assert_eq!(rows_of(&stage, &ended[1].session_id), []);
    assert_eq!((size(b"shared").await, size(b"two").await), (None, None));
    stage.coordinator.shutdown().await;
}
