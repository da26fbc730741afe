//! Path patterns: the language of write permissions and declared effects.
//!
//! Answers for parsing, matching and the decision whether patterns cover another one. Leaves out paths themselves (the
//! core validates them) and what the variables stand for (the caller binds them).
//!
//! | written | matches |
//! |---|---|
//! | `*` | any run of characters except `/`, also none |
//! | `?` | one character except `/` |
//! | `**` as a whole segment | any number of whole segments: `**/x` is `x` and `a/x`; `a/**` is all below `a`, not `a` |
//! | `{unit_id}` | a variable; unbound it is one or more characters except `/` |
//! | `{a,b*,}` | any of the alternatives; they stay inside one segment, may be empty and may nest |
//! | anything else | itself, case-sensitive |
//!
//! There are no character classes and no escapes. A path with an empty, `.` or `..` segment matches nothing, whatever
//! the pattern: permission never depends on how such a path would resolve.
//!
//! Both matching and covering run on the same automaton, so the proof at build time speaks about what runs.

mod automaton;
mod covering;
mod syntax;

use std::fmt;

use automaton::{Automaton, Shape, Symbol, Unbound};
use covering::Doubt;
use syntax::{Segment, bind_parts, collect_variables, literal_prefix, render};

pub use syntax::PatternError;

/// A variable that a pattern may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// As it stands in braces.
    pub name: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
}

/// The known variables; a spec may use no other.
pub const VARIABLES: &[Variable] = &[
    variable("agent", "the agent's short name: `pm`"),
    variable("unit_id", "the unit that the agent works on"),
    variable(
        "state_key",
        "`{agent}`, or `{agent}.{unit_id}` when the agent works on a unit",
    ),
    variable("site", "the agent's document site: `prd` or `sdd`"),
    variable("slug", "a name made from a title: `user-login`"),
    variable("label", "a name that the caller chose"),
    variable("bug_id", "the id of a bug"),
    variable("run_id", "the id of a run"),
    variable("kind", "one word out of a fixed list that the tool documents"),
    variable("hash", "a content hash in hexadecimal"),
    variable("n", "a number"),
    variable("stamp", "a UTC time for file names: `20261130T101500123Z`"),
];

const fn variable(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, meaning }
}

/// A parsed path pattern.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    segments: Vec<Segment>,
    /// The characters that every match begins with, so that most misses cost one comparison.
    prefix: String,
    automaton: Automaton,
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let segments = syntax::parse(text)?;
        Ok(Self::assemble(text.to_owned(), segments))
    }

    /// The pattern as written; after [`bind`](Self::bind), with the values in place.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The unbound variables in order, each once.
    pub fn variables(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for segment in &self.segments {
            if let Segment::Parts(parts) = segment {
                collect_variables(parts, &mut names);
            }
        }
        names
    }

    /// Replaces variables. `value` gives the alternatives of a variable, taken literally; `None` leaves it unbound. A
    /// value that no path segment can hold (empty, or with a `/`) matches nothing, and so does an empty list.
    #[must_use]
    pub fn bind(&self, value: &dyn Fn(&str) -> Option<Vec<String>>) -> Pattern {
        let bind_segment = |segment: &Segment| match segment {
            Segment::Deep => Segment::Deep,
            Segment::Parts(parts) => Segment::Parts(bind_parts(parts, value)),
        };
        let segments: Vec<Segment> = self.segments.iter().map(bind_segment).collect();
        Self::assemble(render(&segments), segments)
    }

    /// Whether the pattern matches a project-relative path.
    ///
    /// One pass over the path. Allocates only for patterns of more than about 250 characters.
    pub fn matches(&self, path: &str) -> bool {
        if !path.starts_with(&self.prefix) {
            return false;
        }
        let words = self.automaton.words;
        let mut small = [0_u64; 8];
        let mut large = Vec::new();
        let space = if words * 2 <= small.len() {
            &mut small[..words * 2]
        } else {
            large.resize(words * 2, 0);
            &mut large[..]
        };
        let (mut now, mut next) = space.split_at_mut(words);
        now.copy_from_slice(&self.automaton.start);
        let mut shape = Shape::SegmentStart;
        for c in path.chars() {
            let symbol = Symbol::Char(c);
            let Some(shaped) = shape.after(symbol) else {
                return false;
            };
            shape = shaped;
            if !self.automaton.step(symbol, now, next) {
                return false;
            }
            std::mem::swap(&mut now, &mut next);
        }
        shape.may_end() && self.automaton.accepts(now)
    }

    /// Whether some path below the directory `dir` could match. One pass, as [`matches`](Self::matches).
    pub fn may_match_below(&self, dir: &str) -> bool {
        let mut set = self.automaton.start.clone();
        let mut next = vec![0; set.len()];
        let mut shape = Shape::SegmentStart;
        for symbol in dir.chars().chain(['/']).map(Symbol::Char) {
            let Some(shaped) = shape.after(symbol) else {
                return false;
            };
            shape = shaped;
            if !self.automaton.step(symbol, &set, &mut next) {
                return false;
            }
            std::mem::swap(&mut set, &mut next);
        }
        set.iter().any(|&word| word != 0)
    }

    fn assemble(text: String, segments: Vec<Segment>) -> Self {
        let automaton = Automaton::of([&segments[..]], Unbound::Characters);
        let prefix = literal_prefix(&segments);
        Self {
            text,
            segments,
            prefix,
            automaton,
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.segments == other.segments
    }
}

impl Eq for Pattern {}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

/// Decides whether every path of `sub` is also a path of one of `sup`, or of several together.
///
/// An unbound variable is one opaque symbol: the same variable covers it, and so does what takes one or more characters
/// whatever they are: `*`, `**`, `?*`. A literal never does, nor does `?` alone. Both sides must be bound alike for the answer to hold at run time.
///
/// # Errors
/// A shortest path that `sub` matches and `sup` does not, with unbound variables written as `{name}`. Patterns too
/// intricate to decide count as not covered; then the text says so.
pub fn covered_by(sub: &Pattern, sup: &[Pattern]) -> Result<(), String> {
    let small = Automaton::of([&sub.segments[..]], Unbound::OneSymbol);
    let large = Automaton::of(sup.iter().map(|pattern| &pattern.segments[..]), Unbound::OneSymbol);
    covering::search(&small, &large).map_err(|doubt| match doubt {
        Doubt::Path(path) => path,
        Doubt::TooIntricate => format!(
            "(undecided: `{sub}` and the {} patterns that may cover it are too intricate; write them apart)",
            sup.len()
        ),
    })
}

#[cfg(test)]
mod tests;
