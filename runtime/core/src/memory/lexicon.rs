//! Which words say the same, which say the opposite, and which turn a sentence round.
//!
//! Answers for the reading of `lexicon.txt`, a list made for memories of coding agents in English and Chinese. Leaves out
//! the comparison itself.
//!
//! | section | what a form of it does |
//! |---|---|
//! | `[stop]` | says nothing and is left out |
//! | `[not]` | negates its clause: a text with one never counts as the same as a text without |
//! | `[weak]` | negates its clause when the other text negates it, too |
//! | `[plain]` | is a word of its own, so that no form is found inside of it |
//! | `[same]` | forms of one line are one word |
//! | `[opposite]` | as `[same]`, on both sides of the `\|`; what one text has on one side and the other text on the other contradicts |
//! | `[guard]` | carries meaning although it is a function word; read by `guard` |
//! | `[family]` | members exclude each other: one text names this one, the other that one |
//!
//! The first section and line that has a form wins, except that a member of a family may also stand elsewhere.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::normal::is_cjk;
use super::stem::stem;

pub(super) const TEXT: &str = include_str!("lexicon.txt");

/// What a word means, as a number that is the same for all forms of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Meaning {
    /// Nothing.
    Stop,
    /// It negates.
    Not,
    /// It negates a little.
    Weak,
    /// A word.
    Word(u32),
}

#[derive(Debug, Default)]
pub(super) struct Lexicon {
    /// Phrases of stems by their first stem, longest first.
    phrases: HashMap<String, Vec<(Vec<String>, Meaning)>>,
    /// Forms in characters without spaces by their first character, longest first.
    joined: HashMap<char, Vec<(Vec<char>, Meaning)>>,
    /// The other side, by word.
    opposite: HashMap<u32, Vec<u32>>,
    /// The families of a word.
    families: HashMap<u32, Vec<u32>>,
    /// Words that say little.
    light: HashSet<u32>,
    /// How many words there are.
    words: u32,
}

/// The lexicon of this program. Read once, in about a millisecond.
pub(super) static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| Lexicon::read(TEXT));

impl Lexicon {
    fn read(text: &str) -> Self {
        let mut lexicon = Self::default();
        let mut family = 0;
        for (section, line) in ORDER
            .iter()
            .flat_map(|section| lines_of(text, section).map(move |line| (*section, line)))
        {
            match section {
                "light" => {
                    for form in forms(line) {
                        let word = lexicon.add_group(form);
                        lexicon.light.insert(word);
                    }
                }
                "stop" => lexicon.add_all(line, Meaning::Stop),
                "not" => lexicon.add_all(line, Meaning::Not),
                "weak" => lexicon.add_all(line, Meaning::Weak),
                "plain" => {
                    for form in forms(line) {
                        lexicon.add_group(form);
                    }
                }
                "same" => {
                    lexicon.add_group(line);
                }
                "opposite" => {
                    let sides: Vec<u32> = line.split('|').map(|side| lexicon.add_group(side)).collect();
                    for (side, word) in sides.iter().enumerate() {
                        let others = sides.iter().enumerate().filter(|(other, _)| *other != side);
                        let others: Vec<u32> = others.map(|(_, word)| *word).collect();
                        lexicon.opposite.entry(*word).or_default().extend(others);
                    }
                }
                "family" => {
                    let separator = if line.contains(';') { ';' } else { ',' };
                    for member in line.split(separator) {
                        let word = lexicon.add_group(member);
                        lexicon.families.entry(word).or_default().push(family);
                    }
                    family += 1;
                }
                _ => {}
            }
        }
        lexicon
            .phrases
            .values_mut()
            .for_each(|phrases| phrases.sort_by_key(|(phrase, _)| Reverse(phrase.len())));
        lexicon
            .joined
            .values_mut()
            .for_each(|forms| forms.sort_by_key(|(form, _)| Reverse(form.len())));
        lexicon
    }

    /// The longest phrase that `stems` begin with, and how many stems it has.
    pub(super) fn phrase(&self, stems: &[String]) -> Option<(usize, Meaning)> {
        let candidates = self.phrases.get(stems.first()?)?;
        let fits = |(phrase, _): &&(Vec<String>, Meaning)| stems.starts_with(phrase);
        candidates
            .iter()
            .find(fits)
            .map(|(phrase, meaning)| (phrase.len(), *meaning))
    }

    /// The longest form that `characters` begin with, and how many characters it has.
    pub(super) fn joined(&self, characters: &[char]) -> Option<(usize, Meaning)> {
        let candidates = self.joined.get(characters.first()?)?;
        let fits = |(form, _): &&(Vec<char>, Meaning)| characters.starts_with(form);
        candidates
            .iter()
            .find(fits)
            .map(|(form, meaning)| (form.len(), *meaning))
    }

    /// Whether two words exclude each other.
    pub(super) fn are_opposite(&self, one: u32, other: u32) -> bool {
        self.opposite.get(&one).is_some_and(|others| others.contains(&other))
    }

    /// The families of a word.
    pub(super) fn families(&self, word: u32) -> &[u32] {
        self.families.get(&word).map_or(&[], Vec::as_slice)
    }

    /// Whether a word says little.
    pub(super) fn is_light(&self, word: u32) -> bool {
        self.light.contains(&word)
    }

    fn add_all(&mut self, line: &str, meaning: Meaning) {
        for form in forms(line) {
            self.add(form, meaning);
        }
    }

    /// One word with its forms. A form that is known already brings its word along.
    fn add_group(&mut self, line: &str) -> u32 {
        let known = forms(line).find_map(|form| match self.known(form) {
            Some(Meaning::Word(word)) => Some(word),
            _ => None,
        });
        let word = known.unwrap_or(self.words);
        self.words += u32::from(known.is_none());
        for form in forms(line) {
            self.add(form, Meaning::Word(word));
        }
        word
    }

    fn known(&self, form: &str) -> Option<Meaning> {
        if form.contains(is_cjk) {
            let form: Vec<char> = form.chars().filter(|c| *c != ' ').collect();
            let candidates = self.joined.get(form.first()?)?;
            return candidates
                .iter()
                .find(|(known, _)| *known == form)
                .map(|(_, meaning)| *meaning);
        }
        let stems = stems(form);
        let candidates = self.phrases.get(stems.first()?)?;
        let same = candidates.iter().find(|(phrase, _)| *phrase == stems);
        same.map(|(_, meaning)| *meaning)
    }

    fn add(&mut self, form: &str, meaning: Meaning) {
        if self.known(form).is_some() {
            return;
        }
        if form.contains(is_cjk) {
            let form: Vec<char> = form.chars().filter(|c| *c != ' ').collect();
            if let Some(first) = form.first() {
                self.joined.entry(*first).or_default().push((form, meaning));
            }
        } else {
            let stems = stems(form);
            if let Some(first) = stems.first() {
                self.phrases.entry(first.clone()).or_default().push((stems, meaning));
            }
        }
    }
}

/// In which order sections are read: of a form that several have the first is right.
const ORDER: &[&str] = &["opposite", "same", "family", "light", "not", "weak", "stop", "plain"];

pub(super) fn lines_of<'t>(text: &'t str, wanted: &'t str) -> impl Iterator<Item = &'t str> {
    let mut section = "";
    text.lines().map(str::trim).filter(move |line| {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
            return false;
        }
        section == wanted && !line.is_empty() && !line.starts_with("# ")
    })
}

pub(super) fn forms(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(str::trim).filter(|form| !form.is_empty())
}

fn stems(form: &str) -> Vec<String> {
    form.to_lowercase().split(' ').map(stem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(form: &str) -> u32 {
        match LEXICON.known(form) {
            Some(Meaning::Word(word)) => word,
            other => panic!("{form}: {other:?}"),
        }
    }

    /// Else a text with the form and one without it could be the same, although one of them negates.
    #[test]
    fn no_form_swallows_a_negation() {
        for section in ["opposite", "same", "family", "light", "stop"] {
            for form in lines_of(TEXT, section)
                .flat_map(|line| line.split(['|', ';']))
                .flat_map(forms)
            {
                let negates = form
                    .split(' ')
                    .any(|word| matches!(word, "not" | "no" | "never" | "nothing" | "none"));
                let allowed = [
                    "do not forget",
                    "not forget",
                    "never forget",
                    "nothing but",
                    "别忘了",
                    "不要忘记",
                    "不要忘了",
                    "不然",
                    "不然的话",
                    "要不然",
                    "no later than",
                    "不足",
                    "不晚于",
                ];
                let negates = negates || form.contains(['不', '没', '勿', '禁']) && !form.contains("禁用");
                assert!(!negates || allowed.contains(&form), "[{section}] {form}");
            }
        }
    }

    #[test]
    fn forms_of_one_line_are_one_word_and_sides_are_two() {
        assert_eq!(word("delete"), word("删除"));
        assert_eq!(word("deleted"), word("purging"));
        assert_eq!(word("at the same time"), word("simultaneously"));
        assert!(LEXICON.are_opposite(word("enable"), word("禁用")));
        assert!(LEXICON.are_opposite(word("disable"), word("turn on")));
        assert!(!LEXICON.are_opposite(word("enable"), word("启用")));
        let shared = |one: &str, other: &str| {
            LEXICON
                .families(word(one))
                .iter()
                .any(|family| LEXICON.families(word(other)).contains(family))
        };
        assert!(shared("npm", "yarn") && shared("周二", "thursday") && !shared("npm", "redis"));
        assert_eq!(LEXICON.known("never"), Some(Meaning::Not));
        assert_eq!(LEXICON.known("the"), Some(Meaning::Stop));
        assert!(LEXICON.is_light(word("use")) && !LEXICON.is_light(word("redis")));
    }
}
