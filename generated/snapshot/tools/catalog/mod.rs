// @generated from specs/tools/catalog/ by `cargo codegen write`. Do not edit.

/// Gets one prompt of an upstream server, filled in with arguments.
pub mod mcp_prompt_get {
    include!("mcp_prompt_get.rs");
}

/// Lists the prompts that upstream servers offer.
pub mod mcp_prompts_list {
    include!("mcp_prompts_list.rs");
}

/// Lists the resources and resource templates that upstream servers offer.
pub mod mcp_resources_list {
    include!("mcp_resources_list.rs");
}

/// Reads one resource of an upstream server.
pub mod mcp_resources_read {
    include!("mcp_resources_read.rs");
}

/// Tells an upstream server to stop one task.
pub mod mcp_task_cancel {
    include!("mcp_task_cancel.rs");
}

/// Says where one task of an upstream server stands, with its result when it has one.
pub mod mcp_task_get {
    include!("mcp_task_get.rs");
}

/// Lists the tasks that upstream servers carry out for this session.
pub mod mcp_task_list {
    include!("mcp_task_list.rs");
}

/// Reads a part of an artifact of this session, such as a result that was too large to be shown whole.
pub mod read_artifact {
    include!("read_artifact.rs");
}

/// Finds tools that are there but not shown, and shows them from now on.
pub mod tool_search {
    include!("tool_search.rs");
}
