//! The names of this room's metrics; no other file spells one.

/// URLs that came into a state.
pub(crate) const URLS: &str = "crawlforge_coordinator_urls_total";
/// Leases that are out.
pub(crate) const LEASES_OPEN: &str = "crawlforge_coordinator_leases_open";
/// Leases that nobody renewed.
pub(crate) const LEASES_EXPIRED: &str = "crawlforge_coordinator_leases_expired_total";
/// Sessions that run.
pub(crate) const SESSIONS_RUNNING: &str = "crawlforge_coordinator_sessions_running";
/// Pages that the running sessions with a page limit may deliver: in the pool, outstanding, captured.
pub(crate) const PERMITS: &str = "crawlforge_coordinator_permits";
/// The page limits of these sessions in all, to which the three add up.
pub(crate) const PERMITS_LIMIT: &str = "crawlforge_coordinator_permits_limit";
/// Sessions that ended.
pub(crate) const SESSIONS_ENDED: &str = "crawlforge_coordinator_sessions_ended_total";
/// Workers that are linked.
pub(crate) const WORKERS: &str = "crawlforge_coordinator_workers_linked";
/// Shards that were started again after a fault.
pub(crate) const RESTARTS: &str = "crawlforge_coordinator_shard_restarts_total";
/// How long a group of writes took.
pub(crate) const COMMIT_SECONDS: &str = "crawlforge_store_commit_seconds";
/// Writes that were kept.
pub(crate) const COMMIT_WRITES: &str = "crawlforge_store_commit_writes_total";
/// Groups of writes that failed.
pub(crate) const COMMIT_FAILURES: &str = "crawlforge_store_commit_failures_total";

/// Gives every metric its help text; once, after the recorder is in place.
pub fn describe_metrics() {
    metrics::describe_counter!(URLS, "URLs that came into a state");
    metrics::describe_gauge!(LEASES_OPEN, "Leases that are out");
    metrics::describe_counter!(LEASES_EXPIRED, "Leases that nobody renewed");
    metrics::describe_gauge!(SESSIONS_RUNNING, "Sessions that run");
    metrics::describe_gauge!(
        PERMITS,
        "Pages that running sessions with a page limit may deliver, by where the right to them is"
    );
    metrics::describe_gauge!(
        PERMITS_LIMIT,
        "The page limits of running sessions; pool, outstanding and captured add up to it"
    );
    metrics::describe_counter!(SESSIONS_ENDED, "Sessions that ended, by state");
    metrics::describe_gauge!(WORKERS, "Workers that are linked");
    metrics::describe_counter!(RESTARTS, "Shards that were started again after a fault");
    metrics::describe_histogram!(COMMIT_SECONDS, "Time to keep a group of writes");
    metrics::describe_counter!(COMMIT_WRITES, "Writes that were kept");
    metrics::describe_counter!(COMMIT_FAILURES, "Groups of writes that failed");
}
