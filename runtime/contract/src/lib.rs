//! What devloop's generated code, its handlers and its hosts agree on.
//!
//! Answers for the vocabulary: a handler and what it returns ([`handler`], [`failure`], [`error`]), a tool and an
//! agent as data ([`tool`], [`agent`]), the rules that a path keeps ([`path`]), and the language of path patterns
//! ([`glob`]). The checks at build time and the sandbox at run time both speak by the last two.
//!
//! Leaves out everything that acts: no file, no clock, no validation engine, no async runtime. It depends on the
//! standard library, serde and serde_json alone, because every other crate of the workspace depends on it.

pub mod agent;
pub mod error;
pub mod failure;
pub mod glob;
pub mod handler;
pub mod path;
pub mod tool;

pub use agent::Agent;
pub use error::{InternalError, Problem, ToolError, ValidationError};
pub use failure::{Because, CommonFailure, ExpectedFailure, FailureBody, Outcome, Refusal};
pub use handler::{Handle, Handler};
pub use tool::Tool;
