//! MCP over Streamable HTTP: both eras on `/mcp`. Host and Origin are checked, sizes and rates bounded.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use http::{HeaderMap, Method, StatusCode, header};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::{Gateway, Shared, cors, metrics};

const LOOPBACK_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
/// No message of a client is larger: lists of URLs and JSON are bounded far below.
const MAX_BODY_BYTES: usize = 4 * 1024 * 1024;
const MAX_HEADER_BYTES: usize = 32 * 1024;

impl Gateway {
    /// The routes of the MCP endpoint.
    pub fn router(&self) -> Router {
        let config = &self.shared.config;
        let hosts = LOOPBACK_HOSTS.into_iter().map(str::to_owned);
        let service_config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts.chain(config.allowed_hosts.iter().cloned()))
            .with_allowed_origins(origins(&self.shared))
            .with_legacy_session_mode(true)
            .with_json_response(true)
            .with_max_request_body_bytes(MAX_BODY_BYTES)
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
        Router::new()
            .route_service("/mcp", service)
            .layer(middleware::from_fn_with_state(self.shared.clone(), guard))
    }
}

fn origins(shared: &Shared) -> Vec<String> {
    let ours = LOOPBACK_ORIGINS.into_iter().map(str::to_owned);
    ours.chain(shared.config.allowed_origins.iter().cloned())
        .collect()
}

/// What every request passes before MCP sees it.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let is_listed = origin.as_ref().is_some_and(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        cors::allows(&origins(&shared), origin)
    });
    let mut response = if request.method() == Method::OPTIONS && origin.is_some() {
        let mut response = StatusCode::NO_CONTENT.into_response();
        if is_listed {
            cors::preflight(response.headers_mut());
        } else {
            *response.status_mut() = StatusCode::FORBIDDEN;
        }
        response
    } else if header_bytes(request.headers()) > MAX_HEADER_BYTES {
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        refused(status, "the headers are larger than 32 KiB", None)
    } else {
        let now = shared.clock.now();
        let taken = shared.limits.lock().take(address(&request), now);
        match taken {
            Ok(()) => {
                let token = is_answered_soon(&request).then(|| shared.calls.token());
                held(next.run(request).await, token)
            }
            Err(wait) => {
                metrics::limited();
                let status = StatusCode::TOO_MANY_REQUESTS;
                refused(status, "too many requests; wait and ask again", Some(wait))
            }
        }
    };
    if let Some(origin) = origin.filter(|_| is_listed) {
        cors::permit(response.headers_mut(), &origin);
    }
    response
}

/// Whether the answer ends by itself: not that of a listener's stream, old or new.
fn is_answered_soon(request: &Request) -> bool {
    let method = request.headers().get("mcp-method");
    request.method() == Method::POST && method.is_none_or(|method| method != "subscriptions/listen")
}

/// A streamed answer counts as being answered until its last event is taken.
fn held(response: Response, token: Option<TaskTrackerToken>) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    match token.filter(|_| is_stream) {
        Some(token) => response.map(|body| {
            let frames = body.into_data_stream();
            Body::from_stream(frames.inspect(move |_| {
                let _held_with_the_stream = &token;
            }))
        }),
        None => response,
    }
}

fn address(request: &Request) -> Option<IpAddr> {
    let info = request.extensions().get::<ConnectInfo<SocketAddr>>();
    info.map(|info| info.0.ip())
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum()
}

/// A refusal before any message was read, so its id is not known.
fn refused(status: StatusCode, message: &str, wait: Option<Duration>) -> Response {
    let secs = wait.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    let error = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32603, "message": message,
        "data": { "status": status.as_u16(), "retry_after": secs } } });
    let mut response = Response::new(Body::from(error.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    if let Some(secs) = secs {
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from(secs));
    }
    response
}
