//! The way between frames and the protocol library, in both directions.
//!
//! Answers for the rules that span frames: one request per id in flight, nothing but an opener before a session is
//! open, a brief finish after the input ended. Answers also for the outbox: answers are queued, and whoever writes
//! takes all that is queued at once. Leaves out where bytes come from and go to: that is `io`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use devloop_core::execution::gate;
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

/// One more request than that may be in flight; further frames wait in the pipe, a cancellation among them too, as long as
/// the client is asked nothing: an answer of its passes what waits. As many
/// may wait for their turn in a session: a client that sends thousands of calls at once is held up, and not told that the
/// session is busy. Fewer live calls also mean less memory and a warmer cache: with no limit, 5,000 calls at once are
/// served a third slower.
const IN_FLIGHT_LIMIT: usize = gate::PENDING - 1;

/// As many frames may wait before an answer of the client is looked for no further. Whoever has more calls under way while
/// it is asked is held up until one of them ends.
const READ_AHEAD: usize = 4_096;

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
enum Flight {
    /// Work on it goes on.
    Working,
    /// Work on it is done, and its answer is on the way.
    Answering,
    /// It was cancelled: nobody will answer it, but it has not stopped yet.
    Cancelled,
}

/// The requests in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    requests: Mutex<HashMap<RequestId, Flight>>,
    /// Counts the answers, so that waiting can tell progress from silence.
    answered: AtomicU64,
    /// A request was answered or has stopped.
    settled: Notify,
}

/// Lives as long as the work on one request does. A cancelled request keeps its id until then: were the id free
/// earlier, the late end of the old request could be taken for the answer of a new one.
#[derive(Debug)]
pub(super) struct Work {
    id: RequestId,
    in_flight: Arc<InFlight>,
}

impl Drop for Work {
    fn drop(&mut self) {
        let mut requests = lock(&self.in_flight.requests);
        match requests.get_mut(&self.id) {
            Some(flight @ Flight::Working) => *flight = Flight::Answering,
            Some(Flight::Cancelled) => {
                requests.remove(&self.id);
                drop(requests);
                self.in_flight.settled.notify_waiters();
            }
            Some(Flight::Answering) | None => {}
        }
    }
}

impl InFlight {
    fn enter(self: &Arc<Self>, id: &RequestId) -> Result<Arc<Work>, Flight> {
        let mut requests = lock(&self.requests);
        if let Some(flight) = requests.get(id) {
            return Err(*flight);
        }
        requests.insert(id.clone(), Flight::Working);
        Ok(Arc::new(Work {
            id: id.clone(),
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
        match requests.get_mut(id) {
            Some(flight @ Flight::Working) => *flight = Flight::Cancelled,
            Some(Flight::Answering) => {
                requests.remove(id);
                drop(requests);
                self.settled.notify_waiters();
            }
            Some(Flight::Cancelled) | None => {}
        }
    }

    fn len(&self) -> usize {
        lock(&self.requests).len()
    }

    fn has(&self, id: &RequestId) -> bool {
        lock(&self.requests).contains_key(id)
    }

    /// Waits until no more than `limit` requests are in flight.
    pub(super) async fn settled_to(&self, limit: usize) {
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if self.len() <= limit {
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
    /// A connection on which nothing has happened yet.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            outbox: Outbox::default(),
            in_flight: Arc::default(),
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
        let mut message = match frame {
            Frame::Message(message) => *message,
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
                if let Err(refused) = self.admit_request(&request.id, &mut request.request) {
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

    fn admit_request(&mut self, id: &RequestId, request: &mut ClientRequest) -> Result<(), Refused> {
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
        match self.connection.in_flight.enter(id) {
            Ok(work) => {
                request.extensions_mut().insert(work);
                Ok(())
            }
            Err(Flight::Working | Flight::Answering) => refuse(
                ErrorCode::INVALID_REQUEST,
                format!("id {id} is already in flight: give every request an id of its own"),
            ),
            Err(Flight::Cancelled) => refuse(
                ErrorCode::INVALID_REQUEST,
                format!("id {id} was cancelled and is still stopping: give every request an id of its own"),
            ),
        }
    }

    /// Takes what may pass the requests that wait for room: the answer that a call in flight waits for, and its
    /// cancellation.
    fn overtaking(&mut self) -> Option<ClientJsonRpcMessage> {
        while let Some(position) = self.pending.iter().position(|frame| self.may_overtake(frame)) {
            let frame = self.pending.remove(position)?;
            if let Some(message) = self.admit(frame) {
                return Some(message);
            }
        }
        None
    }

    fn may_overtake(&self, frame: &Frame) -> bool {
        let Frame::Message(message) = frame else {
            return false;
        };
        match &**message {
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => true,
            ClientJsonRpcMessage::Notification(notification) => match &notification.notification {
                ClientNotification::CancelledNotification(cancelled) => {
                    let id = cancelled.params.request_id.as_ref();
                    id.is_some_and(|id| self.connection.in_flight.has(id))
                }
                _ => false,
            },
            ClientJsonRpcMessage::Request(_) => false,
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
                () = in_flight.settled_to(0) => return,
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
            // What came is answered; and what a client would have answered to a question, it won't any more.
            if !self.input_ended {
                self.connection.outbox.drained_to(OUTBOX_LIMIT).await;
                let in_flight = Arc::clone(&self.connection.in_flight);
                if in_flight.len() > IN_FLIGHT_LIMIT {
                    if let Some(message) = self.overtaking() {
                        return Some(message);
                    }
                    let looks_ahead = !self.asked.is_empty() && self.pending.len() < READ_AHEAD;
                    tokio::select! {
                        () = in_flight.settled_to(IN_FLIGHT_LIMIT) => {}
                        frames = self.input.recv(), if looks_ahead => match frames {
                            Some(frames) => self.pending.extend(frames),
                            None => self.input_ended = true,
                        },
                    }
                    continue;
                }
            }
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
    use super::*;

    #[test]
    fn an_id_is_free_once_its_request_was_answered_or_was_cancelled_and_has_stopped() {
        let in_flight: Arc<InFlight> = Arc::default();
        let id = RequestId::Number(1);

        let work = in_flight.enter(&id).expect("free");
        assert_eq!(in_flight.enter(&id).err(), Some(Flight::Working));
        drop(work);
        assert_eq!(in_flight.enter(&id).err(), Some(Flight::Answering));
        in_flight.answered(&id);

        let work = in_flight.enter(&id).expect("free after its answer");
        in_flight.cancelled(&id);
        assert_eq!(in_flight.enter(&id).err(), Some(Flight::Cancelled));
        drop(work);

        // The cancellation comes when the answer is already on the way.
        drop(in_flight.enter(&id).expect("free after the stop"));
        in_flight.cancelled(&id);
        assert_eq!(in_flight.len(), 0);

        // The answer is sent before the work's last handle is gone.
        let work = in_flight.enter(&id).expect("free after the late cancellation");
        in_flight.answered(&id);
        drop(work);
        in_flight.cancelled(&id);
        assert_eq!(in_flight.len(), 0);
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
