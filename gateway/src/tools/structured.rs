//! scrape_structured: the values that CSS selectors find on a page.

use proto::Code;
use proto::v1::PartKind;
use serde_json::{Value, json};

use super::Call;
use super::render::{FRAME_BYTES, cleaned};
use super::scrape::fetch;
use crate::answer::{Answer, fenced, line};
use crate::error::{Failure, Fault, Invalid, shortened};
use crate::pages;
use crate::selectors;

const TIMEOUT_MILLIS: u64 = 30_000;

pub(super) async fn scrape_structured(call: &Call<'_>) -> Result<Answer, Fault> {
    let given = call.args.value("selectors").cloned().unwrap_or_default();
    let wanted = selectors::parse("selectors", &given)?;
    let most = call.args.int("max_results").unwrap_or(1_000);
    let (session, page) = fetch(call, TIMEOUT_MILLIS, |fetch| {
        fetch.selectors = wanted;
        fetch.max_selected = u32::try_from(most).unwrap_or(u32::MAX);
        fetch.keep = vec![PartKind::Body.into(), PartKind::Selected.into()];
    })
    .await?;
    let Some(part) = pages::part(&page, PartKind::Selected) else {
        let message = format!("`{}` is no HTML", line(&page.content_type));
        let mut failure = Failure::of(Code::ContentType, message);
        failure.next_step = "fetch_url gives the body as it came.".into();
        failure.url = Some(page.url.clone());
        return Err(failure.into());
    };
    let bytes = pages::whole(&call.shared.sessions, &session, &page, part).await?;
    let found: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Fault::Internal(format!("what was selected is no JSON: {error}")))?;
    if let Some((name, why)) = found["errors"]
        .as_object()
        .and_then(|all| all.iter().next())
    {
        let bound = why.as_str().unwrap_or("cannot be read").to_owned();
        let field = format!("selectors.{name}");
        let given = shortened(&given[name.as_str()]);
        return Err(Invalid::new(&field, bound, &given).into());
    }
    let mut told = json!({ "url": page.url, "status": page.status, "title": line(&page.title),
        "session_id": session, "data": {}, "found": found["found"] });
    let room = call
        .budget()
        .saturating_sub(FRAME_BYTES + told.to_string().len());
    let (data, shown, is_cut) = fitting(cleaned(found["values"].clone()), room);
    told["elements_found"] = json!(total(&found["found"]));
    told["elements_shown"] = json!(shown);
    let mut text = fenced(&page.url, &data.to_string());
    if is_cut {
        let way_on =
            format!("read_result with session_id {session}, this url and part selected reads all");
        text.push_str(&format!("\n\nCut to fit max_tokens; {way_on}."));
        told["next_step"] = json!(way_on);
    } else if found["is_cut"] == true {
        told["note"] = json!("there are more values, or longer ones, than are taken");
    }
    told["data"] = data;
    let mut answer = Answer::new(text, told).of_session(&session).charged(1);
    if let Some(uri) = pages::snapshot_uri(&page) {
        answer = answer.link(uri, "snapshot", Some(page.size));
    }
    Ok(answer)
}

fn total(found: &Value) -> u64 {
    let counts = found.as_object().into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).sum()
}

/// As many values as fit, in turn from each name, so that no name starves; how many, and whether some were left out.
fn fitting(values: Value, room: usize) -> (Value, usize, bool) {
    let Value::Object(lists) = values else {
        return (json!({}), 0, false);
    };
    let mut left = room.saturating_sub(lists.keys().map(|name| name.len() + 6).sum());
    let mut waiting: Vec<_> = lists
        .into_iter()
        .map(|(name, list)| {
            let list = match list {
                Value::Array(list) => list,
                _ => Vec::new(),
            };
            (name, list.into_iter(), Vec::new(), false)
        })
        .collect();
    let (mut shown, mut is_cut) = (0, false);
    loop {
        let mut has_taken = false;
        for (_, rest, taken, is_over) in &mut waiting {
            if *is_over {
                continue;
            }
            let Some(value) = rest.next() else {
                *is_over = true;
                continue;
            };
            let weight = value.to_string().len() + 1;
            if weight > left {
                *is_over = true;
                is_cut = true;
                continue;
            }
            left -= weight;
            shown += 1;
            has_taken = true;
            taken.push(value);
        }
        if !has_taken {
            break;
        }
    }
    let data = waiting
        .into_iter()
        .map(|(name, _, taken, _)| (name, json!(taken)));
    (Value::Object(data.collect()), shown, is_cut)
}
