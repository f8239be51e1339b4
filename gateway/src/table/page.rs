//! The arguments of the tools that read single pages.

use super::params::{
    BROWSER, CONCURRENCY, FORMATS, HEADERS, MAIN, ROBOTS, TIMEOUT, TOKENS, URL, WAIT, aliased,
    flag, hidden, ignored, int, options, param, refused, required,
};
use crate::args::{Kind, Param};

pub(super) static SCRAPE: [Param; 11] = [
    URL,
    FORMATS,
    MAIN,
    TIMEOUT,
    HEADERS,
    hidden(ROBOTS),
    BROWSER,
    TOKENS,
    refused("branding_options", "", "the format branding is not served"),
    refused(
        "screenshot_options",
        "",
        "the format screenshot is not served",
    ),
    ignored("max_inline_chars", "", "max_tokens bounds an answer"),
];
pub(super) static FETCH: [Param; 4] = [
    URL,
    HEADERS,
    aliased(
        int("timeout", [1_000, 30_000], "10000", "Milliseconds"),
        &["timeout_ms"],
    ),
    TOKENS,
];
pub(super) static BATCH: [Param; 15] = [
    required("urls", Kind::Urls, "Pages, answered in this order"),
    FORMATS,
    hidden(MAIN),
    CONCURRENCY,
    hidden(ROBOTS),
    WAIT,
    TOKENS,
    hidden(param(
        "mode",
        Kind::Word(&["sync", "async"]),
        "\"sync\"",
        "async: wait false",
    )),
    hidden(int(
        "delay_between_requests",
        [0, 10_000],
        "",
        "Milliseconds between two requests to one host",
    )),
    refused(
        "webhook",
        "",
        "nothing is posted; subscribe to the job's resource, or ask crawl_status with wait",
    ),
    refused(
        "extraction_schema",
        "",
        "extraction by schema is not served",
    ),
    ignored("include_metadata", "true", "ask for it with formats"),
    ignored(
        "include_failed",
        "true",
        "every URL has a result, also one that failed",
    ),
    ignored("page_size", "25", "get_batch_results reads page by page"),
    ignored(
        "job_options",
        "",
        "the operator decides how long results stay and how often is tried",
    ),
];
pub(super) static BATCH_RESULTS: [Param; 4] = [
    aliased(
        required("session_id", Kind::Session, "The batch"),
        &["job_id", "batch_id"],
    ),
    int("page", [1, 100_000], "1", "Which page, from 1 on"),
    int("page_size", [1, 1_000], "50", "Results a page"),
    TOKENS,
];
pub(super) static DOWNLOAD: [Param; 5] = [
    URL,
    int(
        "max_size",
        [1, 1_073_741_824],
        "52428800",
        "Most bytes; the operator's cap holds too",
    ),
    hidden(TIMEOUT),
    hidden(HEADERS),
    hidden(ROBOTS),
];
pub(super) static TEXT: [Param; 9] = [
    URL,
    param(
        "output_format",
        Kind::Word(&["text", "markdown"]),
        "\"text\"",
        "What to return",
    ),
    flag(
        "only_main_content",
        "false",
        "Leave out navigation and footers",
    ),
    TIMEOUT,
    HEADERS,
    ROBOTS,
    TOKENS,
    ignored(
        "remove_scripts",
        "true",
        "scripts are never part of the text",
    ),
    ignored("remove_styles", "true", "styles are never part of the text"),
];
pub(super) static LINKS: [Param; 7] = [
    URL,
    flag(
        "filter_external",
        "false",
        "Leave out links to other domains",
    ),
    TIMEOUT,
    HEADERS,
    ROBOTS,
    TOKENS,
    ignored("base_url", "", "links are resolved against the page itself"),
];
pub(super) static METADATA: [Param; 5] = [URL, TIMEOUT, HEADERS, ROBOTS, TOKENS];
pub(super) static CONTENT: [Param; 22] = [
    URL,
    param(
        "output_format",
        Kind::Word(&["markdown", "text", "structured"]),
        "\"markdown\"",
        "structured: with headings and metadata",
    ),
    aliased(
        flag(
            "only_main_content",
            "true",
            "Leave out navigation and footers",
        ),
        &["use_readability"],
    ),
    flag(
        "extract_metadata",
        "true",
        "With what the page says of itself",
    ),
    flag("include_raw_html", "false", "With the HTML as it came"),
    flag("include_cleaned_html", "false", "With the cleaned HTML"),
    int(
        "min_content_length",
        [0, 1_000_000],
        "100",
        "Less text is reported as thin",
    ),
    TIMEOUT,
    HEADERS,
    ROBOTS,
    TOKENS,
    options("options"),
    refused("requires_javascript", "false", "needs a browser worker"),
    refused("wait_for_selector", "", "needs a browser worker"),
    ignored(
        "wait_for_timeout",
        "5000",
        "nothing is waited for without a browser",
    ),
    hidden(flag("extract_structured_data", "true", "With JSON-LD")),
    ignored(
        "calculate_readability_score",
        "true",
        "no score is computed; word_count is told",
    ),
    ignored(
        "assess_content_quality",
        "true",
        "no score is computed; word_count is told",
    ),
    ignored("preserve_image_info", "true", "images stay in Markdown"),
    ignored(
        "remove_ads",
        "true",
        "only_main_content leaves out what surrounds the content",
    ),
    ignored(
        "preserve_structure",
        "true",
        "Markdown keeps headings, lists and tables",
    ),
    ignored("include_images", "true", "images stay in Markdown"),
];
pub(super) static STRUCTURED: [Param; 7] = [
    URL,
    required(
        "selectors",
        Kind::Selectors,
        "Name to CSS selector; selector@attribute takes an attribute",
    ),
    int(
        "max_results",
        [1, 10_000],
        "1000",
        "Most values of each name",
    ),
    TIMEOUT,
    HEADERS,
    ROBOTS,
    TOKENS,
];
