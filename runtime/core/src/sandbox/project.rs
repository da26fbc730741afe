//! The project directory: every system call on a project's files is made here.
//!
//! Answers for one guarantee: whatever lies on disk, and whoever changes it meanwhile, an operation touches nothing
//! outside the project directory. No symbolic link is followed, neither on the way nor at the end. Linux resolves a path
//! in one call (`openat2`); where that is missing, directories are opened one by one without following links. Leaves
//! out permission: that is the [`Sandbox`](super::Sandbox) for handlers, and the store for its own files.
//!
//! A hard link cannot be told from any other file, so one to an outside file is read as a file of the project. It is
//! never written through: an append needs a file with one link, everything else replaces the name.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use unicode_normalization::UnicodeNormalization;

use super::error::FsError;
use super::path::RelPath;

/// What the names of temporary files begin with; the number of their process follows. They are siblings of their
/// target. One that a crash left behind goes when its directory is next written to.
pub(crate) const TEMPORARY_PREFIX: &str = ".devloop-tmp-";

/// No write takes that long, so that a temporary file of this age has lost its process, if that is not seen any more.
const LEFT_BEHIND_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// The same when there is a process of its number, which may be another by now.
const LEFT_BEHIND_FOR_SURE_AFTER: SignedDuration = SignedDuration::from_hours(24);

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How paths are resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// By the kernel in one call; by walking where the kernel cannot.
    Automatic,
    /// Always by walking.
    Walk,
}

/// When an operation counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// When it survives a power failure: costs an fsync of the file and one of its directory.
    Synced,
    /// When every process sees it; for what can be made again.
    Cached,
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; it can be seen, never followed.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What is known of a path without opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many names it has.
    pub links: u64,
    /// When its content last changed.
    pub modified: Timestamp,
}

/// Whether an operation may put its file over another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Existing {
    /// By one with this mode, if there is one.
    Replace(Option<Mode>),
    Keep,
}

/// A project directory, opened once. Its path may be renamed while it is in use.
#[derive(Debug)]
pub struct ProjectDir {
    path: PathBuf,
    root: OwnedFd,
    kernel_resolves: bool,
    /// The directories where temporary files were looked for.
    tidied: Mutex<BTreeSet<String>>,
    /// Files whose new content is in place and may be gone after a power failure: syncing their directory failed.
    unsettled: Mutex<BTreeSet<String>>,
}

impl ProjectDir {
    /// Opens a project directory. Links on the way to it are followed: the person who names it is trusted.
    ///
    /// # Errors
    /// When the path is relative, is `/`, does not exist, or is no directory.
    pub fn open(path: &Path) -> Result<Self, FsError> {
        Self::open_with(path, Resolution::Automatic)
    }

    /// As [`open`](Self::open), with a choice of how paths are resolved.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(path: &Path, resolution: Resolution) -> Result<Self, FsError> {
        let name = path.display().to_string();
        let refuse = |why: &str| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
            Err(FsError::io("open the project directory", &name, source))
        };
        if !path.is_absolute() {
            return refuse("the path is relative; give an absolute one");
        }
        let real = path
            .canonicalize()
            .map_err(|error| FsError::io("open the project directory", &name, error))?;
        let open = |path: &Path| {
            rustix::fs::open(
                path,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            )
        };
        let root = match open(&real) {
            Ok(root) => root,
            Err(Errno::NOTDIR) => return refuse("it is not a directory; give the directory that holds the project"),
            Err(error) => return Err(FsError::io("open the project directory", &name, error)),
        };
        // By identity, not by name: `/` may be mounted elsewhere too.
        let top = open(Path::new("/")).and_then(rustix::fs::fstat);
        let here = rustix::fs::fstat(&root).map_err(|error| FsError::io("open the project directory", &name, error))?;
        if real == Path::new("/") || top.is_ok_and(|top| (top.st_dev, top.st_ino) == (here.st_dev, here.st_ino)) {
            return refuse("it is the root of the file system; give the directory of one project");
        }
        let kernel_resolves = resolution == Resolution::Automatic && kernel_resolves(root.as_fd());
        Ok(Self {
            path: real,
            root,
            kernel_resolves,
            tidied: Mutex::default(),
            unsettled: Mutex::default(),
        })
    }

    /// Where it was when it was opened, without links. For display and for starting programs, not for opening files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How paths are resolved here, in words.
    pub fn resolution(&self) -> &'static str {
        if self.kernel_resolves {
            "resolved by the kernel, links refused"
        } else {
            "walked part by part, links refused"
        }
    }

    /// Reads a regular file of at most `limit` bytes; `None` when nothing is there. It asks no patterns: handlers read
    /// through the [`Sandbox`](super::Sandbox). 3 system calls and one per 8 KiB and more.
    ///
    /// # Errors
    /// A link or something that is no file, too many bytes, or an error of the system.
    pub fn read(&self, path: &RelPath, limit: u64) -> Result<Option<Vec<u8>>, FsError> {
        let Some((file, stat)) = self.open_regular(path)? else {
            return Ok(None);
        };
        let too_large = |bytes| FsError::TooLarge {
            path: path.to_string(),
            bytes,
            limit,
        };
        let size = size_of(&stat);
        if size > limit {
            return Err(too_large(size));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| FsError::io("read", path.as_str(), error))?;
        // It may have grown since it was measured.
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        Ok(Some(bytes))
    }

    /// Opens a regular file for reading; `None` when nothing is there. It asks no patterns. 2 system calls.
    pub(crate) fn open_read(&self, path: &RelPath) -> Result<Option<File>, FsError> {
        Ok(self.open_regular(path)?.map(|(file, _)| file))
    }

    fn open_regular(&self, path: &RelPath) -> Result<Option<(File, Stat)>, FsError> {
        let fd = match self.open_file(path, OFlags::RDONLY) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => {
                return match self.explain("read", path, error) {
                    FsError::Missing { .. } => Ok(None),
                    error => Err(error),
                };
            }
        };
        let stat = regular("read", path, &fd)?;
        Ok(Some((File::from(fd), stat)))
    }

    /// Lists a directory in the order of names, `None` for the project directory itself. Gives `None` when it does not
    /// exist. Names that are not UTF-8 and temporary files are left out. One system call per about 1,000 entries.
    pub(crate) fn list(&self, dir: Option<&RelPath>) -> Result<Option<Vec<Entry>>, FsError> {
        let name = dir.map_or(".", RelPath::as_str);
        let fd = match self.open_dir(dir.map(RelPath::as_str)) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => {
                return Err(match dir {
                    Some(dir) => self.explain("list", dir, error),
                    None => FsError::io("list", name, error),
                });
            }
        };
        let fail = |error: Errno| FsError::io("list", name, error);
        let mut entries = Vec::new();
        for entry in Dir::read_from(&fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." || name.starts_with(TEMPORARY_PREFIX) {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not say it with the name.
                FileType::Unknown => match rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => kind_of(&stat),
                    Err(Errno::NOENT) => continue,
                    Err(error) => return Err(fail(error)),
                },
                kind => kind_from(kind),
            };
            entries.push(Entry {
                name: name.to_owned(),
                kind,
            });
        }
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(Some(entries))
    }

    /// The temporary files that crashes left behind in a directory, with their sizes. Costs what [`list`](Self::list)
    /// costs.
    pub(crate) fn left_behind(&self, dir: Option<&RelPath>, now: Timestamp) -> Result<Vec<(String, u64)>, FsError> {
        let fd = match self.open_dir(dir.map(RelPath::as_str)) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(error) => {
                return Err(match dir {
                    Some(dir) => self.explain("list", dir, error),
                    None => FsError::io("list", ".", error),
                });
            }
        };
        let entries =
            Dir::read_from(&fd).map_err(|error| FsError::io("list", dir.map_or(".", RelPath::as_str), error))?;
        let names = entries.filter_map(|entry| Some(entry.ok()?.file_name().to_str().ok()?.to_owned()));
        let left = names.filter(|name| is_left_behind(fd.as_fd(), name, now));
        let measured = left.filter_map(|name| {
            let stat = rustix::fs::statat(&fd, &*name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some((name, size_of(&stat)))
        });
        Ok(measured.collect())
    }

    /// What lies at a path; `None` when nothing does. A link at the end is described, not followed. 2 system calls.
    pub(crate) fn metadata(&self, path: &RelPath) -> Result<Option<Metadata>, FsError> {
        let stat = self
            .open_parent(path)
            .and_then(|(parent, name)| rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW));
        match stat {
            Ok(stat) => Ok(Some(Metadata {
                kind: kind_of(&stat),
                bytes: size_of(&stat),
                links: links_of(&stat),
                modified: modified(&stat),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => match self.explain("look at", path, error) {
                FsError::Missing { .. } => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Whether an open file is the one at a path, and not one that had its name before. 3 system calls.
    pub(crate) fn is_at(&self, path: &RelPath, file: &File) -> Result<bool, FsError> {
        let own = rustix::fs::fstat(file).map_err(|error| FsError::io("look at", path.as_str(), error))?;
        let there = self
            .open_parent(path)
            .and_then(|(parent, name)| rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW));
        match there {
            Ok(there) => Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(self.explain("look at", path, error)),
        }
    }

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
        let fd = rustix::fs::openat(parent, &temporary, flags, file_mode()).map_err(|error| fail(error.into()))?;
        let mut file = File::from(fd);
        let kept_mode = match existing {
            Existing::Replace(Some(mode)) if mode != file_mode() => {
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

    /// Removes what crashes left behind in the directory of `path`; looks once for each directory. A directory that
    /// cannot be tidied can be written to all the same.
    fn tidy(&self, parent: BorrowedFd<'_>, path: &RelPath) {
        let name = path.parent().map_or_else(String::new, |parent| parent.to_string());
        let first = self.tidied.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
        let Some(entries) = first.then(|| Dir::read_from(parent).ok()).flatten() else {
            return;
        };
        let now = Timestamp::now();
        for entry in entries.filter_map(Result::ok) {
            let Some(name) = entry
                .file_name()
                .to_str()
                .ok()
                .filter(|name| is_left_behind(parent, name, now))
            else {
                continue;
            };
            if rustix::fs::unlinkat(parent, name, AtFlags::empty()).is_ok() {
                tracing::info!(beside = %path, name, "a temporary file that a crash left behind was removed");
            }
        }
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
            match rustix::fs::openat(&parent, name, create, file_mode()) {
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

    /// Opens what lies at a path; never waits for the other end of a pipe.
    fn open_file(&self, path: &RelPath, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        if self.kernel_resolves {
            plain(path.as_str())?;
            return resolve(self.root.as_fd(), path.as_str(), flags);
        }
        let (parent, name) = self.open_parent(path)?;
        rustix::fs::openat(&parent, name, flags, Mode::empty())
    }

    fn open_parent<'a>(&self, path: &'a RelPath) -> Result<(OwnedFd, &'a str), Errno> {
        let (parent, name) = match path.as_str().rsplit_once('/') {
            Some((parent, name)) => (Some(parent), name),
            None => (None, path.as_str()),
        };
        plain(name)?;
        Ok((self.open_dir(parent)?, name))
    }

    fn open_dir(&self, path: Option<&str>) -> Result<OwnedFd, Errno> {
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

    fn make_parent<'a>(
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

    fn make_dir(&self, op: &'static str, path: &RelPath, durability: Durability) -> Result<OwnedFd, FsError> {
        let explain = |error| self.explain(op, path, error);
        match self.open_dir(Some(path.as_str())) {
            Err(Errno::NOENT) => {}
            Err(error) => return Err(explain(error)),
            Ok(dir) => return Ok(dir),
        }
        let mut dir = self.open_dir(None).map_err(explain)?;
        for segment in path.segments() {
            let open = |dir: &OwnedFd| rustix::fs::openat(dir, segment, DIRECTORY, Mode::empty());
            dir = match open(&dir) {
                Ok(next) => next,
                Err(Errno::NOENT) => {
                    refuse_twin(dir.as_fd(), path, segment)?;
                    match rustix::fs::mkdirat(&dir, segment, Mode::from_raw_mode(0o755)) {
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
    fn explain(&self, op: &'static str, path: &RelPath, error: Errno) -> FsError {
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

// An agent can act on these only where it chose the path itself; whether it did is not known here.
const NOT_REGULAR: &str =
    "what lies there is not a regular file; give another path if it is yours to choose, else a person must remove it";
const LINK_SOMEWHERE: &str = "a symbolic link is in the path, and tools follow none; give the real place if the path is \
     yours to choose, else a person must put the real directory there";

fn link_at(at: &str) -> String {
    format!(
        "`{at}` is a symbolic link, and tools follow none; give the real place if the path is yours to choose, else a \
         person must put the real file or directory there"
    )
}

fn not_a_directory(at: &str) -> String {
    format!(
        "`{at}` is not a directory; give another path if it is yours to choose, else a person must move `{at}` away"
    )
}

fn exists(path: &RelPath) -> FsError {
    FsError::Exists { path: path.to_string() }
}

/// What [`RelPath`] has checked before, again: the walk would follow `..`, so safety must not hang on another module.
/// The error is the one that the kernel gives for a path that leads out.
fn plain(path: &str) -> Result<(), Errno> {
    let bad = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains('\0');
    if path.split('/').any(bad) {
        Err(Errno::XDEV)
    } else {
        Ok(())
    }
}

fn file_mode() -> Mode {
    // Less the process's umask.
    Mode::from_raw_mode(0o644)
}

#[cfg(target_os = "linux")]
fn resolve(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), rules)
}

#[cfg(not(target_os = "linux"))]
fn resolve(_: BorrowedFd<'_>, _: &str, _: OFlags) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

/// Old kernels do not know the call, and some seccomp filters forbid it.
fn kernel_resolves(root: BorrowedFd<'_>) -> bool {
    resolve(root, ".", DIRECTORY).is_ok()
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

fn sync_dir(op: &'static str, path: &RelPath, dir: &OwnedFd, durability: Durability) -> Result<(), FsError> {
    match durability {
        Durability::Cached => Ok(()),
        Durability::Synced => match rustix::fs::fsync(dir) {
            // Some file systems cannot sync a directory and need not.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(FsError::io(op, path.as_str(), error)),
        },
    }
}

fn regular(op: &'static str, path: &RelPath, fd: &impl AsFd) -> Result<Stat, FsError> {
    let stat = rustix::fs::fstat(fd).map_err(|error| FsError::io(op, path.as_str(), error))?;
    refuse_irregular(path, &stat)?;
    Ok(stat)
}

/// Whether a directory's entry is a temporary file whose process will not come back to it.
fn is_left_behind(dir: BorrowedFd<'_>, name: &str, now: Timestamp) -> bool {
    let Some((pid, _)) = name
        .strip_prefix(TEMPORARY_PREFIX)
        .and_then(|rest| rest.split_once('-'))
    else {
        return false;
    };
    let (Ok(pid), Ok(stat)) = (pid.parse(), rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)) else {
        return false;
    };
    let age = now.duration_since(modified(&stat));
    let left = age > LEFT_BEHIND_FOR_SURE_AFTER || (age > LEFT_BEHIND_AFTER && !crate::process::is_alive(pid));
    left && kind_of(&stat) == EntryKind::File
}

fn modified(stat: &Stat) -> Timestamp {
    Timestamp::new(stat.st_mtime, i32::try_from(stat.st_mtime_nsec).unwrap_or_default()).unwrap_or_default()
}

fn refuse_irregular(path: &RelPath, stat: &Stat) -> Result<(), FsError> {
    match kind_of(stat) {
        EntryKind::File => Ok(()),
        EntryKind::Symlink => Err(FsError::obstructed(path, link_at(path.as_str()))),
        EntryKind::Directory | EntryKind::Other => Err(FsError::obstructed(path, NOT_REGULAR)),
    }
}

/// Refuses a new name that another file system would take for an existing one.
fn refuse_twin(dir: BorrowedFd<'_>, path: &RelPath, name: &str) -> Result<(), FsError> {
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

fn kind_of(stat: &Stat) -> EntryKind {
    kind_from(FileType::from_raw_mode(stat.st_mode))
}

fn kind_from(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

#[allow(clippy::useless_conversion, reason = "its width differs between systems")]
fn links_of(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}
