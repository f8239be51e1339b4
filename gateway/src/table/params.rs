//! How arguments are written down, and those that several tools share.

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
        hidden: false,
        default,
        about,
    }
}

pub(crate) const fn required(name: &'static str, kind: Kind, about: &'static str) -> Param {
    let mut param = param(name, kind, "", about);
    param.required = true;
    param
}

pub(crate) const fn aliased(mut param: Param, aliases: &'static [&'static str]) -> Param {
    param.aliases = aliases;
    param
}

/// An argument that a seed server knows; it is read and not shown.
pub(crate) const fn hidden(mut param: Param) -> Param {
    param.hidden = true;
    param
}

/// An argument that a seed server knows and that changes nothing here; anything but its default is warned of.
pub(crate) const fn ignored(
    name: &'static str,
    default: &'static str,
    about: &'static str,
) -> Param {
    hidden(param(name, Kind::Ignored, default, about))
}

/// An argument that a seed server knows and that cannot be served; anything but its default is refused.
pub(crate) const fn refused(
    name: &'static str,
    default: &'static str,
    about: &'static str,
) -> Param {
    hidden(param(name, Kind::Refused, default, about))
}

pub(crate) const fn flag(name: &'static str, default: &'static str, about: &'static str) -> Param {
    param(name, Kind::Flag, default, about)
}

pub(crate) const fn int(
    name: &'static str,
    bounds: [u64; 2],
    default: &'static str,
    about: &'static str,
) -> Param {
    let [min, max] = bounds;
    param(name, Kind::Int { min, max }, default, about)
}

/// An object whose fields may as well be given beside it.
pub(crate) const fn options(name: &'static str) -> Param {
    hidden(param(
        name,
        Kind::Options,
        "",
        "Fields of it count as arguments",
    ))
}

const PAGE_FORMATS: &[&str] = &[
    "markdown", "json", "html", "rawHtml", "text", "links", "metadata",
];

pub(super) const URL: Param = required("url", Kind::Url, "http(s) URL");
pub(super) const FORMATS: Param = aliased(
    param(
        "formats",
        Kind::Words(PAGE_FORMATS),
        "[\"markdown\"]",
        "What to return",
    ),
    &["format"],
);
pub(super) const MAIN: Param = flag(
    "only_main_content",
    "true",
    "Leave out navigation and footers",
);
pub(super) const ROBOTS: Param = aliased(
    flag(
        "respect_robots_txt",
        "true",
        "false needs the operator's leave",
    ),
    &["respect_robots"],
);
pub(super) const TOKENS: Param = int("max_tokens", [500, 25_000], "", "Size of the answer");
pub(super) const TIMEOUT: Param = aliased(
    int("timeout_ms", [1_000, 60_000], "30000", "Longest fetch"),
    &["timeout"],
);
pub(super) const WAIT: Param = param("wait", Kind::Wait, "true", "Seconds; false: none");
pub(super) const HEADERS: Param = param("headers", Kind::Headers, "", "For the URL's host only");
pub(super) const SESSION: Param = aliased(
    required("session_id", Kind::Session, "The session"),
    &["job_id"],
);
pub(super) const CURSOR: Param = param("cursor", Kind::Text, "", "next_cursor");
pub(super) const BROWSER: Param = flag("use_browser", "false", "Needs a browser worker");
pub(super) const CONCURRENCY: Param = aliased(
    int("concurrency", [1, 100], "", "Requests in flight"),
    &["max_concurrency"],
);
