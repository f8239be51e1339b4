//! The arguments of each tool: names, bounds, defaults.

use crate::args::{Kind, Param};

pub(crate) const fn param(
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

pub(crate) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param {
        name,
        aliases: &[],
        kind,
        required: true,
        default: "",
        about,
    }
}

pub(crate) const fn aliased(mut param: Param, aliases: &'static [&'static str]) -> Param {
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
    "Most tokens of the text, and of structuredContent",
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

pub(super) static SCRAPE: [Param; 8] = [
    required("url", Kind::Url, "http(s) URL"),
    FORMATS,
    MAIN,
    TIMEOUT,
    HEADERS,
    ROBOTS,
    BROWSER,
    TOKENS,
];
pub(super) static FETCH: [Param; 4] = [
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
pub(super) static CRAWL: [Param; 17] = [
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
pub(super) static MAP: [Param; 7] = [
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
pub(super) static BATCH: [Param; 7] = [
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
pub(super) static STATUS: [Param; 2] = [
    aliased(
        param("session_id", Kind::Session, "", "None: your sessions"),
        &["job_id"],
    ),
    aliased(
        param("wait", Kind::Wait, "false", "Seconds to wait for the end"),
        &["wait_s"],
    ),
];
pub(super) static CONTROL: [Param; 2] = [
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
pub(super) static RESULTS: [Param; 4] = [
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
pub(super) static READ: [Param; 7] = [
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
    param("regex", Kind::Flag, "false", "find is a regular expression"),
    TOKENS,
];
pub(super) static BATCH_RESULTS: [Param; 4] = [
    aliased(
        required("session_id", Kind::Session, "The batch"),
        &["job_id", "batch_id"],
    ),
    param(
        "page",
        Kind::Int {
            min: 1,
            max: 100_000,
        },
        "1",
        "Which page, from 1 on",
    ),
    param(
        "page_size",
        Kind::Int { min: 1, max: 1_000 },
        "50",
        "Results a page",
    ),
    TOKENS,
];
