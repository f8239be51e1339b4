//! Lists and definition lists.

use dom_query::NodeRef;

use super::{Block, Flow, Join, Kind, MAX_MARGINS, Writer, join, prefixed};
use crate::page::tree::{attribute, is_unseen, name, with_text};

impl Writer<'_> {
    pub(super) fn list(&mut self, node: &NodeRef<'_>, list: &str) -> (Kind, String) {
        let start = attribute(node, "start").and_then(|start| start.parse::<u32>().ok());
        let mut items: Vec<Vec<Block>> = Vec::new();
        self.margins += 1;
        for child in node.children_it(false) {
            let name = name(&child);
            let is_blank = with_text(&child, |text| text.trim().is_empty()).unwrap_or(false);
            if is_blank || child.is_comment() || is_unseen(&name) {
                continue;
            }
            if &*name == "li" {
                items.push(self.deeper(|writer| writer.blocks(&child)));
                continue;
            }
            let blocks = self.deeper(|writer| writer.blocks_of(std::iter::once(child)));
            // A list right inside a list belongs to the item before it.
            match items.last_mut() {
                Some(last) if matches!(&*name, "ul" | "ol") => last.extend(blocks),
                Some(_) | None => items.push(blocks),
            }
        }
        self.margins -= 1;
        items.retain(|blocks| !blocks.is_empty());
        if self.margins >= MAX_MARGINS {
            return (Kind::List, join(&items.concat(), Join::Loose));
        }
        if let [only] = items.as_slice()
            && list != "ol"
            && is_section(only)
        {
            return (Kind::Other, join(only, Join::Loose));
        }
        let mut number = if list == "ol" {
            Some(start.unwrap_or(1).min(999_999_999))
        } else {
            None
        };
        let is_loose = items.iter().any(|blocks| is_loose(blocks));
        let mut out = String::new();
        for blocks in &items {
            if !out.is_empty() {
                out.push_str(if is_loose { "\n\n" } else { "\n" });
            }
            let mark = match &mut number {
                Some(number) => {
                    let mark = format!("{number}. ");
                    *number = number.saturating_add(1);
                    mark
                }
                None => "- ".to_owned(),
            };
            let margin = " ".repeat(mark.len());
            out.push_str(&prefixed(&join(blocks, Join::Item), &mark, &margin));
        }
        (Kind::List, out)
    }

    fn deeper<T>(&mut self, write: impl FnOnce(&mut Self) -> T) -> T {
        self.depth += 1;
        let written = write(self);
        self.depth -= 1;
        written
    }

    /// Terms in bold, each explanation an item below.
    pub(super) fn definitions(&mut self, node: &NodeRef<'_>, flow: &mut Flow) {
        flow.flush(Kind::Loose);
        let mut items = String::new();
        let mut rows: Vec<NodeRef<'_>> = Vec::new();
        for child in node.children_it(false) {
            // `dl` may group its rows in boxes.
            if child.has_name("div") {
                rows.extend(child.children_it(false));
            } else {
                rows.push(child);
            }
        }
        for row in rows {
            let name = name(&row);
            if &*name == "dd" {
                let blocks = self.deeper(|writer| writer.blocks(&row));
                if !blocks.is_empty() {
                    let text = prefixed(&join(&blocks, Join::Item), "- ", "  ");
                    items.push_str(if items.is_empty() { "" } else { "\n" });
                    items.push_str(&text);
                }
                continue;
            }
            let is_blank = with_text(&row, |text| text.trim().is_empty()).unwrap_or(false);
            if is_blank || is_unseen(&name) || row.is_comment() {
                continue;
            }
            flow.push(Kind::List, std::mem::take(&mut items));
            if &*name == "dt" {
                let mut inline = super::Inline::single_line();
                self.deeper(|writer| writer.inline_children(&row, &mut inline));
                let term = inline.finish().trim().to_owned();
                let text = if term.is_empty() || term.contains("**") {
                    term
                } else {
                    format!("**{term}**")
                };
                flow.push(Kind::Other, text);
            } else {
                self.node(&row, flow);
            }
        }
        flow.push(Kind::List, items);
    }
}

/// Whether an item is a section of the page: a list of one such item only arranges, as javadoc does.
fn is_section(blocks: &[Block]) -> bool {
    let is_heading = |block: &Block| block.kind == Kind::Other && block.text.starts_with('#');
    blocks.len() > 1 && blocks.iter().any(is_heading)
}

/// Whether an item has more than a text with a list inside it.
fn is_loose(blocks: &[Block]) -> bool {
    let texts = blocks.iter().filter(|block| block.kind != Kind::List);
    texts.count() > 1
}
