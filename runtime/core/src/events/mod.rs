//! Events: what happened, told to whoever listens now and kept for whoever asks later.
//!
//! Answers for the record, for handing it to the listeners of this process ([`Broker`]) and for the project's journal
//! ([`EventJournal`]). Leaves out which events there are and their payloads (generated), and every transport.
//!
//! An event is told after the file it speaks of is durable. That it could not be told never fails a call: errors come
//! back to be logged.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sandbox::{Durability, RelPath};
use crate::store::journal::{Follower, Keep, Rotation, Settings};
use crate::store::{Journal, Store, StoreError, clock};

/// How long an event waits for the journal: less than a call waits for a state file, as nothing depends on it.
const WAIT: Duration = Duration::from_secs(2);

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its number in the project, from 1 on without a gap.
    pub seq: u64,
    /// When, UTC with milliseconds.
    pub ts: String,
    /// What: `agent.todolist`.
    pub name: String,
    /// Its data, by the schema of the event.
    pub payload: Value,
}

/// Hands events to the listeners of this process: those of one project, or others. Cloning gives the same broker.
#[derive(Debug)]
pub struct Broker<T = EventRecord> {
    listeners: Arc<Listeners<T>>,
}

#[derive(Debug)]
struct Listeners<T>(Mutex<Vec<Weak<Queue<T>>>>);

impl<T> Drop for Listeners<T> {
    /// Nothing more will come, and whoever waits is to know.
    fn drop(&mut self) {
        let listeners = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for queue in listeners.iter().filter_map(Weak::upgrade) {
            let wakers = {
                let mut held = enter(&queue.held);
                held.ended = true;
                std::mem::take(&mut held.wakers)
            };
            queue.arrived.notify_all();
            Wakers(wakers).wake();
        }
    }
}

/// Who waits for an event that was handed out. A waker is somebody else's code, which may come back to where the event
/// came from: it runs when every lock is released.
#[derive(Debug)]
#[must_use = "whoever waits is woken by `wake` alone"]
pub(crate) struct Wakers(Vec<Waker>);

impl Wakers {
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn append(&mut self, mut more: Self) {
        self.0.append(&mut more.0);
    }

    /// Wakes all. No lock may be held.
    pub(crate) fn wake(self) {
        self.0.into_iter().for_each(Waker::wake);
    }
}

impl<T> Clone for Broker<T> {
    fn clone(&self) -> Self {
        let listeners = Arc::clone(&self.listeners);
        Self { listeners }
    }
}

impl<T> Default for Broker<T> {
    fn default() -> Self {
        let listeners = Arc::new(Listeners(Mutex::default()));
        Self { listeners }
    }
}

impl<T> Broker<T> {
    /// A broker without listeners.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens from now on, keeping at most `capacity` events (at least one) that were not taken yet; then the oldest
    /// go first. Ends when it is dropped.
    pub fn subscribe(&self, capacity: usize) -> Subscription<T> {
        let queue = Arc::new(Queue {
            capacity: capacity.max(1),
            held: Mutex::new(Held {
                events: VecDeque::new(),
                dropped: 0,
                ended: false,
                wakers: Vec::new(),
            }),
            arrived: Condvar::new(),
        });
        enter(&self.listeners.0).push(Arc::downgrade(&queue));
        Subscription { queue }
    }

    /// Hands an event to every listener; never waits for one. Tasks that wait are woken by this thread, without a lock.
    pub fn publish(&self, event: T) {
        self.hand_out(event).wake();
    }

    /// As [`publish`](Self::publish), for who holds a lock: those that wait are woken when it is released.
    pub(crate) fn hand_out(&self, event: T) -> Wakers {
        let event = Arc::new(event);
        let mut wakers = Vec::new();
        // The list stays locked, so that all listeners see one order.
        enter(&self.listeners.0).retain(|listener| {
            let Some(queue) = listener.upgrade() else { return false };
            let mut held = enter(&queue.held);
            if held.events.len() == queue.capacity {
                held.events.pop_front();
                held.dropped += 1;
            }
            held.events.push_back(Arc::clone(&event));
            queue.arrived.notify_one();
            wakers.append(&mut held.wakers);
            true
        });
        Wakers(wakers)
    }
}

#[derive(Debug)]
struct Queue<T> {
    capacity: usize,
    held: Mutex<Held<T>>,
    arrived: Condvar,
}

#[derive(Debug)]
struct Held<T> {
    events: VecDeque<Arc<T>>,
    dropped: u64,
    /// Whether the broker is gone.
    ended: bool,
    /// Tasks that wait for the next.
    wakers: Vec<Waker>,
}

/// One listener's end of a [`Broker`].
#[derive(Debug)]
pub struct Subscription<T = EventRecord> {
    queue: Arc<Queue<T>>,
}

impl<T> Drop for Subscription<T> {
    /// The broker may hold the queue for a moment more, and must not be the one that drops a waker.
    fn drop(&mut self) {
        let wakers = std::mem::take(&mut enter(&self.queue.held).wakers);
        drop(wakers);
    }
}

impl<T> Subscription<T> {
    /// The next event, if one is there.
    pub fn try_recv(&self) -> Option<Arc<T>> {
        enter(&self.queue.held).events.pop_front()
    }

    /// The next event, as soon as one is there; `None` when all were taken and no more can come, as every clone of the
    /// broker, or the catalogue that tells its changes, is gone. For tasks: no thread is blocked. Cancel safe: an event is
    /// taken only by the poll that gives it.
    pub async fn recv(&self) -> Option<Arc<T>> {
        poll_fn(|context| {
            let mut held = enter(&self.queue.held);
            if let Some(event) = held.events.pop_front() {
                return Poll::Ready(Some(event));
            }
            if held.ended {
                return Poll::Ready(None);
            }
            if !held.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
                held.wakers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// The next event, waiting at most `timeout` for it, and not at all when no more can come. Blocks the thread.
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Arc<T>> {
        // A time that no clock reaches is for ever.
        let deadline = Instant::now().checked_add(timeout);
        let mut held = enter(&self.queue.held);
        loop {
            if let Some(event) = held.events.pop_front() {
                return Some(event);
            }
            let left = deadline.map_or(timeout, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() || held.ended {
                return None;
            }
            held = self
                .queue
                .arrived
                .wait_timeout(held, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// How many events were dropped because this listener was slow.
    pub fn dropped(&self) -> u64 {
        enter(&self.queue.held).dropped
    }
}

fn enter<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No change under these locks can stop half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a file of the journal is full, and how much of it is kept: about 70 MiB.
const FULL: Rotation = Rotation {
    bytes: 8 * 1024 * 1024,
    lines: 500_000,
    keep: Keep::Newest(8),
};

/// Keeps the newest events of a project in `agent-state/.events/` and tells them to a broker.
#[derive(Clone, Debug)]
pub struct EventJournal {
    journal: Journal,
    store: Store,
    broker: Broker,
    in_order: Arc<Mutex<()>>,
}

impl EventJournal {
    /// The journal of the store's project; what is emitted is also told to `broker`.
    pub fn new(store: Store, broker: Broker) -> Self {
        Self::with_rotation(store, broker, FULL)
    }

    /// As [`new`](Self::new), with other limits; for tests.
    pub fn with_rotation(store: Store, broker: Broker, rotation: Rotation) -> Self {
        let path = RelPath::parse("agent-state/.events/events.ndjson").expect("a constant path that keeps every rule");
        let settings = Settings {
            rotation: Some(rotation),
            // An event tells of a file that is durable already, and can be found again by looking at it.
            ..Durability::Cached.into()
        };
        let journal = Journal::new(store.clone(), path, "events", settings);
        Self {
            journal,
            store,
            broker,
            in_order: Arc::default(),
        }
    }

    /// Keeps an event and tells it. When it cannot be kept it is told nevertheless, with the number 0.
    ///
    /// # Errors
    /// Why it could not be kept: to be logged, never to fail a call.
    pub fn emit(&self, name: &str, payload: Value) -> Result<u64, StoreError> {
        let mut event = EventRecord {
            seq: 0,
            ts: clock::iso(self.store.clock().now()),
            name: name.to_owned(),
            payload,
        };
        // Listeners get the events of this process in the order of their numbers: whoever stopped at one goes on there.
        let in_order = enter(&self.in_order);
        let kept = self.journal.append_with(WAIT, |next| {
            event.seq = next.seq;
            // Nor does their time go back, whatever the clock does.
            event.ts = clock::iso(next.time(self.store.clock().now()));
            Ok::<_, StoreError>(event.clone())
        });
        if kept.is_err() {
            event.seq = 0;
        }
        let wakers = self.broker.hand_out(event);
        drop(in_order);
        wakers.wake();
        kept.map(|appended| appended.seq)
    }

    /// The kept events from number `from` on, oldest first: those of all processes, and, when it is asked again, those
    /// that have come since. One that stopped at some number goes on from the next.
    pub fn read_from(&self, from: u64) -> EventReader {
        EventReader {
            follower: self.journal.follow_from(from),
            unknown: 0,
        }
    }
}

/// Reads the kept events of a project, and goes on as they come. Its calls block.
#[derive(Debug)]
pub struct EventReader {
    follower: Follower,
    /// Records that are no events.
    unknown: u64,
}

impl EventReader {
    /// What is there by now, at most `most` events; empty at the end. Does not wait.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn next_batch(&mut self, most: usize) -> Result<Vec<EventRecord>, StoreError> {
        self.wait_batch(most, Duration::ZERO, &|| false)
    }

    /// As [`next_batch`](Self::next_batch), waiting at most `timeout` for the first one, and no longer than `cancelled`
    /// allows.
    ///
    /// # Errors
    /// As [`next_batch`](Self::next_batch).
    pub fn wait_batch(
        &mut self,
        most: usize,
        timeout: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<EventRecord>, StoreError> {
        loop {
            let batch = self.follower.wait_batch(most, timeout, cancelled)?;
            if batch.is_empty() {
                return Ok(Vec::new());
            }
            let count = batch.len();
            let events: Vec<EventRecord> = batch
                .into_iter()
                .filter_map(|record| serde_json::from_value(Value::Object(record.fields)).ok())
                .collect();
            self.unknown += (count - events.len()) as u64;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }

    /// How many numbers were passed over so far: of events too old to be kept, and of those that cannot be read.
    pub fn lost(&self) -> u64 {
        let skipped = self.follower.skipped();
        skipped.numbers + skipped.pruned + self.unknown
    }

    /// The number from which a later reader would go on.
    pub fn position(&self) -> u64 {
        self.follower.position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{Place, place};

    fn event(seq: u64) -> EventRecord {
        EventRecord {
            seq,
            ts: String::new(),
            name: "x".into(),
            payload: Value::Null,
        }
    }

    #[test]
    fn a_task_is_woken_by_the_next_event_and_loses_none_when_it_stops_waiting() {
        use std::pin::pin;
        use std::task::{Context, Wake};

        struct Counts(std::sync::atomic::AtomicUsize);
        impl Wake for Counts {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        }
        let (broker, counts) = (Broker::new(), Arc::new(Counts(0.into())));
        let listener = broker.subscribe(10);
        let waker = Waker::from(Arc::clone(&counts));
        let mut context = Context::from_waker(&waker);
        let mut next = pin!(listener.recv());
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(next.as_mut().poll(&mut context).is_pending());
        broker.publish(event(1));
        assert_eq!(counts.0.load(std::sync::atomic::Ordering::SeqCst), 1, "woken once");
        assert!(matches!(next.as_mut().poll(&mut context), Poll::Ready(Some(event)) if event.seq == 1));
        {
            let mut dropped = pin!(listener.recv());
            assert!(dropped.as_mut().poll(&mut context).is_pending());
        }
        broker.publish(event(2));
        assert_eq!(listener.try_recv().unwrap().seq, 2);
    }

    /// A waker that does something of its own.
    struct Does<F>(F);

    impl<F: Fn() + Send + Sync> std::task::Wake for Does<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }

    #[test]
    fn a_waker_may_come_back_to_the_broker() {
        use std::pin::pin;
        use std::task::Context;

        let broker = Broker::new();
        let listener = broker.subscribe(10);
        let again = broker.clone();
        let waker = Waker::from(Arc::new(Does(move || {
            drop(again.subscribe(1));
            again.publish(event(2));
        })));
        let mut next = pin!(listener.recv());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        broker.publish(event(1));
        assert_eq!([1, 2], [(); 2].map(|()| listener.try_recv().unwrap().seq));
    }

    #[test]
    fn a_waker_may_emit() {
        use std::pin::pin;
        use std::task::Context;

        let Place { store, dir: _dir } = place();
        let journal = EventJournal::new(store, Broker::new());
        let listener = journal.broker.subscribe(10);
        let again = journal.clone();
        let waker = Waker::from(Arc::new(Does(move || {
            again.emit("second", Value::Null).unwrap();
        })));
        let mut next = pin!(listener.recv());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        journal.emit("first", Value::Null).unwrap();
        assert_eq!([1, 2], [(); 2].map(|()| listener.try_recv().unwrap().seq));
    }

    #[test]
    fn listening_ends_when_the_broker_is_gone_and_all_was_taken() {
        use std::pin::pin;
        use std::task::Context;

        let (broker, woken) = (
            Broker::<EventRecord>::new(),
            Arc::new(std::sync::atomic::AtomicBool::new(false)),
        );
        let listener = broker.subscribe(10);
        let hears = Arc::clone(&woken);
        let waker = Waker::from(Arc::new(Does(move || {
            hears.store(true, std::sync::atomic::Ordering::SeqCst);
        })));
        let mut context = Context::from_waker(&waker);
        let mut next = pin!(listener.recv());
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(broker.clone());
        assert!(next.as_mut().poll(&mut context).is_pending(), "one broker is left");
        drop(broker);
        assert!(woken.load(std::sync::atomic::Ordering::SeqCst));
        assert!(matches!(next.as_mut().poll(&mut context), Poll::Ready(None)));
        assert!(listener.recv_timeout(Duration::MAX).is_none());

        let broker = Broker::new();
        let listener = broker.subscribe(10);
        broker.publish(event(1));
        drop(broker);
        let mut first = pin!(listener.recv());
        assert!(matches!(first.as_mut().poll(&mut context), Poll::Ready(Some(event)) if event.seq == 1));
        let mut last = pin!(listener.recv());
        assert!(matches!(last.as_mut().poll(&mut context), Poll::Ready(None)));
    }

    #[test]
    fn every_listener_gets_every_event_in_order() {
        let broker = Broker::new();
        let (one, two) = (broker.subscribe(10), broker.subscribe(10));
        assert!(one.try_recv().is_none());
        assert!(one.recv_timeout(Duration::from_millis(1)).is_none());
        let sender = broker.clone();
        std::thread::spawn(move || (1..=3).for_each(|seq| sender.publish(event(seq))));
        for listener in [one, two] {
            let got: Vec<_> = (0..3)
                .map(|_| listener.recv_timeout(Duration::from_secs(20)).unwrap().seq)
                .collect();
            assert_eq!(got, [1, 2, 3]);
        }
        broker.publish(event(4));
        assert!(
            enter(&broker.listeners.0).is_empty(),
            "who stopped listening is forgotten"
        );
    }

    #[test]
    fn a_slow_listener_loses_the_oldest_and_is_told_how_many() {
        let broker = Broker::new();
        let listener = broker.subscribe(3);
        (1..=10).for_each(|seq| broker.publish(event(seq)));
        assert_eq!(listener.dropped(), 7);
        let got: Vec<_> = std::iter::from_fn(|| listener.try_recv())
            .map(|event| event.seq)
            .collect();
        assert_eq!(got, [8, 9, 10]);
    }

    #[test]
    fn an_event_is_kept_and_told() {
        let Place { store, dir } = place();
        let broker = Broker::new();
        let listener = broker.subscribe(10);
        let journal = EventJournal::new(store, broker);
        assert_eq!(
            journal
                .emit("agent.todolist", serde_json::json!({"agent": "pm"}))
                .unwrap(),
            1
        );
        assert_eq!(journal.emit("agent.todolist", Value::Null).unwrap(), 2);
        let told: Vec<_> = std::iter::from_fn(|| listener.try_recv())
            .map(|event| (*event).clone())
            .collect();
        assert_eq!(journal.read_from(0).next_batch(10).unwrap(), told);
        let mut second = journal.read_from(2);
        assert_eq!(second.next_batch(10).unwrap(), told[1..]);
        assert_eq!((second.lost(), second.position()), (0, 3));
        assert!(second.next_batch(10).unwrap().is_empty());
        journal.emit("agent.todolist", Value::Null).unwrap();
        assert_eq!(second.next_batch(10).unwrap()[0].seq, 3);
        let text = std::fs::read_to_string(dir.path().join("agent-state/.events/events.ndjson")).unwrap();
        let first = r#"{"seq":1,"ts":"2026-11-30T10:15:00.123Z","name":"agent.todolist","payload":{"agent":"pm"}}"#;
        assert_eq!(text.lines().next(), Some(first));
    }

    #[test]
    fn who_comes_too_late_is_told_how_many_are_gone() {
        let Place { store, dir } = place();
        let rotation = Rotation {
            bytes: 1 << 20,
            lines: 10,
            keep: Keep::Newest(2),
        };
        let journal = EventJournal::with_rotation(store, Broker::new(), rotation);
        let mut early = journal.read_from(1);
        for seq in 1..=57 {
            assert_eq!(journal.emit("x", Value::from(seq)).unwrap(), seq);
            assert_eq!(early.next_batch(10).unwrap().len(), 1);
        }
        assert_eq!(early.lost(), 0);
        let live = dir.path().join("agent-state/.events/events.ndjson");
        let text = std::fs::read_to_string(&live).unwrap();
        std::fs::write(&live, text.replace("\"name\":\"x\",\"payload\":55", "\"nam\":\"x\"")).unwrap();
        let mut late = journal.read_from(5);
        let seqs: Vec<_> = late.next_batch(100).unwrap().iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (31..=57).filter(|seq| *seq != 55).collect::<Vec<_>>());
        assert_eq!((late.lost(), late.position()), (27, 58));
    }

    #[test]
    fn listeners_get_the_events_of_all_threads_in_the_order_of_their_numbers() {
        let Place { dir: _dir, store } = place();
        let broker = Broker::new();
        let listener = broker.subscribe(1_000);
        let journal = EventJournal::new(store, broker);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        journal.emit("x", Value::Null).unwrap();
                    }
                });
            }
        });
        let told: Vec<u64> = std::iter::from_fn(|| listener.try_recv())
            .map(|event| event.seq)
            .collect();
        assert_eq!(told, (1..=200).collect::<Vec<_>>());
    }

    #[test]
    fn an_event_that_cannot_be_kept_is_told_with_the_reason_returned() {
        let Place { store, dir } = place();
        std::fs::create_dir_all(dir.path().join("agent-state")).unwrap();
        std::os::unix::fs::symlink("/tmp", dir.path().join("agent-state/.events")).unwrap();
        let broker = Broker::new();
        let listener = broker.subscribe(1);
        let error = EventJournal::new(store, broker).emit("x", Value::Null).unwrap_err();
        assert!(
            error.to_string().contains("`agent-state/.events` is a symbolic link"),
            "{error}"
        );
        assert_eq!(listener.try_recv().unwrap().seq, 0);
    }

    #[test]
    fn a_journal_without_a_number_left_loses_no_listener() {
        let Place { store, dir } = place();
        let events = dir.path().join("agent-state/.events");
        std::fs::create_dir_all(&events).unwrap();
        std::fs::write(events.join("events.ndjson"), format!("{{\"seq\":{}}}\n", u64::MAX)).unwrap();
        let broker = Broker::new();
        let listener = broker.subscribe(1);
        assert!(EventJournal::new(store, broker).emit("x", Value::Null).is_err());
        assert_eq!(listener.try_recv().unwrap().seq, 0);
    }
}
