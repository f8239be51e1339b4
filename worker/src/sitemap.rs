//! Sitemaps, sitemap indexes, text lists and feeds: which addresses a document names.
//!
//! The content decides what a document is, not its type or name. It is unpacked, decoded and read piece by piece: what
//! is held is what was found, 50,000 addresses at most of 50 MiB after decompression at most. A document that breaks
//! off gives what came before and says so; one that declares entities is refused whole.

mod dates;
mod entities;
mod gunzip;
mod text;
mod xml;

use proto::{Code, CrawlUrl};

use gunzip::Unpacked;
use text::Text;

pub use dates::{is_valid as is_valid_date, rfc822_to_rfc3339};

/// Most bytes of a document after decompression (sitemaps.org).
pub const MAX_BYTES: usize = 50 * 1024 * 1024;

/// Most addresses that are taken from one document (sitemaps.org).
pub const MAX_URLS: usize = 50_000;

/// Most bytes of the addresses in all, so that one message carries them; relative ones may be far shorter than what
/// they become.
const MAX_ADDRESS_BYTES: usize = 24 * 1024 * 1024;

/// Longest line of a text list, in bytes; no address that is taken is longer.
const MAX_LINE: usize = 64 * 1024;

/// Most indexes that may stand above a document; the protocol allows one, and real sites nest a little more.
pub const MAX_NESTING: usize = 10;

/// What a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A list of pages.
    Urlset,
    /// A list of sitemaps.
    Index,
    /// One address a line.
    Text,
    /// RSS, any version.
    Rss,
    /// Atom, any version.
    Atom,
}

impl Kind {
    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Urlset => "urlset",
            Self::Index => "index",
            Self::Text => "text",
            Self::Rss => "rss",
            Self::Atom => "atom",
        }
    }
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Sitemap {
    /// What the document is.
    pub kind: Kind,
    /// The pages it names, in order.
    pub urls: Vec<Entry>,
    /// The sitemaps it names, in order.
    pub sitemaps: Vec<Child>,
    /// Whether the document was read to its proper end.
    pub is_complete: bool,
    /// What is wrong with it, for people.
    pub warning: Option<String>,
    /// Bytes of all its addresses.
    bytes: usize,
    /// Bytes of what stands beside them.
    beside: usize,
}

/// A page that a sitemap names.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its address.
    pub url: CrawlUrl,
    /// When it changed last: a W3C date as written, or RFC 3339 for a feed's date.
    pub lastmod: Option<String>,
    /// One of the seven words of the protocol.
    pub changefreq: Option<&'static str>,
    /// From 0 to 1.
    pub priority: Option<f64>,
    /// The same page in other languages.
    pub alternates: Vec<Alternate>,
    /// What the image, video and news extensions say of it.
    pub extras: Extras,
}

/// What the image, video and news extensions say of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// Its images, canonical addresses in order.
    pub images: Vec<String>,
    /// Its videos: the files or their players.
    pub videos: Vec<String>,
    /// The article that it is.
    pub news: Option<News>,
}

/// An article, as the news extension has it; what is missing is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Its title.
    pub title: String,
    /// The name of the publication.
    pub publication: String,
    /// Its language.
    pub language: String,
    /// When it was published: a W3C date as written.
    pub published: Option<String>,
}

/// The same page in another language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternate {
    /// The language, as written.
    pub hreflang: String,
    /// The address.
    pub url: CrawlUrl,
}

/// A sitemap that an index names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its address.
    pub url: CrawlUrl,
    /// When it changed last, as written.
    pub lastmod: Option<String>,
}

/// Why a document gives no address at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SitemapError {
    /// It is something else.
    #[error("the document is no sitemap")]
    NotASitemap,
    /// There is nothing in it.
    #[error("the document is empty")]
    Empty,
    /// It claims to be gzip and cannot be unpacked.
    #[error("the gzip stream is broken")]
    BadGzip,
    /// It is larger than the protocol allows.
    #[error("the document has more than {MAX_BYTES} bytes")]
    TooLarge,
    /// It declares entities.
    #[error("the document declares entities, which are refused")]
    DtdEntities,
}

impl SitemapError {
    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NotASitemap => "not_a_sitemap",
            Self::Empty => "empty",
            Self::BadGzip => "bad_gzip",
            Self::TooLarge => "too_large",
            Self::DtdEntities => "dtd_entities",
        }
    }

    /// The ledger's code for it.
    pub const fn code(self) -> Code {
        match self {
            Self::NotASitemap | Self::Empty | Self::DtdEntities => Code::NotASitemap,
            Self::BadGzip => Code::Decode,
            Self::TooLarge => Code::TooLarge,
        }
    }
}

impl Sitemap {
    fn empty(kind: Kind) -> Self {
        Self {
            kind,
            urls: Vec::new(),
            sitemaps: Vec::new(),
            is_complete: true,
            warning: None,
            bytes: 0,
            beside: 0,
        }
    }

    /// Makes room for another address; `false`, with the warning, where there is none.
    fn makes_room(&mut self, url: &CrawlUrl) -> bool {
        let bytes = self.bytes + url.as_str().len();
        if self.urls.len() + self.sitemaps.len() >= MAX_URLS {
            self.break_off(format!(
                "there are more than {MAX_URLS} addresses; the rest was left out"
            ));
            return false;
        }
        if bytes > MAX_ADDRESS_BYTES {
            self.break_off(format!(
                "the addresses take more than {MAX_ADDRESS_BYTES} bytes; the rest was left out"
            ));
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// Whether there is room for what stands beside an address, which itself stays.
    fn has_room_beside(&mut self, alternates: &[Alternate], extras: &Extras) -> bool {
        let lengths = alternates.iter().map(|other| other.url.as_str().len());
        let others = extras.images.iter().chain(&extras.videos).map(String::len);
        self.beside += lengths.chain(others).sum::<usize>();
        let has_room = self.beside <= MAX_ADDRESS_BYTES;
        if !has_room {
            self.warning.get_or_insert_with(|| {
                "there are too many alternates and images; some were left out".to_owned()
            });
        }
        has_room
    }

    fn break_off(&mut self, warning: impl Into<String>) {
        self.is_complete = false;
        self.warning.get_or_insert(warning.into());
    }
}

/// Reads the document found at `url`; addresses in it are resolved against that.
pub fn read(body: &[u8], url: &CrawlUrl) -> Result<Sitemap, SitemapError> {
    // Reading from memory fails only where a layer does, and that is judged at the end.
    let unpacked = Unpacked::new(body).map_err(|_| SitemapError::BadGzip)?;
    let mut text = Text::new(unpacked).map_err(|_| SitemapError::BadGzip)?;
    let is_xml = text.first().is_ok_and(|first| first == Some('<'));
    let found = if is_xml {
        xml::read(&mut text, url)
    } else {
        lines(&mut text, url)
    };
    let is_whole = text.judge(is_xml)?;
    let mut sitemap = found?;
    if !is_whole {
        sitemap.break_off("the gzip stream breaks off");
    }
    Ok(sitemap)
}

/// Blanks of Unicode, and the marks that editors leave behind.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '\u{feff}' | '\u{200b}' | '\0')
}

fn resolved(text: &str, base: &CrawlUrl) -> Option<CrawlUrl> {
    let text = text.trim_matches(is_blank);
    if text.is_empty() {
        return None;
    }
    base.join(text).ok()
}

/// One address a line. Absolute addresses only: any text would do as a relative one.
fn lines(text: &mut Text<'_>, base: &CrawlUrl) -> Result<Sitemap, SitemapError> {
    let mut sitemap = Sitemap::empty(Kind::Text);
    // The beginning of a line that goes on in the next piece.
    let mut begun = String::new();
    while let Ok(Some(piece)) = text.piece() {
        let mut parts = piece.split(['\n', '\r']);
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            begun.push_str(part);
            take_line(&begun, base, &mut sitemap);
            begun.clear();
        }
        // A line that is too long for an address stays too long.
        let room = (MAX_LINE + 1).saturating_sub(begun.len());
        begun.extend(last.chars().take(room));
    }
    take_line(&begun, base, &mut sitemap);
    if sitemap.urls.is_empty() {
        return Err(SitemapError::NotASitemap);
    }
    Ok(sitemap)
}

fn take_line(line: &str, base: &CrawlUrl, sitemap: &mut Sitemap) {
    let line = line.trim_matches(is_blank);
    let is_absolute = ["http:", "https:"].iter().any(|scheme| {
        let start = line.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    if !is_absolute || line.len() > MAX_LINE {
        return;
    }
    let Some(url) = resolved(line, base) else {
        return;
    };
    if sitemap.makes_room(&url) {
        sitemap.urls.push(Entry::bare(url));
    }
}

impl Entry {
    fn bare(url: CrawlUrl) -> Self {
        Self {
            url,
            lastmod: None,
            changefreq: None,
            priority: None,
            alternates: Vec::new(),
            extras: Extras::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;
    use proto::CrawlUrl;

    use super::{Extras, Kind, MAX_URLS, News, Sitemap, SitemapError, read};

    fn at() -> CrawlUrl {
        CrawlUrl::parse("https://site.test/maps/sitemap.xml").unwrap()
    }

    fn texts(sitemap: &Sitemap) -> Vec<&str> {
        let urls = sitemap.urls.iter();
        urls.map(|entry| entry.url.as_str()).collect()
    }

    fn packed(body: &[u8]) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        out.write_all(body).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn the_content_decides_what_it_is() {
        for (body, kind) in [
            ("<urlset><url><loc>/a</loc></url></urlset>", Kind::Urlset),
            ("<SitemapIndex></SitemapIndex>", Kind::Index),
            ("http://site.test/a\nnot an address\n", Kind::Text),
            (
                "<rss><channel><item><link>/a</link></item></channel></rss>",
                Kind::Rss,
            ),
            ("<feed><entry><link href='/a'/></entry></feed>", Kind::Atom),
        ] {
            assert_eq!(read(body.as_bytes(), &at()).unwrap().kind, kind, "{body}");
        }
        for (body, error) in [
            ("<html></html>", SitemapError::NotASitemap),
            (" \n", SitemapError::Empty),
            ("just words", SitemapError::NotASitemap),
        ] {
            assert_eq!(read(body.as_bytes(), &at()), Err(error), "{body}");
        }
    }

    #[test]
    fn entities_are_refused_wherever_they_are_declared() {
        let body = "<urlset><url><loc>/a</loc></url></urlset><!DOCTYPE x [<!ENTITY a 'b'>]>";
        assert_eq!(read(body.as_bytes(), &at()), Err(SitemapError::DtdEntities));
    }

    #[test]
    fn a_packed_document_that_breaks_off_gives_what_came_before() {
        let mut body = String::from("<urlset>");
        for number in 0..500 {
            body.push_str(&format!("<url><loc>/page/{number}</loc></url>"));
        }
        let whole = packed(body.as_bytes());
        let sitemap = read(&whole[..whole.len() / 2], &at()).unwrap();
        assert!(!sitemap.is_complete && sitemap.warning.is_some());
        assert!(sitemap.urls.len() > 10 && sitemap.urls.len() < 500);
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let bomb = packed(&vec![b' '; super::MAX_BYTES + 10]);
        assert_eq!(read(&bomb, &at()), Err(SitemapError::TooLarge));
    }

    #[test]
    fn no_more_addresses_are_taken_than_the_protocol_allows() {
        let body = "http://site.test/a\n".repeat(MAX_URLS + 1);
        let sitemap = read(body.as_bytes(), &at()).unwrap();
        assert_eq!(sitemap.urls.len(), MAX_URLS);
        assert!(!sitemap.is_complete);
    }

    #[test]
    fn places_of_pictures_are_no_pages() {
        let body = "<urlset><url><loc>/a</loc><image:image><image:loc>/i.png</image:loc></image:image></url>\
            <url><loc>/b</loc><lastmod>nonsense</lastmod><priority>7</priority></url></urlset>";
        let sitemap = read(body.as_bytes(), &at()).unwrap();
        assert_eq!(
            texts(&sitemap),
            ["https://site.test/a", "https://site.test/b"]
        );
        assert_eq!(
            (sitemap.urls[1].lastmod.clone(), sitemap.urls[1].priority),
            (None, None)
        );
    }

    #[test]
    fn what_extensions_say_is_kept_beside_the_plain_elements() {
        let body = "<urlset xmlns:bild='http://www.google.com/schemas/sitemap-image/1.1'><url><loc>/a</loc>\
            <bild:image><bild:loc> /i.png </bild:loc><bild:title>x</bild:title></bild:image><image:image>\
            <image:loc>/j.png</image:loc></image:image><video:video><video:title>t</video:title>\
            <video:content_loc>v.mp4</video:content_loc></video:video><news:news><news:publication>\
            <news:name>The Paper</news:name><news:language>en</news:language></news:publication>\
            <news:publication_date>2024-05-01</news:publication_date><news:title>A &amp; B</news:title>\
            </news:news><lastmod>2024</lastmod></url><url><loc>/b</loc></url></urlset>";
        let sitemap = read(body.as_bytes(), &at()).unwrap();
        assert_eq!(
            texts(&sitemap),
            ["https://site.test/a", "https://site.test/b"]
        );
        let extras = &sitemap.urls[0].extras;
        assert_eq!(
            extras.images,
            ["https://site.test/i.png", "https://site.test/j.png"]
        );
        assert_eq!(extras.videos, ["https://site.test/maps/v.mp4"]);
        let news = News {
            title: "A & B".to_owned(),
            publication: "The Paper".to_owned(),
            language: "en".to_owned(),
            published: Some("2024-05-01".to_owned()),
        };
        assert_eq!(extras.news.as_ref(), Some(&news));
        assert_eq!(sitemap.urls[0].lastmod.as_deref(), Some("2024"));
        assert_eq!(sitemap.urls[1].extras, Extras::default());
    }

    #[test]
    fn a_record_without_end_keeps_no_more_than_its_bounds() {
        let body = format!(
            "<urlset><url>{}{}</url></urlset>",
            "<loc>/a</loc>".repeat(MAX_URLS + 10),
            "<xhtml:link rel='alternate' hreflang='de' href='/d'/>".repeat(10_000)
        );
        let sitemap = read(body.as_bytes(), &at()).unwrap();
        assert_eq!(sitemap.urls.len(), MAX_URLS);
        let alternates: usize = sitemap.urls.iter().map(|one| one.alternates.len()).sum();
        assert_eq!(alternates, 500);
    }

    #[test]
    fn addresses_that_would_not_fit_a_message_are_left_out_with_a_warning() {
        let at = CrawlUrl::parse(&format!("https://site.test/{}/s.xml", "d".repeat(7000))).unwrap();
        let body = format!(
            "<urlset>{}</urlset>",
            "<url><loc>a</loc></url>".repeat(10_000)
        );
        let sitemap = read(body.as_bytes(), &at).unwrap();
        assert!((3000..4000).contains(&sitemap.urls.len()) && !sitemap.is_complete);
        assert!(sitemap.warning.unwrap().contains("bytes"));
    }

    #[test]
    fn alternates_that_grow_without_end_are_left_out_and_their_pages_stay() {
        let at = CrawlUrl::parse(&format!("https://site.test/{}/s.xml", "d".repeat(7000))).unwrap();
        let alternates = "<link rel='alternate' hreflang='de' href='d'/>".repeat(400);
        let body = format!(
            "<urlset>{}</urlset>",
            format!("<url><loc>/a</loc>{alternates}</url>").repeat(20)
        );
        let sitemap = read(body.as_bytes(), &at).unwrap();
        let kept = sitemap
            .urls
            .iter()
            .filter(|entry| !entry.alternates.is_empty())
            .count();
        assert_eq!((sitemap.urls.len(), kept), (20, 8));
        assert!(sitemap.is_complete && sitemap.warning.is_some());
        let body = format!(
            "<urlset><url>{}</url></urlset>",
            "<loc>a</loc>".repeat(40_000)
        );
        assert!(read(body.as_bytes(), &at).unwrap().urls.len() < 4000);
    }

    #[test]
    fn the_encoding_is_told_from_the_beginning_and_holds_to_the_end() {
        let mut body = b"<?xml version='1.0' encoding='iso-8859-1'?><urlset><!--".to_vec();
        body.extend(vec![b'x'; 1_200_000]);
        body.extend(b"--><url><loc>/caf\xe9</loc></url></urlset>");
        let sitemap = read(&packed(&body), &at()).unwrap();
        assert_eq!(texts(&sitemap), ["https://site.test/caf%C3%A9"]);
        let wide: Vec<u8> = "\u{feff}<urlset><url><loc>/\u{e9}</loc></url></urlset>"
            .encode_utf16()
            .flat_map(u16::to_be_bytes)
            .collect();
        assert_eq!(
            texts(&read(&wide, &at()).unwrap()),
            ["https://site.test/%C3%A9"]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(read(&body, &at()));
            let mut packed = vec![0x1f, 0x8b, 8];
            packed.extend(&body);
            drop(read(&packed, &at()));
        }

        #[test]
        fn any_tags_are_taken(body in "<(urlset|rss|feed|sitemapindex)>(</?(url|loc|item|link|entry|image:loc|lastmod|url)/?>|<!|<!DOCTYPE|\\[|\\]|&amp;|&|x|<|>|<!\\[CDATA\\[|]]>|-->|<!--){0,20}") {
            drop(read(body.as_bytes(), &at()));
        }
    }
}
