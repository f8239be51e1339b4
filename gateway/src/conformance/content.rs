//! Every kind of content, progress, and unusual schemas.

use std::sync::Arc;

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ProgressNotificationParam, ResourceContents,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, schemars, tool, tool_router};
use serde_json::{Value, json};

use super::{Fixtures, PAUSE, PNG, ToolAnswer, done};

const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// A parameter that the client repeats in a header.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Region {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

fn schema_2020_12() -> Arc<JsonObject> {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "$anchor": "addressDef", "type": "object",
            "properties": { "street": { "type": "string" }, "city": { "type": "string" } } } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" }, "email": { "type": "string" }
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false
    });
    match schema {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    }
}

#[tool_router(router = content_tools, vis = "pub(super)")]
impl Fixtures {
    #[tool(description = "Text")]
    async fn test_simple_text(&self) -> ToolAnswer {
        done("This is a simple text response for testing.")
    }

    #[tool(description = "Image")]
    async fn test_image_content(&self) -> CallToolResult {
        CallToolResult::success(vec![ContentBlock::image(PNG, "image/png")])
    }

    #[tool(description = "Audio")]
    async fn test_audio_content(&self) -> CallToolResult {
        CallToolResult::success(vec![ContentBlock::audio(WAV, "audio/wav")])
    }

    #[tool(description = "Embedded resource")]
    async fn test_embedded_resource(&self) -> CallToolResult {
        let said = "This is an embedded resource content.";
        let body = ResourceContents::text(said, "test://embedded-resource");
        CallToolResult::success(vec![ContentBlock::resource(body)])
    }

    #[tool(description = "Text, image and resource")]
    async fn test_multiple_content_types(&self) -> CallToolResult {
        let said = r#"{"test":"data","value":123}"#;
        let body = ResourceContents::text(said, "test://mixed-content-resource");
        CallToolResult::success(vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PNG, "image/png"),
            ContentBlock::resource(body.with_mime_type("application/json")),
        ])
    }

    #[tool(description = "A tool's own error")]
    async fn test_error_handling(&self) -> CallToolResult {
        let said = "This tool intentionally returns an error for testing";
        CallToolResult::error(vec![ContentBlock::text(said)])
    }

    #[tool(description = "Three progress notices")]
    async fn test_tool_with_progress(&self, context: RequestContext<RoleServer>) -> ToolAnswer {
        for step in [0.0, 50.0, 100.0] {
            if let Some(token) = context.meta.get_progress_token() {
                let note = ProgressNotificationParam::new(token, step).with_total(100.0);
                context
                    .peer
                    .notify_progress(note)
                    .await
                    .map_err(super::malformed)?;
            }
            tokio::time::sleep(PAUSE).await;
        }
        done("finished")
    }

    #[tool(description = "JSON Schema 2020-12", input_schema = schema_2020_12())]
    async fn json_schema_2020_12_tool(&self) -> ToolAnswer {
        done("ok")
    }

    #[tool(description = "A parameter mirrored into Mcp-Param-Region")]
    async fn test_header_param(&self, Parameters(given): Parameters<Region>) -> ToolAnswer {
        done(given.region)
    }
}
