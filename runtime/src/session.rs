//! The path that every call takes, whichever face it comes from: find the tool, build the input, type it, hand it to its
//! handler, check the result.
//!
//! Answers for one agent's session on one project: which tools it has, what each call may touch, and that every call
//! ends in exactly one [`CallOutcome`], a panicking handler's included. Leaves out the faces, and the admission of many
//! calls at once (permission modes, queues, retries).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use devloop_contract::error::{Access, Ground};
use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::glob::{Pattern, PatternError};
use devloop_contract::{Agent, ExpectedFailure, InternalError, Tool, ToolError};
use devloop_core::registry::{BuildError, CompiledTool, Registry};
use devloop_core::sandbox::{RelPath, Sandbox};
use devloop_core::store::Store;
use devloop_generated::events::LoopEscalated;
use devloop_generated::{AnyInput, HandleAll, dispatch};
use serde_json::{Map, Value};
use tokio::task::JoinError;

use crate::call::{CallOutcome, CallRequest, ToolService};
use crate::context::{Context, MayBlock, Parts, publish};
use crate::identity::Identity;
use crate::project::{Escalation, Project};
use crate::projection::tools_of;
use crate::turns::{Ended, Late, Place, Turns};

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
    turns: Turns,
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
            turns: Turns::default(),
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

    /// The session's tool of a name or an alias.
    #[cfg(feature = "testing")]
    pub(crate) fn find(&self, name: &str) -> Option<&'static Tool> {
        self.inner.registry.get(name).map(spec_of)
    }

    /// Whether `tool` may write a path in this session.
    #[cfg(feature = "testing")]
    pub(crate) fn may_write(&self, tool: &'static Tool, path: &str) -> bool {
        let allowed = |path: &RelPath| {
            self.sandbox(tool)
                .is_ok_and(|sandbox| sandbox.check_write(path).is_ok())
        };
        RelPath::parse(path).is_ok_and(|path| allowed(&path))
    }

    /// `None` when the caller cancelled before it was this call's turn.
    async fn run(&self, compiled: &CompiledTool, request: CallRequest) -> Option<Result<Value, ErasedRefusal>> {
        let (tool, cancel) = (spec_of(compiled), request.cancel.clone());
        let place = self.inner.turns.place(tool.parallelism);
        let (context, input) = match self.prepare(compiled, request, &place) {
            Ok(prepared) => prepared,
            Err(refusal) => return Some(Err(refusal)),
        };
        let work = async move { dispatch(&context, input).await };
        let expected = |body| Err(ErasedRefusal::Expected(Box::new(body)));
        let output = match self
            .inner
            .turns
            .run(place, tool.parallelism, tool.timeout, cancel, work)
            .await
        {
            Ended::Cancelled => return None,
            Ended::NoTurn => return Some(expected(no_turn(tool))),
            // A result that came after all is better than none.
            Ended::Done(result) | Ended::TimedOut(Late::Answered(result @ Ok(_))) => result,
            Ended::TimedOut(late) => {
                self.watch(tool, late);
                return Some(expected(timed_out(tool)));
            }
            Ended::Panicked(error) => Err(ErasedRefusal::Tool(panicked(tool, error).into())),
        };
        Some(output.and_then(|output| finished(compiled, output)))
    }

    /// Lets an internal error be known that comes when the caller has its answer, `tool_timeout`, already.
    fn watch(&self, tool: &'static Tool, late: Late<Result<Value, ErasedRefusal>>) {
        let session = self.clone();
        tokio::spawn(async move {
            let ended = match late {
                Late::Answered(result) => Ok(Some(result)),
                Late::Panicked(error) => Err(error),
                Late::Running(task) => task.await,
            };
            let error = match ended {
                Ok(Some(Err(ErasedRefusal::Tool(ToolError::Internal(error))))) => error,
                Err(error) => panicked(tool, error),
                Ok(_) => return,
            };
            session.escalate(tool, &error).await;
        });
    }

    /// Input that is built and typed, and what its handler gets. Nothing has happened yet.
    fn prepare(
        &self,
        compiled: &CompiledTool,
        mut request: CallRequest,
        place: &Place,
    ) -> Result<(Context, AnyInput), ErasedRefusal> {
        let tool = spec_of(compiled);
        let internal = |error: InternalError| ErasedRefusal::Tool(error.into());
        let arguments = std::mem::take(&mut request.arguments);
        let built = compiled.build(arguments).map_err(|error| match error {
            BuildError::Invalid(error) => ErasedRefusal::Tool(error.into()),
            BuildError::Internal(error) => internal(error),
        })?;
        // Valid input that has no type is the caller's to mend all the same: the schema lets some numbers through that
        // no Rust integer holds.
        let input = AnyInput::parse(tool, built.input()).map_err(|error| {
            ErasedRefusal::Tool(ToolError::validation("", format!("the input cannot be read: {error}")))
        })?;
        let may_block = matches!(place, Place::Desk(_)).then_some(MayBlock);
        let context = self.context(tool, request, may_block).map_err(internal)?;
        Ok((context, input))
    }

    /// What the handler of `tool` gets for a call.
    pub(crate) fn context(
        &self,
        tool: &'static Tool,
        request: CallRequest,
        may_block: Option<MayBlock>,
    ) -> Result<Context, InternalError> {
        let project = Arc::clone(&self.inner.project);
        Ok(Context::new(Parts {
            store: Store::new(self.sandbox(tool)?, Arc::clone(&project.clock)),
            project,
            identity: Arc::clone(&self.inner.identity),
            tool,
            tool_use_id: request.tool_use_id,
            cancel: request.cancel,
            progress: request.progress,
            may_block,
        }))
    }

    /// What the caller is told; an error when it is internal and others must be told as well.
    fn outcome(&self, tool: &'static Tool, result: Result<Value, ErasedRefusal>) -> Result<CallOutcome, InternalError> {
        Ok(match result {
            Ok(value) => CallOutcome::Success(value),
            Err(ErasedRefusal::Expected(body)) => CallOutcome::Expected(*body),
            Err(ErasedRefusal::Common(failure)) if tool.common_failures.contains(&failure.code()) => {
                CallOutcome::Expected(FailureBody::new(&failure, None))
            }
            Err(ErasedRefusal::Common(failure)) => {
                let (code, details) = (failure.code(), failure.details().unwrap_or_default());
                let message = format!("`{code}` is not among the common_failures of {}: {details}", tool.spec);
                return Err(InternalError::bare(message));
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
                let ToolError::Sandbox {
                    cause, ground, access, ..
                } = error
                else {
                    unreachable!("matched above")
                };
                // Where something lies in the way, other paths are no help.
                let may_write = (ground == Ground::Permission && access == Access::Write)
                    .then(|| format!("{} may write: {}", self.inner.agent.name, self.allowed()));
                let hint = [cause, may_write].into_iter().flatten().collect::<Vec<_>>().join(". ");
                CallOutcome::Sandbox {
                    message,
                    hint: (!hint.is_empty()).then_some(hint),
                }
            }
            Err(ErasedRefusal::Tool(ToolError::Cancelled)) => CallOutcome::Cancelled,
            Err(ErasedRefusal::Tool(ToolError::Internal(error))) => return Err(error),
        })
    }

    /// The patterns that the agent may write in this session, for reading.
    fn allowed(&self) -> String {
        let allowed = self.inner.agent.sandbox.write_allow.iter().map(|text| {
            bound(text, self.inner.agent, &self.inner.identity)
                .map_or_else(|_| (*text).to_owned(), |pattern| pattern.to_string())
        });
        allowed.collect::<Vec<_>>().join(", ")
    }

    /// Gives an internal error its id, and tells the log, the subscribers and the loop controller.
    async fn escalate(&self, tool: &'static Tool, error: &InternalError) -> CallOutcome {
        let escalation = Escalation {
            agent: self.inner.agent.name.to_owned(),
            tool: tool.name.to_owned(),
            call_id: self.inner.identity.call_id.clone(),
            error_id: format!("err-{}", self.inner.project.ids.next()),
            chain: error.chain(),
        };
        tracing::error!(
            agent = escalation.agent,
            tool = tool.name,
            error_id = escalation.error_id,
            "{}",
            escalation.chain
        );
        let outcome = CallOutcome::Internal {
            message: error.to_string(),
            chain: escalation.chain.clone(),
            error_id: escalation.error_id.clone(),
        };
        // Telling blocks: it appends to a journal, and what a controller does nobody knows.
        let session = self.clone();
        let told = tokio::task::spawn_blocking(move || {
            let event = LoopEscalated {
                tool: escalation.tool.clone(),
                error_id: escalation.error_id.clone(),
                message: escalation.chain.clone(),
            };
            publish(&session.inner.project, &session.inner.identity, &event.into());
            session.inner.project.controller.escalate(&escalation);
        });
        if let Err(error) = told.await {
            tracing::error!("the loop controller could not be told: {error}");
        }
        outcome
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
        let tool = spec_of(compiled);
        match self.outcome(tool, result) {
            Ok(outcome) => outcome,
            Err(error) => self.escalate(tool, &error).await,
        }
    }

    fn instructions(&self) -> &str {
        &self.inner.instructions
    }
}

/// The tool as its spec has it.
fn spec_of(compiled: &CompiledTool) -> &'static Tool {
    let tool = compiled.definition().built_in();
    tool.expect("a session registers tools of specs alone")
}

/// A handler's output as the result of the call, checked against the published schema.
fn finished(compiled: &CompiledTool, output: Value) -> Result<Value, ErasedRefusal> {
    let tool = spec_of(compiled);
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
        return Err(ErasedRefusal::Tool(InternalError::bare(message).into()));
    }
    Ok(result)
}

fn panicked(tool: &Tool, error: JoinError) -> InternalError {
    InternalError::new(format!("the handler of {} panicked", tool.name), error)
}

fn path_rule(text: &str) -> Result<(), String> {
    RelPath::parse(text).map(|_| ()).map_err(|problem| problem.to_string())
}

fn no_turn(tool: &Tool) -> FailureBody {
    FailureBody {
        ok: false,
        code: "tool_busy".to_owned(),
        reason: format!(
            "earlier calls of this session did not end within {:?}; nothing was done",
            tool.timeout
        ),
        hint: Some("Call again when they have been answered.".to_owned()),
        details: None,
    }
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
    let bound = |text: &str| {
        bound(text, agent, identity).map_err(|error| {
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
    let reads = tool
        .effects
        .reads
        .iter()
        .map(|text| bound(text))
        .collect::<Result<_, _>>()?;
    let writes = tool
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
        .with_effects(reads, writes, tool.spec)
        .with_read_allow(read))
}

/// A pattern in which the agent, its state key, its unit and its site stand for this session's.
fn bound(text: &str, agent: &Agent, identity: &Identity) -> Result<Pattern, PatternError> {
    let value = |name: &str| match name {
        "agent" => Some(vec![identity.agent.to_owned()]),
        "state_key" => Some(vec![identity.state_key()]),
        "unit_id" => identity.unit_id.clone().map(|unit| vec![unit]),
        "site" if !agent.sandbox.site.is_empty() => Some(vec![agent.sandbox.site.to_owned()]),
        _ => None,
    };
    Pattern::parse(text).map(|pattern| pattern.bind(&value))
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
