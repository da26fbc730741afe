//! The directory of one session: every system call on artifacts is made here.
//!
//! Answers for one guarantee: below the root nothing is opened that is a link, belongs to somebody else or can be opened by
//! somebody else; each part of the way is opened by itself, without following. Leaves out limits and what is in the files.
//!
//! Whoever changes the directory holds a lock on it: an advisory lock on the directory itself, so that it leaves nothing
//! behind. A directory may be moved away before its lock was taken, by `devloop gc` or by [`remove`](Locked::remove); so
//! it is looked at once more under the lock.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::error::ArtifactError;
use super::is_digest;
use crate::sandbox::{TEMPORARY_PREFIX, is_left_behind, refuse_beyond_limit};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// How long one waits for another process in the same session. A write holds the lock for two fsyncs.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// Where a session's artifacts are.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) root: PathBuf,
    /// Two names, without a separator in them.
    pub(super) below: [String; 2],
}

/// The session's directory, opened.
pub(super) struct Opened {
    path: PathBuf,
    parent: OwnedFd,
    fd: OwnedFd,
    name: String,
}

/// The session's directory, to change something in it. The lock goes with it.
pub(super) struct Locked(Opened);

impl Place {
    pub(super) fn path(&self) -> PathBuf {
        self.below.iter().fold(self.root.clone(), |path, name| path.join(name))
    }

    /// The directory, if it is there.
    pub(super) fn open(&self) -> Result<Option<Opened>, ArtifactError> {
        let mut path = self.root.clone();
        let opened = rustix::fs::open(&path, DIRECTORY, Mode::empty());
        let Some(mut dir) = opened_private(&path, opened)? else {
            return Ok(None);
        };
        let [namespace, session] = &self.below;
        path.push(namespace);
        let opened = rustix::fs::openat(&dir, &**namespace, DIRECTORY, Mode::empty());
        dir = match opened_private(&path, opened)? {
            Some(dir) => dir,
            None => return Ok(None),
        };
        path.push(session);
        let opened = rustix::fs::openat(&dir, &**session, DIRECTORY, Mode::empty());
        Ok(opened_private(&path, opened)?.map(|fd| Opened {
            path,
            parent: dir,
            fd,
            name: session.clone(),
        }))
    }

    /// The directory, made if need be, under its lock.
    pub(super) fn lock(&self) -> Result<Locked, ArtifactError> {
        let until = Instant::now() + PATIENCE;
        loop {
            let opened = match self.open()? {
                Some(opened) => opened,
                None => self.make()?,
            };
            if let Some(locked) = opened.locked(until)? {
                return Ok(locked);
            }
        }
    }

    /// The directory under its lock, if it is there.
    pub(super) fn lock_existing(&self) -> Result<Option<Locked>, ArtifactError> {
        let until = Instant::now() + PATIENCE;
        while let Some(opened) = self.open()? {
            if let Some(locked) = opened.locked(until)? {
                return Ok(Some(locked));
            }
        }
        Ok(None)
    }

    fn make(&self) -> Result<Opened, ArtifactError> {
        // What is above the root is the user's own; links there are followed.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.root);
        made.map_err(|error| ArtifactError::io("make the directory", &self.root, error))?;
        let mut path = self.root.clone();
        let gone = |path: &Path| ArtifactError::io("open the directory", path, Errno::NOENT);
        let opened = rustix::fs::open(&path, DIRECTORY, Mode::empty());
        let mut parent = opened_private(&path, opened)?.ok_or_else(|| gone(&path))?;
        let [namespace, session] = &self.below;
        path.push(namespace);
        let dir = make_private(&parent, namespace, &path)?;
        parent = dir;
        path.push(session);
        let fd = make_private(&parent, session, &path)?;
        Ok(Opened {
            path,
            parent,
            fd,
            name: session.clone(),
        })
    }
}

impl Opened {
    /// Waits for the lock; `None` when the directory is no longer the one of its name.
    fn locked(self, until: Instant) -> Result<Option<Locked>, ArtifactError> {
        loop {
            match rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(error) => return Err(ArtifactError::io("lock", &self.path, error)),
            }
            if Instant::now() >= until {
                return Err(ArtifactError::Busy(self.path));
            }
            thread::sleep(Duration::from_millis(2));
        }
        let look = |error: Errno| ArtifactError::io("look at", &self.path, error);
        let own = rustix::fs::fstat(&self.fd).map_err(look)?;
        match rustix::fs::statat(&self.parent, &*self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) => Ok(Some(Locked(self))),
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(look(error)),
        }
    }

    /// The file of an artifact with at most `limit` bytes, if it is there: its owner and mode are those that it was
    /// written with.
    pub(super) fn read(&self, id: &str, limit: u64) -> Result<Option<Vec<u8>>, ArtifactError> {
        let path = self.path.join(id);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = match rustix::fs::openat(&self.fd, id, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(ArtifactError::drifted(&path, "a symbolic link stands in its place")),
            Err(error) => return Err(ArtifactError::io("open", &path, error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(|error| ArtifactError::io("look at", &path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ArtifactError::drifted(&path, "what lies there is no regular file"));
        }
        if stat.st_uid != own_uid() {
            let cause = format!("it belongs to the user {}, not to {}", stat.st_uid, own_uid());
            return Err(ArtifactError::drifted(&path, cause));
        }
        if stat.st_mode & 0o7777 != 0o600 {
            let cause = format!("its mode is {:04o}, not 0600", stat.st_mode & 0o7777);
            return Err(ArtifactError::drifted(&path, cause));
        }
        let size = size_of(&stat);
        if size > limit {
            return Err(ArtifactError::drifted(
                &path,
                format!("it has {size} bytes, and {limit} is the limit"),
            ));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        let read = File::from(fd).take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| ArtifactError::io("read", &path, error))?;
        Ok(Some(bytes))
    }
}

impl Locked {
    pub(super) fn dir(&self) -> &Opened {
        &self.0
    }

    /// What there is, looked at now: others may have written since. What crashes left behind is removed.
    pub(super) fn usage(&self) -> Result<Usage, ArtifactError> {
        let mut usage = Usage::default();
        let now = Timestamp::now();
        for name in self.names()? {
            let path = self.0.path.join(&name);
            if is_digest(&name) {
                if let Some(stat) = self.stat(&name)? {
                    usage.files += 1;
                    usage.bytes += size_of(&stat);
                }
            } else if !name.starts_with(TEMPORARY_PREFIX) {
                return Err(ArtifactError::obstructed(&path, STRANGER));
            } else if is_left_behind(self.0.fd.as_fd(), &name, now) {
                // It is in nobody's way; the next one tries again.
                let _ = rustix::fs::unlinkat(&self.0.fd, &*name, AtFlags::empty());
            }
        }
        Ok(usage)
    }

    /// Writes the file of a new artifact: whole, or not at all. When it comes back, the file survives a power failure.
    pub(super) fn write(&self, id: &str, bytes: &[u8]) -> Result<(), ArtifactError> {
        let path = self.0.path.join(id);
        let fail = |error: io::Error| ArtifactError::io("write", &path, error);
        let temporary = format!("{TEMPORARY_PREFIX}{}-{}", process::id(), uuid::Uuid::now_v7().simple());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let fd = rustix::fs::openat(&self.0.fd, &*temporary, flags, mode).map_err(|error| fail(error.into()))?;
        let mut file = File::from(fd);
        let placed = refuse_beyond_limit(bytes.len() as u64)
            // Whatever the process's umask takes away.
            .and_then(|()| rustix::fs::fchmod(&file, mode).map_err(io::Error::from))
            .and_then(|()| file.write_all(bytes))
            .and_then(|()| file.sync_all())
            .and_then(|()| self.place(&temporary, id).map_err(io::Error::from));
        if let Err(error) = placed {
            // The write failed; that its remains cannot be removed either would only hide why.
            let _ = rustix::fs::unlinkat(&self.0.fd, &*temporary, AtFlags::empty());
            return Err(fail(error));
        }
        sync(&self.0.fd, &self.0.path)
    }

    /// Removes every artifact and the directory; says how many there were.
    pub(super) fn remove(self) -> Result<u64, ArtifactError> {
        let mut removed = 0;
        for name in self.names()? {
            let path = self.0.path.join(&name);
            match rustix::fs::unlinkat(&self.0.fd, &*name, AtFlags::empty()) {
                Ok(()) => removed += u64::from(is_digest(&name)),
                Err(Errno::NOENT) => {}
                Err(Errno::ISDIR | Errno::PERM) if self.is_directory(&name) => {
                    return Err(ArtifactError::obstructed(&path, STRANGER));
                }
                Err(error) => return Err(ArtifactError::io("remove", &path, error)),
            }
        }
        match rustix::fs::unlinkat(&self.0.parent, &*self.0.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => sync(&self.0.parent, &self.0.path).map(|()| removed),
            Err(error) => Err(ArtifactError::io("remove the directory", &self.0.path, error)),
        }
    }

    fn place(&self, temporary: &str, id: &str) -> Result<(), Errno> {
        let dir = &self.0.fd;
        match rustix::fs::renameat_with(dir, temporary, dir, id, RenameFlags::NOREPLACE) {
            // Some file systems do not know the flag. Under the lock nobody else puts a file there.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                match rustix::fs::statat(dir, id, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => rustix::fs::renameat(dir, temporary, dir, id),
                    Ok(_) => Err(Errno::EXIST),
                    Err(error) => Err(error),
                }
            }
            done => done,
        }
    }

    fn names(&self) -> Result<Vec<String>, ArtifactError> {
        let fail = |error| ArtifactError::io("list", &self.0.path, error);
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0.fd).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            match entry.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) => names.push(name.to_owned()),
                Err(_) => return Err(ArtifactError::obstructed(&self.0.path, STRANGER)),
            }
        }
        Ok(names)
    }

    fn stat(&self, name: &str) -> Result<Option<Stat>, ArtifactError> {
        match rustix::fs::statat(&self.0.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(ArtifactError::io("look at", &self.0.path.join(name), error)),
        }
    }

    fn is_directory(&self, name: &str) -> bool {
        let stat = rustix::fs::statat(&self.0.fd, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }
}

const STRANGER: &str =
    "what lies there is no artifact; nobody but devloop writes here, so a person must look at it and move it away";

/// Whether nobody is at work in a directory: its lock is free, and is let go again.
pub(crate) fn is_idle(path: &Path) -> io::Result<bool> {
    let fd = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
    match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn make_private(parent: &OwnedFd, name: &str, path: &Path) -> Result<OwnedFd, ArtifactError> {
    let made = match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700)) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(ArtifactError::io("make the directory", path, error)),
    };
    let opened = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty());
    let gone = || ArtifactError::io("open the directory", path, Errno::NOENT);
    let dir = opened_private(path, opened)?.ok_or_else(gone)?;
    if made {
        sync(parent, path)?;
    }
    Ok(dir)
}

/// A directory that was opened, when it is this user's alone; `None` when there is none.
fn opened_private(path: &Path, opened: Result<OwnedFd, Errno>) -> Result<Option<OwnedFd>, ArtifactError> {
    let fd = match opened {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let cause = "it is a symbolic link or no directory; a person must put a directory in its place";
            return Err(ArtifactError::obstructed(path, cause));
        }
        Err(error) => return Err(ArtifactError::io("open the directory", path, error)),
    };
    let stat = rustix::fs::fstat(&fd).map_err(|error| ArtifactError::io("look at", path, error))?;
    if stat.st_uid != own_uid() {
        let cause = format!(
            "it belongs to the user {}, and artifacts are kept only in directories of {}; a person must move it away",
            stat.st_uid,
            own_uid()
        );
        return Err(ArtifactError::obstructed(path, cause));
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        let cause = format!("its mode is {mode:04o}, and artifacts are private; `chmod 700` it");
        return Err(ArtifactError::obstructed(path, cause));
    }
    Ok(Some(fd))
}

fn sync(dir: &OwnedFd, path: &Path) -> Result<(), ArtifactError> {
    match rustix::fs::fsync(dir) {
        // Some file systems cannot sync a directory and need not.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(ArtifactError::io("make durable", path, error)),
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}
