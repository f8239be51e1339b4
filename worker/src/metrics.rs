//! The names of everything this room measures, once.

use metrics::{describe_counter, describe_gauge, describe_histogram};

pub(crate) const FETCHES: &str = "crawlforge_fetches_total";
pub(crate) const FETCH_SECONDS: &str = "crawlforge_fetch_seconds";
pub(crate) const FETCH_BYTES: &str = "crawlforge_fetch_bytes_total";
pub(crate) const IN_FLIGHT: &str = "crawlforge_fetch_in_flight";
pub(crate) const OUTCOMES: &str = "crawlforge_outcomes_total";
pub(crate) const LEASES_HELD: &str = "crawlforge_worker_leases_held";
pub(crate) const ROBOTS: &str = "crawlforge_robots_fetches_total";
pub(crate) const ROBOTS_DENIED: &str = "crawlforge_robots_denied_total";
pub(crate) const GUARD_REFUSED: &str = "crawlforge_guard_refused_total";
pub(crate) const EXTRACT_SECONDS: &str = "crawlforge_extract_seconds";
pub(crate) const RECONNECTS: &str = "crawlforge_uplink_reconnects_total";
pub(crate) const GAP_VIOLATIONS: &str = "crawlforge_politeness_violations_total";
pub(crate) const ACTOR_CRASHES: &str = "crawlforge_worker_actor_crashes_total";

/// Describes this room's metrics to the recorder.
pub fn describe_metrics() {
    describe_counter!(FETCHES, "Requests made, by class of the answer.");
    describe_histogram!(
        FETCH_SECONDS,
        "Time of one request, from its start to its last byte."
    );
    describe_counter!(FETCH_BYTES, "Decoded bytes received.");
    describe_gauge!(IN_FLIGHT, "Requests in flight.");
    describe_counter!(OUTCOMES, "Tickets that ended, by outcome.");
    describe_gauge!(LEASES_HELD, "Leases held by this worker.");
    describe_counter!(ROBOTS, "robots.txt fetched, by verdict.");
    describe_counter!(
        ROBOTS_DENIED,
        "Pages not fetched because robots.txt forbids them."
    );
    describe_counter!(GUARD_REFUSED, "Addresses refused by the guard, by stage.");
    describe_histogram!(EXTRACT_SECONDS, "Time to read one page.");
    describe_counter!(
        RECONNECTS,
        "Times the link to the coordinator was made anew."
    );
    describe_counter!(
        GAP_VIOLATIONS,
        "Request starts nearer to the one before than the host's interval; must stay 0."
    );
    describe_counter!(ACTOR_CRASHES, "Host actors that crashed.");
    metrics::counter!(GAP_VIOLATIONS).absolute(0);
}
