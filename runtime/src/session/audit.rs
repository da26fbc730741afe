//! One record of each call in the project's audit log.
//!
//! Answers for what a record says and for its being written before the caller has its answer, whatever became of the call;
//! when nobody waits for it any more, it is written, too. Leaves out the form of a record, its redaction and its writing (the
//! core's `audit`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use devloop_core::audit::{Caller, EndedCall, Entry, Excerpt, Full, OK, Outcome};
use devloop_core::registry::Definition;
use devloop_core::store::Clock;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::Session;
use super::work::Track;
use crate::call::{CallOutcome, CallRequest, with_causes};
use crate::caught::caught_now;

/// What is known of a call until it has ended.
pub(super) struct Trail {
    session: Session,
    began: Instant,
    /// Nothing when the record is made.
    call: Option<Known>,
}

struct Known {
    called: String,
    tool: Option<String>,
    tool_use_id: String,
    input: Excerpt,
    track: Option<Arc<Track>>,
}

impl Session {
    /// Begins the trail of a call. Copies a bounded part of its input.
    pub(super) fn trail(&self, request: &CallRequest) -> Trail {
        Trail {
            session: self.clone(),
            began: Instant::now(),
            call: Some(Known {
                // Whatever was sent as a name; those of tools are shorter.
                called: request.tool.chars().take(100).collect(),
                tool: None,
                tool_use_id: request.tool_use_id.clone(),
                input: Excerpt::of(&request.arguments),
                track: None,
            }),
        }
    }
}

impl Trail {
    /// The tool was found, and what is judged about the call stands in `track`.
    pub(super) fn met(&mut self, tool: &Definition, track: Option<Arc<Track>>) {
        if let Some(call) = &mut self.call {
            call.tool = Some(tool.name.to_string());
            call.track = track;
        }
    }

    /// Waits until the record is written, or could not be. Calls that end at the same time share a write.
    pub(super) async fn end(mut self, outcome: &CallOutcome) {
        let Some(call) = self.call.take() else { return };
        let calls = self.session.inner.project.calls.clone();
        let (tell, told) = oneshot::channel();
        let entry = Entry::and_then(call.ended(&self, code_of(outcome)), move || {
            // Nobody may be left to be told.
            let _ = tell.send(());
        });
        // The call itself is no longer among them.
        let kept = match self.session.inner.lane.executor().load() {
            (0, _) => calls.keep_alone(entry),
            _ => calls.keep(entry),
        };
        if let Err(Full(entry)) = kept {
            tokio::task::spawn_blocking(move || calls.keep_in_time(*entry));
        }
        if told.await.is_err() {
            tracing::warn!("a call may be missing in the audit log: its writer has ended");
        }
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let ran = call
            .track
            .as_ref()
            .is_some_and(|track| track.ran.load(Ordering::Acquire));
        let reason = if ran {
            "nobody waited for its end; it may have been done"
        } else {
            "nobody waited for it any more when it was to begin; it was not done"
        };
        let outcome = Outcome {
            code: "abandoned".to_owned(),
            reason: Some(reason.to_owned()),
            error_id: None,
        };
        let entry = Entry::new(call.ended(self, outcome));
        if let Err(Full(entry)) = self.session.inner.project.calls.keep(entry) {
            let tool = &entry.call().tool;
            tracing::warn!(tool, "a call is missing in the audit log, which stands still");
        }
    }
}

impl Known {
    fn ended(self, trail: &Trail, outcome: Outcome) -> EndedCall {
        let identity = trail.session.identity();
        let judged = self.track.as_ref().and_then(|track| track.judged.get());
        let (tool, alias) = match self.tool {
            Some(tool) if tool == self.called => (tool, None),
            Some(tool) => (tool, Some(self.called)),
            None => (self.called, None),
        };
        EndedCall {
            caller: Caller {
                agent: identity.agent.to_owned(),
                unit_id: identity.unit_id.clone(),
                call_id: identity.call_id.clone(),
                session_id: identity.session_id.clone(),
                tool_use_id: self.tool_use_id,
            },
            tool,
            alias,
            input: self.input,
            built: judged.and_then(|judged| judged.invocation.input().as_object().map(Excerpt::of)),
            decision: judged.and_then(|judged| Excerpt::of_object(&judged.decision)),
            outcome,
            at: now(&*trail.session.inner.project.clock),
            took: trail.began.elapsed(),
        }
    }
}

/// The time by a clock of the host's, which must not break the record off: it may be made while a panic unwinds.
fn now(clock: &dyn Clock) -> Timestamp {
    caught_now(|| clock.now()).unwrap_or_else(|_| Timestamp::now())
}

/// The outcome as one code, and why.
fn code_of(outcome: &CallOutcome) -> Outcome {
    let of = |code: &str, reason: Option<String>| Outcome {
        code: code.to_owned(),
        reason,
        error_id: None,
    };
    match outcome {
        CallOutcome::Passed(answer) if answer.is_error => {
            let text = answer.content.iter().find_map(|block| block.get("text")?.as_str());
            of("upstream_failure", text.map(str::to_owned))
        }
        CallOutcome::Success(_) | CallOutcome::Passed(_) => of(OK, None),
        CallOutcome::Expected(body) => of(&body.code, Some(body.reason.clone())),
        CallOutcome::Invalid(error) => of("invalid_input", Some(error.to_string())),
        CallOutcome::Sandbox { message, .. } => of("sandbox_violation", Some(message.clone())),
        CallOutcome::Internal {
            message,
            chain,
            error_id,
            ..
        } => Outcome {
            error_id: Some(error_id.clone()),
            ..of("internal", Some(with_causes(message, chain)))
        },
        CallOutcome::Cancelled => of("cancelled", None),
        CallOutcome::NeedsApproval(ask) => of("approval_required", Some(ask.reason.clone())),
        CallOutcome::UnknownTool { .. } => of("unknown_tool", None),
    }
}
