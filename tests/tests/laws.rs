//! The laws of the pure readers under made-up input: bytes at random, and pieces of their languages in any order.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tests::laws;

/// Pieces put together in any order: valid, broken and absurd documents alike.
fn pieces(all: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(select(all), 0..most).prop_map(|pieces| pieces.concat().into_bytes())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..300)
}

const URL: &[&str] = &[
    "http://",
    "https:",
    "//",
    "/",
    "\\",
    ".",
    "..",
    "%2e",
    "%2E%2e",
    "?",
    "#",
    "&",
    "=",
    ";",
    "%",
    "%4",
    "%%34",
    "41",
    "%c3%a9",
    "\u{e9}",
    "\u{1f600}",
    "@",
    ":",
    ":80",
    ":443",
    "user",
    "EXAMPLE",
    ".test",
    "xn--",
    "[::1]",
    "127.1",
    "0x7f",
    "\t",
    " ",
    "\n",
    "utm_source=a",
    "jsessionid=1",
    "PHPSESSID=2",
    ";jsessionid=3",
    "a",
    "b=",
    "'",
    "\"",
    "<",
    "|",
    "^",
    "\u{ad}",
    "co.uk",
    "javascript:",
];

const ROBOTS: &[&str] = &[
    "User-agent: ",
    "user agent:",
    "*",
    "CrawlForge",
    "crawlforge/2",
    "other",
    "\n",
    "\r\n",
    "\r",
    "\n\n",
    "Allow: ",
    "Disallow:",
    "disallow ",
    "/",
    "/a",
    "/a/b",
    "$",
    "*",
    "%2a",
    "%24",
    "%",
    "%4",
    "\u{e9}",
    "#",
    "Crawl-delay: ",
    "1.5",
    "-1",
    "1e9",
    "nan",
    "Sitemap: ",
    "https://site.test/s.xml",
    "ftp://x/",
    "\u{feff}",
    "\0",
    "\t",
    "Noindex: /",
];

const XML: &[&str] = &[
    "<urlset>",
    "</urlset>",
    "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9' xmlns:image='x'>",
    "<sitemapindex>",
    "</sitemapindex>",
    "<rss>",
    "<channel>",
    "<feed>",
    "<entry>",
    "</entry>",
    "<item>",
    "</item>",
    "<url>",
    "</url>",
    "<sitemap>",
    "</sitemap>",
    "<loc>",
    "</loc>",
    "<ns:loc>",
    "<lastmod>",
    "</lastmod>",
    "2024-05-01",
    "2024",
    "<priority>0.5</priority>",
    "<changefreq>DAILY</changefreq>",
    "<image:image>",
    "</image:image>",
    "<image:loc>/i</image:loc>",
    "<link href='/l'/>",
    "<link>",
    "</link>",
    "<xhtml:link rel='alternate' hreflang='de' href='/de'/>",
    "<guid>",
    "</guid>",
    "http://site.test/a",
    "/b",
    "&amp;",
    "&",
    "&#x41;",
    "&bogus;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<!DOCTYPE x [",
    "<!ENTITY a 'b'>",
    "]>",
    "<?xml version='1.0'?>",
    "<?",
    "\n",
    " ",
    "<",
    ">",
    "\"",
    "\u{feff}",
];

const HTML: &[&str] = &[
    "<a href=/x>",
    "<a href='?q=\u{e9}' rel=nofollow>",
    "</a>",
    "<p>",
    "</p>",
    "<div>",
    "</div>",
    "<b>",
    "</b>",
    "<i>",
    "</i>",
    "<em>",
    "<ul>",
    "<ol start=7>",
    "<li>",
    "</li>",
    "</ul>",
    "<table>",
    "<tr>",
    "<td>",
    "<td colspan=3 rowspan=2>",
    "<th>",
    "</table>",
    "<caption>",
    "<tbody>",
    "<pre>",
    "</pre>",
    "<code>",
    "</code>",
    "<blockquote>",
    "</blockquote>",
    "<dl>",
    "<dt>",
    "<dd>",
    "<h1>",
    "</h1>",
    "<br>",
    "<hr>",
    "<img src=i.png alt='a]b'>",
    "<svg>",
    "</svg>",
    "<math>",
    "<title>",
    "</title>",
    "<template>",
    "</template>",
    "<noscript>",
    "</noscript>",
    "<script>",
    "</script>",
    "<style>",
    "</style>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<select>",
    "<option>",
    "<form>",
    "<textarea>",
    "</textarea>",
    "<iframe src=/f>",
    "<frameset>",
    "<frame src=/g>",
    "<base href=/b/>",
    "<meta http-equiv=refresh content='1;url=/r'>",
    "<meta name=robots content=none>",
    "<link rel=canonical href=/c>",
    "<link rel='next alternate' href=/n>",
    "<main>",
    "</main>",
    "<nav>",
    "</nav>",
    "<article>",
    "<div class=cookie hidden>",
    "<input type=checkbox checked>",
    "text",
    " ",
    "\n",
    "*",
    "_",
    "`",
    "[",
    "]",
    "(",
    ")",
    "#",
    ">",
    "<",
    "&",
    "&lt;",
    "|",
    "~~",
    "1.",
    "- ",
    "\\",
    "!",
    "\u{e9}",
    "\0",
    "<plaintext>",
    "<foreignObject>",
    "<body>",
    "<html lang=en>",
    "<head>",
    "</head>",
];

const CHARSET: &[&str] = &[
    "text/html",
    "; charset=",
    "\"",
    "utf-8",
    "koi8-r",
    "utf-16",
    "x-user-defined",
    "\n",
    "<meta charset=",
    ">",
    "<meta http-equiv=",
    "content-type",
    " content='",
    "charset=",
    "'",
    "<!--",
    "-->",
    "<?xml version='1.0' encoding=",
    "?>",
    "\u{feff}",
    "\u{e9}",
    "/",
    "=",
    " ",
    "%PDF-",
    "\0",
    "<html>",
];

/// Four times the usual number; `PROPTEST_CASES` asks for more. A failure is written as a test by hand, not as a seed.
fn usual() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.saturating_mul(4),
        failure_persistence: None,
        ..usual
    }
}

proptest! {
    #![proptest_config(usual())]

    #[test]
    fn urls_keep_their_law(given in prop_oneof![bytes(), pieces(URL, 14)]) {
        laws::url(&given);
    }

    #[test]
    fn robots_keep_their_law(given in prop_oneof![bytes(), pieces(ROBOTS, 40)]) {
        laws::robots(&given);
    }

    #[test]
    fn sitemaps_keep_their_law(given in prop_oneof![bytes(), pieces(XML, 40)]) {
        laws::sitemap(&given);
    }

    #[test]
    fn links_keep_their_law(given in prop_oneof![bytes(), pieces(HTML, 40)]) {
        laws::links(&given);
    }

    #[test]
    fn markdown_keeps_its_law(given in prop_oneof![bytes(), pieces(HTML, 40)]) {
        laws::markdown(&given);
    }

    #[test]
    fn charsets_keep_their_law(given in prop_oneof![bytes(), pieces(CHARSET, 12)]) {
        laws::charset(&given);
    }
}
