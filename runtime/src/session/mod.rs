//! The path that every call takes, whichever face it comes from: find the tool, build the input, type it, hand it to its
//! handler, check the result.
//!
//! Answers for one agent's session on one project: which tools it has, what each call may touch, and that every call
//! ends in exactly one [`CallOutcome`], a panicking handler's included. Leaves out the faces, and when a call runs: that
//! is the executor's.

mod admission;
mod audit;
mod builder;
mod explain;
mod known;
mod lists;
mod outcome;
mod oversized;
mod runner;
mod sandbox;
mod streaming;
mod upstream;
mod work;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::{Agent, InternalError, Tool, ToolError};
use devloop_core::catalogue::{Catalogue, Entry, Phase};
use devloop_core::permission::{Decision, Memory, Mode, Policy};
use devloop_core::registry::{Definition, Invocation};
#[cfg(feature = "testing")]
use devloop_core::sandbox::RelPath;
use devloop_core::sandbox::Sandbox;
use devloop_core::store::Store;
use devloop_generated::{HandleAll, ToolId};
use tokio::sync::OnceCell;

use crate::call::{Approver, CallOutcome, CallRequest, Changes, Listing, ToolService};
use crate::caught::caught;
use crate::context::{Context, MayBlock, Parts};
use crate::execution::{CallId, Ended, Facts, Lane, Late, Pending, Place, StreamingExecutor, real_path};
use crate::hooks::{After, Hook, name_of};
use crate::identity::Identity;
use crate::project::Project;
use crate::upstream::Upstreams;

#[cfg(feature = "cli")]
pub(crate) use admission::real_name;
pub use builder::{SessionBuilder, SessionError, empty_catalogue};
pub use explain::{Explanation, Named, Touches, Turn};
pub use runner::{Answer, Overrun, Runner, RunnerCall, RunnerError, ToolRunner};
pub use streaming::StreamingCalls;
pub use upstream::ConnectError;
pub(crate) use upstream::LARGEST_ANSWER;

use builder::{bounded, instructions};
use lists::Lists;
use outcome::{closed, itself, no_turn, panicked, timed_out};
use sandbox::sandbox_for;
use work::{Begun, Body, Call, Carrying, Ran, Stop, Track, Within, build, typed};

// One line: a handler without an implementation is an error here that names it.
impl HandleAll for Context {}

/// One agent's session on one project. Cheap to clone; calls may run at the same time.
///
/// It needs a tokio runtime with time, and with io where upstream servers are [connected](Self::connect): time limits are
/// kept by that runtime's clock, and only while the future of the call is polled. It may be used from several runtimes; a
/// shared call runs in the one where it was submitted, which must outlive it. [`ToolRunner`] says where tools run.
///
/// **In its turn** a call is judged, heard by hooks and, where a rule wants it, agreed to by a person; what must come after
/// it in the session waits meanwhile. So neither hooks nor approvers may wait for another call of the same session.
///
/// [`call`](ToolService::call) waits up to five seconds, once in a session, for upstream servers that are still connecting
/// when no tool has the name; [`submit`](Self::submit) never does.
///
/// Upstream servers run until the last clone of the session is dropped, those that calls on their way hold included.
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
    lists: Arc<Lists>,
    policy: RwLock<Policy>,
    memory: Mutex<Memory>,
    hooks: Vec<Arc<dyn Hook>>,
    approver: Option<Arc<dyn Approver>>,
    closed: AtomicBool,
    /// Whether there are upstream servers: without any, the tools that reach them are not shown.
    has_servers: Arc<AtomicBool>,
    upstreams: OnceLock<Arc<Upstreams>>,
    /// Whether the servers were waited for.
    waited: OnceCell<()>,
    sandboxes: BTreeMap<&'static str, OnceLock<Sandbox>>,
    lane: Lane,
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
        SessionBuilder::new(project, agent, identity)
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

    /// Changes the permission mode, for calls that are judged from now on. Faces hear that other tools are shown. It
    /// becomes no looser than the agent's template lets it be; [`mode`](Self::mode) says what it is.
    pub fn set_mode(&self, mode: Mode) {
        let before = self.phase();
        let mode = bounded(self.inner.agent, mode);
        self.inner
            .policy
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .set_mode(mode);
        if before != self.phase() {
            self.inner.catalogue.phase_changed();
        }
    }

    /// Takes no more calls. Those that were taken go on; upstream servers run until the last clone of the session is
    /// dropped.
    pub fn close(&self) {
        self.inner.closed.store(true, Ordering::Release);
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

    /// Tells this session from others that are there.
    fn address(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
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
    /// before it has begun, it never does; dropped later, it is ended all the same, hooks, events and record included, by
    /// the tokio runtime in which it is dropped.
    ///
    /// The input is built here, on the caller's thread. The affected paths of a tool that is no spec's are resolved here as
    /// well: a few system calls for each, which a network's file system makes slow.
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
        let mut trail = self.trail(&request);
        let submitted = self.begin(request);
        let (track, grip, call) = match &submitted {
            Begun::Waits(entry, track, pending) => {
                trail.met(entry.definition(), Some(Arc::clone(track)));
                (Some(Arc::clone(track)), Some(pending.grip()), Some(pending.call()))
            }
            Begun::Refused(entry, _) => {
                trail.met(entry.definition(), None);
                (None, None, None)
            }
            Begun::Over(_) => (None, None, None),
        };
        let session = self.clone();
        let rest = async move {
            // What panics here is a host's: names of hooks, ids of errors.
            let ended = caught(session.ended(submitted)).await;
            let outcome = ended.unwrap_or_else(CallOutcome::broke_off);
            trail.end(&outcome).await;
            let judged = track.as_ref().and_then(|track| track.judged.get());
            Carried {
                call,
                outcome,
                decision: judged.map(|judged| judged.decision.clone()),
                retries: track.as_ref().map_or(0, |track| track.retries.load(Ordering::Acquire)),
            }
        };
        Carrying {
            rest: Some(Box::pin(rest)),
            grip,
        }
    }

    /// Waits for the end of a call.
    async fn ended(&self, submitted: Begun) -> CallOutcome {
        let (entry, track, pending) = match submitted {
            Begun::Waits(entry, track, pending) => (entry, track, pending),
            Begun::Refused(entry, refusal) => return self.told(entry.definition(), Err(refusal.into())).await,
            Begun::Over(outcome) => return outcome,
        };
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

    fn begin(&self, mut request: CallRequest) -> Begun {
        // A time-out ends this call, and not others that its caller would end together with it.
        request.cancel = request.cancel.child_token();
        if self.inner.closed.load(Ordering::Acquire) {
            return Begun::Over(CallOutcome::Expected(closed()));
        }
        if request.cancel.is_cancelled() {
            return Begun::Over(CallOutcome::Cancelled);
        }
        let snapshot = self.inner.catalogue.snapshot();
        let Some(entry) = snapshot.get(&request.tool) else {
            if let Some(down) = self.server_not_there(&request.tool) {
                return Begun::Over(CallOutcome::Expected(down));
            }
            let nearest = snapshot.nearest(&request.tool);
            return Begun::Over(CallOutcome::UnknownTool {
                name: request.tool,
                nearest,
            });
        };
        if let Some(left_out) = self.inner.lists.left_out(entry.definition()) {
            return Begun::Over(CallOutcome::Expected(left_out));
        }
        if let Some(outer) = Within::waits_for(self, entry.definition()) {
            return Begun::Refused(
                Arc::clone(entry),
                ErasedRefusal::Expected(Box::new(itself(outer.definition(), entry.definition()))),
            );
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
            Ended::Refused(busy) => return Some(expected(no_turn(busy, self.inner.lane.executor().longest_wait()))),
            // A result that came after all is better than none.
            Ended::Answered(result) | Ended::TimedOut(Late::Answered(result @ Ok(_))) => result,
            Ended::TimedOut(late) => {
                self.watch(Arc::clone(tool), late);
                return Some(expected(timed_out(tool, self.time_of(tool))));
            }
            Ended::Panicked(panic) => Err(ErasedRefusal::Tool(panicked(tool, panic).into()).into()),
        };
        Some(output)
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
            // A panic of a host's hook must not cost the answer its being told.
            let said = caught(async { hook.after(call, &outcome).await }).await;
            if let After::Withhold(why) = said.unwrap_or_else(|panic| After::Withhold(panic.to_string())) {
                let name = name_of(&**hook);
                let reason = format!("the call was made, and the hook `{name}` holds its answer back: {why}");
                let hint = "What the call did stays done: don't repeat it.".to_owned();
                outcome = CallOutcome::Expected(FailureBody::of_path("answer_withheld", reason, hint));
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
        facts.timeout = self.time_of(entry.definition());
        facts.patience = self.inner.lane.executor().longest_wait();
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
                    tool: self.timed(entry.definition()),
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
            outer: Within::here(),
        };
        Ok((facts, call))
    }

    /// How long a tool may take: as the settings say, else as it says itself.
    fn time_of(&self, tool: &Definition) -> Duration {
        self.inner.project.config.timeouts.of(&tool.name, tool.timeout)
    }

    /// A tool as its runner gets it, with the time that it has here.
    fn timed(&self, tool: &Arc<Definition>) -> Arc<Definition> {
        let timeout = self.time_of(tool);
        if timeout == tool.timeout {
            return Arc::clone(tool);
        }
        let mut timed = Definition::clone(tool);
        timed.timeout = timeout;
        Arc::new(timed)
    }

    /// The files that a call acts on, as the locks know them. Handlers follow no link below a project, so that its real path
    /// makes real paths of theirs.
    fn real_paths(&self, invocation: &Invocation) -> Vec<PathBuf> {
        let project = self.inner.project.dir.path();
        let paths = invocation.affected_paths().iter().map(|path| project.join(path));
        match invocation.built_in() {
            Some(_) => paths.collect(),
            // Other tools may follow links, under whatever name.
            None => paths.map(|path| real_path(&path).unwrap_or(path)).collect(),
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
}

impl ToolService for Session {
    fn tools(&self, listing: Listing) -> Vec<Arc<Definition>> {
        let (tools, phase) = (self.inner.catalogue.snapshot(), self.phase());
        let definition = |entry: &Arc<Entry<Runner>>| Arc::clone(entry.definition());
        match listing {
            Listing::Every => tools.permitted(phase).map(definition).collect(),
            Listing::Shown => {
                let listing = tools.deferred_listing(phase);
                let shown = tools.declarations(phase).map(definition);
                let told = |tool: Arc<Definition>| match listing.as_str() {
                    "" => tool,
                    listing if tool.name == ToolId::ToolSearch.name() => Arc::new(with_listing(&tool, listing)),
                    _ => tool,
                };
                shown.map(told).collect()
            }
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
        // A client may know the name of a server's tool from another day.
        if !self.inner.catalogue.has(&request.tool) {
            self.server_settled(&request.tool).await;
        }
        self.submit(request).await
    }

    async fn turned_away(&self, request: CallRequest, why: FailureBody) -> CallOutcome {
        let outcome = CallOutcome::Expected(why);
        self.trail(&request).end(&outcome).await;
        outcome
    }

    fn instructions(&self) -> String {
        instructions(
            self.inner.agent,
            &self.inner.catalogue,
            &self.inner.identity,
            self.phase(),
        )
    }
}

/// The tool that finds others, whose description names those that are there: instructions are read once, and this
/// whenever the tools have changed. Of many names the first are told.
fn with_listing(search: &Definition, listing: &str) -> Definition {
    const MOST: usize = 8 * 1024;
    let mut search = search.clone();
    let mut description = format!("{}\n\n", search.description);
    let cut = listing.char_indices().nth(MOST).map(|(end, _)| {
        let end = listing[..end].rfind('\n').unwrap_or(end);
        (end, listing[end..].lines().count().saturating_sub(2))
    });
    match cut {
        // Beyond the bound there may be nothing but the end of the listing.
        None | Some((_, 0)) => description.push_str(listing),
        Some((end, more)) => {
            description.push_str(&listing[..end]);
            let _ = write!(description, "\n… and {more} more\n</available-deferred-tools>");
        }
    }
    search.description = description.into();
    search
}

/// How a call ended, and what led there.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Carried {
    /// The call as the executor's [records](crate::execution::Executor::records) name it; nothing when it was refused
    /// before it got there.
    pub call: Option<CallId>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// How it was judged; nothing when it did not get that far.
    pub decision: Option<Decision>,
    /// How often it was tried again after a failure that passes.
    pub retries: usize,
}
