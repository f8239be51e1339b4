//! The MCP surface: tools, resources and transports in front of a coordinator's session door.
//!
//! A gateway holds no durable state. It checks what a caller gives, asks the coordinator through
//! `proto`'s `Sessions` service, and words the answer so that it fits a model's window.

mod answer;
mod args;
mod client;
mod complete;
mod config;
#[cfg(feature = "conformance")]
mod conformance;
mod cors;
mod error;
mod filename;
mod headers;
mod http;
mod jobs;
mod json_path;
mod limits;
mod metrics;
mod pages;
mod prompts;
mod reading;
mod reply;
mod resources;
mod running;
mod selectors;
mod server;
mod stdio;
mod table;
mod tools;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proto::Clock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;

pub use config::{Bounds, Config, ToolSelection};
pub use limits::Rate;
pub use metrics::describe_metrics;
pub use stdio::StdioError;

use client::Sessions;
use limits::Limits;

/// What every connection shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) sessions: Sessions,
    pub(crate) clock: Clock,
    /// Waits end, and calls are answered with how things stand.
    pub(crate) draining: CancellationToken,
    /// Calls that are being answered.
    pub(crate) calls: TaskTracker,
    /// Streams end.
    pub(crate) stop: CancellationToken,
    pub(crate) limits: Mutex<Limits>,
    /// The right to search a page: a slow pattern holds one until its end.
    pub(crate) searches: Arc<Semaphore>,
}

/// How long calls may take to be answered when the gateway closes.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Searches that run at once.
const SEARCHES: usize = 4;

/// One MCP endpoint in front of a coordinator; cheap to clone.
#[derive(Clone, Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
}

impl Gateway {
    /// Makes a gateway that asks the coordinator behind `channel`.
    pub fn new(config: Config, channel: Channel, clock: Clock) -> Self {
        let sessions = Sessions::new(channel, config.owner.clone());
        let limits = Mutex::new(Limits::new(config.rate_each, config.rate_all));
        let shared = Shared {
            config,
            sessions,
            clock,
            draining: CancellationToken::new(),
            calls: TaskTracker::new(),
            stop: CancellationToken::new(),
            limits,
            searches: Arc::new(Semaphore::new(SEARCHES)),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Ends every wait, lets the calls that are being answered end, then ends every open stream. Sessions go on in the
    /// coordinator.
    pub async fn close(&self) {
        self.shared.draining.cancel();
        self.shared.calls.close();
        let calls = tokio::time::timeout(ANSWER_WITHIN, self.shared.calls.wait());
        if calls.await.is_err() {
            tracing::warn!("calls were still being answered; they are cut off");
        }
        self.shared.stop.cancel();
        // Streams notice the token when they are polled next; let them.
        tokio::task::yield_now().await;
    }
}
