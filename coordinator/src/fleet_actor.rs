//! Who belongs to the fleet: the one writer of its members and so of the ring.
//!
//! Members and slots are read at every lease, so they lie in the shared [`Fleet`]; but only this actor lets a worker in or
//! out, one at a time, and wakes the shards that wait for one. After a fault it goes on with the members as they stand.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use proto::{Clock, ErrorCode, Refusal, v1};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use crate::fleet::{Fleet, OrderSender};
use crate::shards::Mailroom;

const REPLY_WITHIN: Duration = Duration::from_secs(5);

/// What the fleet is told.
pub(crate) enum FleetMsg {
    /// A worker says hello on a new link; answered with the link's number.
    Join {
        hello: Box<v1::Hello>,
        orders: OrderSender,
        joined: oneshot::Sender<u64>,
    },
    /// A link ended.
    Leave { worker: String, link: u64 },
    /// A worker takes nothing new.
    Drain { worker: String },
}

/// The actor; its state is the shared members.
#[derive(Clone)]
pub(crate) struct FleetActor {
    pub(crate) clock: Clock,
    pub(crate) fleet: Fleet,
    pub(crate) mailroom: Mailroom,
    pub(crate) handle: FleetHandle,
}

impl Actor for FleetActor {
    type Msg = FleetMsg;
    type State = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<FleetMsg>,
        (): (),
    ) -> Result<(), ActorProcessingErr> {
        *self.handle.actor.write() = Some(myself);
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<FleetMsg>,
        message: FleetMsg,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let waiting = match message {
            FleetMsg::Join {
                hello,
                orders,
                joined,
            } => {
                let worker = hello.worker_id.clone();
                let (link, waiting) = self.fleet.join(*hello, orders, self.clock.now());
                if joined.send(link).is_err() {
                    self.fleet.leave(&worker, link);
                }
                waiting
            }
            FleetMsg::Leave { worker, link } => self.fleet.leave(&worker, link),
            FleetMsg::Drain { worker } => self.fleet.drain(&worker),
        };
        self.mailroom.poke(waiting);
        Ok(())
    }
}

/// A cheap way to talk to the fleet; it outlives the actor behind it.
#[derive(Clone, Default)]
pub(crate) struct FleetHandle {
    actor: Arc<RwLock<Option<ActorRef<FleetMsg>>>>,
}

impl FleetHandle {
    /// Lets a worker in; answers its link's number.
    pub(crate) async fn join(&self, hello: v1::Hello, orders: OrderSender) -> Result<u64, Refusal> {
        let (joined, link) = oneshot::channel();
        self.tell(FleetMsg::Join {
            hello: Box::new(hello),
            orders,
            joined,
        });
        match tokio::time::timeout(REPLY_WITHIN, link).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(_)) | Err(_) => Err(Refusal::new(
                ErrorCode::Unavailable,
                "the fleet is busy; link again",
            )),
        }
    }

    /// A link ended.
    pub(crate) fn leave(&self, worker: String, link: u64) {
        self.tell(FleetMsg::Leave { worker, link });
    }

    /// A worker takes nothing new.
    pub(crate) fn drain(&self, worker: &str) {
        self.tell(FleetMsg::Drain {
            worker: worker.to_owned(),
        });
    }

    fn tell(&self, message: FleetMsg) {
        let actor = self.actor.read().clone();
        if actor.is_none_or(|actor| actor.send_message(message).is_err()) {
            tracing::debug!("the fleet is not at home");
        }
    }
}
