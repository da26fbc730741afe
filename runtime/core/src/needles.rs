//! One run over a text for many literals.
//!
//! Answers for which of them a text has, and whether as the quickest possible answer to a search with many patterns. Leaves
//! out what they mean: whoever has patterns knows of which literals each match has one.

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, StartKind};

/// Literals with their marks, of which there are up to 64. Letters of ASCII may be small or large; other characters are
/// themselves.
pub(crate) struct Needles {
    automaton: DFA,
    start: StateID,
    /// Of each needle.
    marks: Vec<u64>,
    all: u64,
}

impl Needles {
    /// Short literals, in the program.
    pub(crate) fn new<T: AsRef<[u8]>>(needles: impl IntoIterator<Item = (T, u64)>) -> Self {
        let (needles, marks): (Vec<T>, Vec<u64>) = needles.into_iter().unzip();
        let automaton = DFA::builder()
            .ascii_case_insensitive(true)
            .start_kind(StartKind::Unanchored)
            .build(&needles)
            .expect("literals of the program are few and short");
        Self {
            start: automaton.start_state(Anchored::No).expect("it was asked for"),
            all: marks.iter().fold(0, |all, mark| all | mark),
            automaton,
            marks,
        }
    }

    /// The marks of all needles that a text has.
    pub(crate) fn marks(&self, text: &str) -> u64 {
        let mut found = 0;
        self.run(text.as_bytes(), |_, mark| {
            found |= mark;
            found != self.all
        });
        found
    }

    /// Where the needle ends that ends first of those that begin at `from` or later.
    pub(crate) fn first_end(&self, text: &str, from: usize) -> Option<usize> {
        let mut end = None;
        self.run(&text.as_bytes()[from..], |at, _| {
            end = Some(from + at);
            false
        });
        end
    }

    /// Tells of each needle where it ends, also of those within others, while more is wanted.
    fn run(&self, text: &[u8], mut found: impl FnMut(usize, u64) -> bool) {
        let mut state = self.start;
        for (at, byte) in text.iter().enumerate() {
            state = self.automaton.next_state(Anchored::No, state, *byte);
            if self.automaton.is_special(state) && self.automaton.is_match(state) {
                let needles = 0..self.automaton.match_len(state);
                let marks = needles.map(|n| self.marks[self.automaton.match_pattern(state, n).as_usize()]);
                if !found(at + 1, marks.fold(0, |all, mark| all | mark)) {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_needles_are_seen_also_those_in_others() {
        let needles = Needles::new([("token", 1), ("access_token", 2), ("oken", 4), ("密码", 8)]);
        assert_eq!(needles.marks("an ACCESS_Token"), 7);
        assert_eq!(needles.marks("的密码"), 8);
        assert_eq!(needles.marks("access_to ken"), 0);
        assert_eq!(needles.first_end("a token, oken", 0), Some(7));
        assert_eq!(needles.first_end("a token, oken", 7), Some(13));
        assert_eq!(needles.first_end("a token", 7), None);
    }

    proptest! {
        #[test]
        fn what_a_text_has_is_found(text in "(a|b|ab|c|A|k|\u{212A}|é){0,24}") {
            let words = ["ab", "bc", "abca", "k", "éa", "c"];
            let needles = Needles::new(words.iter().enumerate().map(|(n, word)| (word, 1 << n)));
            let small = text.to_ascii_lowercase();
            let has = |n: &usize| small.contains(words[*n]);
            prop_assert_eq!(needles.marks(&text), (0..words.len()).filter(has).fold(0, |all, n| all | 1 << n));
            let ends = words.iter().filter_map(|word| small.find(word).map(|at| at + word.len()));
            prop_assert_eq!(needles.first_end(&text, 0), ends.min());
        }
    }
}
