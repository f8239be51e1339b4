//! The worker's own bounds: requests in flight in all and per address, and reports that the coordinator has not kept yet.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reports that may be on their way; beyond it no request starts.
const WINDOW: usize = 4096;
/// Addresses remembered before idle ones are forgotten.
const ADDRESSES: usize = 4096;

/// The bounds, shared by all hosts of this worker. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gates {
    flights: Arc<Semaphore>,
    window: Arc<Semaphore>,
    per_address: usize,
    addresses: Arc<Mutex<BTreeMap<IpAddr, Arc<Semaphore>>>>,
}

/// The right to one request.
pub(crate) struct Pass {
    /// Given back when the report is kept.
    pub(crate) window: OwnedSemaphorePermit,
    /// Given back when the request ends.
    pub(crate) flight: Flight,
}

/// Counted while a request is in flight.
pub(crate) struct Flight {
    _all: OwnedSemaphorePermit,
    _address: Option<OwnedSemaphorePermit>,
}

impl Gates {
    pub(crate) fn new(concurrency: usize, per_address: usize) -> Self {
        Self {
            flights: Arc::new(Semaphore::new(concurrency.max(1))),
            window: Arc::new(Semaphore::new(WINDOW)),
            per_address,
            addresses: Arc::default(),
        }
    }

    pub(crate) fn counts_addresses(&self) -> bool {
        self.per_address > 0
    }

    /// A pass at once, where no address is to be counted and there is room.
    pub(crate) fn try_pass(&self) -> Option<Pass> {
        if self.counts_addresses() {
            return None;
        }
        let window = Arc::clone(&self.window).try_acquire_owned().ok()?;
        let all = Arc::clone(&self.flights).try_acquire_owned().ok()?;
        Some(Pass {
            window,
            flight: Flight {
                _all: all,
                _address: None,
            },
        })
    }

    /// A pass when there is room.
    pub(crate) async fn pass(&self, address: Option<IpAddr>) -> Option<Pass> {
        let window = Arc::clone(&self.window).acquire_owned().await.ok()?;
        let address = match address.filter(|_| self.counts_addresses()) {
            Some(address) => Some(self.counter(address).acquire_owned().await.ok()?),
            None => None,
        };
        let all = Arc::clone(&self.flights).acquire_owned().await.ok()?;
        Some(Pass {
            window,
            flight: Flight {
                _all: all,
                _address: address,
            },
        })
    }

    fn counter(&self, address: IpAddr) -> Arc<Semaphore> {
        let mut addresses = self.addresses.lock();
        if addresses.len() > ADDRESSES {
            addresses.retain(|_, counter| Arc::strong_count(counter) > 1);
        }
        let fresh = || Arc::new(Semaphore::new(self.per_address));
        Arc::clone(addresses.entry(address).or_insert_with(fresh))
    }
}
