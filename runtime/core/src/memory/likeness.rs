//! How alike two memories are, and whether they contradict each other.
//!
//! Answers for the verdict on two readings. Leaves out the exact form (`normal`), which needs no reading.
//!
//! The plain measure of words and pairs of characters in common finds few rewordings: two sentences that say the same
//! share perhaps half of their words. So words are compared by stem and meaning (the lexicon), without those that say
//! nothing, and half of the weight in common suffices. What then still differs is looked at closely, since a changed fact
//! is a small difference, too: two texts are not the same when
//!
//! - one negates and the other does not, as a whole or in clauses that are otherwise alike;
//! - they are on two sides of an opposition (`enable`, `disable`) or name two members of a family (`npm`, `yarn`);
//! - each has a name that the other has not (`parseInvoice`, `formatInvoice`);
//! - what stands around `before`, `instead of` and the like has changed places;
//! - they have function words that exclude each other (`all`, `only`; `must`, `may`; `when`, `unless`), or one alone has one
//!   that turns what both say (`hardly`, `used to`, `but it fails`), the sooner the more alike they are word for word;
//! - word for word they are the same, except for a word that was put in the place of another one.

use std::sync::LazyLock;

use super::guard::{ABSENCE, Alone, Class, DENIAL, Guard, HINGE, OTHERWISE, OUTCOME};
use super::lexicon::{LEXICON, Meaning};
use super::reading::{Bag, Clause, Item, Negation, Pivot, Reading, Seen, Side, Term, hash_of_word, weight};

/// Of the weight of both, how much must be in common.
const ENOUGH: f32 = 0.58;
/// The same for the one of the two, content and all, in which less is in common.
const ENOUGH_OF_THE_OTHER: f32 = 0.5;
/// How much of the shorter one must be in common when the longer one says more.
const CONTAINED: f32 = 0.9;
/// What the shorter one must weigh for that: of a few words too many texts have all.
const WEIGHTY: f32 = 2.4;
/// And how much of both must still be in common.
const ENOUGH_WHEN_CONTAINED: f32 = 0.3;
/// From which weight on that does not matter: so many words are not all in another text by chance.
const WEIGHTY_ALONE: f32 = 5.0;

/// From which likeness of the plain words on a word in another's place is a changed fact, not one of many rewordings.
const WORD_FOR_WORD: f32 = 0.6;
/// From which one on even one unknown character in another's place counts.
const NEARLY_WORD_FOR_WORD: f32 = 0.75;
/// The same for titles, which are short.
const TITLE_WORD_FOR_WORD: f32 = 0.5;
/// Up to which share of a long text a word in another's place is no matter.
const NEGLIGIBLE: f32 = 0.06;
/// The longest texts, in words, in which a few replaced words change what is said.
const MOST_WORDS_REPLACED_IN: usize = 60;
/// From which share on unknown words on both sides are names of things.
const MANY_UNKNOWN: f32 = 0.12;
/// From which likeness on two clauses say the same thing, or its contrary.
const SAME_CLAUSE: f32 = 0.6;
/// The same when what negates tells of one thing in it alone.
const NEARLY_SAME_CLAUSE: f32 = 0.75;
/// From which likeness on two titles say the same thing, or its contrary.
const SAME_TITLE: f32 = 0.5;
/// Up to which likeness of the plain words a condition can be put the other way round.
const LOOSELY_WORDED: f32 = 0.62;
/// Up to so many words a text is short: there is no room for particles that nobody would write again.
const SHORT: usize = 8;
/// The most words in a row that change places as one thing.
const LONGEST_BLOCK: usize = 4;
/// So many words a text has at least that tells of a condition and of what follows.
const WORDS_OF_A_LESSON: usize = 8;
/// From which likeness of the plain words on function words count that exclude each other or that deny.
const SOMEWHAT_ALIKE: f32 = 0.35;
/// The same for others that only one text has.
const MUCH_ALIKE: f32 = 0.5;
/// From which one on even those that are often left out.
const WORD_FOR_WORD_BUT_ONE: f32 = 0.72;
/// How much of a clause the other text must have for a function word in it to turn a statement that both make.
const COVERED: f32 = 0.5;
/// The longest texts, as the product of their words, that are compared word for word.
const COMPARED_CLOSELY: usize = 4_000_000;

/// Words on both sides of which things can change places.
static CONJUNCTIONS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    ["and", "or", "和", "与", "及", "或", "以及", "或者"]
        .map(hash_of_word)
        .to_vec()
});

/// What two memories are to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They say the same.
    Same,
    /// They say the contrary of each other: one of them is wrong by now.
    Contrary,
    /// They say different things.
    Different,
}

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeness {
    /// How much they have in common, from 0 to 1.
    pub score: f32,
    /// What they are to each other.
    pub verdict: Verdict,
}

/// How near two texts are word for word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Near {
    Somewhat,
    MuchAlike,
    WordForWord,
}

/// A difference that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    Contrary,
    Other,
}

impl Reading {
    /// Compares two memories; the order does not matter. The cost of a merge of two short lists, except for texts that
    /// are much alike.
    pub fn compare(&self, other: &Self) -> Likeness {
        let all = Overlap::new(&self.all, &other.all);
        let content = Overlap::new(&self.content, &other.content);
        let score = all.jaccard();
        let (more, less) = if score > content.jaccard() {
            (score, content.jaccard())
        } else {
            (content.jaccard(), score)
        };
        let alike = more >= ENOUGH && less >= ENOUGH_OF_THE_OTHER
            || all.contained() >= CONTAINED
                && content.contained() >= CONTAINED
                && (content.smaller >= WEIGHTY && score >= ENOUGH_WHEN_CONTAINED || content.smaller >= WEIGHTY_ALONE);
        let verdict = if alike {
            match difference(self, other) {
                None => Verdict::Same,
                Some(Difference::Contrary) => Verdict::Contrary,
                Some(Difference::Other) => Verdict::Different,
            }
        } else {
            Verdict::Different
        };
        // What is contained in a longer text is as alike as that, not as little as the rest of it makes it.
        let score = if alike {
            score.max(all.contained() * CONTAINED)
        } else {
            score
        };
        Likeness { score, verdict }
    }
}

/// What two bags have in common.
struct Overlap {
    common: f32,
    smaller: f32,
    both: f32,
}

impl Overlap {
    fn new(one: &Bag, other: &Bag) -> Self {
        let (mut left, mut right) = (one.terms.iter().peekable(), other.terms.iter().peekable());
        let mut common = 0.0;
        while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
            match first.cmp(second) {
                std::cmp::Ordering::Less => drop(left.next()),
                std::cmp::Ordering::Greater => drop(right.next()),
                std::cmp::Ordering::Equal => {
                    common += weight(**first);
                    left.next();
                    right.next();
                }
            }
        }
        Self {
            common,
            smaller: one.weight.min(other.weight),
            both: one.weight + other.weight - common,
        }
    }

    fn jaccard(&self) -> f32 {
        if self.both > 0.0 { self.common / self.both } else { 0.0 }
    }

    fn contained(&self) -> f32 {
        if self.smaller > 0.0 {
            self.common / self.smaller
        } else {
            0.0
        }
    }
}

/// The first difference that counts between two texts that are much alike.
fn difference(one: &Reading, other: &Reading) -> Option<Difference> {
    if let Some(difference) = other_negation(one, other) {
        return Some(difference);
    }
    if changed_places(&one.sentences, &other.sentences)
        || transposed(&one.surface, &other.surface)
        || blocks_transposed(&one.surface, &other.surface)
    {
        return Some(Difference::Contrary);
    }
    for (left, right) in [(&one.all, &other.all), (&one.content, &other.content)] {
        for (first, second) in words_apart(left, right) {
            if LEXICON.are_opposite(first, second) {
                // Of two texts that are put quite differently nobody can tell which one is wrong.
                let is_contrary = in_order(&one.surface, &other.surface) >= SOMEWHAT_ALIKE;
                return Some(if is_contrary {
                    Difference::Contrary
                } else {
                    Difference::Other
                });
            }
            if LEXICON
                .families(first)
                .iter()
                .any(|family| LEXICON.families(second).contains(family))
            {
                return Some(Difference::Other);
            }
        }
    }
    if let Some(difference) = other_function(one, other) {
        return Some(difference);
    }
    if has_own_name(one, other) && has_own_name(other, one) || put_in_place(one, other) {
        return Some(Difference::Other);
    }
    None
}

/// Whether one text negates what the other does not.
fn other_negation(one: &Reading, other: &Reading) -> Option<Difference> {
    let strong = |clauses: &[Clause]| clauses.iter().any(|clause| clause.negation == Negation::Strong);
    let parts = |reading: &Reading| {
        let (title, content) = reading.clauses.split_at(reading.title_clauses);
        (strong(title), strong(content))
    };
    let ((one_title, one_content), (other_title, other_content)) = (parts(one), parts(other));
    let as_a_whole = (one_title || one_content) != (other_title || other_content)
        // What a title alone denies, other titles for the same content need not.
        && (one_content || other_content || Overlap::new(&one.title, &other.title).jaccard() >= SAME_TITLE);
    let nearly =
        |least| turned_round(&one.clauses, &other.clauses, least) || turned_round(&other.clauses, &one.clauses, least);
    if !as_a_whole && !nearly(0.0) {
        return None;
    }
    let in_order = in_order(&one.surface, &other.surface);
    // `fails if not A` and `A first, otherwise it fails` are one lesson.
    // `has no index`, `lacks an index`, `the index is missing`.
    if in_order < LOOSELY_WORDED && (tells_absence(one) != tells_absence(other)) && one_content != other_content {
        return None;
    }
    let long = one.surface.len().min(other.surface.len()) >= WORDS_OF_A_LESSON;
    if long && in_order < LOOSELY_WORDED && has_hinge(one) && has_hinge(other) {
        return None;
    }
    // `A, otherwise it fails` and `if not A, it fails`, however alike their words.
    let else_put = |affirms: &Reading, denies: &Reading| {
        let tells_else = |reading: &Reading| reading.guards.iter().any(|guard| Some(guard.class) == *OTHERWISE);
        tells_else(affirms) && !tells_else(denies) && has_hinge(denies) && times_negated(denies) > 0
    };
    if !one_content && else_put(one, other) || !other_content && else_put(other, one) {
        return None;
    }
    // Only of what is otherwise nearly the same one is wrong by now.
    let is_contrary = in_order >= WORD_FOR_WORD || nearly(NEARLY_SAME_CLAUSE);
    Some(if is_contrary {
        Difference::Contrary
    } else {
        Difference::Other
    })
}

/// Whether a text ties what happens to a condition.
fn has_hinge(reading: &Reading) -> bool {
    reading.guards.iter().any(|guard| Some(guard.class) == *HINGE)
}

/// The first difference in function words that carry meaning. The nearer two texts are word for word, the more such a
/// word means: somebody who says the same in other words chooses other function words, too.
fn other_function(one: &Reading, other: &Reading) -> Option<Difference> {
    let in_content = in_order(&one.surface, &other.surface);
    let in_title = in_order(&one.title_surface, &other.title_surface);
    if in_title >= NEARLY_WORD_FOR_WORD && exclusive(&one.title_guards, &other.title_guards) {
        return Some(Difference::Other);
    }
    if in_content < SOMEWHAT_ALIKE {
        return None;
    }
    if exclusive(&one.guards, &other.guards) {
        return Some(Difference::Other);
    }
    let near = match in_content {
        near if near >= WORD_FOR_WORD_BUT_ONE => Near::WordForWord,
        near if near >= MUCH_ALIKE => Near::MuchAlike,
        _ => Near::Somewhat,
    };
    stands_alone(one, other, near).or_else(|| stands_alone(other, one, near))
}

/// Whether each text has a member of a class that the other has not.
fn exclusive(one: &[Guard], other: &[Guard]) -> bool {
    let lacks = |guards: &[Guard], guard: &Guard| {
        !guards
            .iter()
            .any(|known| known.class == guard.class && known.member == guard.member)
    };
    one.iter()
        .filter(|guard| lacks(other, guard))
        .any(|own| other.iter().any(|like| like.class == own.class && lacks(one, like)))
}

/// Whether members of a class can be said with a negation.
fn negates(class: Class) -> bool {
    [*DENIAL, *ABSENCE, *OUTCOME].contains(&Some(class))
}

/// How often a content negates, in whatever clothes.
fn times_negated(reading: &Reading) -> usize {
    let content = &reading.clauses[reading.title_clauses..];
    let negated = content.iter().filter(|clause| clause.negation > Negation::None);
    let guards = reading.guards.iter();
    let guards = guards.filter(|guard| negates(guard.class) && guard.alone == Alone::Much);
    negated.count() + guards.count()
}

/// Whether a text says of something that it is not there.
fn tells_absence(reading: &Reading) -> bool {
    reading.guards.iter().any(|guard| Some(guard.class) == *ABSENCE)
}

/// What one text has of a class that the other has nothing of, where that counts.
fn stands_alone(one: &Reading, other: &Reading, near: Near) -> Option<Difference> {
    let other_negates = times_negated(other) >= times_negated(one);
    for guard in &one.guards {
        let counts = match near {
            Near::WordForWord => guard.alone > Alone::Nothing,
            Near::MuchAlike => guard.alone == Alone::Much,
            Near::Somewhat => guard.alone == Alone::Much && negates(guard.class),
        };
        let has = |like: &Guard| like.class == guard.class && like.member == guard.member;
        let times = |reading: &Reading| reading.guards.iter().filter(|like| has(like)).count();
        let said = match guard.meaning {
            Some(Meaning::Word(word)) => other.content.has(Term::Word(word)),
            _ => false,
        };
        let tied = near != Near::WordForWord && has_hinge(one) && has_hinge(other);
        if !counts || said || tied || times(other) >= times(one) || negates(guard.class) && other_negates {
            continue;
        }
        // A clause that says more is no other statement.
        let Some(clause) = one.clauses.get(guard.clause) else {
            continue;
        };
        let sum = |terms: &mut dyn Iterator<Item = &Term>| terms.map(|term| weight(*term)).sum::<f32>();
        let itself =
            |term: &Term| matches!((term, guard.meaning), (Term::Word(word), Some(Meaning::Word(own))) if *word == own);
        let rest = || clause.terms.iter().filter(|term| !itself(term));
        let all = sum(&mut rest());
        let known = sum(&mut rest().filter(|term| other.all.has(**term)));
        if known >= all * COVERED && !clause.is_reason {
            return Some(if negates(guard.class) {
                Difference::Contrary
            } else {
                Difference::Other
            });
        }
    }
    None
}

/// Whether a clause of one text is negated and its like in the other is not.
fn turned_round(one: &[Clause], other: &[Clause], at_least: f32) -> bool {
    one.iter().any(|clause| {
        let least = match clause.negation {
            Negation::None => return false,
            Negation::Weak => NEARLY_SAME_CLAUSE,
            Negation::Strong => SAME_CLAUSE,
        };
        let likes = other.iter().map(|like| (likeness(clause, like), like));
        let nearest = likes.max_by(|first, second| first.0.total_cmp(&second.0));
        nearest.is_some_and(|(likeness, like)| likeness >= least.max(at_least) && like.negation < clause.negation)
    })
}

/// Whether two texts differ in two words alone that have changed places, and not around an `and`.
fn transposed(one: &[Seen], other: &[Seen]) -> bool {
    let [first, second] = apart(one, other)[..] else {
        return false;
    };
    let between = &one[first + 1..second];
    one[first].word == other[second].word
        && one[second].word == other[first].word
        && !between.iter().all(|seen| CONJUNCTIONS.contains(&seen.word))
}

/// The same for a few words in a row on each side: `user settings` and `system settings` around `override`.
fn blocks_transposed(one: &[Seen], other: &[Seen]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let same = |at: &usize| one[*at].word == other[*at].word;
    let start = (0..one.len()).take_while(same).count();
    let end = one.len() - (start..one.len()).rev().take_while(same).count();
    let (one, other) = (&one[start..end], &other[start..end]);
    let equal =
        |left: &[Seen], right: &[Seen]| left.iter().map(|seen| seen.word).eq(right.iter().map(|seen| seen.word));
    let says = |block: &[Seen]| block.iter().any(|seen| seen.term.is_some());
    let longest = LONGEST_BLOCK.min(one.len());
    (1..=longest).any(|first| {
        (1..=longest).any(|last| {
            let Some(length) = one.len().checked_sub(first + last).filter(|length| *length > 0) else {
                return false;
            };
            let between = &one[first..first + length];
            says(&one[..first])
                && says(&one[first + length..])
                && equal(&one[..first], &other[last + length..])
                && equal(between, &other[last..last + length])
                && equal(&one[first + length..], &other[..last])
                && !between.iter().any(|seen| CONJUNCTIONS.contains(&seen.word))
        })
    })
}

/// Whether two texts differ in a few words alone, of which one at least means something else.
fn replaced(one: &[Seen], other: &[Seen]) -> bool {
    let apart = apart(one, other);
    let few = !apart.is_empty() && apart.len() <= (one.len() / 6).max(1) && one.len() <= MOST_WORDS_REPLACED_IN;
    let counts = |term: Term| term != Term::Number;
    few && apart.iter().any(|at| match (one[*at].term, other[*at].term) {
        (Some(first), Some(second)) => first != second && counts(first) && counts(second),
        _ => false,
    })
}

/// The places where two texts of one length have different words; nothing for texts of two lengths.
fn apart(one: &[Seen], other: &[Seen]) -> Vec<usize> {
    if one.len() != other.len() {
        return Vec::new();
    }
    (0..one.len()).filter(|at| one[*at].word != other[*at].word).collect()
}

fn likeness(one: &Clause, other: &Clause) -> f32 {
    let sum = |terms: &mut dyn Iterator<Item = &Term>| terms.map(|term| weight(*term)).sum::<f32>();
    let common = sum(&mut one.terms.iter().filter(|term| other.terms.contains(term)));
    let both = sum(&mut one.terms.iter()) + sum(&mut other.terms.iter()) - common;
    if both > 0.0 { common / both } else { 0.0 }
}

/// Words of which each text has one and not the other.
fn words_apart<'b>(one: &'b Bag, other: &'b Bag) -> impl Iterator<Item = (u32, u32)> + 'b {
    let word = |term| if let Term::Word(word) = term { Some(word) } else { None };
    one.without(other)
        .filter_map(word)
        .flat_map(move |first| other.without(one).filter_map(word).map(move |second| (first, second)))
}

/// Whether a text has a name that is no part of one of the other's, nor the other way round.
fn has_own_name(one: &Reading, other: &Reading) -> bool {
    let part = |name: &String| {
        other
            .names
            .iter()
            .any(|known| known.contains(name.as_str()) || name.contains(known.as_str()))
    };
    one.names.iter().any(|name| !part(name))
}

/// Whether two texts are the same word for word, except for what one has in the place of the other's: in the content, or
/// in titles that are otherwise alike.
fn put_in_place(one: &Reading, other: &Reading) -> bool {
    let own = [
        own_weight(&one.content, &other.content),
        own_weight(&other.content, &one.content),
    ];
    let share = (own[0] + own[1]) / (one.content.weight + other.content.weight);
    let in_content = || {
        let in_order = in_order(&one.surface, &other.surface);
        let short = one.surface.len().max(other.surface.len()) <= SHORT;
        // One character that the lexicon does not know is most often a particle, unless all the rest is the same.
        let least = if in_order >= NEARLY_WORD_FOR_WORD || short {
            0.3
        } else {
            0.5
        };
        in_order >= WORD_FOR_WORD && own.iter().all(|own| *own >= least)
    };
    if !own.contains(&0.0) && share >= NEGLIGIBLE && in_content() || replaced(&one.surface, &other.surface) {
        return true;
    }
    // Words that the lexicon does not know, on both sides and not a few: two names of things rather than two words for one.
    let unknown = [
        unknown_weight(&one.content, &other.all),
        unknown_weight(&other.content, &one.all),
    ];
    let share = (unknown[0] + unknown[1]) / (one.content.weight + other.content.weight);
    if unknown.iter().all(|unknown| *unknown >= 0.5) && share >= MANY_UNKNOWN {
        return true;
    }
    let own = [own_weight(&one.title, &other.all), own_weight(&other.title, &one.all)];
    own.iter().all(|own| *own >= 0.5) && in_order(&one.title_surface, &other.title_surface) >= TITLE_WORD_FOR_WORD
}

/// What the terms weigh that only one text has and that are more than fillings.
fn own_weight(one: &Bag, other: &Bag) -> f32 {
    let counts = |term: &Term| match term {
        Term::Number => false,
        Term::Word(word) => !LEXICON.is_light(*word),
        Term::Character(_) | Term::Pair(..) | Term::Other(_) | Term::Name(_) => true,
    };
    one.without(other).filter(counts).map(weight).sum()
}

/// What the terms weigh that only one text has and that the lexicon does not know.
fn unknown_weight(one: &Bag, other: &Bag) -> f32 {
    let unknown = |term: &Term| matches!(term, Term::Other(_) | Term::Name(_) | Term::Pair(..));
    one.without(other).filter(unknown).map(weight).sum()
}

/// How many words two texts have in common in the same order, as a share of all.
fn in_order(one: &[Seen], other: &[Seen]) -> f32 {
    let product = one.len().saturating_mul(other.len());
    if product == 0 || product > COMPARED_CLOSELY {
        return 0.0;
    }
    let mut row = vec![0_u32; other.len() + 1];
    for word in one {
        let mut diagonal = 0;
        for (index, like) in other.iter().enumerate() {
            let above = row[index + 1];
            row[index + 1] = if word.word == like.word {
                diagonal + 1
            } else {
                above.max(row[index])
            };
            diagonal = above;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "texts are far shorter than 2^24 words")]
    let share = 2.0 * row[other.len()] as f32 / (one.len() + other.len()) as f32;
    share
}

/// Whether what stands before and after a pivot of both texts has changed places.
fn changed_places(one: &[Vec<Item>], other: &[Vec<Item>]) -> bool {
    let converse = |pivot, like| {
        matches!(
            (pivot, like),
            (Pivot::Before, Pivot::After) | (Pivot::After, Pivot::Before)
        )
    };
    let others: Vec<_> = pivots(other).collect();
    pivots(one).any(|(pivot, first)| {
        others.iter().any(|(like, second)| {
            pivot == *like && first.object_was_subject(second)
                || converse(pivot, *like) && first.object == second.object
        })
    })
}

/// What stands around a pivot.
struct Around {
    object: Option<Term>,
    rest: Vec<Term>,
}

impl Around {
    fn object_was_subject(&self, other: &Self) -> bool {
        let (Some(object), Some(like)) = (self.object, other.object) else {
            return false;
        };
        object != like && self.rest.contains(&like) && other.rest.contains(&object)
    }
}

fn pivots(sentences: &[Vec<Item>]) -> impl Iterator<Item = (Pivot, Around)> + '_ {
    sentences.iter().flat_map(|sentence| {
        sentence.iter().enumerate().filter_map(|(at, item)| {
            let Item::Pivot(pivot, side) = *item else { return None };
            let heavy = |items: &[Item]| -> Vec<Term> {
                let terms = items
                    .iter()
                    .filter_map(|item| if let Item::Term(term) = item { Some(*term) } else { None });
                terms
                    .filter(|term| {
                        !matches!(term, Term::Word(word) if LEXICON.is_light(*word)) && *term != Term::Number
                    })
                    .collect()
            };
            let (mut left, right) = (heavy(&sentence[..at]), heavy(&sentence[at + 1..]));
            left.reverse();
            let (near, rest) = match side {
                Side::Right => (right, left),
                Side::Left => (left, right),
            };
            // What stands on both sides tells nothing.
            let object = near.iter().copied().find(|term| !rest.contains(term));
            let rest = rest.into_iter().filter(|term| !near.contains(term)).collect();
            Some((pivot, Around { object, rest }))
        })
    })
}
