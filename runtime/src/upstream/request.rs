//! One request to a server, from the wish to the answer.
//!
//! Answers for waiting until there is a connection, for the time limit, cancellation, progress and the size of the
//! answer, and for saying what became of a request whose server is gone. Leaves out what is asked.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use devloop_core::catalogue::ConnectionState;
use devloop_core::text::json_bytes;
use rmcp::RoleClient;
use rmcp::ServiceError;
use rmcp::model::{CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest, RequestId};
use rmcp::service::{Peer, PeerRequestOptions};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::board::Board;
use super::live::Live;
use super::server::Server;
use super::wire::raw;
use super::{text, wire};
use crate::call::Progress;

/// After a connection broke, the reason is waited for so long.
const REASON: Duration = Duration::from_secs(3);

/// How a request is made.
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// From the wish to the answer, waiting for a connection included.
    pub timeout: Duration,
    /// Cancelled when nobody wants the answer any more; the server is told.
    pub cancel: CancellationToken,
    /// Where progress goes, in strictly rising steps.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
    /// The largest answer, as JSON.
    pub max_result_bytes: Option<usize>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(3),
            cancel: CancellationToken::new(),
            progress: None,
            max_result_bytes: None,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum CallError {
    /// There is no such server.
    UnknownServer {
        /// The name that was asked for.
        server: String,
        /// The nearest ones that there are.
        nearest: Vec<String>,
    },
    /// The server can't be reached; nothing was sent.
    Down {
        /// Which.
        server: String,
        /// Why.
        reason: String,
    },
    /// The connection broke after the request was sent: whether it was carried out is not known.
    Lost {
        /// Which.
        server: String,
        /// Why.
        reason: String,
    },
    /// The server did not answer in time.
    TimedOut {
        /// Which.
        server: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// The caller cancelled.
    Cancelled,
    /// The answer is too large.
    TooLarge {
        /// Which.
        server: String,
        /// How large it is.
        bytes: u64,
        /// The largest that is taken.
        limit: u64,
        /// The answer, when it is small enough to be held in memory: it may be kept somewhere else.
        result: Option<Box<Value>>,
    },
    /// The server answered with an error.
    Refused {
        /// Which.
        server: String,
        /// The JSON-RPC code.
        code: i32,
        /// What the server says.
        message: String,
        /// What it says beside that.
        data: Option<Value>,
    },
}

impl CallError {
    /// A short name of the kind.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownServer { .. } => "unknown_server",
            Self::Down { .. } => "server_down",
            Self::Lost { .. } => "server_lost",
            Self::TimedOut { .. } => "tool_timeout",
            Self::Cancelled => "cancelled",
            Self::TooLarge { .. } => "too_large",
            Self::Refused { .. } => "server_error",
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownServer { server, nearest } => {
                write!(f, "there is no upstream server `{}`", text::cut(server, 80))?;
                if !nearest.is_empty() {
                    write!(f, "; the nearest are {}", nearest.join(", "))?;
                }
                Ok(())
            }
            Self::Down { server, reason } => write!(
                f,
                "the upstream server `{server}` can't be reached ({reason}); nothing was sent, so the call may be \
                 repeated"
            ),
            Self::Lost { server, reason } => write!(
                f,
                "the upstream server `{server}` went away during the call ({reason}); it may have done its work or a \
                 part of it, so look before repeating the call"
            ),
            Self::TimedOut { server, after } => write!(
                f,
                "the upstream server `{server}` did not answer within {} s and was told to stop",
                after.as_secs_f64()
            ),
            Self::Cancelled => f.write_str("the call was cancelled"),
            Self::TooLarge {
                server, bytes, limit, ..
            } => write!(
                f,
                "the answer of the upstream server `{server}` has {bytes} bytes; at most {limit} are taken: ask for less \
                 at once"
            ),
            Self::Refused {
                server, code, message, ..
            } => write!(
                f,
                "the upstream server `{server}` answered with an error: {message} ({code})"
            ),
        }
    }
}

impl Error for CallError {}

/// Makes a request and waits for its answer. What a server has certainly not taken is sent once more, over a new
/// connection: it may have been started anew since.
pub(super) async fn request(
    server: &Arc<Server>,
    request: ClientRequest,
    options: &CallOptions,
) -> Result<Value, CallError> {
    // A longer time than the clock has is no limit.
    let far = Duration::from_hours(365 * 24);
    let deadline = Instant::now() + options.timeout.min(far);
    let live = connected(server, options, deadline).await?;
    if let Some(ended) = once(server, &live, request.clone(), options, deadline).await {
        return ended;
    }
    server.fades(live.epoch);
    let live = connected(server, options, deadline).await?;
    if let Some(ended) = once(server, &live, request, options, deadline).await {
        return ended;
    }
    server.fades(live.epoch);
    Err(down(server, why_lost(server, &live).await))
}

/// Sends a request over a connection and waits for its answer. `None` when the server has not taken it.
async fn once(
    server: &Arc<Server>,
    live: &Live,
    request: ClientRequest,
    options: &CallOptions,
    deadline: Instant,
) -> Option<Result<Value, CallError>> {
    let _counted = server.count_call();
    let sent = live
        .peer
        .send_request_with_option(request, PeerRequestOptions::no_options())
        .await;
    // The connection had ended.
    let mut handle = sent.ok()?;
    if let Some(progress) = &options.progress {
        live.board.follow(&handle.progress_token, progress.clone());
    }
    let id = handle.id.clone();
    let mut pending = Pending {
        peer: handle.peer.clone(),
        board: Arc::clone(&live.board),
        id: Some(id.clone()),
        token: handle.progress_token.clone(),
        reason: "nobody waits for the answer any more",
    };
    let answer = tokio::select! {
        biased;
        answer = &mut handle.rx => answer.ok(),
        () = options.cancel.cancelled() => {
            pending.reason = "the caller cancelled";
            return Some(Err(CallError::Cancelled));
        }
        () = sleep_until(deadline) => {
            pending.reason = "it took too long";
            return Some(Err(timed_out(server, options)));
        }
        () = live.fate.sealed() => None,
    };
    pending.id = None;
    let lost = |reason: String| CallError::Lost {
        server: server.name.to_string(),
        reason,
    };
    Some(match answer {
        Some(Ok(result)) => fits(server, raw(result), options),
        Some(Err(ServiceError::McpError(error))) if error.code == wire::TOO_LONG => Err(CallError::TooLarge {
            server: server.name.to_string(),
            bytes: error.data.as_ref().and_then(Value::as_u64).unwrap_or_default(),
            limit: server.options.line_bytes as u64,
            result: None,
        }),
        Some(Err(ServiceError::McpError(error))) if error.code == wire::LOST => {
            Err(lost(server.config.redacted(&error.message)))
        }
        Some(Err(ServiceError::McpError(error))) => Err(CallError::Refused {
            server: server.name.to_string(),
            code: error.code.0,
            message: server.config.redacted(&text::cut(&error.message, 2_000)),
            data: error.data.map(|data| text::cut_json(data, 2_000)),
        }),
        _ if live.fate.was_not_taken(&id) => return None,
        // The library says so of a single stream of events as well.
        Some(Err(ServiceError::TransportClosed)) if !live.peer.is_transport_closed() && live.fate.why().is_none() => {
            Err(lost("it ended the stream of its answer without an answer".to_owned()))
        }
        _ => Err(lost(why_lost(server, live).await)),
    })
}

fn fits(server: &Server, result: Value, options: &CallOptions) -> Result<Value, CallError> {
    if let Some(limit) = options.max_result_bytes {
        let bytes = json_bytes(&result);
        if bytes > limit {
            return Err(CallError::TooLarge {
                server: server.name.to_string(),
                bytes: bytes as u64,
                limit: limit as u64,
                result: Some(Box::new(result)),
            });
        }
    }
    Ok(result)
}

fn timed_out(server: &Server, options: &CallOptions) -> CallError {
    CallError::TimedOut {
        server: server.name.to_string(),
        after: options.timeout,
    }
}

/// The connection, once there is one. An attempt that fails is waited for once more: it may have begun before.
async fn connected(server: &Server, options: &CallOptions, deadline: Instant) -> Result<Arc<Live>, CallError> {
    let mut known = server.watch();
    // The last attempt that had ended when it was first seen that there is no connection.
    let mut first = None;
    loop {
        {
            let known = known.borrow_and_update();
            // What is on one that has an end would be told that end, though the server may carry it out.
            if let Some(live) = known.live.as_ref().filter(|live| live.fate.why().is_none()) {
                return Ok(Arc::clone(live));
            }
            match &known.state {
                ConnectionState::Lost { reason } | ConnectionState::Failed { reason } => {
                    // Other things may have changed since, so that this is seen again.
                    let ended = known.ended.as_ref().map(|(epoch, _)| *epoch);
                    if *first.get_or_insert(ended) != ended {
                        return Err(down(server, reason.clone()));
                    }
                    server.want();
                }
                ConnectionState::Closed => return Err(down(server, "it was closed".to_owned())),
                ConnectionState::Connecting | ConnectionState::Connected => {}
            }
        }
        tokio::select! {
            biased;
            changed = known.changed() => {
                if changed.is_err() {
                    return Err(down(server, "it was closed".to_owned()));
                }
            }
            () = options.cancel.cancelled() => return Err(CallError::Cancelled),
            () = sleep_until(deadline) => {
                let seconds = options.timeout.as_secs_f64();
                return Err(down(server, format!("there is no connection after {seconds} s")));
            }
        }
    }
}

fn down(server: &Server, reason: String) -> CallError {
    CallError::Down {
        server: server.name.to_string(),
        reason,
    }
}

/// Why the connection that was used is no more.
async fn why_lost(server: &Server, used: &Live) -> String {
    if let Some((reason, _)) = used.fate.why() {
        return server.config.redacted(&reason);
    }
    let mut known = server.watch();
    let told = known.wait_for(|known| known.ended.as_ref().is_some_and(|(epoch, _)| *epoch >= used.epoch));
    match timeout(REASON, told).await {
        Ok(Ok(known)) => match &known.ended {
            Some((epoch, reason)) if *epoch == used.epoch => reason.clone(),
            _ => "the connection broke".to_owned(),
        },
        _ => "the connection broke".to_owned(),
    }
}

/// A request that was sent. Dropped while it waits, the server is told that nobody does any more.
struct Pending {
    peer: Peer<RoleClient>,
    board: Arc<Board>,
    id: Option<RequestId>,
    token: rmcp::model::ProgressToken,
    reason: &'static str,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.board.forget(&self.token);
        if let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) {
            let peer = self.peer.clone();
            let params = CancelledNotificationParam::new(Some(id), Some(self.reason.to_owned()));
            let cancelled = CancelledNotification::new(params);
            runtime.spawn(async move {
                // It may be gone.
                let _ = peer
                    .send_notification(ClientNotification::CancelledNotification(cancelled))
                    .await;
            });
        }
    }
}
