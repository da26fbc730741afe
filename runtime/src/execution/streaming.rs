//! Calls that come while a model still speaks.
//!
//! Answers for driving [`Turn`]: what can do no harm begins at once, the rest when the answer is complete; results come
//! in the order of the calls. Leaves out how a call runs: whoever submits it says how it is begun.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use devloop_core::execution::turn::{Command, Facts, Next, Refused, Ticket, Turn};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::caught::{Panic, caught, caught_now};

/// The calls of one answer of a model, each of which ends in a `T`.
///
/// ```
/// use devloop_contract::tool::{Kind, Parallelism};
/// use devloop_core::execution::turn::Facts;
/// use devloop_runtime::execution::StreamingExecutor;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let read = Facts { kind: Kind::ReadOnly, parallelism: Parallelism::Shared, concurrency_safe: true, retry_safe: true };
/// let mut calls = StreamingExecutor::new();
/// // As they come; the first begins while the model goes on.
/// calls.submit("toolu_1", read, |_cancel| async { "read" })?;
/// calls.submit("toolu_2", Facts { kind: Kind::Write, ..read }, |_cancel| async { "written" })?;
/// calls.end();
/// assert_eq!(calls.next().await, Some(("toolu_1".to_owned(), Ok("read"))));
/// assert_eq!(calls.next().await, Some(("toolu_2".to_owned(), Ok("written"))));
/// assert_eq!(calls.next().await, None);
/// # Ok::<(), devloop_core::execution::turn::Refused>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropped, it [discards](Self::discard).
pub struct StreamingExecutor<T: Send + 'static> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Something may have come for whoever waits for a result.
    arrived: Notify,
}

struct State<T> {
    turn: Turn<String, Result<T, Panic>>,
    /// What did not begin yet.
    held: BTreeMap<Ticket, (Start<T>, CancellationToken)>,
    /// What runs.
    running: BTreeMap<Ticket, CancellationToken>,
    commands: Vec<Command>,
}

type Start<T> = Box<dyn FnOnce(CancellationToken) -> Answer<T> + Send>;
type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T: Send + 'static> fmt::Debug for StreamingExecutor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("StreamingExecutor")
            .field("held", &state.held.len())
            .field("running", &state.running.len())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Default for StreamingExecutor<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + 'static> Drop for StreamingExecutor<T> {
    fn drop(&mut self) {
        self.discard();
    }
}

impl<T: Send + 'static> StreamingExecutor<T> {
    /// For an answer that begins.
    pub fn new() -> Self {
        let state = State {
            turn: Turn::default(),
            held: BTreeMap::new(),
            running: BTreeMap::new(),
            commands: Vec::new(),
        };
        let shared = Shared {
            state: Mutex::new(state),
            arrived: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The model has said a call. `start` begins it, now or when the answer is complete, and gets what tells it to stop;
    /// calls are begun one after the other, in their order, so that a [`Lane`](super::Lane) takes them in that order when
    /// `start` submits before it makes its future. It must not come back to this executor.
    ///
    /// # Errors
    /// The id is taken, there are 64 calls already, or the answer is complete: nothing has changed.
    ///
    /// # Panics
    /// Outside a tokio runtime, when a call begins at once.
    pub fn submit<F>(
        &self,
        id: impl Into<String>,
        facts: Facts,
        start: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Result<(), Refused>
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.submit_under(&CancellationToken::new(), id, facts, start)
    }

    /// As [`submit`](Self::submit), for a call that is told to stop also when `cancel` is.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_under<F>(
        &self,
        cancel: &CancellationToken,
        id: impl Into<String>,
        facts: Facts,
        start: impl FnOnce(CancellationToken) -> F + Send + 'static,
    ) -> Result<(), Refused>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut state = self.shared.lock();
        let mut commands = std::mem::take(&mut state.commands);
        let taken = state.turn.submit(id.into(), facts, &mut commands);
        let taken = taken.map(|ticket| {
            let start: Start<T> = Box::new(|cancel| Box::pin(start(cancel)));
            state.held.insert(ticket, (start, cancel.child_token()));
        });
        self.shared.carry_out(&mut state, commands);
        taken
    }

    /// The answer is complete: what was held back begins.
    pub fn end(&self) {
        let mut state = self.shared.lock();
        let mut commands = std::mem::take(&mut state.commands);
        state.turn.end(&mut commands);
        self.shared.carry_out(&mut state, commands);
        drop(state);
        self.shared.arrived.notify_one();
    }

    /// The next result in the order of the calls, with the id of the call; nothing when the answer is complete and all
    /// results were taken. A call that panics has that for a result. Waits for ever unless the answer is said to be
    /// complete; may be dropped while it waits without losing a result.
    pub async fn next(&mut self) -> Option<(String, Result<T, Panic>)> {
        loop {
            match self.shared.lock().turn.next_result() {
                Next::Result(id, result) => return Some((id, result)),
                Next::Over => return None,
                Next::Later => {}
            }
            self.shared.arrived.notified().await;
        }
    }

    /// The answer is thrown away: what runs is told to stop and its results are dropped, what did not begin never does.
    /// Another answer may come, in which the ids are free.
    pub fn discard(&self) {
        let mut state = self.shared.lock();
        let mut commands = std::mem::take(&mut state.commands);
        state.turn.discard(&mut commands);
        let held = std::mem::take(&mut state.held);
        self.shared.carry_out(&mut state, commands);
        drop(state);
        // What a call holds may come back here when it is dropped.
        drop(held);
    }
}

impl<T: Send + 'static> Shared<T> {
    /// Locks; what a panic can leave behind is a call without a result at worst.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out(self: &Arc<Self>, state: &mut State<T>, mut commands: Vec<Command>) {
        for command in commands.drain(..) {
            match command {
                Command::Launch(ticket) => {
                    if let Some((start, cancel)) = state.held.remove(&ticket) {
                        state.running.insert(ticket, cancel.clone());
                        self.launch(ticket, start, cancel);
                    }
                }
                Command::Abort(ticket) => {
                    if let Some(cancel) = state.running.remove(&ticket) {
                        cancel.cancel();
                    }
                }
            }
        }
        state.commands = commands;
    }

    fn launch(self: &Arc<Self>, ticket: Ticket, start: Start<T>, cancel: CancellationToken) {
        let begun = caught_now(|| start(cancel));
        let shared = Arc::clone(self);
        Handle::current().spawn(async move {
            let result = match begun {
                Ok(call) => caught(call).await,
                Err(panic) => Err(panic),
            };
            let mut state = shared.lock();
            state.running.remove(&ticket);
            let mut commands = std::mem::take(&mut state.commands);
            state.turn.finish(ticket, result, &mut commands);
            shared.carry_out(&mut state, commands);
            drop(state);
            shared.arrived.notify_one();
        });
    }
}
