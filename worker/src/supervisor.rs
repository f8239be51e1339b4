//! The parent of the uplink: keeps one alive, with one link task beside it.
//!
//! An uplink that crashes takes its hosts with it; their leases end by their own time and the coordinator gives the URLs
//! out again. A fresh uplink links anew after a pause that grows with each crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;

use crate::errand::Tools;
use crate::gates::Gates;
use crate::uplink_actor::{UplinkActor, UplinkHandle, UplinkMsg};
use crate::{link, metrics};

/// Pause before the first new start, doubled with each crash.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// What the parent is told.
pub(crate) enum SupervisorMsg {
    /// Start an uplink.
    Start,
    /// Give everything back; answered when that is done.
    Drain(oneshot::Sender<()>),
}

/// What never changes.
pub(crate) struct Supervisor {
    pub(crate) tools: Tools,
    pub(crate) gates: Gates,
    pub(crate) channel: Channel,
    pub(crate) is_linked: Arc<AtomicBool>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

pub(crate) struct SupervisorState {
    uplink: Option<UplinkHandle>,
    link: Option<CancellationToken>,
    pause: Duration,
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        (): (),
    ) -> Result<SupervisorState, ActorProcessingErr> {
        myself.cast(SupervisorMsg::Start)?;
        Ok(SupervisorState {
            uplink: None,
            link: None,
            pause: PAUSE,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::Start => self.start(&myself, state).await,
            SupervisorMsg::Drain(done) => match &state.uplink {
                Some(uplink) => {
                    uplink.tell(UplinkMsg::Drain(done));
                    Ok(())
                }
                None => {
                    if done.send(()).is_err() {
                        tracing::debug!("nobody waits for the drain any more");
                    }
                    Ok(())
                }
            },
        }
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let SupervisionEvent::ActorFailed(_, error) = event else {
            return Ok(());
        };
        ::metrics::counter!(metrics::ACTOR_CRASHES).increment(1);
        tracing::error!(%error, "the uplink crashed; a new one links soon");
        self.is_linked.store(false, Ordering::Release);
        state.uplink = None;
        if let Some(link) = state.link.take() {
            link.cancel();
        }
        myself.send_after(state.pause, || SupervisorMsg::Start);
        state.pause = (state.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

impl Supervisor {
    async fn start(
        &self,
        myself: &ActorRef<SupervisorMsg>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let actor = UplinkActor {
            tools: self.tools.clone(),
            gates: self.gates.clone(),
            is_linked: Arc::clone(&self.is_linked),
        };
        let (uplink, _) = Actor::spawn_linked(None, actor, (), myself.get_cell()).await?;
        let handle = UplinkHandle::new(uplink);
        handle.tell(UplinkMsg::Beat);
        let link = self.stop.child_token();
        let config = Arc::clone(&self.tools.config);
        self.tasks.spawn(link::keep(
            config,
            self.channel.clone(),
            handle.clone(),
            link.clone(),
        ));
        state.uplink = Some(handle);
        state.link = Some(link);
        Ok(())
    }
}
