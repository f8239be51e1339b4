//! One actor per lease: paces the requests of one host, and ends with the lease.
//!
//! The pure core says when a request may start; each request runs as a task that comes back with one message. What has
//! not begun when the lease ends, is revoked or drained is returned; nothing is dropped in silence.

mod report;
mod start;

use std::collections::BTreeMap;
use std::time::Duration;

use proto::v1;
use proto::v1::robots_copy::Verdict;
use proto::{CrawlUrl, HostKey, Timestamp};
use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

use crate::cookies::header_for;
use crate::errand::{Done, RobotsDone, Tools};
use crate::gates::{Gates, Pass};
use crate::host_core::{Grant, HostCore};
use crate::metrics;
use crate::robots::Robots;
use crate::uplink_actor::UplinkHandle;

/// A moment of grace at the end of a lease, so that what was begun is aborted before the coordinator counts it back.
const MARGIN: Duration = Duration::from_millis(250);

/// What a host is told.
pub(crate) enum HostMsg {
    /// A moment that the core named has come.
    Wake,
    /// A request may go out: the worker's bounds leave room.
    Passed(Pass),
    /// A ticket's request has ended.
    Done {
        ticket: Box<v1::Ticket>,
        done: Box<Done>,
    },
    /// robots.txt of this host answered.
    Robots {
        done: RobotsDone,
        hops: u32,
        started: Timestamp,
    },
    /// robots.txt read for another host.
    RobotsFor {
        ticket: Box<v1::Ticket>,
        done: RobotsDone,
        started: Timestamp,
    },
    /// Urgent tickets.
    Extend(Vec<v1::Ticket>),
    /// The lease lasts until this moment.
    Renew(Timestamp),
    /// Tickets of a session (of all, when empty) that have not begun go back.
    Revoke(String),
    /// Nothing begins any more.
    Drain,
}

/// What never changes.
pub(crate) struct HostActor {
    pub(crate) tools: Tools,
    pub(crate) gates: Gates,
    pub(crate) uplink: UplinkHandle,
}

/// What the actor begins with: the lease, and when it came.
pub(crate) struct Leased {
    pub(crate) lease: v1::Lease,
    pub(crate) received: Timestamp,
}

enum Rules {
    Unknown,
    Asked,
    Known(Box<Robots>),
    AllowAll,
    /// Nothing may be asked now: the reason that tickets are returned with.
    Closed(&'static str),
}

pub(crate) struct HostState {
    lease_id: u64,
    epoch: u64,
    key: HostKey,
    core: HostCore,
    rules: Rules,
    /// Where robots.txt is asked next, and after how many redirects.
    robots_at: Option<(CrawlUrl, u32)>,
    fresh: Option<v1::RobotsCopy>,
    /// A copy that has grown old: it is asked for again, and holds where that fails (RFC 9309, 2.3.1.4).
    old: Option<v1::RobotsCopy>,
    last_start: Option<Timestamp>,
    interval: Duration,
    in_flight: usize,
    pass: Option<Pass>,
    is_waiting_for_pass: bool,
    requests: Vec<AbortHandle>,
    /// Cookies of each session at this host's domain.
    jars: BTreeMap<String, Vec<v1::Cookie>>,
    running: Vec<(v1::Ticket, OwnedSemaphorePermit)>,
    alarm: Option<JoinHandle<Result<(), ractor::MessagingErr<HostMsg>>>>,
    is_draining: bool,
    is_ended: bool,
}

impl Actor for HostActor {
    type Msg = HostMsg;
    type State = HostState;
    type Arguments = Leased;

    async fn pre_start(
        &self,
        myself: ActorRef<HostMsg>,
        leased: Leased,
    ) -> Result<HostState, ActorProcessingErr> {
        let Leased { lease, received } = leased;
        let key = HostKey::parse(&lease.host)?;
        let robots_url = CrawlUrl::parse(&key.robots_url())?;
        let interval = Duration::from_millis(lease.interval_millis);
        let grant = Grant {
            interval,
            not_before: received + Duration::from_millis(lease.not_before_millis),
            ends: received + Duration::from_millis(lease.ttl_millis).saturating_sub(MARGIN),
            in_flight: usize::try_from(lease.in_flight).unwrap_or(1).max(1),
            fetch_timeout: self.tools.config.fetch_timeout,
        };
        let in_flight = grant.in_flight;
        let mut lease = lease;
        let mut state = HostState {
            lease_id: lease.lease_id,
            epoch: lease.epoch,
            core: HostCore::new(grant, Vec::new()),
            rules: Rules::Unknown,
            robots_at: Some((robots_url, 0)),
            fresh: None,
            old: None,
            last_start: None,
            interval,
            in_flight,
            pass: None,
            is_waiting_for_pass: false,
            requests: Vec::new(),
            jars: BTreeMap::new(),
            running: Vec::new(),
            alarm: None,
            is_draining: false,
            is_ended: false,
            key,
        };
        state.take_cookies(&mut lease.tickets);
        state.core.extend(lease.tickets);
        match lease.robots {
            Some(copy) if copy.age_millis < copy.max_age_millis => {
                state.adopt(&copy, &self.tools.config.agent);
            }
            old => state.old = old,
        }
        myself.cast(HostMsg::Wake)?;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<HostMsg>,
        message: HostMsg,
        state: &mut HostState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            HostMsg::Wake => {}
            HostMsg::Passed(pass) => {
                state.is_waiting_for_pass = false;
                state.pass = Some(pass);
            }
            HostMsg::Done { ticket, done } => self.done(state, &ticket, *done),
            HostMsg::Robots {
                done,
                hops,
                started,
            } => self.robots(state, done, hops, started),
            HostMsg::RobotsFor {
                ticket,
                done,
                started,
            } => {
                self.robots_for(state, *ticket, done, started);
            }
            HostMsg::Extend(mut tickets) => {
                state.take_cookies(&mut tickets);
                state.core.extend(tickets);
            }
            HostMsg::Renew(ends) => {
                state.core.renew(ends - MARGIN);
            }
            HostMsg::Revoke(session) => {
                for ticket in state.core.revoke(&session) {
                    self.give_back(state, &ticket, "revoked");
                }
            }
            HostMsg::Drain => state.is_draining = true,
        }
        self.advance(&myself, state);
        Ok(())
    }

    async fn post_stop(
        &self,
        _myself: ActorRef<HostMsg>,
        state: &mut HostState,
    ) -> Result<(), ActorProcessingErr> {
        for request in &state.requests {
            request.abort();
        }
        Ok(())
    }
}

impl HostState {
    fn adopt(&mut self, copy: &v1::RobotsCopy, agent: &str) {
        self.rules = match copy.verdict() {
            Verdict::Rules => Rules::Known(Box::new(Robots::parse(&copy.body, agent))),
            Verdict::AllowAll => Rules::AllowAll,
            Verdict::Elsewhere => Rules::Closed("robots_elsewhere"),
            Verdict::Unreachable | Verdict::Unspecified => Rules::Closed("robots_unreachable"),
        };
        self.core
            .slow_down(Duration::from_millis(copy.crawl_delay_millis));
        self.interval = self
            .interval
            .max(Duration::from_millis(copy.crawl_delay_millis));
    }

    /// Takes what the coordinator keeps of cookies off the tickets; what this host set itself is newer.
    fn take_cookies(&mut self, tickets: &mut [v1::Ticket]) {
        for ticket in tickets
            .iter_mut()
            .filter(|ticket| !ticket.cookies.is_empty())
        {
            let jar = self.jars.entry(ticket.session_id.clone()).or_default();
            for cookie in std::mem::take(&mut ticket.cookies) {
                if !jar
                    .iter()
                    .any(|known| proto::cookies::is_same(known, &cookie))
                {
                    jar.push(cookie);
                }
            }
        }
    }

    /// The Cookie header for a ticket.
    fn cookies_for(&self, ticket: &v1::Ticket, now: Timestamp) -> Option<String> {
        let jar = self.jars.get(&ticket.session_id)?;
        header_for(jar, &CrawlUrl::parse(&ticket.url).ok()?, now)
    }

    fn forbids(&self, ticket: &v1::Ticket) -> bool {
        let Rules::Known(rules) = &self.rules else {
            return false;
        };
        CrawlUrl::parse(&ticket.url).is_ok_and(|url| !rules.allows(&url))
    }

    fn count_start(&mut self, now: Timestamp) {
        if let Some(last) = self.last_start
            && now.since(last) < self.interval
            && self.in_flight == 1
        {
            ::metrics::counter!(metrics::GAP_VIOLATIONS).increment(1);
        }
        self.last_start = Some(now);
    }
}
