//! The elements of a tree in order, with how much text stands in each.

use dom_query::NodeRef;
use html5ever::LocalName;

use crate::page::tree::{is_unseen, name, with_text};

/// An element.
pub(super) struct Part<'a> {
    pub(super) node: NodeRef<'a>,
    pub(super) name: LocalName,
    /// The place of the first part that is not inside this one.
    pub(super) end: usize,
    /// Whether something around it is content by its name, so that its own heads and feet are, too.
    pub(super) is_in_article: bool,
    before: Amounts,
    after: Amounts,
}

/// Bytes of text that are no blanks.
#[derive(Clone, Copy, Default)]
struct Amounts {
    text: usize,
    linked: usize,
}

/// The elements below a root. What is never seen is left out, with everything in it.
pub(super) struct Outline<'a> {
    parts: Vec<Part<'a>>,
    whole: Amounts,
}

impl<'a> Outline<'a> {
    pub(super) fn of(root: &NodeRef<'a>) -> Self {
        let mut outline = Self {
            parts: Vec::new(),
            whole: Amounts::default(),
        };
        let mut open: Vec<Open> = Vec::new();
        let mut steps: Vec<Step<'a>> = root.children_it(true).map(Step::Enter).collect();
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(node) => {
                    if outline.enter(&node, &mut open) {
                        steps.push(Step::Leave);
                        steps.extend(node.children_it(true).map(Step::Enter));
                    }
                }
                Step::Leave => outline.leave(&mut open),
            }
        }
        outline
    }

    /// Takes a node; answers whether what is inside it counts.
    fn enter(&mut self, node: &NodeRef<'a>, open: &mut Vec<Open>) -> bool {
        let is_linked = open.last().is_some_and(|open| open.is_linked);
        let amount = |text: &str| {
            text.bytes()
                .filter(|byte| !byte.is_ascii_whitespace())
                .count()
        };
        if let Some(amount) = with_text(node, amount) {
            self.whole.text += amount;
            self.whole.linked += if is_linked { amount } else { 0 };
            return false;
        }
        let name = name(node);
        if !node.is_element() || is_unseen(&name) {
            return false;
        }
        let is_in_article = open.last().is_some_and(|open| open.is_article);
        let is_article = matches!(&*name, "article" | "main" | "section" | "blockquote");
        open.push(Open {
            part: self.parts.len(),
            is_linked: is_linked || &*name == "a",
            is_article: is_in_article || is_article,
        });
        self.parts.push(Part {
            node: *node,
            name,
            end: 0,
            is_in_article,
            before: self.whole,
            after: self.whole,
        });
        true
    }

    fn leave(&mut self, open: &mut Vec<Open>) {
        let end = self.parts.len();
        let closed = open.pop().and_then(|open| self.parts.get_mut(open.part));
        if let Some(part) = closed {
            part.end = end;
            part.after = self.whole;
        }
    }

    pub(super) fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    pub(super) fn part(&self, at: usize) -> Option<&Part<'a>> {
        self.parts.get(at)
    }

    /// How much text there is.
    pub(super) const fn text(&self) -> usize {
        self.whole.text
    }

    /// How much text an element holds.
    pub(super) const fn text_of(&self, part: &Part<'a>) -> usize {
        part.after.text - part.before.text
    }

    /// How much of it stands in links.
    pub(super) const fn linked_text_of(&self, part: &Part<'a>) -> usize {
        part.after.linked - part.before.linked
    }
}

enum Step<'a> {
    Enter(NodeRef<'a>),
    Leave,
}

/// An element whose end was not reached yet.
struct Open {
    part: usize,
    is_linked: bool,
    is_article: bool,
}
