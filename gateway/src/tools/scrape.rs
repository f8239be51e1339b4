//! scrape and fetch_url: one page, answered at once.

use std::time::Duration;

use proto::Code;
use proto::v1::{LedgerEntry, Page, PartKind, SessionKind, UrlState};
use serde_json::{Map, Value, json};

use super::{Call, spec};
use crate::answer::{Answer, beginning, blocks, cut_note, fenced, harmless, json_len};
use crate::error::{Failure, Fault, Invalid};
use crate::pages::{self, PART_BYTES, facts};

/// What JSON names, addresses and notes of one page weigh at most.
pub(super) const FRAME_BYTES: usize = 1_200;

pub(super) async fn scrape(call: &Call<'_>) -> Result<Answer, Fault> {
    if call.args.flag("use_browser", false) {
        let mut failure = Failure::of(Code::NoWorker, "no worker with a browser is attached");
        failure.next_step = "Call again without use_browser; the page comes by plain HTTP.".into();
        return Err(failure.into());
    }
    let (session, page) = fetch(call, 30_000).await?;
    let formats = formats(call);
    let rendered = render(call, &session, &page, &formats, call.budget()).await?;
    let mut structured = facts(&page);
    merge(&mut structured, rendered.fields);
    structured["session_id"] = json!(session);
    let mut text = format!(
        "# {}\n{} (HTTP {})\n",
        crate::answer::line(&page.title),
        page.url,
        page.status
    );
    text.push_str(&rendered.text);
    if rendered.is_cut {
        let way_on = format!("read_result with session_id {session} and url {}", page.url);
        text.push_str(&format!(
            "\n\nCut to fit max_tokens; {way_on} reads the rest."
        ));
        structured["next_step"] = json!(way_on);
    }
    let mut answer = Answer::new(text, structured).of_session(&session, 1);
    if let Some(uri) = pages::snapshot_uri(&page) {
        answer = answer.link(uri, "snapshot", Some(page.size));
    }
    Ok(answer)
}

pub(super) async fn fetch_url(call: &Call<'_>) -> Result<Answer, Fault> {
    let (session, page) = fetch(call, 10_000).await?;
    let body = pages::part(&call.shared.sessions, &session, &page, PartKind::Body).await?;
    let body = body.unwrap_or_default();
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
    let text = match std::str::from_utf8(&body) {
        Ok(text) => {
            let shown = beginning(text, room);
            structured["body"] = json!(shown);
            if shown.len() < text.len() {
                structured["truncated"] = cut_note(shown.len(), page.size);
                structured["next_step"] =
                    json!("read_result with part body and an offset reads on");
            }
            shown.to_owned()
        }
        Err(_) => {
            let note = format!(
                "{} bytes that are not text; the snapshot resource holds them",
                page.size
            );
            structured["body"] = json!("");
            structured["note"] = json!(note);
            note
        }
    };
    let mut answer = Answer::new(text, structured).of_session(&session, 1);
    if let Some(uri) = pages::snapshot_uri(&page) {
        answer = answer.link(uri, "body", Some(page.size));
    }
    Ok(answer)
}

/// Runs a one-page session to its end.
async fn fetch(call: &Call<'_>, default_millis: u64) -> Result<(String, Page), Fault> {
    let Some(url) = call.args.text("url") else {
        return Err(Invalid::new("url", "is required", &Value::Null).into());
    };
    let mut spec = spec::base(call, SessionKind::Scrape, vec![url.to_owned()])?;
    if let Some(fetch) = spec.fetch.as_mut()
        && fetch.timeout_millis == 0
    {
        fetch.timeout_millis = default_millis;
    }
    // The host's clock may hold the page back; the caller still gets an answer in time.
    let wait = call.shared.config.max_wait.max(Duration::from_secs(1));
    let reply = tokio::select! {
        () = call.context.ct.cancelled() => {
            return Err(Fault::Internal("the call was cancelled".into()));
        }
        reply = call.shared.sessions.run(spec, wait, PART_BYTES) => reply?,
    };
    let session = reply
        .status
        .map(|status| status.session_id)
        .unwrap_or_default();
    tracing::Span::current().record("session", session.as_str());
    let last = reply.entry.and_then(|entry| entry.chain.into_iter().last());
    captured(last)
        .map(|page| (session.clone(), page))
        .map_err(|mut failure| {
            failure.session = Some(session);
            failure.url.get_or_insert_with(|| url.to_owned());
            (*failure).into()
        })
}

/// The page where there is one, and otherwise why not.
pub(super) fn captured(entry: Option<LedgerEntry>) -> Result<Page, Box<Failure>> {
    let Some(mut entry) = entry else {
        let message = "the page was not fetched within the wait";
        return Err(Box::new(Failure::of(Code::Timeout, message)));
    };
    match entry.page.take() {
        Some(page) if matches!(entry.state(), UrlState::Captured | UrlState::Duplicate) => Ok(page),
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

/// A page in the formats asked for.
pub(super) struct Rendered {
    pub(super) fields: Map<String, Value>,
    pub(super) text: String,
    pub(super) is_cut: bool,
}

/// Words a page in at most `budget` bytes, as JSON and as text each.
pub(super) async fn render(
    call: &Call<'_>,
    session: &str,
    page: &Page,
    formats: &[String],
    budget: usize,
) -> Result<Rendered, Fault> {
    let sessions = &call.shared.sessions;
    let mut out = Rendered {
        fields: Map::new(),
        text: String::new(),
        is_cut: false,
    };
    let mut room = budget.saturating_sub(FRAME_BYTES + json_len(&page.url) * 3);
    for (at, format) in formats.iter().enumerate() {
        // What is left is shared by the formats that are still to come.
        let share = room / (formats.len() - at);
        let (name, kind) = match format.as_str() {
            "html" => ("html", PartKind::Html),
            "rawHtml" => ("rawHtml", PartKind::Body),
            "text" => ("text", PartKind::Text),
            "links" | "metadata" => (format.as_str(), PartKind::Facts),
            _ => ("markdown", PartKind::Markdown),
        };
        let Some(bytes) = pages::part(sessions, session, page, kind).await? else {
            let note = format!(
                "no {name} was derived; the content type is {}",
                page.content_type
            );
            out.text.push_str(&format!("\n{}\n", beginning(&note, 300)));
            continue;
        };
        if kind == PartKind::Facts {
            let known: Value = serde_json::from_slice(&bytes).unwrap_or_default();
            let (value, is_cut) = of_facts(name, &known, share);
            let worded = value.to_string();
            room = room.saturating_sub(worded.len() + 40);
            out.is_cut |= is_cut;
            out.text.push_str(&format!("\n{name}: {worded}\n"));
            out.fields.insert(name.to_owned(), value);
            continue;
        }
        let whole = String::from_utf8_lossy(&bytes);
        let whole = if kind == PartKind::Body {
            whole.into_owned()
        } else {
            harmless(&whole)
        };
        let shown = blocks(&whole, share);
        out.is_cut |= shown.len() < whole.len();
        room = room.saturating_sub(json_len(shown));
        out.text.push_str(&fenced(&page.url, shown));
        out.fields.insert(name.to_owned(), json!(shown));
    }
    Ok(out)
}

/// Links or metadata out of a page's facts; as many as fit.
fn of_facts(name: &str, known: &Value, most: usize) -> (Value, bool) {
    if name == "links" {
        let links = known.get("links").and_then(Value::as_array);
        let mut used = 2;
        let mut kept = Vec::new();
        for link in links.into_iter().flatten() {
            used += link.to_string().len() + 1;
            if used > most {
                return (json!(kept), true);
            }
            kept.push(link.clone());
        }
        return (json!(kept), false);
    }
    let mut metadata = known.clone();
    if let Some(object) = metadata.as_object_mut() {
        object.remove("links");
    }
    if metadata.to_string().len() > most {
        (json!({}), true)
    } else {
        (metadata, false)
    }
}

pub(super) fn merge(into: &mut Value, fields: Map<String, Value>) {
    if let Some(object) = into.as_object_mut() {
        object.extend(fields);
    }
}
