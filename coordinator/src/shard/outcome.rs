//! Outcomes: what a worker reports becomes the state of a URL, once.

use std::time::Duration;

use proto::v1::{self, UrlState, order, outcome::Result as Report, robots_copy::Verdict};
use proto::{Code, CrawlUrl, HostKey, SessionId, Timestamp};

use super::admit::fingerprint_of;
use super::core::{Effect, ShardCore, TicketHere, state_of};
use super::lease::MAX_CRAWL_DELAY;
use crate::keys::{self, Fingerprint};
use crate::records::{Admission, HostRow, LinksRow, SnapshotRow, UrlRow, Via};
use crate::store::{StoreError, Table};

const MAX_TRIES: u32 = 3;
const MAX_HOPS: u32 = 10;
const MAX_NESTING: u32 = 5;
const ROBOTS_HOPS: u32 = 5;
const ROBOTS_TRIES: u32 = 5;
/// Waits between tries at a robots.txt that cannot be read; about ten minutes in all.
const ROBOTS_WAITS: [u64; 4] = [15_000, 60_000, 180_000, 300_000];
/// Pause between tries where the name or the address alone is at fault, in milliseconds.
const SILENT_WAIT: u64 = 1_000;
const FIRST_BACK_OFF: u64 = 60_000;
const DAY: u64 = 24 * 60 * 60 * 1000;
/// URLs that fail together when their host is given up.
const FAIL_AT_ONCE: usize = 256;

impl ShardCore {
    /// Applies an outcome and confirms it; an old or repeated one changes nothing that has ended.
    pub(crate) fn outcome(
        &mut self,
        now: Timestamp,
        worker: &str,
        given: v1::Outcome,
    ) -> Result<(), StoreError> {
        let (lease_id, ticket_id) = (given.lease_id, given.ticket_id);
        let lease = self.leases.get_mut(&lease_id);
        let mut ticket = None;
        let mut is_stranger = false;
        if let Some(lease) = lease {
            is_stranger = lease.row.worker != worker;
            if !is_stranger {
                ticket = lease.tickets.remove(&ticket_id);
                lease.recalled.remove(&ticket_id);
                let host = lease.host.clone();
                self.host_facts(now, lease_id, &host, &given)?;
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
            self.apply_late(now, given)?;
        }
        let is_empty = self
            .leases
            .get(&lease_id)
            .is_some_and(|l| l.tickets.is_empty() && l.recalled.is_empty());
        if is_empty && !is_stranger {
            self.end_lease(now, lease_id);
        }
        let kept = v1::Kept {
            lease_id,
            ticket_ids: vec![ticket_id],
        };
        self.send(worker.to_owned(), order::Order::Kept(kept), None);
        Ok(())
    }

    fn host_facts(
        &mut self,
        now: Timestamp,
        lease_id: u64,
        key: &HostKey,
        given: &v1::Outcome,
    ) -> Result<(), StoreError> {
        let Some(facts) = &given.host else {
            return Ok(());
        };
        let interval = self
            .leases
            .get(&lease_id)
            .map_or(0, |lease| lease.row.interval);
        // A Crawl-delay that came with this very outcome counts from its start already.
        let asked = facts
            .robots
            .as_ref()
            .map_or(0, |copy| copy.crawl_delay_millis);
        let delay = self.interval(key, interval.max(asked.min(MAX_CRAWL_DELAY)));
        let host = self.host(key)?;
        if facts.has_started {
            let start = now - Duration::from_millis(facts.since_start_millis);
            host.clock = host.clock.max(start + delay);
        }
        if facts.pushed_back {
            let doubled = (host.row.back_off * 2).clamp(FIRST_BACK_OFF, DAY);
            let jitter = given.ticket_id % 16 * doubled / 100;
            let wait = match facts.retry_after_millis {
                0 => doubled + jitter,
                asked => asked.min(DAY),
            };
            host.row.back_off = doubled;
            host.clock = host.clock.max(now + Duration::from_millis(wait));
            let worker = self.leases.get(&lease_id).map(|l| l.row.worker.clone());
            if let Some(worker) = worker {
                let revoke = v1::Revoke {
                    lease_id,
                    session_id: String::new(),
                };
                self.send(worker, order::Order::Revoke(revoke), None);
            }
        } else if facts.has_started {
            host.row.back_off = 0;
        }
        match &facts.robots {
            Some(copy) => self.robots(now, key, copy.clone()),
            None => Ok(()),
        }
    }

    /// Takes a fresh answer about a host's robots.txt.
    pub(super) fn robots(
        &mut self,
        now: Timestamp,
        key: &HostKey,
        copy: v1::RobotsCopy,
    ) -> Result<(), StoreError> {
        let host = self.host(key)?;
        host.elsewhere = None;
        match copy.verdict() {
            Verdict::Rules | Verdict::AllowAll | Verdict::Unspecified => {
                host.row.robots_at = (now - Duration::from_millis(copy.age_millis)).as_millis();
                host.row.robots = Some(copy);
                host.row.robots_tries = 0;
                let clock = host.clock;
                if host.lease.is_none() {
                    self.write_host(now, key, clock);
                }
                self.robots_known(now, key)?;
            }
            Verdict::Unreachable => {
                host.unreadable = Some((copy.code.clone(), copy.detail.clone()));
                if let Some(doom) = Self::hold(now, &mut host.row, &mut host.clock, &copy) {
                    host.doomed = Some(doom);
                }
            }
            Verdict::Elsewhere if copy.hops < ROBOTS_HOPS => {
                if let Ok(target) = CrawlUrl::parse(&copy.target) {
                    host.elsewhere = Some((target, copy.hops + 1, now));
                }
            }
            Verdict::Elsewhere => {
                // RFC 9309, 2.3.1.2: past five hops the file counts as unavailable, so all is allowed.
                let allow = v1::RobotsCopy {
                    verdict: Verdict::AllowAll.into(),
                    max_age_millis: DAY,
                    ..v1::RobotsCopy::default()
                };
                host.row.robots_at = now.as_millis();
                host.row.robots = Some(allow);
            }
        }
        self.schedule(key);
        Ok(())
    }

    /// Holds a host whose robots.txt cannot be read; answers why it is given up after the last try.
    fn hold(
        now: Timestamp,
        row: &mut HostRow,
        clock: &mut Timestamp,
        copy: &v1::RobotsCopy,
    ) -> Option<(String, String)> {
        row.robots = None;
        row.robots_tries += 1;
        if row.robots_tries >= ROBOTS_TRIES {
            row.robots_tries = 0;
            let detail = format!(
                "robots.txt could not be read: {} ({})",
                copy.detail, copy.code
            );
            return Some((Code::RobotsUnreachable.word().to_owned(), detail));
        }
        let at = usize::try_from(row.robots_tries - 1).unwrap_or(0);
        let wait = ROBOTS_WAITS.get(at).copied().unwrap_or(300_000);
        // Where no request left this machine, no host has to be spared.
        let is_silent = [Code::BlockedAddress, Code::Dns]
            .map(Code::word)
            .contains(&copy.code.as_str());
        let wait = if is_silent {
            SILENT_WAIT
        } else {
            wait.max(copy.retry_after_millis.min(DAY))
        };
        *clock = (*clock).max(now + Duration::from_millis(wait));
        None
    }

    fn robots_known(&mut self, now: Timestamp, key: &HostKey) -> Result<(), StoreError> {
        let all = self.sessions.iter();
        let wants = all.filter(|(_, here)| {
            here.shared.reads_sitemaps() && here.shared.is_seed_host(key.as_str())
        });
        let ids: Vec<SessionId> = wants.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.want_sitemaps(now, &id, key)?;
        }
        Ok(())
    }

    /// Fails some of what waits at a host that is given up.
    pub(super) fn fail_waiting(&mut self, key: &HostKey) -> Result<(), StoreError> {
        let Some((code, detail)) = self.hosts.get(key).and_then(|host| host.doomed.clone()) else {
            return Ok(());
        };
        let ids = self
            .hosts
            .get(key)
            .map(|h| h.sessions.keys().cloned().collect::<Vec<_>>());
        let mut left = FAIL_AT_ONCE;
        for id in ids.unwrap_or_default() {
            if !self.open(&id)? {
                continue;
            }
            let prefix = keys::queue_prefix(self.shard, key.as_str(), &id);
            let found = self.slice.scan(Table::Queue, &prefix, None, left)?;
            left -= found.len().min(left);
            for (_, value) in found {
                let Some(fingerprint) = keys::fingerprint(&value) else {
                    continue;
                };
                if let Some(mut row) = self.url(&id, fingerprint)? {
                    self.take_out(&mut row);
                    self.end(&id, &mut row, UrlState::Failed, &code, &detail);
                    self.write_url(&id, fingerprint, &row);
                }
            }
            if left == 0 {
                return Ok(());
            }
        }
        if let Some(host) = self.hosts.get_mut(key) {
            host.doomed = None;
        }
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
        let has_permit = !is_sitemap && here.shared.permits().take(self.shard, 0);
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
            has_permit,
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
                self.set_state(&id, &mut row, UrlState::NotModified);
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

    fn robots_told(&mut self, lease_id: u64, origin: HostKey, hops: u32, given: v1::Outcome) {
        let copy = match given.result {
            Some(Report::RobotsRead(copy)) => copy,
            Some(Report::Failed(failed)) => v1::RobotsCopy {
                verdict: Verdict::Unreachable.into(),
                code: failed.code,
                detail: failed.detail,
                ..v1::RobotsCopy::default()
            },
            // The origin asks again by its own timer.
            Some(_) | None => return,
        };
        let holder = self.leases.get(&lease_id).map(|lease| lease.host.clone());
        if let Some(host) = holder.and_then(|key| self.hosts.get_mut(&key)) {
            host.asks.remove(&origin);
        }
        let to = self.shard_of(&origin);
        let copy = Box::new(v1::RobotsCopy {
            hops: copy.hops.max(hops),
            ..copy
        });
        self.effects.push(Effect::TellRobots { to, origin, copy });
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
        let dead = [Code::Dns, Code::Refused, Code::BlockedAddress].map(Code::word);
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
            self.end(&id, &mut row, UrlState::Failed, &code, &detail);
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
        let tries = entry.attempts;
        let may = (failed.may_retry || pushed_back) && tries < MAX_TRIES;
        if !may || self.reports_at_once(id) {
            self.end(id, row, UrlState::Failed, &failed.code, &failed.detail);
            return Ok(());
        }
        entry.set_state(UrlState::Leased);
        if !pushed_back && let Ok(host) = HostKey::parse(&entry.url) {
            let wait = if tries <= 1 { 2_000 } else { 10_000 };
            let jitter = u64::try_from(fingerprint % 1000).unwrap_or(0);
            let host = self.host(&host)?;
            host.clock = host.clock.max(now + Duration::from_millis(wait + jitter));
        }
        self.set_state(id, row, UrlState::Waiting);
        self.place(id, fingerprint, row)
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
        if hops > MAX_HOPS {
            let detail = format!("more than {MAX_HOPS} redirects in a row");
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
            facts: None,
            via: if is_sitemap {
                Via::SitemapDocument
            } else {
                Via::Redirect
            }
            .into(),
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
        for _ in 0..=MAX_HOPS {
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

    fn sitemap_read(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        row: &mut UrlRow,
        read: v1::SitemapRead,
    ) -> Result<(), StoreError> {
        let entry = row.entry.get_or_insert_default();
        entry.status = read.status;
        entry.detail = read.warning;
        let (url, nesting) = (entry.url.clone(), entry.hops);
        self.set_state(id, row, UrlState::Captured);
        for found in read.urls {
            let admission = Admission {
                session: id.to_string(),
                url: found.url,
                depth: 1,
                hops: 0,
                found_by: url.clone(),
                facts: Some(found.facts.unwrap_or_default()),
                via: Via::Sitemap.into(),
            };
            self.follow(now, id, admission)?;
        }
        if nesting < MAX_NESTING {
            for child in read.sitemaps {
                let admission = Admission {
                    session: id.to_string(),
                    url: child,
                    hops: nesting + 1,
                    found_by: url.clone(),
                    via: Via::SitemapDocument.into(),
                    ..Admission::default()
                };
                self.route(now, id, admission)?;
            }
        }
        Ok(())
    }

    /// Admits what is in scope; the rest is not of this session.
    fn follow(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        admission: Admission,
    ) -> Result<bool, StoreError> {
        let Ok(url) = CrawlUrl::parse(&admission.url) else {
            return Ok(false);
        };
        let here = self.sessions.get(id);
        if !here.is_some_and(|here| here.shared.scope.allows(&url)) {
            return Ok(false);
        }
        self.route(now, id, admission)?;
        Ok(true)
    }

    fn fetched(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        ticket: &TicketHere,
        mut row: UrlRow,
        captured: v1::Captured,
    ) -> Result<(), StoreError> {
        let fingerprint = ticket.fingerprint;
        let entry = row.entry.get_or_insert_default();
        entry.status = captured.page.as_ref().map_or(0, |page| page.status);
        let drops = self
            .sessions
            .get(id)
            .is_some_and(|h| h.shared.drops_duplicates());
        if ticket.has_permit {
            self.claiming.insert((id.clone(), fingerprint));
        }
        if !drops || captured.content_digest.is_empty() {
            return self.capture(now, id, fingerprint, row, captured);
        }
        let digest = captured.content_digest.to_vec();
        let url = entry.url.clone();
        row.fetched = Some(captured);
        self.set_state(id, &mut row, UrlState::Fetched);
        self.write_url(id, fingerprint, &row);
        self.claim(now, id, fingerprint, digest, url)
    }

    /// Delivers a page: its permit is spent, it gets its place in the manifest, its links are admitted.
    pub(super) fn capture(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        mut row: UrlRow,
        mut captured: v1::Captured,
    ) -> Result<(), StoreError> {
        let shard = self.shard;
        let has_permit = self.claiming.remove(&(id.clone(), fingerprint));
        let Some(here) = self.sessions.get_mut(id) else {
            return Ok(());
        };
        let mut page = captured.page.take().unwrap_or_default();
        let freed = {
            let mut permits = here.shared.permits();
            if has_permit || permits.take(shard, 0) {
                Some(permits.spend(shard, page.size))
            } else {
                None
            }
        };
        let Some(freed) = freed else {
            row.fetched = None;
            self.set_state(id, &mut row, UrlState::OverBudget);
            self.write_url(id, fingerprint, &row);
            return Ok(());
        };
        let sequence = here.counters.pages;
        here.counters.pages += 1;
        here.counters.bytes += page.size;
        let entry = row.entry.get_or_insert_default();
        page.session_id = id.to_string();
        page.depth = entry.depth;
        page.sitemap.clone_from(&entry.sitemap);
        let (url, depth) = (entry.url.clone(), entry.depth);
        if page.fetched_at_millis == 0 {
            page.fetched_at_millis = now.as_millis();
        }
        self.index_page(id, fingerprint, sequence, &url, &page);
        let entry = row.entry.get_or_insert_default();
        entry.page = Some(page);
        row.fetched = None;
        self.set_state(id, &mut row, UrlState::Captured);
        self.write_url(id, fingerprint, &row);
        self.poke(freed);
        let follows = self
            .sessions
            .get(id)
            .is_some_and(|h| h.shared.follows_links());
        if follows {
            self.links(now, id, fingerprint, (&url, depth), &captured)?;
        }
        Ok(())
    }

    fn index_page(
        &mut self,
        id: &SessionId,
        fingerprint: Fingerprint,
        sequence: u64,
        url: &str,
        page: &v1::Page,
    ) {
        let bytes = fingerprint.to_be_bytes().to_vec();
        let key = keys::sequence(self.shard, id, sequence);
        self.slice.put_bytes(Table::Manifest, key, bytes.clone());
        for part in &page.parts {
            let key = keys::digest(keys::COMMON, id, &part.digest);
            self.slice.put_bytes(Table::Claims, key, bytes.clone());
        }
        if let Ok(url) = CrawlUrl::parse(url) {
            let row = SnapshotRow {
                session: id.to_string(),
                shard: u32::from(self.shard),
                fingerprint: bytes,
            };
            let key = keys::snapshot(&url.url_hash(), page.fetched_at_millis, id);
            self.slice.put(Table::Snapshots, key, &row);
        }
    }

    fn links(
        &mut self,
        now: Timestamp,
        id: &SessionId,
        fingerprint: Fingerprint,
        page: (&str, u32),
        captured: &v1::Captured,
    ) -> Result<(), StoreError> {
        let ignores = self
            .sessions
            .get(id)
            .is_some_and(|h| h.shared.spec.ignore_nofollow);
        let mut kept = LinksRow::default();
        for link in &captured.links {
            if (captured.nofollow || link.nofollow) && !ignores {
                continue;
            }
            let admission = Admission {
                session: id.to_string(),
                url: link.url.clone(),
                depth: page.1 + 1,
                hops: 0,
                found_by: page.0.to_owned(),
                facts: None,
                via: Via::Link.into(),
            };
            if self.follow(now, id, admission)? {
                kept.urls.push(link.url.clone());
            }
        }
        if !kept.urls.is_empty() {
            let key = keys::url(self.shard, id, fingerprint);
            self.slice.put(Table::Links, key, &kept);
        }
        Ok(())
    }
}
