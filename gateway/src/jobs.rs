//! Sessions as tasks of the tasks extension: the task's id is the session's, its state is the session's.
//!
//! Nothing is kept here, so a task survives the gateway that answered with it and can be asked for at any other.

use std::time::Duration;

use proto::v1::control_request::Order;
use proto::v1::{SessionKind, SessionState, SessionStatus};
use proto::{ErrorCode, Refusal, SessionId, Timestamp};
use rmcp::model::{DetailedTask, JsonObject, Task, TaskPayload, TaskStatus};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::Shared;
use crate::args::Args;
use crate::error::{Fault, Invalid, internal};
use crate::reading::Reading;
use crate::running::Running;
use crate::tools::{self, Call};
use crate::{reply, wait};

/// What a client is told to wait between two looks.
const POLL_MILLIS: u64 = 1_000;

/// Whether this client takes a task for an answer. Clients that open with `initialize` declare the extension too, and
/// then fail at a result without `content`.
pub(crate) fn may_be_task(context: &RequestContext<RoleServer>) -> bool {
    let takes = context
        .client_capabilities()
        .is_some_and(|known| known.supports_tasks());
    let is_modern = context
        .protocol_version()
        .is_some_and(|version| !version.has_initialize());
    takes && is_modern
}

/// How a session stands, as a task.
pub(crate) fn task(status: &SessionStatus) -> Task {
    let at = |millis: u64| Timestamp::from_millis(millis).rfc3339();
    let changed = status.updated_at_millis.max(status.started_at_millis);
    let state = match status.state() {
        SessionState::Cancelled => TaskStatus::Cancelled,
        _ if wait::is_over(status) => TaskStatus::Completed,
        _ => TaskStatus::Working,
    };
    let mut message = tools::sentence(status);
    if status.state() == SessionState::Paused {
        message.push_str(" crawl_control with action resume goes on with it.");
    }
    let task = Task::new(
        &status.session_id,
        state,
        at(status.started_at_millis),
        at(changed),
    )
    .with_status_message(message)
    .with_poll_interval_ms(POLL_MILLIS);
    match status.expires_at_millis {
        0 => task,
        expires => task.with_ttl_ms(expires.saturating_sub(status.started_at_millis)),
    }
}

fn refused(id: &str, refusal: Refusal) -> ErrorData {
    match refusal.code {
        ErrorCode::NotFound | ErrorCode::Forbidden => {
            Invalid::new("taskId", "is not a task of yours", &json!(id)).into()
        }
        ErrorCode::InvalidArgument
        | ErrorCode::WrongState
        | ErrorCode::Busy
        | ErrorCode::Unavailable
        | ErrorCode::Timeout
        | ErrorCode::StoreFailed
        | ErrorCode::Internal => internal(refusal.message),
    }
}

/// The session behind a task's id.
async fn status(shared: &Shared, id: &str) -> Result<SessionStatus, ErrorData> {
    if id.parse::<SessionId>().is_err() {
        let unknown = Refusal::new(ErrorCode::NotFound, "no session id");
        return Err(refused(id, unknown));
    }
    let status = shared.sessions.status(id, Duration::ZERO).await;
    status.map_err(|refusal| refused(id, refusal))
}

/// A task with, at its end, the answer that the call would have had.
pub(crate) async fn get(
    shared: &Shared,
    running: &Running,
    id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<DetailedTask, ErrorData> {
    let status = status(shared, id).await?;
    let task = task(&status);
    let payload = match task.status {
        TaskStatus::Completed => {
            let result = result(shared, running, &status, context).await;
            TaskPayload::Completed { result: result? }
        }
        TaskStatus::Cancelled => TaskPayload::Cancelled,
        _ => TaskPayload::Working,
    };
    Ok(DetailedTask::new(task, payload))
}

async fn result(
    shared: &Shared,
    running: &Running,
    status: &SessionStatus,
    context: &RequestContext<RoleServer>,
) -> Result<JsonObject, ErrorData> {
    let spec = status.spec.clone().unwrap_or_default();
    let reading = Reading::parse(&spec.format);
    let call = Call {
        shared,
        args: Args::of(&[("max_tokens", reading.max_tokens), ("limit", reading.limit)]),
        context,
        running,
    };
    let answer = match status.kind() {
        SessionKind::Map => tools::map::urls_of(&call, status, "", reading.search.as_deref()).await,
        SessionKind::Batch => tools::batch::all_of(&call, status, &spec.seeds, &reading).await,
        SessionKind::Crawl if reading.is_llms() => {
            tools::llms::written(&call, status, &reading.formats.concat()).await
        }
        SessionKind::Crawl | SessionKind::Scrape | SessionKind::Unspecified => {
            tools::results::pages_of(&call, status, &reading.format(), "", None).await
        }
    };
    let result = match answer {
        Ok(answer) => reply::told(answer.charged(status.pages), 0),
        Err(Fault::Invalid(invalid)) => return Err(invalid.into()),
        Err(Fault::Internal(message)) => return Err(internal(message)),
        Err(Fault::Failed(failure)) => return Err(internal(failure.text())),
        Err(Fault::Cancelled) => return Err(internal("the call was cancelled")),
    };
    match serde_json::to_value(result) {
        Ok(Value::Object(result)) => Ok(result),
        Ok(_) => Err(internal("a result is no object")),
        Err(error) => Err(internal(error.to_string())),
    }
}

/// Cancels the session. One that has ended stays as it is.
pub(crate) async fn cancel(shared: &Shared, id: &str) -> Result<(), ErrorData> {
    let status = status(shared, id).await?;
    if wait::is_over(&status) {
        return Ok(());
    }
    match shared.sessions.control(id, Order::Cancel).await {
        Ok(_) => Ok(()),
        // It ended in the meantime.
        Err(refusal) if refusal.code == ErrorCode::WrongState => Ok(()),
        Err(refusal) => Err(refused(id, refusal)),
    }
}

/// Takes answers to questions; a session asks none, so they are of no use and no harm.
pub(crate) async fn update(shared: &Shared, id: &str) -> Result<(), ErrorData> {
    status(shared, id).await.map(|_| ())
}
