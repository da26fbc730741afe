//! A session's way into an executor, and the way of a call from there to its end.
//!
//! Answers for taking a call, for the thread that it runs on, for its tries, and for giving back its turn, its locks and its
//! place. Leaves out who waits for it ([`super::pending`]).

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use devloop_contract::tool::Parallelism;
use devloop_core::execution::history::Ending;
use devloop_core::execution::retry::{Next, Retries};
use devloop_core::execution::{CallId, SessionId};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::desk::Desk;
use super::work::{Done, Facts, Place, Try, Verdict, Work};
use super::{Cell, ENTERED, Executor, GONE, Pending, Started, WAITING};
use crate::caught::{Panic, caught};

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
    pub(super) fn new(executor: Executor, session: SessionId) -> Self {
        let inner = LaneInner {
            executor,
            session,
            desk: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

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
