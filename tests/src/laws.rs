//! What must hold for every input of the pure readers, whatever the bytes.
//!
//! Each law takes any bytes and panics where it is broken. Property tests and fuzz targets share them, so this file
//! needs nothing but the rooms it judges.

use std::collections::BTreeSet;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use proto::{CrawlUrl, DomainKey, HostKey, Timestamp, TrapRules, UrlRules};
use worker::page::{self, Input, Page, Want};
use worker::robots::Robots;
use worker::{charset, media, sitemap};

/// Where every page of a law is found.
const AT: &str = "https://site.test/dir/page?q=1";

fn at() -> CrawlUrl {
    CrawlUrl::parse(AT).expect("the address of every law is a URL")
}

/// A canonical URL stays what it is when it is written and read again.
fn is_settled(url: &CrawlUrl) {
    let again = CrawlUrl::parse(url.as_str());
    assert_eq!(
        again.as_ref(),
        Ok(url),
        "the canonical form of a canonical URL is another one"
    );
    assert!(url.url().fragment().is_none(), "{url} kept its fragment");
    let host = url.host_key();
    assert_eq!(
        HostKey::parse(host.as_str()).as_ref(),
        Ok(&host),
        "the host of {url} reads back as another"
    );
    assert!(
        CrawlUrl::parse(&host.robots_url()).is_ok(),
        "{host} has no robots.txt"
    );
    let domain = url.domain();
    assert_eq!(domain, host.domain(), "{url} and its host differ in domain");
    assert_eq!(
        DomainKey::of_name(domain.as_str()),
        domain,
        "the domain of {domain} is another"
    );
}

/// Any text against any base: the answer is canonical, and so is what the rules make of it.
pub fn url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (base, href) = text.split_once('\n').unwrap_or((AT, &text));
    let base = CrawlUrl::parse(base).unwrap_or_else(|_| at());
    is_settled(&base);
    let Ok(found) = base.join(href) else { return };
    is_settled(&found);
    assert_eq!(base.join(found.as_str()).as_ref(), Ok(&found));
    let rules = UrlRules {
        strip_tracking: true,
        strip_session: true,
        sort_query: true,
        max_len: Some(2000),
        traps: Some(TrapRules::usual(Timestamp::from_millis(1_746_100_800_000))),
    };
    if let Ok(ruled) = rules.rewrite(found) {
        is_settled(&ruled);
        assert_eq!(rules.check(&ruled), Ok(()));
        assert_eq!(
            rules.rewrite(ruled.clone()).as_ref(),
            Ok(&ruled),
            "the rules change what they made"
        );
    }
}

/// Any robots.txt: the same rules with other line ends and with a byte order mark, and canonical sitemaps.
pub fn robots(bytes: &[u8]) {
    let robots = Robots::parse(bytes, "CrawlForge/1.0");
    let urls = ["/", "/robots.txt", "/a/b?c=d&e", "/%2A%24*$", "/x.html"];
    let judged =
        |robots: &Robots| urls.map(|path| at().join(path).is_ok_and(|url| robots.allows(&url)));
    let verdict = judged(&robots);
    assert!(verdict[1], "/robots.txt itself is always allowed");
    for sitemap in robots.sitemaps(&at()) {
        let url = CrawlUrl::parse(&sitemap).expect("a sitemap line gave no URL");
        assert_eq!(url.as_str(), sitemap, "a sitemap line is not canonical");
    }
    // Near the limit of what is read, other line ends move the cut.
    if bytes.len() > 100_000 {
        return;
    }
    let mut marked = b"\xef\xbb\xbf".to_vec();
    marked.extend_from_slice(bytes);
    let windows: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| match byte {
            b'\n' => b"\r\n".to_vec(),
            other => vec![*other],
        })
        .collect();
    let has_mark = bytes.starts_with(b"\xef\xbb\xbf");
    for other in [marked, windows].iter().skip(usize::from(has_mark)) {
        let same = Robots::parse(other, "crawlforge");
        assert_eq!(same.crawl_delay(), robots.crawl_delay());
        assert_eq!(same.sitemaps(&at()), robots.sitemaps(&at()));
        assert_eq!(judged(&same), verdict);
    }
}

fn packed(body: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(body).expect("writing to memory");
    out.finish().expect("writing to memory")
}

/// Any sitemap: canonical addresses, never too many, and the same however it was packed.
pub fn sitemap(bytes: &[u8]) {
    let plain = sitemap::read(bytes, &at());
    if let Ok(found) = &plain {
        assert!(found.urls.len() + found.sitemaps.len() <= sitemap::MAX_URLS);
        for entry in &found.urls {
            is_settled(&entry.url);
            entry
                .alternates
                .iter()
                .for_each(|other| is_settled(&other.url));
            for extra in entry.extras.images.iter().chain(&entry.extras.videos) {
                let url = CrawlUrl::parse(extra).expect("an extension's address is a URL");
                assert_eq!(url.as_str(), extra);
            }
            let date = entry.lastmod.as_deref();
            assert!(date.is_none_or(sitemap::is_valid_date), "{date:?}");
            let priority = entry.priority.unwrap_or(0.5);
            assert!((0.0..=1.0).contains(&priority));
        }
        found
            .sitemaps
            .iter()
            .for_each(|child| is_settled(&child.url));
    }
    let is_packed = bytes.starts_with(&[0x1f, 0x8b]);
    if is_packed || bytes.is_empty() {
        return;
    }
    assert_eq!(sitemap::read(&packed(bytes), &at()), plain);
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut members = packed(first);
    members.extend(packed(second));
    let is_second_layer = first.starts_with(&[0x1f, 0x8b]);
    if !is_second_layer {
        assert_eq!(sitemap::read(&members, &at()), plain);
    }
}

fn read(bytes: &[u8], want: Want) -> Page {
    page::read(Input {
        body: bytes,
        content_type: None,
        x_robots_tag: &[],
        link_headers: &[],
        url: &at(),
        agent: "CrawlForge/1.0",
        want,
    })
}

/// Any page, for its links alone and with facts: each link canonical and once per place, never too many.
pub fn links(bytes: &[u8]) {
    for facts in [false, true] {
        let page = read(
            bytes,
            Want {
                links: true,
                facts,
                ..Want::default()
            },
        );
        assert!(page.links.len() <= page::MAX_LINKS);
        let mut seen = BTreeSet::new();
        for link in &page.links {
            is_settled(&link.url);
            assert!(
                seen.insert((link.url.as_str(), link.from)),
                "{} is there twice",
                link.url
            );
            assert!(link.anchor.len() <= 200, "the text of a link is cut");
        }
        page.canonical.iter().for_each(is_settled);
        let told = page.facts.unwrap_or_else(|| "{}".to_owned());
        assert!(told.starts_with('{') && told.ends_with('}'));
    }
}

/// Any page: Markdown, text and HTML of the whole and of the main content.
pub fn markdown(bytes: &[u8]) {
    for only_main_content in [false, true] {
        let page = read(
            bytes,
            Want {
                markdown: true,
                text: true,
                html: true,
                only_main_content,
                ..Want::default()
            },
        );
        let markdown = page.markdown.expect("Markdown was asked for");
        assert!(
            markdown.is_empty() || markdown.ends_with('\n'),
            "Markdown ends with its last line"
        );
        let text = page.text.expect("text was asked for");
        assert!(
            text.lines().all(|line| line.trim_ascii() == line),
            "lines of text have no blanks at their ends"
        );
    }
}

/// Any bytes under any label: some text, in an encoding that has a name. The first line is the header.
pub fn charset(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == b'\n');
    let (header, body) = bytes.split_at(at.unwrap_or(0));
    let header = String::from_utf8_lossy(header);
    for header in [None, Some(&*header)] {
        let (text, encoding) = charset::decode(body, header);
        if encoding == encoding_rs::UTF_8 && std::str::from_utf8(body).is_ok() {
            let bare = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
            assert_eq!(text.as_bytes(), bare, "valid UTF-8 is taken as it is");
        }
        drop(charset::decode_xml(body, header));
        for nosniff in [false, true] {
            let media = media::examine(header, body, nosniff);
            assert_eq!(media.kind, media::sniff(header, body, nosniff));
            assert_eq!(media.essence, media.essence.to_ascii_lowercase());
        }
    }
    if let Some(encoding) = charset::header_encoding(&header) {
        page::encode_query(&String::from_utf8_lossy(body), encoding);
    }
}
