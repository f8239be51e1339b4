//! How a crawl moves, on stderr: a bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use proto::v1::{SessionStatus, UrlState};
use tokio::time::Instant;

use crate::summary::count;

/// Least time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows status after status.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    max_pages: u64,
    began: Instant,
    told: Instant,
}

impl Progress {
    /// Begins to show a crawl of at most `max_pages`.
    pub(crate) fn begin(max_pages: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(max_pages);
            let style = ProgressStyle::with_template(
                "{spinner} [{elapsed_precise}] {wide_bar} {pos}/{len} pages  {msg}  ETA {eta}",
            );
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let now = Instant::now();
        Self {
            bar,
            max_pages,
            began: now,
            told: now,
        }
    }

    /// Shows where the crawl stands now.
    pub(crate) fn show(&mut self, status: &SessionStatus) {
        let queue = [
            UrlState::Queued,
            UrlState::Leased,
            UrlState::Waiting,
            UrlState::Fetched,
        ]
        .into_iter()
        .map(|state| count(status, state))
        .sum::<u64>();
        let errors = count(status, UrlState::Failed);
        let seconds = self.began.elapsed().as_secs_f64().max(0.001);
        let rate = status.pages as f64 / seconds;
        match &self.bar {
            Some(bar) => {
                let known = (status.pages + queue).max(1);
                bar.set_length(known.min(self.max_pages.max(1)));
                bar.set_position(status.pages);
                bar.set_message(format!("{rate:.1}/s  queue {queue}  errors {errors}"));
            }
            None if self.told.elapsed() >= LINE_EVERY => {
                self.told = Instant::now();
                let limit = status
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.budget.as_ref()?.max_pages);
                let left = limit
                    .unwrap_or(u64::MAX)
                    .saturating_sub(status.pages)
                    .min(queue);
                say(&format!(
                    "{} pages, {rate:.1}/s, queue {queue}, errors {errors}, ETA {:.0} s",
                    status.pages,
                    left as f64 / rate.max(0.01),
                ));
            }
            None => {}
        }
    }

    /// Clears the bar.
    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// One line for people. A closed stderr is no reason to stop.
pub(crate) fn say(line: &str) {
    let written = writeln!(std::io::stderr().lock(), "{line}");
    drop(written);
}
