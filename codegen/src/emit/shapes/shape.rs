//! One Rust type in the making, between its schema and its tokens.

use serde_json::Value;

/// One Rust type.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) docs: String,
    pub(super) kind: Kind,
    /// What typify gets.
    pub(super) reduced: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Struct { fields: Vec<Field>, closed: bool },
    Enum,
    Newtype(Inner),
}

/// What a newtype holds, as far as its derives go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inner {
    Text,
    /// A whole number or a truth value.
    Exact,
    Float,
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) docs: String,
    pub(super) optional: bool,
}
