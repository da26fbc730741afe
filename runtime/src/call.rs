//! A call as every face sees it: what goes in, what comes out.
//!
//! Answers for the data of one call and the trait that a face calls through. Leaves out the wire forms: each face
//! renders a [`CallOutcome`] its own way.

use std::future::Future;

use devloop_contract::{FailureBody, Tool, ValidationError};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// One call of one tool.
#[derive(Debug)]
pub struct CallRequest {
    /// The name that the caller used: a tool's name or an alias.
    pub tool: String,
    /// The arguments as they came.
    pub arguments: Map<String, Value>,
    /// Names this one call, unique over connections; ARCHITECTURE.md, "Names of a call".
    pub tool_use_id: String,
    /// Cancelled when the caller no longer wants the result.
    pub cancel: CancellationToken,
    /// Where progress goes, when the caller asked for it.
    pub progress: Option<mpsc::UnboundedSender<Progress>>,
}

/// A step of a long call.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// How far, strictly increasing within a call.
    pub done: f64,
    /// Out of how much, when known.
    pub total: Option<f64>,
    /// What is going on.
    pub message: Option<String>,
}

/// How a call ended. Every call ends in exactly one of these; none panics out.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// The tool did its job: `{ok: true, …}`.
    Success(Value),
    /// A failure that the tool's contract foresees.
    Expected(FailureBody),
    /// The input was refused; nothing ran.
    Invalid(ValidationError),
    /// A path was refused.
    Sandbox {
        /// `Sandbox violation:{agent} tried to write {path}`.
        message: String,
        /// What about the path, and what the agent may write.
        hint: Option<String>,
    },
    /// Something broke that the agent cannot mend.
    Internal {
        /// What was being done.
        message: String,
        /// The chain of causes.
        chain: String,
        /// Names the entry in the log.
        error_id: String,
        /// What the agent should do.
        hint: String,
    },
    /// The caller cancelled, and the call stopped or never started.
    Cancelled,
    /// No tool of this agent has that name.
    UnknownTool {
        /// The name called.
        name: String,
        /// The nearest names that would work.
        nearest: Vec<String>,
    },
}

impl CallOutcome {
    /// The outcome as one JSON object, for faces without a wire form of their own: the result itself, or
    /// `{ok: false, code, reason, hint?, details?}` with a code of the call path's own where the tool has none.
    pub fn to_json(&self) -> Value {
        let failure = |code: &str, reason: String, hint: Option<String>, details: Option<Value>| {
            json!(FailureBody {
                ok: false,
                code: code.to_owned(),
                reason,
                hint,
                details
            })
        };
        match self {
            Self::Success(value) => value.clone(),
            Self::Expected(body) => json!(body),
            Self::Invalid(error) => failure("invalid_input", error.to_string(), None, Some(json!(error))),
            Self::Sandbox { message, hint } => failure("sandbox_violation", message.clone(), hint.clone(), None),
            Self::Internal {
                message,
                chain,
                error_id,
                hint,
            } => failure(
                "internal",
                with_causes(message, chain),
                Some(hint.clone()),
                Some(json!({ "error_id": error_id, "chain": chain })),
            ),
            Self::Cancelled => failure("cancelled", "the call was cancelled".to_owned(), None, None),
            Self::UnknownTool { name, nearest } => failure(
                "unknown_tool",
                format!("this agent has no tool `{name}`"),
                (!nearest.is_empty()).then(|| format!("The nearest are {}.", nearest.join(", "))),
                Some(json!({ "nearest": nearest })),
            ),
        }
    }
}

/// What broke, with its causes.
pub(crate) fn with_causes(message: &str, chain: &str) -> String {
    // A chain begins with the message, unless it comes from a panic.
    if chain.starts_with(message) {
        chain.to_owned()
    } else {
        format!("{message}: {chain}")
    }
}

/// What a face needs: the tools of one agent, and a way to call them.
pub trait ToolService: Send + Sync + 'static {
    /// The tools served, sorted by name. Touches no disk.
    fn tools(&self) -> &[&'static Tool];

    /// Carries out one call. Never panics, always answers.
    fn call(&self, request: CallRequest) -> impl Future<Output = CallOutcome> + Send;

    /// What the server tells a client about itself and the role that it serves.
    fn instructions(&self) -> &str;
}
