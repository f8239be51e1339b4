//! Which URL of a host goes out first: the order of a session's queue as a number, the smaller the sooner.
//!
//! A score is a weighted mean of signals, each from 0 to 1. A signal is a row in [`SIGNALS`]; another one is another
//! row. Text is judged by BM25 (Robertson and Zaragoza 2009, k1 = 1.2, b = 0.75) over the link texts seen so far.

use std::collections::BTreeMap;

use proto::Timestamp;
use proto::v1::{self, SitemapFacts, WalkOrder, Weights};

use crate::records::CorpusRow;

/// The greatest order within a rank.
const LAST: u32 = (1 << 24) - 1;
const MAX_WEIGHT: f32 = 100.0;
/// A page that changed this long ago counts half as fresh as one that changed now.
const HALF_LIFE_DAYS: f64 = 30.0;
const K1: f64 = 1.2;
const B: f64 = 0.75;
const MAX_QUERY_WORDS: usize = 32;
/// The fewer, the sooner a better URL that shows up is asked for.
const BEST_AT_ONCE: usize = 4;

/// What is known of a URL before it is fetched.
pub(crate) struct Candidate<'a> {
    pub(crate) depth: u32,
    pub(crate) facts: Option<&'a SitemapFacts>,
    /// From 0 to 1.
    pub(crate) relevance: f32,
    pub(crate) in_links: u32,
}

/// The order of one session.
#[derive(Debug)]
pub(crate) struct Walk {
    order: WalkOrder,
    weights: Weights,
    words: Vec<String>,
    host_fair: bool,
    now: Timestamp,
}

type Signal = (fn(&Weights) -> f32, fn(&Candidate<'_>, Timestamp) -> f64);

const SIGNALS: [Signal; 5] = [
    (|w| w.depth, |url, _| 1.0 / (1.0 + f64::from(url.depth))),
    (|w| w.priority, |url, _| priority(url.facts)),
    (|w| w.freshness, |url, now| freshness(url.facts, now)),
    (|w| w.text, |url, _| f64::from(url.relevance)),
    (
        |w| w.links,
        |url, _| {
            let links = f64::from(url.in_links);
            links / (links + 4.0)
        },
    ),
];

/// The protocol's priority, 0.5 where none is named.
fn priority(facts: Option<&SitemapFacts>) -> f64 {
    let named = facts.and_then(|facts| facts.priority.trim().parse::<f64>().ok());
    let named = named.filter(|number| number.is_finite());
    named.unwrap_or(0.5).clamp(0.0, 1.0)
}

fn freshness(facts: Option<&SitemapFacts>, now: Timestamp) -> f64 {
    let Some(changed) = facts.and_then(|facts| Timestamp::latest_of_w3c(&facts.lastmod)) else {
        return 0.5;
    };
    let age = now.since(changed).as_secs_f64() / 86_400.0;
    0.5_f64.powf(age / HALF_LIFE_DAYS)
}

impl Walk {
    /// The order that a spec asks for.
    pub(crate) fn of(spec: &v1::SessionSpec, now: Timestamp) -> Self {
        let strategy = spec.strategy.clone().unwrap_or_default();
        let words = words(&strategy.query);
        let weights = strategy.weights.unwrap_or(Weights {
            depth: 1.0,
            priority: 1.0,
            freshness: 0.5,
            text: if words.is_empty() { 0.0 } else { 4.0 },
            links: 0.5,
        });
        let mut distinct = Vec::new();
        for word in words {
            if !distinct.contains(&word) && distinct.len() < MAX_QUERY_WORDS {
                distinct.push(word);
            }
        }
        Self {
            order: strategy.order(),
            weights,
            words: distinct,
            host_fair: strategy.host_fair,
            now,
        }
    }

    /// Whether more that is learned of a URL may move it.
    pub(crate) fn is_scored(&self) -> bool {
        self.order == WalkOrder::Best
    }

    /// Whether the text of links matters.
    pub(crate) fn reads_text(&self) -> bool {
        self.is_scored() && self.weights.text > 0.0 && !self.words.is_empty()
    }

    /// Whether one URL goes out at a time.
    pub(crate) fn is_strict(&self) -> bool {
        self.order == WalkOrder::Strict
    }

    /// Whether the newest of two that are equal goes first.
    pub(crate) fn is_newest_first(&self) -> bool {
        self.order == WalkOrder::Depth
    }

    /// Whether the next URL is chosen only when the links of those that were read are in the queue.
    pub(crate) fn waits_for_links(&self) -> bool {
        matches!(self.order, WalkOrder::Depth | WalkOrder::Best)
    }

    /// How many URLs of one host go out before others had their turn, or before more is known.
    pub(crate) fn at_once(&self) -> usize {
        match self.order {
            _ if self.host_fair => 1,
            WalkOrder::Depth | WalkOrder::Strict => 1,
            WalkOrder::Best => BEST_AT_ONCE,
            WalkOrder::Unspecified | WalkOrder::Breadth => usize::MAX,
        }
    }

    /// The place of a URL, below 2^24.
    pub(crate) fn place(&self, url: &Candidate<'_>) -> u32 {
        match self.order {
            WalkOrder::Unspecified | WalkOrder::Breadth | WalkOrder::Strict => url.depth.min(LAST),
            WalkOrder::Depth => LAST - url.depth.min(LAST),
            WalkOrder::Best => {
                let behind = (1.0 - self.score(url)) * f64::from(LAST);
                // From 0 to `LAST`, so that nothing is lost.
                behind as u32
            }
        }
    }

    /// From 0 to 1.
    fn score(&self, url: &Candidate<'_>) -> f64 {
        let (mut sum, mut weights) = (0.0, 0.0);
        for (weight, signal) in SIGNALS {
            let weight = f64::from(weight(&self.weights));
            sum += weight * signal(url, self.now);
            weights += weight;
        }
        if weights > 0.0 {
            (sum / weights).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// How well a link fits the query, from 0 to 1: by its own text, and half as much by the title of its page.
    pub(crate) fn relevance_of_link(&self, text: &str, title: f32, corpus: &mut CorpusRow) -> f32 {
        (2.0 * self.relevance(text, corpus) + title) / 3.0
    }

    /// How well a text fits the query, from 0 to 1; the text is counted in the corpus.
    pub(crate) fn relevance(&self, text: &str, corpus: &mut CorpusRow) -> f32 {
        let text = words(text);
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for word in &text {
            *counts.entry(word).or_default() += 1;
        }
        corpus.with_word.resize(self.words.len(), 0);
        corpus.texts += 1;
        corpus.words += text.len() as u64;
        for (word, with) in self.words.iter().zip(&mut corpus.with_word) {
            *with += u64::from(counts.contains_key(word.as_str()));
        }
        let texts = corpus.texts as f64;
        let mean = (corpus.words as f64 / texts).max(1.0);
        let (mut sum, mut most) = (0.0, 0.0);
        for (word, with) in self.words.iter().zip(&corpus.with_word) {
            let with = *with as f64;
            let rarity = ((texts - with + 0.5) / (with + 0.5)).ln_1p();
            let count = f64::from(counts.get(word.as_str()).copied().unwrap_or(0));
            let length = 1.0 - B + B * text.len() as f64 / mean;
            sum += rarity * count * (K1 + 1.0) / (count + K1 * length);
            most += rarity * (K1 + 1.0);
        }
        if most > 0.0 { (sum / most) as f32 } else { 0.0 }
    }
}

/// The words of a text in lower case.
fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Why weights cannot be used.
pub(crate) fn check_weights(weights: &Weights) -> Result<(), String> {
    let named = [
        ("depth", weights.depth),
        ("priority", weights.priority),
        ("freshness", weights.freshness),
        ("text", weights.text),
        ("links", weights.links),
    ];
    for (name, weight) in named {
        if !(0.0..=MAX_WEIGHT).contains(&weight) {
            return Err(format!(
                "`{name}` is {weight}; a weight is from 0 to {MAX_WEIGHT}"
            ));
        }
    }
    match named.iter().any(|(_, weight)| *weight > 0.0) {
        true => Ok(()),
        false => Err("every weight is 0; give one signal at least some".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proto::Timestamp;
    use proto::v1::{SessionSpec, SitemapFacts, Strategy, WalkOrder, Weights};

    use super::{Candidate, CorpusRow, LAST, Walk, check_weights};

    fn walk(order: WalkOrder, query: &str, weights: Option<Weights>) -> Walk {
        let strategy = Strategy {
            order: order.into(),
            query: query.to_owned(),
            weights,
            host_fair: false,
        };
        let spec = SessionSpec {
            strategy: Some(strategy),
            ..SessionSpec::default()
        };
        Walk::of(&spec, Timestamp::from_millis(1_772_366_400_000))
    }

    const fn at(depth: u32) -> Candidate<'static> {
        Candidate {
            depth,
            facts: None,
            relevance: 0.0,
            in_links: 0,
        }
    }

    #[test]
    fn breadth_and_depth_are_each_others_mirror() {
        let (breadth, depth) = (
            walk(WalkOrder::Breadth, "", None),
            walk(WalkOrder::Depth, "", None),
        );
        assert!(breadth.place(&at(1)) < breadth.place(&at(2)));
        assert!(depth.place(&at(1)) > depth.place(&at(2)));
        assert_eq!(breadth.place(&at(u32::MAX)), LAST);
    }

    #[test]
    fn each_signal_moves_a_url_forward() {
        let walk = walk(WalkOrder::Best, "rust", None);
        let plain = walk.place(&at(3));
        let facts = |lastmod: &str, priority: &str| SitemapFacts {
            lastmod: lastmod.to_owned(),
            priority: priority.to_owned(),
            ..SitemapFacts::default()
        };
        let (important, fresh, stale) =
            (facts("", "1.0"), facts("2026-03-01", ""), facts("2001", ""));
        let with = |facts| {
            walk.place(&Candidate {
                facts: Some(facts),
                ..at(3)
            })
        };
        assert!(walk.place(&at(2)) < plain);
        assert!(with(&important) < plain);
        assert!(with(&fresh) < plain && plain < with(&stale));
        assert!(
            walk.place(&Candidate {
                relevance: 0.2,
                ..at(3)
            }) < plain
        );
        assert!(
            walk.place(&Candidate {
                in_links: 2,
                ..at(3)
            }) < plain
        );
        for odd in ["nan", "inf", "-1", "x", "7"] {
            let facts = facts("", odd);
            let url = Candidate {
                facts: Some(&facts),
                ..at(3)
            };
            assert!(walk.place(&url) <= LAST);
        }
    }

    #[test]
    fn text_is_judged_by_the_rare_words_of_the_query() {
        let walk = walk(WalkOrder::Best, "the Garbage collector", None);
        let mut corpus = CorpusRow::default();
        for _ in 0..50 {
            walk.relevance("the home of the page", &mut corpus);
        }
        let mut of = |text: &str| walk.relevance(text, &mut corpus);
        let (none, common, rare, all) = (
            of("contact us"),
            of("the page"),
            of("a garbage truck"),
            of("The GARBAGE-collector"),
        );
        assert!(
            none < common && common < rare && rare < all,
            "{none} {common} {rare} {all}"
        );
        assert!(all <= 1.0);
    }

    #[test]
    fn weights_have_bounds() {
        let weights = |depth| Weights {
            depth,
            ..Weights::default()
        };
        assert!(check_weights(&weights(1.0)).is_ok());
        for bad in [0.0, -1.0, 101.0, f32::NAN, f32::INFINITY] {
            assert!(check_weights(&weights(bad)).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_place_is_always_within_its_rank(
            depth: u32, relevance in 0_f32..=1.0, in_links: u32, query in ".{0,20}", texts in prop::collection::vec(".{0,30}", 0..9),
        ) {
            for order in [WalkOrder::Breadth, WalkOrder::Depth, WalkOrder::Best, WalkOrder::Strict] {
                let walk = walk(order, &query, None);
                let mut corpus = CorpusRow::default();
                for text in &texts {
                    let relevance = walk.relevance(text, &mut corpus);
                    prop_assert!((0.0..=1.0).contains(&relevance));
                }
                let url = Candidate { depth, relevance, in_links, facts: None };
                prop_assert!(walk.place(&url) <= LAST);
            }
        }
    }
}
