//! Bytes to lines in bounded memory.
//!
//! Answers for cutting at newlines however the bytes came, and for a line that is too long: it is skipped, and only its
//! length and the id of the JSON-RPC frame in it are kept. Leaves out what a line means.

use memchr::memchr;
use serde_json::Value;

use crate::json::IdScanner;

/// After a long line, its buffer is given back above this capacity.
const KEPT_CAPACITY: usize = 1024 * 1024;

/// One line, without its newline.
#[derive(Debug, PartialEq)]
pub(crate) enum Line<'a> {
    /// As it came.
    Whole(&'a [u8]),
    /// Longer than what is kept.
    TooLong {
        /// The `id` of the frame in it, else `Null`.
        id: Value,
        /// How long it was.
        bytes: u64,
    },
}

/// Cuts bytes into lines.
#[derive(Debug)]
pub(crate) struct Lines {
    kept: Vec<u8>,
    limit: usize,
    skipping: Option<(IdScanner, u64)>,
}

impl Lines {
    /// For lines of at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            kept: Vec::new(),
            limit,
            skipping: None,
        }
    }

    /// Takes the next bytes and gives the lines that they complete.
    pub(crate) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        while let Some(newline) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..newline], &bytes[newline + 1..]);
            bytes = rest;
            if self.kept.is_empty() && self.skipping.is_none() && line.len() <= self.limit {
                // The usual case: the line lies whole in the caller's buffer.
                each(Line::Whole(line));
            } else {
                self.keep(line);
                self.end(&mut each);
            }
        }
        self.keep(bytes);
    }

    /// The bytes have ended: what is left is a line as well, unless it is empty.
    pub(crate) fn finish(&mut self, each: impl FnMut(Line<'_>)) {
        if !self.kept.is_empty() || self.skipping.is_some() {
            self.end(each);
        }
    }

    fn end(&mut self, mut each: impl FnMut(Line<'_>)) {
        if let Some((scanner, bytes)) = self.skipping.take() {
            let id = scanner.finish();
            each(Line::TooLong { id, bytes });
        } else {
            each(Line::Whole(&self.kept));
        }
        self.kept.clear();
        if self.kept.capacity() > KEPT_CAPACITY {
            self.kept = Vec::new();
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some((scanner, seen)) = &mut self.skipping {
            scanner.feed(bytes);
            *seen += bytes.len() as u64;
        } else if self.kept.len() + bytes.len() > self.limit {
            let mut scanner = IdScanner::default();
            scanner.feed(&self.kept);
            scanner.feed(bytes);
            let seen = (self.kept.len() + bytes.len()) as u64;
            self.kept = Vec::new();
            self.skipping = Some((scanner, seen));
        } else {
            self.kept.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A whole line, or the id and the length of one that is too long.
    type Seen = Result<Vec<u8>, (Value, u64)>;

    fn cut(lines: &mut Lines, pieces: &[&[u8]]) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut each = |line: Line<'_>| {
            seen.push(match line {
                Line::Whole(line) => Ok(line.to_vec()),
                Line::TooLong { id, bytes } => Err((id, bytes)),
            });
        };
        for piece in pieces {
            lines.push(piece, &mut each);
            assert!(lines.kept.len() <= lines.limit);
        }
        lines.finish(&mut each);
        seen
    }

    #[test]
    fn a_line_that_is_too_long_is_known_by_its_id_wherever_that_stands() {
        let mut lines = Lines::new(20);
        let long = br#"{"result":{"id":1,"text":"xxxxxxxxxxxxxxxx"},"id":7}"#;
        let seen = cut(&mut lines, &[&long[..9], &long[9..], b"\nok\nend"]);
        assert_eq!(seen[0], Err((Value::from(7), long.len() as u64)));
        assert_eq!(seen[1..], [Ok(b"ok".to_vec()), Ok(b"end".to_vec())]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_bytes_came(
            text in prop::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\n')], 0..200),
            size in 1_usize..40,
            limit in 1_usize..12,
        ) {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            let seen = cut(&mut Lines::new(limit), &pieces);
            let mut expected: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let expected: Vec<Seen> = expected.into_iter().map(|line| if line.len() <= limit {
                Ok(line.to_vec())
            } else {
                Err((Value::Null, line.len() as u64))
            }).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
