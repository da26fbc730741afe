//! Journals: files of one JSON record per line that only grow.
//!
//! Answers for appending with a sequence number that has no gap and no double across processes, for mending a line that
//! a crash tore, and for reading from a number on. Leaves out rotation, an index, and what the records mean.
//!
//! Numbers start at 1 and stand in each record as `seq`. Only the end of the file is read to find the last one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Store;
use super::error::StoreError;
use super::lock;
use crate::sandbox::{Durability, FsError, RelPath};

/// How much of the end is read at once; a longer last record costs more rounds.
const TAIL: u64 = 16 * 1024;
/// The largest journal that is read as a whole.
const LARGEST_READ: u64 = 256 * 1024 * 1024;

/// One journal of a project.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Store,
    path: RelPath,
    lock: String,
    durability: Durability,
}

impl Journal {
    /// A journal at `path` under the lock `lock`. Nothing is opened yet.
    pub fn new(store: Store, path: RelPath, lock: impl Into<String>, durability: Durability) -> Self {
        Self {
            store,
            path,
            lock: lock.into(),
            durability,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// Appends a record: `record` must serialise to an object; `seq` is put before its fields. Gives the number. About
    /// 14 system calls with the lock, and an fdatasync when synced.
    ///
    /// # Errors
    /// `busy`, a refused path, an error of the system, or a record that is no object. Then nothing was appended.
    pub fn append<T: Serialize + ?Sized>(&self, record: &T, wait: Duration) -> Result<u64, StoreError> {
        let not_an_object = || StoreError::Serialize(serde::ser::Error::custom("a journal's record must be an object"));
        let Value::Object(fields) = serde_json::to_value(record).map_err(StoreError::Serialize)? else {
            return Err(not_an_object());
        };
        let _lock = lock::acquire(&self.store, &self.lock, wait)?;
        let file = self.store.named(self.store.project().open_update(&self.path))?;
        let seq = self.mend(file)? + 1;
        let mut numbered = Map::with_capacity(fields.len() + 1);
        numbered.insert("seq".to_owned(), seq.into());
        numbered.extend(fields.into_iter().filter(|(key, _)| key != "seq"));
        let mut line = serde_json::to_vec(&numbered).map_err(StoreError::Serialize)?;
        line.push(b'\n');
        self.store
            .named(self.store.project().append(&self.path, &line, self.durability))?;
        Ok(seq)
    }

    /// Reads the records from number `from` on, oldest first. A torn line at the end is left out, and so is any line
    /// that is no record: both are for the next append or for a person to mend. Reads the whole file.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn read_from(&self, from: u64) -> Result<Vec<Map<String, Value>>, StoreError> {
        let bytes = self
            .store
            .named(self.store.project().read(&self.path, LARGEST_READ))?
            .unwrap_or_default();
        let records = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(record_of);
        Ok(records
            .filter(|(seq, _)| *seq >= from)
            .map(|(_, record)| record)
            .collect())
    }

    /// Makes the file end with a whole line; gives the last number. Runs under the lock.
    fn mend(&self, mut file: File) -> Result<u64, StoreError> {
        let fail = |source: io::Error| {
            StoreError::Fs(FsError::Io {
                op: "mend",
                path: self.path.to_string(),
                source,
            })
        };
        let length = file.seek(SeekFrom::End(0)).map_err(fail)?;
        let mut taken = TAIL.min(length);
        loop {
            let mut tail = Vec::new();
            file.seek(SeekFrom::Start(length - taken)).map_err(fail)?;
            (&file).take(taken).read_to_end(&mut tail).map_err(fail)?;
            let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let torn = &tail[whole..];
            let reaches_start = taken == length;
            // Without a line end in sight the last line may begin before what was read.
            if whole > 0 || reaches_start {
                if let Some((seq, _)) = record_of(torn) {
                    file.seek(SeekFrom::End(0)).map_err(fail)?;
                    file.write_all(b"\n").map_err(fail)?;
                    return Ok(seq);
                }
                if let Some(seq) = last_number(&tail[..whole], reaches_start) {
                    if !torn.is_empty() {
                        self.move_torn(torn)?;
                        file.set_len(length - torn.len() as u64).map_err(fail)?;
                    }
                    return Ok(seq);
                }
            }
            taken = taken.saturating_mul(4).min(length);
        }
    }

    /// Keeps what is cut off, before it is cut.
    fn move_torn(&self, torn: &[u8]) -> Result<(), StoreError> {
        let path = RelPath::parse(&format!("{}.torn", self.path)).map_err(|problem| FsError::Io {
            op: "mend",
            path: self.path.to_string(),
            source: io::Error::new(io::ErrorKind::InvalidInput, problem),
        })?;
        let mut line = torn.to_vec();
        line.push(b'\n');
        self.store
            .named(self.store.project().append(&path, &line, Durability::Synced))?;
        tracing::warn!(journal = %self.path, bytes = torn.len(), "a torn record was moved aside");
        Ok(())
    }
}

/// The last number of whole lines. A line that can be read no more may have had one too, which must not be given
/// again, so it counts. `None` when the beginning of the file would have to be seen.
fn last_number(lines: &[u8], from_start: bool) -> Option<u64> {
    let mut unreadable = 0;
    for line in lines.split_inclusive(|byte| *byte == b'\n').rev() {
        if let Some((seq, _)) = record_of(line) {
            return Some(seq + unreadable);
        }
        unreadable += u64::from(!line.trim_ascii().is_empty());
    }
    from_start.then_some(unreadable)
}

/// The number and the record of a line, which need not have its line end.
fn record_of(line: &[u8]) -> Option<(u64, Map<String, Value>)> {
    let record: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let seq = record.get("seq")?.as_u64()?;
    Some((seq, record))
}
