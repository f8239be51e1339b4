//! Cookies (RFC 6265): from Set-Cookie to what is kept, and from what is kept to the Cookie header. Pure.
//!
//! A cookie never leaves its registrable domain, so a site's cookies live where its hosts' clocks live, and one session
//! never sees another's.

use cookie::{Cookie as Parsed, Expiration};
use http::{HeaderMap, header};
use proto::v1::Cookie;
use proto::{CrawlUrl, DomainKey, Timestamp, cookies};

/// Longest cookie that is kept, in bytes of name and value.
const MAX_BYTES: usize = 4096;
/// Set-Cookie fields that are read of one answer.
const MAX_FIELDS: usize = 64;

/// What an answer from `url` sets, changes or removes, in its order. What is removed has a time that is over.
pub fn set_by(headers: &HeaderMap, url: &CrawlUrl, now: Timestamp) -> Vec<Cookie> {
    let fields = headers.get_all(header::SET_COOKIE).iter().take(MAX_FIELDS);
    fields
        .filter_map(|field| read(std::str::from_utf8(field.as_bytes()).ok()?, url, now))
        .collect()
}

/// The Cookie header for a request to `url`: longer paths first, then the older ones first (RFC 6265, 5.4).
pub fn header_for(jar: &[Cookie], url: &CrawlUrl, now: Timestamp) -> Option<String> {
    let mut fitting: Vec<&Cookie> = jar.iter().filter(|cookie| fits(cookie, url, now)).collect();
    fitting.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
    let pairs: Vec<String> = fitting
        .iter()
        .map(|cookie| format!("{}={}", cookie.name, cookie.value))
        .collect();
    Some(pairs.join("; ")).filter(|text| !text.is_empty())
}

fn name_of(url: &CrawlUrl) -> String {
    let name = url.url().host_str().unwrap_or_default();
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

fn is_secure(url: &CrawlUrl) -> bool {
    url.url().scheme() == "https"
}

fn fits(cookie: &Cookie, url: &CrawlUrl, now: Timestamp) -> bool {
    let name = name_of(url);
    let is_below = || {
        let prefix = name.strip_suffix(cookie.domain.as_str());
        !cookie.host_only && prefix.is_some_and(|prefix| prefix.ends_with('.'))
    };
    (name == cookie.domain || is_below())
        && covers(&cookie.path, url.url().path())
        && (!cookie.secure || is_secure(url))
        && !cookies::is_over(cookie, now)
}

/// RFC 6265, 5.1.4.
fn covers(cookie_path: &str, path: &str) -> bool {
    match path.strip_prefix(cookie_path) {
        Some(rest) => rest.is_empty() || cookie_path.ends_with('/') || rest.starts_with('/'),
        None => false,
    }
}

/// RFC 6265, 5.1.4: up to the last slash, without it.
fn default_path(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

/// One Set-Cookie field (RFC 6265, 5.2 and 5.3; prefixes and secure origins by its successor).
fn read(text: &str, url: &CrawlUrl, now: Timestamp) -> Option<Cookie> {
    let parsed = Parsed::parse(text).ok()?;
    let (name, value) = (parsed.name(), parsed.value());
    let is_clean = |text: &str| !text.bytes().any(|byte| byte < 0x20 || byte == 0x7f);
    if name.is_empty()
        || name.len() + value.len() > MAX_BYTES
        || !is_clean(name)
        || !is_clean(value)
    {
        return None;
    }
    let (domain, host_only) = domain_of(parsed.domain(), &name_of(url))?;
    let path = parsed
        .path()
        .filter(|path| path.starts_with('/') && is_clean(path));
    let path = path.unwrap_or_else(|| default_path(url.url().path()));
    let secure = parsed.secure().unwrap_or(false);
    let is_named = |prefix: &str| {
        let head = name.get(..prefix.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    };
    let breaks_secure = secure && !is_secure(url);
    let breaks_prefix = (is_named("__Secure-") && !secure)
        || (is_named("__Host-") && !(secure && host_only && path == "/"));
    if breaks_secure || breaks_prefix {
        return None;
    }
    Some(Cookie {
        name: name.to_owned(),
        value: value.to_owned(),
        domain,
        path: path.to_owned(),
        expires_millis: expiry(&parsed, now),
        secure,
        host_only,
    })
}

/// The domain that a cookie is for, and whether it is that host's alone. `None` where it names somebody else, or all
/// of a public suffix.
fn domain_of(named: Option<&str>, host: &str) -> Option<(String, bool)> {
    let named = named.map(|text| text.trim_start_matches('.').to_ascii_lowercase());
    let Some(named) = named.filter(|text| !text.is_empty() && text != host) else {
        return Some((host.to_owned(), true)).filter(|_| !host.is_empty());
    };
    let own = DomainKey::of_name(host);
    let is_above = |name: &str, of: &str| {
        let prefix = of.strip_suffix(name);
        prefix.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
    };
    let is_address = host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok();
    let is_own = !is_address && is_above(&named, host) && is_above(own.as_str(), &named);
    is_own.then_some((named, false))
}

/// Milliseconds since the epoch; 0 for the length of the session, 1 for a time that is over.
fn expiry(parsed: &Parsed<'_>, now: Timestamp) -> u64 {
    if let Some(span) = parsed.max_age() {
        let millis = u64::try_from(span.whole_milliseconds()).unwrap_or(0);
        return if millis == 0 {
            1
        } else {
            now.as_millis().saturating_add(millis)
        };
    }
    match parsed.expires() {
        Some(Expiration::DateTime(moment)) => {
            let millis = moment.unix_timestamp_nanos() / 1_000_000;
            u64::try_from(millis).unwrap_or(1).max(1)
        }
        Some(Expiration::Session) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header};
    use proptest::prelude::*;
    use proto::{CrawlUrl, Timestamp, cookies};

    use super::{header_for, set_by};

    /// 2026-01-01T00:00:00Z.
    const NOW: u64 = 1_767_225_600_000;

    fn url(text: &str) -> CrawlUrl {
        CrawlUrl::parse(text).unwrap()
    }

    /// What is sent to `to` after `from` has set `fields`.
    fn sent(from: &str, fields: &[&str], to: &str) -> String {
        let now = Timestamp::from_millis(NOW);
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::SET_COOKIE, HeaderValue::from_str(field).unwrap());
        }
        let mut jar = Vec::new();
        cookies::merge(&mut jar, &set_by(&headers, &url(from), now), now);
        header_for(&jar, &url(to), now).unwrap_or_default()
    }

    #[test]
    fn a_cookie_goes_back_to_its_host_only() {
        let set = ["k=v"];
        assert_eq!(sent("http://a.test/x", &set, "http://a.test/y"), "k=v");
        assert_eq!(sent("http://a.test/x", &set, "https://a.test:8443/"), "k=v");
        for other in ["http://b.test/", "http://w.a.test/", "http://test/"] {
            assert_eq!(sent("http://a.test/x", &set, other), "", "{other}");
        }
    }

    #[test]
    fn a_domain_widens_it_to_names_below_and_never_to_a_public_suffix() {
        let from = "http://www.shop.co.uk/";
        let wide = ["k=v; Domain=.Shop.co.uk"];
        assert_eq!(sent(from, &wide, "http://shop.co.uk/"), "k=v");
        assert_eq!(sent(from, &wide, "http://x.y.shop.co.uk/"), "k=v");
        assert_eq!(sent(from, &wide, "http://notshop.co.uk/"), "");
        for wrong in [
            "co.uk",
            "uk",
            "other.co.uk",
            "x.www.shop.co.uk",
            "hop.co.uk",
        ] {
            let set = format!("k=v; Domain={wrong}");
            assert_eq!(sent(from, &[&set], from), "", "{wrong}");
        }
        let own = ["k=v; Domain=127.0.0.1"];
        assert_eq!(sent("http://127.0.0.1/", &own, "http://127.0.0.1/"), "k=v");
        assert_eq!(
            sent(
                "http://127.0.0.1/",
                &["k=v; Domain=0.0.1"],
                "http://127.0.0.1/"
            ),
            ""
        );
    }

    #[test]
    fn paths_order_and_bound_what_is_sent() {
        let set = ["a=1; Path=/", "b=2; Path=/docs", "c=3"];
        let from = "http://a.test/docs/deep/page";
        assert_eq!(
            sent(from, &set, "http://a.test/docs/deep/x"),
            "c=3; b=2; a=1"
        );
        assert_eq!(sent(from, &set, "http://a.test/docs"), "b=2; a=1");
        assert_eq!(sent(from, &set, "http://a.test/docsx"), "a=1");
        assert_eq!(
            sent(
                "http://a.test/x",
                &["a=1; Path=nonsense"],
                "http://a.test/y"
            ),
            "a=1"
        );
    }

    #[test]
    fn time_takes_cookies_away() {
        let back = |field: &str| sent("http://a.test/", &["k=old", field], "http://a.test/");
        assert_eq!(back("k=new; Max-Age=60"), "k=new");
        assert_eq!(back("k=; Max-Age=0"), "");
        assert_eq!(
            back("k=; Max-Age=-5; Expires=Fri, 01 Jan 2027 00:00:00 GMT"),
            ""
        );
        assert_eq!(back("k=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"), "");
        assert_eq!(back("k=n; Expires=Fri, 01-Jan-2027 00:00:00 GMT"), "k=n");
        assert_eq!(back("k=n; Expires=whenever"), "k=n");
    }

    #[test]
    fn secure_cookies_and_prefixes_need_https() {
        let plain = |field: &str| sent("http://a.test/", &[field], "http://a.test/");
        let safe = |field: &str, to: &str| sent("https://a.test/", &[field], to);
        assert_eq!(plain("k=v; Secure"), "");
        assert_eq!(safe("k=v; Secure", "https://a.test/"), "k=v");
        assert_eq!(safe("k=v; Secure", "http://a.test/"), "");
        assert_eq!(safe("__Secure-k=v", "https://a.test/"), "");
        assert_eq!(
            safe("__Host-k=v; Secure; Path=/", "https://a.test/"),
            "__Host-k=v"
        );
        assert_eq!(safe("__Host-k=v; Secure; Path=/x", "https://a.test/x"), "");
    }

    #[test]
    fn what_is_no_cookie_is_left_out() {
        for field in ["", ";", "=v", "nothing", "k=a\tb"] {
            assert_eq!(
                sent("http://a.test/", &[field], "http://a.test/"),
                "",
                "{field:?}"
            );
        }
        let long = format!("k={}", "v".repeat(5000));
        assert_eq!(sent("http://a.test/", &[&long], "http://a.test/"), "");
        assert_eq!(
            sent("http://a.test/", &["k=\"q v\"; HttpOnly"], "http://a.test/"),
            "k=\"q v\""
        );
    }

    proptest! {
        #[test]
        fn no_field_makes_it_panic_or_leave_its_domain(field in "[ -~]{0,80}") {
            let to = "http://b.test/";
            prop_assert_eq!(sent("http://www.a.test/x", &[&field], to), "");
        }
    }
}
