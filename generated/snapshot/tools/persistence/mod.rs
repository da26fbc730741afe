// @generated from specs/tools/persistence/ by `cargo codegen write`. Do not edit.

/// Writes this agent's whole todo list, replacing the one before it.
pub mod write_todolist {
    include!("write_todolist.rs");
}
