//! The command line: what can be said, and the help that teaches it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::settings::Settings;
use crate::span::Span;

/// A polite, durable, distributed web crawler behind one MCP endpoint.
///
/// The main job:     crawlforge crawl https://example.com --max-pages 50 --output example/
/// For an assistant: crawlforge mcp         (MCP over stdio)
/// For many:         crawlforge serve       (MCP over HTTP at /mcp)
#[derive(Debug, Parser)]
#[command(
    name = "crawlforge",
    version,
    verbatim_doc_comment,
    max_term_width = 110
)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 bad usage, 3 partial (cancelled, a limit, or a dead seed among several)."
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Settings common to all.
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Speak MCP over stdin and stdout (what assistants and IDEs start)
    Mcp,
    /// Serve MCP over HTTP at /mcp, with /healthz, /readyz and /metrics, in one process
    Serve,
    /// Run the gateway role of a cluster: MCP in front of --coordinator
    Gateway,
    /// Run the coordinator role of a cluster: frontier, leases, sessions
    Coordinator,
    /// Run a worker of a cluster: fetches for --coordinator
    Worker,
    /// Crawl from one or more URLs and write what was found
    Crawl(CrawlArgs),
    /// Fetch one page and print it
    Scrape(ScrapeArgs),
    /// List the URLs of a site from its sitemaps and links
    Map(MapArgs),
    /// Show one session, or all of them
    Status {
        /// Session id; all sessions when left out
        id: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List sessions, newest first
    List {
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Stop a session for good; its pages stay
    Cancel {
        /// Session id
        id: String,
    },
    /// Hold a session; `resume` goes on
    Pause {
        /// Session id
        id: String,
    },
    /// Go on with a paused session and wait for its end
    Resume(ResumeArgs),
    /// Write what a session holds into a folder
    Export {
        /// Session id
        id: String,
        /// What to write
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show what is known of one host: robots.txt, pauses, when it may be asked next
    Host {
        /// Any http(s) URL of the host
        url: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the version
    Version,
    /// Print the completion script of a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// What `crawl` takes.
#[derive(Args, Debug)]
pub(crate) struct CrawlArgs {
    /// Where to start; absolute http(s) URLs
    #[arg(value_name = "URL", required_unless_present_any = ["seeds", "revisit"])]
    pub(crate) urls: Vec<String>,
    /// File with one start URL a line (# begins a comment)
    #[arg(long, value_name = "FILE")]
    pub(crate) seeds: Option<PathBuf>,
    /// Deliver only what has changed since this session; without a URL, start where it started
    #[arg(long, value_name = "ID")]
    pub(crate) revisit: Option<String>,
    /// Of the earlier session's pages, ask only for those that are likely to have changed
    #[arg(long, requires = "revisit")]
    pub(crate) only_due: bool,
    /// Most pages to deliver, exactly
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_pages: u64,
    /// Most links away from a seed
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) max_depth: u32,
    /// Most pages to deliver of one registrable domain, exactly
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_pages_per_domain: Option<u64>,
    /// Which URLs of a host go out first; strict: one at a time, the same pages at each run
    #[arg(long, value_enum, default_value_t = Walk::Breadth)]
    pub(crate) order: Walk,
    /// What the best pages are about; for --order best
    #[arg(long, value_name = "WORDS")]
    pub(crate) query: Option<String>,
    /// One URL of each host in turn
    #[arg(long)]
    pub(crate) host_fair: bool,
    /// Which URLs belong to the crawl
    #[arg(long, value_enum, default_value_t = Reach::Domain)]
    pub(crate) scope: Reach,
    /// Only URLs that this regular expression finds something in (repeatable)
    #[arg(long, value_name = "REGEX")]
    pub(crate) include: Vec<String>,
    /// No URLs that this regular expression finds something in (repeatable)
    #[arg(long, value_name = "REGEX")]
    pub(crate) exclude: Vec<String>,
    /// Remove parameters that name a campaign or a click (utm_*, gclid ...) from links
    #[arg(long)]
    pub(crate) strip_tracking: bool,
    /// Remove parameters that name a visit (jsessionid, phpsessid ...) from links
    #[arg(long)]
    pub(crate) strip_session: bool,
    /// Put the parameters of links in the order of their names
    #[arg(long)]
    pub(crate) sort_query: bool,
    /// Follow links that look endless, such as calendars and repeated paths
    #[arg(long)]
    pub(crate) allow_traps: bool,
    /// Read the sites' sitemaps
    #[arg(long, value_enum, default_value_t = Sitemap::Skip)]
    pub(crate) sitemap: Sitemap,
    /// End after this time
    #[arg(long, value_name = "SPAN")]
    pub(crate) max_time: Option<Span>,
    /// End before more than this many bytes of pages are kept
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_bytes: Option<u64>,
    /// Print the summary as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// What to write.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Where results go.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputArgs {
    /// Folder for manifest.jsonl, ledger.jsonl and pages; made when the first page is there
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// What to write of each page: inline in the manifest (jsonl), a file a page (markdown, html), or facts only (links)
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    pub(crate) format: Format,
}

/// What `resume` takes.
#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    /// Session id
    pub(crate) id: String,
    /// Print the summary as one JSON object on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// What to write.
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What `scrape` takes.
#[derive(Args, Debug)]
pub(crate) struct ScrapeArgs {
    /// The page
    pub(crate) url: String,
    /// What to print of it
    #[arg(long, value_enum, default_value_t = View::Markdown)]
    pub(crate) format: View,
    /// Keep navigation, banners and footers
    #[arg(long)]
    pub(crate) whole_page: bool,
}

/// What `map` takes.
#[derive(Args, Debug)]
pub(crate) struct MapArgs {
    /// The site
    pub(crate) url: String,
    /// Most URLs to print
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Only URLs that contain this text, whatever the case
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Print one JSON object a line, with lastmod, changefreq and priority
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which URLs go out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Walk {
    /// The nearest to a seed
    Breadth,
    /// The furthest from a seed
    Depth,
    /// By distance, sitemap, links and the words of --query
    Best,
    /// The nearest to a seed, one at a time over all hosts
    Strict,
}

/// Which URLs belong to a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reach {
    /// The registrable domains of the seeds
    Domain,
    /// The host names of the seeds
    Host,
    /// Below the seeds' folders
    Prefix,
    /// Anywhere
    Any,
}

/// Whether sitemaps are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sitemap {
    /// Links only
    Skip,
    /// Links and sitemaps
    Include,
    /// Sitemaps only
    Only,
}

/// What is written of each page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Markdown inline in the manifest
    Jsonl,
    /// One Markdown file a page
    Markdown,
    /// One HTML file a page, as it came
    Html,
    /// The manifest alone
    Links,
}

/// What is printed of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    /// Markdown
    Markdown,
    /// The HTML as it came
    Html,
    /// Plain text
    Text,
    /// One link a line
    Links,
    /// Everything known of the page as one JSON object
    Json,
}
