//! What carries out the calls of a tool.
//!
//! Answers for the one thing that tools of specs, of a host program and of upstream servers have in common: a call goes in,
//! an answer or a refusal comes out. Leaves out everything before and after, which is the session's and the same for all.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::{InternalError, Tool, ToolError};
use devloop_core::registry::Definition;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::call::{Boxed, Passed, Progress};
use crate::identity::Identity;

/// What carries out the calls of one tool of a catalogue. [`ToolRunner`] says where.
#[derive(Clone)]
pub enum Runner {
    /// The handler that the tool's spec names.
    Handler(&'static Tool),
    /// Anything else: a host's own code, or a server that the call goes on to.
    Service(Arc<dyn ToolRunner>),
}

impl Runner {
    /// The runner of a host's tool.
    pub fn new(runner: impl ToolRunner) -> Self {
        Self::Service(Arc::new(runner))
    }

    /// A runner that is a function. [`ToolRunner`] says on which thread it runs and when it may block.
    ///
    /// ```
    /// use devloop_runtime::session::{RunnerCall, Runner};
    /// use serde_json::{Value, json};
    ///
    /// let echo = Runner::of(|call: RunnerCall| async move { Ok(json!({ "said": call.input["text"] })) });
    /// # let _ = echo;
    /// ```
    pub fn of<F, R>(function: F) -> Self
    where
        F: Fn(RunnerCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, RunnerError>> + Send + 'static,
    {
        Self::new(OfFn(function, Overrun::GoesOn))
    }

    /// As [`of`](Self::of), for a function whose future may be [dropped](Overrun::IsDropped) when it does not end in time.
    pub fn of_droppable<F, R>(function: F) -> Self
    where
        F: Fn(RunnerCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, RunnerError>> + Send + 'static,
    {
        Self::new(OfFn(function, Overrun::IsDropped))
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(tool) => f.debug_tuple("Handler").field(&tool.handler).finish(),
            Self::Service(_) => f.write_str("Service"),
        }
    }
}

/// Code that carries out calls.
///
/// # Where it runs
/// That depends on the tool's [`Parallelism`](devloop_contract::tool::Parallelism):
///
/// | | `Exclusive`, the default | `Shared` |
/// |---|---|---|
/// | thread | one of the session's own, `devloop-desk` | the tokio runtime in which the call was submitted |
/// | runtime | a current-thread one of that thread, with time and io | that one |
/// | blocking | fine: nothing else of the session runs meanwhile | holds up that runtime; use `spawn_blocking` |
/// | `block_in_place` | panics, and is not needed | as that runtime has it |
/// | spawned tasks | end with the session, at the latest, and do not run while the thread blocks | as that runtime has it |
///
/// A resource that belongs to a runtime, such as a connection with a task of its own, is therefore best made in the host's
/// runtime and talked to over a channel. Where the system has no thread to spare, exclusive calls run as shared ones do.
///
/// While an exclusive tool runs, no other call of its session does: it must not wait for one. A call to the session that
/// it belongs to is refused at once (`would_deadlock`), unless it is made by a task of its own, where it waits in vain.
///
/// # Failures
/// [`RunnerError::Expected`] tells the agent what it can act on; [`RunnerError::Internal`] is logged and escalated, and the
/// agent learns that something broke. A tool that is `retry_safe` is tried again, after 200 and 400 ms, when an internal
/// error has an [`io::Error`] of `EBUSY`, `EAGAIN`, `EMFILE` or `ENFILE` among its causes: keep the error that the system
/// gave, as [`RunnerError::internal`] and `?` do.
#[doc(alias = "handler")]
#[doc(alias = "ToolHandler")]
pub trait ToolRunner: Send + Sync + 'static {
    /// Carries out one call, whose input was built and whose permission was given. It is not dropped half-way,
    /// unless [`overrun`](Self::overrun) allows that: look at [`RunnerCall::cancel`], which is also how it hears that its
    /// time is over. A panic is caught and becomes an internal error.
    fn run(&self, call: RunnerCall) -> Boxed<'_, Result<Answer, RunnerError>>;

    /// What becomes of a call that was told to stop, by its time-out or by its caller, and goes on for two seconds more.
    fn overrun(&self) -> Overrun {
        Overrun::GoesOn
    }
}

/// What becomes of a call that does not end when it is told to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrun {
    /// It goes on, and keeps its turn and its place among all that run until it ends: what it writes is not left
    /// half-way. Whoever waits for its turn is refused in time.
    #[default]
    GoesOn,
    /// Its future is dropped. For what may be left anywhere, such as a request to a server.
    IsDropped,
}

struct OfFn<F>(F, Overrun);

impl<F, R> ToolRunner for OfFn<F>
where
    F: Fn(RunnerCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Value, RunnerError>> + Send + 'static,
{
    fn run(&self, call: RunnerCall) -> Boxed<'_, Result<Answer, RunnerError>> {
        let answer = (self.0)(call);
        Box::pin(async move { answer.await.map(Answer::Json) })
    }

    fn overrun(&self) -> Overrun {
        self.1
    }
}

/// One call, as its runner sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunnerCall {
    /// The tool.
    pub tool: Arc<Definition>,
    /// The input as built: an object, valid, with its defaults.
    pub input: Value,
    /// Names this one call, unique over connections.
    pub tool_use_id: String,
    /// Who calls.
    pub identity: Arc<Identity>,
    /// Cancelled when nobody wants the result any more.
    pub cancel: CancellationToken,
    /// Where progress goes, when the caller asked for it.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A JSON value; judged by the output schema when the tool has one.
    Json(Value),
    /// A server's answer, passed on as it came.
    Passed(Passed),
}

/// Why a runner gave no answer.
#[derive(Debug)]
pub enum RunnerError {
    /// Something that the agent should know and can act on.
    Expected(Box<FailureBody>),
    /// The caller cancelled.
    Cancelled,
    /// Something broke that the agent cannot mend.
    Internal(InternalError),
}

impl RunnerError {
    /// A failure that the agent can act on.
    pub fn expected(code: &str, reason: impl Into<String>, hint: impl Into<Option<String>>) -> Self {
        Self::Expected(Box::new(FailureBody::of_path(code, reason, hint)))
    }

    /// Something broke: what was being done, and what the system or a library said.
    ///
    /// ```
    /// use std::io;
    ///
    /// use devloop_runtime::session::RunnerError;
    ///
    /// // EBUSY passes by itself: a tool that is `retry_safe` is tried again.
    /// let busy = io::Error::from_raw_os_error(16);
    /// let error = RunnerError::internal("reading the price list", busy);
    /// # let _ = error;
    /// ```
    pub fn internal(doing: impl Into<String>, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Internal(InternalError::new(doing, error))
    }
}

impl From<InternalError> for RunnerError {
    fn from(error: InternalError) -> Self {
        Self::Internal(error)
    }
}

/// An internal error whose text says no more than the system does; [`RunnerError::internal`] says what was being done.
impl From<io::Error> for RunnerError {
    fn from(error: io::Error) -> Self {
        Self::internal("input or output failed", error)
    }
}

impl From<RunnerError> for ErasedRefusal {
    fn from(error: RunnerError) -> Self {
        match error {
            RunnerError::Expected(body) => Self::Expected(body),
            RunnerError::Cancelled => Self::Tool(ToolError::Cancelled),
            RunnerError::Internal(error) => Self::Tool(error.into()),
        }
    }
}
