//! The path that every call takes, whichever face it comes from: find the tool, build the input, type it, hand it to its
//! handler, check the result.
//!
//! Answers for one agent's session on one project: which tools it has, what each call may touch, and that every call
//! ends in exactly one [`CallOutcome`], a panicking handler's included. Leaves out the faces, and when a call runs: that
//! is the executor's.

mod admission;
mod audit;
mod explain;
mod lists;
mod oversized;
mod runner;
mod sandbox;
mod streaming;
mod upstream;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use devloop_contract::error::{Access, Ground};
use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::{Agent, ExpectedFailure, InternalError, Tool, ToolError};
use devloop_core::catalogue::{Catalogue, Entry, Phase, RegisterError};
use devloop_core::execution::flow::{Busy, Stage};
use devloop_core::execution::retry::{Replay, Transient};
use devloop_core::permission::{Decision, List, Memory, Mode, Origin, Policy, Rule, RuleError, Source};
use devloop_core::registry::{BuildError, Definition, Invocation, Text};
use devloop_core::sandbox::{RelPath, Sandbox};
use devloop_core::store::Store;
use devloop_generated::events::LoopEscalated;
use devloop_generated::{AnyInput, HandleAll, dispatch};
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

use crate::call::{Approver, Ask, CallOutcome, CallRequest, Changes, Listing, ToolService};
use crate::context::{Context, MayBlock, Parts, publish};
use crate::execution::{Ended, Facts, Lane, Late, Panic, Pending, Place, StreamingExecutor, Try, Verdict, Work};
use crate::hooks::{After, CommandHook, Hook};
use crate::identity::Identity;
use crate::project::{Escalation, Project};
use crate::projection::tools_of;
use crate::upstream::Upstreams;

pub use runner::{Answer, Runner, RunnerCall, RunnerError, ToolRunner};
pub use streaming::StreamingCalls;
pub use upstream::AlreadyConnected;
pub(crate) use upstream::LARGEST_ANSWER;

use admission::Judged;
use audit::Trail;
pub use explain::{Explanation, Touches, Turn};
use lists::Lists;
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
    lists: Lists,
    policy: RwLock<Policy>,
    memory: Mutex<Memory>,
    hooks: Vec<Arc<dyn Hook>>,
    approver: Option<Arc<dyn Approver>>,
    closed: AtomicBool,
    upstreams: OnceLock<Arc<Upstreams>>,
    /// Whether the servers were waited for.
    waited: OnceCell<()>,
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
    lists: Lists,
    mode: Option<Mode>,
    rules: Vec<(List, Rule, Origin)>,
    hooks: Vec<Arc<dyn Hook>>,
    approver: Option<Arc<dyn Approver>>,
}

impl SessionBuilder {
    /// More tools than those of specs: the session [forks](Catalogue::fork) the catalogue, so that what it loads and what
    /// its servers offer is its own.
    #[must_use]
    pub fn tools(mut self, tools: &Catalogue<Runner>) -> Self {
        self.tools = Some(tools.fork());
        self
    }

    /// Only the tools that one of these rules means; the others are neither shown nor callable. Rules without a content
    /// name tools: `note_add`, `docs__*`.
    #[must_use]
    pub fn only(mut self, tools: impl IntoIterator<Item = Rule>) -> Self {
        self.lists.only.get_or_insert_default().extend(tools);
        self
    }

    /// Without the tools that one of these rules means. Counts more than [`only`](Self::only).
    #[must_use]
    pub fn without(mut self, tools: impl IntoIterator<Item = Rule>) -> Self {
        self.lists.without.extend(tools);
        self
    }

    /// The permission mode, in place of that of the settings.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// A rule of the host, beside those of the settings and the agent's grants. `place` says where it comes from.
    #[must_use]
    pub fn rule(mut self, list: List, rule: Rule, place: impl Into<Text>) -> Self {
        self.rules.push((list, rule, Origin::new(Source::Host, place)));
        self
    }

    /// A hook, heard after those that were given before and before those of the settings.
    #[must_use]
    pub fn hook(mut self, hook: Arc<dyn Hook>) -> Self {
        self.hooks.push(hook);
        self
    }

    /// Who is asked where a rule wants a person's consent and the call brings nobody of its own.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self
    }

    /// The session. Touches no disk.
    ///
    /// # Errors
    /// A tool of the host has the name of one that the agent is granted; a rule of the agent's template cannot be read.
    pub fn build(self) -> Result<Session, SessionError> {
        let Self {
            project,
            identity,
            agent,
            tools,
            lists,
            mode,
            rules,
            mut hooks,
            approver,
        } = self;
        let mut policy = project.config.policy();
        policy.grant(agent.id, granted_names(agent));
        for (list, rule, origin) in rules {
            policy.add(list, rule, origin);
        }
        hooks.extend(template(agent, &mut policy)?);
        if let Some(mode) = mode {
            policy.set_mode(mode);
        }
        let commands = project.config.hooks.iter();
        hooks.extend(commands.map(|hook| Arc::new(hook.clone()) as Arc<dyn Hook>));
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
            lists,
            policy: RwLock::new(policy),
            memory: Mutex::default(),
            hooks,
            approver,
            closed: AtomicBool::new(false),
            upstreams: OnceLock::new(),
            waited: OnceCell::new(),
            sandboxes,
            instructions,
        };
        Ok(Session { inner: Arc::new(inner) })
    }
}

/// What an agent's template says beside its grants: its rules and a mode that is only ever stricter go into the policy.
fn template(agent: &'static Agent, policy: &mut Policy) -> Result<Vec<Arc<dyn Hook>>, SessionError> {
    let said = &agent.policy;
    let wrong = |error: RuleError| SessionError::Template { agent: agent.id, error };
    for (list, rules) in [
        (List::Allow, said.allow),
        (List::Ask, said.ask),
        (List::Deny, said.deny),
    ] {
        for rule in rules {
            let rule = Rule::parse(rule).map_err(wrong)?;
            policy.add(list, rule, Origin::new(Source::Template, agent.id));
        }
    }
    if let Some(mode) = Mode::parse(said.mode) {
        policy.set_mode(policy.mode().stricter(mode));
    }
    let hooks = said.hooks.iter().map(|hook| {
        let hook = CommandHook::of_template(hook).map_err(wrong)?;
        Ok(Arc::new(hook) as Arc<dyn Hook>)
    });
    hooks.collect()
}

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// Tools whose names are taken.
    Names(RegisterError),
    /// A rule of the agent's template cannot be read.
    Template {
        /// The template.
        agent: &'static str,
        /// What is wrong.
        error: RuleError,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Names(error) => error.fmt(f),
            Self::Template { agent, error } => write!(f, "the policy of the template {agent}: {error}"),
        }
    }
}

impl std::error::Error for SessionError {}

impl From<RegisterError> for SessionError {
    fn from(error: RegisterError) -> Self {
        Self::Names(error)
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
    /// When two granted tools share a name, which the generator refuses to build, or a rule of the template cannot be read.
    pub fn new(project: Arc<Project>, agent: &'static Agent, identity: Identity) -> Self {
        let session = Self::builder(project, agent, identity).build();
        session.expect("the generator keeps names unique, and a test reads the rules of all templates")
    }

    /// A session of `agent` that has more than what it is granted.
    pub fn builder(project: Arc<Project>, agent: &'static Agent, identity: Identity) -> SessionBuilder {
        SessionBuilder {
            project,
            identity,
            agent,
            tools: None,
            lists: Lists::default(),
            mode: None,
            rules: Vec::new(),
            hooks: Vec::new(),
            approver: None,
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

    /// Which tools are shown now: in plan mode those alone that only read.
    pub fn phase(&self) -> Phase {
        match self.mode() {
            Mode::Plan => Phase::Plan,
            Mode::Default | Mode::AutoEdit | Mode::Bypass => Phase::Act,
        }
    }

    /// The permission mode.
    pub fn mode(&self) -> Mode {
        self.policy().mode()
    }

    /// Changes the permission mode, for calls that are judged from now on. Faces hear that other tools are shown.
    pub fn set_mode(&self, mode: Mode) {
        let before = self.phase();
        self.inner
            .policy
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .set_mode(mode);
        if before != self.phase() {
            self.inner.catalogue.phase_changed();
        }
    }

    /// Takes no more calls. Those that were taken go on; what was allowed for the session is forgotten.
    pub fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
        self.memory().clear();
    }

    fn policy(&self) -> RwLockReadGuard<'_, Policy> {
        self.inner.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.inner.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hooks(&self) -> &[Arc<dyn Hook>] {
        &self.inner.hooks
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
        let carried = self.carry_out(request);
        async move { carried.await.outcome }
    }

    /// As [`submit`](Self::submit), and tells how the call was judged and how often it was tried.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn carry_out(&self, request: CallRequest) -> impl Future<Output = Carried> + Send + use<> {
        let trail = self.trail(&request);
        let submitted = self.begin(request);
        let session = self.clone();
        async move {
            let mut trail = trail;
            let track = match &submitted {
                Begun::Waits(_, track, _) => Some(Arc::clone(track)),
                Begun::Refused(..) | Begun::Over(_) => None,
            };
            let outcome = session.ended(submitted, &mut trail).await;
            trail.end(&outcome).await;
            let judged = track.as_ref().and_then(|track| track.judged.get());
            Carried {
                outcome,
                decision: judged.map(|judged| judged.decision.clone()),
                retries: track.as_ref().map_or(0, |track| track.retries.load(Ordering::Acquire)),
            }
        }
    }

    /// Waits for the end of a call.
    async fn ended(&self, submitted: Begun, trail: &mut Trail) -> CallOutcome {
        let (entry, track, pending) = match submitted {
            Begun::Waits(entry, track, pending) => (entry, track, pending),
            Begun::Refused(entry, refusal) => {
                trail.met(entry.definition(), None);
                return self.told(entry.definition(), Err(refusal.into())).await;
            }
            Begun::Over(outcome) => return outcome,
        };
        trail.met(entry.definition(), Some(Arc::clone(&track)));
        let Some(result) = self.awaited(&entry, &track, pending).await else {
            return CallOutcome::Cancelled;
        };
        let result = self.within_budget(&entry, result).await;
        let outcome = self.told(entry.definition(), result).await;
        self.heard(&track, outcome).await
    }

    /// Calls that come while a model still speaks.
    pub fn streaming(&self) -> StreamingCalls {
        StreamingCalls {
            session: self.clone(),
            calls: StreamingExecutor::new(),
        }
    }

    fn begin(&self, request: CallRequest) -> Begun {
        if self.inner.closed.load(Ordering::Acquire) {
            return Begun::Over(CallOutcome::Expected(closed()));
        }
        if request.cancel.is_cancelled() {
            return Begun::Over(CallOutcome::Cancelled);
        }
        let snapshot = self.inner.catalogue.snapshot();
        let Some(entry) = snapshot.get(&request.tool) else {
            let nearest = snapshot.nearest(&request.tool);
            return Begun::Over(CallOutcome::UnknownTool {
                name: request.tool,
                nearest,
            });
        };
        if let Some(left_out) = self.inner.lists.left_out(entry.definition()) {
            return Begun::Over(CallOutcome::Expected(left_out));
        }
        let cancel = request.cancel.clone();
        match self.prepare(entry, request) {
            Ok((facts, work)) => {
                let track = Arc::clone(&work.track);
                Begun::Waits(Arc::clone(entry), track, self.inner.lane.submit(facts, cancel, work))
            }
            Err(refusal) => Begun::Refused(Arc::clone(entry), refusal),
        }
    }

    /// `None` when the caller cancelled before it was this call's turn.
    async fn awaited(&self, entry: &Entry<Runner>, track: &Track, pending: Pending<Ran>) -> Option<Ran> {
        let tool = entry.definition();
        let expected = |body| Err(ErasedRefusal::Expected(Box::new(body)).into());
        let report = pending.report().await;
        track.retries.store(report.retries, Ordering::Release);
        let output = match report.ended {
            Ended::Cancelled => return None,
            Ended::Refused(busy) => return Some(expected(no_turn(tool, busy))),
            // A result that came after all is better than none.
            Ended::Answered(result) | Ended::TimedOut(Late::Answered(result @ Ok(_))) => result,
            Ended::TimedOut(late) => {
                self.watch(Arc::clone(tool), late);
                return Some(expected(timed_out(tool)));
            }
            Ended::Panicked(panic) => Err(ErasedRefusal::Tool(panicked(tool, panic).into()).into()),
        };
        Some(output.and_then(|answer| finished(entry, answer).map_err(Stop::from)))
    }

    /// Lets an internal error be known that comes when the caller has its answer, `tool_timeout`, already.
    fn watch(&self, tool: Arc<Definition>, late: Late<Ran>) {
        let session = self.clone();
        tokio::spawn(async move {
            let error = match late.answer().await {
                Ok(Err(Stop::Refused(ErasedRefusal::Tool(ToolError::Internal(error))))) => error,
                Err(panic) => panicked(&tool, panic),
                Ok(_) => return,
            };
            session.escalate(&tool, &error).await;
        });
    }

    /// The hooks that hear of the end of a call that ran.
    async fn heard(&self, track: &Track, mut outcome: CallOutcome) -> CallOutcome {
        let Some(judged) = track.judged.get().filter(|_| !self.hooks().is_empty()) else {
            return outcome;
        };
        if !track.ran.load(Ordering::Acquire) {
            return outcome;
        }
        for hook in self.hooks() {
            let call = self.hook_call(judged, &track.tool_use_id);
            if let After::Withhold(why) = hook.after(call, &outcome).await {
                outcome = CallOutcome::Expected(FailureBody {
                    ok: false,
                    code: "answer_withheld".to_owned(),
                    reason: format!(
                        "the call was made, and the hook `{}` holds its answer back: {why}",
                        hook.name()
                    ),
                    hint: Some("What the call did stays done: don't repeat it.".to_owned()),
                    details: None,
                });
            }
        }
        outcome
    }

    /// Input that is built and typed, and what its handler gets. Nothing has happened yet.
    fn prepare(&self, entry: &Arc<Entry<Runner>>, mut request: CallRequest) -> Result<(Facts, Call), ErasedRefusal> {
        let arguments = std::mem::take(&mut request.arguments);
        let approver = request.approver.take();
        let track = Arc::new(Track {
            tool_use_id: request.tool_use_id.clone(),
            judged: OnceLock::new(),
            ran: AtomicBool::new(false),
            retries: AtomicUsize::new(0),
        });
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
        let call = Call {
            session: self.clone(),
            entry: Arc::clone(entry),
            track,
            invocation: Some(invocation),
            approver,
            body,
            replay: facts.replay,
        };
        Ok((facts, call))
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
            Err(Stop::Asks(ask)) => CallOutcome::NeedsApproval(ask),
            Err(Stop::Refused(refusal)) => return self.refused(tool, refusal),
        })
    }

    /// What the caller is told of a refusal; an error when it is internal and others must be told as well.
    fn refused(&self, tool: &Definition, refusal: ErasedRefusal) -> Result<CallOutcome, InternalError> {
        Ok(match refusal {
            ErasedRefusal::Expected(body) => CallOutcome::Expected(*body),
            ErasedRefusal::Common(failure) if tool.common_failures.iter().any(|code| *code == failure.code()) => {
                CallOutcome::Expected(FailureBody::new(&failure, None))
            }
            ErasedRefusal::Common(failure) => {
                let (code, details) = (failure.code(), failure.details().unwrap_or_default());
                let message = format!(
                    "`{code}` is not among the common_failures of {}: {details}",
                    tool.source
                );
                return Err(InternalError::bare(message));
            }
            ErasedRefusal::Tool(ToolError::Validation(mut error)) => {
                // What a handler refuses beyond the schema comes without one.
                if error.example.is_none() {
                    error.example = tool.examples.first().map(|example| example.input.clone().into_owned());
                }
                CallOutcome::Invalid(error)
            }
            ErasedRefusal::Tool(error @ ToolError::Sandbox { .. }) => {
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
            ErasedRefusal::Tool(ToolError::Cancelled) => CallOutcome::Cancelled,
            ErasedRefusal::Tool(ToolError::Internal(error)) => return Err(error),
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
        let (tools, phase) = (self.inner.catalogue.snapshot(), self.phase());
        let listed = |entry: &&Arc<Entry<Runner>>| self.inner.lists.left_out(entry.definition()).is_none();
        let definition = |entry: &Arc<Entry<Runner>>| Arc::clone(entry.definition());
        match listing {
            Listing::Shown => tools.declarations(phase).filter(listed).map(definition).collect(),
            Listing::Every => tools.permitted(phase).filter(listed).map(definition).collect(),
        }
    }

    fn revision(&self) -> u64 {
        self.inner.catalogue.snapshot().revision()
    }

    fn changes(&self) -> Option<Changes> {
        Some(Changes::of(&self.inner.catalogue))
    }

    async fn ready(&self) {
        self.upstreams_settled().await;
    }

    async fn call(&self, request: CallRequest) -> CallOutcome {
        self.submit(request).await
    }

    fn instructions(&self) -> &str {
        &self.inner.instructions
    }
}

/// How a call ended, and what led there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Carried {
    /// How it ended.
    pub outcome: CallOutcome,
    /// How it was judged; nothing when it did not get that far.
    pub decision: Option<Decision>,
    /// How often it was tried again after a failure that passes.
    pub retries: usize,
}

/// How the way of a call ended.
type Ran = Result<Answer, Stop>;

/// Why a call gave no answer.
enum Stop {
    /// It was refused, or failed.
    Refused(ErasedRefusal),
    /// A person must say yes first, and the caller is to ask.
    Asks(Box<Ask>),
}

impl From<ErasedRefusal> for Stop {
    fn from(refusal: ErasedRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What became of a call so far.
enum Begun {
    /// It waits for its turn, or runs.
    Waits(Arc<Entry<Runner>>, Arc<Track>, Pending<Ran>),
    /// Its input was refused, or nothing could be made ready for it.
    Refused(Arc<Entry<Runner>>, ErasedRefusal),
    /// That was all.
    Over(CallOutcome),
}

/// What is known of a call while it is on its way and when it has ended.
struct Track {
    tool_use_id: String,
    /// How it was judged, once it was.
    judged: OnceLock<Judged>,
    /// Whether it was let through.
    ran: AtomicBool,
    /// How often it was tried again.
    retries: AtomicUsize,
}

/// The work of a call.
struct Call {
    session: Session,
    entry: Arc<Entry<Runner>>,
    track: Arc<Track>,
    /// Nothing once it was judged.
    invocation: Option<Invocation>,
    approver: Option<Arc<dyn Approver>>,
    body: Body,
    replay: Replay,
}

impl Call {
    /// The input is another than the one that the call was made ready for.
    fn change(&mut self, invocation: &Invocation) -> Result<(), ErasedRefusal> {
        match &mut self.body {
            Body::Handler { context, input } => *input = Some(typed(context.tool(), invocation)?),
            Body::Service { call, .. } => call.input = invocation.input().clone(),
        }
        Ok(())
    }
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

    async fn prepare(&mut self, facts: &mut Facts) -> Result<(), Ran> {
        let Some(invocation) = self.invocation.take() else {
            return Ok(());
        };
        let judged = self
            .session
            .judge(&self.entry, invocation, &self.track.tool_use_id)
            .await;
        let mut result = self.session.consent(&judged, self.approver.as_ref()).await;
        if judged.changed && result.is_ok() {
            facts.paths = self.session.real_paths(&judged.invocation);
            result = self.change(&judged.invocation).map_err(Stop::from);
        }
        self.track.ran.store(result.is_ok(), Ordering::Release);
        // It is prepared once.
        let _ = self.track.judged.set(judged);
        result.map_err(Err)
    }

    async fn run(&mut self, _attempt: Try) -> Self::Answer {
        match &mut self.body {
            Body::Handler { context, input } => {
                let input = match self.replay {
                    Replay::Safe => input.clone(),
                    Replay::Never => input.take(),
                };
                match input {
                    Some(input) => dispatch(context, input).await.map(Answer::Json).map_err(Stop::from),
                    None => Err(ErasedRefusal::Tool(
                        InternalError::bare("a call that may not be repeated was tried twice").into(),
                    )
                    .into()),
                }
            }
            Body::Service { runner, call } => {
                let answer = runner.run(call.clone()).await;
                answer.map_err(|error| ErasedRefusal::from(error).into())
            }
        }
    }

    fn judge(&self, answer: &Self::Answer) -> Verdict {
        match answer {
            Ok(_) => Verdict::Success,
            Err(Stop::Refused(ErasedRefusal::Tool(ToolError::Internal(error)))) => {
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
fn finished(entry: &Entry<Runner>, answer: Answer) -> Result<Answer, ErasedRefusal> {
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

/// The tools that run without being asked for: those of the template, and the registry's own.
fn granted_names(agent: &'static Agent) -> impl Iterator<Item = &'static str> {
    tools_of(agent).into_iter().map(|tool| tool.name)
}

fn closed() -> FailureBody {
    FailureBody {
        ok: false,
        code: "session_closed".to_owned(),
        reason: "this session was closed; nothing was done".to_owned(),
        hint: Some("Open a new session.".to_owned()),
        details: None,
    }
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
