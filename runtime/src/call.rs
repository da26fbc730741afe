//! A call as every face sees it: what goes in, what comes out.
//!
//! Answers for the data of one call and the trait that a face calls through. Leaves out the wire forms: each face
//! renders a [`CallOutcome`] its own way.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use devloop_contract::{FailureBody, InternalError, ValidationError};
use devloop_core::catalogue::{Catalogue, Change};
use devloop_core::events::Subscription;
use devloop_core::registry::Definition;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::caught::Panic;

/// A future that a trait object gives.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

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
    /// Who is asked when a rule wants a person's consent; without anybody such a call is refused.
    pub approver: Option<Arc<dyn Approver>>,
}

impl CallRequest {
    /// A call that nobody cancels, watches or is asked about.
    pub fn new(tool: impl Into<String>, arguments: Map<String, Value>, tool_use_id: impl Into<String>) -> Self {
        Self {
            tool: tool.into(),
            arguments,
            tool_use_id: tool_use_id.into(),
            cancel: CancellationToken::new(),
            progress: None,
            approver: None,
        }
    }
}

/// A question to a person: may this call run?
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ask {
    /// The tool.
    pub tool: String,
    /// Its human name.
    pub title: String,
    /// What the call is to rules: `Tool` or `Tool(content)`.
    pub signature: String,
    /// What would be remembered for the rest of the session; nothing when that is forbidden.
    pub rule: Option<String>,
    /// Why somebody is asked.
    pub reason: String,
    /// The input as built.
    pub input: Value,
}

/// What a person says to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Yes, this once.
    Once,
    /// Yes, and whatever the rule covers for the rest of the session.
    Session,
    /// No.
    Denied {
        /// In the person's own words, when there are any.
        reason: Option<String>,
    },
    /// The answer comes with the same call, made again: [`CallOutcome::NeedsApproval`].
    Later,
    /// There is nobody to ask.
    Nobody {
        /// Why.
        reason: String,
    },
}

/// Asks a person.
#[doc(alias = "HumanInTheLoop")]
#[doc(alias = "canUseTool")]
pub trait Approver: fmt::Debug + Send + Sync {
    /// Asks. The call waits for the answer as long as it takes, or until it is cancelled.
    fn approve(&self, ask: Ask) -> Boxed<'_, Approval>;
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
    /// The tool did its job: `{ok: true, …}` for tools of specs; a host's own tools answer what they like.
    Success(Value),
    /// The answer of an upstream server, as it came.
    Passed(Passed),
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
    /// A person must say yes first, and is asked by whoever made the call; nothing ran. Comes only from an approver that
    /// answers [`Approval::Later`].
    NeedsApproval(Box<Ask>),
    /// No tool of this agent has that name.
    UnknownTool {
        /// The name called.
        name: String,
        /// The nearest names that would work.
        nearest: Vec<String>,
    },
}

/// An upstream server's answer to a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Passed {
    /// Blocks of content, in the form of the protocol.
    pub content: Vec<Value>,
    /// The answer as data, when the server gives it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// Whether the server calls it a failure.
    pub is_error: bool,
    /// What the server says about the answer beside it.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
}

impl Passed {
    /// An answer that is one text.
    pub(crate) fn of_text(text: &str) -> Self {
        Self {
            content: vec![text_block(text)],
            ..Self::default()
        }
    }
}

/// A block of content that is a text.
pub(crate) fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

impl CallOutcome {
    /// An internal error under its id.
    pub(crate) fn internal(error: &InternalError, error_id: String) -> Self {
        Self::Internal {
            message: error.to_string(),
            chain: error.chain(),
            error_id,
            hint: error.hint().to_owned(),
        }
    }

    /// The way of a call broke off, which is logged here; of a tool that does so its session tells.
    pub(crate) fn broke_off(panic: Panic) -> Self {
        let error = InternalError::new("the call broke off", panic);
        let error_id = format!("err-{}", uuid::Uuid::now_v7());
        tracing::error!(error_id, "{}", error.chain());
        Self::internal(&error, error_id)
    }

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
            Self::Passed(answer) => json!(answer),
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
            Self::NeedsApproval(ask) => failure("approval_required", ask.reason.clone(), None, Some(json!(ask))),
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
    // A chain of ours begins with the message; a host's need not.
    if chain.starts_with(message) {
        chain.to_owned()
    } else {
        format!("{message}: {chain}")
    }
}

/// Which tools are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Those that are shown now: deferred ones only once they were searched for.
    Shown,
    /// All of them: for a client that defers by itself.
    Every,
}

/// Tells that the tools have changed.
#[derive(Debug)]
pub struct Changes(Subscription<Change>);

impl Changes {
    /// What a catalogue tells from now on.
    pub fn of<R>(catalogue: &Catalogue<R>) -> Self {
        Self(catalogue.subscribe())
    }

    /// Waits for a change, and then until there was none for 50 ms, one second at most: a storm is told once. `false`
    /// when it was stopped instead, or the catalogue is gone.
    pub async fn settled(&mut self, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => return false,
            change = self.0.recv() => if change.is_none() { return false },
        }
        let latest = Instant::now() + Duration::from_secs(1);
        while Instant::now() < latest
            && let Ok(Some(_)) = timeout(Duration::from_millis(50), self.0.recv()).await
        {}
        true
    }
}

/// What a face needs: the tools of one agent, and a way to call them.
pub trait ToolService: Send + Sync + 'static {
    /// The tools, sorted by name. Touches no disk.
    fn tools(&self, listing: Listing) -> Vec<Arc<Definition>>;

    /// Another number whenever [`tools`](Self::tools) gives something else.
    fn revision(&self) -> u64 {
        0
    }

    /// Tells that the tools have changed; nothing when they never do.
    fn changes(&self) -> Option<Changes> {
        None
    }

    /// Ends when the tools are all there that come by themselves, or no longer worth waiting for.
    fn ready(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Carries out one call. Never panics, always answers. A session waits up to five seconds, once, for upstream servers
    /// that are still connecting when no tool has the name.
    fn call(&self, request: CallRequest) -> impl Future<Output = CallOutcome> + Send;

    /// Answers a call that its face has no room for: nothing is done. A service that keeps records of calls keeps one.
    fn turned_away(&self, request: CallRequest, why: FailureBody) -> impl Future<Output = CallOutcome> + Send {
        let _ = request;
        ready(CallOutcome::Expected(why))
    }

    /// What the server tells a client about itself and the role that it serves.
    fn instructions(&self) -> String;
}
