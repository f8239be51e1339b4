//! Kinds of values that settings have.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use clap::ValueEnum;
use serde::Deserialize;

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
    /// The port that stands for the scheme's own.
    pub(crate) port: Option<u16>,
}

impl FromStr for Resolve {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not NAME=IP or NAME=IP:PORT, such as `docs.test=127.0.0.1` or `*.test=[::1]:8080`"
            )
        };
        let (pattern, place) = text.split_once('=').ok_or_else(wrong)?;
        let place = place.trim();
        let (address, port) = match (place.parse::<IpAddr>(), place.parse::<SocketAddr>()) {
            (Ok(address), _) => (address, None),
            (_, Ok(socket)) if socket.port() != 0 => (socket.ip(), Some(socket.port())),
            _ => return Err(wrong()),
        };
        let pattern = pattern.trim().to_ascii_lowercase();
        let bare = pattern.strip_prefix("*.").unwrap_or(&pattern);
        if bare.is_empty() || bare.contains(['*', '/', ':']) {
            return Err(wrong());
        }
        Ok(Self {
            pattern,
            address,
            port,
        })
    }
}

impl std::fmt::Display for Resolve {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.port {
            Some(port) => {
                let socket = SocketAddr::new(self.address, port);
                write!(out, "{}={socket}", self.pattern)
            }
            None => write!(out, "{}={}", self.pattern, self.address),
        }
    }
}

impl TryFrom<String> for Resolve {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
