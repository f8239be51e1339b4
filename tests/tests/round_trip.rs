//! Markdown read back by a CommonMark reader shows the text of the page: nothing lost, nothing taken for a mark.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use proto::CrawlUrl;
use pulldown_cmark::{Event, Options, Parser};
use worker::page::{self, Input, Page, Want};

fn read(html: &str) -> Page {
    let url = CrawlUrl::parse("https://site.test/dir/page").expect("a URL");
    page::read(Input {
        body: html.as_bytes(),
        content_type: Some("text/html; charset=utf-8"),
        x_robots_tag: &[],
        link_headers: &[],
        url: &url,
        agent: "CrawlForge",
        want: Want {
            markdown: true,
            text: true,
            ..Want::default()
        },
    })
}

/// What a reader of the Markdown sees, blanks left out.
fn shown(markdown: &str) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut out = String::new();
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Text(text) | Event::Code(text) => out.push_str(&text),
            Event::Html(html) | Event::InlineHtml(html) => {
                assert_eq!(html.trim(), "<!-- -->", "HTML in {markdown:?}");
            }
            _ => {}
        }
    }
    without_blanks(&out)
}

fn without_blanks(text: &str) -> String {
    text.chars()
        .filter(|letter| !letter.is_whitespace())
        .collect()
}

const PIECES: &[&str] = &[
    "<p>",
    "</p>",
    "<b>",
    "</b>",
    "<i>",
    "</i>",
    "<s>",
    "</s>",
    "<a href=/x>",
    "</a>",
    "<ul>",
    "</ul>",
    "<ol>",
    "<ol start=3>",
    "</ol>",
    "<li>",
    "<h2>",
    "</h2>",
    "<blockquote>",
    "</blockquote>",
    "<pre>",
    "</pre>",
    "<code>",
    "</code>",
    "<br>",
    "<hr>",
    "<table>",
    "</table>",
    "<tr>",
    "<th>",
    "<td>",
    "<dl>",
    "<dt>",
    "<dd>",
    "</dl>",
    "<div>",
    "</div>",
    "<span>",
    "</span>",
    " ",
    " ",
    "\n",
    "word",
    "a",
    "b",
    "1",
    "2.",
    "3)",
    "*",
    "**",
    "_",
    "__",
    "`",
    "``",
    "[",
    "]",
    "](/y)",
    "[x]",
    "[ ]",
    "(",
    ")",
    "#",
    "##",
    "&gt;",
    "&lt;",
    "&lt;b>",
    "&lt;!--",
    "&amp;",
    "&amp;lt;",
    "&amp;#35;",
    "|",
    "~",
    "~~",
    "-",
    "--",
    "---",
    "+",
    "=",
    "===",
    "!",
    "![",
    "\\",
    ":",
    "http://x.test/a_b_",
    "<http",
    "\u{e9}",
    "\u{201c}",
    "\u{3002}",
    "$",
    "^",
    "\t",
    "    ",
    "&nbsp;",
    "&lt;http://x.test>",
];

/// Four times the usual number, the same at each run.
fn usual() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.saturating_mul(4),
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(usual())]

    #[test]
    fn a_reader_of_the_markdown_sees_the_text_of_the_page(pieces in vec(select(PIECES), 0..12)) {
        let html = pieces.concat();
        // A link to itself that says "#" is left out of a heading.
        prop_assume!(!(html.contains("<h2>") && html.contains("<a")));
        let page = read(&html);
        let markdown = page.markdown.unwrap_or_default();
        let text = without_blanks(&page.text.unwrap_or_default());
        prop_assert_eq!(shown(&markdown), text, "{:?} gave {:?}", html, markdown);
    }
}
