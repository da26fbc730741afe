//! Lines of one file, which may grow while it is read.
//!
//! Answers for finding line after line in bounded memory, and for finding a number without reading what comes before it:
//! numbers grow with places. Leaves out which file it is, and what a damaged line means.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::LONGEST_RECORD;
use super::line;

/// How much is read at once, and how much where one record is looked for.
pub(super) const PIECE: usize = 64 * 1024;
const SMALL_PIECE: usize = 8 * 1024;

/// Lines of a file that may grow.
#[derive(Debug)]
pub(super) struct Lines {
    /// How much is read at once.
    piece: usize,
    /// Where `held` begins in the file.
    from: u64,
    /// Where the line that was found last, or is being looked for, begins in the file.
    begin: u64,
    held: Vec<u8>,
    /// The line that was found last, in `held`.
    line: std::ops::Range<usize>,
    /// Bytes of `held` that were searched for a line end.
    searched: usize,
    /// The line was too long to be held; its bytes up to here are gone.
    overlong: bool,
    /// The same of the line that was found last.
    was_overlong: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Line,
    End,
}

impl Lines {
    /// From a place where a line begins, in pieces of so many bytes.
    pub(super) fn new(from: u64, piece: usize) -> Self {
        Self {
            piece,
            from,
            begin: from,
            held: Vec::new(),
            line: 0..0,
            searched: 0,
            overlong: false,
            was_overlong: false,
        }
    }

    /// Finds the next line that has an end.
    pub(super) fn next(&mut self, file: &File) -> io::Result<Found> {
        self.line = self.line.end..self.line.end;
        self.searched = self.searched.max(self.line.start);
        if !self.overlong {
            self.begin = self.from + self.line.start as u64;
        }
        // Whether the line was read in several pieces, between which its beginning may have been cut off.
        let mut joined = false;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.held[self.searched..]) {
                let end = self.searched + at + 1;
                if joined && !self.overlong && !self.is_still_there(file, self.line.start..end)? {
                    self.forget_rest();
                    joined = false;
                    continue;
                }
                self.searched = end;
                self.line = self.line.start..end;
                self.was_overlong = std::mem::take(&mut self.overlong);
                return Ok(Found::Line);
            }
            self.searched = self.held.len();
            if self.held.len() - self.line.start > usize::try_from(LONGEST_RECORD).unwrap_or(usize::MAX) {
                self.overlong = true;
                self.line.start = self.held.len();
                self.line.end = self.line.start;
            }
            // What was read goes before more comes.
            self.held.drain(..self.line.start);
            self.from += self.line.start as u64;
            self.searched -= self.line.start;
            self.line = 0..0;
            let length = self.held.len();
            self.held.resize(length + self.piece, 0);
            let read = read_at(file, &mut self.held[length..], self.from + length as u64);
            self.held.truncate(length + *read.as_ref().unwrap_or(&0));
            joined |= length > 0;
            if read? == 0 {
                return Ok(Found::End);
            }
        }
    }

    /// Whether the file holds the same bytes as a part of `held`.
    fn is_still_there(&self, file: &File, part: std::ops::Range<usize>) -> io::Result<bool> {
        let mut now = vec![0; part.len()];
        let mut filled = 0;
        while filled < now.len() {
            let place = self.from + (part.start + filled) as u64;
            match read_at(file, &mut now[filled..], place)? {
                0 => return Ok(false),
                read => filled += read,
            }
        }
        Ok(now == self.held[part])
    }

    /// Goes back to the end of the line that was found last.
    pub(super) fn forget_rest(&mut self) {
        self.from = if self.overlong {
            self.begin
        } else {
            self.from + self.line.end as u64
        };
        self.begin = self.from;
        self.held.clear();
        self.line = 0..0;
        self.searched = 0;
        self.overlong = false;
    }

    /// The line that was found last.
    pub(super) fn line(&self) -> &[u8] {
        if self.was_overlong {
            return &[];
        }
        &self.held[self.line.clone()]
    }

    pub(super) fn is_overlong(&self) -> bool {
        self.was_overlong
    }

    /// What stands after the last line end.
    pub(super) fn rest(&self) -> &[u8] {
        if self.overlong {
            return &[];
        }
        &self.held[self.line.end..]
    }

    /// Takes the rest as a line; says whether there was any.
    pub(super) fn end_with_rest(&mut self) -> bool {
        let there = self.overlong || self.line.end < self.held.len();
        self.line = self.line.end..self.held.len();
        self.searched = self.held.len();
        self.was_overlong = std::mem::take(&mut self.overlong);
        there
    }

    /// Where the line that was found last begins in the file.
    pub(super) fn start(&self) -> u64 {
        self.begin
    }

    /// Up to where the file was read.
    pub(super) fn end(&self) -> u64 {
        self.from + self.held.len() as u64
    }
}

fn read_at(file: &File, into: &mut [u8], at: u64) -> io::Result<usize> {
    loop {
        match file.read_at(into, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// A record and where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    /// Where its line begins.
    start: u64,
    pub(super) seq: u64,
}

/// The first record whose line begins in a part of a file.
pub(super) fn first_record(file: &File, from: u64, to: u64) -> io::Result<Option<Placed>> {
    // From the middle of a line on, that line is not one of them.
    let mut lines = Lines::new(from.saturating_sub(1), SMALL_PIECE);
    if from > 0 && lines.next(file)? == Found::End {
        return Ok(None);
    }
    loop {
        let found = lines.next(file)?;
        if found == Found::End && !lines.end_with_rest() {
            return Ok(None);
        }
        if lines.start() >= to {
            return Ok(None);
        }
        if let Some(record) = line::pieces(lines.line()).find_map(line::record) {
            let start = lines.start();
            return Ok(Some(Placed { start, seq: record.seq }));
        }
    }
}

/// The greatest number in a file. Reads all of it.
pub(super) fn greatest(file: &File) -> io::Result<Option<u64>> {
    let mut lines = Lines::new(0, PIECE);
    let mut greatest = None;
    while lines.next(file)? == Found::Line {
        let numbers = line::pieces(lines.line()).filter_map(line::record);
        greatest = greatest.max(numbers.map(|record| record.seq).max());
    }
    Ok(greatest)
}

/// The line of the record with a number, and where it begins.
pub(super) fn line_of(file: &File, seq: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
    let mut lines = Lines::new(start_of(file, seq)?, SMALL_PIECE);
    while lines.next(file)? == Found::Line || lines.end_with_rest() {
        let Some(record) = line::last_record(lines.line()) else {
            continue;
        };
        if record.seq >= seq {
            return Ok((record.seq == seq).then(|| (lines.start(), lines.line().to_vec())));
        }
    }
    Ok(None)
}

/// A place from which all records from a number on follow, with few before them. Numbers grow with places, so that a few
/// pieces are read, not the file.
pub(super) fn start_of(file: &File, seq: u64) -> io::Result<u64> {
    let (mut low, mut high) = (0, file.metadata()?.len());
    if first_record(file, 0, high)?.is_none_or(|first| first.seq >= seq) {
        return Ok(0);
    }
    while high - low > SMALL_PIECE as u64 {
        let middle = low + (high - low) / 2;
        match first_record(file, middle, high)? {
            Some(found) if found.seq <= seq => low = found.start,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The number of the line that begins at a place, from 1 on.
pub(super) fn line_number(file: &File, place: u64) -> io::Result<u64> {
    let mut piece = vec![0; PIECE];
    let (mut number, mut at) = (1, 0);
    while at < place {
        let wanted = usize::try_from(place - at).unwrap_or(PIECE).min(PIECE);
        let read = read_at(file, &mut piece[..wanted], at)?;
        if read == 0 {
            break;
        }
        number += memchr::memchr_iter(b'\n', &piece[..read]).count() as u64;
        at += read as u64;
    }
    Ok(number)
}
