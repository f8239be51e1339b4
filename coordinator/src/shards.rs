//! Where the shards live: their addresses, what they work with, and the parent that starts them, the desk and the fleet again.
//!
//! An address outlives the actor behind it, so nobody holds a dead one. A shard that fails comes back from the store
//! after a pause that doubles with every fault.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use proto::Clock;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::desk::{Desk, DeskHandle};
use crate::fleet::Fleet;
use crate::fleet_actor::FleetActor;
use crate::gate::Directory;
use crate::shard::Policy;
use crate::shard::actor::{ShardActor, ShardMsg};
use crate::store::Store;
use crate::store::committer::Committer;

const RESTART_FIRST: Duration = Duration::from_millis(100);
const RESTART_MOST: Duration = Duration::from_secs(10);

/// The addresses of the shards; they outlive restarts.
#[derive(Clone)]
pub(crate) struct Mailroom(Arc<Vec<RwLock<Option<ActorRef<ShardMsg>>>>>);

impl Mailroom {
    /// Addresses for so many shards, nobody home yet.
    pub(crate) fn new(shards: u16) -> Self {
        Self(Arc::new((0..shards).map(|_| RwLock::new(None)).collect()))
    }

    /// How many there are.
    pub(crate) fn shards(&self) -> u16 {
        u16::try_from(self.0.len()).unwrap_or(u16::MAX)
    }

    /// A shard is at home here from now on.
    pub(crate) fn move_in(&self, shard: u16, actor: ActorRef<ShardMsg>) {
        if let Some(home) = self.0.get(usize::from(shard)) {
            *home.write() = Some(actor);
        }
    }

    /// Whether a shard reads its mail.
    #[cfg(test)]
    pub(crate) fn is_home(&self, shard: u16) -> bool {
        let slot = self.0.get(usize::from(shard));
        let home = slot.and_then(|slot| slot.read().clone());
        home.is_some_and(|actor| actor.get_status() == ractor::ActorStatus::Running)
    }

    /// Tells a shard; what reaches nobody is sent again by whoever needs it.
    pub(crate) fn tell(&self, shard: u16, message: ShardMsg) {
        let home = self
            .0
            .get(usize::from(shard))
            .and_then(|slot| slot.read().clone());
        let sent = home.is_some_and(|actor| actor.send_message(message).is_ok());
        if !sent {
            tracing::debug!(shard, "a shard is not at home");
        }
    }

    /// Tells several shards to look for work.
    pub(crate) fn poke(&self, shards: impl IntoIterator<Item = u16>) {
        for shard in shards {
            self.tell(shard, ShardMsg::LookAgain);
        }
    }
}

/// What all shards work with.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) policy: Policy,
    pub(crate) clock: Clock,
    pub(crate) directory: Directory,
    pub(crate) fleet: Fleet,
    pub(crate) mailroom: Mailroom,
    pub(crate) desk: DeskHandle,
}

/// What the parent is told.
pub(crate) enum ParentMsg {
    Start(Child),
}

/// One of the parent's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Child {
    /// The shard of this number.
    Shard(u16),
    /// The desk.
    Desk,
    /// The fleet.
    Fleet,
}

/// Why children stop when the coordinator does.
pub(crate) const SHUTDOWN: &str = "shutdown";

/// The parent of the shards and the desk: starts them, and starts them again after a fault.
pub(crate) struct ShardsParent {
    pub(crate) around: Surroundings,
    pub(crate) desk: Desk,
    pub(crate) fleet: FleetActor,
}

pub(crate) struct ParentState {
    children: BTreeMap<ActorId, Child>,
    faults: BTreeMap<Child, u32>,
}

impl Actor for ShardsParent {
    type Msg = ParentMsg;
    type State = ParentState;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<ParentMsg>,
        (): (),
    ) -> Result<ParentState, ActorProcessingErr> {
        let mut state = ParentState {
            children: BTreeMap::new(),
            faults: BTreeMap::new(),
        };
        for shard in 0..self.around.mailroom.shards() {
            self.start(&myself, &mut state, Child::Shard(shard)).await?;
        }
        self.start(&myself, &mut state, Child::Desk).await?;
        self.start(&myself, &mut state, Child::Fleet).await?;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<ParentMsg>,
        message: ParentMsg,
        state: &mut ParentState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ParentMsg::Start(child) => {
                if let Err(error) = self.start(&myself, state, child).await {
                    tracing::error!(?child, %error, "a child did not start again");
                    Self::start_later(&myself, state, child);
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<ParentMsg>,
        event: SupervisionEvent,
        state: &mut ParentState,
    ) -> Result<(), ActorProcessingErr> {
        let (cell, why) = match event {
            SupervisionEvent::ActorFailed(cell, why) => (cell, why.to_string()),
            SupervisionEvent::ActorTerminated(cell, _, why) => (cell, why.unwrap_or_default()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {
                return Ok(());
            }
        };
        let child = state.children.remove(&cell.get_id());
        if let Some(child) = child.filter(|_| why != SHUTDOWN) {
            tracing::error!(
                ?child,
                why,
                "a child failed and is started again from the store"
            );
            metrics::counter!(crate::metrics::RESTARTS).increment(1);
            Self::start_later(&myself, state, child);
        }
        Ok(())
    }
}

impl ShardsParent {
    async fn start(
        &self,
        myself: &ActorRef<ParentMsg>,
        state: &mut ParentState,
        child: Child,
    ) -> Result<(), ActorProcessingErr> {
        let parent = myself.get_cell();
        let id = match child {
            Child::Shard(shard) => {
                let actor = ShardActor {
                    shard,
                    around: self.around.clone(),
                };
                Actor::spawn_linked(None, actor, (), parent)
                    .await?
                    .0
                    .get_id()
            }
            Child::Fleet => {
                let fleet = self.fleet.clone();
                Actor::spawn_linked(None, fleet, (), parent)
                    .await?
                    .0
                    .get_id()
            }
            Child::Desk => {
                let desk = self.desk.clone();
                Actor::spawn_linked(None, desk, (), parent)
                    .await?
                    .0
                    .get_id()
            }
        };
        state.children.insert(id, child);
        Ok(())
    }

    fn start_later(myself: &ActorRef<ParentMsg>, state: &mut ParentState, child: Child) {
        let faults = state.faults.entry(child).or_default();
        let wait = RESTART_FIRST * 2_u32.saturating_pow((*faults).min(7));
        *faults += 1;
        drop(myself.send_after(wait.min(RESTART_MOST), move || ParentMsg::Start(child)));
    }
}
