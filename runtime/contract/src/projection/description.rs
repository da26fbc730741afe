//! A tool's description where a provider takes only a short one.

use std::borrow::Cow;

use super::Loss;

/// The most characters that OpenAI takes as the description of a function: of a longer one it answers 400,
/// `string_above_max_length`, and refuses the whole request.
pub const OPENAI_DESCRIPTION: usize = 1_024;

/// A description of at most `most` characters: the sentences that fit, or the words of the first one when it is too long
/// itself, and what is lost by that.
pub fn description(text: &str, most: usize) -> (Cow<'_, str>, Option<Loss>) {
    // No text has more characters than bytes.
    if text.len() <= most {
        return (Cow::Borrowed(text), None);
    }
    let Some((end, _)) = text.char_indices().nth(most) else {
        return (Cow::Borrowed(text), None);
    };
    let (short, unit) = match sentences(text, end) {
        Some(short) => (Cow::Borrowed(short), "sentence"),
        None => (Cow::Owned(words(text, most)), "word"),
    };
    let loss = Loss {
        pointer: "description".to_owned(),
        what: format!(
            "it has {} characters, at most {most} are taken: it ends after the last {unit} that fits, {} characters in",
            text.chars().count(),
            short.chars().count()
        ),
    };
    (short, Some(loss))
}

/// The whole sentences and lines before `end`, if there are any.
fn sentences(text: &str, end: usize) -> Option<&str> {
    let mut last = None;
    for (at, c) in text[..end].char_indices() {
        let after = at + c.len_utf8();
        let ends = match c {
            '.' | '!' | '?' => text[after..].starts_with(char::is_whitespace),
            '。' | '！' | '？' => true,
            '\n' => {
                last = Some(at);
                false
            }
            _ => false,
        };
        if ends {
            last = Some(after);
        }
    }
    let short = text[..last?].trim_end();
    (!short.is_empty()).then_some(short)
}

/// The whole words that fit before an ellipsis, or as many characters where there are none.
fn words(text: &str, most: usize) -> String {
    let end = text
        .char_indices()
        .nth(most.saturating_sub(1))
        .map_or(text.len(), |(at, _)| at);
    let whole = text[..end].rfind(char::is_whitespace).map(|at| text[..at].trim_end());
    let whole = whole.filter(|whole| !whole.is_empty()).unwrap_or(&text[..end]);
    format!("{whole}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_cut_after_a_sentence_and_else_after_a_word() {
        let cut = |text, most| {
            let (short, loss) = description(text, most);
            assert_eq!(loss.is_some(), short != text, "{text}");
            short.into_owned()
        };
        assert_eq!(cut("It is short.", 12), "It is short.");
        assert_eq!(cut("One. Two v1.5 is there. Three.", 25), "One. Two v1.5 is there.");
        assert_eq!(cut("One. Two v1.5 is there. Three.", 14), "One.");
        assert_eq!(cut("Title\n- one\n- two and more", 14), "Title\n- one");
        assert_eq!(cut("列出工具。读取文件。", 6), "列出工具。");
        assert_eq!(cut("one two three", 9), "one two…");
        assert_eq!(cut("abcdefgh", 4), "abc…");
        let loss = description("One. Two.", 6).1.unwrap();
        assert_eq!(
            loss.to_string(),
            "description: it has 9 characters, at most 6 are taken: it ends after the last sentence that fits, 4 characters in"
        );
    }

    #[test]
    fn a_description_never_has_more_than_is_taken() {
        // Every text of up to six of these, against every bound.
        let signs = ['a', ' ', '.', '。', '\n'];
        let mut texts = vec![String::new()];
        for from in 0.. {
            if texts[from].chars().count() == 6 {
                break;
            }
            for sign in signs {
                let mut text = texts[from].clone();
                text.push(sign);
                texts.push(text);
            }
        }
        for text in &texts {
            for most in 1..8 {
                let (short, loss) = description(text, most);
                assert!(short.chars().count() <= most, "{text:?} {most}");
                assert_eq!(loss.is_none(), text.chars().count() <= most, "{text:?} {most}");
                assert!(text.starts_with(short.trim_end_matches('…')), "{text:?} {most}");
            }
        }
    }
}
