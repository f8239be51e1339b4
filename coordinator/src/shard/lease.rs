//! Leases: which host is due, what goes out, what comes back when a worker stays silent.
//!
//! The lease and a pessimistic clock of its host (its end plus the interval) are in the same batch, and the order
//! is sent after the commit: whatever dies, no second worker starts at that host before the first must have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::v1::{self, SessionKind, TicketKind, order};
use proto::{DomainKey, HostKey, SessionId, Timestamp};

use super::core::{Effect, LeaseHere, ShardCore, TicketHere};
use super::host::OLD_COPY_FOR;
use super::pick::{Pick, Picked};
use crate::gate::SessionShared;
use crate::keys::{self};
use crate::records::{LeaseRow, TicketRow};
use crate::store::{StoreError, Table};

/// A host that redirects its robots.txt asks again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// A Crawl-delay longer than this is not waited for.
pub(super) const MAX_CRAWL_DELAY: u64 = 120_000;
/// Pokes from other parties may be lost in a crash; hosts that are stalled look again after this time.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// A host whose URLs end without a request gives others a turn between them.
const NEXT_TURN: Duration = Duration::from_millis(1);
const MAX_STALLED: usize = 32;
const DAY: u64 = 24 * 60 * 60 * 1000;
/// The room that a body takes in the byte budget when the session names no cap.
const BODY_RESERVE: u64 = 10 * 1024 * 1024;

enum Start {
    Done,
    Later(Timestamp),
    Stalled,
}

/// How many bytes a page of the session may have.
pub(crate) fn reserve(shared: &SessionShared) -> u64 {
    let budget = shared.spec.budget.as_ref().map_or(0, |b| b.max_bytes);
    let cap = shared.spec.fetch.as_ref().map_or(0, |f| f.max_body_bytes);
    let cap = if cap == 0 { BODY_RESERVE } else { cap };
    if budget == 0 { cap } else { cap.min(budget) }
}

impl ShardCore {
    /// Ends what is overdue and starts what is due; the actor calls it after every message.
    pub(crate) fn advance(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let is_over = |(id, lease): (&u64, &LeaseHere)| (lease.expires <= now).then_some(*id);
        let over: Vec<u64> = self.leases.iter().filter_map(is_over).collect();
        for id in over {
            metrics::counter!(crate::metrics::LEASES_EXPIRED).increment(1);
            self.lose_lease(now, id)?;
        }
        self.resend_mail(now)?;
        let mut stalled = Vec::new();
        while let Some((at, key)) = self.due.first().cloned() {
            if at > now || stalled.len() >= MAX_STALLED {
                break;
            }
            self.due.remove(&(at, key.clone()));
            if let Some(host) = self.hosts.get_mut(&key) {
                host.due_at = None;
            }
            match self.start(now, &key)? {
                Start::Done => self.evict(&key),
                Start::Later(at) => stalled.push((at, key)),
                Start::Stalled => stalled.push((at, key)),
            }
        }
        for (at, key) in stalled {
            if let Some(host) = self.hosts.get_mut(&key) {
                host.due_at = Some(at);
                self.due.insert((at, key));
            }
        }
        Ok(())
    }

    /// When [`Self::advance`] has something to do again.
    pub(crate) fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self
            .due
            .first()
            .map(|(at, _)| if *at > now { *at } else { now + LOOK_AGAIN });
        let leases = self.leases.values().map(|lease| lease.expires).min();
        [due, leases, self.next_resend()]
            .into_iter()
            .flatten()
            .min()
    }

    fn start(&mut self, now: Timestamp, key: &HostKey) -> Result<Start, StoreError> {
        let Some(host) = self.hosts.get_mut(key) else {
            return Ok(Start::Done);
        };
        if host.lease.is_some() {
            return Ok(Start::Done);
        }
        let is_elsewhere = host.elsewhere.is_some();
        if let Some((target, hops, at)) = host.elsewhere.as_mut() {
            if *at <= now {
                *at = now + ASK_AGAIN;
                let ask = Effect::AskRobots {
                    to: target.domain().shard(self.shards),
                    origin: key.clone(),
                    target: target.clone(),
                    hops: *hops,
                };
                self.effects.push(ask);
            }
            if host.asks.is_empty() {
                return Ok(Start::Later(*at));
            }
        }
        if host.doomed.is_some() {
            self.fail_waiting(key)?;
            return Ok(Start::Later(now));
        }
        let domain = key.domain();
        let open = self.domains.get(&domain).copied().unwrap_or(0);
        if open >= self.policy.per_domain {
            return Ok(Start::Stalled);
        }
        let Some(worker) = self.fleet.take_slot(&domain, self.shard) else {
            return Ok(Start::Stalled);
        };
        let picked = match is_elsewhere {
            true => Picked::default(),
            false => {
                let count = self.tickets_at_once(key);
                self.pick(now, key, count, false)?
            }
        };
        let asks = self
            .hosts
            .get(key)
            .map(|h| h.asks.clone())
            .unwrap_or_default();
        if picked.picks.is_empty() && asks.is_empty() {
            self.fleet.give_back(&worker, self.shard);
            return Ok(match picked.has_skipped {
                true => Start::Later(now + NEXT_TURN),
                false => Start::Done,
            });
        }
        self.lease(now, key, worker, picked.picks, asks)?;
        Ok(Start::Done)
    }

    /// The time between two starts at a host: the longest of what the operator, the caller and the host ask for.
    pub(super) fn interval(&self, key: &HostKey, asked: u64) -> Duration {
        let copy = self
            .hosts
            .get(key)
            .and_then(|host| host.row.robots.as_ref());
        let delay = copy
            .map_or(0, |copy| copy.crawl_delay_millis)
            .min(MAX_CRAWL_DELAY);
        self.policy
            .min_interval
            .max(Duration::from_millis(delay.max(asked)))
    }

    fn lease(
        &mut self,
        now: Timestamp,
        key: &HostKey,
        worker: String,
        picks: Vec<Pick>,
        asks: BTreeMap<HostKey, (proto::CrawlUrl, u32)>,
    ) -> Result<(), StoreError> {
        let lease_id = self.number();
        let mut lease = LeaseHere {
            row: LeaseRow {
                lease_id,
                host: key.to_string(),
                worker: worker.clone(),
                ..LeaseRow::default()
            },
            host: key.clone(),
            expires: now + self.policy.lease,
            tickets: BTreeMap::new(),
            recalled: BTreeSet::new(),
            sessions: BTreeSet::new(),
        };
        let asked = picks
            .iter()
            .filter_map(|pick| self.sessions.get(&pick.session));
        let asked = asked.filter_map(|here| here.shared.spec.fetch.as_ref());
        let asked = asked
            .map(|fetch| fetch.min_interval_millis)
            .max()
            .unwrap_or(0);
        let interval = self.interval(key, asked);
        let mut tickets = Vec::new();
        let domain = key.domain();
        for (origin, (url, hops)) in asks {
            tickets.push(self.robots_ticket(&mut lease, &origin, &url, hops));
        }
        for pick in picks {
            tickets.push(self.ticket(&mut lease, pick, &domain)?);
        }
        let per_host = self.policy.per_host;
        let host = self.host(key)?;
        host.row.epoch += 1;
        host.row.interval = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        host.lease = Some(lease_id);
        lease.row.epoch = host.row.epoch;
        lease.row.interval = host.row.interval;
        let age = now.as_millis().saturating_sub(host.row.robots_at);
        let held = host.row.robots_until.saturating_sub(now.as_millis());
        let robots = host.row.robots.clone().filter(|_| age <= OLD_COPY_FOR);
        let robots = robots.map(|copy| {
            let max_age = copy.max_age_millis.min(DAY);
            v1::RobotsCopy {
                age_millis: age,
                // While the file cannot be read, an old copy is as good as a new one for some time.
                max_age_millis: if held > 0 { age + held } else { max_age },
                ..copy
            }
        });
        let order = v1::Lease {
            lease_id,
            epoch: lease.row.epoch,
            host: key.to_string(),
            tickets,
            interval_millis: lease.row.interval,
            not_before_millis: 0,
            ttl_millis: u64::try_from(self.policy.lease.as_millis()).unwrap_or(u64::MAX),
            robots,
            in_flight: per_host,
        };
        self.write_lease(&mut lease);
        let pessimistic = lease.expires + interval;
        self.leases.insert(lease_id, lease);
        self.write_host(now, key, pessimistic);
        *self.domains.entry(domain).or_default() += 1;
        self.send(worker, order::Order::Lease(order), Some(lease_id));
        Ok(())
    }

    pub(super) fn send(&mut self, worker: String, order: order::Order, lease_id: Option<u64>) {
        self.effects.push(Effect::Send {
            worker,
            order: Box::new(v1::Order { order: Some(order) }),
            lease_id,
        });
    }

    pub(super) fn write_lease(&mut self, lease: &mut LeaseHere) {
        lease.row.expires = lease.expires.as_millis();
        self.slice.put(
            Table::Leases,
            keys::lease(self.shard, lease.row.lease_id),
            &lease.row,
        );
    }

    fn robots_ticket(
        &mut self,
        lease: &mut LeaseHere,
        origin: &HostKey,
        url: &proto::CrawlUrl,
        hops: u32,
    ) -> v1::Ticket {
        let ticket_id = self.number();
        lease.tickets.insert(
            ticket_id,
            TicketHere {
                session: None,
                fingerprint: 0,
                permit: None,
                robots: Some((origin.clone(), hops)),
            },
        );
        v1::Ticket {
            ticket_id,
            kind: TicketKind::Robots.into(),
            url: url.as_str().to_owned(),
            depth: hops,
            attempt: 1,
            robots_origin: origin.to_string(),
            ..v1::Ticket::default()
        }
    }

    pub(super) fn ticket(
        &mut self,
        lease: &mut LeaseHere,
        pick: Pick,
        domain: &DomainKey,
    ) -> Result<v1::Ticket, StoreError> {
        let ticket_id = self.number();
        let is_first = !lease.sessions.contains(&pick.session);
        let cookies = match is_first || pick.row.is_redirect_target {
            true => self.cookies(&pick.session, domain)?,
            false => Vec::new(),
        };
        lease.row.tickets.push(TicketRow {
            ticket_id,
            session: pick.session.to_string(),
            fingerprint: pick.fingerprint.to_be_bytes().to_vec(),
            ..TicketRow::default()
        });
        lease.sessions.insert(pick.session.clone());
        let entry = pick.row.entry.unwrap_or_default();
        let earlier = self.earlier(&pick.session, pick.fingerprint)?;
        let earlier = earlier
            .filter(|earlier| !earlier.page.truncated)
            .map(|earlier| earlier.page);
        let (etag, last_modified) =
            earlier.map_or_else(Default::default, |page| (page.etag, page.last_modified));
        let mut ticket = v1::Ticket {
            ticket_id,
            kind: if entry.is_sitemap {
                TicketKind::Sitemap
            } else {
                TicketKind::Page
            }
            .into(),
            session_id: pick.session.to_string(),
            url: entry.url,
            depth: entry.depth,
            attempt: entry.attempts,
            cookies,
            etag,
            last_modified,
            ..v1::Ticket::default()
        };
        if let Some(here) = self.sessions.get(&pick.session) {
            let shared = &here.shared;
            let mut fetch = shared.spec.fetch.clone().unwrap_or_default();
            if !shared.is_seed_host(lease.host.as_str()) {
                fetch.headers.clear();
            }
            if shared.spec.budget.as_ref().is_some_and(|b| b.max_bytes > 0) {
                fetch.max_body_bytes = reserve(shared);
            }
            ticket.fetch = Some(fetch);
            ticket.want_links = shared.follows_links();
            ticket.ignore_nofollow = shared.spec.ignore_nofollow;
            ticket.want_robots_sitemaps = shared.reads_sitemaps();
        }
        lease.tickets.insert(
            ticket_id,
            TicketHere {
                session: Some(pick.session),
                fingerprint: pick.fingerprint,
                permit: pick.has_permit.then(|| lease.host.clone()),
                robots: None,
            },
        );
        Ok(ticket)
    }

    pub(super) fn poke(&mut self, shards: BTreeSet<u16>) {
        if !shards.is_empty() {
            self.effects.push(Effect::Poke { shards });
        }
    }

    /// Something that a session's hosts waited for has changed.
    pub(crate) fn look_again(&mut self) {
        let idle = |(key, host): (&HostKey, &super::core::HostHere)| {
            (host.due_at.is_none() && host.lease.is_none()).then(|| key.clone())
        };
        let keys: Vec<HostKey> = self.hosts.iter().filter_map(idle).collect();
        for key in keys {
            self.schedule(&key);
        }
    }

    /// Whether a session is a single page that reports its first failure.
    pub(super) fn reports_at_once(&self, id: &SessionId) -> bool {
        let kind = self.sessions.get(id).map(|here| here.shared.kind());
        matches!(kind, Some(SessionKind::Scrape | SessionKind::Batch))
    }
}
