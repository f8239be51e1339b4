//! The pure core under literal times, over a store in memory; compiled under `#[cfg(test)]` only.

mod sim;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, SessionKind, TicketKind, UrlState, order, outcome::Result as Report};
use proto::{CompiledScope, CrawlUrl, Digest, SessionId, Timestamp};
use tokio::sync::mpsc;

use super::{Effect, Policy, ShardCore};
use crate::fleet::{Fleet, OrderSender};
use crate::gate::{Directory, Phase, SessionShared, Tally};
use crate::store::memory::MemoryStore;
use crate::store::{Ack, Store as _};

const LEASE: u64 = 60_000;
const INTERVAL: u64 = 20_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(1_000_000_000_000 + millis)
}

fn url(text: &str) -> CrawlUrl {
    CrawlUrl::parse(text).unwrap()
}

/// One shard, one worker, one ticket a lease: the interval is longer than a lease is meant to last.
struct Bench {
    core: ShardCore,
    policy: Policy,
    fleet: Fleet,
    directory: Directory,
    store: Arc<MemoryStore>,
    tallies: BTreeMap<SessionId, Tally>,
    _orders: mpsc::Receiver<Result<v1::Order, tonic::Status>>,
}

impl Bench {
    fn new() -> Self {
        let store = Arc::<MemoryStore>::default();
        let (directory, fleet) = (Directory::default(), Fleet::default());
        let (sender, orders): (OrderSender, _) = mpsc::channel(8);
        let hello = v1::Hello {
            worker_id: "w".into(),
            slots: 8,
            weight: 1,
            ..v1::Hello::default()
        };
        fleet.join(hello, sender, at(0));
        let policy = Policy {
            min_interval: Duration::from_millis(INTERVAL),
            per_host: 1,
            per_domain: 2,
            lease: Duration::from_millis(LEASE),
            max_redirects: 10,
        };
        let shared = (directory.clone(), fleet.clone());
        let core = ShardCore::new(0, 1, policy.clone(), store.clone(), shared, at(0));
        Self {
            policy,
            core,
            fleet,
            directory,
            store,
            tallies: BTreeMap::new(),
            _orders: orders,
        }
    }

    fn session(&mut self, kind: SessionKind, seeds: &[&str], max_depth: Option<u32>) -> SessionId {
        let budget = v1::Budget {
            max_depth,
            ..v1::Budget::default()
        };
        self.session_of(kind, seeds, budget)
    }

    fn session_of(&mut self, kind: SessionKind, seeds: &[&str], budget: v1::Budget) -> SessionId {
        let seeds: Vec<CrawlUrl> = seeds.iter().map(|seed| url(seed)).collect();
        let scope = v1::Scope {
            reach: v1::scope::Reach::Any.into(),
            ..v1::Scope::default()
        };
        let compiled = CompiledScope::compile(&scope, &seeds).unwrap();
        let mut spec = v1::SessionSpec {
            seeds: seeds.iter().map(ToString::to_string).collect(),
            budget: Some(budget),
            ..v1::SessionSpec::default()
        };
        spec.set_kind(kind);
        let id = SessionId::from_bytes([u8::try_from(self.tallies.len()).unwrap(); 16]);
        let before = BTreeMap::new();
        let shared = SessionShared::new(id.clone(), spec, compiled, Phase::Running, &before, at(0));
        self.directory.insert(Arc::new(shared));
        self.core.seed(at(0), &id, &seeds).unwrap();
        id
    }

    /// Advances, commits, carries out what stays inside, and answers the leases that went out.
    fn turn(&mut self, now: Timestamp) -> Vec<v1::Lease> {
        let mut leases = Vec::new();
        loop {
            self.core.advance(now).unwrap();
            let effects = self.core.finish().unwrap();
            let slice = self.core.slice();
            let (number, batch) = slice.take();
            self.store.commit(&[batch], Ack::Os).unwrap();
            slice.committed(number);
            let is_quiet = effects.is_empty();
            for effect in effects {
                self.carry_out(now, effect, &mut leases);
            }
            if is_quiet {
                return leases;
            }
        }
    }

    fn carry_out(&mut self, now: Timestamp, effect: Effect, leases: &mut Vec<v1::Lease>) {
        match effect {
            Effect::Send { order, .. } => {
                if let Some(order::Order::Lease(lease)) = order.order {
                    leases.push(lease);
                }
            }
            Effect::Post { session, tally } => {
                self.tallies.insert(session, tally);
            }
            Effect::Release { worker } => {
                self.fleet.release(&worker, 0);
            }
            Effect::AskRobots {
                origin,
                target,
                hops,
                ..
            } => self.core.ask_robots(origin, target, hops).unwrap(),
            Effect::TellRobots { origin, copy, .. } => {
                self.core.tell_robots(now, &origin, *copy).unwrap();
            }
            Effect::Mail { .. }
            | Effect::Answer { .. }
            | Effect::Poke { .. }
            | Effect::Seeded { .. }
            | Effect::SettleMore { .. } => {}
        }
    }

    /// The shard falls and is rebuilt from what was committed.
    fn restart(&mut self, now: Timestamp) {
        let shared = (self.directory.clone(), self.fleet.clone());
        let store = self.store.clone();
        self.core = ShardCore::new(0, 1, self.policy.clone(), store, shared, now);
        self.core.restore(now).unwrap();
    }

    /// The one lease that goes out now.
    fn one(&mut self, now: Timestamp) -> v1::Lease {
        let mut leases = self.turn(now);
        assert_eq!(leases.len(), 1, "{leases:?}");
        leases.remove(0)
    }

    /// A worker's report; behind a ticket that comes back unbegun it says that it is done with the lease.
    fn report(&mut self, now: Timestamp, lease: &v1::Lease, result: Report, host: v1::HostFacts) {
        let was_begun = !matches!(result, Report::Returned(_));
        self.tell(now, lease, result, host);
        if !was_begun {
            self.core.lease_ended(now, "w", lease.lease_id).unwrap();
        }
    }

    fn tell(&mut self, now: Timestamp, lease: &v1::Lease, result: Report, host: v1::HostFacts) {
        let ticket = &lease.tickets[0];
        let outcome = v1::Outcome {
            cookies: Vec::new(),
            lease_id: lease.lease_id,
            ticket_id: ticket.ticket_id,
            epoch: lease.epoch,
            session_id: ticket.session_id.clone(),
            url: ticket.url.clone(),
            host: Some(host),
            result: Some(result),
        };
        self.core.outcome(now, "w", outcome).unwrap();
    }

    fn entry(&self, id: &SessionId, of: &str) -> v1::LedgerEntry {
        let row = self.core.url(id, url(of).fingerprint()).unwrap();
        row.unwrap().entry.unwrap()
    }

    fn count(&self, id: &SessionId, state: UrlState) -> u64 {
        self.tallies[id].of(state)
    }
}

fn page(lease: &v1::Lease, links: &[&str]) -> Report {
    let digest = Digest::of(lease.tickets[0].url.as_bytes());
    let link = |url: &&str| v1::Link {
        url: (*url).to_owned(),
        ..v1::Link::default()
    };
    Report::Captured(v1::Captured {
        page: Some(v1::Page::default()),
        links: links.iter().map(link).collect(),
        content_digest: digest.as_bytes().to_vec().into(),
        ..v1::Captured::default()
    })
}

fn started(ago: u64) -> v1::HostFacts {
    v1::HostFacts {
        has_started: true,
        since_start_millis: ago,
        ..v1::HostFacts::default()
    }
}

fn redirect(target: &str) -> Report {
    Report::Redirected(v1::Redirected {
        status: 301,
        target: target.to_owned(),
    })
}

#[test]
fn a_host_is_leased_again_an_interval_after_the_last_start() {
    let mut bench = Bench::new();
    bench.session(
        SessionKind::Crawl,
        &["http://a.test/1", "http://a.test/2"],
        None,
    );
    let lease = bench.one(at(0));
    assert_eq!(lease.tickets.len(), 1);
    bench.report(at(500), &lease, page(&lease, &[]), started(400));
    assert_eq!(bench.turn(at(500)), []);
    assert_eq!(bench.core.next_wake(at(500)), Some(at(20_100)));
    assert_eq!(bench.turn(at(20_099)), []);
    let second = bench.one(at(20_100));
    assert_ne!(second.tickets[0].url, lease.tickets[0].url);
}

#[test]
fn a_lost_lease_comes_back_after_its_end_and_the_interval() {
    let mut bench = Bench::new();
    bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let lost = bench.one(at(0));
    assert_eq!(bench.turn(at(59_999)), []);
    assert_eq!(bench.turn(at(60_000)), []);
    assert_eq!(bench.turn(at(79_999)), []);
    let next = bench.one(at(80_000));
    assert_eq!(next.tickets[0].url, lost.tickets[0].url);
    assert!(next.epoch > lost.epoch);
}

#[test]
fn a_heartbeat_keeps_the_lease_and_moves_the_clock_in_the_store() {
    let mut bench = Bench::new();
    bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let lease = bench.one(at(0));
    bench.core.heartbeat(at(50_000), "w", lease.lease_id);
    assert_eq!(bench.turn(at(109_999)), []);
    assert_eq!(bench.turn(at(110_000)), [], "lost here");
    assert_eq!(bench.turn(at(129_999)), []);
    assert_eq!(bench.turn(at(130_000)).len(), 1);
}

#[test]
fn a_report_that_comes_after_the_lease_counts_once() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let lease = bench.one(at(0));
    bench.turn(at(60_000));
    for now in [61_000, 62_000] {
        bench.report(
            at(now),
            &lease,
            page(&lease, &["http://a.test/2"]),
            started(0),
        );
        bench.turn(at(now));
        assert_eq!(bench.count(&id, UrlState::Captured), 1);
        assert_eq!(bench.tallies[&id].admitted, 2);
        assert_eq!(bench.tallies[&id].pages, 1);
    }
    assert_eq!(bench.turn(at(81_999)), [], "the late start holds the host");
    assert_eq!(bench.one(at(82_000)).tickets[0].url, "http://a.test/2");
}

#[test]
fn a_shorter_path_brings_a_url_back_that_was_too_deep() {
    let mut bench = Bench::new();
    let seeds = ["http://a.test/", "http://d.test/"];
    let id = bench.session(SessionKind::Crawl, &seeds, Some(1));
    let mut leases = bench.turn(at(0));
    leases.sort_by(|one, two| one.host.cmp(&two.host));
    let [a, d] = &leases[..] else {
        panic!("{leases:?}");
    };
    bench.report(at(1), a, page(a, &["http://b.test/"]), started(0));
    let b = bench.one(at(1));
    bench.report(at(2), &b, page(&b, &["http://c.test/"]), started(0));
    assert_eq!(bench.turn(at(2)), []);
    assert_eq!(bench.count(&id, UrlState::TooDeep), 1);
    bench.report(at(3), d, page(d, &["http://c.test/"]), started(0));
    let c = bench.one(at(3));
    assert_eq!(
        (c.tickets[0].url.as_str(), c.tickets[0].depth),
        ("http://c.test/", 1)
    );
    assert_eq!(bench.count(&id, UrlState::TooDeep), 0);
}

#[test]
fn a_host_whose_robots_txt_cannot_be_read_is_held() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let mut robots = v1::RobotsCopy {
        code: "timeout".into(),
        ..v1::RobotsCopy::default()
    };
    robots.set_verdict(v1::robots_copy::Verdict::Unreachable);
    let facts = v1::HostFacts {
        robots: Some(robots),
        ..v1::HostFacts::default()
    };
    let returned = Report::Returned(v1::Returned {
        code: "robots_unreachable".into(),
    });
    let mut now = 0;
    for wait in [15_000, 60_000, 180_000, 300_000] {
        let lease = bench.one(at(now));
        bench.report(at(now), &lease, returned.clone(), facts.clone());
        assert_eq!(bench.turn(at(now + wait - 1)), []);
        now += wait;
    }
    let lease = bench.one(at(now));
    bench.report(at(now), &lease, returned, facts);
    bench.turn(at(now));
    bench.turn(at(now + INTERVAL));
    assert_eq!(
        bench.count(&id, UrlState::Failed),
        1,
        "the fifth try is the last"
    );
    assert_eq!(bench.tallies[&id].reasons[0].code, "robots_unreachable");
}

#[test]
fn a_robots_txt_that_lies_elsewhere_is_read_under_that_hosts_lease() {
    let mut bench = Bench::new();
    bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let first = bench.one(at(0));
    let mut robots = v1::RobotsCopy {
        target: "http://b.test/robots.txt".into(),
        ..v1::RobotsCopy::default()
    };
    robots.set_verdict(v1::robots_copy::Verdict::Elsewhere);
    let facts = v1::HostFacts {
        robots: Some(robots),
        ..started(0)
    };
    let returned = Report::Returned(v1::Returned::default());
    bench.report(at(100), &first, returned, facts);
    assert_eq!(
        bench.turn(at(100)),
        [],
        "the first host waits out its interval"
    );
    let errand = bench.one(at(20_100));
    assert_eq!(errand.host, url("http://b.test/").host_key().to_string());
    let ticket = &errand.tickets[0];
    assert_eq!(ticket.kind(), TicketKind::Robots);
    assert_eq!(ticket.url, "http://b.test/robots.txt");
    let mut rules = v1::RobotsCopy {
        body: bytes::Bytes::from_static(b"User-agent: *"),
        max_age_millis: 1_000_000,
        ..v1::RobotsCopy::default()
    };
    rules.set_verdict(v1::robots_copy::Verdict::Rules);
    bench.report(at(20_200), &errand, Report::RobotsRead(rules), started(50));
    let again = bench.one(at(20_200));
    assert_eq!(again.tickets[0].url, first.tickets[0].url);
    assert_eq!(&again.robots.unwrap().body[..], b"User-agent: *");
}

#[test]
fn a_host_that_pushes_back_is_left_alone_longer_each_time() {
    let mut bench = Bench::new();
    bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let pushed = |retry_after_millis| v1::HostFacts {
        pushed_back: true,
        retry_after_millis,
        ..started(0)
    };
    let failed = Report::Failed(v1::Failed {
        code: "http_status".into(),
        status: 429,
        ..v1::Failed::default()
    });
    let lease = bench.one(at(0));
    bench.report(at(0), &lease, failed.clone(), pushed(0));
    assert_eq!(bench.turn(at(59_999)), []);
    // The jitter is at most fifteen percent.
    let lease = bench.one(at(69_000));
    bench.report(at(69_000), &lease, failed.clone(), pushed(0));
    assert_eq!(bench.turn(at(188_999)), [], "twice as long");
    let lease = bench.one(at(207_000));
    bench.report(
        at(207_000),
        &lease,
        page(&lease, &["http://a.test/2"]),
        pushed(33_000),
    );
    assert_eq!(bench.turn(at(239_999)), []);
    assert_eq!(
        bench.turn(at(240_000)).len(),
        1,
        "what the host asked for holds"
    );
}

#[test]
fn redirects_are_followed_in_a_row_and_not_in_a_circle() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let a = bench.one(at(0));
    bench.report(at(0), &a, redirect("http://b.test/"), started(0));
    let b = bench.one(at(0));
    assert_eq!(
        (b.tickets[0].url.as_str(), b.tickets[0].depth),
        ("http://b.test/", 0)
    );
    bench.report(at(0), &b, redirect("http://a.test/"), started(0));
    assert_eq!(bench.turn(at(0)), []);
    assert_eq!(bench.count(&id, UrlState::Redirected), 1);
    assert_eq!(bench.count(&id, UrlState::Failed), 1);
    assert_eq!(bench.tallies[&id].reasons[0].code, "redirect_loop");
}

#[test]
fn a_row_of_redirects_ends_after_ten() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Crawl, &["http://h0.test/"], None);
    for hop in 1..=11 {
        let lease = bench.one(at(0));
        let target = format!("http://h{hop}.test/");
        bench.report(at(0), &lease, redirect(&target), started(0));
    }
    assert_eq!(bench.turn(at(0)), []);
    assert_eq!(bench.count(&id, UrlState::Redirected), 10);
    assert_eq!(bench.tallies[&id].reasons[0].code, "too_many_redirects");
}

#[test]
fn a_map_reads_sitemaps_and_fetches_none_of_what_they_name() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Map, &["http://a.test/"], None);
    let seed = bench.one(at(0));
    let mut robots = v1::RobotsCopy {
        sitemaps: vec!["http://s.test/map.xml".into()],
        max_age_millis: 1_000_000,
        ..v1::RobotsCopy::default()
    };
    robots.set_verdict(v1::robots_copy::Verdict::AllowAll);
    let facts = v1::HostFacts {
        robots: Some(robots),
        ..started(0)
    };
    bench.report(at(0), &seed, page(&seed, &["http://a.test/linked"]), facts);
    let sitemap = bench.one(at(0));
    assert_eq!(sitemap.tickets[0].kind(), TicketKind::Sitemap);
    assert_eq!(sitemap.tickets[0].url, "http://s.test/map.xml");
    let found = |url: &str| v1::SitemapUrl {
        url: url.to_owned(),
        facts: None,
    };
    let read = v1::SitemapRead {
        urls: vec![found("http://a.test/linked"), found("http://a.test/listed")],
        status: 200,
        ..v1::SitemapRead::default()
    };
    bench.report(at(0), &sitemap, Report::SitemapRead(read), started(0));
    assert_eq!(
        bench.turn(at(1_000_000)),
        [],
        "nothing that was found is fetched"
    );
    assert_eq!(bench.count(&id, UrlState::TooDeep), 2);
    assert_eq!(bench.tallies[&id].pages, 1);
}

#[test]
fn a_shard_that_restarts_waits_for_open_leases_and_a_whole_interval() {
    let mut bench = Bench::new();
    let seeds = ["http://a.test/", "http://b.test/1", "http://b.test/2"];
    let id = bench.session(SessionKind::Crawl, &seeds, None);
    let mut leases = bench.turn(at(0));
    leases.sort_by(|one, two| one.host.cmp(&two.host));
    let [a, b] = &leases[..] else {
        panic!("{leases:?}");
    };
    bench.report(at(100), b, page(b, &[]), started(0));
    bench.turn(at(100));

    bench.restart(at(50_000));
    assert_eq!(
        bench.fleet.list()[0].open_leases,
        1,
        "only what is out is counted"
    );
    assert_eq!(bench.turn(at(50_000)), []);
    assert_eq!(
        bench.turn(at(69_999)),
        [],
        "no host before its interval has passed"
    );
    let next = bench.one(at(70_000));
    assert_eq!(next.host, b.host);
    bench.turn(at(79_999));
    assert!(bench.count(&id, UrlState::Leased) >= 1);
    let again = bench.one(at(80_000));
    assert_eq!(again.host, a.host, "the lost lease's end and the interval");
    assert_ne!(again.lease_id, a.lease_id);
}
