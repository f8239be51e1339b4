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
        for part in value.split(',') {
            let directive = match part.split_once(':') {
                Some((name, _)) if is_any_of(name.trim(), &WITH_VALUE) => continue,
                Some((name, directive)) => {
                    is_ours = name.trim().eq_ignore_ascii_case(ours) || name.trim() == "*";
                    directive
                }
                None => part,
            };
            if is_ours {
                asked.add(directive.trim());
            }
        }
    }
    asked
}

fn is_any_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The targets of a Link header that have this relation (RFC 8288).
pub(super) fn link_targets<'a>(values: &'a [String], relation: &str) -> Vec<&'a str> {
    let mut targets = Vec::new();
    for value in values {
        let mut rest = value.as_str();
        while let Some((_, after)) = rest.split_once('<') {
            let Some((target, parameters)) = after.split_once('>') else {
                break;
            };
            let end = end_of_parameters(parameters);
            if has_relation(&parameters[..end], relation) {
                targets.push(target.trim());
            }
            rest = &parameters[end..];
        }
    }
    targets
}

/// Where the next link begins: at a comma outside quotes.
fn end_of_parameters(text: &str) -> usize {
    let mut is_quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return at,
            _ => {}
        }
    }
    text.len()
}

fn has_relation(parameters: &str, relation: &str) -> bool {
    // The first `rel` counts, later ones are ignored (RFC 8288, 3.3).
    let rel = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_rel = name.trim().eq_ignore_ascii_case("rel");
        is_rel.then(|| value.trim().trim_matches('"'))
    });
    let mut words = rel.unwrap_or_default().split_ascii_whitespace();
    words.any(|word| word.eq_ignore_ascii_case(relation))
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
