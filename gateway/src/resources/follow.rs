//! Notices of changes, for listeners of either era.

use std::collections::HashMap;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use parking_lot::Mutex;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::SubscriptionContext;
use rmcp::{ErrorData, Peer, RoleServer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::{not_found, refused};
use crate::error::Invalid;
use crate::metrics::OpenStream;
use crate::{Shared, wait};

const MOST_SUBSCRIPTIONS: usize = 64;
const UPDATED_EVERY: Duration = Duration::from_secs(1);

/// Waits for changes of one session; calls `tell` at most once a second; ends with the session.
async fn follow<W: Future<Output = bool>>(shared: &Shared, session: &str, tell: impl Fn() -> W) {
    let _open = OpenStream::count();
    loop {
        let Ok(mut changes) = shared.sessions.watch(session).await else {
            return;
        };
        while let Ok(Some(reply)) = changes.message().await {
            let is_over = reply.status.as_ref().is_some_and(wait::is_over);
            if !tell().await || is_over {
                return;
            }
            tokio::time::sleep(UPDATED_EVERY).await;
        }
        tokio::time::sleep(UPDATED_EVERY).await;
    }
}

/// `subscriptions/listen`: notices until the stream is closed.
pub(crate) async fn listen(shared: &Shared, context: SubscriptionContext) -> Result<(), ErrorData> {
    let uris = context
        .accepted()
        .resource_subscriptions
        .clone()
        .unwrap_or_default();
    if uris.len() > MOST_SUBSCRIPTIONS {
        let bound = format!("holds at most {MOST_SUBSCRIPTIONS} addresses");
        return Err(Invalid::new("resourceSubscriptions", bound, &json!(uris.len())).into());
    }
    let mut followed: FuturesUnordered<_> = uris
        .iter()
        .filter_map(|uri| Some((uri, Address::parse(uri)?.session()?.to_owned())))
        .map(|(uri, session)| {
            let sink = context.sink();
            async move {
                let tell = || async { sink.notify_resource_updated(uri.clone()).await.is_ok() };
                follow(shared, &session, tell).await;
            }
        })
        .collect();
    tokio::select! {
        () = context.cancelled() => {}
        () = shared.stop.cancelled() => {}
        () = async { while followed.next().await.is_some() {} std::future::pending::<()>().await } => {}
    }
    Ok(())
}

/// `resources/subscribe` of older clients: one task a subscription, ended with the connection.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, CancellationToken>>);

impl Subscriptions {
    pub(crate) async fn add(
        &self,
        shared: &std::sync::Arc<Shared>,
        uri: String,
        peer: Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let address = Address::parse(&uri).ok_or_else(|| not_found(&uri))?;
        let Some(session) = address.session().map(str::to_owned) else {
            return Ok(());
        };
        let known = shared.sessions.status(&session, Duration::ZERO).await;
        known.map_err(|refusal| refused(&uri, refusal))?;
        let stop = shared.stop.child_token();
        {
            let mut open = self.0.lock();
            if open.len() >= MOST_SUBSCRIPTIONS && !open.contains_key(&uri) {
                let bound = format!("at most {MOST_SUBSCRIPTIONS} subscriptions a connection");
                return Err(Invalid::new("uri", bound, &json!(uri)).into());
            }
            if let Some(earlier) = open.insert(uri.clone(), stop.clone()) {
                earlier.cancel();
            }
        }
        let shared = shared.clone();
        tokio::spawn(async move {
            let tell = || async {
                let note = ResourceUpdatedNotificationParam::new(uri.clone());
                peer.notify_resource_updated(note).await.is_ok()
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = follow(&shared, &session, tell) => {}
            }
        });
        Ok(())
    }

    pub(crate) fn remove(&self, uri: &str) {
        if let Some(stop) = self.0.lock().remove(uri) {
            stop.cancel();
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for stop in self.0.get_mut().values() {
            stop.cancel();
        }
    }
}
