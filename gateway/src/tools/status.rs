//! crawl_status and crawl_control.

use std::time::Duration;

use proto::v1::SessionStatus;
use proto::v1::control_request::Order;
use serde_json::{Value, json};

use super::Call;
use crate::answer::Answer;
use crate::error::{Fault, Invalid};
use crate::pages::{self, state_word};
use crate::wait;

const LISTED: u32 = 20;

pub(super) async fn status(call: &Call<'_>) -> Result<Answer, Fault> {
    let Some(id) = call.args.text("session_id") else {
        return list(call).await;
    };
    let span = call.args.wait(Duration::ZERO);
    let status = call.shared.sessions.status(id, Duration::ZERO).await?;
    let status = wait::wait(call.shared, status, span, call.context).await?;
    Ok(told(&status))
}

pub(super) async fn control(call: &Call<'_>) -> Result<Answer, Fault> {
    let order = match call.args.text("action") {
        Some("pause") => Order::Pause,
        Some("resume") => Order::Resume,
        Some("cancel") => Order::Cancel,
        _ => return list(call).await,
    };
    let Some(id) = call.args.text("session_id") else {
        return Err(Invalid::new("session_id", "is required for this action", &Value::Null).into());
    };
    let status = call.shared.sessions.control(id, order).await?;
    Ok(told(&status))
}

fn told(status: &SessionStatus) -> Answer {
    let structured = pages::status(status);
    let id = &status.session_id;
    let next = if wait::is_over(status) {
        "crawl_results reads its pages"
    } else {
        "ask again with wait"
    };
    let text = format!(
        "{}\nNext: {next} (session_id {id}).\n{structured}",
        sentence(status)
    );
    Answer::new(text, structured)
        .of_session(id)
        .link(format!("crawlforge://job/{id}"), "job", None)
}

/// A session in one sentence.
pub(crate) fn sentence(status: &SessionStatus) -> String {
    let (id, kind, state) = (&status.session_id, status.kind().word(), state_word(status));
    let done = wait::done(status);
    format!(
        "{kind} {id}: {state}, {} pages, {done} of {} URLs done.",
        status.pages, status.admitted
    )
}

async fn list(call: &Call<'_>) -> Result<Answer, Fault> {
    let reply = call.shared.sessions.list("", LISTED).await?;
    let mut text = format!("Your newest sessions ({}):", reply.sessions.len());
    for status in &reply.sessions {
        text.push_str(&format!("\n- {}", sentence(status)));
    }
    let sessions: Vec<_> = reply.sessions.iter().map(pages::status).collect();
    Ok(Answer::new(text, json!({ "sessions": sessions })))
}
