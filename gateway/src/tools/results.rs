//! crawl_results and read_result: a session's pages, a budgeted slice at a time.

use std::time::Duration;

use proto::v1::{Page, PagesRequest, PartKind, SessionKind, SessionStatus};
use serde_json::{Value, json};

use super::scrape::{captured, merge, render};
use super::{Call, map, status};
use crate::answer::{Answer, beginning, fenced, harmless, json_len};
use crate::error::{Fault, Invalid};
use crate::pages::{self, PART_BYTES, facts, state_word};
use crate::wait;

const FRAME_BYTES: usize = 1_200;
/// Pages asked for at once.
const STRIDE: u32 = 20;
const INLINE_BYTES: u64 = 1024 * 1024;
/// Below this a page waits for the next answer rather than be cut.
const WORTH_BYTES: usize = 2_400;
const SEPARATOR: &str = "\n\n---\n\n";

pub(super) async fn crawl_results(call: &Call<'_>) -> Result<Answer, Fault> {
    let id = call.args.text("session_id").unwrap_or_default();
    let status = call.shared.sessions.status(id, Duration::ZERO).await?;
    let cursor = call.args.text("cursor").unwrap_or_default();
    if status.kind() == SessionKind::Map {
        return map::urls_of(call, &status, cursor, None).await;
    }
    let format = status
        .spec
        .as_ref()
        .map_or("markdown", |spec| spec.format.as_str())
        .to_owned();
    pages_of(call, &status, &format, cursor, call.args.int("limit")).await
}

fn request(id: &str, cursor: &str, limit: u32, inline_bytes: u64) -> PagesRequest {
    PagesRequest {
        session_id: id.to_owned(),
        cursor: cursor.to_owned(),
        limit,
        inline_bytes,
        inline_kinds: vec![PartKind::Markdown.into()],
        ..Default::default()
    }
}

/// The pages of a session from `cursor` on, as many as fit.
pub(super) async fn pages_of(
    call: &Call<'_>,
    status: &SessionStatus,
    format: &str,
    cursor: &str,
    limit: Option<u64>,
) -> Result<Answer, Fault> {
    let sessions = &call.shared.sessions;
    let id = &status.session_id;
    let mut limit = limit
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(usize::MAX);
    let mut left = call.budget().saturating_sub(FRAME_BYTES);
    let (mut listed, mut texts) = (Vec::new(), Vec::new());
    let mut cursor = cursor.to_owned();
    let mut is_full = false;
    let mut is_final = false;
    while limit > 0 && !is_full {
        let stride = STRIDE.min(u32::try_from(limit).unwrap_or(STRIDE));
        let reply = sessions
            .pages(request(id, &cursor, stride, INLINE_BYTES))
            .await?;
        let mut taken = 0u32;
        for page in &reply.pages {
            let Some((entry, text)) =
                page_within(call, id, page, format, left, listed.is_empty()).await?
            else {
                is_full = true;
                break;
            };
            left = left
                .saturating_sub((entry.to_string().len() + 1).max(text.len() + SEPARATOR.len()));
            listed.push(entry);
            texts.push(text);
            taken += 1;
        }
        limit = limit.saturating_sub(usize::try_from(taken).unwrap_or(usize::MAX));
        is_final = reply.is_final && reply.next_cursor.is_empty() && !is_full;
        if is_full {
            // The cursor of this reply lies beyond what fits: ask for the one after the last page taken.
            if taken > 0 {
                cursor = after(
                    sessions.pages(request(id, &cursor, taken, 0)).await?,
                    cursor,
                );
            }
        } else {
            let is_end = reply.next_cursor.is_empty();
            cursor = after(reply, cursor);
            if is_end {
                break;
            }
        }
    }
    Ok(worded(
        status,
        &listed,
        &texts,
        (!is_final).then_some(cursor),
    ))
}

fn after(reply: proto::v1::PagesReply, before: String) -> String {
    [reply.next_cursor, reply.resume_cursor]
        .into_iter()
        .find(|c| !c.is_empty())
        .unwrap_or(before)
}

/// One page in at most `left` bytes; `None` when it should wait for the next answer.
async fn page_within(
    call: &Call<'_>,
    id: &str,
    page: &Page,
    format: &str,
    left: usize,
    is_first: bool,
) -> Result<Option<(Value, String)>, Fault> {
    let mut entry = facts(page);
    let frame = entry.to_string().len() + 2 * FRAME_BYTES / 3 + json_len(&page.url);
    if format == "links" {
        let worth = frame <= left || is_first;
        return Ok(worth.then(|| (entry, page.url.clone())));
    }
    let size = page
        .parts
        .iter()
        .find(|part| part.kind() == PartKind::Markdown)
        .map_or(0, |part| part.size);
    let whole = usize::try_from(size)
        .unwrap_or(usize::MAX)
        .saturating_add(frame);
    if whole > left && left < WORTH_BYTES + frame && !is_first {
        return Ok(None);
    }
    let formats = vec!["markdown".to_owned()];
    let room = left.saturating_sub(entry.to_string().len());
    let rendered = render(call, id, page, &formats, room).await?;
    let mut text = format!(
        "## {}\n{}\n{}",
        crate::answer::line(&page.title),
        page.url,
        rendered.text
    );
    if rendered.is_cut {
        entry["cut"] = json!("read_result reads the rest of this page");
        text.push_str("\n(cut; read_result reads the rest of this page)");
    }
    merge(&mut entry, rendered.fields);
    Ok(Some((entry, text)))
}

fn worded(
    status: &SessionStatus,
    listed: &[Value],
    texts: &[String],
    next: Option<String>,
) -> Answer {
    let id = &status.session_id;
    let mut structured = json!({
        "session_id": id, "state": state_word(status), "delivered": status.pages, "pages": listed,
    });
    let mut head = status::sentence(status);
    if listed.is_empty() && !status.code.is_empty() {
        structured["code"] = json!(status.code);
        structured["detail"] = json!(crate::answer::line(&status.detail));
        head.push_str(&format!(
            " {}: {}",
            status.code,
            crate::answer::line(&status.detail)
        ));
    }
    if let Some(cursor) = next {
        let way_on = if wait::is_over(status) || !listed.is_empty() {
            format!("crawl_results with session_id {id} and cursor {cursor}")
        } else {
            format!("crawl_status with session_id {id} and wait, then crawl_results")
        };
        head.push_str(&format!(" {} pages here. More: {way_on}.", listed.len()));
        structured["next_cursor"] = json!(cursor);
        structured["next_step"] = json!(way_on);
    }
    let text = format!("{head}\n\n{}", texts.join(SEPARATOR));
    Answer::new(text, structured)
        .of_session(id, status.pages)
        .link(format!("crawlforge://crawl/{id}/sitemap"), "sitemap", None)
        .link(
            format!("crawlforge://crawl/{id}/pages"),
            "pages",
            Some(status.bytes),
        )
}

pub(super) async fn read_result(call: &Call<'_>) -> Result<Answer, Fault> {
    let args = &call.args;
    let id = args.text("session_id").unwrap_or_default();
    let url = args.text("url").unwrap_or_default().to_owned();
    let kind = match args.text("part") {
        Some("text") => PartKind::Text,
        Some("html") => PartKind::Html,
        Some("body") => PartKind::Body,
        Some("facts") => PartKind::Facts,
        _ => PartKind::Markdown,
    };
    let urls = [url.clone()];
    let mut entries = call
        .shared
        .sessions
        .lookup(id, &urls, PART_BYTES, &[kind])
        .await?;
    let last = entries
        .pop()
        .and_then(|entry| entry.chain.into_iter().last());
    let page = captured(last).map_err(|failure| Fault::Failed(failure))?;
    let Some(bytes) = pages::part(&call.shared.sessions, id, &page, kind).await? else {
        let bound = format!(
            "was not kept of this page; its content type is {}",
            page.content_type
        );
        return Err(Invalid::new("part", bound, &json!(args.text("part"))).into());
    };
    let whole = String::from_utf8_lossy(&bytes);
    let whole = if kind == PartKind::Body {
        whole.into_owned()
    } else {
        harmless(&whole)
    };
    let budget = call.budget().saturating_sub(FRAME_BYTES + url.len() * 3);
    if let Some(needle) = args.text("find") {
        return Ok(found(id, &url, &whole, needle, budget));
    }
    let offset = args
        .int("offset")
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(0);
    if offset > whole.len() {
        let bound = format!("must be at most {}, the size of the part", whole.len());
        return Err(Invalid::new("offset", bound, &json!(offset)).into());
    }
    let start = floor(&whole, offset);
    let content = beginning(whole.get(start..).unwrap_or_default(), budget);
    let mut structured = json!({ "session_id": id, "url": url, "content": content, "offset": start, "size": whole.len() });
    let mut text = fenced(&url, content);
    let end = start + content.len();
    if end < whole.len() {
        structured["next_offset"] = json!(end);
        text.push_str(&format!(
            "\n\n{} bytes are left: call again with offset {end}.",
            whole.len() - end
        ));
    }
    Ok(Answer::new(text, structured).of_session(id, 0))
}

/// Places where a text occurs, each with its surroundings.
fn found(id: &str, url: &str, whole: &str, needle: &str, budget: usize) -> Answer {
    let pattern = regex::RegexBuilder::new(&regex::escape(needle))
        .case_insensitive(true)
        .build();
    let (mut matches, mut text) = (Vec::new(), String::new());
    let (mut total, mut used) = (0usize, 0);
    for at in pattern.iter().flat_map(|pattern| pattern.find_iter(whole)) {
        total += 1;
        let from = floor(whole, at.start().saturating_sub(120));
        let to = floor(whole, (at.end() + 120).min(whole.len()));
        let around = whole.get(from..to).unwrap_or_default();
        let weight = json_len(around) + 60;
        if used + weight <= budget {
            used += weight;
            matches.push(json!({ "offset": at.start(), "text": around }));
            text.push_str(&format!("\n[{}] {}\n", at.start(), around));
        }
    }
    let head = format!(
        "{total} matches, {} shown; offset reads around one.",
        matches.len()
    );
    let structured = json!({ "session_id": id, "url": url, "total": total, "matches": matches });
    Answer::new(format!("{head}\n{}", fenced(url, &text)), structured).of_session(id, 0)
}

/// The nearest character border at or before `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}
