//! What goes wrong, until the calm: joins, deaths, drains, cut links, falls of shards and of the whole process.

use proto::SessionId;
use proto::v1::control_request::Order;

use super::world::{Event, World};

impl World {
    /// Lets one thing go wrong and sets the next; from the calm on, all that can come back does.
    pub(super) fn chaos(&mut self) {
        if self.now >= self.setup.calm_from {
            return self.calm();
        }
        let most = self.setup.trouble_each.max(2) * 2;
        let wait = self.random.between(1, most);
        let wait = u64::try_from(self.setup.calm_from.since(self.now).as_millis())
            .unwrap()
            .min(wait);
        self.after(wait.max(1), Event::Chaos);
        let linked: Vec<String> = self.linked().collect();
        let sessions = self.running();
        let trouble = if self.setup.is_orderly {
            self.random.one(&[0, 80, 88, 88, 96])
        } else {
            self.random.below(100)
        };
        match trouble {
            0..12 => self.add_worker(),
            12..30 if !linked.is_empty() => {
                let name = self.random.one(&linked);
                self.kill_worker(&name);
            }
            30..38 if linked.len() > 1 => {
                let name = self.random.one(&linked);
                self.drain_worker(&name);
            }
            38..52 if !linked.is_empty() => {
                let worker = self.random.one(&linked);
                self.note(|| format!("{worker} is cut off"));
                self.break_link(&worker);
                let life = self.workers[&worker].life;
                let wait = self.random.between(10, 120_000);
                self.after(wait, Event::Link { worker, life });
            }
            52..68 if self.is_up => {
                let shard = u16::try_from(self.random.below(u64::from(self.setup.shards))).unwrap();
                if self.shards[usize::from(shard)].core.is_some() {
                    self.crash_shard(shard);
                }
            }
            68..74 if self.is_up => self.crash_coordinator(),
            74..80 => self.fail_next_commit = true,
            80..88 if self.is_up && !sessions.is_empty() => self.order(&sessions, Order::Pause),
            88..96 if self.is_up && !sessions.is_empty() => self.order(&sessions, Order::Resume),
            96..97 if self.is_up && !sessions.is_empty() => self.order(&sessions, Order::Cancel),
            _ => {}
        }
    }

    fn order(&mut self, sessions: &[SessionId], order: Order) {
        let session = self.random.one(sessions);
        self.note(|| format!("session {}: {order:?}", session.as_bytes()[0]));
        self.control(&session, order);
    }

    pub(super) fn linked(&self) -> impl Iterator<Item = String> {
        let linked = self
            .workers
            .iter()
            .filter(|(_, worker)| worker.link.is_some());
        linked
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn calm(&mut self) {
        if !self.is_up {
            return self.after(1_000, Event::Chaos);
        }
        self.note(|| "calm".to_owned());
        self.fail_next_commit = false;
        self.add_worker();
        for session in self.running() {
            self.control(&session, Order::Resume);
        }
    }
}
