//! Artifacts of a session: what is too large for a result, or is kept for people. Outside of the project, in a directory
//! that is this user's alone.
//!
//! Answers for files at `<root>/<namespace>/<sha256 of the session>/<sha256 of the content>`: private, named by their
//! content, written once, within limits, and looked at again whenever they are used. `page` cuts a part out of one,
//! `oversized` makes one of a result that is too large. Leaves out where the root is (the caller's), who may read
//! (whoever has the session), and when old sessions go (retention).
//!
//! **The namespace** of a project is the SHA-256 of its real path: an id alone may be given to two projects, a path not.
//! Who moves a project leaves its artifacts behind; retention removes them by their age.
//!
//! Kind, mime type and source are told of an artifact by whoever wrote it; two that say the same are one file, so they
//! are not kept with it. All calls block.

mod directory;
mod error;
pub mod oversized;
pub mod page;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use serde::Serialize;

use directory::Place;
pub(crate) use directory::is_idle;
pub use error::ArtifactError;

use crate::digest;
use crate::sandbox::ProjectDir;

/// No artifact that is read has more bytes, whatever the limit was when it was written.
pub const LARGEST: u64 = 256 * 1024 * 1024;

/// How much a session may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of one artifact; at most [`LARGEST`].
    pub file_bytes: u64,
    /// The most bytes of all of them.
    pub session_bytes: u64,
    /// The most artifacts.
    pub session_files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 16 * 1024 * 1024,
            session_bytes: 64 * 1024 * 1024,
            session_files: 256,
        }
    }
}

/// What is to be kept.
#[derive(Clone, Copy, Debug)]
pub struct NewArtifact<'a> {
    /// What it is: `tool_result`.
    pub kind: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
    /// The type of the content: `application/json`.
    pub mime: Option<&'a str>,
    /// Where it comes from: a tool, a file.
    pub source: Option<&'a str>,
}

/// An artifact that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// The SHA-256 of its content, in lower-case hex.
    pub id: String,
    /// How many bytes it has.
    pub size: u64,
    /// What it is.
    pub kind: String,
    /// The type of the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// Where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The file, for people and programs on this machine.
    pub path: PathBuf,
}

/// The artifacts of one session. Holds nothing open and remembers nothing, so that other processes may work beside it.
#[doc(alias = "SessionArtifactStore")]
#[derive(Debug)]
pub struct ArtifactStore {
    place: Place,
    limits: Limits,
}

/// The directory below the root in which the artifacts of a project are.
pub fn namespace(project: &ProjectDir) -> String {
    digest::sha256_hex(project.path().as_os_str().as_encoded_bytes())
}

impl ArtifactStore {
    /// The artifacts of a session of a project, with the default limits. `root` is made when the first one is written.
    /// Touches no disk.
    pub fn new(root: impl Into<PathBuf>, project: &ProjectDir, session: &str) -> Self {
        Self {
            place: Place {
                root: root.into(),
                below: [namespace(project), digest::sha256_hex(session)],
            },
            limits: Limits::default(),
        }
    }

    /// Other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The directory.
    pub fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// Keeps an artifact. One with the same content is there only once: its file is looked at as if it were read, and
    /// nothing is written. When this comes back, it survives a power failure.
    ///
    /// Some 12 system calls and one for each artifact of the session; for a new one also two fsyncs.
    ///
    /// # Errors
    /// A limit, before anything is written; a file that is there and is not what was written; a directory on the way that
    /// is a link, is somebody else's or open to others; `Busy`; an error of the system, after which nothing is left.
    pub fn write(&self, new: &NewArtifact<'_>) -> Result<Artifact, ArtifactError> {
        let size = new.bytes.len() as u64;
        let limit = self.limits.file_bytes.min(LARGEST);
        if size > limit {
            return Err(ArtifactError::TooLarge { bytes: size, limit });
        }
        let id = digest::sha256_hex(new.bytes);
        let dir = self.place.lock()?;
        if self.verified(dir.dir(), &id)?.is_none() {
            let usage = dir.usage()?;
            let full = |what, wanted, limit| Err(ArtifactError::Full { what, wanted, limit });
            if usage.files + 1 > self.limits.session_files {
                return full("files", usage.files + 1, self.limits.session_files);
            }
            if usage.bytes + size > self.limits.session_bytes {
                return full("bytes", usage.bytes + size, self.limits.session_bytes);
            }
            dir.write(&id, new.bytes)?;
        }
        Ok(Artifact {
            path: self.path().join(&id),
            id,
            size,
            kind: new.kind.to_owned(),
            mime: new.mime.map(str::to_owned),
            source: new.source.map(str::to_owned),
        })
    }

    /// The content of an artifact; `None` when the session has none of that id. 8 system calls and the reading.
    ///
    /// # Errors
    /// What is no id; a file that is not what was written; a directory on the way that is a link, is somebody else's or
    /// open to others; an error of the system.
    pub fn read(&self, id: &str) -> Result<Option<Vec<u8>>, ArtifactError> {
        if !is_digest(id) {
            return Err(ArtifactError::NoId(id.to_owned()));
        }
        match self.place.open()? {
            Some(dir) => self.verified(&dir, id),
            None => Ok(None),
        }
    }

    /// Removes all artifacts of the session; says how many there were.
    ///
    /// # Errors
    /// A directory in there, which is nobody's artifact; otherwise as [`read`](Self::read). A part may be gone.
    pub fn remove_all(&self) -> Result<u64, ArtifactError> {
        match self.place.lock_existing()? {
            Some(dir) => dir.remove(),
            None => Ok(0),
        }
    }

    fn verified(&self, dir: &directory::Opened, id: &str) -> Result<Option<Vec<u8>>, ArtifactError> {
        let Some(bytes) = dir.read(id, LARGEST)? else {
            return Ok(None);
        };
        let found = digest::sha256_hex(&bytes);
        if found != id {
            let cause = format!("the SHA-256 of its {} bytes is {found}", bytes.len());
            return Err(ArtifactError::drifted(&self.path().join(id), cause));
        }
        Ok(Some(bytes))
    }
}

/// Whether a name is a SHA-256 in lower-case hex.
pub(crate) fn is_digest(name: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.len() == 64 && name.bytes().all(is_hex)
}
