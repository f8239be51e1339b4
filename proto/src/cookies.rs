//! The cookies of one session at one registrable domain: what both ends of the fleet door do with changes of them.

use crate::Timestamp;
use crate::v1::Cookie;

/// Cookies that one session keeps at one domain (RFC 6265, 6.1 asks for 50 at least).
pub const MAX_COOKIES: usize = 64;
/// Bytes of all of them; each may have 4 KiB.
pub const MAX_BYTES: usize = 32 * 1024;

/// Bytes of a cookie as they count against the bound.
pub fn size_of(cookie: &Cookie) -> usize {
    cookie.name.len() + cookie.value.len() + cookie.domain.len() + cookie.path.len()
}

/// Whether its time is over.
pub fn is_over(cookie: &Cookie, now: Timestamp) -> bool {
    cookie.expires_millis != 0 && cookie.expires_millis <= now.as_millis()
}

/// Whether two cookies are one (RFC 6265, 5.3).
pub fn is_same(left: &Cookie, right: &Cookie) -> bool {
    left.name == right.name && left.domain == right.domain && left.path == right.path
}

/// Applies changes in their order: a new value takes the old one's place, one whose time is over removes it. Beyond
/// the bounds the oldest go.
pub fn merge(jar: &mut Vec<Cookie>, changes: &[Cookie], now: Timestamp) {
    for change in changes {
        let at = jar.iter().position(|known| is_same(known, change));
        match (at, is_over(change, now)) {
            (Some(at), true) => drop(jar.remove(at)),
            (Some(at), false) => jar[at].clone_from(change),
            (None, true) => {}
            (None, false) => jar.push(change.clone()),
        }
    }
    jar.retain(|cookie| !is_over(cookie, now));
    let mut size: usize = jar.iter().map(size_of).sum();
    while jar.len() > MAX_COOKIES || size > MAX_BYTES {
        size -= size_of(&jar.remove(0));
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_BYTES, MAX_COOKIES, merge, size_of};
    use crate::Timestamp;
    use crate::v1::Cookie;

    fn cookie(name: &str, value: &str, expires_millis: u64) -> Cookie {
        Cookie {
            name: name.into(),
            value: value.into(),
            domain: "a.test".into(),
            path: "/".into(),
            expires_millis,
            ..Cookie::default()
        }
    }

    fn names(jar: &[Cookie]) -> Vec<String> {
        let text = |cookie: &Cookie| format!("{}={}", cookie.name, cookie.value);
        jar.iter().map(text).collect()
    }

    #[test]
    fn a_change_takes_the_place_of_what_it_changes() {
        let now = Timestamp::from_millis(1000);
        let mut jar = Vec::new();
        merge(
            &mut jar,
            &[cookie("a", "1", 0), cookie("b", "1", 2000)],
            now,
        );
        merge(&mut jar, &[cookie("a", "2", 0)], now);
        assert_eq!(names(&jar), ["a=2", "b=1"]);
        merge(&mut jar, &[cookie("a", "", 1), cookie("c", "", 1)], now);
        assert_eq!(names(&jar), ["b=1"]);
        merge(&mut jar, &[], Timestamp::from_millis(2000));
        assert!(jar.is_empty());
    }

    #[test]
    fn the_oldest_go_where_there_are_too_many() {
        let now = Timestamp::from_millis(1);
        let mut jar = Vec::new();
        for at in 0..200 {
            merge(&mut jar, &[cookie(&at.to_string(), "x", 0)], now);
        }
        assert_eq!(jar.len(), MAX_COOKIES);
        assert_eq!(jar.last().unwrap().name, "199");
        let big = "y".repeat(4000);
        for at in 0..20 {
            merge(&mut jar, &[cookie(&format!("big{at}"), &big, 0)], now);
        }
        assert!(jar.iter().map(size_of).sum::<usize>() <= MAX_BYTES);
        assert_eq!(jar.last().unwrap().name, "big19");
    }
}
