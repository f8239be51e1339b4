//! Log on stderr, metrics in one recorder: stdout belongs to data and to the protocol.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use crate::settings::{LogFormat, Settings};

/// How often the recorder folds what was recorded into its histograms.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

const SECONDS: [f64; 14] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0,
];
const BYTES: [f64; 9] = [
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// What servers log unless told otherwise: our own news, and of libraries what needs a person.
const USUAL: &str = "warn,crawlforge=info,coordinator=info,worker=info,gateway=info";

/// Begins to log. `quiet` is for commands that a person watches: warnings only, unless told otherwise.
pub(crate) fn log(settings: &Settings, quiet: bool) -> Result<(), String> {
    let fallback = if quiet { "error" } else { USUAL };
    let chosen = settings.log.as_deref().unwrap_or(fallback);
    let filter = EnvFilter::builder()
        .parse(chosen)
        .map_err(|error| format!("--log `{chosen}` is no log filter: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let done = match settings.log_format.unwrap_or(LogFormat::Text) {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    done.map_err(|error| format!("cannot begin to log: {error}"))
}

/// Installs the recorder and describes what every room measures. Needs a running runtime.
pub(crate) fn metrics(role: &'static str) -> Result<PrometheusHandle, String> {
    let failed = |error| format!("cannot set up metrics: {error}");
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)
        .map_err(failed)?
        .set_buckets_for_metric(Matcher::Suffix("_bytes".into()), &BYTES)
        .map_err(failed)?
        .install_recorder()
        .map_err(failed)?;
    coordinator::describe_metrics();
    worker::describe_metrics();
    gateway::describe_metrics();
    metrics::describe_gauge!(
        "crawlforge_build_info",
        "Version and role of this process; always 1."
    );
    metrics::gauge!("crawlforge_build_info", "version" => proto::VERSION, "role" => role).set(1.0);
    let upkeep = handle.clone();
    tokio::spawn(async move {
        let mut every = tokio::time::interval(UPKEEP_EVERY);
        loop {
            every.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(handle)
}
