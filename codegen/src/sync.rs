//! Generated files on disk: compare them with what the specs give, and bring them up to date.
//!
//! Answers for which files belong to the generated set, for writing only what changed, and for telling what is stale.
//! Leaves out printing and the command line.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use devloop_codegen::FileMap;
use similar::TextDiff;

/// Folders that hold nothing but generated files.
const FOLDERS: &[&str] = &["generated/snapshot", "generated/schemas", "generated/agents"];

/// The folder of the handlers: its `mod.rs` files are generated, the rest is written by hand.
const HANDLERS: &str = "runtime/src/handlers";

/// How much of one file's difference is shown, in lines.
const DIFF_LINES: usize = 40;

/// What is different about one generated file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// It is not there.
    Missing,
    /// It is there and no spec gives it.
    Left,
    /// Only its line ends differ.
    LineEnds,
    /// It differs; a unified diff from the file to what it should be.
    Differs(String),
}

/// What was done to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was not there before.
    Created,
    /// It said something else.
    Updated,
    /// No spec gives it any more.
    Removed,
}

/// The nearest folder, from `start` upwards, that has both `specs/` and `Cargo.toml`.
pub(crate) fn find_root(start: &Path) -> Option<PathBuf> {
    start
        .ancestors()
        .find(|dir| dir.join("specs").is_dir() && dir.join("Cargo.toml").is_file())
        .map(Path::to_path_buf)
}

/// Brings the files up to date and says what changed, in order of path.
///
/// # Errors
/// The first file that cannot be read, written or removed.
pub(crate) fn write(root: &Path, files: &FileMap) -> io::Result<Vec<(String, Change)>> {
    let mut changes = Vec::new();
    for (path, text) in files {
        let target = root.join(path);
        let change = match read(&target)? {
            Some(old) if old == text.as_bytes() => continue,
            Some(_) => Change::Updated,
            None => Change::Created,
        };
        replace(&target, text.as_bytes())?;
        changes.push((path.clone(), change));
    }
    for path in left_over(root, files)? {
        fs::remove_file(root.join(&path))?;
        // A folder that is now empty goes too; one that is not stays, and that is no error.
        if let Some(folder) = root.join(&path).parent() {
            let _ = fs::remove_dir(folder);
        }
        changes.push((path, Change::Removed));
    }
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(changes)
}

/// What is stale: first the set of files, then contents.
///
/// # Errors
/// The first file that cannot be read.
pub(crate) fn check(root: &Path, files: &FileMap) -> io::Result<Vec<(String, Stale)>> {
    let mut stale = Vec::new();
    let mut differing = Vec::new();
    for (path, text) in files {
        let Some(found) = read(&root.join(path))? else {
            stale.push((path.clone(), Stale::Missing));
            continue;
        };
        if found == text.as_bytes() {
            continue;
        }
        let found = String::from_utf8_lossy(&found);
        let normal = found.replace("\r\n", "\n");
        let what = if normal == *text {
            Stale::LineEnds
        } else {
            Stale::Differs(diff(path, &normal, text))
        };
        differing.push((path.clone(), what));
    }
    stale.extend(left_over(root, files)?.into_iter().map(|path| (path, Stale::Left)));
    stale.extend(differing);
    Ok(stale)
}

/// Files on disk that belong to the generated set by their place, but that no spec gives.
fn left_over(root: &Path, files: &FileMap) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for folder in FOLDERS {
        walk(root, folder, &mut found)?;
    }
    let mut handlers = BTreeSet::new();
    walk(root, HANDLERS, &mut handlers)?;
    found.extend(handlers.into_iter().filter(|path| path.ends_with("/mod.rs")));
    found.retain(|path| !files.contains_key(path));
    Ok(found)
}

/// Every file below a folder, as paths from the root with `/`. Links are not followed.
fn walk(root: &Path, folder: &str, found: &mut BTreeSet<String>) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            walk(root, &path, found)?;
        } else {
            found.insert(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Replaces a file in one step, so that nobody reads half of it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let place = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(place)?;
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(place)
}

fn diff(path: &str, old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let text = diff
        .unified_diff()
        .context_radius(2)
        .header(&format!("{path} (on disk)"), &format!("{path} (from the specs)"))
        .to_string();
    let lines: Vec<&str> = text.lines().collect();
    let mut short = lines.iter().take(DIFF_LINES).copied().collect::<Vec<_>>().join("\n");
    if lines.len() > DIFF_LINES {
        let _ = fmt::Write::write_fmt(&mut short, format_args!("\n… {} more lines", lines.len() - DIFF_LINES));
    }
    short
}
