//! What a shard holds in memory, how it is rebuilt from the store, and how rows and counters change together.
//!
//! Invariant: the counts of a session here add up to the URLs it admitted here, in every batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proto::v1;
use proto::{CrawlUrl, DomainKey, HostKey, SessionId, Timestamp};

use crate::fleet::Fleet;
use crate::gate::{Directory, SessionShared, Tally};
use crate::keys::{self, Fingerprint};
use crate::records::{CountersRow, HostRow, LeaseRow, Mail};
use crate::slice::Slice;
use crate::store::{Store, StoreError, Table};

/// Where URLs beyond the depth wait for a shorter path.
pub(super) const DEEP: &str = "~deep";
/// Numbers that a run may give before it has to write.
const NUMBERS: u64 = 64 * 1024;

/// What the operator decided.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Least time between two starts at one host.
    pub(crate) min_interval: Duration,
    /// Requests in flight at one host.
    pub(crate) per_host: u32,
    /// Leases at once for the hosts of one domain.
    pub(crate) per_domain: u32,
    /// How long a lease lasts without a heartbeat.
    pub(crate) lease: Duration,
    /// Redirects in a row that are followed.
    pub(crate) max_redirects: u32,
}

/// What has to happen outside once the batch is committed.
#[derive(Debug)]
pub(crate) enum Effect {
    /// An order for a worker; a lease that cannot be delivered comes back at once.
    Send {
        worker: String,
        order: Box<v1::Order>,
        lease_id: Option<u64>,
    },
    /// Numbers for the board of a session.
    Post { session: SessionId, tally: Tally },
    /// Mail for another shard.
    Mail { to: u16, items: Vec<(u64, Mail)> },
    /// Mail of another shard is applied.
    Answer {
        to: u16,
        number: u64,
        decision: Option<Decision>,
    },
    /// Another shard is to ask for the robots.txt that `origin` redirects to.
    AskRobots {
        to: u16,
        origin: HostKey,
        target: CrawlUrl,
        hops: u32,
    },
    /// The answer for the host that asked.
    TellRobots {
        to: u16,
        origin: HostKey,
        copy: Box<v1::RobotsCopy>,
    },
    /// Shards that wait for permits look again.
    Poke { shards: BTreeSet<u16> },
    /// A worker's slot is free.
    Release { worker: String },
    /// The seeds of a session are in.
    Seeded { session: SessionId },
    /// There is more to settle.
    SettleMore { session: SessionId },
}

/// Who was first with a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The page that asked.
    Won,
    /// Another page, by this URL.
    Lost(String),
}

pub(super) struct SessionHere {
    pub(super) shared: Arc<SessionShared>,
    pub(super) counters: CountersRow,
    pub(super) hosts: BTreeSet<HostKey>,
    pub(super) is_settled: bool,
    /// Pages by domain, where these have a bound.
    pub(super) domains: BTreeMap<DomainKey, super::permit::DomainUse>,
}

#[derive(Default)]
pub(super) struct HostHere {
    pub(super) row: HostRow,
    /// The earliest next start; the row is pessimistic while a lease is out.
    pub(super) clock: Timestamp,
    /// Sessions with URLs here, and the queue key below which nothing waits.
    pub(super) sessions: BTreeMap<SessionId, Option<Vec<u8>>>,
    pub(super) lease: Option<u64>,
    pub(super) due_at: Option<Timestamp>,
    /// Its robots.txt lies elsewhere: what was asked, and when.
    pub(super) elsewhere: Option<(CrawlUrl, u32, Timestamp)>,
    /// robots.txt files that this host holds for others.
    pub(super) asks: BTreeMap<HostKey, (CrawlUrl, u32)>,
    /// Why all that waits here fails.
    pub(super) doomed: Option<(String, String)>,
    /// Code and detail of the last try to read robots.txt that failed.
    pub(super) unreadable: Option<(String, String)>,
    pub(super) served_last: Option<SessionId>,
}

pub(super) struct LeaseHere {
    pub(super) row: LeaseRow,
    pub(super) host: HostKey,
    pub(super) expires: Timestamp,
    pub(super) tickets: BTreeMap<u64, TicketHere>,
    /// Tickets that were settled without their worker, which still holds them.
    pub(super) recalled: BTreeSet<u64>,
    pub(super) sessions: BTreeSet<SessionId>,
}

#[derive(Clone, Debug)]
pub(super) struct TicketHere {
    pub(super) session: Option<SessionId>,
    pub(super) fingerprint: Fingerprint,
    /// The host for whose page it holds a right.
    pub(super) permit: Option<HostKey>,
    pub(super) robots: Option<(HostKey, u32)>,
}

/// The frontier of one shard.
pub(crate) struct ShardCore {
    pub(super) shard: u16,
    pub(super) shards: u16,
    pub(super) policy: Policy,
    pub(super) boot: Timestamp,
    pub(super) slice: Slice,
    pub(super) directory: Directory,
    pub(super) fleet: Fleet,
    pub(super) sessions: BTreeMap<SessionId, SessionHere>,
    pub(super) hosts: BTreeMap<HostKey, HostHere>,
    pub(super) leases: BTreeMap<u64, LeaseHere>,
    pub(super) due: BTreeSet<(Timestamp, HostKey)>,
    pub(super) domains: BTreeMap<DomainKey, u32>,
    pub(super) mailing: BTreeMap<u16, super::mail::Destination>,
    /// Fetched URLs whose permit is held until their digest is decided.
    pub(super) claiming: BTreeSet<(SessionId, Fingerprint)>,
    pub(super) effects: Vec<Effect>,
    pub(super) dirty: BTreeSet<SessionId>,
    /// The last number that was given, and the last that this run may give before it writes a later one.
    number: u64,
    ceiling: u64,
}

impl ShardCore {
    /// Makes an empty frontier over the store; [`Self::restore`] fills it.
    pub(crate) fn new(
        shard: u16,
        shards: u16,
        policy: Policy,
        store: Arc<dyn Store>,
        shared: (Directory, Fleet),
        boot: Timestamp,
    ) -> Self {
        Self {
            shard,
            shards,
            policy,
            boot,
            slice: Slice::new(store),
            directory: shared.0,
            fleet: shared.1,
            sessions: BTreeMap::new(),
            hosts: BTreeMap::new(),
            leases: BTreeMap::new(),
            due: BTreeSet::new(),
            domains: BTreeMap::new(),
            mailing: BTreeMap::new(),
            claiming: BTreeSet::new(),
            effects: Vec::new(),
            dirty: BTreeSet::new(),
            number: boot.as_millis().saturating_mul(64),
            ceiling: 0,
        }
    }

    /// Goes on behind every number of an earlier run.
    pub(super) fn restore_numbers(&mut self) -> Result<(), StoreError> {
        let stored = self
            .slice
            .get_bytes(Table::Settings, &keys::numbers(self.shard))?;
        if let Some(ceiling) = stored.and_then(|bytes| keys::last_number(&bytes)) {
            self.number = ceiling;
        }
        Ok(())
    }

    /// A number that no earlier lease, ticket or mail of this shard has; its low bits name the shard.
    ///
    /// A later end of the numbers is in the batch that uses the first beyond the old one, so a batch that is lost
    /// takes only numbers with it that nobody has seen.
    pub(super) fn number(&mut self) -> u64 {
        self.number += 1;
        if self.number > self.ceiling {
            self.ceiling = self.number + NUMBERS;
            let ceiling = self.ceiling.to_be_bytes().to_vec();
            let key = keys::numbers(self.shard);
            self.slice.put_bytes(Table::Settings, key, ceiling);
        }
        (self.number << 16) | u64::from(self.shard)
    }

    /// Loads a session; false when it does not run here any more.
    pub(super) fn open(&mut self, id: &SessionId) -> Result<bool, StoreError> {
        if self.sessions.contains_key(id) {
            return Ok(true);
        }
        let Some(shared) = self.directory.get(id) else {
            return Ok(false);
        };
        let key = keys::of_session(self.shard, id);
        let mut counters: CountersRow = self.slice.get(Table::Counters, &key)?.unwrap_or_default();
        counters.counts.resize(super::rows::STATES, 0);
        let here = SessionHere {
            shared,
            counters,
            hosts: BTreeSet::new(),
            is_settled: false,
            domains: BTreeMap::new(),
        };
        self.sessions.insert(id.clone(), here);
        Ok(true)
    }

    /// Forgets a session that has ended.
    pub(crate) fn close(&mut self, id: &SessionId) {
        let Some(here) = self.sessions.remove(id) else {
            return;
        };
        self.dirty.remove(id);
        for host in here.hosts {
            if let Some(host) = self.hosts.get_mut(&host) {
                host.sessions.remove(id);
            }
            self.evict(&host);
        }
    }

    /// Loads a host; one that an earlier run wrote may not start before its interval has passed since boot.
    pub(super) fn host(&mut self, key: &HostKey) -> Result<&mut HostHere, StoreError> {
        if !self.hosts.contains_key(key) {
            let stored = self.slice.get(Table::Hosts, &keys::host(self.shard, key))?;
            let is_known = stored.is_some();
            let row: HostRow = stored.unwrap_or_default();
            let mut clock = Timestamp::from_millis(row.not_before);
            if is_known && row.written_at < self.boot.as_millis() {
                let interval = Duration::from_millis(row.interval).max(self.policy.min_interval);
                clock = clock.max(self.boot + interval);
            }
            let here = HostHere {
                row,
                clock,
                ..HostHere::default()
            };
            self.hosts.insert(key.clone(), here);
        }
        Ok(self.hosts.entry(key.clone()).or_default())
    }

    /// Writes a host's row with the clock `not_before`.
    pub(super) fn write_host(&mut self, now: Timestamp, key: &HostKey, not_before: Timestamp) {
        if let Some(host) = self.hosts.get_mut(key) {
            host.row.not_before = not_before.as_millis();
            host.row.written_at = now.as_millis();
            self.slice
                .put(Table::Hosts, keys::host(self.shard, key), &host.row);
        }
    }

    /// Forgets a host without work; its clock is in the store.
    pub(super) fn evict(&mut self, key: &HostKey) {
        let is_idle = self.hosts.get(key).is_some_and(|host| {
            host.sessions.is_empty()
                && host.asks.is_empty()
                && host.lease.is_none()
                && host.elsewhere.is_none()
        });
        if is_idle
            && let Some(host) = self.hosts.remove(key)
            && let Some(at) = host.due_at
        {
            self.due.remove(&(at, key.clone()));
        }
    }

    /// Puts a host into the time heap if it has work and no lease.
    pub(super) fn schedule(&mut self, key: &HostKey) {
        let Some(host) = self.hosts.get_mut(key) else {
            return;
        };
        if let Some(at) = host.due_at.take() {
            self.due.remove(&(at, key.clone()));
        }
        let has_work = !host.sessions.is_empty() || !host.asks.is_empty();
        if host.lease.is_none() && has_work {
            // What it holds for others does not wait for what others hold for it.
            let elsewhere = host.elsewhere.as_ref().filter(|_| host.asks.is_empty());
            let asked_again = elsewhere.map(|(_, _, at)| *at);
            let at = host.clock.max(asked_again.unwrap_or_default());
            host.due_at = Some(at);
            self.due.insert((at, key.clone()));
        }
    }

    /// Writes the counters that changed and answers the effects; the actor calls it after every message.
    pub(crate) fn finish(&mut self) -> Result<Vec<Effect>, StoreError> {
        let mut posts = Vec::new();
        for id in std::mem::take(&mut self.dirty) {
            let Some(here) = self.sessions.get(&id) else {
                continue;
            };
            let key = keys::of_session(self.shard, &id);
            self.slice.put(Table::Counters, key, &here.counters);
            posts.push(Effect::Post {
                tally: self.tally(here)?,
                session: id,
            });
        }
        // Numbers are posted before foreign mail is confirmed: the board never shows less than there is.
        posts.append(&mut self.effects);
        Ok(posts)
    }

    fn tally(&self, here: &SessionHere) -> Result<Tally, StoreError> {
        let clocks = here
            .hosts
            .iter()
            .take(64)
            .filter_map(|key| self.hosts.get(key));
        let next = clocks.map(|host| host.clock.as_millis()).min();
        Ok(Tally {
            counts: here.counters.counts.clone(),
            reasons: here.counters.reasons.clone(),
            admitted: here.counters.admitted,
            pages: here.counters.pages,
            bytes: here.counters.bytes,
            outbox: here.counters.outbox,
            hosts: here.counters.hosts,
            next_start: next.unwrap_or(0),
            is_settled: here.is_settled,
            head: match here.shared.walk.is_strict() {
                true => self.head(here)?,
                false => None,
            },
        })
    }

    /// The view, for the actor to take batches from.
    pub(crate) fn slice(&mut self) -> &mut Slice {
        &mut self.slice
    }

    /// The shard of a host.
    pub(super) fn shard_of(&self, host: &HostKey) -> u16 {
        host.domain().shard(self.shards)
    }
}
