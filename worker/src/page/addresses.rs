//! Addresses made absolute, within bounds: a base may be a thousand times as long as what is resolved against it.

use std::cell::Cell;

use proto::CrawlUrl;

/// How many bytes of addresses a page may show, beside a multiple of its own length.
const FREE: usize = 4 * 1024 * 1024;

/// How often its own length.
const TIMES: usize = 4;

/// What the addresses of one part of a page are resolved against, and how many bytes of them may still be shown.
pub(super) struct Addresses<'a> {
    base: &'a CrawlUrl,
    left: Cell<usize>,
}

impl<'a> Addresses<'a> {
    /// Addresses of a page that has `length` bytes.
    pub(super) fn new(base: &'a CrawlUrl, length: usize) -> Self {
        let left = length.saturating_mul(TIMES).saturating_add(FREE);
        Self {
            base,
            left: Cell::new(left),
        }
    }

    pub(super) const fn base(&self) -> &'a CrawlUrl {
        self.base
    }

    /// Takes the bytes of an address; `false` where there is no more room.
    pub(super) fn take(&self, length: usize) -> bool {
        let left = self.left.get().checked_sub(length);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// The absolute form of an address that may be shown; `None` for one that runs something or holds its content, and
    /// where there is no more room.
    pub(super) fn absolute(&self, href: &str) -> Option<String> {
        if self.left.get() == 0 {
            return None;
        }
        let url = self.base.url().join(href.trim()).ok()?;
        match url.scheme() {
            "javascript" | "data" | "vbscript" | "blob" | "file" => None,
            _ => Some(String::from(url)).filter(|url| self.take(url.len())),
        }
    }
}
