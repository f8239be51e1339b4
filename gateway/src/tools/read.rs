//! read_result: a slice of one stored page, the places where a text occurs in it, or values by JSON path.

use std::time::Duration;

use proto::Code;
use proto::v1::{Page, Part, PartKind};
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Call;
use super::render::cleaned;
use super::scrape::captured;
use crate::answer::{Answer, beginning, fenced, harmless, json_len};
use crate::error::{Failure, Fault, Invalid};
use crate::json_path::Path;
use crate::pages;

const FRAME_BYTES: usize = 1_200;
/// Shown on each side of a match.
const AROUND_BYTES: usize = 120;
/// A longer match is shown by its beginning.
const MATCH_BYTES: usize = 400;
const PATTERN_BYTES: usize = 256 * 1024;
const SEARCH_WITHIN: Duration = Duration::from_secs(5);
/// Values of one path that are looked at.
const MOST_VALUES: usize = 10_000;

pub(super) async fn read_result(call: &Call<'_>) -> Result<Answer, Fault> {
    let args = &call.args;
    let id = args.text("session_id").unwrap_or_default();
    if args.has("regex") && !args.has("find") {
        return Err(Invalid::new("find", "is required with regex", &Value::Null).into());
    }
    let path = path(call)?;
    let kind = match args.text("part") {
        Some("text") => PartKind::Text,
        Some("html") => PartKind::Html,
        Some("body") => PartKind::Body,
        Some("facts") => PartKind::Facts,
        Some("selected") => PartKind::Selected,
        None if path.is_some() => PartKind::Facts,
        _ => PartKind::Markdown,
    };
    let url = match args.text("url") {
        Some(url) => url.to_owned(),
        None => start_of(call, id).await?,
    };
    let urls = [url.clone()];
    let mut entries = call.shared.sessions.lookup(id, &urls, 0, &[kind]).await?;
    let last = entries
        .pop()
        .and_then(|entry| entry.chain.into_iter().last());
    let page = captured(last).map_err(Fault::Failed)?;
    let Some(part) = pages::part(&page, kind) else {
        let bound = format!(
            "was not kept of this page; its content type is {}",
            page.content_type
        );
        return Err(Invalid::new("part", bound, &json!(args.text("part"))).into());
    };
    let source = Source {
        call,
        id,
        url: &url,
        page: &page,
        part,
    };
    match (path, args.text("find")) {
        (Some(path), _) => source.values(&path).await,
        (None, Some(needle)) => source.matches(needle).await,
        (None, None) => source.slice().await,
    }
}

/// The JSON path that was given, if one was.
fn path(call: &Call<'_>) -> Result<Option<Path>, Invalid> {
    let Some(text) = call.args.text("path") else {
        return Ok(None);
    };
    for other in ["find", "offset"] {
        if call.args.has(other) {
            let bound = format!("contradicts `{other}`; give one of the two");
            return Err(Invalid::new("path", bound, &json!(text)));
        }
    }
    let path = Path::parse(text).map_err(|why| Invalid::new("path", why, &json!(text)))?;
    Ok(Some(path))
}

/// Where a session began.
async fn start_of(call: &Call<'_>, id: &str) -> Result<String, Fault> {
    let status = call.shared.sessions.status(id, Duration::ZERO).await?;
    let mut seeds = status.spec.unwrap_or_default().seeds.into_iter();
    match (seeds.next(), seeds.next()) {
        (Some(seed), None) => Ok(seed),
        _ => {
            let bound = "is required: the session has several starts";
            Err(Invalid::new("url", bound, &Value::Null).into())
        }
    }
}

/// A stored part of a page.
struct Source<'a> {
    call: &'a Call<'a>,
    id: &'a str,
    url: &'a str,
    page: &'a Page,
    part: &'a Part,
}

impl Source<'_> {
    fn budget(&self) -> usize {
        self.call
            .budget()
            .saturating_sub(FRAME_BYTES + self.url.len() * 3)
    }

    /// The body is told verbatim, text that was derived from it without what could deceive.
    fn told(&self, text: &str) -> String {
        if self.part.kind() == PartKind::Body {
            text.to_owned()
        } else {
            harmless(text)
        }
    }

    /// What fits from `offset` on. Offsets count the part's own bytes.
    async fn slice(&self) -> Result<Answer, Fault> {
        let offset = self.call.args.int("offset").unwrap_or(0);
        let size = self.part.size;
        if offset > size {
            let bound = format!("must be at most {size}, the size of the part");
            return Err(Invalid::new("offset", bound, &json!(offset)).into());
        }
        let budget = self.budget();
        // Some bytes before show where the character at the offset begins, some after where the last one ends.
        let lead = offset.min(3);
        let most = u64::try_from(budget).unwrap_or(u64::MAX);
        let length = most.saturating_add(lead + 4);
        let (sessions, page) = (&self.call.shared.sessions, self.page);
        let bytes = pages::range(sessions, self.id, page, self.part, offset - lead, length).await?;
        let is_end = (offset - lead).saturating_add(length) >= size;
        let back = back_to_border(&bytes, usize::try_from(lead).unwrap_or(0));
        let start = offset - lead + u64::try_from(back).unwrap_or(0);
        let (raw, count) = fitting(bytes.get(back..).unwrap_or_default(), budget, is_end);
        let content = self.told(&raw);
        let end = start + u64::try_from(count).unwrap_or(0);
        let mut structured = json!({
            "session_id": self.id, "url": self.url, "content": content, "offset": start, "size": size,
        });
        let mut text = fenced(self.url, &content);
        if end < size {
            structured["next_offset"] = json!(end);
            let left = size - end;
            text.push_str(&format!(
                "\n\n{left} of {size} bytes are left: call again with offset {end}."
            ));
        }
        Ok(Answer::new(text, structured).of_session(self.id))
    }

    /// Places where a text or pattern occurs, each with its surroundings.
    async fn matches(&self, needle: &str) -> Result<Answer, Fault> {
        let is_regex = self.call.args.flag("regex", false);
        let pattern = pattern(needle, is_regex)?;
        let shared = self.call.shared;
        let bytes = pages::whole(&shared.sessions, self.id, self.page, self.part).await?;
        let is_derived = self.part.kind() != PartKind::Body;
        let budget = self.budget();
        // The time is linear in the text, and a large pattern is slow all the same: never on this thread.
        let search = async {
            let permit = shared.searches.clone().acquire_owned().await;
            tokio::task::spawn_blocking(move || {
                let _permit = permit;
                hits(&pattern, &bytes, budget, is_derived)
            })
            .await
        };
        let (matches, total) = match timeout(SEARCH_WITHIN, search).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => return Err(Fault::Internal("the search broke".into())),
            Err(_) => {
                let message = format!("the search took longer than {SEARCH_WITHIN:?}");
                let mut failure = Failure::of(Code::Timeout, message);
                failure.next_step = "Give a simpler pattern, or a literal without regex.".into();
                return Err(failure.into());
            }
        };
        let mut text = String::new();
        for (at, around) in &matches {
            text.push_str(&format!("\n[{at}] {around}\n"));
        }
        let shown = matches.len();
        let head = format!("{total} matches, {shown} shown; offset reads around one.");
        let matches: Vec<_> = matches
            .into_iter()
            .map(|(at, around)| json!({ "offset": at, "text": around }))
            .collect();
        let structured = json!({
            "session_id": self.id, "url": self.url, "total": total, "matches": matches,
        });
        let text = format!("{head}\n{}", fenced(self.url, &text));
        Ok(Answer::new(text, structured).of_session(self.id))
    }

    /// Values that a path leads to in a part that is JSON.
    async fn values(&self, path: &Path) -> Result<Answer, Fault> {
        let sessions = &self.call.shared.sessions;
        let bytes = pages::whole(sessions, self.id, self.page, self.part).await?;
        let root: Value = serde_json::from_slice(&bytes).map_err(|error| {
            let bound = format!("needs a part that is JSON, such as facts ({error})");
            Invalid::new("path", bound, &json!(self.call.args.text("path")))
        })?;
        let (found, mut is_cut) = path.find(&root, MOST_VALUES);
        let (mut left, mut values) = (self.budget(), Vec::new());
        for (path, value) in found {
            let value = json!({ "path": path, "value": cleaned(value.clone()) });
            let weight = value.to_string().len() + 1;
            if weight > left {
                is_cut = true;
                break;
            }
            left -= weight;
            values.push(value);
        }
        let head = format!("{} values.", values.len());
        let mut text = format!("{head}\n{}", fenced(self.url, &json!(values).to_string()));
        let mut structured = json!({ "session_id": self.id, "url": self.url, "values": values });
        if is_cut {
            let way_on = "more than fits; a slice such as [20:40] in the path reads on";
            structured["next_step"] = json!(way_on);
            text.push_str(&format!("\n{way_on}."));
        }
        Ok(Answer::new(text, structured).of_session(self.id))
    }
}

/// Matches with their surroundings, as many as weigh at most `budget`, and how many there are.
fn hits(
    pattern: &Regex,
    bytes: &[u8],
    budget: usize,
    is_derived: bool,
) -> (Vec<(usize, String)>, usize) {
    let whole = String::from_utf8_lossy(bytes);
    let (mut matches, mut total, mut used) = (Vec::new(), 0usize, 0);
    for at in pattern.find_iter(&whole) {
        total += 1;
        if used >= budget {
            continue;
        }
        let from = whole.floor_char_boundary(at.start().saturating_sub(AROUND_BYTES));
        let shown = at.end().min(at.start() + MATCH_BYTES);
        let to = whole.floor_char_boundary(shown + AROUND_BYTES);
        let around = whole.get(from..to).unwrap_or_default();
        let around = if is_derived {
            harmless(around)
        } else {
            around.to_owned()
        };
        let weight = json_len(&around) + 60;
        if used + weight <= budget {
            used += weight;
            matches.push((at.start(), around));
        } else {
            used = budget;
        }
    }
    (matches, total)
}

/// A case-insensitive pattern; the engine's time is linear in the text whatever it says.
fn pattern(needle: &str, is_regex: bool) -> Result<Regex, Invalid> {
    let written = if is_regex {
        needle.to_owned()
    } else {
        regex::escape(needle)
    };
    RegexBuilder::new(&written)
        .case_insensitive(true)
        .size_limit(PATTERN_BYTES)
        .build()
        .map_err(|error| {
            let bound = format!("must be a regular expression of bounded size ({error})");
            Invalid::new("find", bound, &json!(needle))
        })
}

/// The nearest place at or before `at` where a character may begin.
fn back_to_border(bytes: &[u8], at: usize) -> usize {
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (0..=at).rev().find(|at| !is_inside(*at)).unwrap_or(at)
}

/// The longest beginning that weighs at most `most` as JSON, and how many bytes it came from.
fn fitting(bytes: &[u8], most: usize, is_end: bool) -> (String, usize) {
    let (mut text, mut count, mut left) = (String::new(), 0, most);
    for chunk in bytes.utf8_chunks() {
        let valid = beginning(chunk.valid(), left);
        text.push_str(valid);
        count += valid.len();
        left = left.saturating_sub(json_len(valid));
        let invalid = chunk.invalid();
        if valid.len() < chunk.valid().len() || (!invalid.is_empty() && left < 3) {
            break;
        }
        if invalid.is_empty() {
            continue;
        }
        // Half a character at the stretch's end belongs to the next slice, and at the part's end to this one.
        if !is_end && count + invalid.len() == bytes.len() {
            break;
        }
        text.push(char::REPLACEMENT_CHARACTER);
        count += invalid.len();
        left -= 3;
    }
    (text, count)
}

#[cfg(test)]
mod tests {
    use super::{back_to_border, fitting, pattern};

    #[test]
    fn slices_put_together_are_the_whole_whatever_its_bytes() {
        let whole = "aé漢🦀\"\n".as_bytes().repeat(5);
        let mut read = String::new();
        let mut at = 0;
        while at < whole.len() {
            let stop = (at + 15).min(whole.len());
            let (text, count) = fitting(&whole[at..stop], 9, stop == whole.len());
            assert!(count > 0, "stuck at {at}");
            read.push_str(&text);
            at += count;
        }
        assert_eq!(read.as_bytes(), whole);
        assert_eq!(fitting(b"a\xffb\xe6\xbc", 99, true).0, "a\u{fffd}b\u{fffd}");
        assert_eq!(fitting(b"a\xffb\xe6\xbc", 99, false).1, 3);
    }

    #[test]
    fn an_offset_inside_a_character_moves_to_its_beginning() {
        let bytes = "a漢".as_bytes();
        assert_eq!(back_to_border(bytes, 3), 1);
        assert_eq!(back_to_border(bytes, 1), 1);
        assert_eq!(back_to_border(bytes, 0), 0);
    }

    #[test]
    fn a_literal_is_no_pattern_and_a_huge_pattern_is_refused() {
        assert!(pattern("a.c", false).unwrap().find("abc").is_none());
        assert!(pattern("A.C", true).unwrap().is_match("abc"));
        assert!(pattern("(", true).is_err());
        assert!(pattern("(a{1000}){1000}", true).is_err());
    }
}
