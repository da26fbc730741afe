//! Runs calls: when it is their turn, on the right thread, within their time, and to exactly one end.
//!
//! Answers for driving the machines of [`devloop_core::execution`], for time-outs, cancellation, panics and repeated
//! tries, and for a place where an exclusive call may block. Knows nothing of tools: built-in ones, a host's own and
//! those of other servers run the same way. Leaves out what a call does, and whether it may.
//!
//! One [`Executor`] serves all sessions of a process; each has a [`Lane`]. [`StreamingExecutor`] is for calls that come
//! while a model still speaks.
//!
//! ```
//! use std::io;
//! use std::time::Duration;
//!
//! use devloop_contract::tool::Kind;
//! use devloop_runtime::execution::{Ended, Executor, Facts, work};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! let lane = Executor::default().lane();
//! let facts = Facts::new("count", Kind::ReadOnly, Duration::from_secs(30)).shared();
//! let call = lane.submit(facts, Default::default(), work(|_| async { Ok::<_, io::Error>(1 + 1) }));
//! assert!(matches!(call.report().await.ended, Ended::Answered(Ok(2))));
//! # });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Exclusive calls run on one thread of the session's own, the desk, and do their file work there. Nothing else of the
//! session runs meanwhile, so nothing is held up; and pipelined calls follow each other without two changes of thread
//! for each.
//!
//! Work that has begun is never dropped half-way. When its answer is no longer waited for it goes on, and keeps its turn,
//! its locks and its place.

mod desk;
mod lane;
mod pending;
mod settings;
mod streaming;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use devloop_core::execution::flow::{Busy, Command, Flow, Stage};
use devloop_core::execution::history::{Ending, Figures, History, Record};
use devloop_core::execution::scheduler::LimitsError;
pub use devloop_core::execution::{CallId, SessionId, history, scheduler, turn};
use tokio::sync::Notify;

pub use self::lane::Lane;
pub use self::pending::{Grip, LetGo, Pending};
pub use self::settings::Settings;
pub(crate) use self::settings::{LONGEST_PAUSE, MOST_CALLS, MOST_PAUSES};
pub use self::streaming::StreamingExecutor;
pub use self::work::{Ended, Facts, FromFn, Late, Place, Report, Running, Try, Verdict, Work, work};
pub use crate::caught::Panic;
use crate::caught::caught_now;

/// Hears of calls. What it does takes the time of the call, so it had better be quick; a panic in it is logged.
pub trait Observer: Send + Sync {
    /// A call begins to run.
    fn started(&self, call: &Started) {
        let _ = call;
    }

    /// A call has succeeded.
    fn completed(&self, record: &Record) {
        let _ = record;
    }

    /// A call has ended otherwise; also one that never began.
    fn failed(&self, record: &Record) {
        let _ = record;
    }
}

/// A call that begins to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// The call.
    pub call: CallId,
    /// The session.
    pub session: SessionId,
    /// The tool.
    pub tool: Arc<str>,
    /// How long it waited.
    pub waited: Duration,
}

/// Runs the calls of all sessions of a process. Cheap to clone.
#[doc(alias = "ToolExecutor")]
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Inner>,
}

struct Inner {
    began: Instant,
    pauses: Vec<Duration>,
    /// The longest that a call waits for a place and its paths.
    wait: Duration,
    observer: Option<Arc<dyn Observer>>,
    driver: Mutex<Driver>,
    history: Mutex<History>,
}

/// The machine, and whom its commands are for.
struct Driver {
    flow: Flow,
    cells: BTreeMap<CallId, Arc<Cell>>,
    commands: Vec<Command>,
    next_call: u64,
    next_session: u64,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (calls, running) = self.load();
        f.debug_struct("Executor")
            .field("calls", &calls)
            .field("running", &running)
            .finish_non_exhaustive()
    }
}

impl Default for Executor {
    fn default() -> Self {
        Self::new(Settings::default()).expect("the defaults make sense; a test keeps that")
    }
}

impl Executor {
    /// An executor without calls.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn new(settings: Settings) -> Result<Self, LimitsError> {
        Self::observed(settings, None)
    }

    /// An executor whose calls somebody hears of.
    ///
    /// # Errors
    /// A setting that makes no sense.
    pub fn with_observer(settings: Settings, observer: Arc<dyn Observer>) -> Result<Self, LimitsError> {
        Self::observed(settings, Some(observer))
    }

    /// The executor of this process, with default settings: what serves all sessions for which nothing else is said.
    pub fn of_process() -> Self {
        static PROCESS: OnceLock<Executor> = OnceLock::new();
        PROCESS.get_or_init(Self::default).clone()
    }

    fn observed(settings: Settings, observer: Option<Arc<dyn Observer>>) -> Result<Self, LimitsError> {
        settings.check()?;
        let driver = Driver {
            flow: Flow::with_pending(settings.limits, settings.pending)?,
            cells: BTreeMap::new(),
            commands: Vec::new(),
            next_call: 0,
            next_session: 0,
        };
        let inner = Inner {
            began: Instant::now(),
            pauses: settings.pauses,
            wait: settings.limits.wait,
            observer,
            driver: Mutex::new(driver),
            history: Mutex::new(History::keeping(settings.history)),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The way in for one more session.
    pub fn lane(&self) -> Lane {
        let mut driver = self.driver();
        driver.next_session += 1;
        let session = SessionId(driver.next_session);
        drop(driver);
        Lane::new(self.clone(), session)
    }

    /// The newest calls that have ended, the oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.history().records().cloned().collect()
    }

    /// Figures about each tool, of the calls in [`records`](Self::records).
    pub fn figures(&self) -> BTreeMap<Arc<str>, Figures> {
        self.history().figures()
    }

    /// How many calls ever ended, and how many of them failed.
    pub fn totals(&self) -> (u64, u64) {
        let history = self.history();
        (history.calls(), history.failures())
    }

    /// The moment that the times of [`Record`]s count from.
    pub fn began(&self) -> Instant {
        self.inner.began
    }

    /// The longest that a call waits for its turn when nothing else is said of it.
    pub fn longest_wait(&self) -> Duration {
        self.inner.wait
    }

    /// How many calls there are now, and how many of them run.
    pub fn load(&self) -> (usize, usize) {
        let driver = self.driver();
        (driver.flow.len(), driver.flow.running())
    }

    fn now(&self) -> Duration {
        self.inner.began.elapsed()
    }

    /// Locks; a panic elsewhere while holding the lock is a bug of the machine, and no reason to stop all calls.
    fn driver(&self) -> MutexGuard<'_, Driver> {
        self.inner.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.inner.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that has not begun never does; answers how far it is otherwise.
    fn give_up(&self, cell: &Cell) -> GaveUp {
        let now = self.now();
        let mut driver = self.driver();
        match driver.flow.stage(cell.call) {
            None => GaveUp::Gone,
            Some(Stage::Running) => GaveUp::Runs,
            Some(_) => {
                driver.leave(cell.call, now);
                // Whoever prepares it need not go on.
                cell.say(GONE);
                GaveUp::Yes
            }
        }
    }

    /// Nobody waits for a call any more.
    fn left(&self, cell: &Cell) -> LetGo {
        match self.give_up(cell) {
            GaveUp::Yes => {
                self.ended(cell, Ending::Cancelled);
                return LetGo::NeverBegins;
            }
            GaveUp::Gone if cell.busy.get().is_some() => self.ended(cell, Ending::Refused),
            // Its work tells of the end.
            GaveUp::Runs | GaveUp::Gone => {}
        }
        LetGo::HasBegun
    }

    /// The end of a call, the first that is told of it.
    fn ended(&self, cell: &Cell, ending: Ending) {
        if cell.recorded.swap(true, Ordering::AcqRel) {
            return;
        }
        let now = self.now();
        let launched = cell.started.get().copied();
        let record = Record {
            call: cell.call,
            tool: Arc::clone(&cell.tool),
            session: cell.session,
            submitted: cell.submitted,
            waited: launched.unwrap_or(now).saturating_sub(cell.submitted),
            ran: launched.map(|launched| now.saturating_sub(launched)),
            retries: cell.retries.load(Ordering::Acquire),
            ending,
        };
        self.tell(|observer| match ending {
            Ending::Succeeded => observer.completed(&record),
            _ => observer.failed(&record),
        });
        self.history().record(record);
    }

    fn tell(&self, told: impl FnOnce(&dyn Observer)) {
        let Some(observer) = &self.inner.observer else {
            return;
        };
        if let Err(panic) = caught_now(|| told(&**observer)) {
            tracing::error!("the observer of calls: {panic}");
        }
    }
}

impl Driver {
    fn leave(&mut self, call: CallId, now: Duration) {
        self.cells.remove(&call);
        let mut commands = std::mem::take(&mut self.commands);
        self.flow.leave(call, now, &mut commands);
        self.carry_out(commands, now);
    }

    /// Wakes those whom commands are for.
    fn carry_out(&mut self, mut commands: Vec<Command>, now: Duration) {
        for command in commands.drain(..) {
            match command {
                Command::Enter(call) => {
                    if let Some(cell) = self.cells.get(&call) {
                        cell.say(ENTERED);
                    }
                }
                Command::Launch(call) => {
                    if let Some(cell) = self.cells.get(&call) {
                        // Before it is said, so that whoever hears it knows the time.
                        let _ = cell.started.set(now);
                        cell.say(LAUNCHED);
                    }
                }
                Command::Refuse(call, busy) => {
                    if let Some(cell) = self.cells.remove(&call) {
                        let _ = cell.busy.set(busy);
                        cell.say(GONE);
                    }
                }
            }
        }
        self.commands = commands;
    }
}

enum GaveUp {
    Yes,
    Runs,
    Gone,
}

/// What is known of a call by all who have to do with it.
struct Cell {
    call: CallId,
    session: SessionId,
    tool: Arc<str>,
    submitted: Duration,
    /// The last that the machine said.
    said: AtomicU8,
    /// Wakes the work when the machine says something.
    turn: Notify,
    /// When it was launched.
    started: OnceLock<Duration>,
    /// Why it was refused.
    busy: OnceLock<Busy>,
    retries: AtomicUsize,
    recorded: AtomicBool,
    /// Whether the caller sleeps until the call is prepared. Changes under the driver's lock only.
    caller_sleeps: AtomicBool,
    /// Wakes the caller when it is.
    prepared: Notify,
}

const WAITING: u8 = 0;
const ENTERED: u8 = 1;
const LAUNCHED: u8 = 2;
const GONE: u8 = 3;

impl Cell {
    fn say(&self, what: u8) {
        self.said.store(what, Ordering::Release);
        self.turn.notify_one();
    }

    /// Waits until the machine says more than `what`.
    async fn after(&self, what: u8) -> u8 {
        loop {
            let said = self.said.load(Ordering::Acquire);
            if said > what {
                return said;
            }
            self.turn.notified().await;
        }
    }
}

/// A path as path locks want it: absolute, and without a link as far as it exists, so that two names of a file are one.
/// What does not exist yet is added as it is written, `..` taken back. Blocks.
///
/// # Errors
/// The path is relative and there is no current directory.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    // The deepest part that exists; `..` beyond that undoes what is written before it.
    let (mut real, mut rest) = (PathBuf::from("/"), Vec::new());
    for known in path.ancestors() {
        if let Ok(found) = known.canonicalize() {
            real = found;
            break;
        }
        rest.extend(known.components().next_back());
    }
    for part in rest.into_iter().rev() {
        match part {
            Component::ParentDir => {
                real.pop();
            }
            part => real.push(part),
        }
    }
    Ok(real)
}
