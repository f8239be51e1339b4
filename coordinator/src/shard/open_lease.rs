//! A lease while its worker has it: urgent URLs join it, a sign of life prolongs it, halted sessions are asked back.

use std::collections::BTreeSet;
use std::time::Duration;

use proto::v1::{self, order};
use proto::{HostKey, SessionId, Timestamp};

use super::core::ShardCore;
use crate::gate::Phase;
use crate::store::StoreError;

impl ShardCore {
    /// Adds urgent URLs to the lease that holds their host now.
    pub(super) fn extend(&mut self, now: Timestamp, key: &HostKey) -> Result<(), StoreError> {
        let Some(id) = self.hosts.get(key).and_then(|host| host.lease) else {
            return Ok(());
        };
        let is_open = self.leases.get(&id).is_some_and(|lease| {
            !lease.tickets.is_empty() && lease.expires > now + self.policy.lease / 2
        });
        if !is_open {
            return Ok(());
        }
        let picks = self.pick(now, key, 4, true)?.picks;
        let Some(mut lease) = self.leases.remove(&id) else {
            return Ok(());
        };
        let domain = key.domain();
        let made = picks
            .into_iter()
            .map(|pick| self.ticket(&mut lease, pick, &domain))
            .collect::<Result<Vec<_>, _>>();
        let tickets = match made {
            Ok(tickets) => tickets,
            Err(error) => {
                self.leases.insert(id, lease);
                return Err(error);
            }
        };
        let worker = lease.row.worker.clone();
        if !tickets.is_empty() {
            self.write_lease(&mut lease);
        }
        self.leases.insert(id, lease);
        if !tickets.is_empty() {
            let order = v1::Extend {
                lease_id: id,
                tickets,
            };
            self.send(worker, order::Order::Extend(order), None);
        }
        Ok(())
    }

    /// The worker is alive: its leases go on. The new end is in the store before the worker hears of it.
    pub(crate) fn heartbeat(&mut self, now: Timestamp, worker: &str, lease_id: u64) {
        let length = self.policy.lease;
        let Some(mut lease) = self.leases.remove(&lease_id) else {
            return;
        };
        let is_young = lease.expires > now + length * 2 / 3;
        if lease.row.worker == worker && !is_young && lease.expires > now {
            lease.expires = now + length;
            self.write_lease(&mut lease);
            let end = lease.expires + Duration::from_millis(lease.row.interval);
            self.write_host(now, &lease.host, end);
            let ttl_millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
            let order = v1::Renew {
                lease_id,
                ttl_millis,
            };
            self.send(worker.to_owned(), order::Order::Renew(order), None);
        }
        let is_holder = lease.row.worker == worker;
        let sessions = lease.sessions.clone();
        self.leases.insert(lease_id, lease);
        if is_holder {
            self.ask_back(now, lease_id, worker, &sessions);
        }
    }

    /// Asks for tickets of sessions that give no leases now; the order may have been lost with a link or a shard.
    fn ask_back(
        &mut self,
        now: Timestamp,
        lease_id: u64,
        worker: &str,
        sessions: &BTreeSet<SessionId>,
    ) {
        for id in sessions {
            let is_halted = self.sessions.get(id).is_some_and(|here| {
                here.shared.phase() != Phase::Running || here.shared.is_past_deadline(now)
            });
            if is_halted {
                let order = v1::Revoke {
                    lease_id,
                    session_id: id.to_string(),
                };
                self.send(worker.to_owned(), order::Order::Revoke(order), None);
            }
        }
    }
}
