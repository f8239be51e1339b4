//! A web on loopback that answers as a [`Site`] says and remembers every visit.
//!
//! It speaks HTTP/1.1 by hand, so that the log can say when a request had arrived and when its answer went out. One
//! port serves all hosts by their Host header; `*.test` names lead here through `--resolve`.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::site::{Answer, Site};

/// One request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Name in the Host header, without the port.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// When the whole request had arrived, in microseconds since the web was started.
    pub start: u64,
    /// Just before the last byte of the answer was written; `None` while the answer is being made.
    pub end: Option<u64>,
    /// Status of the answer.
    pub status: u16,
    /// The User-Agent header.
    pub agent: String,
    /// Number of the connection, from 0.
    pub connection: u64,
}

/// A running web. Stops when dropped.
pub struct FakeWeb {
    site: Arc<Site>,
    port: u16,
    log: Arc<Log>,
    runtime: Option<Runtime>,
}

struct Log {
    began: Instant,
    visits: Mutex<Vec<Visit>>,
    changed: Condvar,
    asked: Mutex<BTreeMap<(String, String), usize>>,
    connections: AtomicU64,
}

const LARGEST_HEAD: usize = 256 * 1024;
/// Tries to find a port that is free on all addresses.
const PORT_TRIES: usize = 20;

impl FakeWeb {
    /// Starts a web on 127.0.0.1; `build` makes the site once the port is known.
    pub fn start(build: impl FnOnce(u16) -> Site) -> io::Result<Self> {
        Self::start_on(1, build)
    }

    /// Starts a web on the addresses from 127.0.0.1 to 127.0.0.`addresses`, all with one port.
    pub fn start_on(addresses: u8, build: impl FnOnce(u16) -> Site) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("fake-web")
            .enable_all()
            .build()?;
        let listeners = runtime.block_on(bind_all(addresses))?;
        let port = listeners
            .first()
            .ok_or(io::ErrorKind::InvalidInput)?
            .local_addr()?
            .port();
        let site = Arc::new(build(port));
        let log = Arc::new(Log {
            began: Instant::now(),
            visits: Mutex::new(Vec::new()),
            changed: Condvar::new(),
            asked: Mutex::new(BTreeMap::new()),
            connections: AtomicU64::new(0),
        });
        for listener in listeners {
            runtime.spawn(accept(listener, Arc::clone(&site), Arc::clone(&log)));
        }
        Ok(Self {
            site,
            port,
            log,
            runtime: Some(runtime),
        })
    }

    /// The site that is served.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// The absolute URL of a path.
    pub fn url(&self, host: &str, path: &str) -> String {
        self.site.url(host, path)
    }

    /// The port, picked by the system.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Everything that came in so far, in the order of arrival.
    pub fn visits(&self) -> Vec<Visit> {
        self.log.visits.lock().clone()
    }

    /// Requests for pages so far, that is without robots.txt.
    pub fn page_visits(&self) -> Vec<Visit> {
        self.visits()
            .into_iter()
            .filter(|visit| visit.path != "/robots.txt")
            .collect()
    }

    /// Waits until the visits satisfy `is_enough`; false when `within` is over first.
    pub fn wait_until(&self, within: Duration, is_enough: impl Fn(&[Visit]) -> bool) -> bool {
        let deadline = Instant::now() + within;
        let mut visits = self.log.visits.lock();
        while !is_enough(&visits) {
            if self
                .log
                .changed
                .wait_until(&mut visits, deadline)
                .timed_out()
            {
                return is_enough(&visits);
            }
        }
        true
    }
}

impl Drop for FakeWeb {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn bind_all(addresses: u8) -> io::Result<Vec<TcpListener>> {
    let mut last = io::Error::from(io::ErrorKind::InvalidInput);
    for _ in 0..PORT_TRIES {
        match bind_once(addresses).await {
            Ok(listeners) => return Ok(listeners),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn bind_once(addresses: u8) -> io::Result<Vec<TcpListener>> {
    let first = TcpListener::bind("127.0.0.1:0").await?;
    let port = first.local_addr()?.port();
    let mut listeners = vec![first];
    for last in 2..=addresses {
        let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        listeners.push(TcpListener::bind(SocketAddr::new(address, port)).await?);
    }
    Ok(listeners)
}

async fn accept(listener: TcpListener, site: Arc<Site>, log: Arc<Log>) {
    while let Ok((stream, _)) = listener.accept().await {
        let connection = log.connections.fetch_add(1, Ordering::Relaxed);
        let (site, log) = (Arc::clone(&site), Arc::clone(&log));
        tokio::spawn(async move {
            let ended = serve(stream, &site, &log, connection).await;
            drop(ended);
        });
    }
}

async fn serve(mut stream: TcpStream, site: &Site, log: &Log, connection: u64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut buffer).await? {
        let request = Request::read(&head);
        let nth = log.count(&request);
        let missing = Answer::text(
            404,
            "text/html",
            "<title>not here</title><p>Nothing is here.",
        );
        let answer = site
            .answer(&request.host, &request.path, nth)
            .unwrap_or(&missing);
        let index = log.begin(&request, answer.status, connection);
        if !answer.delay.is_zero() {
            tokio::time::sleep(answer.delay).await;
        }
        log.end(index);
        stream.write_all(&head_of(answer)).await?;
        if request.method != "HEAD" {
            stream.write_all(&answer.body).await?;
        }
        stream.flush().await?;
        if request.is_last {
            break;
        }
    }
    Ok(())
}

fn head_of(answer: &Answer) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 {} Answer\r\nContent-Length: {}\r\n",
        answer.status,
        answer.body.len()
    );
    for (name, value) in &answer.headers {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

struct Request {
    method: String,
    host: String,
    path: String,
    agent: String,
    is_last: bool,
}

impl Request {
    fn read(head: &str) -> Self {
        let mut words = head.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let path = words.next().unwrap_or_default().to_owned();
        let header = |name: &str| {
            let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
            let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map_or("", |(_, value)| value.trim()).to_owned()
        };
        let host = header("host").to_ascii_lowercase();
        let host = host.split(':').next().unwrap_or_default().to_owned();
        let is_last = header("connection").eq_ignore_ascii_case("close");
        Self {
            method,
            host,
            path,
            agent: header("user-agent"),
            is_last,
        }
    }
}

impl Log {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn count(&self, request: &Request) -> usize {
        let mut asked = self.asked.lock();
        let count = asked
            .entry((request.host.clone(), request.path.clone()))
            .or_default();
        *count += 1;
        *count - 1
    }

    fn begin(&self, request: &Request, status: u16, connection: u64) -> usize {
        let mut visits = self.visits.lock();
        visits.push(Visit {
            host: request.host.clone(),
            path: request.path.clone(),
            start: self.now(),
            end: None,
            status,
            agent: request.agent.clone(),
            connection,
        });
        self.changed.notify_all();
        visits.len() - 1
    }

    fn end(&self, index: usize) {
        let now = self.now();
        if let Some(visit) = self.visits.lock().get_mut(index) {
            visit.end = Some(now);
        }
    }
}

async fn read_head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            buffer.drain(..end + 4);
            return Ok(Some(head));
        }
        let mut chunk = [0; 8192];
        let count = stream.read(&mut chunk).await?;
        if count == 0 || buffer.len() > LARGEST_HEAD {
            return Ok(None);
        }
        buffer.extend_from_slice(&chunk[..count]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::FakeWeb;
    use crate::process::get;
    use crate::site::{Answer, Site};

    #[test]
    fn a_web_answers_its_site_in_order_and_logs_each_visit() {
        let web = FakeWeb::start_on(2, |port| {
            let mut site = Site::new(port);
            let busy = Answer::text(429, "text/plain", "later");
            let page = Answer::page("here", &[]).after(Duration::from_millis(30));
            site.put_all("127.0.0.2", "/", vec![busy, page]);
            site
        })
        .unwrap();
        let address = format!("127.0.0.2:{}", web.port()).parse().unwrap();
        let statuses = ["/", "/", "/", "/nowhere"].map(|path| get(address, path).unwrap().0);
        assert_eq!(statuses, [429, 200, 200, 404]);
        let visits = web.visits();
        let paths: Vec<&str> = visits.iter().map(|visit| visit.path.as_str()).collect();
        assert_eq!(paths, ["/", "/", "/", "/nowhere"]);
        assert!(visits.iter().all(|visit| visit.host == "127.0.0.2"));
        let thought = visits[1].end.unwrap() - visits[1].start;
        assert!(thought >= 30_000, "{thought} µs");
        assert!(crate::politeness::violations(&visits, Duration::ZERO).is_empty());
        assert!(web.wait_until(Duration::ZERO, |visits| visits.len() == 4));
    }
}
