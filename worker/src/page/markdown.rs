//! The tree of a page as Markdown: CommonMark with the tables, strikethrough and task lists of GFM.
//!
//! Blocks are written as lists of finished texts that their container joins, indents or quotes; inline content is
//! collapsed and escaped as it is written. The depth is bounded by what the caller parses and once more here.

mod code;
mod elements;
mod escape;
mod flanking;
mod inline;
mod list;
mod table;

use std::collections::HashSet;

use dom_query::{Document, NodeId, NodeRef};

use super::addresses::Addresses;
use super::tree::{self, is_unseen, name};
pub(super) use escape::escaped_lines;
use inline::Inline;

/// Deeper than this, content is written as flat text; the stack of a thread holds this much with ease.
const MAX_DEPTH: usize = 400;

/// Containers nested deeper than this are not indented further, or their margins would outgrow the text.
const MAX_MARGINS: usize = 24;

/// Writes the content of a tree.
pub(super) fn of_tree(document: &Document, addresses: &Addresses<'_>) -> String {
    let root = tree::content(document);
    let mut writer = Writer {
        addresses,
        boxes: boxes(&root),
        depth: 0,
        margins: 0,
    };
    let blocks = writer.blocks(&root);
    let mut out = join(&blocks, Join::Loose);
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

/// A finished block of Markdown.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Inline content that stood between blocks.
    Loose,
    /// A block element's own text.
    Paragraph,
    List,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Join {
    /// A blank line between all blocks.
    Loose,
    /// None between a list item's text and the list inside it.
    Item,
}

fn join(blocks: &[Block], how: Join) -> String {
    let mut out = String::new();
    let mut before: Option<Kind> = None;
    for block in blocks {
        match before {
            None => {}
            Some(Kind::Loose)
                if how == Join::Item && block.kind == Kind::List && interrupts(&block.text) =>
            {
                out.push('\n');
            }
            // Two lists in a row would become one.
            Some(Kind::List) if block.kind == Kind::List => out.push_str("\n\n<!-- -->\n\n"),
            Some(_) => out.push_str("\n\n"),
        }
        out.push_str(&block.text);
        before = Some(block.kind);
    }
    out
}

/// Whether a list may begin right behind a line of text: not with an empty item nor with another number than 1.
fn interrupts(list: &str) -> bool {
    let first = list.strip_prefix("- ").or_else(|| list.strip_prefix("1. "));
    first.is_some_and(|text| !text.trim_start_matches(' ').starts_with('\n'))
}

struct Writer<'a> {
    addresses: &'a Addresses<'a>,
    /// Elements with a block anywhere inside.
    boxes: HashSet<NodeId>,
    depth: usize,
    margins: usize,
}

/// Blocks as they are collected, with the inline content since the last one.
struct Flow {
    blocks: Vec<Block>,
    inline: Inline,
}

impl Flow {
    fn flush(&mut self, kind: Kind) {
        let inline = std::mem::take(&mut self.inline);
        let text = inline.finish();
        if !text.is_empty() {
            let text = escape::line_starts(&text);
            self.blocks.push(Block { kind, text });
        }
    }

    fn push(&mut self, kind: Kind, text: String) {
        self.flush(Kind::Loose);
        if !text.trim().is_empty() {
            self.blocks.push(Block { kind, text });
        }
    }
}

impl Writer<'_> {
    fn blocks(&mut self, node: &NodeRef<'_>) -> Vec<Block> {
        self.blocks_of(node.children_it(false))
    }

    fn blocks_of<'n>(&mut self, nodes: impl Iterator<Item = NodeRef<'n>>) -> Vec<Block> {
        let mut flow = Flow {
            blocks: Vec::new(),
            inline: Inline::default(),
        };
        for node in nodes {
            self.node(&node, &mut flow);
        }
        flow.flush(Kind::Loose);
        flow.blocks
    }

    fn node(&mut self, node: &NodeRef<'_>, flow: &mut Flow) {
        if !node.is_element() {
            self.inline(node, &mut flow.inline);
            return;
        }
        let name = name(node);
        if is_unseen(&name) {
            return;
        }
        if self.depth >= MAX_DEPTH {
            flow.inline.text(&tree::raw_text(node));
            return;
        }
        self.depth += 1;
        self.element(node, &name, flow);
        self.depth -= 1;
    }

    fn element(&mut self, node: &NodeRef<'_>, name: &str, flow: &mut Flow) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let text = self.heading(node, name);
                flow.push(Kind::Other, text);
            }
            "hr" => flow.push(Kind::Other, "---".to_owned()),
            "pre" | "listing" | "plaintext" => flow.push(Kind::Other, code::block(node)),
            "blockquote" => {
                let text = self.quote(node);
                flow.push(Kind::Other, text);
            }
            "ul" | "ol" | "menu" | "dir" => {
                let (kind, text) = self.list(node, name);
                flow.push(kind, text);
            }
            "dl" => self.definitions(node, flow),
            "table" => self.table(node, flow),
            _ if tree::is_block(name) => {
                flow.flush(Kind::Loose);
                self.children(node, flow);
                flow.flush(Kind::Paragraph);
            }
            // An inline element around blocks (`span`, `b`, a custom element) is only a box.
            _ if !elements::is_formatting(name) && self.boxes.contains(&node.id) => {
                self.children(node, flow);
            }
            _ => self.inline(node, &mut flow.inline),
        }
    }

    fn children(&mut self, node: &NodeRef<'_>, flow: &mut Flow) {
        for child in node.children_it(false) {
            self.node(&child, flow);
        }
    }

    fn heading(&mut self, node: &NodeRef<'_>, name: &str) -> String {
        let mut inline = Inline::single_line();
        inline.is_heading = true;
        self.inline_children(node, &mut inline);
        let text = inline.finish();
        if text.is_empty() {
            return text;
        }
        let level = name
            .bytes()
            .filter(u8::is_ascii_digit)
            .map(|digit| digit - b'0');
        let marks = "#".repeat(usize::from(level.max().unwrap_or(1)));
        // Marks at the end would be taken for closing ones.
        let text = match text.strip_suffix('#') {
            Some(start) => format!("{start}\\#"),
            None => text,
        };
        format!("{marks} {text}")
    }

    fn quote(&mut self, node: &NodeRef<'_>) -> String {
        self.margins += 1;
        let blocks = self.blocks(node);
        self.margins -= 1;
        let text = join(&blocks, Join::Loose);
        if self.margins >= MAX_MARGINS {
            return text;
        }
        prefixed(&text, "> ", "> ")
    }
}

/// The elements below `root` that have a block anywhere inside. Looks at each edge of the tree once.
fn boxes(root: &NodeRef<'_>) -> HashSet<NodeId> {
    let mut boxes = HashSet::new();
    for block in root
        .descendants_it()
        .filter(|inner| tree::is_block(&name(inner)))
    {
        let mut above = block.parent();
        while let Some(node) = above.filter(|node| boxes.insert(node.id)) {
            above = node.parent();
        }
    }
    boxes
}

/// Every line with a margin; blank lines get none but what a quote needs.
fn prefixed(text: &str, first: &str, rest: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8 + first.len());
    for (number, line) in text.split('\n').enumerate() {
        let margin = if number == 0 { first } else { rest };
        if number > 0 {
            out.push('\n');
        }
        let margin = if line.is_empty() {
            margin.trim_end()
        } else {
            margin
        };
        out.push_str(margin);
        out.push_str(line);
    }
    out
}
