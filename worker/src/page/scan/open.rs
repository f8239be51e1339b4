//! The elements that are open, near enough: what a parser would have on its stack.

use html5ever::LocalName;

/// How far up an end tag looks for its start tag. Bounds the time of pages full of stray end tags.
const LOOK_BACK: usize = 64;

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
}

/// A stack of open elements.
#[derive(Debug, Default)]
pub(super) struct OpenElements {
    stack: Vec<Open>,
    templates: usize,
}

impl OpenElements {
    /// Whether the innermost element is one of SVG or MathML.
    pub(super) fn is_foreign(&self) -> bool {
        let last = self.stack.last();
        last.is_some_and(|open| open.space == Space::Foreign)
    }

    /// Whether what comes is the content of a template, which is no part of the document.
    pub(super) const fn is_inert(&self) -> bool {
        self.templates > 0
    }

    /// Opens an element; answers whether it is one of SVG or MathML.
    pub(super) fn start(&mut self, name: &LocalName, is_self_closing: bool) -> bool {
        if self.is_foreign() && breaks_out(name) {
            while self.is_foreign() {
                self.pop();
            }
        }
        if self.is_foreign() || matches!(&**name, "svg" | "math") {
            let is_island =
                self.is_foreign() && matches!(&**name, "foreignobject" | "desc" | "title");
            if !is_self_closing {
                let space = if is_island {
                    Space::Island
                } else {
                    Space::Foreign
                };
                self.push(name, space);
            }
            return true;
        }
        if !is_void(name) {
            self.close_implied(name);
            self.push(name, Space::Html);
        }
        false
    }

    pub(super) fn end(&mut self, name: &LocalName) {
        // A template that is never found closed would swallow the rest of the page.
        let within = match &**name {
            "template" if self.templates > 0 => self.stack.len(),
            _ => LOOK_BACK,
        };
        let mut inner = self.stack.iter().rev().take(within);
        if let Some(above) = inner.position(|open| open.name == *name) {
            self.pop_until(above);
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

    fn pop_until(&mut self, above: usize) {
        for _ in 0..=above {
            self.pop();
        }
    }

    fn push(&mut self, name: &LocalName, space: Space) {
        self.templates += usize::from(&**name == "template");
        self.stack.push(Open {
            name: name.clone(),
            space,
        });
    }

    fn pop(&mut self) {
        if let Some(open) = self.stack.pop() {
            self.templates -= usize::from(&*open.name == "template");
        }
    }
}

fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "basefont"
            | "bgsound"
            | "br"
            | "col"
            | "embed"
            | "frame"
            | "hr"
            | "image"
            | "img"
            | "input"
            | "keygen"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

type Names = &'static [&'static str];

/// Which open elements a start tag ends, and which ones it never reaches past.
fn implied_end(name: &str) -> (Names, Names) {
    const LISTS: Names = &[
        "ul", "ol", "menu", "dl", "table", "td", "th", "section", "article",
    ];
    const TABLE: Names = &["table", "template"];
    const CELLS: Names = &[
        "td", "th", "caption", "table", "button", "object", "template",
    ];
    match name {
        "li" => (&["li"], LISTS),
        "dt" | "dd" => (&["dt", "dd"], LISTS),
        "option" => (&["option"], &["select", "datalist"]),
        "td" | "th" => (&["td", "th"], TABLE),
        "tr" => (&["tr"], TABLE),
        "tbody" | "tfoot" => (&["thead", "tbody", "tfoot"], TABLE),
        "rp" | "rt" => (&["rp", "rt"], &["ruby"]),
        "a" => (&["a"], CELLS),
        "body" => (&["head"], &["body"]),
        _ if is_block(name) => (&["p"], CELLS),
        _ => (&[], &[]),
    }
}

fn is_block(name: &str) -> bool {
    matches!(
        name,
        "address"
            | "article"
            | "aside"
            | "blockquote"
            | "center"
            | "details"
            | "dialog"
            | "dir"
            | "div"
            | "dl"
            | "dt"
            | "dd"
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
            | "li"
            | "main"
            | "menu"
            | "nav"
            | "ol"
            | "p"
            | "pre"
            | "section"
            | "summary"
            | "table"
            | "ul"
    )
}

/// Start tags that end foreign content (HTML, 13.2.6.5).
fn breaks_out(name: &str) -> bool {
    matches!(
        name,
        "b" | "big"
            | "blockquote"
            | "body"
            | "br"
            | "center"
            | "code"
            | "dd"
            | "div"
            | "dl"
            | "dt"
            | "em"
            | "embed"
            | "h1"
            | "h2"
            | "h3"
            | "h4"
            | "h5"
            | "h6"
            | "head"
            | "hr"
            | "i"
            | "img"
            | "li"
            | "listing"
            | "menu"
            | "meta"
            | "nobr"
            | "ol"
            | "p"
            | "pre"
            | "ruby"
            | "s"
            | "small"
            | "span"
            | "strong"
            | "strike"
            | "sub"
            | "sup"
            | "table"
            | "tt"
            | "u"
            | "ul"
            | "var"
    )
}
