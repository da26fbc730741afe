//! Strict YAML with places: the only door to YAML.
//!
//! Answers for reading a document into a tree that remembers where every key and value stands, without guessing types
//! (`no` and `010` stay text), without aliases, merge keys, tags or directives, with duplicate keys kept for the caller
//! to report, and with the parser's errors in words of specs. Leaves out what the keys mean.

mod faults;
mod reader;

use serde_json::{Map, Value};

use crate::diagnostic::Diagnostic;
use reader::{DEEPEST, MOST_VALUES};

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
    let text = with_plain_lines(text);
    reader::read(&text).map_err(|fault| Diagnostic {
        path: path.to_owned(),
        line: fault.place.line,
        column: fault.place.column,
        message: fault.message,
        help: Some(fault.help),
    })
}

/// What is to be said when serde reads the same text as something else than the tree. Two readers that agree are worth
/// more than one that is right: the specs are read by editors and by other people's programs, too.
pub fn second_reading(path: &str, text: &str, tree: &Node) -> Option<Diagnostic> {
    let text = with_plain_lines(text);
    differs(tree, &text).map(|place| Diagnostic {
        path: path.to_owned(),
        line: place.line,
        column: place.column,
        message: "programs read this value in different ways".to_owned(),
        help: Some("put it in quotes if it is a text, else write it in the plainest form".to_owned()),
    })
}

/// The text with `\n` as its only line end. A file checked out with CRLF must give the same bytes, so block texts may not
/// keep the `\r`; alone it ends a line, too, for YAML and for editors.
fn with_plain_lines(text: &str) -> String {
    text.trim_start_matches('\u{feff}')
        .replace("\r\n", "\n")
        .replace('\r', "\n")
}

fn differs(tree: &Node, text: &str) -> Option<Place> {
    // Aliases, tags, merge keys and depth were judged when the tree was made.
    let options = serde_yaml::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        duplicate_keys: serde_yaml::DuplicateKeyPolicy::FirstWins,
        merge_keys: serde_yaml::options::MergeKeyPolicy::Error,
        budget: serde_yaml::budget! { max_nodes: MOST_VALUES, max_aliases: 0, max_depth: DEEPEST + 1 },
    };
    match serde_yaml::from_str_with_options::<Value>(text, options) {
        Ok(value) => first_difference(tree, &value),
        Err(error) => Some(error.location().map_or(tree.place, |location| Place {
            line: location.line(),
            column: location.column(),
        })),
    }
}

fn first_difference(node: &Node, value: &Value) -> Option<Place> {
    match (&node.kind, value) {
        (NodeKind::Scalar(own), other) => (own != other).then_some(node.place),
        (NodeKind::List(items), Value::Array(others)) if items.len() == others.len() => items
            .iter()
            .zip(others)
            .find_map(|(item, other)| first_difference(item, other)),
        (NodeKind::Map(_), Value::Object(others)) => node.entries().iter().find_map(|entry| {
            let first = node.entry(&entry.key).is_some_and(|first| std::ptr::eq(first, entry));
            match others.get(&entry.key) {
                // Of a key that came twice both readers keep the first.
                _ if !first => None,
                Some(other) => first_difference(&entry.value, other),
                None => Some(entry.key_place),
            }
        }),
        (NodeKind::List(_) | NodeKind::Map(_), _) => Some(node.place),
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_and_odd_numbers_stay_text() {
        for text in [
            "no",
            "True",
            "TRUE",
            "Null",
            "010",
            "1_000",
            "0x10",
            "0o7",
            "0b1",
            "+1",
            ".5",
            "1.",
            "1:30",
            "2026-11-30",
            "1e",
        ] {
            let tree = parse("x", &format!("a: {text}\n")).unwrap();
            assert_eq!(tree.to_value(), json!({ "a": text }));
        }
        let tree = parse("x", "a: true\nb: -1.5e3\nc: 0\nd: ~\ne: 5\nf:\ng: 'true'\nh: null\n").unwrap();
        assert_eq!(
            tree.to_value(),
            json!({"a": true, "b": -1500.0, "c": 0, "d": null, "e": 5, "f": null, "g": "true", "h": null})
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
    fn aliases_tags_and_broken_syntax_are_errors_with_a_place() {
        for (text, line, column) in [
            ("a: &x 1\n", 1, 4),
            ("a: 1\nb: *x\n", 2, 4),
            ("a: [x, **/*.md]\n", 1, 8),
            ("a: !foo x\n", 1, 4),
            ("a: !!binary d3JpdGU=\n", 1, 4),
            ("a:\n  - !!map {}\n", 2, 5),
            ("!!map\na: 1\n", 1, 1),
            ("a: !<tag:yaml.org,2002:int> \"1\"\n", 1, 4),
            ("!!str a: 1\n", 1, 1),
            ("%TAG !e! tag:x\n---\na: 1\n", 1, 1),
            ("<<: {a: 1}\n", 1, 1),
            ("a: [1\nb: 2\n", 1, 4),
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
    fn a_place_counts_lines_as_the_parser_does() {
        let fault = parse("x.yaml", "a: 1\rb: 2\nc: [1, 2\n").unwrap_err();
        assert_eq!((fault.line, fault.column), (3, 4), "{fault:?}");
    }

    #[test]
    fn windows_line_ends_give_the_same_tree() {
        let unix = parse("x", "a: |\n  one\n  two\nb: 1\n").unwrap();
        let windows = parse("x", "a: |\r\n  one\r\n  two\r\nb: 1\r\n").unwrap();
        assert_eq!(unix.to_value(), windows.to_value());
    }
}
