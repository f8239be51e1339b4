//! A crawl that goes back to the pages of an earlier one, against Debian's nginx and its validators.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::command::{Finished, rows, run, text};
use tests::mcp_client::McpClient;
use tests::nginx::{NGINX, Nginx};

/// A site on disk, and the crawls of it, which share one data folder.
struct Place {
    files: TempDir,
    folder: TempDir,
    nginx: Nginx,
    requests_seen: usize,
}

/// What one crawl did.
struct Done {
    session: String,
    finished: Finished,
    /// `(path, status)` of what nginx was asked for, in its order.
    asked: Vec<(String, u16)>,
    manifest: Vec<Value>,
    ledger: Vec<Value>,
}

impl Place {
    fn open(pages: &[(&str, &str)]) -> Result<Option<Self>> {
        if !Path::new(NGINX).exists() {
            println!("SKIPPED: {NGINX} is missing; tests/setup installs it");
            return Ok(None);
        }
        let files = TempDir::new()?;
        for (name, body) in pages {
            fs::write(files.path().join(name), body)?;
        }
        let nginx = Nginx::start(files.path())?;
        let requests_seen = nginx.log()?.len();
        Ok(Some(Self {
            files,
            folder: TempDir::new()?,
            nginx,
            requests_seen,
        }))
    }

    fn write(&self, name: &str, body: &str) -> Result<()> {
        Ok(fs::write(self.files.path().join(name), body)?)
    }

    /// Another moment of change, with the same content.
    fn touch(&self, name: &str) -> Result<()> {
        let file = fs::File::options()
            .write(true)
            .open(self.files.path().join(name))?;
        let before = file.metadata()?.modified()?;
        Ok(file.set_modified(before - std::time::Duration::from_secs(5_000))?)
    }

    fn seed(&self) -> String {
        format!("http://{}/", self.nginx.address)
    }

    fn crawl(&mut self, args: &[&str]) -> Result<Done> {
        let output = TempDir::new()?;
        let out = output.path().join("out");
        let mut all = vec!["crawl".to_owned()];
        all.extend(args.iter().map(|&word| word.to_owned()));
        all.extend(
            [
                "--json",
                "--allow-net",
                "127.0.0.0/8",
                "--min-interval",
                "0",
            ]
            .map(str::to_owned),
        );
        all.extend(["--output".to_owned(), out.display().to_string()]);
        let finished = run(self.folder.path(), &all)?;
        ensure!(finished.code == 0, "{finished:?}");
        let summary: Value = serde_json::from_str(&finished.stdout)?;
        let log = self.nginx.log()?;
        let mut asked = Vec::new();
        for line in log.iter().skip(self.requests_seen) {
            let mut words = line.split(' ').skip(1);
            let status = words.next().context("no status")?.parse()?;
            asked.push((words.next().context("no path")?.to_owned(), status));
        }
        self.requests_seen = log.len();
        let read = |name: &str| match out.join(name).exists() {
            true => rows(&out.join(name)),
            false => Ok(Vec::new()),
        };
        Ok(Done {
            session: text(&summary, "session_id"),
            finished,
            asked,
            manifest: read("manifest.jsonl")?,
            ledger: read("ledger.jsonl")?,
        })
    }
}

impl Done {
    /// Statuses by path, without robots.txt and sitemaps.
    fn statuses(&self) -> BTreeMap<&str, u16> {
        let pages = self.asked.iter();
        let pages = pages.filter(|(path, _)| !path.ends_with(".txt") && !path.ends_with(".xml"));
        pages
            .map(|(path, status)| (path.as_str(), *status))
            .collect()
    }

    fn delivered(&self) -> BTreeSet<String> {
        self.manifest.iter().map(path).collect()
    }

    fn row(&self, path: &str) -> Result<&Value> {
        let mut rows = self.ledger.iter();
        rows.find(|row| self::path(row) == path)
            .with_context(|| format!("{path} is not in the ledger: {:?}", self.finished))
    }
}

fn path(row: &Value) -> String {
    let url = text(row, "url");
    url::Url::parse(&url).map_or(url, |url| url.path().to_owned())
}

const INDEX: &str = "<title>i</title><a href=a.html>a</a><a href=b.html>b</a><a href=c.html>c</a>";

#[test]
fn what_has_not_changed_is_not_delivered_again_and_its_links_are_followed() -> Result<()> {
    let pages = [
        ("index.html", INDEX),
        ("a.html", "<p>alpha"),
        ("b.html", "<p>beta"),
        ("c.html", "<p>gamma <a href=d.html>d</a>"),
        ("d.html", "<p>delta"),
    ];
    let Some(mut place) = Place::open(&pages)? else {
        return Ok(());
    };
    let first = place.crawl(&[&place.seed()])?;
    let all = ["/", "/a.html", "/b.html", "/c.html", "/d.html"];
    assert_eq!(first.delivered(), all.map(str::to_owned).into());

    place.write("b.html", "<p>beta, and more <a href=e.html>e</a>")?;
    place.write("e.html", "<p>epsilon")?;
    place.touch("c.html")?;
    let second = place.crawl(&["--revisit", &first.session])?;
    let expected = [
        ("/", 304),
        ("/a.html", 304),
        ("/b.html", 200),
        ("/c.html", 200),
        ("/d.html", 304),
        ("/e.html", 200),
    ];
    assert_eq!(second.statuses(), expected.into());
    assert_eq!(
        second.delivered(),
        ["/b.html", "/e.html"].map(str::to_owned).into(),
        "c.html has another date and the same content"
    );
    for (path, state) in [
        ("/", "not_modified"),
        ("/b.html", "captured"),
        ("/c.html", "not_modified"),
        ("/d.html", "not_modified"),
    ] {
        assert_eq!(text(second.row(path)?, "state"), state, "{path}");
    }
    let visit = |done: &Done, path: &str| -> Result<(String, u64)> {
        let row = done.row(path)?;
        let next = row["next_visit_in_s"].as_u64().unwrap_or(0);
        Ok((text(row, "changed_at"), next))
    };
    const DAY: u64 = 24 * 60 * 60;
    let before = visit(&first, "/a.html")?;
    assert_eq!(before.1, DAY);
    assert_eq!(visit(&second, "/a.html")?, (before.0, DAY * 7 / 5));
    assert_eq!(visit(&second, "/b.html")?.1, DAY * 4 / 5);

    let third = place.crawl(&["--revisit", &second.session])?;
    assert_eq!(third.delivered(), BTreeSet::new());
    let statuses = third.statuses();
    assert_eq!(statuses.len(), 6);
    let is_same = |status: &u16| *status == 304;
    assert!(statuses.values().all(is_same), "{statuses:?}");

    let data = place.folder.path().join("data");
    let mut client = McpClient::stdio("reader", &data, &[])?;
    let page = json!({ "session_id": third.session, "url": format!("{}a.html", place.seed()) });
    let shown = client.tool("read_result", &page)?;
    assert!(shown.to_string().contains("alpha"), "{shown}");
    let again = json!({ "revisit": third.session, "format": "links" });
    let answer = client.tool("crawl", &again)?;
    assert_ne!(answer["isError"], true, "{answer}");
    assert_eq!(answer["structuredContent"]["delivered"], 0, "{answer}");
    client.close()?;
    Ok(())
}

/// A sitemap with a date for each of these pages.
fn sitemap(seed: &str, pages: &[(&str, &str)]) -> String {
    let urls = pages
        .iter()
        .map(|(page, date)| format!("<url><loc>{seed}{page}</loc><lastmod>{date}</lastmod></url>"));
    let urls: String = urls.collect();
    format!("<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">{urls}</urlset>")
}

#[test]
fn a_sitemaps_dates_say_what_is_asked_for_first_and_what_not_at_all() -> Result<()> {
    let names: Vec<String> = (0..12).map(|n| format!("p{n}.html")).collect();
    let bodies: Vec<String> = names.iter().map(|name| format!("<p>{name}")).collect();
    let links: String = names
        .iter()
        .map(|name| format!("<a href={name}>{name}</a>"))
        .collect();
    let mut pages = vec![("index.html", links.as_str())];
    let both = names.iter().zip(&bodies);
    pages.extend(both.map(|(name, body)| (name.as_str(), body.as_str())));
    let Some(mut place) = Place::open(&pages)? else {
        return Ok(());
    };
    let seed = place.seed();
    place.write("robots.txt", &format!("Sitemap: {seed}sitemap.xml\n"))?;
    let dates = |changed: &[&str]| {
        let date = |name: &str| match changed.contains(&name) {
            true => "2100-01-01",
            false => "2001-01-01",
        };
        let rows: Vec<(&str, &str)> = names
            .iter()
            .map(|name| (name.as_str(), date(name)))
            .collect();
        sitemap(&seed, &rows)
    };
    place.write("sitemap.xml", &dates(&[]))?;
    let first = place.crawl(&[&seed, "--sitemap", "include"])?;
    assert_eq!(first.manifest.len(), 13);

    let changed = ["p5.html", "p11.html"];
    place.write("sitemap.xml", &dates(&changed))?;
    let second = place.crawl(&["--revisit", &first.session, "--sitemap", "only"])?;
    let order: Vec<&str> = second
        .asked
        .iter()
        .map(|(path, _)| path.trim_start_matches('/'))
        .filter(|path| path.starts_with('p'))
        .collect();
    assert_eq!(order.len(), 12);
    let soonest: BTreeSet<&str> = order.iter().take(2).copied().collect();
    assert_eq!(soonest, changed.into(), "{order:?}");

    let only_due = ["--sitemap", "include", "--only-due"];
    let third = place.crawl(&[&["--revisit", &second.session], &only_due[..]].concat())?;
    let asked: BTreeSet<&str> = third.statuses().into_keys().collect();
    assert_eq!(asked, ["/p11.html", "/p5.html"].into());
    let row = third.row("/p3.html")?;
    assert_eq!(
        (text(row, "state"), text(row, "code")),
        ("not_modified".to_owned(), "fresh".to_owned())
    );
    assert_eq!(
        text(row, "visited_at"),
        text(second.row("/p3.html")?, "visited_at")
    );
    Ok(())
}

#[test]
fn what_cannot_be_gone_back_to_is_refused_by_name() -> Result<()> {
    let folder = TempDir::new()?;
    let unknown = format!("ses_{}", "a".repeat(26));
    let args = ["crawl", "--revisit", &unknown].map(str::to_owned);
    let finished = run(folder.path(), &args)?;
    assert_eq!(finished.code, 1, "{finished:?}");
    let args = ["crawl", "http://a.test/", "--only-due"].map(str::to_owned);
    let finished = run(folder.path(), &args)?;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("--revisit"), "{finished:?}");
    Ok(())
}
