//! Admission: from a tool as data and raw arguments to an input that a handler may trust.
//!
//! Answers for one contract over all tools: arguments are normalised, filled with defaults, validated, checked against
//! the rules between fields and the path rule, merged with what the face binds, and then can't be changed any more.
//! Leaves out what comes after (permission, locks, scheduling, running) and how a path is resolved, which the caller
//! supplies as a [`PathRule`].

#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
mod builder;
mod compiled;
mod cost;
mod definition;
#[cfg(test)]
mod drafts;
mod example;
#[cfg(any(test, feature = "arbitrary"))]
pub mod fixture;
mod mend;
pub mod normalise;
mod place;
pub mod projection;
#[cfg(any(test, feature = "arbitrary"))]
pub mod providers;
pub mod reference;
mod rules;
pub mod shape;
mod validate;
mod words;

use std::fmt;

pub(crate) use builder::unfit;
pub use builder::{BuilderError, ToolBuilder};
pub use compiled::{BuildError, CompiledTool, Invocation};
pub use definition::{Definition, Dialect, Example, Hints, Naming, Owner, Schema, Text, Trust};

/// Says what is wrong with a string as a project-relative path. It must decide by the text alone.
pub type PathRule = fn(&str) -> Result<(), String>;

/// A name that has two owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The name or alias.
    pub name: String,
    /// Both tools, each with where it comes from.
    pub owners: [String; 2],
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            owners: [one, two],
        } = self;
        write!(
            f,
            "the tool name `{name}` has two owners: {one} and {two}; rename one of them"
        )
    }
}

#[cfg(test)]
mod tests;
