//! SIGINT and SIGTERM, for commands that have something to end before they go.
//!
//! Answers for hearing them on a thread of its own, so that whatever the command does meanwhile does not matter. Leaves
//! out what is ended.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Exit;

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
