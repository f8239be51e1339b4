//! Writes a session into a folder: `manifest.jsonl` (captured pages), `ledger.jsonl` (every URL), `session.json` (the
//! summary), and one file a page where the format says so. The folder is made when the first page is there, so a
//! crawl that found nothing leaves nothing behind.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use proto::v1::{
    LedgerEntry, LedgerRequest, Page, PagesRequest, Part, PartKind, SessionStatus, UrlState,
};
use proto::{CrawlUrl, Refusal, Timestamp};
use serde_json::{Value, json};

use crate::args::Format;
use crate::sessions::Sessions;
use crate::summary;

/// Pages asked for at a time.
const PAGE_WINDOW: u32 = 200;
/// Ledger rows asked for at a time.
const LEDGER_WINDOW: u32 = 1000;
/// Bytes of parts that come inline with one window.
const INLINE_BYTES: u64 = 8 * 1024 * 1024;
/// Longest readable part of a file name, in bytes.
const SLUG_BYTES: usize = 80;

const MANIFEST: &str = "manifest.jsonl";
const LEDGER: &str = "ledger.jsonl";
const SUMMARY: &str = "session.json";

/// Why a folder could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error("cannot write `{path}`: {why}", path = path.display())]
    Write { path: PathBuf, why: io::Error },
    #[error("`{path}` already holds another crawl; choose another folder with --output", path = path.display())]
    Taken { path: PathBuf },
    #[error("{0}")]
    Refused(#[from] Refusal),
}

/// One session on its way into one folder.
pub(crate) struct Exporter {
    folder: PathBuf,
    format: Format,
    session: String,
    manifest: Option<BufWriter<File>>,
    cursor: String,
}

impl Exporter {
    /// Checks that the folder is free for this session; writes nothing yet.
    pub(crate) fn new(folder: &Path, format: Format, session: &str) -> Result<Self, ExportError> {
        if folder.join(MANIFEST).exists() || folder.join(LEDGER).exists() {
            let summary = fs::read(folder.join(SUMMARY)).unwrap_or_default();
            let holder: Value = serde_json::from_slice(&summary).unwrap_or_default();
            if holder.get("session_id").and_then(Value::as_str) != Some(session) {
                return Err(ExportError::Taken {
                    path: folder.to_owned(),
                });
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            format,
            session: session.to_owned(),
            manifest: None,
            cursor: String::new(),
        })
    }

    /// The parts of a page that a format needs.
    pub(crate) fn parts(format: Format) -> Vec<PartKind> {
        match format {
            Format::Jsonl | Format::Markdown => vec![PartKind::Markdown],
            Format::Html => vec![PartKind::Body],
            Format::Links => Vec::new(),
        }
    }

    /// Writes what was captured since the last call.
    pub(crate) async fn pull(&mut self, sessions: &Sessions) -> Result<(), ExportError> {
        loop {
            let request = PagesRequest {
                session_id: self.session.clone(),
                cursor: self.cursor.clone(),
                limit: PAGE_WINDOW,
                inline_bytes: INLINE_BYTES,
                inline_kinds: Self::parts(self.format)
                    .into_iter()
                    .map(Into::into)
                    .collect(),
                ..PagesRequest::default()
            };
            let reply = sessions.pages(request).await?;
            for page in &reply.pages {
                self.write_page(sessions, page).await?;
            }
            self.cursor.clone_from(&reply.resume_cursor);
            if reply.next_cursor.is_empty() {
                return self.flush();
            }
            self.cursor = reply.next_cursor;
        }
    }

    /// Writes the rest, the ledger and the summary. Nothing at all where the session knows no page.
    pub(crate) async fn finish(
        mut self,
        sessions: &Sessions,
        status: &SessionStatus,
        summary: &Value,
    ) -> Result<bool, ExportError> {
        self.pull(sessions).await?;
        if status.pages == 0 && summary::count(status, UrlState::NotModified) == 0 {
            return Ok(false);
        }
        self.open()?;
        self.write_ledger(sessions).await?;
        self.write_file(
            SUMMARY,
            &serde_json::to_vec_pretty(summary).unwrap_or_default(),
        )?;
        Ok(true)
    }

    async fn write_page(&mut self, sessions: &Sessions, page: &Page) -> Result<(), ExportError> {
        let mut row = row_of(page);
        let wanted = Self::parts(self.format);
        let part = page.parts.iter().find(|part| wanted.contains(&part.kind()));
        if let Some(part) = part {
            let content = self.content(sessions, part).await?;
            match self.format {
                Format::Jsonl => {
                    row["content"] = json!(String::from_utf8_lossy(&content));
                }
                Format::Markdown => row["file"] = json!(self.write_body(page, "md", &content)?),
                Format::Html => {
                    row["file"] = json!(self.write_body(page, extension(page), &content)?);
                }
                Format::Links => {}
            }
        }
        self.write_row(&row)
    }

    async fn content(&self, sessions: &Sessions, part: &Part) -> Result<Vec<u8>, ExportError> {
        if part.content.len() as u64 == part.size {
            return Ok(part.content.to_vec());
        }
        Ok(sessions.body(&self.session, &part.digest).await?)
    }

    fn open(&mut self) -> Result<(), ExportError> {
        let path = self.folder.join(MANIFEST);
        if self.manifest.is_none() {
            fs::create_dir_all(&self.folder).map_err(|why| failed(&self.folder, why))?;
            let summary = json!({"session_id": self.session, "state": "running"});
            self.write_file(
                SUMMARY,
                &serde_json::to_vec_pretty(&summary).unwrap_or_default(),
            )?;
            let file = File::create(&path).map_err(|why| failed(&path, why))?;
            self.manifest = Some(BufWriter::new(file));
        }
        Ok(())
    }

    fn write_row(&mut self, row: &Value) -> Result<(), ExportError> {
        self.open()?;
        let path = self.folder.join(MANIFEST);
        if let Some(manifest) = &mut self.manifest {
            writeln!(manifest, "{row}").map_err(|why| failed(&path, why))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        let path = self.folder.join(MANIFEST);
        match &mut self.manifest {
            Some(manifest) => manifest.flush().map_err(|why| failed(&path, why)),
            None => Ok(()),
        }
    }

    fn write_body(
        &self,
        page: &Page,
        extension: &str,
        bytes: &[u8],
    ) -> Result<String, ExportError> {
        let name = file_name(&page.url, extension);
        self.write_file(&name, bytes)?;
        Ok(name)
    }

    fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), ExportError> {
        let path = self.folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|why| failed(parent, why))?;
        }
        fs::write(&path, bytes).map_err(|why| failed(&path, why))
    }

    async fn write_ledger(&self, sessions: &Sessions) -> Result<(), ExportError> {
        let path = self.folder.join(LEDGER);
        let file = File::create(&path).map_err(|why| failed(&path, why))?;
        let mut ledger = BufWriter::new(file);
        let mut cursor = String::new();
        loop {
            let request = LedgerRequest {
                session_id: self.session.clone(),
                cursor,
                limit: LEDGER_WINDOW,
                ..LedgerRequest::default()
            };
            let reply = sessions.ledger(request).await?;
            for entry in &reply.entries {
                writeln!(ledger, "{}", ledger_row(entry)).map_err(|why| failed(&path, why))?;
            }
            if reply.next_cursor.is_empty() {
                return ledger.flush().map_err(|why| failed(&path, why));
            }
            cursor = reply.next_cursor;
        }
    }
}

fn failed(path: &Path, why: io::Error) -> ExportError {
    ExportError::Write {
        path: path.to_owned(),
        why,
    }
}

/// What the manifest says of a captured page.
pub(crate) fn row_of(page: &Page) -> Value {
    json!({
        "url": page.url,
        "final_url": page.final_url,
        "status": page.status,
        "depth": page.depth,
        "state": "captured",
        "title": page.title,
        "content_type": page.content_type,
        "charset": page.charset,
        "language": page.language,
        "digest": hex(&page.digest),
        "size": page.size,
        "links": page.link_count,
        "truncated": page.truncated,
        "fetched_at": Timestamp::from_millis(page.fetched_at_millis).rfc3339(),
        "elapsed_ms": page.elapsed_millis,
    })
}

/// What the ledger says of a URL.
pub(crate) fn ledger_row(entry: &LedgerEntry) -> Value {
    let mut row = json!({
        "url": entry.url,
        "state": entry.state().word(),
        "depth": entry.depth,
        "attempts": entry.attempts,
    });
    let texts = [
        ("code", &entry.code),
        ("detail", &entry.detail),
        ("found_by", &entry.found_by),
        ("target", &entry.target),
    ];
    for (key, text) in texts {
        if !text.is_empty() {
            row[key] = json!(text);
        }
    }
    if entry.status > 0 {
        row["status"] = json!(entry.status);
    }
    if entry.is_sitemap {
        row["sitemap"] = json!(true);
    }
    if let Some(visit) = &entry.visit {
        row["visited_at"] = json!(Timestamp::from_millis(visit.at_millis).rfc3339());
        row["changed_at"] = json!(Timestamp::from_millis(visit.changed_at_millis).rfc3339());
        row["next_visit_in_s"] = json!(visit.interval_millis / 1_000);
    }
    if let Some(facts) = &entry.sitemap {
        for (key, text) in [
            ("lastmod", &facts.lastmod),
            ("changefreq", &facts.changefreq),
            ("priority", &facts.priority),
        ] {
            if !text.is_empty() {
                row[key] = json!(text);
            }
        }
    }
    row
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn extension(page: &Page) -> &'static str {
    let essence = page
        .content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    match essence {
        "application/pdf" => "pdf",
        "application/json" => "json",
        "text/plain" => "txt",
        "text/xml" | "application/xml" => "xml",
        _ => "html",
    }
}

/// `pages/<host>/<readable>-<8 hex digits of the URL's hash>.<extension>`: unique, and safe on every file system.
fn file_name(url: &str, extension: &str) -> String {
    let Ok(url) = CrawlUrl::parse(url) else {
        return format!(
            "pages/{}.{extension}",
            proto::Digest::of(url.as_bytes()).hex()
        );
    };
    let hash = url.url_hash();
    let host = slug(
        url.host_key()
            .as_str()
            .split_once("://")
            .map_or("", |(_, rest)| rest),
    );
    let path = slug(url.path_and_query());
    let path = if path.is_empty() { "index" } else { &path };
    format!("pages/{host}/{path}-{}.{extension}", &hash[..8])
}

/// Letters, digits, dots and dashes of a text, never a leading dot.
fn slug(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        let kept = letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
        match kept {
            true => out.push(letter),
            false if !out.ends_with('-') => out.push('-'),
            false => {}
        }
        if out.len() >= SLUG_BYTES {
            break;
        }
    }
    out.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn a_file_name_is_safe_and_its_own() {
        let names = [
            "http://a.test/",
            "http://a.test/x/../../etc/passwd",
            "http://a.test/%2e%2e/%2e%2e/x",
            "http://a.test/a?b=c&d",
            "http://a.test/a/b-c",
            "http://a.test:8080/\u{202e}evil",
        ]
        .map(|url| file_name(url, "md"));
        for name in &names {
            assert!(name.starts_with("pages/a.test"), "{name}");
            assert!(!name.contains("..") && !name.contains("//"), "{name}");
        }
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }
}
