//! A small honest session door: scripted pages, sessions that run until told otherwise.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use proto::v1::sessions_server::{Sessions, SessionsServer};
use proto::v1::*;
use proto::{ErrorCode, Refusal, SessionId};
use tokio::sync::watch;
use tonic::transport::{Channel, Endpoint, Server, Uri};
use tonic::{Request, Response, Status};

/// A site of pages, and whether sessions end by themselves.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    pub(crate) pages: Arc<Vec<(String, String)>>,
    pub(crate) never_ends: bool,
    /// A run is answered before its page is there.
    pub(crate) answers_early: bool,
    /// Streams of changes that are open.
    pub(crate) watchers: Arc<watch::Sender<usize>>,
    pub(crate) sessions: Arc<Mutex<BTreeMap<String, SessionStatus>>>,
    pub(crate) cancelled: Arc<Mutex<Vec<String>>>,
}

/// Parts from this size on have to be read from the body store.
const INLINE: usize = 64 * 1024;

fn digest(text: &str) -> Bytes {
    Bytes::copy_from_slice(proto::Digest::of(text.as_bytes()).as_bytes())
}

/// Counts one open stream of changes.
struct Watcher(Arc<watch::Sender<usize>>);

impl Watcher {
    fn new(fake: &Fake) -> Self {
        fake.watchers.send_modify(|open| *open += 1);
        Self(fake.watchers.clone())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

type Answer<T> = Result<Response<T>, Status>;

impl Fake {
    pub(crate) fn with_pages(pages: &[(&str, &str)]) -> Self {
        let pages = pages
            .iter()
            .map(|(url, text)| ((*url).into(), (*text).into()))
            .collect();
        Self {
            pages: Arc::new(pages),
            ..Default::default()
        }
    }

    fn page(&self, url: &str) -> Option<Page> {
        let (url, text) = self.pages.iter().find(|(known, _)| known == url)?;
        let part = |kind: PartKind, text: &str| Part {
            kind: kind.into(),
            digest: digest(text),
            size: text.len() as u64,
            content: match text.len() {
                0..INLINE => text.as_bytes().to_vec().into(),
                _ => Bytes::new(),
            },
        };
        let facts = serde_json::json!({ "language": "en", "links": [
            { "url": "https://a.test/linked", "text": "Lin\u{202e}ked", "kind": "internal" },
            { "url": "https://b.test/", "text": "Other", "kind": "external" }] });
        let selected = serde_json::json!({ "values": { "name": ["A", "B\u{202e}b"], "link": [] },
            "found": { "name": 2, "link": 0 }, "is_cut": false,
            "errors": if url.ends_with("/bad") { serde_json::json!({ "bad": "is no selector" }) } else { serde_json::json!({}) } });
        Some(Page {
            url: url.clone(),
            final_url: url.clone(),
            status: 200,
            content_type: "text/html".into(),
            title: "A title".into(),
            digest: digest(text),
            size: text.len() as u64,
            fetched_at_millis: 1_796_095_265_042,
            parts: vec![
                part(PartKind::Markdown, text),
                part(PartKind::Body, text),
                part(PartKind::Html, &format!("<p>{text}</p>")),
                part(PartKind::Text, "Plain."),
                part(PartKind::Facts, &facts.to_string()),
                part(PartKind::Selected, &selected.to_string()),
            ],
            ..Default::default()
        })
    }

    fn entry(&self, url: &str) -> LedgerEntry {
        match self.page(url) {
            Some(page) => LedgerEntry {
                url: url.into(),
                state: UrlState::Captured.into(),
                page: Some(page),
                sitemap: url.ends_with("/2").then(|| SitemapFacts {
                    lastmod: "2026-01-02".into(),
                    ..Default::default()
                }),
                ..Default::default()
            },
            None => LedgerEntry {
                url: url.into(),
                state: UrlState::Refused.into(),
                code: "robots".into(),
                detail: "robots.txt forbids it".into(),
                ..Default::default()
            },
        }
    }

    /// A session for the spec; the same one for the same request.
    fn begin(&self, spec: SessionSpec) -> SessionStatus {
        let known = |status: &&SessionStatus| {
            let known = status.spec.as_ref();
            known.is_some_and(|known| known.request_id == spec.request_id)
        };
        if let Some(known) = self.sessions.lock().values().find(known) {
            return known.clone();
        }
        let state = if self.never_ends {
            SessionState::Running
        } else {
            SessionState::Completed
        };
        let status = SessionStatus {
            session_id: SessionId::random().to_string(),
            kind: spec.kind,
            state: state.into(),
            pages: self.pages.len() as u64,
            spec: Some(spec),
            ..Default::default()
        };
        self.sessions
            .lock()
            .insert(status.session_id.clone(), status.clone());
        status
    }

    fn known(&self, id: &str) -> Result<SessionStatus, Status> {
        let found = self.sessions.lock().get(id).cloned();
        found.ok_or_else(|| Refusal::new(ErrorCode::NotFound, "no such session").into())
    }

    /// A channel to this door over a pipe.
    pub(crate) fn channel(&self) -> Channel {
        let fake = self.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let fake = fake.clone();
            async move {
                let (ours, theirs) = tokio::io::duplex(1 << 20);
                let incoming = tokio_stream::once(Ok::<_, std::io::Error>(theirs));
                let server = Server::builder().add_service(
                    SessionsServer::new(fake).max_encoding_message_size(proto::MAX_MESSAGE_BYTES),
                );
                tokio::spawn(server.serve_with_incoming(incoming));
                Ok::<_, std::io::Error>(TokioIo::new(ours))
            }
        });
        Endpoint::from_static("http://fake.test").connect_with_connector_lazy(connector)
    }
}

#[tonic::async_trait]
impl Sessions for Fake {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<WatchReply, Status>> + Send>>;
    type BodyStream = Pin<Box<dyn Stream<Item = Result<BodyFrame, Status>> + Send>>;

    async fn start(&self, request: Request<StartRequest>) -> Answer<StartReply> {
        let status = self.begin(request.into_inner().spec.unwrap());
        Ok(Response::new(StartReply {
            status: Some(status),
        }))
    }

    async fn run(&self, request: Request<RunRequest>) -> Answer<RunReply> {
        let spec = request.into_inner().spec.unwrap();
        let url = spec.seeds[0].clone();
        let mut status = self.begin(spec);
        if self.never_ends {
            std::future::pending::<()>().await;
        }
        let mut chain = vec![self.entry(&url)];
        if self.answers_early {
            chain.clear();
            status.state = SessionState::Running.into();
        }
        Ok(Response::new(RunReply {
            status: Some(status),
            entry: Some(LookupEntry { url, chain }),
        }))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Answer<StatusReply> {
        let status = self.known(&request.into_inner().session_id)?;
        Ok(Response::new(StatusReply {
            status: Some(status),
        }))
    }

    async fn list(&self, _: Request<ListRequest>) -> Answer<ListReply> {
        let sessions = self.sessions.lock().values().cloned().collect();
        Ok(Response::new(ListReply {
            sessions,
            next_cursor: String::new(),
        }))
    }

    async fn control(&self, request: Request<ControlRequest>) -> Answer<ControlReply> {
        let request = request.into_inner();
        let mut status = self.known(&request.session_id)?;
        let (state, is_cancel) = match request.order() {
            control_request::Order::Cancel => (SessionState::Cancelled, true),
            control_request::Order::Pause => (SessionState::Paused, false),
            _ => (SessionState::Running, false),
        };
        status.state = state.into();
        self.sessions
            .lock()
            .insert(request.session_id.clone(), status.clone());
        if is_cancel {
            self.cancelled.lock().push(request.session_id);
        }
        Ok(Response::new(ControlReply {
            status: Some(status),
        }))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Answer<Self::WatchStream> {
        let fake = self.clone();
        let id = request.into_inner().session_id;
        let watcher = Watcher::new(&fake);
        let changes = futures::stream::unfold(0u64, move |step| {
            let (fake, id) = (fake.clone(), id.clone());
            let _ = &watcher;
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let mut status = fake.known(&id).ok()?;
                status.admitted = step + 10;
                let state = UrlState::Captured.into();
                status.counts = vec![StateCount { state, count: step }];
                Some((
                    Ok(WatchReply {
                        status: Some(status),
                    }),
                    step + 1,
                ))
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }

    async fn pages(&self, request: Request<PagesRequest>) -> Answer<PagesReply> {
        let request = request.into_inner();
        self.known(&request.session_id)?;
        let from: usize = request.cursor.parse().unwrap_or(0);
        let limit = if request.limit == 0 {
            100
        } else {
            request.limit as usize
        };
        let urls = self.pages.iter().skip(from).take(limit);
        let pages: Vec<_> = urls.filter_map(|(url, _)| self.page(url)).collect();
        let next = from + pages.len();
        let is_end = next >= self.pages.len();
        let next_cursor = if is_end {
            String::new()
        } else {
            next.to_string()
        };
        let is_final = !self.never_ends;
        let reply = PagesReply {
            pages,
            next_cursor,
            is_final,
            resume_cursor: next.to_string(),
        };
        Ok(Response::new(reply))
    }

    async fn ledger(&self, _: Request<LedgerRequest>) -> Answer<LedgerReply> {
        let entries = self.pages.iter().map(|(url, _)| self.entry(url)).collect();
        Ok(Response::new(LedgerReply {
            entries,
            next_cursor: String::new(),
        }))
    }

    async fn lookup(&self, request: Request<LookupRequest>) -> Answer<LookupReply> {
        let urls = request.into_inner().urls.into_iter();
        let entries = urls
            .map(|url| LookupEntry {
                chain: vec![self.entry(&url)],
                url,
            })
            .collect();
        Ok(Response::new(LookupReply { entries }))
    }

    async fn snapshot(&self, request: Request<SnapshotRequest>) -> Answer<SnapshotReply> {
        let hash = request.into_inner().url_hash;
        let is_it = |url: &str| proto::CrawlUrl::parse(url).unwrap().url_hash() == hash;
        let found = self.pages.iter().find(|(url, _)| is_it(url));
        let pages = found
            .and_then(|(url, _)| self.page(url))
            .into_iter()
            .collect();
        Ok(Response::new(SnapshotReply {
            pages,
            next_cursor: String::new(),
        }))
    }

    async fn body(&self, request: Request<BodyRequest>) -> Answer<Self::BodyStream> {
        let request = request.into_inner();
        let texts = self.pages.iter().map(|(_, text)| text);
        let text = texts
            .into_iter()
            .find(|text| digest(text) == request.digest)
            .ok_or_else(|| Status::from(Refusal::new(ErrorCode::NotFound, "no such body")))?;
        let from = usize::try_from(request.offset).unwrap();
        let to = text
            .len()
            .min(from.saturating_add(usize::try_from(request.length).unwrap()));
        let size = text.len() as u64;
        let frames: Vec<_> = text.as_bytes()[from..to]
            .chunks(256 * 1024)
            .map(|chunk| {
                let chunk = Bytes::copy_from_slice(chunk);
                Ok(BodyFrame { chunk, size })
            })
            .collect();
        Ok(Response::new(Box::pin(futures::stream::iter(frames))))
    }

    async fn host(&self, _: Request<HostRequest>) -> Answer<HostReply> {
        Err(Status::unimplemented("no tool asks for a host"))
    }

    async fn cluster(&self, _: Request<ClusterRequest>) -> Answer<ClusterReply> {
        Ok(Response::new(ClusterReply {
            version: "1.2.3".into(),
            ..Default::default()
        }))
    }
}
