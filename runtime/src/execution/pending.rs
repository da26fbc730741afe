//! A call that was submitted, as whoever waits for it has it.
//!
//! Answers for its time limits, its cancellation and its one report. Leaves out what it does ([`super::lane`]).

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use devloop_core::execution::CallId;
use devloop_core::execution::flow::{Busy, Stage};
use devloop_core::execution::history::Ending;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::work::{Done, Ended, Late, Report, Running};
use super::{Cell, Executor, GaveUp};
use crate::caught::Panic;

/// How long a call that ran out of time may take to stop before its answer no longer waits for it.
const GRACE: Duration = Duration::from_secs(2);

/// A call that was submitted. Dropped before it has begun, it never does; afterwards it goes on by itself.
#[must_use = "a call that is dropped before it has begun never does"]
pub struct Pending<T> {
    pub(super) executor: Executor,
    pub(super) cell: Arc<Cell>,
    /// Nothing when it was refused at once, or its end is waited for.
    pub(super) task: Option<JoinHandle<(Done<T>, usize)>>,
    /// Whether its end is known, so that nothing is left to give up.
    pub(super) over: bool,
    pub(super) cancel: CancellationToken,
    pub(super) timeout: Duration,
    pub(super) first_look: Duration,
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
