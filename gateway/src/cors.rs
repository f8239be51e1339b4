//! Which web pages may read our answers: an allow list, and what a browser is told of it.

use http::header::{self, HeaderMap, HeaderValue};

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, DELETE");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "content-type, accept, authorization, x-api-key, last-event-id, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, traceparent, tracestate",
);
const EXPOSED: HeaderValue =
    HeaderValue::from_static("mcp-session-id, mcp-protocol-version, retry-after, www-authenticate");
const KEPT_SECS: HeaderValue = HeaderValue::from_static("600");

/// Whether an `Origin` is in the list. `https://a.test:*` stands for every port; without a port it is that of the scheme.
pub(crate) fn allows(listed: &[String], origin: &str) -> bool {
    let origin = origin.trim_end_matches('/');
    listed.iter().any(|entry| {
        let entry = entry.trim_end_matches('/');
        match entry.strip_suffix(":*") {
            Some(any_port) => origin
                .strip_prefix(any_port)
                .is_some_and(|rest| rest.is_empty() || is_port(rest)),
            None => entry.eq_ignore_ascii_case(origin),
        }
    })
}

fn is_port(rest: &str) -> bool {
    let port = rest.strip_prefix(':');
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Lets a page of this origin read the answer.
pub(crate) fn permit(headers: &mut HeaderMap, origin: &HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

/// Answers a browser that asks before it asks.
pub(crate) fn preflight(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, KEPT_SECS);
}

#[cfg(test)]
mod tests {
    use super::allows;

    #[test]
    fn an_origin_is_listed_with_its_port() {
        let listed = ["http://localhost:*", "https://app.test", "http://b.test:81"];
        let listed = listed.map(str::to_owned);
        for (origin, wanted) in [
            ("http://localhost", true),
            ("http://localhost:3000", true),
            ("http://localhost.evil.test", false),
            ("http://localhost:3000.evil.test", false),
            ("https://localhost", false),
            ("https://app.test", true),
            ("https://app.test:444", false),
            ("http://b.test:81", true),
            ("http://b.test", false),
            ("null", false),
        ] {
            assert_eq!(allows(&listed, origin), wanted, "{origin}");
        }
    }
}
