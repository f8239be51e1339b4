//! The elements that are open, near enough: what a parser would have on its stack.

use html5ever::LocalName;
use html5ever::tokenizer::Tag;

use super::names::{
    breaks_out, implied_end, is_block, is_heading, is_letter, is_of_table, is_void,
};

/// How far up an end tag looks for its start tag. Bounds the time of pages full of stray end tags.
const LOOK_BACK: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Html,
    Foreign,
    /// An element of SVG or MathML whose content is HTML again.
    Island,
}

#[derive(Debug)]
struct Open {
    name: LocalName,
    space: Space,
    /// Whether the foreign element that everything up to here stands in is `svg`.
    is_in_svg: bool,
}

/// A stack of open elements.
#[derive(Debug, Default)]
pub(super) struct OpenElements {
    stack: Vec<Open>,
    templates: usize,
}

impl OpenElements {
    /// Whether the innermost element is one of SVG or MathML.
    pub(super) fn is_cdata_allowed(&self) -> bool {
        let last = self.stack.last();
        last.is_some_and(|open| open.space != Space::Html)
    }

    /// Whether what begins here belongs to SVG or MathML.
    pub(super) fn is_foreign(&self) -> bool {
        let last = self.stack.last();
        last.is_some_and(|open| open.space == Space::Foreign)
    }

    /// Whether what comes is the text of an element that holds nothing else.
    pub(super) fn is_text_only(&self) -> bool {
        let last = self.stack.last().filter(|open| open.space == Space::Html);
        last.is_some_and(|open| {
            matches!(
                &*open.name,
                "script"
                    | "style"
                    | "title"
                    | "textarea"
                    | "xmp"
                    | "iframe"
                    | "noembed"
                    | "noframes"
            )
        })
    }

    /// Whether what comes is the content of a template, which is no part of the document.
    pub(super) const fn is_inert(&self) -> bool {
        self.templates > 0
    }

    /// Opens an element; answers whether it is one of SVG or MathML.
    pub(super) fn start(&mut self, tag: &Tag) -> bool {
        let name = &tag.name;
        if self.is_foreign() && breaks_out(tag) {
            self.leave_foreign();
        }
        if self.takes_foreign(name) {
            if !tag.self_closing {
                let space = if self.is_island(tag) {
                    Space::Island
                } else {
                    Space::Foreign
                };
                self.push(name, space);
            }
            return true;
        }
        // The parts of a document are begun once, wherever their tags stand, and what they hold is told by itself.
        let is_part = matches!(&**name, "html" | "head" | "body" | "frameset");
        let is_lost = is_of_table(name) && self.templates == 0 && !self.is_in_table();
        if !(is_void(name) || is_part || is_lost) {
            self.close_implied(name);
            self.push(name, Space::Html);
        }
        false
    }

    /// Whether an element that begins here is one of SVG or MathML.
    fn takes_foreign(&self, name: &str) -> bool {
        match self.stack.last() {
            Some(open) if open.space == Space::Foreign => true,
            Some(open) if open.space == Space::Island && is_letter(&open.name) => {
                matches!(name, "mglyph" | "malignmark" | "svg" | "math")
            }
            Some(_) | None => matches!(name, "svg" | "math"),
        }
    }

    /// Whether the content of this foreign element is HTML again (HTML, "integration points").
    fn is_island(&self, tag: &Tag) -> bool {
        let is_in_svg = self.is_foreign() && self.stack.last().is_some_and(|open| open.is_in_svg);
        match &*tag.name {
            "foreignobject" | "desc" | "title" => is_in_svg,
            name if is_letter(name) => !is_in_svg && self.is_foreign(),
            "annotation-xml" if !is_in_svg => {
                let mut values = tag.attrs.iter();
                values.any(|one| {
                    let is_html = ["text/html", "application/xhtml+xml"]
                        .iter()
                        .any(|kind| one.value.eq_ignore_ascii_case(kind));
                    &*one.name.local == "encoding" && is_html
                })
            }
            _ => false,
        }
    }

    fn is_in_table(&self) -> bool {
        let mut names = self.stack.iter().rev().take(LOOK_BACK);
        names.any(|open| &*open.name == "table")
    }

    fn leave_foreign(&mut self) {
        while self.is_foreign() {
            self.pop();
        }
    }

    pub(super) fn end(&mut self, name: &LocalName) {
        if self.is_foreign() && matches!(&**name, "p" | "br") {
            self.leave_foreign();
        }
        // A template that is never found closed would swallow the rest of the page.
        let within = match &**name {
            "template" if self.templates > 0 => self.stack.len(),
            "body" | "html" => 0,
            _ => LOOK_BACK,
        };
        let kind = End::of(name);
        let mut is_foreign_yet = true;
        for (above, open) in self.stack.iter().rev().take(within).enumerate() {
            is_foreign_yet &= open.space != Space::Html;
            let is_it = open.name == *name && (is_foreign_yet || open.space == Space::Html);
            let is_heading = kind == End::Heading && is_heading(&open.name);
            if is_it || is_heading {
                self.close(above, kind);
                return;
            }
            if !is_foreign_yet && kind.stops_at(open) {
                return;
            }
        }
    }

    /// Closes what the start tag of `name` ends by itself, with everything inside that.
    fn close_implied(&mut self, name: &str) {
        let (ended, fences) = implied_end(name);
        if ended.is_empty() {
            return;
        }
        for (above, open) in self.stack.iter().rev().take(LOOK_BACK).enumerate() {
            if ended.contains(&&*open.name) {
                self.pop_until(above);
                return;
            }
            if fences.contains(&&*open.name) || open.space != Space::Html {
                return;
            }
        }
    }

    /// Closes the element that has `above` others on it. Formatting that holds blocks ends alone: they go on, and only
    /// what stands in the innermost of them is closed (HTML, "adoption agency algorithm").
    fn close(&mut self, above: usize, kind: End) {
        let mut inner = self.stack.iter().rev().take(above);
        let block = inner.position(|open| {
            open.space == Space::Island || (open.space == Space::Html && is_block(&open.name))
        });
        match block.filter(|_| kind == End::Formatting) {
            Some(0) => {}
            Some(inside) => self.pop_until(inside - 1),
            None => {
                self.pop_until(above);
                return;
            }
        }
        let inside = block.unwrap_or(0);
        self.stack.remove(self.stack.len() - 1 - (above - inside));
    }

    /// Closes a `noscript` that stands innermost, as the beginning of the body does.
    pub(super) fn end_noscript(&mut self) {
        let last = self.stack.last();
        if last.is_some_and(|open| &*open.name == "noscript" && open.space == Space::Html) {
            self.pop();
        }
    }

    fn pop_until(&mut self, above: usize) {
        for _ in 0..=above {
            self.pop();
        }
    }

    fn push(&mut self, name: &LocalName, space: Space) {
        self.templates += usize::from(is_template(name, space));
        let is_in_svg = match self.stack.last() {
            Some(open) if open.space == Space::Foreign => open.is_in_svg,
            Some(_) | None => &**name == "svg",
        };
        self.stack.push(Open {
            name: name.clone(),
            space,
            is_in_svg,
        });
    }

    fn pop(&mut self) {
        if let Some(open) = self.stack.pop() {
            self.templates -= usize::from(is_template(&open.name, open.space));
        }
    }
}

/// How far an end tag reaches (HTML, 13.2.6.4.7).
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Tables and their parts: to the table around them.
    Table,
    Heading,
    /// Blocks: to the cell, object or template around them.
    Scoped,
    /// The same for formatting, which may end in the middle of what it holds.
    Formatting,
    /// A paragraph or a list item: not out of a button or a list.
    Narrow,
    Template,
    /// Anything else: to the next block.
    Other,
}

impl End {
    fn of(name: &str) -> Self {
        match name {
            "table" => Self::Table,
            _ if is_of_table(name) => Self::Table,
            "template" => Self::Template,
            "p" | "li" => Self::Narrow,
            "a" | "b" | "big" | "code" | "em" | "font" | "i" | "nobr" | "s" | "small"
            | "strike" | "strong" | "tt" | "u" => Self::Formatting,
            "applet" | "marquee" | "object" | "button" | "listing" | "select" => Self::Scoped,
            _ if is_heading(name) => Self::Heading,
            _ if is_block(name) => Self::Scoped,
            _ => Self::Other,
        }
    }

    fn stops_at(self, open: &Open) -> bool {
        let name: &str = &open.name;
        let is_wall = open.space == Space::Island
            || matches!(
                name,
                "applet" | "caption" | "table" | "td" | "th" | "marquee" | "object" | "template"
            );
        match self {
            Self::Template => false,
            Self::Table => matches!(name, "table" | "template"),
            Self::Heading | Self::Scoped | Self::Formatting => is_wall,
            Self::Narrow => is_wall || matches!(name, "button" | "ul" | "ol"),
            Self::Other => {
                is_wall
                    || (open.space == Space::Html
                        && (is_block(name) || matches!(name, "tr" | "tbody" | "button")))
            }
        }
    }
}

fn is_template(name: &str, space: Space) -> bool {
    name == "template" && space == Space::Html
}
