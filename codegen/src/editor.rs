//! The JSON Schemas of the spec files, for editors; the decoder reads specs by the same ones.
//!
//! Answers for draft-07 schemas made from the model. Leaves out the words of errors, and what no schema can say.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use crate::FileMap;
use crate::model::{AgentSpec, EventsSpec, ToolSpec, TypesSpec};

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
    .map(|(name, schema)| (format!("specs/{name}.schema.json"), format!("{schema:#}\n")))
    .collect()
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
