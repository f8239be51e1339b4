//! Completion of what a caller is about to type: choices, addresses and ids that are theirs.

use std::collections::BTreeSet;

use proto::v1::{PagesRequest, SessionKind, SessionStatus};
use proto::{CrawlUrl, Refusal, Timestamp};
use rmcp::ErrorData;
use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, Reference};
use serde_json::json;

use crate::Shared;
use crate::args::Kind;
use crate::error::{Invalid, internal};
use crate::{prompts, resources};

/// Sessions looked at for one completion.
const MOST_SESSIONS: usize = 1_000;
const STRIDE: u32 = 100;
/// Newest sessions whose pages are looked at for a hash.
const HASH_SESSIONS: usize = 5;

pub(crate) async fn complete(
    shared: &Shared,
    request: &CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let argument = &request.argument;
    let unknown = |what: &str| {
        let bound = format!("is not an argument of this {what}");
        Invalid::new("argument.name", bound, &json!(argument.name))
    };
    let typed = argument.value.as_str();
    let found = match &request.r#ref {
        Reference::Prompt(prompt) => {
            let spec = prompts::find("ref.name", &prompt.name)?;
            let param = spec
                .param(&argument.name)
                .ok_or_else(|| unknown("prompt"))?;
            of_kind(shared, param.kind, typed).await
        }
        Reference::Resource(resource) => {
            let names = resources::placeholders(&resource.uri).ok_or_else(|| {
                let bound = "is not a resource template of this server";
                Invalid::new("ref.uri", bound, &json!(resource.uri))
            })?;
            if !names.contains(&argument.name) {
                return Err(unknown("template").into());
            }
            let context = request.context.as_ref();
            let hash = context.and_then(|context| context.get_argument("urlHash"));
            of_template(shared, &resource.uri, &argument.name, typed, hash).await
        }
        other => {
            let given = json!(format!("{other:?}"));
            return Err(Invalid::new("ref", "must name a prompt or a resource", &given).into());
        }
    };
    let (mut values, mut has_more) = found.map_err(|refusal| internal(refusal.message))?;
    has_more |= values.len() > CompletionInfo::MAX_VALUES;
    values.truncate(CompletionInfo::MAX_VALUES);
    let total = u32::try_from(values.len()).ok().filter(|_| !has_more);
    let info = CompletionInfo::with_pagination(values, total, has_more).map_err(internal)?;
    Ok(CompleteResult::new(info))
}

/// Values, and whether there are more.
type Found = Result<(Vec<String>, bool), Refusal>;

async fn of_kind(shared: &Shared, kind: Kind, typed: &str) -> Found {
    let words = |words: &[&str]| {
        let fitting = words.iter().filter(|word| word.starts_with(typed));
        Ok((fitting.map(|word| (*word).to_owned()).collect(), false))
    };
    match kind {
        Kind::Word(known) | Kind::Words(known) => words(known),
        Kind::Flag => words(&["true", "false"]),
        Kind::Url => seeds(shared, "", typed).await,
        Kind::Urls => {
            // Of a list, the last address is still being typed.
            let last = typed.rfind(',').map_or(0, |comma| comma + 1);
            let (before, rest) = typed.split_at(last);
            let space = rest.len() - rest.trim_start().len();
            let before = format!("{before}{}", &rest[..space]);
            seeds(shared, &before, rest.trim_start()).await
        }
        Kind::Session => ids(shared, typed, |_| true).await,
        Kind::Text
        | Kind::Texts
        | Kind::Int { .. }
        | Kind::Wait
        | Kind::Headers
        | Kind::Selectors
        | Kind::Options
        | Kind::Ignored
        | Kind::Refused => Ok((Vec::new(), false)),
    }
}

async fn of_template(
    shared: &Shared,
    uri: &str,
    name: &str,
    typed: &str,
    hash: Option<&String>,
) -> Found {
    match name {
        "sessionId" if uri.contains("/sitemap") => ids(shared, typed, resources::has_sitemap).await,
        "sessionId" => ids(shared, typed, resources::has_pages).await,
        "jobId" => ids(shared, typed, |_| true).await,
        "urlHash" => hashes(shared, typed).await,
        "timestamp" => match hash {
            Some(hash) => times(shared, hash, typed).await,
            None => Ok((Vec::new(), false)),
        },
        _ => Ok((Vec::new(), false)),
    }
}

/// Goes through the caller's sessions, newest first, until `take` has had enough.
async fn each_session(
    shared: &Shared,
    mut take: impl FnMut(&SessionStatus) -> bool,
) -> Result<bool, Refusal> {
    let (mut cursor, mut seen) = (String::new(), 0);
    loop {
        let reply = shared.sessions.list(&cursor, STRIDE).await?;
        for status in &reply.sessions {
            if !take(status) {
                return Ok(true);
            }
        }
        seen += reply.sessions.len();
        cursor = reply.next_cursor;
        if cursor.is_empty() || seen >= MOST_SESSIONS {
            return Ok(!cursor.is_empty());
        }
    }
}

/// Ids of the caller's sessions, newest first.
async fn ids(shared: &Shared, typed: &str, fits: impl Fn(SessionKind) -> bool) -> Found {
    let mut values = Vec::new();
    let has_more = each_session(shared, |status| {
        if status.session_id.starts_with(typed) && fits(status.kind()) {
            values.push(status.session_id.clone());
        }
        values.len() <= CompletionInfo::MAX_VALUES
    })
    .await?;
    Ok((values, has_more))
}

/// Where the caller's sessions began, each address once, newest first.
async fn seeds(shared: &Shared, before: &str, typed: &str) -> Found {
    let (mut values, mut known) = (Vec::new(), BTreeSet::new());
    let has_more = each_session(shared, |status| {
        let seeds = status.spec.iter().flat_map(|spec| &spec.seeds);
        for seed in seeds.take(CompletionInfo::MAX_VALUES) {
            if seed.starts_with(typed) && known.insert(seed.clone()) {
                values.push(format!("{before}{seed}"));
            }
        }
        values.len() <= CompletionInfo::MAX_VALUES
    })
    .await?;
    Ok((values, has_more))
}

/// Hashes of the pages of the newest sessions.
async fn hashes(shared: &Shared, typed: &str) -> Found {
    let mut newest = Vec::new();
    each_session(shared, |status| {
        newest.push(status.session_id.clone());
        newest.len() < HASH_SESSIONS
    })
    .await?;
    let (mut values, mut known) = (Vec::new(), BTreeSet::new());
    let mut has_more = false;
    for session_id in newest {
        let limit = STRIDE;
        let request = PagesRequest {
            session_id,
            limit,
            ..Default::default()
        };
        let reply = shared.sessions.pages(request).await?;
        has_more |= !reply.next_cursor.is_empty();
        let hashes = reply.pages.iter().filter_map(|page| {
            let url = CrawlUrl::parse(&page.url).ok()?;
            Some(url.url_hash().to_string())
        });
        values.extend(hashes.filter(|hash| hash.starts_with(typed) && known.insert(hash.clone())));
    }
    Ok((values, has_more))
}

/// When a page was fetched, newest first.
async fn times(shared: &Shared, hash: &str, typed: &str) -> Found {
    let reply = shared.sessions.snapshot(hash, "").await?;
    let times = reply.pages.iter().map(|page| page.fetched_at_millis);
    let times = times.map(|at| Timestamp::from_millis(at).compact());
    let values: Vec<_> = times.filter(|at| at.starts_with(typed)).collect();
    Ok((values, !reply.next_cursor.is_empty()))
}
