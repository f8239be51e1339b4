//! How keys are spelled in the stores.
//!
//! Everything that pages or restores relies on byte order, so numbers are big-endian and a host name ends with a
//! zero byte, which no host name holds. No other file builds a key.

use proto::{DomainKey, HostKey, SessionId};

/// The place of rows that belong to no shard's frontier: what bodies a session may read.
pub(crate) const COMMON: u16 = u16::MAX;

/// A URL's fingerprint.
pub(crate) type Fingerprint = u128;

/// `shard`.
pub(crate) fn of_shard(shard: u16) -> Vec<u8> {
    shard.to_be_bytes().to_vec()
}

/// `shard, session`: the prefix of a session's rows, and the key of its counters.
pub(crate) fn of_session(shard: u16, session: &SessionId) -> Vec<u8> {
    let mut key = of_shard(shard);
    key.extend_from_slice(session.as_bytes());
    key
}

/// `shard, session, host`: the mark of a host that had a URL of the session.
pub(crate) fn host_of_session(shard: u16, session: &SessionId, host: &HostKey) -> Vec<u8> {
    let mut key = of_session(shard, session);
    key.extend_from_slice(host.as_str().as_bytes());
    key
}

/// `shard, session, "domain ", domain`: the pages of the session there.
pub(crate) fn pages_of_domain(shard: u16, session: &SessionId, domain: &DomainKey) -> Vec<u8> {
    let mut key = of_session(shard, session);
    key.extend_from_slice(b"domain ");
    key.extend_from_slice(domain.as_str().as_bytes());
    key
}

/// `shard, session, domain`: the cookies of the session there.
pub(crate) fn cookies(shard: u16, session: &SessionId, domain: &DomainKey) -> Vec<u8> {
    let mut key = of_session(shard, session);
    key.extend_from_slice(domain.as_str().as_bytes());
    key
}

/// `shard, session, fingerprint`.
pub(crate) fn url(shard: u16, session: &SessionId, fingerprint: Fingerprint) -> Vec<u8> {
    let mut key = of_session(shard, session);
    key.extend_from_slice(&fingerprint.to_be_bytes());
    key
}

/// `shard, session, sequence`.
pub(crate) fn sequence(shard: u16, session: &SessionId, sequence: u64) -> Vec<u8> {
    let mut key = of_session(shard, session);
    key.extend_from_slice(&sequence.to_be_bytes());
    key
}

/// `shard, host`.
pub(crate) fn host(shard: u16, host: &HostKey) -> Vec<u8> {
    let mut key = of_shard(shard);
    key.extend_from_slice(host.as_str().as_bytes());
    key.push(0);
    key
}

/// `shard, place, session`: the prefix of what waits at a place.
pub(crate) fn queue_prefix(shard: u16, place: &str, session: &SessionId) -> Vec<u8> {
    let mut key = of_shard(shard);
    key.extend_from_slice(place.as_bytes());
    key.push(0);
    key.extend_from_slice(session.as_bytes());
    key
}

/// `shard, place, session, band, order, sequence, rest`: where one URL waits. The rest tells URLs of one sequence apart.
pub(crate) fn queue(prefix: &[u8], band: u8, order: u32, sequence: u64, rest: &[u8]) -> Vec<u8> {
    let mut key = prefix.to_vec();
    key.push(band);
    key.extend_from_slice(&order.to_be_bytes());
    key.extend_from_slice(&sequence.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

/// Reads place and session back from a queue key.
pub(crate) fn queue_place(key: &[u8]) -> Option<(String, SessionId)> {
    let end = queue_place_end(key)?;
    let place = String::from_utf8(key.get(2..end - 17)?.to_vec()).ok()?;
    let session: [u8; 16] = key.get(end - 16..end)?.try_into().ok()?;
    Some((place, SessionId::from_bytes(session)))
}

/// Where the place and the session of a queue key end.
fn queue_place_end(key: &[u8]) -> Option<usize> {
    let host = key.get(2..)?.iter().position(|byte| *byte == 0)?;
    Some(2 + host + 1 + 16)
}

/// What a queue key says of the order, to be compared across hosts and shards.
pub(crate) fn queue_order(key: &[u8]) -> &[u8] {
    queue_place_end(key)
        .and_then(|at| key.get(at..))
        .unwrap_or_default()
}

/// The band of a queue key.
pub(crate) fn queue_band(key: &[u8]) -> u8 {
    queue_place_end(key).map_or(u8::MAX, |at| key.get(at).copied().unwrap_or(u8::MAX))
}

/// `"numbers", shard`: the end of the numbers that the shard may have given.
pub(crate) fn numbers(shard: u16) -> Vec<u8> {
    let mut key = b"numbers".to_vec();
    key.extend_from_slice(&shard.to_be_bytes());
    key
}

/// `shard, number`: a lease.
pub(crate) fn lease(shard: u16, lease: u64) -> Vec<u8> {
    let mut key = of_shard(shard);
    key.extend_from_slice(&lease.to_be_bytes());
    key
}

/// `shard, destination, number`: mail on its way to another shard.
pub(crate) fn outbox(shard: u16, to: u16, number: u64) -> Vec<u8> {
    let mut key = of_shard(shard);
    key.extend_from_slice(&to.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// `shard, destination`.
pub(crate) fn outbox_prefix(shard: u16, to: u16) -> Vec<u8> {
    let mut key = of_shard(shard);
    key.extend_from_slice(&to.to_be_bytes());
    key
}

/// The number at the end of a key.
pub(crate) fn last_number(key: &[u8]) -> Option<u64> {
    let at = key.len().checked_sub(8)?;
    Some(u64::from_be_bytes(key.get(at..)?.try_into().ok()?))
}

/// `shard, session, digest`.
pub(crate) fn digest(shard: u16, session: &SessionId, digest: &[u8]) -> Vec<u8> {
    let mut key = of_session(shard, session);
    key.extend_from_slice(digest);
    key
}

/// `digest, session`: a session names a body.
pub(crate) fn body(digest: &[u8], session: &SessionId) -> Vec<u8> {
    let mut key = digest.to_vec();
    key.extend_from_slice(session.as_bytes());
    key
}

/// `URL hash, time, session`: a snapshot; newest first.
pub(crate) fn snapshot(url_hash: &str, millis: u64, session: &SessionId) -> Vec<u8> {
    let mut key = url_hash.as_bytes().to_vec();
    key.extend_from_slice(&(u64::MAX - millis).to_be_bytes());
    key.extend_from_slice(session.as_bytes());
    key
}

/// `owner, started (newest first), session`.
pub(crate) fn session_index(owner: &str, started: u64, session: &SessionId) -> Vec<u8> {
    let mut key = owner_prefix(owner);
    key.extend_from_slice(&(u64::MAX - started).to_be_bytes());
    key.extend_from_slice(session.as_bytes());
    key
}

/// `owner`.
pub(crate) fn owner_prefix(owner: &str) -> Vec<u8> {
    let mut key = owner.as_bytes().to_vec();
    key.push(0);
    key
}

/// `owner, request id`.
pub(crate) fn request(owner: &str, request_id: &str) -> Vec<u8> {
    let mut key = owner_prefix(owner);
    key.extend_from_slice(request_id.as_bytes());
    key
}

/// The sixteen bytes at the end of a key or a value, as a fingerprint.
pub(crate) fn fingerprint(bytes: &[u8]) -> Option<Fingerprint> {
    bytes.try_into().ok().map(u128::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proto::{HostKey, SessionId};

    use super::{queue, queue_band, queue_order, queue_place, queue_prefix};

    #[test]
    fn a_queue_key_is_read_back_and_orders_by_band_then_depth() {
        let session = SessionId::from_bytes([7; 16]);
        let host = HostKey::parse("https://a.test/").unwrap();
        let prefix = queue_prefix(3, host.as_str(), &session);
        let urgent = queue(&prefix, 0, 9, 9, &[]);
        let shallow = queue(&prefix, 2, 1, 8, &[]);
        let deep = queue(&prefix, 2, 2, 1, b"rest");
        assert!(urgent < shallow && shallow < deep);
        assert_eq!((queue_band(&urgent), queue_band(&deep)), (0, 2));
        let elsewhere = queue(&queue_prefix(9, "http://z", &session), 2, 1, 8, &[]);
        assert_eq!(queue_order(&shallow), queue_order(&elsewhere));
        assert_eq!(
            queue_place(&deep),
            Some(("https://a.test".to_owned(), session))
        );
    }
}
