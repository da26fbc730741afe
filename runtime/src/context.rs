//! What a handler gets: who calls, what it may touch, and a way to say what happened.
//!
//! Answers for one call's identity, sandbox, events, progress and cancellation. Leaves out how a call gets here (the
//! session) and what the handlers do.

use std::sync::Arc;
use std::time::Duration;

use devloop_contract::{InternalError, Refusal, Tool, ToolError};
use devloop_core::memory::Shelf;
use devloop_core::sandbox::{RelPath, Sandbox};
use devloop_core::store::replay::Key;
use devloop_core::store::{Lock, Replay, Store, StoreError, Wait, clock};
use devloop_core::timeline::Timeline;
use devloop_generated::{Event, types};
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::call::Progress;
use crate::identity::Identity;
use crate::project::Project;
use crate::session::Session;

/// One call, as its handler sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Context {
    inner: Arc<Parts>,
}

/// What a context is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) session: Session,
    pub(crate) project: Arc<Project>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) tool: &'static Tool,
    pub(crate) store: Store,
    pub(crate) tool_use_id: String,
    pub(crate) cancel: CancellationToken,
    pub(crate) progress: Option<mpsc::UnboundedSender<Progress>>,
    pub(crate) may_block: Option<MayBlock>,
}

/// Says that the thread on which a handler runs waits for nobody else.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayBlock;

/// How bad a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For who looks into a problem.
    Debug,
    /// For who watches.
    Info,
    /// For who should look.
    Warn,
}

impl Context {
    pub(crate) fn new(parts: Parts) -> Self {
        Self { inner: Arc::new(parts) }
    }

    /// The session that the call belongs to.
    pub fn session(&self) -> &Session {
        &self.inner.session
    }

    /// Company, project, agent, unit, agent call and session.
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// Names this one call of a tool, unique over connections.
    pub fn tool_use_id(&self) -> &str {
        &self.inner.tool_use_id
    }

    /// The tool that was called: the face, when a handler has several.
    pub fn tool(&self) -> &'static Tool {
        self.inner.tool
    }

    /// The project and its services.
    pub fn project(&self) -> &Project {
        &self.inner.project
    }

    /// The only door to the project's files. It lets through what the agent's template allows *and* the tool declares.
    /// Its calls block: use it inside [`blocking`](Self::blocking).
    pub fn sandbox(&self) -> &Sandbox {
        self.inner.store.sandbox()
    }

    /// State files, locks and history, kept through the sandbox. Its calls block, too.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.inner.project.clock.now()
    }

    /// Whether the caller no longer wants the result. A handler asks between steps and never stops inside a write.
    pub fn cancelled(&self) -> bool {
        self.inner.cancel.is_cancelled()
    }

    /// Cancelled when the caller no longer wants the result.
    pub fn cancel(&self) -> &CancellationToken {
        &self.inner.cancel
    }

    /// Takes the lock `name` of the project, waiting as long as the settings say and no longer than the caller wants the
    /// result. Blocks: use it inside [`blocking`](Self::blocking).
    ///
    /// # Errors
    /// `busy` with the holder, a cancelled call, a refused path, or an error of the system.
    pub fn lock(&self, name: &str) -> Result<Lock, StoreError> {
        let cancelled = || self.cancelled();
        let wait = Wait::at_most(self.lock_wait()).unless(&cancelled);
        self.inner.store.lock(name, wait)
    }

    /// How long this call waits for a lock at most.
    pub fn lock_wait(&self) -> Duration {
        // A wait as long as the tool's own time would end in a time-out, which says less than `busy` does.
        let longest = self.time().mul_f32(0.8);
        self.inner.project.config.lock_wait.min(longest)
    }

    /// How long this call may take.
    pub fn time(&self) -> Duration {
        let tool = self.inner.tool;
        self.inner.project.config.timeouts.of(tool.name, tool.timeout)
    }

    /// The project's timeline, written through the sandbox. Its calls block, too.
    pub fn timeline(&self) -> Timeline {
        Timeline::new(self.inner.store.clone())
    }

    /// The calls of this agent that are known again. Its calls block.
    ///
    /// # Errors
    /// An agent that no file can be named for.
    pub fn replay(&self) -> Result<Arc<Replay>, StoreError> {
        self.inner.project.replay(self.inner.identity.agent)
    }

    /// The memories of this agent. Touches no disk.
    ///
    /// # Errors
    /// An agent that no directory can be named for.
    pub fn memories(&self) -> Result<Arc<Shelf>, InternalError> {
        let agent = self.inner.identity.agent;
        let memories = self.inner.project.memories(agent);
        memories.map_err(|problem| InternalError::new("the agent's name makes no path", problem))
    }

    /// What names this call in [`replay`](Self::replay): the key that the agent gave, else the call's own name.
    pub fn call_key(&self, idempotency_key: Option<&str>) -> Key {
        match idempotency_key {
            Some(key) => Key::Idempotency(key.to_owned()),
            None => Key::Call(self.inner.tool_use_id.clone()),
        }
    }

    /// Tells the caller how far a long call is; nothing happens when it did not ask.
    pub fn progress(&self, progress: Progress) {
        if let Some(sender) = &self.inner.progress {
            // A caller that hung up needs no progress.
            let _ = sender.send(progress);
        }
    }

    /// Writes to the program's log.
    pub fn log(&self, level: Level, message: &str) {
        let (agent, tool) = (self.inner.identity.agent, self.inner.tool.name);
        match level {
            Level::Debug => tracing::debug!(agent, tool, "{message}"),
            Level::Info => tracing::info!(agent, tool, "{message}"),
            Level::Warn => tracing::warn!(agent, tool, "{message}"),
        }
    }

    /// A path of the input as the sandbox takes it. Admission has judged its form already; `field` names it if not.
    ///
    /// # Errors
    /// A validation error at `field`.
    pub fn path(&self, field: &str, path: &types::RelPath) -> Result<RelPath, ToolError> {
        RelPath::parse(path.as_str()).map_err(|problem| problem.at(field))
    }

    /// Runs file work on a thread that may block: this one, when the call has it to itself. The work runs to its end even when the caller cancels: a write is never
    /// dropped half-way.
    ///
    /// # Errors
    /// What the work answers; a panic in it is an internal error.
    pub async fn blocking<T, F, W>(&self, work: W) -> Result<T, Refusal<F>>
    where
        T: Send + 'static,
        F: Send + 'static,
        W: FnOnce(&Self) -> Result<T, Refusal<F>> + Send + 'static,
    {
        if self.inner.may_block.is_some() {
            return work(self);
        }
        let context = self.clone();
        match tokio::task::spawn_blocking(move || work(&context)).await {
            Ok(result) => result,
            Err(error) => Err(InternalError::new("the file work of the handler did not end", error).into()),
        }
    }

    /// Makes an event known: in the project's journal, then to subscribers in this process. Blocks for the append.
    ///
    /// Call it after the write that it tells of. That the journal cannot be written is logged and fails nothing.
    ///
    /// # Errors
    /// The tool's spec does not declare the event: a bug of the handler or of the spec.
    pub fn emit(&self, event: &Event) -> Result<(), InternalError> {
        let name = event.name();
        if !self.inner.tool.effects.events.contains(&name) {
            return Err(InternalError::bare(format!(
                "the event `{name}` is not among the effects that {} declares",
                self.inner.tool.spec
            )));
        }
        publish(&self.inner.project, &self.inner.identity, event);
        Ok(())
    }
}

/// Makes an event known on behalf of a call. Every payload carries `agent`, `call_id`, `unit_id?` and `ts`.
pub(crate) fn publish(project: &Project, identity: &Identity, event: &Event) {
    let mut payload = Map::new();
    payload.insert("agent".into(), identity.agent.into());
    payload.insert("call_id".into(), identity.call_id.clone().into());
    if let Some(unit) = &identity.unit_id {
        payload.insert("unit_id".into(), unit.clone().into());
    }
    payload.insert("ts".into(), clock::iso(project.clock.now()).into());
    if let Value::Object(own) = event.payload() {
        payload.extend(own);
    }
    if let Err(error) = project.journal.emit(event.name(), Value::Object(payload)) {
        tracing::warn!(event = event.name(), "the event journal cannot be written: {error}");
    }
}
