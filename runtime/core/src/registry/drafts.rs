//! Translated schemas against validators of the drafts that they were written in.
//!
//! The translation stands in [`devloop_contract::projection`], where there is no validator.

use std::cell::Cell;

use devloop_contract::projection::in_2020_12;
use jsonschema::Validator;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

const DRAFTS: [&str; 4] = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
];

fn runner() -> TestRunner {
    let long = std::env::var_os("DEVLOOP_LONG").is_some();
    TestRunner::new(Config {
        cases: if long { 5_000 } else { 120 },
        failure_persistence: None,
        max_global_rejects: 1_000_000,
        ..Config::default()
    })
}

fn old(schema: &Value) -> Option<Validator> {
    jsonschema::options().should_validate_formats(false).build(schema).ok()
}

fn new(schema: &Value) -> Result<Validator, String> {
    if !jsonschema::draft202012::meta::is_valid(schema) {
        return Err("no schema of 2020-12".to_owned());
    }
    let options = jsonschema::draft202012::options().should_validate_formats(false);
    options.build(schema).map_err(|error| error.to_string())
}

/// Which words are used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Those that all drafts know, and that mean one thing.
    Common,
    /// Those that a draft may not know, too.
    All,
}

fn key() -> impl Strategy<Value = String> {
    proptest::sample::select(vec!["a", "b", "t"]).prop_map(str::to_owned)
}

fn named(inner: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let entries = proptest::collection::vec((key(), inner), 1..3);
    entries
        .prop_map(|entries| entries.into_iter().collect::<Map<_, _>>().into())
        .boxed()
}

fn keys() -> BoxedStrategy<Value> {
    let keys = proptest::collection::btree_set(key(), 1..3);
    keys.prop_map(|keys| keys.into_iter().collect()).boxed()
}

/// What a schema of no parts says.
fn leaf(words: Words) -> BoxedStrategy<Value> {
    let kinds = ["string", "integer", "number", "array", "object", "null", "boolean"];
    let mut ways = vec![
        proptest::sample::select(kinds.to_vec())
            .prop_map(|kind| json!({ "type": kind }))
            .boxed(),
        Just(json!({"type": ["array", "object"]})).boxed(),
        value(0).prop_map(|value| json!({"enum": [value, "x"]})).boxed(),
        (0..3, 0..3)
            .prop_map(|(n, more)| json!({"minItems": n, "maxItems": n + more}))
            .boxed(),
        keys().prop_map(|keys| json!({ "required": keys })).boxed(),
        (0..3).prop_map(|n| json!({"minProperties": n})).boxed(),
        (0..3).prop_map(|n| json!({ "minimum": n })).boxed(),
        Just(json!({"uniqueItems": true})).boxed(),
        (keys(), key())
            .prop_map(|(keys, key)| json!({"dependencies": {key: keys}}))
            .boxed(),
        Just(json!({"$ref": "#/definitions/D"})).boxed(),
        Just(json!({"$ref": "#/properties/t/items/1"})).boxed(),
        Just(json!({"$ref": "#/properties/t/additionalItems", "description": "The rest."})).boxed(),
    ];
    if words == Words::All {
        ways.extend([
            (0..3, any::<bool>())
                .prop_map(|(n, flag)| json!({"minimum": n, "exclusiveMinimum": flag, "maximum": n + 1, "exclusiveMaximum": !flag}))
                .boxed(),
            (0..3).prop_map(|n| json!({ "exclusiveMinimum": n })).boxed(),
            value(1).prop_map(|value| json!({ "const": value })).boxed(),
            (keys(), key()).prop_map(|(keys, key)| json!({"dependentRequired": {key: keys}})).boxed(),
            Just(json!({"$ref": "#/definitions/D", "type": "integer"})).boxed(),
            Just(json!({"properties": {"b": {"$ref": "#"}}})).boxed(),
            Just(json!({"properties": {"b": {"$recursiveRef": "#"}}})).boxed(),
            Just(json!({"unevaluatedProperties": false})).boxed(),
            Just(json!({"unevaluatedItems": false})).boxed(),
            (0..3).prop_map(|n| json!({"minContains": n, "maxContains": n})).boxed(),
        ]);
    }
    proptest::strategy::Union::new(ways).boxed()
}

fn merged(parts: Vec<Value>) -> Value {
    let maps = parts.into_iter().filter_map(|part| match part {
        Value::Object(map) => Some(map),
        _ => None,
    });
    maps.flatten().collect::<Map<_, _>>().into()
}

/// A part of a schema, and all of it.
fn schema(words: Words) -> BoxedStrategy<Value> {
    let first = proptest::collection::vec(leaf(words), 0..3).prop_map(merged);
    let all = first.prop_recursive(3, 16, 3, move |inner| {
        let list = || proptest::collection::vec(inner.clone(), 1..3);
        let one = || inner.clone();
        let mut ways = vec![
            (list(), one())
                .prop_map(|(list, rest)| json!({"items": list, "additionalItems": rest}))
                .boxed(),
            (list(), any::<bool>())
                .prop_map(|(list, rest)| json!({"items": list, "additionalItems": rest}))
                .boxed(),
            list().prop_map(|list| json!({ "items": list })).boxed(),
            (one(), one())
                .prop_map(|(each, rest)| json!({"items": each, "additionalItems": rest}))
                .boxed(),
            (named(inner.clone()), any::<bool>())
                .prop_map(|(named, more)| json!({"properties": named, "additionalProperties": more}))
                .boxed(),
            named(inner.clone())
                .prop_map(|named| json!({ "properties": named }))
                .boxed(),
            one().prop_map(|each| json!({ "additionalProperties": each })).boxed(),
            one()
                .prop_map(|each| json!({"patternProperties": {"^[ab]": each}}))
                .boxed(),
            named(inner.clone())
                .prop_map(|named| json!({ "dependencies": named }))
                .boxed(),
            list().prop_map(|list| json!({ "allOf": list })).boxed(),
            list().prop_map(|list| json!({ "anyOf": list })).boxed(),
            list().prop_map(|list| json!({ "oneOf": list })).boxed(),
            one().prop_map(|not| json!({ "not": not })).boxed(),
        ];
        if words == Words::All {
            ways.extend([
                one().prop_map(|each| json!({ "contains": each })).boxed(),
                one().prop_map(|each| json!({ "propertyNames": each })).boxed(),
                (one(), one(), one())
                    .prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c}))
                    .boxed(),
                list().prop_map(|list| json!({ "prefixItems": list })).boxed(),
                named(inner.clone())
                    .prop_map(|named| json!({ "dependentSchemas": named }))
                    .boxed(),
                one().prop_map(|each| json!({ "unevaluatedItems": each })).boxed(),
                one().prop_map(|each| json!({ "unevaluatedProperties": each })).boxed(),
            ]);
        }
        let part = proptest::strategy::Union::new(ways);
        proptest::collection::vec(prop_oneof![3 => part, 1 => leaf(words)], 1..4).prop_map(merged)
    });
    all.boxed()
}

/// A tool's schema, with a tuple that references lead into.
fn root(words: Words) -> impl Strategy<Value = Value> {
    let part = || schema(words);
    // What references lead to leads no further, or it could lead back.
    let plain = proptest::sample::select(vec![
        json!({"type": "integer"}),
        json!({"type": "array", "items": [{"type": "integer"}], "additionalItems": false}),
        json!({"minimum": 1}),
    ]);
    (part(), part(), plain.clone(), plain.clone(), plain).prop_map(|(a, b, first, second, rest)| {
        json!({"type": "object", "properties": {"a": a, "b": b,
            "t": {"type": "array", "items": [first, second], "additionalItems": rest}},
            "definitions": {"D": {"type": "array", "items": [{"type": "string"}]}}})
    })
}

/// A value without whole numbers that are written as floats: to draft-04 they are no integers.
fn value(depth: u32) -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        (0..4).prop_map(Value::from),
        Just(json!(0.5)),
        proptest::sample::select(vec!["", "a", "b", "xyz"]).prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ];
    if depth == 0 {
        return scalar.boxed();
    }
    prop_oneof![
        2 => scalar,
        2 => proptest::collection::vec(value(depth - 1), 0..4).prop_map(Value::from),
        2 => object(depth - 1),
    ]
    .boxed()
}

fn object(depth: u32) -> BoxedStrategy<Value> {
    let entries = proptest::collection::btree_map(key(), value(depth), 0..4);
    entries
        .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into())
        .boxed()
}

fn values() -> impl Strategy<Value = Vec<Value>> {
    proptest::collection::vec(object(2), 12)
}

/// How often both said yes and no; a test in which all values are refused tests little.
#[derive(Default)]
struct Verdicts {
    yes: Cell<u32>,
    no: Cell<u32>,
    unread: Cell<u32>,
}

impl Verdicts {
    fn compare(&self, written: &Value, translated: &Value, values: &[Value]) -> Result<(), TestCaseError> {
        let Some(old) = old(written) else {
            self.unread.set(self.unread.get() + 1);
            return Ok(());
        };
        prop_assert!(
            in_2020_12(translated).as_ref() == Ok(translated),
            "it is translated once"
        );
        let new =
            new(translated).map_err(|error| TestCaseError::fail(format!("{error}: {written} became {translated}")))?;
        for value in values {
            let verdict = old.is_valid(value);
            prop_assert_eq!(
                verdict,
                new.is_valid(value),
                "{} of {} became {}",
                value,
                written,
                translated
            );
            let count = if verdict { &self.yes } else { &self.no };
            count.set(count.get() + 1);
        }
        Ok(())
    }

    fn assert_both(&self) {
        let (yes, no, unread) = (self.yes.get(), self.no.get(), self.unread.get());
        assert!(yes > 200 && no > 200 && unread < (yes + no) / 12, "{yes} {no} {unread}");
    }
}

/// References with nothing beside them, which drafts see differently.
fn lone_references(schema: &Value) -> Value {
    match schema {
        Value::Object(map) if map.get("$ref").is_some_and(Value::is_string) => json!({ "$ref": map["$ref"] }),
        Value::Object(map) => {
            let below = map.iter().map(|(key, value)| (key.clone(), lone_references(value)));
            below.collect::<Map<_, _>>().into()
        }
        Value::Array(list) => list.iter().map(lone_references).collect(),
        scalar => scalar.clone(),
    }
}

/// Without what a draft's own validators refuse, bounds in the words of another draft, and what is not of the draft.
fn of_draft(schema: &Value, draft: usize) -> Value {
    match schema {
        Value::Object(map) => {
            let fits = |key: &str, value: &Value| match key {
                "exclusiveMinimum" | "exclusiveMaximum" => value.is_boolean() == (draft == 0),
                // No word of it any more: whether what it says counts as evaluated, validators see differently.
                "dependencies" => draft < 3,
                _ => true,
            };
            let kept = map.iter().filter(|(key, value)| fits(key, value));
            kept.map(|(key, value)| (key.clone(), of_draft(value, draft)))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(list) => list.iter().map(|value| of_draft(value, draft)).collect(),
        scalar => scalar.clone(),
    }
}

#[test]
fn a_translated_schema_takes_what_its_own_draft_takes() {
    for (index, draft) in DRAFTS.into_iter().enumerate() {
        let verdicts = Verdicts::default();
        runner()
            .run(&(root(Words::All), values()), |(schema, values)| {
                let mut schema = of_draft(&schema, index);
                schema["$schema"] = draft.into();
                match in_2020_12(&schema) {
                    Ok(translated) => verdicts.compare(&schema, &translated, &values),
                    Err(reason) => {
                        let known = ["beside `unevaluatedItems`", "both say what"];
                        prop_assert!(
                            known.iter().any(|known| reason.what.contains(known)),
                            "{}: {}",
                            reason,
                            schema
                        );
                        Ok(())
                    }
                }
            })
            .unwrap();
        verdicts.assert_both();
    }
}

#[test]
fn an_older_form_means_the_same_where_no_draft_is_said() {
    for draft in DRAFTS {
        let verdicts = Verdicts::default();
        runner()
            .run(&(root(Words::Common), values()), |(schema, values)| {
                let mut schema = lone_references(&schema);
                let translated = in_2020_12(&schema);
                let translated = translated.map_err(|error| TestCaseError::fail(format!("{error}: {schema}")))?;
                schema["$schema"] = draft.into();
                verdicts.compare(&schema, &translated, &values)
            })
            .unwrap();
        verdicts.assert_both();
    }
}
