//! A real site: Python's documentation as Debian ships it, served by Debian's nginx, captured whole in one process
//! and on a cluster. What is there is found out by another program with another parser (`scripts/walk.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tests::cluster::Cluster;
use tests::command::{rows, run, text};
use tests::mcp_client::McpClient;
use tests::nginx::{NGINX, Nginx};

const DOCS: &str = "/usr/share/doc/python3-doc/html";
/// Fewer pages than this are not the whole documentation.
const LEAST_PAGES: usize = 500;

/// Digest by URL of everything that links lead to.
fn walked(seed: &str) -> Result<BTreeMap<String, String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/walk.py");
    let output = Command::new("python3").arg(script).arg(seed).output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = String::from_utf8(output.stdout)?;
    let row = |line: &str| -> Result<(String, String)> {
        let row: Value = serde_json::from_str(line)?;
        Ok((text(&row, "url"), text(&row, "digest")))
    };
    lines.lines().map(row).collect()
}

/// What a crawl wrote against what is there: nothing lost, nothing twice, equal bodies delivered once.
fn assert_same(there: &BTreeMap<String, String>, output: &Path) -> Result<BTreeSet<String>> {
    let manifest = rows(&output.join("manifest.jsonl"))?;
    let mut digests = BTreeSet::new();
    let mut captured = BTreeSet::new();
    for row in &manifest {
        let url = text(row, "url");
        let digest = there
            .get(&url)
            .with_context(|| format!("{url} is not there"))?;
        ensure!(text(row, "digest") == *digest, "{url} has another body");
        ensure!(
            digests.insert(digest.clone()),
            "{url}: its body was delivered before"
        );
        ensure!(captured.insert(url.clone()), "{url} is there twice");
    }
    let wanted: BTreeSet<String> = there.values().cloned().collect();
    ensure!(
        digests == wanted,
        "{} of {} bodies",
        digests.len(),
        wanted.len()
    );

    let ledger = rows(&output.join("ledger.jsonl"))?;
    let mut states: BTreeMap<String, String> = BTreeMap::new();
    for row in &ledger {
        let before = states.insert(text(row, "url"), text(row, "state"));
        ensure!(
            before.is_none(),
            "{} is in the ledger twice",
            text(row, "url")
        );
    }
    for (url, digest) in there {
        let state = states.get(url).map_or("absent", String::as_str);
        let same = there.values().filter(|other| *other == digest).count();
        let is_right = state == "captured" || (state == "duplicate" && same > 1);
        ensure!(is_right, "{url} ended as {state}");
    }
    Ok(captured)
}

/// The URLs in a sitemap resource.
fn sitemap(client: &mut McpClient, session: &str) -> Result<BTreeSet<String>> {
    let sitemap = client.read(&format!("crawlforge://crawl/{session}/sitemap"))?;
    let sitemap: Value = serde_json::from_str(&sitemap)?;
    let mut urls = BTreeSet::new();
    collect(&sitemap, &mut urls)?;
    Ok(urls)
}

fn collect(value: &Value, urls: &mut BTreeSet<String>) -> Result<()> {
    match value {
        Value::Object(fields) => {
            if let Some(url) = fields.get("url").and_then(Value::as_str) {
                ensure!(urls.insert(url.to_owned()), "{url} is in the sitemap twice");
            }
            fields.values().try_for_each(|value| collect(value, urls))
        }
        Value::Array(items) => items.iter().try_for_each(|value| collect(value, urls)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn python_s_documentation_is_captured_whole_in_one_process_and_on_a_cluster() -> Result<()> {
    for needed in [NGINX, DOCS] {
        if !Path::new(needed).exists() {
            println!("SKIPPED: {needed} is missing; tests/setup installs it");
            return Ok(());
        }
    }
    let nginx = Nginx::start(Path::new(DOCS))?;
    let seed = format!("http://{}/", nginx.address);
    let walk = {
        let seed = seed.clone();
        std::thread::spawn(move || walked(&seed))
    };
    let settings = words(&["--allow-net", "127.0.0.0/8", "--min-interval", "0"]);
    let mut crawl = words(&[
        "crawl",
        &seed,
        "--max-pages",
        "100000",
        "--max-depth",
        "100",
        "--json",
    ]);

    let alone = TempDir::new()?;
    let mut args = crawl.clone();
    args.extend(words(&["--output", "out"]));
    args.extend_from_slice(&settings);
    let finished = run(alone.path(), &args)?;
    ensure!(finished.code == 0, "{finished:?}");
    let there = walk
        .join()
        .map_err(|_| anyhow::anyhow!("the walk panicked"))??;
    ensure!(
        there.len() >= LEAST_PAGES,
        "{} pages are there",
        there.len()
    );
    let captured = assert_same(&there, &alone.path().join("out"))?;
    let session = text(&serde_json::from_str(&finished.stdout)?, "session_id");
    let mut client = McpClient::stdio("mcp", &alone.path().join("data"), &settings)?;
    assert_eq!(
        sitemap(&mut client, &session)?,
        captured,
        "the sitemap is what was captured"
    );
    client.close()?;

    let mut cluster = Cluster::start(2, &settings, &[])?;
    let gateway = cluster.add_gateway()?;
    let together = TempDir::new()?;
    crawl.extend(words(&["--output", "out", "--coordinator", &cluster.url()]));
    let finished = run(together.path(), &crawl)?;
    ensure!(finished.code == 0, "{finished:?}");
    let captured = assert_same(&there, &together.path().join("out"))?;
    let session = text(&serde_json::from_str(&finished.stdout)?, "session_id");
    let mut client = McpClient::http(gateway)?;
    assert_eq!(
        sitemap(&mut client, &session)?,
        captured,
        "the sitemap is what was captured"
    );
    println!(
        "{} URLs, {} pages, in both modes",
        there.len(),
        captured.len()
    );
    Ok(())
}
