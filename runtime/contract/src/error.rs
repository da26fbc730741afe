//! The errors that no spec lists: refused input, a refused path, and what went wrong inside.
//!
//! Answers for their data and their one-line texts. Leaves out the judging (the registry validates, the sandbox
//! resolves) and the reporting of internal errors (the call path gives them an id and escalates them).

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};

use serde::{Deserialize, Serialize};

/// How many problems of one input are given in full; the rest are counted.
pub const PROBLEMS_IN_FULL: usize = 10;

/// What a call can fail with beside its expected failures.
#[derive(Debug)]
pub enum ToolError {
    /// The input breaks the tool's schema, its rules, or a check that only the handler can make.
    Validation(ValidationError),
    /// The path is outside what the agent may touch.
    Sandbox {
        /// The project-relative path as resolved.
        path: String,
        /// The short name of the agent.
        agent: String,
        /// What about the path was refused, beyond the fixed text; for the hint.
        cause: Option<String>,
        /// Whether other paths would do.
        ground: Ground,
        /// What was tried.
        access: Access,
    },
    /// The caller no longer wanted the result, and the handler stopped before it wrote anything.
    Cancelled,
    /// A bug or a broken environment; nothing the agent can mend.
    Internal(InternalError),
}

impl ToolError {
    /// A validation error with one problem.
    pub fn validation(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Validation(ValidationError::one(field, reason))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Validation(error) => error.fmt(f),
            // The wording for writes is fixed by the source document: no space after the colon.
            Self::Sandbox {
                path, agent, access, ..
            } => {
                let verb = match access {
                    Access::Read => "read",
                    Access::Write => "write",
                };
                write!(f, "Sandbox violation:{agent} tried to {verb} {path}")
            }
            Self::Cancelled => f.write_str("the call was cancelled"),
            Self::Internal(error) => error.fmt(f),
        }
    }
}

impl Error for ToolError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Internal(error) => error.source(),
            Self::Validation(_) | Self::Sandbox { .. } | Self::Cancelled => None,
        }
    }
}

impl From<ValidationError> for ToolError {
    fn from(error: ValidationError) -> Self {
        Self::Validation(error)
    }
}

impl From<InternalError> for ToolError {
    fn from(error: InternalError) -> Self {
        Self::Internal(error)
    }
}

/// What was to be done with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To look at it or at what is in it.
    Read,
    /// To make, change, move or remove it.
    Write,
}

/// On which ground a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// The agent may not touch the path; what it may touch is worth saying.
    Permission,
    /// The agent might, but what lies there must not be touched, whoever asks.
    Obstacle,
}

/// One thing that is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where, as a bracket path: `items[3].depends_on[0]`; empty for the input as a whole.
    pub field: String,
    /// Where, as a JSON Pointer.
    pub pointer: String,
    /// What was found, what is expected, and what to do.
    pub reason: String,
}

/// Everything that is wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationError {
    /// The first [`PROBLEMS_IN_FULL`] problems; never empty.
    pub problems: Vec<Problem>,
    /// How many there are in all.
    pub total: usize,
    /// An input that would have been accepted, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

impl ValidationError {
    /// An error with one problem. The pointer is derived from the bracket path.
    pub fn one(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::all([(field.into(), reason.into())])
    }

    /// An error from `(field, reason)` pairs: all are counted, the first [`PROBLEMS_IN_FULL`] kept.
    ///
    /// # Panics
    /// When there is no pair: an error without a problem is a bug of the caller.
    pub fn all(problems: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut kept = Vec::new();
        let mut total = 0;
        for (field, reason) in problems {
            total += 1;
            if kept.len() < PROBLEMS_IN_FULL {
                let pointer = pointer_of(&field);
                kept.push(Problem { field, pointer, reason });
            }
        }
        assert!(total > 0, "a validation error needs a problem");
        Self {
            problems: kept,
            total,
            example: None,
        }
    }

    /// The text with the JSON Pointer of each place as well, for answers that have room for a text alone.
    pub fn with_pointers(&self) -> impl fmt::Display + '_ {
        WithPointers(self)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, pointers: Pointers) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            let Problem { field, pointer, reason } = problem;
            match pointers {
                _ if field.is_empty() => f.write_str(reason)?,
                Pointers::Told => write!(f, "{field} ({pointer}): {reason}")?,
                Pointers::LeftOut => write!(f, "{field}: {reason}")?,
            }
        }
        if self.total > self.problems.len() {
            write!(f, "\n… and {} more", self.total - self.problems.len())?;
        }
        if let Some(example) = &self.example {
            write!(f, "\nA valid example: {example}")?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pointers {
    Told,
    LeftOut,
}

struct WithPointers<'e>(&'e ValidationError);

impl fmt::Display for WithPointers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, Pointers::Told)
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, Pointers::LeftOut)
    }
}

impl Error for ValidationError {}

/// A bracket path as a JSON Pointer: `items[3].id` is `/items/3/id`.
fn pointer_of(field: &str) -> String {
    let mut pointer = String::new();
    for part in field.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
        pointer.push('/');
        pointer.push_str(&part.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

/// What went wrong inside, with its causes. The agent is told that, not why; the log and the escalation get the chain.
#[derive(Debug)]
pub struct InternalError {
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl InternalError {
    /// An error with its cause.
    pub fn new(message: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            message: message.into(),
            source: Some(source.into()),
        }
    }

    /// An error that has no cause but itself.
    pub fn bare(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            source: None,
        }
    }

    /// The message and every cause, joined by `: `.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut next: Option<&(dyn Error + 'static)> = self.source();
        while let Some(error) = next {
            text.push_str(": ");
            text.push_str(&error.to_string());
            next = error.source();
        }
        text
    }

    /// What the agent should do about it, as far as the cause tells.
    pub fn hint(&self) -> &'static str {
        let mut next: Option<&(dyn Error + 'static)> = self.source();
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<io::Error>() {
                match error.kind() {
                    ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                        return "Call again when a person has made room on the disk.";
                    }
                    ErrorKind::FileTooLarge => {
                        return "A person must raise the limit for the size of files; then call again.";
                    }
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                        return "A person must let this program write there; then call again.";
                    }
                    _ => {}
                }
            }
            next = error.source();
        }
        "This was reported; calling again is unlikely to help."
    }
}

impl fmt::Display for InternalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for InternalError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_field_colon_reason() {
        let error = ToolError::validation("items[3].id", "`step-3` does not match ^step-\\d{3}$");
        assert_eq!(error.to_string(), "items[3].id: `step-3` does not match ^step-\\d{3}$");
        let ToolError::Validation(error) = error else {
            unreachable!()
        };
        assert_eq!(error.problems[0].pointer, "/items/3/id");
        assert_eq!(
            error.with_pointers().to_string(),
            "items[3].id (/items/3/id): `step-3` does not match ^step-\\d{3}$"
        );
        assert_eq!(ValidationError::one("", "no").with_pointers().to_string(), "no");
    }

    #[test]
    fn more_than_ten_problems_are_counted() {
        let error = ValidationError::all((0..13).map(|n| (format!("items[{n}]"), "bad".to_owned())));
        assert_eq!((error.problems.len(), error.total), (10, 13));
        assert!(error.to_string().ends_with("… and 3 more"));
    }

    #[test]
    fn the_sandbox_text_is_the_source_documents() {
        let error = ToolError::Sandbox {
            path: "units/x".into(),
            agent: "pm".into(),
            cause: None,
            ground: Ground::Permission,
            access: Access::Write,
        };
        assert_eq!(error.to_string(), "Sandbox violation:pm tried to write units/x");
    }

    #[test]
    fn the_chain_names_every_cause() {
        let inner = InternalError::new("cannot write", std::io::Error::other("no space"));
        assert_eq!(
            InternalError::new("saving the list", inner).chain(),
            "saving the list: cannot write: no space"
        );
    }
}
