//! What devloop runs on and that knows no generated code, so that an edited spec does not recompile it.
//!
//! Answers for the domains that handlers and faces share: the only door to the file system ([`sandbox`]), durable files
//! ([`store`]), what is too large for a result ([`artifacts`]), what was called ([`audit`]), admission of calls ([`registry`]), whether they may run ([`permission`]), which tools there are ([`catalogue`]), events ([`events`]), dependencies ([`graph`]), todo lists ([`mod@todo`]),
//! runtime states ([`runtime_state`]), the timeline ([`timeline`]), digests ([`digest`]), what may go ([`retention`]) and
//! small text tools ([`text`]).
//! Leaves out the tools themselves, the context that a handler gets, and every face.

pub mod artifacts;
pub mod audit;
pub mod catalogue;
pub mod connection;
pub mod digest;
pub mod events;
pub mod execution;
pub mod graph;
pub mod memory;
mod needles;
pub mod permission;
mod process;
pub mod registry;
pub mod retention;
pub mod runtime_state;
pub mod sandbox;
pub mod secrets;
pub mod store;
pub mod text;
pub mod timeline;
pub mod todo;

#[cfg(feature = "schemars")]
pub use schemars;
