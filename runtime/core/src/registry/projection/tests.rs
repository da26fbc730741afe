//! Each form against its reader's own rules; and what no form may do.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use super::*;
use crate::registry::arbitrary::{schema, valid};
use crate::registry::providers::{anthropic_faults, gemini_faults, mcp_faults, openai_faults};
use crate::registry::{CompiledTool, ToolBuilder, fixture};

fn tool(schema: &Value) -> Definition {
    let mut tool = ToolBuilder::new("tool").summary("Does it.").build().unwrap();
    tool.input_schema = Schema::from(schema.clone());
    tool
}

fn assert_all_forms(tool: &Definition) {
    let none: Vec<String> = Vec::new();
    assert_eq!(anthropic_faults(&anthropic(tool).unwrap()), none);
    assert_eq!(openai_faults(&openai(tool).unwrap().value), none);
    let strict = openai_strict(tool).unwrap().value;
    assert_eq!(openai_faults(&strict), none, "{strict}");
    assert_eq!(gemini_faults(&gemini(tool).unwrap().value), none);
    assert_eq!(mcp_faults(&mcp(tool).unwrap()), none);
}

static PLAIN: devloop_contract::Tool = fixture::write_todolist();

#[test]
fn every_form_keeps_its_readers_rules_for_schemas_of_others() {
    for property in [
        json!({"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}),
        json!({"oneOf": [{"type": "object", "properties": {"a": {"const": "x"}}}, {"type": "array", "items": {"type": "string"}}]}),
        json!({"type": ["string", "integer", "null"], "enum": ["a", 1, null]}),
        json!({"allOf": [{"$ref": "#/$defs/T"}], "description": "One."}),
        json!({"$ref": "#/$defs/T"}),
        json!({"type": "array"}),
        json!({"type": "array", "prefixItems": [{"type": "string"}]}),
        json!({"type": "string", "format": "uri", "pattern": "^(?!x)"}),
        json!({"type": "number", "multipleOf": 0.5, "exclusiveMinimum": 0}),
        json!({"const": 5}),
        json!({"enum": ["", "a"]}),
        json!({"type": "object", "patternProperties": {"^a": {"type": "string"}}}),
        json!({"if": {"type": "string"}, "then": {"minLength": 1}}),
        json!({"type": "object", "properties": {}, "additionalProperties": false}),
        json!({}),
        json!(true),
    ] {
        let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {"p": property},
            "$defs": {"T": {"type": "object", "properties": {"below": {"$ref": "#/$defs/T"}, "n": {"type": "integer"}}}}});
        assert_all_forms(&tool(&schema));
    }
    assert_all_forms(&tool(&json!({"type": "object"})));
    assert_all_forms(&Definition::from(&PLAIN));
}

#[test]
fn a_function_that_cannot_be_strict_is_declared_without_and_says_so() {
    let declared = openai_strict(&tool(&json!({"type": "object", "properties": {"p": {}}}))).unwrap();
    assert_eq!(declared.value["function"]["strict"], false);
    assert_eq!(
        declared.losses[0].to_string(),
        "/properties/p: a schema without a type is outside of strict mode; the function is declared without strict mode"
    );
    let strict = openai_strict(&tool(&json!({"type": "object", "properties": {}}))).unwrap();
    assert_eq!(
        (strict.value["function"]["strict"].as_bool(), strict.losses.len()),
        (Some(true), 0)
    );
}

#[test]
fn a_long_description_is_cut_for_openai_in_both_modes_and_said_so() {
    let mut tool = tool(&json!({"type": "object", "properties": {}}));
    tool.description = "It says something. ".repeat(100).into();
    assert_all_forms(&tool);
    for declared in [openai(&tool).unwrap(), openai_strict(&tool).unwrap()] {
        let text = declared.value["function"]["description"].as_str().unwrap();
        assert!(text.chars().count() > 1_000 && text.ends_with("something. …"), "{text}");
        let losses: Vec<String> = declared.losses.iter().map(ToString::to_string).collect();
        assert_eq!(losses.len(), 1, "{losses:?}");
        assert!(
            losses[0].starts_with("description: it has 1900 characters, at most 1024 are taken"),
            "{losses:?}"
        );
    }
    assert_eq!(anthropic(&tool).unwrap()["description"], tool.description.as_ref());
}

#[test]
fn a_tool_without_parameters_has_none_for_gemini() {
    let declared = gemini(&tool(
        &json!({"type": "object", "properties": {}, "additionalProperties": false}),
    ))
    .unwrap();
    assert!(declared.value.get("parameters").is_none() && declared.losses.is_empty());
}

#[test]
fn metadata_says_everything_that_a_definition_has() {
    static TOOL: devloop_contract::Tool = devloop_contract::Tool {
        concurrency_safe: true,
        strict: true,
        details: "More.",
        notes: &["Note."],
        cautions: &["Beware."],
        ..fixture::write_todolist()
    };
    let said = metadata(&Definition::from(&TOOL)).unwrap();
    let keys: BTreeSet<&str> = said.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "name",
        "title",
        "aliases",
        "owner",
        "server",
        "trusted",
        "spec",
        "summary",
        "details",
        "notes",
        "cautions",
        "description",
        "kind",
        "read_only_hint",
        "idempotent",
        "destructive",
        "open_world",
        "parallelism",
        "concurrency_safe",
        "retry_safe",
        "strict",
        "exposure",
        "category",
        "tags",
        "version",
        "permission",
        "affected_paths",
        "path_fields",
        "timeout_ms",
        "bind",
        "rules",
        "input_schema",
        "output_schema",
        "failures",
        "common_failures",
        "effects",
        "examples",
        "group",
        "handler",
    ] {
        assert!(keys.contains(key), "{key} is left out");
    }
    assert_eq!(
        (&said["concurrency_safe"], &said["strict"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(
        (&said["details"], &said["notes"], &said["cautions"]),
        (&json!("More."), &json!(["Note."]), &json!(["Beware."]))
    );
}

#[test]
fn a_broken_schema_is_an_error_that_names_the_tool() {
    static BROKEN: devloop_contract::Tool = devloop_contract::Tool {
        input_schema: "{",
        ..fixture::tool("broken")
    };
    let tool = Definition::from(&BROKEN);
    for error in [
        mcp(&tool).unwrap_err(),
        anthropic(&tool).unwrap_err(),
        openai(&tool).unwrap_err(),
        openai_strict(&tool).unwrap_err(),
        gemini(&tool).unwrap_err(),
        metadata(&tool).unwrap_err(),
    ] {
        assert!(
            error.to_string().contains("`broken` (specs/tools/test/fixture.yaml)"),
            "{error}"
        );
    }
}

/// The same schema with annotations of the runtime in every place that holds a schema, with properties that look like
/// annotations, and with data that does.
fn decorated(schema: &Value) -> Value {
    let Value::Object(map) = schema else {
        return schema.clone();
    };
    let mut out = Map::new();
    out.insert("~standard".into(), json!({"vendor": "v"}));
    for (key, value) in map {
        let value = match (key.as_str(), value) {
            ("items" | "additionalProperties", below) => decorated(below),
            ("properties", Value::Object(named)) => {
                let mut properties: Map<String, Value> = named
                    .iter()
                    .map(|(name, below)| (name.clone(), decorated(below)))
                    .collect();
                properties.insert("~looks".into(), json!({"type": "string", "enum": ["~e", "x-e"]}));
                properties.insert(
                    "x-looks".into(),
                    json!({"type": "object", "default": {"~d": {"x-d": [1]}}, "x-drop": 0}),
                );
                properties.into()
            }
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    out.insert("x-origin".into(), json!("here"));
    out.into()
}

/// Every key in a place that holds a schema, and all data, by place.
fn walk(schema: &Value, place: &str, keys: &mut Vec<String>, data: &mut Vec<(String, Value)>) {
    let Value::Object(map) = schema else { return };
    for (key, value) in map {
        keys.push(key.clone());
        match (key.as_str(), value) {
            ("default" | "enum" | "const", value) => data.push((format!("{place}/{key}"), value.clone())),
            ("items" | "additionalProperties", below) => walk(below, &format!("{place}/{key}"), keys, data),
            ("properties", Value::Object(named)) => {
                for (name, below) in named {
                    walk(below, &format!("{place}/properties/{name}"), keys, data);
                }
            }
            _ => {}
        }
    }
}

/// The value as a strict model sends it: null for what is absent, objects of any form as texts.
fn as_strict(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| as_strict(&schema["items"], item)).collect(),
        Value::Object(map) => {
            let named = schema["properties"].as_object().filter(|named| !named.is_empty());
            let closed_and_empty = schema["additionalProperties"] == false;
            match named {
                None if !closed_and_empty => value.to_string().into(),
                None => value.clone(),
                Some(named) => named
                    .iter()
                    .map(|(name, below)| {
                        let value = map.get(name).map_or(Value::Null, |value| as_strict(below, value));
                        (name.clone(), value)
                    })
                    .collect::<Map<_, _>>()
                    .into(),
            }
        }
        scalar => scalar.clone(),
    }
}

fn runner() -> TestRunner {
    let long = std::env::var_os("DEVLOOP_LONG").is_some();
    TestRunner::new(Config {
        cases: if long { 20_000 } else { 200 },
        failure_persistence: None,
        ..Config::default()
    })
}

#[test]
fn every_form_of_a_random_schema_keeps_its_readers_rules() {
    runner()
        .run(&schema(), |schema| {
            assert_all_forms(&tool(&schema));
            // The schema is closed already, so publishing adds nothing.
            prop_assert_eq!(published(&schema), schema);
            Ok(())
        })
        .unwrap();
}

#[test]
fn annotations_never_leak_and_neither_properties_nor_data_are_touched() {
    runner()
        .run(&schema(), |schema| {
            let decorated = decorated(&schema);
            let out = published(&decorated);
            prop_assert_eq!(published(&out), out.clone(), "publishing twice is publishing once");
            let (mut keys, mut data) = (Vec::new(), Vec::new());
            walk(&out, "", &mut keys, &mut data);
            prop_assert!(
                !keys.iter().any(|key| key.starts_with('~') || key.starts_with("x-")),
                "{keys:?}"
            );
            let (mut all, mut written) = (Vec::new(), Vec::new());
            walk(&decorated, "", &mut all, &mut written);
            prop_assert_eq!(&data, &written, "data is as it was written");
            let tool = tool(&decorated);
            for form in [
                mcp(&tool),
                anthropic(&tool),
                openai(&tool).map(|declared| declared.value),
            ] {
                let text = form.unwrap().to_string();
                prop_assert!(!text.contains("vendor") && !text.contains("x-origin") && !text.contains("x-drop"));
                prop_assert!(text.contains("\"~looks\"") && text.contains("\"x-looks\""));
            }
            // Strict mode adds null to a list, and Gemini has no empty text in one; else data is the same or not told.
            let strict = projection::openai_strict(&out).unwrap().schema;
            let (mut keys, mut told) = (Vec::new(), Vec::new());
            walk(&strict, "", &mut keys, &mut told);
            prop_assert!(
                !keys.iter().any(|key| key.starts_with('~') || key.starts_with("x-")),
                "{keys:?}"
            );
            for (place, mut value) in told {
                if let Value::Array(values) = &mut value {
                    values.retain(|value| !value.is_null());
                }
                prop_assert!(written.contains(&(place.clone(), value)), "{place}");
            }
            let gemini = projection::gemini(&out).schema;
            let mut told = Vec::new();
            walk(&gemini, "", &mut Vec::new(), &mut told);
            for told in told {
                prop_assert!(written.contains(&told), "{told:?}");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_a_strict_model_sends_builds_what_was_meant() {
    let cases = schema().prop_flat_map(|schema| (Just(schema.clone()), valid(&schema)));
    runner()
        .run(&cases, |(schema, value)| {
            let strict = projection::openai_strict(&schema).unwrap().schema;
            let sent = as_strict(&schema, &value);
            let validator = jsonschema::draft202012::new(&strict).unwrap();
            prop_assert!(validator.is_valid(&sent), "{sent} does not fit {strict}");
            let compiled = CompiledTool::new(tool(&schema), |_| Ok(()));
            let object = |value: Value| match value {
                Value::Object(map) => map,
                _ => unreachable!("the root is an object"),
            };
            let meant = compiled.build(object(value)).unwrap();
            let built = compiled.build(object(sent.clone()));
            let built = built.map_err(|error| TestCaseError::fail(format!("{sent}: {error}")))?;
            prop_assert_eq!(built.input(), meant.input());
            Ok(())
        })
        .unwrap();
}

/// A property as others write it: alternatives, references, several types, listed values.
fn foreign() -> impl Strategy<Value = Value> {
    let leaf = proptest::sample::select(vec![
        json!({"type": "string"}),
        json!({"type": "integer"}),
        json!({"type": "null"}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "integer"}}),
        json!({"type": "object", "properties": {"x": {"type": "string"}}}),
        json!({"type": "object", "properties": {"x": {"type": "string"}, "n": {"type": "integer"}}, "required": ["n"]}),
        json!({"type": "array", "items": {"type": "object"}}),
        json!({"type": "array", "items": {"anyOf": [{"type": "object"}, {"type": "null"}]}}),
        json!({"type": "array"}),
        json!({"type": ["object", "null"]}),
        json!({"type": ["string", "object"]}),
        json!({"type": ["integer", "null"]}),
        json!({"type": "string", "nullable": true}),
        json!({"enum": [1, "a", null]}),
        json!({"enum": ["a", "b"]}),
        json!({"const": "c"}),
        json!({"$ref": "#/$defs/Free"}),
        json!({"$ref": "#/$defs/Leaf"}),
        json!({"$ref": "#/$defs/Tree"}),
        json!({"$ref": "#/$defs/Leaf", "description": "One."}),
        json!({"$ref": "#/$defs/Tree", "required": ["n"]}),
        json!({}),
        json!(true),
    ]);
    leaf.prop_recursive(2, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..3).prop_map(|parts| json!({"anyOf": parts})),
            proptest::collection::vec(inner.clone(), 1..3).prop_map(|parts| json!({"oneOf": parts})),
            inner
                .clone()
                .prop_map(|part| json!({"anyOf": [part, {"type": "null"}], "default": null})),
            inner.clone().prop_map(|part| json!({"allOf": [part]})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.prop_map(|below| json!({"type": "object", "properties": {"x": below}})),
        ]
    })
}

/// A tool's schema with such properties, some of them required.
fn foreign_schema() -> impl Strategy<Value = Value> {
    (foreign(), foreign(), any::<bool>()).prop_map(|(f, g, needed)| {
        let required = if needed { json!(["f"]) } else { json!([]) };
        json!({"type": "object", "properties": {"f": f, "g": g}, "required": required, "$defs": {
            "Free": {"type": "object"},
            "Leaf": {"type": "object", "properties": {"x": {"type": "string"}, "n": {"type": "integer"}}},
            "Tree": {"type": "object", "properties": {
                "below": {"anyOf": [{"$ref": "#/$defs/Tree"}, {"type": "null"}]},
                "all": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                "n": {"type": "integer"}}},
        }})
    })
}

/// A value that may be one of the schema.
fn guess(root: &Value, schema: &Value, choices: &mut dyn FnMut() -> usize, depth: usize) -> Value {
    let anything = [
        json!("t"),
        json!(7),
        json!({"k": "v"}),
        json!([1]),
        json!(null),
        json!("{\"k\":1}"),
    ];
    if let Some(reference) = schema["$ref"].as_str() {
        return guess(root, root.pointer(&reference[1..]).unwrap(), choices, depth);
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(parts) = schema[keyword].as_array() {
            return guess(root, &parts[choices() % parts.len()], choices, depth);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values[choices() % values.len()].clone();
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[choices() % kinds.len()].clone(),
        kind => kind.clone(),
    };
    match kind.as_str() {
        Some("string") => ["t", "", "{\"k\":1}", "5", "null"][choices() % 5].into(),
        Some("integer") => choices().into(),
        Some("array") if depth < 5 => (0..choices() % 3)
            .map(|_| guess(root, schema.get("items").unwrap_or(&json!(true)), choices, depth + 1))
            .collect(),
        Some("array") => json!([]),
        Some("object") => {
            let mut map = Map::new();
            if depth < 5 {
                for (name, below) in schema["properties"].as_object().into_iter().flatten() {
                    if !choices().is_multiple_of(3) {
                        map.insert(name.clone(), guess(root, below, choices, depth + 1));
                    }
                }
                if schema.get("properties").is_none() && !choices().is_multiple_of(3) {
                    map.insert("k".into(), choices().into());
                }
            }
            map.into()
        }
        Some(_) => Value::Null,
        None => anything[choices() % anything.len()].clone(),
    }
}

/// The value as a model sends it that is told this schema, in either dialect; `None` when it can't be said.
fn sent(root: &Value, told: &Value, value: &Value) -> Option<Value> {
    if let Some(reference) = told["$ref"].as_str() {
        return sent(root, root.pointer(&reference[1..]).unwrap(), value);
    }
    if value.is_null() && told["nullable"] == true {
        return Some(Value::Null);
    }
    if let Some(parts) = told["anyOf"].as_array() {
        return parts.iter().find_map(|part| sent(root, part, value));
    }
    let listed = told["enum"].as_array().is_none_or(|values| values.contains(value));
    let constant = told.get("const").is_none_or(|one| one == value);
    let kinds: Vec<String> = match &told["type"] {
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap().to_owned()).collect(),
        kind => vec![kind.as_str().unwrap_or_default().to_lowercase()],
    };
    let takes = |kind: &str| kinds.iter().any(|one| one == kind) && listed && constant;
    let as_json = told["description"]
        .as_str()
        .is_some_and(|text| text.ends_with("Write it as a JSON text."));
    match value {
        Value::Null if takes("null") => Some(Value::Null),
        _ if as_json => Some(value.to_string().into()),
        Value::String(_) if takes("string") => Some(value.clone()),
        Value::Number(_) if takes("integer") || takes("number") => Some(value.clone()),
        Value::Bool(_) if takes("boolean") => Some(value.clone()),
        Value::Array(items) if takes("array") => items.iter().map(|item| sent(root, &told["items"], item)).collect(),
        Value::Object(map) if takes("object") => {
            let named = told["properties"].as_object()?;
            if !map.keys().all(|key| named.contains_key(key)) {
                return None;
            }
            let required = told["required"].as_array()?;
            let mut out = Map::new();
            for (name, below) in named {
                match map.get(name) {
                    Some(value) => out.insert(name.clone(), sent(root, below, value)?),
                    None if required.iter().any(|one| *one == **name) => {
                        // Strict functions alone require what is optional.
                        if told.get("propertyOrdering").is_some() {
                            return None;
                        }
                        out.insert(name.clone(), sent(root, below, &Value::Null)?)
                    }
                    None => None,
                };
            }
            Some(out.into())
        }
        _ => None,
    }
}

/// Without what is null in an object: a declared optional that is absent may arrive so.
fn without_null(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_null).collect(),
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_null(value)))
                .collect::<Map<_, _>>()
                .into()
        }
        scalar => scalar.clone(),
    }
}

#[test]
fn what_a_model_sends_for_schemas_of_others_builds_what_was_meant() {
    use std::cell::Cell;
    let (strict, gemini_sent) = (Cell::new(0), Cell::new(0));
    let cases = (foreign_schema(), proptest::collection::vec(any::<u8>(), 24));
    runner()
        .run(&cases, |(schema, bytes)| {
            let mut tool = tool(&schema);
            tool.dialect = crate::registry::definition::Dialect::Open;
            let compiled = CompiledTool::new(tool.clone(), |_| Ok(()));
            let mut bytes = bytes.into_iter().cycle();
            let mut choices = || usize::from(bytes.next().unwrap_or(0));
            let value = guess(&schema, &schema, &mut choices, 0);
            let validator = jsonschema::validator_for(&published(&schema)).unwrap();
            if !validator.is_valid(&value) {
                return Ok(());
            }
            let arguments = |value: &Value| value.as_object().unwrap().clone();
            let meant = compiled.build(arguments(&value)).unwrap();
            let (by_openai, by_gemini) = (openai_strict(&tool).unwrap(), gemini(&tool).unwrap());
            let in_doubt = by_gemini
                .losses
                .iter()
                .any(|loss| loss.what == "a JSON text in one alternative could be taken as it is by another one");
            for (declared, count, in_doubt) in [
                (&by_openai.value["function"], &strict, false),
                (&by_gemini.value, &gemini_sent, in_doubt),
            ] {
                let told = &declared["parameters"];
                if declared["strict"] == false || in_doubt {
                    continue;
                }
                let Some(sent) = sent(told, told, &value) else { continue };
                count.set(count.get() + 1);
                let built = compiled
                    .build(arguments(&sent))
                    .map_err(|error| TestCaseError::fail(format!("{value} sent as {sent} for {told}: {error}")))?;
                prop_assert_eq!(
                    without_null(built.input()),
                    without_null(meant.input()),
                    "{} sent as {} for {}",
                    value,
                    sent,
                    told
                );
                prop_assert_eq!(built.original(), &arguments(&sent));
            }
            Ok(())
        })
        .unwrap();
    assert!(strict.get() > 5 && gemini_sent.get() > 20, "{strict:?} {gemini_sent:?}");
}
