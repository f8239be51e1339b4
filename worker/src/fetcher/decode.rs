//! Undoing content codings as the bytes come (RFC 9110, 8.4), under a cap of what may come out.
//!
//! Codings are undone in the reverse order of the header, as many as it names. A body that is text though a coding was
//! announced is taken as it is: servers that compress by configuration say so of answers that they did not compress.
//! Nothing is buffered between two codings, so a bomb inside a bomb costs no more than the cap.

mod unpack;

use http::{HeaderMap, header};

use self::unpack::{Brotli, Deflate, Gzip, Step, Unpack, Zstd};
use crate::media::looks_binary;

/// Codings in a row; more are nobody's honest answer.
const MAX_CODINGS: usize = 8;
/// Bytes handed on at once.
const PIECE: usize = 16 * 1024;
/// What the first bytes decide: enough for any magic number, and to tell text from bytes.
const FIRST: usize = 64;

/// What is offered in `Accept-Encoding`.
pub(crate) const ACCEPTED: &str = "gzip, deflate, br, zstd";

/// Why a body cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// Nobody here knows the coding.
    #[error("the content coding `{0}` is not known")]
    Unsupported(String),
    /// There are too many of them.
    #[error("the answer names {0} content codings; at most {MAX_CODINGS} are undone")]
    TooMany(usize),
    /// The bytes are not what the coding says.
    #[error("the {coding} coding is broken: {why}")]
    Broken {
        /// Its name.
        coding: &'static str,
        /// What is wrong.
        why: String,
    },
    /// More would come out than is taken.
    #[error("the body is larger than {0} bytes")]
    TooLarge(u64),
}

/// Decodes one body.
pub(crate) struct Decoder {
    layers: Vec<Layer>,
    cap: usize,
}

impl Decoder {
    /// A decoder for what the header names; `cap` is the most that may come out, in bytes.
    pub(crate) fn new(headers: &HeaderMap, cap: u64) -> Result<Self, DecodeError> {
        let mut layers = Vec::new();
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
            for name in text.split(',').map(str::trim) {
                layers.extend(layer_for(name)?);
            }
        }
        if layers.len() > MAX_CODINGS {
            return Err(DecodeError::TooMany(layers.len()));
        }
        layers.reverse();
        Ok(Self {
            layers,
            cap: usize::try_from(cap).unwrap_or(usize::MAX),
        })
    }

    /// Whether what comes is handed on as it is.
    pub(crate) fn is_plain(&self) -> bool {
        self.layers.is_empty()
    }

    /// Decodes the next bytes onto `body`. What was decoded before an error stays there.
    pub(crate) fn push(&mut self, bytes: &[u8], body: &mut Vec<u8>) -> Result<(), DecodeError> {
        pass(
            &mut self.layers,
            bytes,
            &mut Sink {
                body,
                cap: self.cap,
            },
        )
    }

    /// Says that no more will come; an error when a coding is not at its end.
    pub(crate) fn finish(&mut self, body: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut sink = Sink {
            body,
            cap: self.cap,
        };
        for at in 0..self.layers.len() {
            let (done, rest) = self.layers.split_at_mut(at + 1);
            if let Some(layer) = done.last_mut() {
                layer.finish(rest, &mut sink)?;
            }
        }
        Ok(())
    }
}

/// The layer of a name; `None` for names that stand for no coding at all.
fn layer_for(name: &str) -> Result<Option<Layer>, DecodeError> {
    let coding: Box<dyn Unpack> = match name {
        "gzip" | "x-gzip" => Box::new(Gzip::default()),
        "deflate" | "x-deflate" => Box::new(Deflate::default()),
        "br" => Box::new(Brotli::default()),
        "zstd" => Box::new(Zstd::new()?),
        "" | "identity" | "none" | "null" | "binary" | "7bit" | "8bit" => return Ok(None),
        // Some servers name the character encoding here.
        other if encoding_rs::Encoding::for_label(other.as_bytes()).is_some() => return Ok(None),
        other => return Err(DecodeError::Unsupported(other.chars().take(40).collect())),
    };
    Ok(Some(Layer {
        coding,
        stage: Stage::First(Vec::new()),
    }))
}

struct Sink<'a> {
    body: &'a mut Vec<u8>,
    cap: usize,
}

impl Sink<'_> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let room = self.cap.saturating_sub(self.body.len());
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if bytes.len() > room {
            return Err(DecodeError::TooLarge(self.cap as u64));
        }
        Ok(())
    }
}

fn pass(layers: &mut [Layer], bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    match layers.split_first_mut() {
        Some((layer, rest)) => layer.push(bytes, rest, sink),
        None => sink.take(bytes),
    }
}

enum Stage {
    /// Its first bytes are being gathered.
    First(Vec<u8>),
    /// It is being undone.
    Coded,
    /// It was announced, but the bytes are plain.
    Plain,
    /// It is at its end; what follows is nobody's.
    Over,
}

struct Layer {
    coding: Box<dyn Unpack>,
    stage: Stage,
}

impl Layer {
    fn push(
        &mut self,
        bytes: &[u8],
        rest: &mut [Self],
        sink: &mut Sink<'_>,
    ) -> Result<(), DecodeError> {
        match &mut self.stage {
            Stage::First(first) => {
                first.extend_from_slice(bytes);
                if first.len() < FIRST {
                    return Ok(());
                }
                let first = std::mem::take(first);
                self.begin(&first, rest, sink)
            }
            Stage::Coded => self.unpack(bytes, rest, sink),
            Stage::Plain => pass(rest, bytes, sink),
            Stage::Over => Ok(()),
        }
    }

    /// The first bytes tell whether the coding is there at all.
    fn begin(
        &mut self,
        first: &[u8],
        rest: &mut [Self],
        sink: &mut Sink<'_>,
    ) -> Result<(), DecodeError> {
        let head = &first[..first.len().min(FIRST)];
        if !self.coding.may_begin(head) && !looks_binary(head) {
            self.stage = Stage::Plain;
            return pass(rest, first, sink);
        }
        self.stage = Stage::Coded;
        let before = sink.body.len();
        match self.unpack(first, rest, sink) {
            // A coding without a magic number is known to be absent by its first error only.
            Err(DecodeError::Broken { .. })
                if sink.body.len() == before && !looks_binary(first) =>
            {
                self.stage = Stage::Plain;
                pass(rest, first, sink)
            }
            other => other,
        }
    }

    fn unpack(
        &mut self,
        mut bytes: &[u8],
        rest: &mut [Self],
        sink: &mut Sink<'_>,
    ) -> Result<(), DecodeError> {
        let mut piece = [0; PIECE];
        loop {
            let Step {
                read,
                written,
                is_over,
            } = self.coding.step(bytes, &mut piece)?;
            bytes = &bytes[read..];
            pass(rest, &piece[..written], sink)?;
            if is_over {
                self.stage = Stage::Over;
                return Ok(());
            }
            // Full output may hide more; without it, and without input, nothing moves on.
            let is_stuck = read == 0 && written == 0;
            if is_stuck || (bytes.is_empty() && written < PIECE) {
                return Ok(());
            }
        }
    }

    fn finish(&mut self, rest: &mut [Self], sink: &mut Sink<'_>) -> Result<(), DecodeError> {
        if let Stage::First(first) = &mut self.stage {
            let first = std::mem::take(first);
            if first.is_empty() {
                self.stage = Stage::Over;
                return Ok(());
            }
            self.begin(&first, rest, sink)?;
        }
        match self.stage {
            Stage::Coded => self.coding.finish(),
            Stage::First(_) | Stage::Plain | Stage::Over => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
