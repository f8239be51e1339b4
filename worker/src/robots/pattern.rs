//! Rules and paths in one spelling, and the match of one with the other.
//!
//! Escapes of unreserved characters are decoded, every other octet that is not a plain URL character is escaped with
//! upper-case digits. A `*` or `$` of the path is escaped too, so that it meets `%2A` and `%24` of a rule and never
//! its wildcards.

/// A rule, cut at its wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// What the path must begin with.
    prefix: String,
    /// What must follow somewhere, in order.
    parts: Vec<String>,
    /// Whether the last piece must be the end of the path.
    is_anchored: bool,
}

impl Pattern {
    /// Reads the value of an allow or disallow line.
    pub(super) fn new(rule: &[u8]) -> Self {
        let (rule, is_anchored) = match rule.strip_suffix(b"$") {
            Some(rest) => (rest, true),
            None => (rule, false),
        };
        let mut pieces = rule.split(|byte| *byte == b'*').map(normalised);
        let prefix = pieces.next().unwrap_or_default();
        let parts: Vec<String> = pieces.collect();
        Self {
            prefix,
            parts,
            is_anchored,
        }
    }

    /// Whether the rule applies to a path that [`normalised_path`] gave.
    ///
    /// Taking the first place for every piece is enough: what follows has the most room then.
    pub(super) fn matches(&self, path: &str) -> bool {
        let Some(mut rest) = path.strip_prefix(self.prefix.as_str()) else {
            return false;
        };
        let Some((last, middle)) = self.parts.split_last() else {
            return !self.is_anchored || rest.is_empty();
        };
        for part in middle {
            match rest.find(part.as_str()) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        if self.is_anchored {
            rest.ends_with(last.as_str())
        } else {
            rest.contains(last.as_str())
        }
    }
}

/// Path and query of a URL in the spelling that rules are kept in.
pub(super) fn normalised_path(path: &str) -> String {
    normalised(path.as_bytes())
}

fn normalised(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut at = 0;
    while let Some(byte) = text.get(at).copied() {
        let escaped = match text.get(at..at + 3) {
            Some([b'%', high, low]) => hex_value(*high).zip(hex_value(*low)),
            Some(_) | None => None,
        };
        match escaped {
            Some((high, low)) => {
                let value = high * 16 + low;
                if is_unreserved(value) {
                    out.push(char::from(value));
                } else {
                    push_escaped(&mut out, value);
                }
                at += 3;
            }
            None => {
                if is_plain(byte) {
                    out.push(char::from(byte));
                } else {
                    push_escaped(&mut out, byte);
                }
                at += 1;
            }
        }
    }
    out
}

fn hex_value(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

fn push_escaped(out: &mut String, byte: u8) {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    out.push('%');
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Characters that URLs keep as they are. A quote is none of them: the URL standard escapes it in queries only.
fn is_plain(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'%' | b'/'
                | b':'
                | b'?'
                | b'#'
                | b'@'
                | b'!'
                | b'&'
                | b'('
                | b')'
                | b'+'
                | b','
                | b';'
                | b'='
        )
}
