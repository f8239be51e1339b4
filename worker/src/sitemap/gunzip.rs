//! Removes gzip layers as a document is read, holding no more than a buffer of each.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::GzDecoder;

use super::{MAX_BYTES, SitemapError};

/// A file that is gzip, sent with `Content-Encoding: gzip`, has two layers.
const MAX_LAYERS: usize = 3;

/// What became of the layers so far; the worst of all counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    #[default]
    Fine,
    /// A layer breaks off.
    Cut,
    /// A layer is no gzip at all.
    Bad,
    TooLarge,
}

/// A body without its gzip layers. Ends early where a layer does, so [`Unpacked::judge`] has the last word.
pub(super) struct Unpacked<'a> {
    reader: Box<dyn BufRead + 'a>,
    fate: Rc<Cell<Fate>>,
}

impl<'a> Unpacked<'a> {
    /// Unpacks `body` as long as it begins like gzip. What follows the last member is left out.
    pub(super) fn new(body: &'a [u8]) -> io::Result<Self> {
        let fate = Rc::new(Cell::new(Fate::Fine));
        let mut reader: Box<dyn BufRead + 'a> = Box::new(body);
        for layer in 0.. {
            let mut head = Vec::new();
            reader.by_ref().take(2).read_to_end(&mut head)?;
            let is_packed = is_gzip(&head);
            reader = Box::new(Cursor::new(head).chain(reader));
            if !is_packed {
                break;
            }
            if layer == MAX_LAYERS {
                worsen(&fate, Fate::Bad);
                reader = Box::new(io::empty());
                break;
            }
            reader = Box::new(BufReader::new(Members::new(reader, Rc::clone(&fate))));
        }
        Ok(Self { reader, fate })
    }

    /// Whether the stream was whole, once it was read to its end; an error where nothing in it counts.
    pub(super) fn judge(&self) -> Result<bool, SitemapError> {
        match self.fate.get() {
            Fate::Fine => Ok(true),
            Fate::Cut => Ok(false),
            Fate::Bad => Err(SitemapError::BadGzip),
            Fate::TooLarge => Err(SitemapError::TooLarge),
        }
    }
}

impl Read for Unpacked<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.reader.read(out)
    }
}

fn worsen(fate: &Cell<Fate>, found: Fate) {
    fate.set(fate.get().max(found));
}

fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// The members of one gzip stream, one after the other.
struct Members<R> {
    /// The member that is being read; none behind the last.
    member: Option<GzDecoder<R>>,
    is_first: bool,
    /// Whether this member gave anything yet.
    has_begun: bool,
    total: usize,
    fate: Rc<Cell<Fate>>,
}

impl<R: BufRead> Members<R> {
    fn new(packed: R, fate: Rc<Cell<Fate>>) -> Self {
        Self {
            member: Some(GzDecoder::new(packed)),
            is_first: true,
            has_begun: false,
            total: 0,
            fate,
        }
    }

    /// Goes on to the next member, if what follows begins like one.
    fn next_member(&mut self) -> io::Result<()> {
        let Some(ended) = self.member.take() else {
            return Ok(());
        };
        let mut rest = ended.into_inner();
        // One byte may be all that is buffered; what then is no member fails as one that gives nothing.
        let follows = match rest.fill_buf()? {
            [0x1f] | [0x1f, 0x8b, ..] => true,
            [..] => false,
        };
        if follows {
            self.member = Some(GzDecoder::new(rest));
            self.is_first = false;
            self.has_begun = false;
        }
        Ok(())
    }

    fn fail(&mut self) {
        self.member = None;
        if self.is_first && !self.has_begun {
            worsen(&self.fate, Fate::Bad);
        } else if self.has_begun {
            worsen(&self.fate, Fate::Cut);
        }
        // Else bytes behind the last member that only look like another one.
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while let Some(member) = &mut self.member {
            match member.read(out) {
                Ok(0) => self.next_member()?,
                Ok(read) => {
                    self.has_begun = true;
                    self.total += read;
                    if self.total > MAX_BYTES {
                        worsen(&self.fate, Fate::TooLarge);
                        self.member = None;
                        return Ok(0);
                    }
                    return Ok(read);
                }
                Err(_) => self.fail(),
            }
        }
        Ok(0)
    }
}
