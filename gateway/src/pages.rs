//! What is told of a page or session, in JSON and in words.

use proto::v1::{LedgerEntry, Page, Part, PartKind, SessionState, SessionStatus, UrlState};
use proto::{Code, CrawlUrl, ErrorCode, Refusal, Timestamp};
use serde_json::{Map, Value, json};

use crate::answer::line;
use crate::client::Sessions;
use crate::error::Failure;

/// Parts up to this size in all come along with an answer of the session door.
pub(crate) const INLINE_BYTES: u64 = 1024 * 1024;
/// What is read of a part in one call.
const STRETCH_BYTES: u64 = 4 * 1024 * 1024;
/// The largest part that is held whole.
const WHOLE_BYTES: u64 = 64 * 1024 * 1024;

/// The address of what was kept of a page.
pub(crate) fn snapshot_uri(page: &Page) -> Option<String> {
    let hash = CrawlUrl::parse(&page.url).ok()?.url_hash();
    let at = Timestamp::from_millis(page.fetched_at_millis).compact();
    Some(format!("crawlforge://snapshot/{hash}/{at}"))
}

/// The facts of a page without its content.
pub(crate) fn facts(page: &Page) -> Value {
    let mut facts = json!({
        "url": page.url, "final_url": page.final_url, "status": page.status, "depth": page.depth,
        "title": line(&page.title), "content_type": page.content_type, "size": page.size,
    });
    if let Some(uri) = snapshot_uri(page) {
        facts["snapshot"] = json!(uri);
    }
    facts
}

/// What was kept of a page as `kind`.
pub(crate) fn part(page: &Page, kind: PartKind) -> Option<&Part> {
    page.parts.iter().find(|part| part.kind() == kind)
}

/// Bytes of a part from `offset` on; from the body store where they did not come inline.
pub(crate) async fn range(
    sessions: &Sessions,
    session_id: &str,
    page: &Page,
    part: &Part,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, Refusal> {
    let end = offset.saturating_add(length).min(part.size);
    if offset >= end {
        return Ok(Vec::new());
    }
    if !part.content.is_empty() {
        let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let inline = part.content.get(of(offset)..of(end));
        return Ok(inline.unwrap_or_default().to_vec());
    }
    let session = match page.session_id.as_str() {
        "" => session_id,
        own => own,
    };
    let digest = part.digest.clone();
    sessions.body(session, digest, offset, end - offset).await
}

/// A whole part, read a stretch at a time; never less than all of it.
pub(crate) async fn whole(
    sessions: &Sessions,
    session_id: &str,
    page: &Page,
    part: &Part,
) -> Result<Vec<u8>, Refusal> {
    if part.size > WHOLE_BYTES {
        let why = format!(
            "the part has {} bytes, and at most {WHOLE_BYTES} are read at once; read_result with an offset reads a slice",
            part.size
        );
        return Err(Refusal::argument("url", why));
    }
    let mut bytes: Vec<u8> = Vec::new();
    loop {
        let at = bytes.len() as u64;
        if at >= part.size {
            return Ok(bytes);
        }
        let more = range(sessions, session_id, page, part, at, STRETCH_BYTES).await?;
        if more.is_empty() {
            let why = format!("the body store holds {at} of {} bytes", part.size);
            return Err(Refusal::new(ErrorCode::StoreFailed, why));
        }
        bytes.extend(more);
    }
}

/// Why an entry is no page.
pub(crate) fn failure(entry: &LedgerEntry) -> Failure {
    let code = Code::from_word(&entry.code).unwrap_or(Code::Internal);
    let state = entry.state();
    let message = if entry.detail.is_empty() {
        format!("the page was not captured: {}", state.word())
    } else {
        line(&entry.detail)
    };
    let mut failure = Failure::of(code, message);
    if state == UrlState::Cancelled || state == UrlState::OverBudget || !state.is_terminal() {
        failure.code = state.word().to_owned();
        failure.next_step = "The session did not get to it; start another one for it.".to_owned();
    } else if !entry.code.is_empty() {
        failure.code.clone_from(&entry.code);
    }
    failure.url = Some(entry.url.clone());
    failure.status = entry.status;
    failure.retry_after_millis = entry.retry_after_millis;
    failure
}

pub(crate) fn state_word(status: &SessionStatus) -> &'static str {
    SessionState::try_from(status.state)
        .unwrap_or(SessionState::Unspecified)
        .word()
}

/// How a session stands, as JSON.
pub(crate) fn status(status: &SessionStatus) -> Value {
    let mut counts = Map::new();
    for count in &status.counts {
        counts.insert(count.state().word().to_owned(), json!(count.count));
    }
    let reasons: Vec<_> = status
        .reasons
        .iter()
        .map(|r| json!({ "state": r.state().word(), "code": r.code, "count": r.count }))
        .collect();
    let seeds = status
        .spec
        .iter()
        .flat_map(|spec| spec.seeds.iter().take(5))
        .collect::<Vec<_>>();
    let mut told = json!({
        "session_id": status.session_id, "job_id": status.session_id, "kind": status.kind().word(),
        "state": state_word(status), "pages": status.pages, "bytes": status.bytes,
        "admitted": status.admitted, "counts": counts, "reasons": reasons, "seeds": seeds,
        "started_at": Timestamp::from_millis(status.started_at_millis).rfc3339(),
    });
    if status.ended_at_millis != 0 {
        told["ended_at"] = json!(Timestamp::from_millis(status.ended_at_millis).rfc3339());
    }
    if !status.code.is_empty() {
        told["code"] = json!(status.code);
        told["detail"] = json!(line(&status.detail));
    }
    told
}
