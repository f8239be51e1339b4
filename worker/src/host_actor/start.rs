//! When and how the requests of a lease begin.

use std::time::Duration;

use proto::v1::TicketKind;
use proto::v1::outcome::Result as Fate;
use proto::{Code, CrawlUrl, HostKey, Timestamp, v1};
use ractor::ActorRef;

use super::{HostActor, HostMsg, HostState, Rules};
use crate::errand::{RobotsDone, Tools};
use crate::gates::Pass;
use crate::host_core::Next;
use crate::metrics;

impl HostActor {
    /// Starts every request that may start, then sleeps until the next one may.
    pub(super) fn advance(&self, myself: &ActorRef<HostMsg>, state: &mut HostState) {
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
            let (origin, old) = (state.key.clone(), state.old.clone());
            tokio::spawn(async move {
                let started = tools.clock.now();
                let done = tools.robots(&url, &origin, hops, old.as_ref()).await;
                drop(pass);
                drop(actor.cast(HostMsg::Robots {
                    done,
                    hops,
                    started,
                }));
            })
        } else {
            let Pass { window, flight } = pass;
            let cookies = state.cookies_for(&ticket, now);
            state.running.push((ticket.clone(), window));
            tokio::spawn(async move {
                let message = errand(&tools, ticket, cookies.as_deref()).await;
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

async fn errand(tools: &Tools, ticket: v1::Ticket, cookies: Option<&str>) -> HostMsg {
    // The task may begin later than it was told to; the interval counts from here.
    let started = tools.clock.now();
    if ticket.kind() != TicketKind::Robots {
        let done = Box::new(tools.run(&ticket, cookies, started).await);
        return HostMsg::Done {
            ticket: Box::new(ticket),
            done,
        };
    }
    let origin = HostKey::parse(&ticket.robots_origin);
    let done = match (origin, CrawlUrl::parse(&ticket.url)) {
        (Ok(origin), Ok(url)) => tools.robots(&url, &origin, ticket.depth, None).await,
        _ => RobotsDone::Copy(Box::default()),
    };
    HostMsg::RobotsFor {
        ticket: Box::new(ticket),
        done,
        started,
    }
}
