//! The tree of a page and what is read from it directly: plain text and cleaned HTML.

use dom_query::{Document, NodeData, NodeRef};
use html5ever::LocalName;

use super::addresses::Addresses;

/// Where content begins: the body, or whatever there is.
pub(super) fn content(document: &Document) -> NodeRef<'_> {
    document.body().unwrap_or_else(|| document.root())
}

/// The lower-case name of an element; empty for anything else.
pub(super) fn name(node: &NodeRef<'_>) -> LocalName {
    let name = node.qual_name_ref().map(|name| name.local.clone());
    name.unwrap_or_default()
}

/// An attribute's value, trimmed, if there is something in it.
pub(super) fn attribute(node: &NodeRef<'_>, name: &str) -> Option<String> {
    let value = node.attr(name)?;
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// Shows the text of a text node to `read`.
pub(super) fn with_text<T>(node: &NodeRef<'_>, read: impl FnOnce(&str) -> T) -> Option<T> {
    node.query(|node| match &node.data {
        NodeData::Text { contents } => Some(read(contents)),
        NodeData::Document
        | NodeData::Fragment
        | NodeData::Doctype { .. }
        | NodeData::Comment { .. }
        | NodeData::Element(_)
        | NodeData::ProcessingInstruction { .. } => None,
    })
    .flatten()
}

/// All text inside a node, as it is.
pub(super) fn raw_text(node: &NodeRef<'_>) -> String {
    text_within(node, usize::MAX)
}

/// The first text inside a node, at most about `most` bytes of it.
pub(super) fn text_within(node: &NodeRef<'_>, most: usize) -> String {
    let mut out = String::new();
    for inner in node.descendants_it() {
        let pushed = with_text(&inner, |text| super::push_within(&mut out, text, most));
        if pushed.is_none() && inner.has_name("br") {
            out.push('\n');
        }
        if out.len() >= most {
            break;
        }
    }
    out
}

/// Elements whose content is nothing to read.
pub(super) fn is_unseen(name: &str) -> bool {
    matches!(
        name,
        "head"
            | "title"
            | "script"
            | "style"
            | "noscript"
            | "template"
            | "iframe"
            | "object"
            | "embed"
            | "svg"
            | "canvas"
            | "audio"
            | "video"
            | "noembed"
            | "noframes"
            | "select"
            | "datalist"
            | "map"
            | "xmp"
    )
}

/// Elements that begin and end a line.
pub(super) fn is_block(name: &str) -> bool {
    matches!(
        name,
        "html"
            | "body"
            | "address"
            | "article"
            | "aside"
            | "blockquote"
            | "center"
            | "details"
            | "dialog"
            | "dd"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "fieldset"
            | "figcaption"
            | "figure"
            | "footer"
            | "form"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "header"
            | "hgroup"
            | "hr"
            | "legend"
            | "li"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "optgroup"
            | "option"
            | "p"
            | "plaintext"
            | "pre"
            | "search"
            | "section"
            | "summary"
            | "table"
            | "caption"
            | "tbody"
            | "thead"
            | "tfoot"
            | "tr"
            | "ul"
    )
}

enum Step<'a> {
    Enter(NodeRef<'a>),
    Leave(&'static str),
}

/// The text of the content, one block a line, cells apart.
pub(super) fn text(document: &Document) -> String {
    let mut out = Lines::default();
    let mut steps = vec![Step::Enter(content(document))];
    while let Some(step) = steps.pop() {
        let node = match step {
            Step::Enter(node) => node,
            Step::Leave(mark) => {
                out.mark(mark);
                continue;
            }
        };
        if with_text(&node, |text| out.push(text)).is_some() {
            continue;
        }
        let name = name(&node);
        if is_unseen(&name) || node.is_comment() {
            continue;
        }
        let mark = match &*name {
            "br" => "\n",
            "td" | "th" => " ",
            block if is_block(block) => "\n",
            _ => "",
        };
        out.mark(mark);
        steps.push(Step::Leave(mark));
        let mut children: Vec<_> = node.children_it(false).collect();
        while let Some(child) = children.pop() {
            steps.push(Step::Enter(child));
        }
    }
    out.text
}

/// Text as it grows: blanks and line ends are held back until something follows them.
#[derive(Default)]
struct Lines {
    text: String,
    gap: &'static str,
}

impl Lines {
    fn mark(&mut self, mark: &'static str) {
        if mark == "\n" || (mark == " " && self.gap.is_empty()) {
            self.gap = mark;
        }
    }

    fn push(&mut self, text: &str) {
        if text.starts_with(|letter: char| letter.is_ascii_whitespace()) {
            self.mark(" ");
        }
        let mut is_first = true;
        for word in text.split_ascii_whitespace() {
            if !is_first {
                self.mark(" ");
            }
            is_first = false;
            if !self.text.is_empty() {
                self.text.push_str(self.gap);
            }
            self.gap = "";
            self.text.push_str(word);
        }
        if text.ends_with(|letter: char| letter.is_ascii_whitespace()) {
            self.mark(" ");
        }
    }
}

/// The content as HTML without scripts, styles, comments, handlers and styling, its addresses absolute.
pub(super) fn cleaned_html(document: &Document, addresses: &Addresses<'_>) -> String {
    let root = content(document);
    let nodes: Vec<NodeRef<'_>> = root.descendants_it().collect();
    for node in &nodes {
        let name = name(node);
        let is_active = matches!(
            name.as_str(),
            "script"
                | "style"
                | "noscript"
                | "template"
                | "iframe"
                | "object"
                | "embed"
                | "link"
                | "meta"
                | "base"
                | "form"
                | "frame"
                | "frameset"
        );
        if &*name == "form" {
            // What stands in a form is content; the form itself is not.
            node.remove_all_attrs();
        } else if is_active || node.is_comment() {
            node.remove_from_parent();
        } else if node.is_element() {
            clean_attributes(node, addresses);
        }
    }
    root.inner_html().trim().to_owned()
}

const KEPT: [&str; 20] = [
    "href", "src", "alt", "title", "lang", "dir", "id", "colspan", "rowspan", "scope", "headers",
    "start", "value", "type", "datetime", "cite", "class", "width", "height", "reversed",
];

fn clean_attributes(node: &NodeRef<'_>, addresses: &Addresses<'_>) {
    node.retain_attrs(&KEPT);
    for name in ["href", "src", "cite"] {
        if let Some(value) = node.attr(name) {
            match addresses.absolute(&value) {
                Some(url) => node.set_attr(name, &url),
                None => node.remove_attr(name),
            }
        }
    }
}
