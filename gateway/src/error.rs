//! The one table between what went wrong and what an MCP client is told.
//!
//! Arguments at fault and faults of ours are JSON-RPC errors; everything that a model can act on is a tool
//! result with `isError`, whose text carries code, cause and next step.

use proto::{Code, ErrorCode, Refusal};
use rmcp::ErrorData;
use rmcp::model::ErrorCode as RpcCode;
use serde_json::{Value, json};

/// An argument that cannot be taken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invalid {
    pub(crate) field: String,
    pub(crate) bound: String,
    pub(crate) given: Value,
}

impl Invalid {
    pub(crate) fn new(field: &str, bound: impl Into<String>, given: &Value) -> Self {
        Self {
            field: field.to_owned(),
            bound: bound.into(),
            given: shortened(given),
        }
    }
}

/// Something that did not work and that a model can act on.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) next_step: String,
    pub(crate) url: Option<String>,
    pub(crate) status: u32,
    pub(crate) retry_after_millis: u64,
    pub(crate) session: Option<String>,
}

impl Failure {
    pub(crate) fn of(code: Code, message: impl Into<String>) -> Self {
        Self {
            code: code.word().to_owned(),
            message: message.into(),
            next_step: code.next_step().to_owned(),
            url: None,
            status: 0,
            retry_after_millis: 0,
            session: None,
        }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{}: {}\nNext step: {}",
            self.code, self.message, self.next_step
        );
        if let Some(url) = &self.url {
            text.push_str(&format!("\nURL: {url}"));
        }
        if self.status != 0 {
            text.push_str(&format!("\nHTTP status: {}", self.status));
        }
        if self.retry_after_millis != 0 {
            text.push_str(&format!("\nRetry after: {} s", self.retry_after_secs()));
        }
        text
    }

    pub(crate) fn structured(&self) -> Value {
        let mut error = json!({
            "code": self.code, "message": self.message, "next_step": self.next_step, "jsonrpc_code": -32603,
        });
        if let Some(url) = &self.url {
            error["url"] = json!(url);
        }
        if self.status != 0 {
            error["status"] = json!(self.status);
        }
        if self.retry_after_millis != 0 {
            error["retry_after"] = json!(self.retry_after_secs());
        }
        error
    }

    fn retry_after_secs(&self) -> u64 {
        self.retry_after_millis.div_ceil(1_000)
    }
}

/// Why a call has no ordinary answer.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Invalid(Invalid),
    Failed(Box<Failure>),
    Internal(String),
    /// The caller took the call back; nobody reads the answer.
    Cancelled,
}

impl From<Invalid> for Fault {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        let next_step = match refusal.code {
            ErrorCode::InvalidArgument => {
                let field = refusal.field.unwrap_or_else(|| "arguments".to_owned());
                let bound = refusal.message;
                return Self::Invalid(Invalid {
                    field,
                    bound,
                    given: Value::Null,
                });
            }
            ErrorCode::StoreFailed | ErrorCode::Internal => return Self::Internal(refusal.message),
            ErrorCode::NotFound => {
                "Check the id; crawl_control with action list names your sessions."
            }
            ErrorCode::WrongState => "Ask crawl_status how the session stands.",
            ErrorCode::Forbidden => "Use a key that may do this.",
            ErrorCode::Busy | ErrorCode::Unavailable | ErrorCode::Timeout => {
                "Nothing to change; try the same call again in a few seconds."
            }
        };
        let mut failure = Failure::of(Code::Internal, refusal.message);
        failure.code = refusal.code.word().to_owned();
        failure.next_step = next_step.to_owned();
        failure.into()
    }
}

impl From<Invalid> for ErrorData {
    fn from(invalid: Invalid) -> Self {
        let message = if invalid.given.is_null() {
            format!("`{}`: {}", invalid.field, invalid.bound)
        } else {
            format!(
                "`{}`: {}; given {}",
                invalid.field, invalid.bound, invalid.given
            )
        };
        let data =
            json!({ "field": invalid.field, "bound": invalid.bound, "given": invalid.given });
        ErrorData::new(RpcCode::INVALID_PARAMS, message, Some(data))
    }
}

/// A fault of ours.
pub(crate) fn internal(message: impl Into<String>) -> ErrorData {
    ErrorData::new(RpcCode::INTERNAL_ERROR, message.into(), None)
}

/// A value as an error may repeat it: short, whatever was given.
pub(crate) fn shortened(given: &Value) -> Value {
    let text = given.to_string();
    if text.len() <= 200 {
        return given.clone();
    }
    Value::String(text.chars().take(200).chain("...".chars()).collect())
}
