//! The MCP surface on the wire, in front of a scripted session door.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends at the first thing that is not as it must be"
)]

mod extract;
mod fake;
mod formats;
mod jobs;
mod over_http;
mod prompts;
mod reading;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use fake::Fake;
use gateway::{Config, Gateway, ToolSelection};
use proto::Clock;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const SITE: [(&str, &str); 3] = [
    ("https://a.test/", "# One\n\nFirst."),
    ("https://a.test/2", "# Two\n\nSecond."),
    ("https://a.test/3", "# Three\n\nThird."),
];

/// The output schemas of all tools, by name.
static SCHEMAS: OnceCell<BTreeMap<String, Value>> = OnceCell::const_new();

async fn output_schemas() -> BTreeMap<String, Value> {
    let config = Config {
        tools: ToolSelection::All,
        ..Config::default()
    };
    let mut client = Client::raw(&site(), config);
    client.greet().await;
    let reply = client.ask("tools/list", json!({})).await;
    let tools = reply["result"]["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| {
            let name = tool["name"].as_str().unwrap().to_owned();
            (name, tool["outputSchema"].clone())
        })
        .collect()
}

fn assert_typed(schema: Option<&Value>, told: &Value) {
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    for (name, property) in properties.into_iter().flatten() {
        let Some(value) = told.get(name) else {
            continue;
        };
        let is_typed = match property["type"].as_str() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_u64(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            other => panic!("{name} has the type {other:?}"),
        };
        assert!(is_typed, "`{name}` is not as promised: {told}");
    }
}

struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    last: u64,
    notices: Vec<Value>,
}

impl Client {
    fn raw(fake: &Fake, config: Config) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let gateway = Gateway::new(config, fake.channel(), Clock::start());
        tokio::spawn(async move {
            gateway
                .serve_io(reader, writer, CancellationToken::new())
                .await
        });
        let (reader, writer) = tokio::io::split(ours);
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
            last: 0,
            notices: Vec::new(),
        }
    }

    async fn open(fake: &Fake) -> Self {
        let mut client = Self::raw(fake, Config::default());
        client.greet().await;
        client
    }

    async fn greet(&mut self) {
        let client = self;
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        let opened = client.ask("initialize", hello).await;
        assert_eq!(
            opened["result"]["protocolVersion"], "2025-11-25",
            "{opened}"
        );
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .await;
    }

    async fn send(&mut self, message: &Value) {
        self.writer
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .await;
        id
    }

    async fn reply(&mut self, id: u64) -> Value {
        loop {
            let line = timeout(Duration::from_secs(20), self.lines.next_line()).await;
            let line = line
                .expect("an answer in time")
                .unwrap()
                .expect("an open stream");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
            self.notices.push(message);
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.reply(id).await
    }

    /// Calls a tool; what it tells has the types that its output schema promises.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let given = json!({ "name": tool, "arguments": arguments });
        let reply = self.ask("tools/call", given).await;
        let result = &reply["result"];
        if result["structuredContent"].is_object() && result["isError"] != true {
            let schemas = SCHEMAS.get_or_init(output_schemas).await;
            assert_typed(schemas.get(tool), &result["structuredContent"]);
        }
        reply
    }
}

fn site() -> Fake {
    Fake::with_pages(&SITE)
}

#[tokio::test]
async fn the_list_of_tools_is_small_and_portable() {
    let mut client = Client::open(&site()).await;
    let reply = client.ask("tools/list", json!({})).await;
    let text = reply["result"].to_string();
    println!("the list has {} bytes", text.len());
    assert!(text.len() < 12_000, "{} bytes", text.len());
    for wrong in ["\"uint", "\"null\"", "exclusiveM"] {
        assert!(!text.contains(wrong), "{wrong}");
    }
    let tools = reply["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 11);
    for tool in tools {
        for hint in [
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ] {
            assert!(tool["annotations"][hint].is_boolean(), "{tool}");
        }
        assert!(
            tool["title"].is_string() && tool["outputSchema"].is_object(),
            "{tool}"
        );
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        let icon = tool["icons"][0]["src"].as_str().unwrap();
        assert!(icon.starts_with("data:image/svg+xml,"), "{icon}");
        // What RFC 3986 lets stand in a URI; clients check it.
        let is_uri = |octet: u8| {
            octet.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&octet)
        };
        assert!(icon.bytes().all(is_uri), "{icon}");
    }
}

#[tokio::test]
async fn a_client_of_the_new_era_needs_no_handshake() {
    let mut client = Client::raw(&site(), Config::default());
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {} });
    let found = client
        .ask("server/discover", json!({ "_meta": meta }))
        .await;
    assert!(
        found["result"]["capabilities"]["tools"].is_object(),
        "{found}"
    );
    let missing = json!({ "_meta": meta, "uri": "crawlforge://job/none" });
    let reply = client.ask("resources/read", missing).await;
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
}

#[tokio::test]
async fn an_argument_at_fault_is_named_with_its_bound() {
    let mut client = Client::open(&site()).await;
    for (tool, arguments, field) in [
        ("scrape", json!({}), "url"),
        ("scrape", json!({ "url": "file:///etc/passwd" }), "url"),
        (
            "scrape",
            json!({ "url": "https://a.test/", "timeoutMs": 1 }),
            "timeoutMs",
        ),
        (
            "scrape",
            json!({ "url": "https://a.test/", "timeoutMs": 2000, "timeout": 3000 }),
            "timeoutMs",
        ),
        (
            "crawl",
            json!({ "url": "https://a.test/", "maxPages": 0 }),
            "maxPages",
        ),
        (
            "crawl",
            json!({ "url": "https://a.test/", "max_page": 1 }),
            "max_page",
        ),
        (
            "crawl",
            json!({ "url": "https://a.test/", "respect_robots_txt": false }),
            "respect_robots_txt",
        ),
        (
            "crawl",
            json!({ "url": "https://a.test/", "scope": "host", "stay_on_domain": true }),
            "scope",
        ),
        ("batch_scrape", json!({ "urls": [] }), "urls"),
        (
            "batch_scrape",
            json!({ "urls": ["https://a.test/", "nope"] }),
            "urls[1]",
        ),
        ("screenshot", json!({ "url": "https://a.test/" }), "name"),
        // A fixture of the conformance suite: never in an ordinary build.
        ("test_simple_text", json!({}), "name"),
    ] {
        let reply = client.call(tool, arguments.clone()).await;
        assert_eq!(
            reply["error"]["code"], -32602,
            "{tool} {arguments}: {reply}"
        );
        assert_eq!(
            reply["error"]["data"]["field"], field,
            "{tool} {arguments}: {reply}"
        );
        assert!(reply["error"]["data"]["bound"].is_string(), "{reply}");
    }
}

#[tokio::test]
async fn a_page_comes_as_markdown_and_a_refused_one_as_an_error_to_act_on() {
    let mut client = Client::open(&site()).await;
    let reply = client
        .call("scrape", json!({ "url": "https://a.test/" }))
        .await;
    let result = &reply["result"];
    assert_eq!(
        result["structuredContent"]["markdown"], "# One\n\nFirst.",
        "{reply}"
    );
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("# One\n\nFirst.")
    );
    assert_eq!(result["_meta"]["credits_used"], 1);
    assert!(result["_meta"]["credits_remaining"].is_null());

    let reply = client
        .call("scrape", json!({ "url": "https://a.test/private" }))
        .await;
    let result = &reply["result"];
    assert_eq!(result["isError"], true, "{reply}");
    assert_eq!(result["structuredContent"]["code"], "robots");
    assert_eq!(result["structuredContent"]["jsonrpc_code"], -32603);
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("Next step")
    );

    let reply = client
        .call("fetch_url", json!({ "url": "https://a.test/2" }))
        .await;
    assert_eq!(
        reply["result"]["content"][0]["text"], "# Two\n\nSecond.",
        "verbatim: {reply}"
    );
}

#[tokio::test]
async fn no_answer_is_larger_than_asked_for_and_the_cursor_reaches_every_page() {
    let long = "é漢🦀 \"quoted\"\n\n".repeat(600);
    let urls: Vec<_> = (0..30).map(|n| format!("https://a.test/{n}")).collect();
    let pages: Vec<_> = urls
        .iter()
        .map(|url| (url.as_str(), long.as_str()))
        .collect();
    let mut client = Client::open(&Fake::with_pages(&pages)).await;
    let mut seen = Vec::new();
    let mut reply = client
        .call(
            "crawl",
            json!({ "url": "https://a.test/0", "max_tokens": 2000 }),
        )
        .await;
    loop {
        let told = &reply["result"]["structuredContent"];
        assert!(
            told.to_string().len() <= 8_000,
            "{}",
            told.to_string().len()
        );
        assert!(
            reply["result"]["content"][0]["text"]
                .as_str()
                .unwrap()
                .len()
                <= 8_000
        );
        seen.extend(
            told["pages"]
                .as_array()
                .unwrap()
                .iter()
                .map(|p| p["url"].clone()),
        );
        let Some(cursor) = told["next_cursor"].as_str() else {
            break;
        };
        assert!(seen.len() <= urls.len(), "the cursor moves on");
        let next =
            json!({ "session_id": told["session_id"], "cursor": cursor, "max_tokens": 2000 });
        reply = client.call("crawl_results", next).await;
    }
    assert_eq!(json!(seen), json!(urls));
}

#[tokio::test]
async fn a_batch_answers_in_the_order_asked_with_failures_inline() {
    let mut client = Client::open(&site()).await;
    let urls = ["https://a.test/3", "https://a.test/none", "https://a.test/"];
    let reply = client.call("batch_scrape", json!({ "urls": urls })).await;
    let results = reply["result"]["structuredContent"]["results"]
        .as_array()
        .unwrap();
    let order: Vec<_> = results
        .iter()
        .map(|result| result["url"].as_str().unwrap())
        .collect();
    assert_eq!(order, urls);
    assert_eq!(results[1]["error"]["code"], "robots");
    assert_eq!(results[2]["markdown"], "# One\n\nFirst.");
    assert!(
        reply["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("\n---\n")
    );
}

#[tokio::test]
async fn a_started_crawl_is_a_resource() {
    let mut client = Client::open(&site()).await;
    let reply = client
        .call("crawl", json!({ "url": "https://a.test/", "wait": false }))
        .await;
    let id = reply["result"]["structuredContent"]["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let listed = client.ask("resources/list", json!({})).await.to_string();
    for uri in [
        format!("crawlforge://crawl/{id}/sitemap"),
        format!("crawlforge://job/{id}"),
    ] {
        assert!(listed.contains(&uri), "{listed}");
        let read = client.ask("resources/read", json!({ "uri": uri })).await;
        assert!(
            read["result"]["contents"][0]["text"]
                .as_str()
                .unwrap()
                .contains(&id),
            "{read}"
        );
    }
    let map = client
        .ask(
            "resources/read",
            json!({ "uri": format!("crawlforge://crawl/{id}/sitemap") }),
        )
        .await;
    let map: Value =
        serde_json::from_str(map["result"]["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(map["count"], 3);
    let uri = map["pages"][0]["snapshot"].clone();
    let read = client.ask("resources/read", json!({ "uri": uri })).await;
    assert_eq!(
        read["result"]["contents"][0]["text"], "# One\n\nFirst.",
        "{read}"
    );
    let missing = client
        .ask("resources/read", json!({ "uri": "crawlforge://job/none" }))
        .await;
    assert_eq!(missing["error"]["code"], -32002, "{missing}");
}
