//! One request and its answer, under caps of time and size. Redirects are answers here, never followed.
//!
//! Only the body of a success is read: what a redirect or an error carries is drained a little, so that the connection
//! can be used again, and forgotten.

pub(crate) mod decode;
mod fault;
pub mod fields;
pub mod file_name;

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};
use proto::{Code, CrawlUrl, v1};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response};
use tokio::time::Instant;

use self::decode::Decoder;
pub use self::fault::FetchError;
use self::fault::{Phase, classify};
use self::fields::{headers_of, is_conditional, size_of};
use crate::config::Config;
use crate::media::{Kind, SNIFFED, sniff};
use crate::metrics;
use crate::resolver::Resolver;

/// Decoded bytes that a sent byte may become, past the first megabyte. One gzip layer cannot reach it, a bomb must.
const MAX_RATIO: u64 = 1100;
const RATIO_FREE: u64 = 1024 * 1024;
/// Header fields of one answer.
const MAX_HEADERS: usize = 512;
/// Idle connections are kept this long, so that a paced host needs no new handshake.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// What is read of a body that nobody wants, for the sake of the connection.
const DRAINED: usize = 64 * 1024;
const DRAIN_WITHIN: Duration = Duration::from_millis(250);

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
    /// The Cookie header, if any.
    pub cookies: Option<&'a str>,
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
    /// The request asked for the page only if it has changed.
    pub is_conditional: bool,
    /// The decoded body of a success; empty when it is not wanted.
    pub body: Bytes,
    /// Its kind, by declaration and by its first bytes.
    pub kind: Kind,
    /// The body was left out because nobody wants that kind.
    pub is_skipped: bool,
    /// From start to last byte.
    pub elapsed: Duration,
}

/// Makes requests. Cheap to clone.
#[derive(Clone)]
pub struct Fetcher {
    client: Client,
    resolver: Resolver,
    fetch_timeout: Duration,
    max_body: u64,
    max_header_bytes: u32,
}

impl Fetcher {
    /// Builds the client over a guarded resolver.
    pub fn new(config: &Config, resolver: Resolver) -> Result<Self, String> {
        let mut roots = Vec::new();
        for pem in &config.extra_roots {
            let found = Certificate::from_pem_bundle(pem).map_err(|error| error.to_string())?;
            roots.extend(found);
        }
        let client = Client::builder()
            .tls_certs_merge(roots)
            .user_agent(&config.user_agent)
            .dns_resolver(resolver.clone())
            .redirect(Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(config.connect_timeout)
            .read_timeout(config.idle_timeout)
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(2)
            .http2_max_header_list_size(config.max_header_bytes)
            .http1_max_headers(MAX_HEADERS)
            .http1_ignore_invalid_headers_in_responses(true)
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_allow_spaces_after_header_name_in_responses(true)
            .tcp_nodelay(true)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            resolver,
            fetch_timeout: config.fetch_timeout,
            max_body: config.max_body,
            max_header_bytes: config.max_header_bytes,
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
        let size = size_of(&headers);
        if size > u64::from(self.max_header_bytes) {
            let most = self.max_header_bytes;
            let detail = format!("the header fields have {size} bytes; at most {most} are read");
            return Err(FetchError::new(Code::HeadersTooLarge, detail));
        }
        let content = match status.is_success() {
            true => {
                let cap = match request.max_body {
                    0 => self.max_body,
                    asked => asked.min(self.max_body),
                };
                read_body(response, &headers, cap, request).await?
            }
            false => {
                drain(response).await;
                Content::default()
            }
        };
        Ok(Answer {
            status,
            headers,
            is_conditional: is_conditional(request),
            body: content.body.into(),
            kind: content.kind,
            is_skipped: content.is_skipped,
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

struct Content {
    body: Vec<u8>,
    kind: Kind,
    is_skipped: bool,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            body: Vec::new(),
            kind: Kind::Binary,
            is_skipped: false,
        }
    }
}

/// Reads a little of what nobody wants; how that ends does not matter.
async fn drain(mut response: Response) {
    let reading = async {
        let mut size = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            size += chunk.len();
            if size > DRAINED {
                break;
            }
        }
    };
    drop(tokio::time::timeout(DRAIN_WITHIN, reading).await);
}

async fn read_body(
    mut response: Response,
    headers: &HeaderMap,
    cap: u64,
    request: &Request<'_>,
) -> Result<Content, FetchError> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let declared = text(header::CONTENT_TYPE).map(str::to_owned);
    let nosniff = text(header::X_CONTENT_TYPE_OPTIONS)
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("nosniff"));
    let mut decoder = Decoder::new(headers, cap)?;
    let announced = response.content_length().unwrap_or(0);
    if decoder.is_plain() && announced > cap && !request.cuts {
        let detail = format!("the body is announced with {announced} bytes; {cap} are the most");
        return Err(FetchError::new(Code::TooLarge, detail));
    }
    let is_wanted = |kind: Kind| request.wants == Wants::Anything || kind.is_text();
    let (mut body, mut received, mut kind) = (Vec::new(), 0, None);
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| classify(&error, Phase::Body))?
    {
        received += chunk.len() as u64;
        ::metrics::counter!(metrics::FETCH_BYTES).increment(chunk.len() as u64);
        if let Err(error) = decoder.push(&chunk, &mut body) {
            if request.cuts && matches!(error, decode::DecodeError::TooLarge(_)) {
                let kind = sniff(declared.as_deref(), &body, nosniff);
                return Ok(Content {
                    body,
                    kind,
                    is_skipped: false,
                });
            }
            return Err(error.into());
        }
        if kind.is_none() && body.len() >= SNIFFED {
            let found = sniff(declared.as_deref(), &body, nosniff);
            if !is_wanted(found) {
                return Ok(Content {
                    body: Vec::new(),
                    kind: found,
                    is_skipped: true,
                });
            }
            kind = Some(found);
        }
        let size = body.len() as u64;
        if size > RATIO_FREE && size > received.saturating_mul(MAX_RATIO) {
            let detail = format!("the body unpacks beyond {MAX_RATIO} to 1");
            return Err(FetchError::new(Code::TooLarge, detail));
        }
    }
    decoder.finish(&mut body)?;
    let kind = kind.unwrap_or_else(|| sniff(declared.as_deref(), &body, nosniff));
    let is_skipped = !is_wanted(kind) && !body.is_empty();
    if is_skipped {
        body = Vec::new();
    }
    Ok(Content {
        body,
        kind,
        is_skipped,
    })
}
