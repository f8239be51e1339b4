//! What a robots.txt allows us (RFC 9309): rules of our groups, crawl delay, sitemaps.
//!
//! Any bytes are taken. Rules and paths are brought to one spelling of escapes once, and matching takes time in the
//! length of rule plus path: no pattern can make it explode. Fetching, caching and failures are the host actor's.

mod lines;
mod pattern;

use std::time::Duration;

use proto::CrawlUrl;

use lines::{Field, fields};
use pattern::Pattern;

/// How much of a file is read (RFC 9309, 2.5, asks for at least this much).
const MAX_BYTES: usize = 500 * 1024;

/// The rules of one robots.txt for one product token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Robots {
    /// Longest rule first, allow before disallow at equal length: the first that matches decides.
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
    sitemaps: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    is_allow: bool,
    /// Octets of the rule as it was written.
    weight: usize,
    pattern: Pattern,
}

/// A run of user-agent lines and what follows it.
#[derive(Debug, Default)]
struct Group {
    names_us: bool,
    names_all: bool,
    rules: Vec<Rule>,
    crawl_delay: Option<Duration>,
}

impl Robots {
    /// Reads a robots.txt for the product token `agent` ("CrawlForge"; a version behind it is ignored).
    pub fn parse(body: &[u8], agent: &str) -> Self {
        let ours = product_token(agent.as_bytes());
        let mut groups: Vec<Group> = Vec::new();
        let mut sitemaps = Vec::new();
        let mut is_run_open = false;
        for field in fields(within_limit(body)) {
            match field {
                Field::UserAgent(value) => {
                    if !is_run_open {
                        groups.push(Group::default());
                        is_run_open = true;
                    }
                    if let Some(group) = groups.last_mut() {
                        group.names_all |= is_star(value);
                        let token = product_token(value);
                        group.names_us |= !token.is_empty() && token.eq_ignore_ascii_case(ours);
                    }
                }
                Field::Allow(value) | Field::Disallow(value) => {
                    is_run_open = false;
                    let is_allow = matches!(field, Field::Allow(_));
                    if let Some(group) = groups.last_mut().filter(|_| !value.is_empty()) {
                        group.rules.push(Rule::new(is_allow, value));
                    }
                }
                Field::CrawlDelay(value) => {
                    if let Some(group) = groups.last_mut() {
                        // Where a group names several, the most patient one is kept.
                        group.crawl_delay = group.crawl_delay.max(read_delay(value));
                    }
                }
                Field::Sitemap(value) => {
                    let text = String::from_utf8_lossy(value).into_owned();
                    if !text.is_empty() {
                        sitemaps.push(text);
                    }
                }
            }
        }
        Self::merged(groups, sitemaps)
    }

    /// All groups that name us, or else those for everybody (RFC 9309, 2.2.1).
    fn merged(groups: Vec<Group>, sitemaps: Vec<String>) -> Self {
        let is_named = groups.iter().any(|group| group.names_us);
        let mut robots = Self {
            sitemaps,
            ..Self::default()
        };
        for group in groups {
            if (is_named && group.names_us) || (!is_named && group.names_all) {
                robots.rules.extend(group.rules);
                robots.crawl_delay = robots.crawl_delay.max(group.crawl_delay);
            }
        }
        let order = |rule: &Rule| (std::cmp::Reverse(rule.weight), !rule.is_allow);
        robots.rules.sort_by_key(order);
        robots
    }

    /// Whether this URL may be fetched. `/robots.txt` itself always may.
    pub fn allows(&self, url: &CrawlUrl) -> bool {
        if self.rules.is_empty() || url.url().path() == "/robots.txt" {
            return true;
        }
        let path = pattern::normalised_path(url.path_and_query());
        let decider = self.rules.iter().find(|rule| rule.pattern.matches(&path));
        decider.is_none_or(|rule| rule.is_allow)
    }

    /// The pause that our groups ask for, before any cap.
    pub const fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// The sitemaps it names, canonical and absolute, in order, each once. `base` is the address of the robots.txt.
    pub fn sitemaps(&self, base: &CrawlUrl) -> Vec<String> {
        let mut seen = std::collections::BTreeSet::new();
        let urls = self.sitemaps.iter().filter_map(|text| base.join(text).ok());
        urls.map(String::from)
            .filter(|url| seen.insert(url.clone()))
            .collect()
    }
}

impl Rule {
    fn new(is_allow: bool, value: &[u8]) -> Self {
        Self {
            is_allow,
            weight: value.len(),
            pattern: Pattern::new(value),
        }
    }
}

/// The part that is read; a line that the limit cuts is left out, since half a rule is another rule.
fn within_limit(body: &[u8]) -> &[u8] {
    let Some(head) = body.get(..MAX_BYTES).filter(|head| head.len() < body.len()) else {
        return body;
    };
    let end = head.iter().rposition(|byte| matches!(byte, b'\n' | b'\r'));
    end.map_or(&[], |end| &head[..end])
}

/// The token at the start of a user-agent value: it ends at the first octet that no token has.
fn product_token(value: &[u8]) -> &[u8] {
    let is_token = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'_');
    let end = value.iter().position(|byte| !is_token(byte));
    &value[..end.unwrap_or(value.len())]
}

fn is_star(value: &[u8]) -> bool {
    match value {
        [b'*'] => true,
        [b'*', next, ..] => next.is_ascii_whitespace(),
        _ => false,
    }
}

fn read_delay(value: &[u8]) -> Option<Duration> {
    let seconds: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use proto::CrawlUrl;

    use super::{MAX_BYTES, Robots};

    fn allows(body: &str, path: &str) -> bool {
        let url = CrawlUrl::parse(&format!("https://site.test{path}")).unwrap();
        Robots::parse(body.as_bytes(), "CrawlForge/1.0").allows(&url)
    }

    #[test]
    fn the_longest_rule_wins_and_allow_wins_a_tie() {
        let body =
            "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\nAllow: /t\nDisallow: /t";
        for (path, expected) in [
            ("/a", false),
            ("/a/b", true),
            ("/a/b/c", false),
            ("/t", true),
            ("/robots.txt", true),
        ] {
            assert_eq!(allows(body, path), expected, "{path}");
        }
    }

    #[test]
    fn a_group_that_names_us_silences_the_general_one() {
        let body =
            "User-agent: *\nDisallow: /\nCrawl-delay: 7\n\nUser-agent: crawlforge\nDisallow: /x";
        assert!(allows(body, "/y"));
        assert!(!allows(body, "/x"));
        let robots = Robots::parse(body.as_bytes(), "CrawlForge");
        assert_eq!(robots.crawl_delay(), None);
    }

    #[test]
    fn wildcards_and_escapes_keep_their_meaning() {
        for (rule, path, expected) in [
            ("/*.gif$", "/a.gif", false),
            ("/*.gif$", "/a.gif?x", true),
            ("/*.gif$", "/a.gif.gif", false),
            ("/%2a", "/*x", false),
            ("/%2a", "/x", true),
            ("/x%2Fy", "/x/y", true),
            ("/it's", "/it's", false),
            ("/a?q='", "/a?q='", false),
            ("/<b>", "/<b>", false),
            ("$", "/", true),
            ("*$", "/any", false),
            ("/$", "/", false),
            ("/a*b*a$", "/aba", false),
            ("/ab*ba$", "/aba", true),
        ] {
            let body = format!("User-agent: *\nDisallow: {rule}");
            assert_eq!(allows(&body, path), expected, "{rule} {path}");
        }
    }

    #[test]
    fn a_rule_cut_by_the_limit_is_left_out() {
        let mut body = String::from("User-agent: *\nDisallow: /kept\n");
        body.push_str(&"#".repeat(MAX_BYTES - body.len() - 14));
        body.push_str("\nDisallow: /gone/but/cut");
        assert!(!allows(&body, "/kept"));
        assert!(allows(&body, "/go"));
    }

    #[test]
    fn a_file_full_of_stars_is_matched_in_time() {
        let body = format!("User-agent: *\nDisallow: /{}b$", "*a".repeat(4000));
        let path = format!("/{}", "a".repeat(8000));
        let started = Instant::now();
        assert!(allows(&body, &path));
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    #[test]
    fn sitemaps_belong_to_nobody_and_come_once() {
        let body = "Sitemap: /s.xml\nUser-agent: other\nsite-map: https://site.test/s.xml\nSitemap: ftp://x/";
        let base = CrawlUrl::parse("https://site.test/robots.txt").unwrap();
        let robots = Robots::parse(body.as_bytes(), "CrawlForge");
        assert_eq!(robots.sitemaps(&base), ["https://site.test/s.xml"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(body in proptest::collection::vec(any::<u8>(), 0..300), path in "[ -~]{0,30}") {
            if let Ok(url) = CrawlUrl::parse(&format!("http://x.test/{path}")) {
                Robots::parse(&body, "CrawlForge").allows(&url);
            }
        }

        #[test]
        fn a_path_written_as_a_rule_is_disallowed(path in "[a-z0-9/%$*é<>'\" ~^|{}\\[\\]!-]{0,20}x") {
            let body = format!("User-agent: *\nDisallow: /{path}");
            prop_assert!(!allows(&body, &format!("/{path}")), "{}", path);
        }
    }
}
