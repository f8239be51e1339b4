//! Memory: for simulations and tests. It can be told to fail, as a full disk does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;

use super::{Ack, Batch, Pair, Store, StoreError, Table};

/// Tables in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    rows: RwLock<BTreeMap<Table, BTreeMap<Vec<u8>, Bytes>>>,
    is_full: AtomicBool,
}

impl MemoryStore {
    /// Makes every commit fail, or succeed again.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Release);
    }
}

impl Store for MemoryStore {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(self
            .rows
            .read()
            .get(&table)
            .and_then(|rows| rows.get(key))
            .cloned())
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError> {
        let all = self.rows.read();
        let Some(rows) = all.get(&table) else {
            return Ok(Vec::new());
        };
        let start = after.filter(|after| *after >= prefix).unwrap_or(prefix);
        let found = rows
            .range(start.to_vec()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .filter(|(key, _)| after.is_none_or(|after| key.as_slice() > after))
            .take(limit)
            .map(|(key, value)| (Bytes::copy_from_slice(key), value.clone()));
        Ok(found.collect())
    }

    fn commit(&self, batches: &[Batch], _ack: Ack) -> Result<(), StoreError> {
        if self.is_full.load(Ordering::Acquire) {
            return Err(StoreError::Full("the store was told to be full".into()));
        }
        let mut all = self.rows.write();
        for ((table, key), value) in Batch::net(batches) {
            let rows = all.entry(table).or_default();
            match value {
                Some(value) => rows.insert(key.to_vec(), Bytes::copy_from_slice(value)),
                None => rows.remove(key),
            };
        }
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        0
    }
}
