//! The desk: every running session's life from start to its terminal state.
//!
//! One actor for all sessions: a scrape lives for milliseconds, so an actor each would cost more than its work. The
//! decision what a session's numbers mean is [`job::Job::next`], which is pure.

mod handle;
pub(crate) mod job;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proto::v1::{self, SessionKind, SessionState, UrlState};
use proto::{Clock, ErrorCode, Refusal, SessionId, Timestamp};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

pub(crate) use self::handle::{DeskHandle, StatusReceiver, StatusSender};
use self::job::{Job, REPEAT, Step};
use crate::catalog::Catalog;
use crate::gate::{Directory, Phase, SessionShared, Standing, Tally};
use crate::shard::actor::ShardMsg;
use crate::shards::Mailroom;

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(200);

pub(crate) enum DeskMsg {
    Begin(Arc<SessionShared>),
    /// Its first record was not kept.
    Abandon(SessionId),
    /// Its last record was not kept.
    Unkept(SessionId),
    Seed(SessionId),
    Seeded {
        session: SessionId,
        shard: u16,
    },
    Changed(SessionId),
    Control {
        session: SessionId,
        order: v1::control_request::Order,
        done: oneshot::Sender<Result<(), Refusal>>,
    },
    Kept {
        session: SessionId,
        is_end: bool,
    },
    Tick,
}

/// The actor.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) clock: Clock,
    pub(crate) catalog: Catalog,
    pub(crate) directory: Directory,
    pub(crate) mailroom: Mailroom,
    pub(crate) handle: DeskHandle,
    pub(crate) session_ttl: Duration,
}

impl Actor for Desk {
    type Msg = DeskMsg;
    type State = BTreeMap<SessionId, JobBox>;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<DeskMsg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        // First of all, so that what begins from now on is in the mail if it is not in the directory yet.
        *self.handle.actor.write() = Some(myself.clone());
        // After a restart of the process and after a fault of the desk alike: seeds are admitted once, so sending
        // them again does no harm.
        let mut jobs = BTreeMap::new();
        for shared in self.directory.all() {
            let id = shared.id.clone();
            self.begin(&mut jobs, shared);
            self.seed(&mut jobs, &id);
        }
        drop(myself.send_interval(TICK, || DeskMsg::Tick));
        Ok(jobs)
    }

    async fn handle(
        &self,
        _: ActorRef<DeskMsg>,
        message: DeskMsg,
        jobs: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            DeskMsg::Begin(shared) => self.begin(jobs, shared),
            DeskMsg::Abandon(session) => self.abandon(jobs, &session),
            DeskMsg::Unkept(session) => {
                if let Some(JobBox(job)) = jobs.get_mut(&session) {
                    job.is_ending = false;
                    job.quiet_until = self.clock.now() + REPEAT;
                }
            }
            DeskMsg::Seed(session) => self.seed(jobs, &session),
            DeskMsg::Seeded { session, shard } => {
                if let Some(JobBox(job)) = jobs.get_mut(&session) {
                    job.seeding.remove(&shard);
                    self.look(job);
                }
            }
            DeskMsg::Changed(session) => {
                if let Some(JobBox(job)) = jobs.get_mut(&session) {
                    self.look(job);
                }
            }
            DeskMsg::Control {
                session,
                order,
                done,
            } => {
                let answer = self.control(jobs, &session, order);
                if done.send(answer).is_err() {
                    tracing::debug!(%session, "who asked has gone");
                }
            }
            DeskMsg::Kept { session, is_end } => self.kept(jobs, &session, is_end),
            DeskMsg::Tick => self.tick(jobs),
        }
        Ok(())
    }
}

/// A job; boxed, so that the map moves little.
pub(crate) struct JobBox(Box<Job>);

impl Desk {
    fn begin(&self, jobs: &mut BTreeMap<SessionId, JobBox>, shared: Arc<SessionShared>) {
        let id = shared.id.clone();
        let Some(news) = self.handle.news(&id).filter(|_| !jobs.contains_key(&id)) else {
            return;
        };
        let status = news.borrow().as_ref().clone();
        let shards = self.mailroom.shards();
        let job = Job::new(shared, status, news, shards, self.clock.now());
        jobs.insert(id, JobBox(Box::new(job)));
        metrics::gauge!(crate::metrics::SESSIONS_RUNNING).set(jobs.len() as f64);
    }

    fn seed(&self, jobs: &mut BTreeMap<SessionId, JobBox>, session: &SessionId) {
        if let Some(JobBox(job)) = jobs.get_mut(session) {
            job.told = self.clock.now();
            for (shard, urls) in &job.seeding {
                let seed = ShardMsg::Seed {
                    session: session.clone(),
                    urls: urls.clone(),
                };
                self.mailroom.tell(*shard, seed);
            }
        }
    }

    /// Reads the board, tells who watches, and moves the session on.
    fn look(&self, job: &mut Job) {
        let now = self.clock.now();
        let total = job.shared.total();
        if job.is_ending || now < job.quiet_until {
            return;
        }
        if total.is_whole {
            job.publish(&total.sum, now);
        }
        match job.next(&total, now) {
            Step::Stay => self.mailroom.poke(job.give_turn(&total)),
            Step::Enter(phase) => self.enter(job, phase, now),
            Step::TellAgain => self.announce(job, now),
            Step::End(how) => self.end(job, how, &total.sum, now),
        }
    }

    fn enter(&self, job: &mut Job, phase: Phase, now: Timestamp) {
        job.shared.set_phase(phase);
        job.since = now;
        self.announce(job, now);
        let none = job.shared.participants().is_empty();
        if none && matches!(phase, Phase::Settling(_)) {
            self.look(job);
        }
    }

    fn announce(&self, job: &mut Job, now: Timestamp) {
        job.told = now;
        let id = &job.shared.id;
        // A shard that is just taking its seeds has posted nothing yet.
        let mut shards: BTreeSet<u16> = job.shared.participants().into_iter().collect();
        shards.extend(job.seeding.keys());
        for shard in shards {
            let message = match job.shared.phase() {
                Phase::Settling(_) => ShardMsg::Settle(id.clone()),
                Phase::Running | Phase::Paused | Phase::Stopping(_) => {
                    ShardMsg::PhaseChanged(id.clone())
                }
            };
            self.mailroom.tell(shard, message);
        }
    }

    fn end(&self, job: &mut Job, how: SessionState, sum: &Tally, now: Timestamp) {
        job.is_ending = true;
        let mut state = how;
        let is_map = job.shared.kind() == SessionKind::Map;
        let delivered = sum.pages + sum.of(UrlState::NotModified) + sum.of(UrlState::Captured);
        let is_dead = delivered == 0 && sum.of(UrlState::Failed) + sum.of(UrlState::Refused) > 0;
        if how == SessionState::Completed && is_dead {
            let end = self
                .catalog
                .first_seed_end(&job.shared.id, &job.shared.spec);
            let has_found = is_map && end.as_ref().is_none_or(|end| end.code.is_empty());
            if !has_found {
                state = SessionState::Failed;
                let end = end.unwrap_or_default();
                job.status.code = end.code;
                job.status.detail = end.detail;
            }
        }
        job.status.set_state(state);
        job.status.ended_at_millis = now.as_millis();
        job.status.expires_at_millis = (now + self.session_ttl).as_millis();
        metrics::counter!(crate::metrics::SESSIONS_ENDED, "state" => state.word()).increment(1);
        self.keep(job, true);
    }

    fn keep(&self, job: &Job, is_end: bool) {
        let handle = self.handle.clone();
        let session = job.shared.id.clone();
        let done = move |result: Result<(), Refusal>| match result {
            Ok(()) => handle.tell(DeskMsg::Kept { session, is_end }),
            Err(error) => {
                tracing::error!(%session, %error, "a session's record was not kept");
                if is_end {
                    handle.tell(DeskMsg::Unkept(session));
                }
            }
        };
        self.catalog
            .keep(&job.shared.id, &job.status, Box::new(done));
    }

    fn kept(&self, jobs: &mut BTreeMap<SessionId, JobBox>, session: &SessionId, is_end: bool) {
        if !is_end {
            return;
        }
        if let Some(JobBox(job)) = jobs.remove(session) {
            self.forget(&job, jobs.len());
            tracing::info!(session = %session, state = job.status.state().word(), pages = job.status.pages, "a session ended");
        }
    }

    /// Nothing of the session is in the store, so nothing of it may go on.
    fn abandon(&self, jobs: &mut BTreeMap<SessionId, JobBox>, session: &SessionId) {
        if let Some(JobBox(mut job)) = jobs.remove(session) {
            job.shared.set_phase(Phase::Stopping(SessionState::Failed));
            job.status.set_state(SessionState::Failed);
            ErrorCode::StoreFailed
                .word()
                .clone_into(&mut job.status.code);
            "the session could not be stored".clone_into(&mut job.status.detail);
            job.status.ended_at_millis = self.clock.now().as_millis();
            self.forget(&job, jobs.len());
        }
    }

    fn forget(&self, job: &Job, left: usize) {
        let session = &job.shared.id;
        self.directory.remove(session);
        for shard in job.shared.participants() {
            self.mailroom.tell(shard, ShardMsg::Close(session.clone()));
        }
        self.handle.running.write().remove(session);
        job.news.send_replace(Arc::new(job.status.clone()));
        metrics::gauge!(crate::metrics::SESSIONS_RUNNING).set(left as f64);
    }

    fn control(
        &self,
        jobs: &mut BTreeMap<SessionId, JobBox>,
        session: &SessionId,
        order: v1::control_request::Order,
    ) -> Result<(), Refusal> {
        use v1::control_request::Order;
        let Some(JobBox(job)) = jobs.get_mut(session) else {
            let why = format!("session `{session}` has ended; start a new one");
            return Err(Refusal::new(ErrorCode::WrongState, why));
        };
        let now = self.clock.now();
        let (phase, state) = match (order, job.shared.phase()) {
            (Order::Pause, Phase::Running) => (Phase::Paused, SessionState::Paused),
            (Order::Resume, Phase::Paused) => (Phase::Running, SessionState::Running),
            (Order::Cancel, Phase::Running | Phase::Paused) => (
                Phase::Stopping(SessionState::Cancelled),
                SessionState::Cancelled,
            ),
            (Order::Pause, Phase::Paused) | (Order::Resume, Phase::Running) => return Ok(()),
            (Order::Cancel, Phase::Stopping(_) | Phase::Settling(_)) => return Ok(()),
            (Order::Pause | Order::Resume, Phase::Stopping(_) | Phase::Settling(_)) => {
                let why = format!("session `{session}` is ending; start a new one");
                return Err(Refusal::new(ErrorCode::WrongState, why));
            }
            (Order::Unspecified, _) => {
                return Err(Refusal::argument(
                    "order",
                    "`order` must be pause, resume or cancel",
                ));
            }
        };
        let before = job.status.state();
        job.status.set_state(state);
        self.keep(job, false);
        if state == SessionState::Cancelled {
            // Stored as cancelled without an end, so that a restart goes on ending it; shown as it is until then.
            job.status.set_state(before);
        }
        self.enter(job, phase, now);
        self.look(job);
        Ok(())
    }

    fn tick(&self, jobs: &mut BTreeMap<SessionId, JobBox>) {
        let now = self.clock.now();
        tell_permits(jobs);
        let mut unseeded = BTreeSet::new();
        for (id, JobBox(job)) in jobs.iter_mut() {
            let phase = job.shared.phase();
            let is_late = now.since(job.told) >= REPEAT;
            if is_late && !job.seeding.is_empty() {
                unseeded.insert(id.clone());
            }
            match phase {
                Phase::Running if job.shared.is_past_deadline(now) => self.look(job),
                Phase::Running | Phase::Paused => {}
                Phase::Stopping(_) => self.look(job),
                Phase::Settling(_) => {
                    if is_late && !job.is_ending {
                        self.announce(job, now);
                    }
                    self.look(job);
                }
            }
        }
        for id in unseeded {
            self.seed(jobs, &id);
        }
    }
}

/// Shows where the pages of all limits are.
fn tell_permits(jobs: &BTreeMap<SessionId, JobBox>) {
    let mut sum = Standing::default();
    for JobBox(job) in jobs.values() {
        let standing = job.shared.permits().standing().unwrap_or_default();
        sum.limit += standing.limit;
        sum.pool += standing.pool;
        sum.outstanding += standing.outstanding;
        sum.captured += standing.captured;
    }
    metrics::gauge!(crate::metrics::PERMITS_LIMIT).set(sum.limit as f64);
    let places = [
        ("pool", sum.pool),
        ("outstanding", sum.outstanding),
        ("captured", sum.captured),
    ];
    for (place, count) in places {
        metrics::gauge!(crate::metrics::PERMITS, "place" => place).set(count as f64);
    }
}
