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
mod error;
mod filename;
mod headers;
mod http;
mod jobs;
mod json_path;
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

use proto::Clock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

pub use config::{Bounds, Config, ToolSelection};
pub use metrics::describe_metrics;
pub use stdio::StdioError;

use client::Sessions;

/// What every connection shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) sessions: Sessions,
    pub(crate) clock: Clock,
    pub(crate) stop: CancellationToken,
    /// The right to search a page: a slow pattern holds one until its end.
    pub(crate) searches: Arc<Semaphore>,
}

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
        let stop = CancellationToken::new();
        let shared = Shared {
            config,
            sessions,
            clock,
            stop,
            searches: Arc::new(Semaphore::new(SEARCHES)),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Ends every open stream; sessions go on in the coordinator.
    pub async fn close(&self) {
        self.shared.stop.cancel();
        // Streams notice the token when they are polled next; let them.
        tokio::task::yield_now().await;
    }
}
