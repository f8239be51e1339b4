//! The XML kinds: one pass over events, no tree, forgiving about names and nesting.

mod extension;
mod tag;

use std::io::BufRead;

use proto::CrawlUrl;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::{
    Alternate, Child, Entry, Extras, Kind, MAX_ADDRESS_BYTES, MAX_URLS, Sitemap, SitemapError,
    dates, resolved,
};
use extension::{Extension, Extra, Prefixes};
use tag::{attribute, split_name};

const FREQUENCIES: [&str; 7] = [
    "always", "hourly", "daily", "weekly", "monthly", "yearly", "never",
];

/// Longest text of an element that is kept; no address that is taken is longer.
const MAX_TEXT: usize = 64 * 1024;

/// Most pages in other languages that are kept of one page.
const MAX_ALTERNATES: usize = 500;

/// Reads a document that begins with `<`.
pub(super) fn read(text: impl BufRead, base: &CrawlUrl) -> Result<Sitemap, SitemapError> {
    let mut reader = Reader::from_reader(text);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    let mut walk = Walk::new(base);
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Start(tag)) => walk.open(&tag),
            Ok(Event::Empty(tag)) => {
                walk.open(&tag);
                walk.close();
            }
            Ok(Event::End(_)) => walk.close(),
            Ok(Event::Text(part)) => walk.push(&part),
            Ok(Event::CData(part)) => walk.push(&part),
            Ok(Event::GeneralRef(name)) => walk.push_reference(&name),
            Ok(Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_)) => {}
            Ok(Event::Eof) => return walk.finish(None),
            Err(error) => return walk.finish(Some(error.to_string())),
        }
        if walk.is_over() {
            return walk.finish(None);
        }
    }
}

/// What an open element means to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Root,
    /// `url`, `sitemap`, `item` or `entry`.
    Record,
    Field(Field),
    Other,
    /// An extension's element, and everything inside it.
    Foreign(Extension, Option<Extra>),
}

impl Element {
    /// Whether the text inside says something.
    const fn holds_text(self) -> bool {
        matches!(self, Self::Field(_) | Self::Foreign(_, Some(_)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Loc,
    Lastmod,
    Changefreq,
    Priority,
    /// A feed's address.
    Link,
    /// An address of RSS that may be a permanent link.
    Guid {
        is_link: bool,
    },
    /// A feed's date of change, and of first publication.
    Updated,
    Published,
}

/// A record as it is read.
#[derive(Default)]
struct Record {
    urls: Vec<CrawlUrl>,
    /// Bytes of these addresses.
    bytes: usize,
    guid: Option<CrawlUrl>,
    lastmod: Option<String>,
    published: Option<String>,
    changefreq: Option<&'static str>,
    priority: Option<f64>,
    alternates: Vec<Alternate>,
    extras: Extras,
    /// Records are nested, so that nobody can tell whose the date and the other fields are.
    is_muddled: bool,
}

struct Walk<'a> {
    base: &'a CrawlUrl,
    found: Option<Sitemap>,
    is_other: bool,
    open: Vec<Element>,
    record: Option<Record>,
    /// The text of the innermost field.
    text: String,
    is_root_closed: bool,
    is_full: bool,
    prefixes: Prefixes,
}

impl<'a> Walk<'a> {
    fn new(base: &'a CrawlUrl) -> Self {
        Self {
            base,
            found: None,
            is_other: false,
            open: Vec::new(),
            record: None,
            text: String::new(),
            is_root_closed: false,
            is_full: false,
            prefixes: Prefixes::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.is_other || self.is_full
    }

    fn kind(&self) -> Option<Kind> {
        self.found.as_ref().map(|sitemap| sitemap.kind)
    }

    fn open(&mut self, tag: &BytesStart<'_>) {
        let name = tag.name();
        let (prefix, local) = split_name(name.as_ref());
        let by_default = self.prefixes.learn(tag);
        let named = by_default.or_else(|| self.prefixes.of(&prefix));
        let element = match (self.kind(), self.open.last().copied(), named) {
            (None, _, _) => self.root(&local),
            (Some(_), Some(Element::Foreign(extension, _)), None)
            | (Some(_), _, Some(extension)) => Element::Foreign(extension, extension.extra(&local)),
            (Some(kind), _, None) => self.inner(kind, &local, tag),
        };
        if element.holds_text() {
            self.text.clear();
        }
        // Only the depth matters beyond any sane nesting.
        self.open.push(element);
    }

    fn root(&mut self, local: &str) -> Element {
        let kind = match local {
            "urlset" => Kind::Urlset,
            "sitemapindex" => Kind::Index,
            "rss" | "rdf" => Kind::Rss,
            "feed" => Kind::Atom,
            _ => {
                self.is_other = true;
                return Element::Other;
            }
        };
        self.found = Some(Sitemap::empty(kind));
        Element::Root
    }

    fn inner(&mut self, kind: Kind, local: &str, tag: &BytesStart<'_>) -> Element {
        let is_record = match kind {
            Kind::Urlset => local == "url",
            Kind::Index => local == "sitemap",
            Kind::Rss => local == "item",
            Kind::Atom => local == "entry",
            Kind::Text => false,
        };
        if is_record {
            // A `url` inside `loc` is an error of the writer, and the address is in it.
            if let Some(Element::Field(field)) = self.open.last().copied() {
                if let Some(record) = self.record.as_mut() {
                    record.is_muddled = true;
                }
                return Element::Field(field);
            }
            self.end_record();
            self.record = Some(Record::default());
            return Element::Record;
        }
        if self.record.is_none() {
            return Element::Other;
        }
        match (kind, local) {
            (Kind::Urlset | Kind::Index, "loc") => Element::Field(Field::Loc),
            (Kind::Urlset | Kind::Index, "lastmod") => Element::Field(Field::Lastmod),
            (Kind::Urlset, "changefreq") => Element::Field(Field::Changefreq),
            (Kind::Urlset, "priority") => Element::Field(Field::Priority),
            (Kind::Urlset, "link") => {
                self.alternate(tag);
                Element::Other
            }
            (Kind::Rss, "link") => self.feed_link(tag),
            (Kind::Rss, "guid") => Element::Field(Field::Guid {
                is_link: attribute(tag, "ispermalink")
                    .is_none_or(|value| !value.eq_ignore_ascii_case("false")),
            }),
            (Kind::Rss, "pubdate" | "date") => Element::Field(Field::Updated),
            (Kind::Atom, "link") => self.feed_link(tag),
            (Kind::Atom, "updated" | "modified") => Element::Field(Field::Updated),
            (Kind::Atom, "published" | "issued" | "created") => Element::Field(Field::Published),
            (Kind::Urlset | Kind::Index | Kind::Text | Kind::Rss | Kind::Atom, _) => Element::Other,
        }
    }

    /// `<link rel="alternate" hreflang="de" href="..."/>` inside a `url`.
    fn alternate(&mut self, tag: &BytesStart<'_>) {
        let rel = attribute(tag, "rel").unwrap_or_default();
        let (Some(hreflang), Some(href)) = (attribute(tag, "hreflang"), attribute(tag, "href"))
        else {
            return;
        };
        let url = resolved(&href, self.base);
        if let (Some(record), Some(url)) = (self.record.as_mut(), url)
            && rel.trim().eq_ignore_ascii_case("alternate")
            && record.alternates.len() < MAX_ALTERNATES
        {
            record.alternates.push(Alternate { hreflang, url });
        }
    }

    /// A link with an address in `href` (Atom, also inside RSS), or in its text (RSS).
    fn feed_link(&mut self, tag: &BytesStart<'_>) -> Element {
        let Some(href) = attribute(tag, "href") else {
            return Element::Field(Field::Link);
        };
        let rel = attribute(tag, "rel").unwrap_or_else(|| "alternate".to_owned());
        let url = resolved(&href, self.base);
        if let (Some(record), Some(url)) = (self.record.as_mut(), url)
            && rel.trim().eq_ignore_ascii_case("alternate")
            && record.urls.is_empty()
        {
            record.urls.push(url);
        }
        Element::Other
    }

    fn push(&mut self, part: &str) {
        let is_field = self.open.last().is_some_and(|element| element.holds_text());
        if is_field && self.text.len() + part.len() <= MAX_TEXT {
            self.text.push_str(part);
        } else if is_field {
            // Half an address is another address.
            self.text.clear();
            self.text.push_str("data:,too-long");
        }
    }

    fn push_reference(&mut self, name: &BytesRef<'_>) {
        let letter = match name.resolve_char_ref() {
            Ok(Some(letter)) => Some(letter),
            Ok(None) | Err(_) => None,
        };
        let mut buffer = [0; 4];
        let text = match letter {
            Some(letter) => &*letter.encode_utf8(&mut buffer),
            None => match name.as_ref() {
                "amp" => "&",
                "lt" => "<",
                "gt" => ">",
                "quot" => "\"",
                "apos" => "'",
                // A name that nobody declared: kept as it was written.
                other => {
                    let written = format!("&{other};");
                    self.push(&written);
                    return;
                }
            },
        };
        self.push(text);
    }

    fn close(&mut self) {
        let Some(element) = self.open.pop() else {
            return;
        };
        match element {
            Element::Field(field) => self.end_field(field),
            Element::Record => self.end_record(),
            Element::Root => self.is_root_closed = true,
            Element::Foreign(_, Some(extra)) => self.end_extra(extra),
            Element::Other | Element::Foreign(_, None) => {}
        }
    }

    fn end_extra(&mut self, extra: Extra) {
        let text = std::mem::take(&mut self.text);
        let value = text.trim_matches(super::is_blank);
        if let Some(record) = self.record.as_mut().filter(|_| !value.is_empty()) {
            extension::keep(&mut record.extras, extra, value, self.base);
        }
    }

    fn end_field(&mut self, field: Field) {
        let text = std::mem::take(&mut self.text);
        let value = text.trim_matches(super::is_blank);
        let Some(record) = self.record.as_mut().filter(|_| !value.is_empty()) else {
            return;
        };
        match field {
            Field::Loc => {
                let url = resolved(value, self.base);
                let has_room = |url: &CrawlUrl| {
                    record.bytes += url.as_str().len();
                    record.bytes <= MAX_ADDRESS_BYTES && record.urls.len() <= MAX_URLS
                };
                if let Some(url) = url.filter(has_room) {
                    record.urls.push(url);
                }
            }
            Field::Link => {
                if record.urls.is_empty() {
                    record.urls.extend(resolved(value, self.base));
                }
            }
            // Only an absolute address can be a permanent link.
            Field::Guid { is_link } => {
                if is_link && value.contains("://") && record.guid.is_none() {
                    record.guid = resolved(value, self.base);
                }
            }
            Field::Lastmod => {
                if record.lastmod.is_none() {
                    record.lastmod = Some(value.to_owned()).filter(|date| dates::is_valid(date));
                }
            }
            Field::Updated => record.lastmod = record.lastmod.take().or_else(|| feed_date(value)),
            Field::Published => {
                record.published = record.published.take().or_else(|| feed_date(value));
            }
            Field::Changefreq => {
                let lower = value.to_ascii_lowercase();
                record.changefreq = FREQUENCIES.into_iter().find(|word| **word == lower);
            }
            Field::Priority => {
                let number = value.parse::<f64>().ok();
                record.priority = number.filter(|number| (0.0..=1.0).contains(number));
            }
        }
    }

    fn end_record(&mut self) {
        let (Some(mut record), Some(sitemap)) = (self.record.take(), self.found.as_mut()) else {
            return;
        };
        if record.urls.is_empty() {
            record.urls.extend(record.guid);
        }
        if record.is_muddled {
            record = Record {
                urls: record.urls,
                ..Record::default()
            };
        }
        let lastmod = record.lastmod.take().or(record.published.take());
        for url in std::mem::take(&mut record.urls) {
            if !sitemap.makes_room(&url) {
                self.is_full = true;
                return;
            }
            let lastmod = lastmod.clone();
            if sitemap.kind == Kind::Index {
                sitemap.sitemaps.push(Child { url, lastmod });
            } else {
                if !sitemap.has_room_beside(&record.alternates, &record.extras) {
                    record.alternates.clear();
                    record.extras = Extras::default();
                }
                sitemap.urls.push(Entry {
                    url,
                    lastmod,
                    changefreq: record.changefreq,
                    priority: record.priority,
                    // A second address in the same record is an error; the first has the rest.
                    alternates: std::mem::take(&mut record.alternates),
                    extras: std::mem::take(&mut record.extras),
                });
            }
        }
    }

    /// A record that was never closed is left out: its address may be half of one.
    fn finish(self, error: Option<String>) -> Result<Sitemap, SitemapError> {
        let mut sitemap = self.found.ok_or(SitemapError::NotASitemap)?;
        if let Some(error) = error {
            sitemap.break_off(error);
        } else if !self.is_root_closed {
            sitemap.break_off("the document ends before its root element does");
        }
        Ok(sitemap)
    }
}

fn feed_date(text: &str) -> Option<String> {
    if dates::is_valid(text) {
        return Some(text.to_owned());
    }
    dates::rfc822_to_rfc3339(text)
}
