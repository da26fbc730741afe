//! Upstream servers of a session: their tools among its own.
//!
//! Answers for connecting servers to the session's catalogue, and for carrying calls of their tools out. Leaves out the
//! connections (`upstream`) and whether a call may be made, which is judged like any other.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use devloop_contract::failure::FailureBody;
use devloop_core::catalogue::names::{is_of, served};
use devloop_core::catalogue::{ConnectionState, Notice, Offered, Refused, Replaced};
use devloop_core::text::harmless;
use serde_json::{Map, Value, json};

use super::{Answer, Inner, Runner, RunnerCall, RunnerError, Session, ToolRunner};
use crate::call::{Boxed, Passed, text_block};
use crate::upstream::{CallError, CallOptions, CatalogueSink, McpConfig, OURS, Options, Sink, Upstreams};

/// The largest answer of a server that is read; what is too large for a model becomes an artifact.
pub(crate) const LARGEST_ANSWER: usize = 16 << 20;

/// How long the first list of tools waits for servers that are connecting.
const PATIENCE: Duration = Duration::from_secs(5);

/// As much as a server may say beside an answer, as JSON.
const META_BYTES: usize = 64 << 10;

/// As many different things are logged about what one server offers.
const LOGGED: usize = 100;

/// As many characters of each.
const LOGGED_CHARS: usize = 500;

impl Session {
    /// Connects the servers of a configuration; returns at once. Their tools appear in the
    /// [catalogue](Self::catalogue) as they come, under `<server>__<tool>`, deferred, and are asked for unless a rule
    /// allows them. A session is connected once.
    ///
    /// # Errors
    /// It was connected before, or closed.
    ///
    /// # Panics
    /// Outside a tokio runtime with input, output and time.
    pub fn connect(&self, config: McpConfig, options: &Options) -> Result<(), ConnectError> {
        if self.inner.closed.load(Ordering::Acquire) {
            return Err(ConnectError::Closed);
        }
        if self.inner.upstreams.get().is_some() {
            return Err(ConnectError::AlreadyConnected);
        }
        let way: Arc<OnceLock<Weak<Upstreams>>> = Arc::default();
        let runners = Arc::clone(&way);
        let runner = move |server: &str, _tool: &Arc<_>| {
            Runner::new(ServersTool {
                server: server.to_owned(),
                way: Arc::clone(&runners),
            })
        };
        let sink: Arc<dyn Sink> = Arc::new(Watched {
            into: CatalogueSink::new(Arc::clone(&self.inner.catalogue), runner),
            session: Arc::downgrade(&self.inner),
            logged: Logged::default(),
        });
        let upstreams = Arc::new(Upstreams::start(config, options, &sink));
        // Nobody else sets it.
        let _ = way.set(Arc::downgrade(&upstreams));
        self.inner
            .upstreams
            .set(upstreams)
            .map_err(|_| ConnectError::AlreadyConnected)?;
        self.inner.has_servers.store(true, Ordering::Release);
        self.inner.catalogue.phase_changed();
        Ok(())
    }

    /// The upstream servers, once [connected](Self::connect).
    pub fn upstreams(&self) -> Option<&Arc<Upstreams>> {
        self.inner.upstreams.get()
    }

    /// Why a tool is not there that has the name of one of an upstream server which is not connected, or whose tools are
    /// not there.
    pub(super) fn server_not_there(&self, tool: &str) -> Option<FailureBody> {
        let statuses = self.inner.upstreams.get()?.statuses();
        let status = statuses.into_iter().find(|status| is_of(&status.server, tool))?;
        let state = match status.state {
            ConnectionState::Connected => match status.refused {
                // What was taken before it is there still.
                Some(reason) if status.tools == 0 => format!("is connected, and its tools are not: {reason}"),
                None if !status.listed => "has not listed its tools yet".to_owned(),
                _ => return self.set_aside(&status.server, tool),
            },
            ConnectionState::Connecting => "is being connected".to_owned(),
            ConnectionState::Closed => "was closed".to_owned(),
            ConnectionState::Lost { reason } => format!("was lost and is connected again: {reason}"),
            ConnectionState::Failed { reason } => format!("cannot be connected: {reason}"),
        };
        let reason = format!(
            "there is no tool `{tool}` now; its upstream server `{}` {state}",
            status.server
        );
        let hint = "Try later, or go on without it.".to_owned();
        Some(FailureBody::of_path("server_down", reason, hint))
    }

    /// Why a tool is not there that its server offers, and that cannot be served.
    fn set_aside(&self, server: &str, tool: &str) -> Option<FailureBody> {
        let quarantined = self.inner.catalogue.quarantined();
        let of_server = quarantined.get(server)?;
        let set_aside = of_server.iter().find(|found| served(server, &found.name) == tool)?;
        let why: String = set_aside.reason.chars().take(LOGGED_CHARS).collect();
        let reason = format!("the tool `{tool}` cannot be served and was set aside: {why}");
        let hint = format!("Go on without it; only whoever keeps the upstream server `{server}` can mend it.");
        Some(FailureBody::of_path("tool_set_aside", reason, hint))
    }

    /// Waits, and not long, until the tools of the server are there that a tool belongs to by its name.
    pub(super) async fn server_settled(&self, tool: &str) {
        let Some(upstreams) = self.inner.upstreams.get() else {
            return;
        };
        for status in upstreams.statuses() {
            if is_of(&status.server, tool) {
                upstreams
                    .server_settled(&status.server, upstreams.began() + PATIENCE)
                    .await;
            }
        }
    }

    /// Waits once, and not long, until the servers' tools are there or are known not to come.
    pub(super) async fn upstreams_settled(&self) {
        let Some(upstreams) = self.inner.upstreams.get() else {
            return;
        };
        self.inner
            .waited
            .get_or_init(|| async {
                upstreams.settled(PATIENCE).await;
            })
            .await;
    }
}

/// Puts everything into the session's catalogue, and forgets what a person allowed of tools that are others now: the yes
/// was for what they said of themselves then. What is not taken is logged, as no face shows it.
struct Watched<S> {
    into: S,
    session: Weak<Inner>,
    logged: Logged,
}

impl<S: Sink> Sink for Watched<S> {
    fn tools(&self, server: &str, offered: Vec<Offered>) -> Result<Replaced, Refused> {
        let session = self.session.upgrade();
        // Held from before the tools are others: in between a yes for the old ones would count for the new.
        let memory = session.as_ref().map(|session| session.memory.lock());
        let replaced = self.into.tools(server, offered)?;
        if let Some(memory) = memory {
            let mut memory = memory.unwrap_or_else(PoisonError::into_inner);
            for tool in replaced.updated.iter().chain(&replaced.removed) {
                memory.forget(tool);
            }
        }
        for tool in &replaced.quarantined {
            self.logged.warn(server, &format!("the tool {tool} is set aside"));
        }
        Ok(replaced)
    }

    fn gone(&self, server: &str) {
        self.into.gone(server);
    }

    fn notice(&self, notice: Notice) {
        // What a list as a whole is not taken for; single tools were told by their names.
        if let Notice::Log(line) = &notice
            && line.logger.as_deref() == Some(OURS)
            && line.level == "error"
            && let Value::String(text) = &line.data
        {
            let text = text.replacen("\n- ", ": ", 1).replace("\n- ", "; ");
            self.logged.warn(&line.server, &text);
        }
        self.into.notice(notice);
    }
}

/// What was logged about each server: each thing once, as a list that did not change for the better comes again and again.
#[derive(Debug, Default)]
struct Logged(Mutex<HashMap<String, HashSet<String>>>);

impl Logged {
    fn warn(&self, server: &str, text: &str) {
        let text: String = harmless(text).chars().take(LOGGED_CHARS).collect();
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_server = logged.entry(server.to_owned()).or_default();
        if of_server.len() > LOGGED || of_server.contains(&text) {
            return;
        }
        let server = harmless(server);
        if of_server.len() == LOGGED {
            tracing::warn!(
                server,
                "more of what this upstream server offers is not taken; `devloop mcp tools` shows all of it"
            );
        } else {
            tracing::warn!(server, "{text}");
        }
        of_server.insert(text);
    }
}

/// Why a session was not connected to upstream servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectError {
    /// It is connected already.
    AlreadyConnected,
    /// It was closed.
    Closed,
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AlreadyConnected => "the session is connected to its upstream servers already",
            Self::Closed => "the session was closed",
        })
    }
}

impl std::error::Error for ConnectError {}

/// Carries out the calls of one server's tools.
struct ServersTool {
    server: String,
    /// Weak, as the servers hold the catalogue that holds this.
    way: Arc<OnceLock<Weak<Upstreams>>>,
}

impl ToolRunner for ServersTool {
    fn run(&self, call: RunnerCall) -> Boxed<'_, Result<Answer, RunnerError>> {
        Box::pin(async move {
            let Some(upstreams) = self.way.get().and_then(Weak::upgrade) else {
                return Err(failure(&CallError::Down {
                    server: self.server.clone(),
                    reason: "the session has ended".to_owned(),
                }));
            };
            let arguments = match call.input {
                Value::Object(arguments) => arguments,
                _ => serde_json::Map::new(),
            };
            let options = CallOptions {
                timeout: call.tool.timeout,
                cancel: call.cancel,
                progress: call.progress,
                max_result_bytes: Some(LARGEST_ANSWER),
            };
            let answer = upstreams
                .call(&self.server, &call.tool.source, arguments, options)
                .await;
            answer
                .map(|value| Answer::Passed(passed(value)))
                .map_err(|error| failure(&error))
        })
    }
}

/// A `CallToolResult` as it came. What is not as the protocol has it is passed on as text: nothing is lost.
fn passed(answer: Value) -> Passed {
    let said = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text = |value: &Value| text_block(&said(value));
    let Value::Object(mut answer) = answer else {
        return Passed::of_text(&said(&answer));
    };
    let is_error = answer.get("isError") == Some(&Value::Bool(true));
    let mut content = match answer.remove("content") {
        Some(Value::Array(content)) => content,
        None | Some(Value::Null) => Vec::new(),
        Some(other) => vec![other],
    };
    for block in content.iter_mut().filter(|block| !block.is_object()) {
        *block = text(block);
    }
    let structured_content = match answer.remove("structuredContent") {
        None | Some(Value::Null) => None,
        Some(object @ Value::Object(_)) => Some(object),
        Some(other) => {
            content.push(text(&other));
            None
        }
    };
    let meta = match answer.remove("_meta") {
        Some(Value::Object(meta)) => passed_on(meta),
        _ => None,
    };
    Passed {
        content,
        structured_content,
        is_error,
        meta,
    }
}

/// What a server says beside an answer, but for what the protocol says of one connection by it.
fn passed_on(mut meta: Map<String, Value>) -> Option<Map<String, Value>> {
    meta.retain(|key, _| !is_of_the_protocol(key));
    if meta.is_empty() {
        return None;
    }
    let size = Value::from(meta.clone()).to_string().len();
    if size > META_BYTES {
        tracing::debug!(
            size,
            "what a server says beside its answer is too large to be passed on"
        );
        return None;
    }
    Some(meta)
}

/// Whether the protocol keeps a key of `_meta` for itself: one without a prefix that it has always had, or one whose prefix
/// has `modelcontextprotocol` or `mcp` as a label.
fn is_of_the_protocol(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, _)) => prefix
            .split('.')
            .any(|label| matches!(label, "modelcontextprotocol" | "mcp")),
        None => key == "progressToken",
    }
}

/// What an agent is told when a server gave no answer.
fn failure(error: &CallError) -> RunnerError {
    if *error == CallError::Cancelled {
        return RunnerError::Cancelled;
    }
    let hint = match error {
        CallError::UnknownServer { .. } => "Call one of those that there are.",
        CallError::Down { .. } => "The next call tries to connect it again: try later, or go on without it.",
        CallError::Lost { .. } => "Look at what it did before you call again. It is connected again by itself.",
        CallError::TimedOut { .. } => "Ask for less at once, or go on without it.",
        CallError::TooLarge { .. } => "Ask for less at once.",
        CallError::Refused { .. } | CallError::Cancelled => {
            "Mend the call by what the server says, or go on without it."
        }
    };
    let details = match error {
        CallError::Refused { code, data, .. } => Some(json!({ "code": code, "data": data })),
        _ => None,
    };
    RunnerError::Expected(Box::new(FailureBody {
        ok: false,
        code: error.code().to_owned(),
        reason: error.to_string(),
        hint: Some(hint.to_owned()),
        details,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_as_the_protocol_has_it_is_told_all_the_same() {
        let texts = |answer: Value| {
            let passed = passed(answer);
            let texts = passed
                .content
                .iter()
                .map(|block| block["text"].as_str().unwrap_or("?").to_owned());
            (texts.collect::<Vec<_>>(), passed.structured_content, passed.is_error)
        };
        let said = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(texts(json!("plain")), (said(&["plain"]), None, false));
        assert_eq!(texts(json!([1, 2])), (said(&["[1,2]"]), None, false));
        assert_eq!(
            texts(json!({ "content": "plain", "isError": true })),
            (said(&["plain"]), None, true)
        );
        assert_eq!(
            texts(json!({ "content": [1, "two"] })),
            (said(&["1", "two"]), None, false)
        );
        let structured = json!({ "content": [], "structuredContent": [1] });
        assert_eq!(texts(structured), (said(&["[1]"]), None, false));
        let fine = json!({ "content": [{ "type": "text", "text": "a" }], "structuredContent": { "a": 1 } });
        assert_eq!(texts(fine), (said(&["a"]), Some(json!({ "a": 1 })), false));
        assert_eq!(texts(json!({})), (said(&[]), None, false));
    }

    #[test]
    fn what_a_server_says_beside_its_answer_is_passed_on_but_for_the_protocols_own() {
        let meta = |meta: Value| passed(json!({ "content": [], "_meta": meta })).meta.map(Value::from);
        let own = json!({
            "progressToken": 1,
            "io.modelcontextprotocol/related-task": {},
            "mcp.dev/x": 1,
            "example.com/cost": 3,
            "plain": true,
        });
        assert_eq!(meta(own), Some(json!({ "example.com/cost": 3, "plain": true })));
        for nothing in [json!({}), json!([1]), json!({ "a": "x".repeat(META_BYTES) })] {
            assert_eq!(meta(nothing), None);
        }
    }
}
