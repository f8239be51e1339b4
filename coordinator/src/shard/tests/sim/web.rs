//! The web of a simulation: what every URL answers, and what a perfect crawler would find of it.

use std::collections::{BTreeMap, BTreeSet};

use proto::v1::{self, SessionKind};
use proto::{CompiledScope, CrawlUrl};

use super::random::Random;

/// What a URL answers.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    Page {
        links: Vec<String>,
        size: u64,
        content: u64,
    },
    Redirect(String),
    /// It is not there, and trying again does not help.
    Gone,
    /// A page without links, after so many failures.
    Flaky {
        failures: u32,
        size: u64,
    },
    /// A page without links, after the host has pushed back so many times.
    Busy {
        times: u32,
        size: u64,
    },
    /// robots.txt forbids it.
    Forbidden,
}

/// How a host behaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Site {
    pub(super) crawl_delay: u64,
    /// Most time for an answer.
    pub(super) latency: u64,
    /// So many tries at robots.txt fail first; for ever when the host is dead.
    pub(super) robots_failures: u32,
    pub(super) is_dead: bool,
}

pub(super) struct Web {
    pub(super) answers: BTreeMap<String, Answer>,
    pub(super) sites: BTreeMap<String, Site>,
}

impl Web {
    pub(super) fn draw(random: &mut Random) -> Self {
        let mut sites = BTreeMap::new();
        for number in 0..random.between(1, 8) {
            let name = match random.below(4) {
                0 => format!("http://sub{number}.h0.test"),
                1 => format!("http://h{number}.test:8080"),
                _ => format!("http://h{number}.test"),
            };
            let site = Site {
                crawl_delay: if random.chance(15) { 3_000 } else { 0 },
                latency: random.one(&[5, 50, 400, 3_000]),
                robots_failures: u32::try_from(random.one(&[0, 0, 0, 0, 0, 0, 1, 2])).unwrap(),
                is_dead: random.chance(4),
            };
            sites.insert(name, site);
        }
        let names: Vec<String> = sites.keys().cloned().collect();
        let urls: Vec<String> = (0..random.between(2, 70))
            .map(|number| {
                let url = format!("{}/{number}", random.one(&names));
                CrawlUrl::parse(&url).unwrap().as_str().to_owned()
            })
            .collect();
        let mut answers = BTreeMap::new();
        for (number, url) in urls.iter().enumerate() {
            answers.insert(url.clone(), Self::answer(random, number as u64, &urls));
        }
        Self { answers, sites }
    }

    fn answer(random: &mut Random, number: u64, urls: &[String]) -> Answer {
        let size = random.between(1, 1_000);
        match random.below(100) {
            0..4 => Answer::Gone,
            4..8 => Answer::Flaky {
                failures: u32::try_from(random.between(1, 2)).unwrap(),
                size,
            },
            8..10 => Answer::Busy { times: 1, size },
            10..13 => Answer::Forbidden,
            13..20 => Answer::Redirect(random.one(urls)),
            _ => {
                let mut links: Vec<String> =
                    (0..random.below(7)).map(|_| random.one(urls)).collect();
                // A chain, so that most of the web hangs together and some of it is deep.
                if let Some(next) = urls.get(usize::try_from(number).unwrap() + 1)
                    && random.chance(85)
                {
                    links.push(next.clone());
                }
                let content = if random.chance(12) {
                    random.below(4)
                } else {
                    100 + number
                };
                // Two pages with one content have the same links and the same size.
                if content < 4 {
                    let at = usize::try_from(content).unwrap() % urls.len();
                    links = vec![urls[at].clone(), urls[urls.len() - 1 - at].clone()];
                    return Answer::Page {
                        links,
                        size: 77,
                        content,
                    };
                }
                Answer::Page {
                    links,
                    size,
                    content,
                }
            }
        }
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.answers.keys().cloned().collect()
    }

    pub(super) fn site(&self, url: &str) -> Site {
        let host = CrawlUrl::parse(url).unwrap().host_key();
        self.sites.get(host.as_str()).cloned().unwrap_or_default()
    }

    /// Every URL that the session has to know of, with its distance from the seeds.
    pub(super) fn reach(
        &self,
        spec: &v1::SessionSpec,
        scope: &CompiledScope,
    ) -> BTreeMap<String, u32> {
        let max = spec.budget.as_ref().and_then(|budget| budget.max_depth);
        let max = if spec.kind() == SessionKind::Crawl {
            max
        } else {
            None
        };
        let is_inside = |url: &str| scope.allows(&CrawlUrl::parse(url).unwrap());
        let mut found: BTreeMap<String, u32> = BTreeMap::new();
        let mut next: BTreeSet<(u32, String)> = BTreeSet::new();
        for seed in &spec.seeds {
            next.insert((0, seed.clone()));
        }
        while let Some((depth, url)) = next.pop_first() {
            if found.get(&url).is_some_and(|known| *known <= depth) {
                continue;
            }
            found.insert(url.clone(), depth);
            let is_asked =
                spec.seeds.contains(&url) || is_inside(&url) || spec.kind() == SessionKind::Batch;
            if max.is_some_and(|max| depth > max) || !is_asked || self.site(&url).is_dead {
                continue;
            }
            match &self.answers[&url] {
                Answer::Page { links, .. } if spec.kind() == SessionKind::Crawl => {
                    for link in links.iter().filter(|link| is_inside(link)) {
                        next.insert((depth + 1, link.clone()));
                    }
                }
                Answer::Redirect(target) => {
                    next.insert((depth, target.clone()));
                }
                Answer::Page { .. }
                | Answer::Gone
                | Answer::Flaky { .. }
                | Answer::Busy { .. }
                | Answer::Forbidden => {}
            }
        }
        found
    }
}
