//! What stands on one line of a journal.
//!
//! Answers for telling a record from what is none, and for zero bytes: a file system leaves runs of them when power
//! fails between the growth of a file and its content. They stand between records like line ends, as no JSON has one.
//! Leaves out files.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A record: its number, and all its fields with the number among them.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number.
    pub seq: u64,
    /// What it says, in the order in which it was written.
    pub fields: Map<String, Value>,
}

impl Record {
    /// When it says that it was appended, under `ts`.
    pub fn time(&self) -> Option<Timestamp> {
        self.fields.get("ts")?.as_str()?.parse().ok()
    }
}

/// The record that a piece of a line is.
pub(super) fn record(piece: &[u8]) -> Option<Record> {
    // Some editors begin a file with a byte order mark.
    let piece = piece.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(piece);
    let fields: Map<String, Value> = serde_json::from_slice(piece).ok()?;
    let seq = fields.get("seq")?.as_u64()?;
    Some(Record { seq, fields })
}

/// The number of the record that a line without zero bytes is. Cheaper than [`record`].
pub(super) fn number(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        seq: u64,
    }
    serde_json::from_slice(line).ok().map(|Numbered { seq }| seq)
}

/// The record that ends a line: whatever a crash left before it.
pub(super) fn last_record(line: &[u8]) -> Option<Record> {
    pieces(line).last().and_then(record)
}

/// What stands between the zero bytes of a line, without what is blank.
pub(super) fn pieces(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(|byte| *byte == 0)
        .filter(|piece| !piece.trim_ascii().is_empty())
}

/// How many zero bytes a line has.
pub(super) fn zeros(line: &[u8]) -> u64 {
    memchr::memchr_iter(0, line).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_bytes_stand_between_records() {
        let line = b"\0\0{\"seq\":1}\0{\"se\0\0 \0{\"seq\":2}\0\n";
        let found: Vec<_> = pieces(line)
            .map(|piece| record(piece).map(|record| record.seq))
            .collect();
        assert_eq!(found, [Some(1), None, Some(2)]);
        assert_eq!(zeros(line), 7);
        assert_eq!(last_record(line).unwrap().seq, 2);
        assert_eq!(last_record("\u{FEFF}{\"seq\":3}\n".as_bytes()).unwrap().seq, 3);
        for none in [
            &b""[..],
            b"\n",
            b"\0\0\0",
            b" \0 \n",
            b"{\"seq\":-1}",
            b"{\"seq\":\"1\"}",
            b"[]",
            b"{}",
            b"\xff",
        ] {
            assert_eq!(last_record(none), None, "{none:?}");
        }
    }
}
