//! The right to deliver a page, as a shard handles it: from the session's pool, and from what its domain is allowed.
//!
//! A registrable domain belongs to one shard, so its numbers are here alone and exact: `spent + lent` never exceeds
//! `max_pages_per_domain`.

use proto::v1::UrlState;
use proto::{Code, DomainKey, HostKey, SessionId};

use super::core::{ShardCore, TicketHere};
use super::lease::reserve;
use crate::keys::{self, Fingerprint};
use crate::records::UrlRow;
use crate::store::{StoreError, Table};

/// The pages of a session at one domain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DomainUse {
    /// Rights that tickets and undecided pages hold.
    lent: u64,
    spent: u64,
}

/// Whether a domain may deliver another page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    /// Not now; what is out may come back.
    Lent,
    /// Never again.
    Full,
}

impl ShardCore {
    fn domain_cap(&self, id: &SessionId) -> Option<u64> {
        let here = self.sessions.get(id)?;
        let cap = here.shared.spec.budget.as_ref()?.max_pages_per_domain;
        (cap > 0).then_some(cap)
    }

    /// How a session stands with a domain; without a cap there is always room.
    pub(super) fn domain_room(
        &mut self,
        id: &SessionId,
        domain: &DomainKey,
    ) -> Result<Room, StoreError> {
        let Some(cap) = self.domain_cap(id) else {
            return Ok(Room::Free);
        };
        let used = self.domain_use(id, domain)?;
        Ok(if used.spent >= cap {
            Room::Full
        } else if used.spent + used.lent >= cap {
            Room::Lent
        } else {
            Room::Free
        })
    }

    fn domain_use(&mut self, id: &SessionId, domain: &DomainKey) -> Result<DomainUse, StoreError> {
        let known = self
            .sessions
            .get(id)
            .and_then(|here| here.domains.get(domain));
        if let Some(used) = known {
            return Ok(*used);
        }
        let key = keys::pages_of_domain(self.shard, id, domain);
        let stored = self.slice.get_bytes(Table::Counters, &key)?;
        let spent = stored
            .and_then(|bytes| keys::last_number(&bytes))
            .unwrap_or(0);
        let used = DomainUse { lent: 0, spent };
        if let Some(here) = self.sessions.get_mut(id) {
            here.domains.insert(domain.clone(), used);
        }
        Ok(used)
    }

    /// Takes a right for a page at a host, whatever the domain's cap: the caller has looked, or goes on with what was
    /// out before a restart. False when the pool has none.
    pub(super) fn take_permit(
        &mut self,
        id: &SessionId,
        host: &HostKey,
        reserve: u64,
    ) -> Result<bool, StoreError> {
        let shard = self.shard;
        let here = self.sessions.get(id);
        let is_taken = here.is_some_and(|here| here.shared.permits().take(shard, reserve));
        if is_taken && self.domain_cap(id).is_some() {
            let domain = host.domain();
            self.domain_use(id, &domain)?;
            if let Some(used) = self
                .sessions
                .get_mut(id)
                .and_then(|here| here.domains.get_mut(&domain))
            {
                used.lent += 1;
            }
        }
        Ok(is_taken)
    }

    /// Gives the right of a page at a host back.
    pub(super) fn give_back_permit(&mut self, id: &SessionId, host: &HostKey) {
        let Some(here) = self.sessions.get_mut(id) else {
            return;
        };
        let mut shards = here.shared.permits().give_back(self.shard);
        if let Some(used) = here.domains.get_mut(&host.domain()) {
            used.lent = used.lent.saturating_sub(1);
            shards.insert(self.shard);
        }
        self.poke(shards);
    }

    /// Gives a ticket's right back, if it has one.
    pub(super) fn return_permit(&mut self, ticket: &TicketHere) {
        if let (Some(id), Some(host)) = (&ticket.session, &ticket.permit) {
            self.give_back_permit(id, host);
        }
    }

    /// Spends the right of a page, with one that it holds or a new one; false when there is none.
    pub(super) fn spend_permit(
        &mut self,
        id: &SessionId,
        fingerprint: Fingerprint,
        host: &HostKey,
        bytes: u64,
    ) -> Result<bool, StoreError> {
        let Some(here) = self.sessions.get(id) else {
            return Ok(false);
        };
        let reserve = reserve(&here.shared);
        let holds = self.claiming.remove(&(id.clone(), fingerprint));
        let domain = host.domain();
        let may = holds || self.domain_room(id, &domain)? == Room::Free;
        if !may || !(holds || self.take_permit(id, host, reserve)?) {
            return Ok(false);
        }
        let Some(here) = self.sessions.get_mut(id) else {
            return Ok(false);
        };
        let mut freed = here.shared.permits().spend(self.shard, bytes);
        if let Some(used) = here.domains.get_mut(&domain) {
            // At the cap, what waits at other hosts of the domain ends.
            freed.insert(self.shard);
            used.lent = used.lent.saturating_sub(1);
            used.spent += 1;
            let spent = used.spent.to_be_bytes().to_vec();
            let key = keys::pages_of_domain(self.shard, id, &domain);
            self.slice.put_bytes(Table::Counters, key, spent);
        }
        self.poke(freed);
        Ok(true)
    }

    /// Ends a URL whose domain has delivered all that it may.
    pub(super) fn end_at_domain_cap(&mut self, id: &SessionId, row: &mut UrlRow) {
        let cap = self.domain_cap(id).unwrap_or(0);
        let detail = format!("its domain has delivered {cap} pages, which is all that it may");
        let code = Code::DomainLimit.word();
        self.end(id, row, UrlState::OverBudget, code, &detail);
    }
}
