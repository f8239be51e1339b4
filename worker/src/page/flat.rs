//! The text of a page without a tree: for pages that are nested too deep for one.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};

use super::tree::{is_block, is_unseen};

/// The text of a page, one block a line.
pub(super) fn text(page: &str) -> String {
    let sink = Sink(RefCell::new(State::default()));
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    let queue = BufferQueue::default();
    queue.push_back(StrTendril::from_slice(page));
    drop(tokenizer.feed(&queue));
    tokenizer.end();
    let state = tokenizer.sink.0.into_inner();
    let lines = state.out.lines().map(super::collapsed);
    let lines: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

#[derive(Default)]
struct State {
    out: String,
    /// The text-only element that is left out, until its end tag.
    unseen: Option<String>,
}

struct Sink(RefCell<State>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut state = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(text) if state.unseen.is_none() => {
                // Line ends of the source are blanks; only blocks begin a line.
                state.out.push_str(&text.replace(['\n', '\r'], " "));
            }
            Token::TagToken(tag) if tag.kind == TagKind::EndTag => {
                if state.unseen.as_deref() == Some(&*tag.name) {
                    state.unseen = None;
                } else if is_block(&tag.name) {
                    state.out.push('\n');
                }
            }
            Token::TagToken(tag) => {
                let raw = match &*tag.name {
                    "script" => Some(RawKind::ScriptData),
                    "style" | "xmp" | "iframe" | "noembed" | "noframes" => Some(RawKind::Rawtext),
                    "title" | "textarea" => Some(RawKind::Rcdata),
                    _ => None,
                };
                if is_block(&tag.name) || &*tag.name == "br" {
                    state.out.push('\n');
                }
                if let Some(raw) = raw {
                    if is_unseen(&tag.name) {
                        state.unseen = Some(tag.name.to_string());
                    }
                    return TokenSinkResult::RawData(raw);
                }
            }
            Token::CharacterTokens(_)
            | Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::NullCharacterToken
            | Token::EOFToken
            | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }
}
