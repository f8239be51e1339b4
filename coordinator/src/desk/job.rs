//! One running session as the desk holds it, and what its numbers mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use proto::v1::{self, SessionState, UrlState};
use proto::{CrawlUrl, Timestamp};

use super::StatusSender;
use crate::gate::{Phase, SessionShared, Tally};

/// What the session's numbers mean while it runs.
pub(super) fn verdict(shared: &SessionShared, sum: &Tally, now: Timestamp) -> Option<Phase> {
    if shared.is_past_deadline(now) {
        return Some(Phase::Stopping(SessionState::TimeLimit));
    }
    let is_busy = sum.of(UrlState::Leased) + sum.of(UrlState::Fetched) + sum.outbox > 0;
    if is_busy {
        return None;
    }
    if sum.of(UrlState::Queued) + sum.of(UrlState::Waiting) == 0 {
        return Some(Phase::Settling(SessionState::Completed));
    }
    let permits = shared.permits();
    if permits.is_page_limit() {
        return Some(Phase::Settling(SessionState::PageLimit));
    }
    permits
        .is_byte_limit(crate::shard::reserve(shared))
        .then_some(Phase::Settling(SessionState::ByteLimit))
}

/// A session as the desk holds it.
pub(super) struct Job {
    pub(super) shared: Arc<SessionShared>,
    pub(super) status: v1::SessionStatus,
    pub(super) news: StatusSender,
    /// Shards that have not confirmed their seeds.
    pub(super) seeding: BTreeMap<u16, Vec<CrawlUrl>>,
    /// Since when the present phase lasts, and when orders about it were sent last.
    pub(super) since: Timestamp,
    pub(super) told: Timestamp,
    pub(super) is_ending: bool,
    /// A record that was not kept is not tried again before this moment.
    pub(super) quiet_until: Timestamp,
}

impl Job {
    pub(super) fn publish(&mut self, sum: &Tally, now: Timestamp) {
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
