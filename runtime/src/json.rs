//! JSON as it came over the wire: parsed once, with duplicate keys found on the way, the id of a frame that does not parse
//! at all, and what a value is in words.
//!
//! Answers for [`parse`], [`IdScanner`] and [`kind`]. Leaves out what a frame means: that is `framing`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A parsed text.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The value; where a key came twice, the last one is kept.
    pub(crate) value: Value,
    /// The first key that came twice in one object.
    pub(crate) duplicate: Option<Duplicate>,
}

/// A key that came twice in one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Duplicate {
    /// The key.
    pub(crate) key: String,
    /// The object that has it, as a bracket path; empty for the text's root.
    pub(crate) place: String,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, place } = self;
        let place = if place.is_empty() {
            "the outermost object"
        } else {
            place
        };
        write!(f, "duplicate key {key:?} in {place}: every key may be given once")
    }
}

/// Parses one JSON text, in one pass.
///
/// # Errors
/// When the text is not JSON: syntax, invalid UTF-8, a lone surrogate, more than 128 levels.
pub(crate) fn parse(text: &[u8]) -> Result<Parsed, serde_json::Error> {
    // What comes over a wire may have any number of them, and the place of each is as long as its keys are.
    let (value, duplicates) = parse_finding(text, 1)?;
    Ok(Parsed {
        value,
        duplicate: duplicates.into_iter().next(),
    })
}

/// The same, with as many duplicate keys as `most`, for a file that somebody is to mend.
///
/// # Errors
/// As [`parse`].
pub(crate) fn parse_finding(text: &[u8], most: usize) -> Result<(Value, Vec<Duplicate>), serde_json::Error> {
    let mut found = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Checked {
        found: &mut found,
        most,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, found.into_iter().map(Found::into_duplicate).collect()))
}

/// A duplicate on its way up: every level that it passes adds its own step.
struct Found {
    key: String,
    steps: Vec<Step>,
}

enum Step {
    Key(String),
    Index(usize),
}

impl Found {
    fn into_duplicate(self) -> Duplicate {
        use fmt::Write as _;

        let mut place = String::new();
        for step in self.steps.iter().rev() {
            match step {
                Step::Key(key) if place.is_empty() => place.push_str(key),
                Step::Key(key) => {
                    place.push('.');
                    place.push_str(key);
                }
                Step::Index(index) => {
                    let _ = write!(place, "[{index}]");
                }
            }
        }
        Duplicate { key: self.key, place }
    }
}

/// Builds a [`Value`] and reports the first duplicate keys.
struct Checked<'a> {
    found: &'a mut Vec<Found>,
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Checked<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Checked<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Self { found, most } = self;
        let mut array = Vec::new();
        loop {
            let known = found.len();
            let Some(item) = items.next_element_seed(Checked { found, most })? else {
                return Ok(Value::Array(array));
            };
            for found in &mut found[known..] {
                found.steps.push(Step::Index(array.len()));
            }
            array.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let Self { found, most } = self;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let known = found.len();
            let value = entries.next_value_seed(Checked { found, most })?;
            for found in &mut found[known..] {
                found.steps.push(Step::Key(key.clone()));
            }
            match object.entry(key) {
                serde_json::map::Entry::Vacant(slot) => {
                    slot.insert(value);
                }
                serde_json::map::Entry::Occupied(mut slot) => {
                    if found.len() < most {
                        found.push(Found {
                            key: slot.key().clone(),
                            steps: Vec::new(),
                        });
                    }
                    slot.insert(value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

/// An id longer than this is not echoed.
const ID_LIMIT: usize = 256;

/// Finds the `id` of a JSON-RPC frame that cannot be parsed, byte by byte and in constant memory: the frame may be
/// broken, cut, or too long to keep. Some clients write the id last, so the whole line is looked at.
///
/// It reads only as much structure as it needs: strings, and the depth of objects and arrays. In a broken frame its
/// answer is a guess; a frame that parses never gets here.
#[derive(Debug, Default)]
pub(crate) struct IdScanner {
    depth: usize,
    /// The string being read, if any.
    string: Option<InString>,
    at: At,
    captured: Vec<u8>,
    id: Option<Value>,
}

#[derive(Clone, Copy, Debug)]
enum InString {
    /// Its bytes do not matter.
    Skipped(Escape),
    /// A key or an id, kept with its quotes.
    Kept(Escape),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    No,
    Yes,
}

/// Where in the frame's own object the scanner stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// Before `{`.
    #[default]
    Start,
    /// Before a key.
    Key,
    /// After the key `id`, before its value.
    IdColon,
    /// At the value of `id`.
    IdValue,
    /// In an id that is a number.
    IdNumber,
    /// At what does not matter, up to the next comma.
    Other,
    /// The frame is no object.
    Nowhere,
}

impl IdScanner {
    /// Looks at the next bytes of the frame.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    /// The id, once the frame has ended: a string or a number, else `Null`.
    pub(crate) fn finish(mut self) -> Value {
        if self.at == At::IdNumber {
            self.keep_id();
        }
        self.id.unwrap_or(Value::Null)
    }

    fn step(&mut self, byte: u8) {
        if let Some(string) = self.string.take() {
            return self.step_in_string(string, byte);
        }
        if self.at == At::IdNumber {
            if matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E') {
                return self.capture(byte);
            }
            self.keep_id();
            self.at = At::Other;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'"' => {
                let kept = self.depth == 1 && matches!(self.at, At::Key | At::IdValue);
                self.captured.clear();
                self.string = Some(if kept {
                    self.captured.push(byte);
                    InString::Kept(Escape::No)
                } else {
                    InString::Skipped(Escape::No)
                });
            }
            b'{' | b'[' => {
                match (self.at, byte) {
                    (At::Start, b'{') => self.at = At::Key,
                    (At::Start, _) => self.at = At::Nowhere,
                    (At::IdValue | At::IdColon, _) => self.at = At::Other,
                    _ => {}
                }
                self.depth += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' if self.depth == 1 && self.at != At::Nowhere => self.at = At::Key,
            b':' if self.at == At::IdColon => self.at = At::IdValue,
            b'-' | b'0'..=b'9' if self.at == At::IdValue => {
                self.captured.clear();
                self.captured.push(byte);
                self.at = At::IdNumber;
            }
            _ if self.at == At::Start => self.at = At::Nowhere,
            _ => {}
        }
    }

    fn step_in_string(&mut self, string: InString, byte: u8) {
        let next = |escape| match (escape, byte) {
            (Escape::No, b'\\') => Some(Escape::Yes),
            (Escape::No, b'"') => None,
            _ => Some(Escape::No),
        };
        match string {
            InString::Skipped(escape) => self.string = next(escape).map(InString::Skipped),
            InString::Kept(escape) => {
                self.capture(byte);
                self.string = next(escape).map(InString::Kept);
                if self.string.is_none() {
                    self.end_of_kept();
                }
            }
        }
    }

    fn end_of_kept(&mut self) {
        if self.at == At::IdValue {
            self.keep_id();
            self.at = At::Other;
        } else if self.captured == b"\"id\"" {
            self.at = At::IdColon;
        } else {
            self.at = At::Other;
        }
    }

    fn capture(&mut self, byte: u8) {
        if self.captured.len() <= ID_LIMIT {
            self.captured.push(byte);
        }
    }

    /// What was captured becomes the id; of several, the last one counts, as it does for most parsers.
    fn keep_id(&mut self) {
        if let Ok(id @ (Value::Number(_) | Value::String(_))) = serde_json::from_slice(&self.captured) {
            self.id = Some(id);
        }
    }
}

/// The type of a value, in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn id_of(frame: &[u8]) -> Value {
        let mut scanner = IdScanner::default();
        scanner.feed(frame);
        scanner.finish()
    }

    #[test]
    fn the_id_of_a_broken_frame_is_found_wherever_it_stands() {
        for (frame, id) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"\ud800"}}"#,
                json!(7),
            ),
            (
                r#"{"method":"x","params":{"id":1,"a":[{"id":2}]},"jsonrpc":"2.0","id":"last"}"#,
                json!("last"),
            ),
            (r#"{"id": -3 ,"params":{"#, json!(-3)),
            (r#"{"id":12"#, json!(12)),
            (r#"{ "id" : "a\"b,{" , nonsense"#, json!("a\"b,{")),
            (r#"{"params":"\"id\":5","id":6}"#, json!(6)),
            (r#"{"id":{"id":5}}"#, Value::Null),
            (r#"{"id":null}"#, Value::Null),
            (r#"[{"id":1}]"#, Value::Null),
            (r#"hello {"id":1}"#, Value::Null),
            ("", Value::Null),
        ] {
            assert_eq!(id_of(frame.as_bytes()), id, "{frame}");
        }
    }

    #[test]
    fn an_overlong_id_is_not_kept() {
        assert_eq!(
            id_of(format!(r#"{{"id":"{}"}}"#, "x".repeat(5000)).as_bytes()),
            Value::Null
        );
    }

    #[test]
    fn a_duplicate_key_is_named_with_its_place() {
        for (text, key, place) in [
            (r#"{"a":1,"a":2}"#, "a", ""),
            (r#"{"p":{"list":[{},{"x":{"k":1,"k":2}}]}}"#, "k", "p.list[1].x"),
            (r#"[[{"k":1,"\u006b":2}]]"#, "k", "[0][0]"),
            (r#"{"a":{"b":1,"b":2},"a":1}"#, "b", "a"),
        ] {
            let parsed = parse(text.as_bytes()).unwrap();
            let expected = Duplicate {
                key: key.into(),
                place: place.into(),
            };
            assert_eq!(parsed.duplicate, Some(expected), "{text}");
        }
        assert_eq!(parse(br#"{"a":{"b":1},"b":{"a":1}}"#).unwrap().duplicate, None);
        let text = br#"{"a":{"b":1,"b":[{"c":1,"c":2,"c":3}]},"a":1}"#;
        let found = |most: usize| -> Vec<String> {
            let (_, found) = parse_finding(text, most).unwrap();
            found
                .iter()
                .map(|found| format!("{} {}", found.place, found.key))
                .collect()
        };
        assert_eq!(found(9), ["a.b[0] c", "a.b[0] c", "a b", " a"]);
        assert_eq!(found(2), ["a.b[0] c", "a.b[0] c"]);
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        for text in [
            &b"{\"a\":\"\xff\"}"[..],
            br#"{"a":"\ud800"}"#,
            br#"{"a":"\udc00\ud800"}"#,
            b"{} {}",
            b"NaN",
            &b"[".repeat(1000),
        ] {
            assert!(parse(text).is_err(), "{}", String::from_utf8_lossy(text));
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
                proptest::collection::vec(("[a-c]{0,2}", inner), 0..5)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn parsing_agrees_with_serde_json(value in value()) {
            let text = serde_json::to_vec(&value).unwrap();
            let parsed = parse(&text).unwrap();
            prop_assert_eq!(&parsed.value, &serde_json::from_slice::<Value>(&text).unwrap());
            prop_assert_eq!(parsed.duplicate, None);
        }

        #[test]
        fn the_scanner_agrees_with_the_parser(
            mut frame in value().prop_filter_map("an object", |value| match value {
                Value::Object(map) => Some(map),
                _ => None,
            }),
            id in prop_oneof![any::<i64>().prop_map(Value::from), ".{0,12}".prop_map(Value::from)],
            cut in any::<prop::sample::Index>(),
        ) {
            frame.insert("id".into(), id.clone());
            let text = serde_json::to_vec(&frame).unwrap();
            prop_assert_eq!(id_of(&text), id);
            // However the bytes are cut into pieces, and whatever is missing, it never panics.
            let cut = cut.index(text.len());
            let mut scanner = IdScanner::default();
            scanner.feed(&text[..cut]);
            scanner.feed(&text[cut..]);
            prop_assert_eq!(scanner.finish(), id_of(&text));
            id_of(&text[cut..]);
        }
    }
}
