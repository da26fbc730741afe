//! Each form against its reader's own rules, written down here from what they publish; and what no form may do.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use super::*;
use crate::registry::arbitrary::{schema, valid};
use crate::registry::{CompiledTool, ToolBuilder, fixture};

fn tool(schema: &Value) -> Definition {
    let mut tool = ToolBuilder::new("tool").summary("Does it.").build().unwrap();
    tool.input_schema = Schema::from(schema.clone());
    tool
}

/// What is wrong with a name by the rules that all providers share.
fn name_faults(name: &Value, faults: &mut Vec<String>) {
    let name = name.as_str().unwrap_or_default();
    let fits = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !fits || !(1..=64).contains(&name.len()) || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        faults.push(format!("name {name}"));
    }
}

/// <https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use>: `input_schema` is a JSON Schema object
/// for the parameters; the API answers 400 for a root with `oneOf`, `allOf` or `anyOf` and for keys of another form.
fn anthropic_faults(tool: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    only(tool, &["name", "description", "input_schema"], &mut faults);
    name_faults(&tool["name"], &mut faults);
    plain_schema_faults(&tool["input_schema"], &mut faults);
    faults
}

/// <https://platform.openai.com/docs/api-reference/chat/create>, `tools`: `function` with `name`, `description`, `parameters`
/// (a JSON Schema object) and `strict`.
fn openai_faults(tool: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    only(tool, &["type", "function"], &mut faults);
    let function = &tool["function"];
    only(function, &["name", "description", "parameters", "strict"], &mut faults);
    name_faults(&function["name"], &mut faults);
    if tool["type"] != "function" || !function["strict"].is_boolean() {
        faults.push("form".into());
    }
    if function["strict"] == true {
        let mut walked = Strict::default();
        walked.schema(&function["parameters"], 0);
        if function["parameters"]["type"] != "object" || walked.properties > 5_000 || walked.values > 1_000 {
            walked.faults.push("root or bounds".into());
        }
        faults.extend(walked.faults);
    } else {
        plain_schema_faults(&function["parameters"], &mut faults);
    }
    faults
}

fn plain_schema_faults(schema: &Value, faults: &mut Vec<String>) {
    if schema["type"] != "object" || !schema["properties"].is_object() || !schema["required"].is_array() {
        faults.push(format!("root {schema}"));
    }
    if ["oneOf", "anyOf", "allOf", "not", "enum", "$ref"].iter().any(|key| schema.get(key).is_some()) {
        faults.push("composed root".into());
    }
    if !jsonschema::meta::is_valid(schema) {
        faults.push(format!("no JSON Schema: {schema}"));
    }
}

fn only(value: &Value, known: &[&str], faults: &mut Vec<String>) {
    match value {
        Value::Object(map) => faults.extend(map.keys().filter(|key| !known.contains(&key.as_str())).cloned()),
        other => faults.push(format!("no object: {other}")),
    }
}

/// <https://platform.openai.com/docs/guides/structured-outputs>, "Supported schemas".
#[derive(Default)]
struct Strict {
    faults: Vec<String>,
    properties: usize,
    values: usize,
}

impl Strict {
    fn schema(&mut self, schema: &Value, depth: usize) {
        let known = [
            "type", "description", "title", "enum", "const", "properties", "required", "additionalProperties", "items",
            "anyOf", "$ref", "$defs", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
            "multipleOf", "minItems", "maxItems",
        ];
        only(schema, &known, &mut self.faults);
        if depth > 10 {
            self.faults.push("deep".into());
        }
        if ["type", "anyOf", "$ref"].iter().all(|key| schema.get(key).is_none()) {
            self.faults.push(format!("untyped {schema}"));
        }
        for part in schema["anyOf"].as_array().into_iter().flatten() {
            self.schema(part, depth);
        }
        self.values += schema["enum"].as_array().map_or(0, Vec::len);
        let kinds: Vec<&Value> = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
        if kinds.iter().any(|kind| *kind == "array") {
            self.schema(&schema["items"], depth + 1);
        }
        if kinds.iter().any(|kind| *kind == "object") {
            let empty = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&empty);
            let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let names: Vec<&str> = properties.keys().map(String::as_str).collect();
            if required != names || schema["additionalProperties"] != false {
                self.faults.push(format!("open object {schema}"));
            }
            self.properties += names.len();
            properties.values().for_each(|property| self.schema(property, depth + 1));
        }
        for shared in schema["$defs"].as_object().into_iter().flat_map(Map::values) {
            self.schema(shared, 1);
        }
    }
}

/// <https://ai.google.dev/api/caching#FunctionDeclaration> and `#Schema`; an object without properties is answered by 400,
/// "should be non-empty for OBJECT type".
fn gemini_faults(tool: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    only(tool, &["name", "description", "parameters"], &mut faults);
    name_faults(&tool["name"], &mut faults);
    if let Some(parameters) = tool.get("parameters") {
        if parameters["type"] != "OBJECT" {
            faults.push("root".into());
        }
        gemini_schema(parameters, &mut faults);
    }
    faults
}

fn gemini_schema(schema: &Value, faults: &mut Vec<String>) {
    let known = [
        "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
        "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering",
        "default", "items", "minimum", "maximum",
    ];
    only(schema, &known, faults);
    let kind = schema["type"].as_str();
    let kinds = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"];
    if schema.get("anyOf").is_none() && !kind.is_some_and(|kind| kinds.contains(&kind)) {
        faults.push(format!("type {schema}"));
    }
    for count in ["maxItems", "minItems", "minProperties", "maxProperties", "minLength", "maxLength"] {
        if schema.get(count).is_some_and(|count| !count.as_str().is_some_and(|text| text.parse::<i64>().is_ok())) {
            faults.push(format!("{count} {schema}"));
        }
    }
    if let Some(values) = schema.get("enum") {
        let texts = values.as_array().is_some_and(|values| {
            !values.is_empty() && values.iter().all(|value| value.as_str().is_some_and(|text| !text.is_empty()))
        });
        if kind != Some("STRING") || schema["format"] != "enum" || !texts {
            faults.push(format!("enum {schema}"));
        }
    }
    if kind == Some("ARRAY") {
        gemini_schema(&schema["items"], faults);
    }
    if kind == Some("OBJECT") {
        let empty = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&empty);
        if properties.is_empty() {
            faults.push("empty object".into());
        }
        for list in ["required", "propertyOrdering"] {
            let mut names = schema[list].as_array().into_iter().flatten().filter_map(Value::as_str);
            if names.any(|name| !properties.contains_key(name)) {
                faults.push(format!("{list} {schema}"));
            }
        }
        properties.values().for_each(|property| gemini_schema(property, faults));
    }
    for part in schema["anyOf"].as_array().into_iter().flatten() {
        gemini_schema(part, faults);
    }
}

/// <https://modelcontextprotocol.io/specification/2025-11-25/schema>, `Tool`, and what clients were seen to want besides.
fn mcp_faults(tool: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let known = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"];
    only(tool, &known, &mut faults);
    name_faults(&tool["name"], &mut faults);
    plain_schema_faults(&tool["inputSchema"], &mut faults);
    if tool.get("outputSchema").is_some_and(|schema| schema["type"] != "object") {
        faults.push("output".into());
    }
    let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    if hints.iter().any(|hint| !tool["annotations"][hint].is_boolean()) {
        faults.push("annotations".into());
    }
    faults
}

fn assert_all_forms(tool: &Definition) {
    let none: Vec<String> = Vec::new();
    assert_eq!(anthropic_faults(&anthropic(tool).unwrap()), none);
    assert_eq!(openai_faults(&openai(tool).unwrap()), none);
    let strict = openai_strict(tool).unwrap().value;
    assert_eq!(openai_faults(&strict), none, "{strict}");
    assert_eq!(gemini_faults(&gemini(tool).unwrap().value), none);
    assert_eq!(mcp_faults(&mcp(tool).unwrap()), none);
}

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
    static PLAIN: devloop_contract::Tool = fixture::write_todolist();
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
    assert_eq!((strict.value["function"]["strict"].as_bool(), strict.losses.len()), (Some(true), 0));
}

#[test]
fn a_tool_without_parameters_has_none_for_gemini() {
    let declared = gemini(&tool(&json!({"type": "object", "properties": {}, "additionalProperties": false}))).unwrap();
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
        "name", "title", "aliases", "owner", "server", "trusted", "spec", "summary", "details", "notes", "cautions",
        "description", "kind", "read_only_hint", "idempotent", "destructive", "open_world", "parallelism",
        "concurrency_safe", "retry_safe", "strict", "exposure", "category", "tags", "version", "permission",
        "affected_paths", "path_fields", "timeout_ms", "bind", "rules", "input_schema", "output_schema", "failures",
        "common_failures", "effects", "examples", "group", "handler",
    ] {
        assert!(keys.contains(key), "{key} is left out");
    }
    assert_eq!((&said["concurrency_safe"], &said["strict"]), (&json!(true), &json!(true)));
    assert_eq!((&said["details"], &said["notes"], &said["cautions"]), (&json!("More."), &json!(["Note."]), &json!(["Beware."])));
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
        assert!(error.to_string().contains("`broken` (specs/tools/test/fixture.yaml)"), "{error}");
    }
}

/// The same schema with annotations of the runtime in every place that holds a schema, with properties that look like
/// annotations, and with data that does.
fn decorated(schema: &Value) -> Value {
    let Value::Object(map) = schema else { return schema.clone() };
    let mut out = Map::new();
    out.insert("~standard".into(), json!({"vendor": "v"}));
    for (key, value) in map {
        let value = match (key.as_str(), value) {
            ("items" | "additionalProperties", below) => decorated(below),
            ("properties", Value::Object(named)) => {
                let mut properties: Map<String, Value> =
                    named.iter().map(|(name, below)| (name.clone(), decorated(below))).collect();
                properties.insert("~looks".into(), json!({"type": "string", "enum": ["~e", "x-e"]}));
                properties.insert("x-looks".into(), json!({"type": "object", "default": {"~d": {"x-d": [1]}}, "x-drop": 0}));
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
        cases: if long { 50_000 } else { 200 },
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
            prop_assert!(!keys.iter().any(|key| key.starts_with('~') || key.starts_with("x-")), "{keys:?}");
            let (mut all, mut written) = (Vec::new(), Vec::new());
            walk(&decorated, "", &mut all, &mut written);
            prop_assert_eq!(&data, &written, "data is as it was written");
            let tool = tool(&decorated);
            for form in [mcp(&tool), anthropic(&tool), openai(&tool)] {
                let text = form.unwrap().to_string();
                prop_assert!(!text.contains("vendor") && !text.contains("x-origin") && !text.contains("x-drop"));
                prop_assert!(text.contains("\"~looks\"") && text.contains("\"x-looks\""));
            }
            // Strict mode adds null to a list, and Gemini has no empty text in one; else data is the same or not told.
            let strict = projection::openai_strict(&out).unwrap().schema;
            let (mut keys, mut told) = (Vec::new(), Vec::new());
            walk(&strict, "", &mut keys, &mut told);
            prop_assert!(!keys.iter().any(|key| key.starts_with('~') || key.starts_with("x-")), "{keys:?}");
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
