//! What is known of one host, as its shard has written it down.

use proto::v1::robots_copy::Verdict;
use proto::v1::{self};
use proto::{CrawlUrl, ErrorCode, Refusal, Timestamp};

use super::{Catalog, store_failed};
use crate::keys;
use crate::records::HostRow;
use crate::slice::decode;
use crate::store::Table;

impl Catalog {
    /// The host of an address: its robots.txt, its clock, its pauses. A host that nobody asked yet is simply unknown.
    pub(crate) fn host(&self, url: &str, now: Timestamp) -> Result<v1::HostReply, Refusal> {
        let wrong = |error| Refusal::new(ErrorCode::InvalidArgument, format!("`url`: {error}"));
        let url = CrawlUrl::parse(url).map_err(wrong)?;
        let key = url.host_key();
        let shard = url.domain().shard(self.shards);
        let found = self.bulk.get(Table::Hosts, &keys::host(shard, &key));
        let found = found.map_err(|error| store_failed(&error))?;
        let row = found.map(|bytes| decode::<HostRow>(Table::Hosts, &bytes));
        let row = row.transpose().map_err(|error| store_failed(&error))?;
        let row = row.unwrap_or_default();
        let copy = row.robots.as_ref();
        let robots = match copy.map(v1::RobotsCopy::verdict) {
            Some(Verdict::Rules) => "rules",
            Some(Verdict::AllowAll) => "allow_all",
            Some(Verdict::Unreachable | Verdict::Elsewhere | Verdict::Unspecified) | None => {
                if row.robots_tries > 0 {
                    "unreachable"
                } else {
                    "unknown"
                }
            }
        };
        let fresh_until = copy.map_or(0, |copy| row.robots_at.saturating_add(copy.max_age_millis));
        let next_start = Some(row.not_before).filter(|at| *at > now.as_millis());
        Ok(v1::HostReply {
            host: key.to_string(),
            robots: robots.to_owned(),
            robots_at_millis: row.robots_at,
            robots_until_millis: fresh_until.max(row.robots_until),
            robots_tries: row.robots_tries,
            crawl_delay_millis: copy.map_or(0, |copy| copy.crawl_delay_millis),
            next_start_millis: next_start.unwrap_or(0),
            back_off_millis: row.back_off,
        })
    }
}
