//! A thin door to the coordinator: owner filled in, deadlines kept, short outages ridden out.
//!
//! Every call is safe to repeat (a start carries its request id), so `Unavailable` is retried for a bounded time.

use std::future::Future;
use std::time::Duration;

use proto::v1::sessions_client::SessionsClient;
use proto::v1::{self, PartKind};
use proto::{ErrorCode, MAX_MESSAGE_BYTES, Refusal};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

/// What a call may take beside its own wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long an absent coordinator is waited for.
const RETRY_WITHIN: Duration = Duration::from_secs(8);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

type Client = SessionsClient<Channel>;

#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    client: Client,
    owner: String,
}

impl Sessions {
    pub(crate) fn new(channel: Channel, owner: String) -> Self {
        let client = SessionsClient::new(channel)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Self { client, owner }
    }

    async fn call<T, F, W>(&self, wait: Duration, call: F) -> Result<T, Refusal>
    where
        F: Fn(Client) -> W,
        W: Future<Output = Result<Response<T>, Status>>,
    {
        let begun = Instant::now();
        let deadline = begun + wait + ANSWER_WITHIN;
        let mut pause = FIRST_PAUSE;
        loop {
            let refusal = match timeout_at(deadline, call(self.client.clone())).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => Refusal::from(status),
                Err(_) => {
                    let what = "the coordinator did not answer in time; try again later";
                    return Err(Refusal::new(ErrorCode::Timeout, what));
                }
            };
            if refusal.code != ErrorCode::Unavailable || begun.elapsed() + pause > RETRY_WITHIN {
                return Err(refusal);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    pub(crate) async fn start(&self, spec: v1::SessionSpec) -> Result<v1::SessionStatus, Refusal> {
        let spec = Some(v1::SessionSpec {
            owner: self.owner.clone(),
            ..spec
        });
        let request = v1::StartRequest { spec };
        let reply = self.call(Duration::ZERO, |mut client| {
            let request = request.clone();
            async move { client.start(request).await }
        });
        reply.await?.status.ok_or_else(|| missing("status"))
    }

    pub(crate) async fn run(
        &self,
        spec: v1::SessionSpec,
        wait: Duration,
        inline_bytes: u64,
    ) -> Result<v1::RunReply, Refusal> {
        let spec = Some(v1::SessionSpec {
            owner: self.owner.clone(),
            ..spec
        });
        let request = v1::RunRequest {
            spec,
            wait_millis: millis(wait),
            inline_bytes,
        };
        let reply = self.call(wait, |mut client| {
            let request = request.clone();
            async move { client.run(request).await }
        });
        reply.await
    }

    pub(crate) async fn status(
        &self,
        session_id: &str,
        wait: Duration,
    ) -> Result<v1::SessionStatus, Refusal> {
        let request = v1::StatusRequest {
            session_id: session_id.to_owned(),
            owner: self.owner.clone(),
            wait_millis: millis(wait),
        };
        let reply = self.call(wait, |mut client| {
            let request = request.clone();
            async move { client.status(request).await }
        });
        reply.await?.status.ok_or_else(|| missing("status"))
    }

    pub(crate) async fn list(&self, cursor: &str, limit: u32) -> Result<v1::ListReply, Refusal> {
        let request = v1::ListRequest {
            owner: self.owner.clone(),
            cursor: cursor.to_owned(),
            limit,
            ..Default::default()
        };
        let reply = self.call(Duration::ZERO, |mut client| {
            let request = request.clone();
            async move { client.list(request).await }
        });
        reply.await
    }

    pub(crate) async fn control(
        &self,
        session_id: &str,
        order: v1::control_request::Order,
    ) -> Result<v1::SessionStatus, Refusal> {
        let request = v1::ControlRequest {
            session_id: session_id.to_owned(),
            owner: self.owner.clone(),
            order: order.into(),
        };
        let reply = self.call(Duration::ZERO, |mut client| {
            let request = request.clone();
            async move { client.control(request).await }
        });
        reply.await?.status.ok_or_else(|| missing("status"))
    }

    pub(crate) async fn watch(
        &self,
        session_id: &str,
    ) -> Result<Streaming<v1::WatchReply>, Refusal> {
        let request = v1::WatchRequest {
            session_id: session_id.to_owned(),
            owner: self.owner.clone(),
        };
        let reply = self.call(Duration::ZERO, |mut client| {
            let request = request.clone();
            async move { client.watch(request).await }
        });
        reply.await
    }

    pub(crate) async fn pages(&self, request: v1::PagesRequest) -> Result<v1::PagesReply, Refusal> {
        let request = v1::PagesRequest {
            owner: self.owner.clone(),
            ..request
        };
        let reply = self.call(Duration::ZERO, |mut client| {
            let request = request.clone();
            async move { client.pages(request).await }
        });
        reply.await
    }

    pub(crate) async fn ledger(
        &self,
        session_id: &str,
        cursor: &str,
    ) -> Result<v1::LedgerReply, Refusal> {
        let request = v1::LedgerRequest {
            session_id: session_id.to_owned(),
            owner: self.owner.clone(),
            cursor: cursor.to_owned(),
            limit: 1_000,
            states: Vec::new(),
        };
        let reply = self.call(Duration::ZERO, |mut client| {
            let request = request.clone();
            async move { client.ledger(request).await }
        });
        reply.await
    }

    pub(crate) async fn lookup(
        &self,
        session_id: &str,
        urls: &[String],
        inline_bytes: u64,
        kinds: &[PartKind],
    ) -> Result<Vec<v1::LookupEntry>, Refusal> {
        let request = v1::LookupRequest {
            session_id: session_id.to_owned(),
            owner: self.owner.clone(),
            urls: urls.to_vec(),
            inline_bytes,
            inline_kinds: kinds.iter().map(|kind| i32::from(*kind)).collect(),
        };
        let reply = self.call(Duration::ZERO, |mut client| {
            let request = request.clone();
            async move { client.lookup(request).await }
        });
        Ok(reply.await?.entries)
    }

    pub(crate) async fn snapshot(
        &self,
        url_hash: &str,
        timestamp: &str,
    ) -> Result<v1::SnapshotReply, Refusal> {
        let request = v1::SnapshotRequest {
            url_hash: url_hash.to_owned(),
            timestamp: timestamp.to_owned(),
            owner: self.owner.clone(),
            ..Default::default()
        };
        let reply = self.call(Duration::ZERO, |mut client| {
            let request = request.clone();
            async move { client.snapshot(request).await }
        });
        reply.await
    }

    /// Reads `length` bytes of a part from `offset` on; fewer where it ends before.
    pub(crate) async fn body(
        &self,
        session_id: &str,
        digest: bytes::Bytes,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, Refusal> {
        let request = v1::BodyRequest {
            digest,
            owner: self.owner.clone(),
            session_id: session_id.to_owned(),
            offset,
            length,
        };
        let deadline = Instant::now() + ANSWER_WITHIN;
        let mut frames = self
            .call(Duration::ZERO, |mut client| {
                let request = request.clone();
                async move { client.body(request).await }
            })
            .await?;
        let mut bytes = Vec::new();
        loop {
            let frame = timeout_at(deadline, frames.message())
                .await
                .map_err(|_| Refusal::new(ErrorCode::Timeout, "the body did not come in time"))??;
            let Some(frame) = frame else { return Ok(bytes) };
            bytes.extend_from_slice(&frame.chunk);
        }
    }

    pub(crate) async fn cluster(&self) -> Result<v1::ClusterReply, Refusal> {
        let reply = self.call(Duration::ZERO, |mut client| async move {
            client.cluster(v1::ClusterRequest {}).await
        });
        reply.await
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn missing(field: &str) -> Refusal {
    Refusal::new(
        ErrorCode::Internal,
        format!("the coordinator's reply carries no `{field}`"),
    )
}
