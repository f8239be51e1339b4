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
use proto::{CompiledScope, SessionId, Timestamp, UrlRules};

use crate::order::Walk;

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
    pub(crate) rules: UrlRules,
    pub(crate) walk: Walk,
    /// The session whose pages it goes back to.
    pub(crate) revisits: Option<SessionId>,
    pub(crate) started: Timestamp,
    seed_hosts: BTreeSet<String>,
    phase: Mutex<Phase>,
    permits: Mutex<Permits>,
    board: Mutex<Board>,
    /// Where in the order the one URL is that may go out, in a session with the strict order.
    turn: Mutex<Option<Vec<u8>>>,
    is_announced: AtomicBool,
    /// No lease is given after this moment.
    deadline: Option<Timestamp>,
}

/// The numbers of every shard that takes part.
#[derive(Debug, Default)]
struct Board {
    posted: BTreeMap<u16, Tally>,
    /// Shards that took part before this process began and have not posted since: what they hold is not known yet.
    silent: BTreeSet<u16>,
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
    /// Where in the order the first URL is that waits, in a session with the strict order.
    pub(crate) head: Option<Vec<u8>>,
}

/// What a session's board says in all.
#[derive(Debug)]
pub(crate) struct Total {
    pub(crate) sum: Tally,
    /// The first of the heads, and its shard.
    pub(crate) head: Option<(Vec<u8>, u16)>,
    /// Every shard that takes part is in the sum.
    pub(crate) is_whole: bool,
    /// Every shard that posted has settled.
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
    /// Makes the shared part; `before` is how many pages and bytes each shard captured before.
    pub(crate) fn new(
        id: SessionId,
        spec: v1::SessionSpec,
        scope: CompiledScope,
        phase: Phase,
        before: &BTreeMap<u16, (u64, u64)>,
        started: Timestamp,
    ) -> Self {
        let budget = spec.budget.unwrap_or_default();
        let revisits = spec.revisit.as_ref();
        let revisits = revisits.and_then(|revisit| revisit.session_id.parse().ok());
        let hosts = spec
            .seeds
            .iter()
            .filter_map(|seed| proto::HostKey::parse(seed).ok());
        Self {
            id,
            scope,
            revisits,
            started,
            walk: Walk::of(&spec, started),
            turn: Mutex::new(None),
            rules: UrlRules::of_session(&spec.url_rules.unwrap_or_default(), started),
            seed_hosts: hosts.map(|host| host.to_string()).collect(),
            phase: Mutex::new(phase),
            permits: Mutex::new(Permits::new(budget.max_pages, budget.max_bytes, before)),
            board: Mutex::new(Board {
                posted: BTreeMap::new(),
                silent: before.keys().copied().collect(),
            }),
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
        let mut board = self.board.lock();
        board.posted.insert(shard, tally);
        board.silent.remove(&shard);
        drop(board);
        !self.is_announced.swap(true, Ordering::AcqRel)
    }

    /// The sum of the board.
    pub(crate) fn total(&self) -> Total {
        self.is_announced.store(false, Ordering::Release);
        let mut sum = Tally::default();
        let board = self.board.lock();
        for tally in board.posted.values() {
            sum.add(tally);
        }
        let heads = board.posted.iter();
        let heads = heads.filter_map(|(shard, tally)| Some((tally.head.clone()?, *shard)));
        Total {
            sum,
            head: heads.min(),
            is_whole: board.silent.is_empty(),
            is_settled: board.posted.values().all(|tally| tally.is_settled),
        }
    }

    /// How many URLs were admitted as of the last commits.
    pub(crate) fn admitted(&self) -> u64 {
        let board = self.board.lock();
        board.posted.values().map(|tally| tally.admitted).sum()
    }

    /// Whether a place in the order may go out: any may, but for the strict order.
    pub(crate) fn is_turn(&self, place: &[u8]) -> bool {
        !self.walk.is_strict() || self.turn.lock().as_deref() == Some(place)
    }

    /// Gives the turn to a place in the order; false when it has it.
    pub(crate) fn give_turn(&self, place: Vec<u8>) -> bool {
        let mut turn = self.turn.lock();
        let is_new = turn.as_ref() != Some(&place);
        *turn = Some(place);
        is_new
    }

    /// The shards that take part.
    pub(crate) fn participants(&self) -> Vec<u16> {
        let board = self.board.lock();
        board.posted.keys().chain(&board.silent).copied().collect()
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

/// Where the pages of a limit are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) limit: u64,
    pub(crate) pool: u64,
    pub(crate) outstanding: u64,
    pub(crate) captured: u64,
}

/// The right to deliver pages: each is in the pool, held by a ticket, or spent.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    max: Option<u64>,
    max_bytes: Option<u64>,
    held: BTreeMap<u16, u64>,
    held_sum: u64,
    /// Held by a shard's earlier life; its tickets take them back first.
    orphans: BTreeMap<u16, u64>,
    /// Pages and bytes by shard, as its counters say.
    spent: BTreeMap<u16, (u64, u64)>,
    parked: BTreeSet<u16>,
    leases: BTreeMap<u16, u64>,
}

impl Permits {
    fn new(max: Option<u64>, max_bytes: u64, before: &BTreeMap<u16, (u64, u64)>) -> Self {
        Self {
            max,
            max_bytes: (max_bytes > 0).then_some(max_bytes),
            spent: before.clone(),
            ..Self::default()
        }
    }

    /// How many are spent.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.values().map(|(pages, _)| pages).sum()
    }

    /// How many are held by tickets.
    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        self.held_sum
    }

    fn bytes(&self) -> u64 {
        self.spent.values().map(|(_, bytes)| bytes).sum()
    }

    /// Where the pages of the limit are, each counted by itself; nothing without a limit.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let held: u64 = self.held.values().sum();
        let orphans: u64 = self.orphans.values().sum();
        Some(Standing {
            limit: self.max?,
            pool: self.pool(),
            outstanding: held + orphans,
            captured: self.spent(),
        })
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
        if let Some(orphans) = self.orphans.get_mut(&shard).filter(|count| **count > 0) {
            *orphans -= 1;
            *self.held.entry(shard).or_default() += 1;
            return true;
        }
        let reserved = (self.held_sum + 1).saturating_mul(reserve);
        let fits = self
            .max_bytes
            .is_none_or(|max| self.bytes().saturating_add(reserved) <= max);
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
        let spent = self.spent.entry(shard).or_default();
        spent.0 += 1;
        spent.1 += bytes;
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

    /// A shard starts anew: it spent what the store says. What it held, or spent in vain, is kept for the tickets
    /// that it finds in the store, so that no other shard takes it meanwhile.
    pub(crate) fn begin_restart(&mut self, shard: u16, pages: u64, bytes: u64) {
        let held = self.held.remove(&shard).unwrap_or(0);
        let (before, _) = self.spent.insert(shard, (pages, bytes)).unwrap_or_default();
        let in_vain = before.saturating_sub(pages);
        self.held_sum += in_vain;
        *self.orphans.entry(shard).or_default() += held + in_vain;
        self.leases.remove(&shard);
    }

    /// The shard has found its tickets: what nobody took back is free. Answers which shards wait for it.
    pub(crate) fn end_restart(&mut self, shard: u16) -> BTreeSet<u16> {
        let left = self.orphans.remove(&shard).unwrap_or(0);
        self.held_sum = self.held_sum.saturating_sub(left);
        std::mem::take(&mut self.parked)
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
                .is_some_and(|max| self.bytes().saturating_add(reserve) > max)
    }

    /// Opens a lease for the session if its concurrency allows.
    pub(crate) fn open_lease(&mut self, shard: u16, concurrency: u32) -> bool {
        let open: u64 = self.leases.values().sum();
        if concurrency > 0 && open >= u64::from(concurrency) {
            self.parked.insert(shard);
            return false;
        }
        *self.leases.entry(shard).or_default() += 1;
        true
    }

    /// Closes one that was opened for nothing.
    pub(crate) fn cancel_lease(&mut self, shard: u16) {
        if let Some(open) = self.leases.get_mut(&shard) {
            *open = open.saturating_sub(1);
        }
    }

    /// Closes one; answers which shards wait.
    pub(crate) fn close_lease(&mut self, shard: u16) -> BTreeSet<u16> {
        self.cancel_lease(shard);
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::Permits;

    #[test]
    fn a_shard_that_restarts_holds_what_the_store_says_and_no_more() {
        let mut permits = Permits::new(Some(3), 0, &BTreeMap::new());
        assert!(permits.open_lease(0, 1) && permits.take(0, 0) && permits.take(0, 0));
        permits.spend(0, 10);
        assert!(permits.take(1, 0), "the last one");
        // The page was not kept: one ticket and one page in vain are two orphans.
        permits.begin_restart(0, 0, 0);
        assert!(!permits.take(1, 0), "nobody else takes what the shard held");
        assert!(permits.open_lease(0, 1), "its lease is counted anew");
        assert!(permits.take(0, 0) && permits.take(0, 0) && !permits.take(0, 0));
        permits.end_restart(0);
        assert_eq!((permits.spent(), permits.pool()), (0, 0));
        permits.give_back(0);
        assert_eq!(permits.pool(), 1);
    }

    #[test]
    fn permits_are_never_more_than_the_budget() {
        let mut permits = Permits::new(Some(2), 0, &BTreeMap::new());
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
        let mut permits = Permits::new(None, 100, &BTreeMap::new());
        assert!(permits.take(0, 60));
        assert!(!permits.take(0, 60), "two bodies might have 120 bytes");
        permits.spend(0, 20);
        assert!(permits.take(0, 60));
        permits.spend(0, 60);
        assert!(permits.is_byte_limit(60));
    }

    proptest! {
        #[test]
        fn pool_and_held_and_spent_are_the_budget_at_every_moment(
            steps in prop::collection::vec((0_u16..4, 0_u8..5), 1..200),
            max in 0_u64..12,
        ) {
            let mut permits = Permits::new(Some(max), 0, &BTreeMap::new());
            // What a shard's store would say: tickets out, pages captured.
            let mut kept: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
            for (shard, step) in steps {
                let here = kept.entry(shard).or_default();
                match step {
                    0 | 1 => {
                        let has_room = permits.pool() > 0;
                        prop_assert_eq!(permits.take(shard, 0), has_room);
                        here.0 += u64::from(has_room);
                    }
                    2 if here.0 > 0 => {
                        permits.give_back(shard);
                        here.0 -= 1;
                    }
                    3 if here.0 > 0 => {
                        permits.spend(shard, 1);
                        *here = (here.0 - 1, here.1 + 1);
                    }
                    4 => {
                        permits.begin_restart(shard, here.1, here.1);
                        for _ in 0..here.0 {
                            prop_assert!(permits.take(shard, 0), "a ticket in the store keeps its permit");
                        }
                        permits.end_restart(shard);
                    }
                    _ => {}
                }
                let (held, spent) = kept.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                prop_assert_eq!(permits.spent(), spent);
                prop_assert_eq!(permits.pool() + held + spent, max);
                let standing = permits.standing().unwrap();
                let sum = standing.pool + standing.outstanding + standing.captured;
                prop_assert_eq!((standing.outstanding, sum), (held, max));
            }
        }
    }
}
