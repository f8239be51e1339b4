//! Code: spans and fenced blocks.

use dom_query::NodeRef;

use crate::page::tree::raw_text;

/// How much of an attribute is read for the name of a language, in bytes.
const MAX_ATTRIBUTE: usize = 1000;

/// A fenced block of what stands in a `pre`.
pub(super) fn block(node: &NodeRef<'_>) -> String {
    let text = raw_text(node).replace("\r\n", "\n").replace('\r', "\n");
    let text = text.trim_end_matches(['\n', ' ', '\t']);
    let text = text.trim_start_matches('\n');
    if text.trim().is_empty() {
        return String::new();
    }
    let fence = "`".repeat(longest_run(text).max(2) + 1);
    let language = language(node).unwrap_or_default();
    format!("{fence}{language}\n{text}\n{fence}")
}

/// A code span.
pub(super) fn span(text: &str, is_cell: bool) -> String {
    let mut text = crate::page::collapsed(text);
    if text.is_empty() {
        return text;
    }
    if is_cell {
        text = text.replace('|', "\\|");
    }
    let fence = "`".repeat(match longest_run(&text) {
        0 => 1,
        longest => longest + 1,
    });
    let gap = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{gap}{text}{gap}{fence}")
}

fn longest_run(text: &str) -> usize {
    let runs = text.split(|letter| letter != '`');
    runs.map(str::len).max().unwrap_or(0)
}

/// The language that a class or attribute of the block, its code or its parents names.
fn language(node: &NodeRef<'_>) -> Option<String> {
    let inner = node.children_it(false).find(|child| child.has_name("code"));
    let places = [
        inner,
        Some(*node),
        node.parent(),
        node.parent().and_then(|up| up.parent()),
    ];
    places.into_iter().flatten().find_map(|place| {
        let class = head(&place, "class");
        let named = class.split_ascii_whitespace().find_map(|word| {
            ["language-", "lang-", "highlight-source-", "brush:"]
                .iter()
                .find_map(|prefix| word.strip_prefix(prefix))
                .map(str::to_owned)
        });
        let others = ["data-lang", "data-language"].into_iter();
        let mut others = others.map(|name| head(&place, name).trim().to_owned());
        let named = named.or_else(|| others.find(|name| !name.is_empty()))?;
        let is_name = |letter: char| letter.is_alphanumeric() || "+-#._".contains(letter);
        (named.len() <= 30 && named.chars().all(is_name)).then_some(named)
    })
}

/// The beginning of an attribute. A parent is asked for each block in it, so its attributes are not read whole.
fn head(node: &NodeRef<'_>, name: &str) -> String {
    let value = node.attr(name).unwrap_or_default();
    value[..value.floor_char_boundary(MAX_ATTRIBUTE)].to_owned()
}
