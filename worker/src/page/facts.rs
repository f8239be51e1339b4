//! What a page says about itself, as JSON.

use dom_query::{Document, NodeRef};
use proto::CrawlUrl;
use serde_json::{Map, Value, json};

use super::addresses::Addresses;
use super::tree::{attribute, name, raw_text, text_within};
use super::{Page, collapsed, srcset};

/// Most images, headings, links and the like that are listed.
const MAX_LISTED: usize = 1000;

/// How much is read of the text of a heading or a link, in bytes.
const MAX_LABEL: usize = 1000;

/// Longest structured data that is kept, in bytes.
const MAX_LD: usize = 256 * 1024;

/// The facts of a page that has no tree.
pub(super) fn of_page(page: &Page, text: &str) -> String {
    let mut facts = head(page);
    facts.insert("word_count".into(), json!(text.split_whitespace().count()));
    Value::Object(facts).to_string()
}

/// The facts of a page.
pub(super) fn of_tree(page: &Page, document: &Document, addresses: &Addresses<'_>) -> String {
    let mut facts = head(page);
    let mut found = Found::default();
    for node in document.root().descendants_it().filter(NodeRef::is_element) {
        found.element(&node, addresses);
    }
    let text = super::tree::text(document);
    facts.insert("word_count".into(), json!(text.split_whitespace().count()));
    facts.insert("author".into(), json!(found.author));
    facts.insert("published".into(), json!(found.published));
    facts.insert("modified".into(), json!(found.modified));
    facts.insert("robots".into(), json!(found.robots));
    facts.insert("open_graph".into(), Value::Object(found.open_graph));
    facts.insert("twitter".into(), Value::Object(found.twitter));
    facts.insert("json_ld".into(), Value::Array(found.json_ld));
    facts.insert("next".into(), json!(found.next));
    facts.insert("prev".into(), json!(found.prev));
    facts.insert("hreflang".into(), Value::Array(found.hreflang));
    facts.insert("feeds".into(), Value::Array(found.feeds));
    facts.insert("headings".into(), Value::Array(found.headings));
    facts.insert("images".into(), Value::Array(found.images));
    facts.insert("links".into(), Value::Array(found.links));
    Value::Object(facts).to_string()
}

fn head(page: &Page) -> Map<String, Value> {
    let mut facts = Map::new();
    facts.insert("title".into(), json!(page.title));
    facts.insert("description".into(), json!(page.description));
    facts.insert("language".into(), json!(page.language));
    facts.insert("charset".into(), json!(page.charset));
    let canonical = page.canonical.as_ref().map(CrawlUrl::as_str);
    facts.insert("canonical".into(), json!(canonical));
    facts.insert("noindex".into(), json!(page.noindex));
    facts.insert("nofollow".into(), json!(page.nofollow));
    facts
}

#[derive(Default)]
struct Found {
    author: Option<String>,
    published: Option<String>,
    modified: Option<String>,
    robots: Option<String>,
    open_graph: Map<String, Value>,
    twitter: Map<String, Value>,
    json_ld: Vec<Value>,
    next: Option<String>,
    prev: Option<String>,
    hreflang: Vec<Value>,
    feeds: Vec<Value>,
    headings: Vec<Value>,
    images: Vec<Value>,
    links: Vec<Value>,
}

impl Found {
    fn element(&mut self, node: &NodeRef<'_>, addresses: &Addresses<'_>) {
        let name = name(node);
        match &*name {
            "meta" => self.meta(node),
            "link" => self.link_element(node, addresses),
            "script" => self.script(node),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let level = name.as_bytes().get(1).map_or(0, |digit| digit - b'0');
                let text = collapsed(&text_within(node, MAX_LABEL));
                push(&mut self.headings, json!({"level": level, "text": text}));
            }
            "img" => self.image(node, addresses),
            "source" => self.sources(node, addresses),
            "a" => self.anchor(node, addresses),
            "time" if self.published.is_none() && node.has_attr("pubdate") => {
                self.published = attribute(node, "datetime");
            }
            _ => {}
        }
    }

    /// An image, with the sizes that `srcset` offers of it.
    fn image(&mut self, node: &NodeRef<'_>, addresses: &Addresses<'_>) {
        let others = set_of(node, addresses);
        let url = attribute(node, "src").and_then(|src| addresses.absolute(&src));
        if let Some(url) = url.or_else(|| others.first().cloned()) {
            let alt = attribute(node, "alt");
            let image = json!({"url": url, "alt": alt, "srcset": others});
            push(&mut self.images, image);
        }
    }

    /// The sizes and formats that a `picture` offers beside its image.
    fn sources(&mut self, node: &NodeRef<'_>, addresses: &Addresses<'_>) {
        let others = set_of(node, addresses);
        if let Some(url) = others.first() {
            let image = json!({"url": url, "alt": Value::Null, "srcset": others});
            push(&mut self.images, image);
        }
    }

    fn anchor(&mut self, node: &NodeRef<'_>, addresses: &Addresses<'_>) {
        if self.links.len() >= MAX_LISTED {
            return;
        }
        let base = addresses.base();
        let url = attribute(node, "href").and_then(|href| base.url().join(&href).ok());
        let Some(url) = url else {
            return;
        };
        let kind = match url.scheme() {
            "http" | "https" => match CrawlUrl::from_url(&url) {
                Ok(target) if target.host_key() == base.host_key() => "internal",
                Ok(target) if target.domain() == base.domain() => "domain",
                Ok(_) | Err(_) => "external",
            },
            "mailto" => "email",
            "tel" => "phone",
            _ => "other",
        };
        if kind == "other" || !addresses.take(url.as_str().len()) {
            return;
        }
        let text = collapsed(&text_within(node, MAX_LABEL));
        let rel = attribute(node, "rel");
        let link = json!({"url": url.as_str(), "text": text, "rel": rel, "kind": kind});
        push(&mut self.links, link);
    }

    fn meta(&mut self, node: &NodeRef<'_>) {
        let key = attribute(node, "property").or_else(|| attribute(node, "name"));
        let (Some(key), Some(content)) = (key, attribute(node, "content")) else {
            return;
        };
        let key = key.to_ascii_lowercase();
        if let Some(name) = key.strip_prefix("og:") {
            add(&mut self.open_graph, name, content);
        } else if let Some(name) = key.strip_prefix("twitter:") {
            add(&mut self.twitter, name, content);
        } else {
            let slot = match key.as_str() {
                "author" | "article:author" | "dc.creator" => &mut self.author,
                "article:published_time" | "date" | "dc.date" | "datepublished" => {
                    &mut self.published
                }
                "article:modified_time" | "last-modified" | "datemodified" => &mut self.modified,
                "robots" => &mut self.robots,
                _ => return,
            };
            slot.get_or_insert(content);
        }
    }

    fn link_element(&mut self, node: &NodeRef<'_>, addresses: &Addresses<'_>) {
        let rel = attribute(node, "rel")
            .unwrap_or_default()
            .to_ascii_lowercase();
        let is = |wanted: &str| rel.split_ascii_whitespace().any(|word| word == wanted);
        let Some(url) = attribute(node, "href").and_then(|href| addresses.absolute(&href)) else {
            return;
        };
        if is("next") {
            self.next.get_or_insert_with(|| url.clone());
        }
        if is("prev") || is("previous") {
            self.prev.get_or_insert_with(|| url.clone());
        }
        if !is("alternate") {
            return;
        }
        if let Some(language) = attribute(node, "hreflang") {
            push(
                &mut self.hreflang,
                json!({"language": language, "url": url}),
            );
        }
        let kind = attribute(node, "type")
            .unwrap_or_default()
            .to_ascii_lowercase();
        if kind.contains("rss") || kind.contains("atom") || kind.contains("feed+json") {
            let title = attribute(node, "title");
            push(
                &mut self.feeds,
                json!({"url": url, "type": kind, "title": title}),
            );
        }
    }

    /// Structured data, parsed where it can be, else as the text it is.
    fn script(&mut self, node: &NodeRef<'_>) {
        let kind = attribute(node, "type").unwrap_or_default();
        if !kind.eq_ignore_ascii_case("application/ld+json") {
            return;
        }
        let text = raw_text(node);
        if text.len() <= MAX_LD {
            let value = serde_json::from_str(&text);
            push(&mut self.json_ld, value.unwrap_or(Value::String(text)));
        }
    }
}

/// The addresses of an element's `srcset`.
fn set_of(node: &NodeRef<'_>, addresses: &Addresses<'_>) -> Vec<String> {
    let set = attribute(node, "srcset").unwrap_or_default();
    let candidates = srcset::candidates(&set).into_iter();
    candidates
        .filter_map(|address| addresses.absolute(address))
        .collect()
}

fn push(list: &mut Vec<Value>, value: Value) {
    if list.len() < MAX_LISTED {
        list.push(value);
    }
}

/// Several values of one name become a list.
fn add(map: &mut Map<String, Value>, name: &str, content: String) {
    let has_room = map.len() < MAX_LISTED;
    match map.get_mut(name) {
        Some(Value::Array(all)) => push(all, Value::String(content)),
        Some(first) => *first = json!([first.take(), content]),
        None if has_room => drop(map.insert(name.to_owned(), content.into())),
        None => {}
    }
}
