//! Prompts: ready-made orders that name this server's own tools and the parts of the report that is wanted.
//!
//! Their arguments come as strings from most clients and as JSON values from some; both are read, then checked
//! against the same kind of table as the arguments of tools.

mod texts;

use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, GetPromptResult, JsonObject, ListPromptsResult, Prompt, PromptArgument,
    PromptMessage, Role,
};
use serde_json::{Map, Value, json};

use crate::args::{Args, Kind, Param, find_param};
use crate::config::Config;
use crate::error::Invalid;
use crate::server::LIST_TTL_MILLIS;
use crate::table::params::{aliased, int, param, required};

/// One prompt.
pub(crate) struct PromptSpec {
    pub(crate) name: &'static str,
    title: &'static str,
    about: &'static str,
    params: &'static [Param],
    text: fn(&Args) -> String,
}

static COMPETITORS: [Param; 2] = [
    aliased(
        required(
            "competitors",
            Kind::Urls,
            "Their sites: a list, or URLs with commas between",
        ),
        &["competitor_urls", "urls"],
    ),
    param("our_url", Kind::Url, "", "Our own site, to compare with"),
];
static MONITOR: [Param; 3] = [
    required("url", Kind::Url, "The page to watch"),
    int(
        "interval",
        [60, 2_592_000],
        "3600",
        "Seconds between two looks",
    ),
    param("webhook", Kind::Url, "", "Where changes are to be reported"),
];
static INGEST: [Param; 3] = [
    aliased(
        required(
            "urls",
            Kind::Urls,
            "Sites or pages: a list, or URLs with commas between",
        ),
        &["url", "domain"],
    ),
    param(
        "output_format",
        Kind::Word(&["markdown", "text"]),
        "\"markdown\"",
        "What each document's body is written in",
    ),
    PAGES,
];
static AUDIT: [Param; 2] = [required("url", Kind::Url, "The site's start page"), PAGES];
static RESEARCH: [Param; 3] = [
    required("topic", Kind::Text, "The question"),
    param(
        "depth",
        Kind::Word(&["shallow", "medium", "deep"]),
        "\"medium\"",
        "How far to go",
    ),
    aliased(
        param(
            "urls",
            Kind::Urls,
            "",
            "Where to begin: a list, or URLs with commas between",
        ),
        &["seed_urls"],
    ),
];
const PAGES: Param = int("max_pages", [1, 100_000], "100", "Most pages to crawl");

static PROMPTS: [PromptSpec; 6] = [
    PromptSpec {
        name: "competitive-analysis",
        title: "Compare competitors",
        about: "Side-by-side scrape and comparison of competitors' sites",
        params: &COMPETITORS,
        text: texts::competitive_analysis,
    },
    PromptSpec {
        name: "getting-started",
        title: "Getting started",
        about: "What this server can do and which tool to begin with",
        params: &[],
        text: texts::getting_started,
    },
    PromptSpec {
        name: "monitor-changes",
        title: "Watch a page",
        about: "A change-tracking routine for one page",
        params: &MONITOR,
        text: texts::monitor_changes,
    },
    PromptSpec {
        name: "rag-ingest",
        title: "Collect documents for retrieval",
        about: "Crawl sites and emit clean, chunked content for retrieval",
        params: &INGEST,
        text: texts::rag_ingest,
    },
    PromptSpec {
        name: "research-deep-dive",
        title: "Research a question",
        about: "Research in stages, with citations",
        params: &RESEARCH,
        text: texts::research_deep_dive,
    },
    PromptSpec {
        name: "site-audit",
        title: "Audit a site",
        about: "Search, accessibility and content audit of a whole site",
        params: &AUDIT,
        text: texts::site_audit,
    },
];

pub(crate) fn list() -> ListPromptsResult {
    let prompts = PROMPTS.iter().map(|spec| {
        let arguments = spec.params.iter().map(|param| {
            PromptArgument::new(param.name)
                .with_description(told(param))
                .with_required(param.required)
        });
        let arguments: Vec<_> = arguments.collect();
        let arguments = (!arguments.is_empty()).then_some(arguments);
        Prompt::new(spec.name, Some(spec.about), arguments).with_title(spec.title)
    });
    ListPromptsResult::with_all_items(prompts.collect())
        .with_ttl_ms(LIST_TTL_MILLIS)
        .with_cache_scope(CacheScope::Public)
}

/// What a client shows beside the field: meaning, choices, bound, default.
fn told(param: &Param) -> String {
    let mut told = param.about.to_owned();
    match param.kind {
        Kind::Word(words) => told.push_str(&format!(": {}", words.join(", "))),
        Kind::Int { min, max } => told.push_str(&format!(", {min} to {max}")),
        _ => {}
    }
    if !param.default.is_empty() {
        told.push_str(&format!(" [default: {}]", param.default.trim_matches('"')));
    }
    told
}

/// The prompt of this name.
pub(crate) fn find(field: &str, name: &str) -> Result<&'static PromptSpec, Invalid> {
    PROMPTS
        .iter()
        .find(|spec| spec.name == name)
        .ok_or_else(|| {
            let bound = "is not a prompt of this server; prompts/list names them";
            Invalid::new(field, bound, &json!(name))
        })
}

impl PromptSpec {
    /// The argument of this name, in either spelling.
    pub(crate) fn param(&self, name: &str) -> Option<&'static Param> {
        find_param(self.params, name)
    }
}

pub(crate) fn get(
    name: &str,
    given: Option<JsonObject>,
    config: &Config,
) -> Result<GetPromptResult, ErrorData> {
    let spec = find("name", name)?;
    let mut typed = Map::new();
    for (name, value) in given.unwrap_or_default() {
        let value = match spec.param(&name) {
            Some(param) => from_text(param, value),
            None => value,
        };
        if !value.is_null() {
            typed.insert(name, value);
        }
    }
    let args = Args::parse(spec.params, &typed, config)?;
    let message = PromptMessage::new_text(Role::User, (spec.text)(&args));
    Ok(GetPromptResult::new(vec![message]).with_description(spec.about))
}

/// What a string stands for where the argument is no string; an empty one was left out by the client's form.
fn from_text(param: &Param, value: Value) -> Value {
    let Value::String(text) = &value else {
        return value;
    };
    let text = text.trim();
    if text.is_empty() {
        return Value::Null;
    }
    match param.kind {
        Kind::Urls | Kind::Texts | Kind::Words(_) => {
            if text.starts_with('[')
                && let Ok(list) = serde_json::from_str(text)
            {
                return list;
            }
            let items = text
                .split([',', '\n'])
                .map(str::trim)
                .filter(|item| !item.is_empty());
            items.map(|item| json!(item)).collect()
        }
        Kind::Int { .. } | Kind::Flag => serde_json::from_str(text).unwrap_or(value),
        Kind::Text
        | Kind::Url
        | Kind::Word(_)
        | Kind::Wait
        | Kind::Headers
        | Kind::Session
        | Kind::Selectors
        | Kind::Options
        | Kind::Ignored
        | Kind::Refused => {
            json!(text)
        }
    }
}
