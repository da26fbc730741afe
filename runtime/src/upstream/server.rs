//! One server: its connection, kept up.
//!
//! Answers for carrying out what [`Connection`] commands, one task for each attempt and one for the whole. Leaves out
//! when what is done: that is the state machine; and requests: that is `request`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use devloop_core::catalogue::{ConnectionChange, ConnectionState, ContentList, Instructions, Notice};
use devloop_core::connection::{Command, Connection, Epoch, Hope, Listing};
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, Extensions, Implementation, PingRequest, PingRequestMethod,
    ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::IntoTransport;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::child::{self, Program};
use super::config::{Hidden, ServerConfig, Way};
use super::fate::Fate;
use super::list::{self, Fetched};
use super::live::Live;
use super::wire::Pipes;
use super::{Options, Sink, text};

/// The longest reason that is told.
const REASON_CHARS: usize = 600;

/// The protocol library may take so long to let go of a connection.
const LETTING_GO: Duration = Duration::from_secs(1);

/// After the end of a program, what it wrote may take so long to come to the end of the pipe.
const LAST_BYTES: Duration = Duration::from_millis(50);

/// A server and what is known of it.
pub(super) struct Server {
    pub(super) name: Arc<str>,
    pub(super) config: ServerConfig,
    pub(super) options: Options,
    sink: Arc<dyn Sink>,
    began: Instant,
    known: watch::Sender<Known>,
    events: mpsc::UnboundedSender<Event>,
    wanted: Notify,
    closing: CancellationToken,
    /// The next handshake begins with `initialize`: there are servers that end, break or stay silent when the first thing
    /// they hear is the question of the newer era.
    begins_older: AtomicBool,
}

/// How a server stands.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) state: ConnectionState,
    pub(super) live: Option<Arc<Live>>,
    /// Its tools were taken or refused, or it was given up.
    pub(super) settled: bool,
    /// The last attempt that has ended, and why.
    pub(super) ended: Option<(Epoch, String)>,
    /// Its tools were taken or refused.
    pub(super) listed: bool,
    pub(super) tools: usize,
    pub(super) quarantined: usize,
    pub(super) refused: Option<String>,
}

pub(super) enum Event {
    Connected(Arc<Live>),
    Ended(Epoch, String, Hope),
    Listed(Epoch, Fetched),
    Heard(Epoch),
    CallBegun,
    CallEnded,
}

/// Counts a call for as long as it lives.
pub(super) struct Counted(mpsc::UnboundedSender<Event>);

impl Drop for Counted {
    fn drop(&mut self) {
        // The server may have been closed.
        let _ = self.0.send(Event::CallEnded);
    }
}

impl Server {
    /// Begins to connect. The task that is returned ends when the server was closed.
    pub(super) fn start(
        name: String,
        config: ServerConfig,
        options: Options,
        sink: Arc<dyn Sink>,
        seed: u64,
    ) -> (Arc<Self>, JoinHandle<()>) {
        let (events, received) = mpsc::unbounded_channel();
        let known = Known {
            state: ConnectionState::Connecting,
            live: None,
            settled: false,
            ended: None,
            listed: false,
            tools: 0,
            quarantined: 0,
            refused: None,
        };
        let connection = Connection::new(options.rules.clone(), seed);
        let server = Arc::new(Self {
            name: name.into(),
            config,
            options,
            sink,
            began: Instant::now(),
            known: watch::Sender::new(known),
            events,
            wanted: Notify::new(),
            closing: CancellationToken::new(),
            begins_older: AtomicBool::new(false),
        });
        let task = tokio::spawn(Driver::new(Arc::clone(&server), connection).run(received));
        (server, task)
    }

    pub(super) fn watch(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }

    /// Somebody waits for the connection.
    pub(super) fn want(&self) {
        self.wanted.notify_one();
    }

    pub(super) fn count_call(&self) -> Counted {
        let _ = self.events.send(Event::CallBegun);
        Counted(self.events.clone())
    }

    /// Begins to close it for good.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn tell(&self, event: Event) {
        // The driver may have ended.
        let _ = self.events.send(event);
    }

    /// A connection is no longer of use, whatever is still to be done about it.
    pub(super) fn fades(&self, epoch: Epoch) {
        self.known.send_if_modified(|known| {
            let fades = known.live.as_ref().is_some_and(|live| live.epoch == epoch);
            if fades {
                known.live = None;
            }
            fades
        });
    }
}

/// Carries out the commands of the state machine.
struct Driver {
    server: Arc<Server>,
    connection: Connection,
    /// The running attempt.
    attempt: Option<(CancellationToken, JoinHandle<()>)>,
    board: Option<Arc<Board>>,
    /// When the server last said anything that the state machine knows of, in milliseconds.
    heard: u64,
    had_instructions: bool,
    had_connection: bool,
}

impl Driver {
    fn new(server: Arc<Server>, connection: Connection) -> Self {
        Self {
            server,
            connection,
            attempt: None,
            board: None,
            heard: 0,
            had_instructions: false,
            had_connection: false,
        }
    }

    async fn run(mut self, mut received: mpsc::UnboundedReceiver<Event>) {
        let server = Arc::clone(&self.server);
        let mut commands = Vec::new();
        let mut closed = false;
        self.connection.start(server.now(), &mut commands);
        loop {
            for command in commands.drain(..) {
                self.carry_out(command);
            }
            if closed {
                break;
            }
            let deadline = self.connection.deadline().map(|deadline| server.began + deadline);
            let board = self.board.clone();
            tokio::select! {
                biased;
                () = server.closing.cancelled() => {
                    closed = true;
                    self.connection.close(&mut commands);
                }
                event = received.recv() => {
                    if let Some(event) = event {
                        self.take(event, &mut commands);
                    }
                }
                () = changed(board.as_deref()) => {
                    self.connection.list_changed(self.connection.epoch(), server.now());
                }
                () = server.wanted.notified() => self.connection.wanted(server.now(), &mut commands),
                () = sleep_until(deadline.unwrap_or(server.began).into()), if deadline.is_some() => {}
            }
            // What was heard before the server was asked whether it lives is no answer.
            if let Some(board) = &self.board
                && board.last_heard() != self.heard
            {
                self.heard = board.last_heard();
                let heard = Duration::from_millis(self.heard);
                self.connection.heard(self.connection.epoch(), heard);
            }
            self.connection.tick(server.now(), &mut commands);
        }
        if let Some((_, attempt)) = self.attempt.take() {
            let _ = attempt.await;
        }
        let sink = Arc::clone(&server.sink);
        let name = Arc::clone(&server.name);
        let _ = spawn_blocking(move || sink.gone(&name)).await;
    }

    fn take(&mut self, event: Event, commands: &mut Vec<Command>) {
        let now = self.server.now();
        match event {
            Event::Connected(live) => {
                if live.epoch != self.connection.epoch() {
                    return;
                }
                self.introduce(&live);
                let epoch = live.epoch;
                self.server.known.send_modify(|known| known.live = Some(live));
                self.connection.connected(epoch, now, commands);
            }
            Event::Ended(epoch, reason, hope) => {
                self.server.fades(epoch);
                let reason = text::cut(&self.server.config.redacted(&reason), REASON_CHARS);
                self.server
                    .known
                    .send_modify(|known| known.ended = Some((epoch, reason.clone())));
                self.connection.ended(epoch, &reason, hope, now, commands);
            }
            Event::Listed(epoch, fetched) => self.listed(epoch, fetched, now),
            Event::Heard(epoch) => self.connection.heard(epoch, now),
            Event::CallBegun => self.connection.call_begun(),
            Event::CallEnded => self.connection.call_ended(now),
        }
    }

    /// What a server says about itself when it is met.
    fn introduce(&mut self, live: &Live) {
        let told = live.info.as_ref().and_then(|info| info.instructions.clone());
        if told.is_some() || self.had_instructions {
            self.had_instructions = told.is_some();
            self.server.sink.notice(Notice::Instructions(Instructions {
                server: self.server.name.to_string().into(),
                text: told,
            }));
        }
        // It may have other content than the last time.
        if std::mem::replace(&mut self.had_connection, true) {
            let all = [ContentList::Resources, ContentList::Templates, ContentList::Prompts];
            live.board.content_changed(&all);
        }
    }

    fn listed(&mut self, epoch: Epoch, fetched: Fetched, now: Duration) {
        let listing = match &fetched {
            Fetched::Taken { .. } | Fetched::Refused(_) => Listing::Answered,
            Fetched::Failed(_) => Listing::Failed,
        };
        if epoch == self.connection.epoch() {
            self.server.known.send_modify(|known| {
                (known.settled, known.listed) = (true, true);
                match fetched {
                    Fetched::Taken { tools, quarantined } => {
                        (known.tools, known.quarantined, known.refused) = (tools, quarantined, None);
                    }
                    Fetched::Refused(reason) | Fetched::Failed(reason) => known.refused = Some(reason),
                }
            });
        }
        self.connection.listed(epoch, listing, now);
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Connect(epoch) => self.connect(epoch),
            Command::Drop(epoch) => {
                self.server.fades(epoch);
                self.board = None;
                if let Some((stop, _)) = &self.attempt {
                    stop.cancel();
                }
            }
            Command::List(epoch) => {
                if let Some(live) = self.live(epoch) {
                    self.list(live);
                }
            }
            Command::Ping(epoch) => {
                if let Some(live) = self.live(epoch) {
                    tokio::spawn(ask(Arc::clone(&self.server), live));
                }
            }
            Command::Say(state) => self.say(state),
        }
    }

    fn live(&self, epoch: Epoch) -> Option<Arc<Live>> {
        let known = self.server.known.borrow();
        known.live.clone().filter(|live| live.epoch == epoch)
    }

    fn say(&self, state: ConnectionState) {
        match &state {
            ConnectionState::Lost { reason } => {
                tracing::warn!(server = %self.server.name, "the connection to an upstream server is lost: {reason}");
            }
            ConnectionState::Failed { reason } => {
                tracing::warn!(server = %self.server.name, "an upstream server is given up: {reason}");
            }
            _ => tracing::debug!(server = %self.server.name, ?state, "an upstream server"),
        }
        self.server.known.send_modify(|known| {
            known.settled |= matches!(state, ConnectionState::Failed { .. } | ConnectionState::Closed);
            known.state = state.clone();
        });
        self.server.sink.notice(Notice::Connection(ConnectionChange {
            server: self.server.name.to_string().into(),
            state,
        }));
    }

    fn connect(&mut self, epoch: Epoch) {
        let server = Arc::clone(&self.server);
        let board = Arc::new(Board::new(
            Arc::clone(&server.name),
            server.config.clone(),
            Arc::clone(&server.sink),
            server.began,
        ));
        self.board = Some(Arc::clone(&board));
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let before = self.attempt.take();
        let task = tokio::spawn(async move {
            // Two programs of one server never run at once.
            if let Some((_, before)) = before {
                let _ = before.await;
            }
            let (reason, hope) = attempt(&server, epoch, &board, &stopped).await;
            server.tell(Event::Ended(epoch, reason, hope));
        });
        self.attempt = Some((stop, task));
    }

    /// Fetches the list and hands it on; what compiles schemas has a thread of its own.
    fn list(&self, live: Arc<Live>) {
        let server = Arc::clone(&self.server);
        tokio::spawn(async move {
            let fetched = match list::fetch(&live).await {
                Ok(offered) => {
                    let (server, board) = (Arc::clone(&server), Arc::clone(&live.board));
                    let taken = spawn_blocking(move || list::hand_on(&*server.sink, &server.name, &board, offered));
                    taken.await.unwrap_or_else(|error| Fetched::Failed(error.to_string()))
                }
                Err(reason) => {
                    let reason = server.config.redacted(&reason);
                    live.board
                        .said("error", super::OURS, &format!("its tools can't be listed: {reason}"));
                    Fetched::Failed(reason)
                }
            };
            server.tell(Event::Listed(live.epoch, fetched));
        });
    }
}

/// Asks whether the server lives. A transport that finds nobody tells that by itself.
async fn ask(server: Arc<Server>, live: Arc<Live>) {
    if live.has_handshake() {
        let ping = PingRequest {
            method: PingRequestMethod,
            extensions: Extensions::default(),
        };
        let answer = live.peer.send_request(ClientRequest::PingRequest(ping)).await;
        // An error is an answer, too.
        if !matches!(answer, Ok(_) | Err(rmcp::ServiceError::McpError(_))) {
            return;
        }
    }
    server.tell(Event::Heard(live.epoch));
}

async fn changed(board: Option<&Board>) {
    match board {
        Some(board) => board.tools_changed.notified().await,
        None => std::future::pending().await,
    }
}

/// One connection from its beginning to its end, the handshake of the older era tried as well. Why it ended.
async fn attempt(server: &Arc<Server>, epoch: Epoch, board: &Arc<Board>, stop: &CancellationToken) -> (String, Hope) {
    let began_older = server.begins_older.load(Ordering::Relaxed);
    let ended = Box::pin(attempt_once(server, epoch, board, stop)).await;
    let asks_older = !began_older && server.begins_older.load(Ordering::Relaxed);
    if !asks_older || ended.1 == Hope::None || stop.is_cancelled() {
        return ended;
    }
    board.forget_words();
    Box::pin(attempt_once(server, epoch, board, stop)).await
}

async fn attempt_once(
    server: &Arc<Server>,
    epoch: Epoch,
    board: &Arc<Board>,
    stop: &CancellationToken,
) -> (String, Hope) {
    match &server.config.way {
        Way::Stdio { command, args, env } => {
            let stderr = Arc::clone(board);
            let said = move |line: &str| stderr.said("info", "stderr", line);
            let directory = server.options.directory.as_deref();
            let started = match child::start(command, args, env, directory, said) {
                Ok(started) => started,
                Err(error) => return unstartable(command, &error),
            };
            let gone = CancellationToken::new();
            let limit = server.options.line_bytes;
            let pipes = Pipes::new(
                started.stdin,
                started.stdout,
                limit,
                Arc::clone(board) as _,
                gone.clone(),
            );
            let program = started.program;
            let held = {
                // Pipes end by themselves.
                let fate = Arc::default();
                let holding = hold(server, epoch, board, stop, pipes, &fate);
                tokio::pin!(holding);
                let program_ended = async {
                    program.ended().await;
                    sleep(LAST_BYTES).await;
                };
                tokio::select! {
                    biased;
                    ended = &mut holding => ended,
                    // The other end of the pipe may be held by something that the program has started.
                    () = program_ended => {
                        gone.cancel();
                        timeout(LETTING_GO, holding).await.unwrap_or_else(|_| Err((String::new(), Hope::Some)))
                    }
                }
            };
            let hope = held.as_ref().map_or_else(|(_, hope)| *hope, |()| Hope::Some);
            let held = held.map_err(|(problem, _)| problem);
            (end(server, epoch, board, program, held).await, hope)
        }
        Way::Http { url, headers } => over_http(server, epoch, board, stop, url, headers).await,
        Way::Sse => (
            "the transport `sse` was replaced by streamable HTTP: use `\"type\": \"http\"` with the address for that"
                .to_owned(),
            Hope::None,
        ),
    }
}

#[cfg(feature = "upstream-http")]
async fn over_http(
    server: &Arc<Server>,
    epoch: Epoch,
    board: &Arc<Board>,
    stop: &CancellationToken,
    url: &Hidden,
    headers: &BTreeMap<String, Hidden>,
) -> (String, Hope) {
    let limit = server.options.line_bytes;
    let fate = Arc::default();
    let transport = match super::http::transport(url, headers, limit, Arc::clone(board) as _, &fate) {
        Ok(transport) => transport,
        Err(problem) => return (problem, Hope::None),
    };
    let held = hold(server, epoch, board, stop, transport, &fate).await;
    // What the library makes of it says less.
    fate.why().unwrap_or_else(|| match held {
        Ok(()) => ("the connection ended".to_owned(), Hope::Some),
        Err((problem, hope)) if problem.is_empty() => {
            let closed = "it gave no answer to the handshake; is this the address of an MCP server?";
            (closed.to_owned(), hope)
        }
        Err(failure) => failure,
    })
}

#[cfg(not(feature = "upstream-http"))]
#[expect(clippy::unused_async, reason = "the other one waits")]
async fn over_http(
    _: &Arc<Server>,
    _: Epoch,
    _: &Arc<Board>,
    _: &CancellationToken,
    _: &Hidden,
    _: &BTreeMap<String, Hidden>,
) -> (String, Hope) {
    let problem = "streamable HTTP is not built into this program (feature `upstream-http`)";
    (problem.to_owned(), Hope::None)
}

fn unstartable(command: &str, error: &std::io::Error) -> (String, Hope) {
    use std::io::ErrorKind::{NotFound, PermissionDenied};
    let hope = match error.kind() {
        NotFound | PermissionDenied => Hope::None,
        _ => Hope::Some,
    };
    (format!("`{command}` can't be started: {error}"), hope)
}

/// Ends the program and says why the connection ended.
async fn end(server: &Server, epoch: Epoch, board: &Board, program: Program, held: Result<(), String>) -> String {
    server.fades(epoch);
    // A program that ended by itself is the reason; one that had to be ended is not.
    let by_itself = program.end(server.options.grace).await;
    let mut reason = match (by_itself, held) {
        (Some(ended), Err(problem)) if problem.is_empty() => format!("it ended with {ended}"),
        // With its input it ends as it should.
        (Some(ended), Err(problem)) if ended.is_success() => problem,
        (Some(ended), Err(problem)) => format!("it ended with {ended} ({problem})"),
        (Some(ended), Ok(())) => format!("it ended with {ended}"),
        (None, Err(problem)) => problem,
        (None, Ok(())) => "it closed its standard output".to_owned(),
    };
    let last_words = board.last_words();
    if !last_words.is_empty() {
        reason.push_str("; its last words: ");
        reason.push_str(&last_words);
    }
    reason
}

/// Makes the handshake over a transport and holds the connection until either side ends it.
async fn hold<T, E, A>(
    server: &Arc<Server>,
    epoch: Epoch,
    board: &Arc<Board>,
    stop: &CancellationToken,
    transport: T,
    fate: &Arc<Fate>,
) -> Result<(), (String, Hope)>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let begins_older = server.begins_older.load(Ordering::Relaxed);
    let mut client = client();
    let lifecycle = if begins_older {
        client.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        }
    };
    let handshake = serve_client_with_lifecycle(client, transport, lifecycle);
    let other_way = || server.begins_older.store(!begins_older, Ordering::Relaxed);
    let service: RunningService<RoleClient, ClientConfig> = tokio::select! {
        biased;
        () = stop.cancelled() => {
            // It may have been silent for as long as it may take to connect.
            other_way();
            return Err(("it was not wanted any more".to_owned(), Hope::Some));
        }
        service = handshake => service.map_err(|error| {
            if !has_answered(&error) {
                other_way();
            }
            handshake_failed(&error)
        })?,
    };
    let live = Arc::new(Live {
        epoch,
        peer: service.peer().clone(),
        board: Arc::clone(board),
        fate: Arc::clone(fate),
        info: service.peer().peer_info(),
    });
    if let Some(info) = &live.info
        && !ProtocolVersion::KNOWN_VERSIONS.contains(&info.protocol_version)
    {
        let theirs = text::cut(info.protocol_version.as_str(), 40);
        let known: Vec<&str> = ProtocolVersion::KNOWN_VERSIONS
            .iter()
            .map(ProtocolVersion::as_str)
            .collect();
        let problem = format!(
            "it wants to speak version `{theirs}` of the protocol, which is none that is known here ({})",
            known.join(", ")
        );
        return Err((problem, Hope::None));
    }
    if !live.has_handshake() {
        listen(&live);
    }
    server.tell(Event::Connected(Arc::clone(&live)));
    let token = service.cancellation_token();
    let waiting = service.waiting();
    tokio::pin!(waiting);
    loop {
        tokio::select! {
            biased;
            () = async { tokio::select! { () = stop.cancelled() => {}, () = fate.sealed() => {} } } => {
                server.fades(epoch);
                token.cancel();
                // Dropped after that, it lets go by itself.
                let _ = timeout(LETTING_GO, waiting).await;
                break;
            }
            _ = &mut waiting => break,
            () = fate.doubted() => {
                tokio::spawn(ask(Arc::clone(server), Arc::clone(&live)));
            }
        }
    }
    server.fades(epoch);
    Ok(())
}

fn client() -> ClientConfig {
    let mut info = Implementation::new("devloop", env!("CARGO_PKG_VERSION"));
    info.title = Some("devloop".to_owned());
    ClientConfig::new(ClientCapabilities::default(), info)
}

/// Whether a server has said in words of the protocol that there is no handshake with it: it knows what it was asked.
fn has_answered(error: &ClientInitializeError) -> bool {
    use ClientInitializeError::{JsonRpcError, LegacyFallbackFailed, NoCompatibleProtocolVersion};
    matches!(
        error,
        JsonRpcError(_) | LegacyFallbackFailed { .. } | NoCompatibleProtocolVersion { .. }
    )
}

fn handshake_failed(error: &ClientInitializeError) -> (String, Hope) {
    use ClientInitializeError as Error;
    let problem = match error {
        Error::ConnectionClosed(_) => String::new(),
        Error::LegacyFallbackFailed { fallback, .. } => return handshake_failed(fallback),
        Error::JsonRpcError(error) => {
            format!("it refused the handshake: {} ({})", error.message, error.code.0)
        }
        // The library writes out what it got as Rust has it.
        Error::ExpectedInitResult(_) | Error::ExpectedInitResponse(_) => {
            "its answer to `initialize` is none: expected a result with `protocolVersion`, `capabilities` and \
             `serverInfo` (`name`, `version`)"
                .to_owned()
        }
        Error::ConflictInitResponseId(..) | Error::UncorrelatedErrorResponse { .. } => {
            "its answer to the handshake has the id of no request".to_owned()
        }
        Error::NoCompatibleProtocolVersion { server_supported, .. } => {
            let theirs: Vec<&str> = server_supported.iter().map(ProtocolVersion::as_str).collect();
            let theirs = text::cut(&theirs.join(", "), 200);
            let problem = format!("it speaks versions of the protocol that are not known here: {theirs}");
            return (problem, Hope::None);
        }
        other => format!("the handshake failed: {}", chain(other)),
    };
    (problem, Hope::Some)
}

/// The protocol library names types, which tell nobody anything.
const OWN_TYPES: &str = "Transport [devloop_runtime::upstream::wire::Pipes] error: ";

/// An error with its causes, which the library's own texts leave out.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in text::causes(error).skip(1) {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
    }
    text.replace(OWN_TYPES, "")
        .replace("Send message error ", "nothing could be sent: ")
}

/// Servers without a handshake tell changes only to those who listen.
fn listen(live: &Arc<Live>) {
    let live = Arc::clone(live);
    tokio::spawn(async move {
        let filter = SubscriptionFilter::builder()
            .tools_list_changed()
            .prompts_list_changed()
            .resources_list_changed()
            .build();
        // What comes is heard by the transport already; only its reading must go on. When the server ends it, the
        // connection has ended as well, or the server tells no changes.
        if let Ok(mut subscription) = live.peer.listen(filter).await {
            while let Ok(Some(_)) = subscription.next().await {}
        }
    });
}
