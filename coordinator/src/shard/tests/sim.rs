//! A deterministic simulation of the frontier: shards, sessions, workers and a web under one virtual clock, from a seed.
//!
//! Workers join, die, drain and are cut off; shards fall and come back from the store, or the whole process does; mail
//! is late and comes twice; sessions are paused, resumed, cancelled, and have every kind of limit. The promises are
//! checked at every step and at the end.
//!
//! `CRAWLFORGE_SIM_SEEDS=5000` runs so many seeds, `CRAWLFORGE_SIM_SEED=42` that one and tells its story.

mod chaos;
mod check;
mod random;
mod sessions;
mod web;
mod worker;
mod world;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use proto::Timestamp;

use self::random::Random;
use self::world::{Event, Setup, World, millis};
use crate::shard::Policy;

/// How long the default run may take.
const DEFAULT_RUN: Duration = Duration::from_secs(20);
/// Seeds that fail before a run gives up.
const MOST_BROKEN: usize = 40;
/// Events after which a session that has not ended never will.
const MOST_EVENTS: u64 = 500_000;

fn setup(random: &mut Random) -> Setup {
    let lease = random.one(&[3_000, 10_000, 60_000]);
    let chaos = random.one(&[0, 20_000, 60_000, 120_000]);
    Setup {
        shards: u16::try_from(random.one(&[1, 2, 3, 5])).unwrap(),
        policy: Policy {
            max_redirects: 10,
            min_interval: millis(random.one(&[20, 200, 1_000, 4_000])),
            per_host: 1,
            per_domain: 2,
            lease: millis(lease),
        },
        fetch_timeout: millis(lease / 3),
        calm_from: Timestamp::from_millis(1_000_000_000_000 + chaos),
        trouble_each: random.one(&[100, 500, 2_000, 10_000]),
        is_orderly: random.chance(20),
        post: random.one(&[2, 30, 3_000]),
    }
}

/// Lives through one seed; panics where a promise is broken.
fn live(seed: u64, story: &mut Vec<String>) {
    let mut random = Random::new(seed);
    let setup = setup(&mut random);
    let mut world = World::new(random, setup);
    let lived = std::panic::catch_unwind(AssertUnwindSafe(|| run(&mut world)));
    story.push(format!("{:?}", world.setup));
    story.extend(world.story.drain(..));
    if let Err(panic) = lived {
        std::panic::resume_unwind(panic);
    }
}

fn run(world: &mut World) {
    for _ in 0..world.random.between(1, 3) {
        world.add_worker();
    }
    let sessions = world.random.between(1, 3);
    for _ in 0..sessions {
        let wait = world.random.below(10_000);
        world.after(wait, Event::Begin);
    }
    world.after(1, Event::Chaos);
    let mut events = 0;
    let is_over =
        |world: &World| world.sessions.records.len() as u64 == sessions && world.sessions.is_over();
    while !is_over(world) || world.now < world.setup.calm_from || !world.is_whole() {
        let has_more = events < MOST_EVENTS && world.step();
        assert!(has_more, "the sessions do not end: {}", world.standstill());
        world.check_step();
        events += 1;
    }
    // What workers still hold comes back at the end of its lease at the latest.
    let rest = world.now + world.setup.policy.lease * 3;
    while world.now < rest {
        world.step();
    }
    world.check_rest();
}

#[expect(
    clippy::disallowed_methods,
    reason = "how much to run is the caller's choice"
)]
fn asked(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
}

#[test]
fn the_promises_hold_through_every_kind_of_trouble() {
    let only = asked("CRAWLFORGE_SIM_SEED");
    let count = asked("CRAWLFORGE_SIM_SEEDS");
    let first = only.or(asked("CRAWLFORGE_SIM_FROM")).unwrap_or(0);
    let began = Instant::now();
    let mut broken = Vec::new();
    let mut seed = first;
    loop {
        let mut story = Vec::new();
        let lived = std::panic::catch_unwind(AssertUnwindSafe(|| live(seed, &mut story)));
        if only.is_some() {
            println!("{}", story.join("\n"));
        }
        if let Err(panic) = lived {
            let why = panic.downcast_ref::<String>().cloned();
            let why = why.or(panic.downcast_ref::<&str>().map(|&why| why.to_owned()));
            broken.push((seed, why.unwrap_or_default()));
        }
        seed += 1;
        let is_enough = match count {
            Some(count) => seed - first >= count,
            None => began.elapsed() >= DEFAULT_RUN,
        };
        if only.is_some() || is_enough || broken.len() >= MOST_BROKEN {
            break;
        }
    }
    println!("{} seeds in {:?}", seed - first, began.elapsed());
    let replay = "cargo test -p coordinator --lib -- --nocapture the_promises_hold";
    for (seed, why) in &broken {
        println!("seed {seed}: {why}\n    CRAWLFORGE_SIM_SEED={seed} {replay}");
    }
    assert!(broken.is_empty(), "{} seeds break a promise", broken.len());
}
