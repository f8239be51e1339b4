//! The end of a lease: what its worker did not report goes back, and host, slot and domain are free again.

use std::time::Duration;

use proto::v1::{self, UrlState, order};
use proto::{SessionId, Timestamp};

use super::core::{Effect, LeaseHere, ShardCore, TicketHere};
use super::rows::state_of;
use crate::gate::Phase;
use crate::keys::{self};
use crate::store::{StoreError, Table};

impl ShardCore {
    /// The worker never got the order: everything goes back at once.
    pub(crate) fn unsent(&mut self, now: Timestamp, lease_id: u64) -> Result<(), StoreError> {
        self.give_back_tickets(lease_id, true)?;
        self.end_lease(now, lease_id);
        Ok(())
    }

    /// The worker says that nothing of the lease is left with it.
    pub(crate) fn lease_ended(
        &mut self,
        now: Timestamp,
        worker: &str,
        lease_id: u64,
    ) -> Result<(), StoreError> {
        let is_holder = self
            .leases
            .get(&lease_id)
            .is_some_and(|lease| lease.row.worker == worker);
        if is_holder {
            self.give_back_tickets(lease_id, true)?;
            self.end_lease(now, lease_id);
        }
        Ok(())
    }

    /// Nobody renewed it: what is not reported goes back, and the host waits past the end.
    pub(super) fn lose_lease(&mut self, now: Timestamp, lease_id: u64) -> Result<(), StoreError> {
        self.give_back_tickets(lease_id, false)?;
        if let Some(lease) = self.leases.get(&lease_id) {
            let end = lease.expires + Duration::from_millis(lease.row.interval);
            let key = lease.host.clone();
            let host = self.host(&key)?;
            host.clock = host.clock.max(end);
            host.row.epoch += 1;
        }
        self.end_lease(now, lease_id);
        Ok(())
    }

    fn give_back_tickets(&mut self, lease_id: u64, was_unbegun: bool) -> Result<(), StoreError> {
        let Some(lease) = self.leases.get_mut(&lease_id) else {
            return Ok(());
        };
        for ticket in std::mem::take(&mut lease.tickets).into_values() {
            self.give_back_ticket(&ticket, was_unbegun)?;
        }
        Ok(())
    }

    pub(super) fn give_back_ticket(
        &mut self,
        ticket: &TicketHere,
        was_unbegun: bool,
    ) -> Result<(), StoreError> {
        let Some(id) = ticket.session.clone() else {
            return Ok(());
        };
        self.return_permit(ticket);
        if !self.open(&id)? {
            return Ok(());
        }
        let Some(mut row) = self.url(&id, ticket.fingerprint)? else {
            return Ok(());
        };
        if state_of(&row) == UrlState::Leased {
            if was_unbegun {
                let entry = row.entry.get_or_insert_default();
                entry.attempts = entry.attempts.saturating_sub(1);
            }
            self.place(&id, ticket.fingerprint, &mut row)?;
            self.write_url(&id, ticket.fingerprint, &row);
        }
        Ok(())
    }

    /// Closes a lease: the host, the slot and the domain are free.
    pub(super) fn end_lease(&mut self, now: Timestamp, lease_id: u64) {
        let Some(lease) = self.leases.remove(&lease_id) else {
            return;
        };
        self.slice
            .delete(Table::Leases, keys::lease(self.shard, lease_id));
        for id in &lease.sessions {
            if let Some(here) = self.sessions.get(id) {
                let shards = here.shared.permits().close_lease(self.shard);
                self.poke(shards);
            }
        }
        if let Some(open) = self.domains.get_mut(&lease.host.domain()) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                self.domains.remove(&lease.host.domain());
            }
        }
        if let Some(host) = self.hosts.get_mut(&lease.host) {
            host.lease = None;
            let clock = host.clock;
            self.write_host(now, &lease.host, clock);
            self.schedule(&lease.host);
            self.evict(&lease.host);
        }
        self.effects.push(Effect::Release {
            worker: lease.row.worker,
        });
    }

    /// A session paused, went on or stops: what is out and not begun is asked back.
    pub(crate) fn phase_changed(&mut self, id: &SessionId) {
        let Some(here) = self.sessions.get(id) else {
            return;
        };
        if here.shared.phase() == Phase::Running {
            self.look_again();
            return;
        }
        let of_session = |lease: &&LeaseHere| lease.sessions.contains(id);
        let holders: Vec<(u64, String)> = self
            .leases
            .values()
            .filter(of_session)
            .map(|lease| (lease.row.lease_id, lease.row.worker.clone()))
            .collect();
        for (lease_id, worker) in holders {
            let session_id = id.to_string();
            let order = v1::Revoke {
                lease_id,
                session_id,
            };
            self.send(worker, order::Order::Revoke(order), None);
        }
    }
}
