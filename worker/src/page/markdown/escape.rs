//! Which characters of text would be taken for Markdown, and how they are kept from it.

/// What is around a piece of text.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    /// It stands in a cell of a table.
    pub(super) is_cell: bool,
    /// It is struck out.
    pub(super) is_struck: bool,
    /// What comes behind it is not known.
    pub(super) is_open_ended: bool,
}

/// Escapes a piece of text behind what was written already.
pub(super) fn push_text(out: &mut String, word: &str, place: Place) {
    let mut letters = word.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        let is_unknown = next.is_none() && place.is_open_ended;
        let before = out.chars().next_back();
        let is_special = match letter {
            '\\' | '`' | '*' | '[' | ']' => true,
            '_' => !(is_word(before) && is_word(next)),
            // One or two of them strike out what is before a closing one, which has no blank before it.
            '~' => {
                let may_close = before.is_some_and(|before| !before.is_whitespace());
                may_close || is_unknown || next == Some('~') || place.is_struck
            }
            '<' => {
                let begins_tag = |next: char| next.is_ascii_alphabetic() || "/!?".contains(next);
                is_unknown || next.is_some_and(begins_tag)
            }
            '&' => begins_entity(&word[at + 1..]) || is_unknown,
            '|' => place.is_cell,
            _ => false,
        };
        if is_special && letter == '<' {
            // Not a backslash: readers that look for tags before Markdown must not find one either.
            out.push_str("&lt;");
            continue;
        }
        if is_special {
            out.push('\\');
        }
        out.push(letter);
    }
}

fn is_word(letter: Option<char>) -> bool {
    letter.is_some_and(char::is_alphanumeric)
}

/// Whether a text behind an ampersand goes on like a character reference.
fn begins_entity(text: &str) -> bool {
    const LONGEST: usize = 33;
    let name = text.strip_prefix('#').unwrap_or(text);
    let length = name
        .bytes()
        .take(LONGEST)
        .take_while(u8::is_ascii_alphanumeric)
        .count();
    length > 0 && name.as_bytes().get(length) == Some(&b';')
}

/// Escapes what would begin a block at the start of a line. Our own inline marks never begin like that.
pub(super) fn line_starts(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        match escape_at(line) {
            Some(at) => {
                out.push_str(&line[..at]);
                out.push('\\');
                out.push_str(&line[at..]);
            }
            None => out.push_str(line),
        }
    }
    out
}

/// Where a line needs an escape.
fn escape_at(line: &str) -> Option<usize> {
    let first = line.chars().next()?;
    let ends_mark = |rest: &str| rest.is_empty() || rest.starts_with([' ', '\t']);
    match first {
        '#' => ends_mark(line.trim_start_matches('#')).then_some(0),
        '>' => Some(0),
        '+' => ends_mark(&line[1..]).then_some(0),
        '-' | '=' => {
            let is_rule = line.chars().all(|letter| letter == first || letter == ' ');
            (is_rule || (first == '-' && ends_mark(&line[1..]))).then_some(0)
        }
        digit if digit.is_ascii_digit() => {
            let digits = line.bytes().take_while(u8::is_ascii_digit).count();
            let rest = line.get(digits..)?;
            let is_number = digits <= 9 && rest.starts_with(['.', ')']);
            (is_number && ends_mark(&rest[1..])).then_some(digits)
        }
        _ => None,
    }
}

/// Flat text as Markdown: every line a paragraph.
pub(in crate::page) fn escaped_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for line in text.lines() {
        let mut escaped = String::with_capacity(line.len());
        push_text(&mut escaped, line, Place::default());
        out.push_str(&line_starts(&escaped));
        out.push_str("\n\n");
    }
    out
}

/// An address for the brackets of a link.
pub(super) fn destination(url: &str) -> String {
    let mut out = String::with_capacity(url.len());
    for letter in url.chars() {
        match letter {
            '(' => out.push_str("%28"),
            ')' => out.push_str("%29"),
            '<' => out.push_str("%3C"),
            '>' => out.push_str("%3E"),
            '\\' => out.push_str("%5C"),
            '|' => out.push_str("%7C"),
            blank if blank.is_whitespace() || blank.is_control() => out.push_str("%20"),
            other => out.push(other),
        }
    }
    out
}

/// A title behind an address.
pub(super) fn title(text: &str) -> String {
    let text = crate::page::collapsed(text);
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!(" \"{text}\"")
}
