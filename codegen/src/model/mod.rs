//! The format of the specs as Rust types.
//!
//! Answers for the keys, their types and defaults, in one place: serde reads by these types, schemars makes the editor
//! schemas from them, and their doc comments are what an editor shows. Leaves out every check across keys or files.

mod agent;
mod schema;
mod shared;
mod tool;

pub use agent::{AgentCli, AgentHook, AgentLoop, AgentPolicy, AgentSandbox, AgentSpec, HookEvent, PolicyMode};
pub(crate) use schema::PORTABLE;
pub use shared::{EventSpec, EventsSpec, TypesSpec};
pub use tool::{
    EffectsSpec, ExampleSpec, Exposure, FaceSpec, FailureDetail, FailureEntry, Kind, Parallelism, PermissionSpec,
    RequiredIf, RuleSpec, ToolSpec, Translation, WriteEntry, WriteWhen,
};

/// A JSON Schema, written in YAML. Shared types are referred to as `$ref: TypeName`.
pub type Schema = serde_json::Map<String, serde_json::Value>;
