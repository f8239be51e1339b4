//! From settings to each room's own configuration, and how gRPC connections are tuned at both ends.

use std::time::Duration;

use tonic::transport::{Endpoint, Server};

use crate::settings::Settings;
use crate::span::Span;

/// A silent connection is asked whether it lives after this time.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
/// And is given up when no answer came within this time.
const KEEP_ALIVE_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Bytes in flight on one stream and on one connection.
const STREAM_WINDOW: u32 = 1024 * 1024;
const CONNECTION_WINDOW: u32 = 8 * 1024 * 1024;

/// An endpoint at a fixed address.
pub(crate) fn endpoint(address: &'static str) -> Endpoint {
    tuned(Endpoint::from_static(address))
}

/// The client's end of a connection.
pub(crate) fn tuned(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(CONNECT_WITHIN)
        .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
        .keep_alive_timeout(KEEP_ALIVE_WITHIN)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .tcp_nodelay(true)
}

/// The server's end of a connection.
pub(crate) fn server() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_WITHIN))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}

fn span(value: Option<Span>) -> Duration {
    value.map_or(Duration::ZERO, |span| span.0)
}

/// Most sessions at once where the number does not fit this machine's word.
const MAX_SESSIONS: usize = 1000;

/// The coordinator's configuration.
pub(crate) fn coordinator(settings: &Settings) -> coordinator::Config {
    let settings = settings.filled();
    let lease = span(settings.lease);
    let mut config = coordinator::Config::new(settings.data_dir_or_default());
    config.shards = settings.shards.unwrap_or(config.shards);
    config.min_interval = span(settings.min_interval);
    config.per_host = settings.per_host.unwrap_or(1);
    config.per_domain = settings.per_domain.unwrap_or(2).max(config.per_host);
    config.lease = lease;
    config.heartbeat = lease / 6;
    let sessions = settings
        .max_sessions
        .and_then(|count| usize::try_from(count).ok());
    config.max_running_sessions = sessions.unwrap_or(MAX_SESSIONS);
    config.session_ttl = span(settings.session_ttl);
    config.token = settings.token.map(|secret| secret.0);
    config.allow_ignore_robots = settings.allow_ignore_robots.unwrap_or(false);
    config
}

/// The gateway's configuration; the error names the tool that is not known.
pub(crate) fn gateway(settings: &Settings) -> Result<gateway::Config, String> {
    let settings = settings.filled();
    let tools = gateway::ToolSelection::parse(&settings.tools)?;
    let max_tokens = u64::from(settings.max_tokens.unwrap_or(20_000));
    let defaults = gateway::Config::default();
    Ok(gateway::Config {
        tools,
        max_tokens,
        bounds: gateway::Bounds {
            max_tokens: max_tokens.max(defaults.bounds.max_tokens),
            ..defaults.bounds
        },
        rate_each: gateway::Rate::of(settings.rate_limit.unwrap_or(0)),
        rate_all: gateway::Rate::of(settings.rate_limit_all.unwrap_or(0)),
        allowed_hosts: settings.allow_host,
        allowed_origins: settings.allow_origin,
        allow_ignore_robots: settings.allow_ignore_robots.unwrap_or(false),
        ..defaults
    })
}

/// The worker's configuration; the error names the file that cannot be read.
pub(crate) fn worker(settings: &Settings) -> Result<worker::Config, String> {
    let settings = settings.filled();
    let id = settings.worker_id.unwrap_or_else(worker_name);
    let mut config = worker::Config::new(id);
    config.slots = settings.slots.unwrap_or(config.slots);
    config.weight = settings.weight.unwrap_or(config.weight);
    config.concurrency = number(settings.concurrency, config.concurrency);
    config.per_address = number(settings.per_address, config.per_address);
    config.user_agent = settings.user_agent.unwrap_or(config.user_agent);
    config.fetch_timeout = span(settings.fetch_timeout);
    config.max_body = settings.max_body.unwrap_or(config.max_body);
    config.allow_net = settings.allow_net;
    config.resolve = settings
        .resolve
        .into_iter()
        .map(|rule| worker::Resolve {
            pattern: rule.pattern,
            address: rule.address,
            port: rule.port,
        })
        .collect();
    config.name_servers = settings.name_server;
    for path in &settings.ca_file {
        let read = std::fs::read(path);
        let pem = read.map_err(|error| format!("ca_file `{}`: {error}", path.display()))?;
        config.extra_roots.push(pem);
    }
    config.token = settings.token.map(|secret| secret.0);
    config.extract_threads = number(settings.extract_threads, config.extract_threads);
    Ok(config)
}

fn number(said: Option<u32>, usual: usize) -> usize {
    said.and_then(|count| usize::try_from(count).ok())
        .unwrap_or(usual)
}

/// The host's name and a random part.
fn worker_name() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "worker" } else { host };
    format!("{host}-{:08x}", rand::random::<u32>())
}
