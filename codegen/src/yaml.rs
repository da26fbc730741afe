//! Strict YAML with places: the only door to the YAML crate.
//!
//! Answers for reading a document into a tree that remembers where every key and value stands, without guessing types
//! (`no` and `010` stay text), without aliases, merge keys or tags, and with duplicate keys kept for the caller to report.
//! Leaves out what the keys mean.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_yaml::{Location, Spanned};

use crate::diagnostic::Diagnostic;

/// Where something stands: line and column, 1-based, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

/// A value and where it begins.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where the value begins.
    pub place: Place,
    /// The value.
    pub kind: NodeKind,
}

/// A YAML value.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A scalar: null, boolean, number or text.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A map, in document order, duplicates included.
    Map(Vec<Entry>),
}

/// One key of a map with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key begins.
    pub key_place: Place,
    /// The value.
    pub value: Node,
}

/// Reads one document.
///
/// # Errors
/// The first syntax error. A document after which nothing else can be judged has one error only.
pub fn parse(path: &str, text: &str) -> Result<Node, Diagnostic> {
    let options = serde_yaml::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::PassThrough,
        merge_keys: serde_yaml::options::MergeKeyPolicy::Error,
        budget: serde_yaml::budget! { max_nodes: 100_000, max_aliases: 0, max_depth: 32 },
    };
    // A file checked out with CRLF must give the same bytes, so block texts may not keep the `\r`.
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    serde_yaml::from_str_with_options::<Spanned<Raw>>(&text, options)
        .map(node)
        .map_err(|error| {
            let place = error.location().map(place).unwrap_or_default();
            let message = error.without_snippet().to_string();
            // The place stands in front already.
            let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
            let (message, help) = in_our_words(message);
            Diagnostic {
                path: path.to_owned(),
                line: place.line,
                column: place.column,
                message,
                help,
            }
        })
}

/// The parser speaks of its options where it refuses what a spec may not have; a person has to hear about specs.
fn in_our_words(message: String) -> (String, Option<String>) {
    let ours = match message.as_str() {
        text if text.contains("Aliases") => ("an alias (`*name`) is not allowed", "write the value out"),
        text if text.contains("merge keys") => ("a merge key (`<<`) is not allowed", "write the keys out"),
        text if text.contains("budget breached: Depth") => ("nested too deeply", "32 levels are allowed"),
        text if text.contains("budget breached: Nodes") => ("too many values", "a file may have 100,000"),
        text if text.contains("non-finite") => ("a number must be finite", "leave the key out when there is no limit"),
        text if text.contains("multiple YAML documents") => {
            ("a second document begins here, a spec is one", "remove the `---`")
        }
        text if text.contains("expected string scalar") => ("a key must be a text", "write `key: value`"),
        text if text.contains("mapping values are not allowed") => {
            ("a second `: ` in one line", "a text with `: ` in it needs quotes")
        }
        text if text.contains("found a tab") => ("a tab where blanks are expected", "indent with blanks"),
        _ => return (message, None),
    };
    (ours.0.to_owned(), Some(ours.1.to_owned()))
}

impl Node {
    /// The value of a key of a map: the first, when there are several.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of a key of a map: the first, when there are several.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The entries of a map; none for any other value.
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            NodeKind::Map(entries) => entries,
            NodeKind::Scalar(_) | NodeKind::List(_) => &[],
        }
    }

    /// The items of a list; none for any other value.
    pub fn items(&self) -> &[Self] {
        match &self.kind {
            NodeKind::List(items) => items,
            NodeKind::Scalar(_) | NodeKind::Map(_) => &[],
        }
    }

    /// The text of a text scalar.
    pub fn as_str(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// The value at a JSON Pointer.
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        segments(pointer).try_fold(self, |node, segment| match &node.kind {
            NodeKind::Map(_) => node.get(&segment),
            NodeKind::List(items) => segment.parse::<usize>().ok().and_then(|index| items.get(index)),
            NodeKind::Scalar(_) => None,
        })
    }

    /// Where the key at a JSON Pointer stands; for an item of a list, where the item begins. Falls back to the nearest
    /// ancestor that exists, so that an error always has a place.
    pub fn key_place(&self, pointer: &str) -> Place {
        let mut node = self;
        let mut place = self.place;
        for segment in segments(pointer) {
            match &node.kind {
                NodeKind::Map(_) => match node.entry(&segment) {
                    Some(entry) => (node, place) = (&entry.value, entry.key_place),
                    None => return place,
                },
                NodeKind::List(items) => match segment.parse::<usize>().ok().and_then(|index| items.get(index)) {
                    Some(item) => (node, place) = (item, item.place),
                    None => return place,
                },
                NodeKind::Scalar(_) => return place,
            }
        }
        place
    }

    /// Where the value at a JSON Pointer begins, or its nearest existing ancestor.
    pub fn value_place(&self, pointer: &str) -> Place {
        self.pointer(pointer)
            .map_or_else(|| self.key_place(pointer), |node| node.place)
    }

    /// The tree as JSON, without places. Of duplicate keys the first is kept.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            NodeKind::Scalar(value) => value.clone(),
            NodeKind::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            NodeKind::Map(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    map.entry(entry.key.clone()).or_insert_with(|| entry.value.to_value());
                }
                Value::Object(map)
            }
        }
    }
}

fn segments(pointer: &str) -> impl Iterator<Item = String> {
    pointer
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

fn place(location: Location) -> Place {
    Place {
        line: location.line(),
        column: location.column(),
    }
}

fn node(raw: Spanned<Raw>) -> Node {
    let kind = match raw.value {
        Raw::Scalar(value) => NodeKind::Scalar(value),
        Raw::List(items) => NodeKind::List(items.into_iter().map(node).collect()),
        Raw::Map(entries) => NodeKind::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry {
                    key_place: place(key.referenced),
                    key: key.value,
                    value: node(value),
                })
                .collect(),
        ),
    };
    Node {
        place: place(raw.referenced),
        kind,
    }
}

/// What the YAML crate deserialises into.
enum Raw {
    Scalar(Value),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::from(value)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::from(value)))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Raw, E> {
        Number::from_f64(value)
            .map(|number| Raw::Scalar(Value::Number(number)))
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::String(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_and_odd_numbers_stay_text() {
        let tree = parse("x", "a: no\nb: 010\nc: 1_000\nd: ~\ne: 5\n").unwrap();
        assert_eq!(
            tree.to_value(),
            json!({"a": "no", "b": "010", "c": "1_000", "d": null, "e": 5})
        );
    }

    #[test]
    fn places_point_at_keys_and_values() {
        let tree = parse("x", "a:\n  - b: 1\n    c: 2\n").unwrap();
        assert_eq!(tree.key_place("/a/0/c"), Place { line: 3, column: 5 });
        assert_eq!(tree.value_place("/a/0/c"), Place { line: 3, column: 8 });
        assert_eq!(
            tree.value_place("/a/0/zzz"),
            Place { line: 2, column: 5 },
            "a missing key is placed at its map"
        );
    }

    #[test]
    fn duplicate_keys_are_kept_for_the_caller() {
        let tree = parse("x", "a: 1\nb: 2\na: 3\n").unwrap();
        let places: Vec<_> = tree
            .entries()
            .iter()
            .filter(|e| e.key == "a")
            .map(|e| e.key_place.line)
            .collect();
        assert_eq!(places, [1, 3]);
        assert_eq!(tree.to_value(), json!({"a": 1, "b": 2}));
    }

    #[test]
    fn aliases_merge_keys_and_broken_syntax_are_errors_with_a_place() {
        for (text, line, column) in [
            ("a: &x 1\nb: *x\n", 2, 4),
            ("<<: {a: 1}\n", 1, 1),
            ("a: [1\nb: 2\n", 2, 2),
        ] {
            let error = parse("specs/x.yaml", text).unwrap_err();
            assert_eq!((error.line, error.column), (line, column), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_far_too_large_is_refused() {
        let error = parse("specs/x.yaml", &"- 1\n".repeat(100_001)).unwrap_err();
        assert_eq!(error.message, "too many values");
        assert_eq!(error.help.as_deref(), Some("a file may have 100,000"));
    }

    #[test]
    fn windows_line_ends_give_the_same_tree() {
        let unix = parse("x", "a: |\n  one\n  two\nb: 1\n").unwrap();
        let windows = parse("x", "a: |\r\n  one\r\n  two\r\nb: 1\r\n").unwrap();
        assert_eq!(unix.to_value(), windows.to_value());
    }
}
