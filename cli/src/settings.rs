//! Every setting, once: its flag, its `CRAWLFORGE_*` variable and its key in `crawlforge.toml`.
//!
//! Flags win over the environment, the environment over the file, the file over the defaults, which the
//! methods below give. An unknown key in the file is an error that names the nearest known one; an unknown
//! `CRAWLFORGE_*` variable only warns, since container platforms inject such names.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, CommandFactory as _, ValueEnum};
use ipnet::IpNet;
use serde::Deserialize;

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
        value_name = "NAME=IP",
        env = "CRAWLFORGE_RESOLVE",
        value_delimiter = ','
    )]
    #[serde(default)]
    pub(crate) resolve: Vec<Resolve>,
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

/// A text that does not show in debug output.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Secret(pub(crate) String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl FromStr for Secret {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Secret(..)")
    }
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A name, or every name below `*.suffix`, and the address that it resolves to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Resolve {
    /// A host name in lower case, or `*.suffix`.
    pub(crate) pattern: String,
    /// Where it is found.
    pub(crate) address: IpAddr,
}

impl FromStr for Resolve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not NAME=IP, such as `docs.test=127.0.0.1` or `*.test=127.0.0.1`")
        };
        let (pattern, address) = text.split_once('=').ok_or_else(wrong)?;
        let address = address.trim().parse().map_err(|_| wrong())?;
        let pattern = pattern.trim().to_ascii_lowercase();
        let bare = pattern.strip_prefix("*.").unwrap_or(&pattern);
        if bare.is_empty() || bare.contains(['*', '/', ':']) {
            return Err(wrong());
        }
        Ok(Self { pattern, address })
    }
}

impl std::fmt::Display for Resolve {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}={}", self.pattern, self.address)
    }
}

impl TryFrom<String> for Resolve {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
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
            log_format: self.log_format.or(file.log_format),
            log: self.log.or(file.log),
        }
    }

    /// The folder of the store: what was said, else the user's data folder.
    pub(crate) fn data_dir_or_default(&self) -> PathBuf {
        if let Some(said) = &self.data_dir {
            return std::path::absolute(said).unwrap_or_else(|_| said.clone());
        }
        match directories::ProjectDirs::from("", "", "crawlforge") {
            Some(dirs) => dirs.data_dir().to_owned(),
            None => PathBuf::from("crawlforge-data"),
        }
    }

    /// What was said of the settings that two processes on one folder have to agree on.
    pub(crate) fn said(&self) -> BTreeMap<String, String> {
        fn list<T: ToString>(all: &[T]) -> Option<String> {
            let mut texts: Vec<String> = all.iter().map(ToString::to_string).collect();
            texts.sort();
            (!texts.is_empty()).then(|| texts.join(","))
        }
        fn text<T: ToString>(value: Option<&T>) -> Option<String> {
            value.map(ToString::to_string)
        }
        let all = [
            ("min_interval", text(self.min_interval.as_ref())),
            ("per_host", text(self.per_host.as_ref())),
            ("per_domain", text(self.per_domain.as_ref())),
            ("per_address", text(self.per_address.as_ref())),
            ("concurrency", text(self.concurrency.as_ref())),
            ("user_agent", text(self.user_agent.as_ref())),
            ("allow_net", list(&self.allow_net)),
            ("resolve", list(&self.resolve)),
            ("fetch_timeout", text(self.fetch_timeout.as_ref())),
            ("max_body", text(self.max_body.as_ref())),
            ("lease", text(self.lease.as_ref())),
            ("shards", text(self.shards.as_ref())),
            (
                "allow_ignore_robots",
                text(self.allow_ignore_robots.as_ref()),
            ),
        ];
        let said = all
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        said.collect()
    }

    /// The same settings as this process runs with them, defaults included.
    pub(crate) fn effective(&self) -> BTreeMap<String, String> {
        let mut all = self.clone().or(Self::defaults()).said();
        for key in ["allow_net", "resolve"] {
            all.entry(key.to_owned()).or_default();
        }
        all
    }

    /// What holds where nothing was said.
    pub(crate) fn defaults() -> Self {
        let seconds = |count| Some(Span(Duration::from_secs(count)));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            min_interval: seconds(1),
            per_host: Some(1),
            per_domain: Some(2),
            per_address: Some(2),
            concurrency: Some(64),
            user_agent: Some(format!(
                "CrawlForge/{} (+https://crawlforge.dev/bot)",
                proto::VERSION
            )),
            fetch_timeout: seconds(30),
            max_body: Some(25 * 1024 * 1024),
            lease: seconds(60),
            session_ttl: seconds(7 * 86_400),
            max_sessions: Some(1000),
            shards: Some(64),
            slots: Some(256),
            weight: Some(1),
            extract_threads: Some(u32::try_from(cores).unwrap_or(1)),
            allow_ignore_robots: Some(false),
            max_tokens: Some(20_000),
            ..Self::default()
        }
    }

    /// These settings with the defaults filled in.
    pub(crate) fn filled(&self) -> Self {
        self.clone().or(Self::defaults())
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
        for wrong in ["a.test", "=1.2.3.4", "a.*=1.2.3.4", "a=nowhere"] {
            assert!(wrong.parse::<Resolve>().is_err(), "{wrong}");
        }
    }
}
