//! What must hold: at every step, and of every session that has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::v1::{self, SessionKind, SessionState, UrlState};
use proto::{Code, CompiledScope, CrawlUrl, DomainKey, HostKey, SessionId, Timestamp};

use super::sessions::unfinished;
use super::web::{Answer, Web};
use super::world::World;
use crate::keys;
use crate::records::{CountersRow, UrlRow};
use crate::shard::core::LeaseHere;
use crate::slice::decode;
use crate::store::{Batch, Store as _, Table, Write};

/// How long an order takes from the desk to the last worker, with the desk's own tick.
const ORDERED_WITHIN: Duration = Duration::from_millis(500);

/// The visitor log of the web.
#[derive(Default)]
pub(super) struct Visits {
    all: Vec<Visit>,
    last: BTreeMap<String, usize>,
}

struct Visit {
    start: Timestamp,
    end: Option<Timestamp>,
}

impl Visits {
    /// A request leaves for a host: none is in flight there, and the last one began an interval ago.
    pub(super) fn start(&mut self, host: &str, now: Timestamp, interval: Duration) -> usize {
        if let Some(last) = self.last.get(host) {
            let last = &self.all[*last];
            let gap = now.since(last.start);
            assert!(gap >= interval, "{host}: {gap:?} between two starts");
            assert!(last.end.is_some(), "{host}: two requests in flight");
        }
        self.all.push(Visit {
            start: now,
            end: None,
        });
        self.last.insert(host.to_owned(), self.all.len() - 1);
        self.all.len() - 1
    }

    pub(super) fn end(&mut self, visit: usize, now: Timestamp) {
        self.all[visit].end = Some(now);
    }
}

/// The counts of a session add up to what it admitted, in every batch.
pub(super) fn batch_adds_up(batch: &Batch) {
    for write in batch.writes() {
        if let Write::Put(Table::Counters, key, value) = write
            && key.len() == 18
        {
            let row: CountersRow = decode(Table::Counters, value).unwrap();
            assert_eq!(row.counts.iter().sum::<u64>(), row.admitted, "{row:?}");
        }
    }
}

/// What a perfect crawl of a session finds.
pub(super) struct Expected {
    reach: BTreeMap<String, u32>,
    kinds: BTreeMap<String, Kind>,
    keeps_all: bool,
    /// A batch tells the first failure, so where something fails now and then its end is not known before.
    is_vague: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Page(u64),
    /// A page of its own that may have failed too often on the way.
    Perhaps,
    Redirected,
    Failed,
    Refused,
}

impl Expected {
    pub(super) fn of(web: &Web, spec: &v1::SessionSpec, scope: &CompiledScope) -> Self {
        let reach = web.reach(spec, scope);
        let max = spec.budget.as_ref().and_then(|budget| budget.max_depth);
        let max = max.filter(|_| spec.kind() == SessionKind::Crawl);
        let is_batch = spec.kind() == SessionKind::Batch;
        let mut kinds = BTreeMap::new();
        for (url, depth) in &reach {
            let is_free = spec.seeds.contains(url) || is_batch;
            let is_outside = !is_free && !scope.allows(&CrawlUrl::parse(url).unwrap());
            let kind = match &web.answers[url] {
                _ if is_outside || max.is_some_and(|max| *depth > max) => Kind::Refused,
                _ if web.site(url).is_dead => Kind::Failed,
                _ if is_batch && web.site(url).robots_failures > 0 => Kind::Perhaps,
                Answer::Page { content, .. } => Kind::Page(*content),
                Answer::Redirect(_) => Kind::Redirected,
                Answer::Gone => Kind::Failed,
                Answer::Flaky { .. } | Answer::Busy { .. } => Kind::Perhaps,
                Answer::Forbidden => Kind::Refused,
            };
            kinds.insert(url.clone(), kind);
        }
        let keeps_all = spec.keep_duplicates || spec.kind() == SessionKind::Batch;
        Self {
            is_vague: is_batch && kinds.values().any(|kind| *kind == Kind::Perhaps),
            reach,
            kinds,
            keeps_all,
        }
    }

    fn least_pages(&self) -> u64 {
        let pages = self
            .kinds
            .values()
            .filter(|kind| matches!(kind, Kind::Page(_)));
        if self.keeps_all {
            pages.count() as u64
        } else {
            pages.collect::<BTreeSet<_>>().len() as u64
        }
    }

    pub(super) fn most_pages(&self) -> u64 {
        let perhaps = self.kinds.values().filter(|kind| **kind == Kind::Perhaps);
        self.least_pages() + perhaps.count() as u64
    }
}

impl World {
    /// Where nothing is cut off and nobody falls, a session that was told to halt, or is past its time, asks for
    /// nothing more once the order has been everywhere.
    pub(super) fn check_start(&self, ticket: &v1::Ticket) {
        let Ok(id) = ticket.session_id.parse::<SessionId>() else {
            return;
        };
        let Some(record) = self
            .sessions
            .records
            .get(&id)
            .filter(|_| self.setup.is_orderly)
        else {
            return;
        };
        let millis = record.spec.budget.unwrap_or_default().max_millis;
        let ends = (millis > 0).then(|| record.started + Duration::from_millis(millis));
        for last in [record.halted, ends].into_iter().flatten() {
            let late = self.now.since(last);
            assert!(
                late <= ORDERED_WITHIN,
                "{} began {late:?} too late",
                ticket.url
            );
        }
    }

    /// What must hold between any two events.
    pub(super) fn check_step(&self) {
        if !self.is_up {
            return;
        }
        let is_whole = self.shards.iter().all(|here| here.core.is_some());
        for (id, job) in &self.sessions.jobs {
            let permits = job.shared.permits();
            let max = job.shared.spec.budget.unwrap_or_default().max_pages;
            let (held, spent) = (permits.held(), permits.spent());
            assert!(
                max.is_none_or(|max| held + spent <= max),
                "{held} held, {spent} spent, {max:?}"
            );
            if !is_whole {
                continue;
            }
            let cores = self.shards.iter().filter_map(|here| here.core.as_ref());
            let (mut out, mut pages) = (0, 0);
            for core in cores {
                let tickets = core
                    .leases
                    .values()
                    .flat_map(|lease| lease.tickets.values());
                out += tickets
                    .filter(|t| t.session.as_ref() == Some(id) && t.permit.is_some())
                    .count();
                out += core
                    .claiming
                    .iter()
                    .filter(|(session, _)| session == id)
                    .count();
                pages += core.sessions.get(id).map_or(0, |here| here.counters.pages);
            }
            assert_eq!(
                held, out as u64,
                "permits held without a ticket, or tickets without a permit"
            );
            assert_eq!(spent, pages, "permits spent and pages delivered");
        }
        for core in self.shards.iter().filter_map(|here| here.core.as_ref()) {
            let grace = Duration::from_secs(1);
            let is_late = |lease: &&LeaseHere| lease.expires.max(core.boot) + grace < self.now;
            let late = core.leases.values().find(is_late);
            assert!(late.is_none(), "a lease is held beyond its end");
        }
    }

    fn rows(&self, id: &SessionId) -> BTreeMap<String, UrlRow> {
        let mut rows = BTreeMap::new();
        for shard in 0..self.setup.shards {
            let prefix = keys::of_session(shard, id);
            for (_, value) in self
                .store
                .scan(Table::Urls, &prefix, None, usize::MAX)
                .unwrap()
            {
                let row: UrlRow = decode(Table::Urls, &value).unwrap();
                let url = row.entry.clone().unwrap().url;
                assert!(rows.insert(url, row).is_none(), "one row a URL");
            }
        }
        rows
    }

    /// A session has ended: its board, its rows and the web agree.
    pub(super) fn check_end(&self, id: &SessionId) {
        let record = &self.sessions.records[id];
        let (state, sum) = record.end.as_ref().unwrap();
        let budget = record.spec.budget.unwrap_or_default();
        assert_eq!(unfinished(sum), 0);
        assert_eq!(sum.counts.iter().sum::<u64>(), sum.admitted, "{sum:?}");
        let rows = self.rows(id);
        let mut counts: BTreeMap<UrlState, u64> = BTreeMap::new();
        for row in rows.values() {
            *counts
                .entry(row.entry.as_ref().unwrap().state())
                .or_default() += 1;
        }
        for (state, count) in &counts {
            assert_eq!(sum.of(*state), *count, "{state:?}");
        }
        assert_eq!(sum.admitted, rows.len() as u64);
        assert_eq!(sum.pages, sum.of(UrlState::Captured), "every page once");
        assert!(budget.max_pages.is_none_or(|max| sum.pages <= max));
        assert!(
            budget.max_bytes == 0 || sum.bytes <= budget.max_bytes,
            "{} bytes",
            sum.bytes
        );
        let manifest = (0..self.setup.shards).map(|shard| {
            let prefix = keys::of_session(shard, id);
            self.store
                .scan(Table::Manifest, &prefix, None, usize::MAX)
                .unwrap()
                .len() as u64
        });
        assert_eq!(
            manifest.sum::<u64>(),
            sum.pages,
            "the manifest has every page once"
        );

        let expected = Expected::of(&self.web, &record.spec, &record.scope);
        self.check_depths(&expected, &rows);
        self.check_domains(&rows, budget);
        if record
            .spec
            .strategy
            .as_ref()
            .is_some_and(|strategy| strategy.order() == v1::WalkOrder::Strict)
        {
            check_prefix(&rows);
        }
        let was_capped =
            |row: &UrlRow| row.entry.as_ref().unwrap().code == Code::DomainLimit.word();
        match state {
            SessionState::Completed if expected.is_vague || rows.values().any(was_capped) => {}
            SessionState::Completed => self.check_complete(&expected, &rows, sum.pages, budget),
            SessionState::PageLimit => {
                assert_eq!(
                    Some(sum.pages),
                    budget.max_pages,
                    "the page limit is reached"
                );
            }
            SessionState::ByteLimit => {
                assert!(sum.bytes + 1_000.min(budget.max_bytes) > budget.max_bytes);
            }
            SessionState::TimeLimit => assert!(budget.max_millis > 0),
            SessionState::Cancelled => assert!(record.halted.is_some()),
            SessionState::Unspecified
            | SessionState::Running
            | SessionState::Paused
            | SessionState::CreditLimit
            | SessionState::Failed => panic!("a session ended as {state:?}"),
        }
    }

    /// Every URL is of the session, and no page is nearer than it can be.
    fn check_depths(&self, expected: &Expected, rows: &BTreeMap<String, UrlRow>) {
        for (url, row) in rows {
            let entry = row.entry.as_ref().unwrap();
            let depth = expected.reach.get(url);
            let depth = depth.unwrap_or_else(|| panic!("{url} is not of this session"));
            if let Some(page) = &entry.page {
                assert_eq!(
                    page.depth, entry.depth,
                    "{url}: the page says what the ledger says"
                );
            }
            if matches!(entry.state(), UrlState::Captured) && self.is_alone(url) {
                assert!(
                    entry.depth >= *depth,
                    "{url} at {} and not {depth}",
                    entry.depth
                );
            }
        }
    }

    /// No domain delivers more than it may, and what was cut at one had delivered all that.
    fn check_domains(&self, rows: &BTreeMap<String, UrlRow>, budget: v1::Budget) {
        let cap = budget.max_pages_per_domain;
        let mut pages: BTreeMap<DomainKey, u64> = BTreeMap::new();
        let mut capped = BTreeSet::new();
        for (url, row) in rows {
            let entry = row.entry.as_ref().unwrap();
            let domain = CrawlUrl::parse(url).unwrap().domain();
            if entry.code == Code::DomainLimit.word() {
                capped.insert(domain.clone());
            }
            *pages.entry(domain).or_default() += u64::from(entry.state() == UrlState::Captured);
        }
        assert!(cap > 0 || capped.is_empty());
        for (domain, pages) in pages {
            assert!(cap == 0 || pages <= cap, "{pages} pages of {domain:?}");
            assert!(
                !capped.contains(&domain) || pages == cap,
                "{domain:?} was cut at {pages}"
            );
        }
    }

    /// Whether no other URL has the same content, whose shorter path counts for both.
    fn is_alone(&self, url: &str) -> bool {
        !matches!(self.web.answers[url], Answer::Page { content: 0..4, .. })
    }

    fn check_complete(
        &self,
        expected: &Expected,
        rows: &BTreeMap<String, UrlRow>,
        pages: u64,
        budget: v1::Budget,
    ) {
        let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
        for (url, depth) in &expected.reach {
            let row = rows.get(url).unwrap_or_else(|| panic!("{url} is lost"));
            let entry = row.entry.as_ref().unwrap();
            let state = entry.state();
            let is_as_expected = match &expected.kinds[url] {
                Kind::Page(content) => {
                    *kept.entry(*content).or_default() += u64::from(state == UrlState::Captured);
                    state == UrlState::Captured
                        || (state == UrlState::Duplicate && !expected.keeps_all)
                }
                Kind::Perhaps => {
                    state == UrlState::Captured
                        || (state == UrlState::Failed && entry.attempts >= 3)
                }
                Kind::Redirected => state == UrlState::Redirected || entry.code == "redirect_loop",
                Kind::Failed => state == UrlState::Failed,
                Kind::Refused => state == UrlState::Refused,
            };
            assert!(
                is_as_expected,
                "{url} is {:?} and ended as {state:?} ({})",
                expected.kinds[url], entry.code
            );
            if matches!(expected.kinds[url], Kind::Page(_) | Kind::Perhaps) && self.is_alone(url) {
                assert_eq!(entry.depth, *depth, "{url}: the shortest distance");
            }
        }
        assert!(
            expected.keeps_all || kept.values().all(|count| *count == 1),
            "{kept:?}"
        );
        let range = expected.least_pages()..=expected.most_pages();
        assert!(range.contains(&pages), "{pages} pages, not {range:?}");
        assert!(
            budget
                .max_pages
                .is_none_or(|max| expected.least_pages() <= max)
        );
    }

    /// What stands still, for people.
    pub(super) fn standstill(&self) -> String {
        let jobs = self.sessions.jobs.iter().map(|(id, job)| {
            let (phase, seeding) = (job.shared.phase(), job.seeding.len());
            let total = job.shared.total();
            format!(
                "\n  session {}: {phase:?}, {seeding} to seed, {total:?}",
                id.as_bytes()[0]
            )
        });
        let shards = self.shards.iter().map(|here| match &here.core {
            None => "\n  a shard is away".to_owned(),
            Some(core) => {
                let leases: Vec<_> = core.leases.values().map(|lease| &lease.row).collect();
                format!(
                    "\n  shard {}: leases {leases:?}, due {:?}",
                    core.shard, core.due
                )
            }
        });
        jobs.chain(shards).collect()
    }

    /// Nothing is left of what has ended: no lease, no slot, no queue, no mail.
    pub(super) fn check_rest(&self) {
        for table in [Table::Queue, Table::Leases, Table::Outbox] {
            let left = self.store.scan(table, &[], None, 10).unwrap();
            assert!(left.is_empty(), "{table:?} has rows: {left:?}");
        }
        for here in &self.shards {
            let core = here.core.as_ref().unwrap();
            assert!(core.leases.is_empty() && core.domains.is_empty());
            assert!(core.claiming.is_empty() && core.sessions.is_empty());
            let hosts: Vec<&HostKey> = core.hosts.keys().collect();
            assert!(
                hosts.is_empty(),
                "hosts without work are forgotten: {hosts:?}"
            );
        }
        let open: u32 = self
            .fleet
            .list()
            .iter()
            .map(|worker| worker.open_leases)
            .sum();
        assert_eq!(open, 0, "every slot is free");
    }
}

/// In the strict order nothing is delivered while something nearer waits.
fn check_prefix(rows: &BTreeMap<String, UrlRow>) {
    let entries = rows.values().map(|row| row.entry.as_ref().unwrap());
    let depths = |of: UrlState| entries.clone().filter(move |entry| entry.state() == of);
    let last = depths(UrlState::Captured).map(|entry| entry.depth).max();
    let limited = depths(UrlState::OverBudget).filter(|entry| entry.code.is_empty());
    let next = limited.map(|entry| entry.depth).min();
    assert!(
        last.zip(next).is_none_or(|(last, next)| last <= next),
        "{last:?} before {next:?}"
    );
}
