//! What a transport knows of its connection before the protocol library does.
//!
//! Answers for saying that a connection is of no use any more, why, which requests were certainly not taken, and when
//! there is doubt. Leaves out finding that out.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use devloop_core::connection::Hope;
use rmcp::model::RequestId;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// What is on its way to a server that takes nothing any more is told so within.
const VERDICTS: Duration = Duration::from_secs(1);

/// The fate of one connection.
#[derive(Debug, Default)]
pub(super) struct Fate {
    why: OnceLock<(String, Hope)>,
    sealed: CancellationToken,
    untaken: Mutex<HashSet<RequestId>>,
    doubt: Notify,
    /// Messages on their way to a server that has not said yet whether it takes them.
    sending: watch::Sender<usize>,
}

/// A message on its way.
#[derive(Debug)]
pub(super) struct Sending<'f>(&'f Fate);

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.sending.send_modify(|count| *count -= 1);
    }
}

impl Fate {
    /// The connection is of no use any more. The first reason counts: later ones follow from it.
    pub(super) fn seal(&self, reason: String, hope: Hope) {
        let _ = self.why.set((reason, hope));
        self.sealed.cancel();
    }

    /// The same for a server that takes nothing any more: what is on its way by now is soon told so, too, which is more
    /// than can be said of it otherwise.
    pub(super) fn seal_soon(self: &Arc<Self>, reason: String, hope: Hope) {
        if self.why.set((reason, hope)).is_err() {
            return;
        }
        let fate = Arc::clone(self);
        tokio::spawn(async move {
            let mut sending = fate.sending.subscribe();
            let _ = timeout(VERDICTS, sending.wait_for(|count| *count == 0)).await;
            fate.sealed.cancel();
        });
    }

    /// Counts a message for as long as it is on its way.
    pub(super) fn sending(&self) -> Sending<'_> {
        self.sending.send_modify(|count| *count += 1);
        Sending(self)
    }

    /// Waits until it is of no use any more.
    pub(super) async fn sealed(&self) {
        self.sealed.cancelled().await;
    }

    /// Why it is of no use any more.
    pub(super) fn why(&self) -> Option<(String, Hope)> {
        self.why.get().cloned()
    }

    /// The server has certainly done nothing for a request: it did not get it, or said that it does not take it.
    pub(super) fn not_taken(&self, id: &RequestId) {
        self.untaken().insert(id.clone());
    }

    pub(super) fn was_not_taken(&self, id: &RequestId) -> bool {
        self.untaken().contains(id)
    }

    /// Something broke that may have been the connection.
    pub(super) fn doubt(&self) {
        self.doubt.notify_one();
    }

    /// Waits for doubt.
    pub(super) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    fn untaken(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.untaken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
