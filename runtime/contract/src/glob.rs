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

use std::collections::HashMap;
use std::error::Error;
use std::fmt;

/// The longest pattern, in bytes; as long as the longest path.
const LONGEST: usize = 1_024;
/// How deep alternations may nest.
const DEEPEST: usize = 8;
/// How many product states [`covered_by`] looks at before it gives up.
const STATE_BUDGET: usize = 100_000;
/// How many sets of states of the covering patterns it keeps.
const SET_BUDGET: usize = 8_192;

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
    variable("site", "a document site: `prd` or `sdd`"),
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

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Where, in bytes from the start of the pattern.
    pub offset: usize,
    /// What was found and what to write instead.
    pub message: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.message)
    }
}

impl Error for PatternError {}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let segments = Parser { text, at: 0 }.pattern()?;
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
/// An unbound variable is one opaque symbol: the same variable covers it, and so do `*` and `**`; a literal and `?`
/// never do. Both sides must be bound alike for the answer to hold at run time.
///
/// # Errors
/// A shortest path that `sub` matches and `sup` does not, with unbound variables written as `{name}`. Patterns too
/// intricate to decide count as not covered; then the text says so.
pub fn covered_by(sub: &Pattern, sup: &[Pattern]) -> Result<(), String> {
    let small = Automaton::of([&sub.segments[..]], Unbound::OneSymbol);
    let large = Automaton::of(sup.iter().map(|pattern| &pattern.segments[..]), Unbound::OneSymbol);
    let symbols = alphabet(&small, &large);
    let undecided = || {
        Err(format!(
            "(undecided: `{sub}` and the {} patterns that may cover it are too intricate; write them apart)",
            sup.len()
        ))
    };

    let mut sets = SetTable::new(&large);
    let mut seen: HashMap<Node, usize> = HashMap::new();
    let mut trail: Vec<(Node, Option<usize>, usize)> = Vec::new();
    for position in members(&small.start) {
        let node = Node {
            position,
            set: 0,
            shape: Shape::SegmentStart,
        };
        if seen.insert(node, trail.len()).is_none() {
            trail.push((node, None, 0));
        }
    }
    let mut head = 0;
    while let Some(&(node, ..)) = trail.get(head) {
        if node.position == small.accept() {
            if node.shape.may_end() && !large.accepts(sets.get(node.set)) {
                return Err(witness(&trail, head, &symbols));
            }
            head += 1;
            continue;
        }
        for (index, &symbol) in symbols.iter().enumerate() {
            if !small.labels[node.position].takes(symbol) {
                continue;
            }
            let Some(shape) = node.shape.after(symbol) else {
                continue;
            };
            let Some(set) = sets.step(node.set, index, symbol, symbols.len()) else {
                return undecided();
            };
            for position in members(small.follow(node.position)) {
                let next = Node { position, set, shape };
                if seen.insert(next, trail.len()).is_none() {
                    trail.push((next, Some(head), index));
                }
            }
        }
        if trail.len() > STATE_BUDGET {
            return undecided();
        }
        head += 1;
    }
    Ok(())
}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// `**`
    Deep,
    Parts(Vec<Part>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Char(char),
    /// `?`
    One,
    /// `*`
    Any,
    Variable(String),
    OneOf(Vec<Vec<Part>>),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn pattern(mut self) -> Result<Vec<Segment>, PatternError> {
        if self.text.is_empty() {
            return Err(error(0, "the pattern is empty; write `**` for every path"));
        }
        if self.text.len() > LONGEST {
            return Err(error(LONGEST, format!("the pattern is longer than {LONGEST} bytes")));
        }
        let mut segments = Vec::new();
        loop {
            let start = self.at;
            let end = self.rest().find('/').map_or(self.text.len(), |length| start + length);
            match &self.text[start..end] {
                "" if start == 0 => {
                    return Err(error(
                        0,
                        "a leading `/`: patterns are relative to the project directory",
                    ));
                }
                "" if start == self.text.len() => {
                    return Err(error(start - 1, "a trailing `/`: write `/**` for everything below"));
                }
                "" => return Err(error(start, "an empty segment: write one `/`")),
                "." | ".." => return Err(error(start, "a `.` or `..` segment: write the path without it")),
                "**" => {
                    self.at = end;
                    segments.push(Segment::Deep);
                }
                _ => segments.push(Segment::Parts(self.parts(0)?)),
            }
            if self.at == self.text.len() {
                return Ok(segments);
            }
            self.at += 1;
        }
    }

    /// Parses up to the end of the segment, or of the alternative when `depth` is not zero.
    fn parts(&mut self, depth: usize) -> Result<Vec<Part>, PatternError> {
        let mut parts = Vec::new();
        while let Some(c) = self.rest().chars().next() {
            let at = self.at;
            match c {
                '/' if depth == 0 => break,
                '/' => {
                    let message = "a `/` inside braces: alternatives stay inside one segment; write several patterns";
                    return Err(error(at, message));
                }
                ',' | '}' if depth > 0 => break,
                '}' => return Err(error(at, "a `}` without its `{`")),
                '{' => {
                    parts.push(self.braces(depth)?);
                    continue;
                }
                '*' if self.rest().starts_with("**") => {
                    return Err(error(at, "`**` must be a whole segment: write `*` or `…/**/…`"));
                }
                '*' => parts.push(Part::Any),
                '?' => parts.push(Part::One),
                '[' => return Err(error(at, "there are no character classes; write alternatives: `{a,b}`")),
                '\\' => return Err(error(at, "there is no escape; separate segments with `/`")),
                c if c.is_control() => return Err(error(at, "a control character; no path can hold one")),
                c => parts.push(Part::Char(c)),
            }
            self.at += c.len_utf8();
        }
        Ok(parts)
    }

    /// Parses a variable or an alternation; stands on the `{`.
    fn braces(&mut self, depth: usize) -> Result<Part, PatternError> {
        let open = self.at;
        if depth == DEEPEST {
            return Err(error(open, format!("braces nest deeper than {DEEPEST}")));
        }
        self.at += 1;
        let unclosed = || error(open, "a `{` without its `}`");
        let rest = self.rest();
        let end = rest.find(['{', ',', '}', '/']).ok_or_else(unclosed)?;
        if rest.as_bytes()[end] == b'}' {
            let name = &rest[..end];
            if !is_variable_name(name) {
                let message = format!(
                    "`{{{name}}}` is neither a variable (lower case letters, digits, `_`) nor alternatives (with a comma)"
                );
                return Err(error(open, message));
            }
            self.at += end + 1;
            return Ok(Part::Variable(name.to_owned()));
        }
        let mut alternatives = Vec::new();
        loop {
            alternatives.push(self.parts(depth + 1)?);
            match self.rest().as_bytes().first() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    break;
                }
                _ => return Err(unclosed()),
            }
        }
        if alternatives.len() == 1 {
            return Err(error(open, "braces with one alternative: leave the outer braces out"));
        }
        Ok(Part::OneOf(alternatives))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }
}

fn error(offset: usize, message: impl Into<String>) -> PatternError {
    PatternError {
        offset,
        message: message.into(),
    }
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

fn collect_variables<'a>(parts: &'a [Part], names: &mut Vec<&'a str>) {
    for part in parts {
        match part {
            Part::Variable(name) if !names.contains(&name.as_str()) => names.push(name),
            Part::OneOf(alternatives) => alternatives.iter().for_each(|parts| collect_variables(parts, names)),
            _ => {}
        }
    }
}

fn bind_parts(parts: &[Part], value: &dyn Fn(&str) -> Option<Vec<String>>) -> Vec<Part> {
    let mut bound = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::OneOf(alternatives) => {
                bound.push(Part::OneOf(
                    alternatives.iter().map(|parts| bind_parts(parts, value)).collect(),
                ));
            }
            Part::Variable(name) => match value(name) {
                None => bound.push(part.clone()),
                Some(mut values) => {
                    values.retain(|value| !value.is_empty() && !value.contains('/'));
                    if let [value] = &values[..] {
                        bound.extend(value.chars().map(Part::Char));
                    } else {
                        let literal = |value: &String| value.chars().map(Part::Char).collect();
                        bound.push(Part::OneOf(values.iter().map(literal).collect()));
                    }
                }
            },
            part => bound.push(part.clone()),
        }
    }
    bound
}

fn render(segments: &[Segment]) -> String {
    fn render_parts(parts: &[Part], text: &mut String) {
        for part in parts {
            match part {
                Part::Char(c) => text.push(*c),
                Part::One => text.push('?'),
                Part::Any => text.push('*'),
                Part::Variable(name) => text.extend(["{", name, "}"]),
                Part::OneOf(alternatives) => {
                    text.push('{');
                    for (index, parts) in alternatives.iter().enumerate() {
                        if index > 0 {
                            text.push(',');
                        }
                        render_parts(parts, text);
                    }
                    text.push('}');
                }
            }
        }
    }
    let mut text = String::new();
    for (index, segment) in segments.iter().enumerate() {
        if index > 0 {
            text.push('/');
        }
        match segment {
            Segment::Deep => text.push_str("**"),
            Segment::Parts(parts) => render_parts(parts, &mut text),
        }
    }
    text
}

fn literal_prefix(segments: &[Segment]) -> String {
    let mut prefix = String::new();
    for (index, segment) in segments.iter().enumerate() {
        let Segment::Parts(parts) = segment else { return prefix };
        for part in parts {
            let Part::Char(c) = part else { return prefix };
            prefix.push(*c);
        }
        // `a/**/b` may continue with any segment, but the `/` after `a` is always there.
        if index + 1 < segments.len() {
            prefix.push('/');
        }
    }
    prefix
}

/// What an automaton reads. Matching reads characters only; covering reads unbound variables too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol<'a> {
    Char(char),
    Variable(&'a str),
}

/// What a position of an automaton takes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Label {
    Char(char),
    /// From `?`: one character, so never a variable, whose value may be longer.
    One,
    /// From `*` and `**`: may take a variable, as it may go on.
    Any,
    Variable(String),
    Accept,
}

impl Label {
    fn takes(&self, symbol: Symbol<'_>) -> bool {
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
enum Unbound {
    /// One or more characters except `/`.
    Characters,
    /// One opaque symbol.
    OneSymbol,
}

/// A position automaton without empty moves. A state is a set of positions that may be read next, as a bit set of
/// `words` words; the last position is the accepting one and reads nothing.
#[derive(Clone)]
struct Automaton {
    labels: Vec<Label>,
    words: usize,
    start: Vec<u64>,
    /// For each position the set that follows it, one after the other.
    follows: Vec<u64>,
}

impl Automaton {
    /// The union of patterns.
    fn of<'a>(patterns: impl IntoIterator<Item = &'a [Segment]>, unbound: Unbound) -> Self {
        let mut graph = Graph {
            steps: vec![Step::Read(Label::Accept, 0)],
            unbound,
        };
        let entries: Vec<usize> = patterns.into_iter().map(|segments| graph.pattern(segments)).collect();
        graph.compact(&entries)
    }

    fn accept(&self) -> usize {
        self.labels.len() - 1
    }

    fn accepts(&self, set: &[u64]) -> bool {
        has(set, self.accept())
    }

    fn follow(&self, position: usize) -> &[u64] {
        &self.follows[position * self.words..][..self.words]
    }

    /// Reads one symbol; says whether anything can still match.
    fn step(&self, symbol: Symbol<'_>, now: &[u64], next: &mut [u64]) -> bool {
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

fn members(set: &[u64]) -> impl Iterator<Item = usize> {
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
enum Shape {
    SegmentStart,
    Dot,
    DotDot,
    Inside,
}

impl Shape {
    /// `None` when a segment ends that may not.
    fn after(self, symbol: Symbol<'_>) -> Option<Self> {
        match (self, symbol) {
            (Self::Inside, Symbol::Char('/')) => Some(Self::SegmentStart),
            (_, Symbol::Char('/')) => None,
            (Self::SegmentStart, Symbol::Char('.')) => Some(Self::Dot),
            (Self::Dot, Symbol::Char('.')) => Some(Self::DotDot),
            _ => Some(Self::Inside),
        }
    }

    fn may_end(self) -> bool {
        self == Self::Inside
    }
}

/// A state of the product in [`covered_by`]: a position of the small side, all positions of the large side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    position: usize,
    set: usize,
    shape: Shape,
}

/// The sets of positions that the large side was seen in, each with a number and with its moves once they are known.
struct SetTable<'a> {
    automaton: &'a Automaton,
    sets: Vec<Vec<u64>>,
    number: HashMap<Vec<u64>, usize>,
    moves: HashMap<usize, usize>,
}

impl<'a> SetTable<'a> {
    fn new(automaton: &'a Automaton) -> Self {
        let start = automaton.start.clone();
        Self {
            automaton,
            number: HashMap::from([(start.clone(), 0)]),
            sets: vec![start],
            moves: HashMap::new(),
        }
    }

    fn get(&self, set: usize) -> &[u64] {
        &self.sets[set]
    }

    /// The set after a symbol; `None` when there are too many.
    fn step(&mut self, set: usize, index: usize, symbol: Symbol<'_>, symbols: usize) -> Option<usize> {
        let key = set * symbols + index;
        if let Some(&known) = self.moves.get(&key) {
            return Some(known);
        }
        let mut next = vec![0; self.automaton.words];
        self.automaton.step(symbol, &self.sets[set], &mut next);
        let number = match self.number.get(&next) {
            Some(&number) => number,
            None if self.sets.len() == SET_BUDGET => return None,
            None => {
                self.sets.push(next.clone());
                self.number.insert(next, self.sets.len() - 1);
                self.sets.len() - 1
            }
        };
        self.moves.insert(key, number);
        Some(number)
    }
}

/// Every symbol on which the two sides could differ: the characters they mention, `/`, `.`, one character that neither
/// mentions (all such behave alike) and the variables of the small side.
fn alphabet<'a>(small: &'a Automaton, large: &Automaton) -> Vec<Symbol<'a>> {
    let mentioned = |automaton: &Automaton| -> Vec<char> {
        let only_char = |label: &Label| match label {
            Label::Char(c) => Some(*c),
            _ => None,
        };
        automaton.labels.iter().filter_map(only_char).collect()
    };
    let mut chars = mentioned(small);
    chars.extend(mentioned(large));
    chars.extend(['/', '.']);
    chars.sort_unstable();
    chars.dedup();
    let other = ('a'..='z')
        .chain('\u{4e00}'..='\u{9fff}')
        .find(|c| chars.binary_search(c).is_err());
    let mut symbols: Vec<Symbol<'_>> = other.into_iter().chain(chars).map(Symbol::Char).collect();
    for label in &small.labels {
        if let Label::Variable(name) = label
            && !symbols.contains(&Symbol::Variable(name))
        {
            symbols.push(Symbol::Variable(name));
        }
    }
    symbols
}

fn witness(trail: &[(Node, Option<usize>, usize)], end: usize, symbols: &[Symbol<'_>]) -> String {
    let mut read = Vec::new();
    let mut at = end;
    while let (_, Some(before), symbol) = trail[at] {
        read.push(symbols[symbol]);
        at = before;
    }
    let mut text = String::new();
    for symbol in read.into_iter().rev() {
        match symbol {
            Symbol::Char(c) => text.push(c),
            Symbol::Variable(name) => text.extend(["{", name, "}"]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn cover(sub: &str, sup: &[&str]) -> Result<(), String> {
        let sup: Vec<Pattern> = sup.iter().map(|text| pattern(text)).collect();
        covered_by(&pattern(sub), &sup)
    }

    #[test]
    fn matching_by_table() {
        let table: &[(&str, &[&str], &[&str])] = &[
            (
                "prd/**",
                &["prd/a", "prd/a/b.html"],
                &["prd", "prd-evil/x", "x/prd/a", "prd/", "prd//a", "PRD/a"],
            ),
            ("**/x", &["x", "a/x", "a/b/x"], &["xx", "a/xx", "x/a", "/x"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb", "a", "a//b"]),
            (
                "**",
                &["a", "a/b", ".git/x"],
                &["", "/", "a/..", "../a", "a/./b", "a//b"],
            ),
            ("*", &["a", ".a", "..."], &["", ".", "..", "a/b"]),
            ("a/*/c", &["a/b/c"], &["a/c", "a//c", "a/b/b/c"]),
            ("a?c", &["abc", "a文c"], &["ac", "a/c", "abbc"]),
            (
                "u/{t,te*,}x.js",
                &["u/tx.js", "u/text.test.x.js", "u/x.js"],
                &["u/ax.js", "u/t/x.js"],
            ),
            ("{a,{b,c}d}", &["a", "bd", "cd"], &["b", "d", "ad"]),
            (
                "s/{agent}.json",
                &["s/pm.json", "s/a.b.json"],
                &["s/.json", "s/a/b.json"],
            ),
            ("a,b", &["a,b"], &["a"]),
            (
                "units/*/logs/**",
                &["units/u1/logs/a"],
                &["units/logs/a", "units/u/x/logs/a"],
            ),
        ];
        for (text, yes, no) in table {
            for path in *yes {
                assert!(pattern(text).matches(path), "{text} should match {path}");
            }
            for path in *no {
                assert!(!pattern(text).matches(path), "{text} should not match {path:?}");
            }
        }
    }

    #[test]
    fn a_directory_may_hold_matches() {
        let p = pattern("units/{unit_id}/{test,reports}/**");
        for dir in ["units", "units/u1", "units/u1/test", "units/u1/reports/a"] {
            assert!(p.may_match_below(dir), "{dir}");
        }
        for dir in ["unit", "units/u1/src", "units//test", "units/..", "", "units/u1/tes"] {
            assert!(!p.may_match_below(dir), "{dir}");
        }
        assert!(!pattern("a/b").may_match_below("a/b"));
    }

    #[test]
    fn errors_name_the_place() {
        let table = [
            ("", 0, "empty"),
            ("/a", 0, "leading"),
            ("a//b", 2, "empty segment"),
            ("a/", 1, "trailing"),
            ("a/../b", 2, "`..`"),
            ("./a", 0, "`.`"),
            ("a/b**", 3, "whole segment"),
            ("a/***", 2, "whole segment"),
            ("{a,**}", 3, "whole segment"),
            ("文/[ab]", 4, "character classes"),
            ("a\\b", 1, "escape"),
            ("a/{b", 2, "without its `}`"),
            ("a/{b,c", 2, "without its `}`"),
            ("a}", 1, "without its `{`"),
            ("{}", 0, "neither"),
            ("{Unit}", 0, "neither"),
            ("{a/b,c}", 2, "inside braces"),
            ("{{a}}", 0, "one alternative"),
            ("a\0", 1, "control"),
            ("{a,{a,{a,{a,{a,{a,{a,{a,{a,b}}}}}}}}}", 24, "deeper"),
        ];
        for (text, offset, part) in table {
            let error = Pattern::parse(text).expect_err(text);
            assert_eq!(error.offset, offset, "{text}: {error}");
            assert!(error.message.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn variables_bind_to_literal_alternatives() {
        let p = pattern("s/{state_key}-{kind}.{state_key}");
        assert_eq!(p.variables(), ["state_key", "kind"]);
        let bound =
            p.bind(&|name| (name == "state_key").then(|| vec!["pm".into(), "*".into(), "a/b".into(), String::new()]));
        assert_eq!(bound.text(), "s/{pm,*}-{kind}.{pm,*}");
        assert_eq!(bound.variables(), ["kind"]);
        assert!(bound.matches("s/*-x.pm"));
        assert!(!bound.matches("s/a-x.pm"));
        assert!(!bound.matches("s/a/b-x.pm"));
        let nothing = p.bind(&|_| Some(Vec::new()));
        assert!(!nothing.matches("s/-."));
        assert_eq!(p.bind(&|_| None), p);
        assert_eq!(covered_by(&nothing, &[]), Ok(()));
    }

    #[test]
    fn covering_by_table() {
        let table: &[(&str, &[&str], Option<&str>)] = &[
            ("prd/a/*.html", &["prd/**"], None),
            ("prd/**", &["prd/*"], Some("prd/a/a")),
            ("a/{b,c}", &["a/b", "a/c"], None),
            ("a/{b,c}", &["a/b"], Some("a/c")),
            ("**", &["*", "*/**"], None),
            ("**/x", &["x", "**/*/x"], None),
            ("agent-state/{state_key}-todo.json", &["agent-state/**"], None),
            ("agent-state/{state_key}-todo.json", &["agent-state/{state_key}*"], None),
            ("agent-state/{state_key}-todo.json", &["agent-state/*-todo.json"], None),
            (
                "agent-state/{state_key}.json",
                &["agent-state/{agent}.json"],
                Some("agent-state/{state_key}.json"),
            ),
            ("{n}", &["?", "??"], Some("{n}")),
            ("*", &["{n}"], Some("a")),
            ("u/{unit_id}/t", &["u/{unit_id}/**"], None),
            ("u/{unit_id}/t", &["u/pm/**"], Some("u/{unit_id}/t")),
            ("a*b*", &["a*"], None),
            ("a*", &["a*b*", "a"], Some("ac")),
            ("?", &["{a,?}"], None),
            ("a", &[], Some("a")),
        ];
        for (sub, sup, expected) in table {
            assert_eq!(cover(sub, sup).err().as_deref(), *expected, "{sub} by {sup:?}");
        }
    }

    #[test]
    fn a_blow_up_is_not_covered_and_says_so() {
        // Covered in truth: one of the two holds whatever the 41st last character is. But telling needs all of them.
        let sub = "{a,b}".repeat(60);
        let tail = "?".repeat(40);
        let answer = cover(&sub, &[&format!("*a{tail}"), &format!("*b{tail}")]);
        assert!(answer.is_err_and(|text| text.contains("undecided")));
    }

    #[test]
    fn a_pattern_made_to_backtrack_takes_one_pass() {
        let p = pattern(&format!("{}b", "*a".repeat(120)));
        assert!(!p.matches(&"a".repeat(1_000)));
        assert!(pattern(&"a".repeat(1_000)).matches(&"a".repeat(1_000)));
    }

    /// A small generator of random numbers, so that the contract needs no crate for its tests.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 33).unwrap_or(0) % limit
        }

        fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
            from[self.below(from.len())]
        }

        fn pattern(&mut self) -> Pattern {
            loop {
                let mut text = String::new();
                for index in 0..=self.below(4) {
                    if index > 0 {
                        text.push('/');
                    }
                    if self.below(4) == 0 {
                        text.push_str("**");
                        continue;
                    }
                    for _ in 0..=self.below(3) {
                        text.push_str(self.pick(&["a", "b", ".", "*", "?", "{a,b}", "{b*,}", "{a,{?b,.}}"]));
                    }
                }
                if let Ok(pattern) = Pattern::parse(&text) {
                    return pattern;
                }
            }
        }

        fn path(&mut self) -> String {
            let mut path = String::new();
            for index in 0..=self.below(4) {
                if index > 0 {
                    path.push('/');
                }
                for _ in 0..self.below(4) {
                    path.push_str(self.pick(&["a", "b", ".", "c"]));
                }
            }
            path
        }
    }

    /// A second, slow matcher by the definition alone.
    fn matches_by_definition(pattern: &Pattern, path: &str) -> bool {
        fn parts_match(parts: &[&Part], text: &[char]) -> bool {
            let Some((part, rest)) = parts.split_first() else {
                return text.is_empty();
            };
            match part {
                Part::Char(c) => text.first() == Some(c) && parts_match(rest, &text[1..]),
                Part::One => !text.is_empty() && parts_match(rest, &text[1..]),
                Part::Any => (0..=text.len()).any(|taken| parts_match(rest, &text[taken..])),
                Part::Variable(_) => (1..=text.len()).any(|taken| parts_match(rest, &text[taken..])),
                Part::OneOf(alternatives) => alternatives.iter().any(|alternative| {
                    let parts: Vec<&Part> = alternative.iter().chain(rest.iter().copied()).collect();
                    parts_match(&parts, text)
                }),
            }
        }
        fn segments_match(segments: &[Segment], path: &[&str]) -> bool {
            match segments.split_first() {
                None => path.is_empty(),
                Some((Segment::Deep, [])) => !path.is_empty(),
                Some((Segment::Deep, rest)) => (0..=path.len()).any(|taken| segments_match(rest, &path[taken..])),
                Some((Segment::Parts(parts), rest)) => path.split_first().is_some_and(|(segment, path)| {
                    let text: Vec<char> = segment.chars().collect();
                    parts_match(&parts.iter().collect::<Vec<_>>(), &text) && segments_match(rest, path)
                }),
            }
        }
        let path: Vec<&str> = path.split('/').collect();
        !path.iter().any(|segment| matches!(*segment, "" | "." | "..")) && segments_match(&pattern.segments, &path)
    }

    fn rounds(normal: usize, long: usize) -> usize {
        if std::env::var_os("DEVLOOP_LONG").is_some() {
            long
        } else {
            normal
        }
    }

    #[test]
    fn the_automaton_agrees_with_the_definition() {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut hits = 0;
        for _ in 0..rounds(3_000, 100_000) {
            let pattern = random.pattern();
            for _ in 0..8 {
                let path = random.path();
                let expected = matches_by_definition(&pattern, &path);
                hits += usize::from(expected);
                assert_eq!(pattern.matches(&path), expected, "{pattern} on {path:?}");
            }
        }
        assert!(hits > 1_000, "the generator makes paths that match: {hits}");
    }

    #[test]
    fn covered_means_every_path_and_a_witness_is_one() {
        let mut random = Random(0xD1B5_4A32_D192_ED03);
        let (mut covered, mut refuted) = (0, 0);
        for _ in 0..rounds(3_000, 100_000) {
            let sub = random.pattern();
            let sup: Vec<Pattern> = (0..random.below(4)).map(|_| random.pattern()).collect();
            let any = |path: &str| sup.iter().any(|pattern| matches_by_definition(pattern, path));
            match covered_by(&sub, &sup) {
                Ok(()) => {
                    covered += 1;
                    for _ in 0..60 {
                        let path = random.path();
                        assert!(
                            !matches_by_definition(&sub, &path) || any(&path),
                            "{sub} by {sup:?}: {path}"
                        );
                    }
                }
                Err(path) => {
                    refuted += 1;
                    assert!(matches_by_definition(&sub, &path), "{sub}: {path}");
                    assert!(!any(&path), "{sup:?}: {path}");
                }
            }
        }
        assert!(
            covered > 100 && refuted > 100,
            "both answers occur: {covered}, {refuted}"
        );
    }

    #[test]
    fn the_known_variables_parse_and_are_told_once() {
        for (index, variable) in VARIABLES.iter().enumerate() {
            assert_eq!(pattern(&format!("{{{}}}", variable.name)).variables(), [variable.name]);
            assert!(VARIABLES[..index].iter().all(|other| other.name != variable.name));
        }
    }
}
