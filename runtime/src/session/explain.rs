//! What would become of a call, and why; nothing is run.
//!
//! Answers for the facts behind `devloop explain`: decision, files, turn. Leaves out what hooks would say, as a hook may do
//! anything; they are named.

use std::sync::Arc;

use devloop_core::permission::{Decision, Verdict};
use devloop_core::registry::Invocation;
use devloop_core::sandbox::RelPath;
use serde::Serialize;
use serde_json::{Map, Value};

use super::Session;
use super::admission::Judged;
use super::sandbox::{bound, sandbox_for};
use super::work::{Stop, build};
use crate::call::CallOutcome;
use crate::caught::caught_now;
use crate::hooks::{Hook, name_of};

/// What would become of a call.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The tool.
    pub tool: String,
    /// Whose it is, for people.
    pub owner: String,
    /// The input as it would be run.
    pub input: Value,
    /// What rules, mode and memory say, and why.
    pub decision: Decision,
    /// Hooks that would be heard, in their order; each may still tighten.
    pub hooks: Vec<String>,
    /// The files that the input says it acts on.
    pub affected: Vec<String>,
    /// What the sandbox lets it touch; nothing for a tool that has none, as it runs elsewhere.
    pub sandbox: Option<Touches>,
    /// When it would run.
    pub turn: Turn,
}

/// The patterns of files that a call may touch, bound to the session.
#[derive(Clone, Debug, Serialize)]
pub struct Touches {
    /// What it may read.
    pub reads: Vec<String>,
    /// What it may write: the agent's template *and* the tool's spec have it.
    pub writes: Vec<String>,
    /// What the template lets the agent write.
    pub write_allow: Vec<String>,
    /// The files that this input names.
    pub paths: Vec<Named>,
}

/// A file that an input names.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// Its path.
    pub path: String,
    /// Whether the call may read it.
    pub may_read: bool,
    /// Whether the call may write it.
    pub may_write: bool,
    /// The pattern of the template by which it may be written; nothing for a path that leads out of the project.
    pub template: Option<String>,
    /// The pattern of the tool's spec by which it may be written.
    pub spec: Option<String>,
}

/// When a call would run.
#[derive(Clone, Debug, Serialize)]
pub struct Turn {
    /// `read_only`, `write` or `execute`: which limits count.
    pub kind: &'static str,
    /// `shared` runs beside other calls of the session, `exclusive` alone.
    pub parallelism: &'static str,
    /// The files that it locks while it runs; none when it is denied.
    pub locks: Vec<String>,
    /// Whether it is tried again by itself after a failure that passes.
    pub retried: bool,
    /// The longest that it may take, in milliseconds.
    pub timeout_ms: u64,
}

impl Session {
    /// What would become of a call.
    ///
    /// # Errors
    /// What the caller would be told before anything is decided: the tool is unknown or left out, the input is refused.
    pub fn explain(&self, tool: &str, arguments: Map<String, Value>) -> Result<Explanation, Box<CallOutcome>> {
        let snapshot = self.inner.catalogue.snapshot();
        let Some(entry) = snapshot.get(tool) else {
            if let Some(down) = self.server_not_there(tool) {
                return Err(Box::new(CallOutcome::Expected(down)));
            }
            return Err(Box::new(CallOutcome::UnknownTool {
                name: tool.to_owned(),
                nearest: snapshot.nearest(tool),
            }));
        };
        let definition = entry.definition();
        if let Some(left_out) = self.inner.lists.left_out(definition) {
            return Err(Box::new(CallOutcome::Expected(left_out)));
        }
        let invocation = match build(entry, arguments) {
            Ok(invocation) => invocation,
            Err(refusal) => {
                let told = self.outcome(definition, Err(Stop::Refused(refusal)));
                return Err(Box::new(
                    told.unwrap_or_else(|error| CallOutcome::internal(&error, "none".to_owned())),
                ));
            }
        };
        let decision = self.decide(&invocation);
        // What is denied gets no turn and locks nothing.
        let locks = if definition.concurrency_safe || decision.verdict == Verdict::Deny {
            Vec::new()
        } else {
            let paths = self.real_paths(&invocation).into_iter();
            paths.map(|path| path.display().to_string()).collect()
        };
        let judged = Judged::new(invocation, decision);
        let call = self.hook_call(&judged, "");
        // One that panics is asked when the call is made, and denies it.
        let listens = |hook: &&Arc<dyn Hook>| caught_now(|| hook.hears(call)).unwrap_or(true);
        let heard = self.hooks().iter().filter(listens);
        let heard = heard.map(|hook| name_of(&**hook).into_owned()).collect();
        let Judged {
            invocation, decision, ..
        } = judged;
        Ok(Explanation {
            decision,
            tool: definition.name.to_string(),
            owner: definition.who(),
            hooks: heard,
            affected: invocation.affected_paths().to_vec(),
            sandbox: self.touches(&invocation),
            turn: Turn {
                kind: definition.kind.as_str(),
                parallelism: definition.parallelism.as_str(),
                locks,
                retried: definition.retry_safe,
                timeout_ms: u64::try_from(self.time_of(definition).as_millis()).unwrap_or(u64::MAX),
            },
            input: invocation.input().clone(),
        })
    }

    fn touches(&self, invocation: &Invocation) -> Option<Touches> {
        let tool = invocation.built_in()?;
        let (agent, identity) = (self.inner.agent, &self.inner.identity);
        let shown =
            |text: &str| bound(text, agent, identity).map_or_else(|_| text.to_owned(), |found| found.to_string());
        let sandbox = sandbox_for(&self.inner.project, identity, agent, tool).ok();
        let via = agent.sandbox.write_via.iter().filter(|via| via.tool == tool.name);
        let write_allow = agent.sandbox.write_allow.iter().chain(via.flat_map(|via| via.paths));
        let writes = tool.effects.writes.iter();
        let writes = writes.filter(|write| write.only.is_empty() || write.only.contains(&agent.name));
        let (writes, write_allow): (Vec<&str>, Vec<&str>) =
            (writes.map(|write| write.path).collect(), write_allow.copied().collect());
        let has = |patterns: &[&str], path: &str| {
            let bound = patterns.iter().filter_map(|text| bound(text, agent, identity).ok());
            let mut having = bound.filter(|pattern| pattern.matches(path));
            having.next().map(|pattern| pattern.to_string())
        };
        let named = |path: &String| {
            // A pattern takes `docs/../x` for a file below `docs`, and nobody may touch it.
            let inside = RelPath::parse(path).ok();
            let checked = inside.as_ref().zip(sandbox.as_ref());
            Named {
                may_read: checked.is_some_and(|(path, sandbox)| sandbox.check_read(path).is_ok()),
                may_write: checked.is_some_and(|(path, sandbox)| sandbox.check_write(path).is_ok()),
                template: inside.as_ref().and_then(|path| has(&write_allow, path.as_str())),
                spec: inside.as_ref().and_then(|path| has(&writes, path.as_str())),
                path: path.clone(),
            }
        };
        Some(Touches {
            reads: tool.effects.reads.iter().map(|text| shown(text)).collect(),
            writes: writes.iter().map(|text| shown(text)).collect(),
            write_allow: write_allow.iter().map(|text| shown(text)).collect(),
            paths: invocation.affected_paths().iter().map(named).collect(),
        })
    }
}
