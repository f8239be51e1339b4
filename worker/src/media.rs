//! What kind of content an answer is, in the spirit of the MIME Sniffing standard.
//!
//! The declared type is believed where it says something; bytes decide where it is missing, unknown, or says
//! "plain text" of what is none. `nosniff` keeps the declared type.

/// The kind of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `text/html` and `application/xhtml+xml`.
    Html,
    /// Any other XML: sitemaps, feeds, documents.
    Xml,
    /// Text that is none of the others.
    Text,
    /// JSON and its relatives.
    Json,
    /// A PDF document.
    Pdf,
    /// An image.
    Image,
    /// Sound or film.
    Media,
    /// An archive or a compressed file.
    Archive,
    /// Anything else.
    Binary,
}

/// How many of the first bytes decide (MIME Sniffing, 5.2).
pub const SNIFFED: usize = 1445;

/// A kind and the type it was taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// The kind.
    pub kind: Kind,
    /// `type/subtype` in lower case, without parameters.
    pub essence: String,
}

impl Kind {
    /// Whether links and text are looked for.
    pub const fn is_page(self) -> bool {
        matches!(self, Self::Html)
    }

    /// Whether it can be shown as text.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Html | Self::Xml | Self::Text | Self::Json)
    }

    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Html => "html",
            Self::Xml => "xml",
            Self::Text => "text",
            Self::Json => "json",
            Self::Pdf => "pdf",
            Self::Image => "image",
            Self::Media => "media",
            Self::Archive => "archive",
            Self::Binary => "binary",
        }
    }

    fn of_essence(essence: &str) -> Self {
        let (group, subtype) = essence.split_once('/').unwrap_or((essence, ""));
        match (group, subtype) {
            ("text", "html") | ("application", "xhtml+xml") => Self::Html,
            ("application", "pdf" | "x-pdf") => Self::Pdf,
            ("image", "svg+xml") | ("image", _) => Self::Image,
            (_, "xml") => Self::Xml,
            (_, other) if other.ends_with("+xml") => Self::Xml,
            (_, "json" | "x-json" | "ld+json" | "x-ndjson") => Self::Json,
            (_, other) if other.ends_with("+json") => Self::Json,
            ("text", _)
            | (
                "application",
                "javascript" | "ecmascript" | "x-javascript" | "yaml" | "x-yaml" | "toml" | "x-sh"
                | "sql",
            ) => Self::Text,
            ("audio" | "video", _) => Self::Media,
            (
                "application",
                "zip" | "gzip" | "x-gzip" | "x-tar" | "x-bzip2" | "x-xz" | "x-7z-compressed"
                | "zstd" | "vnd.rar" | "x-rar-compressed",
            ) => Self::Archive,
            _ => Self::Binary,
        }
    }
}

/// What an answer is: its kind and the type it was taken for. `body_start` is its first 1,500 bytes or so.
pub fn examine(content_type: Option<&str>, body_start: &[u8], nosniff: bool) -> Media {
    let declared = content_type.and_then(essence);
    let essence = match declared {
        Some(declared) if nosniff => declared,
        Some(declared) if is_unknown(&declared) => sniffed(body_start).to_owned(),
        // Servers send this for whatever they do not know (MIME Sniffing, 7.2).
        Some(declared) if declared == "text/plain" && looks_binary(body_start) => {
            let found = magic(body_start).unwrap_or("application/octet-stream");
            found.to_owned()
        }
        Some(declared) if declared == "application/octet-stream" => {
            magic(body_start).unwrap_or(&declared).to_owned()
        }
        Some(declared) if declared == "text/html" => {
            // A document called HTML that begins like a PDF or an image is none.
            let found =
                magic(body_start).filter(|_| looks_binary(body_start) || is_pdf(body_start));
            found.map_or(declared, str::to_owned)
        }
        Some(declared) => declared,
        None if nosniff => "application/octet-stream".to_owned(),
        None => sniffed(body_start).to_owned(),
    };
    Media {
        kind: Kind::of_essence(&essence),
        essence,
    }
}

/// The kind of an answer; see [`examine`].
pub fn sniff(content_type: Option<&str>, body_start: &[u8], nosniff: bool) -> Kind {
    examine(content_type, body_start, nosniff).kind
}

fn is_unknown(essence: &str) -> bool {
    matches!(
        essence,
        "unknown/unknown" | "application/unknown" | "*/*" | "application/x-unknown-content-type"
    )
}

/// `type/subtype` in lower case; `None` where the header is none.
fn essence(content_type: &str) -> Option<String> {
    // Several values joined by a comma: the last that is valid counts (Fetch, 2.2).
    let mut values = content_type.rsplit(',');
    values.find_map(|value| {
        let text = value.split(';').next().unwrap_or_default().trim();
        let (group, subtype) = text.split_once('/')?;
        let is_token = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        };
        (is_token(group) && is_token(subtype)).then(|| text.to_ascii_lowercase())
    })
}

fn sniffed(body: &[u8]) -> &'static str {
    let start = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let start = start.trim_ascii_start();
    if looks_like_html(start) {
        "text/html"
    } else if start.starts_with(b"<?xml") {
        "text/xml"
    } else if let Some(found) = magic(body) {
        found
    } else if looks_binary(body) {
        "application/octet-stream"
    } else {
        "text/plain"
    }
}

fn looks_like_html(start: &[u8]) -> bool {
    const TAGS: [&[u8]; 18] = [
        b"<!doctype html",
        b"<html",
        b"<head",
        b"<script",
        b"<iframe",
        b"<h1",
        b"<div",
        b"<font",
        b"<table",
        b"<a",
        b"<style",
        b"<title",
        b"<b",
        b"<body",
        b"<br",
        b"<p",
        b"<meta",
        b"<link",
    ];
    let follows = |tag: &[u8]| {
        let (Some(head), next) = (start.get(..tag.len()), start.get(tag.len())) else {
            return false;
        };
        head.eq_ignore_ascii_case(tag)
            && next.is_some_and(|next| next.is_ascii_whitespace() || *next == b'>')
    };
    start.starts_with(b"<!--") || TAGS.iter().any(|tag| follows(tag))
}

fn is_pdf(body: &[u8]) -> bool {
    body.starts_with(b"%PDF-")
}

/// Types that are known by their first bytes.
fn magic(body: &[u8]) -> Option<&'static str> {
    const SIGNATURES: [(&[u8], &str); 19] = [
        (b"%PDF-", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"BM", "image/bmp"),
        (b"\0\0\x01\0", "image/x-icon"),
        (b"\x1f\x8b\x08", "application/gzip"),
        (b"PK\x03\x04", "application/zip"),
        (b"Rar!\x1a\x07", "application/vnd.rar"),
        (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
        (b"\x28\xb5\x2f\xfd", "application/zstd"),
        (b"OggS\0", "application/ogg"),
        (b"ID3", "audio/mpeg"),
        (b"\x1aE\xdf\xa3", "video/webm"),
        (b"wOFF", "font/woff"),
        (b"wOF2", "font/woff2"),
        (b"\x7fELF", "application/x-executable"),
        (b"\0asm", "application/wasm"),
    ];
    if body.starts_with(b"RIFF") {
        return match body.get(8..12) {
            Some(b"WEBP") => Some("image/webp"),
            Some(b"WAVE") => Some("audio/wave"),
            Some(b"AVI ") => Some("video/avi"),
            Some(_) | None => None,
        };
    }
    if body.get(4..8) == Some(b"ftyp") {
        return Some("video/mp4");
    }
    // Two letters are too few to tell a bitmap from a word.
    let found = SIGNATURES.iter().find(|(start, _)| body.starts_with(start));
    found
        .filter(|(start, _)| start.len() > 2 || looks_binary(body))
        .map(|(_, essence)| *essence)
}

/// Whether there is an octet that no text has (MIME Sniffing, 7.2), and no byte order mark that says it is text.
pub(crate) fn looks_binary(body: &[u8]) -> bool {
    let marks: [&[u8]; 3] = [b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf"];
    let is_marked = marks.iter().any(|mark| body.starts_with(mark));
    let head = &body[..body.len().min(SNIFFED)];
    !is_marked
        && head
            .iter()
            .any(|byte| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f))
}

#[cfg(test)]
mod tests {
    use super::{Kind, examine, sniff};

    #[test]
    fn the_declared_type_is_believed_where_it_says_something() {
        for (declared, body, kind) in [
            (Some("text/html; charset=x"), &b"anything"[..], Kind::Html),
            (Some("TEXT/HTML"), b"", Kind::Html),
            (Some("application/xhtml+xml"), b"<html>", Kind::Html),
            (Some("application/rss+xml"), b"<rss>", Kind::Xml),
            (Some("application/ld+json"), b"{}", Kind::Json),
            (Some("text/plain"), b"<html>", Kind::Text),
            (Some("text/plain"), b"\x89PNG\r\n\x1a\n\0", Kind::Image),
            (Some("text/plain"), b"\xef\xbb\xbfa\0b", Kind::Text),
            (Some("text/plain"), b"\xff\xfea\0", Kind::Text),
            (Some("text/html"), b"%PDF-1.7", Kind::Pdf),
            (Some("text/css, text/html"), b"x", Kind::Html),
            (Some("nonsense"), b" \n<!DOCTYPE html>", Kind::Html),
            (None, b"<?xml version='1.0'?>", Kind::Xml),
            (None, b"hello", Kind::Text),
            (None, b"\x00\x01\x02", Kind::Binary),
            (Some("application/octet-stream"), b"%PDF-1", Kind::Pdf),
            (Some("application/octet-stream"), b"<html>", Kind::Binary),
        ] {
            assert_eq!(sniff(declared, body, false), kind, "{declared:?}");
        }
    }

    #[test]
    fn nosniff_keeps_the_declared_type() {
        let media = examine(Some("Text/Plain; x=y"), b"\x89PNG\r\n\x1a\n\0", true);
        assert_eq!(
            (media.kind, media.essence.as_str()),
            (Kind::Text, "text/plain")
        );
        assert_eq!(sniff(None, b"<html>", true), Kind::Binary);
    }
}
