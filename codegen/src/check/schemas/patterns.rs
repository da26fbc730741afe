//! Regular expressions that every client's engine reads alike.
//!
//! Answers for the keyword `pattern`; the same text is judged once. Leaves out what a pattern is meant to match.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, json};

use super::subset::Word;
use crate::check::values::compile;
use crate::model::Schema;
use crate::report::Report;
use crate::specs::Doc;

/// The patterns that were judged, each with what is wrong with it.
#[derive(Default)]
pub(super) struct Patterns {
    judged: HashMap<String, Option<PatternFault>>,
}

impl Patterns {
    pub(super) fn judge(
        &mut self,
        doc: Doc<'_>,
        words: &BTreeMap<&str, &Word<'_>>,
        clean: &mut Schema,
        report: &mut Report,
    ) {
        let Some(word) = words.get("pattern") else { return };
        let Some(text) = word.node.as_str() else {
            report.value(doc, &word.pointer, "a pattern is a text", "put it in quotes".to_owned());
            return;
        };
        let fault = self
            .judged
            .entry(text.to_owned())
            .or_insert_with(|| pattern_fault(text));
        match fault {
            None => _ = clean.insert("pattern".into(), json!(text)),
            Some(fault) => {
                let (message, help) = (fault.message.clone(), fault.help.map(str::to_owned));
                let offset = fault.offset;
                report.inside(doc, &word.pointer, offset, message, help);
            }
        }
    }
}

/// What is wrong with a regular expression, and where.
struct PatternFault {
    offset: usize,
    message: String,
    help: Option<&'static str>,
}

/// Judges a regular expression: what engines read differently is refused, then two of them compile it.
fn pattern_fault(text: &str) -> Option<PatternFault> {
    let fault = |offset: usize, message: String, help: &'static str| {
        Some(PatternFault {
            offset,
            message,
            help: Some(help),
        })
    };
    let bytes = text.as_bytes();
    let mut in_class = false;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        match bytes[at] {
            b'\\' => {
                match bytes.get(at + 1) {
                    Some(b'A' | b'z' | b'Z') => {
                        return fault(at, format!("`{}` is not ECMAScript", &rest[..2]), "write `^` and `$`");
                    }
                    Some(b'p' | b'P') => {
                        return fault(
                            at,
                            format!("`{}` differs between engines", &rest[..2]),
                            "write the characters out: `[a-z]`",
                        );
                    }
                    Some(b'b' | b'B') => {
                        return fault(
                            at,
                            format!("`{}` differs between engines", &rest[..2]),
                            "write out what stands around the word: `(?:^|[^a-z])`",
                        );
                    }
                    Some(b'u') if rest.starts_with("\\u{") => {
                        return fault(
                            at,
                            "`\\u{…}` needs a flag that not every client sets".into(),
                            "write the character itself, or four digits: `\\u00e9`",
                        );
                    }
                    Some(b'1'..=b'9' | b'k') => {
                        return fault(
                            at,
                            "back references are outside the portable subset".into(),
                            "check it in the handler",
                        );
                    }
                    _ => {}
                }
                at += 1;
                // The escaped character may be a wide one.
                at += text[at..].chars().next().map_or(0, char::len_utf8);
                continue;
            }
            _ if rest.chars().next().is_some_and(|c| {
                c > '\u{ffff}' && (in_class || rest[c.len_utf8()..].starts_with(['*', '+', '?', '{']))
            }) =>
            {
                return fault(
                    at,
                    "a character beyond U+FFFF is two to some engines, in a class and before a quantifier".into(),
                    "write it as an alternative: `(?:a|b)`",
                );
            }
            b'[' if in_class => {
                return fault(at, "`[` inside a class differs between engines".into(), "write `\\[`");
            }
            b'[' => in_class = true,
            b']' => in_class = false,
            b'&' if in_class && rest.starts_with("&&") => {
                return fault(
                    at,
                    "`&&` inside a class differs between engines".into(),
                    "write `&` once",
                );
            }
            b'(' if !in_class && rest.starts_with("(?") && !rest.starts_with("(?:") => {
                let what = match () {
                    () if rest.starts_with("(?=") || rest.starts_with("(?!") => "look-ahead",
                    () if rest.starts_with("(?<=") || rest.starts_with("(?<!") => "look-behind",
                    () if rest.starts_with("(?<") || rest.starts_with("(?P") => "a named group",
                    () => "a flag",
                };
                return fault(
                    at,
                    format!("{what} is outside the portable subset"),
                    "use `(…)` or `(?:…)`, or check it in the handler",
                );
            }
            _ => {}
        }
        at += 1;
        while !text.is_char_boundary(at) {
            at += 1;
        }
    }
    let unreadable = |error: String| {
        Some(PatternFault {
            offset: 0,
            message: format!("the pattern does not compile: {error}"),
            help: Some("mend it; a character with a meaning of its own is written with a `\\` before it"),
        })
    };
    // Some clients set the flag, some do not.
    for flags in ["", "u"] {
        if let Err(error) = regress::Regex::with_flags(text, flags) {
            return unreadable(error.to_string());
        }
    }
    match compile(&Map::from_iter([("pattern".to_owned(), json!(text))])) {
        Ok(_) => None,
        Err(error) => unreadable(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_engines_read_alike() {
        for text in [
            r"^step-\d{3}$",
            r"\S",
            r"^(?:a|b)+$",
            r"[\[\]a-z]",
            r"^[^\s/]{1,9}$",
            "文",
            r"\\A",
            r"\\b",
            "😀|(?:😎)+",
            r"\u00e9",
        ] {
            assert!(
                pattern_fault(text).is_none(),
                "{text}: {}",
                pattern_fault(text).unwrap().message
            );
        }
        for (text, offset, part) in [
            (r"\Aab", 0, "ECMAScript"),
            (r"ab\z", 2, "ECMAScript"),
            (r"文\p{L}", 3, "differs"),
            ("a(?=b)", 1, "look-ahead"),
            ("(?<!b)a", 0, "look-behind"),
            ("(?<n>a)", 0, "named"),
            ("(?i)a", 0, "flag"),
            (r"(a)\1", 3, "back references"),
            ("[[:alpha:]]", 1, "inside a class"),
            ("[a&&b]", 2, "inside a class"),
            (r"a\b", 1, "differs"),
            (r"[\b]", 1, "differs"),
            (r"a\B", 1, "differs"),
            (r"\u{1F600}", 0, "flag"),
            ("[😀-😎]", 1, "beyond"),
            ("a😀+", 1, "beyond"),
            ("a(", 0, "compile"),
            ("a++", 0, "compile"),
            ("a{2,1}", 0, "compile"),
            ("\\", 0, "compile"),
        ] {
            let fault = pattern_fault(text).unwrap_or_else(|| panic!("{text} should not be allowed"));
            assert_eq!(fault.offset, offset, "{text}: {}", fault.message);
            assert!(fault.message.contains(part), "{text}: {}", fault.message);
        }
    }
}
