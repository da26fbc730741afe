//! State files: one JSON object each, whole or not at all.
//!
//! Answers for reading one back in any format that it ever had, setting a broken one aside, writing one, and keeping a
//! bounded history. Leaves out locking, which the caller does around reading and writing, and the meaning of the
//! documents.
//!
//! **Formats.** A file says its format under the key `format`; without one it has format 1, so that files of format 1 have
//! no key that only the store needs. An older format is brought up to date in memory and written with the next write. A
//! newer one is refused and left as it is: to set it aside would throw away what a newer devloop has written.
//!
//! **Keys that nobody here knows.** A document keeps them, wherever they stand: its types carry them along (`more`), so
//! that what a person or another tool has added survives every write of ours.

use std::fmt::Display;

use devloop_contract::CommonFailure;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Store;
use super::clock;
use super::error::StoreError;
use super::place::{HISTORY, SET_ASIDE};
use crate::sandbox::{Durability, EntryKind, FsError, RelPath};

/// The largest state file that is read.
pub const LARGEST_STATE: u64 = 16 * 1024 * 1024;

/// Where a state file says its format.
pub const FORMAT_KEY: &str = "format";

/// The document of a state file: a struct or a map, so that it is a JSON object. The key [`FORMAT_KEY`] is the store's.
pub trait StateFile: Serialize + DeserializeOwned {
    /// The format that is written.
    const FORMAT: u32 = 1;

    /// Brings an object from format `from` to the one after it. The store calls it for each step from the format that it
    /// found to [`FORMAT`](Self::FORMAT), and never with that one or a newer one.
    ///
    /// # Errors
    /// What is wrong with the object. Then the file counts as corrupt and is set aside.
    fn migrate(from: u32, state: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let _ = state;
        Err(format!("nothing is known of format {from}"))
    }

    /// Checks what the type does not say.
    ///
    /// # Errors
    /// What is wrong with the document. Then the file counts as corrupt and is set aside.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A whole number, also as programs write it that write every number with a point: `5.0`.
pub(crate) fn whole<'de, D: serde::Deserializer<'de>>(number: D) -> Result<u64, D::Error> {
    let number = serde_json::Number::deserialize(number)?;
    if let Some(whole) = number.as_u64() {
        return Ok(whole);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number up to the last one that a float tells from its neighbours"
    )]
    let whole = number
        .as_f64()
        .filter(|float| float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(float))
        .map(|float| float as u64);
    whole.ok_or_else(|| serde::de::Error::custom(format!("{number} is no whole number from 0 on")))
}

/// A state file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept<T> {
    /// What it holds, in the format of today.
    pub value: T,
    /// Its bytes, in the format in which they were.
    pub bytes: Vec<u8>,
}

/// Why bytes are no state.
#[derive(Debug)]
enum Unusable {
    /// They never were, or are not any more.
    Corrupt(String),
    /// They are that of a newer devloop.
    Newer(String),
}

pub(super) fn read<T: StateFile>(store: &Store, path: &RelPath) -> Result<Option<Kept<T>>, StoreError> {
    let bytes = match bytes_of(store, path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        // No state that was written here, and refused again by every later call unless it goes.
        Err(error @ FsError::TooLarge { .. }) => return Err(set_aside(store, path, error.to_string())?.into()),
        Err(error) => return Err(error.into()),
    };
    match parse_checked(&bytes) {
        Ok(value) => Ok(Some(Kept { value, bytes })),
        Err(Unusable::Corrupt(problem)) => Err(set_aside(store, path, problem)?.into()),
        Err(Unusable::Newer(found)) => Err(newer::<T>(path, found)),
    }
}

pub(super) fn peek<T: StateFile>(store: &Store, path: &RelPath) -> Result<Option<T>, StoreError> {
    let unreadable = |problem| StoreError::Unreadable {
        path: path.to_string(),
        problem,
    };
    let bytes = match bytes_of(store, path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error @ FsError::TooLarge { .. }) => return Err(unreadable(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    match parse_checked(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(Unusable::Corrupt(problem)) => Err(unreadable(problem)),
        Err(Unusable::Newer(found)) => Err(newer::<T>(path, found)),
    }
}

fn bytes_of(store: &Store, path: &RelPath) -> Result<Option<Vec<u8>>, FsError> {
    store.sandbox().check_read(path)?;
    // Else a repeated call would say that all is well with what may be gone tomorrow.
    store.named(store.project().settle(path))?;
    store.named(store.project().read(path, LARGEST_STATE))
}

fn newer<T: StateFile>(path: &RelPath, found: String) -> StoreError {
    StoreError::Newer {
        path: path.to_string(),
        found,
        known: T::FORMAT,
    }
}

/// The one key of a document that is the store's.
#[derive(Deserialize)]
struct Head {
    // Also `null` is a value that somebody has put there.
    #[serde(default, deserialize_with = "present")]
    format: Option<Value>,
}

fn present<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

fn parse_checked<T: StateFile>(bytes: &[u8]) -> Result<T, Unusable> {
    let state: T = parse(bytes)?;
    state.check().map_err(Unusable::Corrupt)?;
    Ok(state)
}

/// Cost: one look over the text for the format and one to read it; a text that says its format, or has an old one, is
/// also made a tree in between.
fn parse<T: StateFile>(bytes: &[u8]) -> Result<T, Unusable> {
    let corrupt = |problem: &dyn Display| Unusable::Corrupt(problem.to_string());
    let text = bytes.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(bytes);
    // Structs can be read from arrays, too.
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(corrupt(&"it does not begin as a JSON object does"));
    }
    let head: Head = serde_json::from_slice(text).map_err(|error| corrupt(&error))?;
    let found = match &head.format {
        Some(value) => format_number::<T>(value)?,
        None => 1,
    };
    if found == T::FORMAT && head.format.is_none() {
        return serde_json::from_slice(text).map_err(|error| corrupt(&error));
    }
    let mut state: Map<String, Value> = serde_json::from_slice(text).map_err(|error| corrupt(&error))?;
    state.shift_remove(FORMAT_KEY);
    for from in found..T::FORMAT {
        state = T::migrate(from, state).map_err(|problem| {
            corrupt(&format!(
                "it cannot be brought from format {from} to the next: {problem}"
            ))
        })?;
        state.shift_remove(FORMAT_KEY);
    }
    serde_json::from_value(Value::Object(state)).map_err(|error| {
        let from = if found == T::FORMAT {
            String::new()
        } else {
            format!(" after it was brought from format {found} to {}", T::FORMAT)
        };
        corrupt(&format!("{error}{from}"))
    })
}

fn format_number<T: StateFile>(value: &Value) -> Result<u32, Unusable> {
    // Some programs write every number with a point.
    let whole = value.as_f64().filter(|number| *number >= 1.0 && number.fract() == 0.0);
    match whole {
        None => Err(Unusable::Corrupt(format!(
            "its `{FORMAT_KEY}` is {value}; it must be a whole number from 1 on"
        ))),
        Some(number) if number > f64::from(T::FORMAT) => Err(Unusable::Newer(value.to_string())),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number between 1 and a `u32`"
        )]
        Some(number) => Ok(number as u32),
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
            Err(FsError::Io { op, path, source }) => {
                let text = format!("{source}. It is broken and was to be set aside: {problem}");
                let source = std::io::Error::new(source.kind(), text);
                return Err(FsError::Io { op, path, source });
            }
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

pub(super) fn write<T: StateFile>(store: &Store, path: &RelPath, value: &T) -> Result<(), StoreError> {
    let bytes = match T::FORMAT {
        1 => serde_json::to_vec_pretty(value),
        format => serde_json::to_vec_pretty(&Numbered { format, state: value }),
    };
    let mut bytes = bytes.map_err(StoreError::Serialize)?;
    bytes.push(b'\n');
    let size = bytes.len() as u64;
    if size > LARGEST_STATE {
        // The next reader would take it for broken.
        return Err(StoreError::Common(CommonFailure::TooLarge {
            what: format!("the state file `{path}`"),
            bytes: size,
            limit: LARGEST_STATE,
        }));
    }
    Ok(store.sandbox().replace(path, &bytes)?)
}

/// A document with its format before all else.
#[derive(Serialize)]
struct Numbered<'a, T> {
    format: u32,
    #[serde(flatten)]
    state: &'a T,
}

pub(super) fn restore(store: &Store, path: &RelPath, before: Option<&[u8]>) -> Result<(), StoreError> {
    match before {
        Some(bytes) => store.sandbox().replace(path, bytes)?,
        None => {
            store.sandbox().remove_file(path)?;
        }
    }
    Ok(())
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
    // What it is kept from is about to be replaced, durably.
    store.named(store.project().replace(&path, bytes, store.sandbox().durability()))?;
    Ok(path)
}

fn history_dir() -> RelPath {
    RelPath::parse(HISTORY).expect("a constant path that keeps every rule")
}
