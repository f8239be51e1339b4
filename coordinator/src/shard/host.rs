//! What a host tells: the start that its clock counts from, how it pushes back, its robots.txt, and when it is given up.
//!
//! A host's clock only ever moves forward here; nothing that comes late makes it earlier.

use std::time::Duration;

use proto::v1::{self, UrlState, order, outcome::Result as Report, robots_copy::Verdict};
use proto::{Code, CrawlUrl, HostKey, SessionId, Timestamp};

use super::core::{Effect, ShardCore};
use super::lease::MAX_CRAWL_DELAY;
use crate::keys::{self};
use crate::records::HostRow;
use crate::store::{StoreError, Table};

const ROBOTS_HOPS: u32 = 5;
const ROBOTS_TRIES: u32 = 5;
/// Waits between tries at a robots.txt that cannot be read; about ten minutes in all.
const ROBOTS_WAITS: [u64; 4] = [15_000, 60_000, 180_000, 300_000];
/// Pause between tries where the name or the address alone is at fault, in milliseconds.
const SILENT_WAIT: u64 = 1_000;
const FIRST_BACK_OFF: u64 = 60_000;
const DAY: u64 = 24 * 60 * 60 * 1000;
/// How old a copy of robots.txt may be that holds while the file cannot be read, in milliseconds.
pub(super) const OLD_COPY_FOR: u64 = 30 * DAY;
/// And how long it holds before the file is asked for again, once that was tried in vain a few times.
const OLD_COPY_WAIT: u64 = 60 * 60 * 1000;
/// URLs that fail together when their host is given up.
const FAIL_AT_ONCE: usize = 256;

impl ShardCore {
    pub(super) fn host_facts(
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
            let clock = host.clock;
            let end = self
                .leases
                .get(&lease_id)
                .map(|lease| lease.expires + Duration::from_millis(lease.row.interval));
            self.write_host(now, key, end.unwrap_or_default().max(clock));
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

    /// What a report says of its host when the lease is over, or when it comes again: the request did start and the
    /// push-back was meant, but a repetition makes neither of them more.
    pub(super) fn late_facts(
        &mut self,
        now: Timestamp,
        given: &v1::Outcome,
    ) -> Result<(), StoreError> {
        let Some(facts) = given.host.as_ref().filter(|facts| facts.has_started) else {
            return Ok(());
        };
        let Ok(key) = CrawlUrl::parse(&given.url).map(|url| url.host_key()) else {
            return Ok(());
        };
        if self.shard_of(&key) != self.shard {
            return Ok(());
        }
        let delay = self.interval(&key, 0);
        let host = self.host(&key)?;
        let start = now - Duration::from_millis(facts.since_start_millis);
        host.clock = host.clock.max(start + delay);
        if facts.pushed_back {
            host.row.back_off = host.row.back_off.max(FIRST_BACK_OFF);
            let wait = match facts.retry_after_millis {
                0 => host.row.back_off,
                asked => asked.min(DAY),
            };
            host.clock = host.clock.max(now + Duration::from_millis(wait));
        }
        let (clock, lease_id) = (host.clock, host.lease);
        let holder = lease_id.and_then(|id| self.leases.get(&id));
        let holder = holder.map(|lease| (lease.row.lease_id, lease.row.worker.clone()));
        match holder {
            Some((lease_id, worker)) if facts.pushed_back => {
                let revoke = v1::Revoke {
                    lease_id,
                    session_id: String::new(),
                };
                self.send(worker, order::Order::Revoke(revoke), None);
            }
            Some(_) => {}
            None => {
                self.write_host(now, &key, clock);
                self.schedule(&key);
                self.evict(&key);
            }
        }
        Ok(())
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
                host.row.robots_until = 0;
                let clock = host.clock;
                if host.lease.is_none() {
                    self.write_host(now, key, clock);
                }
                self.robots_known(now, key)?;
            }
            Verdict::Unreachable if Self::holds_old_copy(now, &mut host.row) => {
                let clock = host.clock;
                if host.lease.is_none() {
                    self.write_host(now, key, clock);
                }
            }
            Verdict::Unreachable => {
                host.unreadable = Some((copy.code.clone(), copy.detail.clone()));
                if let Some(doom) = Self::hold(now, &mut host.row, &mut host.clock, &copy) {
                    host.doomed = Some(doom);
                }
                if copy.hops > 0 {
                    self.fail_interactive(key, &copy)?;
                }
            }
            Verdict::Elsewhere if copy.hops <= ROBOTS_HOPS => {
                if let Ok(target) = CrawlUrl::parse(&copy.target) {
                    host.elsewhere = Some((target, copy.hops, now));
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

    /// Whether there is a copy that may hold while the file cannot be read (RFC 9309, 2.3.1.4); if so, until the next try.
    fn holds_old_copy(now: Timestamp, row: &mut HostRow) -> bool {
        let age = now.as_millis().saturating_sub(row.robots_at);
        if row.robots.is_none() || age > OLD_COPY_FOR {
            return false;
        }
        let at = usize::try_from(row.robots_tries).unwrap_or(usize::MAX);
        let wait = ROBOTS_WAITS.get(at).copied().unwrap_or(OLD_COPY_WAIT);
        row.robots_tries = row.robots_tries.saturating_add(1);
        row.robots_until = now.as_millis() + wait;
        true
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
        let wait = if is_silent && copy.hops == 0 {
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
        let are_all = self.fail_some(key, &code, &detail, |_, _| true)?;
        if let Some(host) = self.hosts.get_mut(key).filter(|_| are_all) {
            host.doomed = None;
        }
        Ok(())
    }

    /// Tells those who wait for an answer at once that a robots.txt which lies elsewhere cannot be read.
    fn fail_interactive(&mut self, key: &HostKey, copy: &v1::RobotsCopy) -> Result<(), StoreError> {
        let code = Code::RobotsUnreachable.word();
        let detail = format!(
            "robots.txt could not be read: {} ({})",
            copy.detail, copy.code
        );
        let reports = |core: &Self, id: &SessionId| core.reports_at_once(id);
        self.fail_some(key, code, &detail, reports)?;
        Ok(())
    }

    /// Fails what waits at a host for some sessions, a bounded number at once; whether nothing of it is left.
    fn fail_some(
        &mut self,
        key: &HostKey,
        code: &str,
        detail: &str,
        is_meant: impl Fn(&Self, &SessionId) -> bool,
    ) -> Result<bool, StoreError> {
        let ids = self
            .hosts
            .get(key)
            .map(|h| h.sessions.keys().cloned().collect::<Vec<_>>());
        let mut left = FAIL_AT_ONCE;
        for id in ids.unwrap_or_default() {
            if !self.open(&id)? || !is_meant(self, &id) {
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
                    self.end(&id, &mut row, UrlState::Failed, code, detail);
                    self.write_url(&id, fingerprint, &row);
                }
            }
            if left == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn robots_told(
        &mut self,
        lease_id: u64,
        origin: HostKey,
        hops: u32,
        given: v1::Outcome,
    ) {
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
}
