//! The suite's prompts.

use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ContentBlock, PromptMessage, ResourceContents, Role};
use rmcp::{prompt, prompt_router, schemars};

use super::{Fixtures, PNG};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Two {
    arg1: String,
    arg2: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Address {
    #[serde(rename = "resourceUri")]
    resource_uri: String,
}

#[prompt_router(router = "suite_prompts", vis = "pub(super)")]
impl Fixtures {
    #[prompt(description = "No arguments")]
    async fn test_simple_prompt(&self) -> Vec<PromptMessage> {
        let said = "This is a simple prompt for testing.";
        vec![PromptMessage::new_text(Role::User, said)]
    }

    #[prompt(description = "Two arguments")]
    async fn test_prompt_with_arguments(
        &self,
        Parameters(given): Parameters<Two>,
    ) -> Vec<PromptMessage> {
        let (arg1, arg2) = (given.arg1, given.arg2);
        let said = format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'");
        vec![PromptMessage::new_text(Role::User, said)]
    }

    #[prompt(description = "An embedded resource")]
    async fn test_prompt_with_embedded_resource(
        &self,
        Parameters(given): Parameters<Address>,
    ) -> Vec<PromptMessage> {
        let said = "Embedded resource content for testing.";
        let body = ResourceContents::text(said, given.resource_uri);
        vec![
            PromptMessage::new(Role::User, ContentBlock::resource(body)),
            PromptMessage::new_text(Role::User, "Please process the embedded resource above."),
        ]
    }

    #[prompt(description = "An image")]
    async fn test_prompt_with_image(&self) -> Vec<PromptMessage> {
        let image = ContentBlock::image(PNG, "image/png");
        vec![
            PromptMessage::new(Role::User, image),
            PromptMessage::new_text(Role::User, "Please analyze the image above."),
        ]
    }
}
