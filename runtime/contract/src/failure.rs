//! The failures that a tool's contract foresees.
//!
//! Answers for expected failures (declared in a spec, typed in Rust, shown to the agent as data) and for the type that
//! a handler returns. Leaves out how a face words them: the call path renders a [`FailureBody`].

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{InternalError, ToolError};

/// What a handler returns.
pub type Outcome<O, F> = Result<O, Refusal<F>>;

/// An expected failure of one handler, generated from the `failures:` of its spec.
pub trait ExpectedFailure: fmt::Debug + Send + Sync + 'static {
    /// The stable snake_case code, as in the spec.
    fn code(&self) -> &'static str;
    /// What the code means, as in the spec: the reason when the handler gives no better one.
    fn summary(&self) -> &'static str;
    /// What to do about it, as in the spec.
    fn hint(&self) -> Option<&'static str>;
    /// The data that goes with it, a JSON object, or `None`.
    fn details(&self) -> Option<Value>;
}

/// For a handler whose spec lists no failure of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFailure {}

impl ExpectedFailure for NoFailure {
    fn code(&self) -> &'static str {
        match *self {}
    }
    fn summary(&self) -> &'static str {
        match *self {}
    }
    fn hint(&self) -> Option<&'static str> {
        match *self {}
    }
    fn details(&self) -> Option<Value> {
        match *self {}
    }
}

/// Failures that many tools share. A spec names those it can have under `common_failures:`; another one is a bug of the
/// handler and becomes an internal error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommonFailure {
    /// Another process holds the lock and did not let go within the wait.
    Busy {
        /// Milliseconds waited.
        waited_ms: u64,
        /// Who holds it, as far as the lock file tells.
        holder: Option<String>,
    },
    /// A state file could not be read back; it was set aside, not overwritten.
    StateCorrupt {
        /// The state file, project-relative.
        path: String,
        /// Where its bytes are kept now, project-relative.
        kept_as: String,
        /// What was wrong with it.
        problem: String,
    },
    /// Something is larger than the tool may write or answer.
    TooLarge {
        /// What is too large.
        what: String,
        /// Its size in bytes.
        bytes: u64,
        /// The most that is allowed, in bytes.
        limit: u64,
    },
    /// A quota is used up.
    Quota {
        /// What is counted.
        what: String,
        /// How much is used.
        used: u64,
        /// The most that is allowed.
        limit: u64,
        /// What could make room, best first, as the tool shows it; empty when it does not know.
        candidates: Vec<Value>,
    },
    /// The idempotency key was used before with other input.
    IdempotencyConflict {
        /// The key.
        key: String,
    },
}

impl CommonFailure {
    /// Every code that a spec can name under `common_failures:`, sorted.
    pub const CODES: &'static [&'static str] = &["busy", "idempotency_conflict", "quota", "state_corrupt", "too_large"];

    /// What a code of [`CODES`](Self::CODES) means; `None` for any other.
    pub fn summary_of(code: &str) -> Option<&'static str> {
        Some(match code {
            "busy" => "Another process is writing the same file and did not finish in time.",
            "idempotency_conflict" => "This idempotency key was already used with other input.",
            "quota" => "A quota is used up.",
            "state_corrupt" => "The state file could not be read; it was set aside and nothing was overwritten.",
            "too_large" => "The data is larger than this tool takes.",
            _ => return None,
        })
    }
}

impl ExpectedFailure for CommonFailure {
    fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "busy",
            Self::StateCorrupt { .. } => "state_corrupt",
            Self::TooLarge { .. } => "too_large",
            Self::Quota { .. } => "quota",
            Self::IdempotencyConflict { .. } => "idempotency_conflict",
        }
    }

    fn summary(&self) -> &'static str {
        Self::summary_of(self.code()).unwrap_or_default()
    }

    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Busy { .. } => "Call again in a few seconds.",
            Self::StateCorrupt { .. } => "Call again: the file starts afresh. The old bytes are in `details.kept_as`.",
            Self::TooLarge { .. } => "Put the large part into a file and refer to it.",
            Self::Quota { candidates, .. } if candidates.is_empty() => "Remove or archive something first.",
            Self::Quota { .. } => {
                "Make room first: what matters least is in `details.candidates`; with `supersedes` one new text can replace several."
            }
            Self::IdempotencyConflict { .. } => "Use a new key for new input.",
        })
    }

    fn details(&self) -> Option<Value> {
        Some(match self {
            Self::Busy { waited_ms, holder } => {
                let mut details = Map::new();
                details.insert("waited_ms".into(), json!(waited_ms));
                if let Some(holder) = holder {
                    details.insert("holder".into(), json!(holder));
                }
                Value::Object(details)
            }
            Self::StateCorrupt { path, kept_as, problem } => {
                json!({ "path": path, "kept_as": kept_as, "problem": problem })
            }
            Self::TooLarge { what, bytes, limit } => json!({ "what": what, "bytes": bytes, "limit": limit }),
            Self::Quota {
                what,
                used,
                limit,
                candidates,
            } => {
                let mut details = json!({ "what": what, "used": used, "limit": limit });
                if !candidates.is_empty() {
                    details["candidates"] = json!(candidates);
                }
                details
            }
            Self::IdempotencyConflict { key } => json!({ "key": key }),
        })
    }
}

/// Why a call did not succeed.
#[derive(Debug)]
pub enum Refusal<F> {
    /// A failure that the spec lists.
    Expected {
        /// Which one.
        failure: F,
        /// A reason that fits this call; the spec's summary when absent.
        reason: Option<String>,
    },
    /// A failure that tools share.
    Common(CommonFailure),
    /// Refused input, a refused path, or an internal error.
    Tool(ToolError),
}

/// Gives a failure a reason that fits the call: `Err(Failure::UnknownItem.because("no item step-009"))`.
pub trait Because: ExpectedFailure + Sized {
    /// Wraps the failure with its reason.
    fn because(self, reason: impl Into<String>) -> Refusal<Self> {
        Refusal::Expected {
            failure: self,
            reason: Some(reason.into()),
        }
    }
}

impl<F: ExpectedFailure> Because for F {}

// The bound is what lets this impl stand beside the three below: `ExpectedFailure` is local, so the compiler knows that
// neither `ToolError` nor `io::Error` implements it.
impl<F: ExpectedFailure> From<F> for Refusal<F> {
    fn from(failure: F) -> Self {
        Self::Expected { failure, reason: None }
    }
}

impl<F> From<ToolError> for Refusal<F> {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

impl<F> From<InternalError> for Refusal<F> {
    fn from(error: InternalError) -> Self {
        Self::Tool(ToolError::Internal(error))
    }
}

impl<F> From<io::Error> for Refusal<F> {
    fn from(error: io::Error) -> Self {
        Self::Tool(ToolError::Internal(InternalError::new("file operation failed", error)))
    }
}

/// An expected failure as an agent sees it: `{ok: false, code, reason, hint?, details?}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailureBody {
    /// Always `false`.
    pub ok: bool,
    /// The stable code.
    pub code: String,
    /// What happened, in one sentence.
    pub reason: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Data that goes with the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl FailureBody {
    /// A failure of the call path itself, which no spec lists.
    pub fn of_path(code: &str, reason: impl Into<String>, hint: impl Into<Option<String>>) -> Self {
        Self {
            ok: false,
            code: code.to_owned(),
            reason: reason.into(),
            hint: hint.into(),
            details: None,
        }
    }

    /// Renders a failure; `reason` replaces the spec's summary when given.
    pub fn new(failure: &dyn ExpectedFailure, reason: Option<String>) -> Self {
        Self {
            ok: false,
            code: failure.code().to_owned(),
            reason: reason.unwrap_or_else(|| failure.summary().to_owned()),
            hint: failure.hint().map(str::to_owned),
            details: failure.details(),
        }
    }
}

/// A refusal whose failure is rendered, so that those of different handlers have one type. Made by generated dispatch.
#[derive(Debug)]
pub enum ErasedRefusal {
    /// A failure that the spec lists.
    Expected(Box<FailureBody>),
    /// A failure that tools share.
    Common(CommonFailure),
    /// Refused input, a refused path, or an internal error.
    Tool(ToolError),
}

/// Turns a handler's typed outcome into data.
///
/// # Errors
/// The refusal with its failure rendered; an output that cannot be serialised is an internal error.
pub fn erase<O: Serialize, F: ExpectedFailure>(outcome: Outcome<O, F>) -> Result<Value, ErasedRefusal> {
    match outcome {
        Ok(output) => serde_json::to_value(output).map_err(|error| {
            ErasedRefusal::Tool(ToolError::Internal(InternalError::new("the result is not JSON", error)))
        }),
        Err(Refusal::Expected { failure, reason }) => {
            Err(ErasedRefusal::Expected(Box::new(FailureBody::new(&failure, reason))))
        }
        Err(Refusal::Common(failure)) => Err(ErasedRefusal::Common(failure)),
        Err(Refusal::Tool(error)) => Err(ErasedRefusal::Tool(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_common_failure_has_a_code_in_the_list_and_a_summary() {
        let all = [
            CommonFailure::Busy {
                waited_ms: 1,
                holder: None,
            },
            CommonFailure::StateCorrupt {
                path: "a".into(),
                kept_as: "b".into(),
                problem: "c".into(),
            },
            CommonFailure::TooLarge {
                what: "a".into(),
                bytes: 2,
                limit: 1,
            },
            CommonFailure::Quota {
                what: "a".into(),
                used: 2,
                limit: 1,
                candidates: Vec::new(),
            },
            CommonFailure::IdempotencyConflict { key: "k".into() },
        ];
        let mut codes: Vec<_> = all.iter().map(ExpectedFailure::code).collect();
        codes.sort_unstable();
        assert_eq!(codes, CommonFailure::CODES);
        assert!(all.iter().all(|failure| !failure.summary().is_empty()));
    }

    #[test]
    fn a_reason_replaces_the_summary_and_absent_parts_are_left_out() {
        let failure = CommonFailure::Busy {
            waited_ms: 5000,
            holder: None,
        };
        let body = FailureBody::new(&failure, Some("the list is locked".into()));
        assert_eq!(
            serde_json::to_value(&body).unwrap(),
            json!({
                "ok": false, "code": "busy", "reason": "the list is locked",
                "hint": "Call again in a few seconds.", "details": {"waited_ms": 5000}
            })
        );
    }
}
