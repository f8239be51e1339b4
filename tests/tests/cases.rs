//! Runs the test cases that are kept as data.
//!
//! Every `*.jsonl` in `CASES_DIR` (beside the workspace by default) holds one kind of case, one a line; the README
//! there says what they mean. Each case runs in a thread of its own with a deadline, so that a hang is a failure and
//! not a hang. `CASE=ht-` runs the cases whose id begins so.

#[path = "cases/http.rs"]
mod http;
#[path = "cases/markdown.rs"]
mod markdown;
#[path = "cases/page_links.rs"]
mod page_links;
#[path = "cases/robots.rs"]
mod robots;
#[path = "cases/robots_http.rs"]
mod robots_http;
#[path = "cases/sitemaps.rs"]
mod sitemaps;
#[path = "cases/urls.rs"]
mod urls;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use base64::Engine as _;
use serde_json::Value;

/// How long one case may take, in a build that is not optimised.
const WITHIN: Duration = Duration::from_secs(20);

/// What a case says when it fails: expected and got.
type Verdict = Result<(), String>;

/// The runner of a kind; `None` for kinds that this program does not run.
fn runner(kind: &str) -> Option<fn(&Value, &Value) -> Verdict> {
    match kind {
        "robots" => Some(robots::check),
        "sitemap" => Some(sitemaps::check),
        "url" => Some(urls::check),
        "html_links" => Some(page_links::check),
        "markdown" => Some(markdown::check),
        "http" => Some(http::check),
        "robots_http" => Some(robots_http::check),
        _ => None,
    }
}

#[derive(Default)]
struct Count {
    passed: usize,
    failed: usize,
    not_run: usize,
}

#[test]
fn every_case_is_answered_as_it_says() {
    let folder = cases_dir();
    if !folder.is_dir() {
        println!("skipped: no cases at {}", folder.display());
        return;
    }
    let only = std::env::var_os("CASE").and_then(|id| id.into_string().ok());
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for file in case_files(&folder) {
        let text = std::fs::read_to_string(&file).expect("read a file of cases");
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let case: Value = serde_json::from_str(line).expect("a case is one JSON object a line");
            let kind = string(&case, "kind");
            let count = counts.entry(kind.clone()).or_default();
            if only
                .as_ref()
                .is_some_and(|only| !string(&case, "id").starts_with(only.as_str()))
            {
                continue;
            }
            let Some(check) = runner(&kind) else {
                count.not_run += 1;
                continue;
            };
            match within_deadline(check, case.clone()) {
                Ok(()) => count.passed += 1,
                Err(why) => {
                    count.failed += 1;
                    println!(
                        "FAILED {} ({})\n  {why}",
                        string(&case, "id"),
                        string(&case, "topic")
                    );
                }
            }
        }
    }
    for (kind, count) in &counts {
        let Count {
            passed,
            failed,
            not_run,
        } = count;
        println!("{kind}: {passed} passed, {failed} failed, {not_run} not run here");
    }
    let failed: usize = counts.values().map(|count| count.failed).sum();
    assert_eq!(failed, 0, "cases failed; they are listed above");
}

fn cases_dir() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    std::env::var_os("CASES_DIR").map_or_else(beside, PathBuf::from)
}

fn case_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("list the folder of cases");
    let paths = entries.map(|entry| entry.expect("list the folder of cases").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    files.sort();
    files
}

/// Runs a case in its own thread. One that never ends is left behind; the process ends without it.
fn within_deadline(check: fn(&Value, &Value) -> Verdict, case: Value) -> Verdict {
    let (answer, verdict) = mpsc::channel();
    let run = move || {
        let checked = check(&case["input"], &case["expected"]);
        drop(answer.send(checked));
    };
    // The stack of a usual worker thread: deep pages must not need more.
    let builder = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    builder.spawn(run).expect("start a thread for a case");
    match verdict.recv_timeout(WITHIN) {
        Ok(verdict) => verdict,
        Err(mpsc::RecvTimeoutError::Timeout) => Err(format!("no answer within {WITHIN:?}")),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err("panicked".to_owned()),
    }
}

/// A string, empty if there is none.
fn string(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The bytes under `key`, in any of the three forms that a text may have.
fn bytes(input: &Value, key: &str) -> Vec<u8> {
    if let Some(text) = input[key].as_str() {
        return text.as_bytes().to_vec();
    }
    if let Some(text) = input[format!("{key}_b64")].as_str() {
        let decoded = base64::engine::general_purpose::STANDARD.decode(text);
        return decoded.expect("base64 in a case");
    }
    let mut out = Vec::new();
    for part in input[format!("{key}_parts")]
        .as_array()
        .into_iter()
        .flatten()
    {
        let text = part[0].as_str().unwrap_or_default();
        let times = usize::try_from(part[1].as_u64().unwrap_or(0)).unwrap_or(0);
        out.extend_from_slice(text.repeat(times).as_bytes());
    }
    out
}

/// Compares one field, if the case expects something of it.
fn same(expected: &Value, field: &str, got: &Value, wrong: &mut Vec<String>) {
    if let Some(wanted) = expected.get(field)
        && wanted != got
    {
        wrong.push(format!("{field}: expected {wanted}, got {got}"));
    }
}

/// Compares one word, if the case expects one; of a list any is right.
fn is_one_of(expected: &Value, field: &str, got: &str, wrong: &mut Vec<String>) {
    let Some(wanted) = expected.get(field) else {
        return;
    };
    let is_right = match wanted.as_array() {
        Some(all) => all.iter().any(|one| one == got),
        None => wanted == got,
    };
    if !is_right {
        wrong.push(format!("{field}: expected {wanted}, got {got:?}"));
    }
}

fn verdict(wrong: &[String]) -> Verdict {
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n  "))
}
