//! `host`: what is known of one host, for whoever wonders why it is asked so slowly or not at all.

use std::process::ExitCode;
use std::time::Duration;

use proto::v1::HostReply;
use proto::{Clock, Timestamp};
use serde_json::{Value, json};

use super::{Failure, print};
use crate::door::{Door, Use};
use crate::sessions::Sessions;
use crate::settings::Settings;

pub(super) async fn host(settings: &Settings, url: &str, json: bool) -> Result<ExitCode, Failure> {
    let door = Door::open(settings, Clock::start(), Use::Look)
        .await
        .map_err(Failure::Failed)?;
    let answer = Sessions::new(door.channel()).host(url).await;
    door.close().await;
    let known = answer?;
    match json {
        true => print(&to_json(&known).to_string()),
        false => print(&to_text(&known)),
    }
}

/// A moment, or nothing where none is known.
fn at(millis: u64) -> Option<String> {
    (millis != 0).then(|| Timestamp::from_millis(millis).rfc3339())
}

fn to_json(known: &HostReply) -> Value {
    json!({
        "host": known.host,
        "robots": known.robots,
        "robots_read_at": at(known.robots_at_millis),
        "robots_read_again_at": at(known.robots_until_millis),
        "robots_tries": known.robots_tries,
        "crawl_delay_ms": known.crawl_delay_millis,
        "next_start_at": at(known.next_start_millis),
        "back_off_ms": known.back_off_millis,
    })
}

fn to_text(known: &HostReply) -> String {
    let mut lines = vec![known.host.clone()];
    let robots = match known.robots.as_str() {
        "rules" => "has rules",
        "allow_all" => "allows everything",
        "unreachable" => "cannot be read, so nothing is asked",
        _ => "not read yet",
    };
    lines.push(format!("robots.txt   {robots}"));
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push(format!("{name:<12} {value}"));
        }
    };
    row("read at", at(known.robots_at_millis));
    row("again at", at(known.robots_until_millis));
    row(
        "failed tries",
        (known.robots_tries > 0).then(|| known.robots_tries.to_string()),
    );
    row("crawl-delay", span(known.crawl_delay_millis));
    row("back-off", span(known.back_off_millis));
    let next = at(known.next_start_millis).unwrap_or_else(|| "now".to_owned());
    row("next start", Some(next));
    lines.join("\n")
}

fn span(millis: u64) -> Option<String> {
    (millis != 0).then(|| format!("{:?}", Duration::from_millis(millis)))
}

#[cfg(test)]
mod tests {
    use proto::v1::HostReply;

    use super::{to_json, to_text};

    #[test]
    fn a_host_that_pushes_back_says_until_when() {
        let known = HostReply {
            host: "https://a.test:443".into(),
            robots: "rules".into(),
            robots_at_millis: 1_000,
            crawl_delay_millis: 1_500,
            next_start_millis: 61_000,
            back_off_millis: 60_000,
            ..HostReply::default()
        };
        let text = to_text(&known);
        for line in [
            "robots.txt   has rules",
            "crawl-delay  1.5s",
            "back-off     60s",
            "next start   1970-01-01T00:01:01.000Z",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("failed tries"), "{text}");
        assert_eq!(
            to_json(&known)["robots_read_again_at"],
            serde_json::Value::Null
        );
    }

    #[test]
    fn a_host_that_nobody_asked_is_free() {
        let known = HostReply {
            host: "http://b.test:80".into(),
            robots: "unknown".into(),
            ..HostReply::default()
        };
        assert_eq!(
            to_text(&known),
            "http://b.test:80\nrobots.txt   not read yet\nnext start   now"
        );
    }
}
