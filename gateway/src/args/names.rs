//! Names as callers spell them, and the nearest known one to a misspelt one.

use super::Param;

/// `maxPages` and `max_pages` are one name; a run of capitals, as in `includeRawHTML`, is one word.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    let mut was_small = false;
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && was_small {
            out.push('_');
        }
        was_small = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// What is said of an argument that the tool does not have.
pub(super) fn unknown(params: &'static [Param], key: &str) -> String {
    let names = params
        .iter()
        .flat_map(|p| std::iter::once(p.name).chain(p.aliases.iter().copied()));
    let nearest = names.map(|name| (distance(name, key), name)).min();
    match nearest {
        Some((far, name)) if far <= 3.max(key.len() / 2) => {
            format!("is not an argument of this tool; did you mean `{name}`?")
        }
        Some(_) => {
            let known: Vec<_> = params.iter().map(|p| p.name).collect();
            format!(
                "is not an argument of this tool; it takes {}",
                known.join(", ")
            )
        }
        None => "is not an argument of this tool; it takes none".to_owned(),
    }
}

/// How many letters have to change.
pub(crate) fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, a) in left.chars().enumerate() {
        let mut diagonal = line;
        let mut before = line + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(&right) {
            let kept = diagonal + usize::from(a != *b);
            diagonal = *cell;
            before = kept.min(*cell + 1).min(before + 1);
            *cell = before;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{distance, snake};

    #[test]
    fn both_spellings_are_one_name() {
        for (given, name) in [
            ("maxPages", "max_pages"),
            ("max_pages", "max_pages"),
            ("includeRawHTML", "include_raw_html"),
            ("detectAPIs", "detect_apis"),
            ("URL", "url"),
        ] {
            assert_eq!(snake(given), name);
        }
    }

    #[test]
    fn distance_counts_changed_letters() {
        assert_eq!(distance("max_pages", "max_page"), 1);
        assert_eq!(distance("url", "urls"), 1);
        assert_eq!(distance("abc", "xyz"), 3);
    }
}
