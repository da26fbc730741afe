//! SIGINT and SIGTERM, for commands that have something to end before they go.
//!
//! Answers for hearing them on a thread of its own, so that whatever the command does meanwhile does not matter, and for
//! the time that a command has to end. Leaves out what is ended.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Exit;

/// How long a command that is told to stop has for telling servers, for records and for its answer. Nearly all need a few
/// milliseconds; who does not want to wait for the others tells it a second time.
const STOPPING: Duration = Duration::from_secs(2);

/// How long the word that a call is cancelled may take to its server.
const TOLD: Duration = Duration::from_millis(50);

/// Lets the word that a call is cancelled, which is on its way, go before the connection does.
pub(super) async fn word_is_out() {
    tokio::time::sleep(TOLD).await;
}

/// Whether this process was told to stop.
#[derive(Clone, Default)]
pub(super) struct Stop {
    cancel: CancellationToken,
    /// The exit code that says by what.
    told: Arc<OnceLock<Exit>>,
}

impl Stop {
    /// From now on the first signal cancels the token and ends the process soon, after `last`, and a second one ends it at
    /// once.
    pub(super) fn listen(&self, last: impl FnOnce() + Send + 'static) {
        let (cancel, told) = (self.cancel.clone(), Arc::clone(&self.told));
        listen(async move |mut signals| {
            let exit = signals.next().await;
            let _ = told.set(exit);
            cancel.cancel();
            tokio::select! {
                _ = signals.next() => {}
                () = tokio::time::sleep(STOPPING) => last(),
            }
            std::process::exit(exit as i32)
        });
    }

    /// What a signal cancels.
    pub(super) fn token(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// The exit code of the signal that came, if one did.
    pub(super) fn told(&self) -> Option<Exit> {
        self.told.get().copied()
    }
}

/// The signals, as they come.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Waits for the next one, and gives the exit code that says so.
    pub(super) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}

/// From now on no such signal ends the process: `heard` is given them, on a thread of its own. Without a thread they end
/// the process as ever.
pub(super) fn listen(heard: impl AsyncFnOnce(Signals) + Send + 'static) {
    let (ready, listening) = std::sync::mpsc::channel();
    let listen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
            let (Ok(interrupt), Ok(terminate)) = signals else {
                return;
            };
            let _ = ready.send(());
            heard(Signals { interrupt, terminate }).await;
        });
    };
    if std::thread::Builder::new().name("signals".into()).spawn(listen).is_ok() {
        let _ = listening.recv();
    }
}
