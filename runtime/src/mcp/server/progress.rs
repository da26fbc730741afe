//! Progress of a call, on the wire.
//!
//! Answers for values that only grow, for a sign of life while a call takes long and reports nothing, and for nothing after
//! the answer. Leaves out who makes progress.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotification, ProgressNotificationParam, ProgressToken, ServerNotification};
use rmcp::service::Peer;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::call::Progress;

/// Passes the progress of one call on.
pub(super) struct Reporter {
    token: ProgressToken,
    /// Nothing once there will be no more.
    receiver: Option<mpsc::UnboundedReceiver<Progress>>,
    peer: Peer<RoleServer>,
    cancel: CancellationToken,
    values: Values,
    total: Option<f64>,
    /// How long it may say nothing: clients give up what is silent.
    silence: Duration,
    began: Instant,
    due: Instant,
}

impl Reporter {
    /// Nobody wants to know how a call goes on that was cancelled by `cancel`.
    pub(super) fn new(
        token: ProgressToken,
        receiver: mpsc::UnboundedReceiver<Progress>,
        peer: Peer<RoleServer>,
        cancel: CancellationToken,
        silence: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            token,
            receiver: Some(receiver),
            peer,
            cancel,
            values: Values::default(),
            total: None,
            began: now,
            due: now + silence,
            silence,
        }
    }

    /// Sends what comes next: a step, or a sign of life.
    pub(super) async fn go_on(&mut self) {
        let step = async {
            match &mut self.receiver {
                Some(receiver) => receiver.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            step = step => match step {
                Some(step) => self.step(step).await,
                None => self.receiver = None,
            },
            () = sleep_until(self.due) => self.sign_of_life().await,
        }
    }

    /// Sends what was reported before the call ended: nothing may follow its answer.
    pub(super) async fn finish(&mut self) {
        while let Some(Ok(step)) = self.receiver.as_mut().map(mpsc::UnboundedReceiver::try_recv) {
            self.step(step).await;
        }
    }

    async fn step(&mut self, step: Progress) {
        if let Some(value) = self.values.of_step(step.done) {
            self.total = step.total;
            self.send(value, step.message).await;
        }
    }

    async fn sign_of_life(&mut self) {
        if self.cancel.is_cancelled() {
            self.due = Instant::now() + self.silence;
            return;
        }
        let seconds = self.began.elapsed().as_secs();
        let value = self.values.of_silence();
        self.send(value, Some(format!("still at work after {seconds} s"))).await;
    }

    async fn send(&mut self, value: f64, message: Option<String>) {
        self.due = Instant::now() + self.silence;
        if !value.is_finite() {
            return;
        }
        let mut params = ProgressNotificationParam::new(self.token.clone(), value);
        // Signs of life after the last step lead beyond the end.
        params.total = self.total.filter(|total| value <= *total);
        params.message = message;
        let notification = ServerNotification::ProgressNotification(ProgressNotification::new(params));
        if let Err(error) = self.peer.send_notification(notification).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
    }
}

/// The numbers that are sent, each above the one before, as the protocol wants it.
#[derive(Debug, Default)]
struct Values {
    /// How far the call has said it is.
    reported: Option<f64>,
    sent: Option<f64>,
}

impl Values {
    /// What is sent for a step; nothing for one that does not lead on.
    fn of_step(&mut self, done: f64) -> Option<f64> {
        if !done.is_finite() || self.reported.is_some_and(|before| done <= before) {
            return None;
        }
        self.reported = Some(done);
        // A sign of life may have been a little ahead.
        let value = match self.sent {
            Some(sent) if done <= sent => above(sent),
            _ => done,
        };
        self.sent = Some(value);
        Some(value)
    }

    /// What is sent while nothing is reported: a little more than the last, so that steps to come are above it.
    fn of_silence(&mut self) -> f64 {
        let value = self.sent.map_or(0.0, above);
        self.sent = Some(value);
        value
    }
}

/// A little more.
fn above(value: f64) -> f64 {
    value + (value.abs() * 1e-6).max(1e-3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_sent_only_grows_and_no_step_that_leads_on_is_lost(
            steps in proptest::collection::vec(proptest::option::of(-1e12..1e12_f64), 0..40)
        ) {
            let mut values = Values::default();
            let (mut last, mut highest) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
            for step in steps {
                let sent = match step {
                    None => Some(values.of_silence()),
                    Some(done) => {
                        let sent = values.of_step(done);
                        prop_assert_eq!(sent.is_some(), done > highest);
                        highest = highest.max(done);
                        sent
                    }
                };
                if let Some(sent) = sent {
                    prop_assert!(sent > last, "{} after {}", sent, last);
                    last = sent;
                }
            }
        }
    }

    #[test]
    fn a_sign_of_life_stays_below_the_next_step() {
        let mut values = Values::default();
        assert_eq!(values.of_silence().to_bits(), 0.0_f64.to_bits());
        assert_eq!(values.of_step(1.0), Some(1.0));
        for _ in 0..10 {
            assert!(values.of_silence() < 1.1);
        }
        assert_eq!(values.of_step(2.0), Some(2.0));
        assert_eq!(values.of_step(f64::NAN), None);
        assert_eq!(values.of_step(2.0), None);
    }
}
