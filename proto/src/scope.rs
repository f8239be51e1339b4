//! Which URLs belong to a session.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

use crate::v1;
use crate::v1::scope::Reach;
use crate::{CrawlUrl, DomainKey};

/// Longest pattern that is taken, in bytes.
const MAX_PATTERN_BYTES: usize = 1000;
/// Most patterns of one kind.
const MAX_PATTERNS: usize = 100;
/// What one compiled pattern may take in memory, in bytes.
const MAX_COMPILED_BYTES: usize = 1024 * 1024;

/// Why a scope cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// A pattern is not a regular expression, or too big.
    #[error("pattern `{pattern}` cannot be used: {why}")]
    Pattern {
        /// The pattern, cut to 200 characters.
        pattern: String,
        /// What the compiler said.
        why: String,
    },
    /// There are more patterns than are taken.
    #[error("{count} patterns are given; at most {MAX_PATTERNS} are taken")]
    TooMany {
        /// How many there are.
        count: usize,
    },
}

/// A scope ready to judge URLs; the same on every machine for the same message and seeds.
#[derive(Clone, Debug)]
pub struct CompiledScope {
    reach: Within,
    include: Vec<Regex>,
    exclude: Vec<Regex>,
}

#[derive(Clone, Debug)]
enum Within {
    Domains(BTreeSet<DomainKey>),
    Hosts(BTreeSet<String>),
    Prefixes(Vec<(String, String)>),
    Anywhere,
}

impl CompiledScope {
    /// Compiles `scope` for the session that starts at `seeds`.
    pub fn compile(scope: &v1::Scope, seeds: &[CrawlUrl]) -> Result<Self, ScopeError> {
        let reach = match scope.reach() {
            Reach::Unspecified | Reach::Domain => {
                Within::Domains(seeds.iter().map(CrawlUrl::domain).collect())
            }
            Reach::Host => Within::Hosts(seeds.iter().map(host_name).collect()),
            Reach::Prefix => Within::Prefixes(seeds.iter().map(prefix).collect()),
            Reach::Any => Within::Anywhere,
        };
        Ok(Self {
            reach,
            include: compiled(&scope.include)?,
            exclude: compiled(&scope.exclude)?,
        })
    }

    /// Whether `url` belongs to the session. Seeds always do; this is asked of what was found.
    pub fn allows(&self, url: &CrawlUrl) -> bool {
        let is_within = match &self.reach {
            Within::Anywhere => true,
            Within::Domains(domains) => domains.contains(&url.domain()),
            Within::Hosts(hosts) => hosts.contains(&host_name(url)),
            Within::Prefixes(prefixes) => {
                let name = host_name(url);
                let path = url.url().path();
                prefixes
                    .iter()
                    .any(|(host, start)| *host == name && path.starts_with(start))
            }
        };
        is_within
            && (self.include.is_empty() || self.include.iter().any(|p| p.is_match(url.as_str())))
            && !self.exclude.iter().any(|p| p.is_match(url.as_str()))
    }
}

fn host_name(url: &CrawlUrl) -> String {
    url.url().host_str().unwrap_or_default().to_owned()
}

/// Host name, and the path up to and with its last slash.
fn prefix(url: &CrawlUrl) -> (String, String) {
    let path = url.url().path();
    let end = path.rfind('/').map_or(0, |at| at + 1);
    (host_name(url), path[..end].to_owned())
}

fn compiled(patterns: &[String]) -> Result<Vec<Regex>, ScopeError> {
    if patterns.len() > MAX_PATTERNS {
        return Err(ScopeError::TooMany {
            count: patterns.len(),
        });
    }
    let mut all = Vec::with_capacity(patterns.len());
    for pattern in patterns {
        let refused = |why: String| ScopeError::Pattern {
            pattern: pattern.chars().take(200).collect(),
            why,
        };
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(refused(format!("longer than {MAX_PATTERN_BYTES} bytes")));
        }
        let built = RegexBuilder::new(pattern)
            .size_limit(MAX_COMPILED_BYTES)
            .build();
        all.push(built.map_err(|error| refused(error.to_string()))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::CompiledScope;
    use crate::CrawlUrl;
    use crate::v1::{Scope, scope::Reach};

    fn scope(reach: Reach, include: &[&str], exclude: &[&str]) -> CompiledScope {
        let scope = Scope {
            reach: reach.into(),
            include: include.iter().map(ToString::to_string).collect(),
            exclude: exclude.iter().map(ToString::to_string).collect(),
        };
        let seed = CrawlUrl::parse("https://docs.example.com/guide/index.html").unwrap();
        CompiledScope::compile(&scope, &[seed]).unwrap()
    }

    fn allows(scope: &CompiledScope, url: &str) -> bool {
        scope.allows(&CrawlUrl::parse(url).unwrap())
    }

    #[test]
    fn reach_widens_from_prefix_to_anywhere() {
        let urls = [
            "https://docs.example.com/guide/a",
            "https://docs.example.com/other",
            "http://www.example.com/",
            "https://else.test/",
        ];
        for (reach, expected) in [
            (Reach::Prefix, [true, false, false, false]),
            (Reach::Host, [true, true, false, false]),
            (Reach::Domain, [true, true, true, false]),
            (Reach::Any, [true, true, true, true]),
        ] {
            let scope = scope(reach, &[], &[]);
            assert_eq!(urls.map(|url| allows(&scope, url)), expected, "{reach:?}");
        }
    }

    #[test]
    fn an_exclusion_beats_an_inclusion() {
        let scope = scope(Reach::Domain, &["/guide/"], &[r"\.pdf$"]);
        assert!(allows(&scope, "https://docs.example.com/guide/a"));
        assert!(!allows(&scope, "https://docs.example.com/guide/a.pdf"));
        assert!(!allows(&scope, "https://docs.example.com/b"));
    }

    #[test]
    fn a_bad_pattern_is_named() {
        let bad = Scope {
            include: vec!["(".into()],
            ..Scope::default()
        };
        let error = CompiledScope::compile(&bad, &[]).unwrap_err();
        assert!(error.to_string().contains("pattern `(`"), "{error}");
    }
}
