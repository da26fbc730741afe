//! A thread of a session's own, which may block.
//!
//! Answers for the thread and its runtime. Leaves out which calls run there.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A thread with a runtime of its own. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl Desk {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new().name("devloop-desk".to_owned()).spawn(move || {
            // An error says that the other end is gone, which is the signal.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _stop: stop })
    }
}
