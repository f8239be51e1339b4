//! A shard's view of the store: what is committed, with its own writes on top that are not committed yet.
//!
//! The core reads and writes here; the actor takes the batch and says when it is committed. So a core sees its own
//! writes at once and nobody else sees them before they are safe.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::store::{Batch, Store, StoreError, Table};

/// The view.
pub(crate) struct Slice {
    store: Arc<dyn Store>,
    batch: Batch,
    /// The number of the batch that is being filled.
    filling: u64,
    /// Writes that the store may not show yet, each with the batch that carries it.
    pending: BTreeMap<(Table, Vec<u8>), (u64, Option<Bytes>)>,
    /// Keys by batch, to forget them once it is committed.
    by_batch: BTreeMap<u64, Vec<(Table, Vec<u8>)>>,
}

impl Slice {
    /// Opens a view with nothing pending.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            batch: Batch::default(),
            filling: 1,
            pending: BTreeMap::new(),
            by_batch: BTreeMap::new(),
        }
    }

    /// The value of a key, decoded.
    pub(crate) fn get<M: Message + Default>(
        &self,
        table: Table,
        key: &[u8],
    ) -> Result<Option<M>, StoreError> {
        match self.get_bytes(table, key)? {
            None => Ok(None),
            Some(bytes) => decode(table, &bytes).map(Some),
        }
    }

    /// The value of a key.
    pub(crate) fn get_bytes(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        if !self.pending.is_empty()
            && let Some((_, value)) = self.pending.get(&(table, key.to_vec()))
        {
            return Ok(value.clone());
        }
        self.store.get(table, key)
    }

    /// Sets a key.
    pub(crate) fn put<M: Message>(&mut self, table: Table, key: Vec<u8>, value: &M) {
        self.put_bytes(table, key, value.encode_to_vec());
    }

    /// Sets a key.
    pub(crate) fn put_bytes(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.note(table, &key, Some(Bytes::from(value.clone())));
        self.batch.put(table, key, value);
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, table: Table, key: Vec<u8>) {
        self.note(table, &key, None);
        self.batch.delete(table, key);
    }

    fn note(&mut self, table: Table, key: &[u8], value: Option<Bytes>) {
        let place = (table, key.to_vec());
        self.by_batch
            .entry(self.filling)
            .or_default()
            .push(place.clone());
        self.pending.insert(place, (self.filling, value));
    }

    /// Up to `limit` pairs under `prefix` after `after`, pending writes included.
    pub(crate) fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let mut found = Vec::with_capacity(limit.min(128));
        let mut from = after.map(<[u8]>::to_vec);
        loop {
            let stored = self.store.scan(table, prefix, from.as_deref(), limit)?;
            let is_last = stored.len() < limit;
            let end = if is_last {
                None
            } else {
                stored.last().map(|(key, _)| key.to_vec())
            };
            let mut merged: BTreeMap<Vec<u8>, Bytes> = stored
                .into_iter()
                .map(|(key, value)| (key.to_vec(), value))
                .collect();
            self.overlay(&mut merged, table, prefix, from.as_deref(), end.as_deref());
            for (key, value) in merged {
                if found.len() == limit {
                    return Ok(found);
                }
                found.push((Bytes::from(key), value));
            }
            match end {
                Some(end) if found.len() < limit => from = Some(end),
                Some(_) | None => return Ok(found),
            }
        }
    }

    fn overlay(
        &self,
        merged: &mut BTreeMap<Vec<u8>, Bytes>,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        end: Option<&[u8]>,
    ) {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded((table, after.to_vec())),
            Some(_) | None => Bound::Included((table, prefix.to_vec())),
        };
        for ((place, key), (_, value)) in self.pending.range((start, Bound::Unbounded)) {
            let is_past = end.is_some_and(|end| key.as_slice() > end);
            if *place != table || !key.starts_with(prefix) || is_past {
                break;
            }
            match value {
                Some(value) => merged.insert(key.clone(), value.clone()),
                None => merged.remove(key),
            };
        }
    }

    /// Whether something is to be committed.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Takes what is to be committed, with its number.
    pub(crate) fn take(&mut self) -> (u64, Batch) {
        let number = self.filling;
        self.filling += 1;
        (number, std::mem::take(&mut self.batch))
    }

    /// The batch is in the store: its writes need no copy here.
    pub(crate) fn committed(&mut self, number: u64) {
        for place in self.by_batch.remove(&number).unwrap_or_default() {
            if self
                .pending
                .get(&place)
                .is_some_and(|(by, _)| *by == number)
            {
                self.pending.remove(&place);
            }
        }
    }
}

/// Decodes a row.
pub(crate) fn decode<M: Message + Default>(table: Table, bytes: &[u8]) -> Result<M, StoreError> {
    M::decode(bytes).map_err(|error| StoreError::Damaged {
        table,
        why: error.to_string(),
    })
}
