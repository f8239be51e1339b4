//! Watches a document for declarations of entities: they are never expanded, and one is reason enough to refuse the
//! document, wherever it stands.

/// The longest beginning that is told apart.
const LONGEST: usize = "<![CDATA[".len();

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Entities {
    within: Within,
    /// The end of what was looked at, where it may be the beginning of something.
    rest: String,
    are_declared: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    Comment,
    Cdata,
}

impl Entities {
    /// Looks at the next piece of the document.
    pub(super) fn look(&mut self, piece: &str) {
        if self.are_declared {
            return;
        }
        let mut text = std::mem::take(&mut self.rest);
        text.push_str(piece);
        let mut rest = text.as_str();
        loop {
            let mark = match self.within {
                Within::Nothing => "<!",
                Within::Comment => "-->",
                Within::Cdata => "]]>",
            };
            let Some(at) = rest.find(mark) else {
                self.rest = tail(rest, mark.len() - 1).to_owned();
                return;
            };
            if self.within != Within::Nothing {
                rest = &rest[at + mark.len()..];
                self.within = Within::Nothing;
                continue;
            }
            rest = &rest[at..];
            if rest.len() < LONGEST {
                self.rest = rest.to_owned();
                // A short end is looked at once more when the document is over.
                self.are_declared = is_declaration(rest);
                return;
            }
            self.are_declared = is_declaration(rest);
            if self.are_declared {
                return;
            }
            // `<!-->` is a whole comment, so the end may overlap the start.
            if rest.starts_with("<!--") {
                self.within = Within::Comment;
            } else if rest.starts_with("<![CDATA[") {
                self.within = Within::Cdata;
            }
            rest = &rest[2..];
        }
    }

    /// Whether an entity was declared in what was looked at.
    pub(super) const fn are_declared(&self) -> bool {
        self.are_declared
    }
}

fn is_declaration(text: &str) -> bool {
    let head = text.get(.."<!ENTITY".len());
    head.is_some_and(|head| head.eq_ignore_ascii_case("<!ENTITY"))
}

/// The last `most` bytes of a text, or fewer, so that no letter is cut.
fn tail(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

#[cfg(test)]
mod tests {
    use super::Entities;

    fn declares(text: &str, piece: usize) -> bool {
        let mut entities = Entities::default();
        let letters: Vec<char> = text.chars().collect();
        for part in letters.chunks(piece) {
            entities.look(&part.iter().collect::<String>());
        }
        entities.are_declared()
    }

    #[test]
    fn declarations_are_seen_outside_of_comments_and_data_however_the_text_is_cut() {
        for (text, expected) in [
            ("<!DOCTYPE x [<!ENTITY a 'b'>]>", true),
            ("<!doctype x [ <!entity", true),
            ("<!-- <!ENTITY a --> é <![CDATA[ <!ENTITY b ]]> <!", false),
            ("<!--> <!ENTITY a", true),
            ("<![CDATA[ ]]><!ENTITY", true),
            ("<!-- never closed <!ENTITY a", false),
            ("< !ENTITY <!ENTIT <!ENTIT", false),
            ("<!-<!ENTITY", true),
        ] {
            for piece in [1, 2, 3, 7, 1000] {
                assert_eq!(declares(text, piece), expected, "{text} by {piece}");
            }
        }
    }
}
