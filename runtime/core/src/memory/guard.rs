//! Function words that carry meaning: which two texts may not differ in them and still say the same.
//!
//! Answers for the `[guard]` section of `lexicon.txt` and for what a text has of it. Leaves out what follows from that
//! (`likeness`).
//!
//! Each line of the section is a class, `name: member | member`, and a member is a list of forms as they are written.
//! Members of one class exclude each other. A member that begins with `!` also counts when the other text has none of
//! the class, and with `!!` even when both have fewer words in common.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::lexicon::{self, LEXICON, Meaning};
use super::normal::is_cjk;
use super::stem::stem;

/// How much it means when only one of two texts has a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Alone {
    /// Nothing: texts leave it out as they like.
    Nothing,
    /// Something when the texts are the same word for word otherwise.
    Something,
    /// Something when they are much alike.
    Much,
}

/// A class of function words, by its place in the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class(u8);

/// A function word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Guard {
    pub(super) class: Class,
    /// Which of those that exclude each other.
    pub(super) member: u16,
    pub(super) alone: Alone,
    /// The same word as the lexicon knows it.
    pub(super) meaning: Option<Meaning>,
    /// The clause that it stands in.
    pub(super) clause: usize,
}

#[derive(Debug, Default)]
struct Guards {
    names: Vec<&'static str>,
    /// Phrases of words by their first word, longest first.
    phrases: BTreeMap<&'static str, Vec<(Vec<&'static str>, Guard)>>,
    /// Forms in characters without spaces by their first character, longest first.
    joined: BTreeMap<char, Vec<(Vec<char>, Guard)>>,
}

/// What denies: a negation of the other text is its like.
pub(super) static DENIAL: LazyLock<Option<Class>> = LazyLock::new(|| class("denial"));
/// What says that something is not there, as a negation does, too.
pub(super) static ABSENCE: LazyLock<Option<Class>> = LazyLock::new(|| class("absence"));
/// What ties a condition to what follows without it.
pub(super) static HINGE: LazyLock<Option<Class>> = LazyLock::new(|| class("hinge"));
/// What tells what happens else.
pub(super) static OTHERWISE: LazyLock<Option<Class>> = LazyLock::new(|| class("otherwise"));
/// Whether it works.
pub(super) static OUTCOME: LazyLock<Option<Class>> = LazyLock::new(|| class("outcome"));
/// How many: number words, too.
static QUANTITY: LazyLock<Option<Class>> = LazyLock::new(|| class("quantity"));

static GUARDS: LazyLock<Guards> = LazyLock::new(|| {
    let mut guards = Guards::default();
    for (number, line) in lexicon::lines_of(lexicon::TEXT, "guard").enumerate() {
        let (name, members) = line.split_once(':').unwrap_or(("", line));
        guards.names.push(name.trim());
        for (member, forms) in members.split('|').enumerate() {
            let marks = forms.trim().chars().take_while(|c| *c == '!').count();
            let guard = Guard {
                class: Class(u8::try_from(number).unwrap_or(u8::MAX)),
                member: u16::try_from(member).unwrap_or(u16::MAX),
                alone: match marks {
                    0 => Alone::Nothing,
                    1 => Alone::Something,
                    _ => Alone::Much,
                },
                meaning: None,
                clause: 0,
            };
            for form in lexicon::forms(forms.trim().trim_start_matches('!')) {
                if form.contains(is_cjk) {
                    let form: Vec<char> = form.chars().filter(|c| *c != '了').collect();
                    let known = (0..form.len()).find_map(|from| {
                        LEXICON
                            .joined(&form[from..])
                            .filter(|(length, _)| from + length == form.len())
                    });
                    let guard = Guard {
                        meaning: known.map(|(_, meaning)| meaning),
                        ..guard
                    };
                    guards.joined.entry(form[0]).or_default().push((form, guard));
                } else {
                    let words: Vec<&str> = form.split(' ').collect();
                    let stems: Vec<String> = words.iter().map(|word| stem(word)).collect();
                    // `was removed` is `remove`.
                    let known = (0..stems.len()).find_map(|from| {
                        LEXICON
                            .phrase(&stems[from..])
                            .filter(|(length, _)| from + length == stems.len())
                    });
                    let guard = Guard {
                        meaning: known.map(|(_, meaning)| meaning),
                        ..guard
                    };
                    guards.phrases.entry(words[0]).or_default().push((words, guard));
                }
            }
        }
    }
    for phrases in guards.phrases.values_mut() {
        phrases.sort_by_key(|(phrase, _)| std::cmp::Reverse(phrase.len()));
    }
    for forms in guards.joined.values_mut() {
        forms.sort_by_key(|(form, _)| std::cmp::Reverse(form.len()));
    }
    guards
});

/// The function words among the words of a clause, small and in order.
pub(super) fn of_words(words: &[String], clause: usize, found: &mut Vec<Guard>) {
    let mut at = 0;
    while at < words.len() {
        let rest = &words[at..];
        let candidates = GUARDS.phrases.get(rest[0].as_str());
        let fits = |(phrase, _): &&(Vec<&str>, Guard)| {
            phrase.len() <= rest.len() && phrase.iter().zip(rest).all(|(one, other)| one == other)
        };
        match candidates.and_then(|candidates| candidates.iter().find(fits)) {
            // `is used to build` tells what for, `used to build` that it does so no more.
            Some((phrase, _)) if phrase == &["used", "to"] && at > 0 && is_being(&words[at - 1]) => at += 2,
            Some((phrase, _)) => {
                let same = candidates.into_iter().flatten().filter(|(other, _)| other == phrase);
                found.extend(same.map(|(_, guard)| Guard { clause, ..*guard }));
                at += phrase.len();
            }
            None => at += 1,
        }
    }
}

/// The function word that characters without spaces begin with, when it is no shorter than the known form there.
pub(super) fn of_characters(characters: &[char], form_length: usize, clause: usize, found: &mut Vec<Guard>) {
    let Some(candidates) = characters.first().and_then(|first| GUARDS.joined.get(first)) else {
        return;
    };
    let longest = candidates.iter().find(|(form, _)| characters.starts_with(form));
    if let Some((longest, _)) = longest.filter(|(form, _)| form.len() >= form_length) {
        let same = candidates.iter().filter(|(form, _)| form == longest);
        found.extend(same.map(|(_, guard)| Guard { clause, ..*guard }));
    }
}

/// A number written in characters: each value is a member of its own.
pub(super) fn of_number(digits: &[char], clause: usize) -> Option<Guard> {
    let mut value: u16 = 0;
    for digit in digits {
        let digit = match digit {
            '两' => '二',
            digit => *digit,
        };
        let place = "一二三四五六七八九十百千万".chars().position(|known| known == digit)?;
        value = value.wrapping_mul(17).wrapping_add(u16::try_from(place).ok()? + 1);
    }
    // `一个` is an article more often than a number.
    (value != 1).then_some(Guard {
        class: (*QUANTITY)?,
        meaning: None,
        // Beyond those of words, of which there are far fewer.
        member: value | 0x8000,
        alone: Alone::Nothing,
        clause,
    })
}

fn is_being(word: &str) -> bool {
    matches!(
        word,
        "is" | "are" | "be" | "was" | "were" | "been" | "being" | "it's" | "get" | "gets"
    )
}

fn class(name: &str) -> Option<Class> {
    let at = GUARDS.names.iter().position(|known| *known == name)?;
    u8::try_from(at).ok().map(Class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_once_in_a_class() {
        assert!(
            [&DENIAL, &ABSENCE, &OUTCOME, &QUANTITY, &HINGE, &OTHERWISE]
                .iter()
                .all(|class| class.is_some())
        );
        for (form, guard) in GUARDS.phrases.values().flatten() {
            let same = GUARDS.phrases[form[0]].iter();
            let same = same.filter(|(other, like)| other == form && like.class == guard.class);
            assert_eq!(same.count(), 1, "{form:?} {guard:?}");
        }
        for (form, guard) in GUARDS.joined.values().flatten() {
            let same = GUARDS.joined[&form[0]].iter();
            let same = same.filter(|(other, like)| other == form && like.class == guard.class);
            assert_eq!(same.count(), 1, "{form:?} {guard:?}");
        }
    }
}
