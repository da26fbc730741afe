// @generated from specs/tools/ by `cargo codegen write`. Do not edit.

/// The `catalog` handlers.
pub mod catalog {
    include!("catalog/mod.rs");
}

/// The `persistence` handlers.
pub mod persistence {
    include!("persistence/mod.rs");
}
