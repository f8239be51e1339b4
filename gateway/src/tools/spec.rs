//! What every tool asks of a session.

use proto::v1::scope::Reach;
use proto::v1::{FetchOptions, PartKind, Scope, SessionKind, SessionSpec};
use serde_json::json;

use super::Call;
use crate::error::Invalid;

/// A session of this kind with the arguments that all tools share.
pub(super) fn base(
    call: &Call<'_>,
    kind: SessionKind,
    seeds: Vec<String>,
) -> Result<SessionSpec, Invalid> {
    let args = &call.args;
    let ignore_robots = !args.flag("respect_robots_txt", true);
    if ignore_robots && !call.shared.config.allow_ignore_robots {
        let bound = "robots.txt is obeyed here; only the operator can allow otherwise";
        return Err(Invalid::new("respect_robots_txt", bound, &json!(false)));
    }
    let fetch = FetchOptions {
        timeout_millis: args
            .int("timeout_ms")
            .or_else(|| args.int("timeout"))
            .unwrap_or(0),
        headers: args.headers(),
        keep: keep(&args.texts("formats")),
        only_main_content: args.flag("only_main_content", true),
        ignore_robots,
        ..Default::default()
    };
    Ok(SessionSpec {
        kind: kind.into(),
        seeds,
        scope: Some(Scope {
            reach: Reach::Any.into(),
            ..Default::default()
        }),
        budget: Some(proto::v1::Budget::default()),
        fetch: Some(fetch),
        concurrency: args
            .int("concurrency")
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0),
        request_id: format!("{:032x}", rand::random::<u128>()),
        ..Default::default()
    })
}

/// The parts that the formats need; the body always, since snapshots are made of it.
fn keep(formats: &[String]) -> Vec<i32> {
    let mut kinds = vec![PartKind::Body, PartKind::Markdown, PartKind::Facts];
    for format in formats {
        match format.as_str() {
            "html" => kinds.push(PartKind::Html),
            "text" => kinds.push(PartKind::Text),
            _ => {}
        }
    }
    kinds.into_iter().map(i32::from).collect()
}
