//! The devloop tool registry as a library: the handlers, the path that every call takes, and the faces (MCP, command
//! line) that lead to it.
//!
//! A host opens a [`project::Project`], makes a [`session::Session`] for one agent, and calls through
//! [`call::ToolService`]. Leaves out what needs no generated code: that is `devloop-core`.

pub mod call;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod context;
mod handlers;
pub mod identity;
mod json;
pub mod mcp;
mod patient;
pub mod project;
pub mod projection;
pub mod session;
mod todo;
mod turns;
