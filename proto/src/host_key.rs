//! What politeness counts by ([`HostKey`]) and what the ring shards by ([`DomainKey`]).

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;
use xxhash_rust::xxh3::xxh3_64;

use crate::{CrawlUrl, UrlError};

/// Scheme, host and port: one queue, one robots.txt, one politeness clock.
///
/// Written as an origin, without the port where it is the scheme's own: `https://example.com`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostKey(String);

impl HostKey {
    /// Reads an origin such as `http://127.0.0.1:8080`.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        Ok(CrawlUrl::parse(text)?.host_key())
    }

    pub(crate) fn of(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        Self(match url.port() {
            Some(port) => format!("{}://{host}:{port}", url.scheme()),
            None => format!("{}://{host}", url.scheme()),
        })
    }

    /// The origin as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where this host's robots.txt lies.
    pub fn robots_url(&self) -> String {
        format!("{}/robots.txt", self.0)
    }

    /// The host name without scheme and port; IPv6 literals keep their brackets.
    pub fn name(&self) -> &str {
        let rest = self
            .0
            .split_once("://")
            .map_or(self.0.as_str(), |(_, rest)| rest);
        match rest.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => rest,
        }
    }

    /// The domain this host belongs to.
    pub fn domain(&self) -> DomainKey {
        DomainKey::of_name(self.name())
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A registrable domain by the public suffix list, its private section included.
///
/// The list's default rule `*` serves unknown suffixes; an IP literal and a single label stand alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DomainKey(String);

impl DomainKey {
    /// Finds the domain of a host name as it stands in a canonical URL.
    pub fn of_name(name: &str) -> Self {
        let bare = match name.trim_end_matches('.') {
            "" => name,
            bare => bare,
        };
        let is_address = bare.starts_with('[') || bare.parse::<std::net::Ipv4Addr>().is_ok();
        if is_address || !bare.contains('.') {
            return Self(bare.to_owned());
        }
        Self(psl::domain_str(bare).unwrap_or(bare).to_owned())
    }

    /// The domain as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The slice of the domain space, out of `shards`, that this domain falls into.
    /// Fixed for ever for a given count: XXH3 of the bytes, modulo.
    pub fn shard(&self, shards: u16) -> u16 {
        let slot = xxh3_64(self.0.as_bytes()) % u64::from(shards.max(1));
        u16::try_from(slot).unwrap_or(0)
    }
}

impl fmt::Display for DomainKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{DomainKey, HostKey};

    #[test]
    fn a_domain_is_what_can_be_registered() {
        for (name, domain) in [
            ("www.example.com", "example.com"),
            ("a.b.example.co.uk", "example.co.uk"),
            ("someone.github.io", "someone.github.io"),
            ("a.someone.github.io", "someone.github.io"),
            ("docs.site.test", "site.test"),
            ("localhost", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("example.com.", "example.com"),
            ("example.com..", "example.com"),
            ("alone..", "alone"),
            ("..", ".."),
            ("com", "com"),
            ("github.io", "github.io"),
        ] {
            assert_eq!(DomainKey::of_name(name).as_str(), domain, "{name}");
        }
    }

    #[test]
    fn a_host_is_an_origin() {
        let key = HostKey::parse("HTTP://Example.com:80/a?b").unwrap();
        assert_eq!(key.as_str(), "http://example.com");
        assert_eq!(key.name(), "example.com");
        assert_eq!(
            HostKey::parse("http://[::1]:8080/").unwrap().name(),
            "[::1]"
        );
        assert_eq!(HostKey::parse("http://[::1]/").unwrap().name(), "[::1]");
        assert_eq!(
            HostKey::parse("http://127.0.0.1:81/x").unwrap().name(),
            "127.0.0.1"
        );
    }

    #[test]
    fn the_shard_of_a_domain_never_changes() {
        assert_eq!(DomainKey::of_name("example.com").shard(64), 51);
        assert_eq!(DomainKey::of_name("example.org").shard(1024), 837);
    }
}
