//! Locks by name, within this process and between processes.
//!
//! Answers for mutual exclusion: one holder per name and project, a bounded wait that can be called off, and a refusal
//! that names the holder.
//! The file `agent-state/.locks/<name>.lock` is locked by the operating system, which lets go when a process dies; its
//! content only tells others who holds it, and is blanked before the lock is let go. It is never removed here; who waited for one that
//! somebody removed takes the new one. Who holds it meanwhile is not protected from those who lock the new one.
//! Leaves out which locks a handler needs; several are taken in the order todo, runtime, bugs, docs, timeline.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use devloop_contract::CommonFailure;
use serde::{Deserialize, Serialize};

use super::Store;
use super::clock;
use super::error::StoreError;
use crate::process;
use crate::sandbox::{FsError, RelPath, refuse_beyond_limit};

/// How long a call waits for a lock.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(5);

/// Between two looks at another process's lock: short at first, as most are held for milliseconds.
const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
const LONGEST_SLEEP: Duration = Duration::from_millis(25);

/// How long to wait for a lock, and when to stop waiting for another reason. A [`Duration`] alone is one.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    at_most: Duration,
    /// Since when; the time of the call, if absent.
    since: Option<Instant>,
    cancelled: Option<&'a dyn Fn() -> bool>,
}

impl<'a> Wait<'a> {
    /// A wait that ends after `at_most`.
    pub fn at_most(at_most: Duration) -> Self {
        Self {
            at_most,
            since: None,
            cancelled: None,
        }
    }

    /// Also ends the wait soon after `cancelled` says so, and takes no lock then, be it free or not. It is asked every
    /// few milliseconds and must not block.
    #[must_use]
    pub fn unless(self, cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            cancelled: Some(cancelled),
            ..self
        }
    }

    /// The same wait, which begins now: what is waited for later is waited for within it.
    #[must_use]
    pub(super) fn begun(self) -> Self {
        Self {
            since: self.since.or_else(|| Some(Instant::now())),
            ..self
        }
    }

    /// How long to sleep before the next look; nothing when the wait is over. It has [`begun`](Self::begun).
    pub(super) fn nap(&self) -> Option<Duration> {
        let gone = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let left = self.at_most.checked_sub(gone).filter(|left| !left.is_zero())?;
        if self.is_cancelled() {
            return None;
        }
        Some(self.cancelled.map_or(left, |_| left.min(LONGEST_SLEEP)))
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.is_some_and(|cancelled| cancelled())
    }
}

impl From<Duration> for Wait<'_> {
    fn from(at_most: Duration) -> Self {
        Self::at_most(at_most)
    }
}

impl fmt::Debug for Wait<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait")
            .field("at_most", &self.at_most)
            .field("cancellable", &self.cancelled.is_some())
            .finish()
    }
}

/// The length of a note, padded with blanks; an agent's name and a time fit in easily.
const NOTE_LENGTH: usize = 256;

const BLANK: [u8; NOTE_LENGTH] = {
    let mut blank = [b' '; NOTE_LENGTH];
    blank[NOTE_LENGTH - 1] = b'\n';
    blank
};

/// A held lock; dropping it lets go.
#[derive(Debug)]
pub struct Lock {
    // Fields drop in order: the next of this process need not wait until the file is closed, as it is unlocked by then.
    _turn: Turn,
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A note that stayed would name this process while the next holder has not written its own yet, or cannot.
        let _ = refuse_beyond_limit(NOTE_LENGTH as u64).and_then(|()| self.file.write_all_at(&BLANK, 0));
        // Closing lets go anyway.
        let _ = self.file.unlock();
    }
}

/// What the lock file says about its holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    /// When the process began, as its number may be another's by now; absent where the system does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began: Option<u64>,
    agent: String,
    since: String,
}

impl Holder {
    /// Whether the process that wrote the note is still there.
    fn is_alive(&self) -> bool {
        process::is_alive(self.pid) && (self.began.is_none() || self.began == process::began(self.pid))
    }

    fn sentence(&self) -> String {
        format!("{} (process {}) since {}", self.agent, self.pid, self.since)
    }
}

pub(super) fn acquire(store: &Store, name: &str, wait: Wait<'_>) -> Result<Lock, StoreError> {
    let path = RelPath::parse(&format!("agent-state/.locks/{name}.lock")).map_err(|problem| {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, problem.to_string());
        FsError::Io {
            op: "lock",
            path: name.to_owned(),
            source,
        }
    })?;
    let started = wait.since.unwrap_or_else(Instant::now);
    let deadline = started + wait.at_most;
    let busy = |holder: Option<Holder>| {
        StoreError::Common(CommonFailure::Busy {
            waited_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            holder: holder.map(|holder| holder.sentence()),
        })
    };
    let me = Holder {
        pid: std::process::id(),
        began: *BEGAN,
        agent: store.agent().to_owned(),
        since: clock::iso(store.clock().now()),
    };
    // Opened while others hold it: that much less is done in turn.
    let open = || store.named(store.project().open_update(&path));
    let mut file = open()?;
    // By place, not by handle: two stores on one directory share their turns.
    let key = store.project().path().join(name);
    let Some(turn) = Turn::take(key, deadline, &wait) else {
        if wait.is_cancelled() {
            return Err(StoreError::Cancelled);
        }
        return Err(busy(read_holder(store, &path)));
    };
    let mut sleep = SHORTEST_SLEEP;
    loop {
        match file.try_lock() {
            Ok(()) if store.named(store.project().is_at(&path, &file))? => break,
            // Somebody has removed the file, which nobody should: what is locked is a file that nobody else will find.
            Ok(()) => {
                file = open()?;
                continue;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(source)) => {
                return Err(StoreError::Fs(FsError::Io {
                    op: "lock",
                    path: path.to_string(),
                    source,
                }));
            }
        }
        if wait.is_cancelled() {
            return Err(StoreError::Cancelled);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(busy(read_holder(store, &path)));
        }
        std::thread::sleep(sleep.min(left));
        sleep = (sleep * 2).min(LONGEST_SLEEP);
    }
    let lock = Lock { _turn: turn, file };
    // Who called it off while it was being taken must not get it either.
    if wait.is_cancelled() {
        return Err(StoreError::Cancelled);
    }
    note(&lock.file, &me);
    Ok(lock)
}

/// Says who holds the lock, in one write of always the same length: cutting a file to its new length costs several times
/// as much as all the rest of a lock. The lock holds without the note, so a failure is not one of the caller's.
fn note(file: &File, me: &Holder) {
    let Ok(mut text) = serde_json::to_string(me) else {
        return;
    };
    let blanks = NOTE_LENGTH.saturating_sub(text.len() + 1);
    text.extend(std::iter::repeat_n(' ', blanks));
    text.push('\n');
    if let Err(error) = refuse_beyond_limit(NOTE_LENGTH as u64).and_then(|()| file.write_all_at(text.as_bytes(), 0)) {
        tracing::warn!(%error, "the holder of a lock could not be noted");
    }
}

/// Who holds the lock, as far as that is certain: a process that was killed has not blanked its note.
fn read_holder(store: &Store, path: &RelPath) -> Option<Holder> {
    let mut text = String::new();
    // Opened anew, as the position of a shared handle would move.
    let file = store.project().open_update(path).ok()?;
    file.take(4_096).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok().filter(Holder::is_alive)
}

/// The turn of one waiter within this process: first come, first served.
#[derive(Debug)]
struct Turn {
    key: PathBuf,
    ticket: u64,
    queues: Arc<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    waiting: Mutex<HashMap<PathBuf, VecDeque<Waiter>>>,
}

/// Who holds or waits for a lock. Only the thread whose turn comes is woken: with many waiters, waking all of them costs
/// more than what they wait to do.
#[derive(Debug)]
struct Waiter {
    ticket: u64,
    thread: Thread,
}

/// Does not change; read once, as it costs more than the lock.
static BEGAN: LazyLock<Option<u64>> = LazyLock::new(|| process::began(std::process::id()));

static QUEUES: LazyLock<Arc<Queues>> = LazyLock::new(Arc::default);

impl Turn {
    /// `None` when the time is up or the wait is called off.
    fn take(key: PathBuf, deadline: Instant, wait: &Wait<'_>) -> Option<Self> {
        let queues = Arc::clone(&QUEUES);
        let mut waiting = queues.enter();
        let queue = waiting.entry(key.clone()).or_default();
        let ticket = queue.back().map_or(0, |last| last.ticket + 1);
        queue.push_back(Waiter {
            ticket,
            thread: std::thread::current(),
        });
        // From here on dropping the turn leaves the queue, whether it came or not.
        let turn = Self {
            key,
            ticket,
            queues: Arc::clone(&queues),
        };
        loop {
            if waiting
                .get(&turn.key)
                .and_then(VecDeque::front)
                .map(|first| first.ticket)
                == Some(ticket)
            {
                return Some(turn);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // Asked without the queues, as it is code of others.
            drop(waiting);
            if left.is_zero() || wait.is_cancelled() {
                return None;
            }
            // A turn that comes before this is not missed: the thread does not sleep then.
            std::thread::park_timeout(wait.cancelled.map_or(left, |_| left.min(LONGEST_SLEEP)));
            waiting = queues.enter();
        }
    }
}

impl Queues {
    fn enter(&self) -> MutexGuard<'_, HashMap<PathBuf, VecDeque<Waiter>>> {
        // Nothing can panic half-way through a change of the queues.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut waiting = self.queues.enter();
        let mut next = None;
        if let Some(queue) = waiting.get_mut(&self.key) {
            queue.retain(|waiter| waiter.ticket != self.ticket);
            next = queue.front().map(|first| first.thread.clone());
            if queue.is_empty() {
                waiting.remove(&self.key);
            }
        }
        drop(waiting);
        if let Some(next) = next {
            next.unpark();
        }
    }
}

/// How many of this process hold or wait for a lock, by the directory joined with its name.
#[cfg(test)]
pub(super) fn waiting(key: &std::path::Path) -> usize {
    QUEUES.enter().get(key).map_or(0, VecDeque::len)
}
