//! The fleet door: one stream a worker, and the bodies it puts.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::Stream;
use proto::v1::{self, fact, order, put_bodies_frame};
use proto::{Clock, Digest, ErrorCode, Refusal};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::body_store::BodyStore;
use crate::fleet::{Fleet, ORDERS};
use crate::fleet_actor::FleetHandle;
use crate::ring::MAX_WEIGHT;
use crate::shard::actor::ShardMsg;
use crate::shards::Mailroom;

const HELLO_WITHIN: Duration = Duration::from_secs(10);
const MAX_BODY: u64 = 128 * 1024 * 1024;

/// The door.
#[derive(Clone)]
pub(crate) struct FleetDoor {
    pub(crate) clock: Clock,
    pub(crate) fleet: Fleet,
    pub(crate) members: FleetHandle,
    pub(crate) mailroom: Mailroom,
    pub(crate) bodies: Arc<BodyStore>,
    pub(crate) token: Option<String>,
    pub(crate) lease: Duration,
    pub(crate) heartbeat: Duration,
}

/// The shard that numbered a lease.
fn shard_of(lease_id: u64) -> u16 {
    u16::try_from(lease_id & 0xffff).unwrap_or(0)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl FleetDoor {
    fn check(&self, fact: Option<v1::Fact>) -> Result<v1::Hello, Refusal> {
        let Some(fact::Fact::Hello(hello)) = fact.and_then(|fact| fact.fact) else {
            return Err(Refusal::argument(
                "fact",
                "the first fact of a link must be `hello`",
            ));
        };
        if hello.worker_id.is_empty() || hello.worker_id.len() > 200 {
            return Err(Refusal::argument(
                "worker_id",
                "`worker_id` must have 1 to 200 bytes",
            ));
        }
        if hello.weight > MAX_WEIGHT {
            let why = format!(
                "`weight` is {}; at most {MAX_WEIGHT} is taken",
                hello.weight
            );
            return Err(Refusal::argument("weight", why));
        }
        if self
            .token
            .as_ref()
            .is_some_and(|token| *token != hello.token)
        {
            let why = "the token is not this coordinator's; give the worker the same token";
            return Err(Refusal::new(ErrorCode::Forbidden, why));
        }
        Ok(hello)
    }

    fn fact(&self, worker: &str, fact: fact::Fact) {
        match fact {
            fact::Fact::Hello(_) => tracing::debug!(worker, "a second hello is ignored"),
            fact::Fact::Outcome(outcome) => {
                let shard = shard_of(outcome.lease_id);
                let outcome = Box::new(outcome);
                let worker = worker.to_owned();
                self.mailroom
                    .tell(shard, ShardMsg::Outcome { worker, outcome });
            }
            fact::Fact::LeaseEnded(ended) => {
                let lease_id = ended.lease_id;
                let worker = worker.to_owned();
                self.mailroom.tell(
                    shard_of(lease_id),
                    ShardMsg::LeaseEnded { worker, lease_id },
                );
            }
            fact::Fact::Heartbeat(beat) => {
                for lease_id in beat.lease_ids {
                    let worker = worker.to_owned();
                    self.mailroom
                        .tell(shard_of(lease_id), ShardMsg::Heartbeat { worker, lease_id });
                }
            }
            fact::Fact::Draining(_) => {
                tracing::info!(worker, "a worker drains");
                self.members.drain(worker);
            }
        }
    }

    async fn read(&self, worker: &str, link: u64, mut facts: Streaming<v1::Fact>) {
        loop {
            match facts.message().await {
                Ok(Some(fact)) if self.fleet.is_current(worker, link) => {
                    if let Some(fact) = fact.fact {
                        self.fact(worker, fact);
                    }
                }
                Ok(Some(_)) => {
                    tracing::info!(worker, "an older link of a worker is closed");
                    return;
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::info!(worker, %error, "a worker's link broke");
                    return;
                }
            }
        }
    }

    async fn put(&self, frames: &mut Streaming<v1::PutBodiesFrame>) -> Result<u32, Status> {
        let mut kept = 0;
        let mut open: Option<(Digest, u64, BytesMut)> = None;
        while let Some(frame) = frames.message().await? {
            match frame.frame {
                Some(put_bodies_frame::Frame::Header(header)) => {
                    if header.size > MAX_BODY {
                        let why = format!(
                            "a body has {} bytes; at most {MAX_BODY} are kept",
                            header.size
                        );
                        return Err(Refusal::argument("size", why).into());
                    }
                    let digest = Digest::try_from(header.digest.as_ref())
                        .map_err(|error| Refusal::argument("digest", error))?;
                    kept += self.keep(open.take()).await?;
                    open = Some((digest, header.size, BytesMut::new()));
                }
                Some(put_bodies_frame::Frame::Chunk(chunk)) => {
                    let Some((_, size, body)) = open.as_mut() else {
                        return Err(
                            Refusal::argument("frame", "a chunk came before its header").into()
                        );
                    };
                    let sum = u64::try_from(body.len() + chunk.len()).unwrap_or(u64::MAX);
                    if sum > *size {
                        return Err(Refusal::argument(
                            "chunk",
                            "the body is longer than its header says",
                        )
                        .into());
                    }
                    body.extend_from_slice(&chunk);
                }
                None => {}
            }
        }
        kept += self.keep(open.take()).await?;
        Ok(kept)
    }

    async fn keep(&self, body: Option<(Digest, u64, BytesMut)>) -> Result<u32, Refusal> {
        let Some((digest, size, body)) = body else {
            return Ok(0);
        };
        if u64::try_from(body.len()).unwrap_or(u64::MAX) != size {
            return Err(Refusal::argument(
                "chunk",
                "the body is shorter than its header says",
            ));
        }
        let kept = self
            .bodies
            .put(digest, body.freeze(), self.clock.now())
            .await;
        kept.map_err(|error| Refusal::new(ErrorCode::StoreFailed, error))?;
        Ok(1)
    }
}

#[tonic::async_trait]
impl v1::fleet_server::Fleet for FleetDoor {
    type LinkStream = Pin<Box<dyn Stream<Item = Result<v1::Order, Status>> + Send>>;

    async fn link(
        &self,
        request: Request<Streaming<v1::Fact>>,
    ) -> Result<Response<Self::LinkStream>, Status> {
        let mut facts = request.into_inner();
        let first = tokio::time::timeout(HELLO_WITHIN, facts.message()).await;
        let late = || Refusal::new(ErrorCode::Timeout, "no `hello` came on the link in time");
        let hello = self.check(first.map_err(|_| late())??)?;
        let worker = hello.worker_id.clone();
        let (orders, stream) = mpsc::channel(ORDERS);
        let welcome = v1::Welcome {
            lease_millis: millis(self.lease),
            heartbeat_millis: millis(self.heartbeat),
        };
        let order = v1::Order {
            order: Some(order::Order::Welcome(welcome)),
        };
        if orders.try_send(Ok(order)).is_err() {
            return Err(Refusal::new(ErrorCode::Internal, "a new link takes no order").into());
        }
        tracing::info!(worker, slots = hello.slots, "a worker joined");
        let link = self.members.join(hello, orders).await?;
        let door = self.clone();
        tokio::spawn(async move {
            door.read(&worker, link, facts).await;
            door.members.leave(worker, link);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }

    async fn put_bodies(
        &self,
        request: Request<Streaming<v1::PutBodiesFrame>>,
    ) -> Result<Response<v1::PutBodiesReply>, Status> {
        let kept = self.put(&mut request.into_inner()).await?;
        Ok(Response::new(v1::PutBodiesReply { kept }))
    }
}
