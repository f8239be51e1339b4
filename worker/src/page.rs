//! What a page says: links, title, robots directives, and the parts that are derived from its tree.
//!
//! One pass over tokens gives the links and what stands in the head. A tree is built from the same tokens when a
//! derived part is wanted, and given up for a page nested deeper than browsers go or that grows beyond all measure in it.
//! Such a page gives links and flat text. Nothing here outlives the call but owned text.

mod addresses;
mod attributes;
mod directives;
mod facts;
mod flat;
mod growth;
mod main_content;
mod markdown;
mod scan;
mod select;
mod srcset;
mod tree;

use std::borrow::Cow;
use std::collections::HashMap;

use dom_query::Document;
use encoding_rs::{EncoderResult, Encoding, UTF_8};
use proto::CrawlUrl;

use crate::charset;
use addresses::Addresses;
use scan::Scan;

pub use select::select;

/// Most links that are taken from one page.
pub const MAX_LINKS: usize = 10_000;

/// Most bytes of addresses in them: relative ones may be far shorter than what they become.
const MAX_LINK_BYTES: usize = 8 * 1024 * 1024;

/// What is to be read.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The body, decoded from its content coding.
    pub body: &'a [u8],
    /// The Content-Type header.
    pub content_type: Option<&'a str>,
    /// Values of the X-Robots-Tag header, one a line.
    pub x_robots_tag: &'a [String],
    /// Values of the Link header, one a line.
    pub link_headers: &'a [String],
    /// Where the page was found, after redirects.
    pub url: &'a CrawlUrl,
    /// Our product token, for directives that name us.
    pub agent: &'a str,
    /// Which parts are wanted.
    pub want: Want,
}

/// Which parts of a page are wanted, next to what the head says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// Its links.
    pub links: bool,
    /// Its content as Markdown.
    pub markdown: bool,
    /// Its content as plain text.
    pub text: bool,
    /// Its content as cleaned HTML.
    pub html: bool,
    /// What it says about itself, as JSON.
    pub facts: bool,
    /// Navigation, footers, hidden parts and the like are left out of Markdown, text and HTML.
    pub only_main_content: bool,
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Lower-case name of the encoding that the body was read in.
    pub charset: String,
    /// The title, blanks collapsed.
    pub title: Option<String>,
    /// The description of its meta element.
    pub description: Option<String>,
    /// The language of its root element.
    pub language: Option<String>,
    /// The address it wants to be known by.
    pub canonical: Option<CrawlUrl>,
    /// It asks not to be kept.
    pub noindex: bool,
    /// It asks that its links are not followed.
    pub nofollow: bool,
    /// Its links, in order, each address once per place it comes from.
    pub links: Vec<Link>,
    /// Its content as Markdown.
    pub markdown: Option<String>,
    /// Its content as plain text.
    pub text: Option<String>,
    /// Its content as cleaned HTML.
    pub html: Option<String>,
    /// What it says about itself, as JSON.
    pub facts: Option<String>,
}

/// A link of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it leads.
    pub url: CrawlUrl,
    /// What kind of element it comes from.
    pub from: From,
    /// Whether every such link asks not to be followed.
    pub nofollow: bool,
    /// Its text, cut to 200 bytes.
    pub anchor: String,
}

/// What kind of element a link comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum From {
    /// `a`, also in SVG.
    Anchor,
    /// `area` of an image map.
    Area,
    /// `iframe`.
    Iframe,
    /// `frame`.
    Frame,
    /// A meta refresh.
    Refresh,
    /// `link rel=next`.
    Next,
    /// `link rel=prev`.
    Prev,
    /// `link rel=alternate`.
    Alternate,
}

impl From {
    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Anchor => "a",
            Self::Area => "area",
            Self::Iframe => "iframe",
            Self::Frame => "frame",
            Self::Refresh => "refresh",
            Self::Next => "next",
            Self::Prev => "prev",
            Self::Alternate => "alternate",
        }
    }
}

/// Reads a page.
pub fn read(input: Input<'_>) -> Page {
    let (text, encoding) = charset::decode(input.body, input.content_type);
    let text = attributes::bounded(&text);
    let want = input.want;
    let (scan, document) = if want.markdown || want.text || want.html || want.facts {
        growth::read(&text, input.agent)
    } else {
        (scan::run(&text, input.agent), None)
    };
    let base = input.url.with_base_href(scan.base_href.as_deref());
    let robots = directives::of_headers(input.x_robots_tag, input.agent).and(scan.robots);
    let mut page = Page {
        charset: encoding.name().to_ascii_lowercase(),
        canonical: canonical(&scan, &base, &input),
        noindex: robots.noindex,
        nofollow: robots.nofollow,
        links: Vec::new(),
        markdown: None,
        text: None,
        html: None,
        facts: None,
        title: scan.title.as_deref().map(collapsed),
        description: scan.description.as_deref().map(collapsed),
        language: scan.language.clone(),
    };
    if input.want.links {
        page.links = resolved_links(&scan, &base, encoding);
    }
    match document {
        Some(document) => derive(&mut page, &document, &base, text.len(), want),
        None => derive_flat(&mut page, &text, want),
    }
    page
}

/// The parts of a page without a tree.
fn derive_flat(page: &mut Page, text: &str, want: Want) {
    if !(want.markdown || want.text || want.facts) {
        return;
    }
    let flat = flat::text(text);
    if want.facts {
        page.facts = Some(facts::of_page(page, &flat));
    }
    page.markdown = want.markdown.then(|| markdown::escaped_lines(&flat));
    page.text = want.text.then_some(flat);
}

fn derive(page: &mut Page, document: &Document, base: &CrawlUrl, length: usize, want: Want) {
    let addresses = || Addresses::new(base, length);
    if want.facts {
        page.facts = Some(facts::of_tree(page, document, &addresses()));
    }
    if !(want.markdown || want.text || want.html) {
        return;
    }
    if want.only_main_content {
        main_content::reduce(document);
    }
    if want.markdown {
        page.markdown = Some(markdown::of_tree(document, &addresses()));
    }
    if want.text {
        page.text = Some(tree::text(document));
    }
    if want.html {
        page.html = Some(tree::cleaned_html(document, &addresses()));
    }
}

fn canonical(scan: &Scan, base: &CrawlUrl, input: &Input<'_>) -> Option<CrawlUrl> {
    let mut hrefs = scan.canonicals.iter();
    let in_head = hrefs.find_map(|href| base.join(href).ok());
    in_head.or_else(|| {
        let targets = directives::link_targets(input.link_headers, "canonical");
        targets
            .into_iter()
            .find_map(|href| input.url.join(href).ok())
    })
}

fn resolved_links(scan: &Scan, base: &CrawlUrl, encoding: &'static Encoding) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::with_capacity(scan.links.len());
    let mut known: HashMap<(u128, From), usize> = HashMap::with_capacity(scan.links.len());
    let mut bytes = 0;
    // Queries are written in the page's encoding; UTF-16 counts as UTF-8 there (URL standard, 4.4).
    let encoding = encoding.output_encoding();
    for raw in &scan.links {
        let url = if encoding == UTF_8 {
            base.join(&raw.href)
        } else {
            let encode = for_any_text(|text| Cow::Owned(encode_query(text, encoding)));
            base.join_encoded(&raw.href, Some(&encode))
        };
        let Ok(url) = url else {
            continue;
        };
        match known.entry((url.fingerprint(), raw.from)) {
            std::collections::hash_map::Entry::Occupied(entry) => {
                if let Some(link) = links.get_mut(*entry.get()) {
                    link.nofollow &= raw.nofollow;
                    if link.anchor.is_empty() {
                        link.anchor = collapsed(&raw.anchor);
                    }
                }
            }
            std::collections::hash_map::Entry::Vacant(entry) => {
                bytes += url.as_str().len();
                if bytes > MAX_LINK_BYTES {
                    break;
                }
                entry.insert(links.len());
                links.push(Link {
                    url,
                    from: raw.from,
                    nofollow: raw.nofollow,
                    anchor: collapsed(&raw.anchor),
                });
            }
        }
    }
    links
}

/// Tells the compiler that an answer may borrow from whatever text is shown.
fn for_any_text<F: Fn(&str) -> Cow<'_, [u8]>>(encode: F) -> F {
    encode
}

/// Bytes of a query in the page's encoding; what it does not have becomes an escaped character reference.
pub fn encode_query(text: &str, encoding: &'static Encoding) -> Vec<u8> {
    let mut encoder = encoding.new_encoder();
    let mut out = Vec::with_capacity(text.len() * 2 + 16);
    let mut rest = text;
    loop {
        out.reserve(rest.len() * 4 + 16);
        let (result, read) =
            encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut out, true);
        rest = &rest[read..];
        match result {
            EncoderResult::InputEmpty => return out,
            EncoderResult::OutputFull => {}
            EncoderResult::Unmappable(letter) => {
                let reference = format!("%26%23{}%3B", u32::from(letter));
                out.extend_from_slice(reference.as_bytes());
            }
        }
    }
}

/// Adds what of `text` fits into `most` bytes.
fn push_within(out: &mut String, text: &str, most: usize) {
    let mut end = most.saturating_sub(out.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.push_str(&text[..end]);
}

/// The text with every run of blanks as one, and none at its ends.
pub(crate) fn collapsed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_ascii_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests;
