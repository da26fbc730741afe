//! What can be wrong with artifacts.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why an artifact was not written or read.
#[derive(Debug)]
pub enum ArtifactError {
    /// What should name an artifact is no SHA-256 in lower-case hex.
    NoId(String),
    /// One artifact would be too large.
    TooLarge {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The session's artifacts together would be too many or too large.
    Full {
        /// `bytes` or `files`.
        what: &'static str,
        /// How much there would be.
        wanted: u64,
        /// The limit.
        limit: u64,
    },
    /// A file is not what was written: its owner, mode, size or content.
    Drifted {
        /// The file.
        path: PathBuf,
        /// What was found and what should have been.
        cause: String,
    },
    /// Something is in the way that must not be touched: a link, a directory or file of others, one that others can open.
    Obstructed {
        /// What.
        path: PathBuf,
        /// What about it, and what to do.
        cause: String,
    },
    /// Another process was at work in the session's directory for too long.
    Busy(PathBuf),
    /// An error of the system.
    Io {
        /// What was tried.
        op: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl ArtifactError {
    pub(super) fn io(op: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io {
            op,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    pub(super) fn obstructed(path: &Path, cause: impl Into<String>) -> Self {
        Self::Obstructed {
            path: path.to_owned(),
            cause: cause.into(),
        }
    }

    pub(super) fn drifted(path: &Path, cause: impl Into<String>) -> Self {
        Self::Drifted {
            path: path.to_owned(),
            cause: cause.into(),
        }
    }
}

impl fmt::Display for ArtifactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoId(id) => write!(
                f,
                "`{}` names no artifact: expected 64 digits of lower-case hex",
                id.chars().take(80).collect::<String>().escape_debug()
            ),
            Self::TooLarge { bytes, limit } => {
                write!(f, "an artifact of {bytes} bytes is too large: one may have {limit}")
            }
            Self::Full { what, wanted, limit } => write!(
                f,
                "the session's artifacts would be {wanted} {what}, and may be {limit}; they go with the session, by `devloop gc` when they are old enough; another session has room of its own"
            ),
            Self::Drifted { path, cause } => write!(
                f,
                "{}: the file is not what was written: {cause}; a person should look why, and remove it",
                path.display()
            ),
            Self::Obstructed { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::Busy(path) => write!(
                f,
                "{}: another process has been at work there for too long; try again",
                path.display()
            ),
            Self::Io { op, path, source } => write!(f, "cannot {op} {}: {source}", path.display()),
        }
    }
}

impl Error for ArtifactError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
