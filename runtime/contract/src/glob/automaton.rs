//! The automaton that both matching and covering run on.
//!
//! Answers for compiling patterns, for one step of reading, and for which paths are legal at all ([`Shape`]). Leaves out
//! the loop over a path and the search over all paths.

use super::syntax::{Part, Segment};

/// What an automaton reads. Matching reads characters only; covering reads unbound variables too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol<'a> {
    Char(char),
    Variable(&'a str),
}

/// What a position of an automaton takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Char(char),
    /// From `?`: one character, so never a whole variable, whose value may be longer.
    One,
    /// From `*` and `**`: may take a variable, as it may go on.
    Any,
    Variable(String),
    Accept,
}

impl Label {
    pub(super) fn takes(&self, symbol: Symbol<'_>) -> bool {
        match (self, symbol) {
            (Self::Char(mine), Symbol::Char(c)) => *mine == c,
            (Self::One | Self::Any, Symbol::Char(c)) => c != '/',
            (Self::Any, Symbol::Variable(_)) => true,
            (Self::Variable(mine), Symbol::Variable(name)) => mine == name,
            _ => false,
        }
    }
}

/// How an unbound variable is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unbound {
    /// One or more characters except `/`.
    Characters,
    /// One opaque symbol.
    OneSymbol,
}

/// A position automaton without empty moves. A state is a set of positions that may be read next, as a bit set of
/// `words` words; the last position is the accepting one and reads nothing.
#[derive(Clone)]
pub(super) struct Automaton {
    pub(super) labels: Vec<Label>,
    pub(super) words: usize,
    pub(super) start: Vec<u64>,
    /// For each position the set that follows it, one after the other.
    follows: Vec<u64>,
}

impl Automaton {
    /// The union of patterns.
    pub(super) fn of<'a>(patterns: impl IntoIterator<Item = &'a [Segment]>, unbound: Unbound) -> Self {
        let mut graph = Graph {
            steps: vec![Step::Read(Label::Accept, 0)],
            unbound,
        };
        let entries: Vec<usize> = patterns.into_iter().map(|segments| graph.pattern(segments)).collect();
        graph.compact(&entries)
    }

    pub(super) fn accept(&self) -> usize {
        self.labels.len() - 1
    }

    pub(super) fn accepts(&self, set: &[u64]) -> bool {
        has(set, self.accept())
    }

    pub(super) fn follow(&self, position: usize) -> &[u64] {
        &self.follows[position * self.words..][..self.words]
    }

    /// Reads one symbol; says whether anything can still match.
    pub(super) fn step(&self, symbol: Symbol<'_>, now: &[u64], next: &mut [u64]) -> bool {
        next.fill(0);
        let mut alive = false;
        for position in members(now) {
            if self.labels[position].takes(symbol) {
                alive = true;
                for (word, more) in next.iter_mut().zip(self.follow(position)) {
                    *word |= more;
                }
            }
        }
        alive
    }
}

pub(super) fn members(set: &[u64]) -> impl Iterator<Item = usize> {
    set.iter().enumerate().flat_map(|(index, &word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                index * 64 + bit
            })
        })
    })
}

fn has(set: &[u64], position: usize) -> bool {
    set[position / 64] >> (position % 64) & 1 == 1
}

/// The automaton while it is built, with empty moves. Step 0 accepts.
struct Graph {
    steps: Vec<Step>,
    unbound: Unbound,
}

enum Step {
    Read(Label, usize),
    Fork(Vec<usize>),
}

impl Graph {
    /// Adds a pattern from its end to its start; gives its entry.
    fn pattern(&mut self, segments: &[Segment]) -> usize {
        let mut next = 0;
        for (index, segment) in segments.iter().enumerate().rev() {
            let last = index + 1 == segments.len();
            next = match segment {
                Segment::Deep if last => {
                    // A segment, then any number of `/` and a segment.
                    let again = self.fork(vec![next]);
                    let entry = self.one_or_more(again);
                    let slash = self.read(Label::Char('/'), entry);
                    self.steps[again] = Step::Fork(vec![next, slash]);
                    entry
                }
                Segment::Deep => {
                    let again = self.fork(vec![next]);
                    let slash = self.read(Label::Char('/'), again);
                    let entry = self.one_or_more(slash);
                    self.steps[again] = Step::Fork(vec![next, entry]);
                    again
                }
                Segment::Parts(parts) => {
                    let after = if last { next } else { self.read(Label::Char('/'), next) };
                    self.parts(parts, after)
                }
            };
        }
        next
    }

    fn parts(&mut self, parts: &[Part], next: usize) -> usize {
        parts.iter().rev().fold(next, |next, part| match part {
            Part::Char(c) => self.read(Label::Char(*c), next),
            Part::One => self.read(Label::One, next),
            Part::Any => {
                let again = self.fork(vec![next]);
                let entry = self.read(Label::Any, again);
                self.steps[again] = Step::Fork(vec![next, entry]);
                again
            }
            Part::Variable(name) => match self.unbound {
                Unbound::Characters => self.one_or_more(next),
                Unbound::OneSymbol => self.read(Label::Variable(name.clone()), next),
            },
            Part::OneOf(alternatives) => {
                let entries = alternatives.iter().map(|parts| self.parts(parts, next)).collect();
                self.fork(entries)
            }
        })
    }

    fn one_or_more(&mut self, next: usize) -> usize {
        let again = self.fork(vec![next]);
        let entry = self.read(Label::Any, again);
        self.steps[again] = Step::Fork(vec![next, entry]);
        entry
    }

    fn read(&mut self, label: Label, next: usize) -> usize {
        self.steps.push(Step::Read(label, next));
        self.steps.len() - 1
    }

    fn fork(&mut self, entries: Vec<usize>) -> usize {
        self.steps.push(Step::Fork(entries));
        self.steps.len() - 1
    }

    /// Drops the empty moves.
    fn compact(self, entries: &[usize]) -> Automaton {
        let mut position_of = vec![usize::MAX; self.steps.len()];
        let mut readers = Vec::new();
        for (index, step) in self.steps.iter().enumerate().skip(1) {
            if matches!(step, Step::Read(..)) {
                position_of[index] = readers.len();
                readers.push(index);
            }
        }
        position_of[0] = readers.len();
        let words = (readers.len() + 1).div_ceil(64);
        let mut visited = vec![usize::MAX; self.steps.len()];
        let mut close = |entries: &[usize], round: usize, set: &mut [u64]| {
            let mut todo = entries.to_vec();
            while let Some(step) = todo.pop() {
                if std::mem::replace(&mut visited[step], round) == round {
                    continue;
                }
                match &self.steps[step] {
                    Step::Read(..) => set[position_of[step] / 64] |= 1 << (position_of[step] % 64),
                    Step::Fork(entries) => todo.extend(entries),
                }
            }
        };
        let mut start = vec![0; words];
        close(entries, readers.len(), &mut start);
        let mut follows = vec![0; words * (readers.len() + 1)];
        let mut labels = Vec::with_capacity(readers.len() + 1);
        for (position, &reader) in readers.iter().enumerate() {
            if let Step::Read(label, next) = &self.steps[reader] {
                close(&[*next], position, &mut follows[position * words..][..words]);
                labels.push(label.clone());
            }
        }
        labels.push(Label::Accept);
        Automaton {
            labels,
            words,
            start,
            follows,
        }
    }
}

/// How the current segment begins: what tells a legal path from one with an empty, `.` or `..` segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Shape {
    SegmentStart,
    Dot,
    DotDot,
    Inside,
}

impl Shape {
    /// `None` when a segment ends that may not.
    pub(super) fn after(self, symbol: Symbol<'_>) -> Option<Self> {
        match (self, symbol) {
            (Self::Inside, Symbol::Char('/')) => Some(Self::SegmentStart),
            (_, Symbol::Char('/')) => None,
            (Self::SegmentStart, Symbol::Char('.')) => Some(Self::Dot),
            (Self::Dot, Symbol::Char('.')) => Some(Self::DotDot),
            _ => Some(Self::Inside),
        }
    }

    pub(super) fn may_end(self) -> bool {
        self == Self::Inside
    }
}
