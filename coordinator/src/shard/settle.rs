//! The end of a session at a shard: everything that has not ended gets its last state, in bounded batches.

use std::collections::BTreeMap;

use proto::v1::{SessionState, UrlState};
use proto::{Code, SessionId};

use super::core::{DEEP, Effect, ShardCore, TicketHere};
use super::rows::state_of;
use crate::gate::Phase;
use crate::keys;
use crate::records::UrlRow;
use crate::store::{StoreError, Table};

const AT_ONCE: usize = 256;

impl ShardCore {
    /// Settles some URLs of a session that is at its end; asks for another turn while there are more.
    pub(crate) fn settle(&mut self, id: &SessionId) -> Result<(), StoreError> {
        if !self.open(id)? {
            return Ok(());
        }
        let Some(here) = self.sessions.get(id) else {
            return Ok(());
        };
        let Phase::Settling(how) = here.shared.phase() else {
            return Ok(());
        };
        self.recall(id)?;
        let mut places: Vec<String> = self.sessions.get(id).map_or_else(Vec::new, |here| {
            here.hosts.iter().map(ToString::to_string).collect()
        });
        places.push(DEEP.to_owned());
        let mut left = AT_ONCE;
        for place in places {
            let prefix = keys::queue_prefix(self.shard, &place, id);
            let found = self.slice.scan(Table::Queue, &prefix, None, left)?;
            for (_, value) in &found {
                self.settle_one(id, value, how)?;
            }
            left -= found.len().min(left);
            if left == 0 {
                self.effects.push(Effect::SettleMore {
                    session: id.clone(),
                });
                return Ok(());
            }
        }
        let hosts = self.sessions.get_mut(id).map(|here| {
            here.is_settled = true;
            std::mem::take(&mut here.hosts)
        });
        for host in hosts.unwrap_or_default() {
            if let Some(known) = self.hosts.get_mut(&host) {
                known.sessions.remove(id);
            }
            self.evict(&host);
        }
        self.dirty.insert(id.clone());
        Ok(())
    }

    /// Takes the session's tickets back from leases; what their workers still report comes too late.
    fn recall(&mut self, id: &SessionId) -> Result<(), StoreError> {
        let leases: Vec<u64> = self.leases.keys().copied().collect();
        for lease_id in leases {
            let Some(lease) = self.leases.get_mut(&lease_id) else {
                continue;
            };
            if !lease.sessions.contains(id) {
                continue;
            }
            let all = std::mem::take(&mut lease.tickets);
            let (ours, others) = all
                .into_iter()
                .partition(|(_, ticket)| ticket.session.as_ref() == Some(id));
            lease.tickets = others;
            let ours: BTreeMap<u64, TicketHere> = ours;
            lease.recalled.extend(ours.keys());
            for ticket in ours.into_values() {
                self.give_back_ticket(&ticket, false)?;
            }
        }
        // The host stays leased until the worker says that it is done with it, or the lease is over.
        Ok(())
    }

    fn settle_one(
        &mut self,
        id: &SessionId,
        value: &[u8],
        how: SessionState,
    ) -> Result<(), StoreError> {
        let Some(fingerprint) = keys::fingerprint(value) else {
            return Ok(());
        };
        if let Some(mut row) = self.url(id, fingerprint)? {
            self.take_out(&mut row);
            self.settle_row(id, &mut row, how);
            self.write_url(id, fingerprint, &row);
        }
        Ok(())
    }

    /// Gives a row the last state that fits the session's end.
    pub(super) fn settle_row(&mut self, id: &SessionId, row: &mut UrlRow, how: SessionState) {
        let entry = row.entry.get_or_insert_default();
        let max = self
            .sessions
            .get(id)
            .and_then(|here| here.shared.max_depth());
        let depth = entry.depth;
        let is_deep = state_of(row) == UrlState::TooDeep;
        if how == SessionState::Cancelled {
            self.set_state(id, row, UrlState::Cancelled);
        } else if is_deep {
            let detail = format!(
                "at depth {depth}; the session goes to depth {}",
                max.unwrap_or(0)
            );
            self.end(id, row, UrlState::Refused, Code::TooDeep.word(), &detail);
        } else {
            self.set_state(id, row, UrlState::OverBudget);
        }
    }
}
