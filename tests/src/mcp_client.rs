//! A small MCP client (protocol 2025-06-18, with a handshake) over a child's stdio or over Streamable HTTP.
//!
//! Blocking, one call at a time, every wait with a deadline. The official clients are tried elsewhere; this one can
//! look at the raw answers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::process::{END_WITHIN, Process};

/// How long one call may take.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(120);
const PROTOCOL: &str = "2025-06-18";

/// A connected client.
pub struct McpClient {
    transport: Transport,
    next_id: u64,
    /// What the server sent unasked.
    pub notices: Vec<Value>,
}

enum Transport {
    Stdio {
        process: Process,
        stdin: Option<ChildStdin>,
        lines: Receiver<String>,
    },
    Http {
        runtime: Runtime,
        client: reqwest::Client,
        url: String,
        session: Option<String>,
    },
}

impl McpClient {
    /// Starts `crawlforge mcp FLAGS` on a data folder and shakes hands.
    pub fn stdio(name: &str, data_dir: &Path, flags: &[String]) -> Result<Self> {
        let mut args = vec!["mcp".to_owned()];
        args.extend_from_slice(flags);
        let mut process = Process::start_piped(name, data_dir, &args)?;
        let (stdin, stdout) = process.pipes()?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self::shaken(Transport::Stdio {
            process,
            stdin: Some(stdin),
            lines,
        })
    }

    /// Connects to `/mcp` at an address and shakes hands.
    pub fn http(address: SocketAddr) -> Result<Self> {
        let installed = rustls::crypto::ring::default_provider().install_default();
        drop(installed);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let client = reqwest::Client::builder().timeout(ANSWER_WITHIN).build()?;
        let url = format!("http://{address}/mcp");
        Self::shaken(Transport::Http {
            runtime,
            client,
            url,
            session: None,
        })
    }

    fn shaken(transport: Transport) -> Result<Self> {
        let mut client = Self {
            transport,
            next_id: 1,
            notices: Vec::new(),
        };
        let hello = json!({
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        });
        client.request("initialize", &hello)?;
        client.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            None,
        )?;
        Ok(client)
    }

    /// The process behind stdio.
    pub fn process(&mut self) -> Option<&mut Process> {
        match &mut self.transport {
            Transport::Stdio { process, .. } => Some(process),
            Transport::Http { .. } => None,
        }
    }

    /// A call: its result, or the error object as an error.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        let answer = self.exchange(method, params)?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => bail!("{method} answers {answer}"),
        }
    }

    /// A call that has to fail: its error object.
    pub fn refused(&mut self, method: &str, params: &Value) -> Result<Value> {
        let answer = self.exchange(method, params)?;
        answer
            .get("error")
            .cloned()
            .with_context(|| format!("{method} answers {answer}"))
    }

    /// A tool call: its result, `isError` or not.
    pub fn tool(&mut self, name: &str, arguments: &Value) -> Result<Value> {
        self.request("tools/call", &json!({"name": name, "arguments": arguments}))
    }

    /// The text of a resource.
    pub fn read(&mut self, uri: &str) -> Result<String> {
        let result = self.request("resources/read", &json!({ "uri": uri }))?;
        let text = result.pointer("/contents/0/text").and_then(Value::as_str);
        text.map(str::to_owned)
            .with_context(|| format!("{uri} answers {result}"))
    }

    /// Closes stdin and waits until the process has ended; its exit code. Nothing to do over HTTP.
    pub fn close(mut self) -> Result<Option<i32>> {
        match &mut self.transport {
            Transport::Stdio { process, stdin, .. } => {
                drop(stdin.take());
                Ok(process.wait(END_WITHIN)?.code())
            }
            Transport::Http { .. } => Ok(None),
        }
    }

    fn exchange(&mut self, method: &str, params: &Value) -> Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = self
            .send(&message, Some(id))
            .with_context(|| format!("call {method}"))?;
        answer.with_context(|| format!("{method} has no answer"))
    }

    fn send(&mut self, message: &Value, id: Option<u64>) -> Result<Option<Value>> {
        match &mut self.transport {
            Transport::Stdio { stdin, lines, .. } => {
                let stdin = stdin.as_mut().context("stdin is closed")?;
                writeln!(stdin, "{message}")?;
                stdin.flush()?;
                let Some(id) = id else { return Ok(None) };
                receive(lines, id, &mut self.notices).map(Some)
            }
            Transport::Http {
                runtime,
                client,
                url,
                session,
            } => {
                let exchange = post(client, url, session, message, id, &mut self.notices);
                runtime.block_on(exchange)
            }
        }
    }
}

fn receive(lines: &Receiver<String>, id: u64, notices: &mut Vec<Value>) -> Result<Value> {
    let deadline = Instant::now() + ANSWER_WITHIN;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let line = match lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => bail!("no answer within {ANSWER_WITHIN:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the server closed its stdout"),
        };
        let message: Value =
            serde_json::from_str(&line).with_context(|| format!("stdout says `{line}`"))?;
        match message.get("id") {
            Some(found) if *found == json!(id) => return Ok(message),
            _ => notices.push(message),
        }
    }
}

async fn post(
    client: &reqwest::Client,
    url: &str,
    session: &mut Option<String>,
    message: &Value,
    id: Option<u64>,
    notices: &mut Vec<Value>,
) -> Result<Option<Value>> {
    let mut request = client
        .post(url)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", PROTOCOL)
        .body(message.to_string());
    if let Some(session) = session {
        request = request.header("Mcp-Session-Id", session.as_str());
    }
    let answer = request.send().await?;
    let given = answer
        .headers()
        .get("Mcp-Session-Id")
        .and_then(|id| id.to_str().ok());
    if let Some(given) = given {
        *session = Some(given.to_owned());
    }
    let status = answer.status();
    let kind = answer
        .headers()
        .get("Content-Type")
        .and_then(|kind| kind.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let Some(id) = id else {
        if !status.is_success() {
            bail!("the server answers {status}: {}", answer.text().await?);
        }
        return Ok(None);
    };
    if !is_stream {
        let body = answer.text().await?;
        let message = serde_json::from_str(&body);
        return Ok(Some(message.with_context(|| {
            format!("the server answers {status}: {body}")
        })?));
    }
    let mut stream = answer.bytes_stream();
    let mut buffer = Vec::new();
    while let Some(chunk) = stream.next().await {
        buffer.extend_from_slice(&chunk?);
        while let Some(end) = buffer.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let line = String::from_utf8(line)?;
            let Some(data) = line.trim_end().strip_prefix("data:") else {
                continue;
            };
            if data.trim().is_empty() {
                continue;
            }
            let message: Value = serde_json::from_str(data.trim())?;
            match message.get("id") {
                Some(found) if *found == json!(id) => return Ok(Some(message)),
                _ => notices.push(message),
            }
        }
    }
    bail!("the stream ended without an answer")
}
