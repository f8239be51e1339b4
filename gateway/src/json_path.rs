//! Paths into JSON: `links[0].url`, `$.headings[*].text`, `..price`, `['a b'][-1]`, `items[2:5]`.
//!
//! The part of RFC 9535 without filters: every step visits a value at most once, so the time is linear in the
//! document for each step.

use serde_json::{Map, Value};

/// Longest path, in steps.
const MOST_STEPS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(i64),
    Slice(Option<i64>, Option<i64>),
    All,
    /// Any value below that has the name.
    Below(String),
}

/// A path that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(Vec<Step>);

impl Path {
    /// Reads a path.
    ///
    /// # Errors
    /// Says what cannot be read and where.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() >= MOST_STEPS {
                return Err(format!("has at most {MOST_STEPS} steps"));
            }
            let at = text.len() - rest.len();
            let wrong = |what: &str| format!("cannot be read at byte {at}: {what}");
            if let Some(below) = rest.strip_prefix("..") {
                if steps.iter().any(|step| matches!(step, Step::Below(_))) {
                    return Err(wrong("`..` may stand once"));
                }
                let (name, left) = plain_name(below);
                if name.is_empty() {
                    return Err(wrong("a name has to follow `..`"));
                }
                steps.push(Step::Below(name.to_owned()));
                rest = left;
            } else if let Some(inside) = rest.strip_prefix('[') {
                let (step, left) = bracket(inside).ok_or_else(|| {
                    wrong("between brackets stands a number, a slice, `*` or a quoted name")
                })?;
                steps.push(step);
                rest = left;
            } else {
                let named = rest.strip_prefix('.');
                if named.is_none() && !steps.is_empty() {
                    return Err(wrong("`.` or `[` has to follow"));
                }
                let (name, left) = plain_name(named.unwrap_or(rest));
                steps.push(match name {
                    "" => return Err(wrong("a name has to follow")),
                    "*" => Step::All,
                    name => Step::Name(name.to_owned()),
                });
                rest = left;
            }
        }
        Ok(Self(steps))
    }

    /// The values that the path leads to, each with its own path, in the order of the document; at most `most`.
    pub(crate) fn find<'a>(
        &self,
        root: &'a Value,
        most: usize,
    ) -> (Vec<(String, &'a Value)>, bool) {
        let mut found = vec![("$".to_owned(), root)];
        for (at, step) in self.0.iter().enumerate() {
            let is_last = at + 1 == self.0.len();
            let bound = if is_last { most + 1 } else { usize::MAX };
            let mut next = Vec::new();
            for (path, value) in found {
                step.follow(&path, value, bound, &mut next);
            }
            found = next;
        }
        let is_cut = found.len() > most;
        found.truncate(most);
        (found, is_cut)
    }
}

/// Up to the next `.` or `[`.
fn plain_name(text: &str) -> (&str, &str) {
    text.split_at(text.find(['.', '[']).unwrap_or(text.len()))
}

/// What stands between brackets, and what follows them.
fn bracket(inside: &str) -> Option<(Step, &str)> {
    if let Some(quote) = inside.chars().next().filter(|c| "'\"".contains(*c)) {
        let (name, left) = inside.get(1..)?.split_once(quote)?;
        return Some((Step::Name(name.to_owned()), left.strip_prefix(']')?));
    }
    let (text, left) = inside.split_once(']')?;
    let text = text.trim();
    if text == "*" {
        return Some((Step::All, left));
    }
    let Some((from, to)) = text.split_once(':') else {
        return Some((Step::Index(text.parse().ok()?), left));
    };
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    };
    Some((Step::Slice(number(from)?, number(to)?), left))
}

impl Step {
    fn follow<'a>(
        &self,
        path: &str,
        value: &'a Value,
        most: usize,
        out: &mut Vec<(String, &'a Value)>,
    ) {
        let has_room = |out: &Vec<_>| out.len() < most;
        match (self, value) {
            (Self::Name(name), Value::Object(fields)) => {
                if let Some(value) = fields.get(name).filter(|_| has_room(out)) {
                    out.push((named(path, name), value));
                }
            }
            (Self::Index(index), Value::Array(list)) => {
                let at = place(*index, list.len());
                if let Some(value) = list.get(at).filter(|_| has_room(out)) {
                    out.push((format!("{path}[{at}]"), value));
                }
            }
            (Self::Slice(from, to), Value::Array(list)) => {
                let bound = |side: &Option<i64>, usual: usize| {
                    side.map_or(usual, |index| place(index, list.len()).min(list.len()))
                };
                let (from, to) = (bound(from, 0), bound(to, list.len()));
                for (at, value) in list.iter().enumerate().take(to).skip(from) {
                    if has_room(out) {
                        out.push((format!("{path}[{at}]"), value));
                    }
                }
            }
            (Self::All, Value::Array(list)) => {
                for (at, value) in list.iter().enumerate() {
                    if has_room(out) {
                        out.push((format!("{path}[{at}]"), value));
                    }
                }
            }
            (Self::All, Value::Object(fields)) => {
                for (name, value) in fields {
                    if has_room(out) {
                        out.push((named(path, name), value));
                    }
                }
            }
            (Self::Below(name), Value::Object(fields)) => {
                below_object(name, path, fields, most, out);
            }
            (Self::Below(_), Value::Array(list)) => {
                for (at, value) in list.iter().enumerate() {
                    self.follow(&format!("{path}[{at}]"), value, most, out);
                }
            }
            (
                Self::Name(_) | Self::Index(_) | Self::Slice(..) | Self::All | Self::Below(_),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_)
                | Value::Object(_),
            ) => {}
        }
    }
}

/// A field of the name, and what lies below every field. Parsed JSON is nested 128 deep at most.
fn below_object<'a>(
    name: &str,
    path: &str,
    fields: &'a Map<String, Value>,
    most: usize,
    out: &mut Vec<(String, &'a Value)>,
) {
    let step = Step::Below(name.to_owned());
    for (field, value) in fields {
        let path = named(path, field);
        if field == name && out.len() < most {
            out.push((path.clone(), value));
        }
        step.follow(&path, value, most, out);
    }
}

fn named(path: &str, name: &str) -> String {
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain && !name.is_empty() {
        format!("{path}.{name}")
    } else {
        format!("{path}['{name}']")
    }
}

/// Negative numbers count from the end; what lies outside leads nowhere.
fn place(index: i64, length: usize) -> usize {
    let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    if index < 0 {
        length.checked_sub(distance).unwrap_or(usize::MAX)
    } else {
        distance
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Path;

    fn found(path: &str) -> Value {
        let root = json!({ "links": [{ "url": "a", "x": { "url": "b" } }, { "url": "c" }],
            "a b": { "é": [1, 2, 3, 4] }, "n": null });
        let (found, _) = Path::parse(path).unwrap().find(&root, 10);
        found.into_iter().map(|(_, value)| value.clone()).collect()
    }

    #[test]
    fn a_path_leads_to_its_values_in_order() {
        for (path, wanted) in [
            ("links[0].url", json!(["a"])),
            ("$.links[*].url", json!(["a", "c"])),
            ("links[-1].url", json!(["c"])),
            ("..url", json!(["a", "b", "c"])),
            ("['a b'].é[1:3]", json!([2, 3])),
            ("['a b'][\"é\"][-2:]", json!([3, 4])),
            ("['a b'].*[0]", json!([1])),
            ("n", json!([null])),
            ("links[7].url", json!([])),
            ("links[-7]", json!([])),
            ("n.deeper", json!([])),
        ] {
            assert_eq!(found(path), wanted, "{path}");
        }
        assert!(found("$")[0].is_object());
    }

    #[test]
    fn what_was_found_names_its_place_and_is_bounded() {
        let root = json!({ "a": [{ "b c": 1 }, { "b c": 2 }, { "b c": 3 }] });
        let (found, is_cut) = Path::parse("a[*]['b c']").unwrap().find(&root, 2);
        let paths: Vec<_> = found.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["$.a[0]['b c']", "$.a[1]['b c']"]);
        assert!(is_cut);
    }

    #[test]
    fn a_path_that_cannot_be_read_names_the_place() {
        for wrong in [
            "a[", "a[x]", "a..", "a[1]b", ".", "a['b]", "a.", "a[1:b]", "..a..b",
        ] {
            let why = Path::parse(wrong).unwrap_err();
            assert!(why.contains("at byte"), "{wrong}: {why}");
        }
        assert!(Path::parse(&"a.".repeat(40)).is_err());
    }
}
