// @generated from specs/ by `cargo codegen write`. Do not edit.

/// A tool: one face of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ToolId {
    /// `mcp_prompt_get`
    McpPromptGet,
    /// `mcp_prompts_list`
    McpPromptsList,
    /// `mcp_resources_list`
    McpResourcesList,
    /// `mcp_resources_read`
    McpResourcesRead,
    /// `mcp_task_cancel`
    McpTaskCancel,
    /// `mcp_task_get`
    McpTaskGet,
    /// `mcp_task_list`
    McpTaskList,
    /// `read_artifact`
    ReadArtifact,
    /// `record_memory`
    RecordMemory,
    /// `timeline_append`
    TimelineAppend,
    /// `tool_search`
    ToolSearch,
    /// `update_runtime_state`
    UpdateRuntimeState,
    /// `update_todo_item`
    UpdateTodoItem,
    /// `write_todolist`
    WriteTodolist,
}

impl ToolId {
    /// Every tool, sorted by name.
    pub const ALL: &'static [Self] = &[
        Self::McpPromptGet,
        Self::McpPromptsList,
        Self::McpResourcesList,
        Self::McpResourcesRead,
        Self::McpTaskCancel,
        Self::McpTaskGet,
        Self::McpTaskList,
        Self::ReadArtifact,
        Self::RecordMemory,
        Self::TimelineAppend,
        Self::ToolSearch,
        Self::UpdateRuntimeState,
        Self::UpdateTodoItem,
        Self::WriteTodolist,
    ];

    /// The name that agents call.
    pub const fn name(self) -> &'static str {
        match self {
            Self::McpPromptGet => "mcp_prompt_get",
            Self::McpPromptsList => "mcp_prompts_list",
            Self::McpResourcesList => "mcp_resources_list",
            Self::McpResourcesRead => "mcp_resources_read",
            Self::McpTaskCancel => "mcp_task_cancel",
            Self::McpTaskGet => "mcp_task_get",
            Self::McpTaskList => "mcp_task_list",
            Self::ReadArtifact => "read_artifact",
            Self::RecordMemory => "record_memory",
            Self::TimelineAppend => "timeline_append",
            Self::ToolSearch => "tool_search",
            Self::UpdateRuntimeState => "update_runtime_state",
            Self::UpdateTodoItem => "update_todo_item",
            Self::WriteTodolist => "write_todolist",
        }
    }

    /// What the spec says about it.
    pub const fn tool(self) -> &'static devloop_contract::Tool {
        match self {
            Self::McpPromptGet => &crate::tools::catalog::mcp_prompt_get::MCP_PROMPT_GET,
            Self::McpPromptsList => &crate::tools::catalog::mcp_prompts_list::MCP_PROMPTS_LIST,
            Self::McpResourcesList => &crate::tools::catalog::mcp_resources_list::MCP_RESOURCES_LIST,
            Self::McpResourcesRead => &crate::tools::catalog::mcp_resources_read::MCP_RESOURCES_READ,
            Self::McpTaskCancel => &crate::tools::catalog::mcp_task_cancel::MCP_TASK_CANCEL,
            Self::McpTaskGet => &crate::tools::catalog::mcp_task_get::MCP_TASK_GET,
            Self::McpTaskList => &crate::tools::catalog::mcp_task_list::MCP_TASK_LIST,
            Self::ReadArtifact => &crate::tools::catalog::read_artifact::READ_ARTIFACT,
            Self::RecordMemory => &crate::tools::persistence::record_memory::RECORD_MEMORY,
            Self::TimelineAppend => &crate::tools::persistence::timeline_append::TIMELINE_APPEND,
            Self::ToolSearch => &crate::tools::catalog::tool_search::TOOL_SEARCH,
            Self::UpdateRuntimeState => &crate::tools::persistence::update_runtime_state::UPDATE_RUNTIME_STATE,
            Self::UpdateTodoItem => &crate::tools::persistence::update_todo_item::UPDATE_TODO_ITEM,
            Self::WriteTodolist => &crate::tools::persistence::write_todolist::WRITE_TODOLIST,
        }
    }

    /// The tool of a name or an alias.
    pub fn find(name: &str) -> Option<Self> {
        match name {
            "mcp_prompt_get" => Some(Self::McpPromptGet),
            "mcp_prompts_list" => Some(Self::McpPromptsList),
            "mcp_resources_list" => Some(Self::McpResourcesList),
            "mcp_resources_read" => Some(Self::McpResourcesRead),
            "mcp_task_cancel" => Some(Self::McpTaskCancel),
            "mcp_task_get" => Some(Self::McpTaskGet),
            "mcp_task_list" => Some(Self::McpTaskList),
            "read_artifact" => Some(Self::ReadArtifact),
            "record_memory" => Some(Self::RecordMemory),
            "timeline_append" => Some(Self::TimelineAppend),
            "tool_search" => Some(Self::ToolSearch),
            "update_runtime_state" => Some(Self::UpdateRuntimeState),
            "update_todo_item" => Some(Self::UpdateTodoItem),
            "write_todolist" => Some(Self::WriteTodolist),
            _ => None,
        }
    }
}

/// The tool of a name or an alias.
pub fn tool(name: &str) -> Option<&'static devloop_contract::Tool> {
    ToolId::find(name).map(ToolId::tool)
}

/// A handler: one spec, one implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandlerId {
    /// `mcp_prompt_get`
    McpPromptGet,
    /// `mcp_prompts_list`
    McpPromptsList,
    /// `mcp_resources_list`
    McpResourcesList,
    /// `mcp_resources_read`
    McpResourcesRead,
    /// `mcp_task_cancel`
    McpTaskCancel,
    /// `mcp_task_get`
    McpTaskGet,
    /// `mcp_task_list`
    McpTaskList,
    /// `read_artifact`
    ReadArtifact,
    /// `tool_search`
    ToolSearch,
    /// `record_memory`
    RecordMemory,
    /// `timeline_append`
    TimelineAppend,
    /// `update_runtime_state`
    UpdateRuntimeState,
    /// `update_todo_item`
    UpdateTodoItem,
    /// `write_todolist`
    WriteTodolist,
}

impl HandlerId {
    /// Every handler, by group and name.
    pub const ALL: &'static [Self] = &[
        Self::McpPromptGet,
        Self::McpPromptsList,
        Self::McpResourcesList,
        Self::McpResourcesRead,
        Self::McpTaskCancel,
        Self::McpTaskGet,
        Self::McpTaskList,
        Self::ReadArtifact,
        Self::ToolSearch,
        Self::RecordMemory,
        Self::TimelineAppend,
        Self::UpdateRuntimeState,
        Self::UpdateTodoItem,
        Self::WriteTodolist,
    ];

    /// The handler's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::McpPromptGet => "mcp_prompt_get",
            Self::McpPromptsList => "mcp_prompts_list",
            Self::McpResourcesList => "mcp_resources_list",
            Self::McpResourcesRead => "mcp_resources_read",
            Self::McpTaskCancel => "mcp_task_cancel",
            Self::McpTaskGet => "mcp_task_get",
            Self::McpTaskList => "mcp_task_list",
            Self::ReadArtifact => "read_artifact",
            Self::ToolSearch => "tool_search",
            Self::RecordMemory => "record_memory",
            Self::TimelineAppend => "timeline_append",
            Self::UpdateRuntimeState => "update_runtime_state",
            Self::UpdateTodoItem => "update_todo_item",
            Self::WriteTodolist => "write_todolist",
        }
    }

    /// The spec file, relative to the root of the repository.
    pub const fn spec(self) -> &'static str {
        match self {
            Self::McpPromptGet => "specs/tools/catalog/mcp_prompt_get.yaml",
            Self::McpPromptsList => "specs/tools/catalog/mcp_prompts_list.yaml",
            Self::McpResourcesList => "specs/tools/catalog/mcp_resources_list.yaml",
            Self::McpResourcesRead => "specs/tools/catalog/mcp_resources_read.yaml",
            Self::McpTaskCancel => "specs/tools/catalog/mcp_task_cancel.yaml",
            Self::McpTaskGet => "specs/tools/catalog/mcp_task_get.yaml",
            Self::McpTaskList => "specs/tools/catalog/mcp_task_list.yaml",
            Self::ReadArtifact => "specs/tools/catalog/read_artifact.yaml",
            Self::ToolSearch => "specs/tools/catalog/tool_search.yaml",
            Self::RecordMemory => "specs/tools/persistence/record_memory.yaml",
            Self::TimelineAppend => "specs/tools/persistence/timeline_append.yaml",
            Self::UpdateRuntimeState => "specs/tools/persistence/update_runtime_state.yaml",
            Self::UpdateTodoItem => "specs/tools/persistence/update_todo_item.yaml",
            Self::WriteTodolist => "specs/tools/persistence/write_todolist.yaml",
        }
    }
}

/// That an agent may call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who.
    pub agent: crate::AgentId,
    /// What.
    pub tool: ToolId,
}

/// Every grant, in the order of the loop and of each agent's list.
pub static GRANTS: &[Grant] = &[
    Grant {
        agent: crate::AgentId::Pm,
        tool: ToolId::WriteTodolist,
    },
    Grant {
        agent: crate::AgentId::Pm,
        tool: ToolId::UpdateTodoItem,
    },
    Grant {
        agent: crate::AgentId::Pm,
        tool: ToolId::UpdateRuntimeState,
    },
    Grant {
        agent: crate::AgentId::Pm,
        tool: ToolId::TimelineAppend,
    },
    Grant {
        agent: crate::AgentId::Pm,
        tool: ToolId::RecordMemory,
    },
    Grant {
        agent: crate::AgentId::Architect,
        tool: ToolId::WriteTodolist,
    },
    Grant {
        agent: crate::AgentId::Architect,
        tool: ToolId::UpdateTodoItem,
    },
    Grant {
        agent: crate::AgentId::Architect,
        tool: ToolId::UpdateRuntimeState,
    },
    Grant {
        agent: crate::AgentId::Architect,
        tool: ToolId::TimelineAppend,
    },
    Grant {
        agent: crate::AgentId::Architect,
        tool: ToolId::RecordMemory,
    },
    Grant {
        agent: crate::AgentId::Coder,
        tool: ToolId::WriteTodolist,
    },
    Grant {
        agent: crate::AgentId::Coder,
        tool: ToolId::UpdateTodoItem,
    },
    Grant {
        agent: crate::AgentId::Coder,
        tool: ToolId::UpdateRuntimeState,
    },
    Grant {
        agent: crate::AgentId::Coder,
        tool: ToolId::TimelineAppend,
    },
    Grant {
        agent: crate::AgentId::Coder,
        tool: ToolId::RecordMemory,
    },
    Grant {
        agent: crate::AgentId::Tester,
        tool: ToolId::WriteTodolist,
    },
    Grant {
        agent: crate::AgentId::Tester,
        tool: ToolId::UpdateTodoItem,
    },
    Grant {
        agent: crate::AgentId::Tester,
        tool: ToolId::UpdateRuntimeState,
    },
    Grant {
        agent: crate::AgentId::Tester,
        tool: ToolId::TimelineAppend,
    },
    Grant {
        agent: crate::AgentId::Tester,
        tool: ToolId::RecordMemory,
    },
    Grant {
        agent: crate::AgentId::Integrator,
        tool: ToolId::WriteTodolist,
    },
    Grant {
        agent: crate::AgentId::Integrator,
        tool: ToolId::UpdateTodoItem,
    },
    Grant {
        agent: crate::AgentId::Integrator,
        tool: ToolId::UpdateRuntimeState,
    },
    Grant {
        agent: crate::AgentId::Integrator,
        tool: ToolId::TimelineAppend,
    },
    Grant {
        agent: crate::AgentId::Integrator,
        tool: ToolId::RecordMemory,
    },
    Grant {
        agent: crate::AgentId::BugTriager,
        tool: ToolId::WriteTodolist,
    },
    Grant {
        agent: crate::AgentId::BugTriager,
        tool: ToolId::UpdateTodoItem,
    },
    Grant {
        agent: crate::AgentId::BugTriager,
        tool: ToolId::UpdateRuntimeState,
    },
    Grant {
        agent: crate::AgentId::BugTriager,
        tool: ToolId::TimelineAppend,
    },
    Grant {
        agent: crate::AgentId::BugTriager,
        tool: ToolId::RecordMemory,
    },
];

/// How much there is of everything. The group `catalog`, which every agent has, is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Handlers: specs, and implementations.
    pub handlers: usize,
    /// Tools: faces of handlers.
    pub tools: usize,
    /// Names that can be called: tools and their aliases.
    pub names: usize,
    /// Grants of a tool to an agent.
    pub grants: usize,
    /// Tools that every agent has without a grant.
    pub catalog: usize,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "handlers={} tools={} ", self.handlers, self.tools)?;
        write!(f, "names={} grants={} ", self.names, self.grants)?;
        write!(f, "catalog={}", self.catalog)
    }
}

/// How much the specs declare.
pub const fn counts() -> Counts {
    Counts {
        handlers: 5,
        tools: 5,
        names: 5,
        grants: 30,
        catalog: 9,
    }
}
