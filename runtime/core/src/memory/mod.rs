//! Memories: what an agent should still know in later sessions.
//!
//! Answers for keeping one thing once: what a memory's file looks like, whether a new text says what is kept already, in
//! the same words or in others, and what must not count as the same although it looks alike. Leaves out the tool that
//! agents call.
//!
//! - Two texts with one [`normal_form`] are exact duplicates: they differ in numbers, case and punctuation alone.
//! - Two [`Reading`]s are compared by meaning. A statement and its contrary are never the same.
//! - A [`Shelf`] holds the memories of one agent; [`Shelf::open`], [`Memories::plan`] and [`Memories::carry_out`] record
//!   one more.
//!
//! How well this works is measured on labelled pairs: `tests/memory_pairs.rs`.

mod entry;
mod front;
mod guard;
mod index;
mod lexicon;
mod likeness;
mod normal;
mod reading;
mod shelf;
mod sketch;
mod stem;
#[cfg(test)]
mod tests;
mod tidy;

pub use entry::{Evidence, Kind, Memory, NewMemory};
pub use index::{MOST_BYTES, MOST_LINES};
pub use likeness::{Likeness, Verdict};
pub use normal::{exact_digest, normal_form};
pub use reading::Reading;
pub use shelf::{
    Action, Candidate, LARGEST_FILE, MOST_LIVE, MOST_LIVE_BYTES, Memories, OnSimilar, Plan, Recorded, Refused, Shelf,
    Similar, Trouble,
};
pub use tidy::{slug, tidy_content, tidy_title};
