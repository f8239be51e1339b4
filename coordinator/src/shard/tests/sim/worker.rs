//! Workers as a shard sees them: they pace by their own clock, report until told that it is kept, and may fall silent.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proto::v1::outcome::Result as Report;
use proto::v1::{self, fact, order, robots_copy::Verdict};
use proto::{Code, Digest, Timestamp};
use tokio::sync::mpsc;

use super::web::Answer;
use super::world::{Event, World, millis};
use crate::fleet::ORDERS;
use crate::shard::actor::ShardMsg;

/// What is left of a lease when its worker lets go.
const MARGIN: Duration = Duration::from_millis(250);

const MOST_WORKERS: usize = 6;

pub(super) struct Worker {
    pub(super) life: u64,
    pub(super) link: Option<u64>,
    orders: Option<mpsc::Receiver<Result<v1::Order, tonic::Status>>>,
    pub(super) leases: BTreeMap<u64, Held>,
    unkept: BTreeMap<(u64, u64), v1::Outcome>,
    ended: Vec<u64>,
    pub(super) is_draining: bool,
    slots: u32,
    /// A link keeps its order in both directions.
    down: Timestamp,
    up: Timestamp,
    flights: u64,
}

pub(super) struct Held {
    lease_id: u64,
    epoch: u64,
    host: String,
    interval: Duration,
    not_before: Timestamp,
    ends: Timestamp,
    in_flight: usize,
    queue: VecDeque<v1::Ticket>,
    flying: BTreeMap<u64, Flight>,
    rules: Rules,
    fresh: Option<v1::RobotsCopy>,
    last_start: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    Unknown,
    Asked,
    Known,
    Closed,
}

struct Flight {
    /// None: robots.txt.
    ticket: Option<v1::Ticket>,
    visit: usize,
}

impl World {
    /// A new worker; an old one again where there are many.
    pub(super) fn add_worker(&mut self) {
        if self.workers.len() >= MOST_WORKERS {
            let is_of_no_use = |known: &Worker| known.link.is_none() || known.is_draining;
            let gone = self.workers.iter().find(|(_, known)| is_of_no_use(known));
            if let Some(name) = gone.map(|(name, _)| name.clone()) {
                self.kill_worker(&name);
                let worker = self.workers.get_mut(&name).unwrap();
                worker.is_draining = false;
                let life = worker.life;
                self.link(&name, life);
                self.after(1, Event::Beat { worker: name, life });
            }
            return;
        }
        let name = format!("w{}", self.workers.len());
        let slots = u32::try_from(self.random.one(&[1, 2, 8, 64])).unwrap();
        let worker = Worker {
            life: 0,
            link: None,
            orders: None,
            leases: BTreeMap::new(),
            unkept: BTreeMap::new(),
            ended: Vec::new(),
            is_draining: false,
            slots,
            down: self.now,
            up: self.now,
            flights: 0,
        };
        self.note(|| format!("{name} is born with {slots} slots"));
        self.workers.insert(name.clone(), worker);
        self.link(&name, 0);
        self.after(
            1,
            Event::Beat {
                worker: name,
                life: 0,
            },
        );
    }

    /// The process is gone, with all that it had not told.
    pub(super) fn kill_worker(&mut self, name: &str) {
        self.note(|| format!("{name} is killed"));
        self.break_link(name);
        let worker = self.workers.get_mut(name).unwrap();
        worker.life += 1;
        worker.unkept.clear();
        worker.ended.clear();
        for held in std::mem::take(&mut worker.leases).into_values() {
            for flight in held.flying.into_values() {
                self.visits.end(flight.visit, self.now);
            }
        }
        if self.random.chance(70) {
            let life = self.workers[name].life;
            let wait = self.random.between(500, 20_000);
            self.after(
                wait,
                Event::Link {
                    worker: name.to_owned(),
                    life,
                },
            );
            self.after(
                wait,
                Event::Beat {
                    worker: name.to_owned(),
                    life,
                },
            );
        }
    }

    pub(super) fn break_link(&mut self, name: &str) {
        let worker = self.workers.get_mut(name).unwrap();
        worker.orders = None;
        if let Some(link) = worker.link.take() {
            let waiting = self.fleet.leave(name, link);
            self.poke(waiting);
        }
    }

    pub(super) fn break_all_links(&mut self) {
        let names: Vec<String> = self.workers.keys().cloned().collect();
        for worker in names {
            let known = self.workers.get_mut(&worker).unwrap();
            if known.link.is_some() {
                let life = known.life;
                self.break_link(&worker);
                let wait = self.random.between(10, 4_000);
                self.after(wait, Event::Link { worker, life });
            }
        }
    }

    pub(super) fn link(&mut self, name: &str, life: u64) {
        let worker = &self.workers[name];
        if worker.life != life || worker.link.is_some() {
            return;
        }
        if !self.is_up {
            self.after(
                500,
                Event::Link {
                    worker: name.to_owned(),
                    life,
                },
            );
            return;
        }
        let (sender, orders) = mpsc::channel(ORDERS);
        let hello = v1::Hello {
            worker_id: name.to_owned(),
            slots: worker.slots,
            weight: 1,
            ..v1::Hello::default()
        };
        let (link, waiting) = self.fleet.join(hello, sender, self.now);
        self.note(|| format!("{name} links"));
        self.poke(waiting);
        let worker = self.workers.get_mut(name).unwrap();
        worker.link = Some(link);
        worker.orders = Some(orders);
        let mut facts: Vec<fact::Fact> = Vec::new();
        facts.extend(worker.unkept.values().cloned().map(fact::Fact::Outcome));
        let ended = worker.ended.iter().map(|lease_id| v1::LeaseEnded {
            lease_id: *lease_id,
        });
        facts.extend(ended.map(fact::Fact::LeaseEnded));
        if worker.is_draining {
            facts.push(fact::Fact::Draining(v1::Draining {}));
        }
        for fact in facts {
            self.up(name, fact);
        }
    }

    /// A worker that takes nothing new and gives back what has not begun.
    pub(super) fn drain_worker(&mut self, name: &str) {
        self.note(|| format!("{name} drains"));
        self.workers.get_mut(name).unwrap().is_draining = true;
        self.up(name, fact::Fact::Draining(v1::Draining {}));
        let leases: Vec<u64> = self.workers[name].leases.keys().copied().collect();
        let life = self.workers[name].life;
        for lease_id in leases {
            self.wake(name, life, lease_id);
        }
    }

    pub(super) fn beat(&mut self, name: &str, life: u64) {
        if self.workers[name].life != life {
            return;
        }
        let lease_ids = self.workers[name].leases.keys().copied().collect();
        self.up(name, fact::Fact::Heartbeat(v1::Heartbeat { lease_ids }));
        let wait = u64::try_from(self.setup.policy.lease.as_millis()).unwrap() / 6;
        self.after(
            wait,
            Event::Beat {
                worker: name.to_owned(),
                life,
            },
        );
    }

    fn up(&mut self, name: &str, fact: fact::Fact) {
        let wait = self.random.below(60);
        let worker = self.workers.get_mut(name).unwrap();
        let Some(link) = worker.link else {
            return;
        };
        worker.up = worker.up.max(self.now + millis(wait));
        let (at, worker) = (worker.up, name.to_owned());
        self.at(
            at,
            Event::Fact {
                worker,
                link,
                fact: Box::new(fact),
            },
        );
    }

    /// Takes what the coordinator put into the links on its way down.
    pub(super) fn collect_orders(&mut self) {
        let names: Vec<String> = self.workers.keys().cloned().collect();
        for name in names {
            loop {
                let worker = self.workers.get_mut(&name).unwrap();
                let Some(order) = worker
                    .orders
                    .as_mut()
                    .and_then(|orders| orders.try_recv().ok())
                else {
                    break;
                };
                let Some(order) = order.unwrap().order else {
                    continue;
                };
                let wait = self.random.below(60);
                let worker = self.workers.get_mut(&name).unwrap();
                worker.down = worker.down.max(self.now + millis(wait));
                let (at, link) = (worker.down, worker.link.unwrap());
                self.at(
                    at,
                    Event::Order {
                        worker: name.clone(),
                        link,
                        order: Box::new(order),
                    },
                );
            }
        }
    }

    pub(super) fn fact(&mut self, worker: &str, link: u64, fact: fact::Fact) {
        if !self.fleet.is_current(worker, link) {
            return;
        }
        let shard_of = |lease_id: u64| u16::try_from(lease_id & 0xffff).unwrap();
        let name = worker.to_owned();
        match fact {
            fact::Fact::Hello(_) => {}
            fact::Fact::Outcome(outcome) => {
                let shard = shard_of(outcome.lease_id);
                let outcome = Box::new(outcome);
                self.tell(
                    shard,
                    ShardMsg::Outcome {
                        worker: name,
                        outcome,
                    },
                    0,
                );
            }
            fact::Fact::LeaseEnded(ended) => {
                let lease_id = ended.lease_id;
                self.tell(
                    shard_of(lease_id),
                    ShardMsg::LeaseEnded {
                        worker: name,
                        lease_id,
                    },
                    0,
                );
            }
            fact::Fact::Heartbeat(beat) => {
                for lease_id in beat.lease_ids {
                    let worker = name.clone();
                    self.tell(
                        shard_of(lease_id),
                        ShardMsg::Heartbeat { worker, lease_id },
                        0,
                    );
                }
            }
            fact::Fact::Draining(_) => {
                let waiting = self.fleet.drain(worker);
                self.poke(waiting);
            }
        }
    }

    pub(super) fn ordered(&mut self, name: &str, link: u64, order: order::Order) {
        let now = self.now;
        let worker = self.workers.get_mut(name).unwrap();
        if worker.link != Some(link) {
            return;
        }
        let life = worker.life;
        match order {
            order::Order::Welcome(_) | order::Order::Drain(_) => {}
            order::Order::Lease(lease) => {
                let lease_id = lease.lease_id;
                let held = Held {
                    lease_id,
                    epoch: lease.epoch,
                    host: lease.host,
                    interval: millis(lease.interval_millis),
                    not_before: now + millis(lease.not_before_millis),
                    ends: now + millis(lease.ttl_millis).saturating_sub(MARGIN),
                    in_flight: usize::try_from(lease.in_flight.max(1)).unwrap(),
                    queue: lease.tickets.into(),
                    flying: BTreeMap::new(),
                    rules: if lease.robots.is_some() {
                        Rules::Known
                    } else {
                        Rules::Unknown
                    },
                    fresh: None,
                    last_start: None,
                };
                worker.leases.entry(lease_id).or_insert(held);
                self.note(|| format!("{name} has lease {lease_id}"));
                self.wake(name, life, lease_id);
            }
            order::Order::Extend(extend) => {
                if let Some(held) = worker.leases.get_mut(&extend.lease_id) {
                    for ticket in extend.tickets.into_iter().rev() {
                        held.queue.push_front(ticket);
                    }
                }
                self.wake(name, life, extend.lease_id);
            }
            order::Order::Renew(renew) => {
                if let Some(held) = worker.leases.get_mut(&renew.lease_id) {
                    held.ends = held.ends.max(now + millis(renew.ttl_millis) - MARGIN);
                }
                self.wake(name, life, renew.lease_id);
            }
            order::Order::Revoke(revoke) => self.revoked(name, &revoke),
            order::Order::Kept(kept) => {
                for ticket_id in kept.ticket_ids {
                    worker.unkept.remove(&(kept.lease_id, ticket_id));
                }
            }
        }
    }

    fn revoked(&mut self, name: &str, revoke: &v1::Revoke) {
        let worker = self.workers.get_mut(name).unwrap();
        let life = worker.life;
        let Some(mut held) = worker.leases.remove(&revoke.lease_id) else {
            return;
        };
        let is_asked = |ticket: &v1::Ticket| {
            revoke.session_id.is_empty() || ticket.session_id == revoke.session_id
        };
        let (gone, kept) = held.queue.drain(..).partition(is_asked);
        held.queue = kept;
        let gone: VecDeque<v1::Ticket> = gone;
        for ticket in gone {
            self.give_back(name, &mut held, &ticket, "revoked");
        }
        let worker = self.workers.get_mut(name).unwrap();
        worker.leases.insert(revoke.lease_id, held);
        self.wake(name, life, revoke.lease_id);
    }

    /// Does what a lease allows now.
    pub(super) fn wake(&mut self, name: &str, life: u64, lease_id: u64) {
        let worker = self.workers.get_mut(name).unwrap();
        if worker.life != life {
            return;
        }
        let Some(mut held) = worker.leases.remove(&lease_id) else {
            return;
        };
        let is_draining = worker.is_draining;
        let is_over = self.now >= held.ends;
        if is_over {
            for flight in std::mem::take(&mut held.flying).into_values() {
                self.visits.end(flight.visit, self.now);
                match flight.ticket {
                    Some(ticket) => {
                        self.give_back(name, &mut held, &ticket, "lease_over");
                    }
                    None => held.rules = Rules::Unknown,
                }
            }
        }
        let latest = held.ends - self.setup.fetch_timeout;
        let is_closed = held.flying.is_empty() && self.now > latest;
        if is_draining || is_over || is_closed || held.rules == Rules::Closed {
            let why = if held.rules == Rules::Closed {
                Code::RobotsUnreachable.word()
            } else {
                "lease_over"
            };
            for ticket in std::mem::take(&mut held.queue) {
                self.give_back(name, &mut held, &ticket, why);
            }
        }
        while self.start_one(name, &mut held) {}
        if held.queue.is_empty() && held.flying.is_empty() {
            self.note(|| format!("{name} is done with {lease_id}"));
            self.up(name, fact::Fact::LeaseEnded(v1::LeaseEnded { lease_id }));
            self.workers.get_mut(name).unwrap().ended.push(lease_id);
            return;
        }
        let next = if held.not_before > self.now {
            held.not_before
        } else {
            held.ends
        };
        let wake = Event::Wake {
            worker: name.to_owned(),
            life,
            lease_id,
        };
        self.at(next.min(held.ends).max(self.now + millis(1)), wake);
        self.workers
            .get_mut(name)
            .unwrap()
            .leases
            .insert(lease_id, held);
    }

    fn start_one(&mut self, name: &str, held: &mut Held) -> bool {
        let lease_id = held.lease_id;
        let now = self.now;
        let is_open = now <= held.ends - self.setup.fetch_timeout
            && held.flying.len() < held.in_flight
            && now >= held.not_before
            && !matches!(held.rules, Rules::Asked | Rules::Closed);
        if !is_open || held.queue.is_empty() {
            return false;
        }
        if held.rules == Rules::Known
            && matches!(
                self.web.answers.get(&held.queue[0].url),
                Some(Answer::Forbidden)
            )
        {
            let ticket = held.queue.pop_front().unwrap();
            let refused = v1::Refused {
                code: "robots".into(),
                ..v1::Refused::default()
            };
            self.report(name, held, &ticket, Report::Refused(refused), (false, 0));
            return true;
        }
        let ticket = if held.rules == Rules::Known {
            held.queue.pop_front()
        } else {
            None
        };
        if ticket.is_none() {
            held.rules = Rules::Asked;
        }
        held.not_before = now + held.interval;
        held.last_start = Some(now);
        if let Some(ticket) = &ticket {
            self.check_start(ticket);
        }
        let least = self.setup.policy.min_interval;
        let visit = self.visits.start(&held.host, now, least);
        let url = ticket
            .as_ref()
            .map_or("robots.txt", |ticket| &ticket.url)
            .to_owned();
        let host = held.host.clone();
        self.note(|| format!("{name} asks {host} for {url} under {lease_id}"));
        let timeout = u64::try_from(self.setup.fetch_timeout.as_millis()).unwrap();
        let most = self.web.site(&held.host).latency.min(timeout);
        let latency = self.random.below(most + 1);
        let worker = self.workers.get_mut(name).unwrap();
        worker.flights += 1;
        let (flight, life) = (worker.flights, worker.life);
        held.flying.insert(flight, Flight { ticket, visit });
        let landed = Event::Landed {
            worker: name.to_owned(),
            life,
            lease_id,
            flight,
        };
        self.after(latency, landed);
        true
    }

    pub(super) fn landed(&mut self, name: &str, life: u64, lease_id: u64, flight: u64) {
        let worker = self.workers.get_mut(name).unwrap();
        if worker.life != life {
            return;
        }
        let Some(mut held) = worker.leases.remove(&lease_id) else {
            return;
        };
        if let Some(done) = held.flying.remove(&flight) {
            self.visits.end(done.visit, self.now);
            match done.ticket {
                None => self.robots_answered(&mut held),
                Some(ticket) => {
                    let (result, facts) = self.answer(&ticket);
                    self.report(name, &mut held, &ticket, result, facts);
                }
            }
        }
        self.workers
            .get_mut(name)
            .unwrap()
            .leases
            .insert(lease_id, held);
        self.wake(name, life, lease_id);
    }

    fn robots_answered(&mut self, held: &mut Held) {
        let site = self.web.site(&held.host);
        let tries = self
            .tries
            .entry(format!("{}/robots.txt", held.host))
            .or_default();
        *tries += 1;
        let mut copy = v1::RobotsCopy {
            max_age_millis: 600_000,
            ..v1::RobotsCopy::default()
        };
        if site.is_dead || *tries <= site.robots_failures {
            copy.set_verdict(Verdict::Unreachable);
            copy.code = "timeout".into();
            held.rules = Rules::Closed;
        } else {
            copy.set_verdict(Verdict::Rules);
            copy.crawl_delay_millis = site.crawl_delay;
            held.rules = Rules::Known;
            if let Some(more) = millis(site.crawl_delay).checked_sub(held.interval) {
                held.not_before = held.not_before + more;
                held.interval = millis(site.crawl_delay);
            }
        }
        held.fresh = Some(copy);
    }

    /// What the web says, and whether the host pushes back.
    fn answer(&mut self, ticket: &v1::Ticket) -> (Report, (bool, u64)) {
        let tries = self.tries.entry(ticket.url.clone()).or_default();
        *tries += 1;
        let tries = *tries;
        let cap = ticket
            .fetch
            .as_ref()
            .map_or(0, |fetch| fetch.max_body_bytes);
        let cap = if cap == 0 { u64::MAX } else { cap };
        let failed = |status: u32, may_retry| v1::Failed {
            code: "http_status".into(),
            status,
            may_retry,
            ..v1::Failed::default()
        };
        match self.web.answers[&ticket.url].clone() {
            Answer::Page {
                links,
                size,
                content,
            } => (
                page(&links, size.min(cap), content.to_string().as_bytes()),
                (false, 0),
            ),
            Answer::Redirect(target) => {
                let redirected = v1::Redirected {
                    status: 301,
                    target,
                };
                (Report::Redirected(redirected), (false, 0))
            }
            Answer::Gone => (Report::Failed(failed(404, false)), (false, 0)),
            Answer::Flaky { failures, .. } if tries <= failures => {
                (Report::Failed(failed(500, true)), (false, 0))
            }
            Answer::Busy { times, .. } if tries <= times => {
                (Report::Failed(failed(429, true)), (true, 5_000))
            }
            Answer::Flaky { size, .. } | Answer::Busy { size, .. } => {
                (page(&[], size.min(cap), ticket.url.as_bytes()), (false, 0))
            }
            Answer::Forbidden => {
                let refused = v1::Refused {
                    code: "robots".into(),
                    ..v1::Refused::default()
                };
                (Report::Refused(refused), (false, 0))
            }
        }
    }

    fn give_back(&mut self, name: &str, held: &mut Held, ticket: &v1::Ticket, why: &str) {
        let returned = v1::Returned {
            code: why.to_owned(),
        };
        self.report(name, held, ticket, Report::Returned(returned), (false, 0));
    }

    fn report(
        &mut self,
        name: &str,
        held: &mut Held,
        ticket: &v1::Ticket,
        result: Report,
        pushed_back: (bool, u64),
    ) {
        let since = held.last_start.map(|start| self.now.since(start));
        let facts = v1::HostFacts {
            has_started: since.is_some(),
            since_start_millis: u64::try_from(since.unwrap_or_default().as_millis()).unwrap(),
            robots: held.fresh.take(),
            pushed_back: pushed_back.0,
            retry_after_millis: pushed_back.1,
            ..v1::HostFacts::default()
        };
        let lease_id = held.lease_id;
        let outcome = v1::Outcome {
            cookies: Vec::new(),
            lease_id,
            ticket_id: ticket.ticket_id,
            epoch: held.epoch,
            session_id: ticket.session_id.clone(),
            url: ticket.url.clone(),
            host: Some(facts),
            result: Some(result),
        };
        self.up(name, fact::Fact::Outcome(outcome.clone()));
        if self.random.chance(3) {
            self.up(name, fact::Fact::Outcome(outcome.clone()));
        }
        let worker = self.workers.get_mut(name).unwrap();
        worker.unkept.insert((lease_id, ticket.ticket_id), outcome);
    }
}

fn page(links: &[String], size: u64, content: &[u8]) -> Report {
    let digest = Digest::of(content);
    let link = |url: &String| v1::Link {
        url: url.clone(),
        ..v1::Link::default()
    };
    Report::Captured(v1::Captured {
        page: Some(v1::Page {
            size,
            status: 200,
            ..v1::Page::default()
        }),
        links: links.iter().map(link).collect(),
        content_digest: digest.as_bytes().to_vec().into(),
        ..v1::Captured::default()
    })
}
