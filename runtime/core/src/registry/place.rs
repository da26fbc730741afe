//! Where something is inside a JSON value.
//!
//! Answers for places as texts (bracket path and JSON Pointer) and for pointer patterns, in which `*` stands for every
//! index. Leaves out what is found there.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Longer keys are cut in error texts: a caller chooses them, and an answer must stay short.
const KEY_SHOWN: usize = 80;

/// One step down into a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// The bracket path: `items[3].depends_on[0]`. A key that is no plain word is quoted: `env["a.b"]`.
pub(super) fn bracket(place: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in place {
        match step {
            Step::Index(index) => {
                let _ = write!(text, "[{index}]");
            }
            Step::Key(key) if is_plain(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(&cut(key, KEY_SHOWN));
            }
            Step::Key(key) => {
                let _ = write!(text, "[{}]", Value::from(cut(key, KEY_SHOWN)));
            }
        }
    }
    text
}

/// The JSON Pointer (RFC 6901) of the same place.
pub(super) fn pointer(place: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in place {
        match step {
            Step::Index(index) => {
                let _ = write!(text, "/{index}");
            }
            Step::Key(key) => {
                text.push('/');
                text.push_str(&cut(key, KEY_SHOWN).replace('~', "~0").replace('/', "~1"));
            }
        }
    }
    text
}

/// The steps of a JSON Pointer into a value.
pub(super) fn unescaped(pointer: &str) -> Vec<String> {
    let steps = pointer.split('/').skip(1);
    steps.map(|step| step.replace("~1", "/").replace("~0", "~")).collect()
}

/// Which of the steps are indexes, the value tells.
pub(super) fn steps<'a>(unescaped: &'a [String], value: &Value) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    let mut here = Some(value);
    for step in unescaped {
        let index = step.parse().ok().filter(|_| here.is_some_and(Value::is_array));
        here = match index {
            Some(index) => here.and_then(|value| value.get::<usize>(index)),
            None => here.and_then(|value| value.get(step)),
        };
        steps.push(index.map_or(Step::Key(step), Step::Index));
    }
    steps
}

/// The first `limit` characters of a text, and a sign that there is more.
pub(super) fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

/// A JSON Pointer in which the step `*` stands for every index of an array and every key of a map.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    steps: Vec<String>,
}

impl Pattern {
    /// Reads `/items/*/path`. Everything but the empty text starts with a slash.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("`{text}` is no JSON Pointer: it must start with `/`"));
        };
        let steps = rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
        Ok(Self { steps: steps.collect() })
    }

    /// The steps as written, unescaped.
    pub(super) fn steps(&self) -> &[String] {
        &self.steps
    }

    /// Calls `found` with every string that the pattern reaches, in document order.
    pub(super) fn strings<'v>(&self, root: &'v Map<String, Value>, found: &mut dyn FnMut(&'v str)) {
        if let Some((first, rest)) = self.steps.split_first()
            && let Some(value) = root.get(first)
        {
            descend(rest, value, found);
        }
    }
}

fn descend<'v>(steps: &[String], value: &'v Value, found: &mut dyn FnMut(&'v str)) {
    let Some((first, rest)) = steps.split_first() else {
        if let Value::String(text) = value {
            found(text);
        }
        return;
    };
    match value {
        Value::Array(items) if first == "*" => items.iter().for_each(|item| descend(rest, item, found)),
        Value::Object(map) if first == "*" => map.values().for_each(|value| descend(rest, value, found)),
        Value::Object(map) => {
            if let Some(value) = map.get(first) {
                descend(rest, value, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_reads_as_a_path_and_as_a_pointer() {
        let place = [
            Step::Key("items"),
            Step::Index(3),
            Step::Key("depends_on"),
            Step::Index(0),
        ];
        assert_eq!(bracket(&place), "items[3].depends_on[0]");
        assert_eq!(pointer(&place), "/items/3/depends_on/0");
    }

    #[test]
    fn a_key_that_is_no_word_is_quoted_and_escaped() {
        let place = [Step::Key("env"), Step::Key("a.b/c~d")];
        assert_eq!(bracket(&place), r#"env["a.b/c~d"]"#);
        assert_eq!(pointer(&place), "/env/a.b~1c~0d");
    }

    #[test]
    fn a_pattern_reaches_every_index_and_key_and_nothing_but_strings() {
        let value = json!({"a": [{"p": "x"}, {"p": 1}, {}, {"p": "y"}], "p": "z", "m": {"k": "1", "l": 2}});
        let mut seen = Vec::new();
        let root = value.as_object().unwrap();
        Pattern::parse("/a/*/p")
            .unwrap()
            .strings(root, &mut |text| seen.push(text));
        Pattern::parse("/p").unwrap().strings(root, &mut |text| seen.push(text));
        Pattern::parse("/p/*")
            .unwrap()
            .strings(root, &mut |text| seen.push(text));
        Pattern::parse("/m/*")
            .unwrap()
            .strings(root, &mut |text| seen.push(text));
        assert_eq!(seen, ["x", "y", "z", "1"]);
        assert!(Pattern::parse("a").is_err());
    }
}
