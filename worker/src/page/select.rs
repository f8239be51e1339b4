//! Values that a caller's CSS selectors find on a page.

use std::collections::BTreeMap;

use dom_query::{Matcher, NodeRef};
use proto::CrawlUrl;
use proto::v1::Selector;
use serde_json::{Map, Value, json};

use super::tree::{self, raw_text};
use super::{collapsed, growth};
use crate::charset;

/// Most values of one selector where the caller names no bound.
const USUAL_VALUES: usize = 1_000;
/// Longest value, and all of them together, in bytes.
const MAX_VALUE: usize = 64 * 1024;
const MAX_VALUES: usize = 2 * 1024 * 1024;
/// Most elements that are looked at; what follows is left out and said so.
const MAX_ELEMENTS: usize = 200_000;

/// Values by the selectors' names, as JSON: `values`, `found` (how many each matched), `errors`, `is_cut`.
///
/// Never fails: a selector that cannot be read has an entry among `errors`.
pub fn select(
    body: &[u8],
    content_type: Option<&str>,
    url: &CrawlUrl,
    selectors: &[Selector],
    most: usize,
) -> String {
    let (text, _) = charset::decode(body, content_type);
    let (scan, document) = growth::read(&text, "");
    let mut found = Found::default();
    let matchers = found.matchers(selectors);
    let base = url.with_base_href(scan.base_href.as_deref());
    let Some(document) = document else {
        for (selector, _) in &matchers {
            let why = "the page is larger or nested deeper than any that is searched";
            found.errors.insert(selector.name.clone(), json!(why));
        }
        return found.told();
    };
    let most = if most == 0 { USUAL_VALUES } else { most };
    let root = document.root();
    for (count, node) in root
        .descendants_it()
        .filter(NodeRef::is_element)
        .enumerate()
    {
        if count >= MAX_ELEMENTS {
            found.is_cut = true;
            break;
        }
        for (selector, matcher) in &matchers {
            if matcher.match_element(&node) {
                found.take(selector, &node, &base, most);
            }
        }
    }
    found.told()
}

#[derive(Default)]
struct Found {
    values: Map<String, Value>,
    counts: BTreeMap<String, u64>,
    errors: Map<String, Value>,
    bytes: usize,
    is_cut: bool,
}

impl Found {
    fn matchers<'a>(&mut self, selectors: &'a [Selector]) -> Vec<(&'a Selector, Matcher)> {
        let mut matchers = Vec::new();
        for selector in selectors {
            let name = &selector.name;
            self.values.insert(name.clone(), json!([]));
            self.counts.insert(name.clone(), 0);
            // Each one asks of every element what is below it; one in another takes time in the square of the page.
            if selector.css.matches(":has(").count() > 1 {
                let why = "more than one `:has()` in a selector is too slow on large pages";
                self.errors.insert(name.clone(), json!(why));
                continue;
            }
            match Matcher::new(&selector.css) {
                Ok(matcher) => matchers.push((selector, matcher)),
                Err(_) => {
                    let why = format!("`{}` is no CSS selector that can be read", selector.css);
                    self.errors.insert(name.clone(), json!(why));
                }
            }
        }
        matchers
    }

    fn take(&mut self, selector: &Selector, node: &NodeRef<'_>, base: &CrawlUrl, most: usize) {
        let value = if selector.attribute.is_empty() {
            Some(collapsed(&raw_text(node)))
        } else {
            attribute(node, &selector.attribute, base)
        };
        let Some(mut value) = value else {
            return;
        };
        *self.counts.entry(selector.name.clone()).or_default() += 1;
        if value.len() > MAX_VALUE {
            value.truncate(value.floor_char_boundary(MAX_VALUE));
            self.is_cut = true;
        }
        let Some(Value::Array(values)) = self.values.get_mut(&selector.name) else {
            return;
        };
        if values.len() >= most || self.bytes + value.len() > MAX_VALUES {
            self.is_cut = true;
            return;
        }
        self.bytes += value.len();
        values.push(Value::String(value));
    }

    fn told(self) -> String {
        json!({ "values": self.values, "found": self.counts, "errors": self.errors,
            "is_cut": self.is_cut })
        .to_string()
    }
}

/// An attribute; addresses are told in full.
fn attribute(node: &NodeRef<'_>, name: &str, base: &CrawlUrl) -> Option<String> {
    let value = tree::attribute(node, name)?;
    let is_address = ["href", "src", "action", "poster", "cite", "data"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name));
    if !is_address {
        return Some(value);
    }
    let joined = base.url().join(&value);
    Some(joined.map_or(value, |url| url.to_string()))
}

#[cfg(test)]
mod tests {
    use proto::CrawlUrl;
    use proto::v1::Selector;
    use serde_json::{Value, json};

    use super::select;

    const PAGE: &str = r#"<title>T</title><base href="/shop/"><ul>
        <li class=item><a href="one">First
          thing</a><b>3 é</b></li>
        <li class=item><a href="two">Second</a></li></ul>"#;

    fn of(page: &str, selectors: &[(&str, &str, &str)], most: usize) -> Value {
        let selectors: Vec<_> = selectors
            .iter()
            .map(|(name, css, attribute)| Selector {
                name: (*name).into(),
                css: (*css).into(),
                attribute: (*attribute).into(),
            })
            .collect();
        let url = CrawlUrl::parse("https://a.test/x").unwrap();
        let told = select(page.as_bytes(), Some("text/html"), &url, &selectors, most);
        serde_json::from_str(&told).unwrap()
    }

    #[test]
    fn values_come_in_the_order_of_the_page() {
        let told = of(
            PAGE,
            &[
                ("name", "li.item > a", ""),
                ("link", "li.item a", "href"),
                ("price", ".item b", ""),
                ("none", "table", ""),
            ],
            0,
        );
        let wanted = json!({ "name": ["First thing", "Second"], "price": ["3 é"], "none": [],
            "link": ["https://a.test/shop/one", "https://a.test/shop/two"] });
        assert_eq!(told["values"], wanted);
        assert_eq!(
            told["found"],
            json!({ "link": 2, "name": 2, "none": 0, "price": 1 })
        );
        assert_eq!(told["is_cut"], false);
    }

    #[test]
    fn a_selector_that_cannot_be_read_is_named_and_the_others_answer() {
        let told = of(
            PAGE,
            &[
                ("bad", "li[", ""),
                ("slow", ":has(:has(a))", ""),
                ("good", "b", ""),
            ],
            0,
        );
        let errors = told["errors"].as_object().unwrap();
        assert_eq!(errors.keys().collect::<Vec<_>>(), ["bad", "slow"]);
        assert_eq!(told["values"]["good"], json!(["3 é"]));
    }

    #[test]
    fn bounds_hold_and_say_so() {
        let told = of(PAGE, &[("name", "a", "")], 1);
        assert_eq!(told["values"]["name"], json!(["First thing"]));
        assert_eq!(told["found"]["name"], 2);
        assert_eq!(told["is_cut"], true);
        let deep = "<div>".repeat(2_000);
        let told = of(&deep, &[("name", "a", "")], 0);
        assert!(told["errors"]["name"].is_string(), "{told}");
        let long = format!("<p>{}", "é".repeat(100_000));
        let told = of(&long, &[("p", "p", "")], 0);
        assert_eq!(told["values"]["p"][0].as_str().unwrap().len(), 64 * 1024);
    }
}
