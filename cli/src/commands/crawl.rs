//! `crawl`, `resume` and `export`: one session from its seeds to a folder.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use proto::v1::control_request::Order;
use proto::v1::{
    Budget, FetchOptions, Revisit, Scope, SessionKind, SessionSpec, SessionState, SessionStatus,
    SitemapUse, Strategy, UrlRules, WalkOrder, scope,
};
use proto::{Clock, CrawlUrl, SessionId};
use tokio_util::sync::CancellationToken;

use super::{Failure, print, stop_signal};
use crate::args::{CrawlArgs, OutputArgs, Reach, ResumeArgs, Sitemap, Walk};
use crate::door::{Door, Use};
use crate::exporter::Exporter;
use crate::progress::{Progress, say};
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::summary::{self, PARTIAL};

/// Most seeds whose ends are told one by one.
const SEEDS_TOLD: usize = 20;
/// How long to wait before a broken watch is taken up again.
const WATCH_AGAIN: Duration = Duration::from_millis(200);

pub(super) async fn crawl(settings: &Settings, args: CrawlArgs) -> Result<ExitCode, Failure> {
    let seeds = seeds(&args)?;
    if args.query.is_some() && args.order != Walk::Best {
        return Err(Failure::Usage("--query needs --order best".into()));
    }
    let revisit = match &args.revisit {
        Some(id) => Some(Revisit {
            session_id: session_id(id)?,
            only_due: args.only_due,
        }),
        None => None,
    };
    let spec = SessionSpec {
        revisit,
        ..spec(&args, &seeds)
    };
    if let Some(folder) = &args.output.output {
        Exporter::new(folder, args.output.format, "")
            .map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let stop = stop_signal()?;
    let door = Door::open(settings, Clock::start(), Use::Work)
        .await
        .map_err(Failure::Failed)?;
    let sessions = Sessions::new(door.channel());
    let code = match sessions.start(spec).await {
        Ok(status) => {
            let run = Run {
                sessions: &sessions,
                output: &args.output,
                json: args.json,
                stop,
            };
            run.follow(status).await
        }
        Err(refusal) => Err(Failure::Failed(refusal.message)),
    };
    door.close().await;
    code
}

pub(super) async fn resume(settings: &Settings, args: ResumeArgs) -> Result<ExitCode, Failure> {
    let id = session_id(&args.id)?;
    let stop = stop_signal()?;
    let door = Door::open(settings, Clock::start(), Use::Work)
        .await
        .map_err(Failure::Failed)?;
    let sessions = Sessions::new(door.channel());
    let code = match resumed(&sessions, &id).await {
        Ok(status) => {
            let run = Run {
                sessions: &sessions,
                output: &args.output,
                json: args.json,
                stop,
            };
            run.follow(status).await
        }
        Err(refusal) => Err(Failure::Failed(refusal.message)),
    };
    door.close().await;
    code
}

async fn resumed(sessions: &Sessions, id: &str) -> Result<SessionStatus, proto::Refusal> {
    let status = sessions.status(id).await?;
    if status.state() == SessionState::Paused {
        return sessions.control(id, Order::Resume).await;
    }
    Ok(status)
}

pub(super) async fn export(
    settings: &Settings,
    id: &str,
    output: &OutputArgs,
) -> Result<ExitCode, Failure> {
    let id = session_id(id)?;
    let Some(folder) = &output.output else {
        return Err(Failure::Usage("export needs --output DIR".into()));
    };
    let door = Door::open(settings, Clock::start(), Use::Look)
        .await
        .map_err(Failure::Failed)?;
    let sessions = Sessions::new(door.channel());
    let written = write_all(&sessions, &id, folder, output).await;
    door.close().await;
    if written? {
        say(&format!("written to {}", folder.display()));
    } else {
        say("the session holds no page; nothing was written");
    }
    Ok(ExitCode::SUCCESS)
}

async fn write_all(
    sessions: &Sessions,
    id: &str,
    folder: &Path,
    output: &OutputArgs,
) -> Result<bool, Failure> {
    let status = sessions.status(id).await?;
    let exporter = Exporter::new(folder, output.format, id)?;
    Ok(exporter
        .finish(sessions, &status, &summary::to_json(&status, &[]))
        .await?)
}

pub(super) fn session_id(text: &str) -> Result<String, Failure> {
    text.parse::<SessionId>()
        .map(|id| id.to_string())
        .map_err(|error| Failure::Usage(format!("{error}; `crawlforge list` shows the ids")))
}

/// A session being followed to its end.
struct Run<'a> {
    sessions: &'a Sessions,
    output: &'a OutputArgs,
    json: bool,
    stop: CancellationToken,
}

impl Run<'_> {
    async fn follow(self, status: SessionStatus) -> Result<ExitCode, Failure> {
        let id = status.session_id.clone();
        let mut exporter = match &self.output.output {
            Some(folder) => Some(Exporter::new(folder, self.output.format, &id)?),
            None => None,
        };
        let limit = status
            .spec
            .as_ref()
            .and_then(|spec| spec.budget.as_ref()?.max_pages);
        let mut progress = Progress::begin(limit.unwrap_or(0));
        let ended = self.watch(status, &mut progress, exporter.as_mut()).await;
        progress.end();
        let status = ended?;
        let dead = self.dead_seeds(&status).await?;
        let report = summary::to_json(&status, &dead);
        let mut is_written = false;
        if let Some(exporter) = exporter {
            is_written = exporter.finish(self.sessions, &status, &report).await?;
        }
        self.tell(&status, &dead, is_written);
        if self.json {
            print(&report.to_string())?;
        }
        Ok(summary::exit_code(&status, &dead))
    }

    /// Shows and writes what comes until the session ends, or until this process is asked to.
    async fn watch(
        &self,
        mut status: SessionStatus,
        progress: &mut Progress,
        mut exporter: Option<&mut Exporter>,
    ) -> Result<SessionStatus, Failure> {
        let id = status.session_id.clone();
        while !is_over(&status) {
            let mut news = self.sessions.watch(&id).await?;
            loop {
                let next = tokio::select! {
                    () = self.stop.cancelled() => return self.pause(&id).await,
                    next = news.message() => next,
                };
                match next {
                    Ok(Some(reply)) => status = reply.status.unwrap_or(status),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::debug!(%error, "the watch broke");
                        tokio::time::sleep(WATCH_AGAIN).await;
                        break;
                    }
                }
                progress.show(&status);
                if let Some(exporter) = exporter.as_deref_mut()
                    && status.pages > 0
                {
                    exporter.pull(self.sessions).await?;
                }
                if is_over(&status) {
                    break;
                }
            }
        }
        Ok(self.sessions.status(&id).await?)
    }

    async fn pause(&self, id: &str) -> Result<SessionStatus, Failure> {
        let status = self.sessions.control(id, Order::Pause).await?;
        if status.state() == SessionState::Paused {
            let folder = match &self.output.output {
                Some(folder) => format!(" --output {}", folder.display()),
                None => String::new(),
            };
            say(&format!(
                "paused; go on with: crawlforge resume {id}{folder}"
            ));
        }
        Ok(status)
    }

    async fn dead_seeds(&self, status: &SessionStatus) -> Result<Vec<summary::DeadSeed>, Failure> {
        let seeds = status
            .spec
            .as_ref()
            .map(|spec| spec.seeds.clone())
            .unwrap_or_default();
        let mut dead = Vec::new();
        for window in seeds.chunks(500) {
            let entries = self
                .sessions
                .lookup(&status.session_id, window.to_vec())
                .await?;
            dead.extend(summary::dead_seeds(&entries));
        }
        Ok(dead)
    }

    fn tell(&self, status: &SessionStatus, dead: &[summary::DeadSeed], is_written: bool) {
        for seed in dead.iter().take(SEEDS_TOLD) {
            say(&summary::sentence(&seed.url, &seed.code, &seed.detail));
        }
        if dead.len() > SEEDS_TOLD {
            say(&format!(
                "and {} more start URLs failed",
                dead.len() - SEEDS_TOLD
            ));
        }
        if status.state() == SessionState::Failed {
            return;
        }
        say(&summary::to_text(status));
        say(&format!("session {}", status.session_id));
        if let (Some(folder), true) = (&self.output.output, is_written) {
            say(&format!("written to {}", folder.display()));
        }
    }
}

fn is_over(status: &SessionStatus) -> bool {
    status.state().is_terminal() || status.state() == SessionState::Paused
}

fn seeds(args: &CrawlArgs) -> Result<Vec<String>, Failure> {
    let mut texts = args.urls.clone();
    if let Some(path) = &args.seeds {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::Usage(format!(
                "cannot read the seeds file `{}`: {error}",
                path.display()
            ))
        })?;
        let lines = text.lines().map(str::trim);
        texts.extend(
            lines
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .map(str::to_owned),
        );
    }
    if texts.is_empty() && args.revisit.is_none() {
        return Err(Failure::Usage("there is no start URL".into()));
    }
    let mut seen = BTreeSet::new();
    let mut seeds = Vec::new();
    for text in texts {
        let url = seed(&text)?;
        if seen.insert(url.clone()) {
            seeds.push(url);
        }
    }
    Ok(seeds)
}

/// Reads a start URL; the error says what a right one looks like.
pub(super) fn seed(text: &str) -> Result<String, Failure> {
    let hint = if text.contains("://") {
        ""
    } else {
        "; write it with http:// or https://"
    };
    CrawlUrl::parse(text)
        .map(|url| url.as_str().to_owned())
        .map_err(|error| Failure::Usage(format!("{error}{hint}")))
}

fn spec(args: &CrawlArgs, seeds: &[String]) -> SessionSpec {
    let reach = match args.scope {
        Reach::Domain => scope::Reach::Domain,
        Reach::Host => scope::Reach::Host,
        Reach::Prefix => scope::Reach::Prefix,
        Reach::Any => scope::Reach::Any,
    };
    let sitemap = match args.sitemap {
        Sitemap::Skip => SitemapUse::Skip,
        Sitemap::Include => SitemapUse::Include,
        Sitemap::Only => SitemapUse::Only,
    };
    let order = match args.order {
        Walk::Breadth => WalkOrder::Breadth,
        Walk::Depth => WalkOrder::Depth,
        Walk::Best => WalkOrder::Best,
        Walk::Strict => WalkOrder::Strict,
    };
    let max_time = args.max_time.map_or(0, |span| span.0.as_millis());
    let keep = if args.output.output.is_some() {
        Exporter::parts(args.output.format)
    } else {
        Vec::new()
    };
    SessionSpec {
        kind: SessionKind::Crawl.into(),
        seeds: seeds.to_vec(),
        scope: Some(Scope {
            reach: reach.into(),
            include: args.include.clone(),
            exclude: args.exclude.clone(),
        }),
        budget: Some(Budget {
            max_pages: Some(args.max_pages),
            max_depth: Some(args.max_depth),
            max_bytes: args.max_bytes.unwrap_or(0),
            max_millis: u64::try_from(max_time).unwrap_or(u64::MAX),
            max_pages_per_domain: args.max_pages_per_domain.unwrap_or(0),
        }),
        fetch: Some(FetchOptions {
            keep: keep.into_iter().map(Into::into).collect(),
            only_main_content: true,
            ..FetchOptions::default()
        }),
        sitemap: sitemap.into(),
        url_rules: Some(UrlRules {
            strip_tracking: args.strip_tracking,
            strip_session: args.strip_session,
            sort_query: args.sort_query,
            allow_traps: args.allow_traps,
            max_length: 0,
        }),
        strategy: Some(Strategy {
            order: order.into(),
            query: args.query.clone().unwrap_or_default(),
            weights: None,
            host_fair: args.host_fair,
        }),
        request_id: SessionId::random().to_string(),
        ..SessionSpec::default()
    }
}

/// Shown where a session is left before its end.
pub(super) fn partial() -> ExitCode {
    ExitCode::from(PARTIAL)
}
