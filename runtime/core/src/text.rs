//! Small text tools that several domains share.
//!
//! Answers for finding the nearest known word, for texts of others in which nothing acts on whoever looks at them, and for
//! how long a value is as a text. Leaves out search and similarity of longer texts.

use std::io;

use serde::Serialize;

/// How much of a word is compared. Distances cost the product of both lengths, and callers send words of any length.
const COMPARED: usize = 64;

/// The known words nearest to `word`, best first, at most `limit`. Only words that a typing error could explain: within
/// a third of the length, or sharing a prefix or a part. Of long words the first 64 characters are compared. Cost: one
/// edit distance per known word.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>, limit: usize) -> Vec<&'a str> {
    let mut scored: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|candidate| Some((distance(word, candidate)?, candidate)))
        .collect();
    scored.sort_unstable();
    scored.into_iter().take(limit).map(|(_, candidate)| candidate).collect()
}

/// How far a known word is from `word`, if a typing error could explain it: see [`nearest`].
pub(crate) fn distance(word: &str, known: &str) -> Option<usize> {
    let (lower, other) = (beginning(word), beginning(known));
    let distance = strsim::osa_distance(&lower, &other);
    let allowed = (lower.chars().count().max(other.chars().count()) / 3).max(1);
    let part = lower.len() >= 3 && (other.contains(&lower) || (other.len() >= 3 && lower.contains(&other)));
    (distance <= allowed || part).then_some(distance)
}

fn beginning(word: &str) -> String {
    word.chars().take(COMPARED).flat_map(char::to_lowercase).collect()
}

/// Text of others for people who must see what stands there: what a terminal would obey, or what would let it show
/// something else, is written out. So is what cannot be seen, but for what makes a picture of a sign.
pub fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (c, seen) in told_apart(text) {
        match (c, seen) {
            ('\n', _) => shown.push_str("\\n"),
            ('\r', _) => shown.push_str("\\r"),
            ('\t', _) => shown.push_str("\\t"),
            (c, Seen::No) => shown.extend(c.escape_unicode()),
            (c, Seen::Yes) => shown.push(c),
        }
    }
    shown
}

/// The same for a text of several lines, which stay lines.
pub fn harmless_lines(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

/// Whether a person sees a character as what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It stands there.
    Yes,
    /// It is harmful or cannot be seen: it has to be written out.
    No,
}

/// The characters of a text, each with whether a person sees it. Joiners between letters of scripts that need them, and
/// what chooses the form of a sign (`✔️`, `👩‍💻`), belong to what is seen.
pub fn told_apart(text: &str) -> impl Iterator<Item = (char, Seen)> {
    let is_sign = |c: char| !c.is_ascii() && !is_harmful(c) && !is_invisible(c);
    // The last sign, when nothing but what chooses its form came since.
    let mut is_open = false;
    let mut rest = text.chars().peekable();
    std::iter::from_fn(move || {
        let c = rest.next()?;
        let (seen, goes_on) = match c {
            '\u{FE0E}' | '\u{FE0F}' => (is_open, is_open),
            '\u{200C}' | '\u{200D}' => (is_open && rest.peek().is_some_and(|next| is_sign(*next)), false),
            c if is_harmful(c) || is_invisible(c) => (false, false),
            c => (true, is_sign(c)),
        };
        is_open = goes_on;
        Some((c, if seen { Seen::Yes } else { Seen::No }))
    })
}

/// Control characters, and those that change the direction or the place of others.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What changes how a text looks without being seen: directions, joiners, separators of lines, tags.
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{AD}'
            | '\u{34F}'
            | '\u{61C}'
            | '\u{115F}'..='\u{1160}'
            | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

/// How many bytes a value has as JSON without white space, which is written nowhere; as many as there can be when it has no
/// such form.
pub fn json_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::{harmless, harmless_lines, nearest};

    #[test]
    fn what_hides_or_moves_other_characters_is_written_out() {
        for (text, shown) in [
            (
                "a\u{202E}b\u{200B}c\u{FEFF}d\u{2060}e\u{AD}f\u{200D}",
                r"a\u{202e}b\u{200b}c\u{feff}d\u{2060}e\u{ad}f\u{200d}",
            ),
            ("a\u{7F}\u{85}\u{1B}[1m\n\tb", r"a\u{7f}\u{85}\u{1b}[1m\n\tb"),
            ("a\u{FE0F}\u{E0041}", r"a\u{fe0f}\u{e0041}"),
            ("⚠\u{FE0F} größe 日本", "⚠\u{FE0F} größe 日本"),
        ] {
            assert_eq!(harmless(text), shown);
        }
        assert_eq!(harmless_lines("a\n\u{202E}b"), "a\n\\u{202e}b");
    }

    #[test]
    fn what_cannot_be_seen_is_written_out_and_what_belongs_to_a_sign_is_not() {
        for (text, shown) in [
            ("a\u{200b}b", r"a\u{200b}b"),
            ("pass\u{200d}word", r"pass\u{200d}word"),
            ("\u{feff}x\u{ad}y\u{2060}", r"\u{feff}x\u{ad}y\u{2060}"),
            ("a\u{fe0f}\u{e0041}", r"a\u{fe0f}\u{e0041}"),
            ("\u{202e}\u{9b}\n", r"\u{202e}\u{9b}\n"),
            ("✔\u{fe0f}", "✔\u{fe0f}"),
            ("✔\u{fe0f}\u{200b}", "✔\u{fe0f}\\u{200b}"),
            ("👩\u{200d}💻 می\u{200c}خواهم", "👩\u{200d}💻 می\u{200c}خواهم"),
            ("❤\u{fe0f}\u{200d}🔥", "❤\u{fe0f}\u{200d}🔥"),
            ("é\u{200d}\u{200d}é", r"é\u{200d}\u{200d}é"),
            ("é\u{200d}", r"é\u{200d}"),
            ("é\u{fe01}", r"é\u{fe01}"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }

    #[test]
    fn a_typing_error_finds_its_word_and_nothing_else() {
        let known = ["write_todolist", "update_todo_item", "record_memory"];
        assert_eq!(nearest("write_todo_list", known, 3), ["write_todolist"]);
        assert_eq!(nearest("Write_Todolist", known, 3), ["write_todolist"]);
        assert_eq!(nearest("zzz", known, 3), [""; 0]);
    }

    #[test]
    fn a_part_of_a_word_finds_it() {
        assert_eq!(
            nearest("todo", ["write_todolist", "record_memory"], 3),
            ["write_todolist"]
        );
    }

    #[test]
    fn a_long_word_is_judged_by_its_beginning() {
        let known = "k".repeat(50);
        let mistyped = format!("{}j{}{}", "k".repeat(24), "k".repeat(25), "z".repeat(1_000));
        assert_eq!(nearest(&mistyped, [known.as_str()], 3), [known.as_str()]);
    }
}
