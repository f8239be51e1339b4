//! Keeps tags from having attributes without an end: a tokenizer compares each with all before it.

use std::borrow::Cow;

/// Most attributes that a tag keeps. Pages have a few dozen at most.
const MAX_ATTRIBUTES: usize = 1000;

/// A tag with fewer bytes cannot have too many attributes.
const SHORT: usize = 2 * MAX_ATTRIBUTES;

/// The text with the attributes beyond the bound cut out of each tag. What only looks like a tag, inside a script for
/// example, is treated alike: it would have to go on for a thousand words.
pub(super) fn bounded(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    let bytes = text.as_bytes();
    while let Some(start) = text[at..].find('<') {
        let start = at + start;
        let Some(first) = bytes.get(start + 1) else {
            break;
        };
        if !(first.is_ascii_alphabetic() || *first == b'/') {
            at = start + 1;
            continue;
        }
        let (cut, end) = walk(bytes, start + 1);
        if let Some(cut) = cut {
            out.push_str(&text[copied..cut]);
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Where the attributes beyond the bound begin, if there are any, and where the tag ends: at its `>`.
fn walk(bytes: &[u8], start: usize) -> (Option<usize>, usize) {
    // Most tags are short and hold no quoted `>`.
    let head = &bytes[start..bytes.len().min(start + SHORT)];
    let is_end = |byte: &u8| matches!(byte, b'>' | b'"' | b'\'');
    if let Some(at) = head.iter().position(is_end)
        && head.get(at) == Some(&b'>')
    {
        return (None, start + at);
    }
    let mut count = 0;
    let mut cut = None;
    let mut at = start;
    loop {
        // The tag's name counts as one, too.
        at = skip(bytes, at, |byte| byte.is_ascii_whitespace() || byte == b'/');
        if bytes.get(at).is_none_or(|byte| *byte == b'>') {
            return (cut, at);
        }
        if count > MAX_ATTRIBUTES && cut.is_none() {
            cut = Some(at);
        }
        count += 1;
        // A leading `=` belongs to the name.
        at = skip(bytes, at + 1, |byte| {
            !(byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>' | b'='))
        });
        let value = skip(bytes, at, |byte| byte.is_ascii_whitespace());
        if bytes.get(value) != Some(&b'=') {
            continue;
        }
        at = skip(bytes, value + 1, |byte| byte.is_ascii_whitespace());
        at = match bytes.get(at).copied() {
            Some(quote @ (b'"' | b'\'')) => skip(bytes, at + 1, |byte| byte != quote) + 1,
            Some(_) | None => skip(bytes, at, |byte| {
                !(byte.is_ascii_whitespace() || byte == b'>')
            }),
        }
        .min(bytes.len());
    }
}

fn skip(bytes: &[u8], from: usize, is_skipped: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let length = rest.iter().position(|byte| !is_skipped(*byte));
    from.min(bytes.len()) + length.unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::bounded;

    #[test]
    fn only_what_is_beyond_the_bound_is_cut() {
        let many: String = (0..1500).map(|number| format!(" a{number}='>'")).collect();
        let text = format!("<p title='a>b'>é<b{many}>x</b><i a=\"");
        let cut = bounded(&text).into_owned();
        assert!(cut.starts_with("<p title='a>b'>é<b a0='>' a1='>'"));
        assert!(
            cut.contains(" a999='>' >x</b>"),
            "{}",
            &cut[cut.len() - 60..]
        );
        assert!(cut.ends_with("<i a=\"") && !cut.contains("a1000"));
    }

    #[test]
    fn usual_tags_stay_as_they_are() {
        let long = "x".repeat(5000);
        for text in [
            "<a href=x>y</a><",
            "a < b <3 <!-- <a ' --> </p",
            "<a title=\"",
            "<a = = =>",
            &format!("<a title='{long}'>"),
        ] {
            assert!(matches!(bounded(text), Cow::Borrowed(same) if same == text));
        }
    }
}
