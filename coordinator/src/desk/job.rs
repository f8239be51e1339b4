//! One running session as the desk holds it, and what its numbers mean.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, SessionState, UrlState};
use proto::{CrawlUrl, Timestamp};

use super::StatusSender;
use crate::gate::{Phase, SessionShared, Tally, Total};

/// Orders to shards that were not answered are repeated after this time.
pub(crate) const REPEAT: Duration = Duration::from_secs(3);
/// A cancelled session waits this long for what is being fetched, one at its limit somewhat longer.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);
const STOP_WITHIN: Duration = Duration::from_secs(30);

/// What the desk does about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Stay,
    /// The session is in another phase from now on; its shards are told.
    Enter(Phase),
    /// Its shards are told the phase again.
    TellAgain,
    /// It has ended, this way.
    End(SessionState),
}

/// Whether something is out that may still change what waits.
fn is_busy(sum: &Tally) -> bool {
    sum.of(UrlState::Leased) + sum.of(UrlState::Fetched) + sum.outbox > 0
}

/// What the session's numbers mean while it runs.
fn verdict(shared: &SessionShared, sum: &Tally, now: Timestamp) -> Option<Phase> {
    if shared.is_past_deadline(now) {
        return Some(Phase::Stopping(SessionState::TimeLimit));
    }
    if is_busy(sum) {
        return None;
    }
    let is_waiting = sum.of(UrlState::Queued) + sum.of(UrlState::Waiting) > 0;
    // An earlier run of the process may have settled some at a limit before it fell.
    let was_limited = sum.of(UrlState::OverBudget) > 0;
    let permits = shared.permits();
    if (is_waiting || was_limited) && permits.is_page_limit() {
        return Some(Phase::Settling(SessionState::PageLimit));
    }
    if (is_waiting || was_limited) && permits.is_byte_limit(crate::shard::reserve(shared)) {
        return Some(Phase::Settling(SessionState::ByteLimit));
    }
    (!is_waiting).then_some(Phase::Settling(SessionState::Completed))
}

/// A session as the desk holds it.
pub(crate) struct Job {
    pub(crate) shared: Arc<SessionShared>,
    pub(crate) status: v1::SessionStatus,
    pub(crate) news: StatusSender,
    /// Shards that have not confirmed their seeds.
    pub(crate) seeding: BTreeMap<u16, Vec<CrawlUrl>>,
    /// Since when the present phase lasts, and when orders about it were sent last.
    pub(crate) since: Timestamp,
    pub(crate) told: Timestamp,
    pub(crate) is_ending: bool,
    /// A record that was not kept is not tried again before this moment.
    pub(crate) quiet_until: Timestamp,
}

impl Job {
    /// Takes a session up; none of its shards has its seeds yet.
    pub(crate) fn new(
        shared: Arc<SessionShared>,
        status: v1::SessionStatus,
        news: StatusSender,
        shards: u16,
        now: Timestamp,
    ) -> Self {
        let mut seeding: BTreeMap<u16, Vec<CrawlUrl>> = BTreeMap::new();
        for seed in &shared.spec.seeds {
            if let Ok(url) = CrawlUrl::parse(seed) {
                let shard = url.domain().shard(shards);
                seeding.entry(shard).or_default().push(url);
            }
        }
        Self {
            shared,
            status,
            news,
            seeding,
            since: now,
            told: now,
            is_ending: false,
            quiet_until: now,
        }
    }

    /// What follows from the sum of the board; nothing while a shard is missing in it.
    pub(crate) fn next(&self, total: &Total, now: Timestamp) -> Step {
        let (sum, is_settled) = (&total.sum, total.is_settled);
        if !total.is_whole {
            return Step::Stay;
        }
        match self.shared.phase() {
            Phase::Running if self.seeding.is_empty() => {
                verdict(&self.shared, sum, now).map_or(Step::Stay, Step::Enter)
            }
            Phase::Running | Phase::Paused => Step::Stay,
            Phase::Stopping(how) => {
                let limit = if how == SessionState::Cancelled {
                    CANCEL_WITHIN
                } else {
                    STOP_WITHIN
                };
                let is_quiet = sum.of(UrlState::Leased) == 0 || now.since(self.since) >= limit;
                if is_quiet && self.seeding.is_empty() {
                    Step::Enter(Phase::Settling(how))
                } else {
                    Step::Stay
                }
            }
            Phase::Settling(how) => {
                let left = [
                    UrlState::Queued,
                    UrlState::Leased,
                    UrlState::Waiting,
                    UrlState::Fetched,
                    UrlState::TooDeep,
                ];
                let left: u64 = left.into_iter().map(|state| sum.of(state)).sum();
                if is_settled && left + sum.outbox == 0 {
                    Step::End(how)
                } else if is_settled && now.since(self.told) >= REPEAT {
                    Step::TellAgain
                } else {
                    Step::Stay
                }
            }
        }
    }

    /// Gives the first URL of a strict order its turn once all before it is done; answers the shard that has it.
    pub(crate) fn give_turn(&self, total: &Total) -> Option<u16> {
        let is_ready = self.shared.walk.is_strict()
            && self.shared.phase() == Phase::Running
            && self.seeding.is_empty()
            && total.is_whole
            && !is_busy(&total.sum);
        let (place, shard) = total.head.clone().filter(|_| is_ready)?;
        self.shared.give_turn(place).then_some(shard)
    }

    pub(crate) fn publish(&mut self, sum: &Tally, now: Timestamp) {
        let counts = proto::URL_STATES.into_iter().map(|state| v1::StateCount {
            state: state.into(),
            count: sum.of(state),
        });
        self.status.counts = counts.filter(|count| count.count > 0).collect();
        self.status.reasons.clone_from(&sum.reasons);
        self.status.pages = sum.pages;
        self.status.bytes = sum.bytes;
        self.status.admitted = sum.admitted;
        self.status.hosts = sum.hosts;
        self.status.next_start_millis = sum.next_start;
        self.status.updated_at_millis = now.as_millis();
        self.news.send_replace(Arc::new(self.status.clone()));
    }
}
