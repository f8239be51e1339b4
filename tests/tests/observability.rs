//! What an operator's tools see: `/healthz`, `/readyz` and `/metrics` of each role while it works.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use serde_json::json;
use tempfile::TempDir;
use tests::cluster::Cluster;
use tests::command::web_flags;
use tests::fake_web::FakeWeb;
use tests::mcp_client::McpClient;
use tests::process::{Process, get, wait_for};
use tests::site::Graph;

/// The page is well formed: names of ours, each with HELP and TYPE, no label that grows with the web.
fn check(page: &str, who: &str) -> Result<BTreeSet<String>> {
    let sample = Regex::new(r#"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^}]*\})? (\S+)$"#)?;
    let words = |prefix: &str| -> BTreeSet<String> {
        let lines = page.lines().filter_map(|line| line.strip_prefix(prefix));
        lines
            .filter_map(|rest| rest.split(' ').next())
            .map(str::to_owned)
            .collect()
    };
    let (helped, typed) = (words("# HELP "), words("# TYPE "));
    let mut names = BTreeSet::new();
    for line in page
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let parts = sample
            .captures(line)
            .with_context(|| format!("{who}: malformed `{line}`"))?;
        let name = parts[1].to_owned();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix))
            .find(|family| typed.contains(*family))
            .unwrap_or(&name);
        ensure!(
            family.starts_with("crawlforge_"),
            "{who}: `{family}` has no prefix of ours"
        );
        ensure!(helped.contains(family), "{who}: `{family}` has no HELP");
        ensure!(typed.contains(family), "{who}: `{family}` has no TYPE");
        let labels = parts.get(2).map_or("", |labels| labels.as_str());
        for label in ["host=", "url=", "domain=", "session="] {
            ensure!(
                !labels.contains(label),
                "{who}: `{line}` has a label that grows with the web"
            );
        }
        ensure!(!labels.contains(".test"), "{who}: `{line}` names a host");
        if name.contains("violation") {
            ensure!(parts[3].parse::<f64>()? == 0.0, "{who}: {line}");
        }
        names.insert(family.to_owned());
    }
    ensure!(!names.is_empty(), "{who} counts nothing");
    Ok(names)
}

fn check_role(address: SocketAddr, who: &str) -> Result<BTreeSet<String>> {
    for path in ["/healthz", "/readyz"] {
        let (status, body) = get(address, path)?;
        ensure!(status == 200, "{who}: {path} answers {status} {body}");
    }
    let (status, page) = get(address, "/metrics")?;
    ensure!(status == 200, "{who}: /metrics answers {status}");
    check(&page, who)
}

#[test]
fn each_role_of_a_cluster_tells_its_health_and_its_numbers() -> Result<()> {
    let graph = Graph {
        hosts: 2,
        pages: 5,
        is_chained: true,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let mut cluster = Cluster::start(1, &web_flags("0"), &[])?;
    let gateway = cluster.add_gateway()?;
    let mut client = McpClient::http(gateway)?;
    client.tool("scrape", &json!({"url": web.url("h0.test", "/")}))?;
    client.tool("crawl", &json!({"url": web.url("h1.test", "/")}))?;

    let coordinator = cluster.coordinator.wait_ready("metrics")?;
    let worker = cluster.workers[0].wait_ready("metrics")?;
    for (address, who) in [
        (coordinator, "coordinator"),
        (worker, "worker"),
        (gateway, "gateway"),
    ] {
        let names = check_role(address, who)?;
        let prefix = format!("crawlforge_{who}_");
        assert!(
            names.iter().any(|name| name.starts_with(&prefix)),
            "{who} counts its own: {names:?}"
        );
    }
    Ok(())
}

/// All rooms in one process, which asks a host once in `interval`.
fn serve(folder: &TempDir, interval: &str) -> Result<(Process, SocketAddr)> {
    let mut args = ["serve", "--listen", "127.0.0.1:0"]
        .map(str::to_owned)
        .to_vec();
    args.extend(web_flags(interval));
    let mut process = Process::start("serve", &folder.path().join("data"), &args)?;
    let address = process.wait_ready("http")?;
    Ok((process, address))
}

#[test]
fn one_process_serves_the_numbers_of_all_rooms() -> Result<()> {
    let graph = Graph {
        hosts: 1,
        pages: 3,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let folder = TempDir::new()?;
    let (_process, address) = serve(&folder, "0")?;
    McpClient::http(address)?.tool("crawl", &json!({"url": web.url("h0.test", "/")}))?;
    let names = check_role(address, "serve")?;
    for room in ["coordinator", "worker", "gateway"] {
        let prefix = format!("crawlforge_{room}_");
        assert!(
            names.iter().any(|name| name.starts_with(&prefix)),
            "{room}: {names:?}"
        );
    }
    Ok(())
}

#[test]
fn the_pages_of_a_limit_add_up_while_a_crawl_is_under_way() -> Result<()> {
    let graph = Graph {
        hosts: 1,
        pages: 9,
        is_chained: true,
        ..Graph::default()
    };
    let web = FakeWeb::start(|port| graph.site(port))?;
    let folder = TempDir::new()?;
    // Time enough to look between two pages.
    let (_process, address) = serve(&folder, "3s")?;
    let crawl = json!({"url": web.url("h0.test", "/"), "max_pages": 5, "wait": false});
    McpClient::http(address)?.tool("crawl", &crawl)?;
    let number = |page: &str, name: &str| {
        let line = page.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    let place = |page: &str, of: &str| {
        let name = format!("crawlforge_coordinator_permits{{place=\"{of}\"}}");
        number(page, &name).unwrap_or(-1.0)
    };
    let look = || {
        let (_, page) = get(address, "/metrics")?;
        let places = ["pool", "outstanding", "captured"].map(|of| place(&page, of));
        let limit = number(&page, "crawlforge_coordinator_permits_limit ");
        let adds_up = places.iter().sum::<f64>() == 5.0 && limit == Some(5.0);
        ensure!(
            adds_up && places[2] >= 1.0,
            "{places:?} of {limit:?}: {page}"
        );
        Ok(())
    };
    wait_for("the permits to add up", Duration::from_secs(20), look)
}
