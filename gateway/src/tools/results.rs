//! crawl_results: a session's pages, a budgeted slice at a time.

use std::time::Duration;

use proto::v1::{Page, PagesRequest, PartKind, SessionKind, SessionStatus};
use serde_json::{Value, json};

use super::render::{merge, render};
use super::{Call, map, status};
use crate::answer::{Answer, json_len, line};
use crate::error::Fault;
use crate::pages::{INLINE_BYTES, facts, state_word};
use crate::reading::Reading;
use crate::wait;

const FRAME_BYTES: usize = 1_200;
/// Pages asked for at once.
const STRIDE: u32 = 20;
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
    let kept = status.spec.as_ref().map(|spec| spec.format.as_str());
    let format = Reading::parse(kept.unwrap_or_default()).format();
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
pub(crate) async fn pages_of(
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
        format,
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
    let size: u64 = page
        .parts
        .iter()
        .filter(|part| part.kind() == PartKind::Markdown)
        .map(|part| part.size)
        .sum();
    let whole = usize::try_from(size)
        .unwrap_or(usize::MAX)
        .saturating_add(frame);
    if whole > left && left < WORTH_BYTES + frame && !is_first {
        return Ok(None);
    }
    let formats: Vec<_> = format.split(',').map(str::to_owned).collect();
    let room = left.saturating_sub(entry.to_string().len());
    let rendered = render(call, id, page, &formats, room).await?;
    let mut text = if format == "json" {
        rendered.text
    } else {
        let title = line(&page.title);
        format!("## {title}\n{}\n{}", page.url, rendered.text)
    };
    merge(&mut entry, rendered.fields);
    if rendered.is_cut {
        entry["cut"] = json!("read_result reads the rest of this page");
        if format == "json" {
            text = entry.to_string();
        } else {
            text.push_str("\n(cut; read_result reads the rest of this page)");
        }
    }
    Ok(Some((entry, text)))
}

fn worded(
    status: &SessionStatus,
    format: &str,
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
        structured["detail"] = json!(line(&status.detail));
        head.push_str(&format!(" {}: {}", status.code, line(&status.detail)));
    }
    if let Some(cursor) = next {
        let way_on = if wait::is_over(status) || !listed.is_empty() {
            format!("crawl_results with session_id {id} and cursor {cursor}")
        } else {
            format!("crawl_status with session_id {id} and wait, then crawl_results")
        };
        head.push_str(&format!(" {} pages here. More: {way_on}.", listed.len()));
        if !cursor.is_empty() {
            structured["next_cursor"] = json!(cursor);
        }
        structured["next_step"] = json!(way_on);
    }
    // JSON is for a parser: the words about it come as a second text.
    let is_json = format == "json";
    let text = if is_json {
        format!("[{}]", texts.join(","))
    } else {
        format!("{head}\n\n{}", texts.join(SEPARATOR))
    };
    let mut answer = Answer::new(text, structured);
    answer.note = is_json.then_some(head);
    answer
        .of_session(id)
        .link(format!("crawlforge://crawl/{id}/sitemap"), "sitemap", None)
        .link(
            format!("crawlforge://crawl/{id}/pages"),
            "pages",
            Some(status.bytes),
        )
}
