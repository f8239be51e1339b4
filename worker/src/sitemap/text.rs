//! A document as text while it is read: unpacked, decoded, watched for entities, and never held whole.

use std::io::{self, BufRead, Read};

use encoding_rs::{CoderResult, Decoder};

use super::entities::Entities;
use super::gunzip::Unpacked;
use super::{MAX_BYTES, SitemapError, is_blank};
use crate::charset;

/// How much is looked at to tell the encoding.
const HEAD: usize = 1024 * 1024;

/// How much is read at once.
const PIECE: usize = 16 * 1024;

/// The text of a document, without the blanks before it.
pub(super) struct Text<'a> {
    source: Unpacked<'a>,
    decoder: Decoder,
    /// Bytes that were read and not decoded yet.
    raw: Vec<u8>,
    /// Text that was decoded and not consumed yet, from `at` on.
    text: String,
    at: usize,
    bytes: usize,
    has_begun: bool,
    is_over: bool,
    entities: Entities,
}

impl<'a> Text<'a> {
    pub(super) fn new(mut source: Unpacked<'a>) -> io::Result<Self> {
        let mut raw = Vec::new();
        source.by_ref().take(HEAD as u64).read_to_end(&mut raw)?;
        let encoding = charset::xml_encoding(&raw, raw.len() < HEAD);
        Ok(Self {
            source,
            decoder: encoding.new_decoder(),
            bytes: raw.len(),
            raw,
            text: String::new(),
            at: 0,
            has_begun: false,
            is_over: false,
            entities: Entities::default(),
        })
    }

    /// The first letter, if there is one.
    pub(super) fn first(&mut self) -> io::Result<Option<char>> {
        self.fill_buf()?;
        Ok(self.text[self.at..].chars().next())
    }

    /// The next piece of text; `None` behind the last.
    pub(super) fn piece(&mut self) -> io::Result<Option<&str>> {
        self.fill_buf()?;
        let from = std::mem::replace(&mut self.at, self.text.len());
        Ok(self.text.get(from..).filter(|piece| !piece.is_empty()))
    }

    /// Decodes the next piece.
    fn refill(&mut self) -> io::Result<()> {
        if self.raw.is_empty() {
            let read = self
                .source
                .by_ref()
                .take(PIECE as u64)
                .read_to_end(&mut self.raw)?;
            self.bytes += read;
        }
        self.is_over = self.raw.is_empty() || self.bytes > MAX_BYTES;
        let piece = self.raw.len().min(PIECE);
        self.text.clear();
        self.at = 0;
        let mut done = 0;
        loop {
            let left = &self.raw[done..piece];
            let most = self
                .decoder
                .max_utf8_buffer_length(left.len())
                .unwrap_or(PIECE * 4);
            self.text.reserve(most);
            let (result, read, _) =
                self.decoder
                    .decode_to_string(left, &mut self.text, self.is_over);
            done += read;
            if result == CoderResult::InputEmpty {
                break;
            }
        }
        self.raw.drain(..piece);
        if !self.has_begun {
            let blanks = self.text.len() - self.text.trim_start_matches(is_blank).len();
            self.at = blanks;
            self.has_begun = blanks < self.text.len();
        }
        self.entities.look(&self.text[self.at..]);
        Ok(())
    }

    /// Reads what is left, so that the whole document is judged, and says whether it was whole.
    pub(super) fn judge(&mut self, is_xml: bool) -> Result<bool, SitemapError> {
        while !self.is_over {
            // Reading from memory does not fail.
            if self.refill().is_err() {
                break;
            }
        }
        let is_whole = self.source.judge()?;
        if self.bytes > MAX_BYTES {
            return Err(SitemapError::TooLarge);
        }
        if !self.has_begun {
            return Err(if is_whole {
                SitemapError::Empty
            } else {
                SitemapError::BadGzip
            });
        }
        if is_xml && self.entities.are_declared() {
            return Err(SitemapError::DtdEntities);
        }
        Ok(is_whole)
    }
}

impl Read for Text<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Text<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.at == self.text.len() && !self.is_over {
            self.refill()?;
        }
        Ok(&self.text.as_bytes()[self.at..])
    }

    fn consume(&mut self, amount: usize) {
        self.at = (self.at + amount).min(self.text.len());
    }
}
