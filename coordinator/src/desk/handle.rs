//! How the doors and the shards talk to the desk; the handle outlives the actor behind it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use proto::v1;
use proto::{ErrorCode, Refusal, SessionId};
use ractor::ActorRef;
use tokio::sync::{oneshot, watch};

use super::DeskMsg;
use crate::gate::SessionShared;

/// How long an order to a session may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// The newest status of a running session.
pub(crate) type StatusReceiver = watch::Receiver<Arc<v1::SessionStatus>>;
/// Where it is told.
pub(crate) type StatusSender = watch::Sender<Arc<v1::SessionStatus>>;

/// A cheap way to talk to the desk, and to read how running sessions stand.
#[derive(Clone)]
pub(crate) struct DeskHandle {
    pub(super) actor: Arc<RwLock<Option<ActorRef<DeskMsg>>>>,
    pub(super) running: Arc<RwLock<BTreeMap<SessionId, StatusSender>>>,
}

impl DeskHandle {
    /// A handle to a desk that is not there yet.
    pub(crate) fn new() -> Self {
        Self {
            actor: Arc::default(),
            running: Arc::default(),
        }
    }

    pub(super) fn tell(&self, message: DeskMsg) {
        let actor = self.actor.read().clone();
        if actor.is_none_or(|actor| actor.send_message(message).is_err()) {
            tracing::debug!("the desk is not at home");
        }
    }

    /// Makes the desk fail.
    #[cfg(test)]
    pub(crate) fn kill(&self) {
        if let Some(actor) = self.actor.read().as_ref() {
            actor.kill();
        }
    }

    /// A session's board has news.
    pub(crate) fn changed(&self, session: SessionId) {
        self.tell(DeskMsg::Changed(session));
    }

    /// A shard has the seeds.
    pub(crate) fn seeded(&self, session: SessionId, shard: u16) {
        self.tell(DeskMsg::Seeded { session, shard });
    }

    /// Takes a session in; its record is on its way to the store.
    ///
    /// Whoever asks for its status from now on finds it, also before the desk has read its mail.
    pub(crate) fn begin(&self, shared: Arc<SessionShared>, status: v1::SessionStatus) {
        self.open(&shared.id, status);
        self.tell(DeskMsg::Begin(shared));
    }

    /// Shows a session's status; who watches it goes on watching when the desk starts anew.
    pub(crate) fn open(&self, session: &SessionId, status: v1::SessionStatus) {
        let (news, _) = watch::channel(Arc::new(status));
        self.running.write().insert(session.clone(), news);
    }

    /// Where a session's status is told.
    pub(super) fn news(&self, session: &SessionId) -> Option<StatusSender> {
        self.running.read().get(session).cloned()
    }

    /// The session's record was not kept: it does not run.
    pub(crate) fn abandon(&self, session: SessionId) {
        self.tell(DeskMsg::Abandon(session));
    }

    /// The session is stored: its seeds may go out.
    pub(crate) fn seed(&self, session: SessionId) {
        self.tell(DeskMsg::Seed(session));
    }

    /// How a running session stands.
    pub(crate) fn status(&self, session: &SessionId) -> Option<StatusReceiver> {
        self.running
            .read()
            .get(session)
            .map(StatusSender::subscribe)
    }

    /// How many sessions run.
    pub(crate) fn running(&self) -> usize {
        self.running.read().len()
    }

    /// Pauses, resumes or cancels.
    pub(crate) async fn control(
        &self,
        session: SessionId,
        order: v1::control_request::Order,
    ) -> Result<(), Refusal> {
        let (done, answer) = oneshot::channel();
        self.tell(DeskMsg::Control {
            session,
            order,
            done,
        });
        match tokio::time::timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Refusal::new(
                ErrorCode::Unavailable,
                "the coordinator is stopping; try again",
            )),
            Err(_) => Err(Refusal::new(
                ErrorCode::Timeout,
                "the coordinator is busy; try again",
            )),
        }
    }
}
