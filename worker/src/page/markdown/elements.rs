//! Inline elements: emphasis, links, images, code and boxes to tick.

use dom_query::NodeRef;

use super::inline::Inline;
use super::{Writer, code, escape};
use crate::page::srcset;
use crate::page::tree::{self, attribute, is_unseen, name, raw_text};

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
            if out.around.has(mark) {
                self.inline_children(node, out);
                return;
            }
            let mut inner = out.inside();
            inner.around = out.around.with(mark);
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
                out.code(&code::span(&text, out.is_cell));
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
        let href = attribute(node, "href").and_then(|href| self.addresses.absolute(&href));
        let Some(href) = href.filter(|_| !out.is_in_link) else {
            self.inline_children(node, out);
            return;
        };
        let mut inner = out.inside();
        inner.is_single_line = true;
        inner.is_in_link = true;
        self.inline_children(node, &mut inner);
        let edges = inner.edges();
        let mut text = inner.finish().trim_start().to_owned();
        if text.is_empty() {
            let label = attribute(node, "title").or_else(|| attribute(node, "aria-label"));
            escape::push_text(&mut text, &label.unwrap_or_default(), out.place());
        }
        // Headings carry links to themselves that say nothing.
        let is_pilcrow =
            out.is_heading && matches!(text.as_str(), "¶" | "§" | "#" | "🔗" | "\u{200b}");
        if text.is_empty() || is_pilcrow {
            out.gap();
            return;
        }
        if edges.is_led {
            out.gap();
        }
        let title = attribute(node, "title").map(|text| escape::title(&text));
        let url = escape::destination(&href);
        let title = title.unwrap_or_default();
        out.raw(&format!("[{text}]({url}{title})"));
        if edges.is_followed {
            out.gap();
        }
    }

    fn image(&mut self, node: &NodeRef<'_>, out: &mut Inline) {
        let source = ["src", "data-src", "data-original", "data-lazy-src"]
            .iter()
            .filter_map(|name| attribute(node, name))
            .find_map(|value| self.addresses.absolute(&value))
            .or_else(|| self.first_of_set(&attribute(node, "srcset")?));
        let alt = crate::page::collapsed(&attribute(node, "alt").unwrap_or_default());
        let Some(source) = source else {
            out.text(&alt);
            return;
        };
        let mut label = String::with_capacity(alt.len());
        escape::push_text(&mut label, &alt, out.place());
        let title = attribute(node, "title").map(|text| escape::title(&text));
        let url = escape::destination(&source);
        let title = title.unwrap_or_default();
        out.raw(&format!("![{label}]({url}{title})"));
    }

    fn first_of_set(&self, set: &str) -> Option<String> {
        let mut candidates = srcset::candidates(set).into_iter();
        candidates.find_map(|address| self.addresses.absolute(address))
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
