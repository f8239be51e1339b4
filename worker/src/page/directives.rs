//! What headers and meta elements ask of robots, and the Link header.

/// What a page asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) noindex: bool,
    pub(super) nofollow: bool,
}

impl Asked {
    /// Both together: the stricter wins.
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            noindex: self.noindex || other.noindex,
            nofollow: self.nofollow || other.nofollow,
        }
    }

    /// Takes words between blanks where each is a directive; other sentences say nothing.
    fn add_all(&mut self, directives: &str) {
        let words = || directives.split_ascii_whitespace();
        let is_known = |word: &str| {
            is_any_of(word, &["noindex", "nofollow", "none"]) || is_any_of(word, &OTHERS)
        };
        if words().count() == 1 || words().all(is_known) {
            words().for_each(|word| self.add(word));
        }
    }

    fn add(&mut self, directive: &str) {
        let is = |word: &str| directive.eq_ignore_ascii_case(word);
        self.noindex |= is("noindex") || is("none");
        self.nofollow |= is("nofollow") || is("none");
    }
}

/// Directives that have a value behind a colon; any other word before one names a robot.
const WITH_VALUE: [&str; 4] = [
    "unavailable_after",
    "max-snippet",
    "max-image-preview",
    "max-video-preview",
];

/// Directives without a value, beside those that are heeded.
const OTHERS: [&str; 8] = [
    "all",
    "index",
    "follow",
    "noarchive",
    "nosnippet",
    "noimageindex",
    "notranslate",
    "indexifembedded",
];

/// What the content of a robots meta element asks.
pub(super) fn of_content(content: &str) -> Asked {
    let mut asked = Asked::default();
    for directive in content.split([',', ';', ' ', '\t', '\n', '\r']) {
        asked.add(directive.trim());
    }
    asked
}

/// What X-Robots-Tag headers ask of everybody and of `agent`. A robot's name holds to the end of its line.
pub(super) fn of_headers(values: &[String], agent: &str) -> Asked {
    let ours = agent.split('/').next().unwrap_or(agent);
    let mut asked = Asked::default();
    for value in values {
        let mut is_ours = true;
        for part in value.split([',', ';']) {
            let directive = match part.split_once(':') {
                Some((name, _)) if is_any_of(name.trim(), &WITH_VALUE) => continue,
                Some((name, directive)) if is_robot(name.trim()) => {
                    is_ours = name.trim().eq_ignore_ascii_case(ours) || name.trim() == "*";
                    directive
                }
                // The rest of a date that has a comma in it, or nonsense.
                Some(_) => continue,
                None => part,
            };
            if is_ours {
                asked.add_all(directive);
            }
        }
    }
    asked
}

/// Whether a text may be the name of a robot.
fn is_robot(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    name == "*" || (!name.is_empty() && name.bytes().all(is_token))
}

fn is_any_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The targets of a Link header that have this relation to the page (RFC 8288).
pub(super) fn link_targets<'a>(values: &'a [String], relation: &str) -> Vec<&'a str> {
    let mut targets = Vec::new();
    for value in values {
        let mut rest = value.as_str();
        while let Some((_, after)) = rest.split_once('<') {
            let Some((target, parameters)) = after.split_once('>') else {
                break;
            };
            let (relations, later) = relations(parameters);
            let mut words = relations.split_ascii_whitespace();
            if words.any(|word| word.eq_ignore_ascii_case(relation)) {
                targets.push(target.trim());
            }
            rest = later;
        }
    }
    targets
}

/// The relations that a link's parameters name, none where they are those of another page, and what follows the link.
fn relations(parameters: &str) -> (String, &str) {
    let mut rel: Option<String> = None;
    let mut is_of_another = false;
    let mut rest = parameters;
    loop {
        rest = rest.trim_start_matches(|letter| letter == ';' || is_blank(letter));
        if rest.is_empty() || rest.starts_with(',') {
            break;
        }
        let end = rest.find(['=', ';', ',']).unwrap_or(rest.len());
        let name = rest[..end].trim_end();
        let value;
        (value, rest) = match rest[end..].strip_prefix('=') {
            Some(after) => parameter_value(after.trim_start_matches(is_blank)),
            None => (String::new(), &rest[end..]),
        };
        if name.eq_ignore_ascii_case("rel") {
            // The first counts, later ones are ignored (RFC 8288, 3.3).
            rel.get_or_insert(value);
        } else if name.eq_ignore_ascii_case("anchor") {
            is_of_another = !value.is_empty();
        }
    }
    let rel = rel.filter(|_| !is_of_another);
    (rel.unwrap_or_default(), rest)
}

/// A parameter's value, quoted or bare, and what follows it.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(inner) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([';', ',']).unwrap_or(text.len()));
        return (value.trim().to_owned(), rest);
    };
    let mut value = String::new();
    let mut letters = inner.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &inner[at + 1..]),
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

/// Where a meta refresh leads, if it says so (HTML, "shared declarative refresh steps").
pub(super) fn refresh_target(content: &str) -> Option<&str> {
    let text = content.trim_start_matches(is_blank);
    let after_number = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    if after_number.len() == text.len() && !text.starts_with('.') {
        return None;
    }
    let rest =
        after_number.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if !rest.starts_with(|letter| matches!(letter, ';' | ',') || is_blank(letter)) {
        return None;
    }
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest);
    let rest = rest.trim_start_matches(is_blank);
    let target = after_url_sign(rest).unwrap_or(rest);
    let target = match target.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let inner = &target[1..];
            inner.split(quote).next().unwrap_or(inner)
        }
        Some(_) | None => target,
    };
    Some(target.trim_matches(is_blank)).filter(|target| !target.is_empty())
}

/// What follows `url =`; `None` where that is not there.
fn after_url_sign(text: &str) -> Option<&str> {
    let start = text.get(..3)?;
    if !start.eq_ignore_ascii_case("url") {
        return None;
    }
    let rest = text[3..].trim_start_matches(is_blank);
    rest.strip_prefix('=')
        .map(|rest| rest.trim_start_matches(is_blank))
}

fn is_blank(letter: char) -> bool {
    letter.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::{link_targets, of_headers};

    #[test]
    fn headers_for_robots_are_read_line_by_line_and_name_by_name() {
        for (lines, expected) in [
            (&["noindex"][..], (true, false)),
            (&["NoIndex, NOFOLLOW"], (true, true)),
            (&["none"], (true, true)),
            (&["noindex nofollow"], (true, true)),
            (&["noindex; nofollow"], (true, true)),
            (&["otherbot: noindex, nofollow"], (false, false)),
            (&["otherbot: noindex", "nofollow"], (false, true)),
            (&["nofollow, otherbot: noindex"], (false, true)),
            (&["crawlforge: noindex"], (true, false)),
            (&["otherbot: none, *: nofollow"], (false, true)),
            (
                &["unavailable_after: 25 Jun 2010 15:00:00 PST, noindex"],
                (true, false),
            ),
            (
                &["unavailable_after: Friday, 25-Jun-10 15:00:00 UTC, nofollow"],
                (false, true),
            ),
            (&["max-snippet:-1, max-image-preview:large"], (false, false)),
            (&["we like noindex"], (false, false)),
            (&["googlebot noindex"], (false, false)),
            (&["", ",", ":", ": noindex"], (false, false)),
        ] {
            let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
            let asked = of_headers(&lines, "CrawlForge/1.0");
            assert_eq!((asked.noindex, asked.nofollow), expected, "{lines:?}");
        }
    }

    #[test]
    fn links_of_headers_have_the_relation_that_their_first_rel_says() {
        for (header, expected) in [
            ("</a>; rel=canonical", &["/a"][..]),
            (
                "</a>;rel=\"next CANONICAL\" , </b>; rel=canonical",
                &["/a", "/b"],
            ),
            ("</a>; title=\"x, <y>; rel=canonical\"; rel=next", &[]),
            ("</a>; title=\"q\\\"; rel=canonical\"", &[]),
            ("</a>; rel=next; rel=canonical", &[]),
            ("</a,b;c>; rel=canonical", &["/a,b;c"]),
            ("</a>; anchor=\"/other\"; rel=canonical", &[]),
            ("</a>; crossorigin; REL = canonical", &["/a"]),
            ("</a; rel=canonical", &[]),
            ("</a>; rel=\"canonical", &["/a"]),
        ] {
            let headers = [header.to_owned()];
            assert_eq!(link_targets(&headers, "canonical"), expected, "{header}");
        }
    }
}
