//! Where in a journal a time begins.
//!
//! Answers for finding it without reading everything. Records have their time in `ts`.

use jiff::Timestamp;

use super::Journal;
use crate::store::StoreError;

impl Journal {
    /// The number of a record before which none has a time from `time` on, near to the first that has. Within a file the
    /// times of records grow with their numbers; from one file to the next they may go back. Reads some 20 pieces.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn first_since(&self, time: Timestamp) -> Result<u64, StoreError> {
        let (mut low, mut end) = (1, u64::MAX);
        for file in self.rotated()? {
            let after = file.last_seq.saturating_add(1);
            // Its last entry is its latest; from one file to the next, time may go back.
            if self.is_before(file.last_seq, after, time)?.is_none() {
                (low, end) = (file.first_seq, after);
                break;
            }
            low = after;
        }
        if self.is_before(low, end, time)?.is_none() {
            return Ok(low);
        }
        // Within the file times grow with numbers.
        let mut step = 1;
        while let Some(before) = self.is_before(low.saturating_add(step), end, time)? {
            low = before;
            step = step.saturating_mul(2);
        }
        let mut high = low.saturating_add(step).min(end);
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            match self.is_before(middle, high, time)? {
                Some(before) => low = before,
                None => high = middle,
            }
        }
        Ok(low)
    }

    /// The number of the first entry with a time from `from` on and before `end`, if that is before `time`.
    fn is_before(&self, from: u64, end: u64, time: Timestamp) -> Result<Option<u64>, StoreError> {
        for record in self.read_from(from) {
            let record = record?;
            if record.seq >= end {
                break;
            }
            if let Some(then) = record.time() {
                return Ok((then < time).then_some(record.seq));
            }
        }
        Ok(None)
    }
}
