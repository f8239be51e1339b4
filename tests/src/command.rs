//! The command run to its end, and what it wrote.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::Value;
use tempfile::TempDir;

use crate::fake_web::FakeWeb;
use crate::process::{crawlforge, wait_for};

/// How long a command may take in all.
const COMMAND_WITHIN: Duration = Duration::from_secs(240);

/// What a command left behind.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; -1 for a signal.
    pub code: i32,
    /// Its data.
    pub stdout: String,
    /// Its words for people.
    pub stderr: String,
}

/// Lets the test's names and addresses through, with no bound per address, since all hosts are one machine.
pub fn web_flags(interval: &str) -> Vec<String> {
    let flags = [
        "--allow-net",
        "127.0.0.0/8",
        "--resolve",
        "*.test=127.0.0.1",
        "--per-address",
        "0",
    ];
    let mut flags: Vec<String> = flags.map(str::to_owned).to_vec();
    flags.extend(["--min-interval".to_owned(), interval.to_owned()]);
    flags
}

/// Runs `crawlforge ARGS` in `folder`, which also holds its data, and waits for its end.
pub fn run(folder: &Path, args: &[String]) -> Result<Finished> {
    let stdout = tempfile::tempfile()?;
    let stderr = tempfile::tempfile()?;
    let mut child = Command::new(crawlforge())
        .args(args)
        .arg("--data-dir")
        .arg(folder.join("data"))
        .current_dir(folder)
        .env_remove("CRAWLFORGE_API_KEY")
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()
        .context("start the command")?;
    let ended = wait_for("the command to end", COMMAND_WITHIN, || {
        child.try_wait()?.context("it still runs")
    });
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    let output = Output {
        status: ended?,
        stdout: read(stdout)?,
        stderr: read(stderr)?,
    };
    Ok(Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

fn read(mut file: fs::File) -> Result<Vec<u8>> {
    use std::io::{Read as _, Seek as _};
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// One `crawlforge crawl --json --output` in a folder of its own.
pub struct Crawl {
    folder: TempDir,
    /// How the command ended.
    pub finished: Finished,
}

impl Crawl {
    /// Crawls the seeds of a fake web in one process.
    pub fn of(web: &FakeWeb, interval: &str, seeds: &[&str], more: &[&str]) -> Result<Self> {
        let mut args = web_flags(interval);
        args.extend(more.iter().map(|&word| word.to_owned()));
        let seeds: Vec<String> = seeds.iter().map(|host| web.url(host, "/")).collect();
        Self::with(&seeds, &args)
    }

    /// Crawls with these flags and no others.
    pub fn with(seeds: &[String], flags: &[String]) -> Result<Self> {
        let folder = TempDir::new()?;
        let output = folder.path().join("out");
        let mut args = vec!["crawl".to_owned()];
        args.extend_from_slice(seeds);
        args.extend([
            "--json".to_owned(),
            "--output".to_owned(),
            output.display().to_string(),
        ]);
        args.extend_from_slice(flags);
        let finished = run(folder.path(), &args)?;
        Ok(Self { folder, finished })
    }

    /// Runs another `crawlforge` command on the same data.
    pub fn then(&self, args: &[&str]) -> Result<Finished> {
        let args: Vec<String> = args.iter().map(|&word| word.to_owned()).collect();
        run(self.folder.path(), &args)
    }

    /// The output folder, which may not exist.
    pub fn output(&self) -> std::path::PathBuf {
        self.folder.path().join("out")
    }

    /// The summary on stdout.
    pub fn summary(&self) -> Result<Value> {
        let shown = || format!("read the summary of {:?}", self.finished);
        serde_json::from_str(&self.finished.stdout).with_context(shown)
    }

    /// Rows of `manifest.jsonl`: the captured pages.
    pub fn manifest(&self) -> Result<Vec<Value>> {
        self.rows("manifest.jsonl")
    }

    /// Rows of `ledger.jsonl`: every URL.
    pub fn ledger(&self) -> Result<Vec<Value>> {
        self.rows("ledger.jsonl")
    }

    /// The URLs of the captured pages, in the order of the manifest.
    pub fn urls(&self) -> Result<Vec<String>> {
        Ok(self
            .manifest()?
            .iter()
            .map(|row| text(row, "url"))
            .collect())
    }

    fn rows(&self, name: &str) -> Result<Vec<Value>> {
        rows(&self.output().join(name)).with_context(|| format!("after {:?}", self.finished))
    }
}

/// The objects of a JSON Lines file.
pub fn rows(path: &Path) -> Result<Vec<Value>> {
    let lines = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    lines
        .lines()
        .map(|line| Ok(serde_json::from_str(line)?))
        .collect()
}

/// A text field of a row, empty when it is not there.
pub fn text(row: &Value, key: &str) -> String {
    row.get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
