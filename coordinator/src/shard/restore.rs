//! How a shard is rebuilt from the store: open leases, hosts with URLs, mail on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use proto::v1::UrlState;
use proto::{HostKey, SessionId, Timestamp};

use super::core::{DEEP, LeaseHere, ShardCore, TicketHere};
use super::rows::state_of;
use crate::keys::{self};
use crate::records::{CountersRow, LeaseRow};
use crate::slice::decode;
use crate::store::{StoreError, Table};

/// Rows that are read at once.
const ROWS: usize = 256;

impl ShardCore {
    /// Rebuilds what memory has to hold: open leases, hosts with URLs, mail on its way.
    pub(crate) fn restore(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let running = self.directory.all();
        self.fleet.restart(self.shard);
        self.restore_numbers()?;
        for shared in &running {
            let key = keys::of_session(self.shard, &shared.id);
            let counters: Option<CountersRow> = self.slice.get(Table::Counters, &key)?;
            let (pages, bytes) = counters
                .as_ref()
                .map_or((0, 0), |row| (row.pages, row.bytes));
            shared.permits().begin_restart(self.shard, pages, bytes);
            if counters.is_some() {
                self.open(&shared.id)?;
                self.dirty.insert(shared.id.clone());
            }
        }
        self.restore_leases()?;
        self.restore_queues()?;
        self.restore_mail(now)?;
        for shared in &running {
            let mut waiting = shared.permits().end_restart(self.shard);
            // The shard may have fallen before it told others of what it had freed.
            waiting.extend(shared.participants());
            self.poke(waiting);
        }
        Ok(())
    }

    fn restore_leases(&mut self) -> Result<(), StoreError> {
        let prefix = keys::of_shard(self.shard);
        let mut after: Option<Bytes> = None;
        loop {
            let rows = self
                .slice
                .scan(Table::Leases, &prefix, after.as_deref(), ROWS)?;
            let Some((last, _)) = rows.last() else {
                return Ok(());
            };
            after = Some(last.clone());
            for (key, value) in rows {
                self.restore_lease(&key, &value)?;
            }
        }
    }

    fn restore_lease(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let row: LeaseRow = decode(Table::Leases, value)?;
        let Ok(host) = HostKey::parse(&row.host) else {
            self.slice.delete(Table::Leases, key.to_vec());
            return Ok(());
        };
        let mut lease = LeaseHere {
            expires: Timestamp::from_millis(row.expires),
            host: host.clone(),
            tickets: BTreeMap::new(),
            recalled: BTreeSet::new(),
            sessions: BTreeSet::new(),
            row,
        };
        for ticket in lease.row.tickets.clone() {
            self.restore_ticket(&mut lease, &ticket)?;
        }
        let boot = self.boot;
        let least = self.policy.min_interval;
        let here = self.host(&host)?;
        here.lease = Some(lease.row.lease_id);
        if here.row.back_off == 0 {
            // The row's clock lies past the lease's end. Where the worker ends the lease itself that is too late,
            // and where it does not, the loss of the lease moves the clock there again.
            here.clock = boot + Duration::from_millis(lease.row.interval).max(least);
        }
        *self.domains.entry(host.domain()).or_default() += 1;
        self.fleet.note_open(&lease.row.worker, self.shard);
        self.leases.insert(lease.row.lease_id, lease);
        Ok(())
    }

    fn restore_ticket(
        &mut self,
        lease: &mut LeaseHere,
        ticket: &crate::records::TicketRow,
    ) -> Result<(), StoreError> {
        let Ok(session) = ticket.session.parse::<SessionId>() else {
            return Ok(());
        };
        let Some(fingerprint) = keys::fingerprint(&ticket.fingerprint) else {
            return Ok(());
        };
        if !self.open(&session)? {
            return Ok(());
        }
        let Some(row) = self.url(&session, fingerprint)? else {
            return Ok(());
        };
        if state_of(&row) != UrlState::Leased {
            return Ok(());
        }
        let is_page = !row.entry.as_ref().is_some_and(|entry| entry.is_sitemap);
        let shard = self.shard;
        let has_permit = is_page && self.take_permit(&session, &lease.host, 0)?;
        if let Some(here) = self.sessions.get(&session)
            && lease.sessions.insert(session.clone())
        {
            here.shared.permits().open_lease(shard, 0);
        }
        lease.tickets.insert(
            ticket.ticket_id,
            TicketHere {
                session: Some(session),
                fingerprint,
                permit: has_permit.then(|| lease.host.clone()),
                robots: None,
            },
        );
        Ok(())
    }

    /// Finds every pair of host and session with a skipping scan: one read per pair, not per URL.
    fn restore_queues(&mut self) -> Result<(), StoreError> {
        let prefix = keys::of_shard(self.shard);
        let mut after: Option<Vec<u8>> = None;
        loop {
            let found = self
                .slice
                .scan(Table::Queue, &prefix, after.as_deref(), 1)?;
            let Some((key, _)) = found.into_iter().next() else {
                return Ok(());
            };
            let Some((place, session)) = keys::queue_place(&key) else {
                after = Some(key.to_vec());
                continue;
            };
            let mut past = keys::queue_prefix(self.shard, &place, &session);
            past.extend_from_slice(&[0xff; 14]);
            after = Some(past);
            if place == DEEP || !self.open(&session)? {
                continue;
            }
            if let Ok(host) = HostKey::parse(&place) {
                self.host(&host)?.sessions.insert(session.clone(), None);
                if let Some(here) = self.sessions.get_mut(&session) {
                    here.hosts.insert(host.clone());
                }
                self.schedule(&host);
            }
        }
    }
}
