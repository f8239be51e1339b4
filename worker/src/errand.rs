//! One request of a ticket, from its start to the fate that is reported. Runs as a task; the host's actor owns it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use proto::v1::outcome::Result as Fate;
use proto::v1::robots_copy::Verdict;
use proto::v1::{self, PartKind, TicketKind};
use proto::{Clock, Code, CrawlUrl, Digest, HostKey, Timestamp};
use tokio::sync::Semaphore;
use tonic::transport::Channel;

use crate::capture::{Order, capture};
use crate::config::Config;
use crate::cookies::set_by;
use crate::fetcher::fields::{location, retry_after};
use crate::fetcher::{Answer, FetchError, Fetcher, Request, Wants};
use crate::robots_copy::{self, Asked, Reading};
use crate::{bodies, metrics, sitemap};

/// Most bytes of a sitemap as it comes; unpacked it is bounded by its reader.
const SITEMAP_BYTES: u64 = 50 * 1024 * 1024;

/// What every request needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Clock,
    pub(crate) fetcher: Fetcher,
    pub(crate) channel: Channel,
    /// Pages that are read at once.
    pub(crate) readers: Arc<Semaphore>,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) fate: Fate,
    pub(crate) facts: v1::HostFacts,
    /// What the answer set.
    pub(crate) cookies: Vec<v1::Cookie>,
    pub(crate) started: Timestamp,
}

/// What came of asking for robots.txt.
pub(crate) enum RobotsDone {
    /// Decided.
    Copy(Box<v1::RobotsCopy>),
    /// To be asked again, at this address of the same host.
    Again(CrawlUrl),
}

impl Tools {
    fn wall(&self) -> std::time::SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.clock.now().as_millis())
    }

    /// The address that a host is found at first.
    pub(crate) async fn address_of(&self, key: &HostKey) -> Option<IpAddr> {
        let url = CrawlUrl::parse(key.as_str()).ok()?;
        self.fetcher.address_of(&url).await
    }

    /// Asks for robots.txt of `origin` at `url`, `hops` redirects on; `earlier` is a copy that has grown old.
    pub(crate) async fn robots(
        &self,
        url: &CrawlUrl,
        origin: &HostKey,
        hops: u32,
        earlier: Option<&v1::RobotsCopy>,
    ) -> RobotsDone {
        let earlier = earlier.filter(|_| hops == 0);
        let request = Request {
            url,
            headers: &[],
            etag: earlier.map_or("", |copy| &copy.etag),
            last_modified: earlier.map_or("", |copy| &copy.last_modified),
            cookies: None,
            timeout: Duration::ZERO,
            max_body: robots_copy::MAX_BYTES,
            wants: Wants::Anything,
            cuts: true,
        };
        let answer = self.fetcher.fetch(request).await;
        let asked = Asked {
            url,
            origin,
            hops,
            agent: &self.config.agent,
            earlier,
        };
        match robots_copy::read(&answer, &asked, self.wall()) {
            Reading::Again(next) => RobotsDone::Again(next),
            Reading::Copy(copy) => {
                let word = match copy.verdict() {
                    Verdict::Rules => "rules",
                    Verdict::AllowAll => "allow_all",
                    Verdict::Elsewhere => "elsewhere",
                    Verdict::Unreachable | Verdict::Unspecified => "unreachable",
                };
                ::metrics::counter!(metrics::ROBOTS, "verdict" => word).increment(1);
                RobotsDone::Copy(Box::new(copy))
            }
        }
    }

    /// Does what a page or sitemap ticket asks.
    pub(crate) async fn run(
        &self,
        ticket: &v1::Ticket,
        cookies: Option<&str>,
        started: Timestamp,
    ) -> Done {
        let mut facts = v1::HostFacts {
            has_started: true,
            ..v1::HostFacts::default()
        };
        let (fate, cookies) = match CrawlUrl::parse(&ticket.url) {
            Ok(url) => self.fetch(ticket, &url, cookies, &mut facts).await,
            Err(error) => {
                let fate = failed(Code::Internal, error.to_string(), 0, false);
                (fate, Vec::new())
            }
        };
        Done {
            fate,
            facts,
            cookies,
            started,
        }
    }

    async fn fetch(
        &self,
        ticket: &v1::Ticket,
        url: &CrawlUrl,
        cookies: Option<&str>,
        facts: &mut v1::HostFacts,
    ) -> (Fate, Vec<v1::Cookie>) {
        let options = ticket.fetch.clone().unwrap_or_default();
        let is_sitemap = ticket.kind() == TicketKind::Sitemap;
        let keeps_body = options.keep.contains(&PartKind::Body.into());
        let request = Request {
            url,
            headers: &options.headers,
            etag: &ticket.etag,
            last_modified: &ticket.last_modified,
            cookies,
            timeout: Duration::from_millis(options.timeout_millis),
            max_body: if is_sitemap {
                SITEMAP_BYTES
            } else {
                options.max_body_bytes
            },
            wants: if is_sitemap || keeps_body {
                Wants::Anything
            } else {
                Wants::Text
            },
            cuts: false,
        };
        let answer = match self.fetcher.fetch(request).await {
            Ok(answer) => answer,
            Err(error) => return (fate_of_error(&error), Vec::new()),
        };
        let cookies = set_by(&answer.headers, url, self.clock.now());
        facts.latency_millis = u64::try_from(answer.elapsed.as_millis())
            .unwrap_or(0)
            .max(1);
        let fate = match self.fate_of_status(url, &answer, facts) {
            Some(fate) => fate,
            None if is_sitemap => self.read_sitemap(url.clone(), answer).await,
            None => self.capture(ticket, url.clone(), answer, &options).await,
        };
        (fate, cookies)
    }

    /// The fate that the status alone decides; `None` for a page to be read.
    fn fate_of_status(
        &self,
        url: &CrawlUrl,
        answer: &Answer,
        facts: &mut v1::HostFacts,
    ) -> Option<Fate> {
        let status = answer.status.as_u16();
        let number = u32::from(status);
        match status {
            304 if answer.is_conditional => {
                Some(Fate::NotModified(v1::NotModified { status: number }))
            }
            304 => {
                let detail = "the server answers 304 though nobody asked whether the page changed";
                Some(failed(Code::Protocol, detail.to_owned(), number, false))
            }
            300..=399 => Some(redirected(url, answer)),
            204 | 205 => Some(Fate::Refused(v1::Refused {
                code: Code::NoContent.word().to_owned(),
                detail: format!("the server answers {}: there is no page", answer.status),
                status: number,
            })),
            206 => {
                let detail = "the server sends a part though the whole was asked for";
                Some(failed(Code::Truncated, detail.to_owned(), number, true))
            }
            200..=299 => None,
            429 | 503 => {
                facts.pushed_back = true;
                if let Some(pause) = retry_after(&answer.headers, self.wall()) {
                    let pause = pause.min(self.config.max_retry_after).as_millis();
                    // Zero says that no pause was asked for.
                    facts.retry_after_millis = u64::try_from(pause).unwrap_or(u64::MAX).max(1);
                }
                let detail = format!("the server answers {} and asks for a pause", answer.status);
                Some(failed(Code::RetryLater, detail, number, true))
            }
            _ => {
                let may_retry = status == 408 || (status >= 500 && status != 501);
                let detail = format!("the server answers {}", answer.status);
                Some(failed(Code::HttpStatus, detail, number, may_retry))
            }
        }
    }

    /// Reads the page on a thread of its own kind, keeps its bodies, and reports it.
    async fn capture(
        &self,
        ticket: &v1::Ticket,
        url: CrawlUrl,
        answer: Answer,
        options: &v1::FetchOptions,
    ) -> Fate {
        let order = Order {
            keep: options
                .keep
                .iter()
                .filter_map(|kind| PartKind::try_from(*kind).ok())
                .collect(),
            only_main_content: options.only_main_content,
            want_links: ticket.want_links,
            ignore_nofollow: ticket.ignore_nofollow,
            agent: self.config.agent.clone(),
            selectors: options.selectors.clone(),
            max_selected: usize::try_from(options.max_selected).unwrap_or(usize::MAX),
        };
        let fetched_at = self.clock.now();
        let read = self
            .on_reader(move || capture(&url, &answer, &order, fetched_at))
            .await;
        let capture = match read {
            Some(Ok(capture)) => capture,
            Some(Err(refused)) => return Fate::Refused(refused),
            None => return failed(Code::Internal, "reading the page crashed".into(), 0, false),
        };
        self.keep(capture.captured, &capture.bodies).await
    }

    async fn keep(&self, captured: v1::Captured, all: &[(Digest, Bytes)]) -> Fate {
        match bodies::put(&self.channel, all).await {
            Ok(()) => Fate::Captured(captured),
            Err(status) => {
                let detail = format!("the page could not be kept: {}", status.message());
                failed(Code::Internal, detail, 0, true)
            }
        }
    }

    async fn read_sitemap(&self, url: CrawlUrl, answer: Answer) -> Fate {
        let status = u32::from(answer.status.as_u16());
        let read = self
            .on_reader(move || sitemap::read(&answer.body, &url))
            .await;
        let found = match read {
            Some(Ok(found)) => found,
            Some(Err(error)) => return failed(error.code(), error.to_string(), status, false),
            None => {
                return failed(
                    Code::Internal,
                    "reading the sitemap crashed".into(),
                    0,
                    false,
                );
            }
        };
        Fate::SitemapRead(v1::SitemapRead {
            urls: found.urls.into_iter().map(row_of).collect(),
            sitemaps: found
                .sitemaps
                .into_iter()
                .map(|child| child.url.into())
                .collect(),
            is_complete: found.is_complete,
            warning: found.warning.unwrap_or_default(),
            status,
        })
    }

    /// Runs CPU work on the blocking pool, as many at once as there are reader threads. `None` when it panicked.
    async fn on_reader<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permit = Arc::clone(&self.readers).acquire_owned().await.ok()?;
        let began = tokio::time::Instant::now();
        let done = tokio::task::spawn_blocking(move || {
            let made = work();
            drop(permit);
            made
        })
        .await;
        ::metrics::histogram!(metrics::EXTRACT_SECONDS).record(began.elapsed().as_secs_f64());
        done.map_err(|error| tracing::error!(%error, "reading an answer crashed"))
            .ok()
    }
}

fn row_of(entry: sitemap::Entry) -> v1::SitemapUrl {
    v1::SitemapUrl {
        url: entry.url.into(),
        facts: Some(v1::SitemapFacts {
            lastmod: entry.lastmod.unwrap_or_default(),
            changefreq: entry.changefreq.unwrap_or_default().to_owned(),
            priority: entry
                .priority
                .map(|number| number.to_string())
                .unwrap_or_default(),
        }),
    }
}

fn redirected(url: &CrawlUrl, answer: &Answer) -> Fate {
    let status = u32::from(answer.status.as_u16());
    let Some(text) = location(&answer.headers) else {
        let detail = format!("a {} without an address", answer.status);
        return failed(Code::BadRedirect, detail, status, false);
    };
    match url.join(&text) {
        Ok(target) => Fate::Redirected(v1::Redirected {
            status,
            target: target.into(),
        }),
        Err(proto::UrlError::Scheme { scheme, .. }) => Fate::Refused(v1::Refused {
            code: Code::BlockedScheme.word().to_owned(),
            detail: format!("it redirects to an address with the scheme `{scheme}`"),
            status,
        }),
        Err(error) => {
            let detail = format!("it redirects to what is no address: {error}");
            failed(Code::BadRedirect, detail, status, false)
        }
    }
}

pub(crate) fn failed(code: Code, detail: String, status: u32, may_retry: bool) -> Fate {
    Fate::Failed(v1::Failed {
        code: code.word().to_owned(),
        detail,
        status,
        may_retry,
    })
}

fn fate_of_error(error: &FetchError) -> Fate {
    if matches!(error.code, Code::BlockedAddress | Code::BlockedScheme) {
        return Fate::Refused(v1::Refused {
            code: error.code.word().to_owned(),
            detail: error.detail.clone(),
            status: 0,
        });
    }
    failed(error.code, error.detail.clone(), 0, error.may_retry())
}

/// The word of a fate, for metrics.
pub(crate) fn word_of(fate: &Fate) -> &'static str {
    match fate {
        Fate::Captured(_) => "captured",
        Fate::Redirected(_) => "redirected",
        Fate::Refused(_) => "refused",
        Fate::Failed(_) => "failed",
        Fate::NotModified(_) => "not_modified",
        Fate::SitemapRead(_) => "sitemap_read",
        Fate::RobotsRead(_) => "robots_read",
        Fate::Returned(_) => "returned",
    }
}
