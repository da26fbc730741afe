//! Strict YAML with places: the only door to YAML.
//!
//! Answers for reading a document into a tree that remembers where every key and value stands, without guessing types
//! (`no` and `010` stay text), without aliases, merge keys, tags or directives, with duplicate keys kept for the caller
//! to report, and with the parser's errors in words of specs. Leaves out what the keys mean.

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use crate::diagnostic::Diagnostic;

/// How deep maps and lists may stand in each other.
const DEEPEST: usize = 32;
/// How many values a file may have.
const MOST_VALUES: usize = 100_000;

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
    // A file checked out with CRLF must give the same bytes, so block texts may not keep the `\r`.
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let options = granit_parser::options! {
        strict_indentation: true,
        disallow_directives: true,
        emit_comments: false,
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        // The reader's own limit is lower and says where.
        flow_nesting_limit: 255,
        block_nesting_limit: 255,
    };
    let mut reader = Reader {
        events: Parser::new_from_str_with_options(&text, options),
        text: &text,
        values: 0,
    };
    reader.document().map_err(|fault| Diagnostic {
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
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    differs(tree, &text).map(|place| Diagnostic {
        path: path.to_owned(),
        line: place.line,
        column: place.column,
        message: "programs read this value in different ways".to_owned(),
        help: Some("put it in quotes if it is a text, else write it in the plainest form".to_owned()),
    })
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

/// Builds the tree out of the parser's events.
struct Reader<'t> {
    events: Parser<'t, granit_parser::StrInput<'t>>,
    text: &'t str,
    values: usize,
}

/// What stops the reading, and where.
struct Fault {
    place: Place,
    message: String,
    help: String,
}

impl Fault {
    fn new(place: Place, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            place,
            message: message.into(),
            help: help.into(),
        }
    }
}

impl<'t> Reader<'t> {
    fn document(&mut self) -> Result<Node, Fault> {
        let mut root = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(Fault::new(
                        place(span.start),
                        "a second document begins here, a spec is one",
                        "remove the `---`",
                    ));
                }
                Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
                event => root = Some(self.value(event, span, 1)?),
            }
        }
        // A file of comments alone has no value at all.
        Ok(root.unwrap_or(Node {
            place: Place { line: 1, column: 1 },
            kind: NodeKind::Scalar(Value::Null),
        }))
    }

    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Fault> {
        match self.events.next() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(syntax_fault(error.kind(), place(*error.marker()), self.text)),
        }
    }

    /// The value that an event begins.
    fn value(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Fault> {
        let here = place(span.start);
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(Fault::new(here, "too many values", "a file may have 100,000"));
        }
        if depth > DEEPEST {
            return Err(Fault::new(here, "nested too deeply", "32 levels are allowed"));
        }
        if let Some(tag) = span.tag_span() {
            let message = format!("a tag (`{}`) is not allowed", tag.slice(self.text).unwrap_or("!"));
            let help = "write the value alone; a text that begins with `!` needs quotes";
            return Err(Fault::new(place(tag.start), message, help));
        }
        if let Event::Scalar(_, _, 1.., _) | Event::SequenceStart(_, 1.., _) | Event::MappingStart(_, 1.., _) = event {
            // The parser says where an anchor stands after what it stands at.
            let at = self.next()?.map_or(here, |(_, span)| place(span.start));
            return Err(anchor(at));
        }
        let kind = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => NodeKind::Scalar(plain(&text, here)?),
            Event::Scalar(text, ..) => NodeKind::Scalar(Value::String(text.into_owned())),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                while let Some((event, span)) = self.next()? {
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    items.push(self.value(event, span, depth + 1)?);
                }
                NodeKind::List(items)
            }
            Event::MappingStart(..) => {
                let mut entries = Vec::new();
                while let Some((event, span)) = self.next()? {
                    if matches!(event, Event::MappingEnd) {
                        break;
                    }
                    entries.push(self.entry(event, span, depth + 1)?);
                }
                NodeKind::Map(entries)
            }
            Event::Alias(..) | Event::UnresolvedAlias(..) => return Err(alias(here, self.text)),
            // Whatever else comes belongs to no value; the parser does not send it here.
            _ => NodeKind::Scalar(Value::Null),
        };
        Ok(Node { place: here, kind })
    }

    fn entry(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Entry, Fault> {
        let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<");
        let written = match &event {
            Event::Scalar(text, ..) => Some(text.clone().into_owned()),
            _ => None,
        };
        let node = self.value(event, span, depth)?;
        let key = match (written, &node.kind) {
            (_, _) if is_merge => {
                let help = "write the keys out";
                return Err(Fault::new(node.place, "a merge key (`<<`) is not allowed", help));
            }
            (Some(key), NodeKind::Scalar(kind)) if !kind.is_null() => key,
            _ => return Err(Fault::new(node.place, "a key must be a text", "write `key: value`")),
        };
        let value = match self.next()? {
            Some((event, span)) => self.value(event, span, depth)?,
            None => Node {
                place: node.place,
                kind: NodeKind::Scalar(Value::Null),
            },
        };
        Ok(Entry {
            key,
            key_place: node.place,
            value,
        })
    }
}

/// A scalar without quotes: what JSON writes alike, and nothing, stand for themselves; all else is a text. So `no`,
/// `True`, `010` and `0x10` are texts, whatever a version of YAML may say of them.
fn plain(text: &str, here: Place) -> Result<Value, Fault> {
    Ok(match text {
        "" | "~" | "null" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if is_number(text) => match text.parse::<Number>() {
            Ok(number) => Value::Number(number),
            Err(_) => return Err(infinite(here)),
        },
        _ if matches!(
            text.trim_start_matches(['+', '-']).to_ascii_lowercase().as_str(),
            ".inf" | ".nan"
        ) =>
        {
            return Err(infinite(here));
        }
        _ => Value::String(text.to_owned()),
    })
}

fn infinite(here: Place) -> Fault {
    let help = "leave the key out when there is no limit; a text needs quotes";
    Fault::new(here, "a number must be finite", help)
}

/// The numbers of JSON.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (number, exponent) = text
        .split_once(['e', 'E'])
        .map_or((text, None), |(number, exponent)| (number, Some(exponent)));
    let (whole, fraction) = number
        .split_once('.')
        .map_or((number, None), |(whole, fraction)| (whole, Some(fraction)));
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// `*name`: most often a path pattern that somebody forgot to quote.
fn alias(here: Place, text: &str) -> Fault {
    let written = rest_of_line(text, here);
    let written = written.split([' ', ',', ']', '}']).next().unwrap_or_default();
    Fault::new(
        here,
        format!("`{written}` is read as an alias, which is not allowed"),
        format!("put a text in quotes: `'{written}'`; what an alias stands for is written out"),
    )
}

fn anchor(here: Place) -> Fault {
    let help = "remove it; a text that begins with `&` needs quotes";
    Fault::new(here, "an anchor (`&name`) is not allowed", help)
}

/// The parser's errors, in the words of people who write specs.
fn syntax_fault(kind: &ErrorKind, here: Place, text: &str) -> Fault {
    use ErrorKind as Kind;
    let line = line_at(text, here.line);
    let indentation = || {
        let help = "indent it with blanks like the keys or dashes that it stands beside";
        Fault::new(here, "the line does not fit the indentation of those above", help)
    };
    let (place, message, help) = match kind {
        Kind::MissingAnchorOrAliasName if rest_of_line(text, here).starts_with('&') => return anchor(here),
        Kind::MissingAnchorOrAliasName => return alias(here, text),
        Kind::ExpectedBlockSequenceEntry
        | Kind::ExpectedBlockMappingKey
        | Kind::ExpectedFlowSequenceSeparator
        | Kind::ExpectedFlowMappingSeparator
            if value_of(line).starts_with(['{', '[']) =>
        {
            (
                here,
                "text after a closing bracket",
                "a text that begins with `{` or `[` needs quotes: `'{agent}/x'`",
            )
        }
        Kind::ExpectedBlockSequenceEntry | Kind::ExpectedBlockMappingKey => return indentation(),
        Kind::SimpleKeyExpected => return keyless(here.line, line),
        Kind::MappingValueNotAllowed => {
            let before = here.line.saturating_sub(1);
            let above = line_at(text, before);
            let is_second = line
                .chars()
                .take(usize::try_from(here.column).unwrap_or(1) - 1)
                .any(|c| c == ':')
                || value_of(line).contains(": ");
            if is_second {
                let help = "a text with `: ` in it needs quotes";
                return Fault::new(here, "a second `: ` in one line", help);
            }
            if !above.trim().is_empty() && !above.contains(':') {
                return keyless(before, above);
            }
            return indentation();
        }
        Kind::InvalidQuotedScalarIndent | Kind::UnclosedQuotedScalar => (
            opener(text, here, &['\'', '"']),
            "a quote that is not closed",
            "end the text with the same quote",
        ),
        Kind::InvalidTrailingSingleQuotedScalar | Kind::InvalidTrailingDoubleQuotedScalar => (
            here,
            "text after a closing quote",
            "put the whole text in quotes; a `'` between single quotes is written twice",
        ),
        Kind::UnknownQuotedScalarEscape
        | Kind::InvalidQuotedScalarHexEscape
        | Kind::InvalidUnicodeEscape
        | Kind::InvalidLowSurrogate
        | Kind::InvalidLowSurrogateHexEscape
        | Kind::MissingLowSurrogate
        | Kind::UnpairedLowSurrogate => (
            here,
            "a `\\` that escapes nothing",
            "use single quotes, in which `\\` stands for itself",
        ),
        Kind::InvalidIndentation | Kind::UnclosedFlowCollection { .. } => (
            opener(text, here, &['[', '{']),
            "a bracket that is not closed",
            "close it, and indent the lines in it",
        ),
        Kind::MisplacedFlowCollectionEnd | Kind::MismatchedFlowCollectionEnd { .. } => (
            here,
            "a closing bracket without its partner",
            "remove it; a text that begins with a bracket needs quotes",
        ),
        Kind::UnexpectedCharacter { character } if character.is_control() => {
            let message = format!("the control character U+{:04X}", u32::from(*character));
            return Fault::new(here, message, "remove it");
        }
        Kind::UnexpectedCharacter { character } => {
            return Fault::new(
                here,
                format!("a text cannot begin with `{character}`"),
                "put it in quotes",
            );
        }
        Kind::TabNotAllowed
        | Kind::TabInBlockIndentation
        | Kind::TabInIndentation
        | Kind::TabInPlainScalar
        | Kind::TabAtBlockScalarStart => (here, "a tab where blanks are expected", "indent with blanks"),
        Kind::BlockSequenceEntryNotAllowed => (
            here,
            "a list cannot begin in the line of its key",
            "begin it in the next line, or write `[a, b]`",
        ),
        Kind::InvalidBlockScalarHeader => (
            here,
            "text in the line of `|` or `>`",
            "begin the text in the next line, or put it in quotes",
        ),
        Kind::DirectiveDisallowed => (here, "a directive (`%NAME`) is not allowed", "remove it"),
        Kind::RecursionLimitExceeded => (here, "nested too deeply", "32 levels are allowed"),
        other => {
            let message = format!("this is no YAML: {other}");
            return Fault::new(here, message, "look at the quotes, brackets and blanks of this line");
        }
    };
    Fault::new(place, message, help)
}

/// A line that should be a key with its value.
fn keyless(number: u64, line: &str) -> Fault {
    let written = line.trim();
    let column = (line.chars().count() - line.trim_start().chars().count()) as u64 + 1;
    let help = match written.split_once([' ', ':']) {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => format!("write `{key}: {}`", value.trim()),
        _ => "write `key: value`".to_owned(),
    };
    Fault::new(Place { line: number, column }, "a line without `: `", help)
}

/// Where the quote or bracket stands that is open at a place: the nearest value above that begins with one.
fn opener(text: &str, here: Place, marks: &[char]) -> Place {
    (1..=here.line)
        .rev()
        .find_map(|line| {
            let written = line_at(text, line);
            let value = value_of(written);
            value.starts_with(marks).then(|| Place {
                line,
                column: (written.chars().count() - value.chars().count()) as u64 + 1,
            })
        })
        .unwrap_or(here)
}

/// What stands on a line, from 1.
fn line_at(text: &str, line: u64) -> &str {
    let index = usize::try_from(line).unwrap_or_default().saturating_sub(1);
    text.lines().nth(index).unwrap_or_default()
}

fn rest_of_line(text: &str, here: Place) -> &str {
    let line = line_at(text, here.line);
    let column = usize::try_from(here.column).unwrap_or_default().saturating_sub(1);
    line.char_indices().nth(column).map_or("", |(at, _)| &line[at..])
}

/// What a line says after its dash or its key.
fn value_of(line: &str) -> &str {
    let line = line.trim_start();
    let line = line.strip_prefix('-').map_or(line, str::trim_start);
    line.split_once(": ").map_or(line, |(_, value)| value.trim_start())
}

fn place(marker: Marker) -> Place {
    Place {
        line: marker.line() as u64,
        column: marker.col() as u64 + 1,
    }
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
    fn windows_line_ends_give_the_same_tree() {
        let unix = parse("x", "a: |\n  one\n  two\nb: 1\n").unwrap();
        let windows = parse("x", "a: |\r\n  one\r\n  two\r\nb: 1\r\n").unwrap();
        assert_eq!(unix.to_value(), windows.to_value());
    }
}
