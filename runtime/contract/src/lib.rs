//! What devloop's generated code, its handlers and its hosts agree on.
//!
//! Answers for the vocabulary: a handler and what it returns ([`handler`], [`failure`], [`error`]), a tool and an
//! agent as data ([`tool`], [`agent`]), and what both the build and a call judge by: the language of path patterns
//! ([`glob`]), the form of paths ([`path`]), the dialects of schemas
//! ([`projection`]), the equality of JSON values ([`value`]).
//!
//! Leaves out everything that acts: no file, no clock, no validation engine, no async runtime. It depends on the
//! standard library, serde and serde_json alone, because every other crate of the workspace depends on it.

pub mod agent;
pub mod error;
pub mod failure;
pub mod glob;
pub mod handler;
pub mod path;
pub mod projection;
pub mod tool;
pub mod value;

pub use agent::Agent;
pub use error::{InternalError, Problem, ToolError, ValidationError};
pub use failure::{Because, CommonFailure, ExpectedFailure, FailureBody, Outcome, Refusal};
pub use handler::{Handle, Handler};
pub use tool::Tool;
