//! A call's end in the shape of the wire.

use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult, MetaObject, Resource,
};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::error::{Failure, Fault, internal};

pub(crate) fn worded(
    answer: Result<Answer, Fault>,
    took_millis: u64,
) -> Result<CallToolResponse, ErrorData> {
    match answer {
        Ok(Answer {
            task: Some(task),
            session,
            ..
        }) => {
            let meta = meta(session.as_deref(), 0, took_millis);
            Ok(CallToolResponse::Task(
                CreateTaskResult::new(*task).with_meta(meta),
            ))
        }
        Ok(answer) => Ok(told(answer, took_millis).into()),
        Err(Fault::Failed(failure)) => Ok(failed(&failure, took_millis).into()),
        Err(Fault::Invalid(invalid)) => Err(invalid.into()),
        Err(Fault::Internal(message)) => Err(internal(message)),
        Err(Fault::Cancelled) => Err(internal("the call was cancelled")),
    }
}

/// An answer with its text, links and facts.
pub(crate) fn told(answer: Answer, took_millis: u64) -> CallToolResult {
    let mut content = vec![ContentBlock::text(answer.text)];
    content.extend(answer.note.map(ContentBlock::text));
    for (uri, name, size) in answer.links {
        let link = Resource::new(uri, name);
        let link = match size {
            Some(size) => link.with_size(size),
            None => link,
        };
        content.push(ContentBlock::resource_link(link));
    }
    let mut result = CallToolResult::success(content);
    result.structured_content = Some(answer.structured);
    result.meta = Some(meta(answer.session.as_deref(), answer.credits, took_millis));
    result
}

fn failed(failure: &Failure, took_millis: u64) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(failure.text())]);
    result.structured_content = Some(failure.structured());
    result.meta = Some(meta(failure.session.as_deref(), 0, took_millis));
    result
}

fn meta(session: Option<&str>, credits: u64, took_millis: u64) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.insert("credits_used".into(), json!(credits));
    meta.insert("credits_remaining".into(), Value::Null);
    meta.insert("processing_time".into(), json!(took_millis));
    meta.insert("session_id".into(), json!(session));
    meta
}
