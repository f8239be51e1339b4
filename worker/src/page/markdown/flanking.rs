//! Where a mark of emphasis is taken for one (CommonMark, 6.2): not between a word and punctuation.

/// Whether a text begins with a letter of a word: no blank and no punctuation.
pub(super) fn begins_word(text: &str) -> bool {
    text.chars().next().is_some_and(is_word)
}

/// Whether a text ends with a letter of a word.
pub(super) fn ends_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

/// Whether a text begins with punctuation.
pub(super) fn begins_sharp(text: &str) -> bool {
    text.chars().next().is_some_and(is_sharp)
}

/// Whether a text ends with punctuation.
pub(super) fn ends_sharp(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_sharp)
}

/// The text without the punctuation at its end, as far as that is no markup and no escape.
pub(super) fn without_end(text: &str) -> &str {
    let rest = text.trim_end_matches(|letter| is_sharp(letter) && !is_markup(letter));
    // What is left must end in a word, or the mark would be none there either.
    if ends_word(rest) { rest } else { "" }
}

/// The text without the punctuation at its start, as far as that is no markup and no escape.
pub(super) fn without_start(text: &str) -> &str {
    let rest = text.trim_start_matches(|letter| is_sharp(letter) && !is_markup(letter));
    if begins_word(rest) { rest } else { text }
}

/// Characters that may be part of a mark, a link, an escape or a reference.
fn is_markup(letter: char) -> bool {
    matches!(
        letter,
        '\\' | '`'
            | '*'
            | '_'
            | '['
            | ']'
            | '('
            | ')'
            | '<'
            | '>'
            | '&'
            | ';'
            | '~'
            | '|'
            | '#'
            | '!'
    )
}

fn is_word(letter: char) -> bool {
    !letter.is_whitespace() && !is_sharp(letter)
}

/// Punctuation and symbols, near enough: those of ASCII and the blocks that hold the usual others.
fn is_sharp(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || matches!(
            letter,
            '\u{a1}'..='\u{a9}'
                | '\u{ab}'..='\u{b1}'
                | '\u{b4}'
                | '\u{b6}'..='\u{b8}'
                | '\u{bb}'
                | '\u{bf}'
                | '\u{d7}'
                | '\u{f7}'
                | '\u{2010}'..='\u{2027}'
                | '\u{2030}'..='\u{205e}'
                | '\u{20a0}'..='\u{20cf}'
                | '\u{2190}'..='\u{2bff}'
                | '\u{3001}'..='\u{3003}'
                | '\u{3008}'..='\u{3020}'
                | '\u{ff01}'..='\u{ff0f}'
                | '\u{ff1a}'..='\u{ff20}'
                | '\u{ff3b}'..='\u{ff40}'
                | '\u{ff5b}'..='\u{ff65}'
                | '\u{1f000}'..='\u{1faff}'
        )
}
