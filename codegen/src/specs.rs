//! A folder of specs as data: what each file says, and where it says it.
//!
//! Answers for the records that loading fills, checks judge and emitters render. Leaves out how a file is read (`load`)
//! and what its spec means (`resolve`).

use devloop_contract::tool::CATALOG;

use crate::model::{AgentSpec, EventsSpec, ToolSpec, TypesSpec};
use crate::yaml::Node;

/// One spec file that could be read.
#[derive(Clone, Debug)]
pub struct SpecFile<T> {
    /// Relative to the root of the repository: `specs/tools/persistence/write_todolist.yaml`.
    pub path: String,
    /// The file's name without `.yaml`.
    pub stem: String,
    /// What it says.
    pub spec: T,
    /// Where it says it.
    pub tree: Node,
}

/// One agent template with its prompt.
#[derive(Clone, Debug)]
pub struct AgentFile {
    /// The template.
    pub file: SpecFile<AgentSpec>,
    /// The text of `<id>.md`.
    pub prompt: String,
}

/// One handler spec with its group.
#[derive(Clone, Debug)]
pub struct ToolFile {
    /// The folder: `persistence`.
    pub group: String,
    /// The handler.
    pub file: SpecFile<ToolSpec>,
}

/// A whole folder of specs, sorted by path.
#[derive(Clone, Debug)]
pub struct Specs {
    /// The handlers, by group and stem.
    pub tools: Vec<ToolFile>,
    /// The agents, by id.
    pub agents: Vec<AgentFile>,
    /// The shared types.
    pub types: SpecFile<TypesSpec>,
    /// The events.
    pub events: SpecFile<EventsSpec>,
}

/// A spec file as the checks see it.
#[derive(Clone, Copy)]
pub(crate) struct Doc<'a> {
    pub(crate) path: &'a str,
    pub(crate) tree: &'a Node,
}

impl ToolFile {
    /// Whether every agent has its tools without a grant.
    pub(crate) fn is_of_catalog(&self) -> bool {
        self.group == CATALOG
    }
}

impl<T> SpecFile<T> {
    pub(crate) fn doc(&self) -> Doc<'_> {
        Doc {
            path: &self.path,
            tree: &self.tree,
        }
    }
}
