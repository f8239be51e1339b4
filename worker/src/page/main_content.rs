//! Which part of a page is its content: everything else is taken out of the tree.
//!
//! Removes what is hidden and what the page itself marks as navigation and the like, then keeps the element that
//! holds the content, if one stands out. Never leaves nothing where there was text.

use dom_query::{Document, NodeRef};

use super::tree::{attribute, content, name};

/// Words of classes and ids that mark what is no content. Compared word by word.
const MARKS: [&str; 29] = [
    "nav",
    "navbar",
    "navigation",
    "menu",
    "sidebar",
    "breadcrumb",
    "breadcrumbs",
    "footer",
    "masthead",
    "cookie",
    "cookies",
    "consent",
    "gdpr",
    "banner",
    "popup",
    "modal",
    "newsletter",
    "subscribe",
    "share",
    "sharing",
    "social",
    "related",
    "advert",
    "advertisement",
    "ads",
    "promo",
    "skip",
    "pagination",
    "pager",
];

/// Marks that are believed whatever they hold.
const CONSENT: [&str; 4] = ["cookie", "cookies", "consent", "gdpr"];

/// Takes everything but the content out of the tree.
pub(super) fn reduce(document: &Document) {
    let root = content(document);
    let whole = weight(&root);
    if whole == 0 {
        return;
    }
    remove_where(&root, whole, is_hidden);
    let shown = weight(&root);
    if shown == 0 {
        return;
    }
    let kept = holder(&root, shown);
    if let Some(kept) = &kept {
        keep_only(&root, kept);
    }
    remove_where(&root, weight(&root), is_apart);
    remove_where(&root, weight(&root), is_marked);
}

/// How much text there is, blanks not counted.
fn weight(node: &NodeRef<'_>) -> usize {
    let text = raw_text_seen(node);
    text.bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .count()
}

fn raw_text_seen(node: &NodeRef<'_>) -> String {
    let mut out = String::new();
    for inner in node.descendants_it() {
        let is_seen = inner
            .parent()
            .is_none_or(|parent| !super::tree::is_unseen(&name(&parent)));
        if is_seen {
            super::tree::with_text(&inner, |text| out.push_str(text));
        }
    }
    out
}

/// Removes what `is_gone` says, unless that would be all the text there is.
fn remove_where(root: &NodeRef<'_>, whole: usize, is_gone: fn(&NodeRef<'_>) -> bool) {
    let gone: Vec<NodeRef<'_>> = root.descendants_it().filter(is_gone).collect();
    let mut left = whole;
    for node in gone {
        let loss = weight(&node);
        // A node inside one that was removed before is lost already.
        if !is_under(&node, root) || loss >= left {
            continue;
        }
        left -= loss;
        node.remove_from_parent();
    }
}

fn is_under(node: &NodeRef<'_>, root: &NodeRef<'_>) -> bool {
    node.ancestors_it(None).any(|above| above.id == root.id)
}

fn is_hidden(node: &NodeRef<'_>) -> bool {
    if !node.is_element() {
        return false;
    }
    let style = node
        .attr("style")
        .map(|style| style.to_ascii_lowercase().replace(' ', ""));
    let is_styled_away = style
        .is_some_and(|style| style.contains("display:none") || style.contains("visibility:hidden"));
    let is_until_found = attribute(node, "hidden").is_some_and(|value| value == "until-found");
    is_styled_away
        || (node.has_attr("hidden") && !is_until_found)
        || attribute(node, "aria-hidden").is_some_and(|value| value == "true")
        || (name(node) == "dialog" && !node.has_attr("open"))
}

/// What the page marks as standing apart, by element or role.
fn is_apart(node: &NodeRef<'_>) -> bool {
    let name = name(node);
    let role = attribute(node, "role").unwrap_or_default();
    let is_role = matches!(
        role.as_str(),
        "navigation"
            | "banner"
            | "contentinfo"
            | "complementary"
            | "search"
            | "dialog"
            | "alertdialog"
            | "menu"
            | "menubar"
    );
    match name.as_str() {
        "nav" | "aside" | "dialog" => true,
        // The head of an article is part of it.
        "header" | "footer" => is_role || !is_in_article(node),
        "" | "main" | "article" | "body" => false,
        _ => is_role,
    }
}

fn is_in_article(node: &NodeRef<'_>) -> bool {
    let mut above = node.ancestors_it(None);
    above.any(|above| {
        matches!(
            name(&above).as_str(),
            "article" | "main" | "section" | "blockquote"
        )
    })
}

/// What a class or id calls navigation and the like, and what has the links or the shortness of it.
fn is_marked(node: &NodeRef<'_>) -> bool {
    let name = name(node);
    if !matches!(
        name.as_str(),
        "div" | "section" | "ul" | "ol" | "p" | "span" | "table" | "form"
    ) {
        return false;
    }
    let labels = [node.attr("class"), node.attr("id")];
    let labels: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|label| label.to_ascii_lowercase())
        .collect();
    let mut words = labels
        .iter()
        .flat_map(|label| label.split(|letter: char| !letter.is_ascii_alphanumeric()));
    let Some(mark) = words.find(|word| MARKS.contains(word)) else {
        return false;
    };
    let text = weight(node);
    if CONSENT.contains(&mark) {
        return text < 3000;
    }
    let linked: usize = node
        .descendants_it()
        .filter(|inner| super::tree::name(inner) == "a")
        .map(|link| weight(&link))
        .sum();
    linked * 2 > text || text < 80
}

/// The element that holds the content: `main`, or the one article; only if most of the text is there.
fn holder<'a>(root: &NodeRef<'a>, whole: usize) -> Option<NodeRef<'a>> {
    let mut mains = Vec::new();
    let mut articles = Vec::new();
    for node in root.descendants_it().filter(NodeRef::is_element) {
        let name = name(&node);
        let role = attribute(&node, "role").unwrap_or_default();
        if name == "main" || role == "main" {
            mains.push(node);
        } else if name == "article" && !is_in_article(&node) {
            articles.push(node);
        }
    }
    let candidates = if mains.is_empty() { articles } else { mains };
    let [only] = candidates.as_slice() else {
        return None;
    };
    let is_enough = weight(only) * 5 >= whole || weight(only) > 1500;
    is_enough.then_some(*only)
}

fn keep_only(root: &NodeRef<'_>, kept: &NodeRef<'_>) {
    let above: Vec<_> = kept.ancestors_it(None).map(|node| node.id).collect();
    let others: Vec<NodeRef<'_>> = root
        .descendants_it()
        .filter(|node| {
            let is_beside = node
                .parent()
                .is_some_and(|parent| above.contains(&parent.id));
            is_beside && node.id != kept.id && !above.contains(&node.id)
        })
        .collect();
    for node in others {
        node.remove_from_parent();
    }
}
