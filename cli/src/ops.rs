//! What an operator's tools ask: `/healthz`, `/readyz`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether this process can serve now.
pub(crate) type Ready = Arc<dyn Fn() -> bool + Send + Sync>;

#[derive(Clone)]
struct Ops {
    ready: Ready,
    metrics: PrometheusHandle,
}

/// The three routes.
pub(crate) fn router(ready: Ready, metrics: PrometheusHandle) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(render))
        .with_state(Ops { ready, metrics })
}

async fn readyz(State(ops): State<Ops>) -> impl IntoResponse {
    if (ops.ready)() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
    }
}

async fn render(State(ops): State<Ops>) -> impl IntoResponse {
    (
        [(
            header::CONTENT_TYPE,
            "text/plain; version=0.0.4; charset=utf-8",
        )],
        ops.metrics.render(),
    )
}

/// Binds an address, with an error that says which flag chose it.
pub(crate) async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; choose another with {flag}"))
}

/// Serves `router` until `stop`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> Result<(), String> {
    let router = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await
        .map_err(|error| format!("serving HTTP failed: {error}"))
}
