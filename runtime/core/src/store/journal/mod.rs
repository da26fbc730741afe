//! Journals: files of one JSON record per line that only grow.
//!
//! Answers for appending with a sequence number that has no gap and no double across processes and rotations, for
//! mending a line that a crash tore, for waiting until a record is durable, and for reading on from any number. Leaves out what the records mean.
//!
//! - `tail`: the end of the live file, and mending it;
//! - `rotation`: the files behind it, and their index;
//! - `combine`: one write for the threads of a process that append at the same time;
//! - `commit`: one fdatasync for all who wait for one;
//! - `reader`: reading and following, without the lock;
//! - `lines`: one file, line after line; `line`: what stands on one.
//!
//! A journal outside the machinery's directories is written and read as the sandbox of its store allows.
//!
//! Numbers start at 1 and stand in each record as `seq`. Only the end of the file is read to find the last one, in
//! pieces: memory stays small whatever a crash left there.

mod combine;
mod commit;
mod line;
mod lines;
mod reader;
mod rotation;
mod tail;
#[cfg(test)]
mod tests;
mod times;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use devloop_contract::CommonFailure;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

pub use line::Record;
pub use reader::{Follower, Reader, Skipped};
pub use rotation::Rotated;

use super::Store;
use super::error::StoreError;
use super::lock::{Lock, Wait};
use super::place::is_machinery;
use crate::sandbox::{Durability, FsError, ProjectDir, RelPath, append_whole};
use combine::{Ended, Written};
use commit::Ticket;
use tail::{Looked, Tail};

/// The longest record, as bytes of its line. What is longer was never a record of a journal.
pub const LONGEST_RECORD: u64 = 4 * 1024 * 1024;

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct Settings {
    /// When an append counts as done.
    pub durability: Durability,
    /// When the live file is rotated away; never, if absent.
    pub rotation: Option<Rotation>,
    /// The directory for the files beside the live one: torn ends, rotated files, the index. The journal's own, if
    /// absent. Outside the machinery's directories the sandbox must let them be written, too.
    pub beside: Option<RelPath>,
    /// The longest line that is written; at most [`LONGEST_RECORD`].
    pub longest: u64,
}

/// When a journal's live file is rotated away: before an append by which it would exceed one of these.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The most bytes.
    pub bytes: u64,
    /// The most lines.
    pub lines: u64,
    /// Which rotated files stay.
    pub keep: Keep,
}

/// Which rotated files of a journal stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All of them.
    All,
    /// So many of the newest.
    Newest(usize),
}

impl From<Durability> for Settings {
    /// Never rotated, all in one directory.
    fn from(durability: Durability) -> Self {
        Self {
            durability,
            rotation: None,
            beside: None,
            longest: LONGEST_RECORD,
        }
    }
}

/// One journal of a project.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Store,
    path: RelPath,
    lock: String,
    settings: Settings,
}

/// What whoever appends gets to see first.
#[derive(Debug)]
pub struct Next<'a> {
    /// The number that the next record gets.
    pub seq: u64,
    /// The last record before it, if it can be read.
    pub last: Option<&'a Record>,
    /// What is mended before anything is appended.
    pub repaired: Option<&'a Repaired>,
}

impl Next<'_> {
    /// The time for the next record: now, or that of the last one when a clock was set back.
    pub fn time(&self, now: Timestamp) -> Timestamp {
        self.last.and_then(Record::time).map_or(now, |last| last.max(now))
    }
}

/// What was appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The number of the record; of the last one, when they are several.
    pub seq: u64,
    /// What was mended first.
    pub repaired: Option<Repaired>,
}

/// A torn end of a journal that was mended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// How many bytes were cut off; none when only a line end was missing.
    pub bytes: u64,
    /// The file that keeps them; absent when there was nothing to keep.
    pub quarantine: Option<RelPath>,
}

impl Journal {
    /// A journal at `path` under the lock `lock`. Nothing is opened yet.
    pub fn new(store: Store, path: RelPath, lock: impl Into<String>, settings: impl Into<Settings>) -> Self {
        Self {
            store,
            path,
            lock: lock.into(),
            settings: settings.into(),
        }
    }

    /// Where its live file is.
    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// Appends a record: `record` must serialise to an object. Its field `seq` gets the number; without one, `seq` is put
    /// first. Some 25 system calls with the lock, and a share in an fdatasync when synced; threads that append at the same
    /// time share all of it.
    ///
    /// # Errors
    /// `busy`, `too_large`, a refused path, an error of the system, a record that is no object, or a last number after
    /// which there is none: then nothing was appended. Also that the record could not be made durable; then it stands
    /// in the file and may be gone after a power failure.
    pub fn append<'w, T: Serialize + ?Sized>(
        &self,
        record: &T,
        wait: impl Into<Wait<'w>>,
    ) -> Result<Appended, StoreError> {
        let wait = wait.into().begun();
        match combine::append(self, fields_of(record)?, wait)? {
            Ended::Written(Written { appended, ticket }) => {
                self.wait_for(ticket, appended.seq)?;
                Ok(appended)
            }
            Ended::Alone(fields) => self.append_with(wait, |_| Ok(fields)),
        }
    }

    /// Appends the record that `make` gives when it has seen what comes before it. `make` runs under the journal's lock,
    /// before anything is written; when it fails, nothing is.
    ///
    /// # Errors
    /// As [`append`](Self::append), and whatever `make` fails with.
    pub fn append_with<'w, T: Serialize, E: From<StoreError>>(
        &self,
        wait: impl Into<Wait<'w>>,
        make: impl FnOnce(&Next<'_>) -> Result<T, E>,
    ) -> Result<Appended, E> {
        self.append_all_with(wait, |next| make(next).map(|record| vec![record]))
    }

    /// As [`append_with`](Self::append_with), with several records, which get consecutive numbers and are written as
    /// one.
    ///
    /// # Errors
    /// As [`append_with`](Self::append_with).
    pub fn append_all_with<'w, T: Serialize, E: From<StoreError>>(
        &self,
        wait: impl Into<Wait<'w>>,
        make: impl FnOnce(&Next<'_>) -> Result<Vec<T>, E>,
    ) -> Result<Appended, E> {
        let lock = self.lock(wait)?;
        self.append_under(lock, Numbers::Given, make)
    }

    /// As [`append_all_with`](Self::append_all_with), under the journal's lock, which is then let go, and of records that
    /// `make` gave their numbers, from the next one on: they are written as they are, without the detour over their fields.
    ///
    /// # Errors
    /// As [`append_with`](Self::append_with).
    pub(crate) fn append_numbered_under<T: Serialize, E: From<StoreError>>(
        &self,
        lock: Lock,
        make: impl FnOnce(&Next<'_>) -> Result<Vec<T>, E>,
    ) -> Result<Appended, E> {
        self.append_under(lock, Numbers::There, make)
    }

    fn append_under<T: Serialize, E: From<StoreError>>(
        &self,
        lock: Lock,
        numbers: Numbers,
        make: impl FnOnce(&Next<'_>) -> Result<Vec<T>, E>,
    ) -> Result<Appended, E> {
        let mut done = self.write_records(Share::One, numbers, make)?;
        drop(lock);
        self.wait_for(done.tickets.pop(), done.seq)?;
        Ok(Appended {
            seq: done.seq,
            repaired: done.repaired,
        })
    }

    /// Takes the journal's lock, to write.
    pub(crate) fn lock<'w>(&self, wait: impl Into<Wait<'w>>) -> Result<Lock, StoreError> {
        self.check_write(&self.path)?;
        self.store.lock(&self.lock, wait)
    }

    /// Mends the live file, makes room in it and writes the records. Hold the lock.
    fn write_records<T: Serialize, E: From<StoreError>>(
        &self,
        share: Share,
        numbers: Numbers,
        make: impl FnOnce(&Next<'_>) -> Result<Vec<T>, E>,
    ) -> Result<Done, E> {
        let live = self.open_live()?;
        let fail = |source| StoreError::from(self.io("append to", &self.path, source));
        let tail = Tail::of(&live).map_err(fail)?;
        let number = self.last_number(&live, &tail)?;
        let repaired = tail.repair(|| self.torn_path())?;
        let next = Next {
            seq: number.checked_add(1).ok_or_else(|| self.no_number_left())?,
            last: tail.last.as_ref(),
            repaired: repaired.as_ref(),
        };
        let records = make(&next)?;
        let (lines, seq) = self.lines(&records, numbers, number)?;
        if lines.is_empty() {
            return Ok(Done {
                seq,
                repaired: None,
                tickets: Vec::new(),
            });
        }

        tail.mend(&live, || self.open_torn())
            .map_err(|error: MendError| match error {
                MendError::Store(error) => error,
                MendError::Io(source) => self.io("mend", &self.path, source).into(),
            })?;
        if let Some(repaired) = &repaired {
            tracing::warn!(journal = %self.path, bytes = repaired.bytes, "a torn end was mended");
        }
        let more = More {
            bytes: lines.len() as u64,
            lines: records.len() as u64,
        };
        let (live, size) = self.make_room(live, &tail, more)?;
        // Before the write: after it nothing but the disk itself may fail.
        let id = commit::id_of(&live).map_err(fail)?;
        append_whole(&live, size, &lines).map_err(fail)?;
        let tickets = match (self.settings.durability, share) {
            (Durability::Cached, _) => Vec::new(),
            (Durability::Synced, Share::One) => commit::enter(id, live, 1),
            (Durability::Synced, Share::Each) => commit::enter(id, live, records.len()),
        };
        Ok(Done { seq, repaired, tickets })
    }

    /// The number before the next one. As a rule that of the last record; but people copy lines and put old files back,
    /// and a number that was given must not be given again.
    fn last_number(&self, live: &File, tail: &Tail) -> Result<u64, StoreError> {
        let fail = |source| StoreError::from(self.io("read", &self.path, source));
        let Some(last) = &tail.last else {
            let before = self.number_before_live()?;
            return before.checked_add(tail.unreadable).ok_or_else(|| self.no_number_left());
        };
        let number = last
            .seq
            .checked_add(tail.unreadable)
            .ok_or_else(|| self.no_number_left())?;
        let is_known = self.is_known(live, number).map_err(fail)?;
        let looked_at = if is_known { Looked::AtTwoLines } else { Looked::AtAPiece };
        let is_in_order = tail.is_in_order(live, looked_at).map_err(fail)?;
        if is_known && is_in_order {
            return Ok(number);
        }
        let greatest = if is_in_order {
            None
        } else {
            lines::greatest(live).map_err(fail)?
        };
        Ok(number.max(greatest.unwrap_or_default()).max(self.number_before_live()?))
    }

    fn wait_for(&self, ticket: Option<Ticket<'_>>, seq: u64) -> Result<(), StoreError> {
        match ticket {
            Some(ticket) => ticket.wait().map_err(|source| self.not_durable(seq, &source)),
            None => Ok(()),
        }
    }

    /// Makes the record with a number durable, and all before it, even where an earlier fdatasync failed: its line is
    /// written once more in its place, as the kernel takes what it failed to keep for clean. Hold the journal's lock.
    /// Nothing is done for a number that has no record; what was rotated away was durable before.
    ///
    /// # Errors
    /// A refused path, or an error of the system.
    pub fn make_durable(&self, seq: u64) -> Result<(), StoreError> {
        let fail = |source| self.io("make durable", &self.path, source);
        if let Some(live) = self.named(self.project().open_read(&self.path))?
            && let Some((place, line)) = lines::line_of(&live, seq).map_err(fail)?
        {
            let file = self.named(self.project().open_update(&self.path))?;
            file.write_all_at(&line, place).map_err(fail)?;
            file.sync_data().map_err(fail)?;
        }
        self.sync_names()
    }

    /// The record with a number, if it is still there and can be read. Reads some 20 pieces of 8 KiB.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn record(&self, seq: u64) -> Result<Option<Record>, StoreError> {
        match self.read_from(seq).next() {
            Some(Ok(record)) if record.seq == seq => Ok(Some(record)),
            None | Some(Ok(_)) => Ok(None),
            Some(Err(error)) => Err(error),
        }
    }

    /// Reads the records from number `from` on, oldest first, and counts what cannot be read. Opens nothing yet; holds no
    /// more than a line and a piece in memory.
    pub fn read_from(&self, from: u64) -> Reader {
        Reader::new(self.clone(), from, reader::Mode::Lenient)
    }

    /// Reads the records from number `from` on and stops with an error at the first that is damaged or missing.
    pub fn read_strictly_from(&self, from: u64) -> Reader {
        Reader::new(self.clone(), from, reader::Mode::Strict)
    }

    /// Reads the records from number `from` on and goes on as they are appended.
    pub fn follow_from(&self, from: u64) -> Follower {
        Follower::new(Reader::new(self.clone(), from, reader::Mode::Following))
    }

    /// Opens the live file, and makes it if need be.
    fn open_live(&self) -> Result<File, StoreError> {
        Ok(self.named(self.project().open_append(&self.path, self.settings.durability))?)
    }

    /// The file to append `more` to, and its size: the live one, or a new one in its place.
    fn make_room(&self, live: File, tail: &Tail, more: More) -> Result<(File, u64), StoreError> {
        let fail = |source| self.io("append to", &self.path, source);
        let size = tail.mended_size();
        if size == 0 {
            // Whoever made it may have died before its name was durable, or a rotation before its end.
            if self.settings.durability == Durability::Synced {
                self.sync_names()?;
            }
            if let Some(rotation) = self.settings.rotation {
                self.tidy(rotation.keep);
            }
            return Ok((live, 0));
        }
        let Some(rotation) = self.settings.rotation else {
            return Ok((live, size));
        };
        self.tidy_once(rotation.keep);
        if !rotation::is_due(rotation, &live, tail, more).map_err(fail)? {
            return Ok((live, size));
        }
        match self.rotate(&live, rotation.keep) {
            Ok(live) => Ok((live, 0)),
            // Better too long a file than none: as long as it keeps its name, it can take the record.
            Err(error) if self.is_live(&live) => {
                tracing::warn!(journal = %self.path, "it cannot be rotated and grows on: {error}");
                Ok((live, size))
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a file is still the one at the journal's path.
    fn is_live(&self, file: &File) -> bool {
        let there = self.project().open_read(&self.path).ok().flatten();
        there.is_some_and(
            |there| matches!((commit::id_of(&there), commit::id_of(file)), (Ok(one), Ok(other)) if one == other),
        )
    }

    /// Makes the names of its files durable.
    fn sync_names(&self) -> Result<(), StoreError> {
        for path in [&self.path, &self.torn_path()?] {
            match self.named(self.project().sync_dir_of(path)) {
                Ok(()) | Err(FsError::Missing { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The lines of records that follow the number `number`, and the last of their numbers.
    fn lines<T: Serialize>(
        &self,
        records: &[T],
        numbers: Numbers,
        mut number: u64,
    ) -> Result<(Vec<u8>, u64), StoreError> {
        let mut lines = Vec::new();
        for record in records {
            number = number.checked_add(1).ok_or_else(|| self.no_number_left())?;
            let start = lines.len();
            match numbers {
                Numbers::Given => serde_json::to_writer(&mut lines, &numbered(record, number)?),
                Numbers::There => serde_json::to_writer(&mut lines, record),
            }
            .map_err(StoreError::Serialize)?;
            lines.push(b'\n');
            let bytes = (lines.len() - start) as u64;
            let limit = self.settings.longest.min(LONGEST_RECORD);
            if bytes > limit {
                return Err(StoreError::Common(CommonFailure::TooLarge {
                    what: format!("a record of {}", self.path),
                    bytes,
                    limit,
                }));
            }
        }
        Ok((lines, number))
    }

    /// The file for torn ends, opened.
    fn open_torn(&self) -> Result<File, MendError> {
        let path = self.torn_path().map_err(MendError::Store)?;
        let open = || {
            self.check_write(&path)?;
            let file = self.named(self.project().open_update(&path))?;
            // Its name must be as durable as what is written into it.
            self.named(self.project().sync_dir_of(&path))?;
            Ok(file)
        };
        open().map_err(|error: FsError| MendError::Store(error.into()))
    }

    fn torn_path(&self) -> Result<RelPath, StoreError> {
        self.beside(&format!("{}.torn.ndjson", self.stem()))
    }

    /// The name of the journal without its ending.
    fn stem(&self) -> &str {
        let name = self.path.file_name();
        name.strip_suffix(".ndjson").unwrap_or(name)
    }

    fn beside_dir(&self) -> Option<RelPath> {
        self.settings.beside.clone().or_else(|| self.path.parent())
    }

    /// A file in the directory beside.
    fn beside(&self, name: &str) -> Result<RelPath, StoreError> {
        let path = match self.beside_dir() {
            Some(dir) => dir.join(name),
            None => RelPath::parse(name),
        };
        path.map_err(|problem| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, problem);
            self.io("name a file beside", &self.path, source).into()
        })
    }

    /// What tells it from all other journals of this process.
    fn place(&self) -> PathBuf {
        self.project().path().join(self.path.as_str())
    }

    /// Judges a file of the journal as any other, unless it is the machinery's.
    fn check_write(&self, path: &RelPath) -> Result<(), FsError> {
        if is_machinery(path.as_str()) {
            return Ok(());
        }
        self.store.sandbox().check_write(path)
    }

    /// As [`check_write`](Self::check_write), for reading.
    fn check_read(&self, path: &RelPath) -> Result<(), FsError> {
        if is_machinery(path.as_str()) {
            return Ok(());
        }
        self.store.sandbox().check_read(path)
    }

    fn project(&self) -> &ProjectDir {
        self.store.project()
    }

    fn named<T>(&self, done: Result<T, FsError>) -> Result<T, FsError> {
        self.store.named(done)
    }

    #[expect(
        clippy::unused_self,
        reason = "reads as one thing with the other errors of a journal"
    )]
    fn io(&self, op: &'static str, path: &RelPath, source: io::Error) -> FsError {
        FsError::Io {
            op,
            path: path.to_string(),
            source,
        }
    }

    fn no_number_left(&self) -> StoreError {
        let source = io::Error::new(
            io::ErrorKind::InvalidData,
            "its last record has the greatest number there is, so none can follow; a person must move the journal away or mend its last line",
        );
        self.io("append to", &self.path, source).into()
    }

    fn not_durable(&self, seq: u64, source: &io::Error) -> StoreError {
        let text = format!(
            "{source}; record {seq} stands in the file but may be gone after a power failure, and syncing again cannot tell"
        );
        self.io("make durable", &self.path, io::Error::new(source.kind(), text))
            .into()
    }
}

/// What is about to be appended.
#[derive(Clone, Copy, Debug)]
struct More {
    bytes: u64,
    lines: u64,
}

/// Who waits for records to become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    /// One for all of them.
    One,
    /// One for each.
    Each,
}

/// Where the numbers of records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// They are put into the records.
    Given,
    /// The records have them.
    There,
}

/// Records that were written.
#[derive(Debug)]
struct Done {
    /// The last number.
    seq: u64,
    repaired: Option<Repaired>,
    tickets: Vec<Ticket<'static>>,
}

/// What mending can fail with.
#[derive(Debug)]
enum MendError {
    Store(StoreError),
    Io(io::Error),
}

impl From<io::Error> for MendError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A record as fields.
fn fields_of<T: Serialize + ?Sized>(record: &T) -> Result<Map<String, Value>, StoreError> {
    let value = serde_json::to_value(record).map_err(StoreError::Serialize)?;
    let Value::Object(fields) = value else {
        let error = serde::ser::Error::custom("a journal's record must be an object");
        return Err(StoreError::Serialize(error));
    };
    Ok(fields)
}

/// A record as fields with its number.
fn numbered<T: Serialize>(record: &T, number: u64) -> Result<Map<String, Value>, StoreError> {
    let mut fields = fields_of(record)?;
    if let Some(seq) = fields.get_mut("seq") {
        *seq = number.into();
        return Ok(fields);
    }
    let mut all = Map::with_capacity(fields.len() + 1);
    all.insert("seq".to_owned(), number.into());
    all.extend(fields);
    Ok(all)
}
