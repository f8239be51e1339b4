//! How a session ended: for people, as JSON, and as an exit code.

use std::process::ExitCode;

use proto::v1::{LookupEntry, SessionState, SessionStatus, UrlState};
use proto::{Code, Timestamp, URL_STATES};
use serde_json::{Map, Value, json};

/// Exit codes: 0 done, 1 failed, 2 bad usage, 3 partial.
pub(crate) const FAILED: u8 = 1;
pub(crate) const USAGE: u8 = 2;
pub(crate) const PARTIAL: u8 = 3;

/// A start URL that led to no page, and why.
pub(crate) struct DeadSeed {
    pub(crate) url: String,
    pub(crate) code: String,
    pub(crate) detail: String,
}

/// The seeds among `entries` that ended refused or failed.
pub(crate) fn dead_seeds(entries: &[LookupEntry]) -> Vec<DeadSeed> {
    let mut dead = Vec::new();
    for entry in entries {
        let Some(last) = entry.chain.last() else {
            continue;
        };
        if matches!(last.state(), UrlState::Refused | UrlState::Failed) {
            dead.push(DeadSeed {
                url: entry.url.clone(),
                code: last.code.clone(),
                detail: last.detail.clone(),
            });
        }
    }
    dead
}

/// The exit code that goes with how the session ended.
pub(crate) fn exit_code(status: &SessionStatus, dead: &[DeadSeed]) -> ExitCode {
    let code = match status.state() {
        SessionState::Completed | SessionState::PageLimit if dead.is_empty() => 0,
        SessionState::Completed | SessionState::PageLimit => PARTIAL,
        SessionState::Failed => FAILED,
        SessionState::Unspecified
        | SessionState::Running
        | SessionState::Paused
        | SessionState::ByteLimit
        | SessionState::TimeLimit
        | SessionState::CreditLimit
        | SessionState::Cancelled => PARTIAL,
    };
    ExitCode::from(code)
}

/// How many URLs are in `state`.
pub(crate) fn count(status: &SessionStatus, state: UrlState) -> u64 {
    let mut rows = status.counts.iter().filter(|row| row.state() == state);
    rows.next().map_or(0, |row| row.count)
}

/// One sentence for a failure: what, why, and what to do.
pub(crate) fn sentence(url: &str, code: &str, detail: &str) -> String {
    let step = Code::from_word(code).map_or("", Code::next_step);
    let detail = if detail.is_empty() { code } else { detail };
    format!("{url}: {} ({code}). {step}", detail.trim_end_matches('.'))
}

/// The summary as JSON.
pub(crate) fn to_json(status: &SessionStatus, dead: &[DeadSeed]) -> Value {
    let mut counts = Map::new();
    for state in URL_STATES {
        let number = count(status, state);
        if number > 0 {
            counts.insert(state.word().to_owned(), json!(number));
        }
    }
    let reasons: Vec<Value> = status
        .reasons
        .iter()
        .map(|row| json!({"state": row.state().word(), "code": row.code, "count": row.count}))
        .collect();
    let ended = (status.ended_at_millis > 0)
        .then(|| Timestamp::from_millis(status.ended_at_millis).rfc3339());
    let seeds: Vec<Value> = dead
        .iter()
        .map(|seed| json!({"url": seed.url, "code": seed.code, "detail": seed.detail}))
        .collect();
    json!({
        "session_id": status.session_id,
        "kind": status.kind().word(),
        "state": status.state().word(),
        "code": status.code,
        "detail": status.detail,
        "pages": status.pages,
        "bytes": status.bytes,
        "admitted": status.admitted,
        "counts": counts,
        "reasons": reasons,
        "dead_seeds": seeds,
        "hosts": status.hosts,
        "started_at": Timestamp::from_millis(status.started_at_millis).rfc3339(),
        "ended_at": ended,
        "elapsed_ms": elapsed_millis(status),
    })
}

/// The summary for people, a few lines.
pub(crate) fn to_text(status: &SessionStatus) -> String {
    let seconds = elapsed_millis(status) as f64 / 1000.0;
    let mut lines = vec![format!(
        "{}: {} pages from {} hosts in {seconds:.1} s ({:.1} MB)",
        status.state().word(),
        status.pages,
        status.hosts,
        status.bytes as f64 / 1e6,
    )];
    let others: Vec<String> = URL_STATES
        .into_iter()
        .filter(|state| *state != UrlState::Captured)
        .map(|state| (state, count(status, state)))
        .filter(|(_, number)| *number > 0)
        .map(|(state, number)| format!("{} {number}", state.word()))
        .collect();
    if !others.is_empty() {
        lines.push(format!("  also: {}", others.join(", ")));
    }
    for row in &status.reasons {
        lines.push(format!(
            "    {} {}: {}",
            row.state().word(),
            row.code,
            row.count
        ));
    }
    lines.join("\n")
}

fn elapsed_millis(status: &SessionStatus) -> u64 {
    let end = match status.ended_at_millis {
        0 => status.updated_at_millis,
        ended => ended,
    };
    end.saturating_sub(status.started_at_millis)
}
