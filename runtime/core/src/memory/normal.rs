//! The exact form of a memory: what two texts have in common when they differ in numbers, case, spacing and punctuation
//! alone.
//!
//! Answers for that form and for its hash. Leaves out every other likeness (`likeness`).
//!
//! Numbers become `#`, with the points and commas inside them; digits at the end of a word are part of a name (`base32`)
//! and stay. Letters become small; everything else becomes one space, or
//! nothing beside Chinese, Japanese and Korean characters, where a space says nothing. What is collapsed must not turn a
//! statement round: signs that negate or compare become words first.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::digest;

/// How often a text is brought nearer to a form that does not change any more; two suffice for all but contrived ones.
const MOST_ROUNDS: usize = 8;

/// The exact form of a text. Total, and the form of a form is itself. Linear.
pub fn normal_form(text: &str) -> String {
    let mut form = round(&with_signs_as_words(text));
    if form.chars().all(|character| character.is_ascii() || is_cjk(character)) {
        return form;
    }
    // Small letters and dropped marks can make new compositions.
    for _ in 0..MOST_ROUNDS {
        let next = round(&form);
        if next == form {
            break;
        }
        form = next;
    }
    form
}

/// SHA-256 of the exact form of a title and its content, in hexadecimal.
pub fn exact_digest(title: &str, content: &str) -> String {
    digest::sha256_hex(normal_form(&format!("{title}\n{content}")))
}

/// The numbers of a text in order, as they are written but for commas: what two texts with one form can differ in.
pub(super) fn numbers(text: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    let mut number = String::new();
    let mut characters = Folded::new(text).peekable();
    while let Some(character) = characters.next() {
        let is_digit = |c: char| c.is_numeric() && !is_cjk(c);
        let joins = matches!(character, '.' | ',' | ':') && characters.peek().copied().is_some_and(is_digit);
        if is_digit(character) || !number.is_empty() && joins && character != ',' {
            number.push(character);
        } else if !number.is_empty() && !joins {
            numbers.push(std::mem::take(&mut number));
        }
    }
    numbers.extend(Some(number).filter(|number| !number.is_empty()));
    numbers
}

/// So many letters right before a digit make a name of both; `v2` and `L118` still have numbers.
pub(super) const LETTERS_OF_A_NAME: usize = 3;

/// Whether a character is written without spaces between words: Han, kana, Hangul.
pub(super) fn is_cjk(character: char) -> bool {
    matches!(character,
        '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{3105}'..='\u{312F}'
        | '\u{3131}'..='\u{318E}' | '\u{31A0}'..='\u{31BF}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97F}' | '\u{AC00}'..='\u{D7FF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

/// A text in which signs that negate or compare are words: `a != b` is not `a == b`.
pub(super) fn with_signs_as_words(text: &str) -> String {
    let mut words = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        let spaced = words.ends_with([' ', '\t']) || words.is_empty();
        let word = match character {
            '≠' | '¬' | '✗' | '✘' | '❌' | '❎' | '🚫' | '⛔' | '∉' => Some((" not ", after)),
            '!' if after.starts_with('=') => Some((" not ", after.trim_start_matches('='))),
            '!' if spaced && after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => Some((" not ", after)),
            '≤' | '≥' => Some((if character == '≤' { " atmost " } else { " atleast " }, after)),
            // Between two values; an arrow, a tag or a quotation has no space on both sides or nothing before it.
            '<' | '>' if spaced && words.trim_end_matches([' ', '\t']).ends_with(|c: char| c != '\n') => {
                let (bare, with_equal) = if character == '<' {
                    (" below ", " atmost ")
                } else {
                    (" above ", " atleast ")
                };
                match after.strip_prefix('=') {
                    Some(rest) if rest.starts_with(' ') => Some((with_equal, rest)),
                    None if after.starts_with(' ') => Some((bare, after)),
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some((word, left)) = word {
            words.push_str(word);
            rest = left;
        } else {
            words.push(character);
            rest = after;
        }
    }
    words
}

fn round(text: &str) -> String {
    let mut form = String::with_capacity(text.len());
    let mut in_number = false;
    let mut gap = false;
    let mut in_name = false;
    let push = |character: char, gap: &mut bool, form: &mut String| {
        let beside_cjk = is_cjk(character) || form.chars().next_back().is_some_and(is_cjk);
        if std::mem::take(gap) && !form.is_empty() && !beside_cjk {
            form.push(' ');
        }
        form.push(character);
    };
    let mut characters = Folded::new(text).peekable();
    while let Some(character) = characters.next() {
        let is_digit = character.is_numeric() && !is_cjk(character);
        let before = |form: &str| {
            let letters = form.chars().rev().take(LETTERS_OF_A_NAME);
            letters.filter(|c| c.is_alphabetic() && !is_cjk(*c)).count() == LETTERS_OF_A_NAME
        };
        in_name = is_digit && !gap && !in_number && (in_name || before(&form));
        if in_name {
            form.push(character);
            continue;
        }
        if character == '#' || is_digit {
            if !in_number || gap {
                push('#', &mut gap, &mut form);
            }
            in_number = true;
            continue;
        }
        // `1,024`, `6.2` and `10:15` are one number each.
        let joins = matches!(character, '.' | ',' | ':') && in_number && !gap;
        if joins && characters.peek().is_some_and(|next| *next == '#' || next.is_numeric()) {
            continue;
        }
        // Marks that are no letters of their own, such as an accent that could not be composed, are left out.
        if !character.is_alphanumeric() && is_combining_mark(character) {
            continue;
        }
        in_number = false;
        if character.is_alphanumeric() {
            push(character, &mut gap, &mut form);
        } else {
            gap = true;
        }
    }
    form
}

/// The characters of a text in compatibility form and small; without a detour for plain ASCII.
enum Folded<'t> {
    Ascii(std::str::Bytes<'t>),
    Unicode(std::vec::IntoIter<char>),
}

impl<'t> Folded<'t> {
    fn new(text: &'t str) -> Self {
        if text.is_ascii() {
            Self::Ascii(text.bytes())
        } else {
            let folded: Vec<char> = text.nfkc().flat_map(char::to_lowercase).nfkc().collect();
            Self::Unicode(folded.into_iter())
        }
    }
}

impl Iterator for Folded<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        match self {
            Self::Ascii(bytes) => bytes.next().map(|byte| char::from(byte.to_ascii_lowercase())),
            Self::Unicode(characters) => characters.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn same(one: &str, other: &str) {
        assert_eq!(normal_form(one), normal_form(other));
    }

    #[track_caller]
    fn different(one: &str, other: &str) {
        assert_ne!(normal_form(one), normal_form(other));
    }

    #[test]
    fn numbers_case_spacing_and_punctuation_do_not_matter() {
        assert_eq!(
            normal_form("  The build took 31 s,  on  CI! "),
            "the build took # s on ci"
        );
        same("took 31 s", "Took 45 s.");
        same("1,024 MB at 10:15", "896.5 MB at 9");
        same("src/cart.ts:118", "src/cart.ts:7");
        same("version 3.5", "version 4");
        same("CI 里运行 vitest,必须加 --run", "CI里运行vitest必须加--run。");
        same("AB１２３", "ab1");
        same("v1.2.3", "v2.0");
        same("“Café”", "CAFE\u{301}");
        same("a: b", "a - b");
        assert_eq!(normal_form("第 12 次构建失败"), "第#次构建失败");
        assert_eq!(normal_form("?!…"), "");
        assert_eq!(normal_form("# 5 #6"), "# # #");
    }

    #[test]
    fn what_turns_a_statement_round_is_kept() {
        different("a != b", "a == b");
        different("a ≠ b", "a = b");
        different("x < 5 fails", "x > 5 fails");
        different("x <= 5 fails", "x >= 5 fails");
        different("✅ force push", "❌ force push");
        different("when !ready", "when ready");
        different("encoded in base32", "encoded in base64");
        different("ＢＡＳＥ３２", "base64");
        different("do not run", "do run");
        different("不要运行", "要运行");
        // A quotation, a tag and an arrow compare nothing.
        same("> a quotation", "a quotation");
        same("<b>bold</b>", "b bold b");
        same("a -> b", "a b");
    }

    #[test]
    fn numbers_are_told_apart() {
        assert_eq!(numbers("1,024 MB at 10:15, v1.2."), ["1024", "10:15", "1.2"]);
        assert_eq!(numbers("第 12 次，行 7"), ["12", "7"]);
        assert_eq!(numbers("none"), Vec::<String>::new());
    }

    #[test]
    fn letters_of_every_script_stay() {
        assert_eq!(normal_form("Настройка сервера"), "настройка сервера");
        assert_ne!(normal_form("คำสั่ง"), normal_form("คาสง"));
        assert_eq!(normal_form("İstanbul"), normal_form(&normal_form("İstanbul")));
    }

    proptest! {
        #[test]
        fn the_form_of_a_form_is_itself(text in any::<String>()) {
            let form = normal_form(&text);
            prop_assert_eq!(normal_form(&form), form);
        }

        #[test]
        fn the_form_has_no_doubled_and_no_outer_space(text in "[ -~가-힣一-龥\u{300}-\u{310}½İ#!<>=≠]{0,40}") {
            let form = normal_form(&text);
            prop_assert_eq!(&normal_form(&form), &form);
            prop_assert!(!form.contains("  ") && form.trim() == form, "{:?}", form);
            prop_assert!(!form.split(' ').any(|word| word.starts_with(|c: char| c.is_ascii_digit())));
        }
    }
}
