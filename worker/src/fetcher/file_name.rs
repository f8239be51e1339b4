//! The name that an answer gives its file (RFC 6266), made safe to be used as one.

use http::{HeaderMap, header};

/// Longest name in bytes: what usual file systems take.
const MAX_BYTES: usize = 255;

/// The name in Content-Disposition, without folders, control characters, and dots or blanks at its ends. `None` when
/// there is none or nothing is left of it.
pub fn file_name(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_DISPOSITION)?.as_bytes();
    let (text, _) = encoding_rs::UTF_8.decode_without_bom_handling(value);
    let text = match text.contains('\u{fffd}') {
        true => encoding_rs::mem::decode_latin1(value),
        false => text,
    };
    let parameters = parameters(&text);
    let named = |wanted: &str| {
        let found = parameters.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    };
    let extended = named("filename*")
        .and_then(extended)
        .and_then(|name| safe(&name));
    extended.or_else(|| named("filename").and_then(safe))
}

/// The parameters behind the disposition type, names in lower case, quotes taken off.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = match text.find(';') {
        Some(at) => &text[at + 1..],
        // Some servers leave the type out.
        None if text.contains('=') => text,
        None => return found,
    };
    while !rest.trim().is_empty() {
        let (name, after) = match rest.find(['=', ';']) {
            Some(at) if rest[at..].starts_with('=') => (&rest[..at], rest[at + 1..].trim_start()),
            Some(at) => {
                rest = &rest[at + 1..];
                continue;
            }
            None => break,
        };
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim().to_owned(), &after[end..])
            }
        };
        found.push((name.trim().to_ascii_lowercase(), value));
        rest = after.find(';').map_or("", |at| &after[at + 1..]);
    }
    found
}

/// The text up to the closing quote, and what follows it. A backslash hides only a quote or another one: a lone one
/// is a separator that somebody forgot to escape.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => match text[at + 1..].chars().next() {
                Some(next @ ('"' | '\\')) => {
                    value.push(next);
                    letters.next();
                }
                Some(_) | None => value.push('\\'),
            },
            other => value.push(other),
        }
    }
    (value, "")
}

/// The text of an extended value, `charset'language'escaped` (RFC 8187, 3.2); `None` when it is none.
fn extended(value: &str) -> Option<String> {
    let mut parts = value.splitn(3, '\'');
    let (charset, _language, escaped) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = unescaped(escaped)?;
    if charset.eq_ignore_ascii_case("iso-8859-1") {
        return Some(encoding_rs::mem::decode_latin1(&bytes).into_owned());
    }
    let encoding = encoding_rs::Encoding::for_label(charset.as_bytes())?;
    let text = encoding.decode_without_bom_handling_and_without_replacement(&bytes)?;
    Some(text.into_owned())
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

fn safe(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let shown: String = last.chars().filter(|letter| !letter.is_control()).collect();
    let at_ends = |letter: char| letter == '.' || letter.is_whitespace();
    let name = shown.trim_matches(at_ends);
    if name.len() <= MAX_BYTES {
        return Some(name.to_owned()).filter(|name| !name.is_empty());
    }
    // A long name keeps its ending: it says what the file is.
    let ending = name.rfind('.').map_or("", |at| &name[at..]);
    let ending = if ending.len() > 16 { "" } else { ending };
    let stem = &name[..name.len() - ending.len()];
    let stem = &stem[..stem.floor_char_boundary(MAX_BYTES - ending.len())];
    Some(format!("{}{ending}", stem.trim_end_matches(at_ends)))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};
    use proptest::prelude::*;

    use super::file_name;

    fn named(value: &[u8]) -> Option<String> {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(value).ok()?;
        headers.insert(header::CONTENT_DISPOSITION, value);
        file_name(&headers)
    }

    #[test]
    fn the_extended_form_wins_where_it_is_valid() {
        for (value, name) in [
            (&b"attachment; filename=a.txt"[..], Some("a.txt")),
            (b"attachment; filename=\"a b.txt\"; x=y", Some("a b.txt")),
            (b"attachment;FILENAME = \"a;b.txt\" ;x", Some("a;b.txt")),
            (b"attachment; filename=a b.txt", Some("a b.txt")),
            (b"inline", None),
            (b"filename=a.txt", Some("a.txt")),
            (b"attachment; xfilename=no; filename=yes", Some("yes")),
            (b"attachment; filename=one; filename=two", Some("one")),
            (
                b"attachment; filename=x; filename*=UTF-8''%e2%82%ac.txt",
                Some("\u{20ac}.txt"),
            ),
            (
                b"attachment; filename=x; filename*=iso-8859-1'en'%A3",
                Some("\u{a3}"),
            ),
            (
                b"attachment; filename=x; filename*=UTF-8''%e2%82",
                Some("x"),
            ),
            (b"attachment; filename=x; filename*=UTF-8''%zz", Some("x")),
            (b"attachment; filename=x; filename*=nonsense", Some("x")),
            (
                b"attachment; filename=x; filename*=UTF-8''%2e%2e%2f",
                Some("x"),
            ),
            (b"attachment; filename=\"caf\xc3\xa9\"", Some("caf\u{e9}")),
            (b"attachment; filename=\"caf\xe9\"", Some("caf\u{e9}")),
            (
                b"attachment; filename=\"say \\\"x\\\".txt\"",
                Some("say \"x\".txt"),
            ),
            (b"attachment; filename=\"open", Some("open")),
            (b";;;=;", None),
        ] {
            assert_eq!(named(value).as_deref(), name, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn no_name_leaves_its_folder() {
        for (value, name) in [
            (&b"a; filename=\"../../etc/passwd\""[..], Some("passwd")),
            (b"a; filename=\"C:\\temp\\a.txt\"", Some("a.txt")),
            (b"a; filename=\"C:\\\\temp\\\\a.txt\"", Some("a.txt")),
            (b"a; filename=\"..\"", None),
            (b"a; filename=\" . \"", None),
            (b"a; filename=\"/\"", None),
            (b"a; filename=\".htaccess\"", Some("htaccess")),
            (b"a; filename*=UTF-8''a%00b%0a.txt", Some("ab.txt")),
        ] {
            assert_eq!(named(value).as_deref(), name, "{}", value.escape_ascii());
        }
        let long = format!("a; filename=\"{}.html\"", "\u{e9}".repeat(300));
        let name = named(long.as_bytes()).unwrap();
        assert!(name.len() <= 255 && name.ends_with("\u{e9}.html"), "{name}");
    }

    proptest! {
        #[test]
        fn every_name_is_safe(value in proptest::collection::vec(0x20_u8.., 0..400)) {
            if let Some(name) = named(&value) {
                prop_assert!(!name.is_empty() && name.len() <= 255);
                let is_bad = |letter: char| letter.is_control() || "/\\".contains(letter);
                prop_assert!(!name.contains(is_bad));
                prop_assert!(!name.starts_with('.') && !name.ends_with('.'));
            }
        }
    }
}
