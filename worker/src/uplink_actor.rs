//! Owns the one link to the coordinator and the leases that came over it.
//!
//! Outcomes are remembered until the coordinator says that they are kept, and told again on every new link; a lease
//! lives by its own time whether or not there is a link. A host actor that crashes takes only its lease with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::v1::{self, fact::Fact, order::Order};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::errand::Tools;
use crate::gates::Gates;
use crate::host_actor::{HostActor, HostMsg, Leased};
use crate::metrics;

/// Ends of leases that are told again on a new link.
const ENDED: usize = 1024;

/// What the uplink is told.
pub(crate) enum UplinkMsg {
    /// A link stands; facts go out here.
    Linked(mpsc::UnboundedSender<v1::Fact>),
    /// It broke.
    Cut,
    /// From the coordinator.
    Order(Box<Order>),
    /// From a host: what happened to a ticket.
    Report(Box<v1::Outcome>, Option<OwnedSemaphorePermit>),
    /// From a host: its lease is done.
    Ended(u64),
    /// It is time to say that the leases live.
    Beat,
    /// Take nothing new, give back what has not begun; answered when all leases have ended.
    Drain(oneshot::Sender<()>),
}

/// A cheap way to talk to the uplink.
#[derive(Clone)]
pub(crate) struct UplinkHandle {
    actor: ActorRef<UplinkMsg>,
}

impl UplinkHandle {
    pub(crate) fn new(actor: ActorRef<UplinkMsg>) -> Self {
        Self { actor }
    }

    pub(crate) fn tell(&self, message: UplinkMsg) {
        if self.actor.cast(message).is_err() {
            tracing::debug!("the uplink has stopped");
        }
    }

    pub(crate) fn report(&self, outcome: v1::Outcome, window: Option<OwnedSemaphorePermit>) {
        self.tell(UplinkMsg::Report(Box::new(outcome), window));
    }

    pub(crate) fn ended(&self, lease_id: u64) {
        self.tell(UplinkMsg::Ended(lease_id));
    }
}

/// What never changes.
pub(crate) struct UplinkActor {
    pub(crate) tools: Tools,
    pub(crate) gates: Gates,
    /// Whether a link stands.
    pub(crate) is_linked: Arc<AtomicBool>,
}

pub(crate) struct UplinkState {
    link: Option<mpsc::UnboundedSender<v1::Fact>>,
    beat: Duration,
    hosts: BTreeMap<u64, ActorRef<HostMsg>>,
    unkept: BTreeMap<(u64, u64), (v1::Outcome, Option<OwnedSemaphorePermit>)>,
    ended: VecDeque<u64>,
    draining: Vec<oneshot::Sender<()>>,
    is_draining: bool,
}

impl Actor for UplinkActor {
    type Msg = UplinkMsg;
    type State = UplinkState;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<UplinkMsg>,
        (): (),
    ) -> Result<UplinkState, ActorProcessingErr> {
        Ok(UplinkState {
            link: None,
            beat: Duration::from_secs(10),
            hosts: BTreeMap::new(),
            unkept: BTreeMap::new(),
            ended: VecDeque::new(),
            draining: Vec::new(),
            is_draining: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<UplinkMsg>,
        message: UplinkMsg,
        state: &mut UplinkState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            UplinkMsg::Linked(link) => self.linked(state, link),
            UplinkMsg::Cut => {
                state.link = None;
                self.is_linked.store(false, Ordering::Release);
            }
            UplinkMsg::Order(order) => self.order(&myself, state, *order).await,
            UplinkMsg::Report(outcome, window) => {
                state.send(Fact::Outcome((*outcome).clone()));
                state
                    .unkept
                    .insert((outcome.lease_id, outcome.ticket_id), (*outcome, window));
            }
            UplinkMsg::Ended(lease_id) => self.ended(state, lease_id),
            UplinkMsg::Beat => {
                let lease_ids = state.hosts.keys().copied().collect();
                state.send(Fact::Heartbeat(v1::Heartbeat { lease_ids }));
                myself.send_after(state.beat, || UplinkMsg::Beat);
            }
            UplinkMsg::Drain(done) => self.drain(state, done),
        }
        Ok(())
    }

    /// A host that crashed gives its lease up; the coordinator takes back what was not reported.
    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<UplinkMsg>,
        event: SupervisionEvent,
        state: &mut UplinkState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            ::metrics::counter!(metrics::ACTOR_CRASHES).increment(1);
            tracing::error!(%error, "a host actor crashed");
            let id = cell.get_id();
            let lease = state.hosts.iter().find(|(_, host)| host.get_id() == id);
            if let Some(lease_id) = lease.map(|(lease_id, _)| *lease_id) {
                self.ended(state, lease_id);
            }
        }
        Ok(())
    }
}

/// Whoever waits for the drain may have gone away.
fn answer(done: oneshot::Sender<()>) {
    if done.send(()).is_err() {
        tracing::debug!("nobody waits for the drain any more");
    }
}

impl UplinkState {
    fn send(&self, fact: Fact) {
        if let Some(link) = &self.link
            && link.send(v1::Fact { fact: Some(fact) }).is_err()
        {
            tracing::debug!("a fact waits for the next link");
        }
    }

    fn tell(&self, lease_id: u64, message: HostMsg) {
        if let Some(host) = self.hosts.get(&lease_id)
            && host.cast(message).is_err()
        {
            tracing::debug!(lease = lease_id, "an order for a lease that has just ended");
        }
    }
}

impl UplinkActor {
    fn linked(&self, state: &mut UplinkState, link: mpsc::UnboundedSender<v1::Fact>) {
        state.link = Some(link);
        for (outcome, _) in state.unkept.values() {
            state.send(Fact::Outcome(outcome.clone()));
        }
        for lease_id in &state.ended {
            state.send(Fact::LeaseEnded(v1::LeaseEnded {
                lease_id: *lease_id,
            }));
        }
        if state.is_draining {
            state.send(Fact::Draining(v1::Draining {}));
        }
    }

    async fn order(&self, myself: &ActorRef<UplinkMsg>, state: &mut UplinkState, order: Order) {
        let now = self.tools.clock.now();
        match order {
            Order::Welcome(welcome) => {
                let beat = Duration::from_millis(welcome.heartbeat_millis);
                state.beat = beat.max(Duration::from_millis(100));
                self.is_linked.store(true, Ordering::Release);
            }
            Order::Lease(lease) => self.lease(myself, state, lease).await,
            Order::Extend(extend) => state.tell(extend.lease_id, HostMsg::Extend(extend.tickets)),
            Order::Renew(renew) => {
                let ends = now + Duration::from_millis(renew.ttl_millis);
                state.tell(renew.lease_id, HostMsg::Renew(ends));
            }
            Order::Revoke(revoke) => {
                state.tell(revoke.lease_id, HostMsg::Revoke(revoke.session_id));
            }
            Order::Kept(kept) => {
                for ticket_id in kept.ticket_ids {
                    state.unkept.remove(&(kept.lease_id, ticket_id));
                }
            }
            Order::Drain(_) => self.drain_hosts(state),
        }
    }

    async fn lease(&self, myself: &ActorRef<UplinkMsg>, state: &mut UplinkState, lease: v1::Lease) {
        let lease_id = lease.lease_id;
        if state.hosts.contains_key(&lease_id) {
            return;
        }
        let actor = HostActor {
            tools: self.tools.clone(),
            gates: self.gates.clone(),
            uplink: UplinkHandle::new(myself.clone()),
        };
        let leased = Leased {
            lease,
            received: self.tools.clock.now(),
        };
        match Actor::spawn_linked(None, actor, leased, myself.get_cell()).await {
            Ok((host, _)) => {
                state.hosts.insert(lease_id, host);
                if state.is_draining {
                    state.tell(lease_id, HostMsg::Drain);
                }
            }
            Err(error) => {
                tracing::error!(%error, lease = lease_id, "a lease could not begin");
                self.ended(state, lease_id);
            }
        }
        ::metrics::gauge!(metrics::LEASES_HELD).set(state.hosts.len() as f64);
    }

    fn ended(&self, state: &mut UplinkState, lease_id: u64) {
        state.hosts.remove(&lease_id);
        ::metrics::gauge!(metrics::LEASES_HELD).set(state.hosts.len() as f64);
        state.send(Fact::LeaseEnded(v1::LeaseEnded { lease_id }));
        state.ended.push_back(lease_id);
        if state.ended.len() > ENDED {
            state.ended.pop_front();
        }
        if state.hosts.is_empty() {
            for done in state.draining.drain(..) {
                answer(done);
            }
        }
    }

    fn drain(&self, state: &mut UplinkState, done: oneshot::Sender<()>) {
        self.drain_hosts(state);
        if state.hosts.is_empty() {
            answer(done);
        } else {
            state.draining.push(done);
        }
    }

    fn drain_hosts(&self, state: &mut UplinkState) {
        state.is_draining = true;
        state.send(Fact::Draining(v1::Draining {}));
        for lease_id in state.hosts.keys() {
            state.tell(*lease_id, HostMsg::Drain);
        }
    }
}
