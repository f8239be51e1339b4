//! What the operator decides for a worker.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;

/// A name, or every name below `*.suffix`, and where it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// A host name in lower case, or `*.suffix`.
    pub pattern: String,
    /// Its address.
    pub address: IpAddr,
    /// The port that is connected to where the URL names none.
    pub port: Option<u16>,
}

/// Configuration of one worker, validated by whoever builds it.
#[derive(Clone)]
pub struct Config {
    /// Unique in the cluster.
    pub worker_id: String,
    /// Leases held at once.
    pub slots: u32,
    /// Share of the ring.
    pub weight: u32,
    /// Requests in flight in all.
    pub concurrency: usize,
    /// Requests in flight per resolved address; 0 for no bound.
    pub per_address: usize,
    /// The User-Agent header.
    pub user_agent: String,
    /// The product token that robots.txt names us by.
    pub agent: String,
    /// One whole fetch.
    pub fetch_timeout: Duration,
    /// From the start of a connection to its readiness, TLS included.
    pub connect_timeout: Duration,
    /// Between two pieces of an answer.
    pub idle_timeout: Duration,
    /// Most bytes of a decoded body.
    pub max_body: u64,
    /// Most bytes of an answer's header fields.
    pub max_header_bytes: u32,
    /// The longest pause that a host may ask for with Retry-After.
    pub max_retry_after: Duration,
    /// Certificates in PEM that are trusted beside the system's.
    pub extra_roots: Vec<Vec<u8>>,
    /// Name servers that are asked instead of the system's.
    pub name_servers: Vec<SocketAddr>,
    /// Networks that are let through though they are not public.
    pub allow_net: Vec<IpNet>,
    /// Names resolved by rule.
    pub resolve: Vec<Resolve>,
    /// Shown to the coordinator.
    pub token: Option<String>,
    /// Threads that read pages.
    pub extract_threads: usize,
}

impl Config {
    /// The usual settings for a worker of this name.
    pub fn new(worker_id: impl Into<String>) -> Self {
        Self {
            worker_id: worker_id.into(),
            slots: 256,
            weight: 1,
            concurrency: 64,
            per_address: 2,
            user_agent: format!(
                "CrawlForge/{} (+https://crawlforge.dev/bot)",
                proto::VERSION
            ),
            agent: "CrawlForge".to_owned(),
            fetch_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(15),
            max_body: 25 * 1024 * 1024,
            max_header_bytes: 256 * 1024,
            max_retry_after: Duration::from_secs(24 * 60 * 60),
            extra_roots: Vec::new(),
            name_servers: Vec::new(),
            allow_net: Vec::new(),
            resolve: Vec::new(),
            token: None,
            extract_threads: 2,
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Config")
            .field("worker_id", &self.worker_id)
            .field("slots", &self.slots)
            .field("concurrency", &self.concurrency)
            .field("has_token", &self.token.is_some())
            .finish_non_exhaustive()
    }
}
