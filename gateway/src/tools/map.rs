//! map: the URLs of a site, from sitemaps and links, out of the session's ledger.

use proto::v1::scope::Reach;
use proto::v1::{LedgerEntry, Scope, SessionKind, SessionStatus, SitemapUse, UrlState};
use serde_json::{Value, json};

use super::{Call, Waited, spec};
use crate::answer::{Answer, line};
use crate::error::{Fault, Invalid};
use crate::pages::{self, state_word};
use crate::reading::Reading;
use crate::wait;

const FRAME_BYTES: usize = 900;

pub(super) async fn map(call: &Call<'_>) -> Result<Answer, Fault> {
    let Some(url) = call.args.text("url") else {
        return Err(Invalid::new("url", "is required", &Value::Null).into());
    };
    let mut spec = spec::base(call, SessionKind::Map, vec![url.to_owned()])?;
    let reach = if call.args.flag("allow_subdomains", true) {
        Reach::Domain
    } else {
        Reach::Host
    };
    spec.scope = Some(Scope {
        reach: reach.into(),
        ..Default::default()
    });
    spec.sitemap = if call.args.flag("include_sitemap", true) {
        SitemapUse::Include.into()
    } else {
        SitemapUse::Skip.into()
    };
    spec.format = Reading::of(&call.args, Vec::new()).written();
    let begun = call.start(spec).await?;
    let status = match call.wait(begun).await? {
        Waited::Status(status) => status,
        Waited::Task(answer) => return Ok(answer),
    };
    let told = urls_of(call, &status, "", call.args.text("search")).await?;
    Ok(told.charged(status.pages))
}

/// Whether a ledger's entry is a page of the site.
pub(crate) fn is_page(entry: &LedgerEntry) -> bool {
    if entry.is_sitemap {
        return false;
    }
    match entry.state() {
        UrlState::Unspecified | UrlState::Failed | UrlState::Redirected | UrlState::Duplicate => {
            false
        }
        UrlState::Refused => entry.code == "too_deep",
        UrlState::Queued
        | UrlState::Leased
        | UrlState::Waiting
        | UrlState::Fetched
        | UrlState::TooDeep
        | UrlState::Captured
        | UrlState::NotModified
        | UrlState::Cancelled
        | UrlState::OverBudget => true,
    }
}

/// A URL and what a sitemap says of it.
pub(crate) fn told(entry: &LedgerEntry) -> Value {
    let mut told = json!({ "url": entry.url });
    if let Some(facts) = &entry.sitemap {
        let known = [
            ("lastmod", &facts.lastmod),
            ("changefreq", &facts.changefreq),
            ("priority", &facts.priority),
        ];
        for (name, value) in known {
            if !value.is_empty() {
                told[name] = json!(line(value));
            }
        }
    }
    told
}

fn worded(told: &Value) -> String {
    let of = |name: &str| told.get(name).and_then(Value::as_str);
    let mut text = of("url").unwrap_or_default().to_owned();
    for name in ["lastmod", "changefreq", "priority"] {
        if let Some(value) = of(name) {
            text.push_str(&format!(" {name}={value}"));
        }
    }
    text
}

/// Where to go on, and the search that a cursor carries along: `7` or `7:word`.
fn place(cursor: &str, search: Option<&str>) -> Result<(usize, Option<String>), Invalid> {
    if cursor.is_empty() {
        return Ok((0, search.map(str::to_lowercase)));
    }
    let (skip, needle) = match cursor.split_once(':') {
        Some((skip, needle)) => (skip, Some(needle.to_owned())),
        None => (cursor, None),
    };
    let bound = "must be the next_cursor of an earlier answer";
    let skip = skip
        .parse()
        .map_err(|_| Invalid::new("cursor", bound, &json!(cursor)))?;
    Ok((skip, needle))
}

/// The URLs of a map's session from the `cursor`-th on, as many as fit.
pub(crate) async fn urls_of(
    call: &Call<'_>,
    status: &SessionStatus,
    cursor: &str,
    search: Option<&str>,
) -> Result<Answer, Fault> {
    let id = &status.session_id;
    let (skip, needle) = place(cursor, search)?;
    let limit = call
        .args
        .int("limit")
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(usize::MAX);
    let budget = call.budget().saturating_sub(FRAME_BYTES);
    let (mut urls, mut text) = (Vec::new(), String::new());
    let (mut matching, mut used, mut is_full) = (0usize, 0, false);
    let mut page = String::new();
    loop {
        let reply = call.shared.sessions.ledger(id, &page).await?;
        for entry in reply.entries.iter().filter(|entry| is_page(entry)) {
            if needle
                .as_ref()
                .is_some_and(|needle| !entry.url.to_lowercase().contains(needle))
            {
                continue;
            }
            matching += 1;
            if matching <= skip || is_full {
                continue;
            }
            let entry = told(entry);
            let weight = entry.to_string().len() + 1;
            // The first one is told whatever its length, or the cursor would stand still.
            if urls.len() >= limit || (used + weight > budget && !urls.is_empty()) {
                is_full = true;
                continue;
            }
            used += weight;
            text.push_str(&worded(&entry));
            text.push('\n');
            urls.push(entry);
        }
        if reply.next_cursor.is_empty() {
            break;
        }
        page = reply.next_cursor;
    }
    let shown = urls.len();
    let mut structured =
        json!({ "session_id": id, "state": state_word(status), "total": matching, "urls": urls });
    let mut head = format!("{shown} of {matching} URLs ({}).", state_word(status));
    if shown == 0 && wait::is_over(status) && !status.code.is_empty() {
        structured["status"] = pages::status(status);
        head.push_str(&format!(" {}: {}", status.code, line(&status.detail)));
    }
    if skip + shown < matching || !wait::is_over(status) {
        let next = match &needle {
            Some(needle) => format!("{}:{needle}", skip + shown),
            None => (skip + shown).to_string(),
        };
        let way_on = format!("crawl_results with session_id {id} and cursor {next}");
        head.push_str(&format!(" More: {way_on}."));
        structured["next_cursor"] = json!(next);
        structured["next_step"] = json!(way_on);
    }
    Ok(Answer::new(format!("{head}\n{text}"), structured).of_session(id))
}
