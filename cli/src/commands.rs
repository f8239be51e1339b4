//! What each subcommand does. Data goes to stdout, words for people to stderr.

mod crawl;
mod host;
mod page;
mod roles;
mod sessions;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use proto::v1::control_request::Order;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::args::{Cli, Command};
use crate::progress::say;
use crate::settings::Settings;
use crate::summary::{FAILED, USAGE};
use crate::telemetry;

/// Why a command did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was said cannot be used: exit code 2.
    Usage(String),
    /// It was tried and failed: exit code 1.
    Failed(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(crate::node::chain(&error))
    }
}

/// Runs the command that `words` (with the program's name first) ask for.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            let shown = error.print();
            drop(shown);
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(USAGE),
            };
        }
    };
    match dispatch(cli) {
        Ok(code) => code,
        Err(Failure::Usage(message)) => {
            say(&format!("error: {message}"));
            ExitCode::from(USAGE)
        }
        Err(Failure::Failed(message)) => {
            say(&format!("error: {message}"));
            ExitCode::from(FAILED)
        }
    }
}

fn dispatch(cli: Cli) -> Result<ExitCode, Failure> {
    match &cli.command {
        Command::Version => return print(&format!("crawlforge {}", proto::VERSION)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "crawlforge", &mut script);
            return print(String::from_utf8_lossy(&script).trim_end());
        }
        _ => {}
    }
    let settings = cli
        .settings
        .clone()
        .with_file()
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let is_watched = !matches!(
        cli.command,
        Command::Mcp | Command::Serve | Command::Gateway | Command::Coordinator | Command::Worker
    );
    telemetry::log(&settings, is_watched).map_err(Failure::Usage)?;
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for unknown in Settings::unknown_variables(names) {
        tracing::warn!(variable = unknown, "an unknown variable is ignored");
    }
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| Failure::Failed("cannot set up TLS".into()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(execute(cli.command, settings));
    end(runtime);
    code
}

/// Tasks that still block, such as a read of stdin, do not keep the process alive.
fn end(runtime: Runtime) {
    runtime.shutdown_background();
}

async fn execute(command: Command, settings: Settings) -> Result<ExitCode, Failure> {
    match command {
        Command::Mcp => roles::mcp(&settings).await,
        Command::Serve => roles::serve(&settings, "serve").await,
        Command::Gateway => roles::gateway(&settings).await,
        Command::Coordinator => roles::coordinator(&settings).await,
        Command::Worker => roles::worker(&settings).await,
        Command::Crawl(args) => crawl::crawl(&settings, args).await,
        Command::Scrape(args) => page::scrape(&settings, args).await,
        Command::Map(args) => page::map(&settings, args).await,
        Command::Status { id: Some(id), json } => sessions::status(&settings, &id, json).await,
        Command::Status { id: None, json } | Command::List { json } => {
            sessions::list(&settings, json).await
        }
        Command::Cancel { id } => sessions::control(&settings, &id, Order::Cancel).await,
        Command::Pause { id } => sessions::control(&settings, &id, Order::Pause).await,
        Command::Resume(args) => crawl::resume(&settings, args).await,
        Command::Export { id, output } => crawl::export(&settings, &id, &output).await,
        Command::Host { url, json } => host::host(&settings, &url, json).await,
        Command::Version | Command::Completions { .. } => Ok(ExitCode::SUCCESS),
    }
}

/// Prints data; a reader that has gone away is no failure.
pub(crate) fn print(text: &str) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(error) => Err(Failure::Failed(format!("cannot write to stdout: {error}"))),
    }
}

/// Cancelled when the process is asked to end (Ctrl-C or SIGTERM).
pub(crate) fn stop_signal() -> Result<CancellationToken, Failure> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        told.cancel();
        // A second request ends the process at once: everything acknowledged is kept already.
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(i32::from(crate::summary::PARTIAL));
    });
    Ok(stop)
}
