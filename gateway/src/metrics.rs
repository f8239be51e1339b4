//! The names of this room's metrics.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

const CALLS: &str = "crawlforge_gateway_calls_total";
const CALL_SECONDS: &str = "crawlforge_gateway_call_seconds";
const LIMITED: &str = "crawlforge_gateway_limited_total";
const OPEN_STREAMS: &str = "crawlforge_gateway_streams_open";

/// Tells the exporter what each metric means.
pub fn describe_metrics() {
    describe_counter!(
        CALLS,
        "Tool calls by tool and result (ok, failed, invalid, cancelled, internal)"
    );
    describe_histogram!(CALL_SECONDS, Unit::Seconds, "How long tool calls took");
    describe_counter!(LIMITED, "Requests refused because too many came");
    describe_gauge!(OPEN_STREAMS, "Subscriptions that are open");
}

pub(crate) fn called(tool: &'static str, result: &'static str, took: Duration) {
    counter!(CALLS, "tool" => tool, "result" => result).increment(1);
    histogram!(CALL_SECONDS, "tool" => tool).record(took.as_secs_f64());
}

pub(crate) fn limited() {
    counter!(LIMITED).increment(1);
}

/// Counts one open stream until it is dropped.
pub(crate) struct OpenStream;

impl OpenStream {
    pub(crate) fn count() -> Self {
        gauge!(OPEN_STREAMS).increment(1.0);
        Self
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        gauge!(OPEN_STREAMS).decrement(1.0);
    }
}
