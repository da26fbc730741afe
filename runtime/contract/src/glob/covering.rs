//! Whether patterns cover another one: a search over the product of two automata.
//!
//! Answers for the decision and for a shortest path that speaks against it. Gives up, as not covered, beyond a budget.

use std::collections::HashMap;

use super::automaton::{Automaton, Label, Shape, Symbol, members};

/// How many product states [`covered_by`](super::covered_by) looks at before it gives up.
const STATE_BUDGET: usize = 100_000;
/// How many sets of states of the covering patterns it keeps.
const SET_BUDGET: usize = 8_192;

/// Why the small side does not count as covered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// A shortest path that only the small side takes, with variables written as `{name}`.
    Path(String),
    /// The search was given up.
    TooIntricate,
}

/// Looks for a path that `small` takes and `large` does not.
pub(super) fn search(small: &Automaton, large: &Automaton) -> Result<(), Doubt> {
    let symbols = alphabet(small, large);
    let mut sets = SetTable::new(large);
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
                return Err(Doubt::Path(witness(&trail, head, &symbols)));
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
                return Err(Doubt::TooIntricate);
            };
            for position in members(small.follow(node.position)) {
                let next = Node { position, set, shape };
                if seen.insert(next, trail.len()).is_none() {
                    trail.push((next, Some(head), index));
                }
            }
        }
        if trail.len() > STATE_BUDGET {
            return Err(Doubt::TooIntricate);
        }
        head += 1;
    }
    Ok(())
}

/// A state of the product in [`covered_by`](super::covered_by): a position of the small side, all positions of the large side.
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
        if let Symbol::Variable(_) = symbol {
            let whatever = self.after_some_text(&self.sets[set]);
            for (word, more) in next.iter_mut().zip(whatever) {
                *word |= more;
            }
        }
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

    /// The positions that are reached whatever text a variable stands for: one or more characters, of which only a `?`,
    /// a `*` or a `**` is sure to take each.
    fn after_some_text(&self, set: &[u64]) -> Vec<u64> {
        // No pattern has a control character, so no literal takes this one.
        let symbol = Symbol::Char('\0');
        let mut now = vec![0; self.automaton.words];
        self.automaton.step(symbol, set, &mut now);
        let mut always = now.clone();
        let mut seen = vec![now.clone()];
        loop {
            let mut next = vec![0; self.automaton.words];
            self.automaton.step(symbol, &now, &mut next);
            for (word, other) in always.iter_mut().zip(&next) {
                *word &= other;
            }
            // From here on the lengths repeat.
            if seen.contains(&next) {
                return always;
            }
            // Beyond the longest run of `?` only what repeats is left; the bound is a net.
            if seen.len() > self.automaton.labels.len() {
                return vec![0; self.automaton.words];
            }
            seen.push(next.clone());
            now = next;
        }
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
