// @generated from specs/tools/catalog/ by `cargo codegen write`. Do not edit.

/// Reads a part of an artifact of this session, such as a result that was too large to be shown whole.
pub mod read_artifact {
    include!("read_artifact.rs");
}

/// Finds tools that are there but not shown, and shows them from now on.
pub mod tool_search {
    include!("tool_search.rs");
}
