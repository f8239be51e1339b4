//! Every setting, once: its flag, its `CRAWLFORGE_*` variable and its key in `crawlforge.toml`.
//!
//! Flags win over the environment, the environment over the file, the file over the defaults, which the
//! methods below give. An unknown key in the file is an error that names the nearest known one; an unknown
//! `CRAWLFORGE_*` variable only warns, since container platforms inject such names.

mod defaults;
mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory as _};
use ipnet::IpNet;
use serde::Deserialize;

pub(crate) use self::values::{LogFormat, Resolve, Secret};
use crate::args::Cli;
use crate::span::Span;

/// The operator's settings. `None` means: not said.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[command(next_help_heading = "Settings (also CRAWLFORGE_<NAME> and crawlforge.toml)")]
pub(crate) struct Settings {
    /// Folder of the store; one process owns it, others join that process
    #[arg(long, global = true, value_name = "DIR", env = "CRAWLFORGE_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Settings file [default: crawlforge.toml in this folder, if it is there]
    #[arg(long, global = true, value_name = "FILE", env = "CRAWLFORGE_CONFIG")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:8080, coordinator 127.0.0.1:7070]
    #[arg(long, global = true, value_name = "ADDRESS", env = "CRAWLFORGE_LISTEN")]
    pub(crate) listen: Option<SocketAddr>,
    /// Use the cluster behind this coordinator, such as http://127.0.0.1:7070
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "CRAWLFORGE_COORDINATOR"
    )]
    pub(crate) coordinator: Option<String>,
    /// Address of /metrics, /healthz and /readyz of a role [default: 127.0.0.1:9464]
    #[arg(
        long,
        global = true,
        value_name = "ADDRESS",
        env = "CRAWLFORGE_METRICS_LISTEN"
    )]
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Least time between two request starts at one host; a caller may only be politer [default: 1s]
    #[arg(
        long,
        global = true,
        value_name = "SPAN",
        env = "CRAWLFORGE_MIN_INTERVAL"
    )]
    pub(crate) min_interval: Option<Span>,
    /// Requests in flight per host [default: 1]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_PER_HOST", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) per_host: Option<u32>,
    /// Requests in flight per registrable domain [default: 2]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_PER_DOMAIN", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) per_domain: Option<u32>,
    /// Requests in flight per resolved address, 0 for no bound [default: 2]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_PER_ADDRESS", hide_short_help = true, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) per_address: Option<u32>,
    /// Requests in flight in all [default: 64]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_CONCURRENCY", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) concurrency: Option<u32>,
    /// What this crawler calls itself; give a contact address [default: CrawlForge/VERSION (+URL)]
    #[arg(
        long,
        global = true,
        value_name = "TEXT",
        env = "CRAWLFORGE_USER_AGENT"
    )]
    pub(crate) user_agent: Option<String>,
    /// Let this private or loopback network through (repeatable), such as 127.0.0.0/8
    #[arg(
        long,
        global = true,
        value_name = "CIDR",
        env = "CRAWLFORGE_ALLOW_NET",
        value_delimiter = ','
    )]
    #[serde(default)]
    pub(crate) allow_net: Vec<IpNet>,
    /// Resolve this name to this address (repeatable); NAME may be *.suffix
    #[arg(
        long,
        global = true,
        value_name = "NAME=IP[:PORT]",
        env = "CRAWLFORGE_RESOLVE",
        value_delimiter = ','
    )]
    #[serde(default)]
    pub(crate) resolve: Vec<Resolve>,
    /// Ask this name server instead of the system's (repeatable)
    #[arg(
        long,
        global = true,
        value_name = "IP:PORT",
        env = "CRAWLFORGE_NAME_SERVER",
        hide_short_help = true,
        value_delimiter = ','
    )]
    #[serde(default)]
    pub(crate) name_server: Vec<SocketAddr>,
    /// Trust the certificates of this PEM file beside the system's (repeatable)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "CRAWLFORGE_CA_FILE",
        hide_short_help = true,
        value_delimiter = ','
    )]
    #[serde(default)]
    pub(crate) ca_file: Vec<PathBuf>,
    /// Time one whole fetch may take [default: 30s]
    #[arg(
        long,
        global = true,
        value_name = "SPAN",
        env = "CRAWLFORGE_FETCH_TIMEOUT",
        hide_short_help = true
    )]
    pub(crate) fetch_timeout: Option<Span>,
    /// Most bytes of one decoded body [default: 26214400]
    #[arg(
        long,
        global = true,
        value_name = "BYTES",
        env = "CRAWLFORGE_MAX_BODY",
        hide_short_help = true
    )]
    pub(crate) max_body: Option<u64>,
    /// How long a worker holds a host; a dead worker's URLs come back after it [default: 60s]
    #[arg(
        long,
        global = true,
        value_name = "SPAN",
        env = "CRAWLFORGE_LEASE",
        hide_short_help = true
    )]
    pub(crate) lease: Option<Span>,
    /// How long the results of an ended session stay [default: 7d]
    #[arg(
        long,
        global = true,
        value_name = "SPAN",
        env = "CRAWLFORGE_SESSION_TTL",
        hide_short_help = true
    )]
    pub(crate) session_ttl: Option<Span>,
    /// Most sessions running at once [default: 1000]
    #[arg(
        long,
        global = true,
        value_name = "N",
        env = "CRAWLFORGE_MAX_SESSIONS",
        hide_short_help = true
    )]
    pub(crate) max_sessions: Option<u32>,
    /// Slices of the domain space; fixed for a data folder [default: 64]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_SHARDS", hide_short_help = true, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) shards: Option<u16>,
    /// Leases a worker holds at once [default: 256]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_SLOTS", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) slots: Option<u32>,
    /// A worker's share of the ring [default: 1]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_WEIGHT", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) weight: Option<u32>,
    /// A worker's name, unique in the cluster [default: host name and a random part]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "CRAWLFORGE_WORKER_ID",
        hide_short_help = true
    )]
    pub(crate) worker_id: Option<String>,
    /// Shared secret that workers show their coordinator [default: none]
    #[arg(
        long,
        global = true,
        value_name = "SECRET",
        env = "CRAWLFORGE_TOKEN",
        hide_short_help = true,
        hide_env_values = true
    )]
    pub(crate) token: Option<Secret>,
    /// Threads that read pages [default: number of cores]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_EXTRACT_THREADS", hide_short_help = true, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) extract_threads: Option<u32>,
    /// Let callers ask for pages that robots.txt forbids; each such session is logged
    #[arg(long, global = true, env = "CRAWLFORGE_ALLOW_IGNORE_ROBOTS", hide_short_help = true, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) allow_ignore_robots: Option<bool>,
    /// Tools to list: names, groups or `all`, comma separated [default: the usual ones]
    #[arg(
        long,
        global = true,
        value_name = "LIST",
        env = "CRAWLFORGE_TOOLS",
        hide_short_help = true,
        value_delimiter = ','
    )]
    #[serde(default)]
    pub(crate) tools: Vec<String>,
    /// Most tokens of one tool answer [default: 20000]
    #[arg(long, global = true, value_name = "N", env = "CRAWLFORGE_MAX_TOKENS", hide_short_help = true, value_parser = clap::value_parser!(u32).range(500..=1_000_000))]
    pub(crate) max_tokens: Option<u32>,
    /// Host name by which the HTTP endpoint may be called (repeatable) [default: loopback names]
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "CRAWLFORGE_ALLOW_HOST",
        hide_short_help = true,
        value_delimiter = ','
    )]
    #[serde(default)]
    pub(crate) allow_host: Vec<String>,
    /// Web origin that may call the HTTP endpoint (repeatable) [default: loopback origins]
    #[arg(
        long,
        global = true,
        value_name = "ORIGIN",
        env = "CRAWLFORGE_ALLOW_ORIGIN",
        hide_short_help = true,
        value_delimiter = ','
    )]
    #[serde(default)]
    pub(crate) allow_origin: Vec<String>,
    /// Requests a second that one client address may send, 0 for no bound [default: 100]
    #[arg(
        long,
        global = true,
        value_name = "N",
        env = "CRAWLFORGE_RATE_LIMIT",
        hide_short_help = true
    )]
    pub(crate) rate_limit: Option<u32>,
    /// Requests a second that all clients together may send, 0 for no bound [default: 2000]
    #[arg(
        long,
        global = true,
        value_name = "N",
        env = "CRAWLFORGE_RATE_LIMIT_ALL",
        hide_short_help = true
    )]
    pub(crate) rate_limit_all: Option<u32>,
    /// Serve MCP on an address that others reach; whoever does may crawl from this machine
    #[arg(long, global = true, env = "CRAWLFORGE_OPEN", hide_short_help = true, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) open: Option<bool>,
    /// Form of the log on stderr
    #[arg(
        long,
        global = true,
        value_name = "FORM",
        env = "CRAWLFORGE_LOG_FORMAT"
    )]
    pub(crate) log_format: Option<LogFormat>,
    /// What to log, such as `info` or `coordinator=debug,warn`
    #[arg(long, global = true, value_name = "FILTER", env = "CRAWLFORGE_LOG")]
    pub(crate) log: Option<String>,
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    /// The named file cannot be read.
    #[error("cannot read the settings file `{path}`: {why}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// A key is unknown.
    #[error("`{path}` has the unknown key `{key}`{hint}", path = path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The key.
        key: String,
        /// `; did you mean ...?`
        hint: String,
    },
    /// The file is no TOML, or a value is of the wrong kind.
    #[error("`{path}` cannot be used: {why}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its place.
        why: String,
    },
}

const DEFAULT_FILE: &str = "crawlforge.toml";

impl Settings {
    /// Fills what flags and environment left unsaid from the file.
    pub(crate) fn with_file(self) -> Result<Self, SettingsError> {
        let (path, is_named) = match &self.config {
            Some(path) => (path.clone(), true),
            None => (PathBuf::from(DEFAULT_FILE), false),
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => {
                return Ok(self);
            }
            Err(why) => return Err(SettingsError::Unreadable { path, why }),
        };
        let file = Self::parse(&path, &text)?;
        Ok(self.or(file))
    }

    /// Reads the text of a settings file.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, SettingsError> {
        let malformed = |why: String| SettingsError::Malformed {
            path: path.to_owned(),
            why,
        };
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| malformed(error.to_string()))?;
        let known = known_keys();
        for key in table.keys() {
            if !known.iter().any(|name| name == key) {
                return Err(SettingsError::UnknownKey {
                    path: path.to_owned(),
                    key: key.clone(),
                    hint: nearest(key, &known),
                });
            }
        }
        toml::from_str(text).map_err(|error| malformed(error.to_string()))
    }

    fn or(self, file: Self) -> Self {
        fn list<T>(said: Vec<T>, file: Vec<T>) -> Vec<T> {
            if said.is_empty() { file } else { said }
        }
        Self {
            data_dir: self.data_dir.or(file.data_dir),
            config: self.config,
            listen: self.listen.or(file.listen),
            coordinator: self.coordinator.or(file.coordinator),
            metrics_listen: self.metrics_listen.or(file.metrics_listen),
            min_interval: self.min_interval.or(file.min_interval),
            per_host: self.per_host.or(file.per_host),
            per_domain: self.per_domain.or(file.per_domain),
            per_address: self.per_address.or(file.per_address),
            concurrency: self.concurrency.or(file.concurrency),
            user_agent: self.user_agent.or(file.user_agent),
            allow_net: list(self.allow_net, file.allow_net),
            resolve: list(self.resolve, file.resolve),
            name_server: list(self.name_server, file.name_server),
            ca_file: list(self.ca_file, file.ca_file),
            fetch_timeout: self.fetch_timeout.or(file.fetch_timeout),
            max_body: self.max_body.or(file.max_body),
            lease: self.lease.or(file.lease),
            session_ttl: self.session_ttl.or(file.session_ttl),
            max_sessions: self.max_sessions.or(file.max_sessions),
            shards: self.shards.or(file.shards),
            slots: self.slots.or(file.slots),
            weight: self.weight.or(file.weight),
            worker_id: self.worker_id.or(file.worker_id),
            token: self.token.or(file.token),
            extract_threads: self.extract_threads.or(file.extract_threads),
            allow_ignore_robots: self.allow_ignore_robots.or(file.allow_ignore_robots),
            tools: list(self.tools, file.tools),
            max_tokens: self.max_tokens.or(file.max_tokens),
            allow_host: list(self.allow_host, file.allow_host),
            allow_origin: list(self.allow_origin, file.allow_origin),
            rate_limit: self.rate_limit.or(file.rate_limit),
            rate_limit_all: self.rate_limit_all.or(file.rate_limit_all),
            open: self.open.or(file.open),
            log_format: self.log_format.or(file.log_format),
            log: self.log.or(file.log),
        }
    }

    /// `CRAWLFORGE_*` variables among `names` that no setting reads, each with a hint.
    pub(crate) fn unknown_variables(names: impl Iterator<Item = String>) -> Vec<String> {
        let known: Vec<String> = known_keys().iter().map(|key| variable(key)).collect();
        names
            .filter(|name| name.starts_with("CRAWLFORGE_") && !known.contains(name))
            .map(|name| format!("{name}{}", nearest(&name, &known)))
            .collect()
    }
}

fn variable(key: &str) -> String {
    format!("CRAWLFORGE_{}", key.to_ascii_uppercase())
}

/// The keys of the file: the ids of the settings' flags.
pub(crate) fn known_keys() -> Vec<String> {
    let command = Cli::command();
    let settings = command
        .get_arguments()
        .filter(|argument| argument.get_env().is_some());
    settings
        .map(|argument| argument.get_id().to_string())
        .filter(|id| id != "config")
        .collect()
}

/// `; did you mean `x`?` for the nearest known word, or nothing when none is near.
pub(crate) fn nearest(word: &str, known: &[String]) -> String {
    let scored = known
        .iter()
        .map(|name| (strsim::jaro_winkler(word, name), name));
    let best = scored.max_by(|left, right| left.0.total_cmp(&right.0));
    match best {
        Some((score, name)) if score > 0.7 => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Resolve, Settings, SettingsError, known_keys};

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let error =
            Settings::parse(Path::new("crawlforge.toml"), "min_intervall = \"1s\"").unwrap_err();
        assert!(matches!(error, SettingsError::UnknownKey { .. }));
        assert!(
            error.to_string().ends_with("did you mean `min_interval`?"),
            "{error}"
        );
    }

    #[test]
    fn flags_win_over_the_file() {
        let file = "per_host = 3\nmin_interval = \"2s\"\nallow_net = [\"10.0.0.0/8\"]";
        let file = Settings::parse(Path::new("x"), file).unwrap();
        let flags = Settings {
            per_host: Some(1),
            ..Settings::default()
        };
        let settings = flags.or(file);
        assert_eq!(settings.per_host, Some(1));
        assert_eq!(settings.min_interval, Some("2s".parse().unwrap()));
        assert_eq!(settings.allow_net.len(), 1);
    }

    #[test]
    fn every_key_of_the_file_is_read() {
        for key in known_keys() {
            let text = format!("{key} = \"\\u0000nonsense\"");
            match Settings::parse(Path::new("x"), &text) {
                Ok(_) | Err(SettingsError::Malformed { .. }) => {}
                Err(error) => panic!("{key}: {error}"),
            }
        }
    }

    #[test]
    fn the_example_file_holds_every_setting_with_its_default() {
        let text = include_str!("../../deploy/crawlforge.toml");
        let parsed = Settings::parse(Path::new("deploy/crawlforge.toml"), text).unwrap();
        assert_eq!(parsed.effective(), Settings::default().effective());
        for key in known_keys() {
            assert!(
                text.contains(&format!("\n{key} = ")) || text.contains(&format!("\n#: {key} = ")),
                "{key}"
            );
        }
    }

    #[test]
    fn an_unknown_variable_is_told_with_the_nearest() {
        let names = ["CRAWLFORGE_LISTN", "CRAWLFORGE_LISTEN", "OTHER"].map(str::to_owned);
        let unknown = Settings::unknown_variables(names.into_iter());
        assert_eq!(
            unknown,
            ["CRAWLFORGE_LISTN; did you mean `CRAWLFORGE_LISTEN`?"]
        );
    }

    #[test]
    fn a_resolve_rule_is_a_name_and_an_address() {
        assert!("*.test=127.0.0.1".parse::<Resolve>().is_ok());
        assert!("a.test=::1".parse::<Resolve>().is_ok());
        let rule: Resolve = "a.test=[::1]:8080".parse().unwrap();
        assert_eq!(rule.to_string(), "a.test=[::1]:8080");
        assert_eq!(rule.port, Some(8080));
        for wrong in [
            "a.test=1.2.3.4:0",
            "a.test",
            "=1.2.3.4",
            "a.*=1.2.3.4",
            "a=nowhere",
        ] {
            assert!(wrong.parse::<Resolve>().is_err(), "{wrong}");
        }
    }
}
