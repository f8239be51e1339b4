//! Which worker takes a domain: a consistent-hash ring that is the same on every machine and in every build.
//!
//! A member that joins takes its share and nothing else moves; one that leaves gives only its own share away. Hashes are
//! XXH3 of plain bytes, never of Rust's own `Hash` stream, whose bytes may change between versions.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use consistent_hash::{Node, RingHash, StaticHashRing};
use proto::DomainKey;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Points on the ring for a member of weight one.
const POINTS: usize = 160;
/// Largest weight of a member.
pub const MAX_WEIGHT: u32 = 100;

/// Why a ring cannot be built.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RingError {
    /// Two members have one name.
    #[error("`{0}` is a member twice")]
    Twice(String),
    /// A weight is out of bounds.
    #[error("member `{member}` has the weight {weight}; at most {MAX_WEIGHT} is taken")]
    Weight {
        /// The member.
        member: String,
        /// Its weight.
        weight: u32,
    },
}

/// The members and their points.
#[derive(Debug)]
pub struct Ring {
    points: StaticHashRing<'static, Label, (), StableHash>,
}

/// A name that hashes as its plain bytes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Label(String);

impl Hash for Label {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.0.as_bytes());
    }
}

#[derive(Debug)]
struct StableHash;

/// XXH3 over the bytes written; numbers in little-endian, sizes as 64 bits.
struct PlainHasher(Xxh3);

impl Hasher for PlainHasher {
    fn finish(&self) -> u64 {
        self.0.digest()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

impl RingHash for StableHash {
    fn hash_item<T: Hash>(&self, item: &T) -> u64 {
        let mut hasher = PlainHasher(Xxh3::new());
        item.hash(&mut hasher);
        hasher.finish()
    }

    fn hash_vnode<K: Hash>(&self, member: &K, point: usize) -> u64 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.hash_item(member).to_le_bytes());
        bytes[8..].copy_from_slice(&(point as u64).to_le_bytes());
        xxh3_64(&bytes)
    }
}

impl Ring {
    /// Builds the ring of these members and weights. A weight of zero owns nothing.
    pub fn new(members: impl IntoIterator<Item = (String, u32)>) -> Result<Self, RingError> {
        let mut names = BTreeSet::new();
        let mut nodes = Vec::new();
        for (member, weight) in members {
            if weight > MAX_WEIGHT {
                return Err(RingError::Weight { member, weight });
            }
            if !names.insert(member.clone()) {
                return Err(RingError::Twice(member));
            }
            if weight > 0 {
                nodes.push(Node::new(Label(member)).quantity(POINTS * weight as usize));
            }
        }
        Ok(Self {
            points: StaticHashRing::new(StableHash, nodes.into_iter()),
        })
    }

    /// The member that owns a domain; `None` where nobody owns anything.
    pub fn owner(&self, domain: &DomainKey) -> Option<&str> {
        self.owners(domain).next()
    }

    /// The members for a domain, the owner first, then whoever would be in its place.
    pub fn owners<'a>(&'a self, domain: &DomainKey) -> impl Iterator<Item = &'a str> {
        let label = Label(domain.as_str().to_owned());
        let is_empty = self.points.len() == 0;
        let members = (!is_empty).then(|| self.points.calc_candidates(&label));
        members
            .into_iter()
            .flatten()
            .map(|node| node.key.0.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use proto::DomainKey;

    use super::{Ring, RingError};

    fn ring(names: &[&str]) -> Ring {
        Ring::new(names.iter().map(|name| ((*name).to_owned(), 1))).unwrap()
    }

    fn domains(count: usize) -> Vec<DomainKey> {
        (0..count)
            .map(|number| DomainKey::of_name(&format!("site{number}.test")))
            .collect()
    }

    #[test]
    fn the_same_domain_has_the_same_owner_on_every_machine() {
        let ring = ring(&["worker-a", "worker-b", "worker-c"]);
        let owners: String = domains(20)
            .iter()
            .map(|domain| {
                ring.owner(domain)
                    .unwrap()
                    .trim_start_matches("worker-")
                    .to_owned()
            })
            .collect();
        assert_eq!(owners, GOLDEN);
    }

    const GOLDEN: &str = "acbbaabccbacbccbcbca";

    #[test]
    fn shares_are_even_and_follow_weights() {
        let members =
            [("a", 1), ("b", 1), ("c", 2)].map(|(name, weight)| (name.to_owned(), weight));
        let ring = Ring::new(members).unwrap();
        let mut shares: BTreeMap<String, usize> = BTreeMap::new();
        for domain in domains(20_000) {
            *shares
                .entry(ring.owner(&domain).unwrap().to_owned())
                .or_default() += 1;
        }
        for (name, expected) in [("a", 5000), ("b", 5000), ("c", 10_000)] {
            let share = shares[name];
            assert!(
                share.abs_diff(expected) < expected / 4,
                "{name} has {share}"
            );
        }
    }

    #[test]
    fn odd_members_are_refused_or_own_nothing() {
        let twice = Ring::new([("a".to_owned(), 1), ("a".to_owned(), 1)]);
        assert_eq!(twice.unwrap_err(), RingError::Twice("a".into()));
        let nobody = Ring::new([("a".to_owned(), 0)]).unwrap();
        assert_eq!(nobody.owner(&DomainKey::of_name("x.test")), None);
        assert_eq!(
            Ring::new([]).unwrap().owner(&DomainKey::of_name("x.test")),
            None
        );
    }

    proptest! {
        #[test]
        fn a_member_that_joins_takes_only_its_share(count in 1usize..12) {
            let names: Vec<String> = (0..=count).map(|number| format!("w{number}")).collect();
            let before = ring(&names[..count].iter().map(String::as_str).collect::<Vec<_>>());
            let after = ring(&names.iter().map(String::as_str).collect::<Vec<_>>());
            let newcomer = names[count].as_str();
            let all = domains(3000);
            let mut moved = 0;
            for domain in &all {
                let (old, new) = (before.owner(domain).unwrap(), after.owner(domain).unwrap());
                if old != new {
                    prop_assert_eq!(new, newcomer, "a domain moved between old members");
                    moved += 1;
                }
            }
            let ideal = all.len() / (count + 1);
            prop_assert!(moved < ideal * 3 / 2 + 20, "{} moved, ideal {}", moved, ideal);
        }
    }
}
