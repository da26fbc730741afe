//! The devloop tool registry as a library: the handlers, the path that every call takes, and the faces (MCP, command
//! line) that lead to it.
//!
//! A host opens a [`project::Project`], makes a [`session::Session`] for one agent, and calls through
//! [`call::ToolService`]:
//!
//! ```
//! use std::sync::Arc;
//!
//! use devloop_runtime::AgentId;
//! use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
//! use devloop_runtime::identity::{Given, identify};
//! use devloop_runtime::project::Project;
//! use devloop_runtime::session::Session;
//!
//! # let dir = tempfile::tempdir()?;
//! # let directory = dir.path();
//! let project = Project::open(directory)?;
//! let agent = AgentId::Pm.agent();
//! let identity = identify(agent, project.path(), Given::default(), None)?;
//! let session = Session::new(Arc::new(project), agent, identity);
//! // Events of this process, from now on; the journal has those of others, too.
//! let events = session.project().subscribe(64);
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let arguments = serde_json::from_str(r#"{"items": [{"id": "step-001", "description": "Embed it"}]}"#)?;
//! // The last is unique for each call, so that a repeated one can be told from a new one.
//! let request = CallRequest::new("write_todolist", arguments, "my-host:1");
//! let outcome = runtime.block_on(session.call(request));
//! assert!(matches!(outcome, CallOutcome::Success(_)));
//! assert_eq!(events.try_recv().expect("an event").name(), "agent.todolist");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A host's own tools stand beside those of the agent: it registers each [definition](crate::core::registry::ToolBuilder)
//! with a [`session::Runner`] in a catalogue ([`session::empty_catalogue`]), which each [`session::SessionBuilder::tools`]
//! forks. The builder also takes the rules of the host, its [hooks](hooks::Hook) and who is [asked](call::Approver) where no
//! rule speaks; all calls, those of a model that still speaks ([`session::Session::streaming`]) too, go the same way.
//! `examples/host.rs` shows tools, rules, a person who is asked and streaming in one program; [`hooks`] has a hook.
//!
//! [`project::Project::subscribe`] gives typed events ([`Event`]), [`project::Project::events_from`] those of all
//! processes from any number on, and a [`project::LoopController`] is told of internal errors and of runtime states.
//!
//! Leaves out what needs no generated code: that is `devloop-core`. It, the contract and the generated types are here as
//! [`core`](mod@crate::core), [`contract`](mod@crate::contract) and [`generated`](mod@crate::generated), so that a host needs no other dependency for them.

pub mod artifacts;
pub mod call;
#[cfg(feature = "cli")]
pub mod cli;
pub mod config;
pub mod context;
pub mod events;
pub mod execution;
mod handlers;
pub mod hooks;
pub mod identity;
pub mod ids;
mod json;
mod lines;
pub mod mcp;
mod patient;
pub mod project;
pub mod projection;
mod servers;
pub mod session;
#[cfg(feature = "testing")]
pub mod testing;
mod todo;
pub mod upstream;
mod watcher;

pub use devloop_contract as contract;
pub use devloop_core as core;
pub use devloop_core::events::Subscription;
pub use devloop_generated as generated;
pub use devloop_generated::{AgentId, Event};
