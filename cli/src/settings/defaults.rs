//! What holds where nothing was said, and what two processes on one folder have to agree on.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::Settings;
use crate::span::Span;

impl Settings {
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
        let files: Vec<String> = self
            .ca_file
            .iter()
            .map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone()))
            .map(|path| path.display().to_string())
            .collect();
        let all = [
            ("min_interval", text(self.min_interval.as_ref())),
            ("per_host", text(self.per_host.as_ref())),
            ("per_domain", text(self.per_domain.as_ref())),
            ("per_address", text(self.per_address.as_ref())),
            ("concurrency", text(self.concurrency.as_ref())),
            ("user_agent", text(self.user_agent.as_ref())),
            ("allow_net", list(&self.allow_net)),
            ("resolve", list(&self.resolve)),
            ("name_server", list(&self.name_server)),
            ("ca_file", list(&files)),
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
        for key in ["allow_net", "resolve", "name_server", "ca_file"] {
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
            rate_limit: Some(100),
            rate_limit_all: Some(2_000),
            open: Some(false),
            ..Self::default()
        }
    }

    /// These settings with the defaults filled in.
    pub(crate) fn filled(&self) -> Self {
        self.clone().or(Self::defaults())
    }
}
