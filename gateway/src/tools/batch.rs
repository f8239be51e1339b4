//! batch_scrape and get_batch_results: one result for each URL, in the order asked.

use std::time::Duration;

use proto::v1::{LedgerEntry, PartKind, SessionKind, SessionStatus};
use serde_json::{Value, json};

use super::render::{merge, render};
use super::scrape::{captured, formats};
use super::{Call, Waited, spec, status};
use crate::answer::{Answer, beginning};
use crate::error::{Fault, Invalid};
use crate::pages::{INLINE_BYTES, facts, state_word};
use crate::reading::Reading;
use crate::wait;

const FRAME_BYTES: usize = 800;
/// Below this a result names its URL and how it ended, and nothing of the page.
const WORTH_BYTES: usize = 1_600;
const SEPARATOR: &str = "\n\n---\n\n";
const PAGE_SIZE: u64 = 50;

pub(super) async fn batch_scrape(call: &Call<'_>) -> Result<Answer, Fault> {
    let urls = call.args.texts("urls");
    let mut spec = spec::base(call, SessionKind::Batch, urls.clone())?;
    // Every input has a result of its own, also where two pages are the same.
    spec.keep_duplicates = true;
    if let Some(pause) = call.args.int("delay_between_requests") {
        spec.fetch.get_or_insert_default().min_interval_millis = pause;
    }
    let formats = formats(call);
    let reading = Reading::of(&call.args, formats);
    spec.format = reading.written();
    let begun = call.start(spec).await?;
    let status = match call.wait(begun).await? {
        Waited::Status(status) => status,
        Waited::Task(answer) => return Ok(answer),
    };
    let told = all_of(call, &status, &urls, &reading).await?;
    Ok(told.charged(status.pages))
}

/// Every result of a batch.
pub(crate) async fn all_of(
    call: &Call<'_>,
    status: &SessionStatus,
    urls: &[String],
    reading: &Reading,
) -> Result<Answer, Fault> {
    let told = results(call, status, urls, &reading.formats).await?;
    Ok(told.worded(status, json!({})))
}

/// A page of a batch's results, counted over its inputs.
pub(super) async fn get_batch_results(call: &Call<'_>) -> Result<Answer, Fault> {
    let id = call.args.text("session_id").unwrap_or_default();
    let status = call.shared.sessions.status(id, Duration::ZERO).await?;
    if status.kind() != SessionKind::Batch {
        let bound = format!(
            "must be a batch; this is a {}, which crawl_results reads",
            status.kind().word()
        );
        return Err(Invalid::new("session_id", bound, &json!(id)).into());
    }
    let asked = status.spec.clone().unwrap_or_default();
    let total = asked.seeds.len();
    let size = call.args.int("page_size").unwrap_or(PAGE_SIZE).max(1);
    let page = call.args.int("page").unwrap_or(1).max(1);
    let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let last = total.div_ceil(of(size)).max(1);
    if of(page) > last {
        let bound = format!("must be at most {last}, the last page of {total} results");
        return Err(Invalid::new("page", bound, &json!(page)).into());
    }
    let from = of(page - 1) * of(size);
    let urls: Vec<_> = asked.seeds.into_iter().skip(from).take(of(size)).collect();
    let formats = Reading::parse(&asked.format).formats;
    let told = results(call, &status, &urls, &formats).await?;
    let place = json!({ "page": page, "page_size": size, "total": total, "total_pages": last });
    Ok(told.worded(&status, place))
}

/// Results as they are put together.
#[derive(Default)]
struct Results {
    listed: Vec<Value>,
    texts: Vec<String>,
    shortened: usize,
}

impl Results {
    fn worded(self, status: &SessionStatus, place: Value) -> Answer {
        let id = &status.session_id;
        let mut structured =
            json!({ "session_id": id, "state": state_word(status), "results": self.listed });
        if let Value::Object(place) = place {
            merge(&mut structured, place);
        }
        let mut head = status::sentence(status);
        let mut way_on = Vec::new();
        if self.shortened > 0 {
            structured["shortened"] = json!(self.shortened);
            head.push_str(&format!(
                " {} results are shortened to fit max_tokens.",
                self.shortened
            ));
            way_on.push(format!(
                "read_result with session_id {id} and the url reads a page whole"
            ));
        }
        if !wait::is_over(status) {
            way_on.push(format!(
                "crawl_status with session_id {id} and wait, then get_batch_results"
            ));
        }
        if !way_on.is_empty() {
            let way_on = way_on.join("; ");
            head.push_str(&format!(" Next: {way_on}."));
            structured["next_step"] = json!(way_on);
        }
        let text = format!("{head}\n\n{}", self.texts.join(SEPARATOR));
        let pages = format!("crawlforge://crawl/{id}/pages");
        Answer::new(text, structured)
            .of_session(id)
            .link(pages, "pages", None)
    }
}

/// A result for every URL. Each has its share of the budget; one that is too small is named all the same.
async fn results(
    call: &Call<'_>,
    status: &SessionStatus,
    urls: &[String],
    formats: &[String],
) -> Result<Results, Fault> {
    let id = &status.session_id;
    let kinds = [PartKind::Markdown];
    let sessions = &call.shared.sessions;
    let entries = sessions.lookup(id, urls, INLINE_BYTES, &kinds).await?;
    let mut chains = entries.into_iter().map(|entry| entry.chain);
    let mut out = Results::default();
    let mut left = call.budget().saturating_sub(FRAME_BYTES);
    for (at, url) in urls.iter().enumerate() {
        let last = chains.next().and_then(|chain| chain.into_iter().last());
        let share = left / (urls.len() - at);
        let is_over = wait::is_over(status);
        let (result, text, is_short) = match last {
            Some(entry) if !is_over && !entry.state().is_terminal() => {
                let word = entry.state().word();
                (
                    json!({ "url": url, "state": word }),
                    format!("{url}\n{word}"),
                    false,
                )
            }
            None if !is_over => (
                json!({ "url": url, "state": "queued" }),
                format!("{url}\nqueued"),
                false,
            ),
            last => result(call, id, url, last, formats, share).await?,
        };
        left = left.saturating_sub(result.to_string().len().max(text.len() + SEPARATOR.len()) + 1);
        out.listed.push(result);
        out.texts.push(text);
        out.shortened += usize::from(is_short);
    }
    Ok(out)
}

/// How one URL ended, in about `share` bytes; true where something was left out.
async fn result(
    call: &Call<'_>,
    id: &str,
    url: &str,
    last: Option<LedgerEntry>,
    formats: &[String],
    share: usize,
) -> Result<(Value, String, bool), Fault> {
    let mut result = json!({ "url": url });
    let page = match captured(last) {
        Ok(page) => page,
        Err(failure) => {
            let whole = failure.structured();
            let fits = whole.to_string().len() + url.len() + 40 <= share;
            result["error"] = if fits {
                whole
            } else {
                json!({ "code": failure.code })
            };
            let most = share.saturating_sub(url.len() + 20).max(failure.code.len());
            let text = format!("{url}\nError {}", beginning(&failure.text(), most));
            return Ok((result, text, !fits));
        }
    };
    let known = facts(&page);
    if share < WORTH_BYTES + known.to_string().len() {
        result["status"] = json!(page.status);
        result["size"] = json!(page.size);
        let text = format!("{url}\nHTTP {}, {} bytes", page.status, page.size);
        return Ok((result, text, true));
    }
    if let Value::Object(known) = known {
        merge(&mut result, known);
    }
    result["url"] = json!(url);
    let room = share.saturating_sub(result.to_string().len());
    let rendered = render(call, id, &page, formats, room).await?;
    merge(&mut result, rendered.fields);
    Ok((result, format!("{url}\n{}", rendered.text), rendered.is_cut))
}
