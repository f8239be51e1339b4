//! What an answer to robots.txt means (RFC 9309, 2.3), as the copy that the coordinator keeps.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, header};
use proto::v1::RobotsCopy;
use proto::v1::robots_copy::Verdict;
use proto::{Code, CrawlUrl, HostKey};

use crate::fetcher::fields::{location, max_age, retry_after};
use crate::fetcher::{Answer, FetchError};
use crate::robots::Robots;

/// What is parsed of a robots.txt, in bytes.
pub const MAX_BYTES: u64 = 500 * 1024;
/// Redirects that are followed.
pub const MAX_HOPS: u32 = 5;

/// Longest validator that is kept, in bytes.
const MAX_VALIDATOR: usize = 1024;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// An unreachable robots.txt is asked for again after this.
const UNREACHABLE_FOR: Duration = Duration::from_secs(60);

/// What to do with an answer.
pub enum Reading {
    /// It is decided.
    Copy(RobotsCopy),
    /// It lies at another address of the same host.
    Again(CrawlUrl),
}

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The address.
    pub url: &'a CrawlUrl,
    /// The host whose rules these will be.
    pub origin: &'a HostKey,
    /// Redirects that led to the address.
    pub hops: u32,
    /// Our product token.
    pub agent: &'a str,
    /// The copy whose validators were sent.
    pub earlier: Option<&'a RobotsCopy>,
}

/// Reads the answer to a request for robots.txt.
pub fn read(
    answer: &Result<Answer, FetchError>,
    asked: &Asked<'_>,
    now: std::time::SystemTime,
) -> Reading {
    let answer = match answer {
        Ok(answer) => answer,
        // What is beyond the limit need not be read: an oversized file is cut, not an error (RFC 9309, 2.5).
        Err(error) => return Reading::Copy(unreachable(error.code, &error.detail)),
    };
    let status = answer.status.as_u16();
    match status {
        200..=299 => Reading::Copy(rules(answer, asked.origin, asked.agent)),
        304 => Reading::Copy(unchanged(answer, asked.earlier)),
        300..=399 => redirected(answer, asked.url, asked.hops),
        429 | 500.. => {
            let detail = format!("robots.txt answers {status}");
            let mut copy = unreachable(Code::RobotsUnreachable, &detail);
            let pause = retry_after(&answer.headers, now).unwrap_or_default();
            copy.retry_after_millis = millis(pause);
            Reading::Copy(copy)
        }
        _ => Reading::Copy(allow_all(kept_for(answer))),
    }
}

fn rules(answer: &Answer, origin: &HostKey, agent: &str) -> RobotsCopy {
    let limit = usize::try_from(MAX_BYTES)
        .unwrap_or(usize::MAX)
        .min(answer.body.len());
    let body = answer.body.slice(..limit);
    let rules = Robots::parse(&body, agent);
    let sitemaps = CrawlUrl::parse(&origin.robots_url())
        .map(|base| rules.sitemaps(&base))
        .unwrap_or_default();
    RobotsCopy {
        verdict: Verdict::Rules.into(),
        crawl_delay_millis: rules.crawl_delay().map_or(0, millis),
        sitemaps,
        body,
        max_age_millis: millis(kept_for(answer)),
        etag: field(answer, &header::ETAG),
        last_modified: field(answer, &header::LAST_MODIFIED),
        ..RobotsCopy::default()
    }
}

fn field(answer: &Answer, name: &HeaderName) -> String {
    let value = answer
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok());
    value
        .filter(|text| text.len() <= MAX_VALIDATOR)
        .unwrap_or_default()
        .to_owned()
}

/// The earlier copy, as good as new.
fn unchanged(answer: &Answer, earlier: Option<&RobotsCopy>) -> RobotsCopy {
    match earlier {
        Some(copy) => RobotsCopy {
            age_millis: 0,
            max_age_millis: millis(kept_for(answer)),
            ..copy.clone()
        },
        None => unreachable(
            Code::Protocol,
            "robots.txt answers 304 though nobody asked whether it changed",
        ),
    }
}

fn redirected(answer: &Answer, asked: &CrawlUrl, hops: u32) -> Reading {
    let target = location(&answer.headers).and_then(|text| asked.join(&text).ok());
    let Some(target) = target else {
        return Reading::Copy(allow_all(kept_for(answer)));
    };
    if hops >= MAX_HOPS {
        return Reading::Copy(allow_all(kept_for(answer)));
    }
    if target.host_key() == asked.host_key() {
        return Reading::Again(target);
    }
    Reading::Copy(RobotsCopy {
        verdict: Verdict::Elsewhere.into(),
        target: target.as_str().to_owned(),
        hops: hops + 1,
        ..RobotsCopy::default()
    })
}

fn allow_all(keep: Duration) -> RobotsCopy {
    RobotsCopy {
        verdict: Verdict::AllowAll.into(),
        max_age_millis: millis(keep),
        body: Bytes::new(),
        ..RobotsCopy::default()
    }
}

fn unreachable(code: Code, detail: &str) -> RobotsCopy {
    RobotsCopy {
        verdict: Verdict::Unreachable.into(),
        code: code.word().to_owned(),
        detail: detail.to_owned(),
        max_age_millis: millis(UNREACHABLE_FOR),
        ..RobotsCopy::default()
    }
}

/// 24 hours at most (RFC 9309, 2.4); long enough to serve the lease that asked.
fn kept_for(answer: &Answer) -> Duration {
    max_age(&answer.headers)
        .unwrap_or(DAY)
        .clamp(UNREACHABLE_FOR, DAY)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
