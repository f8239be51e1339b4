//! crawl: start, wait a while, answer with what is there and how to go on.

use proto::v1::scope::Reach;
use proto::v1::{Budget, Revisit, Scope, SessionKind, SitemapUse, Strategy, UrlRules, WalkOrder};
use serde_json::{Value, json};

use super::{Call, Waited, results, spec};
use crate::answer::Answer;
use crate::error::{Fault, Invalid};
use crate::pages;
use crate::reading::Reading;

pub(super) async fn crawl(call: &Call<'_>) -> Result<Answer, Fault> {
    let seeds = seeds(call)?;
    let mut spec = spec::base(call, SessionKind::Crawl, seeds)?;
    spec.scope = Some(scope(call)?);
    spec.budget = Some(Budget {
        max_pages: Some(call.args.int("max_pages").unwrap_or(100)),
        max_depth: Some(
            call.args
                .int("max_depth")
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(3),
        ),
        max_pages_per_domain: call.args.int("max_pages_per_domain").unwrap_or(0),
        ..Default::default()
    });
    spec.strategy = Some(strategy(call)?);
    spec.sitemap = match call.args.text("sitemap") {
        Some("include") => SitemapUse::Include.into(),
        Some("only") => SitemapUse::Only.into(),
        _ => SitemapUse::Skip.into(),
    };
    let rules = call.args.texts("url_rules");
    let has = |word: &str| rules.iter().any(|rule| rule == word);
    spec.url_rules = Some(UrlRules {
        strip_tracking: has("strip_tracking"),
        strip_session: has("strip_session"),
        sort_query: has("sort_query"),
        allow_traps: has("allow_traps"),
        max_length: 0,
    });
    spec.revisit = revisit(call)?;
    let format = call.args.text("format").unwrap_or("markdown").to_owned();
    spec.format = Reading::of(&call.args, vec![format.clone()]).written();
    let begun = call.start(spec).await?;
    let status = match call.wait(begun).await? {
        Waited::Status(status) => status,
        Waited::Task(answer) => return Ok(answer),
    };
    if call.args.wait(call.shared.config.max_wait).is_zero() {
        return Ok(started(&status));
    }
    let told = results::pages_of(call, &status, &format, "", None).await?;
    Ok(told.charged(status.pages))
}

fn started(status: &proto::v1::SessionStatus) -> Answer {
    let id = &status.session_id;
    let next = format!("crawl_status with session_id {id} and wait, then crawl_results");
    let mut structured = pages::status(status);
    structured["next_step"] = json!(next);
    // A crawl's `pages` are always a list; how many there are is `delivered`.
    structured["delivered"] = json!(status.pages);
    structured["pages"] = json!([]);
    let text = format!("Started {id}. Next: {next}.\n{structured}");
    Answer::new(text, structured)
        .of_session(id)
        .link(format!("crawlforge://job/{id}"), "job", None)
}

fn seeds(call: &Call<'_>) -> Result<Vec<String>, Invalid> {
    let many = call.args.texts("urls");
    match (call.args.text("url"), many.is_empty()) {
        (Some(url), true) => Ok(vec![url.to_owned()]),
        (None, false) => Ok(many),
        (Some(url), false) => Err(Invalid::new(
            "url",
            "contradicts `urls`; give one of the two",
            &json!(url),
        )),
        (None, true) if call.args.has("revisit") => Ok(Vec::new()),
        (None, true) => Err(Invalid::new("url", "is required", &Value::Null)),
    }
}

fn strategy(call: &Call<'_>) -> Result<Strategy, Invalid> {
    let order = match call.args.text("order") {
        Some("depth") => WalkOrder::Depth,
        Some("best") => WalkOrder::Best,
        Some("strict") => WalkOrder::Strict,
        _ => WalkOrder::Breadth,
    };
    let query = call.args.text("query").unwrap_or_default().to_owned();
    if !query.is_empty() && order != WalkOrder::Best {
        let bound = "needs the order `best`";
        return Err(Invalid::new("query", bound, &json!(query)));
    }
    Ok(Strategy {
        order: order.into(),
        query,
        weights: None,
        host_fair: call.args.flag("host_fair", false),
    })
}

fn revisit(call: &Call<'_>) -> Result<Option<Revisit>, Invalid> {
    let only_due = call.args.flag("only_due", false);
    match call.args.text("revisit") {
        Some(id) => Ok(Some(Revisit {
            session_id: id.to_owned(),
            only_due,
        })),
        None if only_due => Err(Invalid::new(
            "only_due",
            "needs `revisit`, the session to go back to",
            &json!(true),
        )),
        None => Ok(None),
    }
}

fn scope(call: &Call<'_>) -> Result<Scope, Invalid> {
    let args = &call.args;
    let named = args.text("scope");
    if let Some(word) = named {
        for other in ["stay_on_domain", "allow_subdomains"] {
            if args.has(other) {
                let bound = format!("contradicts `{other}`; give one of the two");
                return Err(Invalid::new("scope", bound, &json!(word)));
            }
        }
    }
    let leaves = args.flag("follow_external", false);
    if leaves && (named.is_some() || args.has("stay_on_domain")) {
        let bound = "contradicts `scope` or `stay_on_domain`; give one of them";
        return Err(Invalid::new("follow_external", bound, &json!(true)));
    }
    let stays = args.flag("stay_on_domain", !leaves);
    let subdomains = args.flag("allow_subdomains", true);
    if !stays && !subdomains {
        let bound = "false contradicts stay_on_domain: false";
        return Err(Invalid::new("allow_subdomains", bound, &json!(false)));
    }
    let reach = match (named, stays, subdomains) {
        (Some("host"), ..) | (None, true, false) => Reach::Host,
        (Some("prefix"), ..) => Reach::Prefix,
        (Some("any"), ..) | (None, false, _) => Reach::Any,
        _ => Reach::Domain,
    };
    for (field, patterns) in [
        ("include", args.texts("include")),
        ("exclude", args.texts("exclude")),
    ] {
        for pattern in patterns {
            if let Err(error) = regex::Regex::new(&pattern) {
                let bound = format!("must hold regular expressions ({error})");
                return Err(Invalid::new(field, bound, &json!(pattern)));
            }
        }
    }
    Ok(Scope {
        reach: reach.into(),
        include: args.texts("include"),
        exclude: args.texts("exclude"),
    })
}
