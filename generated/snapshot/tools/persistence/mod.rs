// @generated from specs/tools/persistence/ by `cargo codegen write`. Do not edit.

/// Keeps one thing that this agent should still know in later sessions.
pub mod record_memory {
    include!("record_memory.rs");
}

/// Appends one entry to the project's timeline, which all agents and people read.
pub mod timeline_append {
    include!("timeline_append.rs");
}

/// Says what this agent is doing now, so that the loop and people can see it.
pub mod update_runtime_state {
    include!("update_runtime_state.rs");
}

/// Moves one item of this agent's todo list to another status.
pub mod update_todo_item {
    include!("update_todo_item.rs");
}

/// Writes this agent's whole todo list, replacing the one before it.
pub mod write_todolist {
    include!("write_todolist.rs");
}
