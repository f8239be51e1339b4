//! One actor per lease: paces the requests of one host, and ends with the lease.
//!
//! The pure core says when a request may start; each request runs as a task that comes back with one message. What has
//! not begun when the lease ends, is revoked or drained is returned; nothing is dropped in silence.

use std::time::Duration;

use proto::v1::outcome::Result as Fate;
use proto::v1::robots_copy::Verdict;
use proto::v1::{self, TicketKind};
use proto::{Code, CrawlUrl, HostKey, Timestamp};
use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;

use crate::errand::{Done, RobotsDone, Tools, word_of};
use crate::gates::{Gates, Pass};
use crate::host_core::{Grant, HostCore, Next};
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
    last_start: Option<Timestamp>,
    interval: Duration,
    in_flight: usize,
    pass: Option<Pass>,
    is_waiting_for_pass: bool,
    requests: Vec<AbortHandle>,
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
        let mut state = HostState {
            lease_id: lease.lease_id,
            epoch: lease.epoch,
            core: HostCore::new(grant, lease.tickets),
            rules: Rules::Unknown,
            robots_at: Some((robots_url, 0)),
            fresh: None,
            last_start: None,
            interval,
            in_flight,
            pass: None,
            is_waiting_for_pass: false,
            requests: Vec::new(),
            running: Vec::new(),
            alarm: None,
            is_draining: false,
            is_ended: false,
            key,
        };
        if let Some(copy) = &lease.robots {
            state.adopt(copy, &self.tools.config.agent);
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
            HostMsg::Extend(tickets) => state.core.extend(tickets),
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

impl HostActor {
    /// Starts every request that may start, then sleeps until the next one may.
    fn advance(&self, myself: &ActorRef<HostMsg>, state: &mut HostState) {
        let now = self.tools.clock.now();
        if now >= state.core.ends() {
            self.abort(state);
        }
        if state.is_draining || matches!(state.rules, Rules::Closed(_)) {
            self.return_all(state);
        }
        while self.start_one(myself, state, now) {}
        if state.core.is_done() && !state.is_ended && !matches!(state.rules, Rules::Asked) {
            state.is_ended = true;
            self.uplink.ended(state.lease_id);
            myself.stop(None);
            return;
        }
        self.set_alarm(myself, state, now);
    }

    /// Whether something happened that may let more happen.
    fn start_one(&self, myself: &ActorRef<HostMsg>, state: &mut HostState, now: Timestamp) -> bool {
        if matches!(state.rules, Rules::Asked | Rules::Closed(_)) {
            return false;
        }
        let Some(ticket) = state.core.take() else {
            return false;
        };
        if let Some(refusal) = self.refusal(state, &ticket) {
            self.report(
                state,
                &ticket,
                Fate::Refused(refusal),
                v1::HostFacts::default(),
                None,
            );
            return true;
        }
        state.core.extend(vec![ticket]);
        if state.pass.is_none() {
            self.ask_for_pass(myself, state);
        }
        if state.pass.is_none() {
            return false;
        }
        match state.core.next(now) {
            Next::Start => {}
            Next::WaitUntil(_) | Next::Busy => {
                state.pass = None;
                return false;
            }
            Next::Closed => {
                state.pass = None;
                if state.core.flying() == 0 {
                    self.return_all(state);
                }
                return false;
            }
        }
        let (Some(pass), Some(ticket)) = (state.pass.take(), state.core.take()) else {
            state.core.ended();
            return false;
        };
        state.count_start(now);
        self.launch(myself, state, ticket, pass, now);
        true
    }

    /// What robots.txt forbids, as far as it is known.
    fn refusal(&self, state: &HostState, ticket: &v1::Ticket) -> Option<v1::Refused> {
        let ignores = ticket
            .fetch
            .as_ref()
            .is_some_and(|fetch| fetch.ignore_robots);
        if ticket.kind() == TicketKind::Robots || !state.forbids(ticket) {
            return None;
        }
        if ignores {
            tracing::info!(host = %state.key, session = ticket.session_id, "robots.txt is ignored by order");
            return None;
        }
        ::metrics::counter!(metrics::ROBOTS_DENIED).increment(1);
        Some(v1::Refused {
            code: Code::Robots.word().to_owned(),
            detail: format!(
                "{} forbids it to {}",
                state.key.robots_url(),
                self.tools.config.agent
            ),
            status: 0,
        })
    }

    /// Sends the request of `ticket`, or the one for robots.txt that has to come before it.
    fn launch(
        &self,
        myself: &ActorRef<HostMsg>,
        state: &mut HostState,
        ticket: v1::Ticket,
        pass: Pass,
        now: Timestamp,
    ) {
        let needs_rules =
            ticket.kind() != TicketKind::Robots && matches!(state.rules, Rules::Unknown);
        let tools = self.tools.clone();
        let actor = myself.clone();
        let task = if needs_rules {
            state.core.extend(vec![ticket]);
            state.rules = Rules::Asked;
            let Some((url, hops)) = state.robots_at.clone() else {
                return;
            };
            let origin = state.key.clone();
            tokio::spawn(async move {
                let done = tools.robots(&url, &origin, hops).await;
                drop(pass);
                drop(actor.cast(HostMsg::Robots {
                    done,
                    hops,
                    started: now,
                }));
            })
        } else {
            let Pass { window, flight } = pass;
            state.running.push((ticket.clone(), window));
            tokio::spawn(async move {
                let message = errand(&tools, ticket, now).await;
                drop(flight);
                drop(actor.cast(message));
            })
        };
        state.requests.retain(|request| !request.is_finished());
        state.requests.push(task.abort_handle());
    }

    fn ask_for_pass(&self, myself: &ActorRef<HostMsg>, state: &mut HostState) {
        if state.is_waiting_for_pass {
            return;
        }
        if let Some(pass) = self.gates.try_pass() {
            state.pass = Some(pass);
            return;
        }
        state.is_waiting_for_pass = true;
        let (gates, actor) = (self.gates.clone(), myself.clone());
        let (tools, key) = (self.tools.clone(), state.key.clone());
        let task = tokio::spawn(async move {
            let address = match gates.counts_addresses() {
                true => tools.address_of(&key).await,
                false => None,
            };
            if let Some(pass) = gates.pass(address).await {
                drop(actor.cast(HostMsg::Passed(pass)));
            }
        });
        state.requests.push(task.abort_handle());
    }

    fn robots(&self, state: &mut HostState, done: RobotsDone, hops: u32, started: Timestamp) {
        state.core.ended();
        state.last_start = state.last_start.max(Some(started));
        match done {
            RobotsDone::Again(url) => {
                state.robots_at = Some((url, hops + 1));
                state.rules = Rules::Unknown;
            }
            RobotsDone::Copy(copy) => {
                state.adopt(&copy, &self.tools.config.agent);
                state.fresh = Some(*copy);
            }
        }
    }

    fn done(&self, state: &mut HostState, ticket: &v1::Ticket, done: Done) {
        let Some(window) = land(state, ticket, done.started) else {
            return;
        };
        self.report(state, ticket, done.fate, done.facts, Some(window));
    }

    fn robots_for(
        &self,
        state: &mut HostState,
        mut ticket: v1::Ticket,
        done: RobotsDone,
        started: Timestamp,
    ) {
        let Some(window) = land(state, &ticket, started) else {
            return;
        };
        match done {
            RobotsDone::Again(url) => {
                ticket.url = url.into();
                ticket.depth += 1;
                state.core.extend(vec![ticket]);
            }
            RobotsDone::Copy(copy) => {
                let facts = v1::HostFacts {
                    latency_millis: 1,
                    ..v1::HostFacts::default()
                };
                self.report(state, &ticket, Fate::RobotsRead(*copy), facts, Some(window));
            }
        }
    }

    fn report(
        &self,
        state: &mut HostState,
        ticket: &v1::Ticket,
        fate: Fate,
        mut facts: v1::HostFacts,
        window: Option<OwnedSemaphorePermit>,
    ) {
        ::metrics::counter!(metrics::OUTCOMES, "outcome" => word_of(&fate)).increment(1);
        facts.robots = state.fresh.take();
        if let Some(last) = state.last_start {
            let since = self.tools.clock.now().since(last);
            facts.has_started = true;
            facts.since_start_millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        }
        let outcome = v1::Outcome {
            lease_id: state.lease_id,
            ticket_id: ticket.ticket_id,
            epoch: state.epoch,
            session_id: ticket.session_id.clone(),
            url: ticket.url.clone(),
            host: Some(facts),
            result: Some(fate),
        };
        self.uplink.report(outcome, window);
    }

    fn give_back(&self, state: &mut HostState, ticket: &v1::Ticket, why: &str) {
        let returned = Fate::Returned(v1::Returned {
            code: why.to_owned(),
        });
        self.report(state, ticket, returned, v1::HostFacts::default(), None);
    }

    fn return_all(&self, state: &mut HostState) {
        let why = match &state.rules {
            Rules::Closed(why) => why,
            Rules::Unknown | Rules::Asked | Rules::Known(_) | Rules::AllowAll => "lease_over",
        };
        for ticket in state.core.revoke("") {
            self.give_back(state, &ticket, why);
        }
    }

    /// The lease is over: what runs is cut off and goes back.
    fn abort(&self, state: &mut HostState) {
        for request in state.requests.drain(..) {
            request.abort();
        }
        state.pass = None;
        if matches!(state.rules, Rules::Asked) {
            state.rules = Rules::Unknown;
            state.core.ended();
        }
        for (ticket, window) in std::mem::take(&mut state.running) {
            drop(window);
            state.core.ended();
            self.give_back(state, &ticket, "lease_over");
        }
        self.return_all(state);
    }

    /// One timer: the next start, or the end of the lease.
    fn set_alarm(&self, myself: &ActorRef<HostMsg>, state: &mut HostState, now: Timestamp) {
        let next = state.core.next_start().filter(|at| *at > now);
        let at = next.map_or(state.core.ends(), |at| at.min(state.core.ends()));
        if let Some(earlier) = state.alarm.take() {
            earlier.abort();
        }
        let pause = at.since(now).max(Duration::from_millis(1));
        state.alarm = Some(myself.send_after(pause, || HostMsg::Wake));
    }
}

/// Takes a request that has ended out of those in flight; answers its place in the window of reports.
fn land(
    state: &mut HostState,
    ticket: &v1::Ticket,
    started: Timestamp,
) -> Option<OwnedSemaphorePermit> {
    let at = state
        .running
        .iter()
        .position(|(row, _)| row.ticket_id == ticket.ticket_id)?;
    let (_, window) = state.running.remove(at);
    state.core.ended();
    state.last_start = state.last_start.max(Some(started));
    Some(window)
}

async fn errand(tools: &Tools, ticket: v1::Ticket, started: Timestamp) -> HostMsg {
    if ticket.kind() != TicketKind::Robots {
        let done = Box::new(tools.run(&ticket, started).await);
        return HostMsg::Done {
            ticket: Box::new(ticket),
            done,
        };
    }
    let origin = HostKey::parse(&ticket.robots_origin);
    let done = match (origin, CrawlUrl::parse(&ticket.url)) {
        (Ok(origin), Ok(url)) => tools.robots(&url, &origin, ticket.depth).await,
        _ => RobotsDone::Copy(Box::default()),
    };
    HostMsg::RobotsFor {
        ticket: Box::new(ticket),
        done,
        started,
    }
}
