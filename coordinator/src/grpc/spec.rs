//! Checks a session's spec at the door; what passes holds everywhere behind it.

use proto::v1::{self, SessionKind, SessionSpec, WalkOrder};
use proto::{CompiledScope, CrawlUrl, Refusal, SessionId};

use crate::catalog::Catalog;
use crate::order::check_weights;

const MAX_SEEDS: usize = 100_000;
const MAX_QUERY: usize = 1_000;

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
    check_strategy(&spec)?;
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

fn check_strategy(spec: &SessionSpec) -> Result<(), Refusal> {
    let Some(strategy) = &spec.strategy else {
        return Ok(());
    };
    let fault = |field: &str, why: String| Err(Refusal::argument(field, why));
    if spec.kind() != SessionKind::Crawl {
        let why = "only a crawl has a `strategy`";
        return fault("strategy", why.to_owned());
    }
    if WalkOrder::try_from(strategy.order).is_err() {
        let why = "`order` must be breadth, depth, best or strict";
        return fault("strategy.order", why.to_owned());
    }
    let is_best = strategy.order() == WalkOrder::Best;
    if !strategy.query.is_empty() && !is_best {
        let why = "a `query` is for the order `best`; choose that, or leave the query out";
        return fault("strategy.query", why.to_owned());
    }
    let length = strategy.query.chars().count();
    if length > MAX_QUERY {
        let why = format!("`query` has {length} characters; at most {MAX_QUERY} are taken");
        return fault("strategy.query", why);
    }
    match &strategy.weights {
        None => Ok(()),
        Some(_) if !is_best => {
            let why = "`weights` are for the order `best`; choose that, or leave them out";
            fault("strategy.weights", why.to_owned())
        }
        Some(weights) => {
            check_weights(weights).map_err(|why| Refusal::argument("strategy.weights", why))
        }
    }
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
