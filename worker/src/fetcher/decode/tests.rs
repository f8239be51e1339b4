use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use http::{HeaderMap, HeaderValue, header};
use proptest::prelude::*;

use super::{DecodeError, Decoder};

const PAGE: &[u8] = b"<html><head><title>Ok</title></head><body>hello page</body></html>";

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn coded(coding: &str, plain: &[u8]) -> Vec<u8> {
    match coding {
        "gzip" => gzip(plain),
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "bare" => {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        "br" => {
            let mut out = Vec::new();
            let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 5, 20);
            encoder.write_all(plain).unwrap();
            drop(encoder);
            out
        }
        "zstd" => zstd::encode_all(plain, 3).unwrap(),
        other => panic!("{other}"),
    }
}

/// Decodes what comes in pieces of `piece` bytes.
fn decoded(names: &str, bytes: &[u8], piece: usize, cap: u64) -> Result<Vec<u8>, DecodeError> {
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(names).unwrap();
    headers.insert(header::CONTENT_ENCODING, value);
    let mut decoder = Decoder::new(&headers, cap)?;
    let mut body = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        decoder.push(piece, &mut body)?;
    }
    decoder.finish(&mut body)?;
    Ok(body)
}

fn is_broken(result: &Result<Vec<u8>, DecodeError>) -> bool {
    matches!(result, Err(DecodeError::Broken { .. }))
}

#[test]
fn every_coding_is_undone_however_the_bytes_come() {
    let long = PAGE.repeat(2000);
    for piece in [1, 7, 4096, usize::MAX] {
        for plain in [PAGE, &long, b"x"] {
            for coding in ["gzip", "deflate", "br", "zstd"] {
                let sent = coded(coding, plain);
                let got = decoded(coding, &sent, piece, 1 << 20);
                assert_eq!(got.as_deref(), Ok(plain), "{coding} in pieces of {piece}");
            }
            let bare = decoded("deflate", &coded("bare", plain), piece, 1 << 20);
            assert_eq!(bare.as_deref(), Ok(plain));
        }
    }
}

#[test]
fn codings_are_undone_in_the_reverse_order_of_the_header() {
    let sent = coded("zstd", &coded("br", &gzip(PAGE)));
    let got = decoded("GZIP, br ,Zstd", &sent, 5, 1 << 20);
    assert_eq!(got.as_deref(), Ok(PAGE));
}

#[test]
fn names_that_are_no_coding_change_nothing() {
    for names in ["", "identity", "none", "UTF-8", "utf-8, identity"] {
        assert_eq!(decoded(names, PAGE, 9, 1 << 20).as_deref(), Ok(PAGE));
    }
}

#[test]
fn an_unknown_coding_is_named() {
    let got = decoded("gzip, lzma", PAGE, 9, 1 << 20);
    assert_eq!(got, Err(DecodeError::Unsupported("lzma".into())));
    let many = ["gzip"; 9].join(",");
    assert_eq!(
        decoded(&many, PAGE, 9, 1 << 20),
        Err(DecodeError::TooMany(9))
    );
}

#[test]
fn text_that_was_never_coded_is_taken_as_it_is() {
    for coding in ["gzip", "deflate", "br", "zstd"] {
        for plain in [PAGE, b"<p>", b"User-agent: *\nDisallow: /private/\n"] {
            for piece in [1, 1000] {
                let got = decoded(coding, plain, piece, 1 << 20);
                assert_eq!(got.as_deref(), Ok(plain), "{coding}");
            }
        }
        assert_eq!(decoded(coding, b"", 1, 1 << 20).as_deref(), Ok(&b""[..]));
    }
}

#[test]
fn damage_and_an_early_end_are_errors() {
    // Text that does not repeat itself, so that damage cannot hide in it.
    let long: String = (0..4000)
        .map(|at: u64| format!("{:x} ", at * at * 7919))
        .collect();
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let sent = coded(coding, long.as_bytes());
        let cut = decoded(coding, &sent[..sent.len() / 2], 100, 1 << 20);
        assert!(is_broken(&cut), "{coding} cut: {cut:?}");
        let mut damaged = sent.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 8].fill(0xff);
        let got = decoded(coding, &damaged, 100, 1 << 20);
        assert_ne!(got.as_deref(), Ok(long.as_bytes()), "{coding} damaged");
    }
    let mut wrong_sum = gzip(PAGE);
    let at = wrong_sum.len() - 6;
    wrong_sum[at] ^= 1;
    assert!(is_broken(&decoded("gzip", &wrong_sum, 9, 1 << 20)));
}

#[test]
fn members_in_a_row_are_one_body_and_padding_is_none() {
    let mut sent = gzip(b"hello ");
    sent.extend(gzip(b"world"));
    assert_eq!(
        decoded("gzip", &sent, 3, 99).as_deref(),
        Ok(&b"hello world"[..])
    );
    for padding in [&[0; 20][..], b"\r\n"] {
        let mut padded = sent.clone();
        padded.extend_from_slice(padding);
        assert_eq!(
            decoded("gzip", &padded, 64, 99).as_deref(),
            Ok(&b"hello world"[..])
        );
    }
    let mut frames = coded("zstd", b"hello ");
    frames.extend(coded("zstd", b"world"));
    assert_eq!(
        decoded("zstd", &frames, 3, 99).as_deref(),
        Ok(&b"hello world"[..])
    );
}

#[test]
fn nothing_grows_beyond_the_cap_bombs_in_bombs_included() {
    let zeros = vec![0; 8 << 20];
    let bomb = gzip(&gzip(&zeros));
    assert_eq!(
        decoded("gzip, gzip", &bomb, 4096, 100_000),
        Err(DecodeError::TooLarge(100_000))
    );
    for coding in ["gzip", "deflate", "br", "zstd"] {
        let got = decoded(coding, &coded(coding, &zeros), 4096, 1000);
        assert_eq!(got, Err(DecodeError::TooLarge(1000)), "{coding}");
    }
    assert_eq!(
        decoded("identity", PAGE, 9, 10),
        Err(DecodeError::TooLarge(10))
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), piece in 1_usize..80) {
        for coding in ["gzip", "deflate", "br", "zstd", "gzip, br"] {
            drop(decoded(coding, &bytes, piece, 10_000));
            // The same behind a true magic number.
            let mut named = coded("gzip", PAGE);
            named.truncate(12);
            named.extend_from_slice(&bytes);
            drop(decoded(coding, &named, piece, 10_000));
        }
    }
}
