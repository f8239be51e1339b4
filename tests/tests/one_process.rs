//! `crawlforge crawl` in one process, judged by the visitor log of a fake web and by the files it wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;
use tests::command::{Crawl, text, web_flags};
use tests::fake_web::FakeWeb;
use tests::politeness::violations;
use tests::site::{Answer, Graph, Site};

/// The `(url, depth)` rows of a manifest.
fn depths(rows: &[Value]) -> BTreeMap<String, u32> {
    let depth = |row: &Value| row.get("depth").and_then(Value::as_u64).unwrap_or(99);
    rows.iter()
        .map(|row| (text(row, "url"), u32::try_from(depth(row)).unwrap_or(99)))
        .collect()
}

/// How often each page was asked for.
fn page_counts(web: &FakeWeb) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for visit in web.page_visits() {
        *counts.entry(web.url(&visit.host, &visit.path)).or_default() += 1;
    }
    counts
}

#[test]
fn every_reachable_page_is_fetched_and_delivered_exactly_once() -> Result<()> {
    let graph = Graph {
        hosts: 3,
        pages: 60,
        is_chained: true,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let crawl = Crawl::of(
        &web,
        "0",
        &["h0.test"],
        &["--scope", "any", "--max-pages", "1000", "--max-depth", "50"],
    )?;
    assert_eq!(crawl.finished.code, 0, "{:?}", crawl.finished);

    let expected = web
        .site()
        .reachable(&[web.url("h0.test", "/")], 50, |_| true);
    let rows = crawl.manifest()?;
    assert_eq!(
        depths(&rows),
        expected,
        "each page with its shortest distance"
    );
    assert_eq!(rows.len(), expected.len(), "no page twice in the manifest");
    let once: BTreeMap<String, usize> = expected.keys().map(|url| (url.clone(), 1)).collect();
    assert_eq!(page_counts(&web), once, "no page twice at the server");
    assert_eq!(
        violations(&web.visits(), Duration::ZERO),
        Vec::<String>::new()
    );

    let summary = crawl.summary()?;
    assert_eq!(text(&summary, "state"), "completed");
    assert_eq!(summary["pages"], expected.len());
    assert_eq!(
        states_sum(&summary),
        summary["admitted"].as_u64(),
        "{summary}"
    );
    Ok(())
}

fn states_sum(summary: &Value) -> Option<u64> {
    let counts = summary.get("counts")?.as_object()?;
    Some(counts.values().filter_map(Value::as_u64).sum())
}

#[test]
fn the_default_scope_is_the_domains_of_the_seeds() -> Result<()> {
    let graph = Graph {
        hosts: 3,
        pages: 5,
        is_chained: true,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let crawl = Crawl::of(&web, "0", &["h0.test", "h1.test"], &["--max-depth", "50"])?;
    let hosts: BTreeSet<String> = web.visits().into_iter().map(|visit| visit.host).collect();
    assert_eq!(
        hosts,
        ["h0.test", "h1.test"].map(str::to_owned).into(),
        "h2.test is another domain"
    );
    assert_eq!(crawl.manifest()?.len(), 10);
    Ok(())
}

#[test]
fn requests_to_a_host_keep_the_interval_and_never_overlap() -> Result<()> {
    let interval = Duration::from_millis(200);
    let slow = Answer::page("slow", &[]).after(Duration::from_millis(350));
    let web = FakeWeb::start(|port| {
        let graph = Graph {
            hosts: 4,
            pages: 8,
            is_chained: true,
            ..Graph::default()
        };
        let mut site = graph.site(port);
        let mut links: Vec<String> = (1..8)
            .map(|page| site.url("h0.test", &format!("/page/{page}")))
            .collect();
        links.push(site.url("h0.test", "/slow"));
        links.push(site.url("h1.test", "/"));
        site.put("h0.test", "/", Answer::page("h0 with a slow page", &links));
        site.put("h0.test", "/slow", slow);
        site
    })?;
    let crawl = Crawl::of(
        &web,
        "200ms",
        &["h0.test"],
        &["--scope", "any", "--max-depth", "50"],
    )?;
    assert_eq!(crawl.finished.code, 0, "{:?}", crawl.finished);
    let visits = web.visits();
    assert_eq!(
        visits.len(),
        4 * 8 + 1 + 4,
        "every page, the slow one, and four robots.txt"
    );
    assert_eq!(violations(&visits, interval), Vec::<String>::new());

    let last = visits.iter().map(|visit| visit.start).max().unwrap_or(0);
    let alone = 37 * interval.as_micros() as u64;
    assert!(
        last < alone * 3 / 4,
        "hosts do not wait for each other: {last} µs for all"
    );
    Ok(())
}

#[test]
fn robots_txt_is_asked_first_and_obeyed() -> Result<()> {
    let web = FakeWeb::start(|port| {
        let mut site = Site::new(port);
        site.page("a.test", "/", &["/open", "/secret/one", "/secret/two"]);
        site.page("a.test", "/open", &["/secret/three"]);
        for name in ["one", "two", "three"] {
            site.page("a.test", &format!("/secret/{name}"), &[]);
        }
        site.disallow("a.test", &["/secret/"]);
        site
    })?;
    let crawl = Crawl::of(&web, "0", &["a.test"], &[])?;
    assert_eq!(crawl.finished.code, 0, "{:?}", crawl.finished);
    let paths: Vec<String> = web.visits().into_iter().map(|visit| visit.path).collect();
    assert_eq!(paths, ["/robots.txt", "/", "/open"]);

    let refused: BTreeSet<String> = crawl
        .ledger()?
        .iter()
        .filter(|row| text(row, "state") == "refused" && text(row, "code") == "robots")
        .map(|row| text(row, "url"))
        .collect();
    let expected =
        ["one", "two", "three"].map(|name| web.url("a.test", &format!("/secret/{name}")));
    assert_eq!(refused, expected.into());
    Ok(())
}

#[test]
fn a_crawl_delay_longer_than_the_interval_is_kept() -> Result<()> {
    let web = FakeWeb::start(|port| {
        let mut site = Site::new(port);
        site.page("a.test", "/", &["/one", "/two"]);
        site.page("a.test", "/one", &[]);
        site.page("a.test", "/two", &[]);
        let robots = "User-agent: *\nCrawl-delay: 1\n";
        site.put(
            "a.test",
            "/robots.txt",
            Answer::text(200, "text/plain", robots),
        );
        site
    })?;
    let crawl = Crawl::of(&web, "0", &["a.test"], &[])?;
    assert_eq!(crawl.manifest()?.len(), 3);
    assert_eq!(
        violations(&web.page_visits(), Duration::from_secs(1)),
        Vec::<String>::new()
    );
    let asked = crawl.then(&["host", &web.url("a.test", "/one"), "--json"])?;
    let known: Value = serde_json::from_str(&asked.stdout)?;
    assert_eq!(known["robots"], "rules", "{known}");
    assert_eq!(known["crawl_delay_ms"], 1_000, "{known}");
    assert!(known["robots_read_at"].is_string(), "{known}");
    let unasked = crawl.then(&["host", "https://b.test/"])?;
    assert!(
        unasked.stdout.contains("not read yet") && unasked.code == 0,
        "{unasked:?}"
    );
    let wrong = crawl.then(&["host", "ftp://b.test/"])?;
    assert!(
        wrong.stderr.contains("`url`") && wrong.code != 0,
        "{wrong:?}"
    );
    Ok(())
}

#[test]
fn a_page_limit_is_exact() -> Result<()> {
    let graph = Graph {
        hosts: 2,
        pages: 40,
        is_chained: true,
        ..Graph::default()
    };
    for limit in [1, 7] {
        let web = FakeWeb::start(|port| graph.site(port))?;
        let limit_text = limit.to_string();
        let crawl = Crawl::of(
            &web,
            "0",
            &["h0.test"],
            &["--scope", "any", "--max-pages", &limit_text],
        )?;
        assert_eq!(
            crawl.finished.code, 0,
            "the limit was asked for: {:?}",
            crawl.finished
        );
        assert_eq!(crawl.manifest()?.len(), limit);
        assert_eq!(
            web.page_visits().len(),
            limit,
            "not one request more than pages"
        );
        assert_eq!(text(&crawl.summary()?, "state"), "page_limit");
    }
    Ok(())
}

#[test]
fn a_page_limit_counts_pages_after_duplicates_are_taken_out() -> Result<()> {
    let web = FakeWeb::start(|port| {
        let mut site = Site::new(port);
        let paths: Vec<String> = (0..12).map(|page| format!("/{page}")).collect();
        let links: Vec<&str> = paths.iter().map(String::as_str).collect();
        site.page("a.test", "/", &links);
        let same = Answer::page("the same page", &[]);
        for (index, path) in paths.iter().enumerate() {
            if index % 2 == 0 {
                site.put("a.test", path, same.clone());
            } else {
                site.page("a.test", path, &[]);
            }
        }
        site
    })?;
    let crawl = Crawl::of(&web, "0", &["a.test"], &["--max-pages", "6"])?;
    let rows = crawl.manifest()?;
    assert_eq!(rows.len(), 6, "{:?}", crawl.finished);
    let digests: BTreeSet<String> = rows.iter().map(|row| text(row, "digest")).collect();
    assert_eq!(digests.len(), 6, "six different pages");
    Ok(())
}

#[test]
fn a_depth_limit_is_the_shortest_distance() -> Result<()> {
    let graph = Graph {
        hosts: 1,
        pages: 80,
        branches: 2,
        extra_links: 1,
        ..Graph::default()
    };
    for depth in [0_u32, 1, 3] {
        let web = FakeWeb::start(|port| graph.site(port))?;
        let depth_text = depth.to_string();
        let crawl = Crawl::of(
            &web,
            "0",
            &["h0.test"],
            &["--max-depth", &depth_text, "--max-pages", "1000"],
        )?;
        let expected = web
            .site()
            .reachable(&[web.url("h0.test", "/")], depth, |_| true);
        assert_eq!(depths(&crawl.manifest()?), expected, "within {depth}");
        assert_eq!(web.page_visits().len(), expected.len());
    }
    Ok(())
}

#[test]
fn redirects_duplicates_and_errors_end_in_one_named_state_each() -> Result<()> {
    let web = FakeWeb::start(|port| {
        let mut site = Site::new(port);
        site.page(
            "a.test",
            "/",
            &["/old", "/copy", "/original", "/gone", "/loop", "/busy"],
        );
        let new = site.url("a.test", "/new");
        site.put("a.test", "/old", Answer::redirect(301, &new));
        site.page("a.test", "/new", &[]);
        site.put("a.test", "/copy", Answer::page("twins", &[]));
        site.put("a.test", "/original", Answer::page("twins", &[]));
        site.put("a.test", "/gone", Answer::text(410, "text/html", "gone"));
        let round = site.url("a.test", "/loop");
        site.put("a.test", "/loop", Answer::redirect(302, &round));
        let wait = Answer::text(429, "text/html", "later").header("Retry-After", "1");
        site.put_all(
            "a.test",
            "/busy",
            vec![wait, Answer::page("not busy any more", &[])],
        );
        site
    })?;
    let crawl = Crawl::of(&web, "0", &["a.test"], &[])?;
    assert_eq!(crawl.finished.code, 0, "{:?}", crawl.finished);
    let states: BTreeMap<String, String> = crawl
        .ledger()?
        .iter()
        .map(|row| {
            let path = text(row, "url")
                .split_once(".test")
                .map_or("", |(_, rest)| {
                    rest.split_once('/').map_or("", |(_, path)| path)
                })
                .to_owned();
            (
                path,
                format!("{} {}", text(row, "state"), text(row, "code"))
                    .trim()
                    .to_owned(),
            )
        })
        .collect();
    assert_eq!(states.get("").map(String::as_str), Some("captured"));
    assert_eq!(states.get("old").map(String::as_str), Some("redirected"));
    assert_eq!(states.get("new").map(String::as_str), Some("captured"));
    assert_eq!(
        states.get("gone").map(String::as_str),
        Some("failed http_status")
    );
    assert_eq!(
        states.get("loop").map(String::as_str),
        Some("failed redirect_loop")
    );
    assert_eq!(
        states.get("busy").map(String::as_str),
        Some("captured"),
        "after Retry-After"
    );
    let twins =
        [states.get("copy"), states.get("original")].map(|state| state.map_or("", String::as_str));
    assert!(
        twins == ["captured", "duplicate"] || twins == ["duplicate", "captured"],
        "{twins:?}"
    );

    let visits = web.visits();
    let busy: Vec<_> = visits
        .iter()
        .filter(|visit| visit.path == "/busy")
        .collect();
    assert_eq!(busy.len(), 2);
    let after = visits
        .iter()
        .filter(|visit| visit.start > busy[0].start)
        .map(|visit| visit.start)
        .min();
    let gap = Duration::from_micros(after.unwrap_or(0) - busy[0].start);
    assert!(
        gap >= Duration::from_millis(980),
        "Retry-After holds the whole host: {gap:?}"
    );
    Ok(())
}

/// One start URL that cannot give a page: a failure, one sentence, nothing written.
fn fails_with(url: &str, flags: &[String], words: &[&str]) -> Result<()> {
    let crawl = Crawl::with(&[url.to_owned()], flags)?;
    let told = &crawl.finished.stderr;
    ensure!(
        crawl.finished.code != 0,
        "{url} did not fail: {:?}",
        crawl.finished
    );
    let lines: Vec<&str> = told.lines().filter(|line| line.contains(url)).collect();
    ensure!(lines.len() == 1, "{url}: one sentence, not {told:?}");
    let sentence = lines.concat().to_lowercase();
    for word in words {
        ensure!(
            sentence.contains(word),
            "{url}: `{word}` is not in {sentence:?}"
        );
    }
    for name in ["manifest.jsonl", "ledger.jsonl", "session.json", "pages"] {
        ensure!(
            !crawl.output().join(name).exists(),
            "{url}: {name} was left behind"
        );
    }
    Ok(())
}

#[test]
fn a_seed_that_cannot_be_had_is_one_clear_sentence_and_leaves_nothing() -> Result<()> {
    let web = FakeWeb::start(|port| {
        let mut site = Site::new(port);
        site.page("closed.test", "/", &[]);
        site.page("open.test", "/", &[]);
        site.disallow("closed.test", &["/"]);
        site
    })?;
    let flags = web_flags("0");
    fails_with(&web.url("open.test", "/missing"), &flags, &["404"])?;
    fails_with(&web.url("closed.test", "/"), &flags, &["robots"])?;

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let dead = listener.local_addr()?;
    drop(listener);
    fails_with(&format!("http://{dead}/"), &flags, &["refused"])?;
    fails_with("http://no-such-name.invalid/", &flags, &["name"])?;
    fails_with("ftp://open.test/", &flags, &["http"])?;
    fails_with("not a url", &flags, &["not a url"])?;
    Ok(())
}

#[test]
fn a_private_address_is_refused_without_leave_and_never_connected_to() -> Result<()> {
    let web = FakeWeb::start(|port| {
        let mut site = Site::new(port);
        site.page("127.0.0.1", "/", &[]);
        site
    })?;
    let url = web.url("127.0.0.1", "/");
    fails_with(
        &url,
        &["--min-interval".to_owned(), "0".to_owned()],
        &["address", "allow-net"],
    )?;
    assert!(web.visits().is_empty(), "nothing was asked");
    Ok(())
}

#[test]
fn one_dead_seed_among_several_is_partial() -> Result<()> {
    let graph = Graph {
        hosts: 1,
        pages: 3,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let seeds = [web.url("h0.test", "/"), web.url("h0.test", "/missing")];
    let crawl = Crawl::with(&seeds, &web_flags("0"))?;
    assert_eq!(crawl.finished.code, 3, "{:?}", crawl.finished);
    assert_eq!(crawl.manifest()?.len(), 3);
    assert!(
        crawl.finished.stderr.contains("/missing"),
        "{}",
        crawl.finished.stderr
    );
    Ok(())
}

#[test]
fn a_wrong_flag_is_bad_usage() -> Result<()> {
    let crawl = Crawl::with(&["http://a.test/".to_owned()], &["--max-pagez".to_owned()])?;
    assert_eq!(crawl.finished.code, 2);
    assert!(
        crawl.finished.stderr.contains("--max-pages"),
        "{}",
        crawl.finished.stderr
    );
    Ok(())
}
