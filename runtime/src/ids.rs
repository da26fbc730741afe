//! Ids that the program makes up.
//!
//! Answers for where they come from, so that a test can have the same ones each time. Leaves out ids that must differ
//! between processes whatever a host wants: sessions, agent calls, temporary files.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// Makes ids up.
pub trait Ids: fmt::Debug + Send + Sync {
    /// The next id; never one that was given before.
    fn next(&self) -> Uuid;
}

/// Ids that differ everywhere and sort by the time when they were made (UUID version 7).
#[derive(Clone, Copy, Debug, Default)]
pub struct UniqueIds;

impl Ids for UniqueIds {
    fn next(&self) -> Uuid {
        Uuid::now_v7()
    }
}

/// The ids 1, 2, 3 …: `00000000-0000-0000-0000-000000000001`; for tests.
#[derive(Debug, Default)]
pub struct CountedIds(AtomicU64);

impl Ids for CountedIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, Ordering::Relaxed)) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_ids_are_the_same_each_time() {
        let ids = CountedIds::default();
        let two = [ids.next(), ids.next()].map(|id| id.to_string());
        assert_eq!(
            two,
            [
                "00000000-0000-0000-0000-000000000001",
                "00000000-0000-0000-0000-000000000002"
            ]
        );
    }
}
