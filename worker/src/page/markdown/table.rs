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
        for row in rows {
            let mut texts = Vec::new();
            for cell in cells(row) {
                if aligns.len() <= texts.len() && grid.is_empty() {
                    aligns.push(alignment(&cell));
                }
                let mut inline = Inline::single_line();
                inline.is_cell = true;
                self.inline_children(&cell, &mut inline);
                texts.push(inline.finish());
                let span = attribute(&cell, "colspan").and_then(|span| span.parse::<usize>().ok());
                let span = span.unwrap_or(1).clamp(1, MAX_COLUMNS);
                texts.extend(std::iter::repeat_n(String::new(), span - 1));
                if grid.is_empty() {
                    aligns.resize(texts.len(), "---");
                }
            }
            if texts.len() > MAX_COLUMNS {
                let rest = texts.split_off(MAX_COLUMNS - 1).join(" ");
                texts.push(rest);
            }
            if texts.iter().any(|text| !text.is_empty()) {
                grid.push(texts);
            } else {
                aligns.truncate(if grid.is_empty() { 0 } else { MAX_COLUMNS });
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
