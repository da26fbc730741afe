//! Memories: what an agent should still know in later sessions.

mod lexicon;
mod likeness;
mod normal;
mod reading;
mod stem;

pub use likeness::{Likeness, Verdict};
pub use normal::{exact_digest, normal_form};
pub use reading::Reading;
