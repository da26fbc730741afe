//! What the store can fail with.
//!
//! Answers for telling what an agent can act on (busy, corrupt) from what it cannot. Leaves out the wording of both.

use std::error::Error;
use std::fmt;

use devloop_contract::{CommonFailure, ExpectedFailure, InternalError, Refusal, ToolError};

use crate::sandbox::FsError;

/// Why the store did not do something.
#[derive(Debug)]
pub enum StoreError {
    /// A failure that tools share: `busy`, `state_corrupt`.
    Common(CommonFailure),
    /// The wait for a lock was called off; nothing was done.
    Cancelled,
    /// A file operation.
    Fs(FsError),
    /// A state file whose format is newer than the one that is known here; it was left as it is.
    Newer {
        /// The file, project-relative.
        path: String,
        /// The format that it says.
        found: String,
        /// The newest that is known.
        known: u32,
    },
    /// A state file that was only looked at and is none; it was left as it is.
    Unreadable {
        /// The file, project-relative.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A value that cannot be written as JSON: a bug.
    Serialize(serde_json::Error),
    /// A journal that was to be read without a gap has one, or a line that is no record.
    Damaged {
        /// The file.
        path: String,
        /// The line, from 1 on; 0 when it cannot be told.
        line: u64,
        /// Where the line begins in the file.
        byte: u64,
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Common(failure) => {
                f.write_str(failure.summary())?;
                failure.details().map_or(Ok(()), |details| write!(f, " {details}"))
            }
            Self::Cancelled => f.write_str("the wait for a lock was called off"),
            Self::Fs(error) => error.fmt(f),
            Self::Newer { path, found, known } => write!(
                f,
                "`{path}` has format {found}, and this devloop reads formats up to {known}: a newer devloop has written it. \
                 It was left as it is; use that devloop here, or move the file away to start afresh"
            ),
            Self::Unreadable { path, problem } => write!(f, "`{path}` cannot be read as a state file: {problem}"),
            Self::Serialize(error) => write!(f, "the value cannot be written as JSON: {error}"),
            Self::Damaged { path, line, byte, what } => write!(
                f,
                "`{path}` is damaged at line {line} (byte {byte}): {what}; a person must mend it"
            ),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Common(_) | Self::Cancelled | Self::Newer { .. } | Self::Unreadable { .. } | Self::Damaged { .. } => {
                None
            }
            Self::Fs(error) => error.source(),
            Self::Serialize(error) => Some(error),
        }
    }
}

impl From<FsError> for StoreError {
    fn from(error: FsError) -> Self {
        Self::Fs(error)
    }
}

impl From<CommonFailure> for StoreError {
    fn from(failure: CommonFailure) -> Self {
        Self::Common(failure)
    }
}

impl<F> From<StoreError> for Refusal<F> {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Common(failure) => Self::Common(failure),
            StoreError::Cancelled => Self::Tool(ToolError::Cancelled),
            StoreError::Fs(error) => error.into(),
            // Nothing that the agent can mend: a file is broken, or two versions of devloop work on one project.
            error @ (StoreError::Newer { .. } | StoreError::Unreadable { .. } | StoreError::Damaged { .. }) => {
                Self::Tool(ToolError::Internal(InternalError::bare(error.to_string())))
            }
            StoreError::Serialize(error) => Self::Tool(ToolError::Internal(InternalError::new(
                "a value cannot be written as JSON",
                error,
            ))),
        }
    }
}
