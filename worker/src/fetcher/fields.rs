//! Header fields: those that are sent, and what those that come back say.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::Request;
use super::decode::ACCEPTED;

const ACCEPT: &str =
    "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,*/*;q=0.5";

/// The caller's headers without those that belong to the connection, and the validators.
pub(super) fn headers_of(request: &Request<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPT));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED));
    for given in request.headers {
        let name = HeaderName::from_bytes(given.name.as_bytes());
        let value = HeaderValue::from_str(&given.value);
        let (Ok(name), Ok(value)) = (name, value) else {
            continue;
        };
        if !is_of_the_connection(&name) {
            headers.insert(name, value);
        }
    }
    if let Some(ours) = request.cookies {
        let given = headers
            .get(header::COOKIE)
            .and_then(|value| value.to_str().ok());
        let all = given.map_or_else(|| ours.to_owned(), |given| format!("{given}; {ours}"));
        if let Ok(mut value) = HeaderValue::from_str(&all) {
            value.set_sensitive(true);
            headers.insert(header::COOKIE, value);
        }
    }
    for (name, text) in [
        (header::IF_NONE_MATCH, request.etag),
        (header::IF_MODIFIED_SINCE, request.last_modified),
    ] {
        if let (false, Ok(value)) = (text.is_empty(), HeaderValue::from_str(text)) {
            headers.insert(name, value);
        }
    }
    headers
}

fn is_of_the_connection(name: &HeaderName) -> bool {
    const OURS: [HeaderName; 9] = [
        header::HOST,
        header::CONTENT_LENGTH,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::TE,
        header::TRAILER,
        header::UPGRADE,
        header::PROXY_AUTHORIZATION,
        header::ACCEPT_ENCODING,
    ];
    OURS.contains(name) || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// What Retry-After asks for (RFC 9110, 10.2.3): whole seconds, or a date seen from `now`.
pub fn retry_after(headers: &HeaderMap, now: std::time::SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number beyond all bounds is a very long pause, not none.
        return Some(Duration::from_secs(
            text.parse().unwrap_or(u64::from(u32::MAX)),
        ));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

/// Seconds for which Cache-Control lets an answer be kept; `None` where it says nothing.
pub fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let text = headers
        .get(header::CACHE_CONTROL)?
        .to_str()
        .ok()?
        .to_ascii_lowercase();
    let mut found = None;
    for directive in text.split(',').map(str::trim) {
        if directive == "no-store" || directive == "no-cache" {
            return Some(Duration::ZERO);
        }
        if let Some(seconds) = directive.strip_prefix("max-age=") {
            found = seconds
                .trim_matches('"')
                .parse()
                .ok()
                .map(Duration::from_secs);
        }
    }
    found
}

/// Where a redirect leads, as text to be resolved: the first Location, octets that are no ASCII escaped as they are
/// (RFC 9110, 10.2.2). `None` when there is none, or an empty one.
pub fn location(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::LOCATION)?.as_bytes().trim_ascii();
    let mut text = String::with_capacity(value.len());
    for byte in value {
        match byte {
            0x80.. => text.push_str(&format!("%{byte:02X}")),
            _ => text.push(char::from(*byte)),
        }
    }
    Some(text).filter(|text| !text.is_empty())
}

/// Bytes of all names and values.
pub(super) fn size_of(headers: &HeaderMap) -> u64 {
    let sizes = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4);
    sizes.sum::<usize>() as u64
}

/// Whether the caller asked for the page only if it has changed (RFC 9110, 13.1).
pub(crate) fn is_conditional(request: &Request<'_>) -> bool {
    let asks = |name: &str| {
        ["if-none-match", "if-modified-since"]
            .iter()
            .any(|field| name.eq_ignore_ascii_case(field))
    };
    !request.etag.is_empty()
        || !request.last_modified.is_empty()
        || request.headers.iter().any(|given| asks(&given.name))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::{HeaderMap, HeaderValue, header};

    use super::{location, max_age, retry_after};

    fn asked(text: &str) -> Option<u64> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        let now = UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        retry_after(&headers, now).map(|span| span.as_secs())
    }

    #[test]
    fn a_pause_is_whole_seconds_or_a_date() {
        assert_eq!(asked("120"), Some(120));
        assert_eq!(asked("Thu, 01 Jan 2026 00:02:00 GMT"), Some(120));
        assert_eq!(asked("Thursday, 01-Jan-26 00:02:00 GMT"), Some(120));
        assert_eq!(asked("Thu, 01 Jan 2015 00:02:00 GMT"), Some(0));
        assert_eq!(asked("Thu Jan  1 00:02:00 2026"), Some(120));
        assert_eq!(asked("0"), Some(0));
        assert_eq!(asked(" 7 "), Some(7));
        assert_eq!(asked("99999999999999999999999"), Some(u64::from(u32::MAX)));
        for wrong in ["-5", "1.5", "soon", "", "+5", "5 s"] {
            assert_eq!(asked(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn cache_control_bounds_how_long_an_answer_is_kept() {
        let kept = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(text));
            max_age(&headers).map(|span| span.as_secs())
        };
        assert_eq!(kept("public, max-age=60"), Some(60));
        assert_eq!(kept("no-store, max-age=60"), Some(0));
        assert_eq!(kept("public"), None);
    }

    #[test]
    fn a_location_keeps_its_octets() {
        let place = |bytes: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(header::LOCATION, HeaderValue::from_bytes(bytes).unwrap());
            location(&headers)
        };
        let read = |bytes: &[u8]| place(bytes).unwrap();
        assert_eq!(read("/fa/\u{627}".as_bytes()), "/fa/%D8%A7");
        assert_eq!(read(b"/caf\xe9?x"), "/caf%E9?x");
        assert_eq!(read(b"  /a b "), "/a b");
        assert_eq!(place(b" "), None);
        assert_eq!(location(&HeaderMap::new()), None);
    }
}
