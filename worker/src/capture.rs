//! From an answer to a page with its parts and links. Pure; run on the threads that read pages.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};
use proto::v1::{self, PartKind};
use proto::{Code, CrawlUrl, Digest, Timestamp};

use crate::charset;
use crate::fetcher::Answer;
use crate::fetcher::file_name::file_name;
use crate::media::Kind;
use crate::page;

/// Header fields kept of an answer, and their bytes in all.
const MAX_HEADERS: usize = 64;
const MAX_HEADER_BYTES: usize = 8 * 1024;

/// What a ticket asks of its page.
#[derive(Clone, Debug)]
pub struct Order {
    /// The parts to keep.
    pub keep: Vec<PartKind>,
    /// Derived parts leave out navigation, banners and footers.
    pub only_main_content: bool,
    /// Links are wanted, and directives for crawlers hold.
    pub want_links: bool,
    /// Links that ask not to be followed are reported all the same.
    pub ignore_nofollow: bool,
    /// Our product token.
    pub agent: String,
    /// What to take from the page by selector, and how many values of each at most.
    pub selectors: Vec<v1::Selector>,
    /// Most values of one selector; 0 for the usual bound.
    pub max_selected: usize,
}

/// A page and the bodies that its parts name.
#[derive(Debug)]
pub struct Capture {
    /// What is reported.
    pub captured: v1::Captured,
    /// What is to be put into the body store first.
    pub bodies: Vec<(Digest, Bytes)>,
}

/// Reads a successful answer; refuses a page that asks not to be kept.
pub fn capture(
    url: &CrawlUrl,
    answer: &Answer,
    order: &Order,
    fetched_at: Timestamp,
) -> Result<Capture, v1::Refused> {
    let content_type = text(&answer.headers, &header::CONTENT_TYPE);
    let digest = Digest::of(&answer.body);
    let mut page = v1::Page {
        url: url.as_str().to_owned(),
        final_url: url.as_str().to_owned(),
        status: u32::from(answer.status.as_u16()),
        fetched_at_millis: fetched_at.as_millis(),
        elapsed_millis: u64::try_from(answer.elapsed.as_millis()).unwrap_or(u64::MAX),
        content_type: content_type.clone(),
        digest: Bytes::copy_from_slice(digest.as_bytes()),
        size: answer.body.len() as u64,
        truncated: answer.is_skipped,
        etag: text(&answer.headers, &header::ETAG),
        last_modified: text(&answer.headers, &header::LAST_MODIFIED),
        headers: kept_headers(&answer.headers),
        kind: answer.kind.word().to_owned(),
        file_name: file_name(&answer.headers).unwrap_or_default(),
        ..v1::Page::default()
    };
    let mut parts = Parts {
        order,
        bodies: Vec::new(),
        rows: Vec::new(),
    };
    parts.add(PartKind::Body, answer.body.clone());
    let mut captured = v1::Captured::default();
    if answer.kind.is_page() {
        let read = read_page(url, answer, order, &content_type);
        let is_crawl = order.want_links;
        if read.noindex && is_crawl {
            return Err(v1::Refused {
                code: Code::Noindex.word().to_owned(),
                detail: "the page asks not to be indexed".to_owned(),
                status: page.status,
            });
        }
        page.noindex = read.noindex;
        captured.nofollow = read.nofollow && !order.ignore_nofollow;
        describe(&mut page, &read);
        captured.canonical = page.canonical.clone();
        if !captured.nofollow {
            captured.links = links_of(&read, order.ignore_nofollow);
        }
        parts.add_text(PartKind::Markdown, read.markdown);
        parts.add_text(PartKind::Text, read.text);
        parts.add_text(PartKind::Html, read.html);
        parts.add_text(PartKind::Facts, read.facts);
        parts.add_text(PartKind::Selected, selected(url, answer, order));
    } else if answer.kind.is_text() && !answer.body.is_empty() {
        let (decoded, encoding) = charset::decode(&answer.body, Some(&content_type));
        page.charset = encoding.name().to_ascii_lowercase();
        let decoded = decoded.into_owned();
        parts.add_text(PartKind::Text, Some(decoded.clone()));
        parts.add_text(PartKind::Markdown, Some(as_markdown(decoded, answer.kind)));
    }
    page.parts = parts.rows;
    captured.content_digest = Bytes::copy_from_slice(&digest.as_bytes()[..16]);
    captured.page = Some(page);
    Ok(Capture {
        captured,
        bodies: parts.bodies,
    })
}

fn read_page(url: &CrawlUrl, answer: &Answer, order: &Order, content_type: &str) -> page::Page {
    let wants = |kind| order.keep.contains(&kind);
    let lines = |name: &str| -> Vec<String> {
        let values = answer.headers.get_all(name).iter();
        values
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .collect()
    };
    page::read(page::Input {
        body: &answer.body,
        content_type: Some(content_type).filter(|text| !text.is_empty()),
        x_robots_tag: &lines("x-robots-tag"),
        link_headers: &lines("link"),
        url,
        agent: &order.agent,
        want: page::Want {
            links: order.want_links || wants(PartKind::Facts),
            markdown: wants(PartKind::Markdown),
            text: wants(PartKind::Text),
            html: wants(PartKind::Html),
            facts: wants(PartKind::Facts),
            only_main_content: order.only_main_content,
        },
    })
}

fn selected(url: &CrawlUrl, answer: &Answer, order: &Order) -> Option<String> {
    if order.selectors.is_empty() {
        return None;
    }
    let content_type = text(&answer.headers, &header::CONTENT_TYPE);
    let content_type = Some(content_type.as_str()).filter(|text| !text.is_empty());
    let (wanted, most) = (&order.selectors, order.max_selected);
    Some(page::select(&answer.body, content_type, url, wanted, most))
}

fn describe(page: &mut v1::Page, read: &page::Page) {
    page.charset.clone_from(&read.charset);
    page.title = read.title.clone().unwrap_or_default();
    page.description = read.description.clone().unwrap_or_default();
    page.language = read.language.clone().unwrap_or_default();
    page.canonical = read
        .canonical
        .as_ref()
        .map(|url| url.as_str().to_owned())
        .unwrap_or_default();
    page.link_count = u32::try_from(read.links.len()).unwrap_or(u32::MAX);
}

fn links_of(read: &page::Page, ignore_nofollow: bool) -> Vec<v1::Link> {
    read.links
        .iter()
        .filter(|link| !link.nofollow || ignore_nofollow)
        .map(|link| v1::Link {
            url: link.url.as_str().to_owned(),
            nofollow: link.nofollow,
            anchor: link.anchor.clone(),
        })
        .collect()
}

/// Plain text reads as it is; structured text is fenced, so that a reader sees it as it came.
fn as_markdown(text: String, kind: Kind) -> String {
    let language = match kind {
        Kind::Json => "json",
        Kind::Xml => "xml",
        _ => return text,
    };
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

struct Parts<'a> {
    order: &'a Order,
    bodies: Vec<(Digest, Bytes)>,
    rows: Vec<v1::Part>,
}

impl Parts<'_> {
    fn add_text(&mut self, kind: PartKind, text: Option<String>) {
        if let Some(text) = text {
            self.add(kind, Bytes::from(text));
        }
    }

    fn add(&mut self, kind: PartKind, body: Bytes) {
        if !self.order.keep.contains(&kind) {
            return;
        }
        let digest = Digest::of(&body);
        self.rows.push(v1::Part {
            kind: kind.into(),
            digest: Bytes::copy_from_slice(digest.as_bytes()),
            size: body.len() as u64,
            content: Bytes::new(),
        });
        self.bodies.push((digest, body));
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// Header fields without those of the connection and those that identify somebody.
fn kept_headers(headers: &HeaderMap) -> Vec<v1::Header> {
    const LEFT_OUT: [HeaderName; 7] = [
        header::SET_COOKIE,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::TRAILER,
        header::UPGRADE,
        header::AUTHORIZATION,
        header::WWW_AUTHENTICATE,
    ];
    let mut kept = Vec::new();
    let mut bytes = 0;
    for (name, value) in headers {
        let Ok(value) = value.to_str() else { continue };
        if LEFT_OUT.contains(name) || name.as_str() == "keep-alive" {
            continue;
        }
        bytes += name.as_str().len() + value.len();
        if kept.len() >= MAX_HEADERS || bytes > MAX_HEADER_BYTES {
            break;
        }
        kept.push(v1::Header {
            name: name.as_str().to_owned(),
            value: value.to_owned(),
        });
    }
    kept
}
