//! The end of a journal's live file: what its last record is, and what a crash left after it.
//!
//! Answers for finding the last number by reading the end alone, for mending a torn end so that nothing is lost, and for
//! the append itself. Leaves out what comes before the live file, and who waits for the disk.
//!
//! Looking and mending are two steps: whoever appends nothing in the end changes nothing either.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::line::{self, Record};
use super::{LONGEST_RECORD, Repaired};
use crate::sandbox::{RelPath, append_whole, refuse_beyond_limit};
use crate::store::backwards::Backwards;

/// How much of a torn end is copied at once.
const PIECE: usize = 64 * 1024;
/// Most lines are shorter.
const SMALL_PIECE: usize = 4 * 1024;
static ZEROS: [u8; PIECE] = [0; PIECE];

/// What stands at the end of a file.
#[derive(Debug)]
pub(super) struct Tail {
    size: u64,
    /// Up to here there are whole lines.
    whole: u64,
    /// Up to here there is something else than zeros.
    content: u64,
    end: End,
    /// The last record that can be read.
    pub(super) last: Option<Record>,
    /// Lines after it that cannot: each may have had a number, which must not be given again.
    pub(super) unreadable: u64,
    /// The number on the line before it, when that was read along.
    before_last: Option<u64>,
}

/// How much is looked at for the order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// The last lines: all that others can have spoilt since the last look.
    AtTwoLines,
    /// Some hundred lines.
    AtAPiece,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Whole,
    /// A record, of which only the line end is missing.
    Unfinished,
    Torn,
}

impl Tail {
    /// Looks at the end of a file. Reads one small piece when the last line is a record that fits in it.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        if let Some((last, before_last)) = whole_record(file, size)? {
            return Ok(Self {
                before_last,
                size,
                whole: size,
                content: size,
                end: End::Whole,
                last: Some(last),
                unreadable: 0,
            });
        }
        let mut place = Backwards::new(file, size);
        let content = place.skip_zeros()?;
        let whole = place.line_start()?;
        let mut tail = Self {
            size,
            whole,
            content,
            end: if whole == size { End::Whole } else { End::Torn },
            last: None,
            unreadable: 0,
            before_last: None,
        };
        if content > whole
            && let Some(record) = record_at(&mut place, whole, content)?
        {
            tail.end = End::Unfinished;
            tail.last = Some(record);
            return Ok(tail);
        }
        let mut end = whole;
        while end > 0 {
            place.go_to(end - 1);
            let start = place.line_start()?;
            if let Some(record) = record_at(&mut place, start, end)? {
                tail.last = Some(record);
                break;
            }
            let blank = end - start <= LONGEST_RECORD && line::pieces(place.bytes(start, end)?).next().is_none();
            tail.unreadable += u64::from(!blank);
            end = start;
        }
        Ok(tail)
    }

    /// Whether the numbers of the last lines follow from each other, as they do unless somebody else has written to the
    /// file. One read, and none for two short lines.
    pub(super) fn is_in_order(&self, file: &File, looked: Looked) -> io::Result<bool> {
        if let (Looked::AtTwoLines, Some(before), Some(last)) = (looked, self.before_last, &self.last) {
            return Ok(before.checked_add(1) == Some(last.seq));
        }
        let length = match looked {
            Looked::AtTwoLines => SMALL_PIECE,
            Looked::AtAPiece => PIECE,
        };
        let from = self.whole.saturating_sub(length as u64);
        let mut piece = vec![0; usize::try_from(self.whole - from).unwrap_or(length)];
        file.read_exact_at(&mut piece, from)?;
        // The first line of a piece is whole only where the file begins.
        let whole = match memchr::memchr(b'\n', &piece) {
            Some(at) if from > 0 => &piece[at + 1..],
            _ if from > 0 => return Ok(true),
            _ => &piece,
        };
        let most = match looked {
            Looked::AtTwoLines => 2,
            Looked::AtAPiece => usize::MAX,
        };
        let lines = whole.strip_suffix(b"\n").unwrap_or(whole).rsplit(|byte| *byte == b'\n');
        let mut after: Option<u64> = None;
        for line in lines.take(most) {
            let Some(record) = line::last_record(line) else {
                after = None;
                continue;
            };
            if after.is_some_and(|after| record.seq.checked_add(1) != Some(after)) {
                return Ok(false);
            }
            after = Some(record.seq);
        }
        Ok(true)
    }

    /// The size that the file has once it is mended.
    pub(super) fn mended_size(&self) -> u64 {
        match self.end {
            End::Whole => self.size,
            End::Unfinished => self.content + 1,
            End::Torn => self.whole,
        }
    }

    /// What mending is going to do.
    pub(super) fn repair<E>(&self, quarantine: impl FnOnce() -> Result<RelPath, E>) -> Result<Option<Repaired>, E> {
        Ok(match self.end {
            End::Whole => None,
            End::Unfinished => Some(Repaired {
                bytes: self.size - self.content,
                quarantine: None,
            }),
            End::Torn => Some(Repaired {
                bytes: self.size - self.whole,
                quarantine: Some(quarantine()?),
            }),
        })
    }

    /// Makes the file end with a whole line. `kept` opens the file that takes what is cut off, before it is cut.
    /// Durable step by step, so that a crash between two of them leaves both copies rather than none.
    pub(super) fn mend<E: From<io::Error>>(
        &self,
        file: &File,
        kept: impl FnOnce() -> Result<File, E>,
    ) -> Result<(), E> {
        match self.end {
            End::Whole => return Ok(()),
            End::Unfinished => {
                // The file is open for appending: a write goes to its end, which must be that of the record.
                file.set_len(self.content)?;
                append_whole(file, self.content, b"\n")?;
            }
            End::Torn => {
                self.move_torn(file, &kept()?)?;
                file.set_len(self.whole)?;
            }
        }
        Ok(file.sync_data()?)
    }

    /// Copies the torn end. Zeros become a hole, as they were before: they cost no room.
    fn move_torn(&self, file: &File, kept: &File) -> io::Result<()> {
        let before = kept.metadata()?.len();
        let copy = || {
            refuse_beyond_limit(before + (self.size - self.whole) + 1)?;
            let mut piece = vec![0; PIECE];
            let (mut from, mut at) = (self.whole, before);
            while from < self.size {
                let count = usize::try_from(self.size - from).unwrap_or(usize::MAX).min(PIECE);
                file.read_exact_at(&mut piece[..count], from)?;
                if piece[..count] != ZEROS[..count] {
                    kept.write_all_at(&piece[..count], at)?;
                }
                from += count as u64;
                at += count as u64;
            }
            kept.write_all_at(b"\n", at)?;
            kept.sync_data()
        };
        copy().inspect_err(|_| {
            // The journal still has all of it; half a copy would only fill the disk.
            let _ = kept.set_len(before);
        })
    }
}

/// The record on the last line, when that is whole and short: as it is but for crashes.
/// Also gives the number on the line before it, if that is among what was read.
fn whole_record(file: &File, size: u64) -> io::Result<Option<(Record, Option<u64>)>> {
    let mut piece = [0; SMALL_PIECE];
    let from = size.saturating_sub(SMALL_PIECE as u64);
    let piece = &mut piece[..usize::try_from(size - from).unwrap_or(SMALL_PIECE)];
    file.read_exact_at(piece, from)?;
    let Some(lines) = piece.strip_suffix(b"\n") else {
        return Ok(None);
    };
    let start = match memchr::memrchr(b'\n', lines) {
        Some(at) => at + 1,
        None if from == 0 => 0,
        None => return Ok(None),
    };
    let before = || {
        let lines = &lines[..start.checked_sub(1)?];
        let start = memchr::memrchr(b'\n', lines)
            .map(|at| at + 1)
            .or((from == 0).then_some(0))?;
        line::number(&lines[start..])
    };
    Ok(line::last_record(&lines[start..]).map(|record| (record, before())))
}

/// The record that ends the line between two places; a line that is too long for one is not read.
fn record_at(place: &mut Backwards<'_>, start: u64, end: u64) -> io::Result<Option<Record>> {
    if end - start > LONGEST_RECORD {
        return Ok(None);
    }
    place.bytes(start, end).map(line::last_record)
}
