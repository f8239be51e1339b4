//! A tree that is watched while it grows.
//!
//! Broken markup makes a parser build far more than was written: formatting that is never closed is built again in
//! every paragraph, and some mistakes nest without an end. So the text is fed piece by piece, and a tree that becomes
//! larger or deeper than any real page is given up. What a parser does with one piece stays bounded that way.

use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};

use dom_query::{Document, NodeId, NodeRef};
use html5ever::interface::TokenizerResult;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use html5ever::tree_builder::{
    ElementFlags, NodeOrText, QuirksMode, TreeBuilder, TreeBuilderOpts, TreeSink,
};
use html5ever::{Attribute, QualName};

use super::scan::{self, Scan};

/// How much is parsed before the tree is looked at.
const PIECE: usize = 4 * 1024;

/// Deepest tree that is built; browsers cap at the same depth.
const MAX_DEPTH: usize = 512;

/// Largest tree that is built. A node takes about a hundred bytes.
const MAX_NODES: usize = 600_000;

/// The pass over tokens and the tree of a page, from one tokenizer. The tree is that of the HTML standard's parser for a
/// reader without scripts; `None` where it would become deeper or larger than the bounds.
pub(super) fn read(text: &str, agent: &str) -> (Scan, Option<Document>) {
    let options = TreeBuilderOpts {
        scripting_enabled: false,
        ..TreeBuilderOpts::default()
    };
    let watched = Watched {
        document: Document::default(),
        latest: Cell::new(None),
    };
    let both = Both {
        scan: scan::Sink::new(agent),
        builder: RefCell::new(Some(TreeBuilder::new(watched, options))),
    };
    let tokenizer = Tokenizer::new(both, TokenizerOpts::default());
    let queue = BufferQueue::default();
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(PIECE);
        while !rest.is_char_boundary(end) {
            end += 1;
        }
        queue.push_back(StrTendril::from_slice(&rest[..end]));
        rest = &rest[end..];
        // A script stops the tokenizer where a browser would run it.
        while !matches!(tokenizer.feed(&queue), TokenizerResult::Done) {}
        tokenizer.sink.give_up_overgrown();
    }
    tokenizer.end();
    tokenizer.sink.give_up_overgrown();
    let Both { scan, builder } = tokenizer.sink;
    let document = builder.into_inner().map(|builder| builder.sink.document);
    (scan.finish(), document)
}

/// Hands each token to the pass and to the builder, until the tree is given up.
struct Both {
    scan: scan::Sink,
    builder: RefCell<Option<TreeBuilder<NodeId, Watched>>>,
}

impl Both {
    fn give_up_overgrown(&self) {
        let mut builder = self.builder.borrow_mut();
        if builder
            .as_ref()
            .is_some_and(|builder| builder.sink.is_overgrown())
        {
            *builder = None;
        }
    }
}

impl TokenSink for Both {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<NodeId> {
        let told = self.scan.look(&token);
        match self.builder.borrow().as_ref() {
            Some(builder) => builder.process_token(token, line),
            None => match told {
                TokenSinkResult::RawData(kind) => TokenSinkResult::RawData(kind),
                TokenSinkResult::Plaintext => TokenSinkResult::Plaintext,
                TokenSinkResult::Continue
                | TokenSinkResult::Script(())
                | TokenSinkResult::EncodingIndicator(_) => TokenSinkResult::Continue,
            },
        }
    }

    fn end(&self) {
        if let Some(builder) = self.builder.borrow().as_ref() {
            builder.end();
        }
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        match self.builder.borrow().as_ref() {
            Some(builder) => builder.adjusted_current_node_present_but_not_in_html_namespace(),
            None => self
                .scan
                .adjusted_current_node_present_but_not_in_html_namespace(),
        }
    }
}

/// A document that remembers where it grew last.
struct Watched {
    document: Document,
    latest: Cell<Option<NodeId>>,
}

impl Watched {
    fn is_overgrown(&self) -> bool {
        let tree = &self.document.tree;
        let depth = self.latest.get().map_or(0, |latest| {
            let above = NodeRef::new(latest, tree);
            above.ancestors_it(None).take(MAX_DEPTH + 1).count()
        });
        depth > MAX_DEPTH || tree.len() > MAX_NODES
    }
}

impl TreeSink for Watched {
    type Handle = NodeId;
    type Output = Self;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Self {
        self
    }

    fn parse_error(&self, _message: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        self.document.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Ref<'a, QualName> {
        self.document.elem_name(target)
    }

    fn create_element(
        &self,
        name: QualName,
        attributes: Vec<Attribute>,
        flags: ElementFlags,
    ) -> NodeId {
        self.document.create_element(name, attributes, flags)
    }

    fn create_comment(&self, text: StrTendril) -> NodeId {
        self.document.create_comment(text)
    }

    fn create_pi(&self, target: StrTendril, data: StrTendril) -> NodeId {
        self.document.create_pi(target, data)
    }

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        self.latest.set(Some(*parent));
        self.document.append(parent, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &NodeId,
        previous: &NodeId,
        child: NodeOrText<NodeId>,
    ) {
        self.latest.set(Some(*element));
        self.document
            .append_based_on_parent_node(element, previous, child);
    }

    fn append_doctype_to_document(&self, name: StrTendril, public: StrTendril, system: StrTendril) {
        self.document
            .append_doctype_to_document(name, public, system);
    }

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        self.document.get_template_contents(target)
    }

    fn same_node(&self, one: &NodeId, other: &NodeId) -> bool {
        one == other
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.document.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        self.latest.set(Some(*sibling));
        self.document.append_before_sibling(sibling, child);
    }

    fn add_attrs_if_missing(&self, target: &NodeId, attributes: Vec<Attribute>) {
        self.document.add_attrs_if_missing(target, attributes);
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.document.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        self.document.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &NodeId) -> bool {
        self.document
            .is_mathml_annotation_xml_integration_point(handle)
    }
}
