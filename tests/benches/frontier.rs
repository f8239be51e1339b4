//! What the frontier alone carries: a coordinator on its real stores behind its real doors, and a worker that fetches
//! nothing: it answers each ticket at once with a page of new links.
//!
//! `cargo bench -p tests --bench frontier [URLS] [LINKS] [HOSTS]`, a million URLs, 100 links a page and 1000 hosts where
//! nothing is said. One row for each tenth: admissions and pages a second, how long a report takes until it is kept, memory of the process, bytes on disk.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use coordinator::{Config, Coordinator};
use proto::v1::{self, fact, order, outcome};
use proto::{Clock, Digest};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};

const WINDOW: usize = 1024;

struct Shape {
    urls: u64,
    links: u64,
    hosts: u64,
}

/// The web: page `n` links the next pages that nobody has linked yet.
struct Pages {
    shape: Shape,
    next: u64,
}

impl Pages {
    fn url(&self, number: u64) -> String {
        let host = number % self.shape.hosts;
        format!("http://site{host}.test/section/of/the/site/page-{number}.html")
    }

    fn links(&mut self) -> Vec<v1::Link> {
        let end = (self.next + self.shape.links).min(self.shape.urls);
        let found = (self.next..end).map(|number| v1::Link {
            url: self.url(number),
            ..v1::Link::default()
        });
        let found = found.collect();
        self.next = end;
        found
    }
}

struct Row {
    admitted: u64,
    at: Duration,
    pages: u64,
    late: Duration,
    memory: u64,
    disk: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut sizes = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok());
    let shape = Shape {
        urls: sizes.next().unwrap_or(1_000_000),
        links: sizes.next().unwrap_or(100),
        hosts: sizes.next().unwrap_or(1_000),
    };
    let folder = TempDir::new()?;
    let mut config = Config::new(folder.path());
    config.min_interval = Duration::ZERO;
    let coordinator = Coordinator::start(config, Clock::start()).await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let routes = coordinator.routes();
    tokio::spawn(async move {
        let incoming = TcpIncoming::from(listener);
        let server = Server::builder().add_routes(routes);
        drop(server.serve_with_incoming(incoming).await);
    });
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .connect()
        .await?;
    let rows = crawl(channel, folder.path(), shape).await?;
    show(&rows);
    coordinator.shutdown().await;
    Ok(())
}

async fn crawl(channel: Channel, folder: &Path, shape: Shape) -> Result<Vec<Row>> {
    let mut pages = Pages { shape, next: 1 };
    let mut sessions = v1::sessions_client::SessionsClient::new(channel.clone());
    let mut fleet = v1::fleet_client::FleetClient::new(channel);
    let (facts, stream) = mpsc::channel(WINDOW);
    let hello = v1::Hello {
        worker_id: "bench".into(),
        slots: 256,
        weight: 1,
        ..v1::Hello::default()
    };
    facts.send(tell(fact::Fact::Hello(hello))).await?;
    let mut orders = fleet.link(ReceiverStream::new(stream)).await?.into_inner();
    let mut spec = v1::SessionSpec {
        seeds: vec![pages.url(0)],
        scope: Some(v1::Scope {
            reach: v1::scope::Reach::Any.into(),
            ..v1::Scope::default()
        }),
        ..v1::SessionSpec::default()
    };
    spec.set_kind(v1::SessionKind::Crawl);
    sessions
        .start(v1::StartRequest { spec: Some(spec) })
        .await?;

    let began = Instant::now();
    let step = (pages.shape.urls / 10).max(1);
    let mut told: BTreeMap<u64, Instant> = BTreeMap::new();
    let mut waits = Vec::new();
    let mut rows = Vec::new();
    let mut kept = 0;
    let mut waiting: VecDeque<v1::Fact> = VecDeque::new();
    // Until every link has been told and so much been kept that all of them are in.
    let all = pages.shape.urls.div_ceil(pages.shape.links);
    while kept < all {
        let order = tokio::select! {
            order = orders.message() => order?.context("the link ended")?.order,
            room = facts.reserve(), if !waiting.is_empty() => {
                if let Some(fact) = waiting.pop_front() {
                    room?.send(fact);
                }
                continue;
            }
        };
        match order {
            Some(order::Order::Lease(lease)) => {
                for ticket in lease.tickets {
                    told.insert(ticket.ticket_id, Instant::now());
                    let outcome = page((lease.lease_id, lease.epoch), ticket, pages.links());
                    waiting.push_back(tell(fact::Fact::Outcome(outcome)));
                }
                let lease_id = lease.lease_id;
                waiting.push_back(tell(fact::Fact::LeaseEnded(v1::LeaseEnded { lease_id })));
            }
            Some(order::Order::Kept(ids)) => {
                for id in ids.ticket_ids {
                    kept += 1;
                    waits.extend(told.remove(&id).map(|at| at.elapsed()));
                }
            }
            _ => {}
        }
        let admitted = (kept * pages.shape.links).min(pages.shape.urls);
        if admitted >= step * (rows.len() as u64 + 1) {
            waits.sort();
            rows.push(Row {
                admitted,
                at: began.elapsed(),
                pages: kept,
                late: waits
                    .get(waits.len() * 99 / 100)
                    .copied()
                    .unwrap_or_default(),
                memory: memory()?,
                disk: disk(folder),
            });
            waits.clear();
        }
    }
    Ok(rows)
}

fn tell(fact: fact::Fact) -> v1::Fact {
    v1::Fact { fact: Some(fact) }
}

fn page(lease: (u64, u64), ticket: v1::Ticket, links: Vec<v1::Link>) -> v1::Outcome {
    let digest = Digest::of(ticket.url.as_bytes());
    let digest: bytes::Bytes = digest.as_bytes().to_vec().into();
    let page = v1::Page {
        url: ticket.url.clone(),
        final_url: ticket.url.clone(),
        status: 200,
        size: 20_000,
        digest: digest.clone(),
        ..v1::Page::default()
    };
    v1::Outcome {
        lease_id: lease.0,
        ticket_id: ticket.ticket_id,
        epoch: lease.1,
        session_id: ticket.session_id,
        url: ticket.url,
        host: Some(v1::HostFacts {
            has_started: true,
            ..v1::HostFacts::default()
        }),
        result: Some(outcome::Result::Captured(v1::Captured {
            page: Some(page),
            links,
            content_digest: digest,
            ..v1::Captured::default()
        })),
        ..v1::Outcome::default()
    }
}

/// Resident bytes of this process: coordinator, its doors and the worker's end of the link.
fn memory() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(number.context("VmRSS")?.parse::<u64>()? * 1024)
}

fn disk(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

fn show(rows: &[Row]) {
    println!(
        "|   URLs known | admitted/s | pages/s | p99 kept |  memory | B/URL memory | B/URL disk |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|");
    let mut before = (0, Duration::ZERO, 0);
    for row in rows {
        let span = (row.at - before.1).as_secs_f64();
        let rate = |count: u64, was: u64| (count - was) as f64 / span;
        println!(
            "| {} | {:.0} | {:.0} | {:.1} ms | {:.0} MiB | {:.0} | {:.0} |",
            row.admitted,
            rate(row.admitted, before.0),
            rate(row.pages, before.2),
            row.late.as_secs_f64() * 1000.0,
            row.memory as f64 / 1_048_576.0,
            row.memory as f64 / row.admitted as f64,
            row.disk as f64 / row.admitted as f64,
        );
        before = (row.admitted, row.at, row.pages);
    }
}
