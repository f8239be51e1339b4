//! The table of tools: names, arguments, defaults, bounds, hints. Nothing else in the room repeats them.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::args::{Kind, Param, schema};
use crate::config::Config;

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
    GetVersion,
}

/// One tool.
#[derive(Debug)]
pub(crate) struct ToolSpec {
    pub(crate) id: ToolId,
    pub(crate) name: &'static str,
    /// Names that answer though they are not listed.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) params: &'static [Param],
    /// read-only, destructive, idempotent, open world
    pub(crate) hints: [bool; 4],
    /// Names and JSON types of the structured answer.
    pub(crate) output: &'static [(&'static str, &'static str)],
}

const fn param(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Param {
    Param {
        name,
        aliases: &[],
        kind,
        required: false,
        default,
        about,
    }
}

const fn required(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param {
        name,
        aliases: &[],
        kind,
        required: true,
        default: "",
        about,
    }
}

const fn aliased(mut param: Param, aliases: &'static [&'static str]) -> Param {
    param.aliases = aliases;
    param
}

const PAGE_FORMATS: &[&str] = &[
    "markdown", "json", "html", "rawHtml", "text", "links", "metadata",
];
const PARTS: &[&str] = &["markdown", "text", "html", "body", "facts"];
const FORMATS: Param = aliased(
    param(
        "formats",
        Kind::Words(PAGE_FORMATS),
        "[\"markdown\"]",
        "What to return",
    ),
    &["format"],
);
const MAIN: Param = param(
    "only_main_content",
    Kind::Flag,
    "true",
    "Leave out navigation and footers",
);
const ROBOTS: Param = param(
    "respect_robots_txt",
    Kind::Flag,
    "true",
    "false needs the operator's leave",
);
const TOKENS: Param = param(
    "max_tokens",
    Kind::Int {
        min: 500,
        max: 25_000,
    },
    "",
    "Most tokens of this answer",
);
const TIMEOUT: Param = aliased(
    param(
        "timeout_ms",
        Kind::Int {
            min: 1_000,
            max: 60_000,
        },
        "30000",
        "Longest fetch",
    ),
    &["timeout"],
);
const WAIT: Param = param(
    "wait",
    Kind::Wait,
    "true",
    "false: start and return; or seconds",
);
const HEADERS: Param = param("headers", Kind::Headers, "", "Sent to the URL's host only");
const SESSION: Param = aliased(
    required("session_id", Kind::Session, "The session"),
    &["job_id"],
);
const CURSOR: Param = param("cursor", Kind::Text, "", "next_cursor of the answer before");
const BROWSER: Param = param("use_browser", Kind::Flag, "false", "Needs a browser worker");

static SCRAPE: [Param; 8] = [
    required("url", Kind::Url, "http(s) URL"),
    FORMATS,
    MAIN,
    TIMEOUT,
    HEADERS,
    ROBOTS,
    BROWSER,
    TOKENS,
];
static FETCH: [Param; 4] = [
    required("url", Kind::Url, "http(s) URL"),
    HEADERS,
    aliased(
        param(
            "timeout",
            Kind::Int {
                min: 1_000,
                max: 30_000,
            },
            "10000",
            "Milliseconds",
        ),
        &["timeout_ms"],
    ),
    TOKENS,
];
static CRAWL: [Param; 17] = [
    param("url", Kind::Url, "", "Where to start"),
    param("urls", Kind::Urls, "", "Several starts, in place of url"),
    aliased(
        param(
            "max_depth",
            Kind::Int { min: 0, max: 100 },
            "3",
            "Furthest link distance",
        ),
        &["depth"],
    ),
    aliased(
        param(
            "max_pages",
            Kind::Int {
                min: 1,
                max: 100_000,
            },
            "100",
            "Most pages delivered",
        ),
        &["limit"],
    ),
    param(
        "format",
        Kind::Word(&["markdown", "json", "links"]),
        "\"markdown\"",
        "What to return",
    ),
    aliased(
        param(
            "stay_on_domain",
            Kind::Flag,
            "true",
            "Keep to the start's domain",
        ),
        &[],
    ),
    param(
        "allow_subdomains",
        Kind::Flag,
        "true",
        "false: keep to the start's host",
    ),
    param(
        "scope",
        Kind::Word(&["domain", "host", "prefix", "any"]),
        "",
        "In place of the two above",
    ),
    aliased(
        param(
            "include",
            Kind::Texts,
            "",
            "Regular expressions; a URL must match one",
        ),
        &["include_patterns", "include_paths"],
    ),
    aliased(
        param(
            "exclude",
            Kind::Texts,
            "",
            "Regular expressions of URLs to leave out",
        ),
        &["exclude_patterns", "exclude_paths"],
    ),
    param(
        "sitemap",
        Kind::Word(&["skip", "include", "only"]),
        "\"skip\"",
        "Use of sitemaps",
    ),
    param(
        "concurrency",
        Kind::Int { min: 1, max: 100 },
        "",
        "Requests in flight",
    ),
    MAIN,
    HEADERS,
    ROBOTS,
    WAIT,
    TOKENS,
];
static MAP: [Param; 7] = [
    required("url", Kind::Url, "Site to map"),
    param(
        "limit",
        Kind::Int {
            min: 1,
            max: 100_000,
        },
        "",
        "Most URLs",
    ),
    param("search", Kind::Text, "", "Case-insensitive substring"),
    aliased(
        param(
            "allow_subdomains",
            Kind::Flag,
            "true",
            "false: the host only",
        ),
        &["include_subdomains"],
    ),
    ROBOTS,
    WAIT,
    TOKENS,
];
static BATCH: [Param; 7] = [
    required("urls", Kind::Urls, "Pages, answered in this order"),
    FORMATS,
    MAIN,
    aliased(
        param(
            "concurrency",
            Kind::Int { min: 1, max: 100 },
            "",
            "Requests in flight",
        ),
        &["max_concurrency"],
    ),
    ROBOTS,
    WAIT,
    TOKENS,
];
static STATUS: [Param; 2] = [
    aliased(
        param("session_id", Kind::Session, "", "None: your sessions"),
        &["job_id"],
    ),
    aliased(
        param("wait", Kind::Wait, "false", "Seconds to wait for the end"),
        &["wait_s"],
    ),
];
static CONTROL: [Param; 2] = [
    required(
        "action",
        Kind::Word(&["pause", "resume", "cancel", "list"]),
        "What to do",
    ),
    aliased(
        param("session_id", Kind::Session, "", "All but list need it"),
        &["job_id"],
    ),
];
static RESULTS: [Param; 4] = [
    SESSION,
    CURSOR,
    param(
        "limit",
        Kind::Int { min: 1, max: 1_000 },
        "100",
        "Most entries",
    ),
    TOKENS,
];
static READ: [Param; 6] = [
    SESSION,
    required("url", Kind::Url, "A page of the session"),
    aliased(
        param("part", Kind::Word(PARTS), "\"markdown\"", "Which part"),
        &["format"],
    ),
    param(
        "offset",
        Kind::Int {
            min: 0,
            max: 1_000_000_000,
        },
        "0",
        "Byte to start at",
    ),
    aliased(
        param("find", Kind::Text, "", "Text to find, case-insensitive"),
        &["search"],
    ),
    TOKENS,
];

const PAGES_OUT: &[(&str, &str)] = &[
    ("session_id", "string"),
    ("state", "string"),
    ("pages", "array"),
    ("next_cursor", "string"),
];

/// Every tool, sorted by name.
pub(crate) static TOOLS: [ToolSpec; 10] = [
    ToolSpec {
        id: ToolId::BatchScrape,
        name: "batch_scrape",
        aliases: &["batch_crawl"],
        title: "Scrape many pages",
        about: "Fetch up to 1,000 URLs; one result each, in order, failures inline.",
        params: &BATCH,
        hints: [true, false, false, true],
        output: &[
            ("session_id", "string"),
            ("state", "string"),
            ("results", "array"),
        ],
    },
    ToolSpec {
        id: ToolId::Crawl,
        name: "crawl",
        aliases: &["crawl_deep"],
        title: "Crawl a site",
        about: "Follow links from a start page. Waits a while, then answers with the pages there are and how to go on.",
        params: &CRAWL,
        hints: [true, false, false, true],
        output: PAGES_OUT,
    },
    ToolSpec {
        id: ToolId::CrawlControl,
        name: "crawl_control",
        aliases: &[],
        title: "Steer a session",
        about: "Pause, resume or cancel a session, or list yours.",
        params: &CONTROL,
        hints: [false, true, true, false],
        output: &[
            ("session_id", "string"),
            ("state", "string"),
            ("sessions", "array"),
        ],
    },
    ToolSpec {
        id: ToolId::CrawlResults,
        name: "crawl_results",
        aliases: &[],
        title: "Pages of a session",
        about: "Read the pages (of a map: the URLs) of a session, a budgeted slice at a time.",
        params: &RESULTS,
        hints: [true, false, true, false],
        output: &[
            ("session_id", "string"),
            ("state", "string"),
            ("next_cursor", "string"),
        ],
    },
    ToolSpec {
        id: ToolId::CrawlStatus,
        name: "crawl_status",
        aliases: &[],
        title: "Status of a session",
        about: "How a session stands; without an id, your sessions.",
        params: &STATUS,
        hints: [true, false, true, false],
        output: &[
            ("session_id", "string"),
            ("state", "string"),
            ("sessions", "array"),
        ],
    },
    ToolSpec {
        id: ToolId::FetchUrl,
        name: "fetch_url",
        aliases: &[],
        title: "Fetch a URL",
        about: "The body verbatim, with status and headers.",
        params: &FETCH,
        hints: [true, false, true, true],
        output: &[
            ("url", "string"),
            ("status", "integer"),
            ("headers", "object"),
            ("contentType", "string"),
            ("size", "integer"),
            ("body", "string"),
        ],
    },
    ToolSpec {
        id: ToolId::GetVersion,
        name: "get_version",
        aliases: &[],
        title: "Version",
        about: "The version of this server and its cluster.",
        params: &[],
        hints: [true, false, true, false],
        output: &[("version", "string")],
    },
    ToolSpec {
        id: ToolId::Map,
        name: "map",
        aliases: &["map_site"],
        title: "Map a site",
        about: "URLs of a site from sitemaps and links, with lastmod, changefreq and priority.",
        params: &MAP,
        hints: [true, false, true, true],
        output: &[
            ("session_id", "string"),
            ("state", "string"),
            ("urls", "array"),
            ("next_cursor", "string"),
        ],
    },
    ToolSpec {
        id: ToolId::ReadResult,
        name: "read_result",
        aliases: &[],
        title: "Read or search a page",
        about: "A slice of one stored page, or the places where a text occurs in it.",
        params: &READ,
        hints: [true, false, true, false],
        output: &[
            ("url", "string"),
            ("content", "string"),
            ("matches", "array"),
            ("next_offset", "integer"),
        ],
    },
    ToolSpec {
        id: ToolId::Scrape,
        name: "scrape",
        aliases: &[],
        title: "Scrape a page",
        about: "One page as Markdown, JSON, HTML, text, links or metadata.",
        params: &SCRAPE,
        hints: [true, false, true, true],
        output: &[
            ("url", "string"),
            ("status", "integer"),
            ("title", "string"),
            ("markdown", "string"),
        ],
    },
];

/// Names of the protocol that this build does not serve.
const LATER: [&str; 20] = [
    "screenshot",
    "interact",
    "scrape_with_actions",
    "research",
    "deep_research",
    "search_web",
    "track_changes",
    "analyze_content",
    "summarize_content",
    "download",
    "extract_text",
    "extract_links",
    "extract_metadata",
    "extract_content",
    "scrape_structured",
    "process_document",
    "search_crawl",
    "generate_llms_txt",
    "get_batch_results",
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
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(ToolAnnotations::from_raw(
            None,
            Some(read_only),
            Some(destructive),
            Some(idempotent),
            Some(open_world),
        ))
}
