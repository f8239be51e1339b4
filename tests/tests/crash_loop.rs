//! A crawl while its processes are killed at random, one every few seconds, until it ends: gateway, coordinator or one
//! of three workers, each started again. Then everything that is promised must have held.
//!
//! The default run is one crawl. `CRAWLFORGE_CRASH_LOOP=N` runs the whole matrix of page limits N times;
//! `CRAWLFORGE_CRASH_SEED=S` chooses who is killed when.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tests::cluster::Cluster;
use tests::command::{rows, text, web_flags};
use tests::fake_web::FakeWeb;
use tests::mcp_client::McpClient;
use tests::politeness::violations;
use tests::process::{crawlforge, wait_for};
use tests::site::Graph;

const HOSTS: usize = 20;
const PAGES: usize = 45;
const INTERVAL: Duration = Duration::from_millis(200);
const CRAWL_WITHIN: Duration = Duration::from_secs(240);
/// A short lease brings a dead worker's hosts back soon.
const LEASE: [&str; 2] = ["--lease", "3s"];

#[expect(
    clippy::disallowed_methods,
    reason = "the commands in this file's head name these"
)]
fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A limit of pages, from how many there are.
type LimitOf = fn(usize) -> usize;

/// SplitMix64: the same kills for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

fn web() -> Result<FakeWeb> {
    let graph = Graph {
        hosts: HOSTS,
        pages: PAGES,
        is_chained: true,
        ..Graph::default()
    };
    Ok(FakeWeb::start(|port| graph.site(port))?)
}

fn start_crawl(cluster: &Cluster, web: &FakeWeb, folder: &Path, max: usize) -> Result<Child> {
    let mut command = Command::new(crawlforge());
    command
        .arg("crawl")
        .arg(web.url("h0.test", "/"))
        .arg("--json");
    command.args(["--scope", "any", "--max-depth", "100"]);
    command.args(["--max-pages", &max.to_string()]);
    command.arg("--output").arg(folder.join("out"));
    command.args(["--coordinator", &cluster.url()]);
    let stdout = std::fs::File::create(folder.join("stdout"))?;
    let stderr = std::fs::File::create(folder.join("stderr"))?;
    let child = command
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()?;
    Ok(child)
}

/// Kills one process and starts its kind again.
fn kill_one(cluster: &mut Cluster, random: &mut Random) -> Result<&'static str> {
    match random.below(6) {
        0 => {
            if let Some(mut gateway) = cluster.gateway.take() {
                gateway.kill()?;
            }
            cluster.add_gateway()?;
            Ok("gateway")
        }
        1 | 2 => {
            cluster.coordinator.kill()?;
            cluster.restart_coordinator()?;
            Ok("coordinator")
        }
        _ => {
            let count = cluster.workers.len() as u64;
            let at = usize::try_from(random.below(count))?;
            cluster.workers.remove(at).kill()?;
            cluster.add_worker()?;
            Ok("worker")
        }
    }
}

/// One crawl under fire; `max` of `all` pages are asked for. Answers how often something was killed.
fn crawl_under_fire(seed: u64, max: impl Fn(usize) -> usize) -> Result<Vec<&'static str>> {
    let web = web()?;
    let seed_url = web.url("h0.test", "/");
    let expected = web
        .site()
        .reachable(std::slice::from_ref(&seed_url), 100, |_| true);
    let max = max(expected.len());
    let mut flags = web_flags("200ms");
    flags.extend(["--fetch-timeout", "1s"].map(str::to_owned));
    let mut cluster = Cluster::start(3, &flags, &LEASE)?;
    cluster.add_gateway()?;
    let folder = TempDir::new()?;
    let mut child = start_crawl(&cluster, &web, folder.path(), max)?;

    let mut random = Random(seed);
    let mut killed = Vec::new();
    let began = Instant::now();
    let status = loop {
        let pause = Duration::from_millis(1_000 + random.below(2_000));
        let ended = wait_for("the crawl to end", pause, || {
            child.try_wait()?.context("it still runs")
        });
        if let Ok(status) = ended {
            break status;
        }
        if began.elapsed() > CRAWL_WITHIN {
            child.kill()?;
            child.wait()?;
            let said = std::fs::read_to_string(folder.path().join("stderr"))?;
            anyhow::bail!("the crawl does not end; killed: {killed:?}\n{said}");
        }
        killed.push(kill_one(&mut cluster, &mut random)?);
    };

    let said = std::fs::read_to_string(folder.path().join("stderr"))?;
    assert_eq!(status.code(), Some(0), "killed {killed:?}\n{said}");
    let manifest = folder.path().join("out/manifest.jsonl");
    let rows = match max {
        0 if !manifest.exists() => Vec::new(),
        _ => rows(&manifest)?,
    };
    let urls: BTreeSet<String> = rows.iter().map(|row| text(row, "url")).collect();
    assert_eq!(urls.len(), rows.len(), "no page twice; killed {killed:?}");
    let strangers: Vec<&String> = urls
        .iter()
        .filter(|url| !expected.contains_key(*url))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert_eq!(rows.len(), max.min(expected.len()), "killed {killed:?}");
    if max >= expected.len() {
        // A page's own row tells how far it was when it was fetched; the ledger knows every link.
        let ledger = tests::command::rows(&folder.path().join("out/ledger.jsonl"))?;
        for row in ledger.iter().filter(|row| urls.contains(&text(row, "url"))) {
            let depth = expected.get(&text(row, "url")).copied();
            let told = row["depth"].as_u64();
            assert_eq!(told, depth.map(u64::from), "the shortest distance: {row}");
        }
        assert!(ledger.len() >= rows.len(), "the ledger knows every page");
    }
    let stdout = std::fs::read_to_string(folder.path().join("stdout"))?;
    let summary: serde_json::Value = serde_json::from_str(&stdout)?;
    let counts = summary["counts"].as_object().context("counts")?;
    let sum: u64 = counts.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(Some(sum), summary["admitted"].as_u64(), "{summary}");
    assert_eq!(
        violations(&web.visits(), INTERVAL),
        Vec::<String>::new(),
        "killed {killed:?}"
    );
    let again = cluster.add_gateway()?;
    let page = serde_json::json!({ "url": web.url("h1.test", "/") });
    let answer = McpClient::http(again)?.tool("scrape", &page)?.to_string();
    assert!(answer.contains("h1.test/ and no other page"), "{answer}");
    Ok(killed)
}

#[test]
fn a_crawl_under_fire_delivers_every_page_once() -> Result<()> {
    let seed = asked("CRAWLFORGE_CRASH_SEED").unwrap_or(1);
    let killed = crawl_under_fire(seed, |all| all + 1)?;
    assert!(killed.len() >= 3, "somebody was killed: {killed:?}");
    println!("killed {killed:?}");
    Ok(())
}

#[test]
fn limits_are_exact_under_fire() -> Result<()> {
    let Some(rounds) = asked("CRAWLFORGE_CRASH_LOOP") else {
        println!("skipped: CRAWLFORGE_CRASH_LOOP is not set");
        return Ok(());
    };
    let first = asked("CRAWLFORGE_CRASH_SEED").unwrap_or(1);
    for seed in first..first + rounds {
        let limits: [(&str, LimitOf); 6] = [
            ("none", |_| 0),
            ("one", |_| 1),
            ("seven", |_| 7),
            ("half", |all| all / 2),
            ("exactly all", |all| all),
            ("more than all", |all| all + 1),
        ];
        for (name, max) in limits {
            let killed =
                crawl_under_fire(seed, max).with_context(|| format!("{name}, seed {seed}"))?;
            println!("{name}, seed {seed}: killed {killed:?}");
        }
    }
    Ok(())
}
