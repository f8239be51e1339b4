//! How often a client address, and all of them together, may ask. Pure: takes `now`.
//!
//! One number is kept for each address, the moment when its next request would be on time (the generic cell rate
//! algorithm); a client may be ahead of it by its burst.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use proto::Timestamp;

/// Addresses that are remembered; beyond them the whole endpoint's limit is what holds.
const MOST_ADDRESSES: usize = 50_000;
const MICROS: u64 = 1_000_000;

/// Requests a second, and how many may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests a second; 0 for no limit.
    pub per_second: u32,
    /// Requests that may come at once after a pause.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const NONE: Self = Self {
        per_second: 0,
        burst: 0,
    };

    /// A rate that lets two seconds' worth come at once.
    pub const fn of(per_second: u32) -> Self {
        Self {
            per_second,
            burst: per_second.saturating_mul(2),
        }
    }

    const fn step(self) -> u64 {
        MICROS / self.per_second as u64
    }
}

#[derive(Debug)]
pub(crate) struct Limits {
    each: Rate,
    all: Rate,
    addresses: BTreeMap<IpAddr, u64>,
    together: u64,
}

impl Limits {
    pub(crate) const fn new(each: Rate, all: Rate) -> Self {
        Self {
            each,
            all,
            addresses: BTreeMap::new(),
            together: 0,
        }
    }

    /// Takes one request; refuses it with the time after which it would be taken.
    pub(crate) fn take(&mut self, from: Option<IpAddr>, now: Timestamp) -> Result<(), Duration> {
        let now = now.as_millis().saturating_mul(1_000);
        let from = from.map(network).filter(|from| !from.is_loopback());
        let mut own = from.map(|from| self.addresses.get(&from).copied().unwrap_or(0));
        if let Some(due) = &mut own {
            *due = advanced(self.each, *due, now)?;
        }
        self.together = advanced(self.all, self.together, now)?;
        if let (Some(from), Some(due)) = (from, own) {
            self.remember(from, due, now);
        }
        Ok(())
    }

    fn remember(&mut self, from: IpAddr, due: u64, now: u64) {
        if self.addresses.len() >= MOST_ADDRESSES {
            self.addresses.retain(|_, due| *due > now);
        }
        if self.addresses.len() < MOST_ADDRESSES || self.addresses.contains_key(&from) {
            self.addresses.insert(from, due);
        }
    }
}

/// When the request after this one is on time, unless this one is too far ahead.
fn advanced(rate: Rate, due: u64, now: u64) -> Result<u64, Duration> {
    if rate.per_second == 0 {
        return Ok(0);
    }
    let due = due.max(now);
    let ahead = rate.step() * u64::from(rate.burst.saturating_sub(1));
    let earliest = due.saturating_sub(ahead);
    if earliest > now {
        return Err(Duration::from_micros(earliest - now));
    }
    Ok(due + rate.step())
}

/// One visitor: an IPv4 address, or the /64 that a household or machine has of IPv6.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) if address.is_loopback() => IpAddr::V6(address),
        IpAddr::V6(address) => {
            let bits = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use proto::Timestamp;

    use super::{Limits, Rate};

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_burst_is_taken_and_then_the_rate_holds() {
        let rate = Rate {
            per_second: 10,
            burst: 3,
        };
        let mut limits = Limits::new(rate, Rate::NONE);
        let from = address("192.0.2.1");
        for _ in 0..3 {
            assert_eq!(limits.take(from, at(0)), Ok(()));
        }
        assert_eq!(
            limits.take(from, at(0)),
            Err(Duration::from_millis(100)),
            "the time after which it is taken"
        );
        assert_eq!(limits.take(from, at(100)), Ok(()));
        assert!(limits.take(from, at(199)).is_err());
        assert_eq!(
            limits.take(address("192.0.2.2"), at(199)),
            Ok(()),
            "another address has its own"
        );
    }

    #[test]
    fn all_addresses_share_the_whole() {
        let whole = Rate {
            per_second: 1,
            burst: 2,
        };
        let mut limits = Limits::new(Rate::NONE, whole);
        assert_eq!(limits.take(address("192.0.2.1"), at(0)), Ok(()));
        assert_eq!(limits.take(address("127.0.0.1"), at(0)), Ok(()));
        assert_eq!(limits.take(None, at(0)), Err(Duration::from_secs(1)));
    }

    #[test]
    fn one_network_is_one_visitor_and_this_machine_is_none() {
        let rate = Rate {
            per_second: 1,
            burst: 1,
        };
        let mut limits = Limits::new(rate, Rate::NONE);
        assert!(limits.take(address("2001:db8::1"), at(0)).is_ok());
        assert!(limits.take(address("2001:db8::2"), at(0)).is_err());
        assert!(limits.take(address("2001:db8:0:1::2"), at(0)).is_ok());
        assert!(limits.take(address("192.0.2.1"), at(0)).is_ok());
        assert!(limits.take(address("::ffff:192.0.2.1"), at(0)).is_err());
        for _ in 0..5 {
            assert!(limits.take(address("127.0.0.1"), at(0)).is_ok());
            assert!(limits.take(address("::1"), at(0)).is_ok());
        }
    }
}
