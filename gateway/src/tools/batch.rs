//! batch_scrape: one result for each URL, in the order asked.

use proto::v1::{PartKind, SessionKind};
use serde_json::json;

use super::scrape::{captured, formats, merge, render};
use super::{Call, crawl, spec, status};
use crate::answer::{Answer, beginning};
use crate::error::Fault;
use crate::pages::{PART_BYTES, facts, state_word};
use crate::wait;

/// Least that one result is given, so that every URL is named even where the budget is small.
const FLOOR_BYTES: usize = 160;
const FRAME_BYTES: usize = 800;
const SEPARATOR: &str = "\n\n---\n\n";

pub(super) async fn batch_scrape(call: &Call<'_>) -> Result<Answer, Fault> {
    let urls = call.args.texts("urls");
    let mut spec = spec::base(call, SessionKind::Batch, urls.clone())?;
    // Every input has a result of its own, also where two pages are the same.
    spec.keep_duplicates = true;
    let formats = formats(call);
    spec.format = formats.join(",");
    let begun = call.start(spec).await?;
    let span = call.args.wait(crawl::default_wait(call));
    let status = wait::wait(&call.shared.sessions, begun, span, call.context).await?;
    let id = status.session_id.clone();
    let kinds = [PartKind::Markdown];
    let entries = call
        .shared
        .sessions
        .lookup(&id, &urls, PART_BYTES, &kinds)
        .await?;

    let (mut results, mut text) = (Vec::new(), String::new());
    let mut left = call.budget().saturating_sub(FRAME_BYTES);
    let count = urls.len();
    let (mut is_cut, mut unnamed) = (false, 0usize);
    for (at, url) in urls.iter().enumerate() {
        let chain = entries
            .get(at)
            .map(|entry| entry.chain.clone())
            .unwrap_or_default();
        let share = left / (count - at);
        if share < FLOOR_BYTES + url.len() * 2 && left < FLOOR_BYTES * 2 + url.len() * 4 {
            unnamed = count - at;
            break;
        }
        let mut result = json!({ "url": url });
        let words = match captured(chain.into_iter().last()) {
            Ok(page) => {
                let rendered = render(call, &id, &page, &formats, share).await?;
                let known = facts(&page);
                if share > 1_200 + known.to_string().len() {
                    merge(&mut result, known.as_object().cloned().unwrap_or_default());
                    result["url"] = json!(url);
                }
                is_cut |= rendered.is_cut;
                merge(&mut result, rendered.fields);
                format!(
                    "{url}\n{}",
                    if share > 1_000 {
                        rendered.text
                    } else {
                        String::new()
                    }
                )
            }
            Err(failure) => {
                let mut error = failure.structured();
                if error.to_string().len() > share.saturating_sub(url.len() + 40) {
                    error = json!({ "code": failure.code });
                }
                result["error"] = error;
                format!(
                    "{url}\nError {}",
                    beginning(&failure.text(), share.saturating_sub(url.len() + 20))
                )
            }
        };
        left = left.saturating_sub(result.to_string().len().max(words.len() + SEPARATOR.len()) + 1);
        if at > 0 {
            text.push_str(SEPARATOR);
        }
        text.push_str(&words);
        results.push(result);
    }
    let mut structured =
        json!({ "session_id": id, "state": state_word(&status), "results": results });
    let mut head = status::sentence(&status);
    if is_cut || unnamed > 0 || !wait::is_over(&status) {
        let way_on =
            format!("crawl_status, then crawl_results or read_result with session_id {id}");
        head.push_str(&format!(" {unnamed} results and the cut text: {way_on}."));
        structured["left_out"] = json!(unnamed);
        structured["next_step"] = json!(way_on);
    }
    Ok(Answer::new(format!("{head}\n\n{text}"), structured)
        .of_session(&id, status.pages)
        .link(format!("crawlforge://crawl/{id}/pages"), "pages", None))
}
