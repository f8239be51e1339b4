//! Inline content as it is written: text, marks, code spans and breaks, each kept from changing the others.

use super::escape::{self, Place};
use super::flanking;

/// Inline content as it is written. A blank is held back until something follows it, so that no mark has one
/// inside and no line begins or ends with one.
#[derive(Default)]
pub(super) struct Inline {
    pub(super) out: String,
    pub(super) has_gap: bool,
    /// A blank came before anything else.
    has_lead: bool,
    pub(super) is_single_line: bool,
    pub(super) is_cell: bool,
    pub(super) is_heading: bool,
    pub(super) is_in_link: bool,
    /// The emphasis that was closed last.
    closed: Option<Closed>,
    /// Where a code span ended last.
    code_end: Option<usize>,
    /// Marks of the emphasis around this.
    pub(super) around: Marks,
    /// Whether the last thing written is text, not markup.
    ends_plain: bool,
}

/// An emphasis with its marks: where it begins, and where it ends.
#[derive(Clone, Copy)]
struct Closed {
    mark: &'static str,
    start: usize,
    end: usize,
    /// Whether it ends with text.
    is_plain: bool,
}

/// Blanks and breaks at the ends of some content.
pub(super) struct Edges {
    pub(super) is_led: bool,
    pub(super) is_followed: bool,
    is_broken: bool,
}

/// Which marks are open.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks {
    is_strong: bool,
    is_emphasis: bool,
    is_struck: bool,
}

impl Marks {
    const fn is_none(self) -> bool {
        !(self.is_strong || self.is_emphasis || self.is_struck)
    }

    pub(super) const fn with(mut self, mark: &str) -> Self {
        match mark.as_bytes() {
            b"**" => self.is_strong = true,
            b"*" => self.is_emphasis = true,
            _ => self.is_struck = true,
        }
        self
    }

    pub(super) const fn has(self, mark: &str) -> bool {
        match mark.as_bytes() {
            b"**" => self.is_strong,
            b"*" => self.is_emphasis,
            _ => self.is_struck,
        }
    }
}

impl Inline {
    pub(super) fn single_line() -> Self {
        Self {
            is_single_line: true,
            ..Self::default()
        }
    }

    pub(super) fn inside(&self) -> Self {
        Self {
            is_single_line: self.is_single_line,
            is_cell: self.is_cell,
            is_heading: self.is_heading,
            is_in_link: self.is_in_link,
            around: self.around,
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

    pub(super) fn settle(&mut self) {
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
        let mut words = text.split_ascii_whitespace().peekable();
        while let Some(word) = words.next() {
            if !is_first {
                self.gap();
            }
            is_first = false;
            self.settle();
            self.meet(word);
            let place = Place {
                is_open_ended: words.peek().is_none() && !text.ends_with(is_blank),
                ..self.place()
            };
            escape::push_text(&mut self.out, word, place);
            self.ends_plain = true;
        }
        if !is_first && text.ends_with(is_blank) {
            self.gap();
        }
    }

    pub(super) const fn place(&self) -> Place {
        Place {
            is_cell: self.is_cell,
            is_struck: self.around.is_struck,
            is_open_ended: false,
        }
    }

    /// Finished Markdown.
    pub(super) fn raw(&mut self, text: &str) {
        if !text.is_empty() {
            self.settle();
            self.meet(text);
            self.out.push_str(text);
            self.ends_plain = false;
        }
    }

    /// A code span. Two in a row become one, since their marks would.
    pub(super) fn code(&mut self, span: &str) {
        let meets = !self.has_gap && self.code_end == Some(self.out.len()) && !span.is_empty();
        let is_single = |text: &str| text.starts_with('`') && !text.starts_with("``");
        if meets && is_single(span) && !self.out.ends_with("``") {
            self.out.pop();
            self.out.push_str(&span[1..]);
        } else {
            if meets {
                self.gap();
            }
            self.raw(span);
        }
        if !span.is_empty() {
            self.code_end = Some(self.out.len());
        }
    }

    /// Makes sure that a closing mark right before `next` is one: between punctuation and a word it would be text.
    fn meet(&mut self, next: &str) {
        if next.starts_with('[') && self.out.ends_with('!') {
            // Not an image.
            self.out.pop();
            self.out.push_str("\\!");
        }
        let Some(closed) = self.closed.filter(|closed| closed.end == self.out.len()) else {
            return;
        };
        let inner_end = closed.end - closed.mark.len();
        let inner = &self.out[closed.start + closed.mark.len()..inner_end];
        if !(flanking::ends_sharp(inner) && flanking::begins_word(next)) {
            return;
        }
        let kept = if closed.is_plain {
            flanking::without_end(inner)
        } else {
            ""
        };
        let rest = inner[kept.len()..].to_owned();
        let text = if kept.is_empty() {
            let ends_marked = rest.ends_with(['*', '~']) && !closed.is_plain;
            rest + if ends_marked { " " } else { "" }
        } else {
            format!("{0}{kept}{0}{rest}", closed.mark)
        };
        self.out.truncate(closed.start);
        self.unmarked(&text, closed.is_plain);
        self.closed = None;
    }

    pub(super) fn line_break(&mut self) {
        if self.is_single_line {
            self.gap();
        } else if self.out.ends_with('\n') {
            // Two breaks are a new paragraph, which no mark reaches into.
            if self.around.is_none() && self.out.ends_with("  \n") {
                self.out.truncate(self.out.len() - 3);
                self.out.push_str("\n\n");
            }
        } else if !self.out.is_empty() {
            self.has_gap = false;
            self.out.push_str("  \n");
        }
    }

    /// Content with a mark on both sides; blanks at its ends go outside.
    pub(super) fn marked(&mut self, mark: &'static str, inner: Self) {
        let edges = inner.edges();
        let is_plain = inner.ends_plain;
        let text = inner.finish();
        if edges.is_led {
            self.gap();
        }
        if !text.is_empty() {
            self.emphasis(mark, text.trim_start(), is_plain);
        }
        if edges.is_broken {
            self.line_break();
        } else if edges.is_followed {
            self.gap();
        }
    }

    /// What stands at the ends of the content, and goes outside of its marks.
    pub(super) fn edges(&self) -> Edges {
        let is_blank = |letter: char| letter.is_whitespace();
        Edges {
            is_led: self.has_lead || self.out.starts_with(is_blank),
            is_followed: self.has_gap || self.out.ends_with(is_blank),
            is_broken: self.out.ends_with('\n'),
        }
    }

    fn emphasis(&mut self, mark: &'static str, text: &str, is_plain: bool) {
        let earlier = self
            .closed
            .filter(|closed| !self.has_gap && closed.mark == mark && closed.end == self.out.len());
        if let Some(earlier) = earlier {
            self.out.truncate(earlier.end - mark.len());
            self.out.push_str(text);
            self.close(mark, earlier.start, is_plain);
            return;
        }
        self.settle();
        let follows = self
            .closed
            .is_some_and(|closed| closed.end == self.out.len());
        if follows {
            // Two runs of marks would become one.
            self.meet(text);
            self.unmarked(text, is_plain);
        } else {
            self.open(mark, text, is_plain);
        }
    }
}

impl Inline {
    /// Writes an emphasis. Between a word and punctuation an opening mark would be text, so the punctuation goes first.
    fn open(&mut self, mark: &'static str, text: &str, is_plain: bool) {
        let mut text = text;
        if flanking::begins_sharp(text) && flanking::ends_word(&self.out) {
            let inner = flanking::without_start(text);
            let (lead, inner) = text.split_at(text.len() - inner.len());
            if text.starts_with(['*', '~']) {
                // Marks inside meet the word in turn; a blank keeps them all what they are.
                self.out.push(' ');
            } else if lead.is_empty() || inner.is_empty() {
                self.unmarked(text, is_plain);
                return;
            } else {
                self.out.push_str(lead);
                text = inner;
            }
        }
        let start = self.out.len();
        self.out.push_str(mark);
        if mark == "~~" && text.starts_with('~') {
            self.out.push('\\');
        }
        self.out.push_str(text);
        self.close(mark, start, is_plain);
    }

    /// Writes what an emphasis holds without its marks.
    fn unmarked(&mut self, text: &str, is_plain: bool) {
        self.out.push_str(text);
        if !is_plain && text.ends_with('`') {
            self.code_end = Some(self.out.len());
        }
    }

    fn close(&mut self, mark: &'static str, start: usize, is_plain: bool) {
        self.out.push_str(mark);
        self.ends_plain = false;
        self.closed = Some(Closed {
            mark,
            start,
            end: self.out.len(),
            is_plain,
        });
    }
}
