//! One request and its answer, under caps of time and size. Redirects are answers here, never followed.

use std::error::Error as StdError;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use proto::{Code, CrawlUrl, v1};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use tokio::time::Instant;

use crate::config::Config;
use crate::media::{Kind, sniff};
use crate::metrics;
use crate::resolver::{ResolveError, Resolver};

/// Decoded bytes a sent byte may become, past the first megabyte.
const MAX_RATIO: u64 = 200;
const RATIO_FREE: u64 = 1024 * 1024;
/// Header fields of one answer.
const MAX_HEADERS: usize = 256;
const MAX_HEADER_BYTES: u32 = 256 * 1024;
/// Idle connections are kept this long, so that a paced host needs no new handshake.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The address.
    pub url: &'a CrawlUrl,
    /// Further headers of the caller's.
    pub headers: &'a [v1::Header],
    /// Validators of an earlier answer; empty when there are none.
    pub etag: &'a str,
    /// The same.
    pub last_modified: &'a str,
    /// The whole fetch; zero for the worker's own bound.
    pub timeout: Duration,
    /// Most decoded bytes; 0 for the worker's own bound.
    pub max_body: u64,
    /// Which kinds of content are read to the end.
    pub wants: Wants,
    /// A body beyond the cap is cut there instead of refused.
    pub cuts: bool,
}

/// Which kinds of content are read to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Whatever comes.
    Anything,
    /// What can be read as text.
    Text,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// All header fields.
    pub headers: HeaderMap,
    /// The decoded body; empty when it is not wanted.
    pub body: Bytes,
    /// Its kind, by declaration and by its first bytes.
    pub kind: Kind,
    /// The body was left out because nobody wants that kind.
    pub is_skipped: bool,
    /// From start to last byte.
    pub elapsed: Duration,
}

/// No answer, or none that can be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct FetchError {
    /// The stable code.
    pub code: Code,
    /// One sentence.
    pub detail: String,
}

impl FetchError {
    fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
        }
    }

    /// Whether the same request may succeed a little later.
    pub const fn may_retry(&self) -> bool {
        matches!(
            self.code,
            Code::Timeout | Code::Reset | Code::EmptyResponse | Code::Truncated | Code::Refused
        )
    }
}

/// Makes requests. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    client: Client,
    resolver: Resolver,
    fetch_timeout: Duration,
    max_body: u64,
}

impl Fetcher {
    /// Builds the client over a guarded resolver.
    pub fn new(config: &Config, resolver: Resolver) -> Result<Self, String> {
        let client = Client::builder()
            .user_agent(&config.user_agent)
            .dns_resolver(resolver.clone())
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(config.connect_timeout)
            .read_timeout(config.idle_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(2)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .http1_max_headers(MAX_HEADERS)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            resolver,
            fetch_timeout: config.fetch_timeout,
            max_body: config.max_body,
        })
    }

    /// The address that the next request to this URL goes to first, for bounds per address.
    pub async fn address_of(&self, url: &CrawlUrl) -> Option<IpAddr> {
        match url.url().host()? {
            url::Host::Ipv4(address) => Some(address.into()),
            url::Host::Ipv6(address) => Some(address.into()),
            url::Host::Domain(name) => self.resolver.addresses(name).await.ok()?.into_iter().next(),
        }
    }

    /// Asks, and reads the answer to its end.
    pub async fn fetch(&self, request: Request<'_>) -> Result<Answer, FetchError> {
        let began = Instant::now();
        let limit = match request.timeout.is_zero() {
            true => self.fetch_timeout,
            false => request.timeout.min(self.fetch_timeout),
        };
        ::metrics::gauge!(metrics::IN_FLIGHT).increment(1.0);
        let answered = tokio::time::timeout(limit, self.ask(&request, began)).await;
        ::metrics::gauge!(metrics::IN_FLIGHT).decrement(1.0);
        let answer = answered.unwrap_or_else(|_| {
            let detail = format!("no complete answer came within {limit:?}");
            Err(FetchError::new(Code::Timeout, detail))
        });
        let class = match &answer {
            Ok(answer) => class_of(answer.status),
            Err(_) => "none",
        };
        ::metrics::counter!(metrics::FETCHES, "class" => class).increment(1);
        ::metrics::histogram!(metrics::FETCH_SECONDS).record(began.elapsed().as_secs_f64());
        answer
    }

    async fn ask(&self, request: &Request<'_>, began: Instant) -> Result<Answer, FetchError> {
        self.check_literal(request.url)?;
        let mut asking = self
            .client
            .get(request.url.url().clone())
            .headers(headers_of(request));
        if !request.url.url().username().is_empty() {
            let url = request.url.url();
            asking = asking.basic_auth(url.username(), url.password());
        }
        let response = asking
            .send()
            .await
            .map_err(|error| classify(&error, Phase::Head))?;
        let status = response.status();
        let headers = response.headers().clone();
        let cap = match request.max_body {
            0 => self.max_body,
            asked => asked.min(self.max_body),
        };
        let (body, kind, is_skipped) = read_body(response, &headers, cap, request).await?;
        ::metrics::counter!(metrics::FETCH_BYTES).increment(body.len() as u64);
        Ok(Answer {
            status,
            headers,
            body,
            kind,
            is_skipped,
            elapsed: began.elapsed(),
        })
    }

    /// Literals never reach the resolver.
    fn check_literal(&self, url: &CrawlUrl) -> Result<(), FetchError> {
        let literal = match url.url().host() {
            Some(url::Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(url::Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(url::Host::Domain(_)) | None => None,
        };
        let Some(address) = literal else {
            return Ok(());
        };
        self.resolver.guard().check(address).map_err(|blocked| {
            ::metrics::counter!(metrics::GUARD_REFUSED, "stage" => "literal").increment(1);
            FetchError::new(Code::BlockedAddress, blocked.to_string())
        })
    }
}

fn class_of(status: StatusCode) -> &'static str {
    match status.as_u16() {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}

/// The caller's headers without those that belong to the connection, and the validators.
fn headers_of(request: &Request<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.8,*/*;q=0.5";
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
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

async fn read_body(
    mut response: Response,
    headers: &HeaderMap,
    cap: u64,
    request: &Request<'_>,
) -> Result<(Bytes, Kind, bool), FetchError> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let declared = text(header::CONTENT_TYPE).map(str::to_owned);
    let nosniff = text(header::X_CONTENT_TYPE_OPTIONS).is_some_and(|value| value == "nosniff");
    let sent: Option<u64> = text(header::CONTENT_LENGTH).and_then(|value| value.parse().ok());
    let is_coded = headers.contains_key(header::CONTENT_ENCODING);
    let mut body = BytesMut::new();
    let mut kind = None;
    loop {
        let chunk = response
            .chunk()
            .await
            .map_err(|error| classify(&error, Phase::Body))?;
        let Some(chunk) = chunk else { break };
        body.extend_from_slice(&chunk);
        if kind.is_none() {
            let found = sniff(declared.as_deref(), &body, nosniff);
            kind = Some(found);
            if request.wants == Wants::Text && !found.is_text() && response.status().is_success() {
                return Ok((Bytes::new(), found, true));
            }
        }
        let size = body.len() as u64;
        let is_bomb = is_coded
            && sent.is_some_and(|sent| size > RATIO_FREE && size > sent.saturating_mul(MAX_RATIO));
        if size > cap && request.cuts {
            body.truncate(usize::try_from(cap).unwrap_or(usize::MAX));
            break;
        }
        if size > cap || is_bomb {
            let detail =
                format!("the body is larger than {cap} bytes, or unpacks beyond {MAX_RATIO}:1");
            return Err(FetchError::new(Code::TooLarge, detail));
        }
    }
    let kind = kind.unwrap_or_else(|| sniff(declared.as_deref(), &[], nosniff));
    Ok((body.freeze(), kind, false))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Head,
    Body,
}

/// The stable code for whatever the client says, from the innermost cause outwards.
fn classify(error: &reqwest::Error, phase: Phase) -> FetchError {
    let mut texts = Vec::new();
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(refused) = inner.downcast_ref::<ResolveError>() {
            let code = match refused {
                ResolveError::Blocked(_) => Code::BlockedAddress,
                ResolveError::Unknown { .. } => Code::Dns,
            };
            return FetchError::new(code, refused.to_string());
        }
        if inner.downcast_ref::<rustls::Error>().is_some() {
            return FetchError::new(Code::Tls, format!("TLS failed: {inner}"));
        }
        if let Some(error) = inner.downcast_ref::<io::Error>()
            && let Some(code) = code_of_io(error, phase)
        {
            return FetchError::new(code, format!("the connection failed: {error}"));
        }
        texts.push(inner.to_string());
        cause = inner.source();
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
        () if error.is_decode()
            || has("deflate")
            || has("gzip")
            || has("brotli")
            || has("zstd") =>
        {
            Code::Decode
        }
        () if error.is_connect() => Code::Refused,
        () if phase == Phase::Body => Code::Truncated,
        () => Code::Protocol,
    }
}

/// What Retry-After asks for (RFC 9110, 10.2.3): whole seconds, or a date seen from `now`.
pub fn retry_after(headers: &HeaderMap, now: std::time::SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(Duration::from_secs);
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::{HeaderMap, HeaderValue, header};

    use super::{max_age, retry_after};

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
        for wrong in ["-5", "1.5", "soon", ""] {
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
}
