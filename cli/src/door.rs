//! Which coordinator this process speaks to.
//!
//! With `--coordinator`, the cluster's. Without, the one of the data folder: ours if the folder is free, else that
//! of the process which owns it. When the owner ends, a process that had joined takes the folder over; its calls fail
//! once as unavailable and are repeated by whoever made them. All of this hides behind one channel that connects anew.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use proto::Clock;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint};

use crate::listen_file::Listening;
use crate::node::{Node, NodeError, Purpose, join};
use crate::rooms;
use crate::settings::Settings;

/// How long to wait for a folder that another process is taking up or giving up.
const SETTLE_WITHIN: Duration = Duration::from_secs(20);
/// How long to wait between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a process wants of the folder that it may come to own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// To have work done: a worker is started too, and sessions that were running go on.
    Work,
    /// To look or to give an order: nothing is fetched.
    Look,
}

/// A way to a coordinator.
pub(crate) struct Door {
    channel: Channel,
    local: Option<Arc<Local>>,
}

/// The coordinator of a data folder, whoever owns it at the moment.
struct Local {
    settings: Settings,
    data_dir: PathBuf,
    clock: Clock,
    purpose: Use,
    node: Mutex<Option<Node>>,
    is_watching: AtomicBool,
    stop: CancellationToken,
}

type Pipe = Either<DuplexStream, UnixStream>;

impl Door {
    /// Opens the door that the settings name; the coordinator answers, or is being connected to, when this returns.
    pub(crate) async fn open(
        settings: &Settings,
        clock: Clock,
        purpose: Use,
    ) -> Result<Self, String> {
        if let Some(url) = &settings.coordinator {
            return Ok(Self {
                channel: remote(url)?.connect_lazy(),
                local: None,
            });
        }
        let local = Arc::new(Local {
            settings: settings.clone(),
            data_dir: settings.data_dir_or_default(),
            clock,
            purpose,
            node: Mutex::new(None),
            is_watching: AtomicBool::new(false),
            stop: CancellationToken::new(),
        });
        drop(
            Arc::clone(&local)
                .connect()
                .await
                .map_err(|error| error.to_string())?,
        );
        let dialer = Arc::clone(&local);
        let connector = tower::service_fn(move |_| {
            let dialer = Arc::clone(&dialer);
            async move { dialer.connect().await.map(TokioIo::new) }
        });
        let channel =
            rooms::endpoint("http://folder.invalid").connect_with_connector_lazy(connector);
        Ok(Self {
            channel,
            local: Some(local),
        })
    }

    /// The channel; cheap to clone, connects anew by itself.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Whether the coordinator behind this door can work, as far as this process knows.
    pub(crate) fn readiness(&self) -> crate::ops::Ready {
        match &self.local {
            None => Arc::new(|| true),
            Some(local) => {
                let local = Arc::clone(local);
                Arc::new(move || match local.node.try_lock() {
                    Ok(node) => node.as_ref().is_none_or(Node::is_ready),
                    Err(_) => false,
                })
            }
        }
    }

    /// Announces the HTTP address of a process that owns its folder.
    pub(crate) async fn announce(&self, http: std::net::SocketAddr) -> io::Result<()> {
        let Some(local) = &self.local else {
            return Ok(());
        };
        if local.node.lock().await.is_none() {
            return Ok(());
        }
        let mut listening = Listening::read(&local.data_dir)?;
        listening.http = Some(http);
        listening.write(&local.data_dir)
    }

    /// Stops what this process owns; running sessions go on at the next start on the folder.
    pub(crate) async fn close(self) {
        let Some(local) = self.local else { return };
        local.stop.cancel();
        let node = local.node.lock().await.take();
        if let Some(node) = node {
            node.stop().await;
        }
    }
}

/// The endpoint of a cluster's coordinator.
pub(crate) fn remote(url: &str) -> Result<Endpoint, String> {
    let malformed =
        || format!("--coordinator `{url}` is no address; write for example http://127.0.0.1:7070");
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(malformed());
    }
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|_| malformed())?;
    Ok(rooms::tuned(endpoint))
}

impl Local {
    async fn connect(self: Arc<Self>) -> io::Result<Pipe> {
        let deadline = Instant::now() + SETTLE_WITHIN;
        loop {
            let last = match self.attempt().await {
                Ok(pipe) => return Ok(pipe),
                Err(error) if error.kind() == io::ErrorKind::Other => return Err(error),
                Err(error) => error,
            };
            if Instant::now() >= deadline || self.stop.is_cancelled() {
                let path = self.data_dir.display();
                return Err(io::Error::other(format!(
                    "the data folder `{path}` is owned by another process that cannot be joined: {last}"
                )));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// One try: our own node, else to own the folder, else to join its owner.
    async fn attempt(self: &Arc<Self>) -> io::Result<Pipe> {
        let mut node = self.node.lock().await;
        if self.stop.is_cancelled() {
            return Err(io::Error::other("this process is stopping"));
        }
        if node.is_none() {
            match Node::start(&self.settings, self.clock, self.purpose).await {
                Ok(started) => *node = Some(started),
                Err(NodeError::Owned) => {}
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
        if let Some(node) = node.as_ref() {
            return node.connect().await.map(Either::Left);
        }
        drop(node);
        let owner = Listening::read(&self.data_dir)?;
        if let Some(difference) = contradiction(&owner, &self.settings.said()) {
            return Err(io::Error::other(difference));
        }
        let stream = join(&self.data_dir, &owner, Purpose::Call).await?;
        self.watch(owner);
        Ok(Either::Right(stream))
    }

    /// Takes the folder over as soon as its owner ends.
    fn watch(self: &Arc<Self>, owner: Listening) {
        if self.is_watching.swap(true, Ordering::AcqRel) {
            return;
        }
        let local = Arc::clone(self);
        tokio::spawn(async move {
            if let Ok(mut stream) = join(&local.data_dir, &owner, Purpose::Watch).await {
                let mut nothing = [0; 1];
                tokio::select! {
                    () = local.stop.cancelled() => return,
                    _ = stream.read(&mut nothing) => {}
                }
            }
            local.is_watching.store(false, Ordering::Release);
            tracing::info!(pid = owner.pid, "the owner of the data folder has ended");
            if let Err(error) = Arc::clone(&local).connect().await {
                tracing::warn!(%error, "cannot take the data folder over");
            }
        });
    }
}

/// The first setting said here that the owner runs differently.
fn contradiction(owner: &Listening, said: &BTreeMap<String, String>) -> Option<String> {
    said.iter().find_map(|(key, wanted)| {
        let found = owner.settings.get(key)?;
        (found != wanted).then(|| {
            format!(
                "the process {} that owns this data folder runs with {key} = {found}, asked here: {wanted}; \
                 leave that setting out, stop that process, or choose another --data-dir",
                owner.pid
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::contradiction;
    use crate::listen_file::Listening;

    #[test]
    fn the_owner_s_settings_win_and_a_difference_is_named() {
        let mut owner = Listening::of("node");
        owner.settings.insert("min_interval".into(), "1s".into());
        let same = BTreeMap::from([("min_interval".to_owned(), "1s".to_owned())]);
        assert_eq!(contradiction(&owner, &same), None);
        let other = BTreeMap::from([("min_interval".to_owned(), "0".to_owned())]);
        let error = contradiction(&owner, &other).unwrap();
        assert!(
            error.contains("min_interval = 1s, asked here: 0"),
            "{error}"
        );
    }
}
