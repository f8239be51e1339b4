//! The extensions of a urlset: images, videos and news, known by prefix or namespace.

use proto::CrawlUrl;
use quick_xml::events::BytesStart;

use super::tag::split_name;
use crate::sitemap::{Extras, News, dates, resolved};

/// Most images, and most videos, that are kept of one page (the image extension allows this many).
const MAX_EXTRAS: usize = 1000;

/// Longest text of the news extension that is kept, in bytes.
const MAX_TEXT: usize = 1000;

/// Whose element it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extension {
    Image,
    Video,
    News,
    /// One whose elements are only kept apart from the plain ones.
    Other,
}

/// An element of an extension that has something to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    Image,
    Video,
    NewsTitle,
    NewsDate,
    NewsName,
    NewsLanguage,
}

impl Extension {
    /// What the element of this name holds.
    pub(super) fn extra(self, local: &str) -> Option<Extra> {
        match (self, local) {
            (Self::Image, "loc") => Some(Extra::Image),
            (Self::Video, "content_loc" | "player_loc") => Some(Extra::Video),
            (Self::News, "title") => Some(Extra::NewsTitle),
            (Self::News, "publication_date") => Some(Extra::NewsDate),
            (Self::News, "name") => Some(Extra::NewsName),
            (Self::News, "language") => Some(Extra::NewsLanguage),
            _ => None,
        }
    }

    fn of_namespace(value: &str) -> Option<Self> {
        const PARTS: [(&str, Extension); 4] = [
            ("sitemap-image", Extension::Image),
            ("sitemap-video", Extension::Video),
            ("sitemap-news", Extension::News),
            ("/mrss", Extension::Other),
        ];
        let found = PARTS.iter().find(|(part, _)| value.contains(part));
        found.map(|(_, extension)| *extension)
    }
}

/// Which prefixes stand for extensions in a document.
pub(super) struct Prefixes(Vec<(String, Extension)>);

impl Default for Prefixes {
    /// The usual prefixes count even where nobody declares them.
    fn default() -> Self {
        let usual = [
            ("image", Extension::Image),
            ("video", Extension::Video),
            ("news", Extension::News),
            ("media", Extension::Other),
            ("mobile", Extension::Other),
        ];
        Self(
            usual
                .map(|(prefix, extension)| (prefix.to_owned(), extension))
                .to_vec(),
        )
    }
}

impl Prefixes {
    /// Learns what a tag declares; answers which extension the tag itself stands in by default.
    pub(super) fn learn(&mut self, tag: &BytesStart<'_>) -> Option<Extension> {
        if !tag.attributes_raw().contains("xmlns") {
            return None;
        }
        let mut default = None;
        for attribute in tag.html_attributes().with_checks(false).flatten() {
            let (prefix, name) = split_name(attribute.key.as_ref());
            let Some(extension) = Extension::of_namespace(&attribute.value) else {
                continue;
            };
            if prefix == "xmlns" && self.of(&name) != Some(extension) && self.0.len() < 100 {
                self.0.push((name, extension));
            } else if name == "xmlns" {
                default = Some(extension);
            }
        }
        default
    }

    /// The extension that a prefix stands for; what was declared last counts.
    pub(super) fn of(&self, prefix: &str) -> Option<Extension> {
        let found = self.0.iter().rev().find(|(known, _)| known == prefix);
        found.map(|(_, extension)| *extension)
    }
}

/// Keeps what an element of an extension says.
pub(super) fn keep(extras: &mut Extras, extra: Extra, value: &str, base: &CrawlUrl) {
    let text = || {
        let mut text = value.to_owned();
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text
    };
    match extra {
        Extra::Image => push(&mut extras.images, resolved(value, base)),
        Extra::Video => push(&mut extras.videos, resolved(value, base)),
        Extra::NewsTitle => news(extras).title = text(),
        Extra::NewsName => news(extras).publication = text(),
        Extra::NewsLanguage => news(extras).language = text(),
        Extra::NewsDate => {
            let date = Some(value.to_owned()).filter(|date| dates::is_valid(date));
            news(extras).published = date;
        }
    }
}

fn push(list: &mut Vec<String>, url: Option<CrawlUrl>) {
    if list.len() < MAX_EXTRAS {
        list.extend(url.map(String::from));
    }
}

fn news(extras: &mut Extras) -> &mut News {
    extras.news.get_or_insert_with(News::default)
}
