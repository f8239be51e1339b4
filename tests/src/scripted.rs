//! A server that says exactly what a script tells it, byte for byte: the misbehaving half of the web.
//!
//! The script is the `steps` of an HTTP case: among the steps that match a request the first unused one is taken,
//! else the last matching one again; a request without a match gets 404.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::certificates::Certificates;

/// What came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The Host header, in lower case, without the port.
    pub host: String,
    /// The Host header as it came, in lower case.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// The whole head of the request, as it came.
    pub head: String,
}

impl Visit {
    /// The address that was asked for.
    pub fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// How the server behaves beside its steps.
#[derive(Clone, Default)]
pub struct Manners {
    /// Answers TLS with these certificates; without them a TLS greeting gets plain text back.
    pub certificates: Option<Arc<Certificates>>,
    /// robots.txt is answered with 404 and not counted, unless a step names its path.
    pub hides_robots: bool,
}

/// A running script. Stops when dropped. One port speaks HTTP and HTTPS, told apart by the first byte.
pub struct Scripted {
    visits: Arc<Mutex<Vec<Visit>>>,
    tasks: Vec<JoinHandle<()>>,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
}

struct Script {
    steps: Vec<Value>,
    used: Mutex<Vec<bool>>,
    visits: Arc<Mutex<Vec<Visit>>>,
    manners: Manners,
}

/// How an answer ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Close,
    CloseSilently,
    Hang,
    Reset,
}

/// First byte of a TLS record that greets (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 22;

impl Scripted {
    /// Listens on all of `addresses`; a port of 0 is picked by the system.
    pub async fn start(
        addresses: &[SocketAddr],
        steps: &[Value],
        manners: Manners,
    ) -> io::Result<Self> {
        let visits = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::new(Script {
            steps: steps.to_vec(),
            used: Mutex::new(vec![false; steps.len()]),
            visits: Arc::clone(&visits),
            manners,
        });
        let mut server = Self {
            visits,
            tasks: Vec::new(),
            addresses: Vec::new(),
        };
        for address in addresses {
            let listener = TcpListener::bind(address).await?;
            server.addresses.push(listener.local_addr()?);
            let script = Arc::clone(&script);
            server.tasks.push(tokio::spawn(async move {
                let mut open = tokio::task::JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    let script = Arc::clone(&script);
                    open.spawn(async move {
                        let ended = script.serve_tcp(stream).await;
                        drop(ended);
                    });
                    while open.try_join_next().is_some() {}
                }
            }));
        }
        Ok(server)
    }

    /// Everything that came in so far.
    pub fn visits(&self) -> Vec<Visit> {
        self.visits.lock().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Script {
    async fn serve_tcp(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut first = [0];
        let is_tls = stream.peek(&mut first).await? == 1 && first[0] == TLS_HANDSHAKE;
        if !is_tls {
            let then = self.serve(&mut stream, "http").await?;
            return end(stream, then).await;
        }
        let Some(certificates) = &self.manners.certificates else {
            stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await?;
            return stream.shutdown().await;
        };
        let acceptor = TlsAcceptor::from(certificates.server());
        let mut stream = acceptor.accept(stream).await?;
        let then = self.serve(&mut stream, "https").await?;
        if then == Then::Close {
            return stream.shutdown().await;
        }
        end(stream.into_inner().0, then).await
    }

    async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        scheme: &'static str,
    ) -> io::Result<Then> {
        let mut buffer = Vec::new();
        loop {
            let Some(visit) = read_head(stream, &mut buffer, scheme).await? else {
                return Ok(Then::Close);
            };
            let is_hidden = self.manners.hides_robots
                && visit.path == "/robots.txt"
                && !self.steps.iter().any(|step| step["path"] == "/robots.txt");
            let step = match is_hidden {
                true => None,
                false => self.step_for(&visit),
            };
            if !is_hidden {
                self.visits.lock().push(visit.clone());
            }
            let Some(step) = step else {
                stream
                    .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                    .await?;
                continue;
            };
            stream
                .write_all(&bytes_of(&step, "raw", Some(&visit.path)))
                .await?;
            stream.write_all(&coded_body(&step)).await?;
            if let Some(drip) = step.get("drip") {
                send_drip(stream, drip).await?;
            }
            stream.flush().await?;
            match step.get("then").and_then(Value::as_str).unwrap_or("keep") {
                "keep" => {}
                "close_silently" => return Ok(Then::CloseSilently),
                "hang" => return Ok(Then::Hang),
                "reset" => return Ok(Then::Reset),
                _ => return Ok(Then::Close),
            }
        }
    }

    fn step_for(&self, visit: &Visit) -> Option<Value> {
        let mut used = self.used.lock();
        let matching: Vec<usize> = (0..self.steps.len())
            .filter(|index| matches(&self.steps[*index], visit))
            .collect();
        let chosen = matching.iter().copied().find(|index| !used[*index]);
        let chosen = chosen.or_else(|| matching.last().copied())?;
        used[chosen] = true;
        Some(self.steps[chosen].clone())
    }
}

async fn end(mut stream: TcpStream, then: Then) -> io::Result<()> {
    match then {
        Then::Reset => stream.set_zero_linger(),
        Then::Hang => std::future::pending().await,
        Then::Close | Then::CloseSilently => stream.shutdown().await,
    }
}

fn matches(step: &Value, visit: &Visit) -> bool {
    let text = |key: &str| step.get(key).and_then(Value::as_str);
    let cookies: Vec<&str> = visit
        .head
        .lines()
        .filter(|line| line.to_ascii_lowercase().starts_with("cookie:"))
        .collect();
    text("path").is_none_or(|path| path == "*" || path == visit.path)
        && text("scheme").is_none_or(|scheme| scheme == visit.scheme)
        && text("authority").is_none_or(|authority| authority == visit.authority)
        && text("host").is_none_or(|host| host.eq_ignore_ascii_case(&visit.host))
        && text("cookie").is_none_or(|wanted| cookies.iter().any(|line| line.contains(wanted)))
        && text("no_cookie").is_none_or(|name| !cookies.iter().any(|line| line.contains(name)))
}

async fn read_head<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    scheme: &'static str,
) -> io::Result<Option<Visit>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.drain(..end + 4);
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let host = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("host:")
                        .map(|host| host.trim().to_owned())
                })
                .unwrap_or_default();
            let authority = host.clone();
            let host = host.split(':').next().unwrap_or_default().to_owned();
            return Ok(Some(Visit {
                scheme,
                host,
                authority,
                path,
                head,
            }));
        }
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await?;
        if count == 0 || buffer.len() > 256 * 1024 {
            return Ok(None);
        }
        buffer.extend_from_slice(&chunk[..count]);
    }
}

/// The bytes under `key` in any of the three forms of the cases.
pub fn bytes_of(holder: &Value, key: &str, path: Option<&str>) -> Vec<u8> {
    if let Some(text) = holder.get(key).and_then(Value::as_str) {
        let text = match path {
            Some(path) => text.replace("{path}", path),
            None => text.to_owned(),
        };
        return text.into_bytes();
    }
    if let Some(coded) = holder.get(format!("{key}_b64")).and_then(Value::as_str) {
        return STANDARD.decode(coded).unwrap_or_default();
    }
    parts_of(holder, &format!("{key}_parts"))
}

fn parts_of(holder: &Value, key: &str) -> Vec<u8> {
    let parts = holder
        .get(key)
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let mut out = Vec::new();
    for part in parts {
        let text = part.get(0).and_then(Value::as_str).unwrap_or_default();
        let count = part.get(1).and_then(Value::as_u64).unwrap_or(1);
        for _ in 0..count {
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// Packs bytes.
pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = io::Write::write_all(&mut encoder, plain);
    written.and_then(|()| encoder.finish()).unwrap_or_default()
}

fn coded_body(step: &Value) -> Vec<u8> {
    if step.get("body_gzip_parts").is_none() {
        return Vec::new();
    }
    let packed = gzip(&parts_of(step, "body_gzip_parts"));
    let Some(size) = step.get("chunked").and_then(Value::as_u64) else {
        return packed;
    };
    let mut out = Vec::new();
    for chunk in packed.chunks(usize::try_from(size).unwrap_or(1).max(1)) {
        out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
    out
}

async fn send_drip<S: AsyncWrite + Unpin>(stream: &mut S, drip: &Value) -> io::Result<()> {
    let number = |key: &str| drip.get(key).and_then(Value::as_u64);
    let pause = Duration::from_millis(number("every_ms").unwrap_or(0));
    if let Some(text) = drip.get("text").and_then(Value::as_str) {
        let size = usize::try_from(number("bytes").unwrap_or(1))
            .unwrap_or(1)
            .max(1);
        for piece in text.as_bytes().chunks(size) {
            stream.write_all(piece).await?;
            stream.flush().await?;
            tokio::time::sleep(pause).await;
        }
        return Ok(());
    }
    let unit = drip
        .get("repeat")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let count = usize::try_from(number("repeat_count").unwrap_or(1)).unwrap_or(1);
    let piece = unit.repeat(count);
    let is_endless = drip
        .get("forever")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    loop {
        stream.write_all(piece.as_bytes()).await?;
        if !is_endless {
            return Ok(());
        }
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}
