//! The pass over tokens: links, title, base, metas.
//!
//! A bare tokenizer knows no elements, so this sink keeps a light stack of open ones: enough to know foreign content
//! (SVG, MathML), templates and text-only elements.

mod names;
mod open;

use std::cell::RefCell;
use std::collections::HashMap;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use super::directives::{self, Asked};
use super::{From, MAX_LINKS, push_within};
use names::{is_head_element, shows_something};
use open::OpenElements;

/// Longest text of a link that is kept, in bytes.
const MAX_ANCHOR: usize = 200;

/// Longest title and description that are kept, in bytes.
const MAX_TITLE: usize = 4 * 1024;

/// Longest name of a language, in bytes; anything longer is none.
const MAX_LANGUAGE: usize = 100;

/// Most canonical addresses of a head that are looked at; the first that is a URL counts.
const MAX_CANONICALS: usize = 10;

/// How much is fed to the tokenizer at once.
const CHUNK: usize = 1 << 20;

/// A link as it is written.
#[derive(Debug)]
pub(super) struct RawLink {
    pub(super) href: StrTendril,
    pub(super) from: From,
    pub(super) nofollow: bool,
    pub(super) anchor: String,
}

/// What the pass found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) base_href: Option<String>,
    pub(super) links: Vec<RawLink>,
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) language: Option<String>,
    pub(super) canonicals: Vec<String>,
    pub(super) robots: Asked,
}

/// Runs the pass over a page's text.
pub(super) fn run(text: &str, agent: &str) -> Scan {
    let tokenizer = Tokenizer::new(Sink::new(agent), TokenizerOpts::default());
    let queue = BufferQueue::default();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(CHUNK);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        queue.push_back(StrTendril::from_slice(&rest[..end]));
        // The sink never asks to stop, so this reads everything.
        drop(tokenizer.feed(&queue));
        rest = &rest[end..];
    }
    tokenizer.end();
    tokenizer.sink.finish()
}

/// What sees the tokens of a page.
pub(super) struct Sink(RefCell<State>);

impl Sink {
    pub(super) fn new(agent: &str) -> Self {
        Self(RefCell::new(State {
            scan: Scan::default(),
            open: OpenElements::default(),
            agent: agent.split('/').next().unwrap_or(agent).to_owned(),
            is_in_title: false,
            known: HashMap::new(),
            anchor: None,
            is_head_over: false,
            links_of_head: 0,
            frames: Frames::Possible,
        }))
    }

    /// Takes a token; answers how the tokenizer goes on.
    pub(super) fn look(&self, token: &Token) -> TokenSinkResult<()> {
        let mut state = self.0.borrow_mut();
        match token {
            Token::TagToken(tag) => match tag.kind {
                TagKind::StartTag => return state.start(tag),
                TagKind::EndTag => state.end(tag),
            },
            Token::CharacterTokens(text) => state.text(text),
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }

    /// What was found.
    pub(super) fn finish(self) -> Scan {
        self.0.into_inner().scan
    }
}

struct State {
    scan: Scan,
    open: OpenElements,
    agent: String,
    is_in_title: bool,
    /// Where a link is, as it is written.
    known: HashMap<(StrTendril, From), usize>,
    /// The link whose text is being read.
    anchor: Option<usize>,
    is_head_over: bool,
    /// How many links were found before the body began.
    links_of_head: usize,
    frames: Frames,
}

/// Whether the page is a set of frames (HTML, "frameset-ok flag").
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frames {
    /// A frame set may still take the place of a body that shows nothing.
    Possible,
    /// The body shows something.
    Refused,
    /// A frame set has begun, with this many in it: only frames count from here on.
    Begun(usize),
    /// The frame set has ended, and the page with it.
    Over,
}

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        self.look(&token)
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.0.borrow().open.is_cdata_allowed()
    }
}

impl State {
    fn start(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        match self.frames {
            Frames::Possible | Frames::Refused => {}
            Frames::Begun(_) | Frames::Over => return self.start_among_frames(tag),
        }
        if !self.is_head_over && !is_head_element(name) {
            self.open.end_noscript();
        }
        let is_foreign = self.open.start(tag);
        if !is_foreign && name == "frameset" {
            self.begin_frames();
        }
        if (is_foreign || !is_head_element(name)) && !self.open.is_inert() {
            self.end_head();
        }
        if !self.open.is_inert() {
            self.element(name, tag, is_foreign);
        }
        if !is_foreign && shows_something(tag) {
            self.refuse_frames();
        }
        if is_foreign {
            return TokenSinkResult::Continue;
        }
        match name {
            "script" => TokenSinkResult::RawData(RawKind::ScriptData),
            "style" | "xmp" | "iframe" | "noembed" | "noframes" => {
                TokenSinkResult::RawData(RawKind::Rawtext)
            }
            "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
            "plaintext" => TokenSinkResult::Plaintext,
            _ => TokenSinkResult::Continue,
        }
    }

    /// Among frames nothing else is taken.
    fn start_among_frames(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        match (&*tag.name, self.frames) {
            ("noframes", _) => return TokenSinkResult::RawData(RawKind::Rawtext),
            ("frameset", Frames::Begun(inner)) => self.frames = Frames::Begun(inner + 1),
            ("frame", Frames::Begun(_)) => drop(self.link(tag, filled(tag, "src"), From::Frame)),
            _ => {}
        }
        TokenSinkResult::Continue
    }

    fn refuse_frames(&mut self) {
        if self.frames == Frames::Possible {
            self.frames = Frames::Refused;
        }
    }

    fn end_head(&mut self) {
        if !self.is_head_over {
            self.is_head_over = true;
            self.links_of_head = self.scan.links.len();
        }
    }

    /// A frame set takes the place of a body that shows nothing, with the links in it.
    fn begin_frames(&mut self) {
        if (self.is_head_over && self.frames != Frames::Possible) || self.open.is_inert() {
            return;
        }
        self.end_head();
        self.open = OpenElements::default();
        self.frames = Frames::Begun(0);
        self.scan.links.truncate(self.links_of_head);
        let kept = self.links_of_head;
        self.known.retain(|_, at| *at < kept);
        self.anchor = None;
    }

    fn element(&mut self, name: &str, tag: &Tag, is_foreign: bool) {
        match name {
            "a" => {
                let href = attribute(tag, "href")
                    .or_else(|| attribute(tag, "xlink:href").filter(|_| is_foreign));
                self.anchor = self.link(tag, href, From::Anchor);
            }
            _ if is_foreign => {}
            "area" => drop(self.link(tag, attribute(tag, "href"), From::Area)),
            "iframe" => drop(self.link(tag, filled(tag, "src"), From::Iframe)),
            "link" => self.link_element(tag),
            "meta" => self.meta(tag),
            "base" if self.scan.base_href.is_none() => {
                self.scan.base_href = attribute(tag, "href").map(|href| href.to_string());
            }
            "title" if self.scan.title.is_none() => {
                self.scan.title = Some(String::new());
                self.is_in_title = true;
            }
            "html" if self.scan.language.is_none() => {
                let language = attribute(tag, "lang").map(|lang| lang.trim().to_owned());
                self.scan.language =
                    language.filter(|lang| !lang.is_empty() && lang.len() <= MAX_LANGUAGE);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: &Tag) {
        self.open.end(&tag.name);
        match &*tag.name {
            "br" => {
                self.end_head();
                self.refuse_frames();
            }
            "frameset" => {
                self.frames = match self.frames {
                    Frames::Begun(0) => Frames::Over,
                    Frames::Begun(inner) => Frames::Begun(inner - 1),
                    other => other,
                };
            }
            "body" | "html" => self.end_head(),
            "title" => self.is_in_title = false,
            "a" => self.anchor = None,
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.is_in_title {
            if let Some(title) = self.scan.title.as_mut() {
                push_within(title, text, MAX_TITLE);
            }
            return;
        }
        let is_shown = !self.open.is_text_only() && !self.open.is_inert();
        if is_shown && text.contains(|letter: char| !letter.is_ascii_whitespace()) {
            self.end_head();
            self.refuse_frames();
        }
        if let Some(link) = self.anchor.and_then(|at| self.scan.links.get_mut(at)) {
            push_within(&mut link.anchor, text, MAX_ANCHOR);
        }
    }

    /// Takes a link; one that is written like an earlier one only adds to that.
    fn link(&mut self, tag: &Tag, href: Option<&StrTendril>, from: From) -> Option<usize> {
        let href = href?;
        let nofollow = attribute(tag, "rel").is_some_and(|rel| has_word(rel, "nofollow"));
        let links = &mut self.scan.links;
        if let Some(at) = self.known.get(&(href.clone(), from)).copied() {
            let link = links.get_mut(at)?;
            link.nofollow &= nofollow;
            let is_unnamed = link.anchor.trim().is_empty();
            return is_unnamed.then_some(at);
        }
        if links.len() >= MAX_LINKS {
            return None;
        }
        self.known.insert((href.clone(), from), links.len());
        links.push(RawLink {
            href: href.clone(),
            from,
            nofollow,
            anchor: String::new(),
        });
        Some(links.len() - 1)
    }

    fn link_element(&mut self, tag: &Tag) {
        let (Some(rel), Some(href)) = (attribute(tag, "rel"), filled(tag, "href")) else {
            return;
        };
        let has_room = self.scan.canonicals.len() < MAX_CANONICALS;
        if has_word(rel, "canonical") && !self.is_head_over && has_room {
            self.scan.canonicals.push(href.to_string());
        }
        for (word, from) in [
            ("next", From::Next),
            ("prev", From::Prev),
            ("alternate", From::Alternate),
        ] {
            let is_style = from == From::Alternate && has_word(rel, "stylesheet");
            if has_word(rel, word) && !is_style {
                self.link(tag, Some(href), from);
            }
        }
    }

    fn meta(&mut self, tag: &Tag) {
        let Some(content) = attribute(tag, "content") else {
            return;
        };
        if let Some(name) = attribute(tag, "name") {
            let name = name.trim();
            if name.eq_ignore_ascii_case("robots") || name.eq_ignore_ascii_case(&self.agent) {
                self.scan.robots = self.scan.robots.and(directives::of_content(content));
            } else if name.eq_ignore_ascii_case("description") && self.scan.description.is_none() {
                let mut description = String::new();
                push_within(&mut description, content, MAX_TITLE);
                self.scan.description = Some(description);
            }
        }
        let is_refresh = attribute(tag, "http-equiv")
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("refresh"));
        if let Some(target) = directives::refresh_target(content).filter(|_| is_refresh) {
            self.link(tag, Some(&StrTendril::from_slice(target)), From::Refresh);
        }
    }
}

fn attribute<'a>(tag: &'a Tag, name: &str) -> Option<&'a StrTendril> {
    let mut attributes = tag.attrs.iter();
    let found = attributes.find(|attribute| &*attribute.name.local == name);
    found.map(|attribute| &attribute.value)
}

/// An address that leads nowhere where it is empty, other than in `a` and `area`.
fn filled<'a>(tag: &'a Tag, name: &str) -> Option<&'a StrTendril> {
    attribute(tag, name).filter(|value| !value.trim().is_empty())
}

fn has_word(text: &str, word: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    words.any(|one| one.eq_ignore_ascii_case(word))
}
