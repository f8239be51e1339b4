//! Which addresses may be connected to. Nothing but public unicast gets through, unless the operator lets it.
//!
//! An IPv6 form that carries an IPv4 address (mapped, compatible, NAT64, 6to4) is judged by that address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// An address that the guard refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address `{address}` is not public; the operator can let it through with `--allow-net {address}`"
)]
pub struct Blocked {
    /// The address.
    pub address: IpAddr,
}

/// The rule for addresses: public ones, and the networks let through.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    allow_net: Vec<IpNet>,
}

impl Guard {
    /// A guard that lets these networks through as well.
    pub fn new(allow_net: Vec<IpNet>) -> Self {
        Self { allow_net }
    }

    /// Passes an address that may be connected to.
    pub fn check(&self, address: IpAddr) -> Result<(), Blocked> {
        let judged = address.to_canonical();
        let is_let_through = self.allow_net.iter().any(|net| net.contains(&judged));
        if is_let_through || is_public(judged) {
            return Ok(());
        }
        Err(Blocked { address: judged })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// IANA's registry of special-purpose IPv4 addresses, and multicast.
fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127 | 224..=255, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18..=19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
    )
}

/// Global unicast is `2000::/3`; of it, what is special is refused. NAT64 is judged by what it carries.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, benchmarking, ORCHID and the rest of IETF's assignments; documentation.
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::Guard;

    #[test]
    fn only_public_addresses_pass() {
        let guard = Guard::default();
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "100.64.0.1",
            "169.254.169.254",
            "172.31.0.1",
            "192.168.1.1",
            "192.0.2.1",
            "198.18.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(guard.check(address.parse().unwrap()).is_err(), "{address}");
        }
        for address in [
            "1.1.1.1",
            "100.63.0.1",
            "172.32.0.1",
            "192.0.3.1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2606:4700::1111",
            "2a00:1450::1",
        ] {
            assert!(guard.check(address.parse().unwrap()).is_ok(), "{address}");
        }
    }

    #[test]
    fn a_network_let_through_covers_its_mapped_form_and_nothing_else() {
        let guard = Guard::new(vec!["127.0.0.0/8".parse().unwrap()]);
        assert!(guard.check("127.0.0.1".parse().unwrap()).is_ok());
        assert!(guard.check("::ffff:127.0.0.1".parse().unwrap()).is_ok());
        let refused = guard.check("10.0.0.1".parse().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("--allow-net 10.0.0.1"));
    }
}
