//! What is stored, read afterwards: slices, searches, pages of a batch, large parts.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::{Client, site};

async fn crawled(client: &mut Client) -> String {
    let reply = client
        .call("crawl", json!({ "url": "https://a.test/", "wait": false }))
        .await;
    let id = &reply["result"]["structuredContent"]["session_id"];
    id.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn slices_of_a_part_beyond_one_answer_join_to_the_whole() {
    let long = "é漢🦀 \"quoted\" text\n".repeat(8_000);
    let mut client = Client::open(&Fake::with_pages(&[("https://a.test/", &long)])).await;
    let id = crawled(&mut client).await;
    let mut read = String::new();
    let mut offset = json!(0);
    while !offset.is_null() {
        let given = json!({ "session_id": id, "url": "https://a.test/", "offset": offset });
        let reply = client.call("read_result", given).await;
        let told = &reply["result"]["structuredContent"];
        assert_eq!(told["size"], long.len(), "{reply}");
        assert_eq!(reply["result"]["_meta"]["credits_used"], 0);
        read.push_str(told["content"].as_str().unwrap());
        offset = told["next_offset"].clone();
    }
    assert!(read == long, "{} of {} bytes", read.len(), long.len());
}

#[tokio::test]
async fn a_search_takes_a_literal_or_a_regular_expression() {
    let text = "One needle.7 here, and a Needle.8 there.";
    let mut client = Client::open(&Fake::with_pages(&[("https://a.test/", text)])).await;
    let id = crawled(&mut client).await;
    for (find, regex, wanted) in [
        ("needle.", false, vec![4, 25]),
        ("n.edle", false, vec![]),
        (r"needle\.[8-9]", true, vec![25]),
    ] {
        let given =
            json!({ "session_id": id, "url": "https://a.test/", "find": find, "regex": regex });
        let reply = client.call("read_result", given).await;
        let told = &reply["result"]["structuredContent"];
        let matches = told["matches"].as_array().unwrap();
        let offsets: Vec<_> = matches
            .iter()
            .map(|found| found["offset"].clone())
            .collect();
        assert_eq!(json!(offsets), json!(wanted), "{find}: {reply}");
    }
    let given = json!({ "session_id": id, "url": "https://a.test/", "find": "(", "regex": true });
    let reply = client.call("read_result", given).await;
    assert_eq!(reply["error"]["data"]["field"], "find", "{reply}");
}

#[tokio::test]
async fn a_snapshot_larger_than_one_read_is_whole() {
    let large = "0123456789abcdef".repeat(600 * 1024);
    let mut client = Client::open(&Fake::with_pages(&[("https://a.test/", &large)])).await;
    let reply = client
        .call(
            "fetch_url",
            json!({ "url": "https://a.test/", "max_tokens": 500 }),
        )
        .await;
    let told = &reply["result"]["structuredContent"];
    assert_eq!(told["truncated"]["whole_bytes"], large.len(), "{reply}");
    let uri = reply["result"]["content"][1]["uri"].clone();
    let read = client.ask("resources/read", json!({ "uri": uri })).await;
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text == large, "{} of {} bytes", text.len(), large.len());
}

#[tokio::test]
async fn a_small_budget_shortens_results_and_drops_none() {
    let long = "word ".repeat(2_000);
    let urls: Vec<_> = (0..25).map(|n| format!("https://a.test/{n}")).collect();
    let pages: Vec<_> = urls
        .iter()
        .map(|url| (url.as_str(), long.as_str()))
        .collect();
    let mut client = Client::open(&Fake::with_pages(&pages)).await;
    let given = json!({ "urls": urls, "max_tokens": 500 });
    let reply = client.call("batch_scrape", given).await;
    let told = &reply["result"]["structuredContent"];
    let results = told["results"].as_array().unwrap();
    let order: Vec<_> = results.iter().map(|result| result["url"].clone()).collect();
    assert_eq!(json!(order), json!(urls));
    assert_eq!(told["shortened"], 25, "{told}");
    let next = told["next_step"].as_str().unwrap();
    assert!(next.contains("read_result"), "{next}");

    let mut seen: Vec<Value> = Vec::new();
    for page in 1..=3 {
        let given = json!({ "jobId": told["session_id"], "page": page, "pageSize": 10 });
        let reply = client.call("get_batch_results", given).await;
        let told = &reply["result"]["structuredContent"];
        assert_eq!(told["total"], 25, "{reply}");
        assert_eq!(told["total_pages"], 3);
        assert_eq!(reply["result"]["_meta"]["credits_used"], 0);
        let results = told["results"].as_array().unwrap();
        seen.extend(results.iter().map(|result| result["url"].clone()));
    }
    assert_eq!(json!(seen), json!(urls));
    let given = json!({ "job_id": told["session_id"], "page": 4, "page_size": 10 });
    let beyond = client.call("get_batch_results", given).await;
    assert_eq!(beyond["error"]["data"]["field"], "page", "{beyond}");
}

#[tokio::test]
async fn reading_a_crawl_again_is_free() {
    let mut client = Client::open(&site()).await;
    let reply = client
        .call("crawl", json!({ "url": "https://a.test/" }))
        .await;
    assert_eq!(reply["result"]["_meta"]["credits_used"], 3, "{reply}");
    let id = &reply["result"]["structuredContent"]["session_id"];
    let again = client
        .call("crawl_results", json!({ "session_id": id }))
        .await;
    assert_eq!(again["result"]["_meta"]["credits_used"], 0, "{again}");
    let pages = &again["result"]["structuredContent"]["pages"];
    assert_eq!(pages.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_path_reads_values_out_of_what_is_json() {
    let mut client = Client::open(&site()).await;
    let id = crawled(&mut client).await;
    // Without a URL it is the page where the session began.
    let given = json!({ "session_id": id, "path": "$.links[*].url" });
    let reply = client.call("read_result", given).await;
    let told = &reply["result"]["structuredContent"];
    let wanted = json!([
        { "path": "$.links[0].url", "value": "https://a.test/linked" },
        { "path": "$.links[1].url", "value": "https://b.test/" },
    ]);
    assert_eq!(told["values"], wanted, "{reply}");
    for (given, field) in [
        (json!({ "session_id": id, "path": "a[" }), "path"),
        (
            json!({ "session_id": id, "path": "a", "find": "b" }),
            "path",
        ),
        (
            json!({ "session_id": id, "path": "a", "part": "markdown" }),
            "path",
        ),
    ] {
        let reply = client.call("read_result", given.clone()).await;
        assert_eq!(reply["error"]["data"]["field"], field, "{given}: {reply}");
    }
}

#[tokio::test]
async fn a_slow_pattern_ends_in_an_answer() {
    let long = "a".repeat(8 * 1024 * 1024);
    let mut client = Client::open(&Fake::with_pages(&[("https://a.test/", &long)])).await;
    let id = crawled(&mut client).await;
    let given = json!({ "session_id": id, "url": "https://a.test/", "regex": true,
        "find": r"(a?){80}b|[a-z]{60}\d|(\w+\s*)+x" });
    let reply = client.call("read_result", given).await;
    let result = &reply["result"];
    let is_answer = result["structuredContent"]["total"] == 0
        || result["structuredContent"]["code"] == "timeout";
    assert!(is_answer, "{reply}");
}
