//! Removes gzip layers, never holding more than one document's worth.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::bufread::GzDecoder;

use super::{MAX_BYTES, SitemapError};

/// A file that is gzip, sent with `Content-Encoding: gzip`, has two layers.
const MAX_LAYERS: usize = 3;

/// A body without its gzip layers.
pub(super) struct Unpacked<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    /// Whether a layer broke off.
    pub(super) is_cut: bool,
}

/// Unpacks `body` as long as it begins like gzip. What follows the last member is left out.
pub(super) fn unpacked(body: &[u8]) -> Result<Unpacked<'_>, SitemapError> {
    let mut result = Unpacked {
        bytes: Cow::Borrowed(body),
        is_cut: false,
    };
    for _ in 0..MAX_LAYERS {
        if !is_gzip(&result.bytes) {
            return Ok(result);
        }
        let (bytes, is_cut) = one_layer(&result.bytes)?;
        result = Unpacked {
            bytes: Cow::Owned(bytes),
            is_cut: result.is_cut || is_cut,
        };
    }
    if is_gzip(&result.bytes) {
        return Err(SitemapError::BadGzip);
    }
    Ok(result)
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

fn one_layer(packed: &[u8]) -> Result<(Vec<u8>, bool), SitemapError> {
    let mut rest = packed;
    let mut out = Vec::new();
    while is_gzip(rest) {
        let is_first = rest.len() == packed.len();
        let room = u64::try_from(MAX_BYTES + 1 - out.len()).unwrap_or(0);
        let before = out.len();
        let mut member = GzDecoder::new(rest);
        let read = member.by_ref().take(room).read_to_end(&mut out);
        if out.len() > MAX_BYTES {
            return Err(SitemapError::TooLarge);
        }
        match read {
            Ok(_) => rest = member.into_inner(),
            Err(_) if is_first && out.is_empty() => return Err(SitemapError::BadGzip),
            // Bytes behind the first member that only look like another one.
            Err(_) if !is_first && out.len() == before => break,
            Err(_) => return Ok((out, true)),
        }
    }
    Ok((out, false))
}
