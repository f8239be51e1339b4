//! Checks a session's spec at the door; what passes holds everywhere behind it.

use proto::v1::{self, SessionKind, SessionSpec};
use proto::{CompiledScope, CrawlUrl, Refusal, SessionId};

use crate::catalog::Catalog;

const MAX_SEEDS: usize = 100_000;

/// Checks a spec, makes its seeds canonical and compiles its scope.
pub(super) fn checked(
    mut spec: SessionSpec,
    allow_ignore_robots: bool,
) -> Result<(SessionSpec, CompiledScope), Refusal> {
    if spec.kind() == SessionKind::Unspecified {
        return Err(Refusal::argument(
            "kind",
            "`kind` must be scrape, crawl, map or batch",
        ));
    }
    let fetches_pages = matches!(spec.kind(), SessionKind::Crawl | SessionKind::Batch);
    if spec.revisit.is_some() && !fetches_pages {
        return Err(Refusal::argument(
            "revisit",
            "only a crawl or a batch goes back to the pages of an earlier session",
        ));
    }
    let count = spec.seeds.len();
    if count == 0 {
        return Err(Refusal::argument(
            "seeds",
            "`seeds` is empty; name at least one URL",
        ));
    }
    if count > MAX_SEEDS {
        let why = format!("`seeds` has {count} URLs; at most {MAX_SEEDS} are taken");
        return Err(Refusal::argument("seeds", why));
    }
    if spec.kind() == SessionKind::Scrape && count != 1 {
        return Err(Refusal::argument(
            "seeds",
            "a scrape takes one URL; start a batch for several",
        ));
    }
    let mut urls = Vec::with_capacity(count);
    for (at, seed) in spec.seeds.iter().enumerate() {
        let field = format!("seeds[{at}]");
        urls.push(CrawlUrl::parse(seed).map_err(|error| Refusal::argument(&field, error))?);
    }
    if spec.fetch.as_ref().is_some_and(|fetch| fetch.ignore_robots) && !allow_ignore_robots {
        let why = "`ignore_robots` needs the operator's leave (allow_ignore_robots)";
        return Err(Refusal::argument("fetch.ignore_robots", why));
    }
    let scope = spec.scope.clone().unwrap_or_default();
    let scope =
        CompiledScope::compile(&scope, &urls).map_err(|error| Refusal::argument("scope", error))?;
    spec.seeds = urls.iter().map(ToString::to_string).collect();
    Ok((spec, scope))
}

/// A session that revisits one of the same owner begins where that began, unless it names its own seeds.
pub(super) fn with_earlier(
    mut spec: SessionSpec,
    catalog: &Catalog,
) -> Result<SessionSpec, Refusal> {
    const FIELD: &str = "revisit.session_id";
    let Some(revisit) = spec.revisit.as_mut() else {
        return Ok(spec);
    };
    let id: SessionId = revisit
        .session_id
        .parse()
        .map_err(|error| Refusal::argument(FIELD, error))?;
    let earlier = catalog.record(&id, &spec.owner)?;
    if !has_ended(&earlier) {
        let why = format!("session `{id}` has not ended; wait for it, or cancel it");
        return Err(Refusal::argument(FIELD, why));
    }
    revisit.session_id = id.to_string();
    if spec.seeds.is_empty() {
        spec.seeds = earlier.spec.unwrap_or_default().seeds;
    }
    Ok(spec)
}

pub(super) fn has_ended(status: &v1::SessionStatus) -> bool {
    status.state().is_terminal() && status.ended_at_millis > 0
}
