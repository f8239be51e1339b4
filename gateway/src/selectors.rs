//! CSS selectors by name, as a caller writes them: `selector`, or `selector@attribute`.

use proto::v1::Selector;
use serde_json::Value;

use crate::error::Invalid;

const MOST: usize = 50;
const LONGEST: usize = 1_000;

/// Reads an object of names and selectors. Whether a selector can be read is for the worker to say.
pub(crate) fn parse(field: &str, given: &Value) -> Result<Vec<Selector>, Invalid> {
    let wrong = |bound: &str| Invalid::new(field, bound, given);
    let object = given
        .as_object()
        .filter(|object| !object.is_empty())
        .ok_or_else(|| wrong("must be an object of names and CSS selectors"))?;
    if object.len() > MOST {
        return Err(wrong("holds at most 50 selectors"));
    }
    let mut selectors = Vec::new();
    for (name, value) in object {
        let text = value.as_str().map(str::trim).unwrap_or_default();
        if name.is_empty() || text.is_empty() || name.len() + text.len() > LONGEST {
            let field = format!("{field}.{name}");
            let bound = "must be a CSS selector of 1 to 1000 bytes";
            return Err(Invalid::new(&field, bound, value));
        }
        let (css, attribute) = split(text);
        selectors.push(Selector {
            name: name.clone(),
            css: css.to_owned(),
            attribute: attribute.to_owned(),
        });
    }
    Ok(selectors)
}

/// Parts a selector from the attribute behind its last `@`; an `@` inside a quoted value parts nothing.
fn split(text: &str) -> (&str, &str) {
    let is_name = |name: &str| {
        let mut letters = name.bytes();
        letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && letters.all(|byte| byte.is_ascii_alphanumeric() || b"-_:.".contains(&byte))
    };
    match text.rsplit_once('@') {
        Some((css, attribute)) if is_name(attribute) && !css.trim().is_empty() => {
            (css.trim(), attribute)
        }
        _ => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn an_attribute_stands_behind_the_last_at() {
        for (text, css, attribute) in [
            ("a.next@href", "a.next", "href"),
            ("img @data-src", "img", "data-src"),
            ("h1", "h1", ""),
            ("a[href*='@x']", "a[href*='@x']", ""),
            ("a[href*='@x']@title", "a[href*='@x']", "title"),
            ("@href", "@href", ""),
        ] {
            assert_eq!(split(text), (css, attribute), "{text}");
        }
    }
}
