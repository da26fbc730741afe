//! The calls of one answer of a model, while it still speaks.
//!
//! Answers for naming them and for what is known of a tool before its call is built. Leaves out what begins when: that is
//! [`StreamingExecutor`]'s.

use devloop_contract::tool::{Kind, Parallelism};
use devloop_core::execution::turn;

use super::Session;
use super::outcome::unforeseen;
use crate::call::{CallOutcome, CallRequest};
use crate::execution::StreamingExecutor;

/// The calls of one answer of a model, on one session; named by their `tool_use_id`. Dropped, it is discarded.
///
/// See [`StreamingExecutor`] for what begins when.
#[derive(Debug)]
pub struct StreamingCalls {
    pub(super) session: Session,
    pub(super) calls: StreamingExecutor<CallOutcome>,
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
            session.submit(request)
        })
    }

    /// The answer is complete: what was held back begins.
    pub fn end(&self) {
        self.calls.end();
    }

    /// The next outcome in the order of the calls, with the `tool_use_id`; nothing when the answer is complete and all
    /// outcomes were taken.
    pub async fn next(&mut self) -> Option<(String, CallOutcome)> {
        let (id, result) = self.calls.next().await?;
        Some((id, result.unwrap_or_else(|panic| unforeseen(&panic))))
    }

    /// The answer is thrown away: what runs is told to stop and its outcomes are dropped, what did not begin never does.
    pub fn discard(&self) {
        self.calls.discard();
    }
}
