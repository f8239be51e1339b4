//! Reading: sessions, pages, the ledger, snapshots and bodies, straight from the stores.
//!
//! Reads go past the actors: what they show is committed. Nothing is answered to an owner it does not belong to;
//! another owner's session is simply not found.

use std::sync::Arc;

use prost::Message;
use proto::v1::{self, SessionKind, SessionState, UrlState};
use proto::{CrawlUrl, Digest, ErrorCode, Refusal, SessionId};

use crate::body_store::BodyStore;
use crate::keys::{self, Fingerprint};
use crate::records::{CountersRow, SnapshotRow, UrlRow};
use crate::slice::decode;
use crate::store::committer::{CommitError, Committer, Submission};
use crate::store::{Ack, Batch, Store, StoreError, Table};

const PAGE_LIMIT: u32 = 1000;
const DEFAULT_LIMIT: u32 = 100;
/// Rows that one ledger call looks at, at most.
const LOOKS: usize = 20_000;
const MAX_CHAIN: usize = 12;

/// What to do once a record is kept, or not.
pub(crate) type WhenKept = Box<dyn FnOnce(Result<(), Refusal>) + Send>;

/// A session that goes on: its id, its record, and the pages and bytes that it delivered.
pub(crate) type Unfinished = (SessionId, v1::SessionStatus, (u64, u64));

/// The reading side of the stores.
#[derive(Clone)]
pub(crate) struct Catalog {
    pub(crate) bulk: Arc<dyn Store>,
    pub(crate) control: Arc<dyn Store>,
    pub(crate) bulk_committer: Arc<Committer>,
    pub(crate) control_committer: Arc<Committer>,
    pub(crate) bodies: Arc<BodyStore>,
    pub(crate) shards: u16,
}

/// A store's failure, as a caller is told.
pub(crate) fn store_failed(error: &StoreError) -> Refusal {
    Refusal::new(ErrorCode::StoreFailed, error)
}

/// Positions per shard, as text.
fn read_cursor(field: &str, text: &str, shards: u16) -> Result<Vec<u64>, Refusal> {
    let mut positions = vec![0; usize::from(shards)];
    let wrong = || {
        Refusal::argument(
            field,
            format!("`{field}` is not a cursor of this coordinator"),
        )
    };
    if !text.is_ascii() || !text.len().is_multiple_of(20) {
        return Err(wrong());
    }
    for at in (0..text.len()).step_by(20) {
        let (shard, position) = text[at..at + 20].split_at(4);
        let shard = usize::from_str_radix(shard, 16).map_err(|_| wrong())?;
        let position = u64::from_str_radix(position, 16).map_err(|_| wrong())?;
        *positions.get_mut(shard).ok_or_else(wrong)? = position;
    }
    Ok(positions)
}

fn write_cursor(positions: &[u64]) -> String {
    let moved = positions
        .iter()
        .enumerate()
        .filter(|(_, position)| **position > 0);
    moved
        .map(|(shard, position)| format!("{shard:04x}{position:016x}"))
        .collect()
}

fn bounded(limit: u32) -> Result<usize, Refusal> {
    if limit > PAGE_LIMIT {
        let why = format!("`limit` is {limit}; at most {PAGE_LIMIT} are given at once");
        return Err(Refusal::argument("limit", why));
    }
    let limit = if limit == 0 { DEFAULT_LIMIT } else { limit };
    Ok(usize::try_from(limit).unwrap_or(100))
}

impl Catalog {
    /// Keeps a session's record; a scrape's in the quick store, others on the disk.
    pub(crate) fn keep(&self, id: &SessionId, status: &v1::SessionStatus, done: WhenKept) {
        let spec = status.spec.clone().unwrap_or_default();
        let mut batch = Batch::default();
        batch.put(
            Table::Sessions,
            id.as_bytes().to_vec(),
            status.encode_to_vec(),
        );
        let index = keys::session_index(&spec.owner, status.started_at_millis, id);
        batch.put(Table::SessionIndex, index, vec![]);
        if !spec.request_id.is_empty() {
            let key = keys::request(&spec.owner, &spec.request_id);
            batch.put(Table::Requests, key, id.as_bytes().to_vec());
        }
        let is_scrape = status.kind() == SessionKind::Scrape;
        let (committer, ack) = if is_scrape {
            (&self.bulk_committer, Ack::Os)
        } else {
            (&self.control_committer, Ack::Disk)
        };
        let done = move |result: Result<(), CommitError>| {
            done(result.map_err(|error| Refusal::new(ErrorCode::StoreFailed, error)));
        };
        committer.submit(Submission {
            batch,
            ack,
            done: Box::new(done),
        });
    }

    /// A session's record, if it belongs to the owner.
    pub(crate) fn record(&self, id: &SessionId, owner: &str) -> Result<v1::SessionStatus, Refusal> {
        for store in [&self.control, &self.bulk] {
            let found = store.get(Table::Sessions, id.as_bytes());
            if let Some(bytes) = found.map_err(|error| store_failed(&error))? {
                let status: v1::SessionStatus =
                    decode(Table::Sessions, &bytes).map_err(|error| store_failed(&error))?;
                if status.spec.as_ref().is_some_and(|spec| spec.owner == owner) {
                    return Ok(status);
                }
            }
        }
        Err(Refusal::new(
            ErrorCode::NotFound,
            format!("no session `{id}`; it may have expired"),
        ))
    }

    /// The session that a repeated start answers.
    pub(crate) fn by_request(
        &self,
        owner: &str,
        request: &str,
    ) -> Result<Option<SessionId>, Refusal> {
        for store in [&self.control, &self.bulk] {
            let found = store.get(Table::Requests, &keys::request(owner, request));
            if let Some(bytes) = found.map_err(|error| store_failed(&error))?
                && let Ok(id) = <[u8; 16]>::try_from(bytes.as_ref())
            {
                return Ok(Some(SessionId::from_bytes(id)));
            }
        }
        Ok(None)
    }

    /// Sessions that had not ended when the coordinator stopped, with the pages and bytes they have.
    pub(crate) fn unfinished(&self) -> Result<Vec<Unfinished>, StoreError> {
        let mut found = Vec::new();
        for store in [&self.control, &self.bulk] {
            for (key, value) in store.scan(Table::Sessions, &[], None, usize::MAX)? {
                let status: v1::SessionStatus = decode(Table::Sessions, &value)?;
                let Ok(id) = <[u8; 16]>::try_from(key.as_ref()) else {
                    continue;
                };
                if status.ended_at_millis == 0 {
                    let id = SessionId::from_bytes(id);
                    let before = self.delivered(&id)?;
                    found.push((id, status, before));
                }
            }
        }
        Ok(found)
    }

    fn delivered(&self, id: &SessionId) -> Result<(u64, u64), StoreError> {
        let (mut pages, mut bytes) = (0, 0);
        for shard in 0..self.shards {
            let key = keys::of_session(shard, id);
            if let Some(value) = self.bulk.get(Table::Counters, &key)? {
                let row: CountersRow = decode(Table::Counters, &value)?;
                pages += row.pages;
                bytes += row.bytes;
            }
        }
        Ok((pages, bytes))
    }

    /// Sessions of an owner, newest first.
    pub(crate) fn list(&self, given: &v1::ListRequest) -> Result<v1::ListReply, Refusal> {
        let limit = bounded(given.limit)?;
        let prefix = keys::owner_prefix(&given.owner);
        let mut after = match given.cursor.as_str() {
            "" => None,
            text => Some(
                unhex(text)
                    .ok_or_else(|| Refusal::argument("cursor", "`cursor` is not one of ours"))?,
            ),
        };
        let mut reply = v1::ListReply::default();
        for _ in 0..LOOKS {
            let mut next: Option<Vec<u8>> = None;
            for store in [&self.control, &self.bulk] {
                let found = store.scan(Table::SessionIndex, &prefix, after.as_deref(), 1);
                let found = found.map_err(|error| store_failed(&error))?;
                let key = found.into_iter().next().map(|(key, _)| key.to_vec());
                next = [next, key].into_iter().flatten().min();
            }
            let Some(key) = next else {
                return Ok(reply);
            };
            let id = key
                .get(key.len().saturating_sub(16)..)
                .and_then(|id| id.try_into().ok());
            after = Some(key.clone());
            let Some(Ok(status)) =
                id.map(|id| self.record(&SessionId::from_bytes(id), &given.owner))
            else {
                continue;
            };
            let is_kind = given.kinds.is_empty() || given.kinds.contains(&status.kind);
            if is_kind && !(given.only_running && status.state().is_terminal()) {
                reply.sessions.push(status);
            }
            if reply.sessions.len() == limit {
                reply.next_cursor = hex(&key);
                return Ok(reply);
            }
        }
        Ok(reply)
    }

    fn row(
        &self,
        shard: u16,
        id: &SessionId,
        fingerprint: Fingerprint,
    ) -> Result<Option<UrlRow>, Refusal> {
        let found = self
            .bulk
            .get(Table::Urls, &keys::url(shard, id, fingerprint));
        let found = found.map_err(|error| store_failed(&error))?;
        let row = found.map(|bytes| decode(Table::Urls, &bytes)).transpose();
        row.map_err(|error| store_failed(&error))
    }

    /// Rows of a table of sequences, from a position per shard; `take` says whether a row counts.
    fn rows(
        &self,
        table: Table,
        id: &SessionId,
        positions: &mut [u64],
        limit: usize,
        mut take: impl FnMut(v1::LedgerEntry) -> bool,
    ) -> Result<bool, Refusal> {
        let (mut taken, mut looked) = (0, 0);
        for (shard, position) in positions.iter_mut().enumerate() {
            let shard = u16::try_from(shard).unwrap_or(0);
            let prefix = keys::of_session(shard, id);
            loop {
                let after = position
                    .checked_sub(1)
                    .map(|last| keys::sequence(shard, id, last));
                let found = self.bulk.scan(table, &prefix, after.as_deref(), 256);
                let found = found.map_err(|error| store_failed(&error))?;
                let is_end = found.len() < 256;
                for (key, value) in found {
                    if taken == limit || looked == LOOKS {
                        return Ok(true);
                    }
                    looked += 1;
                    *position = keys::last_number(&key).unwrap_or(*position) + 1;
                    let Some(fingerprint) = keys::fingerprint(&value) else {
                        continue;
                    };
                    let entry = self.row(shard, id, fingerprint)?.and_then(|row| row.entry);
                    if entry.is_some_and(&mut take) {
                        taken += 1;
                    }
                }
                if is_end {
                    break;
                }
            }
        }
        Ok(false)
    }

    /// Captured pages from a cursor on.
    pub(crate) async fn pages(
        &self,
        id: &SessionId,
        given: &v1::PagesRequest,
    ) -> Result<v1::PagesReply, Refusal> {
        let limit = bounded(given.limit)?;
        let mut positions = read_cursor("cursor", &given.cursor, self.shards)?;
        let mut pages = Vec::new();
        let has_more = self.rows(Table::Manifest, id, &mut positions, limit, |entry| {
            pages.extend(entry.page.map(|page| v1::Page {
                depth: entry.depth,
                ..page
            }));
            true
        })?;
        let mut room = given.inline_bytes;
        for page in &mut pages {
            self.inline(page, &mut room, &given.inline_kinds).await?;
        }
        let cursor = write_cursor(&positions);
        Ok(v1::PagesReply {
            pages,
            next_cursor: if has_more {
                cursor.clone()
            } else {
                String::new()
            },
            is_final: false,
            resume_cursor: cursor,
        })
    }

    /// Every URL from a cursor on.
    pub(crate) fn ledger(
        &self,
        id: &SessionId,
        given: &v1::LedgerRequest,
    ) -> Result<v1::LedgerReply, Refusal> {
        let limit = bounded(given.limit)?;
        let mut positions = read_cursor("cursor", &given.cursor, self.shards)?;
        let mut entries = Vec::new();
        let has_more = self.rows(Table::Admitted, id, &mut positions, limit, |entry| {
            let is_asked = given.states.is_empty() || given.states.contains(&entry.state);
            if is_asked {
                entries.push(entry);
            }
            is_asked
        })?;
        let next_cursor = if has_more {
            write_cursor(&positions)
        } else {
            String::new()
        };
        Ok(v1::LedgerReply {
            entries,
            next_cursor,
        })
    }

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

    /// How the first seed ended, for a session without a page.
    pub(crate) fn first_seed_end(
        &self,
        id: &SessionId,
        spec: &v1::SessionSpec,
    ) -> Option<v1::LedgerEntry> {
        let chain = self.chain(id, spec.seeds.first()?).ok()?;
        chain.into_iter().last()
    }

    async fn inline(
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

    /// A body that a session's manifest names.
    pub(crate) async fn body_of(
        &self,
        id: &SessionId,
        digest: &[u8],
    ) -> Result<bytes::Bytes, Refusal> {
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
        self.body(digest).await?.ok_or_else(none)
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

/// The phase in which a stored session goes on.
pub(crate) fn resumed_phase(state: SessionState) -> crate::gate::Phase {
    use crate::gate::Phase;
    match state {
        SessionState::Paused => Phase::Paused,
        SessionState::Running | SessionState::Unspecified => Phase::Running,
        SessionState::Completed
        | SessionState::PageLimit
        | SessionState::ByteLimit
        | SessionState::TimeLimit
        | SessionState::CreditLimit
        | SessionState::Cancelled
        | SessionState::Failed => Phase::Stopping(state),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}
