//! `DATA_DIR/listen.json`: where the process that owns a folder can be reached, and the settings it runs with.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const NAME: &str = "listen.json";

/// What a running process announces.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Listening {
    pub(crate) pid: u32,
    pub(crate) role: String,
    pub(crate) version: String,
    /// MCP, console and operator routes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<SocketAddr>,
    /// gRPC of the coordinator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) coordinator: Option<SocketAddr>,
    /// Operator routes of a role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Where other processes of this user join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<PathBuf>,
    /// The settings that a joining process may not contradict.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) settings: BTreeMap<String, String>,
}

impl Listening {
    /// An announcement of this process.
    pub(crate) fn of(role: &str) -> Self {
        Self {
            pid: std::process::id(),
            role: role.to_owned(),
            version: proto::VERSION.to_owned(),
            ..Self::default()
        }
    }

    /// Writes the announcement in one step.
    pub(crate) fn write(&self, data_dir: &Path) -> io::Result<()> {
        write_private(&data_dir.join(NAME), &serde_json::to_vec_pretty(self)?)
    }

    /// Reads what the owner announced.
    pub(crate) fn read(data_dir: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(data_dir.join(NAME))?)?)
    }

    /// Takes the announcement back.
    pub(crate) fn remove(data_dir: &Path) {
        if let Err(error) = fs::remove_file(data_dir.join(NAME)) {
            tracing::debug!(%error, "no announcement to take back");
        }
    }
}

/// Writes a file that only this user can read, whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)
}
