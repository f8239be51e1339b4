//! A page in the formats asked for, within a budget.

use proto::v1::{Page, PartKind};
use serde_json::{Map, Value, json};

use super::Call;
use crate::answer::{beginning, blocks, fenced, harmless, json_len};
use crate::error::Fault;
use crate::pages::{self, facts};

/// What JSON names, addresses and notes of one page weigh at most.
pub(super) const FRAME_BYTES: usize = 1_200;

/// A page in words and as fields.
#[derive(Default)]
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
    let mut out = Rendered::default();
    let mut room = budget.saturating_sub(FRAME_BYTES + json_len(&page.url) * 3);
    for (at, format) in formats.iter().enumerate() {
        // What is left is shared by the formats that are still to come.
        let share = room / (formats.len() - at);
        let before = Value::Object(out.fields.clone()).to_string().len();
        match format.as_str() {
            "json" => as_json(call, session, page, share, &mut out).await?,
            "links" | "metadata" => {
                let (known, is_whole) = known_facts(call, session, page).await?;
                let (value, is_cut) = of_facts(format, &known, share);
                out.is_cut |= is_cut || !is_whole;
                out.text.push_str(&format!("\n{format}: {value}\n"));
                out.fields.insert(format.clone(), value);
            }
            name => {
                let Some((shown, is_cut)) = shown(call, session, page, name, share).await? else {
                    let media = &page.content_type;
                    let note = format!("no {name} was derived; the content type is {media}");
                    out.text.push_str(&format!("\n{}\n", beginning(&note, 300)));
                    continue;
                };
                out.is_cut |= is_cut;
                if !out.text.is_empty() {
                    out.text.push('\n');
                }
                out.text.push_str(&fenced(&page.url, &shown));
                out.fields.insert(name.to_owned(), json!(shown));
            }
        }
        let after = Value::Object(out.fields.clone()).to_string().len();
        room = room.saturating_sub(after.saturating_sub(before));
    }
    Ok(out)
}

/// The page as one JSON object: facts, metadata, links, Markdown.
async fn as_json(
    call: &Call<'_>,
    session: &str,
    page: &Page,
    share: usize,
    out: &mut Rendered,
) -> Result<(), Fault> {
    let (known, is_whole) = known_facts(call, session, page).await?;
    let (metadata, no_metadata) = of_facts("metadata", &known, share / 3);
    let mut left = share.saturating_sub(metadata.to_string().len());
    let (links, few_links) = of_facts("links", &known, left / 2);
    left = left.saturating_sub(links.to_string().len());
    let markdown = shown(call, session, page, "markdown", left).await?;
    out.is_cut |= no_metadata || few_links || !is_whole;
    let mut object = facts(page);
    object["metadata"] = metadata;
    object["links"] = links;
    if let Some((markdown, is_cut)) = markdown {
        out.is_cut |= is_cut;
        object["markdown"] = json!(markdown);
    }
    if !out.text.is_empty() {
        out.text.push('\n');
    }
    out.text.push_str(&object.to_string());
    if let Value::Object(object) = object {
        out.fields.extend(object);
    }
    Ok(())
}

/// The beginning of a text part, and whether more follows; `None` where the part was not kept.
async fn shown(
    call: &Call<'_>,
    session: &str,
    page: &Page,
    format: &str,
    share: usize,
) -> Result<Option<(String, bool)>, Fault> {
    let kind = match format {
        "html" => PartKind::Html,
        "rawHtml" => PartKind::Body,
        "text" => PartKind::Text,
        _ => PartKind::Markdown,
    };
    let Some(part) = pages::part(page, kind) else {
        return Ok(None);
    };
    let sessions = &call.shared.sessions;
    // What does not fit need not be read; a few bytes more show that there is more.
    let most = u64::try_from(share).unwrap_or(u64::MAX).saturating_add(8);
    let bytes = pages::range(sessions, session, page, part, 0, most).await?;
    let all = String::from_utf8_lossy(&bytes);
    let all = if kind == PartKind::Body {
        all.into_owned()
    } else {
        harmless(&all)
    };
    let shown = blocks(&all, share).to_owned();
    let is_cut = part.size > most || shown.len() < all.len();
    Ok(Some((shown, is_cut)))
}

/// A page's metadata and links; false where they are too large to be read.
pub(super) async fn known_facts(
    call: &Call<'_>,
    session: &str,
    page: &Page,
) -> Result<(Value, bool), Fault> {
    let Some(part) = pages::part(page, PartKind::Facts) else {
        return Ok((json!({}), true));
    };
    let bytes = pages::whole(&call.shared.sessions, session, page, part).await?;
    match serde_json::from_slice(&bytes) {
        Ok(known) => Ok((cleaned(known), true)),
        Err(error) => {
            tracing::warn!(%error, url = %page.url, "the facts of a page are no JSON");
            Ok((json!({}), false))
        }
    }
}

/// What a page says of itself, without what could deceive.
pub(super) fn cleaned(known: Value) -> Value {
    match known {
        Value::String(text) => Value::String(harmless(&text)),
        Value::Array(list) => Value::Array(list.into_iter().map(cleaned).collect()),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            Value::Object(fields.map(|(k, v)| (harmless(&k), cleaned(v))).collect())
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_)) => other,
    }
}

/// Links or metadata out of a page's facts; as many as fit.
pub(super) fn of_facts(name: &str, known: &Value, most: usize) -> (Value, bool) {
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
    if metadata.to_string().len() <= most {
        return (metadata, false);
    }
    // The small facts are worth more than none: the large ones go first.
    let Value::Object(object) = metadata else {
        return (json!({}), true);
    };
    let mut fields: Vec<_> = object.into_iter().collect();
    fields.sort_by_key(|(_, value)| value.to_string().len());
    let (mut kept, mut used) = (Map::new(), 2);
    for (name, value) in fields {
        used += name.len() + value.to_string().len() + 4;
        if used > most {
            break;
        }
        kept.insert(name, value);
    }
    (Value::Object(kept), true)
}

pub(super) fn merge(into: &mut Value, fields: Map<String, Value>) {
    if let Some(object) = into.as_object_mut() {
        object.extend(fields);
    }
}
