//! Prompts: listed with their arguments, checked, worded with tools that exist, completed.

use serde_json::{Value, json};

use crate::fake::Fake;
use crate::{Client, site};

const NAMES: [&str; 6] = [
    "competitive-analysis",
    "getting-started",
    "monitor-changes",
    "rag-ingest",
    "research-deep-dive",
    "site-audit",
];

fn good(name: &str) -> Value {
    match name {
        "competitive-analysis" => json!({ "competitors": ["https://b.test/"] }),
        "rag-ingest" => json!({ "urls": "https://a.test/, https://b.test/" }),
        "research-deep-dive" => json!({ "topic": "web crawlers" }),
        "getting-started" => json!({}),
        _ => json!({ "url": "https://a.test/" }),
    }
}

async fn text_of(client: &mut Client, name: &str, arguments: Value) -> String {
    let given = json!({ "name": name, "arguments": arguments });
    let reply = client.ask("prompts/get", given).await;
    let message = &reply["result"]["messages"][0];
    assert_eq!(message["role"], "user", "{reply}");
    message["content"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_prompt_declares_its_arguments() {
    let mut client = Client::open(&site()).await;
    let reply = client.ask("prompts/list", json!({})).await;
    let prompts = reply["result"]["prompts"].as_array().unwrap();
    let names: Vec<_> = prompts
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, NAMES);
    for prompt in prompts {
        assert!(
            prompt["title"].is_string() && prompt["description"].is_string(),
            "{prompt}"
        );
        for argument in prompt["arguments"].as_array().into_iter().flatten() {
            assert!(argument["required"].is_boolean(), "{argument}");
            assert!(argument["description"].is_string(), "{argument}");
        }
    }
}

#[tokio::test]
async fn the_words_of_a_prompt_name_only_tools_of_this_server() {
    let mut client = Client::open(&site()).await;
    for name in NAMES {
        let text = text_of(&mut client, name, good(name)).await;
        let named: Vec<_> = text.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "{name}: {text}");
        for tool in named {
            let reply = client.call(tool, json!({ "nonsense": 1 })).await;
            assert_eq!(
                reply["error"]["data"]["field"], "nonsense",
                "{name} names {tool}: {reply}"
            );
        }
        let sections = text.matches("\n## ").count();
        assert!(name == "getting-started" || sections >= 4, "{text}");
    }
}

#[tokio::test]
async fn a_list_comes_as_an_array_or_with_commas() {
    let mut client = Client::open(&site()).await;
    let wanted = "https://stripe.com/, https://paddle.com/";
    for given in [
        json!({ "competitors": ["https://stripe.com", "https://paddle.com"] }),
        json!({ "competitors": "https://stripe.com,https://paddle.com" }),
        json!({ "competitor_urls": " https://stripe.com , https://paddle.com, " }),
        json!({ "competitors": "[\"https://stripe.com\", \"https://paddle.com\"]", "our_url": "" }),
    ] {
        let text = text_of(&mut client, "competitive-analysis", given.clone()).await;
        assert!(text.contains(wanted), "{given}: {text}");
        assert!(!text.contains("Our site"), "{given}: {text}");
    }
}

#[tokio::test]
async fn an_argument_of_a_prompt_at_fault_is_named_with_its_bound() {
    let mut client = Client::open(&site()).await;
    for (name, arguments, field) in [
        ("competitive-analysis", json!({}), "competitors"),
        (
            "competitive-analysis",
            json!({ "competitors": "" }),
            "competitors",
        ),
        (
            "competitive-analysis",
            json!({ "competitors": "https://a.test/,b" }),
            "competitors[1]",
        ),
        ("monitor-changes", json!({ "url": "nope" }), "url"),
        (
            "monitor-changes",
            json!({ "url": "https://a.test/", "interval": "5" }),
            "interval",
        ),
        (
            "monitor-changes",
            json!({ "url": "https://a.test/", "interval": "soon" }),
            "interval",
        ),
        (
            "research-deep-dive",
            json!({ "topic": "x", "depth": "abyss" }),
            "depth",
        ),
        (
            "site-audit",
            json!({ "url": "https://a.test/", "page": "1" }),
            "page",
        ),
        ("no-such-prompt", json!({}), "name"),
    ] {
        let given = json!({ "name": name, "arguments": arguments });
        let reply = client.ask("prompts/get", given).await;
        assert_eq!(
            reply["error"]["code"], -32602,
            "{name} {arguments}: {reply}"
        );
        assert_eq!(reply["error"]["data"]["field"], field, "{name}: {reply}");
    }
    let given =
        json!({ "url": "https://a.test/", "interval": "120", "webhook": "https://b.test/hook" });
    let text = text_of(&mut client, "monitor-changes", given).await;
    assert!(text.contains("Every 120 seconds") && text.contains("https://b.test/hook"));
}

async fn completed(client: &mut Client, reference: Value, name: &str, typed: &str) -> Value {
    let given = json!({ "ref": reference, "argument": { "name": name, "value": typed } });
    client.ask("completion/complete", given).await
}

#[tokio::test]
async fn arguments_of_prompts_are_completed_from_choices_and_earlier_work() {
    let mut client = Client::open(&site()).await;
    client
        .call("crawl", json!({ "url": "https://a.test/", "wait": false }))
        .await;
    let of = |name: &str| json!({ "type": "ref/prompt", "name": name });
    for (prompt, name, typed, wanted) in [
        (
            "research-deep-dive",
            "depth",
            "",
            json!(["shallow", "medium", "deep"]),
        ),
        ("research-deep-dive", "depth", "d", json!(["deep"])),
        ("rag-ingest", "output_format", "t", json!(["text"])),
        ("site-audit", "url", "https://a", json!(["https://a.test/"])),
        ("site-audit", "url", "https://b", json!([])),
        (
            "competitive-analysis",
            "competitors",
            "https://b.test/, ht",
            json!(["https://b.test/, https://a.test/"]),
        ),
        ("research-deep-dive", "topic", "x", json!([])),
    ] {
        let reply = completed(&mut client, of(prompt), name, typed).await;
        let info = &reply["result"]["completion"];
        assert_eq!(info["values"], wanted, "{prompt} {name} {typed}: {reply}");
        assert_eq!(info["hasMore"], false, "{reply}");
    }
    for (prompt, name, field) in [
        ("nope", "url", "ref.name"),
        ("site-audit", "nope", "argument.name"),
    ] {
        let reply = completed(&mut client, of(prompt), name, "").await;
        assert_eq!(reply["error"]["code"], -32602, "{reply}");
        assert_eq!(reply["error"]["data"]["field"], field, "{reply}");
    }
}

#[tokio::test]
async fn ids_in_addresses_of_resources_are_completed() {
    let fake: Fake = site();
    let mut client = Client::open(&fake).await;
    let mut begin = async |tool: &str| {
        let given = json!({ "url": "https://a.test/" });
        let reply = client.call(tool, given).await;
        reply["result"]["_meta"]["session_id"].clone()
    };
    let (crawl, map, scrape) = (
        begin("crawl").await,
        begin("map").await,
        begin("scrape").await,
    );
    let of = |uri: &str| json!({ "type": "ref/resource", "uri": uri });
    let snapshot = "crawlforge://snapshot/{urlHash}/{timestamp}";
    for (uri, name, typed, wanted) in [
        (
            "crawlforge://job/{jobId}",
            "jobId",
            "ses_",
            vec![&crawl, &map, &scrape],
        ),
        ("crawlforge://job/{jobId}", "jobId", "x", vec![]),
        (
            "crawlforge://crawl/{sessionId}/sitemap",
            "sessionId",
            "",
            vec![&crawl, &map],
        ),
        (
            "crawlforge://crawl/{sessionId}/pages{?cursor}",
            "sessionId",
            "",
            vec![&crawl],
        ),
    ] {
        let reply = completed(&mut client, of(uri), name, typed).await;
        let found = reply["result"]["completion"]["values"].as_array().unwrap();
        assert_eq!(found.len(), wanted.len(), "{uri} {typed}: {reply}");
        assert!(wanted.iter().all(|id| found.contains(id)), "{reply}");
    }
    let reply = completed(&mut client, of(snapshot), "urlHash", "").await;
    let hash = reply["result"]["completion"]["values"][0].clone();
    assert_eq!(hash.as_str().unwrap().len(), 32, "{reply}");
    let given = json!({ "ref": of(snapshot), "argument": { "name": "timestamp", "value": "2026" },
        "context": { "arguments": { "urlHash": hash } } });
    let reply = client.ask("completion/complete", given).await;
    let times = &reply["result"]["completion"]["values"];
    assert_eq!(times, &json!(["20261201T032105.042Z"]), "{reply}");
    let reply = completed(&mut client, of("file:///{path}"), "path", "").await;
    assert_eq!(reply["error"]["data"]["field"], "ref.uri", "{reply}");
}
