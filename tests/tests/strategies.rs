//! Which pages a crawl asks for first, as its visitors see it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use tests::command::{Crawl, text};
use tests::fake_web::FakeWeb;
use tests::site::{Answer, Site, path_of};

const HOSTS: [&str; 3] = ["a.test", "b.test", "c.test"];

/// A binary tree of pages; page `n` lies at host `n` modulo `hosts` and links to `2n + 1` and `2n + 2`.
fn tree(site: &mut Site, pages: usize, hosts: usize) {
    let at = |site: &Site, page: usize| site.url(HOSTS[page % hosts], &path_of(page));
    for page in 0..pages {
        let links: Vec<String> = [2 * page + 1, 2 * page + 2]
            .into_iter()
            .filter(|child| *child < pages)
            .map(|child| at(site, child))
            .collect();
        let title = format!("page {page}");
        site.put(
            HOSTS[page % hosts],
            &path_of(page),
            Answer::page(&title, &links),
        );
    }
}

fn web_of(pages: usize, hosts: usize) -> Result<FakeWeb> {
    Ok(FakeWeb::start(|port| {
        let mut site = Site::new(port);
        tree(&mut site, pages, hosts);
        site
    })?)
}

/// The pages that the web was asked for, in the order of their arrival.
fn asked(web: &FakeWeb) -> Vec<String> {
    web.page_visits()
        .into_iter()
        .map(|visit| visit.path)
        .collect()
}

fn paths(pages: &[usize]) -> Vec<String> {
    pages.iter().map(|page| path_of(*page)).collect()
}

#[test]
fn the_strict_order_delivers_the_breadth_first_prefix_over_all_hosts() -> Result<()> {
    for limit in [1, 6, 11, 31] {
        let web = web_of(31, 3)?;
        let limit_text = limit.to_string();
        let flags = [
            "--scope",
            "any",
            "--order",
            "strict",
            "--max-depth",
            "9",
            "--max-pages",
            &limit_text,
        ];
        let crawl = Crawl::of(&web, "0", &HOSTS[..1], &flags)?;
        let all: Vec<usize> = (0..limit).collect();
        assert_eq!(asked(&web), paths(&all), "{:?}", crawl.finished);
        assert_eq!(crawl.manifest()?.len(), limit);
    }
    Ok(())
}

#[test]
fn depth_first_goes_down_before_it_goes_on() -> Result<()> {
    let web = web_of(15, 1)?;
    Crawl::of(&web, "0", &HOSTS[..1], &["--order", "depth"])?;
    let order = [0, 1, 3, 7, 8, 4, 9, 10, 2, 5, 11, 12, 6, 13, 14];
    assert_eq!(asked(&web), paths(&order));
    Ok(())
}

#[test]
fn best_first_asks_for_what_the_query_is_about() -> Result<()> {
    let web = FakeWeb::start(|port| {
        let mut site = Site::new(port);
        let about = |page: usize| match page {
            12 => "how the garbage collector works",
            25 => "Garbage collection",
            33 => "collector's guide to garbage",
            page if page % 2 == 0 => "the history of the company",
            _ => "contact",
        };
        let links: String = (1..40)
            .map(|page| format!("<a href={}>{}</a> ", path_of(page), about(page)))
            .collect();
        let index = format!("<title>Index</title>{links}");
        site.put(HOSTS[0], &path_of(0), Answer::text(200, "text/html", index));
        for page in 1..40 {
            let title = format!("page {page}");
            site.put(HOSTS[0], &path_of(page), Answer::page(&title, &[]));
        }
        site
    })?;
    let flags = [
        "--order",
        "best",
        "--query",
        "garbage collector",
        "--max-pages",
        "4",
    ];
    let crawl = Crawl::of(&web, "0", &HOSTS[..1], &flags)?;
    let delivered: BTreeSet<String> = crawl.urls()?.into_iter().collect();
    let wanted = [0, 12, 25, 33].map(|page| web.url(HOSTS[0], &path_of(page)));
    assert_eq!(delivered, wanted.into_iter().collect());
    Ok(())
}

#[test]
fn a_domain_delivers_what_it_may_and_no_more() -> Result<()> {
    let web = web_of(60, 3)?;
    let flags = ["--scope", "any", "--max-depth", "9"];
    let limited = [&flags[..], &["--max-pages-per-domain", "4"]].concat();
    let crawl = Crawl::of(&web, "0", &HOSTS[..1], &limited)?;
    let mut pages: BTreeMap<String, usize> = BTreeMap::new();
    for url in crawl.urls()? {
        let host = url::Url::parse(&url)?
            .host_str()
            .unwrap_or_default()
            .to_owned();
        *pages.entry(host).or_default() += 1;
    }
    let each: BTreeMap<String, usize> = HOSTS.map(|host| (host.to_owned(), 4)).into();
    assert_eq!(pages, each);
    let cut: Vec<String> = crawl
        .ledger()?
        .iter()
        .filter(|row| text(row, "state") == "over_budget")
        .map(|row| text(row, "code"))
        .collect();
    assert!(!cut.is_empty());
    assert!(cut.iter().all(|code| code == "domain_limit"), "{cut:?}");
    assert_eq!(text(&crawl.summary()?, "state"), "completed");
    Ok(())
}

#[test]
fn a_query_without_the_order_it_is_for_is_refused() -> Result<()> {
    let web = web_of(1, 1)?;
    let crawl = Crawl::of(&web, "0", &HOSTS[..1], &["--query", "rust"])?;
    assert_eq!(crawl.finished.code, 2, "{:?}", crawl.finished);
    assert!(
        crawl.finished.stderr.contains("best"),
        "{:?}",
        crawl.finished
    );
    assert_eq!(web.visits().len(), 0);
    Ok(())
}
