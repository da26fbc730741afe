//! What a caller is told of how its call ended.
//!
//! Answers for every ending as one [`CallOutcome`], and for telling others of an internal error. Leaves out the call.

use std::time::Duration;

use devloop_contract::error::{Access, Ground};
use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_contract::{ExpectedFailure, InternalError, ToolError};
use devloop_core::execution::flow::Busy;
use devloop_core::registry::Definition;
use devloop_generated::events::LoopEscalated;

use super::sandbox::bound;
use super::work::{Ran, Stop};
use super::{Answer, Session};
use crate::call::CallOutcome;
use crate::context::publish;
use crate::execution::Panic;
use crate::project::Escalation;

impl Session {
    /// What the caller is told, after others were told what they must know.
    pub(super) async fn told(&self, tool: &Definition, result: Ran) -> CallOutcome {
        match self.outcome(tool, result) {
            Ok(outcome) => outcome,
            Err(error) => self.escalate(tool, &error).await,
        }
    }

    /// What the caller is told; an error when it is internal and others must be told as well.
    pub(super) fn outcome(&self, tool: &Definition, result: Ran) -> Result<CallOutcome, InternalError> {
        Ok(match result {
            Ok(Answer::Json(value)) => CallOutcome::Success(value),
            Ok(Answer::Passed(answer)) => CallOutcome::Passed(answer),
            Err(Stop::Asks(ask)) => CallOutcome::NeedsApproval(ask),
            Err(Stop::Refused(refusal)) => return self.refused(tool, refusal),
        })
    }

    /// What the caller is told of a refusal; an error when it is internal and others must be told as well.
    fn refused(&self, tool: &Definition, refusal: ErasedRefusal) -> Result<CallOutcome, InternalError> {
        Ok(match refusal {
            ErasedRefusal::Expected(body) => CallOutcome::Expected(*body),
            ErasedRefusal::Common(failure) if tool.common_failures.iter().any(|code| *code == failure.code()) => {
                CallOutcome::Expected(FailureBody::new(&failure, None))
            }
            ErasedRefusal::Common(failure) => {
                let (code, details) = (failure.code(), failure.details().unwrap_or_default());
                let message = format!(
                    "`{code}` is not among the common_failures of {}: {details}",
                    tool.source
                );
                return Err(InternalError::bare(message));
            }
            ErasedRefusal::Tool(ToolError::Validation(mut error)) => {
                // What a handler refuses beyond the schema comes without one.
                if error.example.is_none() {
                    error.example = tool.examples.first().map(|example| example.input.clone().into_owned());
                }
                CallOutcome::Invalid(error)
            }
            ErasedRefusal::Tool(error @ ToolError::Sandbox { .. }) => {
                let message = error.to_string();
                let ToolError::Sandbox {
                    cause, ground, access, ..
                } = error
                else {
                    unreachable!("matched above")
                };
                // Where something lies in the way, other paths are no help.
                let may_write = (ground == Ground::Permission && access == Access::Write)
                    .then(|| format!("{} may write: {}", self.inner.agent.name, self.allowed()));
                let hint = [cause, may_write].into_iter().flatten().collect::<Vec<_>>().join(". ");
                CallOutcome::Sandbox {
                    message,
                    hint: (!hint.is_empty()).then_some(hint),
                }
            }
            ErasedRefusal::Tool(ToolError::Cancelled) => CallOutcome::Cancelled,
            ErasedRefusal::Tool(ToolError::Internal(error)) => return Err(error),
        })
    }

    /// The patterns that the agent may write in this session, for reading.
    fn allowed(&self) -> String {
        let allowed = self.inner.agent.sandbox.write_allow.iter().map(|text| {
            bound(text, self.inner.agent, &self.inner.identity)
                .map_or_else(|_| (*text).to_owned(), |pattern| pattern.to_string())
        });
        allowed.collect::<Vec<_>>().join(", ")
    }

    /// Gives an internal error its id, and tells the log, the subscribers and the loop controller.
    pub(super) async fn escalate(&self, tool: &Definition, error: &InternalError) -> CallOutcome {
        let escalation = Escalation {
            agent: self.inner.agent.name.to_owned(),
            tool: tool.name.clone().into_owned(),
            call_id: self.inner.identity.call_id.clone(),
            error_id: format!("err-{}", self.inner.project.ids.next()),
            chain: error.chain(),
        };
        tracing::error!(
            agent = escalation.agent,
            tool = &*tool.name,
            error_id = escalation.error_id,
            "{}",
            escalation.chain
        );
        let outcome = CallOutcome::internal(error, escalation.error_id.clone());
        // Telling blocks: it appends to a journal, and what a controller does nobody knows.
        let session = self.clone();
        let told = tokio::task::spawn_blocking(move || {
            let event = LoopEscalated {
                tool: escalation.tool.clone(),
                error_id: escalation.error_id.clone(),
                message: escalation.chain.clone(),
            };
            publish(&session.inner.project, &session.inner.identity, &event.into());
            session.inner.project.controller.escalate(&escalation);
        });
        if let Err(error) = told.await {
            tracing::error!("the loop controller could not be told: {error}");
        }
        outcome
    }
}

pub(super) fn closed() -> FailureBody {
    let hint = "Open a new session.".to_owned();
    FailureBody::of_path("session_closed", "this session was closed; nothing was done", hint)
}

/// A call that would never get its turn, as the one that waits for it has it.
pub(super) fn itself(outer: &Definition, inner: &Definition) -> FailureBody {
    let (outer, inner) = (&outer.name, &inner.name);
    let reason = format!(
        "`{inner}` was called while `{outer}` runs in the same session, and one of them runs alone: they would wait for \
         each other; nothing was done"
    );
    let hint = "The host program calls it from another session, or declares both tools shared.".to_owned();
    FailureBody::of_path("would_deadlock", reason, hint)
}

pub(super) fn panicked(tool: &Definition, error: Panic) -> InternalError {
    InternalError::new(format!("the call of {} broke off", tool.name), error)
}

pub(super) fn no_turn(busy: Busy, wait: Duration) -> FailureBody {
    let within = match busy {
        Busy::TooLate(_) => format!(", and a call waits at most {wait:?}"),
        Busy::Gate(_) | Busy::Scheduler(_) => String::new(),
    };
    let hint = "Call again when they have been answered.".to_owned();
    FailureBody::of_path("tool_busy", format!("{busy}{within}; nothing was done"), hint)
}

pub(super) fn timed_out(tool: &Definition, time: Duration) -> FailureBody {
    let reason = format!("{} took longer than {time:?} and was told to stop", tool.name);
    let hint = "Look at what it left before you call again: it may have done part of its work.".to_owned();
    FailureBody::of_path("tool_timeout", reason, hint)
}
