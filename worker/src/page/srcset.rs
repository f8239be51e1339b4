//! The addresses of a `srcset` attribute (HTML, "parse a srcset attribute").

/// Most candidates that are taken from one attribute.
const MAX_CANDIDATES: usize = 100;

/// The addresses, in order, without their descriptors.
pub(super) fn candidates(set: &str) -> Vec<&str> {
    let is_blank = |letter: char| letter.is_ascii_whitespace();
    let mut found = Vec::new();
    let mut rest = set;
    while found.len() < MAX_CANDIDATES {
        rest = rest.trim_start_matches(|letter| letter == ',' || is_blank(letter));
        if rest.is_empty() {
            break;
        }
        let (address, after) = rest.split_at(rest.find(is_blank).unwrap_or(rest.len()));
        let bare = address.trim_end_matches(',');
        found.push(bare);
        // A comma right behind the address ends the candidate; else its descriptors go on to the next one.
        rest = if bare.len() < address.len() {
            after
        } else {
            behind_descriptors(after)
        };
    }
    found
}

/// What follows the comma behind the descriptors; one inside of brackets is none.
fn behind_descriptors(text: &str) -> &str {
    let mut is_bracketed = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => is_bracketed = true,
            ')' => is_bracketed = false,
            ',' if !is_bracketed => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::candidates;

    #[test]
    fn commas_belong_to_addresses_unless_a_blank_follows_them() {
        for (set, expected) in [
            ("a.png 1x, b.png 2x", &["a.png", "b.png"][..]),
            ("a.png,b.png 2x", &["a.png,b.png"]),
            ("a.png, b.png", &["a.png", "b.png"]),
            (" ,, a.png 100w 50h,\n\tb.png(,) ", &["a.png", "b.png(,)"]),
            (
                "data:image/png;base64,AA== 1x, b.png 2x",
                &["data:image/png;base64,AA==", "b.png"],
            ),
            ("a.png x(1, 2) 3x, b.png", &["a.png", "b.png"]),
            ("a.png 1x", &["a.png"]),
            (" , ", &[]),
            ("", &[]),
        ] {
            assert_eq!(candidates(set), expected, "{set:?}");
        }
    }
}
