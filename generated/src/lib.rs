//! The tools, agents and events of devloop as Rust: generated from `specs/` by `devloop-codegen` whenever a spec changes.
//!
//! - [`tools`]: a module per handler with its marker type, `Input`, `Output`, `Failure` and a static per tool. The marker
//!   types stand at the root of the crate, too.
//! - [`types`] and [`events`]: the shared value types; every event with its payload.
//! - [`ToolId`], [`HandlerId`], [`AgentId`], [`GRANTS`], [`counts`]: what there is, and who may call what.
//! - [`AnyInput`], [`HandleAll`], [`dispatch()`]: from a validated JSON input to the handler's implementation.
//!
//! Answers for nothing of its own but [`tool_list`]: a line here is either a doc comment or brings generated code in.
//! The same code is committed under `snapshot/`, for reading and for building where there are no specs.

#![allow(
    clippy::enum_variant_names,
    clippy::large_enum_variant,
    clippy::struct_excessive_bools,
    clippy::struct_field_names,
    reason = "names and shapes come from the specs"
)]

use std::error::Error;
use std::fmt;

/// The handlers, by group: `tools::<group>::<handler>`.
pub mod tools {
    include!(concat!(env!("OUT_DIR"), "/tools/mod.rs"));
}

/// The shared value types, from `specs/types.yaml`. Validation has taken place before one is made; they check nothing.
pub mod types {
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

/// The events and what they carry, from `specs/events.yaml`.
pub mod events {
    include!(concat!(env!("OUT_DIR"), "/events.rs"));
}

/// The agent templates, from `specs/agents/`.
pub mod agents {
    include!(concat!(env!("OUT_DIR"), "/agents.rs"));
}

mod tables {
    include!(concat!(env!("OUT_DIR"), "/tables.rs"));
}

mod dispatch {
    include!(concat!(env!("OUT_DIR"), "/dispatch.rs"));
}

pub use agents::{AGENTS, AgentId};
pub use dispatch::{AnyInput, Dispatched, HandleAll, dispatch};
pub use events::Event;
pub use tables::{Counts, GRANTS, Grant, HandlerId, ToolId, counts, tool};

include!(concat!(env!("OUT_DIR"), "/markers.rs"));

/// Every tool, sorted by name.
pub fn all_tools() -> impl ExactSizeIterator<Item = &'static devloop_contract::Tool> + Clone {
    ToolId::ALL.iter().map(|id| id.tool())
}

/// A tool was asked for that no spec declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTool(pub String);

impl fmt::Display for UnknownTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The wording is fixed by the source document.
        write!(f, "unknown tool: {}", self.0)
    }
}

impl Error for UnknownTool {}

/// The tools of these names as a client takes them: `{"tools": [{name, description, input_schema}]}`, in this order.
///
/// # Errors
/// The first name that is no tool's name and no alias.
pub fn tool_list(names: &[&str]) -> Result<String, UnknownTool> {
    #[derive(serde::Serialize)]
    struct List<'a> {
        tools: Vec<Entry<'a>>,
    }
    #[derive(serde::Serialize)]
    struct Entry<'a> {
        name: &'a str,
        description: &'a str,
        input_schema: serde_json::Value,
    }
    let tools = names
        .iter()
        .map(|name| {
            let tool = tool(name).ok_or_else(|| UnknownTool((*name).to_owned()))?;
            let input_schema = serde_json::from_str(tool.input_schema).expect("a generated schema is JSON");
            Ok(Entry {
                name: tool.name,
                description: tool.description,
                input_schema,
            })
        })
        .collect::<Result<_, _>>()?;
    let mut text = serde_json::to_string_pretty(&List { tools }).expect("a list of tools is JSON");
    text.push('\n');
    Ok(text)
}
