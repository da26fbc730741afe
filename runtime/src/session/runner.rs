//! What carries out the calls of a tool.
//!
//! Answers for the one thing that tools of specs, of a host program and of upstream servers have in common: a call goes in,
//! an answer or a refusal comes out. Leaves out everything before and after, which is the session's and the same for all.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::{InternalError, Tool, ToolError};
use devloop_core::registry::Definition;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::call::{Boxed, Passed, Progress};
use crate::identity::Identity;

/// What carries out the calls of one tool of a catalogue.
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

    /// A runner that is a function.
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
pub trait ToolRunner: Send + Sync + 'static {
    /// Carries out one call, whose input was built and whose permission was given. It is not dropped half-way,
    /// unless [`overrun`](Self::overrun) allows that: look at [`RunnerCall::cancel`]. A panic is caught and becomes an internal error.
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
}

impl From<InternalError> for RunnerError {
    fn from(error: InternalError) -> Self {
        Self::Internal(error)
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
