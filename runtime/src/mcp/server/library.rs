//! What a client can read here beside tools: the catalogue and each tool's reference as resources, each role as a prompt.
//!
//! Answers for names, addresses and texts; everything is made of what the program knows already. Leaves out upstream
//! servers' resources and prompts, which tools of the catalogue reach.

use std::sync::Arc;

use devloop_core::registry::{Definition, reference};
use devloop_core::text;
use devloop_generated::AGENTS;
use rmcp::model::{
    ErrorData, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, Prompt,
    PromptMessage, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role,
};
use serde_json::json;

use super::answer::shortened;

/// The whole catalogue.
const CATALOGUE: &str = "devloop://catalogue";

/// Before the name of a tool.
const TOOLS: &str = "devloop://tools/";

const MARKDOWN: &str = "text/markdown";

pub(super) fn resources(tools: &[Arc<Definition>]) -> ListResourcesResult {
    let catalogue = Resource::new(CATALOGUE, "catalogue")
        .with_title("Tool catalogue")
        .with_description("Every tool of this session with its summary, by category.")
        .with_mime_type(MARKDOWN);
    let each = tools.iter().map(|tool| {
        Resource::new(format!("{TOOLS}{}", tool.name), tool.name.clone())
            .with_title(format!("Reference of {}", tool.name))
            .with_description(tool.summary.clone())
            .with_mime_type(MARKDOWN)
    });
    ListResourcesResult::with_all_items(std::iter::once(catalogue).chain(each).collect())
}

pub(super) fn templates() -> ListResourceTemplatesResult {
    let tool = ResourceTemplate::new(format!("{TOOLS}{{name}}"), "tool-reference")
        .with_title("Reference of a tool")
        .with_description("Input, output, failures, effects and examples of one tool.")
        .with_mime_type(MARKDOWN);
    ListResourceTemplatesResult::with_all_items(vec![tool])
}

/// # Errors
/// There is no such resource; the nearest are named.
pub(super) fn read(uri: &str, tools: &[Arc<Definition>]) -> Result<ReadResourceResult, ErrorData> {
    let page = if uri == CATALOGUE {
        Some(reference::catalogue(tools))
    } else {
        let name = uri.strip_prefix(TOOLS);
        let tool = name.and_then(|name| tools.iter().find(|tool| tool.names().any(|known| known == name)));
        tool.map(|tool| reference::page(tool))
    };
    let Some(page) = page else {
        let known = tools.iter().map(|tool| format!("{TOOLS}{}", tool.name));
        let known: Vec<String> = known.chain([CATALOGUE.to_owned()]).collect();
        let nearest = text::nearest(uri, known.iter().map(String::as_str), 3);
        return Err(ErrorData::resource_not_found(
            format!(
                "there is no resource {:?}; `resources/list` has all",
                shortened(uri, 200)
            ),
            Some(json!({ "uri": shortened(uri, 200), "nearest": nearest })),
        ));
    };
    let contents = ResourceContents::text(page, uri).with_mime_type(MARKDOWN);
    Ok(ReadResourceResult::new(vec![contents]))
}

pub(super) fn prompts() -> ListPromptsResult {
    let prompts = AGENTS.iter().map(|agent| {
        Prompt::new(agent.name, Some(agent.summary), None).with_title(format!("The role of the {}", agent.title))
    });
    ListPromptsResult::with_all_items(prompts.collect())
}

/// # Errors
/// There is no such role.
pub(super) fn prompt(name: &str) -> Result<GetPromptResult, ErrorData> {
    let agent = AGENTS.iter().find(|agent| agent.name == name || agent.id == name);
    let Some(agent) = agent else {
        let known: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        return Err(ErrorData::invalid_params(
            format!(
                "there is no prompt {:?}; there are {}",
                shortened(name, 64),
                known.join(", ")
            ),
            Some(json!({ "name": shortened(name, 64), "prompts": known })),
        ));
    };
    let message = PromptMessage::new_text(Role::User, agent.prompt);
    Ok(GetPromptResult::new(vec![message]).with_description(agent.summary))
}
