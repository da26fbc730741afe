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
    let rest = text.strip_prefix(FENCE).and_then(|rest| rest.trim_start_matches([' ', '\t']).strip_prefix('\n'));
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
    let word = matches!(text, "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n");
    text.chars().all(known) && text.starts_with(|c: char| c != '-') && (is_text || is_hash) && !word
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
    let mut reader = Reader { events: Parser::new_from_str_with_options(text, options), values: 0 };
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
            Some(Err(error)) => Err(format!("line {}: this is no YAML: {}", error.marker().line() + 1, error.kind())),
        }
    }

    fn document(&mut self) -> Result<Value, String> {
        let mut root = None;
        while let Some((event, line)) = self.next()? {
            match event {
                Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::DocumentStart(..) if root.is_none() => {}
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
            _ => Err(format!("line {line}: anchors, aliases and tags are not read; put a text that begins with `&`, `*` or `!` in quotes")),
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
