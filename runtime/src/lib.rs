//! The devloop tool registry as a library: the handlers, the path that every call takes, and the faces (MCP, command
//! line) that lead to it.
//!
//! Leaves out what needs no generated code: that is `devloop-core`.

pub mod call;
pub mod mcp;
