//! The real `crawlforge` as a child process: found beside the test, watched with deadlines, shown when a test fails.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// How long a process may take until it answers `/readyz`.
pub const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long a process may take to end after SIGTERM.
pub const END_WITHIN: Duration = Duration::from_secs(45);
/// How long to wait between two looks at something that announces itself in a file.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes of a log that are shown when a test fails.
const LOG_TAIL: usize = 8_000;

/// The command under test.
///
/// # Panics
/// Panics when it has not been built.
pub fn crawlforge() -> PathBuf {
    let test = std::env::current_exe().unwrap_or_default();
    let folders = test.ancestors().skip(1);
    let mut candidates = folders.take(3).map(|folder| folder.join("crawlforge"));
    match candidates.find(|path| path.is_file()) {
        Some(path) => path,
        None => panic!(
            "no `crawlforge` beside {}; build it with `cargo build --workspace`",
            test.display()
        ),
    }
}

/// Repeats `look` until it gives something.
///
/// # Errors
/// Fails when `within` is over, with `what` was waited for and the last reason.
pub fn wait_for<T>(what: &str, within: Duration, mut look: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + within;
    loop {
        match look() {
            Ok(found) => return Ok(found),
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("waited {within:?} for {what}")));
            }
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// One running process. Killed when dropped; its log is shown when the test panics.
pub struct Process {
    /// What it is called in messages.
    pub name: String,
    /// Its data folder.
    pub data_dir: PathBuf,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `crawlforge ARGS` on a data folder, stdin and stdout closed.
    pub fn start(name: &str, data_dir: &Path, args: &[String]) -> Result<Self> {
        Self::start_program(&crawlforge(), name, data_dir, args)
    }

    /// Starts another build of the command on a data folder, stdin and stdout closed.
    pub fn start_program(
        program: &Path,
        name: &str,
        data_dir: &Path,
        args: &[String],
    ) -> Result<Self> {
        Self::spawn(program, name, data_dir, args, Stdio::null)
    }

    /// Starts `crawlforge ARGS` with stdin and stdout as pipes.
    pub fn start_piped(name: &str, data_dir: &Path, args: &[String]) -> Result<Self> {
        Self::spawn(&crawlforge(), name, data_dir, args, Stdio::piped)
    }

    fn spawn(
        program: &Path,
        name: &str,
        data_dir: &Path,
        args: &[String],
        pipe: impl Fn() -> Stdio,
    ) -> Result<Self> {
        fs::create_dir_all(data_dir)?;
        let log = data_dir.with_extension(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let child = Command::new(program)
            .args(args)
            .arg("--data-dir")
            .arg(data_dir)
            .current_dir(data_dir)
            .env_remove("CRAWLFORGE_API_KEY")
            .stdin(pipe())
            .stdout(pipe())
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            data_dir: data_dir.to_owned(),
            child,
            log,
        })
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The pipes of a process started with them; each can be taken once.
    pub fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout)> {
        let stdin = self.child.stdin.take().context("stdin is taken")?;
        let stdout = self.child.stdout.take().context("stdout is taken")?;
        Ok((stdin, stdout))
    }

    /// Everything it has logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// An address that this very process announced in `listen.json`, waited for.
    pub fn address(&mut self, door: &str) -> Result<SocketAddr> {
        let path = self.data_dir.join("listen.json");
        let pid = self.pid();
        let what = format!("{} to announce `{door}`", self.name);
        wait_for(&what, READY_WITHIN, || {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended with {status}:\n{}", self.name, tail(&self.log));
            }
            let announced: Value = serde_json::from_slice(&fs::read(&path)?)?;
            if announced.get("pid").and_then(Value::as_u64) != Some(u64::from(pid)) {
                bail!("listen.json is of another process");
            }
            let address = announced
                .get(door)
                .and_then(Value::as_str)
                .context("no such door")?;
            Ok(address.parse()?)
        })
    }

    /// Waits until `/readyz` behind a door answers 200.
    pub fn wait_ready(&mut self, door: &str) -> Result<SocketAddr> {
        let address = self.address(door)?;
        let what = format!("{} to be ready at {address}", self.name);
        wait_for(&what, READY_WITHIN, || match get(address, "/readyz")? {
            (200, _) => Ok(()),
            (status, body) => bail!("/readyz answers {status}: {body}"),
        })?;
        Ok(address)
    }

    /// `kill -9`, and waits for the end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// SIGTERM.
    pub fn terminate(&self) -> Result<()> {
        let status = Command::new("kill")
            .arg("-TERM")
            .arg(self.pid().to_string())
            .status()?;
        if !status.success() {
            bail!("{} cannot be signalled", self.name);
        }
        Ok(())
    }

    /// Waits for the end.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus> {
        let what = format!("{} to end", self.name);
        wait_for(&what, within, || self.child.try_wait()?.context("it runs"))
    }

    /// SIGTERM, and waits for a clean end.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.terminate()?;
        self.wait(END_WITHIN)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        drop(killed);
        if std::thread::panicking() {
            let shown = format!("---- log of {} ----\n{}\n", self.name, tail(&self.log));
            let written = io::stderr().write_all(shown.as_bytes());
            drop(written);
        }
    }
}

fn tail(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let from = bytes.len().saturating_sub(LOG_TAIL);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

/// A plain HTTP GET: status and body.
pub fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let within = Duration::from_secs(5);
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let body = if head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        unchunked(body)
    } else {
        body.to_owned()
    };
    Ok((status, body))
}

/// The text of a chunked body (RFC 9112, 7.1).
fn unchunked(mut coded: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = coded.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let Some(chunk) = rest.get(..size).filter(|_| size > 0) else {
            break;
        };
        text.push_str(chunk);
        coded = rest.get(size + 2..).unwrap_or_default();
    }
    text
}
