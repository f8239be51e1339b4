//! generate_llms_txt: a crawl told as llms.txt (a list of its pages) and llms-full.txt (their text).

use std::collections::BTreeMap;
use std::time::Duration;

use proto::CrawlUrl;
use proto::v1::scope::Reach;
use proto::v1::{
    Budget, Page, PagesRequest, PartKind, Scope, SessionKind, SessionStatus, SitemapUse,
};
use serde_json::{Value, json};

use super::{Call, Waited, sentence, spec};
use crate::answer::{Answer, blocks, fenced, harmless, json_len, line};
use crate::error::{Fault, Invalid};
use crate::pages::{INLINE_BYTES, state_word};
use crate::reading::Reading;
use crate::wait;

const FRAME_BYTES: usize = 1_600;
const STRIDE: u32 = 1_000;
const FULL_STRIDE: u32 = 20;
/// Pages listed at most; a longer list helps no reader.
const MOST_LISTED: usize = 20_000;

pub(super) async fn generate(call: &Call<'_>) -> Result<Answer, Fault> {
    let format = call.args.text("format").unwrap_or("both").to_owned();
    let status = match (call.args.text("session_id"), call.args.text("url")) {
        (Some(id), None) => known(call, id).await?,
        (None, Some(url)) => match begun(call, url, &format).await? {
            Waited::Status(status) => *status,
            Waited::Task(answer) => return Ok(answer),
        },
        (Some(id), Some(_)) => {
            let bound = "contradicts `url`; give one of the two";
            return Err(Invalid::new("session_id", bound, &json!(id)).into());
        }
        (None, None) => return Err(Invalid::new("url", "is required", &Value::Null).into()),
    };
    let fetched_now = call.args.text("session_id").is_none();
    let answer = written(call, &status, &format).await?;
    Ok(answer.charged(if fetched_now { status.pages } else { 0 }))
}

async fn known(call: &Call<'_>, id: &str) -> Result<SessionStatus, Fault> {
    let status = call.shared.sessions.status(id, Duration::ZERO).await?;
    if status.kind() != SessionKind::Crawl {
        let bound = format!("must be a crawl; this is a {}", status.kind().word());
        return Err(Invalid::new("session_id", bound, &json!(id)).into());
    }
    Ok(status)
}

async fn begun(call: &Call<'_>, url: &str, format: &str) -> Result<Waited, Fault> {
    let mut spec = spec::base(call, SessionKind::Crawl, vec![url.to_owned()])?;
    spec.scope = Some(Scope {
        reach: Reach::Domain.into(),
        ..Default::default()
    });
    let depth = call.args.int("max_depth").unwrap_or(3);
    spec.budget = Some(Budget {
        max_pages: Some(call.args.int("max_pages").unwrap_or(100)),
        max_depth: u32::try_from(depth).ok(),
        ..Default::default()
    });
    spec.sitemap = SitemapUse::Include.into();
    spec.format = Reading::of(&call.args, vec![format.to_owned()]).written();
    let begun = call.start(spec).await?;
    call.wait(begun).await
}

/// The files of a crawl as it stands.
pub(crate) async fn written(
    call: &Call<'_>,
    status: &SessionStatus,
    format: &str,
) -> Result<Answer, Fault> {
    let id = &status.session_id;
    let pages = all_pages(call, id).await?;
    let mut told = json!({ "session_id": id, "state": state_word(status), "pages": pages.len() });
    let mut text = sentence(status);
    let mut left = call.budget().saturating_sub(FRAME_BYTES);
    let mut is_cut = false;
    if format != "llms-full-txt" {
        let whole = list(status, &pages);
        let room = if format == "both" { left / 2 } else { left };
        let shown = blocks(&whole, room);
        is_cut |= shown.len() < whole.len();
        left -= json_len(shown).min(left);
        text.push_str(&format!("\n\n{}", fenced("llms.txt", shown)));
        told["llms_txt"] = json!(shown);
    }
    if format != "llms-txt" {
        let (full, is_whole) = full(call, id, left).await?;
        is_cut |= !is_whole;
        text.push_str(&format!("\n\n{}", fenced("llms-full.txt", &full)));
        told["llms_full_txt"] = json!(full);
    }
    let mut way_on = Vec::new();
    if !wait::is_over(status) {
        way_on.push(format!(
            "the crawl still runs: crawl_status with session_id {id} and wait, then this tool with that session_id"
        ));
    }
    if is_cut {
        way_on.push(format!(
            "cut to fit max_tokens: crawl_results with session_id {id} reads every page"
        ));
    }
    if !way_on.is_empty() {
        let way_on = way_on.join("; ");
        text.push_str(&format!("\n\nNext: {way_on}."));
        told["next_step"] = json!(way_on);
    }
    let sitemap = format!("crawlforge://crawl/{id}/sitemap");
    Ok(Answer::new(text, told)
        .of_session(id)
        .link(sitemap, "sitemap", None))
}

async fn all_pages(call: &Call<'_>, id: &str) -> Result<Vec<Page>, Fault> {
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let request = PagesRequest {
            session_id: id.to_owned(),
            cursor,
            limit: STRIDE,
            ..Default::default()
        };
        let reply = call.shared.sessions.pages(request).await?;
        pages.extend(reply.pages);
        cursor = reply.next_cursor;
        if cursor.is_empty() || pages.len() >= MOST_LISTED {
            return Ok(pages);
        }
    }
}

fn title(page: &Page) -> String {
    match line(&page.title) {
        title if title.is_empty() => page.url.clone(),
        title => title.replace(['[', ']'], ""),
    }
}

/// The first folder of an address, as a heading.
fn section(url: &str) -> String {
    let parsed = CrawlUrl::parse(url).ok();
    let path = parsed.as_ref().map_or("", |url| url.url().path());
    let mut parts = path.trim_matches('/').split('/');
    match (parts.next(), parts.next()) {
        (Some(first), Some(_)) if !first.is_empty() => {
            let mut letters = first.chars();
            let head = letters.next().into_iter().flat_map(char::to_uppercase);
            line(
                &head
                    .chain(letters)
                    .collect::<String>()
                    .replace(['-', '_'], " "),
            )
        }
        _ => "Pages".to_owned(),
    }
}

/// llms.txt: the site's name and description, then its pages by folder.
fn list(status: &SessionStatus, pages: &[Page]) -> String {
    let seed = status
        .spec
        .as_ref()
        .and_then(|spec| spec.seeds.first())
        .map_or("", String::as_str);
    let start = pages.iter().find(|page| page.url == seed);
    let start = start.or_else(|| pages.iter().min_by_key(|page| page.depth));
    let name = start.map_or_else(|| seed.to_owned(), title);
    let mut text = format!("# {name}\n");
    let about = start
        .map(|page| line(&page.description))
        .unwrap_or_default();
    if !about.is_empty() {
        text.push_str(&format!("\n> {about}\n"));
    }
    let mut sections: BTreeMap<String, Vec<&Page>> = BTreeMap::new();
    for page in pages {
        sections.entry(section(&page.url)).or_default().push(page);
    }
    for (name, pages) in sections {
        text.push_str(&format!("\n## {name}\n\n"));
        for page in pages {
            text.push_str(&format!("- [{}]({})", title(page), page.url));
            let about = line(&page.description);
            if !about.is_empty() {
                text.push_str(&format!(": {about}"));
            }
            text.push('\n');
        }
    }
    text
}

/// llms-full.txt: the pages' Markdown, one after the other, as much as fits; true where that is all.
async fn full(call: &Call<'_>, id: &str, budget: usize) -> Result<(String, bool), Fault> {
    let (mut text, mut left, mut cursor) = (String::new(), budget, String::new());
    loop {
        let request = PagesRequest {
            session_id: id.to_owned(),
            cursor,
            limit: FULL_STRIDE,
            inline_bytes: INLINE_BYTES,
            inline_kinds: vec![PartKind::Markdown.into()],
            ..Default::default()
        };
        let reply = call.shared.sessions.pages(request).await?;
        for page in &reply.pages {
            let mut entry = format!("# {}\n\nSource: {}\n\n", title(page), page.url);
            let Some(part) = crate::pages::part(page, PartKind::Markdown) else {
                continue;
            };
            let most = u64::try_from(left).unwrap_or(u64::MAX).saturating_add(8);
            let sessions = &call.shared.sessions;
            let bytes = crate::pages::range(sessions, id, page, part, 0, most).await?;
            entry.push_str(&harmless(&String::from_utf8_lossy(&bytes)));
            entry.push_str("\n\n");
            let shown = blocks(&entry, left);
            text.push_str(shown);
            if shown.len() < entry.len() || part.size > most {
                return Ok((text, false));
            }
            left -= json_len(shown).min(left);
        }
        cursor = reply.next_cursor;
        if cursor.is_empty() {
            return Ok((text, reply.is_final));
        }
    }
}
