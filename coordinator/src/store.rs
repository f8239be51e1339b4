//! What a shard may ask of the engine that keeps its state.
//!
//! Synchronous on purpose: writes come from one committer thread per store, reads are point look-ups and paged
//! scans. Keys are ordered bytes, big-endian where they hold numbers. Values are sealed by the engine wrapper with
//! a version byte and a CRC, so a torn or foreign value is an error and never a wrong answer.

use std::collections::BTreeMap;

use bytes::Bytes;

pub mod committer;
pub mod fjall;
pub mod memory;
mod seal;
pub mod sled;

/// A named set of keys. Closed, so that no two files spell one table two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// shard, session, fingerprint: how a URL stands. Seen set and ledger in one.
    Urls,
    /// shard, session, sequence: fingerprints in the order they were admitted, for paging the ledger.
    Admitted,
    /// shard, host, session, band, sequence: fingerprints that wait to be leased.
    Queue,
    /// shard, host: politeness clock, robots.txt copy, back-off.
    Hosts,
    /// shard, lease: leases that are out.
    Leases,
    /// shard, session, sequence: captured pages in the order they were decided.
    Manifest,
    /// shard, session, fingerprint: out-links of captured pages, kept until the session ends.
    Links,
    /// shard, destination shard, sequence: admissions on their way to another shard.
    Outbox,
    /// body digest, session: which sessions name a body.
    Bodies,
    /// shard, session, content digest: who holds the claim.
    Claims,
    /// shard, session: counters of that session at that shard.
    Counters,
    /// shard, session, domain: cookies of that session at that domain.
    Cookies,
    /// shard, URL hash, time: which session and manifest entry hold the snapshot.
    Snapshots,
    /// session: its record.
    Sessions,
    /// owner, started (newest first), session: for listing.
    SessionIndex,
    /// owner, request id: the session that a repeated start answers.
    Requests,
    /// name: settings of this store, such as its format and shard count.
    Settings,
}

impl Table {
    /// Every table.
    pub const ALL: [Self; 17] = [
        Self::Urls,
        Self::Admitted,
        Self::Queue,
        Self::Hosts,
        Self::Leases,
        Self::Manifest,
        Self::Links,
        Self::Outbox,
        Self::Bodies,
        Self::Claims,
        Self::Counters,
        Self::Cookies,
        Self::Snapshots,
        Self::Sessions,
        Self::SessionIndex,
        Self::Requests,
        Self::Settings,
    ];

    /// The name under which the engines keep it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urls => "urls",
            Self::Admitted => "admitted",
            Self::Queue => "queue",
            Self::Hosts => "hosts",
            Self::Leases => "leases",
            Self::Manifest => "manifest",
            Self::Links => "links",
            Self::Outbox => "outbox",
            Self::Bodies => "bodies",
            Self::Claims => "claims",
            Self::Counters => "counters",
            Self::Cookies => "cookies",
            Self::Snapshots => "snapshots",
            Self::Sessions => "sessions",
            Self::SessionIndex => "session_index",
            Self::Requests => "requests",
            Self::Settings => "settings",
        }
    }
}

/// How safe a write must be before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ack {
    /// Handed to the operating system: survives `kill -9`.
    Os,
    /// On the disk: survives a power cut.
    Disk,
}

/// Writes that happen together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    writes: Vec<Write>,
}

/// One write of a batch.
#[derive(Clone, Debug)]
pub enum Write {
    /// Sets a key.
    Put(Table, Vec<u8>, Vec<u8>),
    /// Removes a key, if it is there.
    Delete(Table, Vec<u8>),
}

impl Batch {
    /// Adds a put.
    pub fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.writes.push(Write::Put(table, key, value));
    }

    /// Adds a delete.
    pub fn delete(&mut self, table: Table, key: Vec<u8>) {
        self.writes.push(Write::Delete(table, key));
    }

    /// Adds all of another batch behind this one's writes.
    pub fn append(&mut self, mut other: Self) {
        self.writes.append(&mut other.writes);
    }

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// How many writes there are.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// The writes in order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// What each key of these batches ends up as, the last write winning; `None` is a delete.
    pub fn net(batches: &[Self]) -> BTreeMap<(Table, &[u8]), Option<&[u8]>> {
        let mut net = BTreeMap::new();
        for write in batches.iter().flat_map(|batch| &batch.writes) {
            match write {
                Write::Put(table, key, value) => {
                    net.insert((*table, key.as_slice()), Some(value.as_slice()));
                }
                Write::Delete(table, key) => {
                    net.insert((*table, key.as_slice()), None);
                }
            }
        }
        net
    }
}

/// A key and its value.
pub type Pair = (Bytes, Bytes);

/// An engine: fjall for what shards commit in bulk, sled for sessions and settings, memory for simulations.
pub trait Store: Send + Sync + 'static {
    /// The value of a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Up to `limit` pairs whose keys begin with `prefix` and come after `after`, in key order.
    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Pair>, StoreError>;

    /// Applies the batches in order; all writes of one batch or none. Returns once `ack` holds for all.
    fn commit(&self, batches: &[Batch], ack: Ack) -> Result<(), StoreError>;

    /// Bytes on disk, as far as the engine knows.
    fn disk_bytes(&self) -> u64;
}

/// Why the engine did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds the folder.
    #[error("the store at `{path}` is in use by another process")]
    InUse {
        /// The folder.
        path: String,
    },
    /// The disk is full.
    #[error("no space is left for the store: {0}")]
    Full(String),
    /// A value is not what was written.
    #[error("a value of table {table:?} is damaged: {why}")]
    Damaged {
        /// Where it lies.
        table: Table,
        /// What is wrong with it.
        why: String,
    },
    /// The folder was written by another format or shard count.
    #[error("the store at `{path}` has {what} {found}, this build needs {wanted}")]
    Format {
        /// The folder.
        path: String,
        /// What differs.
        what: &'static str,
        /// What the folder has.
        found: String,
        /// What is needed.
        wanted: String,
    },
    /// Anything else the engine says.
    #[error("the store failed: {0}")]
    Engine(String),
}
