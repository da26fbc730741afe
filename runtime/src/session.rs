//! The path that every call takes, whichever face it comes from: find the tool, build the input, type it, hand it to its
//! handler, check the result.
//!
//! Answers for one agent's session on one project: which tools it has, what each call may touch, and that every call
//! ends in exactly one [`CallOutcome`], a panicking handler's included. Leaves out the faces, and the admission of many
//! calls at once (permission modes, queues, retries).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::glob::Pattern;
use devloop_contract::tool::Parallelism;
use devloop_contract::{Agent, ExpectedFailure, InternalError, Tool, ToolError};
use devloop_core::registry::{BuildError, CompiledTool, Registry};
use devloop_core::sandbox::{RelPath, Sandbox};
use devloop_generated::events::LoopEscalated;
use devloop_generated::{AnyInput, Event, HandleAll, dispatch};
use serde_json::{Map, Value};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::call::{CallOutcome, CallRequest, ToolService};
use crate::context::{Context, publish};
use crate::identity::Identity;
use crate::project::{Escalation, Project};
use crate::projection::tools_of;

/// How long a call that ran out of time may take to stop before its answer no longer waits for it.
const GRACE: Duration = Duration::from_secs(2);

/// A call's turn; it goes on when the handler has ended, which may be after its answer was given up on.
#[derive(Debug)]
enum Turn {
    Shared(#[expect(dead_code, reason = "held, not read")] OwnedRwLockReadGuard<()>),
    Exclusive(#[expect(dead_code, reason = "held, not read")] OwnedRwLockWriteGuard<()>),
}

// One line: a handler without an implementation is an error here that names it.
impl HandleAll for Context {}

/// One agent's session on one project. Cheap to clone; calls may run at the same time.
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    project: Arc<Project>,
    identity: Arc<Identity>,
    agent: &'static Agent,
    tools: Vec<&'static Tool>,
    registry: Registry,
    sandboxes: BTreeMap<&'static str, OnceLock<Sandbox>>,
    gate: Arc<RwLock<()>>,
    instructions: String,
}

impl Session {
    /// A session of `agent`. Touches no disk.
    ///
    /// # Panics
    /// When two granted tools share a name, which the generator refuses to build.
    pub fn new(project: Arc<Project>, agent: &'static Agent, identity: Identity) -> Self {
        let tools = tools_of(agent);
        let registry = Registry::new(tools.iter().copied(), path_rule).expect("the generator keeps names unique");
        let sandboxes = tools.iter().map(|tool| (tool.name, OnceLock::new())).collect();
        let instructions = instructions(agent, &tools, &identity);
        let inner = Inner {
            project,
            identity: Arc::new(identity),
            agent,
            tools,
            registry,
            sandboxes,
            gate: Arc::default(),
            instructions,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Who calls.
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.inner.project
    }

    /// The tool's sandbox for this session: made on its first call, then shared.
    fn sandbox(&self, tool: &'static Tool) -> Result<Sandbox, InternalError> {
        let make = || sandbox_for(&self.inner.project, &self.inner.identity, self.inner.agent, tool);
        match self.inner.sandboxes.get(tool.name) {
            Some(cell) => match cell.get() {
                Some(sandbox) => Ok(sandbox.clone()),
                None => make().map(|sandbox| cell.get_or_init(|| sandbox).clone()),
            },
            None => make(),
        }
    }

    /// `None` when the caller cancelled before it was this call's turn.
    async fn run(&self, compiled: &CompiledTool, request: CallRequest) -> Option<Result<Value, ErasedRefusal>> {
        let (tool, cancel) = (compiled.tool(), request.cancel.clone());
        let (context, input) = match self.prepare(compiled, request) {
            Ok(prepared) => prepared,
            Err(refusal) => return Some(Err(refusal)),
        };
        let turn = tokio::select! {
            biased;
            () = cancel.cancelled() => return None,
            turn = self.turn(tool.parallelism) => turn,
        };
        Some(carry_out(compiled, context, input, cancel, turn).await)
    }

    /// Input that is built and typed, and what its handler gets. Nothing has happened yet.
    fn prepare(&self, compiled: &CompiledTool, request: CallRequest) -> Result<(Context, AnyInput), ErasedRefusal> {
        let tool = compiled.tool();
        let internal = |error: InternalError| ErasedRefusal::Tool(error.into());
        let built = compiled.build(request.arguments).map_err(|error| match error {
            BuildError::Invalid(error) => ErasedRefusal::Tool(error.into()),
            BuildError::Internal(error) => internal(error),
        })?;
        // Valid input that has no type is the caller's to mend all the same: the schema lets some numbers through that
        // no Rust integer holds.
        let input = AnyInput::parse(tool, built.input()).map_err(|error| {
            ErasedRefusal::Tool(ToolError::validation("", format!("the input cannot be read: {error}")))
        })?;
        let context = Context::new(
            Arc::clone(&self.inner.project),
            Arc::clone(&self.inner.identity),
            tool,
            self.sandbox(tool).map_err(internal)?,
            request.tool_use_id,
            request.cancel,
            request.progress,
        );
        Ok((context, input))
    }

    /// Waits until a call may run: first come, first served, shared calls beside each other and an exclusive one alone.
    /// Without it, pipelined calls would each hold a thread and wait for one another's file locks there.
    async fn turn(&self, parallelism: Parallelism) -> Turn {
        let gate = Arc::clone(&self.inner.gate);
        match parallelism {
            Parallelism::Shared => Turn::Shared(gate.read_owned().await),
            Parallelism::Exclusive => Turn::Exclusive(gate.write_owned().await),
        }
    }
    fn outcome(&self, tool: &'static Tool, result: Result<Value, ErasedRefusal>) -> CallOutcome {
        match result {
            Ok(value) => CallOutcome::Success(value),
            Err(ErasedRefusal::Expected(body)) => CallOutcome::Expected(*body),
            Err(ErasedRefusal::Common(failure)) if tool.common_failures.contains(&failure.code()) => {
                CallOutcome::Expected(FailureBody::new(&failure, None))
            }
            Err(ErasedRefusal::Common(failure)) => {
                let message = format!("`{}` is not among the common_failures of {}", failure.code(), tool.spec);
                self.escalate(tool, &InternalError::bare(format!("{message}: {}", failure.summary())))
            }
            Err(ErasedRefusal::Tool(ToolError::Validation(mut error))) => {
                // What a handler refuses beyond the schema comes without one.
                if error.example.is_none() {
                    error.example = tool.examples.first().map(|example| example.input.to_owned());
                }
                CallOutcome::Invalid(error)
            }
            Err(ErasedRefusal::Tool(error @ ToolError::Sandbox { .. })) => {
                let message = error.to_string();
                let ToolError::Sandbox { cause, .. } = error else {
                    unreachable!("matched above")
                };
                let allowed = self.inner.agent.sandbox.write_allow.join(", ");
                let hint = match cause {
                    Some(cause) => format!("{cause}. {} may write: {allowed}", self.inner.agent.name),
                    None => format!("{} may write: {allowed}", self.inner.agent.name),
                };
                CallOutcome::Sandbox {
                    message,
                    hint: Some(hint),
                }
            }
            Err(ErasedRefusal::Tool(ToolError::Cancelled)) => CallOutcome::Cancelled,
            Err(ErasedRefusal::Tool(ToolError::Internal(error))) => self.escalate(tool, &error),
        }
    }

    /// Gives an internal error its id, and tells the log, the subscribers and the loop controller.
    fn escalate(&self, tool: &'static Tool, error: &InternalError) -> CallOutcome {
        let error_id = format!("err-{}", Uuid::now_v7());
        let (message, chain) = (error.to_string(), error.chain());
        tracing::error!(agent = self.inner.agent.name, tool = tool.name, error_id, "{chain}");
        publish(
            &self.inner.project,
            &self.inner.identity,
            &Event::LoopEscalated(LoopEscalated {
                tool: tool.name.to_owned(),
                error_id: error_id.clone(),
                message: message.clone(),
            }),
        );
        self.inner.project.controller.escalate(&Escalation {
            agent: self.inner.agent.name.to_owned(),
            tool: tool.name.to_owned(),
            call_id: self.inner.identity.call_id.clone(),
            error_id: error_id.clone(),
            chain: chain.clone(),
        });
        CallOutcome::Internal {
            message,
            chain,
            error_id,
        }
    }
}

impl ToolService for Session {
    fn tools(&self) -> &[&'static Tool] {
        &self.inner.tools
    }

    async fn call(&self, request: CallRequest) -> CallOutcome {
        if request.cancel.is_cancelled() {
            return CallOutcome::Cancelled;
        }
        let Some(compiled) = self.inner.registry.get(&request.tool) else {
            let nearest = self.inner.registry.nearest(&request.tool);
            return CallOutcome::UnknownTool {
                name: request.tool,
                nearest,
            };
        };
        let Some(result) = self.run(compiled, request).await else {
            return CallOutcome::Cancelled;
        };
        let tool = compiled.tool();
        if !matches!(
            &result,
            Err(ErasedRefusal::Tool(ToolError::Internal(_)) | ErasedRefusal::Common(_))
        ) {
            return self.outcome(tool, result);
        }
        // Escalation appends to a journal, which blocks.
        let session = self.clone();
        match tokio::task::spawn_blocking(move || session.outcome(tool, result)).await {
            Ok(outcome) => outcome,
            Err(error) => CallOutcome::Internal {
                message: "the internal error could not be reported".to_owned(),
                chain: error.to_string(),
                error_id: String::new(),
            },
        }
    }

    fn instructions(&self) -> &str {
        &self.inner.instructions
    }
}

/// Runs the handler and makes its answer a result.
async fn carry_out(
    compiled: &CompiledTool,
    context: Context,
    input: AnyInput,
    cancel: CancellationToken,
    turn: Turn,
) -> Result<Value, ErasedRefusal> {
    let tool = compiled.tool();
    let internal = |error: InternalError| ErasedRefusal::Tool(error.into());
    // A task of its own: a panic is caught, and a call whose answer is no longer awaited still ends its writes.
    let mut task = tokio::spawn(async move {
        let _turn = turn;
        dispatch(&context, input).await
    });
    let ended = match tokio::time::timeout(tool.timeout, &mut task).await {
        Ok(ended) => ended,
        Err(_elapsed) => {
            cancel.cancel();
            match tokio::time::timeout(GRACE, &mut task).await {
                // It made it after all; its result is better than none.
                Ok(Ok(Ok(output))) => Ok(Ok(output)),
                _ => return Err(ErasedRefusal::Expected(Box::new(timed_out(tool)))),
            }
        }
    };
    let output = match ended {
        Ok(result) => result?,
        Err(error) => {
            let message = format!("the handler of {} panicked", tool.name);
            return Err(internal(InternalError::new(message, error)));
        }
    };
    let mut result = Map::new();
    result.insert("ok".into(), Value::Bool(true));
    if let Value::Object(output) = output {
        result.extend(output);
    }
    let result = Value::Object(result);
    if let Err(mismatch) = compiled.check_output(&result) {
        let message = format!(
            "the answer of {} breaks the output schema of {}: {mismatch}",
            tool.name, tool.spec
        );
        return Err(internal(InternalError::bare(message)));
    }
    Ok(result)
}

fn path_rule(text: &str) -> Result<(), String> {
    RelPath::parse(text).map(|_| ()).map_err(|problem| problem.to_string())
}

fn timed_out(tool: &Tool) -> FailureBody {
    FailureBody {
        ok: false,
        code: "tool_timeout".to_owned(),
        reason: format!("{} took longer than {:?} and was told to stop", tool.name, tool.timeout),
        hint: Some("Look at what it left before you call again: it may have done part of its work.".to_owned()),
        details: None,
    }
}

/// What `tool` may touch when `agent` calls it: what the template allows, by itself or through this tool, *and* the spec
/// declares. Both sides are bound to this session, so a Coder's `units/{unit_id}/**` is one unit.
fn sandbox_for(
    project: &Project,
    identity: &Identity,
    agent: &'static Agent,
    tool: &'static Tool,
) -> Result<Sandbox, InternalError> {
    let value = |name: &str| match name {
        "agent" => Some(vec![identity.agent.to_owned()]),
        "state_key" => Some(vec![identity.state_key()]),
        "unit_id" => identity.unit_id.clone().map(|unit| vec![unit]),
        _ => None,
    };
    let bound = |text: &str| {
        Pattern::parse(text)
            .map(|pattern| pattern.bind(&value))
            .map_err(|error| {
                InternalError::new(
                    format!("the path pattern `{text}` of {} or {}", tool.spec, agent.id),
                    error,
                )
            })
    };
    let via = agent
        .sandbox
        .write_via
        .iter()
        .filter(|via| via.tool == tool.name)
        .flat_map(|via| via.paths);
    let allow = agent
        .sandbox
        .write_allow
        .iter()
        .chain(via)
        .map(|text| bound(text))
        .collect::<Result<_, _>>()?;
    let effects = tool
        .effects
        .writes
        .iter()
        .filter(|write| write.only.is_empty() || write.only.contains(&agent.name))
        .map(|write| bound(write.path))
        .collect::<Result<_, _>>()?;
    let read = agent
        .sandbox
        .read_allow
        .iter()
        .map(|text| bound(text))
        .collect::<Result<_, _>>()?;
    Ok(Sandbox::new(Arc::clone(&project.dir), identity.agent, allow)
        .with_effects(effects, tool.spec)
        .with_read_allow(read))
}

/// What an MCP client tells its model about this server.
fn instructions(agent: &Agent, tools: &[&'static Tool], identity: &Identity) -> String {
    let mut text = format!("devloop serves the tools of the {}: {}", agent.title, agent.summary);
    if let Some(unit) = &identity.unit_id {
        let _ = write!(text, " This session works on the unit `{unit}`.");
    }
    text.push_str(" All paths are relative to the project directory.");
    let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
    let _ = write!(text, " Tools: {}.", names.join(", "));
    text
}
