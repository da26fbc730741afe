//! Writing: whole files, appends, new names.
//!
//! Answers for changes that happen wholly or not at all, and for when they are durable. Leaves out who may make them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process;
use std::sync::PoisonError;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::temporary::TEMPORARY_PREFIX;
use super::walk::{NOT_REGULAR, refuse_twin, sync_dir};
use super::{Durability, EntryKind, ProjectDir, links_of, refuse_irregular, regular, size_of};
use crate::sandbox::error::FsError;
use crate::sandbox::path::RelPath;
use crate::store::place::is_private;

/// Whether an operation may put its file over another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existing {
    /// By one with this mode, if there is one.
    Replace(Option<Mode>),
    Keep,
}

impl ProjectDir {
    /// Writes a whole file: it has the old content or the new one, never a part. Makes its directories. About 8 system
    /// calls, two of them an fsync when synced; a new file, and the first write in a directory, also costs a
    /// listing of it.
    pub(crate) fn replace(&self, path: &RelPath, bytes: &[u8], durability: Durability) -> Result<(), FsError> {
        let (parent, name) = self.make_parent("write", path, durability)?;
        let mode = match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                refuse_irregular(path, &stat)?;
                // Whoever closed the file to others wants the new one closed, too.
                Some(Mode::from_raw_mode(stat.st_mode & 0o777))
            }
            Err(Errno::NOENT) => {
                refuse_twin(parent.as_fd(), path, name)?;
                None
            }
            Err(error) => return Err(self.explain("write", path, error)),
        };
        self.put(&parent, path, bytes, durability, Existing::Replace(mode))
    }

    /// Writes a file that must not exist yet, all or nothing. Costs what [`replace`](Self::replace) costs.
    pub(crate) fn create_new(&self, path: &RelPath, bytes: &[u8], durability: Durability) -> Result<(), FsError> {
        let (parent, name) = self.make_parent("create", path, durability)?;
        match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                refuse_irregular(path, &stat)?;
                return Err(exists(path));
            }
            Err(Errno::NOENT) => refuse_twin(parent.as_fd(), path, name)?,
            Err(error) => return Err(self.explain("create", path, error)),
        }
        self.put(&parent, path, bytes, durability, Existing::Keep)
    }

    /// Appends in one write, or not at all: what a failed write left behind is cut off. The caller holds the lock of the
    /// file, else that cut could take another writer's bytes. 5 system calls, and an fdatasync when synced.
    pub(crate) fn append(&self, path: &RelPath, bytes: &[u8], durability: Durability) -> Result<(), FsError> {
        let file = self.open_for_update("append to", path, OFlags::WRONLY | OFlags::APPEND, durability)?;
        let before = size_of(&regular("append to", path, &file)?);
        let fail = |error: io::Error| FsError::io("append to", path.as_str(), error);
        append_whole(&file, before, bytes).map_err(fail)?;
        if durability == Durability::Synced {
            file.sync_data().map_err(fail)?;
        }
        Ok(())
    }

    /// Opens a file to read it and to append to it, makes it when it is missing; it is regular and has one link. 2 system
    /// calls when it exists; a new one also costs an fsync of its directory when synced.
    pub(crate) fn open_append(&self, path: &RelPath, durability: Durability) -> Result<File, FsError> {
        self.open_for_update("append to", path, OFlags::RDWR | OFlags::APPEND, durability)
    }

    /// Makes the names in the directory of `path` durable. 2 system calls, one of them an fsync.
    pub(crate) fn sync_dir_of(&self, path: &RelPath) -> Result<(), FsError> {
        let (parent, _) = self
            .open_parent(path)
            .map_err(|error| self.explain("sync", path, error))?;
        sync_dir("sync", path, &parent, Durability::Synced)
    }

    /// Opens a file of the machinery for reading and writing, makes it when it is missing; it is regular and has one
    /// link. 2 system calls when it exists.
    pub(crate) fn open_update(&self, path: &RelPath) -> Result<File, FsError> {
        self.open_for_update("open", path, OFlags::RDWR, Durability::Cached)
    }

    /// Removes a file. Says whether there was one. 3 system calls, and an fsync when synced.
    pub(crate) fn remove_file(&self, path: &RelPath, durability: Durability) -> Result<bool, FsError> {
        let fail = |error| match self.explain("remove", path, error) {
            FsError::Missing { .. } => Ok(false),
            error => Err(error),
        };
        let (parent, name) = match self.open_parent(path) {
            Ok(found) => found,
            Err(error) => return fail(error),
        };
        match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => refuse_irregular(path, &stat)?,
            Err(error) => return fail(error),
        }
        if let Err(error) = rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
            return fail(error);
        }
        sync_dir("remove", path, &parent, durability)?;
        Ok(true)
    }

    /// Gives a file another name; refuses when that is taken. Makes the directories of the new name. About 7 system
    /// calls, and two fsyncs when synced.
    pub(crate) fn rename(&self, from: &RelPath, to: &RelPath, durability: Durability) -> Result<(), FsError> {
        let explain = |error| self.explain("rename", from, error);
        let (old_parent, old_name) = self.open_parent(from).map_err(explain)?;
        let stat = rustix::fs::statat(&old_parent, old_name, AtFlags::SYMLINK_NOFOLLOW).map_err(explain)?;
        refuse_irregular(from, &stat)?;
        let (new_parent, new_name) = self.make_parent("rename to", to, durability)?;
        match rustix::fs::statat(&new_parent, new_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                refuse_irregular(to, &stat)?;
                return Err(exists(to));
            }
            Err(Errno::NOENT) => refuse_twin(new_parent.as_fd(), to, new_name)?,
            Err(error) => return Err(self.explain("rename to", to, error)),
        }
        match rename_keep(&old_parent, old_name, &new_parent, new_name) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(exists(to)),
            Err(error) => return Err(explain(error)),
        }
        sync_dir("rename to", to, &new_parent, durability)?;
        sync_dir("rename", from, &old_parent, durability)
    }

    /// Closes a directory and the files right in it to others, where somebody has made them for all. What is not this
    /// user's stays as it is. A listing, and 2 system calls per file.
    pub(crate) fn close_to_others(&self, dir: &RelPath) -> Result<(), FsError> {
        let Some(entries) = self.list(Some(dir))? else {
            return Ok(());
        };
        for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
            let path = dir
                .join(&entry.name)
                .map_err(|problem| FsError::io("close", dir.as_str(), io::Error::other(problem.to_string())))?;
            if let Some(file) = self.open_read(&path)? {
                close(&path, &file)?;
            }
        }
        // The directory last: until then its files are no more open than they were.
        let opened = self.open_dir(Some(dir.as_str()));
        close(dir, &opened.map_err(|error| self.explain("close", dir, error))?)
    }

    /// Makes a directory and those above it. 1 system call when it exists.
    pub(crate) fn create_dir_all(&self, path: &RelPath, durability: Durability) -> Result<(), FsError> {
        self.make_dir("create the directory", path, durability).map(drop)
    }

    fn put(
        &self,
        parent: &OwnedFd,
        path: &RelPath,
        bytes: &[u8],
        durability: Durability,
        existing: Existing,
    ) -> Result<(), FsError> {
        self.tidy(parent.as_fd(), path);
        let fail = |error: io::Error| FsError::io("write", path.as_str(), error);
        let temporary = format!("{TEMPORARY_PREFIX}{}-{}", process::id(), uuid::Uuid::now_v7().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(parent, &temporary, flags, file_mode(path)).map_err(|error| fail(error.into()))?;
        let mut file = File::from(fd);
        let kept_mode = match existing {
            Existing::Replace(Some(mode)) if mode != file_mode(path) && !is_private(path.as_str()) => {
                rustix::fs::fchmod(&file, mode).map_err(io::Error::from)
            }
            _ => Ok(()),
        };
        let placed = kept_mode
            .and_then(|()| refuse_beyond_limit(bytes.len() as u64))
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| match durability {
                Durability::Synced => file.sync_all(),
                Durability::Cached => Ok(()),
            })
            .and_then(|()| {
                let placed = match existing {
                    Existing::Replace(_) => rustix::fs::renameat(parent, &temporary, parent, path.file_name()),
                    Existing::Keep => rename_keep(parent, &temporary, parent, path.file_name()),
                };
                placed.map_err(io::Error::from)
            });
        if let Err(error) = placed {
            // The write failed; that its remains cannot be removed either would only hide why.
            let _ = rustix::fs::unlinkat(parent, &temporary, AtFlags::empty());
            return Err(match error.kind() {
                io::ErrorKind::AlreadyExists => exists(path),
                // A directory took the name since it was looked at.
                io::ErrorKind::IsADirectory => FsError::obstructed(path, NOT_REGULAR),
                _ => fail(error),
            });
        }
        let settled = sync_dir("make durable", path, parent, durability);
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        match settled {
            Ok(()) => {
                unsettled.remove(path.as_str());
                Ok(())
            }
            Err(FsError::Io { op, path, source }) => {
                unsettled.insert(path.clone());
                let text = format!("{source}; the new content is in place, and may be gone after a power failure");
                let source = io::Error::new(source.kind(), text);
                Err(FsError::Io { op, path, source })
            }
            Err(error) => Err(error),
        }
    }

    /// Makes durable what an earlier write of this process could not: whoever answers that a file is as it should be
    /// calls this first. Nothing to do, nearly always.
    pub(crate) fn settle(&self, path: &RelPath) -> Result<(), FsError> {
        let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        if !unsettled.contains(path.as_str()) {
            return Ok(());
        }
        self.sync_dir_of(path)?;
        unsettled.remove(path.as_str());
        Ok(())
    }

    fn open_for_update(
        &self,
        op: &'static str,
        path: &RelPath,
        flags: OFlags,
        durability: Durability,
    ) -> Result<File, FsError> {
        // The file may come and go between the two attempts, as others work beside us; each round makes progress.
        for _ in 0..16 {
            match self.open_file(path, flags) {
                Ok(fd) => {
                    let stat = regular(op, path, &fd)?;
                    if links_of(&stat) != 1 {
                        let cause = format!(
                            "the file has {} names (hard links), so that a write here would change it elsewhere; a person must put a copy in its place",
                            links_of(&stat)
                        );
                        return Err(FsError::obstructed(path, cause));
                    }
                    return Ok(File::from(fd));
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(self.explain(op, path, error)),
            }
            let (parent, name) = self.make_parent(op, path, durability)?;
            refuse_twin(parent.as_fd(), path, name)?;
            let create = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&parent, name, create, file_mode(path)) {
                Ok(fd) => {
                    sync_dir(op, path, &parent, durability)?;
                    return Ok(File::from(fd));
                }
                Err(Errno::EXIST) => {
                    // A dangling link exists for this call and not for the first one.
                    if let Ok(stat) = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
                        refuse_irregular(path, &stat)?;
                    }
                }
                Err(error) => return Err(self.explain(op, path, error)),
            }
        }
        let source = io::Error::other("it appeared and vanished again and again");
        Err(FsError::io(op, path.as_str(), source))
    }
}

/// Appends `bytes` to a file of `before` bytes, all of them or none: in one write, unless the system takes a part only.
/// 2 system calls.
pub(crate) fn append_whole(mut file: &File, before: u64, bytes: &[u8]) -> io::Result<()> {
    refuse_beyond_limit(before.saturating_add(bytes.len() as u64))?;
    // Why only a part was taken, the attempt to write the rest tells.
    file.write_all(bytes).or_else(|error| {
        file.set_len(before)?;
        Err(error)
    })
}

/// Refuses to let a file grow beyond the limit of this process (`RLIMIT_FSIZE`): the kernel would send a signal that ends
/// any program which is not prepared for it. 1 system call.
pub(crate) fn refuse_beyond_limit(size: u64) -> io::Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(limit) if size > limit => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "the file would have {size} bytes, and this process may write files of at most {limit} \
                 (RLIMIT_FSIZE, `ulimit -f`)"
            ),
        )),
        _ => Ok(()),
    }
}

/// Takes all rights from others, if they have any and this user may take them.
fn close(path: &RelPath, fd: &impl AsFd) -> Result<(), FsError> {
    let fail = |error: Errno| FsError::io("close", path.as_str(), error);
    let mode = rustix::fs::fstat(fd).map_err(fail)?.st_mode;
    let of_others = Mode::from_raw_mode(mode) & (Mode::RWXG | Mode::RWXO);
    if of_others.is_empty() {
        return Ok(());
    }
    match rustix::fs::fchmod(fd, Mode::from_raw_mode(mode & 0o700)) {
        Err(Errno::PERM | Errno::ROFS) => Ok(()),
        done => done.map_err(fail),
    }
}

fn exists(path: &RelPath) -> FsError {
    FsError::Exists { path: path.to_string() }
}

fn file_mode(path: &RelPath) -> Mode {
    // Less the process's umask.
    Mode::from_raw_mode(if is_private(path.as_str()) { 0o600 } else { 0o644 })
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_keep(old_dir: &OwnedFd, old: &str, new_dir: &OwnedFd, new: &str) -> Result<(), Errno> {
    match rustix::fs::renameat_with(old_dir, old, new_dir, new, rustix::fs::RenameFlags::NOREPLACE) {
        // Some file systems do not know the flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_and_unlink(old_dir, old, new_dir, new),
        done => done,
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_keep(old_dir: &OwnedFd, old: &str, new_dir: &OwnedFd, new: &str) -> Result<(), Errno> {
    link_and_unlink(old_dir, old, new_dir, new)
}

fn link_and_unlink(old_dir: &OwnedFd, old: &str, new_dir: &OwnedFd, new: &str) -> Result<(), Errno> {
    rustix::fs::linkat(old_dir, old, new_dir, new, AtFlags::empty())?;
    rustix::fs::unlinkat(old_dir, old, AtFlags::empty())
}
