// @generated from specs/tools/catalog/ by `cargo codegen write`. Do not edit.

//! The handlers of `specs/tools/catalog/`.

pub(crate) mod mcp_prompt_get;
pub(crate) mod mcp_prompts_list;
pub(crate) mod mcp_resources_list;
pub(crate) mod mcp_resources_read;
pub(crate) mod mcp_task_cancel;
pub(crate) mod mcp_task_get;
pub(crate) mod mcp_task_list;
pub(crate) mod read_artifact;
pub(crate) mod tool_search;
