// @generated from specs/tools/persistence/ by `cargo codegen write`. Do not edit.

//! The handlers of `specs/tools/persistence/`.

pub(crate) mod record_memory;
pub(crate) mod timeline_append;
pub(crate) mod update_runtime_state;
pub(crate) mod update_todo_item;
pub(crate) mod write_todolist;
