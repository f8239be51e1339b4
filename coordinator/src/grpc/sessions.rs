//! The session door.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use proto::v1::{self, SessionKind, SessionState, UrlState};
use proto::{BODY_FRAME_BYTES, Clock, Digest, ErrorCode, Refusal, SessionId, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::requests::Requests;
use super::spec::{checked, has_ended, with_earlier};
use crate::body_store::BodyStore;
use crate::catalog::Catalog;
use crate::desk::{DeskHandle, StatusReceiver};
use crate::fleet::Fleet;
use crate::gate::{Directory, Phase, SessionShared};

const KEEP_WITHIN: Duration = Duration::from_secs(10);
const CONTROL_WITHIN: Duration = Duration::from_secs(3);
const MAX_WAIT: Duration = Duration::from_secs(300);
const WATCH_EVERY: Duration = Duration::from_millis(100);

/// Bytes of a body in one frame.
const FRAME: u64 = BODY_FRAME_BYTES as u64;

/// The door.
#[derive(Clone)]
pub(crate) struct SessionDoor {
    pub(crate) clock: Clock,
    pub(crate) catalog: Catalog,
    pub(crate) directory: Directory,
    pub(crate) desk: DeskHandle,
    pub(crate) fleet: Fleet,
    pub(crate) allow_ignore_robots: bool,
    pub(crate) max_running: usize,
    pub(crate) requests: Requests,
    pub(crate) started: Timestamp,
}

type Frames<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn parse(session: &str) -> Result<SessionId, Refusal> {
    session
        .parse()
        .map_err(|error| Refusal::argument("session_id", error))
}

impl SessionDoor {
    async fn start(
        &self,
        spec: Option<v1::SessionSpec>,
    ) -> Result<(SessionId, StatusReceiver), Refusal> {
        let spec = spec.ok_or_else(|| Refusal::argument("spec", "`spec` is missing"))?;
        let spec = with_earlier(spec, &self.catalog)?;
        let (spec, scope) = checked(spec, self.allow_ignore_robots)?;
        let mut turn = None;
        if !spec.request_id.is_empty() {
            let mine = self.requests.turn(&spec.owner, &spec.request_id);
            let late = |_| {
                Refusal::new(
                    ErrorCode::Timeout,
                    "this request_id is being started; try again",
                )
            };
            turn = Some(
                tokio::time::timeout(KEEP_WITHIN, mine)
                    .await
                    .map_err(late)?,
            );
        }
        if turn.is_some()
            && let Some(id) = self.catalog.by_request(&spec.owner, &spec.request_id)?
        {
            let status = self.catalog.record(&id, &spec.owner)?;
            return Ok((id.clone(), self.receiver(&id, status)));
        }
        if self.desk.running() >= self.max_running {
            let why = format!(
                "{} sessions run already; wait for one to end",
                self.max_running
            );
            return Err(Refusal::new(ErrorCode::Busy, why));
        }
        let id = SessionId::random();
        let now = self.clock.now();
        let status = first_status(&id, &spec, now);
        let is_scrape = spec.kind() == SessionKind::Scrape;
        let shared = SessionShared::new(
            id.clone(),
            spec,
            scope,
            Phase::Running,
            &BTreeMap::new(),
            now,
        );
        let shared = Arc::new(shared);
        self.directory.insert(shared.clone());
        let (done, kept) = oneshot::channel();
        self.desk.begin(shared, status.clone());
        let desk = self.desk.clone();
        let session = id.clone();
        let when_kept = move |result: Result<(), Refusal>| {
            if result.is_err() {
                desk.abandon(session);
            }
            // The next start with this request id finds the record now.
            drop(turn);
            if done.send(result).is_err() {
                tracing::trace!("nobody waits for the record");
            }
        };
        self.catalog.keep(&id, &status, Box::new(when_kept));
        if is_scrape {
            // Its record reaches the system before its page does: both pass the same committer in this order.
            self.desk.seed(id.clone());
        } else {
            let late = || {
                Refusal::new(
                    ErrorCode::Timeout,
                    "the store is slow; try again with the same request_id",
                )
            };
            let kept = tokio::time::timeout(KEEP_WITHIN, kept)
                .await
                .map_err(|_| late())?;
            kept.map_err(|_| late())??;
            self.desk.seed(id.clone());
        }
        let receiver = self.receiver(&id, status);
        Ok((id, receiver))
    }

    fn receiver(&self, id: &SessionId, stored: v1::SessionStatus) -> StatusReceiver {
        self.desk
            .status(id)
            .unwrap_or_else(|| tokio::sync::watch::channel(Arc::new(stored)).1)
    }

    /// A session of the owner: its id, and its status as it changes.
    fn session(&self, session: &str, owner: &str) -> Result<(SessionId, StatusReceiver), Refusal> {
        let id = parse(session)?;
        if let Some(receiver) = self.desk.status(&id) {
            let is_owner = receiver
                .borrow()
                .spec
                .as_ref()
                .is_some_and(|spec| spec.owner == owner);
            if is_owner {
                return Ok((id, receiver));
            }
        }
        let stored = self.catalog.record(&id, owner)?;
        let receiver = self.receiver(&id, stored);
        Ok((id, receiver))
    }

    async fn until(
        receiver: &mut StatusReceiver,
        wait: Duration,
        is_there: impl Fn(&v1::SessionStatus) -> bool,
    ) -> v1::SessionStatus {
        let arrived = receiver.wait_for(|status| is_there(status));
        if tokio::time::timeout(wait, arrived).await.is_err() {
            tracing::trace!("the wait is over before the session");
        }
        receiver.borrow().as_ref().clone()
    }
}

/// One piece of a body.
async fn frame(
    bodies: &BodyStore,
    digest: &Digest,
    offset: u64,
    length: u64,
) -> Result<bytes::Bytes, Status> {
    let found = bodies.read(digest, offset, length).await;
    let found = found.map_err(|error| Refusal::new(ErrorCode::StoreFailed, error))?;
    let gone = || {
        Refusal::new(
            ErrorCode::NotFound,
            "the body is gone; its session has expired",
        )
    };
    let chunk = found.ok_or_else(gone)?;
    if u64::try_from(chunk.len()).ok() == Some(length) {
        Ok(chunk)
    } else {
        Err(Refusal::new(ErrorCode::StoreFailed, "the body is shorter than it was").into())
    }
}

fn first_status(id: &SessionId, spec: &v1::SessionSpec, now: Timestamp) -> v1::SessionStatus {
    let mut status = v1::SessionStatus {
        session_id: id.to_string(),
        kind: spec.kind,
        started_at_millis: now.as_millis(),
        updated_at_millis: now.as_millis(),
        spec: Some(spec.clone()),
        ..v1::SessionStatus::default()
    };
    status.set_state(SessionState::Running);
    status
}

fn wait(millis: u64) -> Duration {
    Duration::from_millis(millis).min(MAX_WAIT)
}

#[tonic::async_trait]
impl v1::sessions_server::Sessions for SessionDoor {
    async fn start(
        &self,
        request: Request<v1::StartRequest>,
    ) -> Result<Response<v1::StartReply>, Status> {
        let (_, receiver) = self.start(request.into_inner().spec).await?;
        let status = Some(receiver.borrow().as_ref().clone());
        Ok(Response::new(v1::StartReply { status }))
    }

    async fn run(
        &self,
        request: Request<v1::RunRequest>,
    ) -> Result<Response<v1::RunReply>, Status> {
        let given = request.into_inner();
        let (id, mut receiver) = self.start(given.spec).await?;
        let status = Self::until(&mut receiver, wait(given.wait_millis), has_ended).await;
        let seed = status
            .spec
            .as_ref()
            .and_then(|spec| spec.seeds.first().cloned());
        let seeds: Vec<String> = seed.into_iter().collect();
        let found = self
            .catalog
            .lookup(&id, &seeds, given.inline_bytes, &[])
            .await?;
        let entry = found.into_iter().next();
        Ok(Response::new(v1::RunReply {
            status: Some(status),
            entry,
        }))
    }

    async fn status(
        &self,
        request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusReply>, Status> {
        let given = request.into_inner();
        let (_, mut receiver) = self.session(&given.session_id, &given.owner)?;
        let status = Self::until(&mut receiver, wait(given.wait_millis), has_ended).await;
        Ok(Response::new(v1::StatusReply {
            status: Some(status),
        }))
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListReply>, Status> {
        let mut reply = self.catalog.list(&request.into_inner())?;
        for status in &mut reply.sessions {
            let running = parse(&status.session_id)
                .ok()
                .and_then(|id| self.desk.status(&id));
            if let Some(running) = running {
                *status = running.borrow().as_ref().clone();
            }
        }
        Ok(Response::new(reply))
    }

    async fn control(
        &self,
        request: Request<v1::ControlRequest>,
    ) -> Result<Response<v1::ControlReply>, Status> {
        let given = request.into_inner();
        let order = given.order();
        let (id, mut receiver) = self.session(&given.session_id, &given.owner)?;
        if has_ended(&receiver.borrow()) {
            let why = format!("session `{id}` has ended; start a new one");
            return Err(Refusal::new(ErrorCode::WrongState, why).into());
        }
        self.desk.control(id, order).await?;
        let is_quiet = |status: &v1::SessionStatus| {
            let leased =
                |count: &v1::StateCount| count.state() == UrlState::Leased && count.count > 0;
            has_ended(status)
                || (order == v1::control_request::Order::Pause
                    && status.state() == SessionState::Paused
                    && !status.counts.iter().any(leased))
                || order == v1::control_request::Order::Resume
        };
        let status = Self::until(&mut receiver, CONTROL_WITHIN, is_quiet).await;
        Ok(Response::new(v1::ControlReply {
            status: Some(status),
        }))
    }

    type WatchStream = Frames<v1::WatchReply>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let given = request.into_inner();
        let (_, mut receiver) = self.session(&given.session_id, &given.owner)?;
        let (frames, stream) = mpsc::channel(4);
        tokio::spawn(async move {
            loop {
                let status = receiver.borrow_and_update().as_ref().clone();
                let is_last = has_ended(&status);
                let frame = v1::WatchReply {
                    status: Some(status),
                };
                if frames.send(Ok(frame)).await.is_err() || is_last {
                    return;
                }
                tokio::time::sleep(WATCH_EVERY).await;
                // Nobody tells any more: the end is sent if it came, and nothing twice.
                if receiver.changed().await.is_err() && !has_ended(&receiver.borrow()) {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn pages(
        &self,
        request: Request<v1::PagesRequest>,
    ) -> Result<Response<v1::PagesReply>, Status> {
        let given = request.into_inner();
        let (id, receiver) = self.session(&given.session_id, &given.owner)?;
        // Asked before the rows are read: what ends meanwhile is final at the next call.
        let is_over = has_ended(&receiver.borrow());
        let mut reply = self.catalog.pages(&id, &given).await?;
        reply.is_final = is_over && reply.next_cursor.is_empty();
        Ok(Response::new(reply))
    }

    async fn ledger(
        &self,
        request: Request<v1::LedgerRequest>,
    ) -> Result<Response<v1::LedgerReply>, Status> {
        let given = request.into_inner();
        let (id, _) = self.session(&given.session_id, &given.owner)?;
        Ok(Response::new(self.catalog.ledger(&id, &given)?))
    }

    async fn lookup(
        &self,
        request: Request<v1::LookupRequest>,
    ) -> Result<Response<v1::LookupReply>, Status> {
        let given = request.into_inner();
        let (id, _) = self.session(&given.session_id, &given.owner)?;
        if given.urls.len() > 1000 {
            return Err(
                Refusal::argument("urls", "at most 1000 URLs are looked up at once").into(),
            );
        }
        let found = self
            .catalog
            .lookup(&id, &given.urls, given.inline_bytes, &given.inline_kinds);
        Ok(Response::new(v1::LookupReply {
            entries: found.await?,
        }))
    }

    async fn snapshot(
        &self,
        request: Request<v1::SnapshotRequest>,
    ) -> Result<Response<v1::SnapshotReply>, Status> {
        Ok(Response::new(
            self.catalog.snapshots(&request.into_inner()).await?,
        ))
    }

    type BodyStream = Frames<v1::BodyFrame>;

    async fn body(
        &self,
        request: Request<v1::BodyRequest>,
    ) -> Result<Response<Self::BodyStream>, Status> {
        let given = request.into_inner();
        let (id, _) = self.session(&given.session_id, &given.owner)?;
        let (digest, size) = self.catalog.body_of(&id, &given.digest).await?;
        let start = given.offset.min(size);
        let end = match given.length {
            0 => size,
            length => start.saturating_add(length).min(size),
        };
        let bodies = self.catalog.bodies.clone();
        // The reader pulls: a frame is read from the store when the one before is on its way.
        let frames = futures::stream::unfold(Some(start), move |at| {
            let bodies = bodies.clone();
            async move {
                let at = at?;
                let length = FRAME.min(end - at);
                let frame = frame(&bodies, &digest, at, length)
                    .await
                    .map(|chunk| v1::BodyFrame {
                        chunk,
                        size: if at == start { size } else { 0 },
                    });
                let next = (frame.is_ok() && at + length < end).then_some(at + length);
                Some((frame, next))
            }
        });
        Ok(Response::new(Box::pin(frames)))
    }

    async fn host(
        &self,
        request: Request<v1::HostRequest>,
    ) -> Result<Response<v1::HostReply>, Status> {
        let url = request.into_inner().url;
        Ok(Response::new(self.catalog.host(&url, self.clock.now())?))
    }

    async fn cluster(
        &self,
        _: Request<v1::ClusterRequest>,
    ) -> Result<Response<v1::ClusterReply>, Status> {
        Ok(Response::new(v1::ClusterReply {
            version: proto::VERSION.to_owned(),
            workers: self.fleet.list(),
            shards: u32::from(self.catalog.shards),
            running_sessions: u64::try_from(self.desk.running()).unwrap_or(u64::MAX),
            started_at_millis: self.started.as_millis(),
        }))
    }
}
