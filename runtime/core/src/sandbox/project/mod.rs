//! The project directory: every system call on a project's files is made here.
//!
//! Answers for one guarantee: whatever lies on disk, and whoever changes it meanwhile, an operation touches nothing
//! outside the project directory. No symbolic link is followed, neither on the way nor at the end. Linux resolves a path
//! in one call (`openat2`); where that is missing, directories are opened one by one without following links. Leaves
//! out permission: that is the [`Sandbox`](super::Sandbox) for handlers, and the store for its own files.
//!
//! A hard link cannot be told from any other file, so one to an outside file is read as a file of the project. It is
//! never written through: an append needs a file with one link, everything else replaces the name.

mod temporary;
mod walk;
mod write;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::error::FsError;
use super::path::RelPath;

pub(crate) use temporary::{TEMPORARY_PREFIX, is_left_behind};
pub(crate) use write::{append_whole, refuse_beyond_limit};

use walk::{NOT_REGULAR, kernel_resolves, link_at};

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
}

fn regular(op: &'static str, path: &RelPath, fd: &impl AsFd) -> Result<Stat, FsError> {
    let stat = rustix::fs::fstat(fd).map_err(|error| FsError::io(op, path.as_str(), error))?;
    refuse_irregular(path, &stat)?;
    Ok(stat)
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
