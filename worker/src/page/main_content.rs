//! Which part of a page is its content: everything else is taken out of the tree.
//!
//! Removes what is hidden and what the page itself marks as navigation and the like, then keeps the element that
//! holds the content, if one stands out. Never leaves nothing where there was text. Each step looks at an [`Outline`]
//! once, so that the time is linear in the size of the page, however it is nested.

mod outline;

use dom_query::{Document, NodeRef};

use super::tree::{attribute, content};
use outline::{Outline, Part};

/// Words of classes and ids that mark what is no content. Compared word by word.
const MARKS: [&str; 30] = [
    "nav",
    "docnav",
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
    remove_where(&root, |_, part| is_hidden(&part.node));
    let outline = Outline::of(&root);
    let shown = outline.text();
    if shown == 0 {
        return;
    }
    if let Some(kept) = holder(&outline, shown) {
        keep_only(&root, &kept);
    }
    remove_where(&root, |_, part| is_apart(part));
    remove_where(&root, is_marked);
}

/// Removes what `is_gone` says, unless that would be all the text there is.
fn remove_where(root: &NodeRef<'_>, is_gone: impl Fn(&Outline<'_>, &Part<'_>) -> bool) {
    let outline = Outline::of(root);
    let mut left = outline.text();
    let mut at = 0;
    while let Some(part) = outline.part(at) {
        let loss = outline.text_of(part);
        if is_gone(&outline, part) && loss < left {
            left -= loss;
            part.node.remove_from_parent();
            at = part.end;
        } else {
            at += 1;
        }
    }
}

fn is_hidden(node: &NodeRef<'_>) -> bool {
    let style = node
        .attr("style")
        .map(|style| style.to_ascii_lowercase().replace(' ', ""));
    let is_styled_away = style
        .is_some_and(|style| style.contains("display:none") || style.contains("visibility:hidden"));
    let is_until_found = attribute(node, "hidden").is_some_and(|value| value == "until-found");
    is_styled_away
        || (node.has_attr("hidden") && !is_until_found)
        || attribute(node, "aria-hidden").is_some_and(|value| value == "true")
        || (node.has_name("dialog") && !node.has_attr("open"))
}

/// What the page marks as standing apart, by element or role.
fn is_apart(part: &Part<'_>) -> bool {
    let role = attribute(&part.node, "role").unwrap_or_default();
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
    match &*part.name {
        "nav" | "aside" | "dialog" => true,
        // The head of an article is part of it.
        "header" | "footer" => is_role || !part.is_in_article,
        "main" | "article" | "body" => false,
        _ => is_role,
    }
}

/// What a class or id calls navigation and the like, and what has the links or the shortness of it.
fn is_marked(outline: &Outline<'_>, part: &Part<'_>) -> bool {
    if !matches!(
        &*part.name,
        "div" | "section" | "ul" | "ol" | "p" | "span" | "table" | "form"
    ) {
        return false;
    }
    let labels = [part.node.attr("class"), part.node.attr("id")];
    let labels: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|label| words(&label))
        .collect();
    let mut words = labels.iter().flat_map(|label| label.split(' '));
    let Some(mark) = words.find(|word| MARKS.contains(word)) else {
        return false;
    };
    let text = outline.text_of(part);
    if CONSENT.contains(&mark) {
        return text < 3000;
    }
    outline.linked_text_of(part) * 2 > text || text < 80
}

/// A class or id as lower-case words: `topNav` and `top-nav` are both "top nav".
fn words(label: &str) -> String {
    let mut out = String::with_capacity(label.len() + 4);
    let mut was_small = false;
    for letter in label.chars() {
        if was_small && letter.is_ascii_uppercase() {
            out.push(' ');
        }
        was_small = letter.is_ascii_lowercase();
        let is_word = letter.is_ascii_alphanumeric();
        out.push(if is_word {
            letter.to_ascii_lowercase()
        } else {
            ' '
        });
    }
    out
}

/// The element that holds the content: `main`, or the one article; only if most of the text is there.
fn holder<'a>(outline: &Outline<'a>, whole: usize) -> Option<NodeRef<'a>> {
    let mut mains = Vec::new();
    let mut articles = Vec::new();
    for part in outline.parts() {
        if &*part.name == "main" || attribute(&part.node, "role").is_some_and(|role| role == "main")
        {
            mains.push(part);
        } else if &*part.name == "article" && !part.is_in_article {
            articles.push(part);
        }
    }
    let candidates = if mains.is_empty() { articles } else { mains };
    let [only] = candidates.as_slice() else {
        return None;
    };
    let text = outline.text_of(only);
    (text * 5 >= whole || text > 1500).then_some(only.node)
}

/// Removes everything beside `kept` and beside each element around it.
fn keep_only(root: &NodeRef<'_>, kept: &NodeRef<'_>) {
    let mut inner = *kept;
    while inner.id != root.id
        && let Some(above) = inner.parent()
    {
        let beside = above
            .children()
            .into_iter()
            .filter(|child| child.id != inner.id);
        beside.for_each(|child| child.remove_from_parent());
        inner = above;
    }
}
