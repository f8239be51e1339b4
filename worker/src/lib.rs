//! Host actors: robots, pacing, fetching, extracting and body writing for the leases that a coordinator gives out.
//!
//! A worker keeps nothing durable and may die at any time. The pure parts (`robots`, `sitemap`, `media`, `charset`,
//! `page`, `guard`, `host_core`, `robots_copy`, `capture`) have no clock and no I/O. `link` holds the connection,
//! `uplink_actor` the leases (its parent is `supervisor`), one `host_actor` a lease; `errand` is one request as a task.

mod bodies;
pub mod capture;
pub mod charset;
mod config;
pub mod cookies;
mod errand;
pub mod fetcher;
mod gates;
pub mod guard;
mod host_actor;
pub mod host_core;
mod link;
pub mod media;
mod metrics;
pub mod page;
pub mod resolver;
pub mod robots;
pub mod robots_copy;
pub mod sitemap;
mod supervisor;
mod uplink_actor;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::Clock;
use ractor::{Actor, ActorRef};
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;

pub use config::{Config, Resolve};
pub use metrics::describe_metrics;

use crate::errand::Tools;
use crate::fetcher::Fetcher;
use crate::gates::Gates;
use crate::guard::Guard;
use crate::resolver::Resolver;
use crate::supervisor::{Supervisor, SupervisorMsg};

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The HTTP client or the resolver cannot be built.
    #[error("the fetcher cannot be set up: {0}")]
    Fetcher(String),
    /// An actor did not start.
    #[error("an actor did not start: {0}")]
    Actor(#[from] ractor::SpawnErr),
}

/// A running worker.
pub struct Worker {
    supervisor: ActorRef<SupervisorMsg>,
    is_linked: Arc<AtomicBool>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Worker {
    /// Starts the worker; it links to the coordinator behind `channel` as soon as that answers.
    pub async fn start(config: Config, channel: Channel, clock: Clock) -> Result<Self, StartError> {
        // Another part of the process may have installed the provider already.
        let installed = rustls::crypto::ring::default_provider().install_default();
        drop(installed);
        let guard = Guard::new(config.allow_net.clone());
        let resolver = Resolver::new(config.resolve.clone(), &config.name_servers, guard)
            .map_err(StartError::Fetcher)?;
        let fetcher = Fetcher::new(&config, resolver).map_err(StartError::Fetcher)?;
        let config = Arc::new(config);
        let tools = Tools {
            config: Arc::clone(&config),
            clock,
            fetcher,
            channel: channel.clone(),
            readers: Arc::new(Semaphore::new(config.extract_threads.max(1))),
        };
        let is_linked = Arc::new(AtomicBool::new(false));
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let actor = Supervisor {
            tools,
            gates: Gates::new(config.concurrency, config.per_address),
            channel,
            is_linked: Arc::clone(&is_linked),
            stop: stop.clone(),
            tasks: tasks.clone(),
        };
        let (supervisor, _) = Actor::spawn(None, actor, ()).await?;
        Ok(Self {
            supervisor,
            is_linked,
            stop,
            tasks,
        })
    }

    /// Whether the coordinator has welcomed this worker.
    pub fn is_ready(&self) -> bool {
        self.is_linked.load(Ordering::Acquire)
    }

    /// Takes no new lease, gives back what has not begun, waits for what has, and unlinks; all within `deadline`.
    pub async fn drain(&self, deadline: Duration) {
        let (done, drained) = oneshot::channel();
        if self.supervisor.cast(SupervisorMsg::Drain(done)).is_ok()
            && tokio::time::timeout(deadline, drained).await.is_err()
        {
            tracing::warn!("requests were still in flight at the end of the drain");
        }
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.supervisor.stop_children(None);
        self.supervisor.stop(None);
    }
}
