//! The MCP face: a [`ToolService`] served to one client over newline-delimited JSON-RPC.
//!
//! Answers for the life of a connection: it starts at once, answers every frame that has an id, and ends within
//! milliseconds of the end of the input or a signal. `framing` and `json` judge lines, `transport` applies the rules
//! that span frames, `io` moves bytes, `server` speaks MCP through the rmcp library.
//!
//! Leaves out every decision about a call: the service makes them.

mod framing;
mod io;
mod server;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::service::{QuitReason, ServerInitializeError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::call::ToolService;
use framing::Frame;
use server::{Gated, Server};
use transport::{Connection, FrameTransport, Grace, Room};

/// After a signal there is no time to wait for a client that does not read.
const SIGNAL_FLUSH_GRACE: Duration = Duration::from_millis(50);

/// How a connection is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The name under which the server presents itself.
    pub server_name: String,
    /// Tools on one page of `tools/list`; 0 lists all at once.
    pub page_size: usize,
    /// As many calls wait at once, and as many other requests; more are refused. More than the service itself lets wait,
    /// so that it is the service that refuses: it knows why, and keeps a record.
    pub waiting: usize,
    /// What the calls that wait may take in memory together, and as much the other requests: one that would take it beyond
    /// that is refused as one that comes when as many wait as may. A request counts with the bytes of its frame and 128 for
    /// each JSON value in it; one alone may have more. Default: 64 MiB.
    pub waiting_bytes: usize,
    /// A call that has reported nothing for so long, to a client that wants to know how it goes on, gives a sign of life.
    pub silence: Duration,
    /// After the end of the input, calls go on as long as one of them is answered within this time; then they are
    /// cancelled.
    pub finish_grace: Duration,
    /// As long as cancelled calls may take to stop, so that a write is not cut in half. A client that sends SIGINT may
    /// send SIGKILL 500 ms later.
    pub stop_grace: Duration,
    /// At the end, as long as the client may read nothing before the last answers are given up. After a signal it is
    /// 50 ms at most.
    pub flush_grace: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            server_name: "devloop".to_owned(),
            page_size: 0,
            waiting: 256,
            waiting_bytes: 64 << 20,
            silence: Duration::from_secs(5),
            finish_grace: Duration::from_millis(100),
            stop_grace: Duration::from_millis(350),
            flush_grace: Duration::from_secs(1),
        }
    }
}

impl ServeOptions {
    fn room(&self) -> Room {
        Room {
            requests: self.waiting,
            bytes: self.waiting_bytes,
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The input ended.
    InputEnded,
    /// The client no longer reads.
    ClientGone,
    /// The process was told to stop, by this signal.
    Signalled(&'static str),
    /// The server could not start or go on: its input or output broke, other than by the client's leaving.
    Failed(String),
}

impl ExitReason {
    /// What the process should exit with: 0 when the client ended the connection, in whatever way.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::InputEnded | Self::ClientGone | Self::Signalled(_) => 0,
            Self::Failed(_) => 1,
        }
    }
}

/// Serves the process's own stdin and stdout until the input ends, the client is gone, or SIGINT, SIGTERM or SIGHUP
/// comes.
///
/// The caller should end the process with [`std::process::exit`] and the reason's exit code: a call that ignored its
/// cancellation may still hold a thread of the runtime. Answers come fastest from a current-thread runtime.
pub async fn serve<S: ToolService>(service: S, options: ServeOptions) -> ExitReason {
    let connection = Connection::new(options.room());
    let signals = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    );
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) = signals else {
        return ExitReason::Failed("signal handlers cannot be installed".into());
    };
    let input = match io::read_in_thread(Arc::clone(&connection), std::io::stdin()) {
        Ok(input) => input,
        Err(error) => return ExitReason::Failed(format!("the thread that reads stdin cannot be started: {error}")),
    };
    let output = io::plain_stdout().and_then(|stdout| io::write_in_thread(Arc::clone(&connection), stdout));
    if let Err(error) = output {
        return ExitReason::Failed(format!("stdout cannot be written: {error}"));
    }
    let serving = serve_frames(service, &options, Arc::clone(&connection), input);
    tokio::pin!(serving);
    let signalled = tokio::select! {
        reason = &mut serving => return reason,
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
        _ = hangup.recv() => "SIGHUP",
    };
    tracing::info!(signal = signalled, "stopping");
    connection.stop.cancel();
    tokio::select! {
        _ = &mut serving => {}
        () = async {
            settle(&connection, options.stop_grace).await;
            flush(&connection, options.flush_grace.min(SIGNAL_FLUSH_GRACE)).await;
        } => {}
    }
    ExitReason::Signalled(signalled)
}

/// Serves one client over async streams until its input ends or it is gone. Signals are the caller's.
pub async fn serve_io<S, R, W>(service: S, options: ServeOptions, reader: R, writer: W) -> ExitReason
where
    S: ToolService,
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let connection = Connection::new(options.room());
    let input = io::read_in_task(Arc::clone(&connection), reader);
    io::write_in_task(Arc::clone(&connection), writer);
    serve_frames(service, &options, connection, input).await
}

async fn serve_frames<S: ToolService>(
    service: S,
    options: &ServeOptions,
    connection: Arc<Connection>,
    input: mpsc::Receiver<Vec<Frame>>,
) -> ExitReason {
    let server = match Server::new(service, options, connection.stop.clone()) {
        Ok(server) => server,
        Err(error) => return ExitReason::Failed(error.chain()),
    };
    let grace = Grace {
        finish: options.finish_grace,
        stop: options.stop_grace,
    };
    let transport = FrameTransport::new(Arc::clone(&connection), input, grace);
    let running = async {
        match Gated(server).serve(transport).await {
            Ok(running) => match running.waiting().await {
                Ok(QuitReason::Closed | QuitReason::Cancelled) => ExitReason::InputEnded,
                Ok(reason) => ExitReason::Failed(format!("the connection broke: {reason:?}")),
                Err(error) => ExitReason::Failed(format!("the connection broke: {error}")),
            },
            Err(ServerInitializeError::ConnectionClosed(_)) => ExitReason::InputEnded,
            Err(error) => ExitReason::Failed(format!("no session was opened: {error}")),
        }
    };
    tokio::pin!(running);
    let reason = tokio::select! {
        reason = &mut running => reason,
        () = connection.outbox.gone.cancelled() => {
            connection.stop.cancel();
            settle(&connection, options.stop_grace).await;
            ExitReason::ClientGone
        }
        // All is answered that will be. The library itself would wait seconds for a call that does not stop.
        () = connection.ended.cancelled() => ExitReason::InputEnded,
    };
    connection.stop.cancel();
    flush(&connection, options.flush_grace).await;
    connection.outbox.close();
    match (reason, connection.take_fault()) {
        (failed @ ExitReason::Failed(_), _) | (failed, None) => failed,
        (_, Some(fault)) => ExitReason::Failed(fault),
    }
}

/// Gives cancelled calls the time to stop.
async fn settle(connection: &Connection, grace: Duration) {
    if timeout(grace, connection.in_flight.settled()).await.is_err() {
        tracing::warn!("calls did not stop in time and are abandoned");
    }
}

async fn flush(connection: &Connection, stall: Duration) {
    if !connection.outbox.flushed(stall).await {
        tracing::warn!("the client does not read: the last answers are lost");
    }
}
