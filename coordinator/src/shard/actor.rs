//! One actor per shard; its parent in [`crate::shards`] starts it again.
//!
//! A handler calls the core, submits the batch and queues the effects; they are carried out when the committer says
//! that the batch is in the store. Mail that is lost in a crash is sent again by whoever needs the answer.

use std::collections::VecDeque;
use std::time::Duration;

use proto::v1;
use proto::{CrawlUrl, HostKey, SessionId, Timestamp};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::{Decision, Effect, ShardCore};
use crate::records::Mail;
use crate::shards::Surroundings;
use crate::store::StoreError;
use crate::store::committer::{Committer, Submission, Writer};
use crate::store::{Ack, Batch};

/// How long the store may take for what is under way.
const BARRIER_WITHIN: Duration = Duration::from_secs(30);

/// What a shard is told.
#[derive(Debug)]
pub(crate) enum ShardMsg {
    Seed {
        session: SessionId,
        urls: Vec<CrawlUrl>,
    },
    Outcome {
        worker: String,
        outcome: Box<v1::Outcome>,
    },
    Heartbeat {
        worker: String,
        lease_id: u64,
    },
    LeaseEnded {
        worker: String,
        lease_id: u64,
    },
    Unsent {
        lease_id: u64,
    },
    Mail {
        from: u16,
        items: Vec<(u64, Mail)>,
    },
    Answered {
        from: u16,
        number: u64,
        decision: Option<Decision>,
    },
    AskRobots {
        origin: HostKey,
        target: CrawlUrl,
        hops: u32,
    },
    TellRobots {
        origin: HostKey,
        copy: Box<v1::RobotsCopy>,
    },
    LookAgain,
    PhaseChanged(SessionId),
    Settle(SessionId),
    Close(SessionId),
    Committed {
        number: u64,
        failed: Option<String>,
    },
    Wake,
}

pub(crate) struct ShardActor {
    pub(crate) shard: u16,
    pub(crate) around: Surroundings,
}

pub(crate) struct ShardState {
    core: ShardCore,
    /// This life: a later batch is not kept where an earlier one was not.
    writer: Writer,
    unsafe_yet: VecDeque<(u64, Vec<Effect>)>,
    alarm: Option<(Timestamp, tokio::task::AbortHandle)>,
}

impl Actor for ShardActor {
    type Msg = ShardMsg;
    type State = ShardState;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<ShardMsg>,
        (): (),
    ) -> Result<ShardState, ActorProcessingErr> {
        let around = &self.around;
        // What an earlier life of this shard handed over is in the store before the store is read.
        barrier(&around.committer).await?;
        let now = around.clock.now();
        let mut core = ShardCore::new(
            self.shard,
            around.mailroom.shards(),
            around.policy.clone(),
            around.store.clone(),
            (around.directory.clone(), around.fleet.clone()),
            now,
        );
        core.restore(now)?;
        around.mailroom.move_in(self.shard, myself.clone());
        myself.send_message(ShardMsg::Wake)?;
        Ok(ShardState {
            core,
            writer: Writer::default(),
            unsafe_yet: VecDeque::new(),
            alarm: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ShardMsg>,
        message: ShardMsg,
        state: &mut ShardState,
    ) -> Result<(), ActorProcessingErr> {
        let now = self.around.clock.now();
        match message {
            ShardMsg::Committed { number, failed } => {
                if let Some(why) = failed {
                    return Err(format!("batch {number} was not kept: {why}").into());
                }
                self.committed(&myself, state, number);
                return Ok(());
            }
            ShardMsg::Wake => state.alarm = None,
            other => state.core.take(now, other)?,
        }
        state.core.advance(now)?;
        self.submit(&myself, state)?;
        self.set_alarm(&myself, state, now);
        Ok(())
    }
}

impl ShardActor {
    fn submit(
        &self,
        myself: &ActorRef<ShardMsg>,
        state: &mut ShardState,
    ) -> Result<(), StoreError> {
        let effects = state.core.finish()?;
        if !state.core.slice().is_dirty() {
            match state.unsafe_yet.back_mut() {
                Some((_, waiting)) => waiting.extend(effects),
                None => self.carry_out(myself, effects),
            }
            return Ok(());
        }
        let (number, batch) = state.core.slice().take();
        state.unsafe_yet.push_back((number, effects));
        let actor = myself.clone();
        let done = move |result: Result<(), _>| {
            let failed = result
                .err()
                .map(|error: crate::store::committer::CommitError| error.to_string());
            if actor
                .send_message(ShardMsg::Committed { number, failed })
                .is_err()
            {
                tracing::debug!(number, "a batch was kept after its shard had stopped");
            }
        };
        self.around.committer.submit(Submission {
            writer: Some(state.writer.clone()),
            batch,
            ack: Ack::Os,
            done: Box::new(done),
        });
        Ok(())
    }

    fn committed(&self, myself: &ActorRef<ShardMsg>, state: &mut ShardState, number: u64) {
        state.core.slice().committed(number);
        while state
            .unsafe_yet
            .front()
            .is_some_and(|(first, _)| *first <= number)
        {
            if let Some((_, effects)) = state.unsafe_yet.pop_front() {
                self.carry_out(myself, effects);
            }
        }
    }

    fn carry_out(&self, myself: &ActorRef<ShardMsg>, effects: Vec<Effect>) {
        let around = &self.around;
        let from = self.shard;
        for effect in effects {
            match effect {
                Effect::Send {
                    worker,
                    order,
                    lease_id,
                } => {
                    let is_sent = around.fleet.send(&worker, *order);
                    if let Some(lease_id) = lease_id.filter(|_| !is_sent) {
                        around.mailroom.tell(from, ShardMsg::Unsent { lease_id });
                    }
                }
                Effect::Post { session, tally } => {
                    let shared = around.directory.get(&session);
                    if shared.is_some_and(|shared| shared.post(from, tally)) {
                        around.desk.changed(session);
                    }
                }
                Effect::Mail { to, items } => {
                    around.mailroom.tell(to, ShardMsg::Mail { from, items });
                }
                Effect::Answer {
                    to,
                    number,
                    decision,
                } => {
                    around.mailroom.tell(
                        to,
                        ShardMsg::Answered {
                            from,
                            number,
                            decision,
                        },
                    );
                }
                Effect::AskRobots {
                    to,
                    origin,
                    target,
                    hops,
                } => {
                    around.mailroom.tell(
                        to,
                        ShardMsg::AskRobots {
                            origin,
                            target,
                            hops,
                        },
                    );
                }
                Effect::TellRobots { to, origin, copy } => {
                    around
                        .mailroom
                        .tell(to, ShardMsg::TellRobots { origin, copy });
                }
                Effect::Poke { shards } => around.mailroom.poke(shards),
                Effect::Release { worker } => {
                    around.mailroom.poke(around.fleet.release(&worker, from));
                }
                Effect::Seeded { session } => around.desk.seeded(session, from),
                Effect::SettleMore { session } => {
                    if myself.send_message(ShardMsg::Settle(session)).is_err() {
                        tracing::debug!(shard = from, "a shard stops while it settles");
                    }
                }
            }
        }
    }

    fn set_alarm(&self, myself: &ActorRef<ShardMsg>, state: &mut ShardState, now: Timestamp) {
        let Some(at) = state.core.next_wake(now) else {
            return;
        };
        if state
            .alarm
            .as_ref()
            .is_some_and(|(set, _)| *set <= at && *set > now)
        {
            return;
        }
        if let Some((_, earlier)) = state.alarm.take() {
            earlier.abort();
        }
        let alarm = myself.send_after(at.since(now).max(Duration::from_millis(1)), || {
            ShardMsg::Wake
        });
        state.alarm = Some((at, alarm.abort_handle()));
    }
}

/// Waits until all that was submitted before is committed.
async fn barrier(committer: &Committer) -> Result<(), ActorProcessingErr> {
    let (done, kept) = oneshot::channel();
    committer.submit(Submission {
        writer: None,
        batch: Batch::default(),
        ack: Ack::Os,
        done: Box::new(move |result| drop(done.send(result))),
    });
    tokio::time::timeout(BARRIER_WITHIN, kept).await???;
    Ok(())
}
