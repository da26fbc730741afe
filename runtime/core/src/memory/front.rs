//! The front matter of a memory file: YAML between two lines of three dashes, and the text after it.
//!
//! Answers for writing values so that no content can pass for front matter, and for reading what a person may have edited:
//! block and flow style, quotes or none, comments, Windows line ends. Aliases, tags and keys that come twice are refused:
//! none of them is needed, and each can mean another thing to another reader. Leaves out what the keys mean.

use std::fmt::Write;

use granit_parser::{Event, Parser, ScalarStyle, StrInput};
use serde_json::{Map, Number, Value};

/// The line before and after the front matter.
const FENCE: &str = "---";
/// How deep maps and lists may stand in each other.
const DEEPEST: usize = 16;
/// How many values there may be.
const MOST_VALUES: usize = 10_000;

/// Takes a file apart: the front matter, and the text after it without the line ends around it.
///
/// # Errors
/// What is wrong and in which line, for a person.
pub(super) fn split(text: &str) -> Result<(Map<String, Value>, String), String> {
    let text = text.trim_start_matches('\u{FEFF}').replace("\r\n", "\n");
    let rest = text
        .strip_prefix(FENCE)
        .and_then(|rest| rest.trim_start_matches([' ', '\t']).strip_prefix('\n'));
    let Some(rest) = rest else {
        return Err(format!("it does not begin with a line `{FENCE}`"));
    };
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            let front = read(&rest[..length])?;
            let body = &rest[length + line.len()..];
            return Ok((front, body.trim_matches('\n').trim_end().to_owned()));
        }
        length += line.len();
    }
    Err(format!("its front matter has no second line `{FENCE}`"))
}

/// Puts a file together.
pub(super) fn join(front: &[(&str, Value)], more: &Map<String, Value>, body: &str) -> String {
    let mut text = format!("{FENCE}\n");
    let more = more.iter().map(|(key, value)| (key.as_str(), value));
    for (key, value) in front.iter().map(|(key, value)| (*key, value)).chain(more) {
        if is_plain_key(key) {
            text.push_str(key);
        } else {
            write_text(&mut text, key);
        }
        text.push(':');
        match value {
            // One line each, as these lists grow.
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for item in items {
                    text.push_str("\n  - ");
                    write_value(&mut text, item);
                }
            }
            value => {
                text.push(' ');
                write_value(&mut text, value);
            }
        }
        text.push('\n');
    }
    let _ = write!(text, "{FENCE}\n{body}\n");
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            let _ = write!(text, "{value}");
        }
        Value::String(value) if is_plain(value) => text.push_str(value),
        Value::String(value) => write_text(text, value),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_value(text, item);
            }
            text.push(']');
        }
        Value::Object(entries) => {
            text.push('{');
            for (index, (key, value)) in entries.iter().enumerate() {
                text.push_str(if index > 0 { ", " } else { "" });
                write_text(text, key);
                text.push_str(": ");
                write_value(text, value);
            }
            text.push('}');
        }
    }
}

/// In quotes and in one line, whatever it is: nothing in it can end the front matter or begin a key.
fn write_text(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            c if is_printable(c) => text.push(c),
            c if u32::from(c) <= 0xFFFF => {
                let _ = write!(text, "\\u{:04X}", u32::from(c));
            }
            c => {
                let _ = write!(text, "\\U{:08X}", u32::from(c));
            }
        }
    }
    text.push('"');
}

/// What YAML lets stand in a text as it is, without what looks like a line end or like nothing.
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{FEFF}' | '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        && !matches!(u32::from(character) & 0xFFFF, 0xFFFE | 0xFFFF)
}

/// Words such as ids and kinds, which every reader takes for a text.
fn is_plain(text: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    // A letter that is in no number and no time tells it from both.
    let is_text = text.contains(|c: char| c.is_ascii_lowercase() && !matches!(c, 'a'..='f' | 'o' | 't' | 'x' | 'z'));
    let is_hash = text.len() == 64 && text.contains(|c: char| c.is_ascii_lowercase() && c != 'e');
    let word = matches!(
        text,
        "" | "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    let letters = text.chars().all(|c| c.is_ascii_lowercase());
    text.chars().all(known) && text.starts_with(|c: char| c != '-') && (is_text || is_hash || letters) && !word
}

fn is_plain_key(key: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
    key.starts_with(|c: char| c.is_ascii_lowercase())
        && key.chars().all(known)
        && !matches!(key, "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n")
}

fn read(text: &str) -> Result<Map<String, Value>, String> {
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_comments: false,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        flow_nesting_limit: 64,
        block_nesting_limit: 64,
    };
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(text, options),
        values: 0,
    };
    match reader.document()? {
        Value::Object(front) => Ok(front),
        Value::Null => Ok(Map::new()),
        _ => Err("its front matter is no map of keys and values".to_owned()),
    }
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    values: usize,
}

/// An event and the line that it is in.
type Placed<'t> = (Event<'t>, usize);

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Option<Placed<'t>>, String> {
        // Lines are those of the file, of which the fence is the first.
        match self.events.next() {
            None => Ok(None),
            Some(Ok((event, span))) => Ok(Some((event, span.start.line() + 1))),
            Some(Err(error)) => Err(format!(
                "line {}: this is no YAML: {}",
                error.marker().line() + 1,
                error.kind()
            )),
        }
    }

    fn document(&mut self) -> Result<Value, String> {
        let mut root = None;
        while let Some((event, line)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::DocumentStart(..)
                    if root.is_none() => {}
                Event::StreamEnd | Event::DocumentEnd => {}
                _ if root.is_some() => return Err(format!("line {line}: a second document begins here")),
                event => root = Some(self.value((event, line), 1)?),
            }
        }
        Ok(root.unwrap_or(Value::Null))
    }

    fn value(&mut self, (event, line): Placed<'t>, depth: usize) -> Result<Value, String> {
        self.values += 1;
        if depth > DEEPEST || self.values > MOST_VALUES {
            return Err(format!("line {line}: too deep or too long"));
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, 0, None) => Ok(plain(&text)),
            Event::Scalar(text, _, 0, None) => Ok(Value::String(text.into_owned())),
            Event::SequenceStart(_, 0, None) => {
                let mut items = Vec::new();
                while let Some((event, line)) = self.next()? {
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    items.push(self.value((event, line), depth + 1)?);
                }
                Ok(Value::Array(items))
            }
            Event::MappingStart(_, 0, None) => {
                let mut entries = Map::new();
                while let Some((event, line)) = self.next()? {
                    let key = match event {
                        Event::MappingEnd => break,
                        Event::Scalar(text, _, 0, None) => text.into_owned(),
                        _ => return Err(format!("line {line}: a key must be a text")),
                    };
                    let value = match self.next()? {
                        Some(placed) => self.value(placed, depth + 1)?,
                        None => Value::Null,
                    };
                    if entries.insert(key.clone(), value).is_some() {
                        return Err(format!("line {line}: the key `{key}` comes twice"));
                    }
                }
                Ok(Value::Object(entries))
            }
            _ => Err(format!(
                "line {line}: anchors, aliases and tags are not read; put a text that begins with `&`, `*` or `!` in quotes"
            )),
        }
    }
}

/// A value without quotes: what JSON writes alike stands for itself, all else is a text.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => serde_json::from_str::<Number>(text).map_or_else(|_| Value::String(text.to_owned()), Value::Number),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::from),
            "[-:#&*!|>%@`{}\\[\\], ?\"'\n\t0-9a-z~]{0,12}".prop_map(Value::from),
            prop_oneof![
                Just("null"),
                Just("yes"),
                Just("1e3"),
                Just("0x1F"),
                Just("2026-11-30"),
                Just("---"),
                Just("")
            ]
            .prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            values in proptest::collection::hash_map("[a-z][a-z_0-9]{0,8}", any_value(), 0..6),
            more in proptest::collection::hash_map(".{0,6}", any_value(), 0..3),
            body in any::<String>(),
        ) {
            let front: Vec<(&str, Value)> = values.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
            let more: Map<String, Value> = more.into_iter().filter(|(key, _)| !values.contains_key(key)).collect();
            let text = join(&front, &more, &body);
            let (read, content) = split(&text).map_err(|problem| TestCaseError::fail(format!("{problem}\n{text}")))?;
            let expected: Map<String, Value> = front.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).chain(more).collect();
            prop_assert_eq!(read, expected, "{}", text);
            let body = body.replace("\r\n", "\n");
            prop_assert_eq!(content, body.trim_matches('\n').trim_end());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(---\n)?[-:#&*!|>%@`{}\\[\\], ?\"'\n\ta-z0-9]{0,60}(\n---\n)?[a\n-]{0,8}") {
            let _ = split(&text);
        }
    }

    #[test]
    fn what_a_person_wrote_is_read() {
        let text = "\u{FEFF}---\r\n# a comment\r\nid: mem-1\r\ntitle: It's a 'title'\r\nhits: 3\r\ntags:\r\n  - a\r\n  - b c\r\n\
            note: |\r\n  two\r\n  lines\r\nday: 2026-11-30\r\nempty:\r\n---  \r\n\r\nBody\r\n---\r\nmore\r\n";
        let (front, body) = split(text).unwrap();
        let expected = json!({
            "id": "mem-1", "title": "It's a 'title'", "hits": 3, "tags": ["a", "b c"], "note": "two\nlines\n", "day": "2026-11-30", "empty": null,
        });
        assert_eq!(Value::Object(front), expected);
        assert_eq!(body, "Body\n---\nmore");
    }

    #[test]
    fn what_is_broken_is_told_with_its_line() {
        for (text, part) in [
            ("", "does not begin"),
            ("id: x\n---\n", "does not begin"),
            ("---\nid: x\n", "no second line"),
            ("---\n- a\n---\n", "no map"),
            ("---\nid: x\nid: y\n---\n", "line 3: the key `id` comes twice"),
            ("---\na: &x 1\nb: *x\n---\n", "line 2: anchors"),
            ("---\na: !!int 1\n---\n", "line 2: anchors"),
            ("---\na: [1, 2\n---\n", "this is no YAML"),
            ("---\n? [a]\n: b\n---\n", "a key must be a text"),
        ] {
            let problem = split(text).unwrap_err();
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
        let deep = format!("---\na: {}{}\n---\n", "[".repeat(40), "]".repeat(40));
        assert!(split(&deep).is_err());
    }

    #[test]
    fn plain_words_stay_plain_and_nothing_can_be_taken_for_another_type() {
        let front = [
            ("kind", json!("fact")),
            ("id", json!("mem-1f2e3d4c")),
            ("hash", json!("1e5")),
            ("word", json!("yes")),
        ];
        assert_eq!(
            join(&front, &Map::new(), "x"),
            "---\nkind: fact\nid: mem-1f2e3d4c\nhash: \"1e5\"\nword: \"yes\"\n---\nx\n"
        );
    }
}
