//! The rows of URLs: a state changes together with the counts.

use proto::SessionId;
use proto::v1::{self, UrlState};

use super::core::{SessionHere, ShardCore};
use crate::keys::{self, Fingerprint};
use crate::records::UrlRow;
use crate::store::{StoreError, Table};

/// One number per value of `UrlState`.
pub(super) const STATES: usize = 14;

impl SessionHere {
    /// Whether pages were read that may still be duplicates, so that their links are not in a queue yet.
    pub(super) fn has_undecided(&self) -> bool {
        let count = self.counters.counts.get(index(UrlState::Fetched));
        count.is_some_and(|count| *count > 0)
    }
}

impl ShardCore {
    /// A URL's row.
    pub(super) fn url(
        &self,
        session: &SessionId,
        fingerprint: Fingerprint,
    ) -> Result<Option<UrlRow>, StoreError> {
        self.slice
            .get(Table::Urls, &keys::url(self.shard, session, fingerprint))
    }

    /// Writes a URL's row.
    pub(super) fn write_url(
        &mut self,
        session: &SessionId,
        fingerprint: Fingerprint,
        row: &UrlRow,
    ) {
        self.slice.put(
            Table::Urls,
            keys::url(self.shard, session, fingerprint),
            row,
        );
    }

    /// Moves a URL to a state and keeps the counts.
    pub(super) fn set_state(&mut self, session: &SessionId, row: &mut UrlRow, state: UrlState) {
        let entry = row.entry.get_or_insert_default();
        let before = entry.state();
        entry.set_state(state);
        let Some(here) = self.sessions.get_mut(session) else {
            return;
        };
        if before == UrlState::Unspecified {
            here.counters.admitted += 1;
        } else if let Some(count) = here.counters.counts.get_mut(index(before)) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = here.counters.counts.get_mut(index(state)) {
            *count += 1;
        }
        if matches!(state, UrlState::Refused | UrlState::Failed) {
            let same = |r: &&mut v1::ReasonCount| r.state() == state && r.code == entry.code;
            match here.counters.reasons.iter_mut().find(same) {
                Some(reason) => reason.count += 1,
                None => here.counters.reasons.push(v1::ReasonCount {
                    state: state.into(),
                    code: entry.code.clone(),
                    count: 1,
                }),
            }
        }
        metrics::counter!(crate::metrics::URLS, "state" => state.word()).increment(1);
        self.dirty.insert(session.clone());
    }

    /// Ends a URL with a reason.
    pub(super) fn end(
        &mut self,
        session: &SessionId,
        row: &mut UrlRow,
        state: UrlState,
        code: &str,
        detail: &str,
    ) {
        let entry = row.entry.get_or_insert_default();
        code.clone_into(&mut entry.code);
        detail.clone_into(&mut entry.detail);
        self.set_state(session, row, state);
    }
}

/// The state of a row.
pub(super) fn state_of(row: &UrlRow) -> UrlState {
    row.entry
        .as_ref()
        .map_or(UrlState::Unspecified, v1::LedgerEntry::state)
}

fn index(state: UrlState) -> usize {
    usize::try_from(i32::from(state)).unwrap_or(0)
}
