//! What the operator decides about a coordinator, and why it may not start.

use std::path::PathBuf;
use std::time::Duration;

use crate::store::StoreError;

/// The settings of a coordinator.
#[derive(Clone)]
pub struct Config {
    /// Where stores and bodies lie.
    pub data_dir: PathBuf,
    /// Slices of the domain space; fixed when the folder is first used.
    pub shards: u16,
    /// Least time between two request starts at one host; a caller may only be politer.
    pub min_interval: Duration,
    /// Requests in flight at one host.
    pub per_host: u32,
    /// Leases at once for the hosts of one domain.
    pub per_domain: u32,
    /// How long a lease lasts without a heartbeat.
    pub lease: Duration,
    /// How often a worker says that it is alive.
    pub heartbeat: Duration,
    /// Sessions at once; one more is answered with `busy`.
    pub max_running_sessions: usize,
    /// How long an ended session is kept.
    pub session_ttl: Duration,
    /// What workers must present in `Hello`; none: anyone who can connect.
    pub token: Option<String>,
    /// Redirects in a row that are followed.
    pub max_redirects: u32,
    /// Whether a session may ask to ignore robots.txt.
    pub allow_ignore_robots: bool,
}

impl Config {
    /// The defaults over a folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            shards: 64,
            min_interval: Duration::from_secs(1),
            per_host: 1,
            per_domain: 2,
            lease: Duration::from_secs(60),
            heartbeat: Duration::from_secs(10),
            max_running_sessions: 10_000,
            session_ttl: Duration::from_secs(24 * 60 * 60),
            token: None,
            max_redirects: 10,
            allow_ignore_robots: false,
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Config")
            .field("data_dir", &self.data_dir)
            .field("shards", &self.shards)
            .field("min_interval", &self.min_interval)
            .field("per_host", &self.per_host)
            .field("per_domain", &self.per_domain)
            .field("lease", &self.lease)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

/// Why a coordinator did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The body store cannot be used.
    #[error("the body store cannot be opened: {0}")]
    Bodies(String),
    /// The folder was made with another number of shards.
    #[error(
        "`{path}` was made with {found} shards, the settings say {wanted}; set shards = {found}"
    )]
    Shards {
        /// The folder.
        path: String,
        /// What it has.
        found: u16,
        /// What the settings say.
        wanted: u16,
    },
    /// A setting is out of bounds.
    #[error("setting `{field}`: {why}")]
    Setting {
        /// Its name.
        field: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An actor did not start.
    #[error("an actor did not start: {0}")]
    Actor(String),
}
