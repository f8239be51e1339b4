//! The codings themselves, a step at a time.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::{Crc, Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as RawZstd, Operation as _};

use super::DecodeError;

/// Frames that need more memory than this are refused (RFC 9659: 8 MiB for the web).
const ZSTD_WINDOW_LOG: u32 = 23;
/// A gzip header with its name, comment and extra field.
const MAX_GZIP_HEADER: usize = 64 * 1024;

/// What one step did.
pub(super) struct Step {
    pub(super) read: usize,
    pub(super) written: usize,
    /// The coded data are at their end.
    pub(super) is_over: bool,
}

/// One coding.
pub(super) trait Unpack: Send {
    /// Whether data of this coding can begin so.
    fn may_begin(&self, head: &[u8]) -> bool;
    /// Takes from `input`, gives to `output`.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError>;
    /// No more input will come.
    fn finish(&mut self) -> Result<(), DecodeError>;
}

fn broken(coding: &'static str, why: &impl ToString) -> DecodeError {
    DecodeError::Broken {
        coding,
        why: why.to_string(),
    }
}

fn unfinished(coding: &'static str) -> DecodeError {
    broken(coding, &"it ends in the middle")
}

fn count(before: u64, after: u64) -> usize {
    usize::try_from(after - before).unwrap_or(0)
}

/// RFC 1952, several members in a row included. What follows the last one and is none is padding.
#[derive(Default)]
pub(super) struct Gzip {
    at: GzipAt,
    members: u64,
}

enum GzipAt {
    Header(Vec<u8>),
    Data(Box<(Decompress, Crc)>),
    Trailer(Vec<u8>, Crc),
}

impl Default for GzipAt {
    fn default() -> Self {
        Self::Header(Vec::new())
    }
}

impl Unpack for Gzip {
    fn may_begin(&self, head: &[u8]) -> bool {
        head.starts_with(b"\x1f\x8b")
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        let (mut read, mut written, mut is_over) = (input.len(), 0, false);
        match &mut self.at {
            GzipAt::Header(header) => {
                let before = header.len();
                header.extend_from_slice(input);
                match gzip_header(header) {
                    Ok(Some(length)) => {
                        read = length - before;
                        let fresh = (Decompress::new(false), Crc::new());
                        self.at = GzipAt::Data(Box::new(fresh));
                    }
                    Ok(None) if header.len() <= MAX_GZIP_HEADER => {}
                    Ok(None) => return Err(broken("gzip", &"its header has no end")),
                    Err(_) if self.members > 0 => is_over = true,
                    Err(why) => return Err(broken("gzip", &why)),
                }
            }
            GzipAt::Data(data) => {
                let (inflate, crc) = data.as_mut();
                let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress(input, output, FlushDecompress::None)
                    .map_err(|error| broken("gzip", &error))?;
                read = count(before_in, inflate.total_in());
                written = count(before_out, inflate.total_out());
                crc.update(&output[..written]);
                if status == Status::StreamEnd {
                    let crc = std::mem::replace(crc, Crc::new());
                    self.at = GzipAt::Trailer(Vec::new(), crc);
                }
            }
            GzipAt::Trailer(trailer, crc) => {
                read = input.len().min(8 - trailer.len());
                trailer.extend_from_slice(&input[..read]);
                if let Some(sum) = trailer.first_chunk::<4>().filter(|_| trailer.len() == 8) {
                    if u32::from_le_bytes(*sum) != crc.sum() {
                        return Err(broken("gzip", &"its checksum is wrong"));
                    }
                    self.members += 1;
                    self.at = GzipAt::default();
                }
            }
        }
        Ok(Step {
            read,
            written,
            is_over,
        })
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        match &self.at {
            GzipAt::Header(_) if self.members > 0 => Ok(()),
            _ => Err(unfinished("gzip")),
        }
    }
}

/// Length of the header at the start of `bytes`; `None` while it is incomplete.
fn gzip_header(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    const HAS_CRC: u8 = 2;
    const HAS_EXTRA: u8 = 4;
    const HAS_NAME: u8 = 8;
    const HAS_COMMENT: u8 = 16;
    let magic = [0x1f, 0x8b, 8];
    if bytes
        .iter()
        .zip(magic)
        .any(|(byte, wanted)| *byte != wanted)
    {
        return Err("it has no magic number");
    }
    let Some(flags) = bytes.get(3).copied().filter(|_| bytes.len() >= 10) else {
        return Ok(None);
    };
    let mut at = 10;
    if flags & HAS_EXTRA != 0 {
        let Some([low, high]) = bytes.get(at..at + 2).and_then(|two| two.first_chunk::<2>()) else {
            return Ok(None);
        };
        at += 2 + usize::from(u16::from_le_bytes([*low, *high]));
    }
    for flag in [HAS_NAME, HAS_COMMENT] {
        if flags & flag != 0 {
            let text = bytes.get(at..).unwrap_or_default();
            let Some(end) = text.iter().position(|byte| *byte == 0) else {
                return Ok(None);
            };
            at += end + 1;
        }
    }
    if flags & HAS_CRC != 0 {
        at += 2;
    }
    Ok((bytes.len() >= at).then_some(at))
}

/// RFC 1950 as the standard says, or bare RFC 1951 as some servers send it.
#[derive(Default)]
pub(super) struct Deflate {
    inflate: Option<Decompress>,
}

/// Whether a zlib header stands here (RFC 1950, 2.2).
fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [first, second, ..]
        if first & 0x0f == 8 && first >> 4 <= 7 && u16::from_be_bytes([*first, *second]) % 31 == 0)
}

impl Unpack for Deflate {
    fn may_begin(&self, head: &[u8]) -> bool {
        // Bare data have no mark of their own.
        !head.starts_with(b"<") || is_zlib(head)
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        let inflate = self
            .inflate
            .get_or_insert_with(|| Decompress::new(is_zlib(input)));
        let (before_in, before_out) = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(input, output, FlushDecompress::None)
            .map_err(|error| broken("deflate", &error))?;
        Ok(Step {
            read: count(before_in, inflate.total_in()),
            written: count(before_out, inflate.total_out()),
            is_over: status == Status::StreamEnd,
        })
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        Err(unfinished("deflate"))
    }
}

/// RFC 7932.
pub(super) struct Brotli {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    total: usize,
}

impl Default for Brotli {
    fn default() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: Box::new(BrotliState::new(alloc(), alloc(), alloc())),
            total: 0,
        }
    }
}

impl Unpack for Brotli {
    fn may_begin(&self, head: &[u8]) -> bool {
        !head.starts_with(b"<")
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        let (mut left, mut read) = (input.len(), 0);
        let (mut room, mut written) = (output.len(), 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut room,
            &mut written,
            output,
            &mut self.total,
            &mut self.state,
        );
        let is_over = match result {
            BrotliResult::ResultSuccess => true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => false,
            BrotliResult::ResultFailure => return Err(broken("br", &"its data are invalid")),
        };
        Ok(Step {
            read,
            written,
            is_over,
        })
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        Err(unfinished("br"))
    }
}

/// RFC 8878, several frames in a row included.
pub(super) struct Zstd {
    raw: RawZstd<'static>,
    frames: u64,
    is_between: bool,
}

impl Zstd {
    pub(super) fn new() -> Result<Self, DecodeError> {
        let mut raw = RawZstd::new().map_err(|error| broken("zstd", &error))?;
        raw.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))
            .map_err(|error| broken("zstd", &error))?;
        Ok(Self {
            raw,
            frames: 0,
            is_between: true,
        })
    }
}

impl Unpack for Zstd {
    fn may_begin(&self, head: &[u8]) -> bool {
        let is_skippable = matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
        head.starts_with(b"\x28\xb5\x2f\xfd") || is_skippable
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        if input.is_empty() && self.is_between {
            return Ok(Step {
                read: 0,
                written: 0,
                is_over: false,
            });
        }
        match self.raw.run_on_buffers(input, output) {
            Ok(status) => {
                self.is_between = status.remaining == 0;
                self.frames += u64::from(self.is_between);
                Ok(Step {
                    read: status.bytes_read,
                    written: status.bytes_written,
                    is_over: false,
                })
            }
            // What follows a frame and is none is padding.
            Err(_) if self.is_between && self.frames > 0 => Ok(Step {
                read: input.len(),
                written: 0,
                is_over: true,
            }),
            Err(error) => Err(broken("zstd", &error)),
        }
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        if self.is_between && self.frames > 0 {
            return Ok(());
        }
        Err(unfinished("zstd"))
    }
}
