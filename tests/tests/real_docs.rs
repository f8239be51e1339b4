//! Real sites: documentation of different makes as Debian ships it, served by Debian's nginx and captured whole, one
//! of them on a cluster, too. What is there is found out by another program with another parser (`scripts/walk.py`).

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

/// A documentation package.
struct Docs {
    folder: &'static str,
    /// Fewer pages than this are not the whole of it.
    least: usize,
}

/// Made by Sphinx.
const PYTHON: Docs = Docs {
    folder: "/usr/share/doc/python3-doc/html",
    least: 500,
};
/// Made by javadoc, with frames.
const XBEAN: Docs = Docs {
    folder: "/usr/share/doc/libxbean-java/api",
    least: 600,
};
/// Written by hand.
const SQLITE: Docs = Docs {
    folder: "/usr/share/doc/sqlite3",
    least: 700,
};
/// One manual in eight languages, made by Publican.
const HARDEN: Docs = Docs {
    folder: "/usr/share/doc/harden-doc/html",
    least: 700,
};

impl Docs {
    /// Serves the package; `None`, with a word about it, where it is not installed.
    fn serve(&self) -> Result<Option<Nginx>> {
        for needed in [NGINX, self.folder] {
            if !Path::new(needed).exists() {
                println!("SKIPPED: {needed} is missing; tests/setup installs it");
                return Ok(None);
            }
        }
        Nginx::start(Path::new(self.folder)).map(Some)
    }
}

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

fn settings() -> Vec<String> {
    words(&["--allow-net", "127.0.0.0/8", "--min-interval", "0"])
}

fn crawl_args(seed: &str) -> Vec<String> {
    words(&[
        "crawl",
        seed,
        "--max-pages",
        "100000",
        "--max-depth",
        "100",
        "--json",
        "--output",
        "out",
    ])
}

/// A package captured whole by one process.
struct Whole {
    folder: TempDir,
    there: BTreeMap<String, String>,
    captured: BTreeSet<String>,
    session: String,
}

impl Whole {
    fn capture(docs: &Docs, nginx: &Nginx) -> Result<Self> {
        let seed = format!("http://{}/", nginx.address);
        let walk = {
            let seed = seed.clone();
            std::thread::spawn(move || walked(&seed))
        };
        let folder = TempDir::new()?;
        let mut args = crawl_args(&seed);
        args.extend(settings());
        let finished = run(folder.path(), &args)?;
        ensure!(finished.code == 0, "{finished:?}");
        let there = walk
            .join()
            .map_err(|_| anyhow::anyhow!("the walk panicked"))??;
        ensure!(there.len() >= docs.least, "{} URLs are there", there.len());
        let captured = assert_same(&there, &folder.path().join("out"))?;
        println!("{} URLs, {} pages", there.len(), captured.len());
        let session = text(&serde_json::from_str(&finished.stdout)?, "session_id");
        Ok(Self {
            folder,
            there,
            captured,
            session,
        })
    }

    /// The rows of the pages.
    fn manifest(&self) -> Result<Vec<Value>> {
        rows(&self.folder.path().join("out/manifest.jsonl"))
    }

    /// The Markdown of the page whose address ends like this.
    fn markdown(&self, end: &str) -> Result<String> {
        let manifest = self.manifest()?;
        let mut named = manifest
            .iter()
            .filter(|row| text(row, "url").ends_with(end));
        Ok(text(
            named.next().with_context(|| format!("no page {end}"))?,
            "content",
        ))
    }
}

#[test]
fn python_s_documentation_is_captured_whole_in_one_process_and_on_a_cluster() -> Result<()> {
    let Some(nginx) = PYTHON.serve()? else {
        return Ok(());
    };
    let alone = Whole::capture(&PYTHON, &nginx)?;
    let mut client = McpClient::stdio("mcp", &alone.folder.path().join("data"), &settings())?;
    assert_eq!(
        sitemap(&mut client, &alone.session)?,
        alone.captured,
        "the sitemap is what was captured"
    );
    client.close()?;

    let mut cluster = Cluster::start(2, &settings(), &[])?;
    let gateway = cluster.add_gateway()?;
    let together = TempDir::new()?;
    let mut args = crawl_args(&format!("http://{}/", nginx.address));
    args.extend(words(&["--coordinator", &cluster.url()]));
    let finished = run(together.path(), &args)?;
    ensure!(finished.code == 0, "{finished:?}");
    let captured = assert_same(&alone.there, &together.path().join("out"))?;
    let session = text(&serde_json::from_str(&finished.stdout)?, "session_id");
    let mut client = McpClient::http(gateway)?;
    assert_eq!(
        sitemap(&mut client, &session)?,
        captured,
        "the sitemap is what was captured"
    );
    Ok(())
}

#[test]
fn a_javadoc_tree_is_captured_whole_and_reads_without_its_navigation() -> Result<()> {
    let Some(nginx) = XBEAN.serve()? else {
        return Ok(());
    };
    let whole = Whole::capture(&XBEAN, &nginx)?;
    for row in whole.manifest()? {
        assert_ne!(text(&row, "title"), "", "{} has a title", text(&row, "url"));
    }
    let page = whole.markdown("/org/apache/xbean/finder/archive/ClassesArchive.html")?;
    assert!(page.contains("# Class ClassesArchive"), "{page}");
    assert!(
        page.contains("\n### Method Detail\n\n#### iterator\n"),
        "{page}"
    );
    assert!(!page.contains("Prev Class"), "{page}");
    Ok(())
}

#[test]
fn documentation_written_by_hand_is_captured_whole() -> Result<()> {
    let Some(nginx) = SQLITE.serve()? else {
        return Ok(());
    };
    let whole = Whole::capture(&SQLITE, &nginx)?;
    let page = whole.markdown("/datatype3.html")?;
    for part in [
        "# 2. Storage Classes and Datatypes",
        "- **NULL**. The value is a NULL value.",
        "CREATE TABLE t1(a INT, b VARCHAR(10));",
    ] {
        assert!(page.contains(part), "{part:?} in {page}");
    }
    Ok(())
}

#[test]
fn a_manual_in_eight_languages_is_captured_whole() -> Result<()> {
    let Some(nginx) = HARDEN.serve()? else {
        return Ok(());
    };
    let whole = Whole::capture(&HARDEN, &nginx)?;
    for language in [
        "de-DE", "en-US", "es-ES", "fr-FR", "it-IT", "ja-JP", "pt-BR", "zh-CN",
    ] {
        let start = format!("http://{}/{language}/", nginx.address);
        let pages = whole.captured.iter().filter(|url| url.starts_with(&start));
        assert!(pages.count() > 20, "pages in {language}");
    }
    let page = whole.markdown("/ja-JP/ch04s20.html")?;
    assert!(page.contains("## 4.20. 推奨されている他の事項"), "{page}");
    Ok(())
}
