//! What the operator decides about one gateway.

use std::collections::BTreeSet;
use std::time::Duration;

/// Which tools are listed; tools that are not listed stay callable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolSelection {
    /// Every tool of this build.
    #[default]
    All,
    /// Only these names.
    Only(BTreeSet<String>),
}

impl ToolSelection {
    pub(crate) fn lists(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// The operator's ceilings for what a caller may ask.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most pages that one crawl may deliver.
    pub max_pages: u64,
    /// Furthest link distance.
    pub max_depth: u64,
    /// Most URLs in one batch.
    pub max_batch: usize,
    /// Most tokens in one answer.
    pub max_tokens: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_pages: 100_000,
            max_depth: 100,
            max_batch: 1_000,
            max_tokens: 25_000,
        }
    }
}

/// How one gateway behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which tools are listed.
    pub tools: ToolSelection,
    /// Longest wait inside one call.
    pub max_wait: Duration,
    /// Tokens of an answer where the caller names none.
    pub max_tokens: u64,
    /// Ceilings.
    pub bounds: Bounds,
    /// Names that `Host` may carry beside loopback.
    pub allowed_hosts: Vec<String>,
    /// Values that `Origin` may carry beside loopback.
    pub allowed_origins: Vec<String>,
    /// Whether a caller may switch robots.txt off.
    pub allow_ignore_robots: bool,
    /// The key id whose sessions this gateway sees; empty where no key is used.
    pub owner: String,
    /// The version that `get_version` tells.
    pub version: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tools: ToolSelection::All,
            max_wait: Duration::from_secs(45),
            max_tokens: 20_000,
            bounds: Bounds::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            allow_ignore_robots: false,
            owner: String::new(),
            version: proto::VERSION.to_owned(),
        }
    }
}
