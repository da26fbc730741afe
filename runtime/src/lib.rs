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
//! # A tool of one's own
//!
//! A host registers a definition ([`registry::ToolBuilder`]) with what carries its calls out ([`session::Runner`]) in a
//! catalogue, which each session [forks](session::SessionBuilder::tools). Its calls go the same way as all others: their
//! input is built and checked, rules, hooks and people judge them, and they wait for their turn.
//!
//! ```
//! # use std::sync::Arc;
//! use devloop_runtime::AgentId;
//! use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
//! use devloop_runtime::contract::tool::Kind;
//! # use devloop_runtime::identity::{Given, identify};
//! use devloop_runtime::permission::{List, Rule};
//! # use devloop_runtime::project::Project;
//! use devloop_runtime::registry::ToolBuilder;
//! use devloop_runtime::session::{Runner, RunnerCall, Session, empty_catalogue};
//! use serde_json::json;
//!
//! # let dir = tempfile::tempdir()?;
//! # let project = Project::open(dir.path())?;
//! # let agent = AgentId::Pm.agent();
//! # let identity = identify(agent, project.path(), Given::default(), None)?;
//! let price = ToolBuilder::new("price")
//!     .summary("Says what an item costs.")
//!     .kind(Kind::ReadOnly)
//!     .concurrency_safe()
//!     .input_schema(json!({
//!         "type": "object",
//!         "properties": { "item": { "type": "string" } },
//!         "required": ["item"],
//!     }))
//!     .example("The price of tea", json!({ "item": "tea" }))
//!     .build()?;
//! let runner = Runner::of(|call: RunnerCall| async move { Ok(json!({ "item": call.input["item"], "cents": 420 })) });
//! let tools = empty_catalogue();
//! tools.register(price, runner)?;
//!
//! // `project`, `agent` and `identity` are those of above.
//! let session = Session::builder(Arc::new(project), agent, identity)
//!     .tools(&tools)
//!     .rule(List::Allow, Rule::parse("price")?, "the shop")
//!     .build()?;
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let arguments = serde_json::from_str(r#"{"item": "tea"}"#)?;
//! let outcome = session.call(CallRequest::new("price", arguments, "my-host:2")).await;
//! assert_eq!(outcome, CallOutcome::Success(json!({ "item": "tea", "cents": 420 })));
//! # Ok::<(), serde_json::Error>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/host.rs` shows tools, rules, a person who is asked, a model that still speaks and changes of the catalogue in
//! one program.
//!
//! # Modules
//!
//! | | |
//! |---|---|
//! | [`project`] | a directory that is worked on, its events, audit log and settings |
//! | [`identity`] | who calls, and on what |
//! | [`session`] | one agent's session: its tools, and the way of every call |
//! | [`call`] | what goes into a call and what comes out; who is asked; what a face needs |
//! | [`registry`] | what is said about a tool: [`ToolBuilder`](registry::ToolBuilder), [`Definition`](registry::Definition), the [forms](registry::projection) that providers read |
//! | [`catalogue`] | which tools there are: registering, search, deferral, changes |
//! | [`permission`] | modes, rules, decisions |
//! | [`hooks`] | what a host says before and after a call |
//! | [`execution`] | when calls run: limits, fairness, retries, records; the same for calls of anything |
//! | [`artifacts`] | results that are too large for a model |
//! | [`upstream`] | MCP servers whose tools are merged |
//! | [`mcp`] | any [`call::ToolService`] served as an MCP server |
//! | [`projection`] | agents in the form that clients read, and a tool in rmcp's |
//! | [`events`], [`config`], [`context`], [`ids`] | typed events, `devloop.toml`, what a handler gets, new ids |
//! | `testing` | a project to try tools on (feature `testing`) |
//!
//! [`core`](mod@crate::core), [`contract`](mod@crate::contract) and [`generated`](mod@crate::generated) are the crates
//! below, whole. Types of others in this crate's signatures are here as well: [`CancellationToken`] of `tokio-util`, and
//! the crates [`jiff`], [`rmcp`], [`serde_json`], [`tokio`] and [`uuid`].
//!
//! # Runtime and threads
//!
//! A session needs a tokio runtime of either kind, with time; upstream servers and the faces need io as well. Tools that
//! are exclusive, as is what is not said to be anything else, run on a thread of their session's own and may block it; those
//! that are shared run in the runtime of their caller and must not. [`session::ToolRunner`] has it in full. Opening a
//! project and most of the core's calls block.
//!
//! # Errors
//!
//! A call never fails as a Rust `Result`: it ends in exactly one [`call::CallOutcome`], of which one is a success, and a
//! panic of a tool is an internal error. What is the agent's to mend says so, and how. Errors of making things (a project,
//! a session, a definition, a catalogue's list) are types of their own, which name everything that is wrong at once where
//! there may be more than one thing.
//!
//! # Features
//!
//! | | default | |
//! |---|---|---|
//! | `cli` | yes | the module `cli` and the program `devloop`; a host leaves it out |
//! | `upstream-http` | yes | upstream servers over streamable HTTP, with TLS; without, those over stdio |
//! | `schemars` | no | [`ToolBuilder::input`](registry::ToolBuilder) and `output`: schemas from Rust types |
//! | `testing` | no | the module `testing` |
//!
//! # Platform
//!
//! Linux. Other Unix systems take a slower way to resolve paths and have not been tried; Windows is not supported.
//!
//! # Events
//!
//! [`project::Project::subscribe`] gives typed events ([`Event`]), [`project::Project::events_from`] those of all
//! processes from any number on, and a [`project::LoopController`] is told of internal errors and of runtime states.

pub mod artifacts;
pub mod call;
mod caught;
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
mod pages;
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
#[cfg(feature = "schemars")]
pub use devloop_core::schemars;
#[doc(inline)]
pub use devloop_core::{catalogue, permission, registry};
pub use devloop_generated as generated;
pub use devloop_generated::{AgentId, Event};
pub use tokio_util::sync::CancellationToken;
pub use {jiff, rmcp, serde_json, tokio, uuid};
