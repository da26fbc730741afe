//! Upstream servers of a session: their tools among its own.
//!
//! Answers for connecting servers to the session's catalogue, and for carrying calls of their tools out. Leaves out the
//! connections (`upstream`) and whether a call may be made, which is judged like any other.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use devloop_contract::failure::FailureBody;
use serde_json::{Value, json};

use super::{Answer, Runner, RunnerCall, RunnerError, Session, ToolRunner};
use crate::call::{Boxed, Passed};
use crate::upstream::{CallError, CallOptions, CatalogueSink, McpConfig, Options, Sink, Upstreams};

/// The largest answer of a server that is read; what is too large for a model becomes an artifact.
pub(crate) const LARGEST_ANSWER: usize = 16 << 20;

/// How long the first list of tools waits for servers that are connecting.
const PATIENCE: Duration = Duration::from_secs(5);

impl Session {
    /// Connects the servers of a configuration; returns at once. Their tools appear in the
    /// [catalogue](Self::catalogue) as they come, under `<server>__<tool>`, deferred, and are asked for unless a rule
    /// allows them. A session is connected once.
    ///
    /// # Errors
    /// It was connected before.
    ///
    /// # Panics
    /// Outside a tokio runtime with input, output and time.
    pub fn connect(&self, config: McpConfig, options: &Options) -> Result<(), AlreadyConnected> {
        if self.inner.upstreams.get().is_some() {
            return Err(AlreadyConnected);
        }
        let way: Arc<OnceLock<Weak<Upstreams>>> = Arc::default();
        let runners = Arc::clone(&way);
        let runner = move |server: &str, _tool: &Arc<_>| {
            Runner::new(ServersTool {
                server: server.to_owned(),
                way: Arc::clone(&runners),
            })
        };
        let sink: Arc<dyn Sink> = Arc::new(CatalogueSink::new(Arc::clone(&self.inner.catalogue), runner));
        let upstreams = Arc::new(Upstreams::start(config, options, &sink));
        // Nobody else sets it.
        let _ = way.set(Arc::downgrade(&upstreams));
        self.inner.upstreams.set(upstreams).map_err(|_| AlreadyConnected)
    }

    /// The upstream servers, once [connected](Self::connect).
    pub fn upstreams(&self) -> Option<&Arc<Upstreams>> {
        self.inner.upstreams.get()
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

/// A session has one set of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyConnected;

impl std::fmt::Display for AlreadyConnected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the session is connected to its upstream servers already")
    }
}

impl std::error::Error for AlreadyConnected {}

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

/// A `CallToolResult` as it came.
fn passed(mut answer: Value) -> Passed {
    let content = match answer.get_mut("content").map(Value::take) {
        Some(Value::Array(content)) => content,
        _ => Vec::new(),
    };
    let structured = answer.get_mut("structuredContent").map(Value::take);
    Passed {
        content,
        // By the protocol it is an object; of what is none, the text says as much.
        structured_content: structured.filter(Value::is_object),
        is_error: answer.get("isError") == Some(&Value::Bool(true)),
    }
}

/// What an agent is told when a server gave no answer.
fn failure(error: &CallError) -> RunnerError {
    if *error == CallError::Cancelled {
        return RunnerError::Cancelled;
    }
    let hint = match error {
        CallError::UnknownServer { .. } => "Call one of those that there are.",
        CallError::Down { .. } => "It is connected again by itself: try later, or go on without it.",
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
