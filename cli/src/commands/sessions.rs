//! `status`, `list`, `cancel`, `pause`: sessions by id.

use std::process::ExitCode;

use proto::v1::SessionStatus;
use proto::v1::control_request::Order;
use proto::{Clock, Refusal, Timestamp};

use super::crawl::session_id;
use super::{Failure, print};
use crate::door::{Door, Use};
use crate::progress::say;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::summary;

pub(super) async fn status(settings: &Settings, id: &str, json: bool) -> Result<ExitCode, Failure> {
    let id = session_id(id)?;
    let door = Door::open(settings, Clock::start(), Use::Look)
        .await
        .map_err(Failure::Failed)?;
    let answer = Sessions::new(door.channel()).status(&id).await;
    door.close().await;
    let status = answer?;
    if json {
        return print(&summary::to_json(&status, &[]).to_string());
    }
    print(&format!(
        "{}\n{}",
        status.session_id,
        summary::to_text(&status)
    ))
}

pub(super) async fn list(settings: &Settings, json: bool) -> Result<ExitCode, Failure> {
    let door = Door::open(settings, Clock::start(), Use::Look)
        .await
        .map_err(Failure::Failed)?;
    let all = every(&Sessions::new(door.channel())).await;
    door.close().await;
    let lines: Vec<String> = all?
        .iter()
        .map(|status| match json {
            true => summary::to_json(status, &[]).to_string(),
            false => line(status),
        })
        .collect();
    if lines.is_empty() {
        say("there are no sessions");
        return Ok(ExitCode::SUCCESS);
    }
    print(&lines.join("\n"))
}

async fn every(sessions: &Sessions) -> Result<Vec<SessionStatus>, Refusal> {
    let mut all = Vec::new();
    let mut cursor = String::new();
    loop {
        let reply = sessions.list(cursor).await?;
        all.extend(reply.sessions);
        if reply.next_cursor.is_empty() {
            return Ok(all);
        }
        cursor = reply.next_cursor;
    }
}

fn line(status: &SessionStatus) -> String {
    let seed = status.spec.as_ref().and_then(|spec| spec.seeds.first());
    format!(
        "{}  {}  {:<7} {:<10} {:>7} pages  {}",
        status.session_id,
        Timestamp::from_millis(status.started_at_millis).rfc3339(),
        status.kind().word(),
        status.state().word(),
        status.pages,
        seed.map_or("", String::as_str),
    )
}

pub(super) async fn control(
    settings: &Settings,
    id: &str,
    order: Order,
) -> Result<ExitCode, Failure> {
    let id = session_id(id)?;
    let door = Door::open(settings, Clock::start(), Use::Look)
        .await
        .map_err(Failure::Failed)?;
    let answer = Sessions::new(door.channel()).control(&id, order).await;
    door.close().await;
    let status = answer?;
    say(&format!(
        "{} is {}",
        status.session_id,
        status.state().word()
    ));
    Ok(ExitCode::SUCCESS)
}
