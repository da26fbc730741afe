// @generated from specs/tools/catalog/ by `cargo codegen write`. Do not edit.

/// Reads a part of an artifact of this session, such as a result that was too large to be shown whole.
pub mod read_artifact {
    include!("read_artifact.rs");
}
