//! A thread that keeps calls: those that end while it writes are its next write, all of them in one.
//!
//! Answers for keeping each call once and in the order of their ends, and for telling when it is kept. Leaves out what a
//! record says. A process that ends keeps all calls: by [`Writer::flush`], or when the last clone is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, mem};

use super::{AuditLog, EndedCall, record_of};
use crate::store::StoreError;

/// The most calls that wait: some MiB where their inputs are long.
const MOST: usize = 1_024;
/// The most calls that are written at once.
const MOST_AT_ONCE: usize = 64;

/// Keeps calls in the background. Cheap to clone. Its thread begins with the first call.
#[derive(Clone)]
pub struct Writer(Arc<Owner>);

/// A call that found no room: the log has stood still for long.
#[derive(Debug)]
pub struct Full(pub Box<Entry>);

/// What is done once a call is kept.
type Then = Box<dyn FnOnce() + Send>;

/// A call to be kept.
pub struct Entry {
    call: EndedCall,
    then: Option<Then>,
}

impl Entry {
    /// A call whose keeping nobody waits for.
    pub fn new(call: EndedCall) -> Self {
        Self { call, then: None }
    }

    /// A call for which `then` is called once it is kept, or could not be, by the writer's thread: be quick.
    pub fn and_then(call: EndedCall, then: impl FnOnce() + Send + 'static) -> Self {
        Self {
            call,
            then: Some(Box::new(then)),
        }
    }

    /// The call.
    pub fn call(&self) -> &EndedCall {
        &self.call
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entry").field(&self.call).finish()
    }
}

/// Ends the thread when the last clone is dropped.
struct Owner {
    desk: Arc<Desk>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What callers and the thread share.
struct Desk {
    log: AuditLog,
    state: Mutex<State>,
    /// The thread waits here.
    work: Condvar,
    /// Those wait here who want room, or to know that all is kept.
    done: Condvar,
}

#[derive(Default)]
struct State {
    calls: Vec<Entry>,
    /// How many calls were taken in, and how many of them were tried to be kept.
    taken: u64,
    tried: u64,
    /// Somebody writes: the thread, or a caller in its place.
    writes: bool,
    /// The thread has written: what is made once in a process is made.
    warm: bool,
    over: bool,
    thread: Thread,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Thread {
    #[default]
    NotBegun,
    Runs,
    /// The system gives none: each call is written by who brings it.
    None,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Writer").field(&self.0.desk.log).finish()
    }
}

impl Writer {
    /// A writer of a log. Touches no disk.
    pub fn new(log: AuditLog) -> Self {
        Self(Arc::new(Owner {
            desk: Arc::new(Desk {
                log,
                state: Mutex::default(),
                work: Condvar::new(),
                done: Condvar::new(),
            }),
            thread: Mutex::default(),
        }))
    }

    /// Takes a call in, to be kept at once; that it could not be kept is logged. Costs a lock, and the waking of the thread
    /// when it sleeps.
    ///
    /// # Errors
    /// There is no room; the call comes back.
    pub fn keep(&self, call: Entry) -> Result<(), Full> {
        let desk = &self.0.desk;
        let mut state = desk.state();
        if state.calls.len() >= MOST {
            return Err(Full(Box::new(call)));
        }
        if state.thread == Thread::NotBegun {
            state.thread = self.0.begin();
        }
        if state.thread == Thread::None {
            drop(state);
            desk.write_all(vec![call]);
            return Ok(());
        }
        state.calls.push(call);
        state.taken += 1;
        // Otherwise it is awake, or about to wake.
        let sleeps = state.calls.len() == 1;
        drop(state);
        if sleeps {
            desk.work.notify_one();
        }
        Ok(())
    }

    /// As [`keep`](Self::keep), but the call is written here and now when nobody else writes and none waits: some 25 system
    /// calls, which take less time than to wake the thread and to be woken. For a caller that is alone: several at once
    /// share their writes only there.
    ///
    /// # Errors
    /// There is no room; the call comes back.
    pub fn keep_alone(&self, call: Entry) -> Result<(), Full> {
        let desk = &self.0.desk;
        {
            let mut state = desk.state();
            if !state.warm || state.writes || !state.calls.is_empty() {
                drop(state);
                return self.keep(call);
            }
            state.writes = true;
            state.taken += 1;
        }
        // The record first, as other processes wait for the lock; a host's clock may panic.
        let ready = catch_unwind(AssertUnwindSafe(|| {
            let record = record_of(call.call.clone());
            desk.log.try_lock().map(|lock| (lock, record))
        }));
        let written = match ready.ok().flatten() {
            Some((lock, record)) => {
                desk.write(|log| log.append_under(lock, vec![record]), vec![call.then]);
                Ok(())
            }
            None => Err(call),
        };
        let mut state = desk.state();
        state.writes = false;
        match &written {
            Ok(()) => state.tried += 1,
            Err(_) => state.taken -= 1,
        }
        let others_wait = !state.calls.is_empty();
        drop(state);
        if others_wait {
            desk.work.notify_one();
        }
        desk.done.notify_all();
        written.or_else(|call| self.keep(call))
    }

    /// As [`keep`](Self::keep), and waits for room. Blocks.
    pub fn keep_in_time(&self, mut call: Entry) {
        while let Err(Full(back)) = self.keep(call) {
            call = *back;
            let desk = &self.0.desk;
            let state = desk.state();
            let full = |state: &mut State| state.calls.len() >= MOST;
            drop(
                desk.done
                    .wait_while(state, full)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        }
    }

    /// Waits until each call that was taken in before is kept, or could not be. Blocks.
    ///
    /// # Errors
    /// The time is up; so many calls are not written yet.
    pub fn flush(&self, at_most: Duration) -> Result<(), usize> {
        let desk = &self.0.desk;
        let state = desk.state();
        let wanted = state.taken;
        let (state, _) = desk
            .done
            .wait_timeout_while(state, at_most, |state| state.tried < wanted)
            .unwrap_or_else(PoisonError::into_inner);
        match wanted.saturating_sub(state.tried) {
            0 => Ok(()),
            left => Err(usize::try_from(left).unwrap_or(usize::MAX)),
        }
    }
}

impl Owner {
    /// Begins the thread.
    fn begin(&self) -> Thread {
        let desk = Arc::clone(&self.desk);
        let thread = thread::Builder::new().name("audit-log".to_owned());
        match thread.spawn(move || desk.run()) {
            Ok(thread) => {
                *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
                Thread::Runs
            }
            Err(error) => {
                tracing::warn!("the audit log gets no thread of its own: {error}");
                Thread::None
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.desk.state().over = true;
        self.desk.work.notify_one();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic there was printed.
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        // Calls and counts change together, and nothing between them can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(calls) = self.next() {
            let count = calls.len() as u64;
            self.write_all(calls);
            let mut state = self.state();
            state.tried += count;
            state.writes = false;
            state.warm = true;
            drop(state);
            self.done.notify_all();
        }
    }

    /// The calls to be written next; nothing when it is over.
    fn next(&self) -> Option<Vec<Entry>> {
        let mut state = self.state();
        while state.calls.is_empty() || state.writes {
            if state.over && state.calls.is_empty() {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.writes = true;
        let rest = if state.calls.len() > MOST_AT_ONCE {
            state.calls.split_off(MOST_AT_ONCE)
        } else {
            Vec::new()
        };
        Some(mem::replace(&mut state.calls, rest))
    }

    fn write_all(&self, entries: Vec<Entry>) {
        let (calls, waiting): (Vec<_>, Vec<_>) = entries.into_iter().map(|entry| (entry.call, entry.then)).unzip();
        self.write(|log| log.append(calls), waiting);
    }

    /// Writes as many calls as there are in `waiting`, and tells who waits for them.
    fn write(&self, append: impl FnOnce(&AuditLog) -> Result<u64, StoreError>, waiting: Vec<Option<Then>>) {
        let count = waiting.len();
        // Whoever waits would wait for ever if the thread ended with one call.
        let written = catch_unwind(AssertUnwindSafe(|| append(&self.log)));
        let error = match written {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it panicked".to_owned()),
        };
        if let Some(error) = error {
            let missing = missing(count);
            tracing::warn!("the audit log cannot be written, {missing}: {error}");
        }
        for then in waiting.into_iter().flatten() {
            let _ = catch_unwind(AssertUnwindSafe(then));
        }
    }
}

/// `1 call is missing in it`, `2 calls are missing in it`.
fn missing(count: usize) -> String {
    match count {
        1 => "1 call is missing in it".to_owned(),
        _ => format!("{count} calls are missing in it"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::super::FULL;
    use super::super::tests::{call, log, object};
    use super::*;
    use crate::audit::Excerpt;

    const LONG: Duration = Duration::from_mins(1);

    fn numbered(n: usize) -> Entry {
        Entry::new(EndedCall {
            input: Excerpt::of(&object(json!({ "n": n }))),
            built: None,
            ..call(json!({}), "ok")
        })
    }

    fn kept(dir: &tempfile::TempDir) -> Vec<u64> {
        let records = log(dir, FULL).read_from(1);
        records
            .map(|record| record.unwrap().fields["input"]["n"].as_u64().unwrap())
            .collect()
    }

    #[test]
    fn one_missing_call_is_one() {
        assert_eq!(
            [1, 2].map(missing),
            ["1 call is missing in it", "2 calls are missing in it"]
        );
    }

    #[test]
    fn what_was_taken_in_is_there_after_a_flush_and_after_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(log(&dir, FULL));
        writer.flush(Duration::ZERO).unwrap();
        for n in 0..200 {
            writer.keep(numbered(n)).unwrap();
            if n == 0 || n == 150 {
                writer.flush(LONG).unwrap();
                assert_eq!(kept(&dir).len(), n + 1);
            }
        }
        let other = writer.clone();
        drop(writer);
        other.keep(numbered(200)).unwrap();
        drop(other);
        assert_eq!(kept(&dir), (0..=200).collect::<Vec<_>>());
    }

    #[test]
    fn each_call_of_many_threads_is_kept_once_and_in_the_order_of_its_thread() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(log(&dir, FULL));
        thread::scope(|scope| {
            for by in 0..4 {
                let writer = writer.clone();
                scope.spawn(move || {
                    for n in 0..300 {
                        let call = numbered(by * 1_000 + n);
                        let full = match n % 3 {
                            0 => writer.keep_alone(call).err(),
                            _ => Some(Full(Box::new(call))),
                        };
                        if let Some(Full(call)) = full {
                            writer.keep_in_time(*call);
                        }
                    }
                    writer.flush(LONG).unwrap();
                });
            }
        });
        let kept = kept(&dir);
        assert_eq!(kept.len(), 4 * 300);
        for by in 0..4 {
            let own: Vec<u64> = kept.iter().copied().filter(|n| n / 1_000 == by).collect();
            assert_eq!(own, (by * 1_000..by * 1_000 + 300).collect::<Vec<_>>());
        }
    }

    #[test]
    fn who_is_alone_writes_by_itself_and_waits_for_nobody_who_holds_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let (writer, other) = (Writer::new(log(&dir, FULL)), log(&dir, FULL));
        writer.keep_alone(numbered(0)).unwrap();
        writer.flush(LONG).unwrap();
        for n in 1..5 {
            writer.keep_alone(numbered(n)).unwrap();
            assert_eq!(kept(&dir).len(), n + 1, "there when it returns");
        }
        let held = other.try_lock().unwrap();
        writer.keep_alone(numbered(5)).unwrap();
        writer.keep_alone(numbered(6)).unwrap();
        assert_eq!(writer.flush(Duration::from_millis(1)), Err(2));
        drop(held);
        drop(writer);
        assert_eq!(kept(&dir), (0..=6).collect::<Vec<_>>());
    }

    #[test]
    fn a_log_that_stands_still_takes_so_many_in_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let log_of_other = log(&dir, FULL);
        let writer = Writer::new(log(&dir, FULL));
        let held = log_of_other.try_lock().unwrap();
        // The thread has taken some out when it waits for the log.
        writer.keep(numbered(0)).unwrap();
        let begun = || writer.0.desk.state().calls.is_empty();
        while !begun() {
            thread::yield_now();
        }
        for n in 1..=MOST {
            writer.keep(numbered(n)).unwrap();
        }
        let Full(back) = writer.keep(numbered(MOST + 1)).unwrap_err();
        assert_eq!(writer.flush(Duration::from_millis(1)), Err(MOST + 1));
        thread::scope(|scope| {
            let waits = scope.spawn(|| writer.keep_in_time(*back));
            drop(held);
            waits.join().unwrap();
        });
        writer.flush(LONG).unwrap();
        assert_eq!(kept(&dir).len(), MOST + 2);
    }

    #[test]
    fn who_waits_is_told_when_the_call_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::new(log(&dir, FULL));
        let (told, hears) = std::sync::mpsc::channel();
        for n in 0..100 {
            let told = told.clone();
            let Entry { call, .. } = numbered(n);
            writer
                .keep(Entry::and_then(call, move || told.send(n).unwrap()))
                .unwrap();
            if n % 10 == 0 {
                while hears.recv().unwrap() < n {}
                assert_eq!(kept(&dir).len(), n + 1);
            }
        }
    }

    #[test]
    fn a_log_that_cannot_be_written_holds_nobody_up() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(dir.path().join("agent-state")).unwrap();
        let link = dir.path().join("agent-state/.calls");
        std::os::unix::fs::symlink(outside.path(), &link).unwrap();
        let writer = Writer::new(log(&dir, FULL));
        let (told, hears) = std::sync::mpsc::channel();
        let Entry { call, .. } = numbered(0);
        let tell = Entry::and_then(call, move || told.send(()).unwrap());
        writer.keep(tell).unwrap();
        hears.recv().unwrap();
        writer.flush(LONG).unwrap();
        fs::remove_file(link).unwrap();
        writer.keep(numbered(1)).unwrap();
        drop(writer);
        assert_eq!(kept(&dir), [1]);
    }
}
