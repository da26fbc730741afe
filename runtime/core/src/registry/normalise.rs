//! What clients do to arguments on the way, undone.
//!
//! Answers for bringing a value into the form that its schema asks for, where there is just one way to read it, for
//! filling in defaults, and for remembering what was there before. Leaves out judging: what can't be mended stays as it
//! was, for the validator to refuse.
//!
//! Models and clients send arrays and objects as JSON strings, integers as `"5"` or `5.0`, and `null` for an optional
//! field. A value that is of the wanted type already is never touched, but for integral floats, which become integers
//! always: the schema accepts `5.0`, typed code does not.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::shape::{Extra, Fields, Kind, Need, Null, Shape};

/// Arguments that a client adds to every call on its own: Gemini CLI does.
const CLIENT_KEY: &str = "wait_for_previous";

/// 2^63, the first float that is no 64-bit integer. Its negative is one.
const BEYOND: f64 = 9_223_372_036_854_775_808.0;

/// Everything that [`normalise`] did to a value: enough to undo it.
///
/// Undoing on demand is cheaper than a copy of the value up front: a call is admitted always and audited rarely.
#[derive(Debug, Default)]
pub struct Changes {
    /// The positions that lead to each entry's place, one after the other.
    steps: Vec<usize>,
    entries: Vec<Entry>,
    integers: Integers,
}

/// Whether every integer of the value fits 64 bits. The validator does not ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Integers {
    #[default]
    Fit,
    TooWide,
}

#[derive(Debug)]
struct Entry {
    /// Where the entry's part of `steps` starts; it ends where the next one starts.
    start: usize,
    undo: Undo,
}

#[derive(Debug)]
enum Undo {
    /// The place held this.
    Was(Value),
    /// The object there got a new last key.
    Added,
    /// The object there lost a key.
    Removed { position: usize, key: String, value: Value },
}

impl Changes {
    /// Whether the value was left as it was.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn integers(&self) -> Integers {
        self.integers
    }

    /// Brings back the value as it was, key order included.
    pub fn undo(&self, value: &mut Value) {
        let mut end = self.steps.len();
        for entry in self.entries.iter().rev() {
            let Some(target) = at(value, &self.steps[entry.start..end]) else {
                continue;
            };
            end = entry.start;
            match (&entry.undo, target) {
                (Undo::Was(was), target) => target.clone_from(was),
                (Undo::Added, Value::Object(map)) => {
                    if let Some(key) = map.keys().next_back().cloned() {
                        map.shift_remove(&key);
                    }
                }
                (Undo::Removed { position, key, value }, Value::Object(map)) => {
                    map.shift_insert(*position, key.clone(), value.clone());
                }
                // Entries are written beside the change they undo, so an object is where one was.
                (Undo::Added | Undo::Removed { .. }, _) => {}
            }
        }
    }

    /// Gives the root a key that it does not have.
    pub(super) fn add_at_root(&mut self, root: &mut Map<String, Value>, key: &str, value: Value) {
        root.insert(key.to_owned(), value);
        self.note(&[], Undo::Added);
    }

    /// Puts another value in the place of the whole.
    pub(super) fn replace_root(&mut self, value: &mut Value, by: Value) {
        let was = std::mem::replace(value, by);
        self.note(&[], Undo::Was(was));
    }

    fn note(&mut self, place: &[usize], undo: Undo) {
        self.entries.push(Entry {
            start: self.steps.len(),
            undo,
        });
        self.steps.extend_from_slice(place);
    }
}

/// Brings `value` into the form that `shape` asks for, and fills in the defaults of optional properties in every object
/// that is present. Idempotent. Cost: one walk over what the shape describes; content of free objects is not visited.
pub fn normalise(shape: &Shape, value: &mut Value) -> Changes {
    let mut walker = Walker::default();
    walker.value(shape, value);
    walker.changes
}

/// Like [`normalise`] for the arguments of a call: drops what clients add on their own.
pub(super) fn arguments(shape: &Shape, value: &mut Value) -> Changes {
    let mut walker = Walker::default();
    if let (Kind::Object(fields), Value::Object(map)) = (&shape.kind, &mut *value)
        && fields.get(CLIENT_KEY).is_none()
        && matches!(map.get(CLIENT_KEY), Some(Value::Bool(_)))
    {
        walker.remove(map, CLIENT_KEY);
    }
    walker.value(shape, value);
    walker.changes
}

/// Reads a JSON text. Unlike serde_json it refuses an object that has a key twice: two readers could see two values.
pub(super) fn parse_strictly(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Strict>(text).map(|strict| strict.0)
}

#[derive(Default)]
struct Walker {
    changes: Changes,
    place: Vec<usize>,
    /// Above zero while inside a value that was replaced as a whole: undoing that undoes everything below.
    replaced: usize,
}

impl Walker {
    fn value(&mut self, shape: &Shape, value: &mut Value) {
        if let Value::String(text) = value {
            if let Some(parsed) = read(&shape.kind, text) {
                self.replace(value, parsed);
                self.replaced += 1;
                self.value(shape, value);
                self.replaced -= 1;
            }
            return;
        }
        match (&shape.kind, &mut *value) {
            (Kind::Integer(_), Value::Number(number)) => match integer(number) {
                Integer::Fits => {}
                Integer::Is(whole) => self.replace(value, whole.into()),
                Integer::TooWide => self.changes.integers = Integers::TooWide,
            },
            (Kind::Array(items), Value::Array(values)) => {
                for (position, value) in values.iter_mut().enumerate() {
                    self.below(position, &items.shape, value);
                }
            }
            (Kind::Object(fields), Value::Object(map)) => self.object(fields, map),
            _ => {}
        }
    }

    fn object(&mut self, fields: &Fields, map: &mut Map<String, Value>) {
        // One bit for each of the first properties that is present; more properties are looked up.
        let mut seen = 0_u64;
        let mut nulls: Vec<&str> = Vec::new();
        for (position, (key, value)) in map.iter_mut().enumerate() {
            let known = fields
                .properties
                .iter()
                .enumerate()
                .find(|(_, property)| property.name == *key);
            if let Some((index, property)) = known {
                if value.is_null()
                    && property.need == Need::Optional
                    && !matches!(property.shape.kind, Kind::Foreign(Null::Perhaps))
                {
                    nulls.push(&property.name);
                    continue;
                }
                seen |= bit(index);
                self.below(position, &property.shape, value);
            } else if let Extra::Each(shape) = &fields.extra {
                self.below(position, shape, value);
            }
        }
        for key in nulls {
            self.remove(map, key);
        }
        for (index, property) in fields.properties.iter().enumerate() {
            if property.need == Need::Optional
                && let Some(default) = &property.shape.default
                && seen & bit(index) == 0
                && (index < 64 || !map.contains_key(&property.name))
            {
                let mut default = default.clone();
                self.replaced += 1;
                self.value(&property.shape, &mut default);
                self.replaced -= 1;
                self.add(map, &property.name, default);
            }
        }
    }

    fn below(&mut self, position: usize, shape: &Shape, value: &mut Value) {
        if matches!(shape.kind, Kind::String(_) | Kind::Boolean) && !value.is_string() {
            return;
        }
        self.place.push(position);
        self.value(shape, value);
        self.place.pop();
    }

    fn replace(&mut self, value: &mut Value, by: Value) {
        let was = std::mem::replace(value, by);
        if self.replaced == 0 {
            self.changes.note(&self.place, Undo::Was(was));
        }
    }

    fn add(&mut self, map: &mut Map<String, Value>, key: &str, value: Value) {
        map.insert(key.to_owned(), value);
        if self.replaced == 0 {
            self.changes.note(&self.place, Undo::Added);
        }
    }

    fn remove(&mut self, map: &mut Map<String, Value>, key: &str) {
        let Some(position) = map.keys().position(|name| name == key) else {
            return;
        };
        if let Some((key, value)) = map.shift_remove_entry(key)
            && self.replaced == 0
        {
            let undo = Undo::Removed { position, key, value };
            self.changes.note(&self.place, undo);
        }
    }
}

fn bit(index: usize) -> u64 {
    if index < 64 { 1 << index } else { 0 }
}

/// The value in a JSON string, when the schema wants no string and the text holds what it wants.
fn read(kind: &Kind, text: &str) -> Option<Value> {
    // A look at the first character spares parsing every text that can't be meant.
    let first = *text.trim_ascii_start().as_bytes().first()?;
    let may_be = match kind {
        Kind::String(_) | Kind::Foreign(_) => false,
        Kind::Integer(_) | Kind::Number(_) => first == b'-' || first.is_ascii_digit(),
        Kind::Boolean => matches!(first, b't' | b'f'),
        Kind::Array(_) => first == b'[',
        Kind::Object(_) => first == b'{',
    };
    if !may_be {
        return None;
    }
    parse_strictly(text).ok().filter(|value| match (kind, value) {
        (Kind::Integer(_), Value::Number(number)) => !matches!(number.as_f64(), Some(float) if float.fract() != 0.0),
        (Kind::Number(_), Value::Number(_))
        | (Kind::Boolean, Value::Bool(_))
        | (Kind::Array(_), Value::Array(_))
        | (Kind::Object(_), Value::Object(_)) => true,
        _ => false,
    })
}

/// What a number is where an integer is wanted.
pub(super) enum Integer {
    /// A 64-bit integer, or no whole number at all, which the validator refuses.
    Fits,
    /// A whole number written as a float.
    Is(i64),
    /// A whole number beyond 64 bits.
    TooWide,
}

pub(super) fn integer(number: &Number) -> Integer {
    if number.is_i64() {
        return Integer::Fits;
    }
    if number.is_u64() {
        return Integer::TooWide;
    }
    match number.as_f64() {
        Some(float) if float.fract() == 0.0 => {
            if (-BEYOND..BEYOND).contains(&float) {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the range was checked: the cast is exact"
                )]
                let whole = float as i64;
                Integer::Is(whole)
            } else {
                Integer::TooWide
            }
        }
        _ => Integer::Fits,
    }
}

fn at<'v>(value: &'v mut Value, steps: &[usize]) -> Option<&'v mut Value> {
    steps.iter().try_fold(value, |value, &position| match value {
        Value::Array(items) => items.get_mut(position),
        Value::Object(map) => map.values_mut().nth(position),
        _ => None,
    })
}

/// A [`Value`] read without duplicate keys.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key `{key}` stands twice")));
            }
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(schema: &Value, value: impl Into<Value>) -> Value {
        let value = value.into();
        let shape = Shape::compile(schema).unwrap();
        let mut now = value.clone();
        let changes = normalise(&shape, &mut now);
        let mut again = now.clone();
        assert!(normalise(&shape, &mut again).is_empty(), "not idempotent on {value}");
        // Texts tell more than values: key order, and `5` from `5.0`.
        let (text, sent) = (now.to_string(), value.to_string());
        assert_eq!(changes.is_empty(), text == sent);
        let mut back = now.clone();
        changes.undo(&mut back);
        assert_eq!(back.to_string(), sent, "undone from {now}");
        now
    }

    #[test]
    fn whole_numbers_become_integers_however_they_are_written() {
        let schema = json!({"type": "integer"});
        for written in [
            json!(5),
            json!(5.0),
            json!("5"),
            json!("5.0"),
            json!(" 5 "),
            json!("0.5e1"),
        ] {
            assert_eq!(after(&schema, written), json!(5));
        }
        assert_eq!(after(&schema, json!(1e3)).to_string(), "1000");
        assert_eq!(after(&schema, json!(-0.0)).to_string(), "0");
        assert_eq!(after(&schema, json!(-9.223_372_036_854_776e18)), json!(i64::MIN));
    }

    #[test]
    fn what_is_no_integer_stays() {
        let schema = json!({"type": "integer"});
        for other in [
            json!("five"),
            json!("5.5"),
            json!(5.5),
            json!("05"),
            json!(""),
            json!("5 6"),
            json!(true),
            json!(null),
            json!([5]),
            json!(1e300),
            json!(u64::MAX),
            json!(9.223_372_036_854_776e18),
        ] {
            assert_eq!(after(&schema, other.clone()), other);
        }
    }

    #[test]
    fn a_string_is_never_parsed_where_a_string_is_wanted() {
        let schema = json!({"type": "object", "properties": {"s": {"type": "string"}}});
        for text in ["5", "[1]", "{\"a\":1}", "null", "true"] {
            assert_eq!(after(&schema, json!({"s": text})), json!({"s": text}));
        }
    }

    #[test]
    fn free_objects_are_not_visited() {
        let schema = json!({"type": "object", "properties": {"free": {"type": "object"}}});
        let value = json!({"free": {"a": null, "b": "5", "c": 5.0}});
        assert_eq!(after(&schema, value.clone()).to_string(), value.to_string());
    }

    #[test]
    fn json_in_strings_is_read_at_every_depth() {
        let schema = json!({"type": "object", "properties": {
            "rows": {"type": "array", "items": {"type": "object", "properties": {
                "n": {"type": "integer"}, "on": {"type": "boolean"}, "x": {"type": "number", "default": 1}}}},
            "map": {"type": "object", "additionalProperties": {"type": "number"}},
        }});
        let inner = r#"{"n":"7","on":"true","x":null}"#;
        let value = json!({"rows": json!([inner, {"n": 1.0}]).to_string(), "map": "{\"a\":\"1.5\"}"});
        assert_eq!(
            after(&schema, value),
            json!({"rows": [{"n": 7, "on": true, "x": 1}, {"n": 1, "x": 1}], "map": {"a": 1.5}})
        );
    }

    #[test]
    fn a_key_that_stands_twice_keeps_the_text_a_text() {
        let schema = json!({"type": "object", "properties": {"free": {"type": "object"}}});
        let value = json!({"free": r#"{"a": {"b": 1, "b": 2}}"#});
        assert_eq!(after(&schema, value.clone()), value);
        // Written in two ways it is the same key.
        assert!(
            parse_strictly(r#"{"a":1,"\u0061":2}"#)
                .unwrap_err()
                .to_string()
                .contains("`a` stands twice")
        );
    }

    #[test]
    fn null_is_absence_for_an_optional_property_alone() {
        let schema = json!({"type": "object", "required": ["r"], "properties": {
            "o": {"type": "string"}, "r": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": {"type": "string"}});
        let value = json!({"o": null, "r": null, "l": [null], "other": null});
        assert_eq!(after(&schema, value), json!({"r": null, "l": [null], "other": null}));
    }

    #[test]
    fn defaults_are_filled_in_where_their_object_is() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"n": {"type": "integer", "default": 1.0}}},
            "b": {"type": "object", "default": {}, "properties": {"n": {"type": "integer", "default": 2}}},
            "c": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 3}}}},
            "d": {"type": "string", "default": "x"},
        }, "required": ["d"]});
        assert_eq!(
            after(&schema, json!({})),
            json!({"b": {"n": 2}}),
            "a required property gets none"
        );
        assert_eq!(
            after(&schema, json!({"a": {}, "c": [{}, {"n": 9}], "d": "y"})).to_string(),
            r#"{"a":{"n":1},"c":[{"n":3},{"n":9}],"d":"y","b":{"n":2}}"#
        );
    }

    #[test]
    fn a_text_nested_beyond_reason_stays_a_text() {
        let schema = json!({"type": "object", "properties": {"free": {"type": "object"}}});
        let value = json!({"free": format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000))});
        assert_eq!(after(&schema, value.clone()), value);
    }
}
