//! The JSON Schemas of the spec files, for editors; the decoder reads specs by the same ones.
//!
//! Answers for draft-07 schemas made from the model. Leaves out the words of errors, and what no schema can say.

use std::sync::LazyLock;

use devloop_contract::CommonFailure;
use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::FileMap;
use crate::check::{HOST_EFFECTS, SITES};
use crate::model::{AgentSpec, EventsSpec, PORTABLE, ToolSpec, TypesSpec};

/// The schema of a handler spec.
pub(crate) static TOOL: LazyLock<Value> = LazyLock::new(schema_of::<ToolSpec>);
/// The schema of an agent template.
pub(crate) static AGENT: LazyLock<Value> = LazyLock::new(schema_of::<AgentSpec>);
/// The schema of `types.yaml`.
pub(crate) static TYPES: LazyLock<Value> = LazyLock::new(schema_of::<TypesSpec>);
/// The schema of `events.yaml`.
pub(crate) static EVENTS: LazyLock<Value> = LazyLock::new(schema_of::<EventsSpec>);

/// The schemas that editors use, by path: `specs/tool.schema.json` and so on.
pub fn editor_schemas() -> FileMap {
    [
        ("tool", &*TOOL),
        ("agent", &*AGENT),
        ("types", &*TYPES),
        ("events", &*EVENTS),
    ]
    .into_iter()
    .map(|(name, schema)| {
        let schema = sharpened(name, schema);
        (format!("specs/{name}.schema.json"), format!("{schema:#}\n"))
    })
    .collect()
}

const SNAKE: &str = "^[a-z][a-z0-9_]*$";
const TOOL_NAME: &str = "^[a-z][a-z0-9_]{0,49}$";
const KEBAB: &str = "^[a-z][a-z0-9-]*$";
const TAG: &str = "^[a-z0-9][a-z0-9_-]*$";
const LANGUAGE: &str = "^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$";
const SEMVER: &str = "^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)(-[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*)?\
                      (\\+[0-9A-Za-z-]+(\\.[0-9A-Za-z-]+)*)?$";

/// A schema with what the checks say in better words than the decoder would: forms of names, fixed lists of words. So an
/// editor sees a slip while it is made.
fn sharpened(name: &str, schema: &Value) -> Value {
    let pattern = |text: &str| json!({ "pattern": text });
    let keys = |text: &str| json!({ "propertyNames": { "pattern": text } });
    let words = |list: &[&str]| json!({ "items": { "enum": list }, "uniqueItems": true });
    let once = || json!({ "uniqueItems": true });
    let more: Vec<(&str, Value)> = match name {
        "tool" => vec![
            ("/properties/handler", pattern(SNAKE)),
            ("/properties/timeout", pattern("^0*[1-9][0-9]*(ms|s|m)$")),
            ("/properties/version", pattern(SEMVER)),
            ("/properties/category", pattern(TAG)),
            (
                "/properties/tags",
                json!({ "items": { "pattern": TAG }, "uniqueItems": true }),
            ),
            ("/properties/failures", keys(SNAKE)),
            ("/properties/common_failures", words(CommonFailure::CODES)),
            ("/properties/examples", json!({ "minItems": 1 })),
            ("/properties/i18n", keys(LANGUAGE)),
            ("/definitions/FaceSpec/properties/name", pattern(TOOL_NAME)),
            (
                "/definitions/FaceSpec/properties/aliases",
                json!({ "items": { "pattern": TOOL_NAME }, "uniqueItems": true }),
            ),
            ("/definitions/FaceSpec/properties/hide", once()),
            ("/definitions/FaceSpec/properties/require", once()),
            ("/definitions/EffectsSpec/properties/host", words(HOST_EFFECTS)),
            ("/definitions/EffectsSpec/properties/events", once()),
        ],
        "agent" => vec![
            ("/properties/id", pattern(KEBAB)),
            (
                "/properties/name",
                json!({ "pattern": KEBAB, "not": { "const": "human" } }),
            ),
            ("/properties/i18n", keys(LANGUAGE)),
            (
                "/definitions/AgentCli/properties/builtins",
                json!({ "items": { "minLength": 1 }, "uniqueItems": true }),
            ),
            ("/definitions/AgentCli/properties/tools", once()),
            (
                "/definitions/AgentCli/properties/host_tools",
                json!({ "items": { "minLength": 1 }, "uniqueItems": true }),
            ),
            ("/definitions/AgentSandbox/properties/env", keys("^[A-Z_][A-Z0-9_]*$")),
            ("/definitions/AgentSandbox/properties/site", json!({ "enum": SITES })),
        ],
        "types" => vec![(
            "/properties/types",
            json!({
                "propertyNames": { "pattern": "^[A-Z][A-Za-z0-9]*$" },
                "additionalProperties": {
                    "allOf": [
                        { "$ref": format!("#/definitions/{PORTABLE}") },
                        { "anyOf": [{ "required": ["description"] }, { "required": ["$ref"] }] }
                    ]
                }
            }),
        )],
        _ => vec![("/properties/events", keys("^[a-z]+(\\.[a-z_]*[a-z][a-z_]*)+$"))],
    };
    let mut schema = schema.clone();
    for (pointer, more) in more {
        let place = schema.pointer_mut(pointer).expect("a test has every pointer");
        merge(place, more);
    }
    schema
}

/// Adds keywords to a schema, also inside what both have. A reference gives way to what replaces it.
fn merge(schema: &mut Value, more: Value) {
    match (schema, more) {
        (Value::Object(schema), Value::Object(more)) if !schema.contains_key("$ref") => {
            for (key, value) in more {
                merge(schema.entry(key).or_insert(Value::Null), value);
            }
        }
        (schema, more) => *schema = more,
    }
}

fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with_transform(without_null);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    let map = schema.ensure_object();
    // The dialect stands first, where a reader looks for it; the model's Rust name is nobody's title.
    let mut ordered = serde_json::Map::new();
    ordered.extend(map.shift_remove_entry("$schema"));
    ordered.extend(map.shift_remove_entry("description"));
    map.shift_remove("title");
    ordered.append(map);
    Value::Object(ordered)
}

/// An optional key is left out, not `null`; schemars allows both.
fn without_null(schema: &mut Schema) {
    transform_subschemas(&mut without_null, schema);
    let Some(map) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            map.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(alternatives)) = map.get_mut("anyOf") {
        alternatives.retain(|alternative| alternative.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = &alternatives[..] {
            let mut only = only.clone();
            map.shift_remove("anyOf");
            // Draft 7 ignores what stands beside a `$ref`; one alternative keeps the description alive.
            if only.contains_key("$ref") && !map.is_empty() {
                only = serde_json::Map::from_iter([("allOf".to_owned(), Value::Array(vec![Value::Object(only)]))]);
            }
            map.extend(only);
        }
    }
    if map.get("default").is_some_and(Value::is_null) {
        map.shift_remove("default");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL_SPEC: &str = include_str!("../tests/errors/base/tools/notes/note_add.yaml");
    const AGENT_SPEC: &str = include_str!("../tests/errors/base/agents/devloop-runner.yaml");
    const EVENTS_SPEC: &str = include_str!("../tests/errors/base/events.yaml");
    const TYPES_SPEC: &str = include_str!("../tests/errors/base/types.yaml");

    /// Whether an editor finds no fault with a spec in which one text stands in place of another.
    fn is_fine(name: &str, text: &str, from: &str, to: &str) -> bool {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let text = text.replace(from, to);
        let tree = crate::yaml::parse("specs/x.yaml", &text).unwrap();
        let schema = serde_json::from_str(&editor_schemas()[&format!("specs/{name}.schema.json")]).unwrap();
        jsonschema::draft7::is_valid(&schema, &tree.to_value())
    }

    #[test]
    fn an_editor_misses_examples() {
        let (rest, examples) = TOOL_SPEC.split_once("examples:\n").unwrap();
        let after = examples.find("\ni18n:").unwrap();
        let text = format!("{rest}examples: []{}", &examples[after..]);
        assert!(!is_fine("tool", &text, "examples: []", "examples: []"));
    }

    #[test]
    fn an_editor_sees_bad_words_and_forms() {
        for (name, text, from, to) in [
            ("tool", TOOL_SPEC, "handler: note_add", "handler: note-add"),
            ("tool", TOOL_SPEC, "name: note_attach", "name: NoteAttach"),
            ("tool", TOOL_SPEC, "[add_note]", "[add-note]"),
            ("tool", TOOL_SPEC, "timeout: 5s", "timeout: 5h"),
            ("tool", TOOL_SPEC, "timeout: 5s", "timeout: 0s"),
            ("tool", TOOL_SPEC, "version: 1.2.0", "version: '1.2'"),
            ("tool", TOOL_SPEC, "category: notes", "category: Notes"),
            ("tool", TOOL_SPEC, "tags: [note, text]", "tags: [note, note]"),
            ("tool", TOOL_SPEC, "  full: There", "  Full: There"),
            ("tool", TOOL_SPEC, "[busy]", "[bussy]"),
            ("tool", TOOL_SPEC, "events: [note.added]", "host: [ports]"),
            ("tool", TOOL_SPEC, "zh-CN:", "zh_CN:"),
            (
                "tool",
                TOOL_SPEC,
                "examples:\n  - title: A short note\n    input: { id: note-1, text: Call back }\n    output: { count: 1 }\n  - title: A note on a file\n    input: { id: note-2, text: Look here, file: prd/index.html }\n",
                "examples: []\n",
            ),
            ("agent", AGENT_SPEC, "id: devloop-runner\n", "id: Runner\n"),
            ("agent", AGENT_SPEC, "name: runner\n", "name: human\n"),
            ("agent", AGENT_SPEC, "site: sdd", "site: docs"),
            ("agent", AGENT_SPEC, "[Read, Bash]", "['', Bash]"),
            ("agent", AGENT_SPEC, "[Read, Bash]", "[Bash, Bash]"),
            ("events", EVENTS_SPEC, "note.added:", "NoteAdded:"),
            ("types", TYPES_SPEC, "NoteId:", "noteId:"),
            ("types", TYPES_SPEC, "    description: The id of a note.\n", ""),
        ] {
            assert!(is_fine(name, text, from, from), "{name} as it is");
            assert!(!is_fine(name, text, from, to), "{name}: {to}");
        }
    }
}
