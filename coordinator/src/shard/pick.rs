//! Which URLs of a host go out next: sessions in turn, urgent ones first, each page with a permit.

use std::collections::VecDeque;
use std::time::Duration;

use proto::v1::UrlState;
use proto::{HostKey, SessionId, Timestamp};

use super::core::{SessionHere, ShardCore};
use super::lease::reserve;
use super::permit::Room;
use crate::gate::Phase;
use crate::keys::{self, Fingerprint};
use crate::records::UrlRow;
use crate::store::{StoreError, Table};

/// A lease lasts about this long when everything answers at once.
const SPAN: Duration = Duration::from_secs(10);
const MAX_TICKETS: usize = 64;

/// A URL that goes out.
pub(super) struct Pick {
    pub(super) session: SessionId,
    pub(super) fingerprint: Fingerprint,
    pub(super) row: UrlRow,
    pub(super) has_permit: bool,
}

/// What was chosen.
#[derive(Default)]
pub(super) struct Picked {
    pub(super) picks: Vec<Pick>,
    /// Something ended without a request, so more may wait behind it.
    pub(super) has_skipped: bool,
}

impl ShardCore {
    pub(super) fn tickets_at_once(&self, key: &HostKey) -> usize {
        let interval = self.interval(key, 0).as_millis();
        let count = SPAN.as_millis().checked_div(interval);
        let count = count.and_then(|count| usize::try_from(count).ok());
        count.unwrap_or(MAX_TICKETS).clamp(1, MAX_TICKETS)
    }

    /// Chooses URLs of a host: sessions in turn, urgent ones first, each page with a permit.
    pub(super) fn pick(
        &mut self,
        now: Timestamp,
        key: &HostKey,
        count: usize,
        only_urgent: bool,
    ) -> Result<Picked, StoreError> {
        let mut lists = Vec::new();
        for id in self.turn(key) {
            if let Some(list) = self.waiting(now, key, &id, count, only_urgent)? {
                lists.push((id, list));
            }
        }
        lists.sort_by_key(|(_, list)| list.front().is_none_or(|(k, _)| keys::queue_band(k) > 0));
        let mut picked = Picked::default();
        while picked.picks.len() < count && !lists.is_empty() {
            let mut left = Vec::new();
            for (id, mut list) in lists {
                if picked.picks.len() == count {
                    break;
                }
                let Some((queue_key, value)) = list.pop_front() else {
                    continue;
                };
                if self.pick_one(now, key, &id, (&queue_key, &value), &mut picked)? {
                    left.push((id, list));
                }
            }
            lists = left;
        }
        if let Some(host) = self.hosts.get_mut(key) {
            host.served_last = picked.picks.last().map(|pick| pick.session.clone());
        }
        Ok(picked)
    }

    /// The sessions of a host, beginning behind the one that was served last.
    fn turn(&self, key: &HostKey) -> Vec<SessionId> {
        let Some(host) = self.hosts.get(key) else {
            return Vec::new();
        };
        let mut ids: Vec<SessionId> = host.sessions.keys().cloned().collect();
        if let Some(last) = &host.served_last {
            let behind = ids.iter().take_while(|id| *id <= last).count();
            ids.rotate_left(behind);
        }
        ids
    }

    #[allow(clippy::type_complexity, reason = "pairs of the store, in order")]
    fn waiting(
        &mut self,
        now: Timestamp,
        key: &HostKey,
        id: &SessionId,
        count: usize,
        only_urgent: bool,
    ) -> Result<Option<VecDeque<(Vec<u8>, Vec<u8>)>>, StoreError> {
        if !self.open(id)? {
            self.forget_session(key, id);
            return Ok(None);
        }
        let Some(here) = self.sessions.get(id) else {
            return Ok(None);
        };
        if here.shared.phase() != Phase::Running || here.shared.is_past_deadline(now) {
            return Ok(None);
        }
        let is_undecided = here.shared.walk.waits_for_links() && here.has_undecided();
        if is_undecided {
            return Ok(None);
        }
        let cursor = self
            .hosts
            .get(key)
            .and_then(|host| host.sessions.get(id)?.clone());
        let shared = here.shared.clone();
        let count = count.min(shared.walk.at_once());
        let prefix = keys::queue_prefix(self.shard, key.as_str(), id);
        let found = self
            .slice
            .scan(Table::Queue, &prefix, cursor.as_deref(), count)?;
        if found.is_empty() {
            self.forget_session(key, id);
            return Ok(None);
        }
        let found = found.into_iter().map(|(k, v)| (k.to_vec(), v.to_vec()));
        let found = found.filter(|(k, _)| !only_urgent || keys::queue_band(k) == 0);
        let found = found.filter(|(k, _)| shared.is_turn(keys::queue_order(k)));
        Ok(Some(found.collect()))
    }

    /// Where in the order the first URL of a session is that waits here.
    pub(super) fn head(&self, here: &SessionHere) -> Result<Option<Vec<u8>>, StoreError> {
        let mut first: Option<Vec<u8>> = None;
        for host in &here.hosts {
            let prefix = keys::queue_prefix(self.shard, host.as_str(), &here.shared.id);
            let found = self.slice.scan(Table::Queue, &prefix, None, 1)?;
            let found = found
                .first()
                .map(|(key, _)| keys::queue_order(key).to_vec());
            first = first.into_iter().chain(found).min();
        }
        Ok(first)
    }

    fn forget_session(&mut self, key: &HostKey, id: &SessionId) {
        if let Some(host) = self.hosts.get_mut(key) {
            host.sessions.remove(id);
        }
        if let Some(here) = self.sessions.get_mut(id) {
            here.hosts.remove(key);
        }
    }

    /// Takes one URL out of the queue; false when the session may take no more now.
    fn pick_one(
        &mut self,
        now: Timestamp,
        key: &HostKey,
        id: &SessionId,
        (queue_key, value): (&[u8], &[u8]),
        picked: &mut Picked,
    ) -> Result<bool, StoreError> {
        let Some(fingerprint) = keys::fingerprint(value) else {
            return Ok(true);
        };
        let Some(mut row) = self.url(id, fingerprint)? else {
            self.slice.delete(Table::Queue, queue_key.to_vec());
            return Ok(true);
        };
        if self.skip_fresh(now, id, fingerprint, &mut row)? {
            picked.has_skipped = true;
            return Ok(true);
        }
        let is_page = !row.entry.as_ref().is_some_and(|entry| entry.is_sitemap);
        if is_page {
            match self.domain_room(id, &key.domain())? {
                Room::Free => {}
                Room::Lent => return Ok(false),
                Room::Full => {
                    self.take_out(&mut row);
                    self.end_at_domain_cap(id, &mut row);
                    self.write_url(id, fingerprint, &row);
                    picked.has_skipped = true;
                    return Ok(true);
                }
            }
        }
        if !self.may_go_out(key, id, is_page, picked)? {
            return Ok(false);
        }
        self.take_out(&mut row);
        if let Some(cursor) = self.hosts.get_mut(key).and_then(|h| h.sessions.get_mut(id)) {
            *cursor = Some(queue_key.to_vec());
        }
        row.entry.get_or_insert_default().attempts += 1;
        self.set_state(id, &mut row, UrlState::Leased);
        self.write_url(id, fingerprint, &row);
        picked.picks.push(Pick {
            session: id.clone(),
            fingerprint,
            row,
            has_permit: is_page,
        });
        Ok(true)
    }

    /// Takes what a URL needs to go out: a place among the session's leases, and for a page a right to deliver it.
    fn may_go_out(
        &mut self,
        key: &HostKey,
        id: &SessionId,
        is_page: bool,
        picked: &Picked,
    ) -> Result<bool, StoreError> {
        let Some(here) = self.sessions.get(id) else {
            return Ok(false);
        };
        let is_first = !picked.picks.iter().any(|pick| pick.session == *id);
        let is_leased_here = self
            .hosts
            .get(key)
            .and_then(|host| self.leases.get(&host.lease?))
            .is_some_and(|lease| lease.sessions.contains(id));
        let needs_lease = is_first && !is_leased_here;
        let shared = here.shared.clone();
        if needs_lease
            && !shared
                .permits()
                .open_lease(self.shard, shared.spec.concurrency)
        {
            return Ok(false);
        }
        if is_page && !self.take_permit(id, key, reserve(&shared))? {
            if needs_lease {
                shared.permits().cancel_lease(self.shard);
            }
            return Ok(false);
        }
        Ok(true)
    }
}
