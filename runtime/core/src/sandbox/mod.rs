//! The only door to the file system for handlers.
//!
//! Answers for who may touch which path: every write is matched against the agent's patterns and the tool's declared
//! effects, every read against what may be read, and then carried out by the [`ProjectDir`], which follows no link.
//! Leaves out what the files mean (the store and the handlers know) and the files of the machinery itself (locks,
//! history, journals, temporary and set-aside siblings), which the store keeps without asking the patterns.
//!
//! All calls block; each says what it costs. Async code calls them from a blocking thread.

mod error;
mod path;
mod project;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use devloop_contract::glob::Pattern;

pub use error::FsError;
pub use path::{LONGEST_PATH, LONGEST_SEGMENT, PathProblem, RelPath};
pub use project::{Durability, Entry, EntryKind, Metadata, ProjectDir, Resolution};
pub(crate) use project::{TEMPORARY_PREFIX, append_whole, is_left_behind, refuse_beyond_limit};

use crate::permission::sensitive::unreadable;

/// A project directory as one agent may use it during one call. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sandbox {
    project: Arc<ProjectDir>,
    agent: Arc<str>,
    write: Arc<[Pattern]>,
    effects: Option<Arc<Effects>>,
    read: Arc<[Pattern]>,
    read_deny: Arc<[Pattern]>,
    durability: Durability,
}

/// What the called tool declares to read and to write.
#[derive(Debug)]
struct Effects {
    reads: Vec<Pattern>,
    writes: Vec<Pattern>,
    spec: String,
}

impl Sandbox {
    /// A sandbox that writes what `write` matches and reads everything but [what is closed](unreadable), whatever its
    /// case. The patterns are bound: a variable that is left matches any value.
    pub fn new(project: Arc<ProjectDir>, agent: impl Into<Arc<str>>, write: Vec<Pattern>) -> Self {
        let everything = Pattern::parse("**").expect("two stars are a pattern");
        Self {
            project,
            agent: agent.into(),
            write: write.into(),
            effects: None,
            read: Arc::new([everything]),
            read_deny: unreadable(),
            durability: Durability::Synced,
        }
    }

    /// Also requires that `reads` or `writes`, declared by the spec file `spec`, match what is read, and `writes` what is
    /// written.
    #[must_use]
    pub fn with_effects(mut self, reads: Vec<Pattern>, writes: Vec<Pattern>, spec: impl Into<String>) -> Self {
        let spec = spec.into();
        self.effects = Some(Arc::new(Effects { reads, writes, spec }));
        self
    }

    /// Replaces what may be read; `deny` wins over `allow`.
    #[must_use]
    pub fn with_read(mut self, allow: Vec<Pattern>, deny: Vec<Pattern>) -> Self {
        self.read = allow.into();
        self.read_deny = deny.into();
        self
    }

    /// Replaces what may be read; what holds secrets stays unreadable.
    #[must_use]
    pub fn with_read_allow(mut self, allow: Vec<Pattern>) -> Self {
        self.read = allow.into();
        self
    }

    /// Sets when writes count as done; [`Durability::Synced`] from the start.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// When writes count as done.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The project directory.
    pub fn project(&self) -> &Arc<ProjectDir> {
        &self.project
    }

    /// The short name of the agent.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// Whether the agent may write the path; touches nothing. What lies there is judged when it is written.
    ///
    /// # Errors
    /// [`FsError::Denied`] or [`FsError::Undeclared`].
    pub fn check_write(&self, path: &RelPath) -> Result<(), FsError> {
        let by = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path.as_str()));
        self.judge_write(path, &by)
    }

    /// Whether the agent may read the path; touches nothing.
    ///
    /// # Errors
    /// [`FsError::Denied`] or [`FsError::Undeclared`].
    pub fn check_read(&self, path: &RelPath) -> Result<(), FsError> {
        let by = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path.as_str()));
        self.judge_read(path, &by, &[path.as_str()])
    }

    /// Reads a file of at most `limit` bytes; `None` when there is none. 3 system calls and the reading.
    ///
    /// # Errors
    /// Refused, too large, or an error of the system.
    pub fn read(&self, path: &RelPath, limit: u64) -> Result<Option<Vec<u8>>, FsError> {
        self.check_read(path)?;
        self.named(self.project.read(path, limit)).map_err(FsError::reading)
    }

    /// As [`read`](Self::read), as text without the byte order mark.
    ///
    /// # Errors
    /// As [`read`](Self::read), or not UTF-8.
    pub fn read_text(&self, path: &RelPath, limit: u64) -> Result<Option<String>, FsError> {
        let Some(mut bytes) = self.read(path, limit)? else {
            return Ok(None);
        };
        if bytes.starts_with("\u{FEFF}".as_bytes()) {
            bytes.drain(..3);
        }
        let text = String::from_utf8(bytes).map_err(|error| FsError::NotText {
            path: path.to_string(),
            valid_up_to: error.utf8_error().valid_up_to(),
        })?;
        Ok(Some(text))
    }

    /// Lists a directory in the order of names; `None` when there is none. Names that are not UTF-8 and temporary files
    /// are left out. 2 system calls and one per about 1,000 entries.
    ///
    /// # Errors
    /// Refused, or an error of the system.
    pub fn list(&self, dir: &RelPath) -> Result<Option<Vec<Entry>>, FsError> {
        let allowed = |pattern: &Pattern| pattern.matches(dir.as_str()) || pattern.may_match_below(dir.as_str());
        let by = |patterns: &[Pattern]| patterns.iter().any(allowed);
        let within = format!("{dir}/x");
        self.judge_read(dir, &by, &[dir.as_str(), &within])?;
        self.named(self.project.list(Some(dir))).map_err(FsError::reading)
    }

    /// Lists the project directory itself. Costs what [`list`](Self::list) costs.
    ///
    /// # Errors
    /// An error of the system.
    pub fn list_root(&self) -> Result<Vec<Entry>, FsError> {
        self.named(self.project.list(None))
            .map_err(FsError::reading)
            .map(Option::unwrap_or_default)
    }

    /// What lies at a path; `None` when nothing does. A link at its end is described, not followed. 2 system calls.
    ///
    /// # Errors
    /// Refused, or an error of the system.
    pub fn metadata(&self, path: &RelPath) -> Result<Option<Metadata>, FsError> {
        self.check_read(path)?;
        self.named(self.project.metadata(path)).map_err(FsError::reading)
    }

    /// Whether anything lies at a path. 2 system calls.
    ///
    /// # Errors
    /// Refused, or an error of the system.
    pub fn exists(&self, path: &RelPath) -> Result<bool, FsError> {
        self.metadata(path).map(|found| found.is_some())
    }

    /// Writes a whole file: it has the old content or the new one, never a part. Makes its directories. About 8 system
    /// calls, two of them an fsync when synced; a new file, and the first write in a directory, also costs a listing of it.
    ///
    /// # Errors
    /// Refused, or an error of the system; then the file is as it was, unless it was its directory that could not be synced.
    pub fn replace(&self, path: &RelPath, bytes: &[u8]) -> Result<(), FsError> {
        self.check_write(path)?;
        self.named(self.project.replace(path, bytes, self.durability))
    }

    /// Appends to a file in one write, or not at all; makes it when it is missing. The caller holds the file's lock of
    /// the store. 5 system calls, and an fdatasync when synced.
    ///
    /// # Errors
    /// Refused (also when the file has a second name), or an error of the system; then the file is as it was.
    pub fn append(&self, path: &RelPath, bytes: &[u8]) -> Result<(), FsError> {
        self.check_write(path)?;
        self.named(self.project.append(path, bytes, self.durability))
    }

    /// Writes a file that must not exist yet, all or nothing. Costs what [`replace`](Self::replace) costs.
    ///
    /// # Errors
    /// [`FsError::Exists`], refused, or an error of the system.
    pub fn create_new(&self, path: &RelPath, bytes: &[u8]) -> Result<(), FsError> {
        self.check_write(path)?;
        self.named(self.project.create_new(path, bytes, self.durability))
    }

    /// Removes a file; says whether there was one. 3 system calls, and an fsync when synced.
    ///
    /// # Errors
    /// Refused, or an error of the system.
    pub fn remove_file(&self, path: &RelPath) -> Result<bool, FsError> {
        self.check_write(path)?;
        self.named(self.project.remove_file(path, self.durability))
    }

    /// Gives a file another name and makes the directories for it; both names need the permission to write. About 7
    /// system calls, and two fsyncs when synced.
    ///
    /// # Errors
    /// [`FsError::Missing`], [`FsError::Exists`] when the new name is taken, refused, or an error of the system.
    pub fn rename(&self, from: &RelPath, to: &RelPath) -> Result<(), FsError> {
        self.check_write(from)?;
        self.check_write(to)?;
        self.named(self.project.rename(from, to, self.durability))
    }

    /// Makes a directory and those above it, when the agent may write something in it. 1 system call when it exists.
    ///
    /// # Errors
    /// Refused, or an error of the system.
    pub fn create_dir_all(&self, dir: &RelPath) -> Result<(), FsError> {
        let allowed = |pattern: &Pattern| pattern.matches(dir.as_str()) || pattern.may_match_below(dir.as_str());
        self.judge_write(dir, &|patterns| patterns.iter().any(allowed))?;
        self.named(self.project.create_dir_all(dir, self.durability))
    }

    fn judge_write(&self, path: &RelPath, by: &dyn Fn(&[Pattern]) -> bool) -> Result<(), FsError> {
        if !by(&self.write) {
            let allowed: Vec<&str> = self.write.iter().map(Pattern::text).collect();
            let cause = if allowed.is_empty() {
                "this call may write nothing".to_owned()
            } else {
                format!("this call may write only: {}", allowed.join(", "))
            };
            return Err(FsError::denied(path, cause).by(&self.agent));
        }
        match &self.effects {
            Some(effects) if !by(&effects.writes) => Err(FsError::Undeclared {
                path: path.to_string(),
                spec: effects.spec.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// `probes` are paths of which none may be denied: the path, or something in it when it is listed.
    fn judge_read(&self, path: &RelPath, by: &dyn Fn(&[Pattern]) -> bool, probes: &[&str]) -> Result<(), FsError> {
        let denied = |pattern: &&Pattern| {
            probes.iter().any(|probe| {
                let upper = probe.contains(char::is_uppercase);
                pattern.matches(probe) || (upper && pattern.matches(&probe.to_lowercase()))
            })
        };
        let cause = match self.read_deny.iter().find(denied) {
            Some(pattern) => format!("reading it is refused: `{pattern}` keeps secrets and version control closed"),
            None if by(&self.read) => {
                // Whoever may write a file may look at what is in it.
                return match &self.effects {
                    Some(effects) if !by(&effects.reads) && !by(&effects.writes) => Err(FsError::Undeclared {
                        path: path.to_string(),
                        spec: effects.spec.clone(),
                    }),
                    _ => Ok(()),
                };
            }
            None => "reading it is refused: it is not among the paths that this agent may read".to_owned(),
        };
        Err(FsError::denied(path, cause).by(&self.agent).reading())
    }

    fn named<T>(&self, done: Result<T, FsError>) -> Result<T, FsError> {
        done.map_err(|error| error.by(&self.agent))
    }
}
