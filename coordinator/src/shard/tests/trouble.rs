//! Troubles that the simulation met once, each as a literal story.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto::v1::{self, SessionKind, SessionState, UrlState, outcome::Result as Report};
use proto::{CompiledScope, CrawlUrl, SessionId};
use tokio::sync::watch;

use super::{Bench, at, page, started};
use crate::desk::job::{Job, Step};
use crate::gate::{Phase, SessionShared, Tally};

fn returned(code: &str) -> Report {
    Report::Returned(v1::Returned { code: code.into() })
}

#[test]
fn a_ticket_that_comes_back_unbegun_does_not_free_the_host_before_its_worker_does() {
    let mut bench = Bench::new();
    let seeds = ["http://a.test/1", "http://a.test/2"];
    bench.session(SessionKind::Crawl, &seeds, None);
    // robots.txt is in flight when the ticket is revoked.
    let lease = bench.one(at(0));
    bench.tell(at(100), &lease, returned("revoked"), started(100));
    assert_eq!(
        bench.turn(at(30_000)),
        [],
        "the request may still be in flight"
    );
    bench
        .core
        .lease_ended(at(31_000), "w", lease.lease_id)
        .unwrap();
    assert_eq!(bench.turn(at(31_000)).len(), 1);
}

#[test]
fn a_cancelled_session_ends_though_its_last_url_is_leased_and_its_shard_fell() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    bench.one(at(0));
    bench.restart(at(1_000));
    let shared = bench.directory.get(&id).unwrap();
    shared.set_phase(Phase::Settling(SessionState::Cancelled));
    bench.core.settle(&id).unwrap();
    bench.turn(at(1_000));
    assert_eq!(bench.count(&id, UrlState::Cancelled), 1);
    assert_eq!(bench.count(&id, UrlState::Queued), 0);
    assert!(bench.tallies[&id].is_settled);
}

#[test]
fn a_duplicate_on_a_shorter_path_brings_the_kept_page_and_its_links_nearer() {
    let mut bench = Bench::new();
    let seeds = ["http://a.test/", "http://d.test/"];
    let id = bench.session(SessionKind::Crawl, &seeds, Some(2));
    let mut leases = bench.turn(at(0));
    leases.sort_by(|one, two| one.host.cmp(&two.host));
    let [a, d] = &leases[..] else {
        panic!("{leases:?}");
    };
    let same = |lease: &v1::Lease| {
        let Report::Captured(mut captured) = page(lease, &["http://e.test/"]) else {
            panic!("a page");
        };
        captured.content_digest = vec![7; 32].into();
        Report::Captured(captured)
    };
    bench.report(at(1), a, page(a, &["http://b.test/"]), started(0));
    let b = bench.one(at(1));
    bench.report(at(2), &b, page(&b, &["http://c.test/"]), started(0));
    let c = bench.one(at(2));
    bench.report(at(3), &c, same(&c), started(0));
    bench.turn(at(3));
    assert_eq!(
        bench.count(&id, UrlState::TooDeep),
        1,
        "behind the third page"
    );
    bench.report(at(4), d, same(d), started(0));
    let e = bench.one(at(4));
    assert_eq!(e.tickets[0].url, "http://e.test/");
    assert_eq!(e.tickets[0].depth, 1, "behind a seed");
    assert_eq!(bench.count(&id, UrlState::Duplicate), 1);
    let kept = bench.entry(&id, "http://c.test/");
    assert_eq!((kept.depth, kept.page.unwrap().depth), (0, 0));
}

#[test]
fn a_session_that_goes_on_is_not_over_before_every_shard_has_told_what_it_holds() {
    let seed = CrawlUrl::parse("http://a.test/").unwrap();
    let scope = CompiledScope::compile(&v1::Scope::default(), std::slice::from_ref(&seed)).unwrap();
    let id = SessionId::from_bytes([1; 16]);
    let before = BTreeMap::from([(0, (3, 30)), (1, (0, 0))]);
    let spec = v1::SessionSpec::default();
    let shared = SessionShared::new(id, spec, scope, Phase::Running, &before, at(0));
    let (news, _) = watch::channel(Arc::default());
    let job = Job::new(
        Arc::new(shared),
        v1::SessionStatus::default(),
        news,
        2,
        at(0),
    );
    let mut done = Tally {
        counts: vec![0; 14],
        ..Tally::default()
    };
    job.shared.post(0, done.clone());
    assert_eq!(
        job.next(&job.shared.total(), at(1)),
        Step::Stay,
        "the other shard is silent"
    );
    done.counts[1] = 1;
    job.shared.post(1, done.clone());
    assert_eq!(
        job.next(&job.shared.total(), at(2)),
        Step::Stay,
        "it has work"
    );
    done.counts[1] = 0;
    job.shared.post(1, done);
    let end = Phase::Settling(SessionState::Completed);
    assert_eq!(job.next(&job.shared.total(), at(3)), Step::Enter(end));
}

#[test]
fn a_session_that_fell_while_it_was_settled_at_its_limit_ends_at_that_limit() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let spec = v1::SessionSpec {
        budget: Some(v1::Budget {
            max_pages: Some(1),
            ..v1::Budget::default()
        }),
        ..v1::SessionSpec::default()
    };
    let scope = bench.directory.get(&id).unwrap().scope.clone();
    let before = BTreeMap::from([(0, (1, 10))]);
    let shared = SessionShared::new(id, spec, scope, Phase::Running, &before, at(0));
    let (news, _) = watch::channel(Arc::default());
    let job = Job::new(
        Arc::new(shared),
        v1::SessionStatus::default(),
        news,
        1,
        at(0),
    );
    let mut settled = Tally {
        counts: vec![0; 14],
        ..Tally::default()
    };
    settled.counts[usize::try_from(i32::from(UrlState::Captured)).unwrap()] = 1;
    settled.counts[usize::try_from(i32::from(UrlState::OverBudget)).unwrap()] = 5;
    job.shared.post(0, settled);
    let end = Phase::Settling(SessionState::PageLimit);
    assert_eq!(job.next(&job.shared.total(), at(1)), Step::Enter(end));
}

#[test]
fn numbers_go_on_behind_those_of_an_earlier_run_however_many_it_gave() {
    let mut bench = Bench::new();
    bench.session(
        SessionKind::Crawl,
        &["http://a.test/", "http://b.test/"],
        None,
    );
    let first: Vec<u64> = bench
        .turn(at(0))
        .iter()
        .map(|lease| lease.lease_id)
        .collect();
    // More than 64 a millisecond, as mail may take.
    let last = (0..200_000).map(|_| bench.core.number()).max().unwrap();
    bench.turn(at(1));
    bench.restart(at(10));
    let next = bench.core.number();
    assert!(next > last && first.iter().all(|lease| next > *lease));
}

#[test]
fn a_page_without_a_permit_is_fetched_again_when_there_is_one() {
    let mut bench = Bench::new();
    let seeds = ["http://a.test/", "http://b.test/"];
    let id = bench.session_of(
        SessionKind::Crawl,
        &seeds,
        v1::Budget {
            max_pages: Some(1),
            ..v1::Budget::default()
        },
    );
    let lease = bench.one(at(0));
    // Another shard took the permit that this ticket had given back before its shard fell.
    let shared = bench.directory.get(&id).unwrap();
    bench.restart(at(100));
    let held = bench
        .core
        .leases
        .values_mut()
        .flat_map(|lease| lease.tickets.values_mut());
    for ticket in held {
        ticket.permit = None;
    }
    shared.permits().give_back(0);
    assert!(shared.permits().take(7, 0));
    bench.report(at(200), &lease, page(&lease, &[]), started(0));
    bench.turn(at(200));
    assert_eq!(bench.count(&id, UrlState::OverBudget), 0);
    assert_eq!(bench.count(&id, UrlState::Queued), 2);
    shared.permits().give_back(7);
    bench.core.look_again();
    assert_eq!(bench.turn(at(60_000)).len(), 1, "one permit, one lease");
}

#[test]
fn a_late_page_that_does_not_fit_into_the_byte_budget_is_not_taken() {
    let mut bench = Bench::new();
    let seeds = ["http://a.test/", "http://b.test/"];
    let id = bench.session_of(
        SessionKind::Crawl,
        &seeds,
        v1::Budget {
            max_bytes: 100,
            ..v1::Budget::default()
        },
    );
    let first = bench.one(at(0));
    bench.turn(at(60_000));
    // The lease is over; the other host's page has the room meanwhile.
    bench.core.look_again();
    let second = bench.one(at(60_001));
    let big = |lease: &v1::Lease| {
        let Report::Captured(mut captured) = page(lease, &[]) else {
            panic!("a page");
        };
        captured.page.as_mut().unwrap().size = 90;
        Report::Captured(captured)
    };
    bench.report(at(60_002), &second, big(&second), started(0));
    bench.report(at(60_003), &first, big(&first), started(0));
    bench.turn(at(60_003));
    assert_eq!(
        (bench.tallies[&id].bytes, bench.tallies[&id].pages),
        (90, 1)
    );
}

#[test]
fn a_shard_that_comes_back_wakes_those_that_wait_for_what_it_may_have_freed() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    bench.turn(at(0));
    bench.directory.get(&id).unwrap().post(5, Tally::default());
    bench.restart(at(100));
    let effects = bench.core.finish().unwrap();
    let poked = effects.iter().any(|effect| match effect {
        super::Effect::Poke { shards } => shards.contains(&5),
        _ => false,
    });
    assert!(poked, "{effects:?}");
}

#[test]
fn a_halted_session_s_tickets_are_asked_back_until_they_are() {
    let mut bench = Bench::new();
    let id = bench.session(SessionKind::Crawl, &["http://a.test/"], None);
    let lease = bench.one(at(0));
    // The shard was not at home when the session paused.
    bench.directory.get(&id).unwrap().set_phase(Phase::Paused);
    bench.core.heartbeat(at(1_000), "w", lease.lease_id);
    let effects = bench.core.finish().unwrap();
    let is_asked = effects.iter().any(|effect| match effect {
        super::Effect::Send { order, .. } => {
            matches!(order.order, Some(v1::order::Order::Revoke(_)))
        }
        _ => false,
    });
    assert!(is_asked, "{effects:?}");
}
