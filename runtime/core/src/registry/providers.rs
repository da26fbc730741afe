//! What providers accept, for tests: their published rules on tools, written down once more and apart from the
//! projections that must keep them.
//!
//! Answers for everything that is wrong with a declaration by the rules of its reader; nothing, when it is fine. Leaves out
//! whether a declaration says the same as the tool.

use serde_json::{Map, Value};

/// What is wrong with a name by the rules that all providers share.
fn name_faults(name: &Value, faults: &mut Vec<String>) {
    let name = name.as_str().unwrap_or_default();
    let fits = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !fits || !(1..=64).contains(&name.len()) || !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        faults.push(format!("name {name}"));
    }
}

/// <https://docs.anthropic.com/en/docs/agents-and-tools/tool-use/implement-tool-use>: `input_schema` is a JSON Schema object
/// for the parameters; the API answers 400 for a root with `oneOf`, `allOf` or `anyOf` and for keys of another form.
pub fn anthropic_faults(tool: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    only(tool, &["name", "description", "input_schema"], &mut faults);
    name_faults(&tool["name"], &mut faults);
    plain_schema_faults(&tool["input_schema"], &mut faults);
    faults
}

/// <https://platform.openai.com/docs/api-reference/chat/create>, `tools`: `function` with `name`, `description`, `parameters`
/// (a JSON Schema object) and `strict`.
pub fn openai_faults(tool: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    only(tool, &["type", "function"], &mut faults);
    let function = &tool["function"];
    // Of a longer one it answers 400, `string_above_max_length`.
    let description = function["description"].as_str().map(|text| text.chars().count());
    if description.is_none_or(|length| length > 1_024) {
        faults.push(format!("description {description:?}"));
    }
    only(function, &["name", "description", "parameters", "strict"], &mut faults);
    name_faults(&function["name"], &mut faults);
    if tool["type"] != "function" || !function["strict"].is_boolean() {
        faults.push("form".into());
    }
    draft_faults(&function["parameters"], &mut faults);
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
    if ["oneOf", "anyOf", "allOf", "not", "enum", "$ref"]
        .iter()
        .any(|key| schema.get(key).is_some())
    {
        faults.push("composed root".into());
    }
    draft_faults(schema, faults);
}

/// 2020-12, and not by name: some readers refuse a `$schema` that they were not made for.
fn draft_faults(schema: &Value, faults: &mut Vec<String>) {
    if schema.get("$schema").is_some() || !jsonschema::draft202012::meta::is_valid(schema) {
        faults.push(format!("no JSON Schema of 2020-12: {schema}"));
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
            "type",
            "description",
            "title",
            "enum",
            "const",
            "properties",
            "required",
            "additionalProperties",
            "items",
            "anyOf",
            "$ref",
            "$defs",
            "pattern",
            "format",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minItems",
            "maxItems",
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
            let required: Vec<&str> = schema["required"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            let names: Vec<&str> = properties.keys().map(String::as_str).collect();
            if required != names || schema["additionalProperties"] != false {
                self.faults.push(format!("open object {schema}"));
            }
            self.properties += names.len();
            properties
                .values()
                .for_each(|property| self.schema(property, depth + 1));
        }
        for shared in schema["$defs"].as_object().into_iter().flat_map(Map::values) {
            self.schema(shared, 1);
        }
    }
}

/// <https://ai.google.dev/api/caching#FunctionDeclaration> and `#Schema`; an object without properties is answered by 400,
/// "should be non-empty for OBJECT type".
pub fn gemini_faults(tool: &Value) -> Vec<String> {
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
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "propertyOrdering",
        "default",
        "items",
        "minimum",
        "maximum",
    ];
    only(schema, &known, faults);
    let kind = schema["type"].as_str();
    let kinds = ["STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"];
    if schema.get("anyOf").is_none() && !kind.is_some_and(|kind| kinds.contains(&kind)) {
        faults.push(format!("type {schema}"));
    }
    for count in [
        "maxItems",
        "minItems",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
    ] {
        if schema
            .get(count)
            .is_some_and(|count| count.as_str().is_none_or(|text| text.parse::<i64>().is_err()))
        {
            faults.push(format!("{count} {schema}"));
        }
    }
    if let Some(values) = schema.get("enum") {
        let texts = values.as_array().is_some_and(|values| {
            !values.is_empty()
                && values
                    .iter()
                    .all(|value| value.as_str().is_some_and(|text| !text.is_empty()))
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
pub fn mcp_faults(tool: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let known = [
        "name",
        "title",
        "description",
        "inputSchema",
        "outputSchema",
        "annotations",
        "_meta",
    ];
    only(tool, &known, &mut faults);
    name_faults(&tool["name"], &mut faults);
    plain_schema_faults(&tool["inputSchema"], &mut faults);
    if tool
        .get("outputSchema")
        .is_some_and(|schema| schema["type"] != "object")
    {
        faults.push("output".into());
    }
    if let Some(output) = tool.get("outputSchema") {
        draft_faults(output, &mut faults);
    }
    let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    if hints.iter().any(|hint| !tool["annotations"][hint].is_boolean()) {
        faults.push("annotations".into());
    }
    faults
}
