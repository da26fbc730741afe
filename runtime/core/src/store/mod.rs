//! Durable files of a project: locks, state files, journals, and the calls that are known again.
//!
//! Answers for what must survive a crash and two processes at once. Its own files (locks, history, journals, what was
//! set aside) are kept by the machinery without asking the agent's patterns; state files are written through the
//! sandbox like everything else. Leaves out what the files mean.
//!
//! All calls block.

mod backwards;
pub mod clock;
mod error;
pub mod journal;
pub mod lock;
pub mod place;
pub mod replay;
pub mod state;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
#[cfg(doc)]
use std::time::Duration;

pub use clock::{Clock, FixedClock, SystemClock};
pub use error::StoreError;
pub use journal::{Appended, Journal};
pub use lock::{DEFAULT_WAIT, Lock, Wait};
pub use replay::Replay;
pub use state::{Kept, StateFile};

use crate::sandbox::{FsError, ProjectDir, RelPath, Sandbox};

/// The durable files of a project, as one call uses them.
#[derive(Clone, Debug)]
pub struct Store {
    sandbox: Sandbox,
    clock: Arc<dyn Clock>,
}

impl Store {
    /// A store behind a sandbox.
    pub fn new(sandbox: Sandbox, clock: Arc<dyn Clock>) -> Self {
        Self { sandbox, clock }
    }

    /// The sandbox that it writes through.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The clock that dates what it keeps.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Takes the lock `name`, waiting no longer than `wait`: a [`Duration`], or one with a reason to stop earlier. A
    /// thread must not take a name that it holds: it would wait for itself. 14 system calls when free, letting go included.
    ///
    /// # Errors
    /// `busy` with the holder, [`StoreError::Cancelled`], a refused path (a link where the lock file should be), or an
    /// error of the system.
    pub fn lock<'a>(&self, name: &str, wait: impl Into<Wait<'a>>) -> Result<Lock, StoreError> {
        lock::acquire(self, name, wait.into())
    }

    /// Reads a state file, whichever format it has; `None` when there is none. One that is no `T`, or larger than
    /// [`LARGEST_STATE`](state::LARGEST_STATE), is renamed to `<name>.corrupt-<stamp>`. Hold its lock. 3 system calls and
    /// the reading.
    ///
    /// # Errors
    /// `state_corrupt` with the new name, [`StoreError::Newer`], a refused path, or an error of the system.
    pub fn read_state<T: StateFile>(&self, path: &RelPath) -> Result<Option<T>, StoreError> {
        Ok(state::read(self, path)?.map(|kept| kept.value))
    }

    /// As [`read_state`](Self::read_state), with the bytes: for who keeps them or may have to
    /// [put them back](Self::restore_state).
    ///
    /// # Errors
    /// As [`read_state`](Self::read_state).
    pub fn read_state_kept<T: StateFile>(&self, path: &RelPath) -> Result<Option<Kept<T>>, StoreError> {
        state::read(self, path)
    }

    /// Reads a state file without its lock: it is always whole, and may be another a moment later. Sets nothing aside.
    /// Costs what [`read_state`](Self::read_state) costs.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`], [`StoreError::Newer`], a refused path, or an error of the system.
    pub fn peek_state<T: StateFile>(&self, path: &RelPath) -> Result<Option<T>, StoreError> {
        state::peek(self, path)
    }

    /// Writes a state file: pretty JSON with two spaces and a final line end, whole or not at all. Hold its lock. Costs
    /// what [`Sandbox::replace`] costs.
    ///
    /// # Errors
    /// A refused path, an error of the system, or a value that is no JSON object.
    pub fn write_state<T: StateFile>(&self, path: &RelPath, value: &T) -> Result<(), StoreError> {
        state::write(self, path, value)
    }

    /// Puts a state file back as it was [before](Kept::bytes), or removes it when there was none. Hold its lock since then.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn restore_state(&self, path: &RelPath, before: Option<&[u8]>) -> Result<(), StoreError> {
        state::restore(self, path, before)
    }

    /// Keeps `bytes` as `agent-state/history/<name>`, as durably as state is written; names end in a
    /// [stamp](clock::stamp). Gives the path.
    ///
    /// # Errors
    /// A name that is no path, or an error of the system.
    pub fn keep_in_history(&self, name: &str, bytes: &[u8]) -> Result<RelPath, StoreError> {
        state::keep_in_history(self, name, bytes)
    }

    /// Removes the files of the history whose names begin with `prefix`, except the `keep` newest. Says how many.
    ///
    /// # Errors
    /// A link in the way, or an error of the system.
    pub fn prune_history(&self, prefix: &str, keep: usize) -> Result<usize, StoreError> {
        state::prune_history(self, prefix, keep)
    }

    fn agent(&self) -> &str {
        self.sandbox.agent()
    }

    pub(crate) fn project(&self) -> &ProjectDir {
        self.sandbox.project()
    }

    fn named<T>(&self, done: Result<T, FsError>) -> Result<T, FsError> {
        done.map_err(|error| error.by(self.agent()))
    }
}
