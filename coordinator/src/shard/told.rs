//! What a shard is told, and which decision each message asks for.

use proto::Timestamp;

use super::ShardCore;
use super::actor::ShardMsg;
use crate::store::StoreError;

impl ShardCore {
    /// Takes a message; [`Self::advance`] and [`Self::finish`] follow.
    pub(crate) fn take(&mut self, now: Timestamp, message: ShardMsg) -> Result<(), StoreError> {
        match message {
            ShardMsg::Seed { session, urls } => self.seed(now, &session, &urls),
            ShardMsg::Outcome { worker, outcome } => self.outcome(now, &worker, *outcome),
            ShardMsg::Heartbeat { worker, lease_id } => {
                self.heartbeat(now, &worker, lease_id);
                Ok(())
            }
            ShardMsg::LeaseEnded { worker, lease_id } => self.lease_ended(now, &worker, lease_id),
            ShardMsg::Unsent { lease_id } => self.unsent(now, lease_id),
            ShardMsg::Mail { from, items } => self.mail(now, from, items),
            ShardMsg::Answered {
                from,
                number,
                decision,
            } => self.answered(now, from, number, decision),
            ShardMsg::AskRobots {
                origin,
                target,
                hops,
            } => self.ask_robots(origin, target, hops),
            ShardMsg::TellRobots { origin, copy } => self.tell_robots(now, &origin, *copy),
            ShardMsg::LookAgain => {
                self.look_again();
                Ok(())
            }
            ShardMsg::PhaseChanged(session) => {
                self.phase_changed(&session);
                Ok(())
            }
            ShardMsg::Settle(session) => self.settle(&session),
            ShardMsg::Close(session) => {
                self.close(&session);
                Ok(())
            }
            // The actor's own.
            ShardMsg::Committed { .. } | ShardMsg::Wake => Ok(()),
        }
    }
}
