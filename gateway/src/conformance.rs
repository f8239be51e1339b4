//! Fixtures that the official conformance suite calls by name; built only with the feature `conformance`, never shipped.
//!
//! [`Fixtures`] wraps the product's own handler: it answers the names of the suite itself and hands everything else on, so
//! that the suite runs against the transport, the lists and the error table that are shipped.

#![allow(deprecated, reason = "the suite asks for what older clients use")]

mod content;
mod input;
mod jobs;
mod old;
mod prompts;

use std::sync::Arc;
use std::time::Duration;

use rmcp::handler::server::prompt::PromptContext;
use rmcp::handler::server::router::prompt::PromptRouter;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CancelledNotificationParam, CompleteRequestParams, CompleteResult, ContentBlock,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, InputRequiredResult,
    JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Reference, Resource, ResourceContents, ResourceTemplate, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

use crate::Shared;
use crate::server::Connection;

type ToolAnswer = Result<CallToolResponse, ErrorData>;

/// The product's handler with the suite's fixtures in front.
#[derive(Clone)]
pub(crate) struct Fixtures {
    inner: Connection,
    tasks: TaskManager,
    tools: ToolRouter<Self>,
    prompts: PromptRouter<Self>,
}

/// A maker of handlers that share their tasks.
pub(crate) fn with_fixtures(
    shared: Arc<Shared>,
) -> impl Fn() -> Result<Fixtures, std::io::Error> + Send + Sync + 'static {
    let tasks = TaskManager::new();
    let tools = Fixtures::content_tools()
        + Fixtures::old_tools()
        + Fixtures::input_tools()
        + Fixtures::job_tools();
    let prompts = Fixtures::suite_prompts();
    move || {
        Ok(Fixtures {
            inner: Connection::new(shared.clone()),
            tasks: tasks.clone(),
            tools: tools.clone(),
            prompts: prompts.clone(),
        })
    }
}

const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const PAUSE: Duration = Duration::from_millis(50);

fn text(said: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(said)])
}

fn done(said: impl Into<String>) -> ToolAnswer {
    Ok(text(said).into())
}

/// A form to be filled in, all of its fields required.
fn form(message: &str, properties: &Value) -> Value {
    let fields = properties.as_object().into_iter().flatten();
    let required: Vec<&String> = fields.map(|(name, _)| name).collect();
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message,
        "requestedSchema": { "type": "object", "properties": properties, "required": required } } })
}

fn ask_name() -> Value {
    form(
        "What is your name?",
        &json!({ "name": { "type": "string" } }),
    )
}

fn malformed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// What the client is still asked for.
fn need(requests: Value, state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    let requests = serde_json::from_value(requests).map_err(malformed)?;
    Ok(InputRequiredResult::new(Some(requests), state))
}

fn is_fixture(uri: &str) -> bool {
    uri.starts_with("test://")
}

fn resources() -> Vec<Resource> {
    vec![
        Resource::new("test://static-text", "static-text").with_mime_type("text/plain"),
        Resource::new("test://static-binary", "static-binary").with_mime_type("image/png"),
    ]
}

fn resource(uri: &str) -> Option<ResourceContents> {
    Some(match uri {
        "test://static-text" => {
            ResourceContents::text("This is the content of the static text resource.", uri)
        }
        "test://static-binary" => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        _ => {
            let id = uri
                .strip_prefix("test://template/")?
                .strip_suffix("/data")?;
            let body =
                json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
            ResourceContents::text(body.to_string(), uri).with_mime_type("application/json")
        }
    })
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.inner.get_info();
        info.capabilities.logging = Some(JsonObject::default());
        info.capabilities = info.capabilities.clone();
        info
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if context
            .protocol_version()
            .is_some_and(|v| !v.has_initialize())
        {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.inner.list_tools(request, context).await?;
        let mut tools = self.tools.list_all();
        tools.append(&mut listed.tools);
        listed.tools = tools;
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let fixture = self.tools.get(name).cloned();
        fixture.or_else(|| self.inner.get_tool(name))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> ToolAnswer {
        if self.tools.has_route(&request.name) {
            let call = ToolCallContext::new(self, request, context);
            return self.tools.call(call).await;
        }
        self.inner.call_tool(request, context).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut listed = self.inner.list_prompts(request, context).await?;
        listed.prompts.extend(self.prompts.list_all());
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if let Some(answer) = input::prompt(&request)? {
            return Ok(answer);
        }
        if self.prompts.has_route(&request.name) {
            let call = PromptContext::new(self, request.name, request.arguments, context);
            return self.prompts.get_prompt(call).await;
        }
        self.inner.get_prompt(request, context).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        if let Reference::Prompt(prompt) = &request.r#ref
            && self.prompts.has_route(&prompt.name)
        {
            return Ok(CompleteResult::default());
        }
        self.inner.complete(request, context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let is_first = request
            .as_ref()
            .is_none_or(|request| request.cursor.is_none());
        let mut listed = self.inner.list_resources(request, context).await?;
        if is_first {
            listed.resources.extend(resources());
        }
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self.inner.list_resource_templates(request, context).await?;
        let template = ResourceTemplate::new("test://template/{id}/data", "template");
        listed.resource_templates.push(template);
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if let Some(contents) = resource(&request.uri) {
            return Ok(ReadResourceResult::new(vec![contents]).into());
        }
        self.inner.read_resource(request, context).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.inner.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.inner.listen(context).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_fixture(&request.uri) {
            return Ok(());
        }
        self.inner.subscribe(request, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.inner.unsubscribe(request, context).await
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        self.inner.on_cancelled(notification, context).await;
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        match self.tasks.get_task(&request.task_id) {
            Ok(task) => Ok(GetTaskResult::new(task)),
            Err(_) => self.inner.get_task(request, context).await,
        }
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.tasks.get_task(&request.task_id).is_ok() {
            return self
                .tasks
                .update_task(&request.task_id, request.input_responses);
        }
        self.inner.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.tasks.get_task(&request.task_id).is_ok() {
            return self.tasks.cancel_task(&request.task_id);
        }
        self.inner.cancel_task(request, context).await
    }
}
