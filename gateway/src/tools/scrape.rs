//! scrape and fetch_url: one page, answered at once.

use std::time::Duration;

use proto::Code;
use proto::v1::{FetchOptions, LedgerEntry, Page, PartKind, SessionKind, SessionSpec, UrlState};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::render::{FRAME_BYTES, merge, render};
use super::{Call, spec};
use crate::answer::{Answer, beginning, cut_note};
use crate::error::{Failure, Fault, Invalid};
use crate::pages::{self, INLINE_BYTES, facts};
use crate::wait;

pub(super) async fn scrape(call: &Call<'_>) -> Result<Answer, Fault> {
    if call.args.flag("use_browser", false) {
        let mut failure = Failure::of(Code::NoWorker, "no worker with a browser is attached");
        failure.next_step = "Call again without use_browser; the page comes by plain HTTP.".into();
        return Err(failure.into());
    }
    let (session, page) = fetch(call, 30_000, |_| {}).await?;
    let formats = formats(call);
    let rendered = render(call, &session, &page, &formats, call.budget()).await?;
    let mut structured = facts(&page);
    merge(&mut structured, rendered.fields);
    structured["session_id"] = json!(session);
    let title = crate::answer::line(&page.title);
    let mut note = format!("# {title}\n{} (HTTP {})\n", page.url, page.status);
    let mut cut = String::new();
    if rendered.is_cut {
        let way_on = format!("read_result with session_id {session} and url {}", page.url);
        cut = format!("\n\nCut to fit max_tokens; {way_on} reads the rest.");
        structured["next_step"] = json!(way_on);
    }
    // JSON alone is for a parser: the words about it come as a second text.
    let text = if formats == ["json"] {
        note.push_str(&cut);
        rendered.text
    } else {
        let text = format!("{note}{}{cut}", rendered.text);
        note.clear();
        text
    };
    let mut answer = Answer::new(text, structured)
        .of_session(&session)
        .charged(1);
    answer.note = (!note.is_empty()).then_some(note);
    if let Some(uri) = pages::snapshot_uri(&page) {
        answer = answer.link(uri, "snapshot", Some(page.size));
    }
    Ok(answer)
}

pub(super) async fn fetch_url(call: &Call<'_>) -> Result<Answer, Fault> {
    let (session, page) = fetch(call, 10_000, |_| {}).await?;
    let headers: Map<String, Value> = page
        .headers
        .iter()
        .map(|header| (header.name.clone(), json!(header.value)))
        .collect();
    let mut structured = json!({
        "url": page.url, "finalUrl": page.final_url, "status": page.status,
        "contentType": page.content_type, "size": page.size, "session_id": session,
    });
    let room = call.budget().saturating_sub(FRAME_BYTES);
    // Headers are the server's to choose: they may not eat the whole answer.
    if json!(headers).to_string().len() <= room / 4 {
        structured["headers"] = Value::Object(headers);
    } else {
        structured["headers"] = json!({});
        structured["note"] = json!("the headers are too large to show");
    }
    let room = room.saturating_sub(structured.to_string().len());
    let most = u64::try_from(room).unwrap_or(u64::MAX);
    let sessions = &call.shared.sessions;
    let (body, size) = match pages::part(&page, PartKind::Body) {
        Some(part) => (
            pages::range(sessions, &session, &page, part, 0, most).await?,
            part.size,
        ),
        None => (Vec::new(), 0),
    };
    let text = if let Some(text) = text_of(&body, size) {
        let shown = beginning(text, room);
        structured["body"] = json!(shown);
        let count = shown.len();
        if u64::try_from(count).unwrap_or(u64::MAX) < size {
            structured["truncated"] = cut_note(count, size);
            structured["next_step"] = json!(format!(
                "read_result with session_id {session}, this url, part body and offset {count} reads on"
            ));
        }
        shown.to_owned()
    } else {
        let note = format!("{size} bytes that are not text; the snapshot resource holds them");
        structured["body"] = json!("");
        structured["note"] = json!(note);
        note
    };
    let mut answer = Answer::new(text, structured)
        .of_session(&session)
        .charged(1);
    if let Some(uri) = pages::snapshot_uri(&page) {
        answer = answer.link(uri, "body", Some(page.size));
    }
    Ok(answer)
}

/// Runs a one-page session to its end; `ask` says what is wanted of the fetch beside the common arguments.
pub(super) async fn fetch(
    call: &Call<'_>,
    default_millis: u64,
    ask: impl FnOnce(&mut FetchOptions),
) -> Result<(String, Page), Fault> {
    let Some(url) = call.args.text("url") else {
        return Err(Invalid::new("url", "is required", &Value::Null).into());
    };
    let mut spec = spec::base(call, SessionKind::Scrape, vec![url.to_owned()])?;
    let fetch = spec.fetch.get_or_insert_default();
    if fetch.timeout_millis == 0 {
        fetch.timeout_millis = default_millis;
    }
    ask(fetch);
    call.running.starting(&call.context.id, spec.clone());
    let (session, last) = tokio::select! {
        biased;
        () = call.context.ct.cancelled() => {
            return Err(Fault::Cancelled);
        }
        () = call.shared.draining.cancelled() => {
            let mut failure = Failure::of(Code::Internal, "this server is shutting down");
            failure.code = "unavailable".into();
            failure.next_step = "Try the same call again in a few seconds.".into();
            failure.retry_after_millis = 5_000;
            return Err(failure.into());
        }
        ended = to_its_end(call, spec, url) => ended?,
    };
    captured(last)
        .map(|page| (session.clone(), page))
        .map_err(|mut failure| {
            failure.session = Some(session);
            failure.url.get_or_insert_with(|| url.to_owned());
            (*failure).into()
        })
}

/// Starts the session and waits for it; the host's clock may hold the page back, the caller still gets an
/// answer in time.
async fn to_its_end(
    call: &Call<'_>,
    spec: SessionSpec,
    url: &str,
) -> Result<(String, Option<LedgerEntry>), Fault> {
    let sessions = &call.shared.sessions;
    let most = call.shared.config.max_wait.max(Duration::from_secs(1));
    let deadline = Instant::now() + most;
    let reply = sessions.run(spec, most, INLINE_BYTES).await?;
    let status = reply.status.unwrap_or_default();
    let session = status.session_id.clone();
    tracing::Span::current().record("session", session.as_str());
    let last = reply.entry.and_then(|entry| entry.chain.into_iter().last());
    let has_ended = |last: &Option<LedgerEntry>| {
        last.as_ref()
            .is_some_and(|entry| entry.state().is_terminal())
    };
    if has_ended(&last) || Instant::now() >= deadline {
        return Ok((session, last));
    }
    // The answer came before the end: wait on, then look the page up.
    let left = deadline.saturating_duration_since(Instant::now());
    let status = wait::wait(call.shared, status, left, call.context).await?;
    let urls = [url.to_owned()];
    let found = sessions
        .lookup(&status.session_id, &urls, INLINE_BYTES, &[])
        .await?;
    let last = found.into_iter().next();
    Ok((
        session,
        last.and_then(|entry| entry.chain.into_iter().last()),
    ))
}

/// The page where there is one, and otherwise why not.
pub(super) fn captured(entry: Option<LedgerEntry>) -> Result<Page, Box<Failure>> {
    let Some(mut entry) = entry else {
        let message = "the page was not fetched within the wait";
        return Err(Box::new(Failure::of(Code::Timeout, message)));
    };
    match entry.page.take() {
        Some(page) if is_readable(entry.state()) => Ok(page),
        _ => Err(Box::new(pages::failure(&entry))),
    }
}

pub(super) fn formats(call: &Call<'_>) -> Vec<String> {
    let formats = call.args.texts("formats");
    if formats.is_empty() {
        vec!["markdown".to_owned()]
    } else {
        formats
    }
}

/// The bytes as text where they are text; a character that the cut split is left out.
fn text_of(bytes: &[u8], size: u64) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(error) => {
            let is_cut = u64::try_from(bytes.len()).unwrap_or(u64::MAX) < size;
            let valid = bytes.get(..error.valid_up_to())?;
            let is_split = is_cut && error.error_len().is_none();
            is_split.then(|| std::str::from_utf8(valid).ok())?
        }
    }
}

/// Whether a URL's content is there to be read: its own, that of its kept twin, or that of an earlier session.
const fn is_readable(state: UrlState) -> bool {
    matches!(
        state,
        UrlState::Captured | UrlState::Duplicate | UrlState::NotModified
    )
}
