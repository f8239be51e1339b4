//! MCP over Streamable HTTP: both eras on `/mcp`, Host and Origin checked.

use std::sync::Arc;

use axum::Router;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::Gateway;

const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

impl Gateway {
    /// The routes of the MCP endpoint.
    pub fn router(&self) -> Router {
        let config = &self.shared.config;
        let hosts = LOOPBACK_HOSTS.into_iter().map(str::to_owned);
        let origins = LOOPBACK_ORIGINS.into_iter().map(str::to_owned);
        let service_config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts.chain(config.allowed_hosts.iter().cloned()))
            .with_allowed_origins(origins.chain(config.allowed_origins.iter().cloned()))
            .with_legacy_session_mode(true)
            .with_json_response(true)
            .with_cancellation_token(self.shared.stop.child_token());
        let shared = self.shared.clone();
        #[cfg(not(feature = "conformance"))]
        let connect = move || Ok(crate::server::Connection::new(shared.clone()));
        #[cfg(feature = "conformance")]
        let connect = crate::conformance::with_fixtures(shared);
        let service = StreamableHttpService::new(
            connect,
            Arc::new(LocalSessionManager::default()),
            service_config,
        );
        Router::new().route_service("/mcp", service)
    }
}
