// @generated from specs/tools/catalog/ by `cargo codegen write`. Do not edit.

//! The handlers of `specs/tools/catalog/`.

pub(crate) mod read_artifact;
pub(crate) mod tool_search;
