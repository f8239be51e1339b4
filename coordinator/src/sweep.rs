//! The sweep: sessions whose time is over are removed, with their rows and the bodies that nobody else names.
//!
//! In bounded batches, the session's record last, so that a sweep that is cut short goes on at the next one. A body
//! that two sessions share goes with the second. One that was put lately may be about to be named and stays for a
//! later sweep, and the record with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::v1;
use proto::{Clock, CrawlUrl, Digest, SessionId, Timestamp};
use tokio::sync::oneshot;

use crate::body_store::BodyError;
use crate::catalog::Catalog;
use crate::keys;
use crate::records::UrlRow;
use crate::slice::decode;
use crate::store::committer::{CommitError, Committer, Submission};
use crate::store::{Ack, Batch, Store, StoreError, Table};

/// How often it runs.
const EVERY: Duration = Duration::from_secs(60);
/// Rows that one batch removes.
const ROWS: usize = 512;
/// Records that are read at once.
const RECORDS: usize = 64;
/// Rows of a session at a shard, in the order in which they go.
const OF_SESSION: [Table; 7] = [
    Table::Manifest,
    Table::Admitted,
    Table::Links,
    Table::Claims,
    Table::Urls,
    Table::Cookies,
    Table::Counters,
];

/// Why a sweep stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepError {
    /// A store cannot be read.
    #[error(transparent)]
    Read(#[from] StoreError),
    /// A batch was not kept.
    #[error("rows could not be removed: {0}")]
    Commit(CommitError),
    /// The committer has gone.
    #[error("the store is closed")]
    Closed,
    /// A body cannot be removed.
    #[error(transparent)]
    Body(#[from] BodyError),
}

/// What removes.
#[derive(Clone)]
pub(crate) struct Sweeper {
    pub(crate) clock: Clock,
    pub(crate) catalog: Catalog,
}

impl Sweeper {
    /// Sweeps until it is aborted.
    pub(crate) async fn run(self) {
        loop {
            tokio::time::sleep(EVERY).await;
            match self.sweep(self.clock.now()).await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "expired sessions are removed"),
                Err(error) => tracing::error!(%error, "expired sessions are not removed"),
            }
        }
    }

    /// Removes every session that has expired; answers how many.
    pub(crate) async fn sweep(&self, now: Timestamp) -> Result<usize, SweepError> {
        let catalog = &self.catalog;
        let mut count = 0;
        for (store, committer) in [
            (&catalog.control, &catalog.control_committer),
            (&catalog.bulk, &catalog.bulk_committer),
        ] {
            let mut after: Option<Bytes> = None;
            loop {
                let found = store.scan(Table::Sessions, &[], after.as_deref(), RECORDS)?;
                let Some((last, _)) = found.last() else {
                    break;
                };
                after = Some(last.clone());
                for (key, value) in found {
                    let status: v1::SessionStatus = decode(Table::Sessions, &value)?;
                    let Ok(id) = <[u8; 16]>::try_from(key.as_ref()) else {
                        continue;
                    };
                    let is_over = status.ended_at_millis > 0
                        && status.expires_at_millis > 0
                        && status.expires_at_millis <= now.as_millis();
                    if is_over && self.remove(&SessionId::from_bytes(id), now).await? {
                        let batch = Self::record(&SessionId::from_bytes(id), &status, store)?;
                        commit(committer, batch).await?;
                        count += 1;
                    }
                }
            }
        }
        Ok(count)
    }

    /// Removes what a session left at the shards; false while one of its bodies has to stay.
    async fn remove(&self, id: &SessionId, now: Timestamp) -> Result<bool, SweepError> {
        let has_left = self.bodies(id, now).await?;
        for shard in 0..self.catalog.shards {
            let prefix = keys::of_session(shard, id);
            for table in OF_SESSION {
                loop {
                    let rows = self.catalog.bulk.scan(table, &prefix, None, ROWS)?;
                    if rows.is_empty() {
                        break;
                    }
                    let mut batch = Batch::default();
                    for (key, value) in rows {
                        if table == Table::Manifest
                            && let Some(snapshot) = self.snapshot(shard, id, &value)?
                        {
                            batch.delete(Table::Snapshots, snapshot);
                        }
                        batch.delete(table, key.to_vec());
                    }
                    commit(&self.catalog.bulk_committer, batch).await?;
                }
            }
        }
        Ok(!has_left)
    }

    fn snapshot(
        &self,
        shard: u16,
        id: &SessionId,
        fingerprint: &[u8],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(fingerprint) = keys::fingerprint(fingerprint) else {
            return Ok(None);
        };
        let found = self
            .catalog
            .bulk
            .get(Table::Urls, &keys::url(shard, id, fingerprint))?;
        let Some(found) = found else {
            return Ok(None);
        };
        let row: UrlRow = decode(Table::Urls, &found)?;
        let entry = row.entry.unwrap_or_default();
        let url = CrawlUrl::parse(&entry.url).ok();
        Ok(url
            .zip(entry.page)
            .map(|(url, page)| keys::snapshot(&url.url_hash(), page.fetched_at_millis, id)))
    }

    /// Gives up the names that the session has for bodies; true when one has to stay.
    async fn bodies(&self, id: &SessionId, now: Timestamp) -> Result<bool, SweepError> {
        let catalog = &self.catalog;
        let prefix = keys::of_session(keys::COMMON, id);
        let mut has_left = false;
        let mut after: Option<Bytes> = None;
        loop {
            let named = catalog
                .bulk
                .scan(Table::Claims, &prefix, after.as_deref(), ROWS)?;
            let Some((last, _)) = named.last() else {
                return Ok(has_left);
            };
            after = Some(last.clone());
            let mut batch = Batch::default();
            for (key, _) in named {
                let digest = key.get(prefix.len()..).unwrap_or_default();
                let own = keys::body(digest, id);
                let names = catalog.bulk.scan(Table::Bodies, digest, None, 2)?;
                let is_shared = names
                    .iter()
                    .any(|(name, _)| name.as_ref() != own.as_slice());
                let is_gone = match Digest::try_from(digest) {
                    Ok(digest) if !is_shared => catalog.bodies.remove_old(&digest, now).await?,
                    Ok(_) | Err(_) => true,
                };
                if is_gone {
                    batch.delete(Table::Bodies, own);
                    batch.delete(Table::Claims, key.to_vec());
                } else {
                    has_left = true;
                }
            }
            commit(&catalog.bulk_committer, batch).await?;
        }
    }

    /// The last batch: the record, its place in the list, its request id.
    fn record(
        id: &SessionId,
        status: &v1::SessionStatus,
        store: &Arc<dyn Store>,
    ) -> Result<Batch, StoreError> {
        let mut batch = Batch::default();
        let spec = status.spec.clone().unwrap_or_default();
        batch.delete(Table::Sessions, id.as_bytes().to_vec());
        let index = keys::session_index(&spec.owner, status.started_at_millis, id);
        batch.delete(Table::SessionIndex, index);
        let request = keys::request(&spec.owner, &spec.request_id);
        let named = store.get(Table::Requests, &request)?;
        if named.is_some_and(|named| named.as_ref() == id.as_bytes()) {
            batch.delete(Table::Requests, request);
        }
        Ok(batch)
    }
}

async fn commit(committer: &Committer, batch: Batch) -> Result<(), SweepError> {
    if batch.is_empty() {
        return Ok(());
    }
    let (done, kept) = oneshot::channel();
    committer.submit(Submission {
        writer: None,
        batch,
        ack: Ack::Os,
        done: Box::new(move |result| drop(done.send(result))),
    });
    let kept = kept.await.map_err(|_| SweepError::Closed)?;
    kept.map_err(SweepError::Commit)
}
