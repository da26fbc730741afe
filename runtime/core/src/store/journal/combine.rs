//! Appends of several threads, made by one of them.
//!
//! Answers for threads that append to one journal at the same time: the first to get the lock writes the records of all
//! who wait, in one write, and tells each its number. A lock that goes from thread to thread costs a change of threads
//! for each record, which is far more than the record itself. Leaves out the append, and other processes.
//!
//! A thread whose record could not be written with the others writes it alone, so that it is told its own error.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

use serde_json::{Map, Value};

use super::commit::Ticket;
use super::{Appended, Journal, Numbers, Share, StoreError};
use crate::sandbox::Durability;
use crate::store::lock::Wait;

/// The most records that are written at once: enough for every thread, and a bounded write.
const MOST: usize = 256;

/// A journal, and what is promised of its records.
type Key = (PathBuf, Durability);

/// The queues of this process.
static QUEUES: LazyLock<Mutex<HashMap<Key, Arc<Queue>>>> = LazyLock::new(Mutex::default);

/// Those who wait to append to one journal.
#[derive(Debug, Default)]
struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    slots: VecDeque<Arc<Slot>>,
    /// Somebody waits for the lock on behalf of all.
    led: bool,
}

/// One record on its way.
#[derive(Debug)]
struct Slot {
    thread: Thread,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Waiting(Map<String, Value>),
    /// Somebody is writing it.
    Taken,
    Written(Written),
    /// It was not written; its thread is to do that.
    Alone(Map<String, Value>),
    Over,
}

/// What became of a record.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) appended: Appended,
    pub(super) ticket: Option<Ticket<'static>>,
}

/// How an append ended.
pub(super) enum Ended {
    Written(Written),
    /// Not here: append it alone.
    Alone(Map<String, Value>),
}

/// Appends a record, together with those of other threads that are waiting by then. `wait` has [begun](Wait::begun).
pub(super) fn append(journal: &Journal, record: Map<String, Value>, wait: Wait<'_>) -> Result<Ended, StoreError> {
    let queue = Arc::clone(lock(&QUEUES).entry(key(journal)).or_default());
    let slot = Arc::new(Slot {
        thread: std::thread::current(),
        state: Mutex::new(State::Waiting(record)),
    });
    lock(&queue.0).slots.push_back(Arc::clone(&slot));
    let _leave = Leave {
        queue: &queue,
        slot: &slot,
        journal,
    };
    loop {
        if let Some(ended) = slot.ended() {
            return Ok(ended);
        }
        let leads = {
            let mut waiting = lock(&queue.0);
            let is_waiting = waiting.slots.iter().any(|other| Arc::ptr_eq(other, &slot));
            let leads = is_waiting && !waiting.led;
            waiting.led |= leads;
            leads
        };
        if leads {
            let lead = Lead(&queue);
            let written = lead.write(journal, wait);
            // While nobody else leads: the next one would write what this thread calls not written.
            let left = slot.give_up();
            drop(lead);
            // Nothing was taken when what comes before the records failed; each finds out for itself.
            if let Some(record) = left {
                return written.map(|()| Ended::Alone(record));
            }
        } else if let Some(nap) = wait.nap() {
            std::thread::park_timeout(nap);
        } else if let Some(record) = slot.give_up() {
            // The time is up, or the wait was called off: the lock knows which, and who holds it.
            return Ok(Ended::Alone(record));
        } else {
            // Somebody is writing it, and will tell.
            std::thread::park();
        }
    }
}

impl Slot {
    fn ended(&self) -> Option<Ended> {
        let mut state = lock(&self.state);
        match mem::replace(&mut *state, State::Over) {
            State::Written(written) => Some(Ended::Written(written)),
            State::Alone(record) => Some(Ended::Alone(record)),
            other => {
                *state = other;
                None
            }
        }
    }

    /// The record, if nobody has taken it.
    fn give_up(&self) -> Option<Map<String, Value>> {
        let mut state = lock(&self.state);
        match mem::replace(&mut *state, State::Over) {
            State::Waiting(record) => Some(record),
            other => {
                *state = other;
                None
            }
        }
    }

    fn tell(&self, state: State) {
        *lock(&self.state) = state;
        self.thread.unpark();
    }
}

/// Who waits for the lock on behalf of all; the next one does when this is dropped.
struct Lead<'a>(&'a Queue);

impl Lead<'_> {
    /// Writes the records of all who wait once the lock is there. An error is this thread's own: the lock was not to be
    /// had.
    fn write(&self, journal: &Journal, wait: Wait<'_>) -> Result<(), StoreError> {
        let _lock = journal.lock(wait)?;
        let mut taken = Taken(Vec::new());
        let take = &mut taken;
        let done = journal.write_records(Share::Each, Numbers::Given, move |_| {
            let mut waiting = lock(&self.0.0);
            let count = waiting.slots.len().min(MOST);
            for slot in waiting.slots.drain(..count) {
                let mut state = lock(&slot.state);
                match mem::replace(&mut *state, State::Taken) {
                    State::Waiting(record) => {
                        drop(state);
                        take.0.push((slot, record));
                    }
                    // Its thread has given it up.
                    other => *state = other,
                }
            }
            Ok::<_, StoreError>(take.0.iter().map(|(_, record)| record).collect())
        });
        // Otherwise each of them is told to write alone.
        if let Ok(mut done) = done {
            let records = mem::take(&mut taken.0);
            let last = records.len() as u64;
            for ((slot, _), number) in records.into_iter().zip(1..) {
                let appended = Appended {
                    seq: done.seq - (last - number),
                    // It was mended for the first of them.
                    repaired: done.repaired.take(),
                };
                slot.tell(State::Written(Written {
                    appended,
                    ticket: done.tickets.pop(),
                }));
            }
        }
        Ok(())
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0.0);
        waiting.led = false;
        let next = waiting.slots.front().map(|slot| slot.thread.clone());
        drop(waiting);
        if let Some(next) = next {
            next.unpark();
        }
    }
}

/// Records that were taken and not written: given back, whatever happens.
struct Taken(Vec<(Arc<Slot>, Map<String, Value>)>);

impl Drop for Taken {
    fn drop(&mut self) {
        for (slot, record) in self.0.drain(..) {
            slot.tell(State::Alone(record));
        }
    }
}

/// Takes a thread's slot out of the queue, and the queue out of the process when it was the last.
struct Leave<'a> {
    queue: &'a Arc<Queue>,
    slot: &'a Arc<Slot>,
    journal: &'a Journal,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut queues = lock(&QUEUES);
        let mut waiting = lock(&self.queue.0);
        waiting.slots.retain(|other| !Arc::ptr_eq(other, self.slot));
        // Whoever was told to lead may be the one that leaves.
        let next = waiting
            .slots
            .front()
            .filter(|_| !waiting.led)
            .map(|slot| slot.thread.clone());
        drop(waiting);
        if let Some(next) = next {
            next.unpark();
        }
        // This one and the map's.
        if Arc::strong_count(self.queue) == 2 {
            queues.remove(&key(self.journal));
        }
    }
}

fn key(journal: &Journal) -> Key {
    (journal.place(), journal.settings.durability)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No change under these locks can stop half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
