//! Streamable HTTP: who may ask, both eras, and what a closed stream ends.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use futures::StreamExt as _;
use gateway::{Config, Gateway, Rate};
use http::{Request, Response};
use proto::Clock;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt as _;

use crate::fake::Fake;
use crate::site;

const IN_TIME: Duration = Duration::from_secs(20);

fn router(fake: &Fake) -> Router {
    Gateway::new(Config::default(), fake.channel(), Clock::start()).router()
}

fn hello() -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } } })
}

async fn post(router: &Router, headers: &[(&str, &str)], message: &Value) -> Response<Body> {
    let mut request = Request::post("/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(message.to_string())).unwrap();
    let response = router.clone().oneshot(request);
    timeout(IN_TIME, response).await.expect("in time").unwrap()
}

/// The next message of a body, be it JSON or a stream of events.
async fn message(body: &mut BodyDataStream) -> Value {
    let mut text = String::new();
    loop {
        let frame = timeout(IN_TIME, body.next()).await.expect("in time");
        text.push_str(std::str::from_utf8(&frame.expect("a frame").unwrap()).unwrap());
        let lines = text
            .lines()
            .map(|line| line.strip_prefix("data:").unwrap_or(line));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
        if let Some(found) = messages.find(Value::is_object) {
            return found;
        }
    }
}

fn modern(id: u64, tool: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": {
            "progressToken": "p",
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} } } })
}

fn modern_headers(tool: &str) -> [(&str, &str); 4] {
    [
        ("host", "127.0.0.1:8080"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ]
}

#[tokio::test]
async fn http_refuses_a_foreign_origin_and_a_foreign_host() {
    let router = router(&site());
    for (host, origin, wanted) in [
        ("127.0.0.1:8080", "http://localhost:3000", 200),
        ("127.0.0.1:8080", "https://evil.test", 403),
        ("evil.test", "http://localhost:3000", 403),
    ] {
        let headers = [("host", host), ("origin", origin)];
        let response = post(&router, &headers, &hello()).await;
        assert_eq!(response.status(), wanted, "{host} {origin}");
    }
}

#[tokio::test]
async fn a_listed_web_page_may_ask_and_read_and_no_other() {
    let router = router(&site());
    for (origin, wanted) in [("http://localhost:3000", 204), ("https://evil.test", 403)] {
        let request = Request::options("/mcp")
            .header("host", "127.0.0.1:8080")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .body(Body::empty())
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), wanted, "{origin}");
        let allowed = response.headers().get("access-control-allow-origin");
        assert_eq!(
            allowed.map(|origin| origin.to_str().unwrap()),
            (wanted == 204).then_some(origin)
        );
    }
    let headers = [
        ("host", "127.0.0.1:8080"),
        ("origin", "http://localhost:3000"),
    ];
    let response = post(&router, &headers, &hello()).await;
    let headers = response.headers();
    assert_eq!(
        headers["access-control-allow-origin"],
        "http://localhost:3000"
    );
    let exposed = headers["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("mcp-session-id"), "{exposed}");
    let without = post(&router, &[("host", "127.0.0.1:8080")], &hello()).await;
    let allowed = without.headers().get("access-control-allow-origin");
    assert!(allowed.is_none(), "no web page asked");
}

#[tokio::test]
async fn headers_and_bodies_have_a_bound() {
    let router = router(&site());
    let host = ("host", "127.0.0.1:8080");
    let long = "a".repeat(40 * 1024);
    let response = post(&router, &[host, ("x-long", &long)], &hello()).await;
    assert_eq!(response.status(), 431);
    let mut large = hello();
    large["params"]["clientInfo"]["name"] = json!("a".repeat(5 * 1024 * 1024));
    let response = post(&router, &[host], &large).await;
    assert_eq!(response.status(), 413);
}

#[tokio::test]
async fn too_many_requests_are_told_when_to_come_back() {
    let config = Config {
        rate_all: Rate {
            per_second: 1,
            burst: 2,
        },
        ..Config::default()
    };
    let router = Gateway::new(config, site().channel(), Clock::start()).router();
    let host = ("host", "127.0.0.1:8080");
    for _ in 0..2 {
        assert_eq!(post(&router, &[host], &hello()).await.status(), 200);
    }
    let response = post(&router, &[host], &hello()).await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    let told = message(&mut response.into_body().into_data_stream()).await;
    assert_eq!(told["error"]["data"]["retry_after"], 1, "{told}");
}

#[tokio::test]
async fn a_closing_gateway_answers_those_who_wait() {
    let fake = Fake {
        never_ends: true,
        ..site()
    };
    let gateway = Gateway::new(Config::default(), fake.channel(), Clock::start());
    let call = modern(1, "crawl", &json!({ "url": "https://a.test/" }));
    let answer = post(&gateway.router(), &modern_headers("crawl"), &call).await;
    let mut body = answer.into_body().into_data_stream();
    assert_eq!(message(&mut body).await["method"], "notifications/progress");
    let closing = tokio::spawn(async move { gateway.close().await });
    let mut told = message(&mut body).await;
    while told.get("method").is_some() {
        told = message(&mut body).await;
    }
    let answer = &told["result"]["structuredContent"];
    assert_eq!(answer["state"], "running", "{told}");
    assert!(answer["next_step"].is_string(), "{told}");
    timeout(IN_TIME, closing).await.expect("it closes").unwrap();
    assert!(fake.cancelled.lock().is_empty(), "the crawl goes on");
}

#[tokio::test]
async fn a_tool_is_called_in_both_eras() {
    let router = router(&site());
    let host = ("host", "127.0.0.1:8080");
    let opened = post(&router, &[host], &hello()).await;
    let session = opened.headers()["mcp-session-id"]
        .to_str()
        .unwrap()
        .to_owned();
    message(&mut opened.into_body().into_data_stream()).await;
    let of_session = [
        host,
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(&router, &of_session, &note).await.status(), 202);
    let arguments = json!({ "url": "https://a.test/" });
    let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": { "name": "scrape", "arguments": arguments } });
    let answer = post(&router, &of_session, &call).await;
    let old = message(&mut answer.into_body().into_data_stream()).await;
    let markdown = &old["result"]["structuredContent"]["markdown"];
    assert_eq!(markdown, "# One\n\nFirst.", "{old}");

    let call = modern(3, "scrape", &arguments);
    let answer = post(&router, &modern_headers("scrape"), &call).await;
    let new = message(&mut answer.into_body().into_data_stream()).await;
    assert_eq!(
        &new["result"]["structuredContent"]["markdown"], markdown,
        "{new}"
    );
    assert_eq!(new["result"]["resultType"], "complete", "{new}");
    assert!(old["result"].get("resultType").is_none(), "{old}");
}

#[tokio::test]
async fn the_address_chooses_which_tools_are_listed() {
    let router = router(&site());
    let listed = async |query: &str| {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} });
        let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } });
        let request = Request::post(format!("/mcp{query}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("host", "127.0.0.1:8080")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/list")
            .body(Body::from(question.to_string()))
            .unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        message(&mut response.into_body().into_data_stream()).await
    };
    let names = |reply: &Value| -> Vec<String> {
        let tools = reply["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&listed("").await).len(), 11);
    assert_eq!(names(&listed("?tools=all").await).len(), 18);
    let few = listed("?tools=scrape,extract_links&tools=meta").await;
    assert_eq!(names(&few), ["extract_links", "get_version", "scrape"]);
    let wrong = listed("?tools=scrap").await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    assert_eq!(wrong["error"]["data"]["field"], "tools", "{wrong}");
}

#[tokio::test]
async fn closing_the_stream_of_an_answer_ends_only_the_wait() {
    let fake = Fake {
        never_ends: true,
        ..site()
    };
    let router = router(&fake);
    let call = modern(1, "crawl", &json!({ "url": "https://a.test/" }));
    let answer = post(&router, &modern_headers("crawl"), &call).await;
    let mut body = answer.into_body().into_data_stream();
    let note = message(&mut body).await;
    assert_eq!(note["method"], "notifications/progress", "{note}");
    let mut watchers = fake.watchers.subscribe();
    drop(body);
    let ended = watchers.wait_for(|open| *open == 0);
    timeout(IN_TIME, ended)
        .await
        .expect("the wait ends")
        .unwrap();
    let id = fake.sessions.lock().keys().next().unwrap().clone();
    let call = modern(2, "crawl_status", &json!({ "session_id": id }));
    let answer = post(&router, &modern_headers("crawl_status"), &call).await;
    let status = message(&mut answer.into_body().into_data_stream()).await;
    let state = &status["result"]["structuredContent"]["state"];
    assert_eq!(state, "running", "{status}");
    assert!(fake.cancelled.lock().is_empty());
}

#[tokio::test]
async fn a_listener_of_the_new_era_is_told_of_changes() {
    let fake = Fake {
        never_ends: true,
        ..site()
    };
    let router = router(&fake);
    let start = modern(
        1,
        "crawl",
        &json!({ "url": "https://a.test/", "wait": false }),
    );
    let answer = post(&router, &modern_headers("crawl"), &start).await;
    let begun = message(&mut answer.into_body().into_data_stream()).await;
    let id = begun["result"]["structuredContent"]["session_id"].as_str();
    let uri = format!("crawlforge://job/{}", id.unwrap());
    let listen = json!({ "jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen", "params": {
        "notifications": { "resourceSubscriptions": [uri] }, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} } } });
    let headers = [
        ("host", "127.0.0.1:8080"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let answer = post(&router, &headers, &listen).await;
    let mut body = answer.into_body().into_data_stream();
    let first = message(&mut body).await;
    assert_eq!(
        first["method"], "notifications/subscriptions/acknowledged",
        "{first}"
    );
    let note = message(&mut body).await;
    assert_eq!(note["method"], "notifications/resources/updated", "{note}");
    assert_eq!(note["params"]["uri"], uri);
}
