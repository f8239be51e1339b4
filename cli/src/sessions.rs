//! The session door as the command uses it: every call has a deadline and is repeated while nobody answers.

use std::time::Duration;

use proto::v1::sessions_client::SessionsClient;
use proto::v1::{
    ControlRequest, HostReply, HostRequest, LedgerReply, LedgerRequest, ListReply, ListRequest,
    LookupEntry, LookupRequest, PagesReply, PagesRequest, RunReply, RunRequest, SessionSpec,
    SessionStatus, StartRequest, StatusRequest, WatchReply, WatchRequest, control_request::Order,
};
use proto::{ErrorCode, MAX_MESSAGE_BYTES, Refusal};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

/// How long a call is repeated while nobody answers it.
const REPEAT_WITHIN: Duration = Duration::from_secs(30);
const REPEAT_AFTER: Duration = Duration::from_millis(100);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A client of the coordinator; cheap to clone.
#[derive(Clone)]
pub(crate) struct Sessions {
    client: SessionsClient<Channel>,
}

impl Sessions {
    pub(crate) fn new(channel: Channel) -> Self {
        let client = SessionsClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Self { client }
    }

    pub(crate) async fn start(&self, spec: SessionSpec) -> Result<SessionStatus, Refusal> {
        let request = StartRequest { spec: Some(spec) };
        let reply = repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.start(request).await }
        })
        .await?;
        present(reply.status)
    }

    pub(crate) async fn run(&self, request: RunRequest) -> Result<RunReply, Refusal> {
        repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.run(request).await }
        })
        .await
    }

    pub(crate) async fn status(&self, id: &str) -> Result<SessionStatus, Refusal> {
        let request = StatusRequest {
            session_id: id.to_owned(),
            ..StatusRequest::default()
        };
        let reply = repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.status(request).await }
        })
        .await?;
        present(reply.status)
    }

    pub(crate) async fn list(&self, cursor: String) -> Result<ListReply, Refusal> {
        let request = ListRequest {
            cursor,
            limit: 100,
            ..ListRequest::default()
        };
        repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.list(request).await }
        })
        .await
    }

    pub(crate) async fn host(&self, url: &str) -> Result<HostReply, Refusal> {
        let request = HostRequest {
            url: url.to_owned(),
        };
        repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.host(request).await }
        })
        .await
    }

    pub(crate) async fn control(&self, id: &str, order: Order) -> Result<SessionStatus, Refusal> {
        let request = ControlRequest {
            session_id: id.to_owned(),
            owner: String::new(),
            order: order.into(),
        };
        let reply = repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.control(request).await }
        })
        .await?;
        present(reply.status)
    }

    pub(crate) async fn watch(&self, id: &str) -> Result<Streaming<WatchReply>, Refusal> {
        let request = WatchRequest {
            session_id: id.to_owned(),
            owner: String::new(),
        };
        repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.watch(request).await }
        })
        .await
    }

    pub(crate) async fn pages(&self, request: PagesRequest) -> Result<PagesReply, Refusal> {
        repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.pages(request).await }
        })
        .await
    }

    pub(crate) async fn ledger(&self, request: LedgerRequest) -> Result<LedgerReply, Refusal> {
        repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.ledger(request).await }
        })
        .await
    }

    pub(crate) async fn lookup(
        &self,
        id: &str,
        urls: Vec<String>,
    ) -> Result<Vec<LookupEntry>, Refusal> {
        let request = LookupRequest {
            session_id: id.to_owned(),
            urls,
            ..LookupRequest::default()
        };
        let reply = repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.lookup(request).await }
        })
        .await?;
        Ok(reply.entries)
    }

    /// A part that was too large to come inline, whole.
    pub(crate) async fn body(&self, id: &str, digest: &[u8]) -> Result<Vec<u8>, Refusal> {
        let request = proto::v1::BodyRequest {
            digest: digest.to_vec().into(),
            session_id: id.to_owned(),
            ..proto::v1::BodyRequest::default()
        };
        let mut frames = repeat(|| {
            let (mut client, request) = (self.client.clone(), request.clone());
            async move { client.body(request).await }
        })
        .await?;
        let mut whole = Vec::new();
        while let Some(frame) = frames.message().await? {
            whole.extend_from_slice(&frame.chunk);
        }
        Ok(whole)
    }
}

fn present(status: Option<SessionStatus>) -> Result<SessionStatus, Refusal> {
    status.ok_or_else(|| Refusal::new(ErrorCode::Internal, "the answer holds no status"))
}

async fn repeat<T, Call, Answer>(mut call: Call) -> Result<T, Refusal>
where
    Call: FnMut() -> Answer,
    Answer: Future<Output = Result<Response<T>, Status>>,
{
    let deadline = Instant::now() + REPEAT_WITHIN;
    loop {
        let answer = tokio::time::timeout(ANSWER_WITHIN, call()).await;
        let refusal = match answer {
            Ok(Ok(reply)) => return Ok(reply.into_inner()),
            Ok(Err(status)) => Refusal::from(status),
            Err(_) => {
                let message = format!("the coordinator did not answer within {ANSWER_WITHIN:?}");
                return Err(Refusal::new(ErrorCode::Timeout, message));
            }
        };
        let is_gone = refusal.code == ErrorCode::Unavailable;
        if !is_gone || Instant::now() >= deadline {
            return Err(refusal);
        }
        tokio::time::sleep(REPEAT_AFTER).await;
    }
}
