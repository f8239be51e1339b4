//! A page in each format, and how a scrape finds its end.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::{Client, site};

#[tokio::test]
async fn every_format_is_answered_under_its_name() {
    let mut client = Client::open(&site()).await;
    let formats = ["html", "rawHtml", "text", "links", "metadata"];
    let reply = client
        .call(
            "scrape",
            json!({ "url": "https://a.test/", "formats": formats }),
        )
        .await;
    let told = &reply["result"]["structuredContent"];
    assert_eq!(told["html"], "<p># One\n\nFirst.</p>", "{reply}");
    assert_eq!(told["rawHtml"], "# One\n\nFirst.");
    assert_eq!(told["text"], "Plain.");
    assert_eq!(told["links"][0]["url"], "https://a.test/linked");
    assert_eq!(told["metadata"], json!({ "language": "en" }));
    assert!(told.get("markdown").is_none(), "{reply}");
}

#[tokio::test]
async fn json_is_one_object_of_facts_metadata_links_and_markdown() {
    let mut client = Client::open(&site()).await;
    let reply = client
        .call(
            "scrape",
            json!({ "url": "https://a.test/", "format": "json" }),
        )
        .await;
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    let page: Value = serde_json::from_str(text).unwrap();
    assert_eq!(page["title"], "A title");
    assert_eq!(page["metadata"]["language"], "en");
    assert_eq!(page["links"][0]["text"], "Linked");
    assert_eq!(page["markdown"], "# One\n\nFirst.");

    let reply = client
        .call(
            "crawl",
            json!({ "url": "https://a.test/", "format": "json" }),
        )
        .await;
    let text = reply["result"]["content"][0]["text"].as_str().unwrap();
    let pages: Vec<Value> = serde_json::from_str(text).unwrap();
    assert_eq!(pages.len(), 3);
    assert_eq!(pages[1]["metadata"]["language"], "en");
    let note = reply["result"]["content"][1]["text"].as_str().unwrap();
    assert!(note.contains("completed"), "{note}");
}

#[tokio::test]
async fn a_run_that_is_answered_before_its_end_is_waited_for() {
    let fake = Fake {
        answers_early: true,
        ..site()
    };
    let mut client = Client::open(&fake).await;
    let reply = client
        .call("scrape", json!({ "url": "https://a.test/2" }))
        .await;
    assert_eq!(
        reply["result"]["structuredContent"]["markdown"], "# Two\n\nSecond.",
        "{reply}"
    );
}

#[tokio::test]
async fn a_map_tells_what_the_sitemap_knows_and_finds_by_a_word() {
    let mut client = Client::open(&site()).await;
    let reply = client
        .call("map", json!({ "url": "https://a.test/" }))
        .await;
    let told = &reply["result"]["structuredContent"];
    let wanted = json!([
        { "url": "https://a.test/" },
        { "url": "https://a.test/2", "lastmod": "2026-01-02" },
        { "url": "https://a.test/3" },
    ]);
    assert_eq!(told["urls"], wanted, "{reply}");
    let id = told["session_id"].as_str().unwrap();
    let uri = format!("crawlforge://crawl/{id}/sitemap");
    let read = client.ask("resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let sitemap: Value = serde_json::from_str(text).unwrap();
    assert_eq!(sitemap["pages"], wanted, "{read}");
    let found = client
        .call(
            "map",
            json!({ "url": "https://a.test/", "search": "TEST/3" }),
        )
        .await;
    let told = &found["result"]["structuredContent"];
    assert_eq!(told["urls"], json!([{ "url": "https://a.test/3" }]));
    assert_eq!(told["total"], 1);
}

#[tokio::test]
async fn a_cursor_of_a_map_carries_its_search_along() {
    let mut client = Client::open(&site()).await;
    let given = json!({ "url": "https://a.test/", "search": "Test/", "limit": 2 });
    let reply = client.call("map", given).await;
    let told = &reply["result"]["structuredContent"];
    assert_eq!(told["urls"].as_array().unwrap().len(), 2, "{reply}");
    let given = json!({ "session_id": told["session_id"], "cursor": told["next_cursor"] });
    let rest = client.call("crawl_results", given).await;
    let rest = &rest["result"]["structuredContent"];
    assert_eq!(rest["urls"], json!([{ "url": "https://a.test/3" }]));
    assert_eq!(rest["total"], 3);
    let given = json!({ "session_id": told["session_id"], "cursor": "2:/2" });
    let other = client.call("crawl_results", given).await;
    assert_eq!(other["result"]["structuredContent"]["total"], 1, "{other}");
}
