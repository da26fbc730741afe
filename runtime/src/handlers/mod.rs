// @generated from specs/tools/ by `cargo codegen write`. Do not edit.

//! The handlers, one file each: the module is `group::handler`, as in `specs/tools/`.

pub(crate) mod catalog;
pub(crate) mod persistence;
