//! A site that is known in advance: which path answers what, which links lead where, what robots.txt forbids.
//!
//! Built by hand or by [`Graph`], which gives the same site for the same seed on every machine. Because the site is
//! data, the oracle below can say exactly which pages a correct crawl delivers, and at which depth.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;

/// What one request for a path gets.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers beside Content-Length.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// How long the server thinks before it answers.
    pub delay: Duration,
    /// Absolute URLs that a crawler finds in the body.
    pub links: Vec<String>,
}

impl Answer {
    /// An HTML page with a text of its own and these links.
    pub fn page(title: &str, links: &[String]) -> Self {
        let mut body = format!(
            "<!doctype html><html lang=en><head><meta charset=utf-8><title>{title}</title></head>\n\
             <body><main><h1>{title}</h1>\n<p>This page is called {title} and no other page says so. It is long \
             enough to read, and says nothing else of note.</p>\n<ul>\n"
        );
        for (index, link) in links.iter().enumerate() {
            let fragment = if index % 3 == 2 { "#part" } else { "" };
            writeln!(
                body,
                "<li><a href=\"{link}{fragment}\">see {index}</a></li>"
            )
            .ok();
        }
        body.push_str("</ul></main></body></html>\n");
        let mut answer = Self::text(200, "text/html; charset=utf-8", body);
        answer.links = links.to_vec();
        answer
    }

    /// Any body of any kind.
    pub fn text(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status,
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            body: body.into(),
            delay: Duration::ZERO,
            links: Vec::new(),
        }
    }

    /// A redirect to `target`.
    pub fn redirect(status: u16, target: &str) -> Self {
        Self::text(status, "text/plain", "moved").header("Location", target)
    }

    /// The same answer with one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same answer after a pause.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    fn location(&self) -> Option<&str> {
        let mut names = self.headers.iter();
        names
            .find(|(name, _)| name == "Location")
            .map(|(_, value)| value.as_str())
    }
}

/// Many hosts on one port.
#[derive(Clone, Debug)]
pub struct Site {
    port: u16,
    answers: BTreeMap<(String, String), Vec<Answer>>,
    disallowed: BTreeMap<String, Vec<String>>,
}

impl Site {
    /// An empty site behind `port`; every path answers 404.
    pub fn new(port: u16) -> Self {
        Self {
            port,
            answers: BTreeMap::new(),
            disallowed: BTreeMap::new(),
        }
    }

    /// The absolute URL of a path.
    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// Answers a path.
    pub fn put(&mut self, host: &str, path: &str, answer: Answer) {
        self.put_all(host, path, vec![answer]);
    }

    /// Answers successive requests for a path; the last answer stays.
    pub fn put_all(&mut self, host: &str, path: &str, answers: Vec<Answer>) {
        self.answers
            .insert((host.to_owned(), path.to_owned()), answers);
    }

    /// Puts an HTML page whose links are paths of the same host.
    pub fn page(&mut self, host: &str, path: &str, links: &[&str]) {
        let links: Vec<String> = links.iter().map(|link| self.url(host, link)).collect();
        self.put(host, path, Answer::page(&format!("{host}{path}"), &links));
    }

    /// Writes a robots.txt that forbids these path prefixes to everyone.
    pub fn disallow(&mut self, host: &str, prefixes: &[&str]) {
        let mut body = "User-agent: *\n".to_owned();
        for prefix in prefixes {
            writeln!(body, "Disallow: {prefix}").ok();
        }
        self.put(host, "/robots.txt", Answer::text(200, "text/plain", body));
        let prefixes = prefixes.iter().map(|&prefix| prefix.to_owned()).collect();
        self.disallowed.insert(host.to_owned(), prefixes);
    }

    /// What a host answers for a path at its `nth` request (from 0).
    pub fn answer(&self, host: &str, path: &str, nth: usize) -> Option<&Answer> {
        let answers = self.answers.get(&(host.to_owned(), path.to_owned()))?;
        answers.get(nth).or_else(|| answers.last())
    }

    /// The hosts that answer anything, in order.
    pub fn hosts(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.answers.keys().map(|(host, _)| host).collect();
        names.into_iter().cloned().collect()
    }

    /// Every page within `max_depth` links of the seeds, on hosts that `in_scope` accepts, allowed by robots.txt and
    /// answered with 200: its URL and its depth. A redirect costs no depth.
    pub fn reachable(
        &self,
        seeds: &[String],
        max_depth: u32,
        in_scope: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, u32> {
        let mut queue: VecDeque<(String, u32)> =
            seeds.iter().map(|seed| (seed.clone(), 0)).collect();
        let mut seen: BTreeSet<String> = seeds.iter().cloned().collect();
        let mut pages = BTreeMap::new();
        while let Some((url, depth)) = queue.pop_front() {
            let Some((host, path)) = self.split(&url) else {
                continue;
            };
            if !in_scope(host) || self.is_disallowed(host, path) {
                continue;
            }
            let last = self
                .answers
                .get(&(host.to_owned(), path.to_owned()))
                .and_then(|all| all.last());
            let Some(answer) = last else { continue };
            if let Some(target) = answer.location() {
                if seen.insert(target.to_owned()) {
                    queue.push_front((target.to_owned(), depth));
                }
                continue;
            }
            if answer.status != 200 {
                continue;
            }
            pages.insert(url.clone(), depth);
            for link in answer.links.iter().filter(|_| depth < max_depth) {
                if seen.insert(link.clone()) {
                    queue.push_back((link.clone(), depth + 1));
                }
            }
        }
        pages
    }

    fn is_disallowed(&self, host: &str, path: &str) -> bool {
        let prefixes = self.disallowed.get(host);
        prefixes.is_some_and(|all| all.iter().any(|prefix| path.starts_with(prefix)))
    }

    fn split<'a>(&self, url: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = url.strip_prefix("http://")?;
        let slash = rest.find('/')?;
        let (authority, path) = rest.split_at(slash);
        let host = authority.strip_suffix(&format!(":{}", self.port))?;
        Some((host, path))
    }
}

/// A generated site: a tree of pages a host, with further links at random, the same for the same seed.
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    /// Chooses the links.
    pub seed: u64,
    /// How many hosts, named `h0.test`, `h1.test` and so on.
    pub hosts: usize,
    /// Pages of each host, the root included.
    pub pages: usize,
    /// Children of a page in the tree.
    pub branches: usize,
    /// Links of a page beside those of the tree.
    pub extra_links: usize,
    /// Whether each root links the root of the next host.
    pub is_chained: bool,
}

impl Default for Graph {
    fn default() -> Self {
        Self {
            seed: 1,
            hosts: 1,
            pages: 20,
            branches: 3,
            extra_links: 3,
            is_chained: false,
        }
    }
}

impl Graph {
    /// Builds the site behind `port`.
    pub fn site(self, port: u16) -> Site {
        let mut site = Site::new(port);
        let mut dice = Dice(self.seed);
        for host in 0..self.hosts {
            let name = host_name(host);
            for page in 0..self.pages {
                let mut links = Vec::new();
                let first = page * self.branches + 1;
                for child in first..(first + self.branches).min(self.pages) {
                    links.push(site.url(&name, &path_of(child)));
                }
                for _ in 0..self.extra_links {
                    links.push(site.url(&name, &path_of(dice.below(self.pages))));
                }
                if page == 0 && self.is_chained {
                    links.push(site.url(&host_name((host + 1) % self.hosts), "/"));
                }
                let path = path_of(page);
                site.put(&name, &path, Answer::page(&format!("{name}{path}"), &links));
            }
        }
        site
    }
}

/// The name of a generated host.
pub fn host_name(index: usize) -> String {
    format!("h{index}.test")
}

/// The path of a generated page; the first is the root.
pub fn path_of(page: usize) -> String {
    match page {
        0 => "/".to_owned(),
        page => format!("/page/{page}"),
    }
}

/// Numbers that look random and are the same everywhere (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % bound.max(1) as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Graph, Site};

    #[test]
    fn a_graph_is_the_same_for_the_same_seed_and_whole() {
        let graph = Graph {
            hosts: 3,
            pages: 50,
            is_chained: true,
            ..Graph::default()
        };
        let (one, two) = (graph.site(80), graph.site(80));
        let seeds = [one.url("h0.test", "/")];
        let pages = one.reachable(&seeds, 100, |_| true);
        assert_eq!(pages.len(), 150, "every page can be reached");
        assert_eq!(pages, two.reachable(&seeds, 100, |_| true));
        let own = one.reachable(&seeds, 100, |host| host == "h0.test");
        assert_eq!(own.len(), 50);
    }

    #[test]
    fn the_oracle_knows_depth_robots_and_redirects() {
        let mut site = Site::new(80);
        site.page("a.test", "/", &["/one", "/old", "/secret/x", "/gone"]);
        site.page("a.test", "/one", &["/two"]);
        site.page("a.test", "/two", &[]);
        site.page("a.test", "/new", &[]);
        site.page("a.test", "/secret/x", &[]);
        let target = site.url("a.test", "/new");
        site.put("a.test", "/old", Answer::redirect(301, &target));
        site.put("a.test", "/gone", Answer::text(404, "text/plain", "no"));
        site.disallow("a.test", &["/secret/"]);
        let seeds = [site.url("a.test", "/")];
        let pages: Vec<(String, u32)> = site.reachable(&seeds, 1, |_| true).into_iter().collect();
        let expected = [("/", 0), ("/new", 1), ("/one", 1)];
        assert_eq!(
            pages,
            expected.map(|(path, depth)| (site.url("a.test", path), depth))
        );
    }
}
