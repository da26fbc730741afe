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

use std::collections::HashMap;
use std::error::Error;
use std::fmt;

use devloop_contract::Tool;

pub use builder::{BuilderError, ToolBuilder};
pub use compiled::{BuildError, CompiledTool, Invocation};
pub use definition::{Definition, Dialect, Example, Hints, Naming, Owner, Schema, Text, Trust};

use crate::text;

/// Says what is wrong with a string as a project-relative path. It must decide by the text alone.
pub type PathRule = fn(&str) -> Result<(), String>;

/// The tools that can be called, each under its name and its aliases.
#[derive(Debug)]
pub struct Registry {
    /// Sorted by name.
    tools: Vec<CompiledTool>,
    /// Name or alias to a position in `tools`.
    index: HashMap<&'static str, usize>,
}

impl Registry {
    /// A registry of these tools. Cheap: no schema is read before its tool is first called.
    ///
    /// # Errors
    /// All names that two tools, or one tool twice, lay claim to; nothing is registered then.
    pub fn new(tools: impl IntoIterator<Item = &'static Tool>, path_rule: PathRule) -> Result<Self, Conflicts> {
        let mut tools: Vec<_> = tools.into_iter().collect();
        tools.sort_by_key(|tool| tool.name);
        let mut index = HashMap::new();
        let mut conflicts = Vec::new();
        for (position, tool) in tools.iter().enumerate() {
            for &name in std::iter::once(&tool.name).chain(tool.aliases) {
                if let Some(earlier) = index.insert(name, position) {
                    conflicts.push(Conflict {
                        name: name.to_owned(),
                        owners: [owner(tools[earlier]), owner(tool)],
                    });
                }
            }
        }
        if !conflicts.is_empty() {
            return Err(Conflicts(conflicts));
        }
        let tools = tools
            .into_iter()
            .map(|tool| CompiledTool::new(tool, path_rule))
            .collect();
        Ok(Self { tools, index })
    }

    /// The tool of this name or alias.
    pub fn get(&self, name: &str) -> Option<&CompiledTool> {
        self.index.get(name).map(|&position| &self.tools[position])
    }

    /// All tools, sorted by name.
    pub fn all(&self) -> &[CompiledTool] {
        &self.tools
    }

    /// The names and aliases nearest to one that is not there, best first, at most three.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let known = self.tools.iter().flat_map(|compiled| compiled.definition().names());
        text::nearest(name, known, 3).into_iter().map(str::to_owned).collect()
    }
}

fn owner(tool: &Tool) -> String {
    format!("`{}` ({})", tool.name, tool.spec)
}

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

/// Every name that has two owners; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, conflict) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            conflict.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for Conflicts {}

#[cfg(test)]
mod tests;
