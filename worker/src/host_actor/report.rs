//! What comes back of a lease: outcomes, answers to robots.txt, and tickets that did not begin.

use proto::v1::outcome::Result as Fate;
use proto::v1::robots_copy::Verdict;
use proto::{Timestamp, v1};
use tokio::sync::OwnedSemaphorePermit;

use super::{HostActor, HostState, Rules};
use crate::errand::{Done, RobotsDone, word_of};
use crate::metrics;

impl HostActor {
    pub(super) fn robots(
        &self,
        state: &mut HostState,
        done: RobotsDone,
        hops: u32,
        started: Timestamp,
    ) {
        state.core.ended();
        state.core.began(started);
        state.last_start = state.last_start.max(Some(started));
        match done {
            RobotsDone::Again(url) => {
                state.robots_at = Some((url, hops + 1));
                state.rules = Rules::Unknown;
            }
            RobotsDone::Copy(copy) => {
                let is_unreachable = copy.verdict() == Verdict::Unreachable;
                let old = state.old.take().filter(|_| is_unreachable);
                state.adopt(old.as_ref().unwrap_or(&copy), &self.tools.config.agent);
                state.fresh = Some(*copy);
            }
        }
    }

    pub(super) fn robots_for(
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

    pub(super) fn done(&self, state: &mut HostState, ticket: &v1::Ticket, done: Done) {
        let Some(window) = land(state, ticket, done.started) else {
            return;
        };
        if !done.cookies.is_empty() {
            let jar = state.jars.entry(ticket.session_id.clone()).or_default();
            proto::cookies::merge(jar, &done.cookies, self.tools.clock.now());
        }
        let mut outcome = self.outcome(state, ticket, done.fate, done.facts);
        outcome.cookies = done.cookies;
        self.uplink.report(outcome, Some(window));
    }

    pub(super) fn report(
        &self,
        state: &mut HostState,
        ticket: &v1::Ticket,
        fate: Fate,
        facts: v1::HostFacts,
        window: Option<OwnedSemaphorePermit>,
    ) {
        let outcome = self.outcome(state, ticket, fate, facts);
        self.uplink.report(outcome, window);
    }

    fn outcome(
        &self,
        state: &mut HostState,
        ticket: &v1::Ticket,
        fate: Fate,
        mut facts: v1::HostFacts,
    ) -> v1::Outcome {
        ::metrics::counter!(metrics::OUTCOMES, "outcome" => word_of(&fate)).increment(1);
        facts.robots = state.fresh.take();
        if let Some(last) = state.last_start {
            let since = self.tools.clock.now().since(last);
            facts.has_started = true;
            facts.since_start_millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        }
        v1::Outcome {
            lease_id: state.lease_id,
            ticket_id: ticket.ticket_id,
            epoch: state.epoch,
            session_id: ticket.session_id.clone(),
            url: ticket.url.clone(),
            host: Some(facts),
            result: Some(fate),
            cookies: Vec::new(),
        }
    }

    pub(super) fn give_back(&self, state: &mut HostState, ticket: &v1::Ticket, why: &str) {
        let returned = Fate::Returned(v1::Returned {
            code: why.to_owned(),
        });
        self.report(state, ticket, returned, v1::HostFacts::default(), None);
    }

    pub(super) fn return_all(&self, state: &mut HostState) {
        let why = match &state.rules {
            Rules::Closed(why) => why,
            Rules::Unknown | Rules::Asked | Rules::Known(_) | Rules::AllowAll => "lease_over",
        };
        for ticket in state.core.revoke("") {
            self.give_back(state, &ticket, why);
        }
    }

    /// The lease is over: what runs is cut off and goes back.
    pub(super) fn abort(&self, state: &mut HostState) {
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
    state.core.began(started);
    state.last_start = state.last_start.max(Some(started));
    Some(window)
}
