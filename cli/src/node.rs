//! Coordinator and worker in this process, on a data folder that this process owns.
//!
//! They speak the same gRPC as in a cluster, over pipes in memory. Other processes of the same user join over a
//! Unix socket of mode 0600; each connection opens with the folder's token and one letter that says what for.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coordinator::Coordinator;
use proto::Clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tonic::transport::Channel;

use worker::Worker;

use crate::door::Use;
use crate::listen_file::{Listening, write_private};
use crate::rooms;
use crate::settings::Settings;

/// Bytes that one direction of a pipe holds.
const PIPE_BYTES: usize = 256 * 1024;
/// Connections that wait to be taken up.
const WAITING: usize = 64;
/// How long a joining process may take to show its token.
const TOKEN_WITHIN: Duration = Duration::from_secs(2);
/// How long the worker may take to hand back its work at the end.
const DRAIN_WITHIN: Duration = Duration::from_secs(3);
/// Longest path that a Unix socket address can hold, with a margin.
const SOCKET_PATH_BYTES: usize = 100;

const LOCK: &str = "lock";
const TOKEN: &str = "token";
const SOCKET: &str = "coordinator.sock";

/// What a joining connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// gRPC.
    Call,
    /// Stays open as long as the owner lives.
    Watch,
}

impl Purpose {
    const fn letter(self) -> u8 {
        match self {
            Self::Call => b'c',
            Self::Watch => b'w',
        }
    }
}

/// Why this process cannot own the folder.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    /// Another process owns it.
    #[error("another process owns the folder")]
    Owned,
    /// The folder cannot be used.
    #[error("cannot use the data folder `{path}`: {why}", path = path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
    /// A room did not start.
    #[error("{0}")]
    Start(String),
}

/// Coordinator and worker of this process.
pub(crate) struct Node {
    data_dir: PathBuf,
    coordinator: Coordinator,
    worker: Option<Worker>,
    dial: mpsc::Sender<DuplexStream>,
    stop: CancellationToken,
    tasks: TaskTracker,
    socket: PathBuf,
    _lock: File,
}

impl Node {
    /// Takes the folder and starts both rooms on it.
    pub(crate) async fn start(
        settings: &Settings,
        clock: Clock,
        purpose: Use,
    ) -> Result<Self, NodeError> {
        let data_dir = settings.data_dir_or_default();
        let folder = |why| NodeError::Folder {
            path: data_dir.clone(),
            why,
        };
        fs::create_dir_all(&data_dir).map_err(folder)?;
        fs::set_permissions(&data_dir, fs::Permissions::from_mode(0o700)).map_err(folder)?;
        let lock = File::create(data_dir.join(LOCK)).map_err(folder)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(NodeError::Owned),
            Err(TryLockError::Error(why)) => return Err(folder(why)),
        }
        let started = |error: &dyn std::error::Error| NodeError::Start(chain(error));
        let coordinator = Coordinator::start(rooms::coordinator(settings), clock)
            .await
            .map_err(|error| started(&error))?;

        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let (dial, pipes) = mpsc::channel(WAITING);
        let routes = coordinator.routes();
        tasks.spawn(serve_pipes(routes.clone(), pipes, stop.clone()));

        let token = new_token();
        write_private(&data_dir.join(TOKEN), token.as_bytes()).map_err(folder)?;
        let socket = socket_path(&data_dir);
        let listener = listen(&socket).map_err(folder)?;
        let (joined, joining) = mpsc::channel(WAITING);
        tasks.spawn(accept(listener, token, joined, stop.clone(), tasks.clone()));
        tasks.spawn(serve_sockets(routes, joining, stop.clone()));

        let mut node = Self {
            data_dir: data_dir.clone(),
            coordinator,
            worker: None,
            dial,
            stop,
            tasks,
            socket: socket.clone(),
            _lock: lock,
        };
        if purpose == Use::Work {
            let config = rooms::worker(settings).map_err(NodeError::Start)?;
            let worker = Worker::start(config, node.channel(), clock)
                .await
                .map_err(|error| started(&error))?;
            node.worker = Some(worker);
        }
        let mut listening = Listening::of("node");
        listening.socket = Some(socket);
        listening.settings = settings.effective();
        listening.write(&data_dir).map_err(folder)?;
        Ok(node)
    }

    /// A new pipe to the coordinator.
    pub(crate) async fn connect(&self) -> io::Result<DuplexStream> {
        dial(&self.dial).await
    }

    fn channel(&self) -> Channel {
        let dialer = self.dial.clone();
        rooms::endpoint("http://node.invalid").connect_with_connector_lazy(tower::service_fn(
            move |_| {
                let dialer = dialer.clone();
                async move { dial(&dialer).await.map(hyper_util::rt::TokioIo::new) }
            },
        ))
    }

    /// Whether both rooms can work.
    pub(crate) fn is_ready(&self) -> bool {
        self.coordinator.is_ready() && self.worker.as_ref().is_none_or(Worker::is_ready)
    }

    /// Hands back what was begun, keeps everything, and gives the folder up.
    pub(crate) async fn stop(mut self) {
        if let Some(worker) = self.worker.take() {
            worker.drain(DRAIN_WITHIN).await;
        }
        self.coordinator.shutdown().await;
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(DRAIN_WITHIN, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::debug!("connections were still open at the end");
        }
        Listening::remove(&self.data_dir);
        if let Err(error) = fs::remove_file(&self.socket) {
            tracing::debug!(%error, "the socket was gone already");
        }
    }
}

async fn dial(dialer: &mpsc::Sender<DuplexStream>) -> io::Result<DuplexStream> {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let gone = |_| {
        io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "the coordinator has stopped",
        )
    };
    dialer.send(far).await.map_err(gone)?;
    Ok(near)
}

/// Opens a connection to the owner of `data_dir`.
pub(crate) async fn join(
    data_dir: &Path,
    owner: &Listening,
    purpose: Purpose,
) -> io::Result<UnixStream> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "the owner announces no socket");
    let socket = owner.socket.as_ref().ok_or_else(missing)?;
    let token = fs::read(data_dir.join(TOKEN))?;
    let mut stream = UnixStream::connect(socket).await?;
    stream.write_all(&token).await?;
    stream.write_all(&[purpose.letter()]).await?;
    Ok(stream)
}

fn new_token() -> String {
    let bytes: [u8; 32] = rand::random();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The folder's own socket, or a short path for a folder whose name is too long for a socket's address.
fn socket_path(data_dir: &Path) -> PathBuf {
    let inside = data_dir.join(SOCKET);
    if inside.as_os_str().len() <= SOCKET_PATH_BYTES {
        return inside;
    }
    let name = proto::Digest::of(data_dir.as_os_str().as_encoded_bytes()).hex();
    std::env::temp_dir().join(format!("crawlforge-{}.sock", &name[..16]))
}

fn listen(socket: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(socket) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn accept(
    listener: UnixListener,
    token: String,
    joined: mpsc::Sender<UnixStream>,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let token: Arc<str> = token.into();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a process could not join");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        tasks.spawn(admit(
            stream,
            Arc::clone(&token),
            joined.clone(),
            stop.clone(),
        ));
    }
}

async fn admit(
    mut stream: UnixStream,
    token: Arc<str>,
    joined: mpsc::Sender<UnixStream>,
    stop: CancellationToken,
) {
    let mut shown = vec![0; token.len() + 1];
    let read = tokio::time::timeout(TOKEN_WITHIN, stream.read_exact(&mut shown)).await;
    if !matches!(read, Ok(Ok(_))) || &shown[..token.len()] != token.as_bytes() {
        tracing::warn!("a process that does not know this folder's token was turned away");
        return;
    }
    if shown[token.len()] == Purpose::Watch.letter() {
        let mut nothing = [0; 1];
        tokio::select! {
            () = stop.cancelled() => {}
            _ = stream.read(&mut nothing) => {}
        }
        return;
    }
    if joined.send(stream).await.is_err() {
        tracing::debug!("a process joined while this one was stopping");
    }
}

async fn serve_pipes(routes: Routes, pipes: mpsc::Receiver<DuplexStream>, stop: CancellationToken) {
    let incoming = tokio_stream::StreamExt::map(ReceiverStream::new(pipes), Ok::<_, io::Error>);
    let server = rooms::server()
        .add_routes(routes)
        .serve_with_incoming(incoming);
    end_with(server, stop).await;
}

async fn serve_sockets(
    routes: Routes,
    joining: mpsc::Receiver<UnixStream>,
    stop: CancellationToken,
) {
    let incoming = tokio_stream::StreamExt::map(ReceiverStream::new(joining), Ok::<_, io::Error>);
    let server = rooms::server()
        .add_routes(routes)
        .serve_with_incoming(incoming);
    end_with(server, stop).await;
}

/// Serves until told to stop; open streams are then cut, and whoever held them connects again elsewhere.
async fn end_with(
    server: impl Future<Output = Result<(), tonic::transport::Error>>,
    stop: CancellationToken,
) {
    tokio::select! {
        () = stop.cancelled() => {}
        ended = server => {
            if let Err(error) = ended {
                tracing::error!(%error, "the coordinator's door failed");
            }
        }
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}
