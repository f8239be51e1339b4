//! Cookies of a session at a registrable domain: kept with the outcomes that set them, handed out with leases.

use proto::{DomainKey, SessionId, Timestamp, cookies, v1};

use super::core::ShardCore;
use crate::keys;
use crate::records::CookiesRow;
use crate::store::{StoreError, Table};

impl ShardCore {
    /// What the session keeps at the domain.
    pub(super) fn cookies(
        &self,
        id: &SessionId,
        domain: &DomainKey,
    ) -> Result<Vec<v1::Cookie>, StoreError> {
        let here = self.sessions.get(id);
        if here.is_none_or(|here| !here.counters.has_cookies) {
            return Ok(Vec::new());
        }
        let key = keys::cookies(self.shard, id, domain);
        let row: Option<CookiesRow> = self.slice.get(Table::Cookies, &key)?;
        Ok(row.unwrap_or_default().cookies)
    }

    /// Keeps what an answer from the domain set.
    pub(super) fn keep_cookies(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        domain: &DomainKey,
        changes: &[v1::Cookie],
    ) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        let mut row = CookiesRow {
            cookies: self.cookies(id, domain)?,
        };
        cookies::merge(&mut row.cookies, changes, now);
        let key = keys::cookies(self.shard, id, domain);
        self.slice.put(Table::Cookies, key, &row);
        if let Some(here) = self.sessions.get_mut(id) {
            here.counters.has_cookies = true;
            self.dirty.insert(id.clone());
        }
        Ok(())
    }
}
