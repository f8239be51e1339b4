//! Pages, from bytes to what they say.

use proptest::prelude::*;
use proto::CrawlUrl;

use super::{Input, Page, Want, read};

fn read_all(body: &[u8], only_main_content: bool) -> Page {
    let url = CrawlUrl::parse("https://site.test/dir/page").unwrap();
    read(Input {
        body,
        content_type: None,
        x_robots_tag: &[
            "otherbot: noindex".to_owned(),
            "CrawlForge: nofollow".to_owned(),
        ],
        link_headers: &[],
        url: &url,
        agent: "CrawlForge/1.0",
        want: Want {
            links: true,
            markdown: true,
            text: true,
            html: true,
            facts: true,
            only_main_content,
        },
    })
}

#[test]
fn directives_for_others_do_not_count_and_ours_do() {
    let page = read_all(b"<meta name=robots content=max-snippet:5>", false);
    assert_eq!((page.noindex, page.nofollow), (false, true));
}

#[test]
fn links_in_templates_and_scripts_are_none() {
    let page = read_all(
        b"<template><a href=/t>x</a></template><script>'<a href=/s>'</script><a href=/ok> a  b </a>",
        false,
    );
    let links: Vec<_> = page.links.iter().map(|link| link.url.as_str()).collect();
    assert_eq!(links, ["https://site.test/ok"]);
    assert_eq!(page.links[0].anchor, "a b");
}

#[test]
fn a_page_of_navigation_only_is_not_emptied() {
    let page = read_all(b"<nav><a href=/x>only this</a></nav>", true);
    assert!(page.markdown.unwrap().contains("only this"));
}

proptest! {
    #[test]
    fn any_bytes_are_taken(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_all(&body, true);
    }

    #[test]
    fn any_tags_are_taken(body in "(</?(a|b|p|li|ul|table|tr|td|svg|title|template|pre|dl|dd|math|select|form)( href=x| hidden)?/?>|<!--|x | |&amp;|\\*){0,30}") {
        read_all(body.as_bytes(), true);
        read_all(body.as_bytes(), false);
    }
}
