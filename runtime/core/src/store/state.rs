//! State files: one JSON document each, whole or not at all.
//!
//! Answers for reading one back, setting a broken one aside, writing one, and keeping a bounded history. Leaves out
//! locking, which the caller does around reading and writing, and the meaning of the documents.

use serde::Serialize;
use serde::de::DeserializeOwned;

use devloop_contract::CommonFailure;

use super::Store;
use super::clock;
use super::error::StoreError;
use super::place::{HISTORY, SET_ASIDE};
use crate::sandbox::{Durability, EntryKind, FsError, RelPath};

/// The largest state file that is read.
pub const LARGEST_STATE: u64 = 16 * 1024 * 1024;

pub(super) fn read<T: DeserializeOwned>(store: &Store, path: &RelPath) -> Result<Option<T>, StoreError> {
    store.sandbox().check_read(path)?;
    let bytes = match store.named(store.project().read(path, LARGEST_STATE)) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        // No state that was written here, and refused again by every later call unless it goes.
        Err(error @ FsError::TooLarge { .. }) => return Err(set_aside(store, path, error.to_string())?.into()),
        Err(error) => return Err(error.into()),
    };
    let text = bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(&bytes);
    match serde_json::from_slice(text) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(set_aside(store, path, error.to_string())?.into()),
    }
}

/// Moves a broken file out of the way, so that the next write starts afresh and nothing is lost.
fn set_aside(store: &Store, path: &RelPath, problem: String) -> Result<CommonFailure, FsError> {
    store.sandbox().check_write(path)?;
    let base = format!("{path}{SET_ASIDE}{}", clock::stamp(store.clock().now()));
    let mut attempt = 1;
    loop {
        // Two may be set aside within one millisecond.
        let kept_as = if attempt == 1 {
            base.clone()
        } else {
            format!("{base}-{attempt}")
        };
        let to = RelPath::parse(&kept_as).map_err(|problem| FsError::Io {
            op: "set aside",
            path: path.to_string(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, problem),
        })?;
        match store.named(store.project().rename(path, &to, Durability::Synced)) {
            Err(FsError::Exists { .. }) if attempt < 100 => attempt += 1,
            Err(error) => return Err(error),
            Ok(()) => {
                return Ok(CommonFailure::StateCorrupt {
                    path: path.to_string(),
                    kept_as,
                    problem,
                });
            }
        }
    }
}

pub(super) fn write<T: Serialize + ?Sized>(store: &Store, path: &RelPath, value: &T) -> Result<(), StoreError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(StoreError::Serialize)?;
    bytes.push(b'\n');
    Ok(store.sandbox().replace(path, &bytes)?)
}

pub(super) fn prune_history(store: &Store, prefix: &str, keep: usize) -> Result<usize, StoreError> {
    let dir = history_dir();
    let entries = store.named(store.project().list(Some(&dir)))?.unwrap_or_default();
    let ours = |entry: &&crate::sandbox::Entry| entry.kind == EntryKind::File && entry.name.starts_with(prefix);
    let mut names: Vec<_> = entries.iter().filter(ours).map(|entry| &entry.name).collect();
    // Names end in a time, so their order is that of age.
    let old = names.len().saturating_sub(keep);
    names.truncate(old);
    let mut removed = 0;
    for name in names {
        // A name that is no path was not made by the store.
        let Ok(path) = dir.join(name) else { continue };
        // Old copies that come back after a power failure do no harm.
        removed += usize::from(store.named(store.project().remove_file(&path, Durability::Cached))?);
    }
    Ok(removed)
}

pub(super) fn keep_in_history(store: &Store, name: &str, bytes: &[u8]) -> Result<RelPath, StoreError> {
    let path = history_dir().join(name).map_err(|problem| FsError::Io {
        op: "keep in the history",
        path: name.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidInput, problem),
    })?;
    store.named(store.project().replace(&path, bytes, Durability::Cached))?;
    Ok(path)
}

fn history_dir() -> RelPath {
    RelPath::parse(HISTORY).expect("a constant path that keeps every rule")
}
