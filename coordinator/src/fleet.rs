//! The workers: which one a domain belongs to, and how many leases each can still hold.
//!
//! A small locked struct: shards take a slot before they lease and give it back after the lease's end, so a worker
//! never holds more leases than it said it can. A shard that found no slot is poked when one is free.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use proto::{DomainKey, Timestamp, v1};
use tokio::sync::mpsc;
use tonic::Status;

use crate::ring::Ring;

/// Orders to a worker in one link's queue; leases are bounded by slots, the rest are small.
pub(crate) const ORDERS: usize = 4096;

/// The sending end of a worker's link.
pub(crate) type OrderSender = mpsc::Sender<Result<v1::Order, Status>>;

/// The workers of this coordinator.
#[derive(Clone, Default)]
pub(crate) struct Fleet(Arc<Mutex<Workers>>);

#[derive(Default)]
struct Workers {
    linked: BTreeMap<String, Linked>,
    /// Open leases by worker, linked or not, and by the shard that gave them: what a shard that restarts held is
    /// counted anew.
    open: BTreeMap<String, BTreeMap<u16, u32>>,
    waiting: VecDeque<u16>,
    ring: Option<Ring>,
    links: u64,
}

struct Linked {
    hello: v1::Hello,
    orders: OrderSender,
    link: u64,
    is_draining: bool,
    joined: Timestamp,
}

impl Workers {
    fn open(&self, worker: &str) -> u32 {
        self.open.get(worker).map_or(0, |by| by.values().sum())
    }

    fn add(&mut self, worker: &str, shard: u16) {
        let by_shard = self.open.entry(worker.to_owned()).or_default();
        *by_shard.entry(shard).or_default() += 1;
        self.show();
    }

    fn remove(&mut self, worker: &str, shard: u16) {
        if let Some(by_shard) = self.open.get_mut(worker) {
            if let Some(open) = by_shard.get_mut(&shard) {
                *open = open.saturating_sub(1);
            }
            by_shard.retain(|_, open| *open > 0);
            if by_shard.is_empty() {
                self.open.remove(worker);
            }
        }
        self.show();
    }

    fn show(&self) {
        let sum: u32 = self.open.values().flat_map(BTreeMap::values).sum();
        metrics::gauge!(crate::metrics::LEASES_OPEN).set(f64::from(sum));
    }

    fn rebuild(&mut self) {
        let takes = self.linked.iter().filter(|(_, worker)| !worker.is_draining);
        let members = takes.map(|(id, worker)| (id.clone(), worker.hello.weight.max(1)));
        self.ring = match Ring::new(members) {
            Ok(ring) => Some(ring),
            Err(error) => {
                tracing::error!(%error, "the ring could not be built");
                None
            }
        };
        metrics::gauge!(crate::metrics::WORKERS).set(self.linked.len() as f64);
    }
}

impl Fleet {
    /// Takes a worker in; answers its link's number and the shards that wait for work to go out.
    pub(crate) fn join(
        &self,
        hello: v1::Hello,
        orders: OrderSender,
        now: Timestamp,
    ) -> (u64, Vec<u16>) {
        let mut workers = self.0.lock();
        workers.links += 1;
        let link = workers.links;
        let id = hello.worker_id.clone();
        let linked = Linked {
            hello,
            orders,
            link,
            is_draining: false,
            joined: now,
        };
        workers.linked.insert(id, linked);
        workers.rebuild();
        (link, workers.waiting.drain(..).collect())
    }

    /// The link broke: the worker leaves the ring, its leases stay until they are over.
    pub(crate) fn leave(&self, worker: &str, link: u64) -> Vec<u16> {
        let mut workers = self.0.lock();
        if workers
            .linked
            .get(worker)
            .is_some_and(|known| known.link == link)
        {
            workers.linked.remove(worker);
            workers.rebuild();
        }
        workers.waiting.drain(..).collect()
    }

    /// The worker takes no more leases.
    pub(crate) fn drain(&self, worker: &str) -> Vec<u16> {
        let mut workers = self.0.lock();
        if let Some(known) = workers.linked.get_mut(worker) {
            known.is_draining = true;
        }
        workers.rebuild();
        workers.waiting.drain(..).collect()
    }

    /// Takes a slot of the worker that the ring names for the domain; without one the shard is poked later.
    pub(crate) fn take_slot(&self, domain: &DomainKey, shard: u16) -> Option<String> {
        let mut workers = self.0.lock();
        let owner = workers.ring.as_ref().and_then(|ring| ring.owner(domain));
        let owner = owner.map(str::to_owned);
        let free = owner.filter(|id| {
            let slots = workers
                .linked
                .get(id)
                .map_or(0, |worker| worker.hello.slots.max(1));
            workers.open(id) < slots
        });
        match free {
            Some(id) => {
                workers.add(&id, shard);
                Some(id)
            }
            None => {
                if !workers.waiting.contains(&shard) {
                    workers.waiting.push_back(shard);
                }
                None
            }
        }
    }

    /// A shard starts anew from the store: what it held is counted again by [`Self::note_open`].
    pub(crate) fn restart(&self, shard: u16) {
        let mut workers = self.0.lock();
        for by_shard in workers.open.values_mut() {
            by_shard.remove(&shard);
        }
        workers.open.retain(|_, by_shard| !by_shard.is_empty());
        workers.show();
    }

    /// A lease that the shard found in the store is still open at this worker.
    pub(crate) fn note_open(&self, worker: &str, shard: u16) {
        self.0.lock().add(worker, shard);
    }

    /// A slot was taken for nothing.
    pub(crate) fn give_back(&self, worker: &str, shard: u16) {
        self.0.lock().remove(worker, shard);
    }

    /// A lease is over; answers who may look for the free slot.
    pub(crate) fn release(&self, worker: &str, shard: u16) -> Vec<u16> {
        self.give_back(worker, shard);
        let mut workers = self.0.lock();
        let count = workers.waiting.len().min(2);
        workers.waiting.drain(..count).collect()
    }

    /// Sends an order; false when the worker is not linked or does not read.
    pub(crate) fn send(&self, worker: &str, order: v1::Order) -> bool {
        let orders = {
            let workers = self.0.lock();
            workers.linked.get(worker).map(|known| known.orders.clone())
        };
        orders.is_some_and(|orders| orders.try_send(Ok(order)).is_ok())
    }

    /// Whether this link is the worker's present one.
    pub(crate) fn is_current(&self, worker: &str, link: u64) -> bool {
        let workers = self.0.lock();
        workers
            .linked
            .get(worker)
            .is_some_and(|known| known.link == link)
    }

    /// The workers, for people.
    pub(crate) fn list(&self) -> Vec<v1::WorkerInfo> {
        let workers = self.0.lock();
        let info = |(id, worker): (&String, &Linked)| v1::WorkerInfo {
            worker_id: id.clone(),
            version: worker.hello.version.clone(),
            slots: worker.hello.slots,
            open_leases: workers.open(id),
            is_draining: worker.is_draining,
            abilities: worker.hello.abilities.clone(),
            joined_at_millis: worker.joined.as_millis(),
        };
        workers.linked.iter().map(info).collect()
    }
}
