//! The way between frames and the protocol library, in both directions.
//!
//! Answers for the rules that span frames: one request per id in flight, nothing but an opener before a session is
//! open, a brief finish after the input ended. Answers also for the outbox: answers are queued, and whoever writes
//! takes all that is queued at once. Leaves out where bytes come from and go to: that is `io`.
//!
//! A frame never waits for a request that waits: a ping, a list, a cancellation or the answer of a person is taken in
//! however many calls are in flight. What bounds the memory is that only so many requests may wait, with only so many
//! bytes ([`Work::may_begin`]), that only so many are on the move, and that nothing is taken in while the client leaves answers
//! unread. The protocol library bounds nothing of that: it makes a task of every request that it is given.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, GetExtensions, GetMeta, ProtocolVersion,
    RequestId, ServerJsonRpcMessage, ServerNotification,
};
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::framing::{Frame, Refused, WireError};

/// Above this many bytes of unread answers no further frame is taken in and progress is not reported, so that a client
/// that does not read cannot fill the memory.
const OUTBOX_LIMIT: usize = 32 * 1024 * 1024;

/// As many requests may be on the move: taken in and not begun, or done with their answer on the way to the outbox. Both
/// take a moment and depend on nobody, so no frame behind them waits for long; and a client that sends thousands at once
/// makes no thousands of tasks, which would cost memory and a warm cache.
const MOVING_LIMIT: usize = 64;

/// A buffer above this capacity is given back after use.
const KEPT_CAPACITY: usize = 1024 * 1024;

/// Locks; a panic elsewhere while holding one of these locks leaves nothing half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers on their way out.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<Queue>,
    /// Wakes a writing thread.
    ready: Condvar,
    /// Wakes a writing task.
    ready_task: Notify,
    /// Something was written, or nothing can be any more.
    progress: Notify,
    /// The client has closed its end.
    pub(super) gone: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    /// What a writer has taken and not yet written.
    writing: usize,
    closed: bool,
}

impl Outbox {
    /// Queues one frame.
    pub(super) fn push(&self, frame: &impl Serialize) {
        let mut queue = lock(&self.state);
        if queue.closed {
            return;
        }
        let before = queue.bytes.len();
        match serde_json::to_writer(&mut queue.bytes, frame) {
            Ok(()) => queue.bytes.push(b'\n'),
            Err(error) => {
                queue.bytes.truncate(before);
                tracing::error!(%error, "an answer cannot be written as JSON");
                return;
            }
        }
        drop(queue);
        self.ready.notify_one();
        self.ready_task.notify_one();
    }

    /// Waits, as a thread, for queued bytes and swaps them for `spent`, the buffer written last. False once it is closed.
    pub(super) fn take_blocking(&self, spent: &mut Vec<u8>) -> bool {
        let mut queue = lock(&self.state);
        loop {
            if queue.take(spent) {
                return true;
            }
            if queue.closed {
                return false;
            }
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits, as a task, for queued bytes; otherwise like [`Outbox::take_blocking`].
    pub(super) async fn take(&self, spent: &mut Vec<u8>) -> bool {
        loop {
            {
                let mut queue = lock(&self.state);
                if queue.take(spent) {
                    return true;
                }
                if queue.closed {
                    return false;
                }
            }
            self.ready_task.notified().await;
        }
    }

    /// So many of the bytes last taken have been written.
    pub(super) fn written(&self, count: usize) {
        let mut queue = lock(&self.state);
        queue.writing = queue.writing.saturating_sub(count);
        drop(queue);
        self.progress.notify_waiters();
    }

    /// Writing failed: the client is gone.
    pub(super) fn fail(&self) {
        let mut queue = lock(&self.state);
        queue.closed = true;
        queue.bytes = Vec::new();
        queue.writing = 0;
        drop(queue);
        self.gone.cancel();
        self.progress.notify_waiters();
    }

    /// No more frames; the writer ends after what is queued.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.ready.notify_all();
        self.ready_task.notify_one();
    }

    /// Waits until no more than `limit` bytes are unwritten.
    pub(super) async fn drained_to(&self, limit: usize) {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            if self.unwritten() <= limit {
                return;
            }
            progress.await;
        }
    }

    /// Waits until all is written. False when the client read nothing for as long as `stall`.
    pub(super) async fn flushed(&self, stall: Duration) -> bool {
        loop {
            let progress = self.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            if self.unwritten() == 0 {
                return true;
            }
            if timeout(stall, progress).await.is_err() {
                return false;
            }
        }
    }

    fn unwritten(&self) -> usize {
        let queue = lock(&self.state);
        queue.bytes.len() + queue.writing
    }
}

impl Queue {
    fn take(&mut self, spent: &mut Vec<u8>) -> bool {
        if self.bytes.is_empty() {
            return false;
        }
        spent.clear();
        if spent.capacity() > KEPT_CAPACITY {
            *spent = Vec::new();
        }
        std::mem::swap(&mut self.bytes, spent);
        self.writing = spent.len();
        true
    }
}

/// How far a request in flight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It was taken in, and work on it has not begun.
    Taken,
    /// Work on it goes on, and waits for something.
    Waiting(Class),
    /// Work on it is done, and its answer is on the way.
    Answering,
}

/// What the requests are counted by that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Calls of tools.
    Call,
    /// All others.
    Other,
}

/// What may wait, of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// So many requests.
    pub(super) requests: usize,
    /// With so many bytes, unless it is one request alone.
    pub(super) bytes: usize,
}

/// Why one more request may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full {
    /// So many wait.
    pub(super) waiting: usize,
    /// Which bound would be passed.
    pub(super) bound: Bound,
}

/// A bound on what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// As many requests wait as may.
    Requests,
    /// With this one there would be more bytes than so many.
    Bytes(usize),
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    stage: Stage,
    /// What it takes in memory.
    bytes: usize,
    /// Nobody will answer it, but it has not stopped yet.
    cancelled: bool,
}

/// Why a request cannot have its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdTaken {
    /// By a request that will be answered.
    InFlight,
    /// By one that was cancelled and has not stopped.
    Stopping,
}

/// The requests in flight.
#[derive(Debug)]
pub(super) struct InFlight {
    requests: Mutex<Requests>,
    /// What may wait, of each class.
    room: Room,
    /// Counts the answers, so that waiting can tell progress from silence.
    answered: AtomicU64,
    /// A request begins to wait, was answered or has stopped.
    settled: Notify,
}

#[derive(Debug, Default)]
struct Requests {
    flights: HashMap<RequestId, Flight>,
    /// How many are taken in or being answered.
    moving: usize,
    /// The calls that wait.
    calls: Waiting,
    /// The others that wait.
    others: Waiting,
}

/// Requests of one class that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waiting {
    requests: usize,
    bytes: usize,
}

impl Requests {
    /// Counts a request that comes to a stage.
    fn count(&mut self, stage: Stage, bytes: usize) {
        match stage {
            Stage::Taken | Stage::Answering => self.moving += 1,
            Stage::Waiting(class) => {
                let waiting = self.waiting(class);
                waiting.requests += 1;
                waiting.bytes = waiting.bytes.saturating_add(bytes);
            }
        }
    }

    /// No longer counts one that leaves it.
    fn discount(&mut self, stage: Stage, bytes: usize) {
        match stage {
            Stage::Taken | Stage::Answering => self.moving -= 1,
            Stage::Waiting(class) => {
                let waiting = self.waiting(class);
                waiting.requests -= 1;
                waiting.bytes = waiting.bytes.saturating_sub(bytes);
            }
        }
    }

    fn waiting(&mut self, class: Class) -> &mut Waiting {
        match class {
            Class::Call => &mut self.calls,
            Class::Other => &mut self.others,
        }
    }

    fn advance(&mut self, id: &RequestId, to: Stage) {
        let Some(flight) = self.flights.get_mut(id) else {
            return;
        };
        let bytes = flight.bytes;
        let from = std::mem::replace(&mut flight.stage, to);
        self.discount(from, bytes);
        self.count(to, bytes);
    }

    fn remove(&mut self, id: &RequestId) {
        if let Some(flight) = self.flights.remove(id) {
            self.discount(flight.stage, flight.bytes);
        }
    }
}

/// Lives as long as the work on one request does. A cancelled request keeps its id until then: were the id free
/// earlier, the late end of the old request could be taken for the answer of a new one.
#[derive(Debug)]
pub(super) struct Work {
    id: RequestId,
    /// What the request takes in memory.
    bytes: usize,
    in_flight: Arc<InFlight>,
}

impl Work {
    /// Whether this request may wait, as one of this class. One alone may have any number of bytes: it would never be its
    /// turn.
    pub(super) fn may_begin(&self, class: Class) -> Result<(), Full> {
        let room = self.in_flight.room;
        let waiting = *lock(&self.in_flight.requests).waiting(class);
        let full = |bound| {
            Err(Full {
                waiting: waiting.requests,
                bound,
            })
        };
        if waiting.requests >= room.requests {
            full(Bound::Requests)
        } else if waiting.requests > 0 && waiting.bytes.saturating_add(self.bytes) > room.bytes {
            full(Bound::Bytes(room.bytes))
        } else {
            Ok(())
        }
    }

    /// The work does not end at once: what comes behind need not wait for it.
    pub(super) fn waits(&self, class: Class) {
        lock(&self.in_flight.requests).advance(&self.id, Stage::Waiting(class));
        self.in_flight.settled.notify_waiters();
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut requests = lock(&self.in_flight.requests);
        match requests.flights.get(&self.id) {
            Some(Flight { cancelled: true, .. }) => {
                requests.remove(&self.id);
                drop(requests);
                self.in_flight.settled.notify_waiters();
            }
            Some(Flight { cancelled: false, .. }) => requests.advance(&self.id, Stage::Answering),
            None => {}
        }
    }
}

impl InFlight {
    /// Nothing is in flight, and so much of each class may wait.
    fn new(room: Room) -> Self {
        Self {
            requests: Mutex::default(),
            room,
            answered: AtomicU64::new(0),
            settled: Notify::new(),
        }
    }

    fn enter(self: &Arc<Self>, id: &RequestId, bytes: usize) -> Result<Arc<Work>, IdTaken> {
        let mut requests = lock(&self.requests);
        if let Some(flight) = requests.flights.get(id) {
            return Err(if flight.cancelled {
                IdTaken::Stopping
            } else {
                IdTaken::InFlight
            });
        }
        let stage = Stage::Taken;
        let cancelled = false;
        let flight = Flight {
            stage,
            bytes,
            cancelled,
        };
        requests.flights.insert(id.clone(), flight);
        requests.count(stage, bytes);
        Ok(Arc::new(Work {
            id: id.clone(),
            bytes,
            in_flight: Arc::clone(self),
        }))
    }

    fn answered(&self, id: &RequestId) {
        lock(&self.requests).remove(id);
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.settled.notify_waiters();
    }

    /// The library drops the answer of a cancelled request, even one that is on the way.
    fn cancelled(&self, id: &RequestId) {
        let mut requests = lock(&self.requests);
        match requests.flights.get_mut(id) {
            Some(flight) if flight.stage == Stage::Answering => {
                requests.remove(id);
                drop(requests);
                self.settled.notify_waiters();
            }
            Some(flight) => flight.cancelled = true,
            None => {}
        }
    }

    fn len(&self) -> usize {
        lock(&self.requests).flights.len()
    }

    /// Waits until no request is in flight.
    pub(super) async fn settled(&self) {
        self.until(|requests| requests.flights.is_empty()).await;
    }

    /// Waits until one more request may be taken in.
    async fn room_to_move(&self) {
        self.until(|requests| requests.moving < MOVING_LIMIT).await;
    }

    async fn until(&self, holds: impl Fn(&Requests) -> bool) {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if holds(&lock(&self.requests)) {
                return;
            }
            settled.await;
        }
    }
}

/// Whether a session has been opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    /// Only an opener is let through: before one, the library gives up on anything else.
    Closed,
    /// Anything goes.
    Open,
}

/// What the parts of one connection share.
#[derive(Debug)]
pub(super) struct Connection {
    /// Answers on their way out.
    pub(super) outbox: Outbox,
    /// Requests in flight.
    pub(super) in_flight: Arc<InFlight>,
    /// Cancelled when running calls must stop and new requests are refused.
    pub(super) stop: CancellationToken,
    /// Cancelled when the input has ended and nothing more will be answered.
    pub(super) ended: CancellationToken,
    /// What broke the input or the output.
    fault: Mutex<Option<String>>,
}

impl Connection {
    /// A connection on which nothing has happened yet, and on which so many calls may wait, and so many other requests.
    pub(super) fn new(waiting: Room) -> Arc<Self> {
        Arc::new(Self {
            outbox: Outbox::default(),
            in_flight: Arc::new(InFlight::new(waiting)),
            stop: CancellationToken::new(),
            ended: CancellationToken::new(),
            fault: Mutex::default(),
        })
    }

    /// Notes what broke the input or the output; the first is kept.
    pub(super) fn fault(&self, what: String) {
        lock(&self.fault).get_or_insert(what);
    }

    /// What broke the input or the output.
    pub(super) fn take_fault(&self) -> Option<String> {
        lock(&self.fault).take()
    }
}

/// How long a connection takes to end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grace {
    /// After the input ended, as long as this may pass without an answer before running calls are cancelled.
    pub(super) finish: Duration,
    /// As long as cancelled calls may take to stop.
    pub(super) stop: Duration,
}

/// The transport that the protocol library sees.
pub(super) struct FrameTransport {
    connection: Arc<Connection>,
    /// Frames by the chunk they were read in; closed at the end of the input.
    input: mpsc::Receiver<Vec<Frame>>,
    pending: VecDeque<Frame>,
    /// Whether the input has ended; frames may still be pending.
    input_ended: bool,
    /// The requests to the client that it has not answered.
    asked: HashSet<RequestId>,
    session: Session,
    grace: Grace,
    winding_down: Option<WindDown>,
}

/// The end of the input has been seen.
#[derive(Debug)]
struct WindDown {
    answered: u64,
    deadline: Instant,
}

impl FrameTransport {
    /// A transport that takes frames from `input`.
    pub(super) fn new(connection: Arc<Connection>, input: mpsc::Receiver<Vec<Frame>>, grace: Grace) -> Self {
        Self {
            connection,
            input,
            pending: VecDeque::new(),
            input_ended: false,
            asked: HashSet::new(),
            session: Session::Closed,
            grace,
            winding_down: None,
        }
    }

    /// Applies the rules that span frames.
    fn admit(&mut self, frame: Frame) -> Option<ClientJsonRpcMessage> {
        let (mut message, bytes) = match frame {
            Frame::Message { message, bytes } => (*message, bytes),
            Frame::Refused(refused) => {
                self.refuse(&refused);
                return None;
            }
            Frame::Dropped(what) => {
                tracing::warn!("dropped {what}");
                return None;
            }
        };
        match &mut message {
            ClientJsonRpcMessage::Request(request) => {
                if let Err(refused) = self.admit_request(&request.id, &mut request.request, bytes) {
                    self.refuse(&refused);
                    return None;
                }
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if self.session == Session::Closed {
                    tracing::warn!("dropped a notification that came before the session was opened");
                    return None;
                }
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.connection.in_flight.cancelled(id);
                }
            }
            ClientJsonRpcMessage::Response(response) => {
                if !self.asked.remove(&response.id) {
                    tracing::warn!(id = %response.id, "dropped an answer to a request that was never sent");
                    return None;
                }
            }
            ClientJsonRpcMessage::Error(error) => {
                if !error.id.as_ref().is_some_and(|id| self.asked.remove(id)) {
                    tracing::warn!(
                        "dropped an error to a request that was never sent: {}",
                        error.error.message
                    );
                    return None;
                }
            }
        }
        Some(message)
    }

    fn admit_request(&mut self, id: &RequestId, request: &mut ClientRequest, bytes: usize) -> Result<(), Refused> {
        let refuse = |code, message: String| Err(Refused::new(id.clone().into_json_value(), code, message));
        if self.connection.stop.is_cancelled() {
            return refuse(ErrorCode(-32000), "the server is stopping".into());
        }
        if self.session == Session::Closed {
            match &*request {
                ClientRequest::InitializeRequest(_) => self.session = Session::Open,
                ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => {}
                other => {
                    let meta = other.get_meta();
                    let complete = meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty();
                    match meta.protocol_version() {
                        None => {
                            return refuse(
                                ErrorCode::INVALID_PARAMS,
                                format!(
                                    "{} came before the session was opened: send `initialize` first, or give every \
                                     request the `_meta` keys of protocol version 2026-07-28",
                                    other.method()
                                ),
                            );
                        }
                        Some(version) if complete && ProtocolVersion::KNOWN_VERSIONS.contains(&version) => {
                            self.session = Session::Open;
                        }
                        // The library tells what is missing, and goes on waiting for an opener.
                        Some(_) => {}
                    }
                }
            }
        }
        match self.connection.in_flight.enter(id, bytes) {
            Ok(work) => {
                request.extensions_mut().insert(work);
                Ok(())
            }
            Err(IdTaken::InFlight) => refuse(
                ErrorCode::INVALID_REQUEST,
                format!("id {id} is already in flight: give every request an id of its own"),
            ),
            Err(IdTaken::Stopping) => refuse(
                ErrorCode::INVALID_REQUEST,
                format!("id {id} was cancelled and is still stopping: give every request an id of its own"),
            ),
        }
    }

    fn refuse(&self, refused: &Refused) {
        let (id, WireError { code, message }) = (&refused.id, &refused.error);
        if *code == ErrorCode::METHOD_NOT_FOUND.0 {
            // Clients ask in this way what a server can.
            tracing::info!(%id, code, "refused a frame: {message}");
        } else {
            tracing::warn!(%id, code, "refused a frame: {message}");
        }
        self.connection.outbox.push(refused);
    }

    /// After the end of the input: running calls may finish, then they are cancelled, then they are left alone.
    async fn wind_down(&mut self) {
        let connection = Arc::clone(&self.connection);
        let in_flight = &connection.in_flight;
        loop {
            let answered = in_flight.answered.load(Ordering::Relaxed);
            let stopping = connection.stop.is_cancelled();
            let grace = self.grace;
            // `receive` is dropped and called again with every event of the library's loop; so the deadline is kept.
            let wind_down = self.winding_down.get_or_insert_with(|| WindDown {
                answered,
                deadline: Instant::now() + grace.finish,
            });
            if wind_down.answered != answered && !stopping {
                wind_down.answered = answered;
                wind_down.deadline = Instant::now() + grace.finish;
            }
            let deadline = wind_down.deadline;
            tokio::select! {
                biased;
                () = in_flight.settled() => return,
                () = in_flight.settled.notified() => {}
                () = sleep_until(deadline) => {
                    if stopping {
                        tracing::warn!(calls = in_flight.len(), "calls did not stop in time and are abandoned");
                        return;
                    }
                    tracing::info!(calls = in_flight.len(), "the input has ended: cancelling running calls");
                    connection.stop.cancel();
                    wind_down.deadline = Instant::now() + grace.stop;
                }
            }
        }
    }
}

impl Transport<RoleServer> for FrameTransport {
    type Error = Infallible;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if matches!(item, ServerJsonRpcMessage::Notification(_)) && self.connection.outbox.unwritten() > OUTBOX_LIMIT {
            tracing::debug!("dropped a notification: the client does not read");
            return ready(Ok(()));
        }
        self.connection.outbox.push(&item);
        match &item {
            ServerJsonRpcMessage::Response(response) => self.connection.in_flight.answered(&response.id),
            ServerJsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.connection.in_flight.answered(id);
                }
            }
            ServerJsonRpcMessage::Request(request) => {
                self.asked.insert(request.id.clone());
            }
            ServerJsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.asked.remove(id);
                }
            }
        }
        ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // What came before the end of the input is answered in any case.
            if !self.input_ended {
                self.connection.outbox.drained_to(OUTBOX_LIMIT).await;
            }
            self.connection.in_flight.room_to_move().await;
            while let Some(frame) = self.pending.pop_front() {
                if let Some(message) = self.admit(frame) {
                    return Some(message);
                }
            }
            if !self.input_ended {
                match self.input.recv().await {
                    Some(frames) => self.pending = frames.into(),
                    None => self.input_ended = true,
                }
                continue;
            }
            self.wind_down().await;
            self.connection.ended.cancel();
            return None;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use rmcp::model::JsonRpcRequest;

    use super::super::framing::Framer;
    use super::*;

    const fn room(requests: usize, bytes: usize) -> Room {
        Room { requests, bytes }
    }

    #[test]
    fn an_id_is_free_once_its_request_was_answered_or_was_cancelled_and_has_stopped() {
        let in_flight: Arc<InFlight> = Arc::new(InFlight::new(room(1, 1)));
        let id = RequestId::Number(1);

        let work = in_flight.enter(&id, 1).expect("free");
        assert_eq!(in_flight.enter(&id, 1).err(), Some(IdTaken::InFlight));
        drop(work);
        assert_eq!(in_flight.enter(&id, 1).err(), Some(IdTaken::InFlight));
        in_flight.answered(&id);

        let work = in_flight.enter(&id, 1).expect("free after its answer");
        in_flight.cancelled(&id);
        assert_eq!(in_flight.enter(&id, 1).err(), Some(IdTaken::Stopping));
        drop(work);

        // The cancellation comes when the answer is already on the way.
        drop(in_flight.enter(&id, 1).expect("free after the stop"));
        in_flight.cancelled(&id);
        assert_eq!(in_flight.len(), 0);

        // The answer is sent before the work's last handle is gone.
        let work = in_flight.enter(&id, 1).expect("free after the late cancellation");
        in_flight.answered(&id);
        drop(work);
        in_flight.cancelled(&id);
        assert_eq!(in_flight.len(), 0);
    }

    #[test]
    fn requests_are_counted_by_how_far_they_are_and_never_twice() {
        let in_flight: Arc<InFlight> = Arc::new(InFlight::new(room(1, 1)));
        let counts = || {
            let requests = lock(&in_flight.requests);
            (requests.moving, requests.calls.requests, requests.others.requests)
        };
        let enter = |id| in_flight.enter(&RequestId::Number(id), 9).expect("free");
        let (call, next, list) = (enter(1), enter(2), enter(3));
        assert_eq!(counts(), (3, 0, 0));
        let full = Err(Full {
            waiting: 1,
            bound: Bound::Requests,
        });
        assert_eq!(call.may_begin(Class::Call), Ok(()));
        call.waits(Class::Call);
        assert_eq!(next.may_begin(Class::Call), full);
        assert_eq!(list.may_begin(Class::Other), Ok(()), "lists do not wait for calls");
        list.waits(Class::Other);
        assert_eq!(counts(), (1, 1, 1));
        // What was cancelled takes its place until it has stopped.
        in_flight.cancelled(&RequestId::Number(1));
        assert_eq!(next.may_begin(Class::Call), full);
        drop(call);
        assert_eq!(next.may_begin(Class::Call), Ok(()));
        drop((next, list));
        assert_eq!(counts(), (2, 0, 0));
        in_flight.answered(&RequestId::Number(2));
        in_flight.answered(&RequestId::Number(2));
        in_flight.cancelled(&RequestId::Number(3));
        assert_eq!((counts(), in_flight.len()), ((0, 0, 0), 0));
    }

    #[test]
    fn what_waits_has_only_so_many_bytes_unless_it_is_alone() {
        let in_flight: Arc<InFlight> = Arc::new(InFlight::new(room(9, 100)));
        let enter = |id, bytes| in_flight.enter(&RequestId::Number(id), bytes).expect("free");
        let full = |waiting| {
            let bound = Bound::Bytes(100);
            Err(Full { waiting, bound })
        };
        let first = enter(1, 60);
        first.waits(Class::Call);
        assert_eq!(enter(2, 41).may_begin(Class::Call), full(1));
        let second = enter(3, 40);
        assert_eq!(second.may_begin(Class::Call), Ok(()));
        second.waits(Class::Call);
        assert_eq!(enter(4, 1).may_begin(Class::Call), full(2));
        assert_eq!(enter(5, 0).may_begin(Class::Call), Ok(()), "nothing more in bytes");
        assert_eq!(
            enter(6, 100).may_begin(Class::Other),
            Ok(()),
            "lists do not wait for calls"
        );
        // What is done makes room, and what was cancelled when it has stopped.
        drop(first);
        assert_eq!(enter(7, 60).may_begin(Class::Call), Ok(()));
        in_flight.cancelled(&RequestId::Number(3));
        assert_eq!(enter(8, 61).may_begin(Class::Call), full(1));
        drop(second);
        let alone = enter(9, usize::MAX);
        assert_eq!(alone.may_begin(Class::Call), Ok(()));
        alone.waits(Class::Call);
        assert_eq!(enter(10, 1).may_begin(Class::Call), full(1));
        drop(alone);
        assert_eq!(lock(&in_flight.requests).calls, Waiting::default());
    }

    #[test]
    fn only_requests_that_are_on_the_move_hold_others_up() {
        let connection = Connection::new(room(1_000, usize::MAX));
        let (sender, input) = mpsc::channel(1);
        let grace = Grace {
            finish: Duration::ZERO,
            stop: Duration::ZERO,
        };
        let mut transport = FrameTransport::new(Arc::clone(&connection), input, grace);
        let mut pings = Vec::new();
        let mut framer = Framer::new(1_000);
        for id in 0..1_000 {
            let ping = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            framer.push(ping.as_bytes(), &mut pings);
            framer.push(b"\n", &mut pings);
        }
        sender.try_send(pings).expect("room");
        let mut receive = || {
            let mut waker = Context::from_waker(Waker::noop());
            match pin!(transport.receive()).poll(&mut waker) {
                Poll::Ready(Some(ClientJsonRpcMessage::Request(request))) => Some(request),
                Poll::Ready(other) => panic!("{other:?}"),
                Poll::Pending => None,
            }
        };
        let work = |request: &JsonRpcRequest<ClientRequest>| {
            let work = request.request.extensions().get::<Arc<Work>>();
            Arc::clone(work.expect("every request has one"))
        };
        let mut taken: Vec<_> = std::iter::from_fn(&mut receive).collect();
        assert_eq!(taken.len(), MOVING_LIMIT);
        // However many wait, others are taken in.
        for earliest in 0..500 {
            work(&taken[earliest]).waits(Class::Call);
            taken.push(receive().expect("room for one more"));
            assert!(receive().is_none());
        }
        // The end of the work alone does not do: the answer is still to come.
        let done = taken.pop().expect("one");
        let id = done.id.clone();
        drop(done);
        assert!(receive().is_none());
        connection.in_flight.answered(&id);
        assert!(receive().is_some() && receive().is_none());
    }

    #[tokio::test]
    async fn a_writer_takes_all_that_is_queued_at_once() {
        let outbox = Outbox::default();
        for number in 0..3 {
            outbox.push(&number);
        }
        let mut bytes = Vec::new();
        assert!(outbox.take_blocking(&mut bytes));
        assert_eq!(bytes, b"0\n1\n2\n");
        assert_eq!(outbox.unwritten(), 6);
        outbox.written(2);
        assert!(!outbox.flushed(Duration::from_millis(1)).await);
        outbox.written(4);
        assert!(outbox.flushed(Duration::from_millis(1)).await);
        outbox.push(&3);
        outbox.close();
        outbox.push(&4);
        assert!(outbox.take(&mut bytes).await);
        assert_eq!(bytes, b"3\n");
        outbox.written(2);
        assert!(!outbox.take(&mut bytes).await && !outbox.take_blocking(&mut bytes));
    }
}
