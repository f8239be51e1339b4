//! The desk of a simulation: real jobs and their real decisions, without an actor around them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proto::v1::{self, SessionKind, SessionState, UrlState};
use proto::{CompiledScope, CrawlUrl, SessionId, Timestamp};
use tokio::sync::watch;

use super::world::{Event, World};
use crate::catalog::resumed_phase;
use crate::desk::job::{Job, REPEAT, Step};
use crate::gate::{Phase, SessionShared, Tally};
use crate::keys;
use crate::records::CountersRow;
use crate::shard::actor::ShardMsg;
use crate::slice::decode;
use crate::store::{Store as _, Table};

/// What the control store says of a session, and what the simulation notes of it.
pub(super) struct Record {
    pub(super) spec: v1::SessionSpec,
    pub(super) scope: CompiledScope,
    pub(super) state: SessionState,
    pub(super) started: Timestamp,
    pub(super) end: Option<(SessionState, Tally)>,
    /// When it was told to stop or pause, and when it went on.
    pub(super) halted: Option<Timestamp>,
}

#[derive(Default)]
pub(super) struct Sessions {
    pub(super) records: BTreeMap<SessionId, Record>,
    pub(super) jobs: BTreeMap<SessionId, Job>,
    is_ticking: bool,
}

impl Sessions {
    pub(super) fn is_over(&self) -> bool {
        self.records.values().all(|record| record.end.is_some())
    }
}

impl World {
    pub(super) fn begin_session(&mut self) {
        if !self.is_up {
            return self.after(1_000, Event::Begin);
        }
        let number = u8::try_from(self.sessions.records.len() + 1).unwrap();
        let id = SessionId::from_bytes([number; 16]);
        let (spec, scope) = self.draw_spec();
        self.note(|| format!("session {number} begins: {spec:?}"));
        let record = Record {
            spec,
            scope,
            state: SessionState::Running,
            started: self.now,
            end: None,
            halted: None,
        };
        self.sessions.records.insert(id.clone(), record);
        self.open_job(&id, Phase::Running, &BTreeMap::new());
        self.seed_session(&id);
        if !self.sessions.is_ticking {
            self.sessions.is_ticking = true;
            self.after(200, Event::Tick);
        }
    }

    fn draw_spec(&mut self) -> (v1::SessionSpec, CompiledScope) {
        let random = &mut self.random;
        let urls = self.web.urls();
        let mut seeds: Vec<String> = (0..random.between(1, 3))
            .map(|_| random.one(&urls))
            .collect();
        seeds.sort();
        seeds.dedup();
        let parsed: Vec<CrawlUrl> = seeds
            .iter()
            .map(|url| CrawlUrl::parse(url).unwrap())
            .collect();
        let reach = if random.chance(75) {
            v1::scope::Reach::Any
        } else {
            v1::scope::Reach::Domain
        };
        let scope = v1::Scope {
            reach: reach.into(),
            ..v1::Scope::default()
        };
        let compiled = CompiledScope::compile(&scope, &parsed).unwrap();
        let mut spec = v1::SessionSpec {
            seeds,
            scope: Some(scope),
            keep_duplicates: random.chance(25),
            concurrency: u32::try_from(random.one(&[0, 0, 0, 1, 3])).unwrap(),
            ..v1::SessionSpec::default()
        };
        spec.set_kind(if random.chance(85) {
            SessionKind::Crawl
        } else {
            SessionKind::Batch
        });
        let mut budget = v1::Budget::default();
        if random.chance(40) {
            budget.max_depth = Some(u32::try_from(random.below(7)).unwrap());
        }
        spec.budget = Some(budget);
        let all = super::check::Expected::of(&self.web, &spec, &compiled);
        let random = &mut self.random;
        let most = all.most_pages();
        let choices = [
            None,
            None,
            Some(0),
            Some(1),
            Some(7),
            Some(most),
            Some(most + 1),
        ];
        budget.max_pages = random.one(&choices);
        if random.chance(20) {
            budget.max_bytes = random.between(1, 12_000);
            let fetch = v1::FetchOptions {
                max_body_bytes: 1_000,
                ..v1::FetchOptions::default()
            };
            spec.fetch = Some(fetch);
        }
        if random.chance(20) {
            budget.max_pages_per_domain = random.between(1, 9);
        }
        spec.strategy = Some(v1::Strategy {
            order: i32::try_from(random.below(5)).unwrap(),
            host_fair: random.chance(10),
            ..v1::Strategy::default()
        });
        if random.chance(10) {
            budget.max_millis = random.between(1_000, 120_000);
        }
        spec.budget = Some(budget);
        (spec, compiled)
    }

    fn open_job(&mut self, id: &SessionId, phase: Phase, before: &BTreeMap<u16, (u64, u64)>) {
        let record = &self.sessions.records[id];
        let (spec, scope) = (record.spec.clone(), record.scope.clone());
        let shared = SessionShared::new(id.clone(), spec, scope, phase, before, record.started);
        let shared = Arc::new(shared);
        self.directory.insert(shared.clone());
        let status = v1::SessionStatus::default();
        let (news, _) = watch::channel(Arc::new(status.clone()));
        let job = Job::new(shared, status, news, self.setup.shards, self.now);
        self.sessions.jobs.insert(id.clone(), job);
    }

    /// The process starts: what has not ended goes on as it was stored.
    pub(super) fn resume_sessions(&mut self) {
        self.sessions.jobs.clear();
        let open = self
            .sessions
            .records
            .iter()
            .filter(|(_, record)| record.end.is_none());
        let open: Vec<_> = open
            .map(|(id, record)| (id.clone(), record.state))
            .collect();
        for (id, state) in open {
            let mut before = BTreeMap::new();
            for shard in 0..self.setup.shards {
                let key = keys::of_session(shard, &id);
                if let Some(value) = self.store.get(Table::Counters, &key).unwrap() {
                    let row: CountersRow = decode(Table::Counters, &value).unwrap();
                    before.insert(shard, (row.pages, row.bytes));
                }
            }
            self.open_job(&id, resumed_phase(state), &before);
        }
    }

    pub(super) fn seed_sessions(&mut self) {
        let ids: Vec<SessionId> = self.sessions.jobs.keys().cloned().collect();
        for id in ids {
            self.seed_session(&id);
        }
    }

    fn seed_session(&mut self, id: &SessionId) {
        let job = self.sessions.jobs.get_mut(id).unwrap();
        job.told = self.now;
        for (shard, urls) in job.seeding.clone() {
            let wait = self.random.below(5);
            self.tell(
                shard,
                ShardMsg::Seed {
                    session: id.clone(),
                    urls,
                },
                wait,
            );
        }
    }

    pub(super) fn seeded(&mut self, id: &SessionId, shard: u16) {
        if let Some(job) = self.sessions.jobs.get_mut(id) {
            job.seeding.remove(&shard);
            self.at(self.now, Event::Look(id.clone()));
        }
    }

    pub(super) fn look(&mut self, id: &SessionId) {
        if !self.is_up {
            return;
        }
        let now = self.now;
        let Some(job) = self.sessions.jobs.get(id) else {
            return;
        };
        let total = job.shared.total();
        match job.next(&total, now) {
            Step::Stay => {
                let shard = job.give_turn(&total);
                self.poke(shard);
            }
            Step::Enter(phase) => self.enter(id, phase),
            Step::TellAgain => self.announce(id),
            Step::End(how) => self.end(id, how, total.sum),
        }
    }

    fn enter(&mut self, id: &SessionId, phase: Phase) {
        self.note(|| format!("session {} enters {phase:?}", id.as_bytes()[0]));
        let job = self.sessions.jobs.get_mut(id).unwrap();
        job.shared.set_phase(phase);
        job.since = self.now;
        let is_alone = job.shared.participants().is_empty();
        self.announce(id);
        if is_alone && matches!(phase, Phase::Settling(_)) {
            self.look(id);
        }
    }

    fn announce(&mut self, id: &SessionId) {
        let job = self.sessions.jobs.get_mut(id).unwrap();
        job.told = self.now;
        let phase = job.shared.phase();
        let mut shards: BTreeSet<u16> = job.shared.participants().into_iter().collect();
        shards.extend(job.seeding.keys());
        for shard in shards {
            let message = match phase {
                Phase::Settling(_) => ShardMsg::Settle(id.clone()),
                Phase::Running | Phase::Paused | Phase::Stopping(_) => {
                    ShardMsg::PhaseChanged(id.clone())
                }
            };
            self.tell(shard, message, 0);
        }
    }

    fn end(&mut self, id: &SessionId, how: SessionState, sum: Tally) {
        self.note(|| format!("session {} ends as {how:?}", id.as_bytes()[0]));
        let job = self.sessions.jobs.remove(id).unwrap();
        self.directory.remove(id);
        for shard in job.shared.participants() {
            self.tell(shard, ShardMsg::Close(id.clone()), 0);
        }
        let record = self.sessions.records.get_mut(id).unwrap();
        record.end = Some((how, sum));
        self.check_end(id);
    }

    /// What a client may order: pause, go on, cancel.
    pub(super) fn control(&mut self, id: &SessionId, order: v1::control_request::Order) {
        use v1::control_request::Order;
        let Some(job) = self.sessions.jobs.get(id) else {
            return;
        };
        let (phase, state) = match (order, job.shared.phase()) {
            (Order::Pause, Phase::Running) => (Phase::Paused, SessionState::Paused),
            (Order::Resume, Phase::Paused) => (Phase::Running, SessionState::Running),
            (Order::Cancel, Phase::Running | Phase::Paused) => (
                Phase::Stopping(SessionState::Cancelled),
                SessionState::Cancelled,
            ),
            _ => return,
        };
        let record = self.sessions.records.get_mut(id).unwrap();
        record.state = state;
        record.halted = (state != SessionState::Running).then_some(self.now);
        self.enter(id, phase);
        self.look(id);
    }

    pub(super) fn tick(&mut self) {
        if self.sessions.is_over() {
            self.sessions.is_ticking = false;
            return;
        }
        let wait = if self.now < self.setup.calm_from || self.setup.is_orderly {
            200
        } else {
            1_000
        };
        self.after(wait, Event::Tick);
        if !self.is_up {
            return;
        }
        let now = self.now;
        let ids: Vec<SessionId> = self.sessions.jobs.keys().cloned().collect();
        for id in ids {
            let job = &self.sessions.jobs[&id];
            let is_late = now.since(job.told) >= REPEAT;
            if is_late && !job.seeding.is_empty() {
                self.seed_session(&id);
            }
            let job = &self.sessions.jobs[&id];
            match job.shared.phase() {
                Phase::Running if job.shared.is_past_deadline(now) => self.look(&id),
                Phase::Running | Phase::Paused => {}
                Phase::Stopping(_) => self.look(&id),
                Phase::Settling(_) => {
                    if is_late {
                        self.announce(&id);
                    }
                    self.look(&id);
                }
            }
        }
    }

    pub(super) fn running(&self) -> Vec<SessionId> {
        self.sessions.jobs.keys().cloned().collect()
    }
}

/// How many URLs of a tally have not ended.
pub(super) fn unfinished(sum: &Tally) -> u64 {
    [
        UrlState::Queued,
        UrlState::Leased,
        UrlState::Waiting,
        UrlState::Fetched,
        UrlState::TooDeep,
    ]
    .into_iter()
    .map(|state| sum.of(state))
    .sum()
}
