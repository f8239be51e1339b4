//! Calls that wait: progress, cancelling, leaving, steering, notices of changes.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::fake::Fake;
use crate::{Client, site};

const IN_TIME: Duration = Duration::from_secs(20);

fn endless() -> Fake {
    Fake {
        never_ends: true,
        ..site()
    }
}

async fn next(client: &mut Client) -> Value {
    let line = timeout(IN_TIME, client.lines.next_line()).await;
    serde_json::from_str(&line.expect("in time").unwrap().unwrap()).unwrap()
}

/// Waits until `is_there`, for a bounded time.
async fn until(is_there: impl Fn() -> bool) {
    timeout(IN_TIME, async {
        while !is_there() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("it comes in time");
}

fn crawl() -> Value {
    json!({ "name": "crawl", "arguments": { "url": "https://a.test/" }, "_meta": { "progressToken": "p" } })
}

#[tokio::test]
async fn cancelling_the_call_cancels_what_it_started() {
    for call in [
        crawl(),
        json!({ "name": "scrape", "arguments": { "url": "https://a.test/" } }),
        json!({ "name": "fetch_url", "arguments": { "url": "https://a.test/" } }),
    ] {
        let fake = endless();
        let mut client = Client::open(&fake).await;
        let id = client.begin("tools/call", call.clone()).await;
        until(|| !fake.sessions.lock().is_empty()).await;
        if call["name"] == "crawl" {
            // The gateway knows the session once the first progress notice came.
            assert_eq!(next(&mut client).await["method"], "notifications/progress");
        }
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        client.send(&note).await;
        until(|| !fake.cancelled.lock().is_empty()).await;
        let sessions: Vec<_> = fake.sessions.lock().keys().cloned().collect();
        assert_eq!(*fake.cancelled.lock(), sessions, "{call}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_wait_and_not_the_crawl() {
    let fake = endless();
    let mut client = Client::open(&fake).await;
    client.begin("tools/call", crawl()).await;
    assert_eq!(next(&mut client).await["method"], "notifications/progress");
    let mut watchers = fake.watchers.subscribe();
    drop(client);
    let ended = watchers.wait_for(|open| *open == 0);
    timeout(IN_TIME, ended)
        .await
        .expect("the wait ends")
        .unwrap();
    // One more question to the same door, so that a cancel in flight would have arrived.
    let id = fake.sessions.lock().keys().next().unwrap().clone();
    let mut other = Client::open(&fake).await;
    let status = other.call("crawl_status", json!({ "job_id": id })).await;
    assert_eq!(
        status["result"]["structuredContent"]["state"], "running",
        "{status}"
    );
    assert!(fake.cancelled.lock().is_empty());
}

#[tokio::test]
async fn progress_rises_strictly() {
    let fake = endless();
    let mut client = Client::open(&fake).await;
    let params = json!({ "name": "crawl", "arguments": { "url": "https://a.test/", "wait": 2 },
        "_meta": { "progressToken": "p" } });
    let id = client.begin("tools/call", params).await;
    client.reply(id).await;
    let told: Vec<_> = client
        .notices
        .iter()
        .filter(|note| note["method"] == "notifications/progress")
        .map(|note| note["params"]["progress"].as_f64().unwrap())
        .collect();
    assert!(told.len() >= 2, "{told:?}");
    assert!(told.windows(2).all(|two| two[0] < two[1]), "{told:?}");
}

#[tokio::test]
async fn a_session_is_paused_resumed_cancelled_and_listed() {
    let fake = endless();
    let mut client = Client::open(&fake).await;
    let begun = client
        .call("crawl", json!({ "url": "https://a.test/", "wait": false }))
        .await;
    let id = &begun["result"]["structuredContent"]["session_id"];
    for (action, state) in [
        ("pause", "paused"),
        ("resume", "running"),
        ("cancel", "cancelled"),
    ] {
        let given = json!({ "action": action, "session_id": id });
        let reply = client.call("crawl_control", given).await;
        let told = &reply["result"]["structuredContent"];
        assert_eq!(told["state"], state, "{reply}");
    }
    let reply = client
        .call("crawl_control", json!({ "action": "list" }))
        .await;
    let sessions = &reply["result"]["structuredContent"]["sessions"];
    assert_eq!(&sessions[0]["session_id"], id, "{reply}");
    let reply = client
        .call("crawl_control", json!({ "action": "pause" }))
        .await;
    assert_eq!(reply["error"]["data"]["field"], "session_id", "{reply}");
}

#[tokio::test]
async fn changes_of_a_subscribed_session_are_told() {
    let fake = endless();
    let mut client = Client::open(&fake).await;
    let begun = client
        .call("crawl", json!({ "url": "https://a.test/", "wait": false }))
        .await;
    let id = begun["result"]["structuredContent"]["session_id"].as_str();
    let uri = format!("crawlforge://job/{}", id.unwrap());
    let done = client
        .ask("resources/subscribe", json!({ "uri": uri }))
        .await;
    assert!(done["result"].is_object(), "{done}");
    let note = match client.notices.pop() {
        Some(note) => note,
        None => next(&mut client).await,
    };
    assert_eq!(note["method"], "notifications/resources/updated", "{note}");
    assert_eq!(note["params"]["uri"], uri);
    let mut watchers = fake.watchers.subscribe();
    client
        .ask("resources/unsubscribe", json!({ "uri": uri }))
        .await;
    let ended = watchers.wait_for(|open| *open == 0);
    timeout(IN_TIME, ended)
        .await
        .expect("it is no longer followed")
        .unwrap();
}
