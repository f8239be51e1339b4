//! Cursors and limits, as callers write them.

use proto::Refusal;

const PAGE_LIMIT: u32 = 1000;
const DEFAULT_LIMIT: u32 = 100;

/// Positions per shard, as text.
pub(super) fn read_cursor(field: &str, text: &str, shards: u16) -> Result<Vec<u64>, Refusal> {
    let mut positions = vec![0; usize::from(shards)];
    let wrong = || {
        Refusal::argument(
            field,
            format!("`{field}` is not a cursor of this coordinator"),
        )
    };
    if !text.is_ascii() || !text.len().is_multiple_of(20) {
        return Err(wrong());
    }
    for at in (0..text.len()).step_by(20) {
        let (shard, position) = text[at..at + 20].split_at(4);
        let shard = usize::from_str_radix(shard, 16).map_err(|_| wrong())?;
        let position = u64::from_str_radix(position, 16).map_err(|_| wrong())?;
        *positions.get_mut(shard).ok_or_else(wrong)? = position;
    }
    Ok(positions)
}

pub(super) fn write_cursor(positions: &[u64]) -> String {
    let moved = positions
        .iter()
        .enumerate()
        .filter(|(_, position)| **position > 0);
    moved
        .map(|(shard, position)| format!("{shard:04x}{position:016x}"))
        .collect()
}

pub(super) fn bounded(limit: u32) -> Result<usize, Refusal> {
    if limit > PAGE_LIMIT {
        let why = format!("`limit` is {limit}; at most {PAGE_LIMIT} are given at once");
        return Err(Refusal::argument("limit", why));
    }
    let limit = if limit == 0 { DEFAULT_LIMIT } else { limit };
    Ok(usize::try_from(limit).unwrap_or(100))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}
