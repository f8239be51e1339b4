//! Looking up single URLs: where one ended, its body, its snapshots.

use proto::v1::{self, UrlState};
use proto::{CrawlUrl, Digest, ErrorCode, Refusal, SessionId};

use super::cursor::{bounded, hex, unhex};
use super::{Catalog, LOOKS, store_failed};
use crate::keys;
use crate::records::SnapshotRow;
use crate::slice::decode;
use crate::store::Table;

const MAX_CHAIN: usize = 64;

impl Catalog {
    /// How a URL stands, with redirects and duplicates followed.
    pub(crate) fn chain(&self, id: &SessionId, url: &str) -> Result<Vec<v1::LedgerEntry>, Refusal> {
        let mut chain: Vec<v1::LedgerEntry> = Vec::new();
        let mut next = url.to_owned();
        while chain.len() < MAX_CHAIN {
            let Ok(url) = CrawlUrl::parse(&next) else {
                break;
            };
            let shard = url.domain().shard(self.shards);
            let row = self.row(shard, id, url.fingerprint())?;
            let Some(entry) = row.and_then(|row| row.entry) else {
                break;
            };
            let leads_on = matches!(entry.state(), UrlState::Redirected | UrlState::Duplicate);
            next.clone_from(&entry.target);
            chain.push(entry);
            if !leads_on {
                break;
            }
        }
        Ok(chain)
    }

    /// The answers to a look-up.
    pub(crate) async fn lookup(
        &self,
        id: &SessionId,
        urls: &[String],
        inline_bytes: u64,
        kinds: &[i32],
    ) -> Result<Vec<v1::LookupEntry>, Refusal> {
        let mut entries = Vec::new();
        let mut room = inline_bytes;
        for url in urls {
            let mut chain = self.chain(id, url)?;
            if let Some(page) = chain.last_mut().and_then(|entry| entry.page.as_mut()) {
                self.inline(page, &mut room, kinds).await?;
            }
            entries.push(v1::LookupEntry {
                url: url.clone(),
                chain,
            });
        }
        Ok(entries)
    }

    pub(super) async fn inline(
        &self,
        page: &mut v1::Page,
        room: &mut u64,
        kinds: &[i32],
    ) -> Result<(), Refusal> {
        for part in &mut page.parts {
            let is_asked = kinds.is_empty() || kinds.contains(&part.kind);
            if !is_asked || part.size > *room {
                continue;
            }
            if let Some(bytes) = self.body(&part.digest).await? {
                *room -= part.size;
                part.content = bytes;
            }
        }
        Ok(())
    }

    async fn body(&self, digest: &[u8]) -> Result<Option<bytes::Bytes>, Refusal> {
        let Ok(digest) = Digest::try_from(digest) else {
            return Ok(None);
        };
        let found = self.bodies.get(&digest).await;
        found.map_err(|error| Refusal::new(ErrorCode::StoreFailed, error))
    }

    /// A body that a session's manifest names, and its size.
    pub(crate) async fn body_of(
        &self,
        id: &SessionId,
        digest: &[u8],
    ) -> Result<(Digest, u64), Refusal> {
        let none = || {
            Refusal::new(
                ErrorCode::NotFound,
                format!("session `{id}` has no such body"),
            )
        };
        let named = self
            .bulk
            .get(Table::Claims, &keys::digest(keys::COMMON, id, digest));
        named
            .map_err(|error| store_failed(&error))?
            .ok_or_else(none)?;
        let digest = Digest::try_from(digest).map_err(|_| none())?;
        let size = self.bodies.size(&digest).await;
        let size = size.map_err(|error| Refusal::new(ErrorCode::StoreFailed, error))?;
        Ok((digest, size.ok_or_else(none)?))
    }

    /// Snapshots of a URL that belong to the owner, newest first; one where a time is given.
    pub(crate) async fn snapshots(
        &self,
        given: &v1::SnapshotRequest,
    ) -> Result<v1::SnapshotReply, Refusal> {
        let limit = bounded(given.limit)?;
        let is_hash =
            given.url_hash.len() == 32 && given.url_hash.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_hash {
            return Err(Refusal::argument(
                "url_hash",
                "`url_hash` must be 32 hex digits",
            ));
        }
        let mut prefix = given.url_hash.to_ascii_lowercase().into_bytes();
        if !given.timestamp.is_empty() {
            let Some(at) = proto::Timestamp::from_compact(&given.timestamp) else {
                return Err(Refusal::argument(
                    "timestamp",
                    "`timestamp` must look like 20260131T235959.123Z",
                ));
            };
            prefix.extend_from_slice(&(u64::MAX - at.as_millis()).to_be_bytes());
        }
        let mut after = unhex(&given.cursor);
        let mut reply = v1::SnapshotReply::default();
        let mut room = given.inline_bytes;
        for _ in 0..LOOKS {
            let found = self
                .bulk
                .scan(Table::Snapshots, &prefix, after.as_deref(), 1);
            let Some((key, value)) = found
                .map_err(|error| store_failed(&error))?
                .into_iter()
                .next()
            else {
                break;
            };
            after = Some(key.to_vec());
            let row: SnapshotRow =
                decode(Table::Snapshots, &value).map_err(|error| store_failed(&error))?;
            let (Ok(id), Some(fingerprint)) =
                (row.session.parse(), keys::fingerprint(&row.fingerprint))
            else {
                continue;
            };
            if self.record(&id, &given.owner).is_err() {
                continue;
            }
            let shard = u16::try_from(row.shard).unwrap_or(0);
            let entry = self.row(shard, &id, fingerprint)?.and_then(|row| row.entry);
            if let Some(mut page) = entry.and_then(|entry| entry.page) {
                self.inline(&mut page, &mut room, &[]).await?;
                reply.pages.push(page);
            }
            if reply.pages.len() == limit {
                reply.next_cursor = hex(&key);
                break;
            }
        }
        if reply.pages.is_empty() && !given.timestamp.is_empty() {
            return Err(Refusal::new(
                ErrorCode::NotFound,
                "no such snapshot; it may have expired",
            ));
        }
        Ok(reply)
    }
}
