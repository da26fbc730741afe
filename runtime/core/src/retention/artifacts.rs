//! Artifacts of sessions that are over: `<root>/<namespace>/<sha256 of the session>/`.
//!
//! Answers for finding such directories by their age and removing them whole. Only directories of this user whose names
//! have that form count, and no link is followed. Leaves out how artifacts are written.

use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};

use super::{Candidate, Why};

/// The sessions below `root` in which nothing was written for `age`. None when there is no `root`. Looks at every file.
///
/// # Errors
/// A directory that cannot be listed.
pub fn find(root: &Path, now: Timestamp, age: SignedDuration) -> io::Result<Vec<Candidate>> {
    let mut found = Vec::new();
    for namespace in directories(root)? {
        for session in directories(&namespace.path())? {
            if !is_session(&session) {
                continue;
            }
            let (bytes, newest) = measure(&session.path())?;
            let newest = Timestamp::try_from(newest).unwrap_or(Timestamp::MAX);
            if now.duration_since(newest) > age {
                found.push(Candidate {
                    why: Why::Artifacts,
                    path: session.path().to_string_lossy().into_owned(),
                    bytes,
                });
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Removes what [`find`] found.
///
/// # Errors
/// An error of the system; a part may be gone.
pub fn remove(candidate: &Candidate) -> io::Result<()> {
    match fs::remove_dir_all(&candidate.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// The directories in a directory that are this user's own; links are none.
fn directories(path: &Path) -> io::Result<Vec<DirEntry>> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let own = rustix::process::geteuid().as_raw();
    let mut kept = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Of the entry itself: a link is not followed.
        if entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own) {
            kept.push(entry);
        }
    }
    Ok(kept)
}

fn is_session(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let is_hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    name.len() == 64 && name.as_encoded_bytes().iter().all(is_hex)
}

/// How much is in a directory, and when something in it last changed.
fn measure(path: &Path) -> io::Result<(u64, SystemTime)> {
    let mut total = (0, fs::symlink_metadata(path)?.modified()?);
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let found = entry.metadata()?;
        let (bytes, newest) = if found.is_dir() {
            measure(&entry.path())?
        } else {
            (found.len(), found.modified()?)
        };
        total = (total.0 + bytes, total.1.max(newest));
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_old_sessions_go() {
        let root = tempfile::tempdir().unwrap();
        let session = |name: &str| root.path().join("space").join(name);
        let (old, other) = ("a".repeat(64), "b".repeat(64));
        for name in [&old, &other, &"C".repeat(64), "notes"] {
            fs::create_dir_all(session(name)).unwrap();
            fs::write(session(name).join("1"), "12345").unwrap();
        }
        std::os::unix::fs::symlink(session(&other), session(&"d".repeat(64))).unwrap();
        let now = Timestamp::now();
        assert_eq!(find(root.path(), now, SignedDuration::from_hours(1)).unwrap(), []);
        let later = now + SignedDuration::from_hours(2);
        let found = find(root.path(), later, SignedDuration::from_hours(1)).unwrap();
        let paths: Vec<&str> = found.iter().map(|candidate| &*candidate.path).collect();
        assert_eq!(
            paths,
            [session(&old).to_str().unwrap(), session(&other).to_str().unwrap()]
        );
        assert_eq!(found[0].bytes, 5);
        remove(&found[0]).unwrap();
        remove(&found[0]).unwrap();
        assert!(!session(&old).exists() && session(&other).exists());
        assert_eq!(
            find(&root.path().join("nowhere"), later, SignedDuration::ZERO).unwrap(),
            []
        );
    }
}
