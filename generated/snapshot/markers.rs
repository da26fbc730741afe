// @generated from specs/tools/ by `cargo codegen write`. Do not edit.

pub use crate::tools::catalog::mcp_prompt_get::McpPromptGet;
pub use crate::tools::catalog::mcp_prompts_list::McpPromptsList;
pub use crate::tools::catalog::mcp_resources_list::McpResourcesList;
pub use crate::tools::catalog::mcp_resources_read::McpResourcesRead;
pub use crate::tools::catalog::mcp_task_cancel::McpTaskCancel;
pub use crate::tools::catalog::mcp_task_get::McpTaskGet;
pub use crate::tools::catalog::mcp_task_list::McpTaskList;
pub use crate::tools::catalog::read_artifact::ReadArtifact;
pub use crate::tools::catalog::tool_search::ToolSearch;
pub use crate::tools::persistence::record_memory::RecordMemory;
pub use crate::tools::persistence::timeline_append::TimelineAppend;
pub use crate::tools::persistence::update_runtime_state::UpdateRuntimeState;
pub use crate::tools::persistence::update_todo_item::UpdateTodoItem;
pub use crate::tools::persistence::write_todolist::WriteTodolist;
