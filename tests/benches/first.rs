//! How much work a crawl costs: pages per CPU second of the crawler's process, pages per second, peak memory.
//!
//! `cargo build --release && cargo bench -p tests --bench first [HOSTS] [PAGES]`. The site is made up: each host is an
//! address of its own, each page about 20 KB of HTML with 20 links. `wget -r` does the same walk for scale, where it
//! is installed; it keeps no state and makes no Markdown. Ratios count, not seconds.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tests::fake_web::FakeWeb;
use tests::process::crawlforge;
use tests::site::{Answer, Site, path_of};

const LINKS: usize = 20;
const PAGE_BYTES: usize = 20_000;
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Clock ticks of `/proc/PID/stat` in a second, fixed on Linux.
const TICKS: f64 = 100.0;

struct Cost {
    what: &'static str,
    pages: usize,
    elapsed: f64,
    cpu: f64,
    peak_mib: f64,
}

fn main() -> Result<()> {
    let mut sizes = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<usize>().ok());
    let hosts = u8::try_from(sizes.next().unwrap_or(50)).context("at most 250 hosts")?;
    let pages = sizes.next().unwrap_or(100);
    let web = FakeWeb::start_on(hosts, |port| site(port, hosts, pages))?;
    let expected = usize::from(hosts) * pages;
    let folder = TempDir::new()?;
    let seeds: Vec<String> = (1..=hosts)
        .map(|host| web.url(&address(host), "/"))
        .collect();
    fs::write(folder.path().join("seeds"), seeds.join("\n"))?;

    let mut rows = Vec::new();
    for (what, format) in [("links only", "links"), ("markdown", "jsonl")] {
        let mut command = Command::new(crawlforge());
        command.args([
            "crawl", "--seeds", "seeds", "--format", format, "--output", format,
        ]);
        command.args([
            "--max-pages",
            "10000000",
            "--max-depth",
            "100",
            "--concurrency",
            "64",
        ]);
        command.args(["--min-interval", "0", "--allow-net", "127.0.0.0/8"]);
        command.args(["--data-dir", &format!("data-{format}")]);
        let before = web.page_visits().len();
        let cost = measure(what, command, folder.path())?;
        let fetched = web.page_visits().len() - before;
        ensure!(fetched == expected, "{what}: {fetched} of {expected} pages");
        rows.push(Cost {
            pages: fetched,
            ..cost
        });
    }
    let has_wget = Command::new("wget")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok();
    if has_wget {
        let mut command = Command::new("wget");
        command.args([
            "-q",
            "-r",
            "-l",
            "inf",
            "--delete-after",
            "-P",
            "wget",
            "-i",
            "seeds",
        ]);
        let before = web.page_visits().len();
        let cost = measure("wget -r", command, folder.path())?;
        rows.push(Cost {
            pages: web.page_visits().len() - before,
            ..cost
        });
    }
    println!(
        "{:<12} {:>8} {:>9} {:>9} {:>12} {:>10}",
        "work", "pages", "seconds", "pages/s", "pages/CPU s", "peak MiB"
    );
    for row in rows {
        let pages = row.pages as f64;
        println!(
            "{:<12} {:>8} {:>9.2} {:>9.0} {:>12.0} {:>10.1}",
            row.what,
            row.pages,
            row.elapsed,
            pages / row.elapsed,
            pages / row.cpu.max(0.01),
            row.peak_mib
        );
    }
    Ok(())
}

fn address(host: u8) -> String {
    format!("127.0.0.{host}")
}

/// Hosts with a tree of pages each, every page with text of its own.
fn site(port: u16, hosts: u8, pages: usize) -> Site {
    let mut site = Site::new(port);
    for host in (1..=hosts).map(address) {
        for page in 0..pages {
            let links: Vec<String> = (0..LINKS)
                .map(|index| (page * LINKS + 1 + index) % pages)
                .map(|target| site.url(&host, &path_of(target)))
                .collect();
            let mut answer = Answer::page(&format!("{host} {page}"), &links);
            let mut body = String::from_utf8_lossy(&answer.body).into_owned();
            let mut paragraph = 0;
            while body.len() < PAGE_BYTES {
                paragraph += 1;
                let written = writeln!(
                    body,
                    "<div class=part><h2>Part {paragraph}</h2><p>Some <b>text</b> of page {page} at {host}, with <em>marks</em> \
                     and <code>code</code>, as a page of documentation has it.</p><ul><li>one</li><li>two</li></ul></div>"
                );
                written.ok();
            }
            answer.body = body.into();
            site.put(&host, &path_of(page), answer);
        }
    }
    site
}

/// Runs a command to its end. Its CPU time and peak memory come from `/proc`, read until the last moment.
fn measure(what: &'static str, mut command: Command, folder: &Path) -> Result<Cost> {
    let errors = fs::File::create(folder.join("stderr"))?;
    let before = children_cpu()?;
    let began = Instant::now();
    let mut child = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(errors)
        .spawn()
        .with_context(|| format!("start {what}"))?;
    let mut peak_mib: f64 = 0.0;
    let status = loop {
        peak_mib = peak_mib.max(peak(&child));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let elapsed = began.elapsed().as_secs_f64();
    let said = fs::read_to_string(folder.join("stderr"))?;
    // wget answers 8 for the robots.txt files that are not there.
    ensure!(
        status.success() || what == "wget -r",
        "{what} ended with {status}: {said}"
    );
    Ok(Cost {
        what,
        pages: 0,
        elapsed,
        cpu: children_cpu()? - before,
        peak_mib,
    })
}

/// CPU seconds of all children that have ended (fields 16 and 17 of `/proc/self/stat`).
fn children_cpu() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let rest = stat.rsplit_once(") ").context("a stat line")?.1;
    let fields: Vec<f64> = rest
        .split(' ')
        .filter_map(|field| field.parse().ok())
        .collect();
    // The state letter is no number and falls out, so the fields count from ppid (4).
    let [user, system] =
        [fields.get(12), fields.get(13)].map(|field| field.copied().unwrap_or(0.0));
    Ok((user + system) / TICKS)
}

/// The most memory a running child has held, in MiB.
fn peak(child: &Child) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
