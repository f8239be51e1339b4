//! Values carry a version and a checksum, so that a torn or foreign value is an error and never a wrong answer.

use bytes::{Buf as _, Bytes};

use super::{StoreError, Table};

const VERSION: u8 = 1;
/// Version byte and CRC-32 of what follows.
const HEAD: usize = 5;

/// The value with its head.
pub(super) fn seal(value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(HEAD + value.len());
    sealed.push(VERSION);
    sealed.extend_from_slice(&crc32fast::hash(value).to_be_bytes());
    sealed.extend_from_slice(value);
    sealed
}

/// The value without its head, checked.
pub(super) fn open(table: Table, mut sealed: Bytes) -> Result<Bytes, StoreError> {
    let damaged = |why: &str| StoreError::Damaged {
        table,
        why: why.to_owned(),
    };
    if sealed.len() < HEAD {
        return Err(damaged("it is shorter than its head"));
    }
    if sealed.get_u8() != VERSION {
        return Err(damaged("its version is unknown"));
    }
    let expected = sealed.get_u32();
    if crc32fast::hash(&sealed) != expected {
        return Err(damaged("its checksum does not fit"));
    }
    Ok(sealed)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Table, open, seal};

    #[test]
    fn a_value_reads_back_and_a_damaged_one_does_not() {
        let sealed = seal(b"value");
        assert_eq!(
            &open(Table::Urls, sealed.clone().into()).unwrap()[..],
            b"value"
        );
        assert_eq!(open(Table::Urls, seal(b"").into()).unwrap(), Bytes::new());
        for at in 0..sealed.len() {
            let mut torn = sealed.clone();
            torn[at] ^= 1;
            assert!(open(Table::Urls, torn.into()).is_err(), "byte {at}");
            assert!(
                open(Table::Urls, sealed[..at].to_vec().into()).is_err(),
                "cut at {at}"
            );
        }
    }
}
