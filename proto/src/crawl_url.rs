//! A canonical http(s) URL.
//!
//! Canonical form: parsed by the WHATWG URL standard, fragment dropped, and in path and query the hex digits of
//! escapes in upper case and escapes of unreserved characters (RFC 3986, 2.3) decoded once. Nothing else changes.
//! An escape whose decoding would complete a new escape (`%%34` before `1` would become `%41`) stays as it is, so
//! that the canonical form of a canonical URL is itself.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::{EncodingOverride, Url};
use xxhash_rust::xxh3::xxh3_128;

use crate::{DomainKey, HostKey};

/// Longest canonical URL that is taken, in bytes.
const MAX_URL_BYTES: usize = 8 * 1024;

/// Why a text is no URL to crawl.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// The WHATWG parser refused it.
    #[error("`{given}` is not a URL: {why}")]
    Malformed {
        /// The text, cut to 200 characters.
        given: String,
        /// What the parser said.
        why: String,
    },
    /// The scheme is neither http nor https.
    #[error("`{given}` has the scheme `{scheme}`; only http and https are crawled")]
    Scheme {
        /// The text, cut to 200 characters.
        given: String,
        /// The scheme it has.
        scheme: String,
    },
    /// The canonical form is longer than the bound.
    #[error("the URL has {length} bytes; at most {MAX_URL_BYTES} are taken")]
    TooLong {
        /// Length of the canonical form, in bytes.
        length: usize,
    },
}

/// A canonical http(s) URL. Two texts that name the same address are equal once they are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CrawlUrl(Url);

impl CrawlUrl {
    /// Reads an absolute URL.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        Self::resolve(None, text, None)
    }

    /// Resolves `href` against this URL.
    pub fn join(&self, href: &str) -> Result<Self, UrlError> {
        Self::resolve(Some(&self.0), href, None)
    }

    /// Resolves `href` as a page in another encoding than UTF-8 means it: `encode` gives the bytes of its query.
    pub fn join_encoded(&self, href: &str, encode: EncodingOverride<'_>) -> Result<Self, UrlError> {
        Self::resolve(Some(&self.0), href, encode)
    }

    /// Takes a URL that was parsed elsewhere.
    pub fn from_url(url: &Url) -> Result<Self, UrlError> {
        Self::canonical(url.clone())
    }

    fn canonical(mut canonical: Url) -> Result<Self, UrlError> {
        let url = &canonical;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlError::Scheme {
                given: shortened(url.as_str()),
                scheme: url.scheme().to_owned(),
            });
        }
        canonical.set_fragment(None);
        if let Some(path) = normalised_escapes(canonical.path()) {
            canonical.set_path(&path);
        }
        if let Some(query) = canonical.query().and_then(normalised_escapes) {
            canonical.set_query(Some(&query));
        }
        let length = canonical.as_str().len();
        if length > MAX_URL_BYTES {
            return Err(UrlError::TooLong { length });
        }
        Ok(Self(canonical))
    }

    fn resolve(
        base: Option<&Url>,
        text: &str,
        encode: EncodingOverride<'_>,
    ) -> Result<Self, UrlError> {
        let text = &two_slashes(text, base);
        let options = Url::options().base_url(base).encoding_override(encode);
        let url = options.parse(text).map_err(|error| UrlError::Malformed {
            given: shortened(text),
            why: error.to_string(),
        })?;
        Self::canonical(url)
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The parsed URL.
    pub const fn url(&self) -> &Url {
        &self.0
    }

    /// Path and query, as robots.txt rules are matched against.
    pub fn path_and_query(&self) -> &str {
        &self.0[url::Position::BeforePath..url::Position::AfterQuery]
    }

    /// The host this URL is fetched from.
    pub fn host_key(&self) -> HostKey {
        HostKey::of(&self.0)
    }

    /// The domain this URL belongs to.
    pub fn domain(&self) -> DomainKey {
        DomainKey::of_name(self.0.host_str().unwrap_or_default())
    }

    /// 128 bits that stand for this URL in the seen set: XXH3 of the canonical text.
    pub fn fingerprint(&self) -> u128 {
        xxh3_128(self.0.as_str().as_bytes())
    }

    /// The `urlHash` of snapshot addresses: first 32 hex digits of the SHA-256 of the canonical text.
    pub fn url_hash(&self) -> String {
        let digest: [u8; 32] = Sha256::digest(self.0.as_str().as_bytes()).into();
        let mut text = data_encoding::HEXLOWER.encode(&digest);
        text.truncate(32);
        text
    }

    /// The text without user name and password, for logs and answers.
    pub fn display_safe(&self) -> String {
        if self.0.username().is_empty() && self.0.password().is_none() {
            return self.0.as_str().to_owned();
        }
        let mut bare = self.0.clone();
        let emptied = bare.set_username("").and_then(|()| bare.set_password(None));
        match emptied {
            Ok(()) => bare.into(),
            Err(()) => self.host_key().to_string(),
        }
    }
}

impl fmt::Display for CrawlUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl TryFrom<String> for CrawlUrl {
    type Error = UrlError;

    fn try_from(text: String) -> Result<Self, UrlError> {
        Self::parse(&text)
    }
}

impl From<CrawlUrl> for String {
    fn from(url: CrawlUrl) -> Self {
        url.0.into()
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Under a special scheme a host stands behind any number of slashes (URL Standard, "special authority ignore slashes"
/// state); the parser knows that of absolute URLs only.
fn two_slashes<'a>(text: &'a str, base: Option<&Url>) -> Cow<'a, str> {
    let trimmed = text.trim_start_matches(|letter: char| letter <= ' ');
    let is_dropped = |letter: char| matches!(letter, '\t' | '\n' | '\r');
    let is_slash = |letter: &char| matches!(letter, '/' | '\\');
    if base.is_none() || !trimmed.starts_with(['/', '\\']) {
        return Cow::Borrowed(text);
    }
    let slashes = trimmed.chars().filter(|letter| !is_dropped(*letter));
    if slashes.take_while(is_slash).count() < 3 {
        return Cow::Borrowed(text);
    }
    let rest = trimmed.trim_start_matches(|letter| is_slash(&letter) || is_dropped(letter));
    Cow::Owned(format!("//{rest}"))
}

/// Upper-case hex digits, unreserved characters decoded; `None` where nothing changes.
fn normalised_escapes(text: &str) -> Option<String> {
    if !text.contains('%') {
        return None;
    }
    let mut out = decoded_once(text, Stray::MayGrow);
    if decoded_once(&out, Stray::MayGrow) != out {
        out = decoded_once(text, Stray::StaysStray);
    }
    (out != text).then_some(out)
}

/// What may happen behind a percent sign that begins no escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stray {
    MayGrow,
    StaysStray,
}

fn decoded_once(text: &str, stray: Stray) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let from = text.len() - rest.len() + at;
        let value = bytes.get(from + 1..from + 3).and_then(hex_pair);
        let Some(byte) = value else {
            out.push('%');
            rest = &rest[at + 1..];
            continue;
        };
        let may_decode = stray == Stray::MayGrow || !completes_escape(&out, byte);
        if is_unreserved(byte) && may_decode {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(hex_digit(byte >> 4));
            out.push(hex_digit(byte & 15));
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    out
}

/// Whether `byte`, put behind `before`, could become part of an escape that was none.
fn completes_escape(before: &str, byte: u8) -> bool {
    let bytes = before.as_bytes();
    byte.is_ascii_hexdigit()
        && match bytes {
            [.., b'%'] => true,
            [.., b'%', digit] => digit.is_ascii_hexdigit(),
            _ => false,
        }
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).map_or('0', |digit| digit.to_ascii_uppercase())
}

fn hex_pair(digits: &[u8]) -> Option<u8> {
    let high = char::from(*digits.first()?).to_digit(16)?;
    let low = char::from(*digits.get(1)?).to_digit(16)?;
    u8::try_from(high * 16 + low).ok()
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CrawlUrl, UrlError};

    fn canonical(text: &str) -> String {
        CrawlUrl::parse(text).unwrap().as_str().to_owned()
    }

    #[test]
    fn one_address_has_one_text() {
        for (given, expected) in [
            ("HTTP://Example.COM:80", "http://example.com/"),
            (
                "https://example.com/a/../b/./c#top",
                "https://example.com/b/c",
            ),
            (
                "http://example.com/%7euser/%e4?q=%3d%41",
                "http://example.com/~user/%E4?q=%3DA",
            ),
            ("http://example.com/100%", "http://example.com/100%"),
            ("http://example.com/%zz%", "http://example.com/%zz%"),
            ("http://example.com/%%34%31", "http://example.com/%%341"),
            ("http://example.com/%%34", "http://example.com/%4"),
            (
                "http://example.com/%4%31?%%34%31",
                "http://example.com/%4%31?%%341",
            ),
            ("http://example.com?", "http://example.com/?"),
            ("http://bücher.example/", "http://xn--bcher-kva.example/"),
            ("http://0x7f.1/", "http://127.0.0.1/"),
        ] {
            assert_eq!(canonical(given), expected, "{given}");
        }
    }

    #[test]
    fn what_cannot_be_crawled_is_named() {
        assert!(matches!(
            CrawlUrl::parse("ftp://x.test/"),
            Err(UrlError::Scheme { .. })
        ));
        assert!(matches!(
            CrawlUrl::parse("nonsense"),
            Err(UrlError::Malformed { .. })
        ));
        let long = format!("http://x.test/{}", "a".repeat(9000));
        assert!(matches!(
            CrawlUrl::parse(&long),
            Err(UrlError::TooLong { .. })
        ));
    }

    #[test]
    fn credentials_do_not_show() {
        let url = CrawlUrl::parse("http://me:secret@x.test/a").unwrap();
        assert_eq!(url.display_safe(), "http://x.test/a");
    }

    proptest! {
        #[test]
        fn stray_percent_signs_settle_at_once(path in "[%0-9a-eA-E./?]{0,16}") {
            if let Ok(once) = CrawlUrl::parse(&format!("http://x.test/{path}")) {
                prop_assert_eq!(CrawlUrl::parse(once.as_str()), Ok(once.clone()));
            }
        }

        #[test]
        fn canonicalisation_is_idempotent(path in "[ -~\u{e0}-\u{ff}]{0,40}") {
            if let Ok(once) = CrawlUrl::parse(&format!("http://x.test/{path}")) {
                prop_assert_eq!(CrawlUrl::parse(once.as_str()), Ok(once.clone()));
            }
        }
    }
}
