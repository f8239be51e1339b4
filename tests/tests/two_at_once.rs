//! Two assistants start `crawlforge mcp` on one data folder: both work at once under one politeness clock, and the
//! second goes on when the first has ended.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::command::web_flags;
use tests::fake_web::FakeWeb;
use tests::mcp_client::McpClient;
use tests::politeness::violations;
use tests::site::{Graph, path_of};

const PAGES: usize = 20;
const INTERVAL: Duration = Duration::from_millis(200);

fn scrape(client: &mut McpClient, web: &FakeWeb, page: usize) -> Result<String> {
    let url = web.url("h0.test", &path_of(page));
    Ok(client.tool("scrape", &json!({ "url": url }))?.to_string())
}

#[test]
fn two_processes_on_one_folder_share_one_politeness_clock() -> Result<()> {
    let graph = Graph {
        hosts: 1,
        pages: PAGES,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let folder = TempDir::new()?;
    let data = folder.path().join("data");
    let flags = web_flags("200ms");
    let mut first = McpClient::stdio("first", &data, &flags)?;
    let mut second = McpClient::stdio("second", &data, &flags)?;

    let (crawled, scraped) = std::thread::scope(|scope| {
        let crawling = scope.spawn(|| {
            let arguments = json!({"url": web.url("h0.test", "/"), "max_depth": 20});
            second.tool("crawl", &arguments)
        });
        let scraped: Result<Vec<String>> =
            (1..5).map(|page| scrape(&mut first, &web, page)).collect();
        (crawling.join(), scraped)
    });
    let crawled: Value = crawled.map_err(|_| anyhow::anyhow!("the crawl panicked"))??;
    assert_ne!(crawled["isError"], true, "{crawled}");
    for (page, answer) in (1..5).zip(scraped?) {
        let said = format!("h0.test/page/{page} and no other page says so");
        assert!(answer.contains(&said), "{answer}");
    }
    let visits = web.visits();
    assert!(
        visits.len() >= PAGES + 4,
        "both asked: {} visits",
        visits.len()
    );
    assert_eq!(violations(&visits, INTERVAL), Vec::<String>::new());

    assert_eq!(first.close()?, Some(0), "the first ends with its stdin");
    let answer = scrape(&mut second, &web, 7)?;
    assert!(
        answer.contains("h0.test/page/7 and no other page says so"),
        "{answer}"
    );
    let session = crawled["_meta"]["session_id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let job = second.read(&format!("crawlforge://job/{session}"))?;
    assert!(
        job.contains("completed"),
        "what the first kept can be read by the second: {job}"
    );
    assert_eq!(violations(&web.visits(), INTERVAL), Vec::<String>::new());

    let log = second
        .process()
        .map(|process| process.log())
        .unwrap_or_default()
        .to_lowercase();
    assert!(!log.contains("error") && !log.contains("lock"), "{log}");
    assert_eq!(second.close()?, Some(0));
    Ok(())
}
