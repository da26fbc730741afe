//! Bytes to frames: newline-delimited JSON-RPC, with an answer for every frame that has an id.
//!
//! Answers for judging each line: a message for the protocol library, or a refusal with the id it must be sent to. It does
//! no input or output. Leaves out how lines are cut (`lines`) and what depends on other frames (an id that is already in
//! flight, the opening of a session): that is `transport`.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorCode,
    ErrorData, GetExtensions, ListToolsRequest, NumberOrString, PaginatedRequestParams, RequestId, RequestMetaObject,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::json::{self, Duplicate, IdScanner, kind};
use crate::lines::{Line, Lines};

/// The longest line that is read, in bytes, without its newline.
pub(super) const LINE_LIMIT: usize = 16 * 1024 * 1024;

/// What a frame takes in memory is its length, and so much for each JSON value in it: a list of numbers takes far more than
/// the two bytes that each of them has in the frame. A generous estimate, so that nobody gets by it.
pub(super) const VALUE_BYTES: usize = 128;

/// What one line turned out to be.
#[derive(Debug)]
pub(super) enum Frame {
    /// A message.
    Message {
        /// The message itself.
        message: Box<ClientJsonRpcMessage>,
        /// What a request takes in memory ([`VALUE_BYTES`]).
        bytes: usize,
    },
    /// A frame that must be refused. `Null` as the id means that none could be read.
    Refused(Refused),
    /// A frame that needs no answer and has no use; the text is for the log.
    Dropped(String),
}

/// A refusal, ready to be sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    /// The id of the frame, as it came.
    pub(super) id: Value,
    /// What is wrong.
    pub(super) error: WireError,
}

/// The `error` of a JSON-RPC answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct WireError {
    /// The JSON-RPC code.
    pub(super) code: i32,
    /// What was found, what is expected.
    pub(super) message: String,
}

impl Refused {
    /// A refusal of a request whose id is known.
    pub(super) fn new(id: Value, code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            id,
            error: WireError {
                code: code.0,
                message: message.into(),
            },
        }
    }
}

impl Serialize for Refused {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;

        // Written by hand because the library leaves a null id out, and JSON-RPC asks for it.
        let mut frame = serializer.serialize_struct("Refused", 3)?;
        frame.serialize_field("jsonrpc", "2.0")?;
        frame.serialize_field("id", &self.id)?;
        frame.serialize_field("error", &self.error)?;
        frame.end()
    }
}

/// Cuts bytes into lines and judges them.
#[derive(Debug)]
pub(super) struct Framer {
    lines: Lines,
    limit: usize,
}

impl Framer {
    /// A framer for lines of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            lines: Lines::new(limit),
            limit,
        }
    }

    /// Takes the next bytes, however they were cut, and appends the frames that they complete.
    pub(super) fn push(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) {
        self.lines.push(bytes, |line| judge_line(line, self.limit, frames));
    }

    /// The stream has ended. A last line without a newline counts as a line: whoever pipes one frame in expects it
    /// to be answered.
    pub(super) fn end(&mut self, frames: &mut Vec<Frame>) {
        self.lines.finish(|line| judge_line(line, self.limit, frames));
    }
}

fn judge_line(line: Line<'_>, limit: usize, frames: &mut Vec<Frame>) {
    match line {
        Line::Whole(line) => judge(line, frames),
        Line::TooLong { id, .. } => frames.push(Frame::Refused(Refused::new(
            id,
            ErrorCode::PARSE_ERROR,
            format!("the frame is longer than {limit} bytes; put large data into a file and pass its path"),
        ))),
    }
}

/// Judges one line.
fn judge(line: &[u8], frames: &mut Vec<Frame>) {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return;
    }
    let parsed = match json::parse(line) {
        Ok(parsed) => parsed,
        Err(error) => {
            let mut scanner = IdScanner::default();
            scanner.feed(line);
            frames.push(Frame::Refused(Refused::new(
                scanner.finish(),
                ErrorCode::PARSE_ERROR,
                not_json(&error),
            )));
            return;
        }
    };
    match parsed.value {
        Value::Object(object) => {
            let values = object.values().map(count).sum::<usize>().saturating_add(1);
            let mut frame = judge_object(object, parsed.duplicate);
            if let Frame::Message { bytes, .. } = &mut frame {
                *bytes = values.saturating_mul(VALUE_BYTES).saturating_add(line.len());
            }
            frames.push(frame);
        }
        Value::Array(batch) => judge_batch(&batch, frames),
        other => frames.push(Frame::Refused(Refused::new(
            Value::Null,
            ErrorCode::INVALID_REQUEST,
            format!(
                "a frame is a JSON object with `jsonrpc` and `method`, found {}",
                kind(&other)
            ),
        ))),
    }
}

/// How many values there are in a value, with itself.
fn count(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(count).sum(),
        _ => 0,
    };
    inner.saturating_add(1)
}

fn message(message: ClientJsonRpcMessage) -> Frame {
    let message = Box::new(message);
    Frame::Message { message, bytes: 0 }
}

/// Why a line is not JSON. The parser's own words for half a surrogate pair tell nobody what to mend.
fn not_json(error: &serde_json::Error) -> String {
    let mut message = format!("the frame is not JSON: {error}");
    if message.contains("hex escape") {
        message.push_str("; the escapes \\ud800 to \\udfff are halves and must come in pairs");
    }
    message
}

/// Batches were part of one protocol version only and no client sends them; every id in one is told so.
fn judge_batch(batch: &[Value], frames: &mut Vec<Frame>) {
    let refuse = |id: &Value| {
        Frame::Refused(Refused::new(
            id.clone(),
            ErrorCode::INVALID_REQUEST,
            "batches are not supported: send each request as a frame of its own, on a line of its own",
        ))
    };
    let before = frames.len();
    frames.extend(
        batch
            .iter()
            .filter_map(|element| element.get("id"))
            .filter(|id| is_id(id))
            .map(refuse),
    );
    if frames.len() == before {
        frames.push(refuse(&Value::Null));
    }
}

fn judge_object(mut object: Map<String, Value>, duplicate: Option<Duplicate>) -> Frame {
    let raw_id = object.shift_remove("id");
    let echo = raw_id.clone().filter(is_id).unwrap_or(Value::Null);
    let refuse = |code, message: String| Frame::Refused(Refused::new(echo.clone(), code, message));

    let method = match object.shift_remove("method") {
        Some(Value::String(method)) => method,
        Some(other) => {
            return refuse(
                ErrorCode::INVALID_REQUEST,
                format!("`method` must be a string, found {}", kind(&other)),
            );
        }
        None if object.contains_key("result") || object.contains_key("error") => {
            return judge_answer(object, raw_id.as_ref(), duplicate);
        }
        None => return refuse(ErrorCode::INVALID_REQUEST, "the frame has no `method`".into()),
    };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return refuse(ErrorCode::INVALID_REQUEST, "`jsonrpc` must be \"2.0\"".into());
    }
    let params = object.shift_remove("params");

    let Some(raw_id) = raw_id else {
        return if let Some(duplicate) = duplicate {
            Frame::Dropped(format!("notification {method:?} has a {duplicate}"))
        } else {
            judge_notification(&method, params)
        };
    };
    let id = match request_id(&raw_id) {
        Ok(id) => id,
        Err(message) => return refuse(ErrorCode::INVALID_REQUEST, message),
    };
    if let Some(duplicate) = duplicate {
        return refuse(ErrorCode::INVALID_PARAMS, duplicate.to_string());
    }
    if !SERVED_METHODS.contains(&&*method) {
        return refuse(
            ErrorCode::METHOD_NOT_FOUND,
            format!(
                "there is no method {:?} here; this server answers {}",
                method.chars().take(METHOD_SHOWN).collect::<String>(),
                SERVED_METHODS.join(", ")
            ),
        );
    }
    let request = match params {
        Some(params @ (Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_))) => {
            Err(format!("`params` must be an object, found {}", kind(&params)))
        }
        Some(Value::Object(params)) => typed(method, Some(params)),
        None | Some(Value::Null) => typed(method, None),
    };
    match request {
        Ok(request) => message(ClientJsonRpcMessage::request(request, id)),
        Err(message) => refuse(ErrorCode::INVALID_PARAMS, message),
    }
}

/// What a client says to a request of this server. One that cannot be read is an error to whoever waits for it.
fn judge_answer(mut object: Map<String, Value>, id: Option<&Value>, duplicate: Option<Duplicate>) -> Frame {
    let Some(Ok(id)) = id.map(request_id) else {
        return Frame::Dropped("an answer without the id of a request".into());
    };
    let problem = if let Some(duplicate) = duplicate {
        Some(duplicate.to_string())
    } else if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        Some("`jsonrpc` must be \"2.0\"".to_owned())
    } else {
        None
    };
    let answer = match (problem, object.shift_remove("result"), object.shift_remove("error")) {
        (Some(problem), _, _) => Err(problem),
        (None, Some(result), None) => serde_json::from_value(result)
            .map(|result| ClientJsonRpcMessage::response(result, id.clone()))
            .map_err(|error| format!("`result`: {error}")),
        (None, None, Some(error)) => serde_json::from_value(error)
            .map(|error| ClientJsonRpcMessage::error(error, Some(id.clone())))
            .map_err(|error| format!("`error`: {error}")),
        (None, ..) => Err("it has a `result` and an `error`".to_owned()),
    };
    message(answer.unwrap_or_else(|problem| {
        let error = ErrorData::invalid_request(format!("the answer cannot be read: {problem}"), None);
        ClientJsonRpcMessage::error(error, Some(id))
    }))
}

fn typed(method: String, params: Option<Map<String, Value>>) -> Result<ClientRequest, String> {
    match method.as_str() {
        "tools/call" => call(params.unwrap_or_default()),
        "tools/list" => list(params.unwrap_or_default()),
        "resources/list" | "resources/templates/list" | "prompts/list" => {
            if let Some(params) = &params {
                cursor(params.get("cursor").cloned())?;
            }
            other_request(method, params)
        }
        _ => other_request(method, params),
    }
}

/// The library takes a cursor that is no string for none, and would start over.
fn cursor(value: Option<Value>) -> Result<Option<String>, String> {
    match value {
        Some(Value::String(cursor)) => Ok(Some(cursor)),
        None | Some(Value::Null) => Ok(None),
        Some(other) => Err(format!("`params.cursor` must be a string, found {}", kind(&other))),
    }
}

/// A `tools/list`, built by hand: the library's own way tries every request type in turn.
fn list(mut params: Map<String, Value>) -> Result<ClientRequest, String> {
    let cursor = cursor(params.shift_remove("cursor"))?;
    let mut request = ListToolsRequest::with_param(PaginatedRequestParams::default().with_cursor(cursor));
    if let Some(meta) = meta(&mut params)? {
        request.extensions.insert(meta);
    }
    Ok(ClientRequest::ListToolsRequest(request))
}

/// A `tools/call`, built by hand: it is the frame that comes thousands of times, and the library's own way tries every
/// request type in turn.
fn call(mut params: Map<String, Value>) -> Result<ClientRequest, String> {
    let name = match params.shift_remove("name") {
        Some(Value::String(name)) => name,
        Some(other) => return Err(format!("`params.name` must be a string, found {}", kind(&other))),
        None => return Err("`params.name` is missing: name the tool to call".into()),
    };
    let arguments = match params.shift_remove("arguments") {
        Some(Value::Object(arguments)) => arguments,
        None | Some(Value::Null) => Map::new(),
        Some(other) => {
            return Err(format!(
                "`params.arguments` must be an object, found {}; send {{}} when the tool needs none",
                kind(&other)
            ));
        }
    };
    let mut call = CallToolRequestParams::new(name).with_arguments(arguments);
    match params.shift_remove("inputResponses") {
        Some(Value::Object(responses)) => call = call.with_input_responses(responses.into_iter().collect()),
        None | Some(Value::Null) => {}
        Some(other) => {
            return Err(format!(
                "`params.inputResponses` must be an object, found {}",
                kind(&other)
            ));
        }
    }
    match params.shift_remove("requestState") {
        Some(Value::String(state)) => call = call.with_request_state(state),
        None | Some(Value::Null) => {}
        Some(other) => {
            return Err(format!(
                "`params.requestState` must be a string, found {}",
                kind(&other)
            ));
        }
    }
    let mut request = CallToolRequest::new(call);
    if let Some(meta) = meta(&mut params)? {
        request.extensions.insert(meta);
    }
    Ok(ClientRequest::CallToolRequest(request))
}

/// Every other request that is served, as the library types it.
fn other_request(method: String, params: Option<Map<String, Value>>) -> Result<ClientRequest, String> {
    let mut params = params;
    let meta = params.as_mut().map_or(Ok(None), meta)?;
    if method == "initialize" {
        fits_initialize(params.as_ref())?;
    }
    let mut frame = Map::new();
    frame.insert("method".into(), Value::String(method));
    if let Some(params) = params {
        frame.insert("params".into(), Value::Object(params));
    }
    let mut request: ClientRequest =
        serde_json::from_value(Value::Object(frame)).map_err(|error| format!("`params`: {error}"))?;
    // The library takes what fits no method it knows as a custom request; with a method that it does know, the
    // parameters did not fit.
    if let ClientRequest::CustomRequest(custom) = &request {
        return Err(unfit(&custom.method, custom.params.as_ref()));
    }
    if let Some(meta) = meta {
        request.extensions_mut().insert(meta);
    }
    Ok(request)
}

/// A place in parameters, what must be there, and whether a value is that.
type Needed = (&'static [&'static str], &'static str, fn(&Value) -> bool);

/// What is wrong with parameters of a method that is known, as far as that is certain: a text that it needs is missing.
fn unfit(method: &str, params: Option<&Value>) -> String {
    let needed: &[&str] = match method {
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => &["uri"],
        "tools/call" | "prompts/get" => &["name"],
        _ => &[],
    };
    for field in needed {
        match params.and_then(|params| params.get(*field)) {
            None => return format!("`params.{field}` is missing: it must be a string"),
            Some(Value::String(_)) => {}
            Some(other) => return format!("`params.{field}` must be a string, found {}", kind(other)),
        }
    }
    format!("`params` do not fit the method {method}")
}

/// Whether the parameters of an `initialize` have what the library asks for: it would not say which is missing.
fn fits_initialize(params: Option<&Map<String, Value>>) -> Result<(), String> {
    let needed: [Needed; 5] = [
        (&["protocolVersion"], "a string", Value::is_string),
        (&["capabilities"], "an object", Value::is_object),
        (&["clientInfo"], "an object", Value::is_object),
        (&["clientInfo", "name"], "a string", Value::is_string),
        (&["clientInfo", "version"], "a string", Value::is_string),
    ];
    for (path, expected, fits) in needed {
        let found = path[1..]
            .iter()
            .fold(params.and_then(|params| params.get(path[0])), |value, key| {
                value?.get(key)
            });
        let place = path.join(".");
        match found {
            None => return Err(format!("`params.{place}` is missing: it must be {expected}")),
            Some(value) if !fits(value) => {
                return Err(format!("`params.{place}` must be {expected}, found {}", kind(value)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// As many characters of an unknown method are repeated to the client.
const METHOD_SHOWN: usize = 64;

/// The methods that this server answers.
const SERVED_METHODS: [&str; 11] = [
    "initialize",
    "server/discover",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "subscriptions/listen",
];

/// Takes `_meta` out of parameters.
fn meta(params: &mut Map<String, Value>) -> Result<Option<RequestMetaObject>, String> {
    match params.shift_remove("_meta") {
        Some(Value::Object(meta)) => Ok(Some(meta.into())),
        None | Some(Value::Null) => Ok(None),
        Some(other) => Err(format!("`params._meta` must be an object, found {}", kind(&other))),
    }
}

fn judge_notification(method: &str, params: Option<Value>) -> Frame {
    let mut frame = Map::new();
    frame.insert("method".into(), Value::String(method.to_owned()));
    if let Some(params) = params {
        frame.insert("params".into(), params);
    }
    match serde_json::from_value::<ClientNotification>(Value::Object(frame)) {
        Ok(ClientNotification::CustomNotification(_)) => Frame::Dropped(format!("unknown notification {method:?}")),
        Ok(notification) => message(ClientJsonRpcMessage::notification(notification)),
        Err(error) => Frame::Dropped(format!("notification {method:?} cannot be read: {error}")),
    }
}

/// Whether an id can be sent back as it came.
fn is_id(id: &Value) -> bool {
    matches!(id, Value::String(_) | Value::Number(_))
}

fn request_id(id: &Value) -> Result<RequestId, String> {
    // The largest integer that every client's number type holds exactly.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    match id {
        Value::String(id) => Ok(NumberOrString::String(id.as_str().into())),
        Value::Number(number) => {
            if let Some(number) = number.as_i64() {
                return Ok(NumberOrString::Number(number));
            }
            // `7.0` is the integer 7 to every client that writes it.
            match number.as_f64() {
                #[expect(clippy::cast_possible_truncation, reason = "integral and within ±2^53")]
                Some(number) if number.fract() == 0.0 && number.abs() < MAX_EXACT => {
                    Ok(NumberOrString::Number(number as i64))
                }
                _ => Err(format!(
                    "`id` must be a string or an integer below 2^63, found {number}"
                )),
            }
        }
        other => Err(format!("`id` must be a string or an integer, found {}", kind(other))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames_of(chunks: &[&[u8]], limit: usize) -> Vec<Frame> {
        let mut framer = Framer::new(limit);
        let mut seen = Vec::new();
        for chunk in chunks {
            framer.push(chunk, &mut seen);
        }
        framer.end(&mut seen);
        seen
    }

    #[test]
    fn a_request_takes_its_length_and_so_much_for_each_value() {
        for (line, values) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, 4),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,[],{"b":null}]}}}"#,
                12,
            ),
        ] {
            let frames = frames_of(&[line.as_bytes()], LINE_LIMIT);
            let [Frame::Message { bytes, .. }] = &frames[..] else {
                panic!("{frames:?}")
            };
            assert_eq!(*bytes, line.len() + values * 128, "{line}");
        }
        assert!(size_of::<Value>() <= VALUE_BYTES);
    }

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            (any::<i64>(), "[a-z/]{0,8}")
                .prop_map(|(id, method)| { format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#) }),
            ("[a-z]{0,4}", ".{0,9}").prop_map(|(name, text)| {
                serde_json::json!({"jsonrpc": "2.0", "id": name, "method": "tools/call",
                    "params": {"name": name, "arguments": {"text": text}}})
                .to_string()
            }),
            ".{0,40}",
            Just(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":[]}}"#.to_owned()),
            Just(format!(
                r#"{{"jsonrpc":"2.0","method":"{}","id":3}}"#,
                "long".repeat(40)
            )),
        ]
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_the_bytes_are_cut(
            lines in proptest::collection::vec(line(), 0..8),
            ends in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r\n")], 8),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
            limit in 1_usize..160,
        ) {
            let text: Vec<u8> = lines.iter().zip(&ends).flat_map(|(line, end)| [line.as_str(), end]).collect::<String>().into();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(format!("{:?}", frames_of(&chunks, limit)), format!("{:?}", frames_of(&[&text], limit)));
        }

        #[test]
        fn every_object_with_an_id_and_a_method_is_a_message_or_refused_to_that_id(
            id in prop_oneof![any::<i64>().prop_map(Value::from), ".{0,12}".prop_map(Value::from)],
            method in "tools/call|tools/list|ping|initialize|[a-z]{1,5}",
            params in "null|5|\\[\\]|\\{\\}|\\{\"name\":(1|\"x\"),\"arguments\":(2|\\{\\}|\\[\\])\\}|\\{\"a\":1,\"a\":2\\}|\\{",
        ) {
            let text = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":{id}}}"#);
            let frames = frames_of(&[text.as_bytes()], LINE_LIMIT);
            let [frame] = &frames[..] else {
                return Err(TestCaseError::fail(format!("{text}: {frames:?}")));
            };
            let answered_to = match frame {
                Frame::Message { message, .. } => match &**message {
                    ClientJsonRpcMessage::Request(request) => request.id.clone().into_json_value(),
                    other => return Err(TestCaseError::fail(format!("{text}: {other:?}"))),
                },
                Frame::Refused(refused) if params == "{" => {
                    // The object never closes; so its `id` stands inside `params`, and none can be read.
                    prop_assert_eq!(&refused.id, &Value::Null);
                    return Ok(());
                }
                Frame::Refused(refused) => refused.id.clone(),
                Frame::Dropped(what) => return Err(TestCaseError::fail(format!("{text}: {what}"))),
            };
            prop_assert_eq!(answered_to, id);
        }
    }
}
