//! The path that every call takes, whichever face it comes from: find the tool, build the input, type it, hand it to its
//! handler, check the result.
//!
//! Answers for one agent's session on one project: which tools it has, what each call may touch, and that every call
//! ends in exactly one [`CallOutcome`], a panicking handler's included. Leaves out the faces, and when a call runs: that
//! is the executor's.

mod oversized;
mod runner;
mod sandbox;
mod streaming;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use devloop_contract::error::{Access, Ground};
use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::{Agent, ExpectedFailure, InternalError, Tool, ToolError};
use devloop_core::catalogue::{Catalogue, Entry, Phase, RegisterError};
use devloop_core::execution::flow::{Busy, Stage};
use devloop_core::execution::retry::{Replay, Transient};
use devloop_core::registry::{BuildError, Definition, Invocation};
use devloop_core::sandbox::{RelPath, Sandbox};
use devloop_core::store::Store;
use devloop_generated::events::LoopEscalated;
use devloop_generated::{AnyInput, HandleAll, dispatch};
use serde_json::{Map, Value};

use crate::call::{CallOutcome, CallRequest, Changes, Listing, ToolService};
use crate::context::{Context, MayBlock, Parts, publish};
use crate::execution::{Ended, Facts, Lane, Late, Panic, Pending, Place, StreamingExecutor, Try, Verdict, Work};
use crate::identity::Identity;
use crate::project::{Escalation, Project};
use crate::projection::tools_of;

pub use runner::{Answer, Runner, RunnerCall, RunnerError, ToolRunner};
pub use streaming::StreamingCalls;

use sandbox::{bound, sandbox_for};

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
    catalogue: Arc<Catalogue<Runner>>,
    sandboxes: BTreeMap<&'static str, OnceLock<Sandbox>>,
    lane: Lane,
    instructions: String,
}

/// Makes a [`Session`].
#[derive(Debug)]
pub struct SessionBuilder {
    project: Arc<Project>,
    identity: Identity,
    agent: &'static Agent,
    tools: Option<Catalogue<Runner>>,
}

impl SessionBuilder {
    /// More tools than those of specs: the session [forks](Catalogue::fork) the catalogue, so that what it loads and what
    /// its servers offer is its own.
    #[must_use]
    pub fn tools(mut self, tools: &Catalogue<Runner>) -> Self {
        self.tools = Some(tools.fork());
        self
    }

    /// The session. Touches no disk.
    ///
    /// # Errors
    /// A tool of the host has the name of one that the agent is granted.
    pub fn build(self) -> Result<Session, RegisterError> {
        let Self {
            project,
            identity,
            agent,
            tools,
        } = self;
        let granted = tools_of(agent);
        let catalogue = tools.unwrap_or_else(empty_catalogue);
        catalogue.register_all(
            granted
                .iter()
                .map(|tool| (Definition::from(*tool), Runner::Handler(tool))),
        )?;
        let sandboxes = granted.iter().map(|tool| (tool.name, OnceLock::new())).collect();
        let instructions = instructions(agent, &catalogue, &identity);
        let inner = Inner {
            lane: project.executor.lane(),
            project,
            identity: Arc::new(identity),
            agent,
            catalogue: Arc::new(catalogue),
            sandboxes,
            instructions,
        };
        Ok(Session { inner: Arc::new(inner) })
    }
}

/// A catalogue without tools, whose tools judge paths as those of specs do: where a host registers its own.
pub fn empty_catalogue() -> Catalogue<Runner> {
    Catalogue::new(path_rule)
}

impl Session {
    /// A session of `agent` with the tools that it is granted. Touches no disk.
    ///
    /// # Panics
    /// When two granted tools share a name, which the generator refuses to build.
    pub fn new(project: Arc<Project>, agent: &'static Agent, identity: Identity) -> Self {
        let session = Self::builder(project, agent, identity).build();
        session.expect("the generator keeps names unique")
    }

    /// A session of `agent` that has more than what it is granted.
    pub fn builder(project: Arc<Project>, agent: &'static Agent, identity: Identity) -> SessionBuilder {
        SessionBuilder {
            project,
            identity,
            agent,
            tools: None,
        }
    }

    /// Who calls.
    pub fn identity(&self) -> &Identity {
        &self.inner.identity
    }

    /// The project.
    pub fn project(&self) -> &Project {
        &self.inner.project
    }

    /// The tools of this session. What is registered here is callable at once, and faces hear of it.
    pub fn catalogue(&self) -> &Catalogue<Runner> {
        &self.inner.catalogue
    }

    /// Which tools are shown now.
    pub fn phase(&self) -> Phase {
        Phase::Act
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
        self.inner.catalogue.get(name)?.definition().built_in()
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
            let (entry, pending) = match submitted {
                Begun::Waits(entry, pending) => (entry, pending),
                Begun::Refused(entry, refusal) => return session.told(entry.definition(), Err(refusal)).await,
                Begun::Over(outcome) => return outcome,
            };
            match session.awaited(&entry, pending).await {
                Some(result) => {
                    let result = session.within_budget(&entry, result).await;
                    session.told(entry.definition(), result).await
                }
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
        let Some(entry) = self.inner.catalogue.get(&request.tool) else {
            let nearest = self.inner.catalogue.snapshot().nearest(&request.tool);
            return Begun::Over(CallOutcome::UnknownTool {
                name: request.tool,
                nearest,
            });
        };
        let cancel = request.cancel.clone();
        match self.prepare(&entry, request) {
            Ok((facts, work)) => Begun::Waits(entry, self.inner.lane.submit(facts, cancel, work)),
            Err(refusal) => Begun::Refused(entry, refusal),
        }
    }

    /// `None` when the caller cancelled before it was this call's turn.
    async fn awaited(&self, entry: &Entry<Runner>, pending: Pending<Result<Answer, ErasedRefusal>>) -> Option<Ran> {
        let tool = entry.definition();
        let expected = |body| Err(ErasedRefusal::Expected(Box::new(body)));
        let output = match pending.report().await.ended {
            Ended::Cancelled => return None,
            Ended::Refused(busy) => return Some(expected(no_turn(tool, busy))),
            // A result that came after all is better than none.
            Ended::Answered(result) | Ended::TimedOut(Late::Answered(result @ Ok(_))) => result,
            Ended::TimedOut(late) => {
                self.watch(Arc::clone(tool), late);
                return Some(expected(timed_out(tool)));
            }
            Ended::Panicked(panic) => Err(ErasedRefusal::Tool(panicked(tool, panic).into())),
        };
        Some(output.and_then(|answer| finished(entry, answer)))
    }

    /// Lets an internal error be known that comes when the caller has its answer, `tool_timeout`, already.
    fn watch(&self, tool: Arc<Definition>, late: Late<Result<Answer, ErasedRefusal>>) {
        let session = self.clone();
        tokio::spawn(async move {
            let error = match late.answer().await {
                Ok(Err(ErasedRefusal::Tool(ToolError::Internal(error)))) => error,
                Err(panic) => panicked(&tool, panic),
                Ok(_) => return,
            };
            session.escalate(&tool, &error).await;
        });
    }

    /// Input that is built and typed, and what its handler gets. Nothing has happened yet.
    fn prepare(&self, entry: &Entry<Runner>, mut request: CallRequest) -> Result<(Facts, Call), ErasedRefusal> {
        let arguments = std::mem::take(&mut request.arguments);
        let invocation = build(entry, arguments)?;
        let mut facts = Facts::from(&**entry.definition());
        facts.paths = self.real_paths(&invocation);
        let body = match entry.runner() {
            Runner::Handler(tool) => {
                let input = typed(tool, &invocation)?;
                let may_block = (self.inner.lane.place(tool.parallelism) == Place::Desk).then_some(MayBlock);
                let context = self.context(tool, request, may_block);
                let context = context.map_err(|error| ErasedRefusal::Tool(error.into()))?;
                Body::Handler {
                    context,
                    input: Some(input),
                }
            }
            Runner::Service(runner) => Body::Service {
                runner: Arc::clone(runner),
                call: RunnerCall {
                    tool: Arc::clone(entry.definition()),
                    input: invocation.input().clone(),
                    tool_use_id: request.tool_use_id,
                    identity: Arc::clone(&self.inner.identity),
                    cancel: request.cancel,
                    progress: request.progress,
                },
            },
        };
        let replay = facts.replay;
        Ok((facts, Call { body, replay }))
    }

    /// The files that a call acts on, as the locks know them. No link below a project is followed, so that its real path
    /// makes real paths.
    fn real_paths(&self, invocation: &Invocation) -> Vec<PathBuf> {
        let project = self.inner.project.dir.path();
        let paths = invocation.affected_paths().iter();
        paths.map(|path| project.join(path)).collect()
    }

    /// What the caller is told, after others were told what they must know.
    async fn told(&self, tool: &Definition, result: Ran) -> CallOutcome {
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
            session: self.clone(),
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
    fn outcome(&self, tool: &Definition, result: Ran) -> Result<CallOutcome, InternalError> {
        Ok(match result {
            Ok(Answer::Json(value)) => CallOutcome::Success(value),
            Ok(Answer::Passed(answer)) => CallOutcome::Passed(answer),
            Err(ErasedRefusal::Expected(body)) => CallOutcome::Expected(*body),
            Err(ErasedRefusal::Common(failure)) if tool.common_failures.iter().any(|code| *code == failure.code()) => {
                CallOutcome::Expected(FailureBody::new(&failure, None))
            }
            Err(ErasedRefusal::Common(failure)) => {
                let (code, details) = (failure.code(), failure.details().unwrap_or_default());
                let message = format!(
                    "`{code}` is not among the common_failures of {}: {details}",
                    tool.source
                );
                return Err(InternalError::bare(message));
            }
            Err(ErasedRefusal::Tool(ToolError::Validation(mut error))) => {
                // What a handler refuses beyond the schema comes without one.
                if error.example.is_none() {
                    error.example = tool.examples.first().map(|example| example.input.clone().into_owned());
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
    async fn escalate(&self, tool: &Definition, error: &InternalError) -> CallOutcome {
        let escalation = Escalation {
            agent: self.inner.agent.name.to_owned(),
            tool: tool.name.clone().into_owned(),
            call_id: self.inner.identity.call_id.clone(),
            error_id: format!("err-{}", self.inner.project.ids.next()),
            chain: error.chain(),
        };
        tracing::error!(
            agent = escalation.agent,
            tool = &*tool.name,
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
    fn tools(&self, listing: Listing) -> Vec<Arc<Definition>> {
        let tools = self.inner.catalogue.snapshot();
        let definition = |entry: &Arc<Entry<Runner>>| Arc::clone(entry.definition());
        match listing {
            Listing::Shown => tools.declarations(self.phase()).map(definition).collect(),
            Listing::Every => tools.all().map(definition).collect(),
        }
    }

    fn revision(&self) -> u64 {
        self.inner.catalogue.snapshot().revision()
    }

    fn changes(&self) -> Option<Changes> {
        Some(Changes::of(&self.inner.catalogue))
    }

    async fn call(&self, request: CallRequest) -> CallOutcome {
        self.submit(request).await
    }

    fn instructions(&self) -> &str {
        &self.inner.instructions
    }
}

/// How the way of a call ended.
type Ran = Result<Answer, ErasedRefusal>;

/// What became of a call so far.
enum Begun {
    /// It waits for its turn, or runs.
    Waits(Arc<Entry<Runner>>, Pending<Ran>),
    /// Its input was refused, or nothing could be made ready for it.
    Refused(Arc<Entry<Runner>>, ErasedRefusal),
    /// That was all.
    Over(CallOutcome),
}

/// The work of a call.
struct Call {
    body: Body,
    replay: Replay,
}

enum Body {
    /// The handler of a spec.
    Handler {
        context: Context,
        /// Nothing after the only try.
        input: Option<AnyInput>,
    },
    /// Other code.
    Service {
        runner: Arc<dyn ToolRunner>,
        call: RunnerCall,
    },
}

impl Work for Call {
    type Answer = Ran;

    async fn run(&mut self, _attempt: Try) -> Self::Answer {
        match &mut self.body {
            Body::Handler { context, input } => {
                let input = match self.replay {
                    Replay::Safe => input.clone(),
                    Replay::Never => input.take(),
                };
                match input {
                    Some(input) => dispatch(context, input).await.map(Answer::Json),
                    None => Err(ErasedRefusal::Tool(
                        InternalError::bare("a call that may not be repeated was tried twice").into(),
                    )),
                }
            }
            Body::Service { runner, call } => runner.run(call.clone()).await.map_err(Into::into),
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

/// The input of a call, built. Nothing else is ever run.
fn build(entry: &Entry<Runner>, arguments: Map<String, Value>) -> Result<Invocation, ErasedRefusal> {
    let built = entry.compiled().build(arguments);
    built.map_err(|error: BuildError| ErasedRefusal::Tool(error.into()))
}

/// The input as its handler takes it. Valid input that has no type is the caller's to mend all the same: the schema lets
/// some numbers through that no Rust integer holds.
fn typed(tool: &'static Tool, invocation: &Invocation) -> Result<AnyInput, ErasedRefusal> {
    AnyInput::parse(tool, invocation.input())
        .map_err(|error| ErasedRefusal::Tool(ToolError::validation("", format!("the input cannot be read: {error}"))))
}

/// A runner's output as the result of the call, checked against the published schema.
fn finished(entry: &Entry<Runner>, answer: Answer) -> Ran {
    let tool = entry.definition();
    let output = match answer {
        // A server's answer is its own; who offers a schema for it says nothing that we promised.
        Answer::Passed(_) => return Ok(answer),
        Answer::Json(output) => output,
    };
    let result = match tool.built_in() {
        Some(_) => {
            let mut result = Map::new();
            result.insert("ok".into(), Value::Bool(true));
            if let Value::Object(output) = output {
                result.extend(output);
            }
            Value::Object(result)
        }
        None => output,
    };
    if let Err(mismatch) = entry.compiled().check_output(&result) {
        let message = format!(
            "the answer of {} breaks the output schema of {}: {mismatch}",
            tool.name, tool.source
        );
        return Err(ErasedRefusal::Tool(InternalError::bare(message).into()));
    }
    Ok(Answer::Json(result))
}

fn panicked(tool: &Definition, error: Panic) -> InternalError {
    InternalError::new(format!("the handler of {} panicked", tool.name), error)
}

fn path_rule(text: &str) -> Result<(), String> {
    RelPath::parse(text).map(|_| ()).map_err(|problem| problem.to_string())
}

fn no_turn(tool: &Definition, busy: Busy) -> FailureBody {
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

fn timed_out(tool: &Definition) -> FailureBody {
    FailureBody {
        ok: false,
        code: "tool_timeout".to_owned(),
        reason: format!("{} took longer than {:?} and was told to stop", tool.name, tool.timeout),
        hint: Some("Look at what it left before you call again: it may have done part of its work.".to_owned()),
        details: None,
    }
}

/// What an MCP client tells its model about this server.
fn instructions(agent: &Agent, catalogue: &Catalogue<Runner>, identity: &Identity) -> String {
    let mut text = format!("devloop serves the tools of the {}: {}", agent.title, agent.summary);
    if let Some(unit) = &identity.unit_id {
        let _ = write!(text, " This session works on the unit `{unit}`.");
    }
    text.push_str(" All paths are relative to the project directory.");
    let shown = catalogue.declarations(Phase::Act);
    let names: Vec<&str> = shown.iter().map(|entry| entry.name()).collect();
    let _ = write!(text, " Tools: {}.", names.join(", "));
    let deferred = catalogue.deferred_listing(Phase::Act);
    if !deferred.is_empty() {
        let _ = write!(text, "\n{deferred}");
    }
    text
}
