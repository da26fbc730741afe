//! Hooks: what a host or an operator wants to say before and after a call.
//!
//! Answers for what a hook is told and may say. Before a call it can change the input, which is then built anew, and
//! tighten what permission decided: it can never loosen it. After a call it can hold the answer back. A hook that breaks
//! off or says nothing clear denies. Leaves out when hooks are heard (the session's), and rules (the core's `permission`).
//!
//! ```
//! use std::borrow::Cow;
//!
//! use devloop_runtime::call::Boxed;
//! use devloop_runtime::hooks::{Before, Hook, HookCall};
//!
//! /// Lets nobody touch what is under the lock.
//! #[derive(Debug)]
//! struct Freeze;
//!
//! impl Hook for Freeze {
//!     fn name(&self) -> Cow<'static, str> {
//!         "freeze".into()
//!     }
//!
//!     fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
//!         let frozen = call.input["path"].as_str().is_some_and(|path| path.starts_with("release/"));
//!         Box::pin(async move {
//!             if frozen { Before::Deny("the release is frozen".to_owned()) } else { Before::Pass }
//!         })
//!     }
//! }
//! # let _ = Freeze;
//! ```

mod command;

use std::borrow::Cow;
use std::fmt;

use devloop_core::permission::{Decision, Mode};
use devloop_core::registry::Definition;
use serde_json::{Map, Value};

use crate::call::{Boxed, CallOutcome};
use crate::caught::caught_now;
use crate::identity::Identity;

pub use command::{CommandHook, Event};

/// Said before a call: what becomes of it, as far as this hook is concerned.
#[derive(Clone, Debug, PartialEq)]
pub enum Before {
    /// Nothing to say.
    Pass,
    /// The call is to be made with these arguments instead. They are built and judged anew.
    Change(Map<String, Value>),
    /// A person must be asked, and why.
    Ask(String),
    /// It must not run, and why.
    Deny(String),
}

/// Said after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing to say.
    Pass,
    /// The agent gets this instead of the answer. What the call did stays done.
    Withhold(String),
}

/// A call, as hooks see it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HookCall<'a> {
    /// Who calls.
    pub identity: &'a Identity,
    /// The tool.
    pub tool: &'a Definition,
    /// Names this one call.
    pub tool_use_id: &'a str,
    /// The input as built.
    pub input: &'a Value,
    /// What was decided so far.
    pub decision: &'a Decision,
    /// The permission mode.
    pub mode: Mode,
    /// The name under which clients have this server.
    pub server_name: &'a str,
    /// The project directory.
    pub project_dir: &'a std::path::Path,
}

/// Hears of calls. Several hooks are heard one after the other, in the order in which they were given.
pub trait Hook: fmt::Debug + Send + Sync {
    /// Its name, for people who wonder why.
    fn name(&self) -> Cow<'static, str>;

    /// Whether it would be heard before this call; for people who ask what would become of it.
    fn hears(&self, call: HookCall<'_>) -> bool {
        let _ = call;
        true
    }

    /// Before the call, which waits for the answer.
    fn before<'a>(&'a self, call: HookCall<'a>) -> Boxed<'a, Before> {
        let _ = call;
        Box::pin(std::future::ready(Before::Pass))
    }

    /// After the call, before anybody else has its outcome.
    fn after<'a>(&'a self, call: HookCall<'a>, outcome: &'a CallOutcome) -> Boxed<'a, After> {
        let _ = (call, outcome);
        Box::pin(std::future::ready(After::Pass))
    }
}

/// The name of a hook, also of one that panics when it is asked.
pub(crate) fn name_of(hook: &dyn Hook) -> Cow<'static, str> {
    caught_now(|| hook.name()).unwrap_or("a hook whose name panics".into())
}
