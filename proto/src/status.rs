//! The one table between our errors and gRPC's.
//!
//! The code travels in the metadata key `x-crawlforge-code`, the field at fault in `x-crawlforge-field`.

use std::fmt;

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

const CODE: &str = "x-crawlforge-code";
const FIELD: &str = "x-crawlforge-field";

/// Why a call between processes was refused. Whether a retry helps is part of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCode {
    /// An argument is missing, mistyped or out of bounds.
    InvalidArgument,
    /// No such session, page or body, or none that this caller may see.
    NotFound,
    /// The session's state does not allow it.
    WrongState,
    /// The caller may not do this.
    Forbidden,
    /// Too much is waiting; a retry helps.
    Busy,
    /// The other side is not there; a retry helps.
    Unavailable,
    /// The time given has run out; a retry helps.
    Timeout,
    /// The store is full or fails; new work is refused.
    StoreFailed,
    /// A fault of ours.
    Internal,
}

impl ErrorCode {
    const ALL: [Self; 9] = [
        Self::InvalidArgument,
        Self::NotFound,
        Self::WrongState,
        Self::Forbidden,
        Self::Busy,
        Self::Unavailable,
        Self::Timeout,
        Self::StoreFailed,
        Self::Internal,
    ];

    /// The stable word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::WrongState => "wrong_state",
            Self::Forbidden => "forbidden",
            Self::Busy => "busy",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::StoreFailed => "store_failed",
            Self::Internal => "internal",
        }
    }

    /// Whether the same call may succeed later.
    pub const fn may_retry(self) -> bool {
        matches!(self, Self::Busy | Self::Unavailable | Self::Timeout)
    }

    const fn grpc(self) -> Code {
        match self {
            Self::InvalidArgument => Code::InvalidArgument,
            Self::NotFound => Code::NotFound,
            Self::WrongState => Code::FailedPrecondition,
            Self::Forbidden => Code::PermissionDenied,
            Self::Busy => Code::ResourceExhausted,
            Self::Unavailable => Code::Unavailable,
            Self::Timeout => Code::DeadlineExceeded,
            Self::StoreFailed => Code::Aborted,
            Self::Internal => Code::Internal,
        }
    }

    fn from_grpc(code: Code) -> Self {
        match code {
            Code::InvalidArgument | Code::OutOfRange => Self::InvalidArgument,
            Code::NotFound => Self::NotFound,
            Code::FailedPrecondition | Code::AlreadyExists => Self::WrongState,
            Code::PermissionDenied | Code::Unauthenticated => Self::Forbidden,
            Code::ResourceExhausted => Self::Busy,
            // Our refusals name their code, so `Unknown` is a connection that broke under a call.
            Code::Unavailable | Code::Cancelled | Code::Unknown => Self::Unavailable,
            Code::DeadlineExceeded => Self::Timeout,
            Code::Aborted | Code::DataLoss => Self::StoreFailed,
            Code::Ok | Code::Unimplemented | Code::Internal => Self::Internal,
        }
    }
}

/// A refused call: code, the field at fault where there is one, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind of refusal it is.
    pub code: ErrorCode,
    /// The argument at fault.
    pub field: Option<String>,
    /// One sentence, with the value and the bound.
    pub message: String,
}

impl Refusal {
    /// A refusal that no single argument is to blame for.
    pub fn new(code: ErrorCode, message: impl fmt::Display) -> Self {
        Self {
            code,
            field: None,
            message: message.to_string(),
        }
    }

    /// An argument at fault.
    pub fn argument(field: &str, message: impl fmt::Display) -> Self {
        Self {
            code: ErrorCode::InvalidArgument,
            field: Some(field.to_owned()),
            message: message.to_string(),
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut status = Self::new(refusal.code.grpc(), refusal.message);
        let metadata = status.metadata_mut();
        metadata.insert(CODE, MetadataValue::from_static(refusal.code.word()));
        if let Some(value) = refusal.field.and_then(|field| field.parse().ok()) {
            metadata.insert(FIELD, value);
        }
        status
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        let text = |key| {
            let value = status.metadata().get(key)?;
            value.to_str().ok().map(str::to_owned)
        };
        let named =
            text(CODE).and_then(|word| ErrorCode::ALL.into_iter().find(|code| code.word() == word));
        Self {
            code: named.unwrap_or_else(|| ErrorCode::from_grpc(status.code())),
            field: text(FIELD),
            message: status.message().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::{ErrorCode, Refusal};

    #[test]
    fn a_refusal_survives_the_wire() {
        for code in ErrorCode::ALL {
            let refusal = Refusal {
                code,
                field: Some("max_pages".into()),
                message: "no".into(),
            };
            assert_eq!(Refusal::from(Status::from(refusal.clone())), refusal);
        }
    }
}
