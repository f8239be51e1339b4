//! The tools that take one kind of thing from a page, and llms.txt of a crawl.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::{Client, site};

async fn told(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let reply = client.call(tool, arguments).await;
    assert!(reply["result"]["isError"] != true, "{reply}");
    let told = reply["result"]["structuredContent"].clone();
    assert!(told.is_object(), "{reply}");
    told
}

#[tokio::test]
async fn a_download_is_facts_and_a_resource_with_the_bytes() {
    let mut client = Client::open(&site()).await;
    let reply = client
        .call("download", json!({ "url": "https://a.test/2" }))
        .await;
    let result = &reply["result"];
    let text = result["content"][0]["text"].as_str().unwrap();
    let facts: Value = serde_json::from_str(text).unwrap();
    assert_eq!(facts, result["structuredContent"]);
    assert_eq!(facts["filename"], "2");
    assert_eq!(facts["mime_type"], "text/html");
    assert_eq!(facts["size"], 14);
    assert!(
        facts["note"].as_str().unwrap().contains("HTML page"),
        "{facts}"
    );
    assert_eq!(facts["content_hash"].as_str().unwrap().len(), 64);
    let uri = result["content"][1]["uri"].clone();
    assert_eq!(uri, facts["resource"]);
    let read = client.ask("resources/read", json!({ "uri": uri })).await;
    assert_eq!(read["result"]["contents"][0]["text"], "# Two\n\nSecond.");
}

#[tokio::test]
async fn text_links_metadata_and_content_come_alone() {
    let mut client = Client::open(&site()).await;
    let url = json!({ "url": "https://a.test/" });
    let text = told(&mut client, "extract_text", url.clone()).await;
    assert_eq!(text["text"], "Plain.");
    assert_eq!(
        (&text["word_count"], &text["char_count"]),
        (&json!(1), &json!(6))
    );
    let links = told(&mut client, "extract_links", url.clone()).await;
    assert_eq!(links["links"][0]["href"], "https://a.test/linked");
    assert_eq!(links["links"][0]["text"], "Linked");
    assert_eq!(links["links"][0]["is_external"], false);
    assert_eq!(links["total_count"], 2);
    assert_eq!(links["external_count"], 1);
    let ours = json!({ "url": "https://a.test/", "filterExternal": true });
    let links = told(&mut client, "extract_links", ours).await;
    assert_eq!(links["links"].as_array().unwrap().len(), 1);
    let metadata = told(&mut client, "extract_metadata", url.clone()).await;
    assert_eq!(metadata["language"], "en");
    assert!(metadata.get("links").is_none());
    let given = json!({ "url": "https://a.test/", "options": {
        "outputFormat": "markdown", "includeCleanedHTML": true, "minContentLength": 5 } });
    let content = told(&mut client, "extract_content", given).await;
    assert_eq!(content["content"], "# One\n\nFirst.");
    assert_eq!(content["cleaned_html"], "<p># One\n\nFirst.</p>");
    assert_eq!(content["is_thin"], false);
}

#[tokio::test]
async fn a_long_text_is_cut_and_says_how_to_read_on() {
    let long = "word ".repeat(4_000);
    let mut client = Client::open(&Fake::with_pages(&[("https://a.test/", &long)])).await;
    let given = json!({ "url": "https://a.test/", "max_tokens": 800 });
    let told = told(&mut client, "extract_content", given).await;
    assert!(
        told.to_string().len() <= 3_200,
        "{}",
        told.to_string().len()
    );
    assert_eq!(told["word_count"], 4_000);
    let next = told["next_step"].as_str().unwrap();
    assert!(
        next.contains("read_result") && next.contains("markdown"),
        "{next}"
    );
}

#[tokio::test]
async fn values_by_selector_come_by_name() {
    let pages = [("https://a.test/", "One."), ("https://a.test/bad", "Two.")];
    let mut client = Client::open(&Fake::with_pages(&pages)).await;
    let given =
        json!({ "url": "https://a.test/", "selectors": { "name": "h1", "link": "a@href" } });
    let told = told(&mut client, "scrape_structured", given).await;
    assert_eq!(told["data"], json!({ "link": [], "name": ["A", "Bb"] }));
    assert_eq!(told["elements_found"], 2);
    for (selectors, field) in [
        (json!({}), "selectors"),
        (json!({ "a": 1 }), "selectors.a"),
        (json!(["h1"]), "selectors"),
        (json!({ "bad": "li[" }), "selectors.bad"),
    ] {
        let given = json!({ "url": "https://a.test/bad", "selectors": selectors });
        let reply = client.call("scrape_structured", given).await;
        assert_eq!(
            reply["error"]["data"]["field"], field,
            "{selectors}: {reply}"
        );
    }
}

#[tokio::test]
async fn llms_txt_lists_pages_and_takes_a_crawl_that_is_there() {
    let mut client = Client::open(&site()).await;
    let given = json!({ "url": "https://a.test/", "analysisOptions": { "maxPages": 10 } });
    let both = told(&mut client, "generate_llms_txt", given).await;
    let list = both["llms_txt"].as_str().unwrap();
    assert!(list.starts_with("# A title\n"), "{list}");
    assert!(list.contains("- [A title](https://a.test/2)\n"), "{list}");
    let full = both["llms_full_txt"].as_str().unwrap();
    assert!(full.contains("# Two\n\nSecond."), "{full}");
    let given = json!({ "session_id": both["session_id"], "format": "llms-txt" });
    let reply = client.call("generate_llms_txt", given).await;
    let again = &reply["result"]["structuredContent"];
    assert_eq!(again["llms_txt"], both["llms_txt"]);
    assert!(again.get("llms_full_txt").is_none());
    assert_eq!(reply["result"]["_meta"]["credits_used"], 0);
    for given in [
        json!({}),
        json!({ "url": "https://a.test/", "session_id": both["session_id"] }),
    ] {
        let reply = client.call("generate_llms_txt", given).await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
    }
}

#[tokio::test]
async fn arguments_of_the_seeds_that_change_nothing_are_warned_of_and_those_that_would_mislead_are_refused()
 {
    let mut client = Client::open(&site()).await;
    let given = json!({ "url": "https://a.test/", "max_depth": 2, "enable_link_analysis": true,
        "content_max_length": 900, "extract_content": false, "respect_robots": true });
    let reply = client.call("crawl_deep", given).await;
    let warnings = &reply["result"]["structuredContent"]["warnings"];
    assert_eq!(warnings.as_array().unwrap().len(), 2, "{reply}");
    let said = reply["result"]["content"][1]["text"].as_str().unwrap();
    assert!(said.contains("`content_max_length`"), "{said}");
    for (tool, given, field) in [
        (
            "crawl_deep",
            json!({ "url": "https://a.test/", "domain_filter": { "whitelist": [] } }),
            "domain_filter",
        ),
        (
            "batch_scrape",
            json!({ "urls": ["https://a.test/"], "webhook": { "url": "https://b.test/" } }),
            "webhook",
        ),
        (
            "batch_scrape",
            json!({ "urls": [{ "url": "https://a.test/", "selectors": {} }] }),
            "urls[0].selectors",
        ),
        (
            "extract_content",
            json!({ "url": "https://a.test/", "options": { "requiresJavaScript": true } }),
            "options.requiresJavaScript",
        ),
        (
            "extract_content",
            json!({ "url": "https://a.test/", "options": { "nope": true } }),
            "options.nope",
        ),
    ] {
        let reply = client.call(tool, given.clone()).await;
        assert_eq!(reply["error"]["code"], -32602, "{tool} {given}: {reply}");
        assert_eq!(reply["error"]["data"]["field"], field, "{reply}");
    }
    let given = json!({ "urls": ["https://a.test/"], "mode": "async" });
    let begun = client.call("batch_scrape", given).await;
    assert!(begun["result"]["structuredContent"]["session_id"].is_string());
}
