//! One virtual clock, one queue of events, and the shards with their group commits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use proto::v1::{fact, order};
use proto::{SessionId, Timestamp};

use super::random::Random;
use super::sessions::Sessions;
use super::web::Web;
use super::worker::Worker;
use crate::fleet::Fleet;
use crate::gate::Directory;
use crate::shard::actor::ShardMsg;
use crate::shard::{Effect, Policy, ShardCore};
use crate::store::memory::MemoryStore;
use crate::store::{Ack, Batch, Store as _};

pub(super) fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Something that happens at a moment.
pub(super) enum Event {
    Tell {
        shard: u16,
        life: u64,
        message: ShardMsg,
    },
    Alarm {
        shard: u16,
        life: u64,
        at: Timestamp,
    },
    Commit,
    StartShard {
        shard: u16,
        life: u64,
    },
    StartCoordinator,
    Order {
        worker: String,
        link: u64,
        order: Box<order::Order>,
    },
    Fact {
        worker: String,
        link: u64,
        fact: Box<fact::Fact>,
    },
    Wake {
        worker: String,
        life: u64,
        lease_id: u64,
    },
    Landed {
        worker: String,
        life: u64,
        lease_id: u64,
        flight: u64,
    },
    Beat {
        worker: String,
        life: u64,
    },
    Link {
        worker: String,
        life: u64,
    },
    Look(SessionId),
    Tick,
    Begin,
    Chaos,
}

/// What the seed decides for the whole run.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) shards: u16,
    pub(super) policy: Policy,
    pub(super) fetch_timeout: Duration,
    /// Faults until this moment.
    pub(super) calm_from: Timestamp,
    /// How often something goes wrong, in milliseconds; never when zero.
    pub(super) trouble_each: u64,
    /// Nothing falls and nothing is cut off: only clients give orders, and workers join.
    pub(super) is_orderly: bool,
    /// Most time that mail takes between two shards.
    pub(super) post: u64,
}

pub(super) struct Shard {
    pub(super) core: Option<ShardCore>,
    pub(super) life: u64,
    unsafe_yet: VecDeque<(u64, Vec<Effect>)>,
    alarm: Option<Timestamp>,
}

struct Submitted {
    shard: u16,
    life: u64,
    number: u64,
    batch: Batch,
}

pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) random: Random,
    pub(super) setup: Setup,
    pub(super) web: Web,
    pub(super) tries: BTreeMap<String, u32>,
    pub(super) store: Arc<MemoryStore>,
    pub(super) directory: Directory,
    pub(super) fleet: Fleet,
    pub(super) shards: Vec<Shard>,
    pub(super) sessions: Sessions,
    pub(super) workers: BTreeMap<String, Worker>,
    pub(super) is_up: bool,
    pub(super) visits: super::check::Visits,
    pub(super) story: VecDeque<String>,
    commits: VecDeque<Submitted>,
    is_commit_set: bool,
    pub(super) fail_next_commit: bool,
    events: BTreeMap<(Timestamp, u64), Event>,
    serial: u64,
}

impl World {
    pub(super) fn new(mut random: Random, setup: Setup) -> Self {
        let web = Web::draw(&mut random);
        let start = Timestamp::from_millis(1_000_000_000_000);
        let shards = (0..setup.shards).map(|_| Shard {
            core: None,
            life: 0,
            unsafe_yet: VecDeque::new(),
            alarm: None,
        });
        let mut world = Self {
            now: start,
            shards: shards.collect(),
            random,
            setup,
            web,
            tries: BTreeMap::new(),
            store: Arc::default(),
            directory: Directory::default(),
            fleet: Fleet::default(),
            sessions: Sessions::default(),
            workers: BTreeMap::new(),
            is_up: false,
            visits: super::check::Visits::default(),
            story: VecDeque::new(),
            commits: VecDeque::new(),
            is_commit_set: false,
            fail_next_commit: false,
            events: BTreeMap::new(),
            serial: 0,
        };
        world.start_coordinator();
        world
    }

    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        let at = self.now.as_millis() - 1_000_000_000_000;
        self.story.push_back(format!("{at:>9} {}", what()));
        if self.story.len() > 4_000 {
            self.story.pop_front();
        }
    }

    pub(super) fn after(&mut self, wait: u64, event: Event) {
        self.at(self.now + millis(wait), event);
    }

    pub(super) fn at(&mut self, at: Timestamp, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    /// Lets the next thing happen; false when nothing is left.
    pub(super) fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.events.pop_first() else {
            return false;
        };
        self.now = at;
        match event {
            Event::Tell {
                shard,
                life,
                message,
            } => self.told(shard, life, message),
            Event::Alarm { shard, life, at } => {
                let here = &mut self.shards[usize::from(shard)];
                if here.life == life && here.alarm == Some(at) {
                    here.alarm = None;
                    self.told(shard, life, ShardMsg::Wake);
                }
            }
            Event::Commit => self.commit(),
            Event::StartShard { shard, life } => self.start_shard(shard, life),
            Event::StartCoordinator => self.start_coordinator(),
            Event::Order {
                worker,
                link,
                order,
            } => self.ordered(&worker, link, *order),
            Event::Fact { worker, link, fact } => self.fact(&worker, link, *fact),
            Event::Wake {
                worker,
                life,
                lease_id,
            } => self.wake(&worker, life, lease_id),
            Event::Landed {
                worker,
                life,
                lease_id,
                flight,
            } => {
                self.landed(&worker, life, lease_id, flight);
            }
            Event::Beat { worker, life } => self.beat(&worker, life),
            Event::Link { worker, life } => self.link(&worker, life),
            Event::Look(session) => self.look(&session),
            Event::Tick => self.tick(),
            Event::Begin => self.begin_session(),
            Event::Chaos => self.chaos(),
        }
        true
    }

    /// Puts a message into a shard's mailbox; it is lost when nobody is at home, or when the shard falls before it is read.
    pub(super) fn tell(&mut self, shard: u16, message: ShardMsg, wait: u64) {
        let here = &self.shards[usize::from(shard)];
        if here.core.is_some() {
            let life = here.life;
            self.after(
                wait,
                Event::Tell {
                    shard,
                    life,
                    message,
                },
            );
        }
    }

    fn told(&mut self, shard: u16, life: u64, message: ShardMsg) {
        let now = self.now;
        let here = &mut self.shards[usize::from(shard)];
        if here.life != life {
            return;
        }
        let Some(core) = here.core.as_mut() else {
            return;
        };
        if let ShardMsg::Committed { number, .. } = message {
            core.slice().committed(number);
            while let Some((first, _)) = self.shards[usize::from(shard)].unsafe_yet.front()
                && *first <= number
            {
                let kept = self.shards[usize::from(shard)].unsafe_yet.pop_front();
                self.carry_out(shard, kept.unwrap().1);
            }
            return;
        }
        core.take(now, message).unwrap();
        self.advance(shard);
    }

    fn advance(&mut self, shard: u16) {
        let now = self.now;
        let here = &mut self.shards[usize::from(shard)];
        let (Some(core), life) = (here.core.as_mut(), here.life) else {
            return;
        };
        core.advance(now).unwrap();
        let effects = core.finish().unwrap();
        if core.slice().is_dirty() {
            let (number, batch) = core.slice().take();
            here.unsafe_yet.push_back((number, effects));
            self.commits.push_back(Submitted {
                shard,
                life,
                number,
                batch,
            });
            if !self.is_commit_set {
                self.is_commit_set = true;
                let wait = self.random.below(20);
                self.after(wait, Event::Commit);
            }
        } else if let Some((_, waiting)) = here.unsafe_yet.back_mut() {
            waiting.extend(effects);
        } else {
            self.carry_out(shard, effects);
        }
        self.set_alarm(shard);
    }

    fn set_alarm(&mut self, shard: u16) {
        let now = self.now;
        let here = &mut self.shards[usize::from(shard)];
        let Some(at) = here.core.as_ref().and_then(|core| core.next_wake(now)) else {
            return;
        };
        if here.alarm.is_some_and(|set| set <= at && set > now) {
            return;
        }
        let at = at.max(now + millis(1));
        here.alarm = Some(at);
        let life = here.life;
        self.at(at, Event::Alarm { shard, life, at });
    }

    /// One group reaches the store, or does not: then its shards fall, as their actors do.
    fn commit(&mut self) {
        self.is_commit_set = false;
        let most = self.random.between(1, 8);
        let group: Vec<Submitted> = (0..most).map_while(|_| self.commits.pop_front()).collect();
        if std::mem::take(&mut self.fail_next_commit) {
            for one in group {
                // What the shard hands over before it hears of it is refused as well.
                self.commits
                    .retain(|other| (other.shard, other.life) != (one.shard, one.life));
                if self.shards[usize::from(one.shard)].life == one.life {
                    self.crash_shard(one.shard);
                }
            }
        } else {
            for one in group {
                super::check::batch_adds_up(&one.batch);
                self.store.commit(&[one.batch], Ack::Os).unwrap();
                let message = ShardMsg::Committed {
                    number: one.number,
                    failed: None,
                };
                let (shard, life) = (one.shard, one.life);
                self.at(
                    self.now,
                    Event::Tell {
                        shard,
                        life,
                        message,
                    },
                );
            }
        }
        if !self.commits.is_empty() && !self.is_commit_set {
            self.is_commit_set = true;
            let wait = self.random.below(20);
            self.after(wait, Event::Commit);
        }
    }

    fn carry_out(&mut self, shard: u16, effects: Vec<Effect>) {
        for effect in effects {
            self.carry_out_one(shard, effect);
        }
        self.collect_orders();
    }

    fn carry_out_one(&mut self, from: u16, effect: Effect) {
        match effect {
            Effect::Send {
                worker,
                order,
                lease_id,
            } => {
                let is_sent = self.fleet.send(&worker, *order);
                if let Some(lease_id) = lease_id.filter(|_| !is_sent) {
                    self.tell(from, ShardMsg::Unsent { lease_id }, 0);
                }
            }
            Effect::Post { session, tally } => {
                let shared = self.directory.get(&session);
                if shared.is_some_and(|shared| shared.post(from, tally)) {
                    self.at(self.now, Event::Look(session));
                }
            }
            Effect::Mail { to, items } => {
                let mail = || ShardMsg::Mail {
                    from,
                    items: items.clone(),
                };
                self.post(to, mail);
            }
            Effect::Answer {
                to,
                number,
                decision,
            } => {
                let answer = || ShardMsg::Answered {
                    from,
                    number,
                    decision: decision.clone(),
                };
                self.post(to, answer);
            }
            Effect::AskRobots {
                to,
                origin,
                target,
                hops,
            } => {
                self.tell(
                    to,
                    ShardMsg::AskRobots {
                        origin,
                        target,
                        hops,
                    },
                    1,
                );
            }
            Effect::TellRobots { to, origin, copy } => {
                self.tell(to, ShardMsg::TellRobots { origin, copy }, 1);
            }
            Effect::Poke { shards } => self.poke(shards),
            Effect::Release { worker } => {
                let waiting = self.fleet.release(&worker, from);
                self.poke(waiting);
            }
            Effect::Seeded { session } => self.seeded(&session, from),
            Effect::SettleMore { session } => self.tell(from, ShardMsg::Settle(session), 0),
        }
    }

    /// Mail takes its time, and now and then it comes twice.
    fn post(&mut self, to: u16, mail: impl Fn() -> ShardMsg) {
        let copies = if self.random.chance(5) { 2 } else { 1 };
        for _ in 0..copies {
            let most = if self.random.chance(3) {
                self.setup.post * 4
            } else {
                self.setup.post
            };
            let wait = self.random.below(most);
            self.tell(to, mail(), wait);
        }
    }

    pub(super) fn poke(&mut self, shards: impl IntoIterator<Item = u16>) {
        for shard in shards {
            self.tell(shard, ShardMsg::LookAgain, 0);
        }
    }

    /// The actor of a shard falls; what it handed over is still committed, what it would have told is lost.
    pub(super) fn crash_shard(&mut self, shard: u16) {
        self.note(|| format!("shard {shard} falls"));
        let here = &mut self.shards[usize::from(shard)];
        here.core = None;
        here.life += 1;
        here.unsafe_yet.clear();
        here.alarm = None;
        let life = here.life;
        let wait = self.random.between(100, 2_000);
        self.after(wait, Event::StartShard { shard, life });
    }

    fn start_shard(&mut self, shard: u16, life: u64) {
        if self.shards[usize::from(shard)].life != life || !self.is_up {
            return;
        }
        if self.commits.iter().any(|one| one.shard == shard) {
            self.after(5, Event::StartShard { shard, life });
            return;
        }
        self.note(|| format!("shard {shard} starts"));
        let shared = (self.directory.clone(), self.fleet.clone());
        let policy = self.setup.policy.clone();
        let store = self.store.clone();
        let mut core = ShardCore::new(shard, self.setup.shards, policy, store, shared, self.now);
        core.restore(self.now).unwrap();
        self.shards[usize::from(shard)].core = Some(core);
        self.tell(shard, ShardMsg::Wake, 0);
    }

    /// The whole process falls: what was handed over and not committed is lost as well.
    pub(super) fn crash_coordinator(&mut self) {
        self.note(|| "the coordinator falls".to_owned());
        self.is_up = false;
        let kept = usize::try_from(self.random.below(self.commits.len() as u64 + 1)).unwrap();
        for one in self.commits.drain(..kept) {
            self.store.commit(&[one.batch], Ack::Os).unwrap();
        }
        self.commits.clear();
        for here in &mut self.shards {
            here.core = None;
            here.life += 1;
            here.unsafe_yet.clear();
            here.alarm = None;
        }
        let wait = self.random.between(300, 5_000);
        self.break_all_links();
        self.after(wait, Event::StartCoordinator);
    }

    fn start_coordinator(&mut self) {
        self.note(|| "the coordinator starts".to_owned());
        self.is_up = true;
        self.directory = Directory::default();
        self.fleet = Fleet::default();
        self.resume_sessions();
        for shard in 0..self.setup.shards {
            let life = self.shards[usize::from(shard)].life;
            self.start_shard(shard, life);
        }
        self.seed_sessions();
    }

    /// Whether every shard is at home and nothing waits for the store.
    pub(super) fn is_whole(&self) -> bool {
        self.is_up && self.commits.is_empty() && self.shards.iter().all(|here| here.core.is_some())
    }
}
