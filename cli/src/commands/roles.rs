//! Long-running processes: MCP over stdio, everything over HTTP, and the three roles of a cluster.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use coordinator::Coordinator;
use gateway::Gateway;
use metrics_exporter_prometheus::PrometheusHandle;
use proto::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use worker::Worker;

use super::{Failure, stop_signal};
use crate::door::{Door, Use, remote};
use crate::listen_file::Listening;
use crate::node::chain;
use crate::ops::{self, Ready};
use crate::rooms;
use crate::settings::Settings;
use crate::telemetry;

const HTTP_PORT: u16 = 8080;
const COORDINATOR_PORT: u16 = 7070;
const METRICS_PORT: u16 = 9464;
/// How long a worker may take to finish what it has begun.
const DRAIN_WITHIN: Duration = Duration::from_secs(35);
/// How long open connections may take at the end.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn gateway_config(settings: &Settings) -> Result<gateway::Config, Failure> {
    rooms::gateway(settings).map_err(|why| Failure::Usage(format!("--tools: {why}")))
}

/// MCP over stdin and stdout, until stdin ends.
pub(super) async fn mcp(settings: &Settings) -> Result<ExitCode, Failure> {
    let config = gateway_config(settings)?;
    let handle = telemetry::metrics("mcp").map_err(Failure::Failed)?;
    let clock = Clock::start();
    let stop = stop_signal()?;
    let door = Door::open(settings, clock, Use::Work)
        .await
        .map_err(Failure::Failed)?;
    if let Some(address) = settings.metrics_listen {
        let listener = ops::bind(address, "--metrics-listen")
            .await
            .map_err(Failure::Usage)?;
        let router = ops::router(door.readiness(), handle);
        tokio::spawn(ops::serve(listener, router, stop.child_token()));
    }
    let gateway = Gateway::new(config, door.channel(), clock);
    let served = gateway.serve_stdio(stop).await;
    door.close().await;
    served.map_err(|error| Failure::Failed(chain(&error)))?;
    Ok(ExitCode::SUCCESS)
}

/// MCP over HTTP with everything behind it in this process.
pub(super) async fn serve(settings: &Settings, role: &'static str) -> Result<ExitCode, Failure> {
    let config = gateway_config(settings)?;
    let handle = telemetry::metrics(role).map_err(Failure::Failed)?;
    let clock = Clock::start();
    let stop = stop_signal()?;
    let address = settings.listen.unwrap_or(loopback(HTTP_PORT));
    if !address.ip().is_loopback() && !settings.open.unwrap_or(false) {
        return Err(Failure::Usage(format!(
            "--listen {address} lets others crawl from this machine without a key; listen on 127.0.0.1, or say --open"
        )));
    }
    let listener = ops::bind(address, "--listen")
        .await
        .map_err(Failure::Failed)?;
    let bound = listener.local_addr()?;
    let door = Door::open(settings, clock, Use::Work)
        .await
        .map_err(Failure::Failed)?;
    let gateway = Gateway::new(config, door.channel(), clock);
    let router = gateway
        .router()
        .merge(ops::router(door.readiness(), handle.clone()));
    let extra = extra_ops(settings, door.readiness(), handle, &stop).await?;
    match settings.coordinator {
        None => door.announce(bound).await?,
        Some(_) => {
            let mut listening = Listening::of(role);
            listening.http = Some(bound);
            listening.metrics = extra;
            announce(settings, role, &listening)?;
        }
    }
    tracing::info!(address = %bound, role, "serving MCP at /mcp");
    // Connections end when the calls on them are answered, so closing goes along with serving.
    let (told, closing) = (stop.clone(), gateway.clone());
    let closing = tokio::spawn(async move {
        told.cancelled().await;
        closing.close().await;
    });
    let served = serve_until(listener, router, &stop).await;
    closing.abort();
    gateway.close().await;
    door.close().await;
    served?;
    Ok(ExitCode::SUCCESS)
}

/// The gateway role: `serve` in front of a cluster.
pub(super) async fn gateway(settings: &Settings) -> Result<ExitCode, Failure> {
    if settings.coordinator.is_none() {
        return Err(Failure::Usage(
            "a gateway needs --coordinator URL, such as http://127.0.0.1:7070".into(),
        ));
    }
    serve(settings, "gateway").await
}

/// The coordinator role.
pub(super) async fn coordinator(settings: &Settings) -> Result<ExitCode, Failure> {
    let handle = telemetry::metrics("coordinator").map_err(Failure::Failed)?;
    let clock = Clock::start();
    let stop = stop_signal()?;
    let address = settings.listen.unwrap_or(loopback(COORDINATOR_PORT));
    let listener = ops::bind(address, "--listen")
        .await
        .map_err(Failure::Failed)?;
    let bound = listener.local_addr()?;
    let coordinator = Coordinator::start(rooms::coordinator(settings), clock)
        .await
        .map_err(|error| Failure::Failed(chain(&error)))?;
    let coordinator = Arc::new(coordinator);
    let seen = Arc::clone(&coordinator);
    let ready: Ready = Arc::new(move || seen.is_ready());
    let metrics = own_ops(settings, ready, handle, &stop).await?;
    let mut listening = Listening::of("coordinator");
    listening.coordinator = Some(bound);
    listening.metrics = Some(metrics);
    listening.settings = settings.effective();
    listening.write(&settings.data_dir_or_default())?;
    tracing::info!(address = %bound, metrics = %metrics, "coordinating");
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let server = rooms::server()
        .add_routes(coordinator.routes())
        .serve_with_incoming(incoming);
    let served = tokio::select! {
        () = stop.cancelled() => Ok(()),
        ended = server => ended,
    };
    coordinator.shutdown().await;
    Listening::remove(&settings.data_dir_or_default());
    served?;
    Ok(ExitCode::SUCCESS)
}

/// The worker role.
pub(super) async fn worker(settings: &Settings) -> Result<ExitCode, Failure> {
    let Some(url) = &settings.coordinator else {
        return Err(Failure::Usage(
            "a worker needs --coordinator URL, such as http://127.0.0.1:7070".into(),
        ));
    };
    let handle = telemetry::metrics("worker").map_err(Failure::Failed)?;
    let clock = Clock::start();
    let stop = stop_signal()?;
    let channel = remote(url).map_err(Failure::Usage)?.connect_lazy();
    let config = rooms::worker(settings).map_err(Failure::Usage)?;
    let worker = Worker::start(config, channel, clock)
        .await
        .map_err(|error| Failure::Failed(chain(&error)))?;
    let worker = Arc::new(worker);
    let seen = Arc::clone(&worker);
    let ready: Ready = Arc::new(move || seen.is_ready());
    let metrics = own_ops(settings, ready, handle, &stop).await?;
    let mut listening = Listening::of("worker");
    listening.metrics = Some(metrics);
    let folder = announce(settings, "worker", &listening)?;
    tracing::info!(coordinator = url, metrics = %metrics, "working");
    stop.cancelled().await;
    tracing::info!("draining");
    worker.drain(DRAIN_WITHIN).await;
    Listening::remove(&folder);
    Ok(ExitCode::SUCCESS)
}

/// Writes the announcement of a role that keeps nothing in its folder.
fn announce(settings: &Settings, role: &str, listening: &Listening) -> Result<PathBuf, Failure> {
    let folder = match &settings.data_dir {
        Some(_) => settings.data_dir_or_default(),
        None => settings.data_dir_or_default().join(role),
    };
    std::fs::create_dir_all(&folder)?;
    listening.write(&folder)?;
    Ok(folder)
}

/// Operator routes on their own address.
async fn own_ops(
    settings: &Settings,
    ready: Ready,
    handle: PrometheusHandle,
    stop: &CancellationToken,
) -> Result<SocketAddr, Failure> {
    let address = settings.metrics_listen.unwrap_or(loopback(METRICS_PORT));
    let listener = ops::bind(address, "--metrics-listen")
        .await
        .map_err(Failure::Failed)?;
    let bound = listener.local_addr()?;
    tokio::spawn(ops::serve(
        listener,
        ops::router(ready, handle),
        stop.child_token(),
    ));
    Ok(bound)
}

/// Operator routes on a second address, where one was asked for.
async fn extra_ops(
    settings: &Settings,
    ready: Ready,
    handle: PrometheusHandle,
    stop: &CancellationToken,
) -> Result<Option<SocketAddr>, Failure> {
    match settings.metrics_listen {
        Some(_) => Ok(Some(own_ops(settings, ready, handle, stop).await?)),
        None => Ok(None),
    }
}

/// Serves until told to stop; what is open then has a bounded time to end.
async fn serve_until(
    listener: TcpListener,
    router: axum::Router,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    let server = ops::serve(listener, router, stop.clone());
    let cut = async {
        stop.cancelled().await;
        tokio::time::sleep(CLOSE_WITHIN).await;
    };
    tokio::select! {
        served = server => served.map_err(Failure::Failed),
        () = cut => Ok(()),
    }
}
