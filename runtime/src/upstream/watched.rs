//! The HTTP client of a connection, watched.
//!
//! Answers for noticing that the server has gone or has forgotten the session, for giving each request an answer when
//! HTTP has one for it, and for errors that say what to do and show no address. The protocol library would take up a
//! stream of events again for ever, wait for an answer that names no request, and tell an error by the names of its
//! types. Leaves out connecting again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use devloop_core::connection::Hope;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue, StatusCode, Uri};
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::json;
use sse_stream::Sse;

use super::fate::Fate;
use super::text;
use super::wire::{LOST, TOO_LONG, UNREADABLE};

/// As much of what a server says beside its status is told.
const SAID_CHARS: usize = 200;

/// What the library's client says of an event that is larger than it may be.
const TOO_LARGE: &str = "exceeded the maximum size";

type HttpError = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;
type Headers = HashMap<HeaderName, HeaderValue>;

/// A client that tells the fate of its connection.
#[derive(Clone)]
pub(super) struct Watched {
    client: reqwest::Client,
    /// Host and port.
    place: Arc<str>,
    limit: usize,
    fate: Arc<Fate>,
    /// Whether the server has served a stream of its own in this connection.
    streams: Arc<AtomicBool>,
}

/// What went wrong with one request.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// Nobody was reached, so nothing was sent.
    Unreachable(String),
    /// The connection broke.
    Broken(String),
    /// The server does not know the session any more, and so has done nothing.
    Session(String),
    /// It answered with a status, and what it says beside that.
    Status(StatusCode, String),
    /// It answered with something that is no answer.
    Nonsense(String),
    /// The answer is larger than it may be.
    TooLarge,
}

impl Watched {
    pub(super) fn new(client: reqwest::Client, address: &Uri, limit: usize, fate: Arc<Fate>) -> Self {
        let host = address.host().unwrap_or_default();
        let place = match address.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Self {
            client,
            place: place.into(),
            limit,
            fate,
            streams: Arc::default(),
        }
    }

    /// What becomes of a message that was not taken as it should be.
    fn failed(
        &self,
        message: &ClientJsonRpcMessage,
        error: HttpError,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let fault = fault(&error);
        let error = without_address(error);
        if makes_the_connection(message) {
            let (reason, hope) = fault.of_a_handshake(&self.place);
            self.fate.seal(reason, hope);
            return Err(error);
        }
        let id = request_id(message);
        let is_over = match &fault {
            Fault::Unreachable(_) | Fault::Broken(_) | Fault::Session(_) => true,
            // What was sent along is not taken any more. Of a single request the server may think that it is not
            // allowed (403), which says nothing of others.
            Fault::Status(status, _) => *status == StatusCode::UNAUTHORIZED,
            Fault::Nonsense(_) | Fault::TooLarge => false,
        };
        if is_over {
            if let (false, Some(id)) = (matches!(fault, Fault::Broken(_)), id) {
                self.fate.not_taken(id);
            }
            self.fate.seal_soon(fault.of_a_connection(&self.place), Hope::Some);
            return Err(error);
        }
        match id {
            Some(id) => {
                let answer = JsonRpcMessage::error(fault.of_a_request(self.limit), Some(id.clone()));
                Ok(StreamableHttpPostResponse::Json(answer, None))
            }
            None => Err(error),
        }
    }

    /// The events of an answer, or of the server itself when they answer no request.
    fn events(&self, events: Events, message: Option<&ClientJsonRpcMessage>) -> Events {
        let watched = self.clone();
        let id = message.and_then(request_id).cloned();
        let listens =
            message.is_some_and(|message| is(message, |it| matches!(it, ClientRequest::SubscriptionsListenRequest(_))));
        // The library takes up again what has numbers.
        let mut numbered = false;
        events
            .map(move |event| {
                let error = match event {
                    Ok(event) => {
                        numbered |= event.id.is_some();
                        return Ok(event);
                    }
                    Err(error) => error,
                };
                let too_large = text::causes(&error).any(|cause| cause.to_string().contains(TOO_LARGE));
                let (fault, error) = if too_large {
                    // The library looks into this error, and it has no address.
                    (Fault::TooLarge, error)
                } else {
                    let cause = cause(&error);
                    (Fault::Broken(cause.clone()), SseError::Body(cause.into()))
                };
                if numbered && !too_large {
                    return Err(error);
                }
                if listens {
                    watched.fate.seal(fault.of_a_connection(&watched.place), Hope::Some);
                }
                let Some(id) = &id else {
                    return Err(error);
                };
                if !too_large {
                    // It may have been this stream alone.
                    watched.fate.doubt();
                }
                let answer: ServerJsonRpcMessage =
                    JsonRpcMessage::error(fault.of_a_request(watched.limit), Some(id.clone()));
                // What is made here can be written as JSON.
                Ok(Sse::default().data(serde_json::to_string(&answer).unwrap_or_default()))
            })
            .boxed()
    }
}

impl StreamableHttpClient for Watched {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let in_session = session.is_some();
        let _sending = self.fate.sending();
        let answer = self
            .client
            .post_message_with_response_limits(uri, message.clone(), session, token, headers, limits)
            .await;
        match answer {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(mut error), session)) => {
                let id = request_id(&message);
                // An error of the request itself names it, and may speak of any sessions that the tools know.
                let names_it = id.is_some() && error.id.as_ref() == id;
                if in_session && !names_it && speaks_of_session(&error.error.message) {
                    return self.failed(&message, StreamableHttpError::SessionExpired);
                }
                if let Some(id) = id {
                    error.id = Some(id.clone());
                }
                Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
            }
            Ok(StreamableHttpPostResponse::Sse(events, session)) => {
                let events = self.events(events, Some(&message));
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            Ok(other) => Ok(other),
            Err(StreamableHttpError::UnexpectedServerResponse(said))
                if in_session && said.starts_with("HTTP 400") && speaks_of_session(&said) =>
            {
                self.failed(&message, StreamableHttpError::SessionExpired)
            }
            Err(error) => self.failed(&message, error),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        // A server that is gone has no session left, and what another one says of it concerns nobody.
        if self.fate.why().is_none() {
            let _ = self.client.delete_session(uri, session, token, headers).await;
        }
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, HttpError> {
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, self.limit)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<Events, HttpError> {
        let again = last_event.is_some() || self.streams.load(Ordering::Relaxed);
        let answer = self
            .client
            .get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, limit)
            .await;
        let error = match answer {
            Ok(events) => {
                self.streams.store(true, Ordering::Relaxed);
                return Ok(self.events(events, None));
            }
            Err(StreamableHttpError::ServerDoesNotSupportSse) => {
                return Err(StreamableHttpError::ServerDoesNotSupportSse);
            }
            Err(error) => error,
        };
        let fault = match fault(&error) {
            Fault::Status(status, _) if again && status.is_client_error() && !may_pass(status) => {
                Fault::Session(format!("HTTP {status}"))
            }
            other => other,
        };
        let is_over = match &fault {
            Fault::Unreachable(_) | Fault::Broken(_) | Fault::Session(_) => true,
            // Something stands before the server, which is not there now.
            Fault::Status(status, _) => again && is_of_a_proxy(*status),
            Fault::Nonsense(_) | Fault::TooLarge => false,
        };
        if is_over {
            self.fate.seal(fault.of_a_connection(&self.place), Hope::Some);
        } else if again {
            return Err(without_address(error));
        }
        // The library goes on for ever with other errors. Where nothing is over, the server has no stream of its own: not
        // every one has, and some say so in another way than they should.
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}

impl Fault {
    /// Of a connection that never came about: why, and whether trying again can help.
    fn of_a_handshake(&self, place: &str) -> (String, Hope) {
        match self {
            Self::Unreachable(cause) => (
                format!("nobody can be reached at {place} ({cause}): start the server, or mend its `url`"),
                Hope::Some,
            ),
            Self::Broken(cause) => (
                format!("the connection broke during the handshake ({cause})"),
                Hope::Some,
            ),
            Self::Session(said) => (
                format!("it ended the session during the handshake ({said})"),
                Hope::Some,
            ),
            Self::Status(status, said) => {
                let hope = if status.is_server_error() || may_pass(*status) {
                    Hope::Some
                } else {
                    Hope::None
                };
                (of_a_status(*status, said), hope)
            }
            Self::Nonsense(what) => (
                format!("what answers at {place} is no MCP server ({what}): mend its `url`"),
                Hope::None,
            ),
            Self::TooLarge => ("its answer to the handshake is too large".to_owned(), Hope::None),
        }
    }

    /// Of a connection that was up.
    fn of_a_connection(&self, place: &str) -> String {
        match self {
            Self::Unreachable(cause) => format!("nobody can be reached at {place} any more ({cause})"),
            Self::Broken(cause) => format!("the connection broke: {cause}"),
            Self::Session(said) => format!("it does not know the session any more ({said})"),
            Self::Status(status, said) => of_a_status(*status, said),
            Self::Nonsense(what) => what.clone(),
            Self::TooLarge => "an event is too large".to_owned(),
        }
    }

    /// Of one request.
    fn of_a_request(&self, limit: usize) -> ErrorData {
        match self {
            Self::TooLarge => ErrorData::new(TOO_LONG, "the answer is too long", Some(json!(limit as u64 + 1))),
            Self::Unreachable(cause) | Self::Broken(cause) | Self::Session(cause) => {
                ErrorData::new(LOST, format!("the stream of its answer broke: {cause}"), None)
            }
            Self::Status(status, said) => {
                ErrorData::new(ErrorCode(i32::from(status.as_u16())), of_a_status(*status, said), None)
            }
            Self::Nonsense(what) => ErrorData::new(UNREADABLE, what.clone(), None),
        }
    }
}

fn of_a_status(status: StatusCode, said: &str) -> String {
    match status {
        StatusCode::UNAUTHORIZED => "it wants to know who asks (HTTP 401): put what it takes into `headers`".to_owned(),
        StatusCode::FORBIDDEN => format!("it does not allow this (HTTP {status}): put what it takes into `headers`"),
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => {
            format!("there is no MCP server at this address (HTTP {status}): mend its `url`")
        }
        _ if status.is_redirection() => format!(
            "it answered with a redirection that is not followed (HTTP {status}): put the address to which it leads into \
             its `url`"
        ),
        _ if said.is_empty() => format!("it answered with HTTP {status}"),
        _ => format!("it answered with HTTP {status}: {said}"),
    }
}

/// Statuses of the client's side that pass by themselves.
fn may_pass(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
    )
}

fn is_of_a_proxy(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

fn fault(error: &HttpError) -> Fault {
    match error {
        StreamableHttpError::Client(error) => match error.status() {
            Some(status) => Fault::Status(status, String::new()),
            None if error.is_connect() => Fault::Unreachable(cause(error)),
            None => Fault::Broken(cause(error)),
        },
        StreamableHttpError::Io(_) | StreamableHttpError::Sse(_) => Fault::Broken(cause(error)),
        StreamableHttpError::SessionExpired => Fault::Session("it answers as if it were another one".to_owned()),
        StreamableHttpError::HttpStatus(error) => match StatusCode::from_u16(error.status) {
            Ok(status) => Fault::Status(status, String::new()),
            Err(_) => Fault::Nonsense(error.to_string()),
        },
        StreamableHttpError::AuthRequired(_) => Fault::Status(StatusCode::UNAUTHORIZED, String::new()),
        StreamableHttpError::InsufficientScope(error) => {
            let scope = error.required_scope.as_deref().unwrap_or_default();
            Fault::Status(StatusCode::FORBIDDEN, text::cut(scope, SAID_CHARS))
        }
        StreamableHttpError::UnexpectedServerResponse(said) => match status(said) {
            Some((status, said)) => Fault::Status(status, said),
            None => Fault::Nonsense(text::cut(said, SAID_CHARS)),
        },
        StreamableHttpError::UnexpectedContentType(kind) => Fault::Nonsense(match kind {
            Some(kind) => format!("it answered with `{}` instead of JSON or events", text::cut(kind, 80)),
            None => "it answered without a type of content".to_owned(),
        }),
        StreamableHttpError::ResponseBodyTooLarge { .. } => Fault::TooLarge,
        other => Fault::Nonsense(other.to_string()),
    }
}

/// The library writes `HTTP 404 Not Found: what the server says`.
fn status(text: &str) -> Option<(StatusCode, String)> {
    let rest = text.strip_prefix("HTTP ")?;
    let status = StatusCode::from_bytes(rest.get(..3)?.as_bytes()).ok()?;
    let said = rest.split_once(": ").map_or("", |(_, said)| said.trim());
    // A page is for people with a browser.
    let said = if said.starts_with('<') { "" } else { said };
    Some((status, text::cut(said.lines().next().unwrap_or_default(), SAID_CHARS)))
}

/// Servers that keep sessions in memory have none after a new start, and not all of them say so by 404.
fn speaks_of_session(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    said.contains("session") || said.contains("not initialized")
}

fn makes_the_connection(message: &ClientJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Notification(it) => {
            matches!(it.notification, ClientNotification::InitializedNotification(_))
        }
        _ => is(message, |it| {
            matches!(
                it,
                ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_)
            )
        }),
    }
}

fn is(message: &ClientJsonRpcMessage, what: impl Fn(&ClientRequest) -> bool) -> bool {
    matches!(message, JsonRpcMessage::Request(it) if what(&it.request))
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// The innermost cause: what lies around it says that a request failed, and shows the address.
fn cause(error: &(dyn Error + 'static)) -> String {
    let innermost = text::causes(error).last().unwrap_or(error);
    text::cut(&innermost.to_string(), SAID_CHARS)
}

/// The address may have a secret in it, and the library writes errors into its log.
fn without_address(error: HttpError) -> HttpError {
    match error {
        StreamableHttpError::Client(error) => StreamableHttpError::Client(error.without_url()),
        StreamableHttpError::UnexpectedServerResponse(said) => {
            StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text::cut(&said, SAID_CHARS)))
        }
        other => other,
    }
}
