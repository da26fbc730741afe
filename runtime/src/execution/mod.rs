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
mod streaming;
#[cfg(test)]
mod tests;
mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use devloop_contract::tool::Parallelism;
use devloop_core::execution::flow::{Busy, Command, Flow, Stage};
use devloop_core::execution::gate;
use devloop_core::execution::history::{Ending, Figures, History, Record};
use devloop_core::execution::retry::{Next, PAUSES, Retries};
use devloop_core::execution::scheduler::{Limits, LimitsError};
pub use devloop_core::execution::{CallId, SessionId, history, scheduler, turn};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::desk::Desk;
pub use self::streaming::StreamingExecutor;
use self::work::Done;
pub use self::work::{Ended, Facts, FromFn, Late, Place, Report, Running, Try, Verdict, Work, work};
pub use crate::caught::Panic;
use crate::caught::{caught, caught_now};

/// How long a call that ran out of time may take to stop before its answer no longer waits for it.
const GRACE: Duration = Duration::from_secs(2);

/// The most pauses between tries, and the longest of them, that may be set.
pub(crate) const MOST_PAUSES: usize = 10;
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The most that a number of calls may be set to.
pub(crate) const MOST_CALLS: usize = 100_000;

/// The settings of an executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many calls run and wait at once.
    pub limits: Limits,
    /// How many calls of a session may wait for their turn in it. Default: 64.
    pub pending: usize,
    /// The pauses before each further try of a call that may be repeated. Default: 200 and 400 ms.
    pub pauses: Vec<Duration>,
    /// How many calls the history keeps. Default: 1,000.
    pub history: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            pending: gate::PENDING,
            pauses: PAUSES.to_vec(),
            history: history::KEPT,
        }
    }
}

impl Settings {
    /// Judges the settings.
    ///
    /// # Errors
    /// The first that makes no sense.
    pub fn check(&self) -> Result<(), LimitsError> {
        self.limits.check()?;
        let wrong = |setting: &str, found: String, expected: String| {
            Err(LimitsError {
                setting: setting.to_owned(),
                found,
                expected,
            })
        };
        if !(1..=MOST_CALLS).contains(&self.pending) {
            return wrong("pending", self.pending.to_string(), format!("1 to {MOST_CALLS}"));
        }
        if self.history > MOST_CALLS {
            return wrong("history", self.history.to_string(), format!("0 to {MOST_CALLS}"));
        }
        if self.pauses.len() > MOST_PAUSES {
            let found = format!("{} pauses", self.pauses.len());
            return wrong("pauses", found, format!("at most {MOST_PAUSES}"));
        }
        if let Some(pause) = self.pauses.iter().find(|pause| **pause > LONGEST_PAUSE) {
            return wrong(
                "pauses",
                format!("{pause:?}"),
                format!("at most {LONGEST_PAUSE:?} each"),
            );
        }
        Ok(())
    }
}

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
        let inner = LaneInner {
            executor: self.clone(),
            session,
            desk: OnceLock::new(),
        };
        Lane { inner: Arc::new(inner) }
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

/// One session's way into an executor. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lane {
    inner: Arc<LaneInner>,
}

#[derive(Debug)]
struct LaneInner {
    executor: Executor,
    session: SessionId,
    desk: OnceLock<Option<Desk>>,
}

impl Lane {
    /// The session, as records name it.
    pub fn session(&self) -> SessionId {
        self.inner.session
    }

    /// The executor.
    pub fn executor(&self) -> &Executor {
        &self.inner.executor
    }

    /// Where a call of this parallelism runs.
    pub fn place(&self, parallelism: Parallelism) -> Place {
        match self.desk(parallelism) {
            Some(_) => Place::Desk,
            None => Place::Runtime,
        }
    }

    fn desk(&self, parallelism: Parallelism) -> Option<&Handle> {
        if parallelism == Parallelism::Shared {
            return None;
        }
        // Without a thread to spare it is slower, not wrong.
        let desk = self.inner.desk.get_or_init(|| Desk::start().ok());
        desk.as_ref().map(|desk| &desk.handle)
    }

    /// A call takes its place in the order of its session, now; its end comes from [`Pending::report`]. `cancel` stops
    /// it before it begins; afterwards the work must look at it, and hears of a time-out by it, too.
    ///
    /// # Panics
    /// Outside a tokio runtime, for a shared call.
    pub fn submit<W: Work>(&self, facts: Facts, cancel: CancellationToken, work: W) -> Pending<W::Answer> {
        let executor = &self.inner.executor;
        let place = self.desk(facts.parallelism).cloned();
        let timeout = facts.timeout;
        let first_look = facts.timeout.min(facts.patience).min(executor.inner.wait);
        let now = executor.now();
        let (cell, taken) = {
            let mut driver = executor.driver();
            driver.next_call += 1;
            let id = CallId(driver.next_call);
            let cell = Arc::new(Cell {
                call: id,
                session: self.inner.session,
                tool: Arc::clone(&facts.tool),
                submitted: now,
                said: AtomicU8::new(WAITING),
                turn: Notify::new(),
                started: OnceLock::new(),
                busy: OnceLock::new(),
                retries: AtomicUsize::new(0),
                recorded: AtomicBool::new(false),
                caller_sleeps: AtomicBool::new(false),
                prepared: Notify::new(),
            });
            driver.cells.insert(id, Arc::clone(&cell));
            let mut commands = std::mem::take(&mut driver.commands);
            let (session, parallelism, patience) = (self.inner.session, facts.parallelism, facts.patience);
            driver
                .flow
                .submit(id, session, parallelism, patience, now, &mut commands);
            driver.carry_out(commands, now);
            (cell, driver.flow.stage(id).is_some())
        };
        let task = taken.then(|| {
            let seat = Seat {
                lane: self.clone(),
                cell: Arc::clone(&cell),
            };
            let at = if place.is_some() { Place::Desk } else { Place::Runtime };
            let job = carry_out(seat, facts, at, cancel.clone(), work);
            match place {
                Some(desk) => desk.spawn(job),
                None => tokio::spawn(job),
            }
        });
        Pending {
            executor: executor.clone(),
            cell,
            task,
            over: false,
            cancel,
            timeout,
            first_look,
        }
    }
}

/// A call's turn, its locks and its place: given back when this is dropped, however the work ends. Keeps the session's
/// thread alive.
struct Seat {
    lane: Lane,
    cell: Arc<Cell>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let executor = &self.lane.inner.executor;
        executor.driver().leave(self.cell.call, executor.now());
    }
}

impl Seat {
    /// Prepared: on to the paths and a place.
    fn ready(&self, facts: &mut Facts) {
        let executor = &self.lane.inner.executor;
        let now = executor.now();
        let paths = if facts.concurrency_safe {
            Vec::new()
        } else {
            std::mem::take(&mut facts.paths)
        };
        let mut driver = executor.driver();
        let mut commands = std::mem::take(&mut driver.commands);
        driver.flow.ready(self.cell.call, facts.kind, paths, now, &mut commands);
        driver.carry_out(commands, now);
        if self.cell.caller_sleeps.swap(false, Ordering::AcqRel) {
            self.cell.prepared.notify_one();
        }
    }
}

/// The way of a call on its own thread or task, from its session's gate to its end.
async fn carry_out<W: Work>(
    seat: Seat,
    mut facts: Facts,
    place: Place,
    cancel: CancellationToken,
    mut work: W,
) -> (Done<W::Answer>, usize) {
    let (executor, cell) = (&seat.lane.inner.executor, &*seat.cell);
    let end = |done: Done<W::Answer>, ending: Ending| {
        executor.ended(cell, ending);
        (done, cell.retries.load(Ordering::Acquire))
    };
    if cell.after(WAITING).await == GONE {
        return (Done::Never, 0);
    }
    if cancel.is_cancelled() {
        return end(Done::Never, Ending::Cancelled);
    }
    let prepared = {
        let mut prepare = pin!(caught(work.prepare(&mut facts)));
        let gone = async { while cell.after(ENTERED).await != GONE {} };
        tokio::select! {
            biased;
            prepared = &mut prepare => prepared,
            () = gone => return (Done::Never, 0),
        }
    };
    match prepared {
        Ok(Ok(())) => {}
        Ok(Err(answer)) => {
            let ending = ending(work.judge(&answer));
            return end(Done::Answered(answer), ending);
        }
        Err(panic) => return end(broken(&facts, panic), Ending::Panicked),
    }
    seat.ready(&mut facts);
    if cell.after(ENTERED).await == GONE {
        return (Done::Never, 0);
    }
    // It was launched, and still has not begun.
    if cancel.is_cancelled() {
        return end(Done::Never, Ending::Cancelled);
    }
    let started = cell.started.get().copied().unwrap_or_else(|| executor.now());
    executor.tell(|observer| {
        observer.started(&Started {
            call: cell.call,
            session: cell.session,
            tool: Arc::clone(&cell.tool),
            waited: started.saturating_sub(cell.submitted),
        });
    });
    let mut retries = Retries::new(facts.replay, &executor.inner.pauses);
    loop {
        let attempt = Try {
            number: retries.made(),
            place,
        };
        let (answer, verdict) = match caught(async { work.run(attempt).await }).await {
            Ok(answer) => {
                let verdict = work.judge(&answer);
                (answer, verdict)
            }
            Err(panic) => return end(broken(&facts, panic), Ending::Panicked),
        };
        let left = (started + facts.timeout).saturating_sub(executor.now());
        let cause = match verdict {
            Verdict::Transient(cause) if !cancel.is_cancelled() => Some(cause),
            _ => None,
        };
        let Next::After(pause) = retries.after(cause, left) else {
            return end(Done::Answered(answer), ending(verdict));
        };
        tokio::select! {
            biased;
            // Nobody waits for a better answer.
            () = cancel.cancelled() => return end(Done::Answered(answer), ending(verdict)),
            () = tokio::time::sleep(pause) => {}
        }
        cell.retries.store(retries.made(), Ordering::Release);
        tracing::info!(
            tool = &*facts.tool,
            "tried again after {}",
            cause.map_or("", |cause| cause.name())
        );
    }
}

fn broken<T>(facts: &Facts, panic: Panic) -> Done<T> {
    tracing::error!(tool = &*facts.tool, "{panic}");
    Done::Panicked(panic)
}

fn ending(verdict: Verdict) -> Ending {
    match verdict {
        Verdict::Success => Ending::Succeeded,
        Verdict::Failure | Verdict::Transient(_) => Ending::Failed,
    }
}

/// A call that was submitted. Dropped before it has begun, it never does; afterwards it goes on by itself.
#[must_use = "a call that is dropped before it has begun never does"]
pub struct Pending<T> {
    executor: Executor,
    cell: Arc<Cell>,
    /// Nothing when it was refused at once, or its end is waited for.
    task: Option<JoinHandle<(Done<T>, usize)>>,
    /// Whether its end is known, so that nothing is left to give up.
    over: bool,
    cancel: CancellationToken,
    timeout: Duration,
    first_look: Duration,
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending").field(&self.cell.call).finish()
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if !self.over {
            self.executor.left(&self.cell);
        }
    }
}

/// Lets go of a call whose end somebody else waits for.
#[derive(Clone)]
pub struct Grip {
    executor: Executor,
    cell: Arc<Cell>,
}

impl fmt::Debug for Grip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grip").field(&self.cell.call).finish()
    }
}

impl Grip {
    /// A call that has not begun never does, as if its [`Pending`] were dropped.
    pub fn let_go(&self) -> LetGo {
        self.executor.left(&self.cell)
    }
}

/// What becomes of a call that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetGo {
    /// It never begins.
    NeverBegins,
    /// It runs, or has ended.
    HasBegun,
}

/// What a caller does whose call has not ended when it was thought to.
enum Look {
    /// Look again at this time.
    At(Duration),
    /// Sleep until it is prepared.
    Prepares,
    /// It was refused.
    Refused(Busy),
    /// It has run out of its time.
    TooLong,
    /// It has ended: its answer is on the way.
    Over,
}

impl<T: Send + 'static> Pending<T> {
    /// The call, as records name it.
    pub fn call(&self) -> CallId {
        self.cell.call
    }

    /// A way to let go of the call while [`report`](Self::report) is waited for.
    pub fn grip(&self) -> Grip {
        Grip {
            executor: self.executor.clone(),
            cell: Arc::clone(&self.cell),
        }
    }

    /// Waits for the end of the call.
    pub async fn report(mut self) -> Report<T> {
        let ended = match self.task.take() {
            Some(task) => self.ended(task).await,
            None => self.refused(None),
        };
        self.over = true;
        Report {
            ended,
            retries: self.cell.retries.load(Ordering::Acquire),
        }
    }

    async fn ended(&self, mut task: JoinHandle<(Done<T>, usize)>) -> Ended<T> {
        // The machine's time, as the runtime's clock.
        let base = tokio::time::Instant::now();
        let zero = self.executor.now();
        let at = |time: Duration| base + time.saturating_sub(zero);
        let mut clock = pin!(tokio::time::sleep_until(at(self.cell.submitted + self.first_look)));
        let mut cancelled = pin!(self.cancel.cancelled());
        let (mut heard, mut sleeps) = (false, false);
        loop {
            tokio::select! {
                biased;
                done = &mut task => return self.done(done),
                // Work that has begun hears of it by its own token.
                () = &mut cancelled, if !heard => {
                    if matches!(self.executor.give_up(&self.cell), GaveUp::Yes) {
                        self.executor.ended(&self.cell, Ending::Cancelled);
                        return Ended::Cancelled;
                    }
                    heard = true;
                }
                () = self.cell.prepared.notified(), if sleeps => {
                    sleeps = false;
                    clock.as_mut().reset(tokio::time::Instant::now());
                }
                () = &mut clock, if !sleeps => match self.look() {
                    Look::At(time) => clock.as_mut().reset(at(time)),
                    Look::Prepares => sleeps = true,
                    Look::Refused(busy) => return self.refused(Some(busy)),
                    Look::TooLong => break,
                    Look::Over => clock.as_mut().reset(tokio::time::Instant::now() + GRACE),
                },
            }
        }
        self.cancel.cancel();
        let late = match tokio::time::timeout(GRACE, &mut task).await {
            Ok(Ok((Done::Answered(answer), _))) => Late::Answered(answer),
            Ok(Ok((Done::Panicked(panic), _))) => Late::Panicked(panic),
            // It was launched, and its thread never came to it.
            Ok(Ok((Done::Never, _))) if !heard => return self.refused(Some(Busy::TooLate(Stage::Place))),
            Ok(Ok((Done::Never, _))) => return Ended::Cancelled,
            Ok(Err(error)) => Late::Panicked(Panic::new(error.to_string())),
            Err(_) => Late::Running(Running(task)),
        };
        self.executor.ended(&self.cell, Ending::TimedOut);
        Ended::TimedOut(late)
    }

    /// How far the call is, now that it might have taken too long.
    fn look(&self) -> Look {
        let now = self.executor.now();
        let mut driver = self.executor.driver();
        let mut commands = std::mem::take(&mut driver.commands);
        driver.flow.tick(now, &mut commands);
        driver.carry_out(commands, now);
        let call = self.cell.call;
        match driver.flow.stage(call) {
            None => self.cell.busy.get().map_or(Look::Over, |busy| Look::Refused(*busy)),
            Some(Stage::Preparing) => {
                self.cell.caller_sleeps.store(true, Ordering::Release);
                Look::Prepares
            }
            Some(Stage::Running) => {
                let until = self.cell.started.get().copied().unwrap_or(now) + self.timeout;
                if until <= now { Look::TooLong } else { Look::At(until) }
            }
            Some(_) => {
                let until = driver.flow.waits_until(call).unwrap_or(now);
                // In between it may be launched and run out of its time, or wait for something else and no longer.
                Look::At(until.min(now + self.timeout.min(self.executor.inner.wait)))
            }
        }
    }

    fn done(&self, done: Result<(Done<T>, usize), tokio::task::JoinError>) -> Ended<T> {
        match done {
            Ok((Done::Answered(answer), _)) => Ended::Answered(answer),
            Ok((Done::Panicked(panic), _)) => Ended::Panicked(panic),
            Ok((Done::Never, _)) => {
                if let Some(busy) = self.cell.busy.get() {
                    return self.refused(Some(*busy));
                }
                self.executor.ended(&self.cell, Ending::Cancelled);
                Ended::Cancelled
            }
            // The runtime that it ran on is gone.
            Err(error) => {
                self.executor.ended(&self.cell, Ending::Panicked);
                Ended::Panicked(Panic::new(error.to_string()))
            }
        }
    }

    fn refused(&self, busy: Option<Busy>) -> Ended<T> {
        self.executor.ended(&self.cell, Ending::Refused);
        let busy = busy.or_else(|| self.cell.busy.get().copied());
        Ended::Refused(busy.unwrap_or(Busy::TooLate(Stage::Gate)))
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
