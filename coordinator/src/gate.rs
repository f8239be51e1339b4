//! What the parts of one session share: its spec, its phase, its permits and the board of its numbers.
//!
//! Permits keep promise 3: `pool + held + spent = max_pages` at every moment. The board keeps promise 4: a shard
//! posts its numbers after each commit and before it confirms foreign mail, so work that is under way always shows
//! as active at one shard at least, and "nothing active on the board" means that nothing is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use proto::v1::{self, SessionKind, SessionState, UrlState};
use proto::{CompiledScope, SessionId, Timestamp};

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Leases are given.
    Running,
    /// Nothing is leased until it is resumed.
    Paused,
    /// Nothing is leased any more; what is out comes back.
    Stopping(SessionState),
    /// What is not terminal becomes so.
    Settling(SessionState),
}

/// A session as shards see it.
pub(crate) struct SessionShared {
    pub(crate) id: SessionId,
    pub(crate) spec: v1::SessionSpec,
    pub(crate) scope: CompiledScope,
    seed_hosts: BTreeSet<String>,
    phase: Mutex<Phase>,
    permits: Mutex<Permits>,
    board: Mutex<BTreeMap<u16, Tally>>,
    is_announced: AtomicBool,
    /// No lease is given after this moment.
    deadline: Option<Timestamp>,
}

/// A session's numbers at one shard, as of its last commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counts: Vec<u64>,
    pub(crate) reasons: Vec<v1::ReasonCount>,
    pub(crate) admitted: u64,
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
    pub(crate) outbox: u64,
    pub(crate) hosts: u32,
    pub(crate) next_start: u64,
    pub(crate) is_settled: bool,
}

impl Tally {
    /// How many URLs are in a state.
    pub(crate) fn of(&self, state: UrlState) -> u64 {
        let at = usize::try_from(i32::from(state)).unwrap_or(0);
        self.counts.get(at).copied().unwrap_or(0)
    }

    /// Adds another shard's numbers.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counts
            .resize(self.counts.len().max(other.counts.len()), 0);
        for (sum, count) in self.counts.iter_mut().zip(&other.counts) {
            *sum += count;
        }
        for reason in &other.reasons {
            let same = |r: &&mut v1::ReasonCount| r.state == reason.state && r.code == reason.code;
            match self.reasons.iter_mut().find(same) {
                Some(sum) => sum.count += reason.count,
                None => self.reasons.push(reason.clone()),
            }
        }
        self.admitted += other.admitted;
        self.pages += other.pages;
        self.bytes += other.bytes;
        self.outbox += other.outbox;
        self.hosts += other.hosts;
        self.next_start = match (self.next_start, other.next_start) {
            (0, one) | (one, 0) => one,
            (one, two) => one.min(two),
        };
    }
}

impl SessionShared {
    /// Makes the shared part; `before` is how many pages and bytes shards captured before.
    pub(crate) fn new(
        id: SessionId,
        spec: v1::SessionSpec,
        scope: CompiledScope,
        phase: Phase,
        before: (u64, u64),
        started: Timestamp,
    ) -> Self {
        let (spent, bytes) = before;
        let budget = spec.budget.unwrap_or_default();
        let hosts = spec
            .seeds
            .iter()
            .filter_map(|seed| proto::HostKey::parse(seed).ok());
        Self {
            id,
            scope,
            seed_hosts: hosts.map(|host| host.to_string()).collect(),
            phase: Mutex::new(phase),
            permits: Mutex::new(Permits::new(
                budget.max_pages,
                spent,
                budget.max_bytes,
                bytes,
            )),
            board: Mutex::new(BTreeMap::new()),
            is_announced: AtomicBool::new(false),
            deadline: (budget.max_millis > 0)
                .then(|| started + Duration::from_millis(budget.max_millis)),
            spec,
        }
    }

    /// Where it is.
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    /// Moves it on.
    pub(crate) fn set_phase(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }

    /// The permits, locked for a moment.
    pub(crate) fn permits(&self) -> parking_lot::MutexGuard<'_, Permits> {
        self.permits.lock()
    }

    /// Posts a shard's numbers; answers whether the desk has to be told.
    pub(crate) fn post(&self, shard: u16, tally: Tally) -> bool {
        self.board.lock().insert(shard, tally);
        !self.is_announced.swap(true, Ordering::AcqRel)
    }

    /// The sum of the board, and whether every shard on it has settled.
    pub(crate) fn total(&self) -> (Tally, bool) {
        self.is_announced.store(false, Ordering::Release);
        let mut sum = Tally::default();
        let board = self.board.lock();
        for tally in board.values() {
            sum.add(tally);
        }
        let is_settled = board.values().all(|tally| tally.is_settled);
        (sum, is_settled)
    }

    /// The shards that take part.
    pub(crate) fn participants(&self) -> Vec<u16> {
        self.board.lock().keys().copied().collect()
    }

    /// The kind.
    pub(crate) fn kind(&self) -> SessionKind {
        self.spec.kind()
    }

    /// Whether its time is over.
    pub(crate) fn is_past_deadline(&self, now: Timestamp) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Whether a person waits for each page.
    pub(crate) fn is_interactive(&self) -> bool {
        matches!(self.kind(), SessionKind::Scrape | SessionKind::Batch)
    }

    /// Whether links of pages are followed or listed.
    pub(crate) fn follows_links(&self) -> bool {
        match self.kind() {
            SessionKind::Crawl | SessionKind::Map => self.spec.sitemap() != v1::SitemapUse::Only,
            SessionKind::Scrape | SessionKind::Batch | SessionKind::Unspecified => false,
        }
    }

    /// Whether sitemaps of the seeds' hosts are read.
    pub(crate) fn reads_sitemaps(&self) -> bool {
        let asked = matches!(
            self.spec.sitemap(),
            v1::SitemapUse::Include | v1::SitemapUse::Only
        );
        asked || self.kind() == SessionKind::Map
    }

    /// Whether two pages with one content are one page.
    pub(crate) fn drops_duplicates(&self) -> bool {
        !self.spec.keep_duplicates && !self.is_interactive()
    }

    /// Whether a seed named this host.
    pub(crate) fn is_seed_host(&self, host: &str) -> bool {
        self.seed_hosts.contains(host)
    }

    /// How deep pages are fetched.
    pub(crate) fn max_depth(&self) -> Option<u32> {
        match self.kind() {
            SessionKind::Map => Some(0),
            SessionKind::Crawl => self
                .spec
                .budget
                .as_ref()
                .and_then(|budget| budget.max_depth),
            SessionKind::Scrape | SessionKind::Batch | SessionKind::Unspecified => None,
        }
    }
}

/// The right to deliver pages: each is in the pool, held by a ticket, or spent.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    max: Option<u64>,
    max_bytes: Option<u64>,
    held: BTreeMap<u16, u64>,
    held_sum: u64,
    spent: BTreeMap<u16, u64>,
    spent_before: u64,
    bytes: u64,
    parked: BTreeSet<u16>,
    leases: u64,
}

impl Permits {
    fn new(max: Option<u64>, spent: u64, max_bytes: u64, bytes: u64) -> Self {
        Self {
            max,
            max_bytes: (max_bytes > 0).then_some(max_bytes),
            spent_before: spent,
            bytes,
            ..Self::default()
        }
    }

    /// How many are spent.
    pub(crate) fn spent(&self) -> u64 {
        self.spent_before + self.spent.values().sum::<u64>()
    }

    /// How many may still be taken.
    pub(crate) fn pool(&self) -> u64 {
        match self.max {
            None => u64::MAX,
            Some(max) => max.saturating_sub(self.spent() + self.held_sum),
        }
    }

    /// Takes one for a ticket of `shard` whose body may have `reserve` bytes; without one the shard is told later.
    pub(crate) fn take(&mut self, shard: u16, reserve: u64) -> bool {
        let reserved = (self.held_sum + 1).saturating_mul(reserve);
        let fits = self
            .max_bytes
            .is_none_or(|max| self.bytes.saturating_add(reserved) <= max);
        if self.pool() == 0 || !fits {
            self.parked.insert(shard);
            return false;
        }
        *self.held.entry(shard).or_default() += 1;
        self.held_sum += 1;
        true
    }

    /// Gives one back; answers which shards wait for it.
    pub(crate) fn give_back(&mut self, shard: u16) -> BTreeSet<u16> {
        self.release(shard);
        std::mem::take(&mut self.parked)
    }

    /// Turns one into a delivered page.
    pub(crate) fn spend(&mut self, shard: u16, bytes: u64) -> BTreeSet<u16> {
        self.release(shard);
        *self.spent.entry(shard).or_default() += 1;
        self.bytes += bytes;
        debug_assert!(
            self.max
                .is_none_or(|max| self.spent() + self.held_sum <= max)
        );
        if self.max_bytes.is_some() {
            // A body smaller than its reservation leaves room for another.
            return std::mem::take(&mut self.parked);
        }
        BTreeSet::new()
    }

    fn release(&mut self, shard: u16) {
        let held = self.held.entry(shard).or_default();
        debug_assert!(*held > 0, "a permit is given back once");
        *held = held.saturating_sub(1);
        self.held_sum = self.held_sum.saturating_sub(1);
    }

    /// A shard starts anew from the store: what it held goes back, what it spent is what the store says.
    pub(crate) fn restart(&mut self, shard: u16) {
        let held = self.held.remove(&shard).unwrap_or(0);
        self.held_sum = self.held_sum.saturating_sub(held);
    }

    /// Whether no page can be delivered any more by the page budget.
    pub(crate) fn is_page_limit(&self) -> bool {
        self.pool() == 0 && self.held_sum == 0
    }

    /// Whether the byte budget leaves no room for a body of `reserve` bytes.
    pub(crate) fn is_byte_limit(&self, reserve: u64) -> bool {
        self.held_sum == 0
            && self
                .max_bytes
                .is_some_and(|max| self.bytes.saturating_add(reserve) > max)
    }

    /// Opens a lease for the session if its concurrency allows.
    pub(crate) fn open_lease(&mut self, shard: u16, concurrency: u32) -> bool {
        if concurrency > 0 && self.leases >= u64::from(concurrency) {
            self.parked.insert(shard);
            return false;
        }
        self.leases += 1;
        true
    }

    /// Closes one that was opened for nothing.
    pub(crate) fn cancel_lease(&mut self) {
        self.leases = self.leases.saturating_sub(1);
    }

    /// Closes one; answers which shards wait.
    pub(crate) fn close_lease(&mut self) -> BTreeSet<u16> {
        self.leases = self.leases.saturating_sub(1);
        std::mem::take(&mut self.parked)
    }
}

/// The running sessions of this coordinator.
#[derive(Clone, Default)]
pub(crate) struct Directory(Arc<RwLock<BTreeMap<SessionId, Arc<SessionShared>>>>);

impl Directory {
    /// One of them.
    pub(crate) fn get(&self, id: &SessionId) -> Option<Arc<SessionShared>> {
        self.0.read().get(id).cloned()
    }

    /// Adds one.
    pub(crate) fn insert(&self, session: Arc<SessionShared>) {
        self.0.write().insert(session.id.clone(), session);
    }

    /// Removes one.
    pub(crate) fn remove(&self, id: &SessionId) {
        self.0.write().remove(id);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<SessionShared>> {
        self.0.read().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Permits;

    #[test]
    fn permits_are_never_more_than_the_budget() {
        let mut permits = Permits::new(Some(2), 0, 0, 0);
        assert!(permits.take(0, 0) && permits.take(1, 0));
        assert!(!permits.take(2, 0), "both are held");
        assert_eq!(permits.give_back(0).into_iter().collect::<Vec<_>>(), [2]);
        assert!(permits.take(2, 0));
        permits.spend(2, 10);
        permits.spend(1, 10);
        assert!(permits.is_page_limit());
        assert_eq!(permits.spent(), 2);
    }

    #[test]
    fn bytes_are_reserved_before_they_are_fetched() {
        let mut permits = Permits::new(None, 0, 100, 0);
        assert!(permits.take(0, 60));
        assert!(!permits.take(0, 60), "two bodies might have 120 bytes");
        permits.spend(0, 20);
        assert!(permits.take(0, 60));
        permits.spend(0, 60);
        assert!(permits.is_byte_limit(60));
    }
}
