//! What a spec means once its defaults, shared types and faces are worked out.
//!
//! Answers for the derived forms that checks and emitters share: schemas with `$ref` inlined, one [`Face`] per tool with
//! its rules and examples, the model-facing description. Leaves out judging (checks) and rendering (emitters).

use devloop_contract::value::same;
use serde_json::{Map, Value, json};

use crate::model::{ExampleSpec, FaceSpec, FailureEntry, RuleSpec, Schema, ToolSpec, TypesSpec};
use crate::specs::{Specs, ToolFile};

mod paths;
mod rules;

pub(crate) use paths::path_faults;
pub(crate) use rules::{FaceRules, Why, holds, rules_of};

/// The time that a call may take when its spec says nothing, in milliseconds.
pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// The shared type whose values are paths.
pub(crate) const PATH_TYPE: &str = "RelPath";

/// One tool: a face of a handler with everything worked out.
#[derive(Clone, Debug)]
pub struct Face<'a> {
    /// The spec of its handler.
    pub tool: &'a ToolFile,
    /// The name that agents call.
    pub name: &'a str,
    /// The human name.
    pub title: String,
    /// Other names.
    pub aliases: &'a [String],
    /// The first sentence.
    pub summary: &'a str,
    /// What follows it.
    pub details: Option<&'a str>,
    /// The model-facing text.
    pub description: String,
    /// Input fields that the face fixes.
    pub bind: Map<String, Value>,
    /// The input's schema as published: `$ref`s inlined, bound and hidden fields gone, required fields added, no `title`.
    pub input: Schema,
    /// The output's schema as published: `$ref`s inlined, with `ok`, no `title`.
    pub output: Schema,
    /// JSON Pointers of the input's path fields, bound ones included, hidden ones not.
    pub path_fields: Vec<String>,
    /// The rules that a caller has to keep.
    pub rules: Vec<RuleSpec>,
    /// Calls as its callers would make them.
    pub examples: Vec<ExampleSpec>,
}

/// The faces of every handler, sorted by name.
pub fn faces(specs: &Specs) -> Vec<Face<'_>> {
    let mut faces: Vec<_> = specs
        .tools
        .iter()
        .flat_map(|tool| faces_of(tool, &specs.types.spec))
        .collect();
    faces.sort_by(|a, b| a.name.cmp(b.name));
    faces
}

/// The faces of one handler, in the order of its spec.
pub fn faces_of<'a>(tool: &'a ToolFile, types: &TypesSpec) -> Vec<Face<'a>> {
    let spec = &tool.file.spec;
    let input = inline(&spec.input, types);
    let output = published_output(&inline(&spec.output, types));
    let path_fields = path_fields(&spec.input, types);
    if spec.tools.is_empty() {
        let view = view(spec, None, &input);
        return vec![Face {
            tool,
            name: &spec.handler,
            title: sentence_case(&spec.handler),
            aliases: &[],
            summary: &spec.summary,
            details: spec.details.as_deref(),
            description: description(spec, &spec.summary, spec.details.as_deref(), &view.rules.rules),
            bind: Map::new(),
            input: without_titles(&view.input),
            output,
            path_fields,
            rules: view.rules.rules,
            examples: view.examples,
        }];
    }
    spec.tools
        .iter()
        .map(|face| {
            let summary = face.summary.as_deref().unwrap_or(&spec.summary);
            let details = face.details.as_deref().or(spec.details.as_deref());
            let view = view(spec, Some(face), &input);
            Face {
                tool,
                name: &face.name,
                title: face.title.clone(),
                aliases: &face.aliases,
                summary,
                details,
                description: description(spec, summary, details, &view.rules.rules),
                bind: view.bind,
                input: without_titles(&view.input),
                output: output.clone(),
                path_fields: path_fields
                    .iter()
                    .filter(|field| !face.hide.iter().any(|name| field.split('/').nth(1) == Some(name)))
                    .cloned()
                    .collect(),
                rules: view.rules.rules,
                examples: view.examples,
            }
        })
        .collect()
}

/// What a face makes of its handler's input.
pub(crate) struct View {
    /// Bound fields, in the form of their schemas.
    pub(crate) bind: Map<String, Value>,
    /// What the rules become.
    pub(crate) rules: FaceRules,
    /// What may be sent.
    pub(crate) input: Schema,
    /// Its own examples, or those of the handler that its callers could send, without what it binds.
    pub(crate) examples: Vec<ExampleSpec>,
}

/// The view of a face, or of the only tool of a handler. `input` is the handler's schema with references inlined.
pub(crate) fn view(spec: &ToolSpec, face: Option<&FaceSpec>, input: &Schema) -> View {
    let rules = rules_of(&spec.rules, face, input);
    let Some(face) = face else {
        return View {
            bind: Map::new(),
            rules,
            input: input.clone(),
            examples: spec.examples.clone(),
        };
    };
    let properties = input.get("properties");
    let bind = face.bind.iter().map(|(name, value)| {
        let schema = properties.and_then(|properties| properties.get(name)?.as_object());
        (
            name.clone(),
            schema.map_or_else(|| value.clone(), |schema| settled(schema, value)),
        )
    });
    let bind: Map<String, Value> = bind.collect();
    let narrowed = face_input(input, face, &rules.forced);
    let examples = if face.examples.is_empty() {
        let usable = |example: &&ExampleSpec| usable(&example.input, face, &narrowed, &rules);
        let without = |example: &ExampleSpec| {
            let mut example = example.clone();
            example.input.retain(|name, _| !face.bind.contains_key(name));
            example
        };
        spec.examples.iter().filter(usable).map(without).collect()
    } else {
        face.examples.clone()
    };
    View {
        bind,
        rules,
        input: narrowed,
        examples,
    }
}

/// Whether a call of the handler shows a call of the face.
fn usable(example: &Map<String, Value>, face: &FaceSpec, input: &Schema, rules: &FaceRules) -> bool {
    let agrees = |(name, value): (&String, &Value)| example.get(name).is_none_or(|given| same(given, value));
    let mut sent = example.clone();
    sent.retain(|name, _| !face.bind.contains_key(name));
    let mut required = input.get("required").and_then(Value::as_array).into_iter().flatten();
    face.bind.iter().all(agrees)
        && !face.hide.iter().any(|name| sent.contains_key(name))
        && required.all(|name| name.as_str().is_none_or(|name| sent.contains_key(name)))
        && rules.rules.iter().all(|rule| holds(rule, input, &sent))
}

/// An input with the defaults of the fields that it leaves out.
pub(crate) fn with_defaults(schema: &Schema, input: &Map<String, Value>) -> Map<String, Value> {
    let mut whole = input.clone();
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if let Some(default) = property.get("default")
            && !whole.contains_key(name)
        {
            whole.insert(name.clone(), default.clone());
        }
    }
    whole
}

/// A value in the form that typed code takes: `24.0` for an integer is `24`. `schema` has its references inlined.
pub(crate) fn settled(schema: &Schema, value: &Value) -> Value {
    let sub = |key: &str| schema.get(key).and_then(Value::as_object);
    match value {
        Value::Number(number) if schema.get("type").is_some_and(|kind| kind == "integer") => {
            // Every float of this range is exact as an integer.
            let whole = number.as_f64().filter(|float| number.is_f64() && float.abs() < 9e15);
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the float is whole and within the range: the cast is exact"
            )]
            let whole = whole.filter(|float| float.fract() == 0.0).map(|float| float as i64);
            whole.map_or_else(|| value.clone(), Value::from)
        }
        Value::Array(items) => {
            let settle = |item: &Value| sub("items").map_or_else(|| item.clone(), |schema| settled(schema, item));
            Value::Array(items.iter().map(settle).collect())
        }
        Value::Object(map) => {
            let property = |name: &str| sub("properties").and_then(|properties| properties.get(name)?.as_object());
            let entries = map.iter().map(|(name, value)| {
                let schema = property(name).or_else(|| sub("additionalProperties"));
                (
                    name.clone(),
                    schema.map_or_else(|| value.clone(), |schema| settled(schema, value)),
                )
            });
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

/// A schema with every `$ref` replaced by the shared type it names; keys beside the `$ref` win over the type's.
/// An unknown or circular reference is left as it is: the checks report it.
pub fn inline(schema: &Schema, types: &TypesSpec) -> Schema {
    inline_within(schema, types, &mut Vec::new())
}

fn inline_within(schema: &Schema, types: &TypesSpec, open: &mut Vec<String>) -> Schema {
    if let Some(Value::String(name)) = schema.get("$ref")
        && let Some(shared) = types.types.get(name)
        && !open.contains(name)
    {
        open.push(name.clone());
        let mut whole = inline_within(shared, types, open);
        open.pop();
        for (key, value) in schema.iter().filter(|(key, _)| *key != "$ref") {
            whole.insert(key.clone(), value.clone());
        }
        return whole;
    }
    map_subschemas(schema, &mut |sub| inline_within(sub, types, open))
}

/// Applies `f` to the direct subschemas of a schema: the properties, the items, the additional properties. Nothing else
/// is looked into, so a property called `items` or a default is never mistaken for a schema.
pub fn map_subschemas(schema: &Schema, f: &mut dyn FnMut(&Schema) -> Schema) -> Schema {
    let mut mapped = Map::new();
    for (key, value) in schema {
        let value = match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => Value::Object(
                properties
                    .iter()
                    .map(|(name, sub)| {
                        (
                            name.clone(),
                            sub.as_object().map_or_else(|| sub.clone(), |sub| Value::Object(f(sub))),
                        )
                    })
                    .collect(),
            ),
            ("items" | "additionalProperties", Value::Object(sub)) => Value::Object(f(sub)),
            _ => value.clone(),
        };
        mapped.insert(key.clone(), value);
    }
    mapped
}

/// `title` names a type in Rust; it is no business of a client.
fn without_titles(schema: &Schema) -> Schema {
    let mut schema = map_subschemas(schema, &mut without_titles);
    schema.shift_remove("title");
    schema
}

fn published_output(output: &Schema) -> Schema {
    let mut output = without_titles(output);
    let mut properties = Map::new();
    properties.insert(
        "ok".into(),
        json!({ "type": "boolean", "description": "Always true in a success." }),
    );
    if let Some(Value::Object(own)) = output.get("properties") {
        properties.extend(own.clone());
    }
    let mut required = vec![json!("ok")];
    if let Some(Value::Array(own)) = output.get("required") {
        required.extend(own.iter().cloned());
    }
    output.insert("required".into(), Value::Array(required));
    output.insert("properties".into(), Value::Object(properties));
    output
}

/// The handler's schema without bound and hidden fields, and with what the face and its rules require.
fn face_input(input: &Schema, face: &FaceSpec, forced: &[String]) -> Schema {
    let gone = |name: &str| face.bind.contains_key(name) || face.hide.iter().any(|hidden| hidden == name);
    let mut input = input.clone();
    if let Some(Value::Object(properties)) = input.get_mut("properties") {
        properties.retain(|name, _| !gone(name));
    }
    let mut required: Vec<Value> = match input.get("required") {
        Some(Value::Array(required)) => required.clone(),
        _ => Vec::new(),
    };
    required.retain(|name| name.as_str().is_none_or(|name| !gone(name)));
    for name in face.require.iter().chain(forced) {
        if !required.iter().any(|known| known == name) {
            required.push(json!(name));
        }
    }
    if !required.is_empty() || input.contains_key("required") {
        input.insert("required".into(), Value::Array(required));
    }
    input
}

/// The pointers of the fields whose type is the shared type `RelPath`.
fn path_fields(schema: &Schema, types: &TypesSpec) -> Vec<String> {
    fn walk(schema: &Schema, types: &TypesSpec, pointer: &str, depth: usize, found: &mut Vec<String>) {
        if let Some(Value::String(name)) = schema.get("$ref") {
            if name == PATH_TYPE {
                found.push(pointer.to_owned());
            } else if let Some(shared) = types.types.get(name)
                && depth < 32
            {
                walk(shared, types, pointer, depth + 1, found);
            }
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, sub) in properties {
                if let Value::Object(sub) = sub {
                    walk(sub, types, &format!("{pointer}/{name}"), depth, found);
                }
            }
        }
        // Every index of an array, every key of a map.
        for key in ["items", "additionalProperties"] {
            if let Some(Value::Object(each)) = schema.get(key) {
                walk(each, types, &format!("{pointer}/*"), depth, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(schema, types, "", 0, &mut found);
    found
}

/// Summary, details, rules, notes, cautions: what a model reads.
fn description(spec: &ToolSpec, summary: &str, details: Option<&str>, rules: &[RuleSpec]) -> String {
    let mut parts = vec![summary.trim().to_owned()];
    parts.extend(details.map(|details| details.trim().to_owned()));
    let rules: Vec<String> = rules.iter().map(rule_sentence).collect();
    if !rules.is_empty() {
        parts.push(rules.join("\n"));
    }
    for (heading, lines) in [("Notes:", &spec.notes), ("Cautions:", &spec.cautions)] {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|line| format!("- {}", line.trim())).collect();
            parts.push(format!("{heading}\n{}", lines.join("\n")));
        }
    }
    parts.join("\n\n")
}

/// A rule as a sentence for the model.
fn rule_sentence(rule: &RuleSpec) -> String {
    let list = |fields: &[String]| {
        fields
            .iter()
            .map(|field| format!("`{field}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match rule {
        RuleSpec::ExactlyOneOf(fields) => format!("Give exactly one of {}.", list(fields)),
        RuleSpec::AtMostOneOf(fields) => format!("Give at most one of {}.", list(fields)),
        RuleSpec::RequiredIf(rule) => {
            let values: Vec<String> = rule.is.iter().map(ToString::to_string).collect();
            let (field, when) = (&rule.field, &rule.when);
            format!("`{field}` is required when `{when}` is {}.", values.join(" or "))
        }
    }
}

/// The meaning of a failure.
pub fn failure_summary(entry: &FailureEntry) -> &str {
    match entry {
        FailureEntry::Text(text) => text,
        FailureEntry::Detail(detail) => &detail.summary,
    }
}

/// How long a hook may take that says nothing.
pub const HOOK_TIMEOUT_MS: u64 = 10_000;

/// `10s`, `500ms` or `2m` in milliseconds; `None` when it is none of these or zero.
pub fn timeout_ms(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let factor = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    number.checked_mul(factor).filter(|ms| *ms > 0)
}

/// `write_todolist` as `Write todolist`.
fn sentence_case(name: &str) -> String {
    let text = name.replace('_', " ");
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + chars.as_str())
        .unwrap_or_default()
}

/// `write_todolist` as `WriteTodolist`: how a handler, a type or a variant is called in Rust.
pub fn pascal_case(name: &str) -> String {
    name.split(['_', '.', '-', ' '])
        .filter(|part| !part.is_empty())
        .map(|part| {
            let mut chars = part.chars();
            chars
                .next()
                .map(|first| first.to_ascii_uppercase().to_string() + chars.as_str())
                .unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_are_not_zero() {
        assert_eq!(
            [timeout_ms("10s"), timeout_ms("500ms"), timeout_ms("2m")],
            [Some(10_000), Some(500), Some(120_000)]
        );
        assert_eq!(
            [timeout_ms("10"), timeout_ms("s"), timeout_ms("0s"), timeout_ms("1h")],
            [None; 4]
        );
    }

    #[test]
    fn a_property_called_items_is_no_schema_of_items() {
        let types = TypesSpec {
            types: [("Id".into(), json!({"type": "string"}).as_object().unwrap().clone())].into(),
        };
        let schema = json!({"properties": {"items": {"$ref": "Id"}}, "default": {"$ref": "Id"}});
        let inlined = inline(schema.as_object().unwrap(), &types);
        assert_eq!(
            Value::Object(inlined),
            json!({"properties": {"items": {"type": "string"}}, "default": {"$ref": "Id"}})
        );
    }
}
