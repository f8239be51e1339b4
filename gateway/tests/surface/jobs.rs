//! Long work as tasks, for clients that take them.

use gateway::Config;
use proto::v1::SessionState;
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::{Client, site};

fn endless() -> Fake {
    Fake {
        never_ends: true,
        ..site()
    }
}

/// A question of the new era.
async fn ask(client: &mut Client, method: &str, mut params: Value, takes_tasks: bool) -> Value {
    let known = if takes_tasks {
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
    } else {
        json!({})
    };
    params["_meta"] = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": known });
    client.ask(method, params).await
}

fn crawl(arguments: &Value) -> Value {
    json!({ "name": "crawl", "arguments": arguments })
}

fn end(fake: &Fake, id: &str) {
    let mut sessions = fake.sessions.lock();
    let status = sessions.get_mut(id).unwrap();
    status.state = SessionState::Completed.into();
    status.expires_at_millis = 60_000;
}

#[tokio::test]
async fn a_long_crawl_is_a_task_that_any_gateway_answers() {
    let fake = endless();
    let mut client = Client::raw(&fake, Config::default());
    let given = json!({ "url": "https://a.test/", "max_tokens": 700 });
    let begun = ask(&mut client, "tools/call", crawl(&given), true).await;
    let task = &begun["result"];
    assert_eq!(task["resultType"], "task", "{begun}");
    assert_eq!(task["status"], "working");
    assert!(
        task["ttlMs"].is_null() && task["pollIntervalMs"].is_u64(),
        "{task}"
    );
    let id = task["taskId"].as_str().unwrap().to_owned();
    let params = json!({ "taskId": id });
    let reply = ask(&mut client, "tasks/get", params.clone(), true).await;
    assert_eq!(reply["result"]["status"], "working", "{reply}");
    let message = reply["result"]["statusMessage"].as_str().unwrap();
    assert!(message.contains("URLs done"), "{message}");

    end(&fake, &id);
    let mut other = Client::raw(&fake, Config::default());
    let reply = ask(&mut other, "tasks/get", params, true).await;
    let task = &reply["result"];
    assert_eq!(task["status"], "completed", "{reply}");
    assert_eq!(task["ttlMs"], 60_000);
    let answer = &task["result"];
    let pages = answer["structuredContent"]["pages"].as_array().unwrap();
    assert!(!pages.is_empty(), "{reply}");
    assert!(answer["content"][0]["text"].is_string());
    assert_eq!(answer["_meta"]["credits_used"], 3);
    let size = answer["structuredContent"].to_string().len();
    assert!(size <= 2_800, "the bound of the call holds later: {size}");
}

#[tokio::test]
async fn what_a_map_and_a_batch_were_asked_for_is_answered_at_their_end() {
    let fake = endless();
    let mut client = Client::raw(&fake, Config::default());
    for (tool, arguments, field, wanted) in [
        (
            "map",
            json!({ "url": "https://a.test/", "search": "TEST/3" }),
            "urls",
            json!([{ "url": "https://a.test/3" }]),
        ),
        (
            "batch_scrape",
            json!({ "urls": ["https://a.test/3", "https://a.test/"], "formats": ["text"] }),
            "results",
            json!(["Plain.", "Plain."]),
        ),
    ] {
        let call = json!({ "name": tool, "arguments": arguments });
        let begun = ask(&mut client, "tools/call", call, true).await;
        let id = begun["result"]["taskId"].as_str().unwrap().to_owned();
        end(&fake, &id);
        let reply = ask(&mut client, "tasks/get", json!({ "taskId": id }), true).await;
        let told = &reply["result"]["result"]["structuredContent"][field];
        let told = match tool {
            "map" => told.clone(),
            _ => told
                .as_array()
                .unwrap()
                .iter()
                .map(|result| result["text"].clone())
                .collect(),
        };
        assert_eq!(told, wanted, "{reply}");
    }
}

#[tokio::test]
async fn a_crawl_that_ends_at_once_is_no_task() {
    let mut client = Client::raw(&site(), Config::default());
    let call = crawl(&json!({ "url": "https://a.test/" }));
    let reply = ask(&mut client, "tools/call", call, true).await;
    assert_eq!(reply["result"]["resultType"], "complete", "{reply}");
    let pages = &reply["result"]["structuredContent"]["pages"];
    assert_eq!(pages.as_array().unwrap().len(), 3, "{reply}");
}

#[tokio::test]
async fn a_client_that_takes_no_tasks_gets_an_answer() {
    let fake = endless();
    let call = crawl(&json!({ "url": "https://a.test/", "wait": 0.2 }));
    let mut modern = Client::raw(&fake, Config::default());
    let reply = ask(&mut modern, "tools/call", call.clone(), false).await;
    assert_eq!(reply["result"]["resultType"], "complete", "{reply}");

    // A client that opens with `initialize` may declare the extension, and cannot read a task.
    let mut old = Client::raw(&fake, Config::default());
    let hello = json!({ "protocolVersion": "2025-11-25",
        "capabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        "clientInfo": { "name": "test", "version": "1" } });
    old.ask("initialize", hello).await;
    old.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
        .await;
    let reply = old.ask("tools/call", call).await;
    assert!(reply["result"]["content"].is_array(), "{reply}");

    let params = json!({ "taskId": "x" });
    let reply = ask(&mut modern, "tasks/get", params, false).await;
    assert_eq!(reply["error"]["code"], -32021, "{reply}");
}

#[tokio::test]
async fn cancelling_a_task_cancels_its_session() {
    let fake = endless();
    let mut client = Client::raw(&fake, Config::default());
    let call = crawl(&json!({ "url": "https://a.test/" }));
    let begun = ask(&mut client, "tools/call", call, true).await;
    let id = begun["result"]["taskId"].clone();
    let params = json!({ "taskId": id, "inputResponses": {} });
    for method in ["tasks/update", "tasks/cancel", "tasks/cancel"] {
        let reply = ask(&mut client, method, params.clone(), true).await;
        assert_eq!(
            reply["result"]["resultType"], "complete",
            "{method}: {reply}"
        );
    }
    assert_eq!(*fake.cancelled.lock(), [id.as_str().unwrap()]);
    let reply = ask(&mut client, "tasks/get", params, true).await;
    assert_eq!(reply["result"]["status"], "cancelled", "{reply}");

    let unknown = proto::SessionId::from_bytes([7; 16]).to_string();
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for id in ["nope", &unknown] {
            let params = json!({ "taskId": id, "inputResponses": {} });
            let reply = ask(&mut client, method, params, true).await;
            assert_eq!(reply["error"]["code"], -32602, "{method} {id}: {reply}");
            assert_eq!(reply["error"]["data"]["field"], "taskId");
        }
    }
}
