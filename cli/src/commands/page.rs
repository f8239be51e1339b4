//! `scrape` and `map`: one page, or the list of a site's URLs, on stdout.

use std::collections::BTreeSet;
use std::process::ExitCode;

use proto::v1::{
    Budget, FetchOptions, LedgerEntry, LedgerRequest, PartKind, RunReply, RunRequest, Scope,
    SessionKind, SessionSpec, SessionState, SitemapUse, UrlState, scope,
};
use proto::{Clock, SessionId};
use serde_json::{Value, json};

use super::crawl::{partial, seed};
use super::{Failure, print};
use crate::args::{MapArgs, ScrapeArgs, View};
use crate::door::{Door, Use};
use crate::exporter::{ledger_row, row_of};
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::summary::sentence;

/// How long a page may take with all its redirects.
const SCRAPE_WITHIN_MILLIS: u64 = 55_000;
/// Most bytes of a page that are printed.
const INLINE_BYTES: u64 = 24 * 1024 * 1024;

pub(super) async fn scrape(settings: &Settings, args: ScrapeArgs) -> Result<ExitCode, Failure> {
    let url = seed(&args.url)?;
    let spec = SessionSpec {
        kind: SessionKind::Scrape.into(),
        seeds: vec![url.clone()],
        scope: Some(Scope {
            reach: scope::Reach::Any.into(),
            ..Scope::default()
        }),
        budget: Some(Budget {
            max_pages: Some(1),
            max_depth: Some(0),
            ..Budget::default()
        }),
        fetch: Some(FetchOptions {
            keep: parts(args.format).into_iter().map(Into::into).collect(),
            only_main_content: !args.whole_page,
            ..FetchOptions::default()
        }),
        request_id: SessionId::random().to_string(),
        ..SessionSpec::default()
    };
    let request = RunRequest {
        spec: Some(spec),
        wait_millis: SCRAPE_WITHIN_MILLIS,
        inline_bytes: INLINE_BYTES,
    };
    let door = Door::open(settings, Clock::start(), Use::Work)
        .await
        .map_err(Failure::Failed)?;
    let sessions = Sessions::new(door.channel());
    let reply = sessions.run(request).await;
    let shown = match reply {
        Ok(reply) => show(&sessions, &url, args.format, &reply).await,
        Err(refusal) => Err(Failure::Failed(refusal.message)),
    };
    door.close().await;
    print(shown?.trim_end())
}

fn parts(view: View) -> Vec<PartKind> {
    match view {
        View::Markdown => vec![PartKind::Markdown],
        View::Html => vec![PartKind::Body],
        View::Text => vec![PartKind::Text],
        View::Links => vec![PartKind::Facts],
        View::Json => vec![PartKind::Markdown, PartKind::Facts],
    }
}

async fn show(
    sessions: &Sessions,
    url: &str,
    view: View,
    reply: &RunReply,
) -> Result<String, Failure> {
    let chain = reply
        .entry
        .as_ref()
        .map(|entry| entry.chain.as_slice())
        .unwrap_or_default();
    let Some(last) = chain.last() else {
        return Err(Failure::Failed(format!(
            "{url}: no answer within the time; try again later"
        )));
    };
    let Some(page) = last
        .page
        .as_ref()
        .filter(|_| last.state() == UrlState::Captured)
    else {
        let code = if last.code.is_empty() {
            last.state().word()
        } else {
            &last.code
        };
        return Err(Failure::Failed(sentence(&last.url, code, &last.detail)));
    };
    let mut texts = Vec::new();
    for kind in parts(view) {
        let Some(part) = page.parts.iter().find(|part| part.kind() == kind) else {
            texts.push(String::new());
            continue;
        };
        let bytes = if part.content.len() as u64 == part.size {
            part.content.to_vec()
        } else {
            sessions.body(&page.session_id, &part.digest).await?
        };
        texts.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    let first = texts.first().cloned().unwrap_or_default();
    Ok(match view {
        View::Markdown | View::Html | View::Text => first,
        View::Links => links_of(&first).join("\n"),
        View::Json => {
            let mut row = row_of(page);
            row["markdown"] = json!(first);
            let facts = texts
                .get(1)
                .and_then(|text| serde_json::from_str::<Value>(text).ok());
            row["facts"] = facts.unwrap_or(Value::Null);
            serde_json::to_string_pretty(&row).unwrap_or_default()
        }
    })
}

fn links_of(facts: &str) -> Vec<String> {
    let facts: Value = serde_json::from_str(facts).unwrap_or_default();
    let links = facts
        .get("links")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let urls = links
        .iter()
        .filter_map(|link| link.get("url").and_then(Value::as_str));
    let mut seen = BTreeSet::new();
    urls.filter(|url| seen.insert(*url))
        .map(str::to_owned)
        .collect()
}

pub(super) async fn map(settings: &Settings, args: MapArgs) -> Result<ExitCode, Failure> {
    let url = seed(&args.url)?;
    let spec = SessionSpec {
        kind: SessionKind::Map.into(),
        seeds: vec![url.clone()],
        scope: Some(Scope::default()),
        budget: Some(Budget {
            max_pages: Some(1),
            max_depth: Some(0),
            ..Budget::default()
        }),
        fetch: Some(FetchOptions::default()),
        sitemap: SitemapUse::Include.into(),
        request_id: SessionId::random().to_string(),
        ..SessionSpec::default()
    };
    let door = Door::open(settings, Clock::start(), Use::Work)
        .await
        .map_err(Failure::Failed)?;
    let sessions = Sessions::new(door.channel());
    let mapped = map_with(&sessions, spec, &args).await;
    door.close().await;
    mapped
}

async fn map_with(
    sessions: &Sessions,
    spec: SessionSpec,
    args: &MapArgs,
) -> Result<ExitCode, Failure> {
    let mut status = sessions.start(spec).await?;
    let stop = super::stop_signal()?;
    while !status.state().is_terminal() {
        let mut news = sessions.watch(&status.session_id).await?;
        loop {
            let next = tokio::select! {
                () = stop.cancelled() => return Ok(partial()),
                next = news.message() => next,
            };
            let Ok(Some(reply)) = next else { break };
            status = reply.status.unwrap_or(status);
        }
    }
    let rows = listed(sessions, &status.session_id, args).await?;
    if rows.is_empty() && status.state() == SessionState::Failed {
        let seed = status
            .spec
            .as_ref()
            .and_then(|spec| spec.seeds.first().cloned());
        let url = seed.unwrap_or_default();
        return Err(Failure::Failed(sentence(
            &url,
            &status.code,
            &status.detail,
        )));
    }
    let lines: Vec<String> = rows
        .iter()
        .map(|entry| {
            if args.json {
                ledger_row(entry).to_string()
            } else {
                entry.url.clone()
            }
        })
        .collect();
    print(&lines.join("\n"))
}

async fn listed(
    sessions: &Sessions,
    id: &str,
    args: &MapArgs,
) -> Result<Vec<LedgerEntry>, Failure> {
    let wanted = args.search.as_ref().map(|text| text.to_lowercase());
    let limit = args.limit.unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let request = LedgerRequest {
            session_id: id.to_owned(),
            cursor,
            limit: 1000,
            ..LedgerRequest::default()
        };
        let reply = sessions.ledger(request).await?;
        for entry in reply.entries {
            let is_page = !entry.is_sitemap
                && !matches!(entry.state(), UrlState::Redirected | UrlState::Failed);
            let is_wanted = wanted
                .as_ref()
                .is_none_or(|text| entry.url.to_lowercase().contains(text));
            if is_page && is_wanted && rows.len() < limit {
                rows.push(entry);
            }
        }
        if reply.next_cursor.is_empty() || rows.len() >= limit {
            return Ok(rows);
        }
        cursor = reply.next_cursor;
    }
}
