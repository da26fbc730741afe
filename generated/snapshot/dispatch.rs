// @generated from specs/tools/ by `cargo codegen write`. Do not edit.

use std::pin::Pin;

use devloop_contract::failure::{ErasedRefusal, erase};
use devloop_contract::{Handle, Handler, Tool};
use serde_json::{Error, Value};

/// The typed input of some handler.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyInput {
    /// For `mcp_prompt_get`.
    McpPromptGet(crate::tools::catalog::mcp_prompt_get::Input),
    /// For `mcp_prompts_list`.
    McpPromptsList(crate::tools::catalog::mcp_prompts_list::Input),
    /// For `mcp_resources_list`.
    McpResourcesList(crate::tools::catalog::mcp_resources_list::Input),
    /// For `mcp_resources_read`.
    McpResourcesRead(crate::tools::catalog::mcp_resources_read::Input),
    /// For `mcp_task_cancel`.
    McpTaskCancel(crate::tools::catalog::mcp_task_cancel::Input),
    /// For `mcp_task_get`.
    McpTaskGet(crate::tools::catalog::mcp_task_get::Input),
    /// For `mcp_task_list`.
    McpTaskList(crate::tools::catalog::mcp_task_list::Input),
    /// For `read_artifact`.
    ReadArtifact(crate::tools::catalog::read_artifact::Input),
    /// For `tool_search`.
    ToolSearch(crate::tools::catalog::tool_search::Input),
    /// For `record_memory`.
    RecordMemory(crate::tools::persistence::record_memory::Input),
    /// For `timeline_append`.
    TimelineAppend(crate::tools::persistence::timeline_append::Input),
    /// For `update_runtime_state`.
    UpdateRuntimeState(crate::tools::persistence::update_runtime_state::Input),
    /// For `update_todo_item`.
    UpdateTodoItem(crate::tools::persistence::update_todo_item::Input),
    /// For `write_todolist`.
    WriteTodolist(crate::tools::persistence::write_todolist::Input),
}

impl AnyInput {
    /// Types an input that was normalised and validated, with defaults and the face's bound fields filled in.
    ///
    /// # Errors
    /// The input does not fit the type, or no handler has the tool's `handler` name.
    pub fn parse(tool: &Tool, input: &Value) -> Result<Self, Error> {
        match tool.handler {
            "mcp_prompt_get" => serde::Deserialize::deserialize(input).map(Self::McpPromptGet),
            "mcp_prompts_list" => serde::Deserialize::deserialize(input).map(Self::McpPromptsList),
            "mcp_resources_list" => serde::Deserialize::deserialize(input).map(Self::McpResourcesList),
            "mcp_resources_read" => serde::Deserialize::deserialize(input).map(Self::McpResourcesRead),
            "mcp_task_cancel" => serde::Deserialize::deserialize(input).map(Self::McpTaskCancel),
            "mcp_task_get" => serde::Deserialize::deserialize(input).map(Self::McpTaskGet),
            "mcp_task_list" => serde::Deserialize::deserialize(input).map(Self::McpTaskList),
            "read_artifact" => serde::Deserialize::deserialize(input).map(Self::ReadArtifact),
            "tool_search" => serde::Deserialize::deserialize(input).map(Self::ToolSearch),
            "record_memory" => serde::Deserialize::deserialize(input).map(Self::RecordMemory),
            "timeline_append" => serde::Deserialize::deserialize(input).map(Self::TimelineAppend),
            "update_runtime_state" => serde::Deserialize::deserialize(input).map(Self::UpdateRuntimeState),
            "update_todo_item" => serde::Deserialize::deserialize(input).map(Self::UpdateTodoItem),
            "write_todolist" => serde::Deserialize::deserialize(input).map(Self::WriteTodolist),
            _ => Err(serde::de::Error::custom("no such handler")),
        }
    }

    /// Whose input it is.
    pub const fn handler(&self) -> crate::HandlerId {
        match self {
            Self::McpPromptGet(_) => crate::HandlerId::McpPromptGet,
            Self::McpPromptsList(_) => crate::HandlerId::McpPromptsList,
            Self::McpResourcesList(_) => crate::HandlerId::McpResourcesList,
            Self::McpResourcesRead(_) => crate::HandlerId::McpResourcesRead,
            Self::McpTaskCancel(_) => crate::HandlerId::McpTaskCancel,
            Self::McpTaskGet(_) => crate::HandlerId::McpTaskGet,
            Self::McpTaskList(_) => crate::HandlerId::McpTaskList,
            Self::ReadArtifact(_) => crate::HandlerId::ReadArtifact,
            Self::ToolSearch(_) => crate::HandlerId::ToolSearch,
            Self::RecordMemory(_) => crate::HandlerId::RecordMemory,
            Self::TimelineAppend(_) => crate::HandlerId::TimelineAppend,
            Self::UpdateRuntimeState(_) => crate::HandlerId::UpdateRuntimeState,
            Self::UpdateTodoItem(_) => crate::HandlerId::UpdateTodoItem,
            Self::WriteTodolist(_) => crate::HandlerId::WriteTodolist,
        }
    }

    /// The input as JSON again.
    ///
    /// # Errors
    /// A value that JSON cannot say.
    pub fn to_value(&self) -> Result<Value, Error> {
        match self {
            Self::McpPromptGet(input) => serde_json::to_value(input),
            Self::McpPromptsList(input) => serde_json::to_value(input),
            Self::McpResourcesList(input) => serde_json::to_value(input),
            Self::McpResourcesRead(input) => serde_json::to_value(input),
            Self::McpTaskCancel(input) => serde_json::to_value(input),
            Self::McpTaskGet(input) => serde_json::to_value(input),
            Self::McpTaskList(input) => serde_json::to_value(input),
            Self::ReadArtifact(input) => serde_json::to_value(input),
            Self::ToolSearch(input) => serde_json::to_value(input),
            Self::RecordMemory(input) => serde_json::to_value(input),
            Self::TimelineAppend(input) => serde_json::to_value(input),
            Self::UpdateRuntimeState(input) => serde_json::to_value(input),
            Self::UpdateTodoItem(input) => serde_json::to_value(input),
            Self::WriteTodolist(input) => serde_json::to_value(input),
        }
    }
}

/// What implements every handler. It has no blanket implementation: `impl HandleAll for Context {}` makes the
/// compiler name each handler that `Context` lacks.
pub trait HandleAll:
    Handle<crate::tools::catalog::mcp_prompt_get::McpPromptGet>
    + Handle<crate::tools::catalog::mcp_prompts_list::McpPromptsList>
    + Handle<crate::tools::catalog::mcp_resources_list::McpResourcesList>
    + Handle<crate::tools::catalog::mcp_resources_read::McpResourcesRead>
    + Handle<crate::tools::catalog::mcp_task_cancel::McpTaskCancel>
    + Handle<crate::tools::catalog::mcp_task_get::McpTaskGet>
    + Handle<crate::tools::catalog::mcp_task_list::McpTaskList>
    + Handle<crate::tools::catalog::read_artifact::ReadArtifact>
    + Handle<crate::tools::catalog::tool_search::ToolSearch>
    + Handle<crate::tools::persistence::record_memory::RecordMemory>
    + Handle<crate::tools::persistence::timeline_append::TimelineAppend>
    + Handle<crate::tools::persistence::update_runtime_state::UpdateRuntimeState>
    + Handle<crate::tools::persistence::update_todo_item::UpdateTodoItem>
    + Handle<crate::tools::persistence::write_todolist::WriteTodolist>
    + Sync
{
}

/// A call on its way.
pub type Dispatched<'a> = Pin<Box<dyn Future<Output = Result<Value, ErasedRefusal>> + Send + 'a>>;

/// Carries out one call by the implementation of its handler.
pub fn dispatch<C: HandleAll>(ctx: &C, input: AnyInput) -> Dispatched<'_> {
    match input {
        AnyInput::McpPromptGet(input) => call::<crate::McpPromptGet, C>(ctx, input),
        AnyInput::McpPromptsList(input) => call::<crate::McpPromptsList, C>(ctx, input),
        AnyInput::McpResourcesList(input) => call::<crate::McpResourcesList, C>(ctx, input),
        AnyInput::McpResourcesRead(input) => call::<crate::McpResourcesRead, C>(ctx, input),
        AnyInput::McpTaskCancel(input) => call::<crate::McpTaskCancel, C>(ctx, input),
        AnyInput::McpTaskGet(input) => call::<crate::McpTaskGet, C>(ctx, input),
        AnyInput::McpTaskList(input) => call::<crate::McpTaskList, C>(ctx, input),
        AnyInput::ReadArtifact(input) => call::<crate::ReadArtifact, C>(ctx, input),
        AnyInput::ToolSearch(input) => call::<crate::ToolSearch, C>(ctx, input),
        AnyInput::RecordMemory(input) => call::<crate::RecordMemory, C>(ctx, input),
        AnyInput::TimelineAppend(input) => call::<crate::TimelineAppend, C>(ctx, input),
        AnyInput::UpdateRuntimeState(input) => call::<crate::UpdateRuntimeState, C>(ctx, input),
        AnyInput::UpdateTodoItem(input) => call::<crate::UpdateTodoItem, C>(ctx, input),
        AnyInput::WriteTodolist(input) => call::<crate::WriteTodolist, C>(ctx, input),
    }
}

fn call<H: Handler, C: Handle<H> + Sync>(ctx: &C, input: H::Input) -> Dispatched<'_> {
    Box::pin(async move { erase(ctx.handle(input).await) })
}
