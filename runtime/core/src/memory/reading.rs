//! A memory as it is compared: its words by meaning, clause by clause.
//!
//! Answers for cutting a text into words, names and numbers, for leaving out what says nothing, and for which clauses are
//! negated. Leaves out what makes two readings alike (`likeness`).
//!
//! Characters that are written without spaces are cut by the lexicon's longest forms; what it does not know is compared
//! in pairs of characters, which needs no dictionary.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;

use super::guard::{self, Guard};
use super::lexicon::{LEXICON, Meaning};
use super::normal::{LETTERS_OF_A_NAME, is_cjk, with_signs_as_words};
use super::stem::stem;

/// Words that begin a clause: what is negated before them is not after them.
const JOINTS: &[&str] = &[
    "because",
    "since",
    "otherwise",
    "else",
    "but",
    "so",
    "therefore",
    "although",
    "though",
    "unless",
    "when",
    "if",
    "until",
    "while",
    "whereas",
    "which",
    "as",
    "even",
    "or",
];
const JOINTS_CJK: &[&str] = &[
    "因为", "由于", "否则", "不然", "但是", "但", "所以", "因此", "而且", "如果", "除非", "虽然", "并且", "只有", "而",
];

/// Those that begin what happens otherwise, or why.
const REASONS: &[&str] = &["because", "since", "otherwise", "else", "as", "or"];
const REASONS_CJK: &[&str] = &["因为", "由于", "否则", "不然"];

/// Words between two things of which the order matters; what comes next to them on the right is their object.
const PIVOTS: &[&str] = &[
    "than", "instead", "rather", "from", "to", "into", "onto", "depend", "override", "replace", "call", "import",
    "extend", "wrap", "trigger", "block", "precede", "inherit", "beat",
];
static PIVOT_STEMS: LazyLock<Vec<(String, Pivot)>> = LazyLock::new(|| {
    let others = PIVOTS.iter().map(|word| (stem(word), Pivot::Other(hash_of_word(word))));
    let before = BEFORE.iter().map(|word| (stem(word), Pivot::Before));
    let after = AFTER.iter().map(|word| (stem(word), Pivot::After));
    others.chain(before).chain(after).collect()
});
const PIVOTS_CJK: &[&str] = &[
    "再",
    "代替",
    "替代",
    "取代",
    "而不是",
    "到",
    "比",
    "依赖",
    "依赖于",
    "覆盖",
    "替换",
    "调用",
    "继承",
    "触发",
    "优先于",
    "导入",
];
/// The two that are each other's converse.
const BEFORE: &[&str] = &["before", "prior"];
const AFTER: &[&str] = &["after", "once"];
/// The same with their object on the left.
const BEFORE_CJK: &[&str] = &["之前", "以前", "前"];
const AFTER_CJK: &[&str] = &["之后", "以后", "后"];

/// What one term of a text is. Words and names are kept as hashes: they are compared, never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Term {
    /// A number, whichever.
    Number,
    /// A word of the lexicon.
    Word(u32),
    /// Another word, by its stem.
    Other(u64),
    /// Something that has a name: a path, a flag, an identifier.
    Name(u64),
    /// One character that no form of the lexicon covers.
    Character(char),
    /// Two such in a row.
    Pair(char, char),
}

/// How much a term counts.
pub(super) fn weight(term: Term) -> f32 {
    match term {
        Term::Number => 0.2,
        Term::Character(_) => 0.3,
        Term::Word(word) if LEXICON.is_light(word) => 0.4,
        Term::Pair(..) => 0.5,
        Term::Word(_) | Term::Other(_) => 1.0,
        Term::Name(_) => 2.0,
    }
}

/// How a clause is negated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Negation {
    /// Not at all.
    #[default]
    None,
    /// By a word such as `without`, which tells of one thing in it.
    Weak,
    /// By a word such as `not`.
    Strong,
}

/// A part of a sentence.
#[derive(Clone, Debug, Default)]
pub(super) struct Clause {
    pub(super) terms: Vec<Term>,
    pub(super) negation: Negation,
    /// Whether it tells what happens otherwise, or why.
    pub(super) is_reason: bool,
}

/// What a sentence of the content is made of, for the order of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Term(Term),
    /// A word that has a thing on each side, and the side of its object.
    Pivot(Pivot, Side),
}

/// A word that has a thing on each side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pivot {
    Before,
    After,
    /// Another one, by its hash.
    Other(u64),
}

/// A word as it stands, and what it means alone; nothing when it says nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) word: u64,
    pub(super) term: Option<Term>,
}

/// Where the object of a pivot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// A set of terms with their weights, sorted.
#[derive(Clone, Debug, Default)]
pub(super) struct Bag {
    pub(super) terms: Vec<Term>,
    pub(super) weight: f32,
}

/// A title and its content, read once and compared often.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The clauses of both in order.
    pub(super) clauses: Vec<Clause>,
    /// The sentences of the content.
    pub(super) sentences: Vec<Vec<Item>>,
    /// Every term of both.
    pub(super) all: Bag,
    /// Those of the title alone, and of the content alone.
    pub(super) title: Bag,
    pub(super) content: Bag,
    /// What has a name, as it is written, small.
    pub(super) names: Vec<String>,
    /// The words of the title and of the content as they stand, for what only a close look shows.
    pub(super) title_surface: Vec<Seen>,
    pub(super) surface: Vec<Seen>,
    /// The function words that carry meaning, of the title and of the content.
    pub(super) title_guards: Vec<Guard>,
    pub(super) guards: Vec<Guard>,
    /// How many clauses the title has; they come first.
    pub(super) title_clauses: usize,
    /// The strongest negation of any clause.
    pub(super) negation: Negation,
}

impl Reading {
    /// Reads a memory. Linear in its length.
    pub fn new(title: &str, content: &str) -> Self {
        let mut reader = Reader::default();
        reader.read(title);
        let title_clauses = reader.reading.clauses.len();
        reader.reading.title_surface = std::mem::take(&mut reader.reading.surface);
        reader.reading.title_guards = std::mem::take(&mut reader.reading.guards);
        reader.reading.title_clauses = title_clauses;
        reader.reading.sentences.clear();
        reader.in_content = true;
        reader.read(content);
        let mut reading = reader.reading;
        reading.all = Bag::new(&reading.clauses);
        reading.title = Bag::new(&reading.clauses[..title_clauses]);
        reading.content = Bag::new(&reading.clauses[title_clauses..]);
        reading.negation = reading
            .clauses
            .iter()
            .map(|clause| clause.negation)
            .max()
            .unwrap_or_default();
        reading
    }
}

impl Bag {
    fn new(clauses: &[Clause]) -> Self {
        let mut terms = Vec::new();
        for clause in clauses {
            terms.extend_from_slice(&clause.terms);
            for pair in clause.terms.windows(2) {
                if let [Term::Character(one), Term::Character(other)] = pair {
                    terms.push(Term::Pair(*one, *other));
                }
            }
        }
        terms.sort_unstable();
        terms.dedup();
        let weight = terms.iter().map(|term| weight(*term)).sum();
        Self { terms, weight }
    }

    pub(super) fn has(&self, term: Term) -> bool {
        self.terms.binary_search(&term).is_ok()
    }

    /// What this one has and the other has not.
    pub(super) fn without<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = Term> + 's {
        self.terms.iter().copied().filter(|term| !other.has(*term))
    }
}

/// What is being read.
#[derive(Debug, Default)]
struct Reader {
    reading: Reading,
    clause: Clause,
    sentence: Vec<Item>,
    /// The stems of words in a row that are not looked up yet.
    stems: Vec<String>,
    /// The words of the clause as they are written, small.
    words: Vec<String>,
    /// The word before, for `and not`.
    before: String,
    /// Titles such as `Avoid slow queries` name a matter and say nothing of it.
    in_content: bool,
    /// Whether the sentence has the look of the passive voice.
    passive: bool,
}

impl Reader {
    fn read(&mut self, text: &str) {
        let characters: Vec<char> = with_signs_as_words(text).nfkc().collect();
        let mut at = 0;
        while at < characters.len() {
            if is_cjk(characters[at]) {
                let length = characters[at..].iter().take_while(|c| is_cjk(**c)).count();
                self.look_up();
                self.joined(&characters[at..at + length]);
                at += length;
            } else if begins_word(&characters, at) {
                let end = word_end(&characters, at);
                let raw: String = characters[at..end].iter().collect();
                self.word(&raw);
                at = end;
            } else {
                match boundary(&characters, at) {
                    Some(Boundary::Sentence) => self.end_sentence(),
                    Some(Boundary::Clause) => self.end_clause(),
                    None => {}
                }
                at += 1;
            }
        }
        self.end_sentence();
    }

    fn word(&mut self, raw: &str) {
        let small = raw.to_lowercase();
        let small = small.trim_matches(['\'', '’', '.', ':', '/']);
        if small.is_empty() {
            return;
        }
        self.reading.surface.push(Seen {
            word: hash_of_word(small),
            term: alone(small),
        });
        let after_and = matches!(self.before.as_str(), "and" | "or") && matches!(small, "not" | "never");
        if after_and || JOINTS.contains(&small) {
            self.end_clause();
            self.clause.is_reason = REASONS.contains(&small);
        }
        small.clone_into(&mut self.before);
        self.words.push(small.to_owned());
        self.passive |= small == "by";
        if let Some((verb, negated)) = contraction(small) {
            self.stems.push(stem(verb));
            if negated {
                self.stems.push("not".to_owned());
            }
            return;
        }
        // `unsigned` is `not signed`.
        if let Some(rest) = negated(small) {
            self.stems.push("not".to_owned());
            self.stems.push(stem(rest));
            return;
        }
        let whole = stem(small);
        if LEXICON.phrase(std::slice::from_ref(&whole)).is_some() {
            self.stems.push(whole);
        } else if small.starts_with(|c: char| c.is_ascii_digit() || c == '#') {
            self.look_up();
            self.push(Term::Number);
            // The unit that may follow without a space.
            let unit = small.trim_start_matches(|c: char| !c.is_alphabetic());
            if !unit.is_empty() && unit.chars().all(char::is_alphabetic) && !matches!(unit, "st" | "nd" | "rd" | "th") {
                self.stems.push(stem(unit));
            }
        } else if is_name(raw) {
            self.look_up();
            let name = name(small);
            self.push(Term::Name(hash_of(name.as_str())));
            self.reading.names.push(name);
        } else if small.contains(JOINING) {
            self.stems
                .extend(small.split(JOINING).filter(|part| !part.is_empty()).map(stem));
        } else {
            self.stems.push(whole);
        }
    }

    /// Characters without spaces, cut by the lexicon.
    fn joined(&mut self, characters: &[char]) {
        let mut at = 0;
        while at < characters.len() {
            let rest = &characters[at..];
            let form = LEXICON.joined(rest);
            let length = form.map_or(1, |(length, _)| length);
            let is = |words: &[&str]| {
                words
                    .iter()
                    .any(|word| word.chars().count() == length && word.chars().eq(rest[..length].iter().copied()))
            };
            self.passive |= rest[0] == '被' && length == 1;
            if is(&["避免"]) && self.in_content && self.clause.terms.is_empty() {
                self.clause.negation = Negation::Strong;
            }
            if is(JOINTS_CJK) {
                self.end_clause();
                self.clause.is_reason = is(REASONS_CJK);
            }
            let pivot = if is(PIVOTS_CJK) {
                Some((Pivot::Other(hash_of(&rest[..length])), Side::Right))
            } else if is(BEFORE_CJK) {
                Some((Pivot::Before, Side::Left))
            } else {
                is(AFTER_CJK).then_some((Pivot::After, Side::Left))
            };
            let clause = self.reading.clauses.len();
            if let Some(digits) = number_length(rest, length) {
                self.reading.guards.extend(guard::of_number(&rest[..digits], clause));
                self.reading.surface.push(Seen {
                    word: hash_of_word("#"),
                    term: Some(Term::Number),
                });
                self.push(Term::Number);
                at += digits;
                continue;
            }
            guard::of_characters(rest, length, clause, &mut self.reading.guards);
            let word = hash_of_word(&rest[..length].iter().collect::<String>());
            let meaning = form.map(|(_, meaning)| meaning);
            let term = match meaning {
                Some(Meaning::Word(word)) => Some(Term::Word(word)),
                Some(_) => None,
                None => Some(Term::Character(rest[0])),
            };
            match (meaning, term) {
                (Some(meaning), _) => self.mean(meaning),
                (None, Some(term)) => self.push(term),
                (None, None) => {}
            }
            self.reading.surface.push(Seen { word, term });
            self.sentence
                .extend(pivot.map(|(pivot, side)| Item::Pivot(pivot, side)));
            at += length;
        }
    }

    /// Looks up the words in a row, longest phrases first.
    fn look_up(&mut self) {
        let stems = std::mem::take(&mut self.stems);
        let mut rest = &stems[..];
        while let Some(first) = rest.first() {
            // As an order: `avoid floats`; in `to avoid floats` it is only a reason.
            if first == "avoid" && self.in_content && self.clause.terms.is_empty() && rest.len() == stems.len() {
                self.clause.negation = Negation::Strong;
            }
            let pivot = PIVOT_STEMS
                .iter()
                .find(|(stem, _)| stem == first)
                .map(|(_, pivot)| Item::Pivot(*pivot, Side::Right));
            let length = if let Some((length, meaning)) = LEXICON.phrase(rest) {
                self.mean(meaning);
                length
            } else {
                let counts = NUMBER_STEMS.contains(&first.as_str());
                self.push(if counts {
                    Term::Number
                } else {
                    Term::Other(hash_of(first.as_str()))
                });
                1
            };
            self.sentence.extend(pivot);
            rest = &rest[length..];
        }
    }

    fn mean(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Stop => {}
            Meaning::Not => self.clause.negation = Negation::Strong,
            Meaning::Weak => self.clause.negation = self.clause.negation.max(Negation::Weak),
            Meaning::Word(word) => self.push(Term::Word(word)),
        }
    }

    fn push(&mut self, term: Term) {
        self.clause.terms.push(term);
        self.sentence.push(Item::Term(term));
    }

    fn end_clause(&mut self) {
        self.look_up();
        let words = std::mem::take(&mut self.words);
        guard::of_words(&words, self.reading.clauses.len(), &mut self.reading.guards);
        let clause = std::mem::take(&mut self.clause);
        if !clause.terms.is_empty() || clause.negation > Negation::None {
            self.reading.clauses.push(clause);
        }
    }

    fn end_sentence(&mut self) {
        self.end_clause();
        self.before.clear();
        let sentence = std::mem::take(&mut self.sentence);
        // In the passive voice subject and object change places without a change of meaning.
        if !sentence.is_empty() && !std::mem::take(&mut self.passive) {
            self.reading.sentences.push(sentence);
        }
    }
}

const JOINING: [char; 7] = ['-', '/', '\'', '’', '.', ':', '='];

const NUMBER_STEMS: &[&str] = &[
    "one", "two", "thre", "four", "fiv", "five", "six", "seven", "eight", "nin", "nine", "ten", "eleven", "twelv",
    "twenti", "thirti", "forti", "fifti", "sixti", "seventi", "eighti", "nineti", "hundr", "hundred", "thousand",
    "dozen",
];

/// How many characters a number in characters has, when something that is counted follows and it is no part of the form
/// of `form_length` characters.
fn number_length(characters: &[char], form_length: usize) -> Option<usize> {
    let digits = characters
        .iter()
        .take_while(|c| "一二三四五六七八九十百千万两".contains(**c))
        .count();
    let counted = characters.get(digits)?;
    let is_number = digits > 0 && "次个天条周月年秒分小时行项种层级台倍步轮遍页件位名元".contains(*counted);
    (is_number && form_length <= digits).then_some(digits)
}

/// `don't` is `do` and `not`; of `user's` only the user is left.
fn contraction(small: &str) -> Option<(&str, bool)> {
    match small {
        "can't" | "can’t" | "cannot" => return Some(("can", true)),
        "won't" | "won’t" => return Some(("will", true)),
        _ => {}
    }
    if let Some(verb) = small.strip_suffix("n't").or_else(|| small.strip_suffix("n’t")) {
        return Some((verb, true));
    }
    let endings = ["s", "re", "ll", "ve", "d", "m"];
    endings.iter().find_map(|ending| {
        let rest = small.strip_suffix(ending)?;
        Some((rest.strip_suffix(['\'', '’'])?, false))
    })
}

/// What a word such as `unsigned` or `unreadable` denies.
fn negated(small: &str) -> Option<&str> {
    let rest = small.strip_prefix("un")?;
    let other = rest.starts_with('i') || rest.starts_with("der") || !(rest.ends_with("ed") || rest.ends_with("able"));
    (!other && rest.len() > 4).then_some(rest)
}

/// What a word means without those around it.
fn alone(small: &str) -> Option<Term> {
    let stem = stem(small);
    match LEXICON.phrase(std::slice::from_ref(&stem)) {
        Some((_, Meaning::Word(word))) => Some(Term::Word(word)),
        Some(_) => None,
        None if small.starts_with(|c: char| c.is_ascii_digit() || c == '#')
            || NUMBER_STEMS.contains(&stem.as_str()) =>
        {
            Some(Term::Number)
        }
        None => Some(Term::Other(hash_of(stem.as_str()))),
    }
}

/// Whether a word has the look of something that has a name.
fn is_name(raw: &str) -> bool {
    let inner = raw.trim_matches(|c: char| !c.is_alphanumeric());
    let letters = inner.chars().any(char::is_alphabetic);
    let digits = inner.chars().any(|c| c.is_ascii_digit() || c == '#');
    let capital = inner.contains(char::is_uppercase);
    let hump = inner
        .chars()
        .zip(inner.chars().skip(1))
        .any(|(one, next)| one.is_lowercase() && next.is_uppercase());
    letters
        && (raw.starts_with('-')
            || raw.starts_with('/')
            || inner.contains(['_', '@', '/', '=', '.'])
            || hump
            || digits
            || inner.contains('-') && capital)
}

fn name(small: &str) -> String {
    let mut name = String::with_capacity(small.len());
    let mut letters = 0;
    for character in small.trim_matches(JOINING).chars() {
        if !character.is_ascii_digit() || letters >= LETTERS_OF_A_NAME {
            letters = if character.is_alphanumeric() { letters + 1 } else { 0 };
            name.push(character);
        } else if !name.ends_with('#') {
            name.push('#');
        }
    }
    name
}

fn is_of_word(character: char) -> bool {
    (character.is_alphanumeric() || matches!(character, '_' | '#')) && !is_cjk(character)
}

fn begins_word(characters: &[char], at: usize) -> bool {
    let next_is_of_word = |more: usize| characters.get(at + more).copied().is_some_and(is_of_word);
    match characters[at] {
        '-' => characters.get(at + 1) == Some(&'-') && next_is_of_word(2),
        '/' | '.' => next_is_of_word(1) && !characters[at + 1].is_ascii_digit(),
        character => is_of_word(character),
    }
}

/// A word goes on over what joins its parts, when another part follows.
fn word_end(characters: &[char], at: usize) -> usize {
    let mut end = at;
    while let Some(&character) = characters.get(end) {
        let next = characters.get(end + 1).copied();
        let next_is_of_word = next.is_some_and(is_of_word);
        let in_number = character == ','
            && end > at
            && characters[end - 1].is_ascii_digit()
            && next.is_some_and(|c| c.is_ascii_digit());
        let belongs = is_of_word(character)
            || end < at + 2 && matches!(character, '-' | '/' | '.')
            || (JOINING.contains(&character) || matches!(character, '@' | '\\')) && next_is_of_word
            || in_number;
        if !belongs {
            break;
        }
        end += 1;
    }
    end.max(at + 1)
}

enum Boundary {
    Clause,
    Sentence,
}

fn boundary(characters: &[char], at: usize) -> Option<Boundary> {
    match characters[at] {
        '.' | '!' | '?' | ';' | '\n' | '。' => Some(Boundary::Sentence),
        ':' | ',' | '、' | '(' | ')' | '—' | '–' | '…' => Some(Boundary::Clause),
        '-' if at > 0 && characters[at - 1] == ' ' => Some(Boundary::Clause),
        _ => None,
    }
}

/// A word of the surface, as a number.
pub(super) fn hash_of_word(word: &str) -> u64 {
    hash_of(word)
}

fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    // The same in every process, as it has no keys.
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
