//! An open project: its directory and the services that calls in it share.
//!
//! Answers for opening a project once and for the services that every call gets: clock, events, settings, and the loop
//! controller that is told of internal errors and of runtime states. Leaves out single calls.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use devloop_core::audit::{self, AuditLog};
use devloop_core::events::{Broker, EventJournal};
use devloop_core::memory::Shelf;
use devloop_core::runtime_state::{PhaseGraph, RuntimeState, Said};
use devloop_core::sandbox::{FsError, PathProblem, ProjectDir, Sandbox};
use devloop_core::store::{Clock, Replay, Store, StoreError, SystemClock};
use devloop_core::timeline::Timeline;

use crate::artifacts;
use crate::caught::caught_now;
use crate::config::{Config, ConfigError};
use crate::events::{Listener, Replayed};
use crate::execution::Executor;
use crate::ids::{Ids, UniqueIds};

/// What went wrong inside a call, for whoever watches the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escalation {
    /// The agent's short name.
    pub agent: String,
    /// The tool that was called.
    pub tool: String,
    /// The agent call.
    pub call_id: String,
    /// Names the entry in the log.
    pub error_id: String,
    /// What was being done, and the chain of causes.
    pub chain: String,
}

/// A runtime state that was written, for whoever drives the loop.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeStateChange {
    /// The agent's short name.
    pub agent: String,
    /// The unit that it works on, if it works on one.
    pub unit_id: Option<String>,
    /// The agent call.
    pub call_id: String,
    /// The session that wrote it.
    pub session_id: String,
    /// Whether anything but the signs of life changed.
    pub said: Said,
    /// The state before; nothing when there was none.
    pub before: Option<RuntimeState>,
    /// The state now.
    pub state: RuntimeState,
}

/// Whoever drives the loop. A host program brings its own; without one, the log is all there is.
pub trait LoopController: Send + Sync {
    /// An internal error: nothing that the agent can mend. Called once per error, after the event `loop.escalated`.
    fn escalate(&self, escalation: &Escalation);

    /// A runtime state, heartbeats included. It is on disk already, and the lock of the agent's state is held: be quick,
    /// and call no tool that writes that state. Nobody has been told yet.
    ///
    /// # Errors
    /// Why the state must not be: the file is put back as it was, and the call ends in an internal error. A panic counts
    /// as a refusal, too.
    fn runtime_state(&self, change: &RuntimeStateChange) -> Result<(), String> {
        let _ = change;
        Ok(())
    }

    /// The phases of an agent's work; `None` when any may follow any. Asked by each call that names a phase, under the
    /// lock of the agent's state.
    fn phase_graph(&self, agent: &str) -> Option<Arc<PhaseGraph>> {
        let _ = agent;
        None
    }
}

/// The controller of a program that has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoController;

impl LoopController for NoController {
    /// Nothing: the call path has logged the error already.
    fn escalate(&self, _escalation: &Escalation) {}
}

/// A project directory, opened, with the services that its calls share.
pub struct Project {
    pub(crate) dir: Arc<ProjectDir>,
    /// What belongs to the machinery: no agent's patterns let anybody write there.
    machinery: Store,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) broker: Broker,
    pub(crate) journal: EventJournal,
    pub(crate) controller: Arc<dyn LoopController>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) executor: Executor,
    /// Where artifacts are kept; nowhere when it is absent.
    pub(crate) artifacts: Option<PathBuf>,
    /// Keeps the calls that have ended.
    pub(crate) calls: audit::Writer,
    replays: Mutex<BTreeMap<String, Arc<Replay>>>,
    shelves: Mutex<BTreeMap<String, Arc<Shelf>>>,
}

impl fmt::Debug for Project {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Project")
            .field("dir", &self.path())
            .finish_non_exhaustive()
    }
}

/// A project that cannot be opened; a usage error.
#[derive(Debug)]
pub enum OpenError {
    /// The path cannot be made absolute.
    Path(PathBuf, std::io::Error),
    /// The directory cannot be used.
    Dir(FsError),
    /// A settings file cannot be used.
    Config(ConfigError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Dir(error) => error.fmt(f),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl Project {
    /// Opens a project directory with the settings of its `devloop.toml` and of the user.
    ///
    /// # Errors
    /// The directory is `/`, is none, or cannot be opened; a settings file is wrong.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let path = std::path::absolute(path).map_err(|error| OpenError::Path(path.to_owned(), error))?;
        let dir = ProjectDir::open(&path).map_err(OpenError::Dir)?;
        let user = Config::user_file(|name| std::env::var_os(name));
        let config = Config::load(&dir, user.as_deref()).map_err(OpenError::Config)?;
        let mut project = Self::new(dir, config);
        project.artifacts = artifacts::root(|name| std::env::var_os(name));
        Ok(project)
    }

    /// A project from its parts, with the system's clock, no loop controller and no place for artifacts. It shares the
    /// executor of the process, unless its settings have limits of its own.
    pub fn new(dir: ProjectDir, config: Config) -> Self {
        let (dir, broker): (_, Broker) = (Arc::new(dir), Broker::new());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let machinery = machinery(&dir, &clock);
        Self {
            journal: EventJournal::new(machinery.clone(), broker.clone()),
            calls: calls(&machinery),
            machinery,
            dir,
            executor: config.execution.executor(),
            config,
            clock,
            broker,
            controller: Arc::new(NoController),
            ids: Arc::new(UniqueIds),
            artifacts: None,
            replays: Mutex::default(),
            shelves: Mutex::default(),
        }
    }

    /// Replaces the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.machinery = machinery(&self.dir, &clock);
        self.journal = EventJournal::new(self.machinery(), self.broker.clone());
        self.calls = calls(&self.machinery);
        self.clock = clock;
        self.replays = Mutex::default();
        self
    }

    /// Replaces where the ids of errors come from.
    #[must_use]
    pub fn with_ids(mut self, ids: Arc<dyn Ids>) -> Self {
        self.ids = ids;
        self
    }

    /// Replaces the executor and with it the limits of the settings: sessions that do not share one know nothing of each
    /// other's calls.
    #[must_use]
    pub fn with_executor(mut self, executor: Executor) -> Self {
        self.executor = executor;
        self
    }

    /// Replaces the directory in which artifacts are kept, those of other projects included: this user's alone, made when
    /// the first one is written.
    #[must_use]
    pub fn with_artifacts(mut self, root: PathBuf) -> Self {
        self.artifacts = Some(root);
        self
    }

    /// Replaces the loop controller.
    #[must_use]
    pub fn with_controller(mut self, controller: Arc<dyn LoopController>) -> Self {
        self.controller = controller;
        self
    }

    /// The directory's absolute path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where the project's events can be subscribed to inside this process.
    pub fn events(&self) -> &Broker {
        &self.broker
    }

    /// Listens to the events that this process emits from now on, keeping at most `capacity` that were not taken yet;
    /// then the oldest go first.
    pub fn subscribe(&self, capacity: usize) -> Listener {
        Listener::new(self.broker.subscribe(capacity))
    }

    /// The events of all processes from number `from` on, and those that come. The newest some 70 MiB are kept; the
    /// reader is told how many older ones it missed.
    pub fn events_from(&self, from: u64) -> Replayed {
        Replayed::new(self.journal.read_from(from))
    }

    /// The project's timeline, for reading: no agent's patterns let anybody write here.
    pub fn timeline(&self) -> Timeline {
        Timeline::new(self.machinery())
    }

    /// Every call of a tool that was made in the project, newest last. A call is there before its caller has
    /// its answer; one that nobody waits for any more soon after its end, and for certain after [`flush`](Self::flush).
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(self.machinery())
    }

    /// Waits until each call that has ended is in the audit log, or could not be written, which the log says. Who drops
    /// calls half-way calls it before the process ends; dropping the project does the same, as long as no call holds it. Blocks, at most as long
    /// as told.
    ///
    /// # Errors
    /// The time is up; so many calls are not written yet.
    pub fn flush(&self, at_most: Duration) -> Result<(), usize> {
        self.calls.flush(at_most)
    }

    /// The project's events on disk, those of other processes included.
    pub fn journal(&self) -> &EventJournal {
        &self.journal
    }

    /// The calls of an agent that are known again, shared by all its sessions in this process.
    pub(crate) fn replay(&self, agent: &str) -> Result<Arc<Replay>, StoreError> {
        let mut replays = self.replays.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(replay) = replays.get(agent) {
            return Ok(Arc::clone(replay));
        }
        let replay = Arc::new(Replay::new(self.machinery(), agent)?);
        replays.insert(agent.to_owned(), Arc::clone(&replay));
        Ok(replay)
    }

    /// Tells the loop controller of a runtime state.
    ///
    /// # Errors
    /// Why it refuses it, or that it panicked.
    pub(crate) fn tell_runtime_state(&self, change: &RuntimeStateChange) -> Result<(), String> {
        caught_now(|| self.controller.runtime_state(change)).unwrap_or_else(|panic| Err(panic.to_string()))
    }

    /// The store of what belongs to the machinery.
    pub(crate) fn machinery(&self) -> Store {
        self.machinery.clone()
    }

    /// The memories of an agent, shared by all its sessions in this process.
    pub(crate) fn memories(&self, agent: &str) -> Result<Arc<Shelf>, PathProblem> {
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shelves.get(agent) {
            return Ok(Arc::clone(known));
        }
        let new = Arc::new(Shelf::new(agent)?);
        shelves.insert(agent.to_owned(), Arc::clone(&new));
        Ok(new)
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

/// What keeps the calls of this process.
fn calls(machinery: &Store) -> audit::Writer {
    audit::Writer::new(AuditLog::new(machinery.clone()))
}

fn machinery(dir: &Arc<ProjectDir>, clock: &Arc<dyn Clock>) -> Store {
    let sandbox = Sandbox::new(Arc::clone(dir), "devloop", Vec::new());
    Store::new(sandbox, Arc::clone(clock))
}
