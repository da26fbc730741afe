//! Progress of a call, on the wire.
//!
//! Answers for values that only grow, and for nothing after the answer. Leaves out who makes progress.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotification, ProgressNotificationParam, ProgressToken, ServerNotification};
use rmcp::service::Peer;
use tokio::sync::mpsc;

use crate::call::Progress;

/// Passes the progress of one call on.
pub(super) struct Reporter {
    token: ProgressToken,
    receiver: mpsc::UnboundedReceiver<Progress>,
    peer: Peer<RoleServer>,
    last: f64,
}

impl Reporter {
    pub(super) fn new(
        token: ProgressToken,
        receiver: mpsc::UnboundedReceiver<Progress>,
        peer: Peer<RoleServer>,
    ) -> Self {
        Self {
            token,
            receiver,
            peer,
            last: f64::NEG_INFINITY,
        }
    }

    /// Sends a step if it leads on: the protocol wants every value above the one before.
    async fn send(&mut self, progress: Progress) {
        if !progress.done.is_finite() || progress.done <= self.last {
            return;
        }
        self.last = progress.done;
        let mut params = ProgressNotificationParam::new(self.token.clone(), progress.done);
        params.total = progress.total;
        params.message = progress.message;
        let notification = ServerNotification::ProgressNotification(ProgressNotification::new(params));
        if let Err(error) = self.peer.send_notification(notification).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
    }

    /// Sends what was reported before the call ended: nothing may follow its answer.
    pub(super) async fn finish(&mut self) {
        while let Ok(progress) = self.receiver.try_recv() {
            self.send(progress).await;
        }
    }
}

/// Sends the next step; none when there will be no more.
pub(super) async fn report(reporter: &mut Option<Reporter>) -> Option<()> {
    let reporter = reporter.as_mut()?;
    let progress = reporter.receiver.recv().await?;
    reporter.send(progress).await;
    Some(())
}
