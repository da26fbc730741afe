//! The calls of one answer of a model, while it still speaks.
//!
//! Answers for naming them and for what is known of a tool before its call is built. Leaves out what begins when: that is
//! [`StreamingExecutor`]'s.

use devloop_contract::tool::{Kind, Parallelism};
use devloop_core::execution::turn;

use super::{Carried, Session};
use crate::call::{CallOutcome, CallRequest};
use crate::execution::StreamingExecutor;

/// The calls of one answer of a model, on one session; named by their `tool_use_id`. Dropped, it is discarded.
///
/// See [`StreamingExecutor`] for what begins when.
#[doc(alias = "StreamingToolExecutor")]
#[derive(Debug)]
pub struct StreamingCalls {
    pub(super) session: Session,
    pub(super) calls: StreamingExecutor<Carried>,
}

impl StreamingCalls {
    /// The model has said a call. It begins now, when it can do no harm if the answer is thrown away, else when the answer
    /// is complete.
    ///
    /// # Errors
    /// The answer has a call of that `tool_use_id` already or 64 calls, or is complete: nothing has changed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn submit(&self, mut request: CallRequest) -> Result<(), turn::Refused> {
        // What is unknown does nothing, so that it may be said at once.
        let unknown = turn::Facts {
            kind: Kind::ReadOnly,
            parallelism: Parallelism::Shared,
            concurrency_safe: true,
            retry_safe: true,
        };
        let entry = self.session.inner.catalogue.get(&request.tool);
        let facts = entry.map_or(unknown, |entry| (&**entry.definition()).into());
        let (id, cancel, session) = (
            request.tool_use_id.clone(),
            request.cancel.clone(),
            self.session.clone(),
        );
        self.calls.submit_under(&cancel, id, facts, move |cancel| {
            request.cancel = cancel;
            session.carry_out(request)
        })
    }

    /// The answer is complete: what was held back begins.
    pub fn end(&self) {
        self.calls.end();
    }

    /// The next outcome in the order of the calls, with the `tool_use_id`; nothing when the answer is complete and all
    /// outcomes were taken. Waits for ever unless the answer is said to be [complete](Self::end).
    ///
    /// Cancel safe: dropped while it waits, it loses no outcome, and the calls go on.
    pub async fn next(&mut self) -> Option<(String, CallOutcome)> {
        let (id, carried) = self.next_carried().await?;
        Some((id, carried.outcome))
    }

    /// As [`next`](Self::next), and tells how the call was judged, how often it was tried and how records name it, as
    /// [`Session::carry_out`] does. Takes the same outcomes: each is given once. Cancel safe as well.
    pub async fn next_carried(&mut self) -> Option<(String, Carried)> {
        let (id, result) = self.calls.next().await?;
        let carried = result.unwrap_or_else(|panic| Carried {
            call: None,
            outcome: CallOutcome::broke_off(panic),
            decision: None,
            retries: 0,
        });
        Some((id, carried))
    }

    /// The answer is thrown away: what runs is told to stop and its outcomes are dropped, what did not begin never does.
    pub fn discard(&self) {
        self.calls.discard();
    }
}
