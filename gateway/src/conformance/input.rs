//! Answers that ask first: round trips of input requests, with and without sealed state.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use rmcp::handler::server::tool::{InputResponses, RequestState};
use rmcp::model::{
    ClientCapabilities, GetPromptRequestParams, GetPromptResponse, GetPromptResult, PromptMessage,
    RequestStateCodec, Role, SealOptions,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, tool, tool_router};
use serde_json::{Map, Value, json};

use super::{Fixtures, ToolAnswer, ask_name, done, form, need};

/// A key of this process; what it sealed does not outlive it.
static SEAL: LazyLock<Option<RequestStateCodec>> = LazyLock::new(|| {
    let key: [u8; 32] = rand::random();
    RequestStateCodec::try_new(key).ok()
});

fn codec() -> Result<&'static RequestStateCodec, ErrorData> {
    SEAL.as_ref()
        .ok_or_else(|| ErrorData::internal_error("no key", None))
}

fn seal(step: &str, tool: &str) -> Result<String, ErrorData> {
    let options = SealOptions::new()
        .associated_data(tool.as_bytes())
        .ttl(Duration::from_secs(300));
    Ok(codec()?.seal_with(step.as_bytes(), &options))
}

fn open(state: Option<&str>, tool: &str) -> Result<Option<String>, ErrorData> {
    let Some(state) = state else { return Ok(None) };
    let bytes = codec()?.open_with(state, tool.as_bytes()).map_err(|why| {
        ErrorData::invalid_params(format!("requestState is refused: {why}"), None)
    })?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

pub(super) fn sample(prompt: &str) -> Value {
    json!({ "method": "sampling/createMessage", "params": { "maxTokens": 100,
        "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }] } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

type Given = Option<BTreeMap<String, Value>>;

fn accepted<'a>(given: &'a Given, key: &str, field: &str) -> Option<&'a Value> {
    given.as_ref()?.get(key)?.get("content")?.get(field)
}

fn ask(requests: Value, state: Option<String>) -> ToolAnswer {
    Ok(need(requests, state)?.into())
}

/// The one prompt that asks first.
pub(super) fn prompt(
    request: &GetPromptRequestParams,
) -> Result<Option<GetPromptResponse>, ErrorData> {
    if request.name != "test_input_required_result_prompt" {
        return Ok(None);
    }
    let answer = match accepted(&request.input_responses, "user_context", "context") {
        Some(context) => {
            let message = PromptMessage::new_text(Role::User, format!("Use {context}"));
            GetPromptResult::new(vec![message]).into()
        }
        None => {
            let fields = json!({ "context": { "type": "string" } });
            let form = form("What context should the prompt use?", &fields);
            need(json!({ "user_context": form }), None)?.into()
        }
    };
    Ok(Some(answer))
}

#[tool_router(router = input_tools, vis = "pub(super)")]
impl Fixtures {
    #[tool(description = "Needs the sampling capability")]
    #[allow(deprecated, reason = "the suite asks for sampling")]
    async fn test_missing_capability(&self, context: RequestContext<RoleServer>) -> ToolAnswer {
        let known = context.client_capabilities();
        if known.is_some_and(|known| known.sampling.is_some()) {
            return done("ok");
        }
        let wanted = ClientCapabilities::builder().enable_sampling().build();
        Err(ErrorData::missing_required_client_capability(wanted))
    }

    #[tool(description = "Asks in its result, never as a request")]
    async fn test_streaming_elicitation(&self) -> ToolAnswer {
        ask(json!({ "user_name": ask_name() }), None)
    }

    #[tool(description = "Asks the user")]
    async fn test_input_required_result_elicitation(
        &self,
        InputResponses(given): InputResponses,
    ) -> ToolAnswer {
        match accepted(&given, "user_name", "name").and_then(Value::as_str) {
            Some(name) => done(format!("Hello, {name}!")),
            None => ask(json!({ "user_name": ask_name() }), None),
        }
    }

    #[tool(description = "Asks the client's model")]
    async fn test_input_required_result_sampling(
        &self,
        InputResponses(given): InputResponses,
    ) -> ToolAnswer {
        match given
            .as_ref()
            .and_then(|given| given.get("capital_question"))
        {
            Some(answer) => done(answer["content"]["text"].as_str().unwrap_or_default()),
            None => ask(
                json!({ "capital_question": sample("What is the capital of France?") }),
                None,
            ),
        }
    }

    #[tool(description = "Asks for the client's roots")]
    async fn test_input_required_result_list_roots(
        &self,
        InputResponses(given): InputResponses,
    ) -> ToolAnswer {
        match given.as_ref().and_then(|given| given.get("client_roots")) {
            Some(answer) => done(answer["roots"].to_string()),
            None => ask(json!({ "client_roots": roots() }), None),
        }
    }

    #[tool(description = "Seals its state")]
    async fn test_input_required_result_request_state(
        &self,
        InputResponses(given): InputResponses,
        RequestState(state): RequestState,
    ) -> ToolAnswer {
        let tool = "request_state";
        let state = open(state.as_deref(), tool)?;
        if state.is_some() && accepted(&given, "confirm", "ok").is_some() {
            return done("state-ok");
        }
        let form = form("Please confirm", &json!({ "ok": { "type": "boolean" } }));
        ask(json!({ "confirm": form }), Some(seal("1", tool)?))
    }

    #[tool(description = "Refuses a state that was changed")]
    async fn test_input_required_result_tampered_state(
        &self,
        given: InputResponses,
        state: RequestState,
    ) -> ToolAnswer {
        self.test_input_required_result_request_state(given, state)
            .await
    }

    #[tool(description = "Asks for three things at once")]
    async fn test_input_required_result_multiple_inputs(
        &self,
        InputResponses(given): InputResponses,
        RequestState(state): RequestState,
    ) -> ToolAnswer {
        let tool = "multiple_inputs";
        let wanted = ["user_name", "greeting", "client_roots"];
        let is_complete = given
            .as_ref()
            .is_some_and(|given| wanted.iter().all(|key| given.contains_key(*key)));
        if open(state.as_deref(), tool)?.is_some() && is_complete {
            return done("all there");
        }
        let requests = json!({ "user_name": ask_name(), "greeting": sample("Generate a greeting"),
            "client_roots": roots() });
        ask(requests, Some(seal("1", tool)?))
    }

    #[tool(description = "Asks twice")]
    async fn test_input_required_result_multi_round(
        &self,
        InputResponses(given): InputResponses,
        RequestState(state): RequestState,
    ) -> ToolAnswer {
        let tool = "multi_round";
        let name = accepted(&given, "step1", "name").and_then(Value::as_str);
        let has_colour = accepted(&given, "step2", "color").is_some();
        match (open(state.as_deref(), tool)?.as_deref(), name) {
            (Some("1"), Some(name)) => {
                let fields = json!({ "color": { "type": "string" } });
                let form = form("Step 2: What is your favorite color?", &fields);
                ask(
                    json!({ "step2": form }),
                    Some(seal(&format!("2:{name}"), tool)?),
                )
            }
            (Some(at), _) if at.starts_with("2:") && has_colour => {
                done(format!("done {}", at.trim_start_matches("2:")))
            }
            _ => {
                let fields = json!({ "name": { "type": "string" } });
                let form = form("Step 1: What is your name?", &fields);
                ask(json!({ "step1": form }), Some(seal("1", tool)?))
            }
        }
    }

    #[tool(description = "Asks only for what the client can do")]
    #[allow(deprecated, reason = "the suite asks for sampling")]
    async fn test_input_required_result_capabilities(
        &self,
        context: RequestContext<RoleServer>,
    ) -> ToolAnswer {
        let known = context.client_capabilities().unwrap_or_default();
        let mut requests = Map::new();
        if known.elicitation.is_some() {
            requests.insert("user_name".into(), ask_name());
        }
        if known.sampling.is_some() {
            let question = sample("What is the capital of France?");
            requests.insert("capital_question".into(), question);
        }
        if requests.is_empty() {
            return done("nothing to ask");
        }
        ask(Value::Object(requests), None)
    }
}
