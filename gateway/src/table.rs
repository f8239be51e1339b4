//! The table of tools: names, arguments, defaults, bounds, hints. Nothing else in the room repeats them.

mod crawl;
mod page;
pub(crate) mod params;
mod tools;

use std::sync::Arc;

use rmcp::model::{Icon, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::args::{Param, schema};
use crate::config::Config;

pub(crate) use tools::TOOLS;

/// Which code answers a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolId {
    Scrape,
    FetchUrl,
    Crawl,
    Map,
    BatchScrape,
    CrawlStatus,
    CrawlControl,
    CrawlResults,
    ReadResult,
    GetBatchResults,
    GetVersion,
    Download,
    ExtractText,
    ExtractLinks,
    ExtractMetadata,
    ExtractContent,
    ScrapeStructured,
    GenerateLlmsTxt,
}

/// What belongs together in `--tools`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Page,
    Crawl,
    Meta,
}

/// Groups by name.
pub(crate) const GROUPS: [(&str, Group); 3] = [
    ("page", Group::Page),
    ("crawl", Group::Crawl),
    ("meta", Group::Meta),
];

impl Group {
    /// A drawing of a few bytes, since a list repeats it for every tool.
    const fn icon(self) -> &'static str {
        match self {
            Self::Page => {
                "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%3E%3Cpath%20d='M1,0h6v8H1'/%3E%3C/svg%3E"
            }
            Self::Crawl => {
                "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%3E%3Cpath%20d='M4,0l4,4-4,4-4-4'/%3E%3C/svg%3E"
            }
            Self::Meta => {
                "data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%3E%3Cpath%20d='M3,3h2v5H3'/%3E%3C/svg%3E"
            }
        }
    }
}

/// One tool.
#[derive(Debug)]
pub(crate) struct ToolSpec {
    pub(crate) id: ToolId,
    pub(crate) name: &'static str,
    /// Names that answer though they are not listed.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) group: Group,
    /// Whether it is listed where the operator names no tools.
    pub(crate) listed: bool,
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) params: &'static [Param],
    /// read-only, destructive, idempotent, open world
    pub(crate) hints: [bool; 4],
    /// Names and JSON types of the structured answer.
    pub(crate) output: &'static [(&'static str, &'static str)],
}

/// Names of the protocol that this build does not serve.
pub(crate) const LATER: [&str; 12] = [
    "screenshot",
    "interact",
    "scrape_with_actions",
    "research",
    "deep_research",
    "search_web",
    "track_changes",
    "analyze_content",
    "summarize_content",
    "process_document",
    "search_crawl",
    "generate_citations",
];

/// The tool that answers to `name`.
pub(crate) fn find(name: &str) -> Option<&'static ToolSpec> {
    TOOLS
        .iter()
        .find(|tool| tool.name == name || tool.aliases.contains(&name))
}

/// Whether the protocol knows `name` though this build does not serve it.
pub(crate) fn is_later(name: &str) -> bool {
    LATER.contains(&name)
}

/// How a tool is listed.
pub(crate) fn describe(spec: &ToolSpec, config: &Config) -> Tool {
    let [read_only, destructive, idempotent, open_world] = spec.hints;
    let mut properties = Map::new();
    for (name, kind) in spec.output {
        properties.insert((*name).to_owned(), json!({ "type": kind }));
    }
    let mut output = Map::new();
    output.insert("type".into(), json!("object"));
    output.insert("properties".into(), Value::Object(properties));
    Tool::new(spec.name, spec.about, Arc::new(schema(spec.params, config)))
        .with_title(spec.title)
        .with_icons(vec![Icon::new(spec.group.icon())])
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(ToolAnnotations::from_raw(
            None,
            Some(read_only),
            Some(destructive),
            Some(idempotent),
            Some(open_world),
        ))
}
