//! The path that every call takes, whichever face it comes from: find the tool, build the input, type it, hand it to its
//! handler, check the result.
//!
//! Answers for one agent's session on one project: which tools it has, what each call may touch, and that every call
//! ends in exactly one [`CallOutcome`], a panicking handler's included. Leaves out the faces, and when a call runs: that
//! is the executor's.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use devloop_contract::error::{Access, Ground};
use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::glob::{Pattern, PatternError};
use devloop_contract::tool::{Kind, Parallelism};
use devloop_contract::{Agent, ExpectedFailure, InternalError, Tool, ToolError};
use devloop_core::execution::flow::{Busy, Stage};
use devloop_core::execution::retry::{Replay, Transient};
use devloop_core::execution::turn;
use devloop_core::registry::{BuildError, CompiledTool, Registry};
use devloop_core::sandbox::{RelPath, Sandbox};
use devloop_core::store::Store;
use devloop_generated::events::LoopEscalated;
use devloop_generated::{AnyInput, HandleAll, dispatch};
use serde_json::{Map, Value};

use crate::call::{CallOutcome, CallRequest, ToolService};
use crate::context::{Context, MayBlock, Parts, publish};
use crate::execution::{Ended, Facts, Lane, Late, Panic, Pending, Place, StreamingExecutor, Try, Verdict, Work};
use crate::identity::Identity;
use crate::project::{Escalation, Project};
use crate::projection::tools_of;

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
    lane: Lane,
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
            lane: project.executor.lane(),
            project,
            identity: Arc::new(identity),
            agent,
            tools,
            registry,
            sandboxes,
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

    /// A call takes its place in the order of this session, now, and not when the answer is first waited for. Dropped
    /// before it has begun, it never does.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn submit(&self, request: CallRequest) -> impl Future<Output = CallOutcome> + Send + use<> {
        let submitted = self.begin(request);
        let session = self.clone();
        async move {
            let (tool, pending) = match submitted {
                Begun::Waits(tool, pending) => (tool, pending),
                Begun::Refused(tool, refusal) => return session.told(tool, Err(refusal)).await,
                Begun::Over(outcome) => return outcome,
            };
            match session.awaited(tool, pending).await {
                Some(result) => session.told(tool, result).await,
                None => CallOutcome::Cancelled,
            }
        }
    }

    /// Calls that come while a model still speaks.
    pub fn streaming(&self) -> StreamingCalls {
        StreamingCalls {
            session: self.clone(),
            calls: StreamingExecutor::new(),
        }
    }

    fn begin(&self, request: CallRequest) -> Begun {
        if request.cancel.is_cancelled() {
            return Begun::Over(CallOutcome::Cancelled);
        }
        let Some(compiled) = self.inner.registry.get(&request.tool) else {
            let nearest = self.inner.registry.nearest(&request.tool);
            return Begun::Over(CallOutcome::UnknownTool {
                name: request.tool,
                nearest,
            });
        };
        let (tool, cancel) = (spec_of(compiled), request.cancel.clone());
        match self.prepare(compiled, request) {
            Ok((facts, work)) => Begun::Waits(tool, self.inner.lane.submit(facts, cancel, work)),
            Err(refusal) => Begun::Refused(tool, refusal),
        }
    }

    /// `None` when the caller cancelled before it was this call's turn.
    async fn awaited(
        &self,
        tool: &'static Tool,
        pending: Pending<Result<Value, ErasedRefusal>>,
    ) -> Option<Result<Value, ErasedRefusal>> {
        let expected = |body| Err(ErasedRefusal::Expected(Box::new(body)));
        let output = match pending.report().await.ended {
            Ended::Cancelled => return None,
            Ended::Refused(busy) => return Some(expected(no_turn(tool, busy))),
            // A result that came after all is better than none.
            Ended::Answered(result) | Ended::TimedOut(Late::Answered(result @ Ok(_))) => result,
            Ended::TimedOut(late) => {
                self.watch(tool, late);
                return Some(expected(timed_out(tool)));
            }
            Ended::Panicked(panic) => Err(ErasedRefusal::Tool(panicked(tool, panic).into())),
        };
        Some(output.and_then(|output| match self.inner.registry.get(tool.name) {
            Some(compiled) => finished(compiled, output),
            None => Ok(output),
        }))
    }

    /// Lets an internal error be known that comes when the caller has its answer, `tool_timeout`, already.
    fn watch(&self, tool: &'static Tool, late: Late<Result<Value, ErasedRefusal>>) {
        let session = self.clone();
        tokio::spawn(async move {
            let error = match late.answer().await {
                Ok(Err(ErasedRefusal::Tool(ToolError::Internal(error)))) => error,
                Err(panic) => panicked(tool, panic),
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
    ) -> Result<(Facts, HandlerCall), ErasedRefusal> {
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
        let may_block = (self.inner.lane.place(tool.parallelism) == Place::Desk).then_some(MayBlock);
        let context = self.context(tool, request, may_block).map_err(internal)?;
        // No link below a project is followed, so that its real path makes real paths.
        let project = self.inner.project.dir.path();
        let real = |path: &String| -> PathBuf { project.join(path) };
        let facts = Facts::from(tool).on(built.affected_paths().iter().map(real));
        let work = HandlerCall {
            context,
            input: Some(input),
            replay: facts.replay,
        };
        Ok((facts, work))
    }

    /// What the caller is told, after others were told what they must know.
    async fn told(&self, tool: &'static Tool, result: Result<Value, ErasedRefusal>) -> CallOutcome {
        match self.outcome(tool, result) {
            Ok(outcome) => outcome,
            Err(error) => self.escalate(tool, &error).await,
        }
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
            hint: error.hint().to_owned(),
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
        self.submit(request).await
    }

    fn instructions(&self) -> &str {
        &self.inner.instructions
    }
}

/// What became of a call so far.
enum Begun {
    /// It waits for its turn, or runs.
    Waits(&'static Tool, Pending<Result<Value, ErasedRefusal>>),
    /// Its input was refused, or nothing could be made ready for it.
    Refused(&'static Tool, ErasedRefusal),
    /// That was all.
    Over(CallOutcome),
}

/// The work of a call: its handler.
struct HandlerCall {
    context: Context,
    /// Nothing after the only try.
    input: Option<AnyInput>,
    replay: Replay,
}

impl Work for HandlerCall {
    type Answer = Result<Value, ErasedRefusal>;

    async fn run(&mut self, _attempt: Try) -> Self::Answer {
        let input = match self.replay {
            Replay::Safe => self.input.clone(),
            Replay::Never => self.input.take(),
        };
        match input {
            Some(input) => dispatch(&self.context, input).await,
            None => Err(ErasedRefusal::Tool(
                InternalError::bare("a call that may not be repeated was tried twice").into(),
            )),
        }
    }

    fn judge(&self, answer: &Self::Answer) -> Verdict {
        match answer {
            Ok(_) => Verdict::Success,
            Err(ErasedRefusal::Tool(ToolError::Internal(error))) => {
                Transient::cause_of(error).map_or(Verdict::Failure, Verdict::Transient)
            }
            Err(_) => Verdict::Failure,
        }
    }
}

/// The calls of one answer of a model, on one session; named by their `tool_use_id`. Dropped, it is discarded.
///
/// See [`StreamingExecutor`] for what begins when.
#[derive(Debug)]
pub struct StreamingCalls {
    session: Session,
    calls: StreamingExecutor<CallOutcome>,
}

impl StreamingCalls {
    /// The model has said a call. It begins now, when it can do no harm if the answer is thrown away, else when the answer
    /// is complete.
    ///
    /// # Errors
    /// The answer has a call of that `tool_use_id` already or 64 calls, or is complete: nothing has changed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn submit(&self, mut request: CallRequest) -> Result<(), turn::Refused> {
        // What is unknown does nothing, so that it may be said at once.
        let unknown = turn::Facts {
            kind: Kind::ReadOnly,
            parallelism: Parallelism::Shared,
            concurrency_safe: true,
            retry_safe: true,
        };
        let compiled = self.session.inner.registry.get(&request.tool);
        let facts = compiled.map_or(unknown, |compiled| spec_of(compiled).into());
        let (id, cancel, session) = (
            request.tool_use_id.clone(),
            request.cancel.clone(),
            self.session.clone(),
        );
        self.calls.submit_under(&cancel, id, facts, move |cancel| {
            request.cancel = cancel;
            session.submit(request)
        })
    }

    /// The answer is complete: what was held back begins.
    pub fn end(&self) {
        self.calls.end();
    }

    /// The next outcome in the order of the calls, with the `tool_use_id`; nothing when the answer is complete and all
    /// outcomes were taken.
    pub async fn next(&mut self) -> Option<(String, CallOutcome)> {
        let (id, result) = self.calls.next().await?;
        Some((id, result.unwrap_or_else(|panic| unforeseen(&panic))))
    }

    /// The answer is thrown away: what runs is told to stop and its outcomes are dropped, what did not begin never does.
    pub fn discard(&self) {
        self.calls.discard();
    }
}

/// The path of calls itself broke off; handlers that do are told otherwise.
fn unforeseen(panic: &Panic) -> CallOutcome {
    let error_id = format!("err-{}", uuid::Uuid::now_v7());
    tracing::error!(error_id, "the path of a call: {panic}");
    CallOutcome::Internal {
        message: "the call broke off".to_owned(),
        chain: panic.to_string(),
        error_id,
        hint: "This was reported; calling again is unlikely to help.".to_owned(),
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

fn panicked(tool: &Tool, error: Panic) -> InternalError {
    InternalError::new(format!("the handler of {} panicked", tool.name), error)
}

fn path_rule(text: &str) -> Result<(), String> {
    RelPath::parse(text).map(|_| ()).map_err(|problem| problem.to_string())
}

fn no_turn(tool: &Tool, busy: Busy) -> FailureBody {
    let reason = match busy {
        Busy::TooLate(Stage::Gate) => format!("earlier calls of this session did not end within {:?}", tool.timeout),
        busy => busy.to_string(),
    };
    FailureBody {
        ok: false,
        code: "tool_busy".to_owned(),
        reason: format!("{reason}; nothing was done"),
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
