//! The walls between the rooms: who may depend on whom, what pure files may not say, how long a file may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

const ROOMS: [&str; 5] = ["proto", "coordinator", "worker", "gateway", "crawlforge"];
/// Most lines of product code in one file; past that, a noun is hiding in it.
const LONGEST_FILE: usize = 450;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What each room names in its manifest, tests of its own left out.
fn dependencies() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let manifest = root().join("Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .exec()?;
    let mut rooms = BTreeMap::new();
    for package in metadata.packages {
        let normal = package
            .dependencies
            .iter()
            .filter(|one| one.kind == DependencyKind::Normal);
        let names = normal.map(|one| one.name.clone()).collect();
        rooms.insert(package.name.to_string(), names);
    }
    Ok(rooms)
}

#[test]
fn a_room_depends_only_on_what_its_work_needs() -> Result<()> {
    let rooms = dependencies()?;
    let html = ["html5ever", "dom_query", "dom_smoothie"];
    let storage = ["sled", "fjall", "object_store", "consistent_hash"];
    let walls: [(&str, &[&str], &[&str]); 4] = [
        (
            "proto",
            &[],
            &[
                "rmcp",
                "reqwest",
                "ractor",
                "axum",
                "metrics",
                "sled",
                "fjall",
                "html5ever",
                "dom_query",
                "consistent_hash",
            ],
        ),
        (
            "coordinator",
            &["proto"],
            &[
                "rmcp",
                "reqwest",
                "hickory-resolver",
                "quick-xml",
                "axum",
                "html5ever",
                "dom_query",
                "dom_smoothie",
            ],
        ),
        (
            "worker",
            &["proto"],
            &[
                "rmcp",
                "axum",
                "sled",
                "fjall",
                "object_store",
                "consistent_hash",
            ],
        ),
        (
            "gateway",
            &["proto"],
            &[
                "reqwest",
                "ractor",
                "hickory-resolver",
                "html5ever",
                "dom_query",
                "sled",
                "fjall",
                "consistent_hash",
            ],
        ),
    ];
    for (room, allowed, banned) in walls {
        let named = rooms.get(room).with_context(|| format!("{room} is gone"))?;
        for other in ROOMS.iter().filter(|other| !allowed.contains(other)) {
            assert!(!named.contains(*other), "{room} must not depend on {other}");
        }
        for name in banned {
            assert!(!named.contains(*name), "{room} must not depend on {name}");
        }
    }
    for (room, named) in &rooms {
        if room != "worker" && room != "tests" {
            assert!(
                html.iter().all(|name| !named.contains(*name)),
                "{room} parses HTML"
            );
        }
        if room != "coordinator" && room != "tests" {
            assert!(
                storage.iter().all(|name| !named.contains(*name)),
                "{room} stores"
            );
        }
    }
    Ok(())
}

#[test]
fn one_cryptography_and_one_html_parser_are_locked() -> Result<()> {
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let count = |name: &str| {
        lock.lines()
            .filter(|line| *line == format!("name = \"{name}\""))
            .count()
    };
    for banned in ["aws-lc-sys", "aws-lc-rs", "openssl-sys", "native-tls"] {
        assert_eq!(count(banned), 0, "{banned} is locked");
    }
    for single in ["html5ever", "rustls", "tonic", "prost", "ring", "hyper"] {
        assert!(
            count(single) <= 1,
            "{single} is locked {} times",
            count(single)
        );
    }
    Ok(())
}

/// All product files of the rooms, with their text up to the tests.
fn product_files() -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for room in ["proto", "coordinator", "worker", "gateway", "cli"] {
        walk(&root().join(room).join("src"), &mut files)?;
    }
    Ok(files)
}

fn walk(folder: &Path, files: &mut Vec<(PathBuf, String)>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.ends_with("tests") || path.ends_with("tests.rs") {
            continue;
        }
        if path.is_dir() {
            walk(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let product = match text.find("#[cfg(test)]") {
                Some(at) => text[..at].to_owned(),
                None => text,
            };
            files.push((path, product));
        }
    }
    Ok(())
}

fn short(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

#[test]
fn no_file_is_longer_than_a_reader_can_hold() -> Result<()> {
    let long: Vec<String> = product_files()?
        .iter()
        .map(|(path, text)| (short(path), text.lines().count()))
        .filter(|(_, lines)| *lines > LONGEST_FILE)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "more than {LONGEST_FILE} lines: {long:#?}");
    Ok(())
}

#[test]
fn no_product_file_holds_a_placeholder() -> Result<()> {
    let words = [
        "todo!(",
        "unimplemented!(",
        "TODO",
        "FIXME",
        "XXX",
        "not implemented",
        ".unwrap()",
    ];
    let mut found = Vec::new();
    for (path, text) in product_files()? {
        for (number, line) in text.lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            let is_found = words
                .iter()
                .any(|word| line.contains(word) && !(is_comment && *word == ".unwrap()"));
            if is_found {
                found.push(format!("{}:{}: {}", short(&path), number + 1, line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    Ok(())
}

/// Whether a file is `pure`, lies in that folder, or is the module that the folder belongs to.
fn is_below(file: &str, pure: &str) -> bool {
    let rest = file.strip_prefix(pure);
    rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

/// Rules of the trade, without time, tasks or input of their own: folders and files below the root. In a folder the
/// file `actor.rs` is the shell that carries out what its neighbours decide.
const PURE: [&str; 16] = [
    "proto/src/code.rs",
    "proto/src/crawl_url.rs",
    "proto/src/host_key.rs",
    "proto/src/ids.rs",
    "proto/src/scope.rs",
    "proto/src/states.rs",
    "proto/src/timestamp.rs",
    "proto/src/url_rules",
    "coordinator/src/shard",
    "coordinator/src/keys.rs",
    "worker/src/charset.rs",
    "worker/src/media.rs",
    "worker/src/page",
    "worker/src/robots",
    "worker/src/sitemap",
    "gateway/src/table.rs",
];

#[test]
fn pure_files_take_time_as_an_argument_and_wait_for_nothing() -> Result<()> {
    let words = [
        "async ",
        ".await",
        "tokio::",
        "ractor::",
        "Clock",
        "SystemTime",
        "Instant::now",
        "std::fs",
        "std::env",
        "std::thread",
        "reqwest::",
    ];
    let files = product_files()?;
    let mut found = Vec::new();
    for pure in PURE {
        let inside: Vec<_> = files
            .iter()
            .filter(|(path, _)| is_below(&short(path), pure) && !path.ends_with("actor.rs"))
            .collect();
        assert!(
            !inside.is_empty(),
            "{pure} is gone; name what took its place"
        );
        for (path, text) in inside {
            let code = text
                .lines()
                .enumerate()
                .filter(|(_, line)| !line.trim_start().starts_with("//"));
            for (number, line) in code {
                if words.iter().any(|word| line.contains(word)) {
                    found.push(format!("{}:{}: {}", short(path), number + 1, line.trim()));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    Ok(())
}
