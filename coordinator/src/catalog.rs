//! Reading: sessions, pages, the ledger, snapshots and bodies, straight from the stores.
//!
//! Reads go past the actors: what they show is committed. Nothing is answered to an owner it does not belong to;
//! another owner's session is simply not found.

mod cursor;
mod hosts;
mod lookup;

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use proto::v1::{self, SessionKind, SessionState};
use proto::{ErrorCode, Refusal, SessionId};

use self::cursor::{bounded, hex, read_cursor, unhex, write_cursor};
use crate::body_store::BodyStore;
use crate::keys::{self, Fingerprint};
use crate::records::{CountersRow, UrlRow};
use crate::slice::decode;
use crate::store::committer::{CommitError, Committer, Submission};
use crate::store::{Ack, Batch, Store, StoreError, Table};

/// Rows that one ledger call looks at, at most.
const LOOKS: usize = 20_000;

/// Records that are read at once.
const RECORDS: usize = 64;

/// What to do once a record is kept, or not.
pub(crate) type WhenKept = Box<dyn FnOnce(Result<(), Refusal>) + Send>;

/// A session that goes on: its id, its record, and the pages and bytes that each shard delivered.
pub(crate) type Unfinished = (SessionId, v1::SessionStatus, BTreeMap<u16, (u64, u64)>);

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
            writer: None,
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
            let mut after: Option<bytes::Bytes> = None;
            loop {
                let rows = store.scan(Table::Sessions, &[], after.as_deref(), RECORDS)?;
                let Some((last, _)) = rows.last() else {
                    break;
                };
                after = Some(last.clone());
                for (key, value) in rows {
                    let status: v1::SessionStatus = decode(Table::Sessions, &value)?;
                    if let Ok(id) = <[u8; 16]>::try_from(key.as_ref())
                        && status.ended_at_millis == 0
                    {
                        let id = SessionId::from_bytes(id);
                        let before = self.delivered(&id)?;
                        found.push((id, status, before));
                    }
                }
            }
        }
        Ok(found)
    }

    fn delivered(&self, id: &SessionId) -> Result<BTreeMap<u16, (u64, u64)>, StoreError> {
        let mut delivered = BTreeMap::new();
        for shard in 0..self.shards {
            let key = keys::of_session(shard, id);
            if let Some(value) = self.bulk.get(Table::Counters, &key)? {
                let row: CountersRow = decode(Table::Counters, &value)?;
                delivered.insert(shard, (row.pages, row.bytes));
            }
        }
        Ok(delivered)
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

    /// How the first seed ended, for a session without a page.
    pub(crate) fn first_seed_end(
        &self,
        id: &SessionId,
        spec: &v1::SessionSpec,
    ) -> Option<v1::LedgerEntry> {
        let chain = self.chain(id, spec.seeds.first()?).ok()?;
        chain.into_iter().last()
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
