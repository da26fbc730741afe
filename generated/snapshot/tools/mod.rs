// @generated from specs/tools/ by `cargo codegen write`. Do not edit.

/// The `persistence` handlers.
pub mod persistence {
    include!("persistence/mod.rs");
}
