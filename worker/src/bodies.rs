//! Bodies on their way to the coordinator's store, before the outcome that names them.

use std::time::Duration;

use bytes::Bytes;
use proto::v1::fleet_client::FleetClient;
use proto::v1::{PutBodiesFrame, PutHeader, put_bodies_frame::Frame};
use proto::{BODY_FRAME_BYTES, Digest};
use tokio_stream as stream;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Tries while the coordinator is away, and the pause between them.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(250);

/// Puts all bodies in one call; returns once they are kept.
pub(crate) async fn put(channel: &Channel, bodies: &[(Digest, Bytes)]) -> Result<(), Status> {
    if bodies.is_empty() {
        return Ok(());
    }
    let mut client = FleetClient::new(channel.clone());
    let mut tries = 0;
    loop {
        let answer = client.put_bodies(stream::iter(frames(bodies))).await;
        tries += 1;
        match answer {
            Ok(_) => return Ok(()),
            Err(status) if status.code() == Code::Unavailable && tries < TRIES => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(status) => return Err(status),
        }
    }
}

/// Each body as a header and frames; slices share the body's memory.
fn frames(bodies: &[(Digest, Bytes)]) -> Vec<PutBodiesFrame> {
    let mut frames = Vec::new();
    for (digest, body) in bodies {
        let header = PutHeader {
            digest: Bytes::copy_from_slice(digest.as_bytes()),
            size: body.len() as u64,
        };
        frames.push(PutBodiesFrame {
            frame: Some(Frame::Header(header)),
        });
        let mut at = 0;
        while at < body.len() {
            let end = (at + BODY_FRAME_BYTES).min(body.len());
            frames.push(PutBodiesFrame {
                frame: Some(Frame::Chunk(body.slice(at..end))),
            });
            at = end;
        }
    }
    frames
}
