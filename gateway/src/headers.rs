//! Request headers that a caller may set.

use http::header::{HeaderName, HeaderValue};
use proto::v1::Header;
use serde_json::Value;

use crate::error::Invalid;

const MOST: usize = 32;
/// Set by the fetch itself; a caller that could set them could desynchronise connections.
const RESERVED: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "keep-alive",
    "proxy-authorization",
    "expect",
];

/// Reads an object of header names and values.
pub(crate) fn parse(field: &str, given: &Value) -> Result<Vec<Header>, Invalid> {
    let wrong = |bound: &str| Invalid::new(field, bound, given);
    let object = given
        .as_object()
        .ok_or_else(|| wrong("must be an object of strings"))?;
    if object.len() > MOST {
        return Err(wrong("holds at most 32 headers"));
    }
    let mut headers = Vec::new();
    for (name, value) in object {
        let value = value
            .as_str()
            .ok_or_else(|| wrong("every header value must be a string"))?;
        let valid =
            HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(value).is_ok();
        if !valid {
            return Err(wrong("holds a name or value that HTTP does not allow"));
        }
        if RESERVED.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(wrong(
                "may not set host, length, connection or proxy headers",
            ));
        }
        headers.push(Header {
            name: name.clone(),
            value: value.to_owned(),
        });
    }
    Ok(headers)
}
