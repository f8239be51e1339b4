//! Outcomes: what a worker reports becomes the state of a URL, once.

use std::time::Duration;

use proto::v1::{self, UrlState, order, outcome::Result as Report};
use proto::{Code, CrawlUrl, HostKey, SessionId, Timestamp};

use super::admit::fingerprint_of;
use super::core::{ShardCore, TicketHere};
use super::lease::reserve;
use super::permit::Room;
use super::rows::state_of;
use crate::keys::{self, Fingerprint};
use crate::records::{Admission, UrlRow, Via};
use crate::store::{StoreError, Table};

/// Retries that every session may make at a shard whatever its size, and one more for each this many URLs: a site
/// that fails everywhere is not asked three times for each of its pages.
const FREE_RETRIES: u64 = 32;
const URLS_A_RETRY: u64 = 4;

/// How often a URL is tried in all. A host that asks for a pause may do so often; a silent one costs a whole timeout
/// each time.
fn tries(code: Option<Code>) -> u32 {
    match code {
        Some(Code::RetryLater) => 5,
        Some(Code::Timeout | Code::Refused) => 2,
        Some(_) | None => 3,
    }
}

impl ShardCore {
    /// Applies an outcome and confirms it; an old or repeated one changes nothing that has ended.
    pub(crate) fn outcome(
        &mut self,
        now: Timestamp,
        worker: &str,
        given: v1::Outcome,
    ) -> Result<(), StoreError> {
        let (lease_id, ticket_id) = (given.lease_id, given.ticket_id);
        let was_fetched = !matches!(given.result, Some(Report::Returned(_)) | None);
        let lease = self.leases.get_mut(&lease_id);
        let mut ticket = None;
        let mut is_stranger = false;
        if let Some(lease) = lease {
            is_stranger = lease.row.worker != worker;
            if !is_stranger && lease.row.epoch == given.epoch {
                ticket = lease.tickets.remove(&ticket_id);
                let is_recalled = lease.recalled.remove(&ticket_id);
                if ticket.is_some() || is_recalled {
                    let host = lease.host.clone();
                    self.host_facts(now, lease_id, &host, &given)?;
                }
            }
        }
        if is_stranger {
            tracing::warn!(
                worker,
                lease = lease_id,
                "a worker reported for a lease it does not hold"
            );
        } else if let Some(ticket) = ticket {
            self.apply(now, lease_id, ticket, given)?;
        } else {
            self.late_facts(now, &given)?;
            self.apply_late(now, given)?;
        }
        let is_empty = self
            .leases
            .get(&lease_id)
            .is_some_and(|l| l.tickets.is_empty() && l.recalled.is_empty());
        // Behind a ticket that came back unbegun a request for robots.txt may be in flight: then the worker says itself
        // when it is done with the host.
        if is_empty && was_fetched && !is_stranger {
            self.end_lease(now, lease_id);
        }
        let kept = v1::Kept {
            lease_id,
            ticket_ids: vec![ticket_id],
        };
        self.send(worker.to_owned(), order::Order::Kept(kept), None);
        Ok(())
    }

    /// A report without an open ticket counts once, if its URL still waits and a permit can be had.
    fn apply_late(&mut self, now: Timestamp, given: v1::Outcome) -> Result<(), StoreError> {
        let (Ok(id), Ok(url)) = (
            given.session_id.parse::<SessionId>(),
            CrawlUrl::parse(&given.url),
        ) else {
            return Ok(());
        };
        if url.domain().shard(self.shards) != self.shard || !self.open(&id)? {
            return Ok(());
        }
        let is_sitemap = matches!(given.result, Some(Report::SitemapRead(_)));
        let fingerprint = fingerprint_of(&url, is_sitemap);
        let Some(mut row) = self.url(&id, fingerprint)? else {
            return Ok(());
        };
        let is_waiting = matches!(state_of(&row), UrlState::Queued | UrlState::Waiting);
        let is_returned = matches!(given.result, Some(Report::Returned(_)) | None);
        if !is_waiting || is_returned {
            return Ok(());
        }
        let Some(here) = self.sessions.get(&id) else {
            return Ok(());
        };
        let reserve = reserve(&here.shared);
        let host = url.host_key();
        let has_permit = !is_sitemap
            && self.domain_room(&id, &host.domain())? == Room::Free
            && self.take_permit(&id, &host, reserve)?;
        if !has_permit && matches!(given.result, Some(Report::Captured(_))) {
            return Ok(());
        }
        self.take_out(&mut row);
        row.entry.get_or_insert_default().attempts += 1;
        self.set_state(&id, &mut row, UrlState::Leased);
        self.write_url(&id, fingerprint, &row);
        let ticket = TicketHere {
            session: Some(id),
            fingerprint,
            permit: has_permit.then_some(host),
            robots: None,
        };
        self.apply(now, given.lease_id, ticket, given)
    }

    fn apply(
        &mut self,
        now: Timestamp,
        lease_id: u64,
        ticket: TicketHere,
        given: v1::Outcome,
    ) -> Result<(), StoreError> {
        if let Some((origin, hops)) = ticket.robots {
            self.robots_told(lease_id, origin, hops, given);
            return Ok(());
        }
        let Some(id) = ticket.session.clone() else {
            return Ok(());
        };
        if !self.open(&id)? {
            return Ok(());
        }
        let fingerprint = ticket.fingerprint;
        let Some(mut row) = self.url(&id, fingerprint)? else {
            self.return_permit(&ticket);
            return Ok(());
        };
        if state_of(&row) != UrlState::Leased {
            self.return_permit(&ticket);
            return Ok(());
        }
        if !given.cookies.is_empty()
            && let Ok(url) = CrawlUrl::parse(&given.url)
        {
            self.keep_cookies(now, &id, &url.domain(), &given.cookies)?;
        }
        let retry_after = given
            .host
            .as_ref()
            .map_or(0, |host| host.retry_after_millis);
        match given.result {
            Some(Report::Captured(captured)) => {
                return self.fetched(now, &id, &ticket, row, captured);
            }
            Some(Report::Returned(returned)) => {
                let copy = given.host.and_then(|host| host.robots);
                return self.returned(&ticket, row, &returned.code, copy.as_ref());
            }
            None => return self.give_back_ticket(&ticket, true),
            Some(Report::Redirected(redirected)) => {
                self.redirected(now, &id, fingerprint, &mut row, &redirected)?;
            }
            Some(Report::Refused(refused)) => {
                row.entry.get_or_insert_default().status = refused.status;
                self.end(
                    &id,
                    &mut row,
                    UrlState::Refused,
                    &refused.code,
                    &refused.detail,
                );
            }
            Some(Report::Failed(failed)) => {
                let pushed_back = given.host.is_some_and(|host| host.pushed_back);
                row.entry.get_or_insert_default().retry_after_millis = retry_after;
                self.failed(now, (&id, fingerprint), &mut row, &failed, pushed_back)?;
            }
            Some(Report::NotModified(same)) => {
                row.entry.get_or_insert_default().status = same.status;
                self.not_modified(now, &id, fingerprint, &mut row)?;
            }
            Some(Report::SitemapRead(read)) => {
                self.sitemap_read(now, &id, &mut row, read)?;
            }
            Some(Report::RobotsRead(_)) => {
                let detail = "the worker answered with a robots.txt";
                self.end(
                    &id,
                    &mut row,
                    UrlState::Failed,
                    Code::Internal.word(),
                    detail,
                );
            }
        }
        self.return_permit(&ticket);
        self.write_url(&id, fingerprint, &row);
        Ok(())
    }

    fn returned(
        &mut self,
        ticket: &TicketHere,
        mut row: UrlRow,
        code: &str,
        copy: Option<&v1::RobotsCopy>,
    ) -> Result<(), StoreError> {
        let Some(id) = ticket.session.clone() else {
            return Ok(());
        };
        let host = row
            .entry
            .as_ref()
            .and_then(|entry| HostKey::parse(&entry.url).ok());
        let is_unreachable = code == Code::RobotsUnreachable.word();
        let known = host
            .as_ref()
            .and_then(|key| self.hosts.get(key))
            .and_then(|host| host.unreadable.clone());
        let cause = copy
            .map(|copy| (copy.code.clone(), copy.detail.clone()))
            .or(known);
        let dead = [Code::Dns, Code::Refused, Code::Tls, Code::BlockedAddress].map(Code::word);
        let is_dead = cause
            .as_ref()
            .is_some_and(|(code, _)| dead.contains(&code.as_str()));
        let reports = self.reports_at_once(&id) || (is_dead && row.is_seed);
        if is_unreachable && reports && host.is_some() {
            self.return_permit(ticket);
            let (code, detail) = match cause {
                Some((code, detail)) if is_dead => (code, detail),
                Some((code, detail)) => (
                    Code::RobotsUnreachable.word().to_owned(),
                    format!("robots.txt could not be read: {detail} ({code})"),
                ),
                None => (
                    Code::RobotsUnreachable.word().to_owned(),
                    "robots.txt could not be read".to_owned(),
                ),
            };
            let state = match code == Code::BlockedAddress.word() {
                true => UrlState::Refused,
                false => UrlState::Failed,
            };
            self.end(&id, &mut row, state, &code, &detail);
            self.write_url(&id, ticket.fingerprint, &row);
            return Ok(());
        }
        self.give_back_ticket(ticket, true)
    }

    fn failed(
        &mut self,
        now: Timestamp,
        url: (&SessionId, Fingerprint),
        row: &mut UrlRow,
        failed: &v1::Failed,
        pushed_back: bool,
    ) -> Result<(), StoreError> {
        let (id, fingerprint) = url;
        let entry = row.entry.get_or_insert_default();
        entry.status = failed.status;
        let tried = entry.attempts;
        let may = (failed.may_retry || pushed_back) && tried < tries(Code::from_word(&failed.code));
        if !may || self.reports_at_once(id) || !self.spend_retry(id, pushed_back) {
            self.end(id, row, UrlState::Failed, &failed.code, &failed.detail);
            return Ok(());
        }
        entry.set_state(UrlState::Leased);
        if !pushed_back && let Ok(host) = HostKey::parse(&entry.url) {
            let wait = if tried <= 1 { 2_000 } else { 10_000 };
            let jitter = u64::try_from(fingerprint % 1000).unwrap_or(0);
            let host = self.host(&host)?;
            host.clock = host.clock.max(now + Duration::from_millis(wait + jitter));
        }
        self.set_state(id, row, UrlState::Waiting);
        self.place(id, fingerprint, row)
    }

    /// Whether the session may try something again here. A pause that the host asked for costs nothing.
    fn spend_retry(&mut self, id: &SessionId, is_free: bool) -> bool {
        let Some(here) = self.sessions.get_mut(id) else {
            return false;
        };
        let counters = &mut here.counters;
        if is_free {
            return true;
        }
        if counters.retries >= FREE_RETRIES + counters.admitted / URLS_A_RETRY {
            return false;
        }
        counters.retries += 1;
        true
    }

    fn redirected(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        row: &mut UrlRow,
        given: &v1::Redirected,
    ) -> Result<(), StoreError> {
        let entry = row.entry.get_or_insert_default();
        entry.status = given.status;
        entry.target.clone_from(&given.target);
        let (hops, depth, url) = (entry.hops + 1, entry.depth, entry.url.clone());
        let Ok(target) = CrawlUrl::parse(&given.target) else {
            let detail = "the redirect's target is not an http(s) URL";
            self.end(id, row, UrlState::Failed, Code::BadRedirect.word(), detail);
            return Ok(());
        };
        if self.leads_back(id, fingerprint, &target)? {
            let detail = format!("the redirects come back to `{url}`");
            self.end(
                id,
                row,
                UrlState::Failed,
                Code::RedirectLoop.word(),
                &detail,
            );
            return Ok(());
        }
        let most = self.policy.max_redirects;
        if hops > most {
            let detail = format!("more than {most} redirects in a row");
            self.end(
                id,
                row,
                UrlState::Failed,
                Code::TooManyRedirects.word(),
                &detail,
            );
            return Ok(());
        }
        let is_sitemap = entry.is_sitemap;
        self.set_state(id, row, UrlState::Redirected);
        let admission = Admission {
            session: id.to_string(),
            url: given.target.clone(),
            depth,
            hops,
            found_by: url,
            relevance: row.relevance,
            rank: row.rank,
            via: if is_sitemap {
                Via::SitemapDocument
            } else {
                Via::Redirect
            }
            .into(),
            ..Admission::default()
        };
        self.route(now, id, admission)
    }

    /// Follows known redirects from a target, in whatever shard they lie.
    fn leads_back(
        &self,
        id: &SessionId,
        from: Fingerprint,
        target: &CrawlUrl,
    ) -> Result<bool, StoreError> {
        let mut next = target.clone();
        for _ in 0..=self.policy.max_redirects {
            if next.fingerprint() == from {
                return Ok(true);
            }
            let shard = next.domain().shard(self.shards);
            let key = keys::url(shard, id, next.fingerprint());
            let row: Option<UrlRow> = self.slice.get(Table::Urls, &key)?;
            let entry = row.and_then(|row| row.entry);
            let Some(entry) = entry.filter(|e| e.state() == UrlState::Redirected) else {
                return Ok(false);
            };
            match CrawlUrl::parse(&entry.target) {
                Ok(url) => next = url,
                Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }
}
