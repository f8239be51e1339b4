//! The lines of a robots.txt that mean something to us.
//!
//! Lenient where people err: any line ending, blanks anywhere, common misspellings, and a missing colon where a
//! line has exactly two words.

/// A line with a known name; the value is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    UserAgent(&'a [u8]),
    Allow(&'a [u8]),
    Disallow(&'a [u8]),
    CrawlDelay(&'a [u8]),
    Sitemap(&'a [u8]),
}

/// The known lines of `body`, in order.
pub(super) fn fields(body: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let lines = body.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.filter_map(field)
}

fn field(line: &[u8]) -> Option<Field<'_>> {
    let end = line.iter().position(|byte| *byte == b'#');
    let line = trimmed(&line[..end.unwrap_or(line.len())]);
    let colon = line.iter().position(|byte| *byte == b':');
    let with_colon = colon.and_then(|colon| known(&line[..colon], &line[colon + 1..]));
    // An address behind a missing colon has a colon of its own.
    with_colon.or_else(|| {
        let (name, value) = two_words(line)?;
        known(name, value)
    })
}

fn known<'a>(name: &'a [u8], value: &'a [u8]) -> Option<Field<'a>> {
    let (name, value) = (trimmed(name), trimmed(value));
    let is_one_of = |names: &[&str]| {
        let mut names = names.iter();
        names.any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    };
    if is_one_of(&["user-agent", "useragent", "user agent", "user_agent"]) {
        Some(Field::UserAgent(value))
    } else if is_one_of(&["allow"]) {
        Some(Field::Allow(value))
    } else if is_one_of(&[
        "disallow",
        "dissallow",
        "dissalow",
        "disalow",
        "diasllow",
        "disallaw",
        "disallows",
    ]) {
        Some(Field::Disallow(value))
    } else if is_one_of(&["crawl-delay", "crawldelay", "crawl delay", "crawl_delay"]) {
        Some(Field::CrawlDelay(value))
    } else if is_one_of(&["sitemap", "site-map"]) {
        Some(Field::Sitemap(value))
    } else {
        None
    }
}

fn two_words(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let at = line.iter().position(blank)?;
    let value = trimmed(&line[at..]);
    (!value.iter().any(blank)).then_some((&line[..at], value))
}

fn trimmed(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b);
    let Some(start) = text.iter().position(|byte| !is_blank(byte)) else {
        return &[];
    };
    let end = text
        .iter()
        .rposition(|byte| !is_blank(byte))
        .unwrap_or(start);
    &text[start..=end]
}

#[cfg(test)]
mod tests {
    use super::{Field, fields};

    #[test]
    fn sloppy_lines_are_understood() {
        for (line, expected) in [
            ("  USER-AGENT :x ", Some(Field::UserAgent(b"x"))),
            ("Disallow /a", Some(Field::Disallow(b"/a"))),
            ("Disallow /a b", None),
            ("Disallow /a:b", Some(Field::Disallow(b"/a:b"))),
            (
                "Sitemap https://x.test/",
                Some(Field::Sitemap(b"https://x.test/")),
            ),
            ("Nonsense: Disallow /a", None),
            ("Disallow", None),
            ("Allow:/a#b", Some(Field::Allow(b"/a"))),
            (
                "Sitemap: https://x.test/",
                Some(Field::Sitemap(b"https://x.test/")),
            ),
            ("Crawl-delay: 2 # please", Some(Field::CrawlDelay(b"2"))),
            ("# Disallow: /", None),
            ("Noindex: /", None),
        ] {
            assert_eq!(fields(line.as_bytes()).next(), expected, "{line}");
        }
    }
}
