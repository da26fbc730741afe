//! Artifacts of sessions that are over: `<root>/<namespace of the project>/<sha256 of the session>/`.
//!
//! Answers for finding such directories of one project by their age and removing them whole. Only directories of this
//! user whose names have that form count, and no link is followed. Leaves out how artifacts are written.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};

use super::{Candidate, Why};
use crate::artifacts::{is_digest, is_idle, namespace};
use crate::sandbox::ProjectDir;

/// What [`find`] found.
#[derive(Debug, Default)]
pub struct Found {
    /// The sessions of the project in which nothing was written for long.
    pub candidates: Vec<Candidate>,
    /// What could not be looked at, and why.
    pub unseen: Vec<String>,
}

/// The sessions of a project below `root` in which nothing was written for `age`. None when there is no `root`. Looks
/// at every file of the project's.
pub fn find(root: &Path, project: &ProjectDir, now: Timestamp, age: SignedDuration) -> Found {
    let mut found = Found::default();
    let within = root.join(namespace(project));
    let sessions = match sessions(&within) {
        Ok(sessions) => sessions,
        Err(error) => {
            found.unseen.push(format!("{}: {error}", within.display()));
            return found;
        }
    };
    for session in sessions {
        let path = session.path();
        match measure(&path) {
            Ok(Some((bytes, newest))) if is_older(newest, now, age) => found.candidates.push(Candidate {
                why: Why::Artifacts,
                path: path.to_string_lossy().into_owned(),
                bytes,
            }),
            Ok(_) => {}
            Err(error) => found.unseen.push(format!("{}: {error}", path.display())),
        }
    }
    found.candidates.sort_unstable();
    found
}

/// Removes a session that [`find`] found, unless something was written there since; says whether it did.
///
/// # Errors
/// An error of the system; a part may be gone.
pub fn remove(candidate: &Candidate, now: Timestamp, age: SignedDuration) -> io::Result<bool> {
    let path = Path::new(&candidate.path);
    // Under another name nobody begins to write there any more.
    let aside = path.with_extension("gone");
    match fs::rename(path, &aside) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    // Who opened it before, and did not get its lock yet, looks whether it still has its name.
    let is_over = is_idle(&aside)? && measure(&aside)?.is_some_and(|(_, newest)| is_older(newest, now, age));
    if !is_over {
        fs::rename(&aside, path)?;
        return Ok(false);
    }
    fs::remove_dir_all(&aside)?;
    Ok(true)
}

fn is_older(newest: SystemTime, now: Timestamp, age: SignedDuration) -> bool {
    Timestamp::try_from(newest).is_ok_and(|newest| now.duration_since(newest) > age)
}

/// The sessions' directories that are this user's own; links are none.
fn sessions(path: &Path) -> io::Result<Vec<DirEntry>> {
    let Some(entries) = there(fs::read_dir(path))? else {
        return Ok(Vec::new());
    };
    let own = rustix::process::geteuid().as_raw();
    let mut kept = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Of the entry itself: a link is not followed.
        if is_session(&entry) && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own) {
            kept.push(entry);
        }
    }
    Ok(kept)
}

fn is_session(entry: &DirEntry) -> bool {
    entry.file_name().to_str().is_some_and(is_digest)
}

/// How much is in a directory, and when something in it last changed; `None` when it is gone. What goes meanwhile
/// counts as gone before.
fn measure(path: &Path) -> io::Result<Option<(u64, SystemTime)>> {
    let Some(entries) = there(fs::read_dir(path))? else {
        return Ok(None);
    };
    let Some(own) = there(fs::symlink_metadata(path).and_then(|own| own.modified()))? else {
        return Ok(None);
    };
    let mut total = (0, own);
    for entry in entries {
        let entry = entry?;
        let Some(found) = there(entry.metadata())? else {
            continue;
        };
        let within = if found.is_dir() {
            measure(&entry.path())?
        } else {
            Some((found.len(), Metadata::modified(&found)?))
        };
        if let Some((bytes, newest)) = within {
            total = (total.0 + bytes, total.1.max(newest));
        }
    }
    Ok(Some(total))
}

fn there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_old_sessions_of_this_project_go() {
        let (root, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let project = ProjectDir::open(dir.path()).unwrap();
        let session = |name: &str| root.path().join(namespace(&project)).join(name);
        let (old, other) = ("a".repeat(64), "b".repeat(64));
        let elsewhere = root.path().join("another project").join(&old);
        for path in [
            session(&old),
            session(&other),
            session(&"C".repeat(64)),
            session("notes"),
            elsewhere,
        ] {
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("1"), "12345").unwrap();
        }
        std::os::unix::fs::symlink(session(&other), session(&"d".repeat(64))).unwrap();
        let (now, hour) = (Timestamp::now(), SignedDuration::from_hours(1));
        assert!(find(root.path(), &project, now, hour).candidates.is_empty());
        let later = now + SignedDuration::from_hours(2);
        let found = find(root.path(), &project, later, hour);
        let paths: Vec<&str> = found.candidates.iter().map(|candidate| &*candidate.path).collect();
        assert_eq!(
            paths,
            [session(&old).to_str().unwrap(), session(&other).to_str().unwrap()]
        );
        assert_eq!((found.candidates[0].bytes, found.unseen.len()), (5, 0));
        assert!(remove(&found.candidates[0], later, hour).unwrap());
        assert!(!remove(&found.candidates[0], later, hour).unwrap());
        assert!(!session(&old).exists());
        // Somebody has come back.
        assert!(!remove(&found.candidates[1], now, hour).unwrap());
        assert!(session(&other).join("1").exists());
        let nowhere = find(&root.path().join("nowhere"), &project, later, SignedDuration::ZERO);
        assert!(nowhere.candidates.is_empty() && nowhere.unseen.is_empty());
    }
}
