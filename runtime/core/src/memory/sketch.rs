//! A quick look at a text: which memories need no reading, since they cannot be like a new one.
//!
//! Answers for the beginnings of words and the characters that two texts have in common, in a tenth of the time that
//! reading takes. Leaves out every verdict: what is much alike by this look is read.

use super::normal::is_cjk;

/// How much of the shorter text must be in the other one at least. Of the labelled pairs that say the same none has less
/// than twice as much.
const LEAST: f32 = 0.2;
/// Words are known by so many bytes: endings differ.
const BEGINNING: usize = 4;

/// What stands out in a text: sorted, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Sketch(Vec<u32>);

impl Sketch {
    /// Looks at some texts together. Linear.
    pub(super) fn new<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut marks = Vec::new();
        for text in texts {
            let (mut word, mut length) = (0_u32, 0);
            for character in text.chars().chain([' ']) {
                if character.is_ascii_alphabetic() {
                    if length < BEGINNING {
                        word = word << 8 | u32::from(character.to_ascii_lowercase());
                    }
                    length += 1;
                    continue;
                }
                if length >= BEGINNING {
                    marks.push(word);
                }
                (word, length) = (0, 0);
                // Wide characters and other letters stand for themselves, beyond all words.
                if !character.is_ascii() && (is_cjk(character) || character.is_alphabetic()) {
                    marks.push(u32::from(character) | 0x8000_0000);
                }
            }
        }
        marks.sort_unstable();
        marks.dedup();
        Self(marks)
    }

    /// Whether two texts have enough in common to be worth reading. Texts with next to nothing to see always have.
    pub(super) fn may_be_like(&self, other: &Self) -> bool {
        let smaller = self.0.len().min(other.0.len());
        let (mut common, mut at) = (0_u16, 0);
        for mark in &self.0 {
            while other.0.get(at).is_some_and(|known| known < mark) {
                at += 1;
            }
            common += u16::from(other.0.get(at) == Some(mark));
        }
        let smaller = f32::from(u16::try_from(smaller).unwrap_or(u16::MAX));
        smaller < 4.0 || f32::from(common) >= smaller * LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_that_says_the_same_is_worth_reading() {
        let mut skipped = 0;
        for line in include_str!("../../tests/memory_pairs.jsonl").lines() {
            let pair: serde_json::Value = serde_json::from_str(line).unwrap();
            let sketch = |side: &str| Sketch::new([0, 1].map(|part| pair[side][part].as_str().unwrap()));
            let worth = sketch("one").may_be_like(&sketch("other"));
            assert_eq!(worth, sketch("other").may_be_like(&sketch("one")));
            assert!(worth || pair["same"] == false, "{line}");
            skipped += u32::from(!worth);
        }
        assert!(skipped > 10, "{skipped}");
    }

    #[test]
    fn what_has_nothing_to_see_is_read() {
        assert!(Sketch::new(["1 2 3 !?"]).may_be_like(&Sketch::new(["the words of a long text"])));
        assert!(
            !Sketch::new(["alpha beta gamma delta"]).may_be_like(&Sketch::new(["one memory about something else"]))
        );
    }
}
