//! The link itself: made, kept and made anew. Orders go to the uplink, facts come from it.

use std::sync::Arc;
use std::time::Duration;

use proto::v1::fleet_client::FleetClient;
use proto::v1::{self, fact::Fact};
use proto::{ErrorCode, MAX_MESSAGE_BYTES, Refusal};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::Channel;

use crate::config::Config;
use crate::metrics;
use crate::uplink_actor::{UplinkHandle, UplinkMsg};

/// Pauses between tries to link.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Keeps a link until `stop`.
pub(crate) async fn keep(
    config: Arc<Config>,
    channel: Channel,
    uplink: UplinkHandle,
    stop: CancellationToken,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let ended = tokio::select! {
            () = stop.cancelled() => return,
            ended = link(&config, &channel, &uplink) => ended,
        };
        uplink.tell(UplinkMsg::Cut);
        match ended {
            Ok(()) => {
                pause = FIRST_PAUSE;
                tracing::info!("the coordinator ended the link");
            }
            Err(status) => {
                let refusal = Refusal::from(status);
                let level = refusal.code == ErrorCode::Forbidden;
                if level {
                    tracing::error!(error = %refusal, "the coordinator refuses this worker");
                } else {
                    tracing::info!(error = %refusal, "no link to the coordinator; trying again");
                }
            }
        }
        ::metrics::counter!(metrics::RECONNECTS).increment(1);
        let jitter = 0.5 + rand::random::<f64>() / 2.0;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause.mul_f64(jitter)) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// One link, from hello to its end.
async fn link(config: &Config, channel: &Channel, uplink: &UplinkHandle) -> Result<(), Status> {
    let mut client = FleetClient::new(channel.clone())
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    // Not bounded here: each report holds a place in the worker's window until it is kept.
    let (sender, facts) = mpsc::unbounded_channel();
    let hello = v1::Hello {
        worker_id: config.worker_id.clone(),
        version: proto::VERSION.to_owned(),
        slots: config.slots,
        weight: config.weight,
        abilities: vec!["http".to_owned()],
        token: config.token.clone().unwrap_or_default(),
    };
    let first = v1::Fact {
        fact: Some(Fact::Hello(hello)),
    };
    if sender.send(first).is_err() {
        return Ok(());
    }
    let mut orders = client
        .link(UnboundedReceiverStream::new(facts))
        .await?
        .into_inner();
    uplink.tell(UplinkMsg::Linked(sender));
    while let Some(order) = orders.next().await {
        if let Some(order) = order?.order {
            uplink.tell(UplinkMsg::Order(Box::new(order)));
        }
    }
    Ok(())
}
