//! sled: sessions and settings. Small, rewritten often, and flushed before anything is acknowledged: unflushed, sled keeps
//! writes in its own memory for up to half a second, and a kill would lose them. So both kinds of acknowledgement mean the disk.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use sled::transaction::{ConflictableTransactionError, TransactionError, Transactional as _};

use super::seal::{open, seal};
use super::{Ack, Batch, Pair, Store, StoreError, Table};

/// Pages held in memory; the engine's own default is 1 GiB.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;

/// A folder of sled.
pub struct SledStore {
    database: sled::Db,
    tables: BTreeMap<Table, sled::Tree>,
}

impl SledStore {
    /// Opens the folder, or makes it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |error: sled::Error| match error {
            // sled names a taken lock only in words.
            sled::Error::Io(inner) if inner.to_string().contains("could not acquire lock") => {
                StoreError::InUse {
                    path: path.display().to_string(),
                }
            }
            sled::Error::Corruption { .. } => StoreError::Engine(format!(
                "`{}` is damaged; move it aside to start anew, or restore a copy",
                path.display()
            )),
            other => engine(&other),
        };
        let database = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None)
            .open()
            .map_err(failed)?;
        let mut tables = BTreeMap::new();
        for table in Table::ALL {
            tables.insert(table, database.open_tree(table.name()).map_err(failed)?);
        }
        Ok(Self { database, tables })
    }

    fn table(&self, table: Table) -> Result<&sled::Tree, StoreError> {
        self.tables
            .get(&table)
            .ok_or_else(|| StoreError::Engine(format!("table `{}` is not open", table.name())))
    }
}

impl Store for SledStore {
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
        for row in self
            .table(table)?
            .range((start, Bound::<Vec<u8>>::Unbounded))
        {
            let (key, value) = row.map_err(|error| engine(&error))?;
            if !key.starts_with(prefix) || rows.len() >= limit {
                break;
            }
            let value = open(table, Bytes::copy_from_slice(&value))?;
            rows.push((Bytes::copy_from_slice(&key), value));
        }
        Ok(rows)
    }

    fn commit(&self, batches: &[Batch], _ack: Ack) -> Result<(), StoreError> {
        let mut by_table: BTreeMap<Table, sled::Batch> = BTreeMap::new();
        for ((table, key), value) in Batch::net(batches) {
            let batch = by_table.entry(table).or_default();
            match value {
                Some(value) => batch.insert(key, seal(value)),
                None => batch.remove(key),
            }
        }
        let mut trees = Vec::new();
        let mut writes = Vec::new();
        for (table, batch) in by_table {
            trees.push(self.table(table)?.clone());
            writes.push(batch);
        }
        if trees.is_empty() {
            return Ok(());
        }
        trees
            .as_slice()
            .transaction(|views| {
                for (view, batch) in views.iter().zip(&writes) {
                    view.apply_batch(batch)?;
                }
                Ok::<(), ConflictableTransactionError<()>>(())
            })
            .map_err(|error| match error {
                TransactionError::Abort(()) => StoreError::Engine("the commit was aborted".into()),
                TransactionError::Storage(error) => engine(&error),
            })?;
        self.database.flush().map_err(|error| engine(&error))?;
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        self.database.size_on_disk().unwrap_or(0)
    }
}

fn engine(error: &sled::Error) -> StoreError {
    match error {
        sled::Error::Io(inner) if inner.kind() == std::io::ErrorKind::StorageFull => {
            StoreError::Full(inner.to_string())
        }
        other => StoreError::Engine(other.to_string()),
    }
}
