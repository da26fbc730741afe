//! A tool's description where a provider takes only a short one.

use std::borrow::Cow;

use super::Loss;

/// The most characters that OpenAI takes as the description of a function: of a longer one it answers 400,
/// `string_above_max_length`, and refuses the whole request.
pub const OPENAI_DESCRIPTION: usize = 1_024;

/// A description of at most `most` characters, and what is lost by that. It ends with `…` where it was cut: after the last
/// sentence or line that fits, else after the last word, and where either would leave less than half, wherever it has to.
pub fn description(text: &str, most: usize) -> (Cow<'_, str>, Option<Loss>) {
    // No text has more characters than bytes.
    if text.len() <= most {
        return (Cow::Borrowed(text), None);
    }
    if text.char_indices().nth(most).is_none() {
        return (Cow::Borrowed(text), None);
    }
    let (short, unit) = shortened(text, most);
    let mark = if unit == "sentence" { mark(short) } else { "…" };
    let loss = Loss {
        pointer: "description".to_owned(),
        what: format!(
            "it has {} characters, at most {most} are taken: it ends after the last {unit} that fits, {} characters in",
            text.chars().count(),
            short.chars().count()
        ),
    };
    (Cow::Owned(format!("{short}{mark}")), Some(loss))
}

/// What is left of a text with more than `most` characters, so that the mark fits behind it, and what it ends with.
fn shortened(text: &str, most: usize) -> (&str, &'static str) {
    let is_enough = |part: &&str| !part.is_empty() && part.chars().count().saturating_mul(2) >= most;
    if let Some(sentences) = sentences(text, most).filter(is_enough) {
        return (sentences, "sentence");
    }
    let end = text.char_indices().nth(most.saturating_sub(1));
    let (all, rest) = text.split_at(end.map_or(text.len(), |(at, _)| at));
    let words = if rest.starts_with(char::is_whitespace) {
        Some(all)
    } else {
        all.rfind(char::is_whitespace).map(|at| &all[..at])
    };
    match words.map(str::trim_end).filter(is_enough) {
        Some(words) => (words, "word"),
        None => (all, "character"),
    }
}

/// The sign that there is more, behind whole sentences: apart from the last one where sentences stand apart.
fn mark(sentences: &str) -> &'static str {
    if sentences.ends_with(['.', '!', '?']) {
        " …"
    } else {
        "…"
    }
}

/// The whole sentences and lines that a text begins with and that fit with the mark, if there are any.
fn sentences(text: &str, most: usize) -> Option<&str> {
    let mut last = None;
    for (at, c) in text.char_indices().take(most) {
        let after = at + c.len_utf8();
        let end = match c {
            '.' | '!' | '?' if text[after..].starts_with(char::is_whitespace) => after,
            '。' | '！' | '？' => after,
            '\n' => at,
            _ => continue,
        };
        let part = text[..end].trim_end();
        if !part.is_empty() && part.chars().count() + mark(part).chars().count() <= most {
            last = Some(part);
        }
    }
    last
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
        assert_eq!(cut("One. Two v1.5 is there. Three.", 25), "One. Two v1.5 is there. …");
        assert_eq!(cut("Title\n- one\n- two and more", 14), "Title\n- one…");
        assert_eq!(cut("列出工具。读取文件。", 6), "列出工具。…");
        assert_eq!(cut("one two three", 9), "one two…");
        assert_eq!(cut("one two three", 8), "one two…");
        assert_eq!(cut("abcdefgh", 4), "abc…");
        let loss = description("One. Two.", 6).1.unwrap();
        assert_eq!(
            loss.to_string(),
            "description: it has 9 characters, at most 6 are taken: it ends after the last sentence that fits, 4 characters in"
        );
    }

    #[test]
    fn an_early_sentence_end_does_not_cost_the_rest_of_a_description() {
        for (text, kept) in [
            (format!("查询。{}", "中文内容".repeat(400)), 1_024),
            (format!("Runs v1.2 queries e.g. for x. {}", "word ".repeat(400)), 1_020),
            (format!("Long. {}", "w".repeat(2_000)), 1_024),
            ("x".repeat(2_000), 1_024),
            (format!("A title\n{}", "word ".repeat(400)), 1_024),
            (format!("{}。{}", "字".repeat(600), "文".repeat(600)), 602),
            (format!("{}！{}", "字".repeat(600), "文".repeat(600)), 602),
        ] {
            let (short, _) = description(&text, OPENAI_DESCRIPTION);
            let length = short.chars().count();
            assert!(
                short.ends_with('…') && (kept - 5..=kept).contains(&length),
                "{length}: {short}"
            );
        }
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
                let left = short.strip_suffix('…').map(str::trim_end);
                assert_eq!(left.is_some(), loss.is_some(), "a cut is told: {text:?} {most}");
                assert!(text.starts_with(left.unwrap_or(&short)), "{text:?} {most}");
                let kept = text.chars().take(most).collect::<String>().trim_end().chars().count();
                let least = kept.min(most / 2).saturating_sub(1);
                assert!(short.chars().count() >= least, "{text:?} {most}: {short:?}");
            }
        }
    }
}
