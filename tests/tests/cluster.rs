//! A cluster of real processes on a fake web: what is promised must hold while its processes are killed, drained,
//! added and restarted. Judged by the visitor log and by the files that the command wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use tests::cluster::{Cluster, agent_of};
use tests::command::{Finished, rows, text, web_flags};
use tests::fake_web::{FakeWeb, Visit};
use tests::mcp_client::McpClient;
use tests::politeness::violations;
use tests::process::{crawlforge, wait_for};
use tests::site::{Graph, host_name};

const HOSTS: usize = 12;
const INTERVAL: Duration = Duration::from_millis(50);
/// How long a crawl may take, with the time that a dead worker's leases need to come back.
const CRAWL_WITHIN: Duration = Duration::from_secs(150);
const FIRST_PAGES_WITHIN: Duration = Duration::from_secs(30);

/// Coordinator settings that bring a dead worker's hosts back soon.
const SHORT_LEASE: [&str; 2] = ["--lease", "6s"];

fn web(pages: usize) -> Result<FakeWeb> {
    let graph = Graph {
        hosts: HOSTS,
        pages,
        is_chained: true,
        ..Graph::default()
    };
    Ok(FakeWeb::start(|port| graph.site(port))?)
}

fn flags() -> Vec<String> {
    let mut flags = web_flags("50ms");
    flags.extend(["--fetch-timeout", "2s"].map(str::to_owned));
    flags
}

/// A crawl of the whole web by the command, as a client of the cluster, running beside the test.
struct Running {
    folder: TempDir,
    child: std::process::Child,
}

impl Running {
    fn start(cluster: &Cluster, web: &FakeWeb) -> Result<Self> {
        let folder = TempDir::new()?;
        let mut command = Command::new(crawlforge());
        command
            .arg("crawl")
            .arg(web.url("h0.test", "/"))
            .arg("--json");
        command.args([
            "--scope",
            "any",
            "--max-pages",
            "100000",
            "--max-depth",
            "100",
        ]);
        command.arg("--output").arg(folder.path().join("out"));
        command.args(["--coordinator", &cluster.url()]);
        let stdout = std::fs::File::create(folder.path().join("stdout"))?;
        let stderr = std::fs::File::create(folder.path().join("stderr"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()?;
        Ok(Self { folder, child })
    }

    fn finish(mut self) -> Result<(TempDir, Finished)> {
        let ended = wait_for("the crawl to end", CRAWL_WITHIN, || {
            self.child.try_wait()?.context("it still runs")
        });
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name));
        let (stdout, stderr) = (read("stdout")?, read("stderr")?);
        let status = match ended {
            Ok(status) => status,
            Err(error) => {
                self.child.kill()?;
                self.child.wait()?;
                return Err(error.context(stderr));
            }
        };
        Ok((
            self.folder,
            Finished {
                code: status.code().unwrap_or(-1),
                stdout,
                stderr,
            },
        ))
    }
}

/// The results hold every reachable page exactly once, with its depth, and the states add up.
fn assert_whole(running: Running, web: &FakeWeb) -> Result<()> {
    let (folder, finished) = running.finish()?;
    assert_eq!(finished.code, 0, "{finished:?}");
    let expected = web
        .site()
        .reachable(&[web.url("h0.test", "/")], 100, |_| true);
    let rows = rows(&folder.path().join("out/manifest.jsonl"))?;
    let urls: BTreeSet<String> = rows.iter().map(|row| text(row, "url")).collect();
    let missing: Vec<&String> = expected.keys().filter(|url| !urls.contains(*url)).collect();
    assert!(
        missing.is_empty(),
        "{} pages lost: {missing:?}",
        missing.len()
    );
    assert_eq!(rows.len(), expected.len(), "no page twice");
    let summary: serde_json::Value = serde_json::from_str(&finished.stdout)?;
    let counts = summary["counts"].as_object().context("counts")?;
    let sum: u64 = counts.values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(Some(sum), summary["admitted"].as_u64(), "{summary}");
    Ok(())
}

fn hosts_by_agent(visits: &[Visit]) -> BTreeMap<String, BTreeSet<String>> {
    let mut hosts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for visit in visits {
        hosts
            .entry(visit.agent.clone())
            .or_default()
            .insert(visit.host.clone());
    }
    hosts
}

fn wait_for_pages(web: &FakeWeb, count: usize) {
    let is_there = web.wait_until(FIRST_PAGES_WITHIN, |visits| visits.len() >= count);
    assert!(is_there, "{count} visits, not {}", web.visits().len());
}

#[test]
fn three_workers_share_the_hosts_and_deliver_every_page_once() -> Result<()> {
    let web = web(15)?;
    let cluster = Cluster::start(3, &flags(), &[])?;
    assert_whole(Running::start(&cluster, &web)?, &web)?;
    let visits = web.visits();
    assert_eq!(violations(&visits, INTERVAL), Vec::<String>::new());
    let pages = web.page_visits();
    let different: BTreeSet<(String, String)> = pages
        .iter()
        .map(|visit| (visit.host.clone(), visit.path.clone()))
        .collect();
    assert_eq!(
        pages.len(),
        different.len(),
        "without a fault no page is fetched twice"
    );

    let shares = hosts_by_agent(&visits);
    assert_eq!(shares.len(), 3, "each worker had hosts: {shares:?}");
    for (index, host) in (0..HOSTS).map(|index| (index, host_name(index))) {
        let holders = shares
            .values()
            .filter(|hosts| hosts.contains(&host))
            .count();
        assert_eq!(
            holders, 1,
            "host {index} stayed with one worker: {shares:?}"
        );
    }
    Ok(())
}

#[test]
fn a_killed_worker_s_hosts_come_back_and_nothing_is_lost() -> Result<()> {
    let web = web(25)?;
    let mut cluster = Cluster::start(3, &flags(), &SHORT_LEASE)?;
    let running = Running::start(&cluster, &web)?;
    let victim = agent_of("worker-1");
    let has_begun = |visits: &[Visit]| {
        visits.len() > 60 && visits.iter().filter(|visit| visit.agent == victim).count() > 10
    };
    assert!(
        web.wait_until(FIRST_PAGES_WITHIN, has_begun),
        "the worker took part"
    );
    cluster.workers[1].kill()?;
    assert_whole(running, &web)?;
    assert_eq!(violations(&web.visits(), INTERVAL), Vec::<String>::new());
    Ok(())
}

#[test]
fn a_worker_that_joins_takes_its_share_and_one_that_drains_loses_nothing() -> Result<()> {
    let web = web(40)?;
    let mut cluster = Cluster::start(2, &flags(), &SHORT_LEASE)?;
    let running = Running::start(&cluster, &web)?;
    wait_for_pages(&web, 60);
    let newcomer = cluster.add_worker()?;
    let is_working = web.wait_until(FIRST_PAGES_WITHIN, |visits| {
        visits.iter().any(|visit| visit.agent == newcomer)
    });
    assert!(is_working, "the newcomer got hosts");
    let status = cluster.workers[0].stop()?;
    assert_eq!(status.code(), Some(0), "a drained worker ends well");
    let drained = agent_of("worker-0");
    let before = web
        .visits()
        .iter()
        .filter(|visit| visit.agent == drained)
        .count();
    assert_whole(running, &web)?;
    let after = web
        .visits()
        .iter()
        .filter(|visit| visit.agent == drained)
        .count();
    assert_eq!(before, after, "nothing came from it once it had ended");
    assert_eq!(violations(&web.visits(), INTERVAL), Vec::<String>::new());
    Ok(())
}

#[test]
fn a_coordinator_that_is_restarted_goes_on_where_it_was() -> Result<()> {
    let web = web(25)?;
    let mut cluster = Cluster::start(2, &flags(), &SHORT_LEASE)?;
    let running = Running::start(&cluster, &web)?;
    wait_for_pages(&web, 60);
    cluster.coordinator.stop()?;
    cluster.restart_coordinator()?;
    assert_whole(running, &web)?;
    assert_eq!(violations(&web.visits(), INTERVAL), Vec::<String>::new());
    Ok(())
}

#[test]
fn a_coordinator_that_is_killed_goes_on_where_it_was() -> Result<()> {
    let web = web(25)?;
    let mut cluster = Cluster::start(2, &flags(), &SHORT_LEASE)?;
    let running = Running::start(&cluster, &web)?;
    wait_for_pages(&web, 60);
    cluster.coordinator.kill()?;
    cluster.restart_coordinator()?;
    assert_whole(running, &web)?;
    assert_eq!(violations(&web.visits(), INTERVAL), Vec::<String>::new());
    Ok(())
}

#[test]
fn a_gateway_answers_for_the_cluster() -> Result<()> {
    let web = web(4)?;
    let mut cluster = Cluster::start(1, &flags(), &[])?;
    let address = cluster.add_gateway()?;
    let mut client = McpClient::http(address)?;
    let arguments = serde_json::json!({ "url": web.url("h1.test", "/") });
    let answer = client.tool("scrape", &arguments)?;
    let shown = answer.to_string();
    assert!(
        shown.contains("h1.test/ and no other page says so"),
        "{shown}"
    );
    Ok(())
}
