//! What a call is made of, as the executor sees it, and how it can end.
//!
//! Answers for the data. Leaves out when anything runs.

use std::error::Error;
use std::future::{Future, ready};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use devloop_contract::tool::{Kind, Parallelism};
use devloop_core::execution::flow::Busy;
use devloop_core::execution::retry::{Replay, Transient};
use devloop_core::registry::Definition;
use tokio::task::JoinHandle;

use crate::caught::Panic;

/// What decides when and how a call runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The tool's name, for the history.
    pub tool: Arc<str>,
    /// The permission class, each with limits of its own.
    pub kind: Kind,
    /// Whether it runs beside other calls of its session.
    pub parallelism: Parallelism,
    /// Whether it may run beside itself on the same path: then it takes no locks.
    pub concurrency_safe: bool,
    /// Whether it may be tried again by itself.
    pub replay: Replay,
    /// The files that it acts on, as [real paths](super::real_path).
    pub paths: Vec<PathBuf>,
    /// The longest that it may run, its pauses between tries included.
    pub timeout: Duration,
    /// The longest that it waits for its turn.
    pub patience: Duration,
}

impl Facts {
    /// A call that runs alone in its session, is never tried again, touches no files and has `timeout` to wait and as
    /// long again to run.
    pub fn new(tool: impl Into<Arc<str>>, kind: Kind, timeout: Duration) -> Self {
        Self {
            tool: tool.into(),
            kind,
            parallelism: Parallelism::Exclusive,
            concurrency_safe: false,
            replay: Replay::Never,
            paths: Vec::new(),
            timeout,
            patience: timeout,
        }
    }

    /// A call that runs beside other calls of its session.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.parallelism = Parallelism::Shared;
        self
    }

    /// A call that may be tried again by itself.
    #[must_use]
    pub fn retry_safe(mut self) -> Self {
        self.replay = Replay::Safe;
        self
    }

    /// A call that acts on these files, given as [real paths](super::real_path).
    #[must_use]
    pub fn on(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.paths.extend(paths);
        self
    }
}

impl From<&Definition> for Facts {
    fn from(tool: &Definition) -> Self {
        Self {
            parallelism: tool.parallelism,
            concurrency_safe: tool.concurrency_safe,
            replay: if tool.retry_safe { Replay::Safe } else { Replay::Never },
            ..Self::new(&*tool.name, tool.kind, tool.timeout)
        }
    }
}

/// Where a call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a thread that its session has for itself, which may block.
    Desk,
    /// On the caller's runtime, which may not.
    Runtime,
}

/// One try of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// The first is 0.
    pub number: usize,
    /// Where it runs.
    pub place: Place,
}

/// What an answer means to the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A success.
    Success,
    /// A failure that trying again would not mend.
    Failure,
    /// A failure whose cause passes by itself.
    Transient(Transient),
}

/// What a call does. [`work`] makes one of a function.
pub trait Work: Send + 'static {
    /// What it answers, in success and in failure.
    type Answer: Send + 'static;

    /// Comes after the session's gate, before anything is locked: permission, hooks, approval. May change what is known
    /// of the call but its parallelism, which was used already.
    ///
    /// # Errors
    /// The answer, when the call is not to run.
    fn prepare(&mut self, facts: &mut Facts) -> impl Future<Output = Result<(), Self::Answer>> + Send {
        let _ = facts;
        ready(Ok(()))
    }

    /// Does it. Called again when the answer is [transient](Verdict::Transient) and the call may be repeated.
    fn run(&mut self, attempt: Try) -> impl Future<Output = Self::Answer> + Send;

    /// What an answer means.
    fn judge(&self, answer: &Self::Answer) -> Verdict;
}

/// The work of a function; see [`work`].
pub struct FromFn<F, T> {
    function: F,
    answer: PhantomData<fn() -> T>,
}

/// Work that is a function which makes a future of a `Result`: an error is a failure, of a transient cause when its
/// chain has one.
pub fn work<F, R, T, E>(function: F) -> FromFn<F, Result<T, E>>
where
    F: FnMut(Try) -> R + Send + 'static,
    R: Future<Output = Result<T, E>> + Send,
    T: Send + 'static,
    E: Error + Send + 'static,
{
    FromFn {
        function,
        answer: PhantomData,
    }
}

impl<F, R, T, E> Work for FromFn<F, Result<T, E>>
where
    F: FnMut(Try) -> R + Send + 'static,
    R: Future<Output = Result<T, E>> + Send,
    T: Send + 'static,
    E: Error + Send + 'static,
{
    type Answer = Result<T, E>;

    fn run(&mut self, attempt: Try) -> impl Future<Output = Self::Answer> + Send {
        (self.function)(attempt)
    }

    fn judge(&self, answer: &Self::Answer) -> Verdict {
        match answer {
            Ok(_) => Verdict::Success,
            Err(error) => Transient::cause_of(error).map_or(Verdict::Failure, Verdict::Transient),
        }
    }
}

/// How a call ended, and what it took.
#[derive(Debug)]
pub struct Report<T> {
    /// How it ended.
    pub ended: Ended<T>,
    /// How many tries there were beside the first.
    pub retries: usize,
}

/// How a call ended.
#[derive(Debug)]
pub enum Ended<T> {
    /// By itself.
    Answered(T),
    /// In a panic.
    Panicked(Panic),
    /// The caller cancelled before it began: nothing was done.
    Cancelled,
    /// It was not taken, or its turn did not come in time: nothing was done.
    Refused(Busy),
    /// It took too long and was told to stop.
    TimedOut(Late<T>),
}

/// What becomes of work that took too long.
#[derive(Debug)]
pub enum Late<T> {
    /// It still answered within the grace.
    Answered(T),
    /// It broke off within the grace.
    Panicked(Panic),
    /// It goes on, and keeps its turn and its locks.
    Running(Running<T>),
}

impl<T> Late<T> {
    /// What it answers in the end.
    ///
    /// # Errors
    /// It broke off.
    pub async fn answer(self) -> Result<T, Panic> {
        match self {
            Self::Answered(answer) => Ok(answer),
            Self::Panicked(panic) => Err(panic),
            Self::Running(running) => match running.0.await {
                Ok((Done::Answered(answer), _)) => Ok(answer),
                Ok((Done::Panicked(panic), _)) => Err(panic),
                Ok((Done::Never, _)) => Err(Panic::new("it never began")),
                Err(error) => Err(Panic::new(error.to_string())),
            },
        }
    }
}

/// Work that goes on though its answer is no longer waited for.
#[derive(Debug)]
pub struct Running<T>(pub(super) JoinHandle<(Done<T>, usize)>);

/// How the work of a call ended.
#[derive(Debug)]
pub(super) enum Done<T> {
    Answered(T),
    Panicked(Panic),
    /// It never began.
    Never,
}
