//! What the operator decides about one gateway.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::args::names::distance;
use crate::limits::Rate;
use crate::table::{self, GROUPS, TOOLS, ToolSpec};

/// Which tools are listed; tools that are not listed stay callable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolSelection {
    /// Those of everyday use.
    #[default]
    Usual,
    /// Every tool of this build.
    All,
    /// Only these names.
    Only(BTreeSet<String>),
}

impl ToolSelection {
    /// Reads names of tools and groups (`page`, `crawl`, `meta`), or `all`; none means the usual ones.
    ///
    /// # Errors
    /// Names the one that is not known and the nearest one that is.
    pub fn parse(names: &[String]) -> Result<Self, String> {
        let mut chosen = BTreeSet::new();
        let mut is_all = false;
        let given = names.iter().flat_map(|names| names.split(','));
        for name in given.map(str::trim).filter(|name| !name.is_empty()) {
            if name == "all" {
                is_all = true;
            } else if let Some((_, group)) = GROUPS.iter().find(|(known, _)| *known == name) {
                let members = TOOLS.iter().filter(|tool| tool.group == *group);
                chosen.extend(members.map(|tool| tool.name.to_owned()));
            } else if let Some(tool) = table::find(name) {
                chosen.insert(tool.name.to_owned());
            } else {
                return Err(unknown(name));
            }
        }
        Ok(match (is_all, chosen.is_empty()) {
            (true, _) => Self::All,
            (false, true) => Self::Usual,
            (false, false) => Self::Only(chosen),
        })
    }

    pub(crate) fn lists(&self, tool: &ToolSpec) -> bool {
        match self {
            Self::Usual => tool.listed,
            Self::All => true,
            Self::Only(names) => names.contains(tool.name),
        }
    }
}

fn unknown(name: &str) -> String {
    if table::is_later(name) {
        return format!("the tool `{name}` is not served by this version; leave it out");
    }
    let tools = TOOLS
        .iter()
        .flat_map(|tool| std::iter::once(tool.name).chain(tool.aliases.iter().copied()));
    let groups = GROUPS.iter().map(|(group, _)| *group);
    let nearest = tools
        .chain(groups)
        .chain(["all"])
        .min_by_key(|known| distance(known, name))
        .unwrap_or("all");
    format!("`{name}` is no tool and no group of tools; did you mean `{nearest}`?")
}

/// The operator's ceilings for what a caller may ask.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most pages that one crawl may deliver.
    pub max_pages: u64,
    /// Furthest link distance.
    pub max_depth: u64,
    /// Most URLs in one batch.
    pub max_batch: usize,
    /// Most tokens in one answer.
    pub max_tokens: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            max_pages: 100_000,
            max_depth: 100,
            max_batch: 1_000,
            max_tokens: 25_000,
        }
    }
}

/// How one gateway behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which tools are listed.
    pub tools: ToolSelection,
    /// Longest wait inside one call.
    pub max_wait: Duration,
    /// Tokens of an answer where the caller names none.
    pub max_tokens: u64,
    /// Ceilings.
    pub bounds: Bounds,
    /// Names that `Host` may carry beside loopback.
    pub allowed_hosts: Vec<String>,
    /// Values that `Origin` may carry beside loopback.
    pub allowed_origins: Vec<String>,
    /// How often one client address may ask; this machine's own may always.
    pub rate_each: Rate,
    /// How often all of them may ask.
    pub rate_all: Rate,
    /// Whether a caller may switch robots.txt off.
    pub allow_ignore_robots: bool,
    /// The key id whose sessions this gateway sees; empty where no key is used.
    pub owner: String,
    /// The version that `get_version` tells.
    pub version: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tools: ToolSelection::Usual,
            max_wait: Duration::from_secs(45),
            max_tokens: 20_000,
            bounds: Bounds::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            rate_each: Rate::of(100),
            rate_all: Rate::of(2_000),
            allow_ignore_robots: false,
            owner: String::new(),
            version: proto::VERSION.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ToolSelection;

    fn parse(names: &[&str]) -> Result<ToolSelection, String> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        ToolSelection::parse(&names)
    }

    #[test]
    fn groups_and_names_are_put_together() {
        let chosen = parse(&["page,get_version", "map_site"]).unwrap();
        let wanted = [
            "batch_scrape",
            "download",
            "extract_content",
            "extract_links",
            "extract_metadata",
            "extract_text",
            "fetch_url",
            "get_batch_results",
            "get_version",
            "map",
            "scrape",
            "scrape_structured",
        ];
        let wanted = wanted.into_iter().map(str::to_owned).collect();
        assert_eq!(chosen, ToolSelection::Only(wanted));
        assert_eq!(parse(&[]), Ok(ToolSelection::Usual));
        assert_eq!(parse(&["scrape", "all"]), Ok(ToolSelection::All));
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_one() {
        let wrong = parse(&["scrap"]).unwrap_err();
        assert!(wrong.contains("`scrape`"), "{wrong}");
        let later = parse(&["screenshot"]).unwrap_err();
        assert!(later.contains("not served by this version"), "{later}");
    }
}
