//! What only clients that open with `initialize` reach: logging, requests from server to client.
#![allow(deprecated, reason = "the suite asks for what older clients use")]

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, schemars, tool, tool_router};
use serde_json::{Value, json};

use super::{Fixtures, PAUSE, ToolAnswer, done, form, malformed};

#[derive(Default, serde::Deserialize, schemars::JsonSchema)]
#[serde(default)]
struct Words {
    prompt: String,
    message: String,
}

async fn log(context: &RequestContext<RoleServer>, level: LoggingLevel, line: &str) {
    let note = LoggingMessageNotificationParam::new(level, json!(line));
    if let Err(error) = context.peer.notify_logging_message(note).await {
        tracing::debug!(%error, "a line could not be told");
    }
}

/// The message of a client's request method, with what it answered.
async fn elicit(context: &RequestContext<RoleServer>, mut request: Value) -> ToolAnswer {
    let params = serde_json::from_value(request["params"].take()).map_err(malformed)?;
    let answer = context.peer.create_elicitation(params).await;
    let answer = serde_json::to_string(&answer.map_err(malformed)?).map_err(malformed)?;
    done(format!("User response: {answer}"))
}

#[tool_router(router = old_tools, vis = "pub(super)")]
impl Fixtures {
    #[tool(description = "Three lines of log")]
    async fn test_tool_with_logging(&self, context: RequestContext<RoleServer>) -> ToolAnswer {
        for line in [
            "Tool execution started",
            "Tool processing data",
            "Tool execution completed",
        ] {
            log(&context, LoggingLevel::Info, line).await;
            tokio::time::sleep(PAUSE).await;
        }
        done("logged")
    }

    #[tool(description = "Logs only when the request asks for it")]
    async fn test_logging_tool(&self, context: RequestContext<RoleServer>) -> ToolAnswer {
        if let Some(level) = context.meta.log_level() {
            log(&context, level, "asked for").await;
        }
        done("logged")
    }

    #[tool(description = "Asks the client's model")]
    async fn test_sampling(
        &self,
        Parameters(given): Parameters<Words>,
        context: RequestContext<RoleServer>,
    ) -> ToolAnswer {
        let params = super::input::sample(&given.prompt)["params"].take();
        let params = serde_json::from_value(params).map_err(malformed)?;
        let answer = context
            .peer
            .create_message(params)
            .await
            .map_err(malformed)?;
        let answer = serde_json::to_string(&answer).map_err(malformed)?;
        done(format!("LLM response: {answer}"))
    }

    #[tool(description = "Asks the user")]
    async fn test_elicitation(
        &self,
        Parameters(given): Parameters<Words>,
        context: RequestContext<RoleServer>,
    ) -> ToolAnswer {
        let fields = json!({ "username": { "type": "string" }, "email": { "type": "string" } });
        elicit(&context, form(&given.message, &fields)).await
    }

    #[tool(description = "Asks the user, with defaults")]
    async fn test_elicitation_sep1034_defaults(
        &self,
        context: RequestContext<RoleServer>,
    ) -> ToolAnswer {
        let fields = json!({
            "name": { "type": "string", "default": "John Doe" },
            "age": { "type": "integer", "default": 30 },
            "score": { "type": "number", "default": 95.5 },
            "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
            "verified": { "type": "boolean", "default": true },
        });
        elicit(&context, form("Check the defaults", &fields)).await
    }

    #[tool(description = "Asks the user, with choices")]
    async fn test_elicitation_sep1330_enums(
        &self,
        context: RequestContext<RoleServer>,
    ) -> ToolAnswer {
        let titled = json!([{ "const": "value1", "title": "First" }, { "const": "value2", "title": "Second" },
            { "const": "value3", "title": "Third" }]);
        let plain = json!(["option1", "option2", "option3"]);
        let fields = json!({
            "untitledSingle": { "type": "string", "enum": plain },
            "titledSingle": { "type": "string", "oneOf": titled },
            "legacyEnum": { "type": "string", "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"] },
            "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
            "titledMulti": { "type": "array", "items": { "anyOf": titled } },
        });
        elicit(&context, form("Pick", &fields)).await
    }
}
