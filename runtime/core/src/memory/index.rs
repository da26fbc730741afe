//! Which memories matter most, and the page that lists them.
//!
//! Answers for the order (importance times recency) and for `INDEX.md`, a pure function of the live memories: a page that
//! differs from it is out of date. Leaves out writing it.

use std::cmp::Ordering;
use std::fmt::Write;

use jiff::Timestamp;

use super::entry::Memory;
use crate::store::clock;

/// The most lines and bytes of an index.
pub const MOST_LINES: usize = 200;
/// See [`MOST_LINES`].
pub const MOST_BYTES: usize = 24 * 1024;

/// After so many days a memory counts half as much.
const HALF_LIFE_DAYS: f64 = 90.0;

/// Orders memories by importance times recency, then by hits; what matters most comes first. Everything loses half its
/// value in the same time, so that the order of two memories is the same at all times.
pub(super) fn by_worth(one: &Memory, other: &Memory) -> Ordering {
    worth(other)
        .total_cmp(&worth(one))
        .then_with(|| other.hits.cmp(&one.hits))
        .then_with(|| other.updated.cmp(&one.updated))
        .then_with(|| one.id.cmp(&other.id))
}

/// The logarithm of importance times recency, but for what is the same for all memories.
fn worth(memory: &Memory) -> f64 {
    let days = memory.updated.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64() / 86_400.0;
    f64::from(memory.importance).log2() + days / HALF_LIFE_DAYS
}

/// The index of memories that stand in their order, each with its path from the index's directory: one line for each,
/// whole lines only, as many as fit.
pub(super) fn index<'m>(memories: impl IntoIterator<Item = (&'m Memory, &'m str)>) -> String {
    let mut page = String::new();
    for (memory, path) in memories.into_iter().take(MOST_LINES) {
        let line = line(memory, path);
        if page.len() + line.len() > MOST_BYTES {
            break;
        }
        page.push_str(&line);
    }
    page
}

fn line(memory: &Memory, path: &str) -> String {
    let day = &clock::iso(memory.updated)[..10];
    let mut line = format!(
        "- [{}]({}) {}, {}, importance {}, {day}",
        escaped(&memory.title),
        escaped(path),
        escaped(&memory.id),
        memory.kind.as_str(),
        memory.importance
    );
    if memory.hits > 1 {
        let _ = write!(line, ", recorded {} times", memory.hits);
    }
    if !memory.tags.is_empty() {
        let _ = write!(line, ": {}", escaped(&memory.tags.join(" ")));
    }
    line.push('\n');
    line
}

/// A text that begins nothing in Markdown and stays in its line.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '[' | ']' | '(' | ')' | '<' | '>' | '`' | '\\' => {
                escaped.push('\\');
                escaped.push(character);
            }
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
