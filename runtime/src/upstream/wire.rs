//! What goes over the pipes of a server, for the protocol library.
//!
//! Answers for lines in bounded memory, for lines that are no frames, for results that are passed on as they came, and
//! for notifications in their order: the library would try every type of result in turn, drop without a word what it
//! can't parse, and give each notification to a task of its own. Leaves out what notifications mean.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerNotification, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::json::{self, IdScanner};
use crate::lines::{Line, Lines};

/// The code of the error that stands for an answer which was too long to keep.
pub(super) const TOO_LONG: ErrorCode = ErrorCode(-32_099);

/// The code of the error that stands for an answer which broke off on its way.
pub(super) const LOST: ErrorCode = ErrorCode(-32_098);

/// The code of the error that stands for an answer which cannot be read: that of JSON-RPC for what is no JSON.
pub(super) const UNREADABLE: ErrorCode = ErrorCode::PARSE_ERROR;

/// The most bytes that wait for a server to read them. One that reads nothing and asks much is answered no more.
const MOST_UNREAD: usize = 64 << 20;

/// How much is read at once.
const READ: usize = 64 * 1024;

/// As many characters of what is no frame are passed on.
const GARBAGE: usize = 500;

/// Who is told of what the server says by itself.
pub(super) trait Listener: Send + Sync + 'static {
    /// Anything came.
    fn heard(&self);

    /// A notification came. Told in order, before anything that came after it is passed on.
    fn notified(&self, method: &str, params: Value);

    /// Something came that is no frame.
    fn garbage(&self, text: &str);
}

/// The transport over the pipes of a program.
pub(super) struct Pipes {
    out: mpsc::UnboundedSender<Outgoing>,
    /// The bytes that wait to be written.
    unread: Arc<AtomicUsize>,
    input: ChildStdout,
    buffer: Vec<u8>,
    lines: Lines,
    pending: VecDeque<ServerJsonRpcMessage>,
    /// Requests whose results the library itself looks into.
    typed: HashSet<RequestId>,
    listener: Arc<dyn Listener>,
    /// The program has ended.
    gone: CancellationToken,
    over: bool,
}

struct Outgoing {
    frame: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl Pipes {
    /// Lines longer than `limit` are skipped. When `gone` is cancelled, what was written is still read.
    pub(super) fn new(
        stdin: ChildStdin,
        stdout: ChildStdout,
        limit: usize,
        listener: Arc<dyn Listener>,
        gone: CancellationToken,
    ) -> Self {
        let (out, queue) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        tokio::spawn(write(stdin, queue, Arc::clone(&unread)));
        Self {
            out,
            unread,
            input: stdout,
            buffer: vec![0; READ],
            lines: Lines::new(limit),
            pending: VecDeque::new(),
            typed: HashSet::new(),
            listener,
            gone,
            over: false,
        }
    }

    fn take(&mut self, count: usize) {
        let Self {
            lines,
            buffer,
            pending,
            typed,
            listener,
            ..
        } = self;
        lines.push(&buffer[..count], |line| judge(line, pending, typed, &**listener));
    }

    fn finish(&mut self) {
        self.over = true;
        let Self {
            lines,
            pending,
            typed,
            listener,
            ..
        } = self;
        lines.finish(|line| judge(line, pending, typed, &**listener));
    }
}

/// Writes frames in order until nobody sends any more; then the input of the program ends.
async fn write(mut stdin: ChildStdin, mut queue: mpsc::UnboundedReceiver<Outgoing>, unread: Arc<AtomicUsize>) {
    while let Some(Outgoing { frame, written }) = queue.recv().await {
        let result = match stdin.write_all(&frame).await {
            Ok(()) => stdin.flush().await,
            Err(error) => Err(error),
        };
        unread.fetch_sub(frame.len(), Ordering::AcqRel);
        // Whoever sent it may have gone.
        let _ = written.send(result);
    }
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(&mut self, item: ClientJsonRpcMessage) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &item
            && let ClientRequest::InitializeRequest(_)
            | ClientRequest::DiscoverRequest(_)
            | ClientRequest::SubscriptionsListenRequest(_) = &request.request
        {
            self.typed.insert(request.id.clone());
        }
        // Queued before the future is polled, so that frames keep the order in which they were sent.
        let sent = serde_json::to_vec(&item)
            .map_err(io::Error::other)
            .and_then(|mut frame| {
                frame.push(b'\n');
                let (written, answer) = oneshot::channel();
                let (size, before) = (frame.len(), self.unread.fetch_add(frame.len(), Ordering::AcqRel));
                if before > 0 && before + size > MOST_UNREAD {
                    self.unread.fetch_sub(size, Ordering::AcqRel);
                    let message = format!("the server does not read: {before} bytes wait for it");
                    return Err(io::Error::other(message));
                }
                let outgoing = Outgoing { frame, written };
                self.out
                    .send(outgoing)
                    .map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                Ok(answer)
            });
        async move { sent?.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into())) }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.pending.pop_front() {
                return Some(message);
            }
            if self.over {
                return None;
            }
            let gone = self.gone.clone();
            let read = tokio::select! {
                biased;
                read = self.input.read(&mut self.buffer) => read,
                // Something else may hold the other end of the pipe; what is in it by now was read above.
                () = gone.cancelled() => Ok(0),
            };
            match read {
                Ok(0) | Err(_) => self.finish(),
                Ok(count) => self.take(count),
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

fn judge(
    line: Line<'_>,
    pending: &mut VecDeque<ServerJsonRpcMessage>,
    typed: &mut HashSet<RequestId>,
    listener: &dyn Listener,
) {
    listener.heard();
    match line {
        Line::TooLong { id, bytes } => match request_id(&id) {
            Some(id) => pending.push_back(too_long(id, bytes)),
            None => listener.garbage(&format!("(a line of {bytes} bytes without an id)")),
        },
        Line::Whole(line) => {
            let line = line.trim_ascii();
            if line.is_empty() {
                return;
            }
            // Duplicate keys are the server's own affair.
            // A text cut inside of a character is told with a mark in its place.
            match parse(line) {
                Ok(Value::Object(frame)) => {
                    if let Err(frame) = read_frame(frame, pending, typed, listener) {
                        listener.garbage(&cut(&frame));
                    }
                }
                // One protocol version had batches.
                Ok(Value::Array(batch)) if batch.iter().all(Value::is_object) && !batch.is_empty() => {
                    for frame in batch {
                        if let Value::Object(frame) = frame
                            && let Err(frame) = read_frame(frame, pending, typed, listener)
                        {
                            listener.garbage(&cut(&frame));
                        }
                    }
                }
                parsed => {
                    let shown = cut(&String::from_utf8_lossy(&line[..line.len().min(4 * GARBAGE)]));
                    listener.garbage(&shown);
                    // Whoever waits for this answer must not wait for ever.
                    let mut scanner = IdScanner::default();
                    scanner.feed(line);
                    if let (Err(error), Some(id)) = (parsed, request_id(&scanner.finish())) {
                        let message = format!("the answer is no JSON that can be read: {error}");
                        let error = ErrorData::new(UNREADABLE, message, Some(shown.into()));
                        pending.push_back(ServerJsonRpcMessage::error(error, Some(id)));
                    }
                }
            }
        }
    }
}

/// A frame; what only fails for half a character is read with a mark in its place.
fn parse(line: &[u8]) -> Result<Value, serde_json::Error> {
    json::parse(line).map(|parsed| parsed.value).or_else(|error| {
        let text = String::from_utf8_lossy(line);
        let mended = without_lone_surrogates(&text);
        json::parse(mended.as_bytes())
            .map(|parsed| parsed.value)
            .map_err(|_| error)
    })
}

/// JSON text in which each half of a surrogate pair that stands alone is the replacement character.
fn without_lone_surrogates(text: &str) -> String {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut mended = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        let here = at + found;
        mended.push_str(&text[at..here]);
        let (taken, kept) = match (unit(here), unit(here + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (12, true),
            (Some(0xD800..=0xDFFF), _) => (6, false),
            // With what it escapes, which may be another backslash.
            _ => (1 + text[here + 1..].chars().next().map_or(0, char::len_utf8), true),
        };
        mended.push_str(if kept { &text[here..here + taken] } else { "\\ufffd" });
        at = here + taken;
    }
    mended.push_str(&text[at..]);
    mended
}

fn too_long(id: RequestId, bytes: u64) -> ServerJsonRpcMessage {
    let error = ErrorData::new(TOO_LONG, "the answer is too long", Some(json!(bytes)));
    ServerJsonRpcMessage::error(error, Some(id))
}

fn read_frame(
    mut frame: Map<String, Value>,
    pending: &mut VecDeque<ServerJsonRpcMessage>,
    typed: &mut HashSet<RequestId>,
    listener: &dyn Listener,
) -> Result<(), String> {
    let is_method = frame.get("method").is_some_and(Value::is_string);
    let id = frame.get("id").and_then(request_id);
    match id {
        None if is_method => {
            let Some(Value::String(method)) = frame.shift_remove("method") else {
                return Ok(());
            };
            let params = frame.shift_remove("params").unwrap_or_default();
            if is_for_library(&method, &params)
                && let Some(message) = notification(&method, &params)
            {
                pending.push_back(message);
            }
            listener.notified(&method, params);
            Ok(())
        }
        Some(_) if is_method => {
            let text = || format!("a request that is none: {}", Value::Object(frame.clone()));
            match serde_json::from_value(Value::Object(frame.clone())) {
                Ok(message) => pending.push_back(message),
                Err(_) => return Err(text()),
            }
            Ok(())
        }
        Some(id) => {
            if let Some(result) = frame.shift_remove("result") {
                let result = if typed.remove(&id) {
                    typed_result(result)
                } else {
                    ServerResult::CustomResult(CustomResult::new(result))
                };
                pending.push_back(ServerJsonRpcMessage::response(result, id));
                return Ok(());
            }
            typed.remove(&id);
            match frame.shift_remove("error") {
                Some(error) => {
                    pending.push_back(ServerJsonRpcMessage::error(server_error(error), Some(id)));
                    Ok(())
                }
                None => Err(Value::Object(frame).to_string()),
            }
        }
        None => Err(Value::Object(frame).to_string()),
    }
}

/// Whether the library keeps account of a notification itself.
pub(super) fn is_for_library(method: &str, params: &Value) -> bool {
    let meta = &params["_meta"];
    method == "notifications/cancelled" || meta.get("io.modelcontextprotocol/subscriptionId").is_some()
}

fn typed_result(result: Value) -> ServerResult {
    match serde_json::from_value(result.clone()) {
        Ok(result) => result,
        Err(_) => ServerResult::CustomResult(CustomResult::new(result)),
    }
}

fn notification(method: &str, params: &Value) -> Option<ServerJsonRpcMessage> {
    let notification: ServerNotification = serde_json::from_value(json!({"method": method, "params": params})).ok()?;
    Some(ServerJsonRpcMessage::notification(notification))
}

/// An error, however badly it is made.
fn server_error(mut error: Value) -> ErrorData {
    let code = error["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    let message = match error.get("message") {
        Some(Value::String(message)) => message.clone(),
        _ => cut(&error.to_string()),
    };
    let data = error.get_mut("data").map(Value::take).filter(|data| !data.is_null());
    ErrorData::new(ErrorCode(code.unwrap_or(ErrorCode::INTERNAL_ERROR.0)), message, data)
}

pub(super) fn request_id(id: &Value) -> Option<RequestId> {
    match id {
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        Value::Number(number) => number.as_i64().map(RequestId::Number),
        _ => None,
    }
}

/// A result as it came, where the transport kept it so.
pub(super) fn raw(result: ServerResult) -> Value {
    match result {
        ServerResult::CustomResult(result) => result.0,
        // What was made from JSON can be written as JSON.
        typed => serde_json::to_value(typed).unwrap_or_default(),
    }
}

fn cut(text: &str) -> String {
    let mut short: String = text.chars().take(GARBAGE).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Seen {
        notified: Mutex<Vec<(String, Value)>>,
        garbage: Mutex<Vec<String>>,
    }

    impl Listener for Seen {
        fn heard(&self) {}

        fn notified(&self, method: &str, params: Value) {
            self.notified
                .lock()
                .expect("no panic")
                .push((method.to_owned(), params));
        }

        fn garbage(&self, text: &str) {
            self.garbage.lock().expect("no panic").push(text.to_owned());
        }
    }

    /// What goes on to the library, which methods were told, and what is garbage.
    fn read(text: &[u8]) -> (Vec<ServerJsonRpcMessage>, Vec<String>, Vec<String>) {
        let (seen, mut pending) = (Seen::default(), VecDeque::new());
        let mut typed = HashSet::from([RequestId::Number(0)]);
        let mut lines = Lines::new(4_096);
        let mut each = |line: Line<'_>| judge(line, &mut pending, &mut typed, &seen);
        lines.push(text, &mut each);
        lines.finish(&mut each);
        let notified = seen.notified.into_inner().expect("no panic");
        let methods = notified.into_iter().map(|(method, _)| method).collect();
        (pending.into(), methods, seen.garbage.into_inner().expect("no panic"))
    }

    #[test]
    fn results_pass_as_they_came_and_errors_however_they_are_made() {
        let (messages, ..) = read(
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"tools\":[{\"unknown\":true}],\"more\":[1]}}\n\
              {\"id\":\"a\",\"error\":\"just text\"}\n\
              {\"id\":2,\"error\":{\"code\":1e99,\"message\":\"m\",\"data\":null}}",
        );
        let JsonRpcMessage::Response(response) = &messages[0] else {
            panic!("{messages:?}");
        };
        let ServerResult::CustomResult(CustomResult(result)) = &response.result else {
            panic!("{response:?}");
        };
        assert_eq!(*result, json!({"tools": [{"unknown": true}], "more": [1]}));
        let errors: Vec<_> = messages[1..]
            .iter()
            .cloned()
            .filter_map(JsonRpcMessage::into_error)
            .collect();
        assert_eq!(
            (&*errors[0].0.message, errors[0].0.code),
            ("\"just text\"", ErrorCode::INTERNAL_ERROR)
        );
        assert_eq!((&*errors[1].0.message, errors[1].0.data.clone()), ("m", None));
    }

    #[test]
    fn of_what_is_no_frame_500_characters_are_told() {
        let told = |length: usize| read(format!("{}\n", "é".repeat(length)).as_bytes()).2;
        assert_eq!(told(500), ["é".repeat(500)]);
        assert_eq!(told(501), [format!("{}…", "é".repeat(500))]);
    }

    #[test]
    fn an_answer_that_is_too_long_is_an_error_of_its_request() {
        let long = format!(
            "{{\"result\":\"{}\",\"id\":7}}\n{{\"id\":8,\"result\":{{}}}}",
            "x".repeat(5_000)
        );
        let (messages, ..) = read(long.as_bytes());
        let JsonRpcMessage::Error(error) = &messages[0] else {
            panic!("{messages:?}");
        };
        assert_eq!(
            (error.id.clone(), error.error.code),
            (Some(RequestId::Number(7)), TOO_LONG)
        );
        assert_eq!(error.error.data, Some(json!(5_020)));
        assert!(matches!(&messages[1], JsonRpcMessage::Response(_)));
    }

    #[test]
    fn notifications_are_told_in_order_and_requests_go_on() {
        let (messages, methods, garbage) = read(
            b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n[{\"method\":\"b\",\"params\":3},{\"method\":\"c\"}]\n\
              {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\nhello\n[]\n{\"id\":1}\n",
        );
        assert_eq!(methods, ["a", "b", "c"]);
        assert!(matches!(&messages[..], [JsonRpcMessage::Request(_)]), "{messages:?}");
        assert_eq!(garbage, ["hello", "[]", "{\"id\":1}"]);
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-z/_]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z_]{0,8}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn an_answer_that_cannot_be_read_ends_its_request_and_half_a_character_is_mended() {
        let answered = |line: &[u8]| {
            let (messages, ..) = read(line);
            match &messages[..] {
                [JsonRpcMessage::Response(response)] => Ok(serde_json::to_value(&response.result).unwrap()),
                [JsonRpcMessage::Error(error)] => Err((error.id.clone(), error.error.code)),
                other => panic!("{other:?}"),
            }
        };
        let mended = json!({ "text": "\u{fffd} x\u{1f600}\\ud800" });
        let half = br#"{"id":3,"result":{"text":"\ud800 x\ud83d\ude00\\ud800"}}"#;
        assert_eq!(answered(half), Ok(mended));
        assert_eq!(
            answered(b"{\"id\":3,\"result\":{\"text\":\"\xff\"}}"),
            Ok(json!({ "text": "\u{fffd}" }))
        );
        let deep = format!(r#"{{"id":3,"result":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        for line in [deep.as_bytes(), br#"{"id":3,"result":1e400}"#, br#"{"id":3,"result":{"#] {
            assert_eq!(answered(line), Err((Some(RequestId::Number(3)), UNREADABLE)));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes: Vec<u8>) {
            read(&bytes);
        }

        #[test]
        fn whatever_a_frame_holds_each_answer_reaches_its_request(
            id in prop_oneof![any::<i64>().prop_map(Value::from), "[a-z]{1,4}".prop_map(Value::from)],
            kind in prop_oneof![Just("result"), Just("error")],
            body in json_value(),
            more in json_value(),
        ) {
            let frame = json!({"id": id, kind: body, "more": more}).to_string();
            let (messages, _, garbage) = read(frame.as_bytes());
            let answered = match &messages[..] {
                [JsonRpcMessage::Response(response)] => Some(response.id.clone()),
                [JsonRpcMessage::Error(error)] => error.id.clone(),
                _ => None,
            };
            prop_assert_eq!(answered, request_id(&id), "{}", garbage.join("|"));
        }
    }
}
