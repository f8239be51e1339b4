//! Coordinator and worker inside the test's own process, as the one-process command composes them: for tests that set
//! what no setting sets, such as the clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use coordinator::Coordinator;
use proto::v1::sessions_client::SessionsClient;
use proto::{Clock, v1};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use worker::Worker;

/// The longest that anything here waits.
const WITHIN: Duration = Duration::from_secs(60);

/// A running pair.
pub struct Live {
    coordinator: Arc<Coordinator>,
    worker: Worker,
    server: JoinHandle<()>,
    /// The session door.
    pub sessions: SessionsClient<Channel>,
}

impl Live {
    /// A coordinator's configuration over `folder` that keeps nobody waiting.
    pub fn config(folder: &Path) -> coordinator::Config {
        let mut config = coordinator::Config::new(folder);
        config.shards = 4;
        config.min_interval = Duration::ZERO;
        config
    }

    /// Starts both.
    ///
    /// # Errors
    /// What kept them from starting.
    pub async fn start(
        coordinator: coordinator::Config,
        worker: worker::Config,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let coordinator = Arc::new(Coordinator::start(coordinator, clock).await?);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let routes = coordinator.routes();
        let server = tokio::spawn(async move {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let served = Server::builder().add_routes(routes);
            drop(served.serve_with_incoming(incoming).await);
        });
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        let channel = endpoint.connect().await?;
        let worker = Worker::start(worker, channel.clone(), clock).await?;
        let ready = async {
            while !worker.is_ready() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(WITHIN, ready)
            .await
            .context("the worker was not welcomed")?;
        let sessions = SessionsClient::new(channel).max_decoding_message_size(64 << 20);
        Ok(Self {
            coordinator,
            worker,
            server,
            sessions,
        })
    }

    /// Runs a session to its end and answers how its seeds ended.
    ///
    /// # Errors
    /// What the session door says.
    pub async fn run(
        &mut self,
        spec: v1::SessionSpec,
        wait: Duration,
    ) -> anyhow::Result<Vec<v1::LookupEntry>> {
        Ok(self.run_whole(spec, wait).await?.0)
    }

    /// Runs a session to its end and answers how its seeds ended, and how it stands itself.
    ///
    /// # Errors
    /// What the session door says.
    pub async fn run_whole(
        &mut self,
        spec: v1::SessionSpec,
        wait: Duration,
    ) -> anyhow::Result<(Vec<v1::LookupEntry>, v1::SessionStatus)> {
        let urls = spec.seeds.clone();
        let request = v1::StartRequest { spec: Some(spec) };
        let started = self.sessions.start(request).await?.into_inner();
        let session_id = started.status.context("a status")?.session_id;
        let request = v1::StatusRequest {
            session_id: session_id.clone(),
            owner: String::new(),
            wait_millis: u64::try_from(wait.as_millis())?,
        };
        let status = self.sessions.status(request).await?.into_inner().status;
        let request = v1::LookupRequest {
            session_id,
            owner: String::new(),
            urls,
            inline_bytes: 4 << 20,
            inline_kinds: vec![v1::PartKind::Body.into()],
        };
        let entries = self.sessions.lookup(request).await?.into_inner().entries;
        Ok((entries, status.context("a status")?))
    }

    /// What is known of the host of `url`.
    ///
    /// # Errors
    /// What the session door says.
    pub async fn host(&mut self, url: &str) -> anyhow::Result<v1::HostReply> {
        let request = v1::HostRequest {
            url: url.to_owned(),
        };
        Ok(self.sessions.host(request).await?.into_inner())
    }

    /// Stops both; the folder can be used again afterwards.
    pub async fn stop(self) {
        self.worker.drain(Duration::from_secs(5)).await;
        self.server.abort();
        drop(self.sessions);
        drop(self.server.await);
        self.coordinator.shutdown().await;
    }
}
