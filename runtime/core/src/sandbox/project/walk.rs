//! Ways to files and directories: no link is followed on any of them.
//!
//! Answers for opening, for making directories and syncing them, for names that another file system would take for one,
//! and for saying why a path cannot be taken. The kernel refuses links while
//! it resolves (`openat2`); where it cannot, each part is opened by itself. Leaves out what is done with what was opened.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;

use super::{Durability, EntryKind, ProjectDir, kind_of};
use crate::sandbox::error::FsError;
use crate::sandbox::path::RelPath;
use crate::store::place::is_private;

pub(super) const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl ProjectDir {
    /// Opens what lies at a path; never waits for the other end of a pipe.
    pub(super) fn open_file(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        if self.kernel_resolves {
            plain(path.as_str())?;
            return resolve(self.root.as_fd(), path.as_str(), flags);
        }
        let (parent, name) = self.open_parent(path)?;
        rustix::fs::openat(&parent, name, flags, Mode::empty())
    }

    pub(super) fn open_parent<'a>(&self, path: &'a RelPath) -> Result<(OwnedFd, &'a str), Errno> {
        let (parent, name) = match path.as_str().rsplit_once('/') {
            Some((parent, name)) => (Some(parent), name),
            None => (None, path.as_str()),
        };
        plain(name)?;
        Ok((self.open_dir(parent)?, name))
    }

    pub(super) fn open_dir(&self, path: Option<&str>) -> Result<OwnedFd, Errno> {
        let Some(path) = path else {
            return rustix::fs::openat(&self.root, ".", DIRECTORY, Mode::empty());
        };
        plain(path)?;
        if self.kernel_resolves {
            return resolve(self.root.as_fd(), path, DIRECTORY);
        }
        let mut segments = path.split('/');
        let first = segments.next().unwrap_or(path);
        let first = rustix::fs::openat(&self.root, first, DIRECTORY, Mode::empty())?;
        segments.try_fold(first, |dir, segment| {
            rustix::fs::openat(&dir, segment, DIRECTORY, Mode::empty())
        })
    }

    pub(super) fn make_parent<'a>(
        &self,
        op: &'static str,
        path: &'a RelPath,
        durability: Durability,
    ) -> Result<(OwnedFd, &'a str), FsError> {
        let name = path.as_str().rsplit_once('/').map_or(path.as_str(), |(_, name)| name);
        plain(name).map_err(|error| self.explain(op, path, error))?;
        let parent = match path.parent() {
            Some(parent) => self.make_dir(op, &parent, durability)?,
            None => self.open_dir(None).map_err(|error| self.explain(op, path, error))?,
        };
        Ok((parent, name))
    }

    pub(super) fn make_dir(
        &self,
        op: &'static str,
        path: &RelPath,
        durability: Durability,
    ) -> Result<OwnedFd, FsError> {
        let explain = |error| self.explain(op, path, error);
        match self.open_dir(Some(path.as_str())) {
            Err(Errno::NOENT) => {}
            Err(error) => return Err(explain(error)),
            Ok(dir) => return Ok(dir),
        }
        let mut dir = self.open_dir(None).map_err(explain)?;
        let mut at = String::new();
        for segment in path.segments() {
            if !at.is_empty() {
                at.push('/');
            }
            at.push_str(segment);
            let mode = Mode::from_raw_mode(if is_private(&at) { 0o700 } else { 0o755 });
            let open = |dir: &OwnedFd| rustix::fs::openat(dir, segment, DIRECTORY, Mode::empty());
            dir = match open(&dir) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    refuse_twin(dir.as_fd(), path, segment)?;
                    match rustix::fs::mkdirat(&dir, segment, mode) {
                        Ok(()) => sync_dir(op, path, &dir, durability)?,
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(explain(error)),
                    }
                    open(&dir).map_err(explain)?
                }
                Err(error) => return Err(explain(error)),
            };
        }
        Ok(dir)
    }

    /// Turns an error number into a sentence that names the segment at fault. Only runs on failure, so it may look again.
    pub(super) fn explain(&self, op: &'static str, path: &RelPath, error: Errno) -> FsError {
        match error {
            Errno::NOENT => {
                return FsError::Missing { path: path.to_string() };
            }
            Errno::XDEV => return FsError::denied(path, "the path leads out of the project directory"),
            Errno::ISDIR | Errno::NXIO => return FsError::obstructed(path, NOT_REGULAR),
            Errno::LOOP | Errno::NOTDIR => {}
            error => return FsError::io(op, path.as_str(), error),
        }
        let mut at = String::new();
        let Ok(mut dir) = self.open_dir(None) else {
            return FsError::obstructed(path, LINK_SOMEWHERE);
        };
        for segment in path.segments() {
            if !at.is_empty() {
                at.push('/');
            }
            at.push_str(segment);
            match rustix::fs::statat(&dir, segment, AtFlags::SYMLINK_NOFOLLOW).map(|stat| kind_of(&stat)) {
                Ok(EntryKind::Symlink) => return FsError::obstructed(path, link_at(&at)),
                Ok(EntryKind::Directory) => {}
                // On the way to something else a plain file is in the way: nothing can exist below it.
                Ok(_) if at.len() < path.as_str().len() && matches!(op, "read" | "look at" | "remove") => {
                    return FsError::Missing { path: path.to_string() };
                }
                Ok(_) => return FsError::obstructed(path, not_a_directory(&at)),
                Err(_) => break,
            }
            let Ok(next) = rustix::fs::openat(&dir, segment, DIRECTORY, Mode::empty()) else {
                break;
            };
            dir = next;
        }
        // It has changed since. Whatever it was, it was refused.
        FsError::obstructed(path, LINK_SOMEWHERE)
    }
}

// An agent can act on these only where it chose the path itself; whether it did is not known here.
pub(super) const NOT_REGULAR: &str =
    "what lies there is not a regular file; give another path if it is yours to choose, else a person must remove it";

pub(super) const LINK_SOMEWHERE: &str = "a symbolic link is in the path, and tools follow none; give the real place if the path is \
     yours to choose, else a person must put the real directory there";

pub(super) fn link_at(at: &str) -> String {
    format!(
        "`{at}` is a symbolic link, and tools follow none; give the real place if the path is yours to choose, else a \
         person must put the real file or directory there"
    )
}

pub(super) fn not_a_directory(at: &str) -> String {
    format!(
        "`{at}` is not a directory; give another path if it is yours to choose, else a person must move `{at}` away"
    )
}

/// What [`RelPath`] has checked before, again: the walk would follow `..`, so safety must not hang on another module.
/// The error is the one that the kernel gives for a path that leads out.
pub(super) fn plain(path: &str) -> Result<(), Errno> {
    let bad = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains('\0');
    if path.split('/').any(bad) {
        Err(Errno::XDEV)
    } else {
        Ok(())
    }
}

#[cfg(target_os = "linux")]
pub(super) fn resolve(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), rules)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn resolve(_: BorrowedFd<'_>, _: &str, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Old kernels do not know the call, and some seccomp filters forbid it.
pub(super) fn kernel_resolves(root: BorrowedFd<'_>) -> bool {
    resolve(root, ".", DIRECTORY).is_ok()
}

pub(super) fn sync_dir(op: &'static str, path: &RelPath, dir: &OwnedFd, durability: Durability) -> Result<(), FsError> {
    match durability {
        Durability::Cached => Ok(()),
        Durability::Synced => match rustix::fs::fsync(dir) {
            // Some file systems cannot sync a directory and need not.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(FsError::io(op, path.as_str(), error)),
        },
    }
}

/// Refuses a new name that another file system would take for an existing one.
pub(super) fn refuse_twin(dir: BorrowedFd<'_>, path: &RelPath, name: &str) -> Result<(), FsError> {
    let fail = |error: Errno| FsError::io("list the directory of", path.as_str(), error);
    let folded = fold(name);
    for entry in Dir::read_from(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if let Ok(other) = entry.file_name().to_str()
            && other != name
            && fold(other) == folded
        {
            let cause = format!(
                "`{other}` exists and differs from `{name}` only in case or Unicode form; use that spelling if the path \
                 is yours to choose, else a person must rename it to `{name}`"
            );
            return Err(FsError::obstructed(path, cause));
        }
    }
    Ok(())
}

fn fold(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    name.nfc().flat_map(char::to_lowercase).nfc().collect()
}
