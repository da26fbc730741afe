//! What a file operation can fail with, and which of the three kinds of failure that is for a handler.
//!
//! Answers for the error type and its conversions. Leaves out the judging.

use std::error::Error;
use std::fmt;
use std::io;

use devloop_contract::error::{Access, Ground};
use devloop_contract::{CommonFailure, InternalError, Refusal, ToolError};

use super::path::RelPath;

/// Why a file operation did not happen.
#[derive(Debug)]
pub enum FsError {
    /// The agent may not touch the path.
    Denied {
        /// The path.
        path: String,
        /// The agent's short name.
        agent: String,
        /// What it may.
        cause: String,
        /// What was tried.
        access: Access,
    },
    /// What lies there must not be touched, whoever asks: a link, a pipe, a second name of a file, a name that another
    /// system takes for the same. When the tool chose the path, only a person can mend it.
    Obstructed {
        /// The path.
        path: String,
        /// The agent's short name.
        agent: String,
        /// What was found, what to do and who can.
        cause: String,
        /// What was tried.
        access: Access,
    },
    /// The agent might, but the tool's spec does not declare it: a bug of the handler or of the spec.
    Undeclared {
        /// The path.
        path: String,
        /// The spec file.
        spec: String,
    },
    /// Something is there already.
    Exists {
        /// The path.
        path: String,
    },
    /// Nothing is there.
    Missing {
        /// The path.
        path: String,
    },
    /// The file is larger than the caller wants to read.
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        bytes: u64,
        /// The most that the caller takes.
        limit: u64,
    },
    /// The file is not UTF-8.
    NotText {
        /// The path.
        path: String,
        /// How many bytes at its beginning are.
        valid_up_to: usize,
    },
    /// The operating system refused.
    Io {
        /// The operation, as a verb.
        op: &'static str,
        /// The path.
        path: String,
        /// Its error.
        source: io::Error,
    },
}

impl FsError {
    /// A refusal that does not know the agent yet; see [`by`](Self::by).
    pub(super) fn denied(path: &RelPath, cause: impl Into<String>) -> Self {
        Self::Denied {
            path: path.to_string(),
            agent: String::new(),
            cause: cause.into(),
            access: Access::Write,
        }
    }

    /// As [`denied`](Self::denied), for what lies there.
    pub(super) fn obstructed(path: &RelPath, cause: impl Into<String>) -> Self {
        Self::Obstructed {
            path: path.to_string(),
            agent: String::new(),
            cause: cause.into(),
            access: Access::Write,
        }
    }

    pub(super) fn io(op: &'static str, path: &str, source: impl Into<io::Error>) -> Self {
        Self::Io {
            op,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    /// Names the agent for whom the operation was tried.
    #[must_use]
    pub(crate) fn by(mut self, name: &str) -> Self {
        if let Self::Denied { agent, .. } | Self::Obstructed { agent, .. } = &mut self {
            name.clone_into(agent);
        }
        self
    }

    /// Says that the path was to be read: a refusal tells of writing otherwise.
    #[must_use]
    pub(super) fn reading(mut self) -> Self {
        if let Self::Denied { access, .. } | Self::Obstructed { access, .. } = &mut self {
            *access = Access::Read;
        }
        self
    }
}

impl fmt::Display for FsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied { path, agent, cause, .. } => write!(f, "{agent} may not touch `{path}`: {cause}"),
            // The machinery reads for nobody in particular.
            Self::Obstructed { path, agent, cause, .. } if agent.is_empty() => write!(f, "`{path}`: {cause}"),
            Self::Obstructed { path, agent, cause, .. } => write!(f, "{agent} cannot use `{path}`: {cause}"),
            Self::Undeclared { path, spec } => write!(
                f,
                "`{path}` is not among the effects that {spec} declares; declare it there or do not touch it"
            ),
            Self::Exists { path } => write!(f, "`{path}` exists already"),
            Self::Missing { path } => write!(f, "`{path}` does not exist"),
            Self::TooLarge { path, bytes, limit } => {
                write!(f, "`{path}` has {bytes} bytes, at most {limit} are read")
            }
            Self::NotText { path, valid_up_to } => write!(f, "`{path}` is not UTF-8 from byte {valid_up_to} on"),
            Self::Io { op, path, source } => write!(f, "cannot {op} `{path}`: {source}"),
        }
    }
}

impl Error for FsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A refused path is a sandbox violation; whatever else a handler did not foresee is internal.
impl From<FsError> for ToolError {
    fn from(error: FsError) -> Self {
        let ground = match error {
            FsError::Obstructed { .. } => Ground::Obstacle,
            _ => Ground::Permission,
        };
        match error {
            FsError::Denied {
                path,
                agent,
                cause,
                access,
            }
            | FsError::Obstructed {
                path,
                agent,
                cause,
                access,
            } => Self::Sandbox {
                path,
                agent,
                cause: Some(cause),
                ground,
                access,
            },
            // The message of its own, so that the chain does not say the system's error twice.
            FsError::Io { op, path, source } => {
                Self::Internal(InternalError::new(format!("cannot {op} `{path}`"), source))
            }
            other => Self::Internal(InternalError::bare(other.to_string())),
        }
    }
}

/// As into [`ToolError`], except that a file too large to read is an expected failure.
impl<F> From<FsError> for Refusal<F> {
    fn from(error: FsError) -> Self {
        match error {
            FsError::TooLarge { path, bytes, limit } => Self::Common(CommonFailure::TooLarge {
                what: path,
                bytes,
                limit,
            }),
            other => Self::Tool(other.into()),
        }
    }
}
