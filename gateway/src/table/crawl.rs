//! The arguments of the tools that work on sites and read what is stored.

use super::params::{
    CONCURRENCY, CURSOR, HEADERS, MAIN, ROBOTS, SESSION, TOKENS, WAIT, aliased, flag, hidden,
    ignored, int, options, param, refused, required,
};
use crate::args::{Kind, Param};

const URL_RULES: &[&str] = &[
    "strip_tracking",
    "strip_session",
    "sort_query",
    "allow_traps",
];
const ORDERS: &[&str] = &["breadth", "depth", "best", "strict"];
const PARTS: &[&str] = &["markdown", "text", "html", "body", "facts", "selected"];

pub(super) static CRAWL: [Param; 32] = [
    param("url", Kind::Url, "", "The start"),
    param("urls", Kind::Urls, "", "In place of url"),
    aliased(
        int("max_depth", [0, 100], "3", "Most links away"),
        &["depth"],
    ),
    aliased(
        int("max_pages", [1, 100_000], "100", "Most pages delivered"),
        &["limit"],
    ),
    param(
        "format",
        Kind::Word(&["markdown", "json", "links"]),
        "\"markdown\"",
        "What to return",
    ),
    flag("stay_on_domain", "true", "Keep to the start's domain"),
    flag("allow_subdomains", "true", "false: the host only"),
    param(
        "scope",
        Kind::Word(&["domain", "host", "prefix", "any"]),
        "",
        "In place of these two",
    ),
    aliased(
        param("include", Kind::Texts, "", "Patterns to keep to"),
        &["include_patterns", "include_paths"],
    ),
    aliased(
        param("exclude", Kind::Texts, "", "Patterns to leave out"),
        &["exclude_patterns", "exclude_paths"],
    ),
    param(
        "sitemap",
        Kind::Word(&["skip", "include", "only"]),
        "\"skip\"",
        "Sitemaps",
    ),
    aliased(
        param("revisit", Kind::Session, "", "Deliver changes since"),
        &["revisit_session"],
    ),
    hidden(flag(
        "only_due",
        "false",
        "Ask only for pages that are likely to have changed",
    )),
    hidden(aliased(
        param(
            "order",
            Kind::Word(ORDERS),
            "\"breadth\"",
            "Which URLs go out first",
        ),
        &["strategy", "crawl_strategy"],
    )),
    hidden(param(
        "query",
        Kind::Text,
        "",
        "What the best pages are about; for the order best",
    )),
    hidden(flag("host_fair", "false", "One URL of each host in turn")),
    // A refusal of the code `domain_limit` names it.
    hidden(int(
        "max_pages_per_domain",
        [1, 100_000],
        "",
        "Most pages delivered of one domain",
    )),
    // A refusal of the code `trap` names it.
    hidden(param(
        "url_rules",
        Kind::Words(URL_RULES),
        "",
        "What to do with links' URLs; endless ones are refused",
    )),
    hidden(CONCURRENCY),
    hidden(MAIN),
    hidden(HEADERS),
    ROBOTS,
    WAIT,
    TOKENS,
    hidden(flag("follow_external", "false", "true: scope any")),
    ignored(
        "extract_content",
        "true",
        "format says what is told of a page",
    ),
    ignored(
        "content_max_length",
        "500",
        "pages are told whole; max_tokens bounds the answer",
    ),
    ignored("enable_link_analysis", "true", "links are not ranked"),
    ignored("link_analysis_options", "", "links are not ranked"),
    refused(
        "domain_filter",
        "",
        "say it with scope, include and exclude",
    ),
    refused(
        "import_filter_config",
        "",
        "say it with scope, include and exclude",
    ),
    refused(
        "session",
        "",
        "cookies and logins are not kept; headers are sent to the start's host",
    ),
];
pub(super) static MAP: [Param; 12] = [
    required("url", Kind::Url, "Site to map"),
    aliased(int("limit", [1, 100_000], "", "Most URLs"), &["max_urls"]),
    param("search", Kind::Text, "", "Case-insensitive substring"),
    aliased(
        flag("allow_subdomains", "true", "false: the host only"),
        &["include_subdomains"],
    ),
    ROBOTS,
    WAIT,
    TOKENS,
    hidden(flag("include_sitemap", "true", "false: links only")),
    ignored("group_by_path", "true", "URLs are told as a list"),
    ignored(
        "include_metadata",
        "false",
        "what sitemaps know is told anyway",
    ),
    refused(
        "domain_filter",
        "",
        "say it with search, or crawl with include and exclude",
    ),
    refused(
        "import_filter_config",
        "",
        "say it with search, or crawl with include and exclude",
    ),
];
pub(super) static STATUS: [Param; 2] = [
    aliased(
        param("session_id", Kind::Session, "", "None: your sessions"),
        &["job_id"],
    ),
    aliased(
        param("wait", Kind::Wait, "false", "Seconds to wait"),
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
    int("limit", [1, 1_000], "100", "Most entries"),
    TOKENS,
];
pub(super) static READ: [Param; 8] = [
    SESSION,
    param(
        "url",
        Kind::Url,
        "",
        "A page of the session; none: its start",
    ),
    aliased(
        param("part", Kind::Word(PARTS), "\"markdown\"", "Which part"),
        &["format"],
    ),
    int("offset", [0, 1_000_000_000], "0", "Byte to start at"),
    aliased(
        param("find", Kind::Text, "", "Text to find, case-insensitive"),
        &["search"],
    ),
    flag("regex", "false", "find is a pattern"),
    param("path", Kind::Text, "", "JSON path into the part"),
    TOKENS,
];
pub(super) static LLMS: [Param; 15] = [
    param("url", Kind::Url, "", "The site's start page"),
    aliased(
        param(
            "session_id",
            Kind::Session,
            "",
            "A crawl that is there, in place of url",
        ),
        &["job_id"],
    ),
    param(
        "format",
        Kind::Word(&["both", "llms-txt", "llms-full-txt"]),
        "\"both\"",
        "Which of the two files",
    ),
    int("max_depth", [0, 100], "3", "Furthest link distance"),
    int("max_pages", [1, 100_000], "100", "Most pages read"),
    ROBOTS,
    WAIT,
    TOKENS,
    options("analysis_options"),
    ignored("detect_apis", "true", "pages are listed by their path"),
    ignored(
        "analyze_content",
        "true",
        "titles and descriptions are the pages' own",
    ),
    ignored("check_security", "true", "it has no place in these files"),
    ignored("probe_rate_limit", "false", "hosts are never probed"),
    ignored("output_options", "", "the files have one form"),
    ignored(
        "compliance_level",
        "\"standard\"",
        "the files have one form",
    ),
];
