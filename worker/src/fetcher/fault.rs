//! What kept an answer from coming, as a stable code.

use std::error::Error as StdError;
use std::io;

use proto::Code;

use super::decode::DecodeError;
use crate::resolver::ResolveError;

/// No answer, or none that can be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct FetchError {
    /// The stable code.
    pub code: Code,
    /// One sentence.
    pub detail: String,
    /// What the code does not say: the name servers could not be asked.
    is_temporary: bool,
}

impl FetchError {
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            is_temporary: false,
        }
    }

    /// Whether the same request may succeed a little later.
    pub const fn may_retry(&self) -> bool {
        self.is_temporary
            || matches!(
                self.code,
                Code::Timeout | Code::Reset | Code::EmptyResponse | Code::Truncated | Code::Refused
            )
    }
}

impl From<DecodeError> for FetchError {
    fn from(error: DecodeError) -> Self {
        let code = match error {
            DecodeError::Unsupported(_) | DecodeError::TooMany(_) => Code::UnsupportedCoding,
            DecodeError::Broken { .. } => Code::Decode,
            DecodeError::TooLarge(_) => Code::TooLarge,
        };
        Self::new(code, error.to_string())
    }
}

/// How far the answer had come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Head,
    Body,
}

/// The stable code for whatever the client says, from the innermost cause outwards.
pub(super) fn classify(error: &reqwest::Error, phase: Phase) -> FetchError {
    let mut texts = Vec::new();
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(refused) = inner.downcast_ref::<ResolveError>() {
            let (code, is_temporary) = match refused {
                ResolveError::Blocked(_) => (Code::BlockedAddress, false),
                ResolveError::Unknown { is_temporary, .. } => (Code::Dns, *is_temporary),
            };
            return FetchError {
                is_temporary,
                ..FetchError::new(code, refused.to_string())
            };
        }
        let io = inner.downcast_ref::<io::Error>();
        if inner.is::<rustls::Error>() {
            return FetchError::new(Code::Tls, format!("TLS failed: {inner}"));
        }
        if let Some(error) = io
            && let Some(code) = code_of_io(error, phase)
        {
            return FetchError::new(code, format!("the connection failed: {error}"));
        }
        texts.push(inner.to_string());
        // An I/O error that carries another error passes over it when asked for its source.
        cause = match io.and_then(io::Error::get_ref) {
            Some(carried) => Some(carried),
            None => inner.source(),
        };
    }
    let innermost = texts.last().cloned().unwrap_or_default();
    let code = code_of_text(&texts.join(": ").to_ascii_lowercase(), error, phase);
    let what = match phase {
        Phase::Head => "no usable answer came",
        Phase::Body => "the answer broke off",
    };
    FetchError::new(code, format!("{what}: {innermost}"))
}

fn code_of_io(error: &io::Error, phase: Phase) -> Option<Code> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => Some(Code::Refused),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => Some(Code::Reset),
        io::ErrorKind::TimedOut => Some(Code::Timeout),
        io::ErrorKind::UnexpectedEof if phase == Phase::Body => Some(Code::Truncated),
        _ => None,
    }
}

fn code_of_text(text: &str, error: &reqwest::Error, phase: Phase) -> Code {
    let has = |word: &str| text.contains(word);
    match () {
        () if error.is_timeout() => Code::Timeout,
        () if has("certificate") || has("tls") || has("handshake") => Code::Tls,
        () if has("message head is too large") || has("too many headers") => Code::HeadersTooLarge,
        () if has("connection closed before message completed") && phase == Phase::Head => {
            Code::EmptyResponse
        }
        () if has("incomplete message") || has("end of file before message length") => {
            if phase == Phase::Head {
                Code::EmptyResponse
            } else {
                Code::Truncated
            }
        }
        () if has("unexpected eof") => Code::Truncated,
        () if has("invalid content-length") || has("transfer-encoding") || has("chunk") => {
            Code::BadFraming
        }
        () if error.is_connect() => Code::Refused,
        () if phase == Phase::Body => Code::Truncated,
        () => Code::Protocol,
    }
}
