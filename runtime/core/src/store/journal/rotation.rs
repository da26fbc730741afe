//! The files that a journal has behind its live one, and their index.
//!
//! Answers for rotating the live file away so that a crash at any step leaves a journal that goes on with the next
//! number, and for knowing which file holds which numbers. Leaves out records.
//!
//! A rotated file is `<beside>/<name>.000001.ndjson`; the higher the number, the newer. The index
//! `<beside>/<name>.index.json` says the same for people and tools, and remembers the last number when the files are
//! gone. It follows from the files: nothing is read by it, and it is made anew when it is missing, broken or behind.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::commit::{Id, id_of};
use super::lines;
use super::tail::Tail;
use super::{Journal, Keep, More, Rotation, StoreError};
use crate::sandbox::{Durability, EntryKind, FsError, RelPath};
use crate::store::lock::Wait;

/// The largest index that is read: some hundred thousand files.
const LARGEST_INDEX: u64 = 64 * 1024 * 1024;

/// No line of a record is shorter: `{"seq":1}` and its end.
const SHORTEST_LINE: u64 = 10;

/// A file that was rotated away, as in the index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotated {
    /// Its name in the directory of the index.
    pub file: String,
    /// The number of its first record.
    pub first_seq: u64,
    /// The number of its last record.
    pub last_seq: u64,
    /// Its size.
    pub bytes: u64,
}

/// A rotated file before it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) path: RelPath,
}

/// A live file as this process knew it last.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: Id,
    size: u64,
    number: u64,
}

/// The live files of this process, by journal.
static COMPARED: LazyLock<Mutex<HashMap<PathBuf, Known>>> = LazyLock::new(Mutex::default);

/// The journals of this process whose index has been looked at.
static LOOKED_AT: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

impl Journal {
    /// The files that were rotated away, oldest first, by what is in them. Opens each file that the index does not know
    /// or knows with another size.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn rotated(&self) -> Result<Vec<Rotated>, StoreError> {
        let known = self.read_index();
        let mut before = 0;
        let mut all = Vec::new();
        for Numbered { path, .. } in self.numbered()? {
            let Some(file) = self.named(self.project().open_read(&path))? else {
                continue;
            };
            let rotated = match known.iter().find(|known| known.file == path.file_name()) {
                Some(known) if file.metadata().is_ok_and(|found| found.len() == known.bytes) => known.clone(),
                _ => describe(&path, &file, before).map_err(|source| self.io("read", &path, source))?,
            };
            before = rotated.last_seq;
            all.push(rotated);
        }
        Ok(all)
    }

    /// Removes rotated files so that only those that `keep` asks for are left; gives those removed. The live file stays.
    /// The newest rotated file stays too while the live one has no record: the next number follows from it.
    ///
    /// # Errors
    /// `busy`, a refused path or an error of the system.
    pub fn prune<'w>(&self, keep: Keep, wait: impl Into<Wait<'w>>) -> Result<Vec<Rotated>, StoreError> {
        let _lock = self.store.lock(&self.lock, wait)?;
        let all = self.rotated()?;
        let live = self.named(self.project().open_read(&self.path))?;
        let fail = |source| self.io("read", &self.path, source);
        let has_record = match &live {
            Some(file) => Tail::of(file).map_err(fail)?.last.is_some(),
            None => false,
        };
        let keep = match keep {
            Keep::Newest(0) if !has_record => Keep::Newest(1),
            keep => keep,
        };
        let removed = self.remove_old(keep)?;
        if !removed.is_empty() {
            self.write_index()?;
        }
        Ok(all
            .into_iter()
            .filter(|rotated| removed.iter().any(|path| path.file_name() == rotated.file))
            .collect())
    }

    /// Removes all records when `is_due` says so under the lock; the next one gets the number after the last all the
    /// same, as the index remembers it. Says whether it did.
    ///
    /// # Errors
    /// `busy`, a refused path or an error of the system.
    pub fn clear<'w>(
        &self,
        wait: impl Into<Wait<'w>>,
        is_due: impl FnOnce() -> Result<bool, StoreError>,
    ) -> Result<bool, StoreError> {
        let _lock = self.store.lock(&self.lock, wait)?;
        if !is_due()? {
            return Ok(false);
        }
        let live = self.open_live()?;
        let has_records = live.metadata().is_ok_and(|found| found.len() > 0);
        if has_records {
            self.rotate(&live, Keep::All)?;
        }
        // What remembers the last number must be there before the numbers go.
        self.write_index()?;
        self.remove_old(Keep::Newest(0))?;
        self.named(self.project().remove_file(&self.path, Durability::Cached))?;
        Ok(true)
    }

    /// Notes what is known of a live file, whose last number seems to be `number`, and says whether it can be the one that
    /// this process knew before: the same, no smaller, and with no smaller number.
    pub(super) fn is_known(&self, live: &File, number: u64) -> io::Result<bool> {
        let (id, size) = (id_of(live)?, live.metadata()?.len());
        let mut compared = COMPARED.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Known { id, size, number };
        let before = compared.insert(self.place(), now);
        Ok(before.is_some_and(|before| before.id == id && before.size <= size && before.number <= number))
    }

    /// The rotated files, oldest first. One listing.
    pub(super) fn numbered(&self) -> Result<Vec<Numbered>, StoreError> {
        let dir = self.beside_dir();
        let entries = self.named(self.project().list(dir.as_ref()))?.unwrap_or_default();
        let number_in = |name: &str| {
            let digits = name
                .strip_prefix(self.stem())?
                .strip_prefix('.')?
                .strip_suffix(".ndjson")?;
            let plain = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
            let number = plain.then(|| digits.parse::<u64>().ok()).flatten()?;
            // One spelling of each number: those with more digits than they need are somebody else's.
            (name == self.rotated_name(number)).then_some(number)
        };
        let mut all = Vec::new();
        for entry in entries.iter().filter(|entry| entry.kind == EntryKind::File) {
            if let Some(number) = number_in(&entry.name) {
                let path = self.beside(&entry.name)?;
                all.push(Numbered { number, path });
            }
        }
        // Not the order of names: there may be more than 999,999.
        all.sort_unstable_by_key(|numbered| numbered.number);
        Ok(all)
    }

    /// Whether files older than these, the first of which begins with record `first`, are known to have been there. When
    /// they are not, what is missing before it is damage.
    pub(super) fn has_removed(&self, rotated: &[Numbered], first: u64) -> bool {
        match rotated.first() {
            Some(oldest) => oldest.number > 1,
            None => self
                .read_index()
                .iter()
                .any(|known| known.last_seq.saturating_add(1) >= first),
        }
    }

    fn rotated_name(&self, number: u64) -> String {
        format!("{}.{number:06}.ndjson", self.stem())
    }

    /// Rotates the live file away and gives a new one. It ends with a whole line, and the lock is held.
    ///
    /// 1. What is in it becomes durable. 2. It gets its new name. 3. A new live file is made. 4. Old files go. 5. The
    ///    index is written. A crash before 2 changes nothing; before 3 leaves no live file, whose next number follows
    ///    from the newest rotated one; after that only the index is behind.
    pub(super) fn rotate(&self, live: &File, keep: Keep) -> Result<File, StoreError> {
        if self.settings.durability == Durability::Synced {
            // Who waits for it does so in this file; but a later `sync` looks at the new one alone.
            live.sync_data().map_err(|source| self.io("sync", &self.path, source))?;
        }
        let mut number = self.numbered()?.last().map_or(1, |newest| newest.number + 1);
        if let Some(dir) = self.beside_dir() {
            self.named(self.project().create_dir_all(&dir, self.settings.durability))?;
        }
        loop {
            let to = self.beside(&self.rotated_name(number))?;
            self.check_write(&to)?;
            match self.named(self.project().rename(&self.path, &to, Durability::Cached)) {
                Ok(()) => break,
                // Something that is no file has the name.
                Err(FsError::Exists { .. } | FsError::Obstructed { .. }) if self.taken(&to) => number += 1,
                Err(error) => return Err(error.into()),
            }
        }
        let live = self.named(self.project().open_append(&self.path, Durability::Cached))?;
        if self.settings.durability == Durability::Synced {
            // The old name and the new one in one go. Nothing is acknowledged before.
            self.sync_names()?;
        }
        self.tidy(keep);
        Ok(live)
    }

    fn taken(&self, path: &RelPath) -> bool {
        matches!(self.project().metadata(path), Ok(Some(_)))
    }

    /// Removes what is too old and brings the index up to date. Both can be done again, so that a failure fails nothing.
    pub(super) fn tidy(&self, keep: Keep) {
        let done = self.remove_old(keep).and_then(|_| self.write_index());
        if let Err(error) = done {
            tracing::warn!(journal = %self.path, "its rotated files or their index are not up to date: {error}");
        }
    }

    /// Brings the index up to date when this process has not looked at it yet.
    pub(super) fn tidy_once(&self, keep: Keep) {
        let place = self.place();
        let mut looked_at = LOOKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
        let first = looked_at.insert(place);
        drop(looked_at);
        if first {
            self.tidy(keep);
        }
    }

    fn remove_old(&self, keep: Keep) -> Result<Vec<RelPath>, StoreError> {
        let Keep::Newest(newest) = keep else {
            return Ok(Vec::new());
        };
        let mut old = self.numbered()?;
        old.truncate(old.len().saturating_sub(newest));
        let mut removed = Vec::new();
        for Numbered { path, .. } in old {
            // Old files that come back after a power failure do no harm.
            if self.named(self.project().remove_file(&path, Durability::Cached))? {
                removed.push(path);
            }
        }
        Ok(removed)
    }

    /// Writes the index when it says something else than the files.
    fn write_index(&self) -> Result<(), StoreError> {
        let now = self.rotated()?;
        let then = self.read_index();
        // With all files gone, the old index is what remembers the last number.
        if now == then || now.is_empty() {
            return Ok(());
        }
        let mut bytes = serde_json::to_vec_pretty(&now).map_err(StoreError::Serialize)?;
        bytes.push(b'\n');
        let path = self.index_path()?;
        self.named(self.project().replace(&path, &bytes, Durability::Cached))?;
        Ok(())
    }

    /// What the index says; nothing when it is missing or broken.
    fn read_index(&self) -> Vec<Rotated> {
        let read = || {
            let path = self.index_path().ok()?;
            let bytes = self.project().read(&path, LARGEST_INDEX).ok()??;
            serde_json::from_slice(&bytes).ok()
        };
        read().unwrap_or_default()
    }

    fn index_path(&self) -> Result<RelPath, StoreError> {
        self.beside(&format!("{}.index.json", self.stem()))
    }

    /// The last number before the live file, which has none.
    pub(super) fn number_before_live(&self) -> Result<u64, StoreError> {
        // Files that were removed count too, as long as somebody remembers them.
        let remembered = self.read_index().iter().map(|known| known.last_seq).max().unwrap_or(0);
        let mut unreadable = 0;
        for Numbered { path, .. } in self.numbered()?.iter().rev() {
            let Some(file) = self.named(self.project().open_read(path))? else {
                continue;
            };
            let tail = Tail::of(&file).map_err(|source| self.io("read", path, source))?;
            unreadable += tail.unreadable;
            if let Some(last) = tail.last {
                return Ok(remembered.max(last.seq.saturating_add(unreadable)));
            }
        }
        Ok(remembered.max(unreadable))
    }
}

/// As if this process had not looked at the journal's index yet.
#[cfg(test)]
pub(super) fn forget(journal: &Journal) {
    let mut looked_at = LOOKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
    looked_at.remove(&journal.place());
}

/// Whether a live file is to be rotated away before `more` is added to it.
pub(super) fn is_due(rotation: Rotation, live: &File, tail: &Tail, more: More) -> io::Result<bool> {
    let size = tail.mended_size();
    if size == 0 {
        return Ok(false);
    }
    if size.saturating_add(more.bytes) > rotation.bytes {
        return Ok(true);
    }
    // The number of lines follows from the numbers of the first and the last one; a short file is not even asked.
    let short = rotation.lines.saturating_sub(more.lines).saturating_mul(SHORTEST_LINE);
    if size < short {
        return Ok(false);
    }
    let Some(last) = &tail.last else { return Ok(false) };
    let first = lines::first_record(live, 0, size)?.map_or(last.seq, |first| first.seq);
    let lines = last
        .seq
        .saturating_sub(first)
        .saturating_add(1)
        .saturating_add(tail.unreadable);
    Ok(lines.saturating_add(more.lines) > rotation.lines)
}

fn describe(path: &RelPath, file: &File, before: u64) -> io::Result<Rotated> {
    let bytes = file.metadata()?.len();
    let first = lines::first_record(file, 0, bytes)?;
    let tail = Tail::of(file)?;
    let last_seq = tail
        .last
        .map_or(before, |last| last.seq)
        .saturating_add(tail.unreadable);
    Ok(Rotated {
        file: path.file_name().to_owned(),
        first_seq: first.map_or(before.saturating_add(1), |first| first.seq),
        last_seq,
        bytes,
    })
}
