//! Values made from schemas, for property tests.
//!
//! Answers for strategies over the portable subset: schemas, valid values of one, values with exactly one thing broken,
//! and valid values as clients mangle them. Reads the schema itself, not the shape, so that a test of the shape can
//! fail. Leaves out schemas outside the subset, and patterns that can't be generated from (alternatives with anchors of
//! their own).
//!
//! # Panics
//! All functions panic on a schema outside the subset: a test has nothing better to do.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use proptest::strategy::Union;
use proptest::string::string_regex;
use serde_json::{Map, Value, json};

use super::shape::options;

/// A value that breaks its schema in one place.
#[derive(Clone, Debug)]
pub struct Broken {
    /// The value.
    pub value: Value,
    /// The keyword that it breaks; `int64` for an integer beyond 64 bits, which JSON Schema has no keyword for.
    pub keyword: &'static str,
    /// JSON Pointer of the object, array or scalar that was changed.
    pub pointer: String,
}

/// A closed object schema of the portable subset, nested up to three levels.
pub fn schema() -> BoxedStrategy<Value> {
    object_schema(3)
}

/// A valid value of the schema, also once its defaults are filled in. Optional properties come and go, integers are
/// sometimes written as floats.
pub fn valid(schema: &Value) -> BoxedStrategy<Value> {
    match kind(schema) {
        "string" => string(schema),
        "integer" => integer(schema),
        "number" => number(schema),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "array" => array(schema),
        "object" => object(schema),
        other => panic!("type `{other}` is outside the subset"),
    }
}

/// A valid value with one thing broken that no normalising may mend. The root stays an object.
pub fn invalid(schema: &Value) -> BoxedStrategy<Broken> {
    let schema = schema.clone();
    (valid(&schema), any::<Index>())
        .prop_filter_map("the value has nothing to break", move |(value, choice)| {
            let mut sites = Vec::new();
            breaks(&schema, &value, "", &mut sites);
            if sites.is_empty() {
                return None;
            }
            let (pointer, keyword, by) = sites.swap_remove(choice.index(sites.len()));
            let mut value = value;
            *value.pointer_mut(&pointer)? = by;
            Some(Broken {
                value,
                keyword,
                pointer,
            })
        })
        .boxed()
}

/// A valid value, and the same as a client might send it: arrays, objects and scalars as JSON strings, integers as
/// floats, `null` for absent optional properties, and a key of the client's own at the root.
pub fn mangled(schema: &Value) -> BoxedStrategy<(Value, Value)> {
    let schema = schema.clone();
    (valid(&schema), vec(any::<u8>(), 1..64))
        .prop_map(move |(value, choices)| {
            let mut choices = choices.into_iter().cycle();
            let mut sent = mangle_inside(&schema, &value, &mut choices);
            if choices.next().is_some_and(|choice| choice % 2 == 1)
                && let Value::Object(map) = &mut sent
                && schema["properties"].get("wait_for_previous").is_none()
            {
                map.insert("wait_for_previous".to_owned(), true.into());
            }
            (value, sent)
        })
        .boxed()
}

/// What building a valid value must give, worked out from the schema alone: whole floats as integers, and the defaults
/// of optional properties in every object that is present.
pub fn settled(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Number(number) if kind(schema) == "integer" => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "floats that stand for integers are small here"
            )]
            let whole = number
                .as_i64()
                .unwrap_or_else(|| number.as_f64().map_or(0, |float| float as i64));
            whole.into()
        }
        Value::Array(items) => items.iter().map(|item| settled(&schema["items"], item)).collect(),
        Value::Object(map) => {
            let mut now = Map::new();
            for (key, value) in map {
                let inner = schema["properties"]
                    .get(key)
                    .or_else(|| schema.get("additionalProperties"));
                now.insert(
                    key.clone(),
                    inner.map_or_else(|| value.clone(), |inner| settled(inner, value)),
                );
            }
            for (key, property) in schema["properties"].as_object().into_iter().flatten() {
                if let Some(default) = property.get("default")
                    && !is_required(schema, key)
                    && !now.contains_key(key)
                {
                    now.insert(key.clone(), settled(property, default));
                }
            }
            now.into()
        }
        scalar => scalar.clone(),
    }
}

fn kind(schema: &Value) -> &str {
    schema["type"].as_str().expect("a schema of the subset has one type")
}

fn object_schema(depth: u32) -> BoxedStrategy<Value> {
    // Some names are schema keywords on purpose, and one is the key that a client adds.
    let names = [
        "a",
        "b_2",
        "id",
        "items",
        "type",
        "properties",
        "required",
        "default",
        "wait_for_previous",
    ];
    subsequence(names.to_vec(), 0..=4)
        .prop_flat_map(move |names| {
            let properties: Vec<_> = names
                .into_iter()
                .map(|name| (Just(name), property(depth - 1)))
                .collect();
            properties
        })
        .prop_map(|properties| {
            let required: Vec<&str> = properties
                .iter()
                .filter(|(_, (_, needed))| *needed)
                .map(|(name, _)| *name)
                .collect();
            let required = json!(required);
            let properties: Map<String, Value> = properties
                .into_iter()
                .map(|(name, (schema, _))| (name.to_owned(), schema))
                .collect();
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
        })
        .boxed()
}

/// A schema, sometimes with a default, and whether the property is required.
fn property(depth: u32) -> BoxedStrategy<(Value, bool)> {
    node(depth)
        .prop_flat_map(|schema| {
            let default = option::of(valid(&schema));
            (Just(schema), default, any::<bool>())
        })
        .prop_map(|(mut schema, default, required)| {
            if let Some(default) = default {
                schema["default"] = default;
            }
            (schema, required)
        })
        .boxed()
}

fn node(depth: u32) -> BoxedStrategy<Value> {
    let mut kinds = vec![
        string_schema(),
        bounded_schema("integer", "minimum", "maximum"),
        bounded_schema("number", "minimum", "maximum"),
        Just(json!({"type": "boolean", "description": "On or off."})).boxed(),
    ];
    if depth > 0 {
        kinds.push(array_schema(depth));
        kinds.push(object_schema(depth));
        kinds.push(Just(json!({"type": "object"})).boxed());
        let entries = node(0).prop_map(|each| json!({"type": "object", "additionalProperties": each}));
        kinds.push(entries.boxed());
    }
    Union::new(kinds).boxed()
}

fn string_schema() -> BoxedStrategy<Value> {
    let patterns = vec![
        r"^step-\d{3}$",
        r"^\w+$",
        r"^[\w-]{1,9}$",
        r"^[^/\s]+$",
        r"\d",
        r"^(a|b)c*",
    ];
    prop_oneof![
        Just(json!({"type": "string"})),
        (0_u64..4, option::of(0_u64..4)).prop_map(|(min, more)| {
            let mut schema = json!({"type": "string", "minLength": min});
            if let Some(more) = more {
                schema["maxLength"] = json!(min + more);
            }
            schema
        }),
        select(patterns).prop_map(|pattern| json!({"type": "string", "pattern": pattern})),
        subsequence(vec!["pending", "5", "null", "[1]", "", "é"], 1..=6)
            .prop_map(|words| json!({"type": "string", "enum": words})),
    ]
    .boxed()
}

fn bounded_schema(kind: &'static str, low: &'static str, high: &'static str) -> BoxedStrategy<Value> {
    (option::of(-50_i64..50), option::of(0_i64..50))
        .prop_map(move |(min, more)| {
            let mut schema = json!({"type": kind});
            if let Some(min) = min {
                schema[low] = json!(min);
            }
            if let Some(more) = more {
                schema[high] = json!(min.unwrap_or(0) + more);
            }
            schema
        })
        .boxed()
}

fn array_schema(depth: u32) -> BoxedStrategy<Value> {
    (node(depth - 1), 0_u64..2, option::of(0_u64..3), any::<bool>())
        .prop_map(|(items, min, more, unique)| {
            let mut schema = json!({"type": "array", "items": items, "minItems": min, "uniqueItems": unique});
            if let Some(more) = more {
                schema["maxItems"] = json!(min + more);
            }
            schema
        })
        .boxed()
}

fn string(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(words) = schema["enum"].as_array() {
        return select(words.clone()).boxed();
    }
    let min = usize::try_from(schema["minLength"].as_u64().unwrap_or(0)).expect("a short string");
    let max = schema["maxLength"]
        .as_u64()
        .map(|max| usize::try_from(max).expect("a short string"));
    let texts = if let Some(pattern) = schema["pattern"].as_str() {
        let is_free = min > 1 && !pattern.starts_with('^') && !pattern.ends_with('$');
        let pattern = generable(pattern);
        let fitting = string_regex(&pattern).expect("the pattern can be generated from");
        if is_free {
            // What fits may stand anywhere in a text, which has to be longer than that.
            let before = plain_text(min - 1, min + 6);
            (before, fitting)
                .prop_map(|(before, fitting)| before + &fitting)
                .boxed()
        } else {
            fitting.boxed()
        }
    } else {
        plain_text(min, max.unwrap_or(min + 6))
    };
    let validator = options().build(schema).expect("the schema is valid");
    texts
        .prop_map(Value::from)
        .prop_filter("length or pattern", move |text| validator.is_valid(text))
        .boxed()
}

/// Texts of `min..=max` characters, some of which look like JSON.
fn plain_text(min: usize, max: usize) -> BoxedStrategy<String> {
    // Characters of one to four bytes, and those that JSON escapes.
    let chars = "aZ5 ./~\"\\{[\n\0é€😀".chars().collect::<Vec<_>>();
    let any_text = vec(select(chars), min..=max).prop_map(String::from_iter);
    let like_json = ["5", "5.0", "true", "null", "[1]", "[]", "{}", "{\"a\":1}", "\"x\""];
    let fitting: Vec<&str> = like_json
        .into_iter()
        .filter(|text| (min..=max).contains(&text.len()))
        .collect();
    if fitting.is_empty() {
        return any_text.boxed();
    }
    prop_oneof![3 => any_text, 1 => select(fitting).prop_map(str::to_owned)].boxed()
}

/// A pattern without anchors and with ASCII classes, as the generator wants it.
fn generable(pattern: &str) -> String {
    let mut text = String::new();
    let mut in_class = false;
    let mut chars = pattern.trim_start_matches('^').trim_end_matches('$').chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            in_class = (in_class || c == '[') && c != ']';
            text.push(c);
            continue;
        }
        match (chars.next(), in_class) {
            (Some('d'), true) => text.push_str("0-9"),
            (Some('d'), false) => text.push_str("[0-9]"),
            (Some('w'), true) => text.push_str("0-9A-Za-z_"),
            (Some('w'), false) => text.push_str("[0-9A-Za-z_]"),
            (other, _) => {
                text.push(c);
                text.extend(other);
            }
        }
    }
    text
}

fn integer(schema: &Value) -> BoxedStrategy<Value> {
    let (min, max) = (schema["minimum"].as_i64(), schema["maximum"].as_i64());
    let whole = match (min, max) {
        (None, None) => prop_oneof![4 => -100_i64..100, 1 => any::<i64>()].boxed(),
        (min, max) => (min.unwrap_or(i64::MIN)..=max.unwrap_or(i64::MAX)).boxed(),
    };
    (whole, 0_u8..4)
        .prop_map(|(whole, form)| as_float(whole).filter(|_| form == 0).unwrap_or_else(|| whole.into()))
        .boxed()
}

/// The integer as a float, when that is exact.
fn as_float(whole: i64) -> Option<Value> {
    let small = i32::try_from(whole).ok()?;
    Some(Value::from(f64::from(small)))
}

fn number(schema: &Value) -> BoxedStrategy<Value> {
    let low = schema["minimum"]
        .as_f64()
        .or_else(|| schema["maximum"].as_f64().map(|max| max - 1_000.0));
    let low = low.unwrap_or(-500.0);
    let high = schema["maximum"].as_f64().unwrap_or(low + 1_000.0);
    // Eighths are exact in binary and in decimal, so that texts and values agree whoever rounds.
    let fraction = (low..=high).prop_map(move |float| ((float * 8.0).floor() / 8.0).clamp(low, high));
    (fraction, any::<bool>())
        .prop_map(|(float, as_integer)| {
            #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
            let whole = float as i64;
            if as_integer && float.fract() == 0.0 {
                whole.into()
            } else {
                float.into()
            }
        })
        .boxed()
}

fn array(schema: &Value) -> BoxedStrategy<Value> {
    let min = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).expect("a short array");
    let max = schema["maxItems"]
        .as_u64()
        .map_or(min + 4, |max| usize::try_from(max).expect("a short array"));
    let items = vec(valid(&schema["items"]), min..=max.min(min + 4));
    if schema["uniqueItems"] != true {
        return items.prop_map(Value::from).boxed();
    }
    let unique = options()
        .build(&json!({"uniqueItems": true}))
        .expect("the schema is valid");
    let schema = schema["items"].clone();
    items
        .prop_filter_map("too few different items", move |items| {
            // Items are judged with their defaults: two that differ only by one left out are equal once built.
            let (mut kept, mut judged) = (Vec::new(), Vec::new());
            for item in items {
                judged.push(settled(&schema, &item));
                if unique.is_valid(&judged.clone().into()) {
                    kept.push(item);
                } else {
                    judged.pop();
                }
            }
            (kept.len() >= min).then(|| kept.into())
        })
        .boxed()
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let named: Vec<_> = properties
        .iter()
        .map(|(name, property)| {
            let value = valid(property);
            let value = if is_required(schema, name) {
                value.prop_map(Some).boxed()
            } else {
                option::of(value).boxed()
            };
            (Just(name.clone()), value)
        })
        .collect();
    let extra = match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => Just(Vec::new()).boxed(),
        Some(each) => entries(valid(each)),
        None => entries(free()),
    };
    let known: Vec<String> = properties.keys().cloned().collect();
    (named, extra)
        .prop_flat_map(move |(named, mut entries)| {
            entries.retain(|(key, _)| !known.contains(key));
            entries.extend(named.into_iter().filter_map(|(name, value)| Some((name, value?))));
            Just(entries).prop_shuffle()
        })
        .prop_map(|entries| Value::Object(entries.into_iter().collect()))
        .boxed()
}

fn entries(value: BoxedStrategy<Value>) -> BoxedStrategy<Vec<(String, Value)>> {
    btree_map("[a-z./~\\[ é]{0,4}", value, 0..3)
        .prop_map(|map| map.into_iter().collect())
        .boxed()
}

/// Any small JSON value.
fn free() -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i16>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
        select(vec!["", "5", "null", "[1]", "{\"a\":1,\"a\":2}", "é"]).prop_map(Value::from),
    ];
    scalar
        .prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Value::from),
                entries(inner.boxed()).prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
        .boxed()
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"]
        .as_array()
        .is_some_and(|names| names.iter().any(|required| required == name))
}

/// One thing to break: where, which keyword, and what to put there instead.
type Site = (String, &'static str, Value);

fn breaks(schema: &Value, value: &Value, pointer: &str, sites: &mut Vec<Site>) {
    let mut site = |keyword, by| sites.push((pointer.to_owned(), keyword, by));
    if !pointer.is_empty() {
        for wrong in wrong_types(kind(schema)) {
            site("type", wrong);
        }
    }
    match value {
        Value::String(_) => {
            if let Some(words) = schema["enum"].as_array()
                && !words.contains(&json!("no such word"))
            {
                site("enum", json!("no such word"));
            }
            if let Some(pattern) = schema.get("pattern") {
                let validator = options()
                    .build(&json!({"pattern": pattern}))
                    .expect("the pattern is valid");
                let candidates = ["", "!", "٣", "é", "step-٣٣٣", " "].map(Value::from);
                if let Some(text) = candidates.into_iter().find(|text| !validator.is_valid(text)) {
                    site("pattern", text);
                }
            }
            let length = |key| {
                schema[key]
                    .as_u64()
                    .map(|length| usize::try_from(length).expect("a short string"))
            };
            if let Some(min @ 1..) = length("minLength") {
                // Two UTF-16 units and four bytes, but one character.
                site("minLength", "😀".repeat(min - 1).into());
            }
            if let Some(max) = length("maxLength") {
                site("maxLength", "a".repeat(max + 1).into());
            }
        }
        Value::Number(_) => {
            if let Some(min) = schema["minimum"].as_i64() {
                site("minimum", json!(min - 1));
            }
            if let Some(max) = schema["maximum"].as_i64() {
                site("maximum", json!(max + 1));
            }
            if kind(schema) == "integer" {
                site("int64", json!(u64::MAX));
                site("int64", json!(-1e300));
                site("int64", json!("9223372036854775808"));
            }
        }
        Value::Array(items) => {
            if let Some(min @ 1..) = schema["minItems"].as_u64() {
                let min = usize::try_from(min).expect("a short array");
                site("minItems", items[..min - 1].into());
            }
            if let Some(max) = schema["maxItems"].as_u64() {
                let more = items
                    .iter()
                    .cloned()
                    .chain(std::iter::repeat(items.last().cloned().unwrap_or_default()));
                let max = usize::try_from(max).expect("a short array");
                site("maxItems", more.take(max + 1).collect());
            }
            if schema["uniqueItems"] == true
                && let Some(first) = items.first()
            {
                site("uniqueItems", items.iter().chain([first]).cloned().collect());
            }
            for (index, item) in items.iter().enumerate() {
                let pointer = format!("{pointer}/{index}");
                sites.push((pointer.clone(), "type", Value::Null));
                breaks(&schema["items"], item, &pointer, sites);
            }
        }
        Value::Object(map) => {
            if schema["additionalProperties"] == false {
                let mut more = map.clone();
                more.insert("no such key".to_owned(), json!(1));
                site("additionalProperties", more.into());
            }
            for (key, value) in map {
                let below = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
                if is_required(schema, key) {
                    let mut fewer = map.clone();
                    fewer.shift_remove(key);
                    sites.push((pointer.to_owned(), "required", fewer.into()));
                    sites.push((below.clone(), "type", Value::Null));
                }
                if let Some(inner) = schema["properties"].get(key) {
                    breaks(inner, value, &below, sites);
                } else if let Some(each @ Value::Object(_)) = schema.get("additionalProperties") {
                    sites.push((below.clone(), "type", Value::Null));
                    breaks(each, value, &below, sites);
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Values that are no such thing and can't be read as one. `null` is not among them: for an optional property it is
/// absence.
fn wrong_types(kind: &str) -> Vec<Value> {
    match kind {
        "string" => vec![json!(5), json!(true), json!(["a"]), json!({"a": 1})],
        "integer" => vec![
            json!("five"),
            json!("5.5"),
            json!(5.5),
            json!(true),
            json!("05"),
            json!([5]),
        ],
        "number" => vec![json!("five"), json!(true), json!("0x5"), json!("NaN"), json!([5])],
        "boolean" => vec![json!("yes"), json!("True"), json!(1), json!("1")],
        "array" => vec![json!("a,b"), json!("[1,"), json!({}), json!("{}"), json!(5)],
        _ => vec![
            json!("a: b"),
            json!("{\"a\":1,\"a\":1}"),
            json!("[]"),
            json!([]),
            json!(5),
        ],
    }
}

fn mangle(schema: &Value, value: &Value, choices: &mut dyn Iterator<Item = u8>) -> Value {
    let choice = choices.next().unwrap_or(0);
    let inner = mangle_inside(schema, value, choices);
    match (kind(schema), choice % 4) {
        ("string", _) | (_, 0 | 3) => inner,
        ("integer", 1) => match inner.as_i64().and_then(as_float) {
            Some(float) => float,
            None => inner,
        },
        // Spaces around a value belong to JSON.
        (_, 1) => format!(" {inner}\n").into(),
        _ => inner.to_string().into(),
    }
}

/// What is inside an array or an object is mangled, not the value itself.
fn mangle_inside(schema: &Value, value: &Value, choices: &mut dyn Iterator<Item = u8>) -> Value {
    match value {
        Value::Array(items) => items
            .iter()
            .map(|item| mangle(&schema["items"], item, choices))
            .collect(),
        Value::Object(map) => {
            let mut sent = Map::new();
            for (key, value) in map {
                let inner = schema["properties"]
                    .get(key)
                    .or_else(|| schema.get("additionalProperties"));
                let value = inner.map_or_else(|| value.clone(), |inner| mangle(inner, value, choices));
                sent.insert(key.clone(), value);
            }
            let properties = schema["properties"].as_object().into_iter().flat_map(Map::keys);
            for name in properties {
                if !map.contains_key(name) && choices.next().is_some_and(|choice| choice % 2 == 1) {
                    sent.insert(name.clone(), Value::Null);
                }
            }
            sent.into()
        }
        scalar => scalar.clone(),
    }
}
