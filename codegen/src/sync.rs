//! Generated files on disk: compare them with what the specs give, and bring them up to date.
//!
//! Answers for which files belong to the generated set, for writing only what changed, and for telling what is stale. A
//! file is removed only when the manifest of the last run lists it and it does not look hand-written.
//! Leaves out printing and the command line.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use devloop_codegen::{FileMap, MANIFEST};
use similar::TextDiff;

/// Folders whose other files are told about: nothing but generated files is expected there.
const FOLDERS: &[&str] = &["generated/snapshot", "generated/schemas", "generated/agents"];

/// The folder of the handlers: its own `mod.rs` and one for each group are generated, the rest is written by hand.
const HANDLERS: &str = "runtime/src/handlers";

/// What a generated file says of itself, where its format has comments.
const MARK: &str = "@generated";

/// How much of one file's difference is shown, in lines.
const DIFF_LINES: usize = 40;

/// What is different about one generated file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stale {
    /// It is not there.
    Missing,
    /// It was generated once and no spec gives it any more.
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

/// What a run found or did.
#[derive(Debug)]
pub(crate) struct Findings<T> {
    /// By path: changes in order of path; what is stale with the set of files first.
    pub(crate) files: Vec<(String, T)>,
    /// Files in the generator's folders that it did not make. They are left alone.
    pub(crate) strangers: Vec<String>,
}

/// Brings the files up to date. The manifest comes last: when a run ends early, the old one still speaks of the old files.
///
/// # Errors
/// A linked folder or a hand-written file in the way, before anything is written; then the first file that cannot be
/// read, written or removed.
pub(crate) fn write(root: &Path, files: &FileMap) -> io::Result<Findings<Change>> {
    let old = Manifest::read(root)?;
    let others = others(root, files, &old)?;
    for path in files.keys() {
        no_links(root, path)?;
        if !old.lists(path) && is_hand_written(root, path)? {
            let message = format!(
                "{path} would be generated, but was written by hand: it has no `{MARK}`. Move it to another path, or \
                 remove it"
            );
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
    }
    let mut changes = Vec::new();
    let (manifest, rest): (Vec<_>, Vec<_>) = files.iter().partition(|(path, _)| *path == MANIFEST);
    for (path, text) in rest {
        bring(root, path, text, &mut changes)?;
    }
    for path in others.left {
        fs::remove_file(root.join(&path)).map_err(|error| at(&path, &error))?;
        // A folder that is now empty goes too; one that is not stays, and that is no error.
        if let Some(folder) = root.join(&path).parent() {
            let _ = fs::remove_dir(folder);
        }
        changes.push((path, Change::Removed));
    }
    for (path, text) in manifest {
        bring(root, path, text, &mut changes)?;
    }
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Findings {
        files: changes,
        strangers: others.strangers,
    })
}

fn bring(root: &Path, path: &str, text: &str, changes: &mut Vec<(String, Change)>) -> io::Result<()> {
    let target = root.join(path);
    let change = match read(&target)? {
        Some(old) if old == text.as_bytes() => return Ok(()),
        Some(_) => Change::Updated,
        None => Change::Created,
    };
    replace(&target, text.as_bytes())?;
    changes.push((path.to_owned(), change));
    Ok(())
}

/// What is stale: first the set of files, then contents.
///
/// # Errors
/// A linked folder, or the first file that cannot be read.
pub(crate) fn check(root: &Path, files: &FileMap) -> io::Result<Findings<Stale>> {
    let others = others(root, files, &Manifest::read(root)?)?;
    let mut stale = Vec::new();
    let mut differing = Vec::new();
    for (path, text) in files {
        no_links(root, path)?;
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
    stale.extend(others.left.into_iter().map(|path| (path, Stale::Left)));
    stale.extend(differing);
    Ok(Findings {
        files: stale,
        strangers: others.strangers,
    })
}

/// What the generator made last time.
struct Manifest(BTreeSet<String>);

impl Manifest {
    /// The manifest on disk; nothing was made when there is none.
    fn read(root: &Path) -> io::Result<Self> {
        no_links(root, MANIFEST)?;
        let bytes = read(&root.join(MANIFEST))?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        // A line that names no path of the generator's is not believed: the file can be edited by hand.
        let paths = text.lines().map(str::trim).filter(|line| has_generated_form(line));
        Ok(Self(paths.map(str::to_owned).collect()))
    }

    fn lists(&self, path: &str) -> bool {
        self.0.contains(path)
    }
}

/// Whether the generator could make a file of this path, for some specs.
fn has_generated_form(path: &str) -> bool {
    let segments: Vec<&str> = path.split('/').collect();
    if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
        return false;
    }
    let extension = Path::new(path).extension().and_then(OsStr::to_str);
    match segments.as_slice() {
        ["generated", "snapshot", _, ..] => extension == Some("rs"),
        ["generated", "schemas", _] | ["generated", "schemas", "tools", _] => extension == Some("json"),
        ["generated", "agents", name] => *name == "_registry.json",
        ["generated", "agents", _, name] => *name == "tools.json",
        ["runtime", "src", "handlers", "mod.rs"] | ["runtime", "src", "handlers", _, "mod.rs"] => true,
        _ => false,
    }
}

/// Whether a file is there that can say that it is generated, and does not say so.
fn is_hand_written(root: &Path, path: &str) -> io::Result<bool> {
    if Path::new(path).extension().is_some_and(|extension| extension == "json") {
        return Ok(false);
    }
    let Some(bytes) = read(&root.join(path))? else {
        return Ok(false);
    };
    let text = String::from_utf8_lossy(&bytes);
    Ok(!text.lines().take(3).any(|line| line.contains(MARK)))
}

/// Files on disk that no spec gives.
struct Others {
    /// Those that were generated.
    left: BTreeSet<String>,
    /// Those that were not, where nobody would expect them.
    strangers: Vec<String>,
}

fn others(root: &Path, files: &FileMap, old: &Manifest) -> io::Result<Others> {
    let mut found = BTreeSet::new();
    for folder in FOLDERS {
        walk(root, folder, &mut found)?;
    }
    let mut handlers = BTreeSet::new();
    walk(root, HANDLERS, &mut handlers)?;
    // Deeper ones belong to handlers that have a folder of their own.
    found.extend(handlers.into_iter().filter(|path| has_generated_form(path)));
    found.retain(|path| !files.contains_key(path));
    let mut others = Others {
        left: BTreeSet::new(),
        strangers: Vec::new(),
    };
    for path in found {
        if old.lists(&path) && !is_hand_written(root, &path)? {
            others.left.insert(path);
        } else {
            others.strangers.push(path);
        }
    }
    Ok(others)
}

/// Refuses a path that leads through a link: what is behind it may lie anywhere.
fn no_links(root: &Path, path: &str) -> io::Result<()> {
    for (cut, _) in path.match_indices('/') {
        match fs::symlink_metadata(root.join(&path[..cut])) {
            Ok(found) if found.is_symlink() => {
                let message = format!(
                    "{} is a link, and generated files stay inside the repository. Replace it by a folder",
                    &path[..cut]
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(at(&path[..cut], &error)),
        }
    }
    Ok(())
}

/// Every file below a folder, as paths from the root with `/`. Links are not followed.
fn walk(root: &Path, folder: &str, found: &mut BTreeSet<String>) -> io::Result<()> {
    no_links(root, &format!("{folder}/"))?;
    let entries = match fs::read_dir(root.join(folder)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(folder, &error)),
    };
    for entry in entries {
        let entry = entry.map_err(|error| at(folder, &error))?;
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
        Err(error) => Err(at(path.display(), &error)),
    }
}

fn at(place: impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{place}: {error}"))
}

/// Replaces a file in one step, so that nobody reads half of it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let place = |error: io::Error| at(path.display(), &error);
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
