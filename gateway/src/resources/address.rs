//! The addresses of resources.

use proto::{SessionId, Timestamp};

/// What an address names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Address {
    Job(String),
    Sitemap(String),
    Pages(String, String),
    Snapshot(String, String),
}

impl Address {
    pub(super) fn parse(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix("crawlforge://")?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let parts: Vec<&str> = path.split('/').collect();
        let session = |id: &str| id.parse::<SessionId>().ok().map(|id| id.to_string());
        match parts.as_slice() {
            ["job", id] => Some(Self::Job(session(id)?)),
            ["crawl", id, "sitemap"] => Some(Self::Sitemap(session(id)?)),
            ["crawl", id, "pages"] => {
                let mut pairs = query_pairs(query);
                let cursor = pairs
                    .find(|(name, _)| name == "cursor")
                    .map(|(_, value)| value);
                Some(Self::Pages(session(id)?, cursor.unwrap_or_default()))
            }
            ["snapshot", hash, at] => {
                let is_hash = hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
                let is_time = Timestamp::from_compact(at).is_some();
                (is_hash && is_time).then(|| Self::Snapshot((*hash).into(), (*at).into()))
            }
            _ => None,
        }
    }

    pub(super) fn session(&self) -> Option<&str> {
        match self {
            Self::Job(id) | Self::Sitemap(id) | Self::Pages(id, _) => Some(id),
            Self::Snapshot(..) => None,
        }
    }
}

/// Pairs of a query, percent-decoded.
pub(crate) fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), decoded(value)))
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut two = rest.clone();
        let hex = (byte == b'%')
            .then(|| Some((digit(two.next()?)?, digit(two.next()?)?)))
            .flatten();
        match hex {
            Some((high, low)) => {
                bytes.push(high * 16 + low);
                rest = two;
            }
            None => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// Percent-encodes what is not unreserved.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Address, decoded, encoded};

    #[test]
    fn an_address_is_read_or_refused() {
        let id = proto::SessionId::from_bytes([7; 16]).to_string();
        let uri = format!("crawlforge://crawl/{id}/pages?cursor={}", encoded("a/b=c"));
        assert_eq!(
            Address::parse(&uri),
            Some(Address::Pages(id.clone(), "a/b=c".into()))
        );
        assert_eq!(
            Address::parse(&format!("crawlforge://job/{id}")),
            Some(Address::Job(id))
        );
        for wrong in [
            "crawlforge://job/x",
            "file:///etc/passwd",
            "crawlforge://snapshot/../x",
            "",
        ] {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }
}
