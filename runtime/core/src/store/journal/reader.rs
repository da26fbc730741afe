//! Reading a journal, without its lock.
//!
//! Answers for giving each record once and in order while others append, rotate, mend and remove old files; for finding
//! a number without reading what comes before it; and for saying what could not be read. Leaves out writing.
//!
//! A file that was rotated away is never written again, so it is read to its end before the next one; which that is
//! follows from the numbers of the files. The bytes after the last line end of the live file may be half of a record
//! that somebody is writing: they are no error and are looked at again later.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use super::commit::{Id, id_of};
use super::line::{self, Record};
use super::lines::{Found, Lines, PIECE, first_record, line_number, start_of};
use super::rotation::Numbered;
use super::{Journal, StoreError};
use crate::sandbox::RelPath;

/// How often files may change hands while one is being chosen.
const ATTEMPTS: usize = 64;

/// How long a follower sleeps between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// What a reader does about damage, and about a last record that has no line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Counts damage; gives the last record all the same: only its line end can be missing.
    Lenient,
    /// Stops.
    Strict,
    /// Counts damage; waits for the line end, since whoever writes may take the record back when the disk is full.
    Following,
}

/// What a reader passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines that hold no record, or one whose number was there before.
    pub lines: u64,
    /// Zero bytes, which a crash leaves.
    pub zeros: u64,
    /// Numbers that belong to no record though those around them are kept: of lines that cannot be read, or that somebody
    /// took away.
    pub numbers: u64,
    /// Numbers older than all that is kept, as old files are removed. That is no damage.
    pub pruned: u64,
}

/// Reads a journal from a number on. After the end it can be asked again: it goes on with what was appended since.
#[derive(Debug)]
pub struct Reader {
    journal: Journal,
    mode: Mode,
    /// The least number that is still to be given.
    next: u64,
    at: Option<Segment>,
    ready: VecDeque<Record>,
    skipped: Skipped,
    /// After an error there is nothing more.
    failed: bool,
}

/// One file that is being read.
#[derive(Debug)]
struct Segment {
    path: RelPath,
    file: File,
    id: Id,
    /// Nobody writes to it any more.
    sealed: bool,
    lines: Lines,
    /// The last number that was seen in it.
    seen: u64,
    /// The number that was given before its line had an end.
    early: Option<u64>,
    /// It is the oldest that is kept, older ones were removed, and nothing of it has been given yet.
    oldest: bool,
    /// Lines of it that cannot be read, so far.
    bad: u64,
}

impl Reader {
    pub(super) fn new(journal: Journal, from: u64, mode: Mode) -> Self {
        Self {
            journal,
            mode,
            next: from.max(1),
            at: None,
            ready: VecDeque::new(),
            skipped: Skipped::default(),
            failed: false,
        }
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The number from which a later reader would go on.
    pub fn position(&self) -> u64 {
        self.next
    }

    fn read(&mut self) -> Result<Option<Record>, StoreError> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return self.give(record).map(Some);
            }
            if self.at.is_none() {
                self.at = self.following_file()?;
            }
            let Some(at) = &mut self.at else { return Ok(None) };
            match at
                .lines
                .next(&at.file)
                .map_err(|source| self.journal.io("read", &at.path, source))?
            {
                Found::Line => self.take_line()?,
                Found::End if at.sealed => {
                    self.take_rest()?;
                    if !self.ready.is_empty() {
                        continue;
                    }
                    match self.following_file()? {
                        Some(next) => self.at = Some(next),
                        None => return Ok(None),
                    }
                }
                Found::End => match self.state_of_live()? {
                    State::Live => {
                        let early = if self.mode == Mode::Lenient { self.early() } else { None };
                        self.forget_rest();
                        let Some(record) = early else { return Ok(None) };
                        return self.give(record).map(Some);
                    }
                    // What was written before it got another name is still to be read.
                    State::Rotated => {
                        self.seal();
                        self.forget_rest();
                    }
                    // Its end was cut off below this place, or another file was put there: by number, then.
                    State::Changed => self.at = None,
                },
            }
        }
    }

    /// Judges a record by its number and gives it.
    fn give(&mut self, record: Record) -> Result<Record, StoreError> {
        let missing = record.seq.saturating_sub(self.next);
        if missing > 0 {
            if self.mode == Mode::Strict {
                let what = format!("record {} comes where record {} is expected", record.seq, self.next);
                return Err(self.damaged(what));
            }
            // Each line that cannot be read may have had one of the numbers.
            let pruned = match &self.at {
                Some(at) if at.oldest => missing.saturating_sub(at.bad),
                _ => 0,
            };
            self.skipped.pruned += pruned;
            self.skipped.numbers += missing - pruned;
        }
        if let Some(at) = &mut self.at {
            at.oldest = false;
        }
        self.next = record.seq.saturating_add(1);
        Ok(record)
    }

    /// Takes the records of the line that was just found.
    fn take_line(&mut self) -> Result<(), StoreError> {
        let Some(at) = &mut self.at else { return Ok(()) };
        let line = at.lines.line();
        let mut bad = u64::from(at.lines.is_overlong());
        let zeros = line::zeros(line);
        for piece in line::pieces(line) {
            match line::record(piece) {
                Some(record) if at.early.take_if(|early| *early == record.seq).is_some() => {}
                Some(record) if record.seq > at.seen => {
                    at.seen = record.seq;
                    if record.seq >= self.next {
                        self.ready.push_back(record);
                    }
                }
                Some(_) | None => bad += 1,
            }
        }
        at.bad += bad;
        self.skipped.zeros += zeros;
        self.skipped.lines += bad;
        if self.mode == Mode::Strict && (bad > 0 || zeros > 0) {
            let what = match (bad, zeros) {
                (0, zeros) => format!("the line has {zeros} zero bytes"),
                _ => "the line holds no record, or one whose number was there before".to_owned(),
            };
            return Err(self.damaged(what));
        }
        Ok(())
    }

    /// Takes what stands after the last line end of a file that nobody writes to any more.
    fn take_rest(&mut self) -> Result<(), StoreError> {
        let Some(at) = &mut self.at else { return Ok(()) };
        if at.lines.end_with_rest() {
            self.take_line()?;
        }
        Ok(())
    }

    /// The last record of the live file, when only its line end is missing.
    fn early(&mut self) -> Option<Record> {
        let at = self.at.as_mut()?;
        let record = line::last_record(at.lines.rest())?;
        if record.seq <= at.seen || record.seq < self.next {
            return None;
        }
        at.seen = record.seq;
        at.early = Some(record.seq);
        Some(record)
    }

    /// Forgets what stands after the last line end: when it is looked at again, it may have been cut off and other
    /// bytes may stand there.
    fn forget_rest(&mut self) {
        if let Some(at) = &mut self.at {
            at.lines.forget_rest();
        }
    }

    fn seal(&mut self) {
        if let Some(at) = &mut self.at {
            at.sealed = true;
        }
    }

    fn state_of_live(&self) -> Result<State, StoreError> {
        let Some(at) = &self.at else { return Ok(State::Changed) };
        let fail = |source| StoreError::from(self.journal.io("read", &at.path, source));
        // Shorter than what was read of it: the torn end was cut off, or somebody replaced the content.
        if at.file.metadata().map_err(fail)?.len() < at.lines.end() {
            return Ok(State::Changed);
        }
        let live = self
            .journal
            .named(self.journal.project().open_read(&self.journal.path))?;
        Ok(match live {
            Some(live) if id_of(&live).map_err(fail)? == at.id => State::Live,
            _ => State::Rotated,
        })
    }

    /// The file to go on with: the one after the present one, or the one that holds the next number.
    fn following_file(&self) -> Result<Option<Segment>, StoreError> {
        let journal = &self.journal;
        for _ in 0..ATTEMPTS {
            let live = self.open(&journal.path)?;
            let rotated = journal.numbered()?;
            // Rotated away meanwhile, it would be in the list, too, and newer ones with it.
            let now = self.open(&journal.path)?;
            if live.as_ref().map(|(_, id)| *id) != now.map(|(_, id)| id) {
                continue;
            }
            match self.choose(live, &rotated)? {
                Choice::None => return Ok(None),
                Choice::Segment(segment) => return Ok(Some(*segment)),
                Choice::Gone => {}
            }
        }
        let source = io::Error::other("its files change faster than they can be read");
        Err(journal.io("read", &journal.path, source).into())
    }

    fn choose(&self, live: Option<(File, Id)>, rotated: &[Numbered]) -> Result<Choice, StoreError> {
        let index = match self.at.as_ref().map(|at| at.id) {
            None => None,
            Some(id) if live.as_ref().is_some_and(|(_, live)| *live == id) => return Ok(Choice::None),
            Some(id) => {
                let mut found = None;
                // Newest first, as it mostly is among them.
                for (index, numbered) in rotated.iter().enumerate().rev() {
                    match self.open(&numbered.path)? {
                        Some((_, other)) if other == id => {
                            found = Some(index + 1);
                            break;
                        }
                        _ => {}
                    }
                }
                found
            }
        };
        let follows = index.is_some();
        let index = match index {
            Some(index) => index,
            None => match self.by_number(live.as_ref(), rotated)? {
                Some(index) => index,
                None => return Ok(Choice::Gone),
            },
        };
        let (path, opened, sealed) = match rotated.get(index) {
            Some(numbered) => (numbered.path.clone(), self.open(&numbered.path)?, true),
            None => match live {
                Some(live) => (self.journal.path.clone(), Some(live), false),
                None => return Ok(Choice::None),
            },
        };
        let Some((file, id)) = opened else {
            return Ok(Choice::Gone);
        };
        let fail = |source| self.journal.io("read", &path, source);
        // After another file every number is a greater one, or it is not the file that was there.
        let seen = self.at.as_ref().filter(|_| follows).map_or(0, |at| at.seen);
        let first = first_record(&file, 0, file.metadata().map_err(fail)?.len()).map_err(fail)?;
        let start = match first {
            Some(first) if first.seq <= seen => 0,
            _ => start_of(&file, self.next).map_err(fail)?,
        };
        let oldest = match &first {
            Some(first) => index == 0 && first.seq > self.next && self.journal.has_removed(rotated, first.seq),
            None => false,
        };
        Ok(Choice::Segment(Box::new(Segment {
            path,
            file,
            id,
            sealed,
            lines: Lines::new(start, PIECE),
            seen,
            early: None,
            oldest,
            bad: 0,
        })))
    }

    /// Among the rotated files and, after them, the live one: the last whose first number is not greater than the next
    /// one. `None` when one of them has been removed meanwhile.
    fn by_number(&self, live: Option<&(File, Id)>, rotated: &[Numbered]) -> Result<Option<usize>, StoreError> {
        let (mut low, mut high) = (0, rotated.len() + usize::from(live.is_some()));
        // An old file that somebody has put back as the live one holds what comes after the others all the same.
        if let (Some((file, _)), Some(newest)) = (live, rotated.last()) {
            let Some((before, _)) = self.open(&newest.path)? else {
                return Ok(None);
            };
            let first = self.first_of(&self.journal.path, file)?;
            if first.is_some() && first <= self.first_of(&newest.path, &before)? {
                high = rotated.len();
            }
        }
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            let first = match (rotated.get(middle), live) {
                (Some(numbered), _) => match self.open(&numbered.path)? {
                    Some((file, _)) => self.first_of(&numbered.path, &file)?,
                    None => return Ok(None),
                },
                (None, Some((file, _))) => self.first_of(&self.journal.path, file)?,
                (None, None) => None,
            };
            // One without a record tells nothing; to begin earlier costs time only.
            if first.is_some_and(|first| first <= self.next) {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(Some(low))
    }

    fn first_of(&self, path: &RelPath, file: &File) -> Result<Option<u64>, StoreError> {
        let first = || first_record(file, 0, file.metadata()?.len());
        let first = first().map_err(|source| self.journal.io("read", path, source))?;
        Ok(first.map(|first| first.seq))
    }

    fn open(&self, path: &RelPath) -> Result<Option<(File, Id)>, StoreError> {
        self.journal.check_read(path)?;
        let Some(file) = self.journal.named(self.journal.project().open_read(path))? else {
            return Ok(None);
        };
        let id = id_of(&file).map_err(|source| self.journal.io("read", path, source))?;
        Ok(Some((file, id)))
    }

    /// Damage at the line that was read last.
    fn damaged(&self, what: String) -> StoreError {
        let Some(at) = &self.at else {
            return StoreError::Damaged {
                path: self.journal.path.to_string(),
                line: 0,
                byte: 0,
                what,
            };
        };
        let byte = at.lines.start();
        StoreError::Damaged {
            path: at.path.to_string(),
            // Counted only now: reading may have begun anywhere.
            line: line_number(&at.file, byte).unwrap_or(0),
            byte,
            what,
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let read = self.read().transpose();
        self.failed = matches!(read, Some(Err(_)));
        read
    }
}

#[derive(Debug)]
enum Choice {
    Segment(Box<Segment>),
    /// There is nothing after the present one.
    None,
    /// A file was removed meanwhile.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    Rotated,
    Changed,
}

/// Reads a journal and goes on as it grows, over rotations.
#[derive(Debug)]
pub struct Follower {
    reader: Reader,
}

impl Follower {
    pub(super) fn new(reader: Reader) -> Self {
        Self { reader }
    }

    /// What is there by now, at most `most` records; empty at the end. Does not wait.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn next_batch(&mut self, most: usize) -> Result<Vec<Record>, StoreError> {
        self.reader.by_ref().take(most).collect()
    }

    /// As [`next_batch`](Self::next_batch), waiting at most `timeout` for the first one, and no longer than `cancelled`
    /// allows. Looks every few dozen milliseconds. Blocks.
    ///
    /// # Errors
    /// As [`next_batch`](Self::next_batch).
    pub fn wait_batch(
        &mut self,
        most: usize,
        timeout: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Record>, StoreError> {
        let deadline = Instant::now() + timeout;
        loop {
            let batch = self.next_batch(most)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if !batch.is_empty() || left.is_zero() || cancelled() {
                return Ok(batch);
            }
            std::thread::sleep(left.min(BETWEEN_LOOKS));
        }
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.reader.skipped()
    }

    /// The number from which a later follower would go on.
    pub fn position(&self) -> u64 {
        self.reader.position()
    }
}
