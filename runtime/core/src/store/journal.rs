//! Journals: files of one JSON record per line that only grow.
//!
//! Answers for appending with a sequence number that has no gap and no double across processes, for mending a line that
//! a crash tore, and for reading from a number on. Leaves out rotation, an index, and what the records mean.
//!
//! Numbers start at 1 and stand in each record as `seq`. Only the end of the file is read to find the last one, in
//! pieces: memory stays small whatever a crash left there.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use devloop_contract::CommonFailure;

use serde::Serialize;
use serde_json::{Map, Value};

use super::Store;
use super::backwards::Backwards;
use super::error::StoreError;
use super::lock;
use crate::sandbox::{Durability, FsError, RelPath};

/// The longest record, as bytes of its line. What is longer at the end of a journal was never a record of it.
pub const LONGEST_RECORD: u64 = 4 * 1024 * 1024;
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
    /// `busy`, a refused path, an error of the system, a record that is no object or longer than [`LONGEST_RECORD`], or
    /// a last number after which there is none. Then nothing was appended.
    pub fn append<T: Serialize + ?Sized>(&self, record: &T, wait: Duration) -> Result<u64, StoreError> {
        let not_an_object = || StoreError::Serialize(serde::ser::Error::custom("a journal's record must be an object"));
        let Value::Object(fields) = serde_json::to_value(record).map_err(StoreError::Serialize)? else {
            return Err(not_an_object());
        };
        let _lock = lock::acquire(&self.store, &self.lock, wait.into())?;
        let file = self.store.named(self.store.project().open_update(&self.path))?;
        let last = self.mend(&file)?;
        let seq = last.checked_add(1).ok_or_else(|| self.no_number_left())?;
        let mut numbered = Map::with_capacity(fields.len() + 1);
        numbered.insert("seq".to_owned(), seq.into());
        numbered.extend(fields.into_iter().filter(|(key, _)| key != "seq"));
        let mut line = serde_json::to_vec(&numbered).map_err(StoreError::Serialize)?;
        line.push(b'\n');
        if line.len() as u64 > LONGEST_RECORD {
            return Err(StoreError::Common(CommonFailure::TooLarge {
                what: format!("a record of {}", self.path),
                bytes: line.len() as u64,
                limit: LONGEST_RECORD,
            }));
        }
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
    ///
    /// Zero bytes at the end are what a file system leaves when power fails between the growth of a file and its
    /// content: they hold nothing and are cut off. Anything else without a line end is kept beside the journal.
    fn mend(&self, file: &File) -> Result<u64, StoreError> {
        let fail = |source: io::Error| self.cannot_mend(source);
        let mut tail = Backwards::new(file).map_err(fail)?;
        let length = tail.end();
        let content = tail.skip_zeros().map_err(fail)?;
        let whole = tail.line_start().map_err(fail)?;
        if content > whole
            && let Some((seq, _)) = record_at(&mut tail, whole, content).map_err(fail)?
        {
            // Only its line end is missing.
            file.write_all_at(b"\n", content).map_err(fail)?;
            file.set_len(content + 1).map_err(fail)?;
            return Ok(seq);
        }
        let last = self.last_number(&mut tail, whole)?;
        if length > whole {
            if content > whole {
                self.move_torn(file, whole, content)?;
            }
            file.set_len(whole).map_err(fail)?;
            let (torn, zeros) = (content - whole, length - content);
            tracing::warn!(journal = %self.path, torn, zeros, "a torn end was cut off");
        }
        Ok(last)
    }

    /// The last number of the whole lines up to `end`. A line that can be read no more may have had one too, which must
    /// not be given again, so it counts.
    fn last_number(&self, tail: &mut Backwards<'_>, mut end: u64) -> Result<u64, StoreError> {
        let fail = |source: io::Error| self.cannot_mend(source);
        let (mut readable, mut unreadable) = (0_u64, 0_u64);
        while end > 0 {
            tail.go_to(end - 1);
            let start = tail.line_start().map_err(fail)?;
            if let Some((seq, _)) = record_at(tail, start, end).map_err(fail)? {
                readable = seq;
                break;
            }
            let blank = end - start <= LONGEST_RECORD && tail.bytes(start, end).map_err(fail)?.trim_ascii().is_empty();
            unreadable += u64::from(!blank);
            end = start;
        }
        readable.checked_add(unreadable).ok_or_else(|| self.no_number_left())
    }

    /// Keeps what is cut off, before it is cut.
    fn move_torn(&self, file: &File, mut from: u64, to: u64) -> Result<(), StoreError> {
        let fail = |source: io::Error| self.cannot_mend(source);
        let path = RelPath::parse(&format!("{}.torn", self.path))
            .map_err(|problem| fail(io::Error::new(io::ErrorKind::InvalidInput, problem)))?;
        let kept = self.store.named(self.store.project().open_update(&path))?;
        let before = kept.metadata().map_err(fail)?.len();
        let mut piece = vec![0; 64 * 1024];
        let mut at = before;
        let mut copy = || {
            while from < to {
                let count = usize::try_from(to - from).unwrap_or(usize::MAX).min(piece.len());
                file.read_exact_at(&mut piece[..count], from)?;
                kept.write_all_at(&piece[..count], at)?;
                from += count as u64;
                at += count as u64;
            }
            kept.write_all_at(b"\n", at)?;
            kept.sync_data()
        };
        copy().map_err(|error| {
            // The journal still has all of it; half a copy would only fill the disk.
            let _ = kept.set_len(before);
            fail(error)
        })
    }

    fn cannot_mend(&self, source: io::Error) -> StoreError {
        StoreError::Fs(FsError::Io {
            op: "mend",
            path: self.path.to_string(),
            source,
        })
    }

    fn no_number_left(&self) -> StoreError {
        StoreError::Fs(FsError::Io {
            op: "append to",
            path: self.path.to_string(),
            source: io::Error::new(
                io::ErrorKind::InvalidData,
                "its last record has the greatest number there is, so none can follow; a person must move the journal away or mend its last line",
            ),
        })
    }
}

/// The record between two places of a journal; a line that is too long for one is not read.
fn record_at(tail: &mut Backwards<'_>, start: u64, end: u64) -> io::Result<Option<(u64, Map<String, Value>)>> {
    if end - start > LONGEST_RECORD {
        return Ok(None);
    }
    tail.bytes(start, end).map(record_of)
}

/// The number and the record of a line, which need not have its line end.
fn record_of(line: &[u8]) -> Option<(u64, Map<String, Value>)> {
    let record: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let seq = record.get("seq")?.as_u64()?;
    Some((seq, record))
}
