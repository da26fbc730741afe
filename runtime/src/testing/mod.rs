//! A project to try handlers on: in a temporary directory, at a fixed time, with ids that are the same each time.
//!
//! Answers for making calls without a face, for sessions with tools of a host, for showing what each one changed, and for failing a test whose handler
//! changes something that its spec does not declare. Reading is not watched: the sandbox refuses it at once.
//!
//! ```
//! use devloop_runtime::AgentId;
//! use devloop_runtime::testing::TestProject;
//! use serde_json::json;
//!
//! let project = TestProject::new();
//! let session = project.session(AgentId::Pm);
//! let list = json!({"items": [{"id": "step-001", "description": "Try it"}]});
//! let seen = session.call("write_todolist", list);
//! assert_eq!(seen.success()["total"], 1);
//! assert_eq!(seen.effects.changed(), ["agent-state/pm-todo.json"]);
//! assert_eq!(seen.effects.events(), ["agent.todolist"]);
//! ```

mod effects;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use devloop_contract::{Agent, FailureBody, ValidationError};
use devloop_core::sandbox::ProjectDir;
use devloop_core::store::FixedClock;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

pub use effects::{Change, Effects};

use crate::AgentId;
use crate::call::{CallOutcome, CallRequest, ToolService};
use crate::config::Config;
use crate::context::Context;
use crate::identity::{Given, Identity, identify};
use crate::ids::CountedIds;
use crate::project::{Escalation, LoopController, Project};
use crate::session::{Session, SessionBuilder};

/// The time when a test project begins.
pub const START: &str = "2026-11-30T10:15:00.123Z";

/// The unit of agents that work on one, unless the test gives another.
pub const UNIT: &str = "unit-a";

/// A project in a directory of its own, which is removed with it.
#[derive(Debug)]
pub struct TestProject {
    dir: TempDir,
    /// Where its artifacts are.
    state: TempDir,
    clock: Arc<FixedClock>,
    escalations: Arc<Recorded>,
    project: Arc<Project>,
}

impl Default for TestProject {
    fn default() -> Self {
        Self::new()
    }
}

impl TestProject {
    /// An empty project with the default settings.
    ///
    /// # Panics
    /// When there can be no temporary directory.
    pub fn new() -> Self {
        Self::with(Config::default(), |project| project)
    }

    /// An empty project with these settings, changed by `adjust`: another loop controller, say, which then gets the
    /// [`escalations`](Self::escalations) instead.
    ///
    /// # Panics
    /// When there can be no temporary directory.
    pub fn with(config: Config, adjust: impl FnOnce(Project) -> Project) -> Self {
        let dir = TempDir::with_prefix("devloop-test-").expect("a temporary directory can be made");
        let state = TempDir::with_prefix("devloop-state-").expect("a temporary directory can be made");
        let start: Timestamp = START.parse().expect("a constant time");
        let clock = Arc::new(FixedClock::new(start));
        let escalations = Arc::new(Recorded::default());
        let opened = ProjectDir::open(dir.path()).expect("a new directory can be opened");
        let project = Project::new(opened, config)
            .with_clock(Arc::clone(&clock) as _)
            .with_ids(Arc::new(CountedIds::default()))
            .with_controller(Arc::clone(&escalations) as _)
            .with_artifacts(state.path().join("artifacts"));
        let project = Arc::new(adjust(project));
        Self {
            dir,
            state,
            clock,
            escalations,
            project,
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where its artifacts are, outside of the project.
    pub fn artifacts(&self) -> PathBuf {
        self.state.path().join("artifacts")
    }

    /// The clock: it stands still until it is moved.
    pub fn clock(&self) -> &FixedClock {
        &self.clock
    }

    /// The project, for a host's own calls.
    pub fn project(&self) -> &Arc<Project> {
        &self.project
    }

    /// Puts a file there as a person would, with its directories.
    ///
    /// # Panics
    /// When it cannot be written.
    #[track_caller]
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(path);
        let parent = path.parent().expect("a file of the project is in a directory");
        std::fs::create_dir_all(parent).expect("the file's directory can be made");
        std::fs::write(&path, content).expect("the file can be written");
        self
    }

    /// A file's text; `None` when there is no file.
    ///
    /// # Panics
    /// When it is no text or cannot be read.
    #[track_caller]
    pub fn text(&self, path: &str) -> Option<String> {
        match std::fs::read_to_string(self.path().join(path)) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    /// A file's JSON.
    ///
    /// # Panics
    /// When there is no file or it is no JSON.
    #[track_caller]
    pub fn json(&self, path: &str) -> Value {
        let text = self
            .text(path)
            .unwrap_or_else(|| panic!("{path}: there is no such file"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The internal errors so far.
    pub fn escalations(&self) -> Vec<Escalation> {
        self.escalations
            .all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// A session of an agent, on [`UNIT`] when it needs one.
    pub fn session(&self, agent: AgentId) -> TestSession {
        let (agent, given) = on_unit(agent);
        self.session_as(agent, given)
    }

    /// A session of the same agent and identity as [`session`](Self::session) gives, to be built with tools, rules and
    /// hooks of a host. Its calls are not watched.
    pub fn builder(&self, agent: AgentId) -> SessionBuilder {
        let (agent, given) = on_unit(agent);
        Session::builder(Arc::clone(&self.project), agent, self.identity(agent, given))
    }

    /// A session with an identity of the test's choice. What it leaves out is the same each time.
    ///
    /// # Panics
    /// When the identity does not fit the agent.
    #[track_caller]
    pub fn session_as(&self, agent: &'static Agent, given: Given) -> TestSession {
        let identity = self.identity(agent, given);
        let runtime = Builder::new_current_thread().enable_all().build();
        TestSession {
            session: Session::new(Arc::clone(&self.project), agent, identity),
            runtime: runtime.expect("a runtime can be started"),
            calls: AtomicU64::new(0),
        }
    }

    #[track_caller]
    fn identity(&self, agent: &'static Agent, given: Given) -> Identity {
        let given = Given {
            project: given.project.or_else(|| Some("test-project".to_owned())),
            call_id: given.call_id.or_else(|| Some("call-1".to_owned())),
            session_id: given.session_id.or_else(|| Some("session-1".to_owned())),
            ..given
        };
        identify(agent, self.path(), given, None).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Keeps what a loop controller is told.
#[derive(Debug, Default)]
struct Recorded {
    all: Mutex<Vec<Escalation>>,
}

impl LoopController for Recorded {
    fn escalate(&self, escalation: &Escalation) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(escalation.clone());
    }
}

/// A session whose calls are watched, one at a time. For use outside async code.
#[derive(Debug)]
pub struct TestSession {
    session: Session,
    runtime: Runtime,
    calls: AtomicU64,
}

/// What came of something, and what it changed.
#[derive(Debug)]
pub struct Seen<T> {
    /// What it answered.
    pub result: T,
    /// What it changed.
    pub effects: Effects,
}

impl TestSession {
    /// The session itself, for calls that nobody watches.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Calls a tool as a face would, under a new id: `test:1`, `test:2` …
    ///
    /// # Panics
    /// When the call changed a file or told an event that the tool's spec does not declare.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Seen<CallOutcome> {
        self.call_again(tool, arguments, &self.next_id())
    }

    /// As [`call`](Self::call), under an id of the test's choice: what a client sends when it repeats a call.
    ///
    /// # Panics
    /// As [`call`](Self::call).
    #[track_caller]
    pub fn call_again(&self, tool: &str, arguments: Value, tool_use_id: &str) -> Seen<CallOutcome> {
        let Value::Object(arguments) = arguments else {
            panic!("the arguments of a call are an object, and these are {arguments}");
        };
        let name = self.session.find(tool).map_or(tool, |tool| tool.name);
        self.watched(name, || {
            self.runtime
                .block_on(self.session.call(CallRequest::new(tool, arguments, tool_use_id)))
        })
    }

    /// Runs a handler itself, on typed input:
    /// `|context| async move { Handle::<WriteTodolist>::handle(&context, input).await }`.
    ///
    /// # Panics
    /// When the agent has no such tool, or as [`call`](Self::call).
    #[track_caller]
    pub fn handle<T, F: Future<Output = T>>(&self, tool: &str, work: impl FnOnce(Context) -> F) -> Seen<T> {
        let context = self.context(tool);
        self.watched(context.tool().name, || self.runtime.block_on(work(context)))
    }

    /// What the handler of a tool gets, under a new id.
    ///
    /// # Panics
    /// When the agent has no such tool.
    #[track_caller]
    pub fn context(&self, tool: &str) -> Context {
        let agent = self.session.identity().agent;
        let found = self
            .session
            .find(tool)
            .unwrap_or_else(|| panic!("{agent} has no tool `{tool}`"));
        let context = self
            .session
            .context(found, CallRequest::new(tool, Map::new(), self.next_id()), None);
        context.unwrap_or_else(|error| panic!("{error}"))
    }

    fn next_id(&self) -> String {
        format!("test:{}", self.calls.fetch_add(1, Ordering::Relaxed) + 1)
    }

    #[track_caller]
    fn watched<T>(&self, tool: &str, work: impl FnOnce() -> T) -> Seen<T> {
        let project = self.session.project();
        let events = project.events().subscribe(1 << 16);
        let before = effects::Tree::of(project.path());
        let result = work();
        let effects = Effects::between(&before, &effects::Tree::of(project.path()), &events);
        if let Some(tool) = self.session.find(tool) {
            let undeclared = effects.undeclared(tool, |path| self.session.may_write(tool, path));
            assert!(
                undeclared.is_empty(),
                "{} does not declare: {}",
                tool.spec,
                undeclared.join("; ")
            );
        } else {
            assert!(effects.is_empty(), "a call of no tool had effects: {effects:?}");
        }
        Seen { result, effects }
    }
}

/// An agent, on [`UNIT`] when it needs one.
fn on_unit(agent: AgentId) -> (&'static Agent, Given) {
    let agent = agent.agent();
    let given = Given {
        unit: agent.needs_unit.then(|| UNIT.to_owned()),
        ..Given::default()
    };
    (agent, given)
}

impl Seen<CallOutcome> {
    /// The result of a call that succeeded.
    ///
    /// # Panics
    /// When it did not.
    #[track_caller]
    pub fn success(&self) -> &Value {
        match &self.result {
            CallOutcome::Success(value) => value,
            other => panic!("not a success: {other:?}"),
        }
    }

    /// The expected failure in which a call ended, with this code.
    ///
    /// # Panics
    /// When it did not, or with another code.
    #[track_caller]
    pub fn failure(&self, code: &str) -> &FailureBody {
        match &self.result {
            CallOutcome::Expected(body) if body.code == code => body,
            other => panic!("not the failure `{code}`: {other:?}"),
        }
    }

    /// What was wrong with the input.
    ///
    /// # Panics
    /// When it was accepted.
    #[track_caller]
    pub fn invalid(&self) -> &ValidationError {
        match &self.result {
            CallOutcome::Invalid(error) => error,
            other => panic!("the input was not refused: {other:?}"),
        }
    }
}
