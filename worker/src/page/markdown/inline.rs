//! Inline content: text, emphasis, links, images and code spans.

use dom_query::NodeRef;

use super::{Writer, code, escape};
use crate::page::tree::{self, absolute, attribute, is_unseen, name, raw_text};

/// Inline content as it is written. A blank is held back until something follows it, so that no mark has one
/// inside and no line begins or ends with one.
#[derive(Default)]
pub(super) struct Inline {
    out: String,
    has_gap: bool,
    /// A blank came before anything else.
    has_lead: bool,
    pub(super) is_single_line: bool,
    pub(super) is_cell: bool,
    pub(super) is_heading: bool,
    is_in_link: bool,
    /// Where the closing mark of an emphasis was written last, so that the next can go on from there.
    closed: Option<(&'static str, usize)>,
}

impl Inline {
    pub(super) fn single_line() -> Self {
        Self {
            is_single_line: true,
            ..Self::default()
        }
    }

    fn inside(&self) -> Self {
        Self {
            is_single_line: self.is_single_line,
            is_cell: self.is_cell,
            is_heading: self.is_heading,
            is_in_link: self.is_in_link,
            ..Self::default()
        }
    }

    pub(super) fn finish(self) -> String {
        let end = self.out.trim_end().len();
        let mut out = self.out;
        out.truncate(end);
        // A hard break at the end leaves its backslash.
        while let Some(rest) = out.strip_suffix("\\\n") {
            let end = rest.trim_end().len();
            out.truncate(end);
        }
        out
    }

    pub(super) fn gap(&mut self) {
        if self.out.is_empty() {
            self.has_lead = true;
        } else {
            self.has_gap = true;
        }
    }

    fn settle(&mut self) {
        if self.has_gap && !self.out.ends_with('\n') {
            self.out.push(' ');
        }
        self.has_gap = false;
    }

    /// Text as it stands in the page: blanks collapse, and what looks like Markdown is escaped.
    pub(super) fn text(&mut self, text: &str) {
        let is_blank = |letter: char| letter.is_ascii_whitespace();
        if text.starts_with(is_blank) {
            self.gap();
        }
        let mut is_first = true;
        for word in text.split_ascii_whitespace() {
            if !is_first {
                self.gap();
            }
            is_first = false;
            self.settle();
            escape::push_text(&mut self.out, word, self.is_cell);
        }
        if !is_first && text.ends_with(is_blank) {
            self.gap();
        }
    }

    /// Finished Markdown.
    pub(super) fn raw(&mut self, text: &str) {
        if !text.is_empty() {
            self.settle();
            self.out.push_str(text);
        }
    }

    fn line_break(&mut self) {
        if self.is_single_line {
            self.gap();
        } else if !self.out.is_empty() {
            self.has_gap = false;
            self.out.push_str("  \n");
        }
    }

    /// Content with a mark on both sides; blanks at its ends go outside.
    fn marked(&mut self, mark: &'static str, inner: Self) {
        if inner.has_lead {
            self.gap();
        }
        let ends_with_gap = inner.has_gap;
        let text = inner.finish();
        if text.is_empty() {
            if ends_with_gap {
                self.gap();
            }
            return;
        }
        let goes_on = !self.has_gap && self.closed == Some((mark, self.out.len()));
        if goes_on {
            self.out.truncate(self.out.len() - mark.len());
        } else {
            self.settle();
            self.out.push_str(mark);
        }
        self.out.push_str(&text);
        self.out.push_str(mark);
        self.closed = Some((mark, self.out.len()));
        if ends_with_gap {
            self.gap();
        }
    }
}

/// Elements that write a mark, whatever is inside them.
pub(super) fn is_formatting(name: &str) -> bool {
    mark(name).is_some() || is_code(name) || matches!(name, "a" | "img" | "br" | "input")
}

fn mark(name: &str) -> Option<&'static str> {
    match name {
        "b" | "strong" => Some("**"),
        "i" | "em" | "cite" | "dfn" | "var" => Some("*"),
        "s" | "del" | "strike" => Some("~~"),
        _ => None,
    }
}

fn is_code(name: &str) -> bool {
    matches!(name, "code" | "kbd" | "samp" | "tt")
}

impl Writer<'_> {
    pub(super) fn inline_children(&mut self, node: &NodeRef<'_>, out: &mut Inline) {
        for child in node.children_it(false) {
            self.inline(&child, out);
        }
    }

    pub(super) fn inline(&mut self, node: &NodeRef<'_>, out: &mut Inline) {
        if tree::with_text(node, |text| out.text(text)).is_some() || !node.is_element() {
            return;
        }
        let name = name(node);
        if is_unseen(&name) {
            return;
        }
        if self.depth >= super::MAX_DEPTH {
            out.text(&raw_text(node));
            return;
        }
        self.depth += 1;
        self.inline_element(node, &name, out);
        self.depth -= 1;
    }

    fn inline_element(&mut self, node: &NodeRef<'_>, name: &str, out: &mut Inline) {
        if let Some(mark) = mark(name) {
            let mut inner = out.inside();
            self.inline_children(node, &mut inner);
            out.marked(mark, inner);
            return;
        }
        match name {
            "br" => out.line_break(),
            "a" => self.link(node, out),
            "img" => self.image(node, out),
            "input" => checkbox(node, out),
            "wbr" => {}
            "q" => {
                out.raw("\"");
                self.inline_children(node, out);
                out.raw("\"");
            }
            _ if is_code(name) => {
                let text = raw_text(node);
                let is_blank = |letter: char| letter.is_ascii_whitespace();
                if text.starts_with(is_blank) {
                    out.gap();
                }
                out.raw(&code::span(&text, out.is_cell));
                if text.ends_with(is_blank) {
                    out.gap();
                }
            }
            _ => {
                // A block in inline content: its text stands apart from what is around it.
                let is_apart = tree::is_block(name) || matches!(name, "td" | "th" | "button");
                if is_apart {
                    out.gap();
                }
                self.inline_children(node, out);
                if is_apart {
                    out.gap();
                }
            }
        }
    }

    fn link(&mut self, node: &NodeRef<'_>, out: &mut Inline) {
        let href = attribute(node, "href").and_then(|href| absolute(&href, self.base));
        let Some(href) = href.filter(|_| !out.is_in_link) else {
            self.inline_children(node, out);
            return;
        };
        let mut inner = out.inside();
        inner.is_single_line = true;
        inner.is_in_link = true;
        self.inline_children(node, &mut inner);
        let (leads, ends) = (inner.has_lead, inner.has_gap);
        let mut text = inner.finish();
        if text.is_empty() {
            let label = attribute(node, "title").or_else(|| attribute(node, "aria-label"));
            escape::push_text(&mut text, &label.unwrap_or_default(), out.is_cell);
        }
        // Headings carry links to themselves that say nothing.
        let is_pilcrow =
            out.is_heading && matches!(text.as_str(), "¶" | "§" | "#" | "🔗" | "\u{200b}");
        if text.is_empty() || is_pilcrow {
            out.gap();
            return;
        }
        if leads {
            out.gap();
        }
        let title = attribute(node, "title").map(|text| escape::title(&text));
        let url = escape::destination(&href);
        let title = title.unwrap_or_default();
        out.raw(&format!("[{text}]({url}{title})"));
        if ends {
            out.gap();
        }
    }

    fn image(&mut self, node: &NodeRef<'_>, out: &mut Inline) {
        let source = ["src", "data-src", "data-original", "data-lazy-src"]
            .iter()
            .filter_map(|name| attribute(node, name))
            .find_map(|value| absolute(&value, self.base))
            .or_else(|| self.first_of_set(&attribute(node, "srcset")?));
        let alt = crate::page::collapsed(&attribute(node, "alt").unwrap_or_default());
        let Some(source) = source else {
            out.text(&alt);
            return;
        };
        let mut label = String::with_capacity(alt.len());
        escape::push_text(&mut label, &alt, out.is_cell);
        let title = attribute(node, "title").map(|text| escape::title(&text));
        let url = escape::destination(&source);
        let title = title.unwrap_or_default();
        out.raw(&format!("![{label}]({url}{title})"));
    }

    fn first_of_set(&self, set: &str) -> Option<String> {
        let first = set.split_ascii_whitespace().next()?;
        absolute(first.trim_end_matches(','), self.base)
    }
}

/// A box to tick becomes a task's mark.
fn checkbox(node: &NodeRef<'_>, out: &mut Inline) {
    let kind = attribute(node, "type").unwrap_or_default();
    if kind.eq_ignore_ascii_case("checkbox") && out.out.is_empty() {
        let mark = if node.has_attr("checked") {
            "[x]"
        } else {
            "[ ]"
        };
        out.raw(mark);
        out.gap();
    }
}
