//! fjall: what shards commit in bulk. A commit that was acknowledged is in the operating system's hands at least, so it
//! survives `kill -9`; at [`Ack::Disk`] it is synced.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::seal::{open, seal};
use super::{Ack, Batch, Pair, Store, StoreError, Table};

/// Blocks held in memory, for all tables.
const CACHE_BYTES: u64 = 24 * 1024 * 1024;
/// What one table gathers in memory before it is written out.
const TABLE_BYTES: u64 = 4 * 1024 * 1024;
/// What the journals may take on disk.
const JOURNAL_BYTES: u64 = 128 * 1024 * 1024;

/// A folder of fjall.
pub struct FjallStore {
    database: Database,
    tables: BTreeMap<Table, Keyspace>,
}

impl FjallStore {
    /// Opens the folder, or makes it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: fjall::Error| match error {
            fjall::Error::Locked => StoreError::InUse {
                path: path.display().to_string(),
            },
            other => engine(&other),
        };
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES)
            .max_journaling_size(JOURNAL_BYTES)
            .worker_threads(2)
            .open()
            .map_err(failed)?;
        let mut tables = BTreeMap::new();
        for table in Table::ALL {
            let options = || KeyspaceCreateOptions::default().max_memtable_size(TABLE_BYTES);
            let keyspace = database.keyspace(table.name(), options).map_err(failed)?;
            tables.insert(table, keyspace);
        }
        Ok(Self { database, tables })
    }

    fn table(&self, table: Table) -> Result<&Keyspace, StoreError> {
        self.tables
            .get(&table)
            .ok_or_else(|| StoreError::Engine(format!("table `{}` is not open", table.name())))
    }
}

impl Store for FjallStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let found = self
            .table(table)?
            .get(key)
            .map_err(|error| engine(&error))?;
        found
            .map(|value| open(table, Bytes::copy_from_slice(&value)))
            .transpose()
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        use std::ops::Bound;
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after.to_vec()),
            _ => Bound::Included(prefix.to_vec()),
        };
        let mut rows = Vec::new();
        for row in self.table(table)?.range((start, Bound::Unbounded)) {
            let (key, value) = row.into_inner().map_err(|error| engine(&error))?;
            if !key.starts_with(prefix) || rows.len() >= limit {
                break;
            }
            let value = open(table, Bytes::copy_from_slice(&value))?;
            rows.push((Bytes::copy_from_slice(&key), value));
        }
        Ok(rows)
    }

    fn commit(&self, batches: &[Batch], ack: Ack) -> Result<(), StoreError> {
        // Within one engine batch a key may stand only once: all its writes share a sequence number.
        let mode = match ack {
            Ack::Os => PersistMode::Buffer,
            Ack::Disk => PersistMode::SyncData,
        };
        let mut all = self.database.batch().durability(Some(mode));
        for ((table, key), value) in Batch::net(batches) {
            let keyspace = self.table(table)?;
            match value {
                Some(value) => all.insert(keyspace, key, seal(value)),
                None => all.remove(keyspace, key),
            }
        }
        all.commit().map_err(|error| engine(&error))
    }

    fn disk_bytes(&self) -> u64 {
        self.database.disk_space().unwrap_or(0)
    }
}

fn engine(error: &fjall::Error) -> StoreError {
    if matches!(error, fjall::Error::Poisoned) {
        let advice = "an earlier write failed and no more are taken; free space, then restart";
        return StoreError::Full(advice.to_owned());
    }
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::StorageFull
        {
            return StoreError::Full(error.to_string());
        }
        cause = inner.source();
    }
    StoreError::Engine(error.to_string())
}
