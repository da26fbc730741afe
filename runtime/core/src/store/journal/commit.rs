//! Group commit: one fdatasync for all who wait for one.
//!
//! Answers for acknowledging a write only when an fdatasync that began after it has ended well, and for sharing that
//! fdatasync among the threads of this process. Leaves out what was written.
//!
//! **A failed fdatasync fails all that waited for it, and is never tried again.** The kernel reports a lost write once
//! and then takes the pages for clean: a second attempt would succeed without having kept anything. So a group whose
//! fdatasync failed is closed, and those that come later begin a new one with a handle of their own. Each group syncs
//! through the handle of its first member, which was opened before any of its writes: a handle reports only what went
//! wrong since it was opened.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

/// A file by what it is, not by its name, which a rotation changes.
pub(super) type Id = (u64, u64);

pub(super) fn id_of(file: &File) -> io::Result<Id> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

type Sync = fn(&File) -> io::Result<()>;

/// The groups of a process, by file.
#[derive(Debug, Default)]
struct Groups(Mutex<HashMap<Id, Arc<Group>>>);

static GROUPS: LazyLock<Groups> = LazyLock::new(Groups::default);

/// Those who wait for the same file.
#[derive(Debug)]
struct Group {
    id: Id,
    file: File,
    sync: Sync,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many have entered: the number of the newest ticket.
    entered: u64,
    /// All up to here are durable.
    durable: u64,
    /// Why those after `durable` never will be.
    failed: Option<(io::ErrorKind, String)>,
    /// Somebody is in the fdatasync.
    led: bool,
    /// Tickets that are held.
    held: usize,
}

/// The place of one write in its group. A write whose ticket is dropped may be durable or not.
#[derive(Debug)]
#[must_use]
pub(super) struct Ticket<'a> {
    groups: &'a Groups,
    group: Arc<Group>,
    number: u64,
}

/// Enters writes that have just been made through `file`, one ticket for each who waits. Holds the lock of the journal: so writes enter in their order,
/// and the handle of the first is older than the writes of the others.
pub(super) fn enter(id: Id, file: File, count: usize) -> Vec<Ticket<'static>> {
    GROUPS.enter(id, file, File::sync_data, count)
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Arc<Group>>> {
        // Nothing under it can panic half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, id: Id, file: File, sync: Sync, count: usize) -> Vec<Ticket<'_>> {
        let mut groups = self.lock();
        let begin = || {
            Arc::new(Group {
                id,
                file,
                sync,
                state: Mutex::default(),
                ended: Condvar::new(),
            })
        };
        let group = Arc::clone(groups.entry(id).or_insert_with(begin));
        let mut state = group.lock();
        state.entered += 1;
        state.held += count;
        let number = state.entered;
        drop(state);
        let ticket = || Ticket {
            groups: self,
            group: Arc::clone(&group),
            number,
        };
        (0..count).map(|_| ticket()).collect()
    }

    /// Takes a group out, if it is still there.
    fn close(&self, group: &Arc<Group>) {
        let mut groups = self.lock();
        if groups.get(&group.id).is_some_and(|there| Arc::ptr_eq(there, group)) {
            groups.remove(&group.id);
        }
    }
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, State> {
        // As above.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket<'_> {
    /// Waits until the write is durable: for the fdatasync of another, or in one of its own for all that have entered.
    /// Hold no lock that others need to enter.
    pub(super) fn wait(self) -> io::Result<()> {
        let mut state = self.group.lock();
        loop {
            if self.number <= state.durable {
                return Ok(());
            }
            if let Some((kind, text)) = &state.failed {
                return Err(io::Error::new(*kind, text.clone()));
            }
            if state.led {
                state = self.group.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.led = true;
            let all = state.entered;
            drop(state);
            let synced = (self.group.sync)(&self.group.file);
            if synced.is_err() {
                // Before the failure can be seen, so that nobody enters after it.
                self.groups.close(&self.group);
            }
            state = self.group.lock();
            state.led = false;
            match synced {
                Ok(()) => state.durable = all,
                Err(error) => state.failed = Some((error.kind(), error.to_string())),
            }
            self.group.ended.notify_all();
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        // In the order of `Groups::enter`, so that nobody enters a group that is being left by its last member.
        let mut groups = self.groups.lock();
        let mut state = self.group.lock();
        state.held -= 1;
        let is_last = state.held == 0;
        drop(state);
        if is_last
            && groups
                .get(&self.group.id)
                .is_some_and(|there| Arc::ptr_eq(there, &self.group))
        {
            groups.remove(&self.group.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    static SYNCS: AtomicUsize = AtomicUsize::new(0);
    static GATE: Mutex<()> = Mutex::new(());

    #[expect(clippy::unnecessary_wraps, reason = "the form of an fdatasync")]
    fn counted(_: &File) -> io::Result<()> {
        SYNCS.fetch_add(1, Ordering::SeqCst);
        drop(GATE.lock());
        Ok(())
    }

    #[test]
    fn those_who_come_during_an_fdatasync_share_the_next() {
        let groups = Groups::default();
        let file = tempfile::tempfile().unwrap();
        let id = id_of(&file).unwrap();
        let enter = || groups.enter(id, file.try_clone().unwrap(), counted, 1).remove(0);
        let gate = GATE.lock().unwrap();
        std::thread::scope(|scope| {
            let first = enter();
            let leader = scope.spawn(|| first.wait().unwrap());
            while SYNCS.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            // These were written after the first fdatasync began, so it does not count for them.
            let others: Vec<_> = (0..8)
                .map(|_| {
                    let ticket = enter();
                    scope.spawn(|| ticket.wait().unwrap())
                })
                .collect();
            drop(gate);
            leader.join().unwrap();
            for other in others {
                other.join().unwrap();
            }
        });
        assert_eq!(SYNCS.load(Ordering::SeqCst), 2);
        assert!(groups.lock().is_empty(), "nothing stays open");
    }

    static FAILING: Mutex<()> = Mutex::new(());
    static FAILED: AtomicUsize = AtomicUsize::new(0);

    /// The first fails; a second attempt would succeed, as with a kernel that has told of the loss once.
    fn fails_once(_: &File) -> io::Result<()> {
        let turn = FAILED.fetch_add(1, Ordering::SeqCst);
        drop(FAILING.lock());
        if turn == 0 {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    }

    #[test]
    fn a_failed_fdatasync_fails_all_that_had_entered_and_none_that_come_later() {
        let groups = Groups::default();
        let file = tempfile::tempfile().unwrap();
        let id = id_of(&file).unwrap();
        let enter = || groups.enter(id, file.try_clone().unwrap(), fails_once, 1).remove(0);
        let gate = FAILING.lock().unwrap();
        std::thread::scope(|scope| {
            let first = enter();
            let leader = scope.spawn(|| first.wait());
            while FAILED.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            // Whether the kernel had dropped their pages too, nobody can tell.
            let tickets: Vec<_> = (0..4).map(|_| enter()).collect();
            drop(gate);
            assert!(leader.join().unwrap().is_err());
            for ticket in tickets {
                let error = ticket.wait().unwrap_err();
                assert!(error.to_string().contains("os error 5"), "{error}");
            }
        });
        assert_eq!(FAILED.load(Ordering::SeqCst), 1, "it was not tried again");
        enter().wait().unwrap();
        assert!(groups.lock().is_empty());
    }
}
