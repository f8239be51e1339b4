//! Waiting for a session's end, with progress; the wait's end never ends the session.

use std::time::Duration;

use proto::Refusal;
use proto::v1::{SessionState, SessionStatus, UrlState};
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::time::{Instant, timeout_at};

use crate::Shared;

/// Between two progress notices.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// URLs that ended, of a status.
pub(crate) fn done(status: &SessionStatus) -> u64 {
    let ended = |state: i32| UrlState::try_from(state).is_ok_and(UrlState::is_terminal);
    status
        .counts
        .iter()
        .filter(|count| ended(count.state))
        .map(|count| count.count)
        .sum()
}

pub(crate) fn is_over(status: &SessionStatus) -> bool {
    SessionState::try_from(status.state).is_ok_and(SessionState::is_terminal)
}

/// Waits until the session ends, is paused, the time is over, the gateway closes, or the caller goes away.
pub(crate) async fn wait(
    shared: &Shared,
    first: SessionStatus,
    span: Duration,
    context: &RequestContext<RoleServer>,
) -> Result<SessionStatus, Refusal> {
    if is_over(&first) || span.is_zero() {
        return Ok(first);
    }
    let sessions = &shared.sessions;
    let deadline = Instant::now() + span;
    let mut status = first;
    let mut told = Told::default();
    loop {
        let mut changes = sessions.watch(&status.session_id).await?;
        loop {
            let change = tokio::select! {
                () = context.ct.cancelled() => return Ok(status),
                () = shared.draining.cancelled() => return Ok(status),
                change = timeout_at(deadline, changes.message()) => change,
            };
            match change {
                Err(_) => return Ok(status),
                Ok(Ok(Some(reply))) => {
                    status = reply.status.unwrap_or(status);
                    told.tell(&status, context).await;
                    if is_over(&status) || status.state() == SessionState::Paused {
                        return Ok(status);
                    }
                }
                // The stream broke or ended early: ask how things stand, then watch again.
                Ok(Ok(None) | Err(_)) => break,
            }
        }
        status = sessions.status(&status.session_id, Duration::ZERO).await?;
        if is_over(&status) || Instant::now() >= deadline {
            return Ok(status);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[derive(Default)]
struct Told {
    at: Option<Instant>,
    done: u64,
}

impl Told {
    async fn tell(&mut self, status: &SessionStatus, context: &RequestContext<RoleServer>) {
        let Some(token) = context.meta.get_progress_token() else {
            return;
        };
        let done = done(status);
        let too_soon = self.at.is_some_and(|at| at.elapsed() < PROGRESS_EVERY);
        if done <= self.done || too_soon {
            return;
        }
        self.at = Some(Instant::now());
        self.done = done;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a count for people; exact below 2^53"
        )]
        let note = ProgressNotificationParam::new(token, done as f64)
            .with_total(status.admitted.max(done) as f64)
            .with_message(format!(
                "{} pages, {done} of {} URLs done",
                status.pages, status.admitted
            ));
        // A client that went away must not end the wait's work.
        if let Err(error) = context.peer.notify_progress(note).await {
            tracing::debug!(%error, "progress could not be told");
        }
    }
}
