//! Ids: each kind its own type, so that two can never be swapped.

use std::fmt;
use std::str::FromStr;

use data_encoding::{BASE32_NOPAD, HEXLOWER_PERMISSIVE};
use rand::Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A text is not an id of the kind asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{given}` is not {kind}")]
pub struct IdError {
    kind: &'static str,
    given: String,
}

/// A session: `ses_` and 128 random bits in base32, in lower case. The job's id is the session's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// Makes a new id that nobody can guess.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        rand::rng().fill_bytes(&mut bytes);
        Self(bytes)
    }

    /// Takes the 16 bytes of an id.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes, as keys in stores carry them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "ses_{}",
            BASE32_NOPAD.encode(&self.0).to_ascii_lowercase()
        )
    }
}

impl FromStr for SessionId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError {
            kind: "a session id",
            given: text.chars().take(80).collect(),
        };
        let encoded = text.strip_prefix("ses_").ok_or_else(wrong)?;
        if encoded.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(wrong());
        }
        let bytes = BASE32_NOPAD
            .decode(encoded.to_ascii_uppercase().as_bytes())
            .map_err(|_| wrong())?;
        bytes.try_into().map(Self).map_err(|_| wrong())
    }
}

impl TryFrom<String> for SessionId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

/// The SHA-256 of some bytes, which names them in the body store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digests `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 hex digits in lower case.
    pub fn hex(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.0)
    }

    /// Reads 64 hex digits.
    pub fn from_hex(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError {
            kind: "a digest",
            given: text.chars().take(80).collect(),
        };
        let bytes = HEXLOWER_PERMISSIVE
            .decode(text.as_bytes())
            .map_err(|_| wrong())?;
        bytes.try_into().map(Self).map_err(|_| wrong())
    }
}

impl TryFrom<&[u8]> for Digest {
    type Error = IdError;

    fn try_from(bytes: &[u8]) -> Result<Self, IdError> {
        bytes.try_into().map(Self).map_err(|_| IdError {
            kind: "a digest",
            given: format!("{} bytes", bytes.len()),
        })
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.hex())
    }
}

#[cfg(test)]
mod tests {
    use super::SessionId;

    #[test]
    fn a_session_id_reads_back_and_nothing_else_does() {
        let id = SessionId::random();
        let text = id.to_string();
        assert_eq!(text.len(), 30);
        assert_eq!(text.parse(), Ok(id));
        for wrong in [
            "",
            "ses_",
            "ses_a1b2c3",
            "SES_x",
            &text.to_uppercase(),
            &format!("{text}a"),
        ] {
            assert!(wrong.parse::<SessionId>().is_err(), "{wrong}");
        }
    }
}
