//! A name server on loopback that answers from a script: address lists, changing answers, no such name, silence.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// What a name answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These addresses; each look-up takes the next list, the last one stays.
    Addresses(Vec<Vec<IpAddr>>),
    /// The name does not exist.
    NoSuchName,
    /// Nothing comes back.
    Silence,
}

/// A running name server. Stops when dropped.
pub struct NameServer {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

type Names = Arc<Mutex<BTreeMap<String, Answer>>>;

const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const NO_ERROR: u8 = 0;
const NAME_ERROR: u8 = 3;

impl NameServer {
    /// Starts a server that knows `names`; every other name answers `fallback`, or does not exist without one.
    pub async fn start(
        names: BTreeMap<String, Answer>,
        fallback: Option<Ipv4Addr>,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        let address = socket.local_addr()?;
        let names: Names = Arc::new(Mutex::new(names));
        let task = tokio::spawn(async move {
            let mut packet = [0; 1500];
            while let Ok((count, from)) = socket.recv_from(&mut packet).await {
                let answer = reply(&packet[..count], &names, fallback);
                if let Some(answer) = answer {
                    let sent = socket.send_to(&answer, from).await;
                    drop(sent);
                }
            }
        });
        Ok(Self { address, task })
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The answer to a query (RFC 1035, 4.1), or `None` for silence and for what is no query.
fn reply(query: &[u8], names: &Names, fallback: Option<Ipv4Addr>) -> Option<Vec<u8>> {
    let mut at = 12;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
    let kind = u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]);
    let question = query.get(12..at + 4)?;
    let name = labels.join(".");
    let (code, addresses) = match look_up(&name, kind, names) {
        Some(Answer::Silence) => return None,
        Some(Answer::NoSuchName) => (NAME_ERROR, Vec::new()),
        Some(Answer::Addresses(lists)) => (NO_ERROR, lists.concat()),
        None => match fallback {
            Some(address) => (NO_ERROR, vec![IpAddr::V4(address)]),
            None => (NAME_ERROR, Vec::new()),
        },
    };
    let fitting: Vec<IpAddr> = addresses
        .into_iter()
        .filter(|address| match address {
            IpAddr::V4(_) => kind == TYPE_A,
            IpAddr::V6(_) => kind == TYPE_AAAA,
        })
        .collect();
    let mut out = Vec::new();
    out.extend_from_slice(&query[..2]);
    out.extend_from_slice(&[0x85, 0x80 | code]);
    out.extend_from_slice(&1_u16.to_be_bytes());
    out.extend_from_slice(&u16::try_from(fitting.len()).ok()?.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(question);
    for address in fitting {
        let (kind, bytes) = match address {
            IpAddr::V4(four) => (TYPE_A, four.octets().to_vec()),
            IpAddr::V6(six) => (TYPE_AAAA, six.octets().to_vec()),
        };
        out.extend_from_slice(&[0xc0, 0x0c]);
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&1_u16.to_be_bytes());
        out.extend_from_slice(&0_u32.to_be_bytes());
        out.extend_from_slice(&u16::try_from(bytes.len()).ok()?.to_be_bytes());
        out.extend_from_slice(&bytes);
    }
    Some(out)
}

/// The scripted answer; a list of lists moves on with each query for IPv4 addresses.
fn look_up(name: &str, kind: u16, names: &Names) -> Option<Answer> {
    let mut names = names.lock();
    let answer = names.get_mut(name)?;
    if let Answer::Addresses(lists) = answer {
        let now = lists.first().cloned().unwrap_or_default();
        if lists.len() > 1 && kind == TYPE_A {
            lists.remove(0);
        }
        return Some(Answer::Addresses(vec![now]));
    }
    Some(answer.clone())
}
