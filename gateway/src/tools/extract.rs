//! download and the extract tools: one page, one kind of thing from it.

use proto::Code;
use proto::v1::{Page, PartKind};
use serde_json::{Map, Value, json};

use super::Call;
use super::render::{FRAME_BYTES, known_facts, merge, of_facts};
use super::scrape::fetch;
use crate::answer::{Answer, blocks, fenced, harmless, line};
use crate::error::{Failure, Fault};
use crate::filename;
use crate::pages;

const TIMEOUT_MILLIS: u64 = 30_000;
const MAX_DOCUMENT: u64 = 52_428_800;

pub(super) async fn download(call: &Call<'_>) -> Result<Answer, Fault> {
    let most = call.args.int("max_size").unwrap_or(MAX_DOCUMENT);
    let (session, page) = fetch(call, TIMEOUT_MILLIS, |fetch| {
        fetch.max_body_bytes = most;
        fetch.keep = vec![PartKind::Body.into()];
    })
    .await?;
    let media = media_type(&page);
    let disposition = page
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-disposition"))
        .map_or("", |header| header.value.as_str());
    let mut told = json!({
        "url": page.url, "mime_type": media, "size": page.size,
        "filename": filename::of(disposition, &page.url), "content_hash": hex(&page.digest),
        "session_id": session,
    });
    if media == "text/html" || media == "application/xhtml+xml" {
        told["note"] = json!("This is an HTML page, not a document; scrape reads it as Markdown.");
    }
    let uri = pages::snapshot_uri(&page);
    if let Some(uri) = &uri {
        told["resource"] = json!(uri);
    }
    let mut answer = Answer::new(told.to_string(), told)
        .of_session(&session)
        .charged(1);
    if let Some(uri) = uri {
        answer = answer.link(uri, "document", Some(page.size));
    }
    Ok(answer)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn media_type(page: &Page) -> String {
    let media = page.content_type.split(';').next().unwrap_or_default();
    match media.trim() {
        "" => "application/octet-stream".to_owned(),
        media => media.to_ascii_lowercase(),
    }
}

/// What is said of a page that holds nothing of the kind asked for.
fn nothing(page: &Page, what: &str) -> Fault {
    let message = format!("no {what} can be read from `{}`", line(&page.content_type));
    let mut failure = Failure::of(Code::ContentType, message);
    failure.next_step = "download tells what it is; fetch_url gives the body as it came.".into();
    failure.url = Some(page.url.clone());
    failure.into()
}

/// A whole part as text, without what could deceive.
async fn whole_text(
    call: &Call<'_>,
    session: &str,
    page: &Page,
    kind: PartKind,
) -> Result<String, Fault> {
    let part = pages::part(page, kind).ok_or_else(|| nothing(page, "text"))?;
    let bytes = pages::whole(&call.shared.sessions, session, page, part).await?;
    Ok(harmless(&String::from_utf8_lossy(&bytes)))
}

fn facts_of(page: &Page) -> Value {
    json!({ "url": page.url, "status": page.status, "title": line(&page.title) })
}

/// An answer with a snapshot behind it.
fn answered(text: String, structured: Value, session: &str, page: &Page) -> Answer {
    let answer = Answer::new(text, structured).of_session(session).charged(1);
    match pages::snapshot_uri(page) {
        Some(uri) => answer.link(uri, "snapshot", Some(page.size)),
        None => answer,
    }
}

/// Puts as much of `whole` under `name` as fits, and says how to read on.
fn put(told: &mut Value, name: &str, whole: &str, part: &str, budget: usize) -> String {
    let room = budget.saturating_sub(FRAME_BYTES + told.to_string().len());
    let shown = blocks(whole, room);
    told[name] = json!(shown);
    if shown.len() < whole.len() {
        let session = told["session_id"].as_str().unwrap_or_default();
        told["next_step"] = json!(format!(
            "read_result with session_id {session}, this url and part {part} reads the rest"
        ));
        told["truncated"] = crate::answer::cut_note(shown.len(), whole.len() as u64);
    }
    let mut text = fenced(told["url"].as_str().unwrap_or_default(), shown);
    if let Some(way_on) = told["next_step"].as_str() {
        text.push_str(&format!("\n\nCut to fit max_tokens; {way_on}."));
    }
    text
}

pub(super) async fn text(call: &Call<'_>) -> Result<Answer, Fault> {
    let is_markdown = call.args.text("output_format") == Some("markdown");
    let (kind, part) = if is_markdown {
        (PartKind::Markdown, "markdown")
    } else {
        (PartKind::Text, "text")
    };
    let only_main = call.args.flag("only_main_content", false);
    let (session, page) = fetch(call, TIMEOUT_MILLIS, |fetch| {
        fetch.keep = vec![PartKind::Body.into(), kind.into()];
        fetch.only_main_content = only_main;
    })
    .await?;
    let whole = whole_text(call, &session, &page, kind).await?;
    let mut told = facts_of(&page);
    told["session_id"] = json!(session);
    told["word_count"] = json!(whole.split_whitespace().count());
    told["char_count"] = json!(whole.chars().count());
    let text = put(&mut told, "text", &whole, part, call.budget());
    Ok(answered(text, told, &session, &page))
}

pub(super) async fn links(call: &Call<'_>) -> Result<Answer, Fault> {
    let (session, page) = fetch(call, TIMEOUT_MILLIS, |_| {}).await?;
    if pages::part(&page, PartKind::Facts).is_none() {
        return Err(nothing(&page, "links"));
    }
    let (known, _) = known_facts(call, &session, &page).await?;
    let only_ours = call.args.flag("filter_external", false);
    let (mut external, mut total) = (0usize, 0usize);
    let mut kept = Vec::new();
    for link in known["links"].as_array().into_iter().flatten() {
        let is_external = link["kind"] == "external";
        total += 1;
        external += usize::from(is_external);
        if !(only_ours && is_external) {
            kept.push(
                json!({ "href": link["url"], "text": link["text"], "rel": link["rel"],
                "kind": link["kind"], "is_external": is_external }),
            );
        }
    }
    let mut told = facts_of(&page);
    merge_all(
        &mut told,
        json!({ "session_id": session, "total_count": total, "internal_count": total - external,
            "external_count": external, "links": [] }),
    );
    let mut room = call
        .budget()
        .saturating_sub(FRAME_BYTES + told.to_string().len());
    let (mut shown, mut lines) = (Vec::new(), String::new());
    let all = kept.len();
    for link in kept {
        let weight = link.to_string().len() + 1;
        if weight > room {
            break;
        }
        room -= weight;
        let of = |name: &str| link[name].as_str().unwrap_or_default().to_owned();
        lines.push_str(&format!("{} {}\n", of("href"), of("text")));
        shown.push(link);
    }
    let mut head = format!(
        "{} links, {external} of them external; {} shown.",
        total,
        shown.len()
    );
    if shown.len() < all {
        let way_on =
            format!("read_result with session_id {session}, this url and part facts reads all");
        head.push_str(&format!(" {way_on}."));
        told["next_step"] = json!(way_on);
    }
    told["links"] = json!(shown);
    let text = format!("{head}\n{}", fenced(&page.url, &lines));
    Ok(answered(text, told, &session, &page))
}

pub(super) async fn metadata(call: &Call<'_>) -> Result<Answer, Fault> {
    let (session, page) = fetch(call, TIMEOUT_MILLIS, |_| {}).await?;
    if pages::part(&page, PartKind::Facts).is_none() {
        return Err(nothing(&page, "metadata"));
    }
    let (known, is_whole) = known_facts(call, &session, &page).await?;
    let mut told = facts_of(&page);
    told["session_id"] = json!(session);
    let room = call
        .budget()
        .saturating_sub(FRAME_BYTES + told.to_string().len());
    let (metadata, is_cut) = of_facts("metadata", &known, room);
    let text = fenced(&page.url, &metadata.to_string());
    merge_all(&mut told, metadata);
    if is_cut || !is_whole {
        told["next_step"] = json!(format!(
            "read_result with session_id {session}, this url and part facts reads all"
        ));
    }
    Ok(answered(text, told, &session, &page))
}

pub(super) async fn content(call: &Call<'_>) -> Result<Answer, Fault> {
    let args = &call.args;
    let format = args.text("output_format").unwrap_or("markdown");
    let (kind, part) = match format {
        "text" => (PartKind::Text, "text"),
        _ => (PartKind::Markdown, "markdown"),
    };
    let with_html = args.flag("include_cleaned_html", false);
    let with_raw = args.flag("include_raw_html", false);
    let (session, page) = fetch(call, TIMEOUT_MILLIS, |fetch| {
        fetch.keep.push(kind.into());
        if with_html {
            fetch.keep.push(PartKind::Html.into());
        }
    })
    .await?;
    let whole = whole_text(call, &session, &page, kind).await?;
    let mut told = facts_of(&page);
    told["session_id"] = json!(session);
    told["word_count"] = json!(whole.split_whitespace().count());
    let least = args.int("min_content_length").unwrap_or(100);
    let length = u64::try_from(whole.chars().count()).unwrap_or(u64::MAX);
    told["is_thin"] = json!(length < least);
    let mut left = call.budget();
    if args.flag("extract_metadata", true) || format == "structured" {
        let (mut known, _) = known_facts(call, &session, &page).await?;
        if let Some(known) = known.as_object_mut() {
            let wanted = |name: &str| match name {
                "json_ld" => args.flag("extract_structured_data", true),
                "headings" => format == "structured",
                other => other != "images" && other != "word_count",
            };
            known.retain(|name, _| wanted(name));
        }
        let (metadata, _) = of_facts("metadata", &known, left / 4);
        told["metadata"] = metadata;
    }
    for (wanted, name, kind) in [
        (with_html, "cleaned_html", PartKind::Html),
        (with_raw, "raw_html", PartKind::Body),
    ] {
        if wanted && let Some(part) = pages::part(&page, kind) {
            let bytes = pages::whole(&call.shared.sessions, &session, &page, part).await?;
            let html = String::from_utf8_lossy(&bytes);
            told[name] = json!(blocks(&html, left / 4));
            left = left.saturating_sub(left / 8);
        }
    }
    let text = put(&mut told, "content", &whole, part, call.budget());
    Ok(answered(text, told, &session, &page))
}

fn merge_all(into: &mut Value, fields: Value) {
    let fields = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    merge(into, fields);
}
