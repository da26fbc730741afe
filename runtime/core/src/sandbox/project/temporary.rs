//! Temporary files: siblings of their targets, and what crashes leave of them.
//!
//! Answers for their names and for telling one that is in use from one that was left behind. Leaves out writing them.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::PoisonError;

use jiff::{SignedDuration, Timestamp};
use rustix::fs::{AtFlags, Dir};
use rustix::io::Errno;

use super::{EntryKind, ProjectDir, kind_of, modified, size_of};
use crate::sandbox::error::FsError;
use crate::sandbox::path::RelPath;

/// What the names of temporary files begin with; the number of their process follows. They are siblings of their
/// target. One that a crash left behind goes when its directory is next written to.
pub(crate) const TEMPORARY_PREFIX: &str = ".devloop-tmp-";

/// No write takes that long, so that a temporary file of this age has lost its process, if that is not seen any more.
const LEFT_BEHIND_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// The same when there is a process of its number, which may be another by now.
const LEFT_BEHIND_FOR_SURE_AFTER: SignedDuration = SignedDuration::from_hours(24);

impl ProjectDir {
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

    /// Removes what crashes left behind in the directory of `path`; looks once for each directory. A directory that
    /// cannot be tidied can be written to all the same.
    pub(super) fn tidy(&self, parent: BorrowedFd<'_>, path: &RelPath) {
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
}

/// Whether a directory's entry is a temporary file whose process will not come back to it.
pub(crate) fn is_left_behind(dir: BorrowedFd<'_>, name: &str, now: Timestamp) -> bool {
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
