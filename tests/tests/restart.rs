//! What a client could read before a process was killed it can read after the next start.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::command::web_flags;
use tests::fake_web::FakeWeb;
use tests::mcp_client::McpClient;
use tests::process::Process;
use tests::site::Graph;

fn serve(folder: &TempDir, flags: &[String]) -> Result<(Process, McpClient)> {
    let mut args = vec![
        "serve".to_owned(),
        "--listen".to_owned(),
        "127.0.0.1:0".to_owned(),
    ];
    args.extend_from_slice(flags);
    let mut process = Process::start("serve", &folder.path().join("data"), &args)?;
    let client = McpClient::http(process.wait_ready("http")?)?;
    Ok((process, client))
}

/// Every resource a client is offered, all pages of the list.
fn listed(client: &mut McpClient) -> Result<Vec<String>> {
    let mut uris = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.request("resources/list", &params)?;
        let resources = page["resources"].as_array().context("resources")?;
        uris.extend(
            resources
                .iter()
                .filter_map(|row| row["uri"].as_str())
                .map(str::to_owned),
        );
        let Some(cursor) = page.get("nextCursor").and_then(Value::as_str) else {
            return Ok(uris);
        };
        params = json!({ "cursor": cursor });
    }
}

#[test]
fn resources_are_the_same_after_kill_9() -> Result<()> {
    let graph = Graph {
        hosts: 1,
        pages: 6,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let folder = TempDir::new()?;
    let flags = web_flags("0");
    let (mut process, mut client) = serve(&folder, &flags)?;
    let arguments = json!({"url": web.url("h0.test", "/"), "max_depth": 20});
    let crawled = client.tool("crawl", &arguments)?;
    assert_ne!(crawled["isError"], true, "{crawled}");
    let session = crawled["_meta"]["session_id"]
        .as_str()
        .context("session id")?
        .to_owned();

    let mut uris = listed(&mut client)?;
    for kind in ["job/", "crawl/"] {
        let wanted = format!("crawlforge://{kind}{session}");
        assert!(
            uris.iter().any(|uri| uri.starts_with(&wanted)),
            "{wanted} is listed among {uris:?}"
        );
    }
    let pages = format!("crawlforge://crawl/{session}/pages");
    let shown = client.read(&pages)?;
    assert!(shown.contains("/page/5"), "{shown}");
    uris.push(pages);
    let snapshot = shown.find("crawlforge://snapshot/").map(|at| &shown[at..]);
    let snapshot = snapshot
        .and_then(|rest| rest.split('"').next())
        .context("a page names its snapshot")?;
    uris.push(snapshot.to_owned());
    let before: Vec<(String, String)> = uris
        .iter()
        .map(|uri| Ok((uri.clone(), client.read(uri)?)))
        .collect::<Result<_>>()?;
    assert!(
        before
            .iter()
            .any(|(_, text)| text.contains("and no other page says so")),
        "a snapshot holds the page"
    );

    process.kill()?;
    let visits = web.visits().len();
    let (_process, mut client) = serve(&folder, &flags)?;
    for (uri, text) in before {
        assert_eq!(client.read(&uri)?, text, "{uri}");
    }
    assert_eq!(web.visits().len(), visits, "nothing was fetched again");
    Ok(())
}

#[test]
fn a_crawl_goes_on_after_kill_9() -> Result<()> {
    let graph = Graph {
        hosts: 1,
        pages: 40,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let folder = TempDir::new()?;
    let flags = web_flags("100ms");
    let (mut process, mut client) = serve(&folder, &flags)?;
    let arguments = json!({"url": web.url("h0.test", "/"), "max_depth": 20, "wait": false});
    let started = client.tool("crawl", &arguments)?;
    let session = started["_meta"]["session_id"]
        .as_str()
        .context("session id")?
        .to_owned();
    let within = std::time::Duration::from_secs(20);
    assert!(
        web.wait_until(within, |visits| visits.len() > 10),
        "it has begun"
    );
    process.kill()?;

    let (_process, mut client) = serve(&folder, &flags)?;
    let status = json!({"job_id": session, "wait": 45});
    let mut answer = client.tool("crawl_status", &status)?.to_string();
    if !answer.contains("completed") {
        answer = client.tool("crawl_status", &status)?.to_string();
    }
    assert!(answer.contains("completed"), "{answer}");
    let sitemap = client.read(&format!("crawlforge://crawl/{session}/sitemap"))?;
    for page in 1..40 {
        let url = format!("\"{}\"", web.url("h0.test", &format!("/page/{page}")));
        assert!(sitemap.contains(&url), "{url} is in {sitemap}");
    }
    let interval = std::time::Duration::from_millis(100);
    assert_eq!(
        tests::politeness::violations(&web.visits(), interval),
        Vec::<String>::new()
    );
    Ok(())
}
