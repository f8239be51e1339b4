//! Tables of data as tables, tables of layout as what they hold.

use dom_query::NodeRef;

use super::{Flow, Inline, Kind, Writer};
use crate::page::tree::{attribute, name};

/// Most columns of a table; further cells are joined to the last.
const MAX_COLUMNS: usize = 100;

impl Writer<'_> {
    pub(super) fn table(&mut self, node: &NodeRef<'_>, flow: &mut Flow) {
        flow.flush(Kind::Loose);
        let mut rows: Vec<NodeRef<'_>> = Vec::new();
        for child in node.children_it(false) {
            match &*name(&child) {
                "caption" => {
                    self.children(&child, flow);
                    flow.flush(Kind::Paragraph);
                }
                "tr" => rows.push(child),
                "thead" | "tbody" | "tfoot" => {
                    rows.extend(child.children_it(false).filter(|row| row.has_name("tr")));
                }
                _ => {}
            }
        }
        if is_layout(node, &rows) {
            for cell in rows.iter().flat_map(cells) {
                self.children(&cell, flow);
                flow.flush(Kind::Paragraph);
            }
            return;
        }
        let text = self.grid(&rows);
        flow.push(Kind::Other, text);
    }

    fn grid(&mut self, rows: &[NodeRef<'_>]) -> String {
        let mut grid: Vec<Vec<String>> = Vec::new();
        let mut aligns: Vec<&'static str> = Vec::new();
        // How many rows further down a cell above still covers, by column.
        let mut covered: Vec<usize> = Vec::new();
        for row in rows {
            let texts = self.row(row, &mut covered, grid.is_empty().then_some(&mut aligns));
            if texts.iter().any(|text| !text.is_empty()) {
                grid.push(texts);
            } else if grid.is_empty() {
                aligns.clear();
            }
        }
        let columns = grid.iter().map(Vec::len).max().unwrap_or(0);
        aligns.resize(columns, "---");
        let mut out = String::new();
        for (number, texts) in grid.iter().enumerate() {
            line(&mut out, columns, |at| {
                texts.get(at).map_or("", String::as_str)
            });
            if number == 0 {
                line(&mut out, columns, |at| {
                    aligns.get(at).copied().unwrap_or("---")
                });
            }
        }
        out.truncate(out.trim_end().len());
        out
    }

    /// The texts of a row, each in its column: a cell that spans several leaves the others empty.
    fn row(
        &mut self,
        row: &NodeRef<'_>,
        covered: &mut Vec<usize>,
        mut aligns: Option<&mut Vec<&'static str>>,
    ) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        let mut below = std::mem::take(covered);
        for cell in cells(row) {
            while below.get(texts.len()).is_some_and(|rows| *rows > 0) {
                texts.push(String::new());
            }
            let mut inline = Inline::single_line();
            inline.is_cell = true;
            self.inline_children(&cell, &mut inline);
            let text = inline.finish();
            if texts.len() >= MAX_COLUMNS {
                if let Some(last) = texts.last_mut().filter(|_| !text.is_empty()) {
                    last.push(' ');
                    last.push_str(&text);
                }
                continue;
            }
            let first = texts.len();
            let width = span(&cell, "colspan").clamp(1, MAX_COLUMNS - first);
            texts.push(text);
            texts.resize(first + width, String::new());
            if let Some(aligns) = aligns.as_deref_mut() {
                aligns.resize(first, "---");
                aligns.push(alignment(&cell));
                aligns.resize(first + width, "---");
            }
            let height = span(&cell, "rowspan");
            if height > 1 {
                below.resize(below.len().max(first + width), 0);
                below[first..first + width].fill(height);
            }
        }
        *covered = below.iter().map(|rows| rows.saturating_sub(1)).collect();
        texts
    }
}

/// How many columns or rows a cell covers; at most what the HTML standard allows, and 1 where it says nothing.
fn span(cell: &NodeRef<'_>, name: &str) -> usize {
    let span = attribute(cell, name).and_then(|span| span.parse::<usize>().ok());
    span.unwrap_or(1).clamp(1, 65_534)
}

fn line<'t>(out: &mut String, columns: usize, text: impl Fn(usize) -> &'t str) {
    out.push('|');
    for at in 0..columns {
        out.push(' ');
        out.push_str(text(at));
        out.push_str(" |");
    }
    out.push('\n');
}

fn cells<'n>(row: &NodeRef<'n>) -> Vec<NodeRef<'n>> {
    let children = row.children_it(false);
    children
        .filter(|cell| matches!(&*name(cell), "td" | "th"))
        .collect()
}

/// A table that says so, holds another table, or has a single cell a row and no heading, only arranges.
fn is_layout(node: &NodeRef<'_>, rows: &[NodeRef<'_>]) -> bool {
    let role = attribute(node, "role").unwrap_or_default();
    if matches!(role.as_str(), "presentation" | "none") {
        return true;
    }
    let mut has_heading = false;
    for inner in node.descendants_it() {
        match &*name(&inner) {
            "table" | "pre" | "blockquote" | "h1" | "h2" => return true,
            "th" => has_heading = true,
            _ => {}
        }
    }
    !has_heading && rows.iter().all(|row| cells(row).len() < 2)
}

fn alignment(cell: &NodeRef<'_>) -> &'static str {
    let style = attribute(cell, "style")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let styled = style.split(';').find_map(|rule| {
        let (name, value) = rule.split_once(':')?;
        (name.trim() == "text-align").then(|| value.trim().to_owned())
    });
    let align = styled
        .or_else(|| attribute(cell, "align"))
        .unwrap_or_default();
    match align.to_ascii_lowercase().as_str() {
        "left" => ":---",
        "center" => ":---:",
        "right" => "---:",
        _ => "---",
    }
}
