//! A file, read from its end in pieces.
//!
//! Answers for finding line ends and the end of the content without holding more than one piece, or one line that was
//! asked for, in memory. Leaves out what the lines mean.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// How much is read at once.
const PIECE: usize = 16 * 1024;
const ZEROS: [u8; PIECE] = [0; PIECE];

/// A place in a file that moves towards its beginning.
#[derive(Debug)]
pub(super) struct Backwards<'a> {
    file: &'a File,
    /// The place: what lies before it is still to be looked at.
    end: u64,
    /// What was read last, and from where on.
    held: Vec<u8>,
    held_from: u64,
}

impl<'a> Backwards<'a> {
    /// Stands at the end of a file that has so many bytes.
    pub(super) fn new(file: &'a File, size: u64) -> Self {
        Self {
            file,
            end: size,
            held: Vec::new(),
            held_from: size,
        }
    }

    /// Goes to another place.
    pub(super) fn go_to(&mut self, end: u64) {
        self.end = end;
    }

    /// Goes before the zero bytes that end here; gives the place.
    pub(super) fn skip_zeros(&mut self) -> io::Result<u64> {
        self.go_before(|piece| {
            // A comparison of memory is much quicker than a look at each byte.
            if piece == &ZEROS[..piece.len()] {
                return None;
            }
            piece.iter().rposition(|byte| *byte != 0)
        })
    }

    /// Goes to the beginning of the line that ends here; gives the place.
    pub(super) fn line_start(&mut self) -> io::Result<u64> {
        self.go_before(|piece| {
            if !piece.contains(&b'\n') {
                return None;
            }
            piece.iter().rposition(|byte| *byte == b'\n')
        })
    }

    /// The bytes between two places.
    pub(super) fn bytes(&mut self, start: u64, end: u64) -> io::Result<&[u8]> {
        if start < self.held_from || end > self.held_from + self.held.len() as u64 {
            self.hold(start, end)?;
        }
        let from = to_index(start - self.held_from);
        Ok(&self.held[from..from + to_index(end - start)])
    }

    /// Goes to just after the byte that `find` gives, piece by piece, or to the beginning of the file.
    fn go_before(&mut self, find: impl Fn(&[u8]) -> Option<usize>) -> io::Result<u64> {
        while self.end > 0 {
            let held_to = self.held_from + self.held.len() as u64;
            if self.end <= self.held_from || self.end > held_to || self.end - self.held_from > PIECE as u64 {
                self.hold(self.end.saturating_sub(PIECE as u64), self.end)?;
            }
            let piece = &self.held[..to_index(self.end - self.held_from)];
            if let Some(at) = find(piece) {
                self.end = self.held_from + at as u64 + 1;
                break;
            }
            self.end = self.held_from;
        }
        Ok(self.end)
    }

    fn hold(&mut self, start: u64, end: u64) -> io::Result<()> {
        self.held_from = start;
        self.held.clear();
        self.held.resize(to_index(end - start), 0);
        self.file.read_exact_at(&mut self.held, start)
    }
}

/// A length that is in memory, or is asked to be.
fn to_index(length: u64) -> usize {
    usize::try_from(length).expect("callers ask for pieces that fit in memory")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The same as looking at all the bytes at once, for lines and ends of any length.
        #[test]
        fn lines_and_ends_are_found_in_pieces(
            lines in proptest::collection::vec(prop_oneof![0..9_usize, 16_380..16_390_usize, 0..70_000_usize], 0..6),
            zeros in prop_oneof![0..3_usize, 16_380..16_390_usize, 30_000..40_000_usize],
        ) {
            let mut all = lines.iter().map(|length| "x".repeat(*length)).collect::<Vec<_>>().join("\n").into_bytes();
            let content = all.len();
            all.resize(content + zeros, 0);
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&all).unwrap();
            let mut place = Backwards::new(&file, all.len() as u64);
            prop_assert_eq!(place.skip_zeros().unwrap(), content as u64);
            let mut end = content;
            for length in lines.iter().rev() {
                let start = place.line_start().unwrap();
                prop_assert_eq!(start, (end - length) as u64);
                prop_assert_eq!(place.bytes(start, end as u64).unwrap(), &all[end - length..end]);
                if start > 0 {
                    place.go_to(start - 1);
                    end = end - length - 1;
                }
            }
        }
    }
}
