//! Bytes to text, in the order that the standards give.
//!
//! Byte order mark, header, meta element (or XML declaration), UTF-8 if the bytes are valid UTF-8, detection.
//! Never fails: what cannot be decoded becomes U+FFFD.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};

/// How far a meta element is looked for. Browsers look at 1024 bytes first and find later ones as they parse.
const META_WITHIN: usize = 1024 * 1024;

/// How much browsers look at before they parse.
const PRESCAN: usize = 1024;

/// How much of a page the detector is shown.
const DETECT_WITHIN: usize = 64 * 1024;

/// The text of an HTML or plain-text body, and the encoding it was read in.
pub fn decode<'a>(body: &'a [u8], content_type: Option<&str>) -> (Cow<'a, str>, &'static Encoding) {
    let encoding = declared(body, content_type, meta_label).unwrap_or_else(|| detect(body));
    decode_as(body, encoding)
}

/// The text of an XML body; see [`xml_encoding`].
pub fn decode_xml<'a>(
    body: &'a [u8],
    content_type: Option<&str>,
) -> (Cow<'a, str>, &'static Encoding) {
    let header = content_type.and_then(header_encoding);
    let encoding = header.filter(|_| Encoding::for_bom(body).is_none());
    decode_as(body, encoding.unwrap_or_else(|| xml_encoding(body, true)))
}

/// The encoding of XML that begins like this: byte order mark, declaration, else UTF-8 or what it looks like.
pub fn xml_encoding(head: &[u8], is_whole: bool) -> &'static Encoding {
    declared(head, None, xml_label).unwrap_or_else(|| match head {
        [b'<', 0, ..] => UTF_16LE,
        [0, b'<', ..] => UTF_16BE,
        _ if !is_whole && is_utf8_so_far(head) => UTF_8,
        _ => detect(head),
    })
}

/// Whether nothing but the last letter, which may be cut, keeps bytes from being UTF-8.
fn is_utf8_so_far(head: &[u8]) -> bool {
    match std::str::from_utf8(head) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

fn decode_as<'a>(body: &'a [u8], encoding: &'static Encoding) -> (Cow<'a, str>, &'static Encoding) {
    let (text, used, _) = encoding.decode(body);
    (text, used)
}

fn declared(
    body: &[u8],
    content_type: Option<&str>,
    inside: fn(&[u8]) -> Option<&'static Encoding>,
) -> Option<&'static Encoding> {
    let marked = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    marked
        .or_else(|| header_encoding(content_type?))
        .or_else(|| inside(body))
}

/// The encoding that a Content-Type value names in its `charset` parameter; quoted values are skipped over.
pub fn header_encoding(content_type: &str) -> Option<&'static Encoding> {
    let mut rest = content_type.split_once(';')?.1;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ';']);
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(['=', ';']).unwrap_or(rest.len());
        let name = rest[..end].trim();
        let value;
        (value, rest) = match rest[end..].strip_prefix('=') {
            Some(after) => parameter_value(after),
            None => ("", &rest[end..]),
        };
        let encoding = Encoding::for_label(value.as_bytes());
        if name.eq_ignore_ascii_case("charset") && encoding.is_some() {
            return encoding;
        }
    }
}

/// A parameter's value and what follows it. A quote that is never closed is taken as part of a bare value.
fn parameter_value(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    if let Some((value, rest)) = text
        .strip_prefix('"')
        .and_then(|inner| inner.split_once('"'))
    {
        return (value, rest);
    }
    let (value, rest) = text.split_at(text.find(';').unwrap_or(text.len()));
    (value.trim().trim_matches(['"', '\'']), rest)
}

fn xml_label(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(1024)];
    let start = head.iter().position(|byte| *byte == b'<')?;
    let head = head[start..].strip_prefix(b"<?xml")?;
    let end = head.iter().position(|byte| *byte == b'>')?;
    let text = std::str::from_utf8(&head[..end]).ok()?;
    let value = text.split_once("encoding")?.1.trim_start();
    let value = value.strip_prefix('=')?.trim_start();
    let quote = value
        .chars()
        .next()
        .filter(|first| matches!(first, '"' | '\''))?;
    let label = value[1..].split(quote).next()?;
    Encoding::for_label(label.as_bytes()).map(without_utf16)
}

/// A declaration that could be read byte by byte cannot stand in UTF-16 (HTML, 13.2.3.2).
fn without_utf16(encoding: &'static Encoding) -> &'static Encoding {
    if encoding == UTF_16LE || encoding == UTF_16BE {
        UTF_8
    } else if encoding == X_USER_DEFINED {
        WINDOWS_1252
    } else {
        encoding
    }
}

/// The prescan of the HTML standard (13.2.3.2): comments and other tags are stepped over.
fn meta_label(body: &[u8]) -> Option<&'static Encoding> {
    let whole = &body[..body.len().min(META_WITHIN)];
    let mut rest = whole;
    if let Some(encoding) = xml_label(rest) {
        return Some(encoding);
    }
    while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
        rest = &rest[at..];
        if rest.starts_with(b"<!--") {
            // `<!-->` is a whole comment, so the end may overlap the start.
            let end = rest[2..].windows(3).position(|three| three == b"-->")?;
            rest = &rest[2 + end + 3..];
            continue;
        }
        let is_end = rest.get(1) == Some(&b'/');
        let from = if is_end { 2 } else { 1 };
        let letters = rest.get(from..).unwrap_or_default();
        let length = letters
            .iter()
            .position(|byte| !byte.is_ascii_alphanumeric());
        let name = &rest[1..from + length.unwrap_or(letters.len())];
        let is_tag = name
            .first()
            .is_some_and(|first| first.is_ascii_alphabetic() || *first == b'/');
        if !is_tag {
            rest = &rest[1..];
            continue;
        }
        let mut attributes = Attributes(&rest[1 + name.len()..]);
        if name.eq_ignore_ascii_case(b"meta") {
            if let Some(encoding) = meta_encoding(&mut attributes) {
                return Some(encoding);
            }
        } else {
            attributes.by_ref().for_each(drop);
        }
        rest = attributes.0;
        if whole.len() - rest.len() > PRESCAN {
            rest = behind_text(name, rest);
        }
    }
    None
}

/// What follows the text of an element that holds nothing else. Browsers look into it within the first bytes only.
fn behind_text<'a>(name: &[u8], rest: &'a [u8]) -> &'a [u8] {
    const TEXT_ONLY: [&[u8]; 8] = [
        b"script",
        b"style",
        b"title",
        b"textarea",
        b"xmp",
        b"iframe",
        b"noembed",
        b"noframes",
    ];
    if !TEXT_ONLY.iter().any(|one| name.eq_ignore_ascii_case(one)) {
        return rest;
    }
    let mut at = 0;
    while let Some(next) = rest[at..].iter().position(|byte| *byte == b'<') {
        at += next + 1;
        let end = rest.get(at + 1..at + 1 + name.len());
        if rest.get(at) == Some(&b'/') && end.is_some_and(|end| end.eq_ignore_ascii_case(name)) {
            return &rest[at - 1..];
        }
    }
    &[]
}

/// The encoding of a meta element, where it names one (HTML, 13.2.3.2, "need pragma").
fn meta_encoding(attributes: &mut Attributes<'_>) -> Option<&'static Encoding> {
    let mut is_pragma = false;
    let mut from_content = None;
    let mut from_charset = None;
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for (name, value) in attributes {
        let name = name.to_ascii_lowercase();
        if !matches!(name.as_slice(), b"http-equiv" | b"content" | b"charset")
            || seen.contains(&name)
        {
            continue;
        }
        match name.as_slice() {
            b"http-equiv" => is_pragma = value.eq_ignore_ascii_case(b"content-type"),
            b"content" => from_content = charset_in_content(value),
            _ => from_charset = Some(Encoding::for_label(value)),
        }
        seen.push(name);
    }
    // A charset attribute counts even where its label is none: the element then says nothing.
    let encoding = match from_charset {
        Some(named) => named,
        None => from_content.filter(|_| is_pragma),
    };
    encoding.map(without_utf16)
}

/// "Extracting a character encoding from a meta element" (HTML, 2.6.5).
fn charset_in_content(value: &[u8]) -> Option<&'static Encoding> {
    let lower = value.to_ascii_lowercase();
    let mut rest = lower.as_slice();
    loop {
        let at = rest.windows(7).position(|seven| seven == b"charset")?;
        rest = rest[at + 7..].trim_ascii_start();
        let Some(after) = rest.strip_prefix(b"=") else {
            continue;
        };
        let after = after.trim_ascii_start();
        let label = match after.first() {
            Some(quote @ (b'"' | b'\'')) => after[1..].split(|byte| byte == quote).next()?,
            Some(_) | None => after
                .split(|byte| byte.is_ascii_whitespace() || *byte == b';')
                .next()?,
        };
        return Encoding::for_label(label);
    }
}

/// The attributes of a tag from behind its name on; ends behind the closing `>`.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let is_gap = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'/';
        let start = self.0.iter().position(|byte| !is_gap(byte));
        self.0 = start.map_or(&[], |start| &self.0[start..]);
        if let Some(rest) = self.0.strip_prefix(b">") {
            self.0 = rest;
            return None;
        }
        let ends_name = |byte: &u8| is_gap(byte) || matches!(byte, b'=' | b'>');
        // A leading `=` belongs to the name, so that every step makes progress.
        let later = self.0.get(1..)?;
        let length = later.iter().position(ends_name)? + 1;
        let name = &self.0[..length];
        let rest = self.0[length..].trim_ascii_start();
        let Some(rest) = rest.strip_prefix(b"=") else {
            self.0 = rest;
            return Some((name, b""));
        };
        let rest = rest.trim_ascii_start();
        let (value, rest) = match rest.first() {
            Some(quote @ (b'"' | b'\'')) => {
                let inner = &rest[1..];
                let end = inner.iter().position(|byte| byte == quote);
                match end {
                    Some(end) => (&inner[..end], &inner[end + 1..]),
                    // A tag that never ends is none.
                    None => {
                        self.0 = &[];
                        return None;
                    }
                }
            }
            Some(_) | None => {
                let end = rest
                    .iter()
                    .position(|byte| byte.is_ascii_whitespace() || *byte == b'>');
                rest.split_at(end.unwrap_or(rest.len()))
            }
        };
        self.0 = rest;
        Some((name, value))
    }
}

fn detect(body: &[u8]) -> &'static Encoding {
    if std::str::from_utf8(body).is_ok() {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(
        &body[..body.len().min(DETECT_WITHIN)],
        body.len() <= DETECT_WITHIN,
    );
    detector.guess(None, Utf8Detection::Deny)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{decode, decode_xml};

    fn name(body: &[u8], content_type: Option<&str>) -> &'static str {
        decode(body, content_type).1.name()
    }

    #[test]
    fn the_first_that_speaks_decides() {
        let meta = b"<meta charset=koi8-r>";
        assert_eq!(
            name(b"\xef\xbb\xbfx", Some("text/html; charset=koi8-r")),
            "UTF-8"
        );
        assert_eq!(name(meta, Some("text/html; charset=utf-8")), "UTF-8");
        assert_eq!(name(meta, Some("text/html; charset=nonsense")), "KOI8-R");
        assert_eq!(name(meta, None), "KOI8-R");
        assert_eq!(name("é".as_bytes(), None), "UTF-8");
    }

    #[test]
    fn charset_inside_other_words_does_not_count() {
        let body = b"<!-- <meta charset=koi8-r> --><p title='<meta charset=koi8-r>'><meta name=x content='charset=koi8-r'>";
        assert_eq!(name(body, None), "UTF-8");
        let quoted = "text/html; name=\"charset=koi8-r;\"; Charset = 'iso-8859-2'";
        assert_eq!(name(b"", Some(quoted)), "ISO-8859-2");
    }

    #[test]
    fn the_first_attribute_of_a_name_counts_and_a_charset_before_any_content() {
        for (body, expected) in [
            ("<meta charset=koi8-r charset=gbk>", "KOI8-R"),
            (
                "<meta content='x; charset=gbk' http-equiv=Content-Type>",
                "GBK",
            ),
            (
                "<meta http-equiv=content-type content='text/html; charset = \"gbk\"'>",
                "GBK",
            ),
            (
                "<meta content='x;charset=gbk'><meta charset=koi8-r>",
                "KOI8-R",
            ),
            ("<meta charset=utf-16le>", "UTF-8"),
            ("<meta charset=x-user-defined>", "windows-1252"),
            ("<meta charset=nonsense><meta charset=gbk>", "GBK"),
            ("<META/CHARSET=gbk />", "GBK"),
            ("<meta charset='gbk", "UTF-8"),
        ] {
            assert_eq!(name(body.as_bytes(), None), expected, "{body}");
        }
        let late = format!("<!-- {} --><meta charset=koi8-r>", "x".repeat(200_000));
        assert_eq!(name(late.as_bytes(), None), "KOI8-R");
        let script = format!(
            "{}<script>'<meta charset=gbk>'</SCRIPT ><meta charset=koi8-r>",
            " ".repeat(2000)
        );
        assert_eq!(name(script.as_bytes(), None), "KOI8-R");
    }

    #[test]
    fn a_declaration_names_the_encoding_of_xml() {
        let body = b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9</a>";
        assert!(decode_xml(body, None).0.contains("é"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(body in proptest::collection::vec(any::<u8>(), 0..200), header in ".{0,40}") {
            decode(&body, Some(&header));
            decode_xml(&body, None);
        }

        #[test]
        fn any_tags_are_taken(body in "(<!--|-->|<meta|charset|=|\"|'|>| |/|a|;|content|http-equiv){0,20}") {
            decode(body.as_bytes(), Some(&body));
        }
    }
}
