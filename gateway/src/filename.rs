//! The name that a download would be saved under; never a path.

use proto::CrawlUrl;

const LONGEST: usize = 200;

/// The name that the server gives (RFC 6266), or the last part of the address.
pub(crate) fn of(disposition: &str, url: &str) -> String {
    let given = extended(disposition).or_else(|| plain(disposition));
    let last = || {
        let url = CrawlUrl::parse(url).ok()?;
        let last = url.url().path_segments()?.rfind(|part| !part.is_empty());
        last.map(|part| decoded(part.as_bytes()))
    };
    let name = given.and_then(|name| harmless(&name));
    let name = name.or_else(|| last().and_then(|name| harmless(&name)));
    name.unwrap_or_else(|| "download".to_owned())
}

/// `filename*=UTF-8''name` (RFC 8187); its own character set is the only one in use.
fn extended(disposition: &str) -> Option<String> {
    let value = parameter(disposition, "filename*")?;
    let (charset, rest) = value.split_once('\'')?;
    let (_, name) = rest.split_once('\'')?;
    charset
        .eq_ignore_ascii_case("utf-8")
        .then(|| decoded(name.as_bytes()))
}

fn plain(disposition: &str) -> Option<String> {
    parameter(disposition, "filename")
}

/// The value of a parameter, quotes taken off.
fn parameter(header: &str, wanted: &str) -> Option<String> {
    let mut rest = header.split_once(';')?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => unquoted(quoted),
            None => {
                let end = after.find(';').unwrap_or(after.len());
                let (value, left) = after.split_at(end);
                (value.trim().to_owned(), left)
            }
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = left.trim_start().strip_prefix(';')?;
    }
}

/// A quoted string up to its closing quote, and what follows it.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, text.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            other => value.push(other),
        }
    }
    (value, "")
}

fn decoded(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3);
        let code = digits
            .filter(|_| *byte == b'%')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(code.unwrap_or(*byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The name without folders, control characters and what systems refuse; nothing where nothing is left.
fn harmless(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept = last
        .chars()
        .filter(|letter| !letter.is_control() && !":*?\"<>|".contains(*letter));
    let mut kept: String = kept.collect();
    kept.truncate(kept.floor_char_boundary(LONGEST));
    let kept = kept.trim().trim_matches('.').to_owned();
    (!kept.is_empty()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_name_is_found_and_is_never_a_path() {
        let url = "https://a.test/files/report%20one.pdf?x=1";
        for (disposition, wanted) in [
            ("", "report one.pdf"),
            ("attachment", "report one.pdf"),
            ("attachment; filename=plain.pdf", "plain.pdf"),
            (r#"attachment; filename="a; \"b\".pdf"; size=3"#, "a; b.pdf"),
            (
                "attachment; filename=x.pdf; filename*=UTF-8''%e2%82%ac%20.pdf",
                "€ .pdf",
            ),
            (r#"attachment; filename="../../etc/passwd""#, "passwd"),
            (r#"attachment; filename="..""#, "report one.pdf"),
            ("attachment; filename*=latin1'en'x", "report one.pdf"),
        ] {
            assert_eq!(of(disposition, url), wanted, "{disposition}");
        }
        assert_eq!(of("", "https://a.test/"), "download");
        assert_eq!(of("", "https://a.test/a/%2e%2e%2fb"), "b");
    }
}
