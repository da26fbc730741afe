//! The schema of an output as it is published.
//!
//! Answers for outputs that stay open, as a new field in an answer must break nobody, and in which a result that was cut
//! down may say so in a field of its own. Leaves out how it is cut.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{each_schema, rebuilt};

/// The field of a result that was cut down, in which it says so.
pub const OVERSIZED: &str = "oversized";

/// The schema of an output as it is published and judged by: annotations of the runtime are gone, and what takes no keys
/// beside its properties takes them.
///
/// Where a value has to fit one alternative alone, or must not fit, an open object would mean something else: such a
/// schema stays closed. Either way, and where all other keys have to be of one kind, [`OVERSIZED`] may be beside them.
pub fn published_output(schema: &Value) -> Value {
    let others = if counts(schema) {
        Others::AsWritten
    } else {
        Others::Taken
    };
    let mut published = written(schema, others);
    let mut places = BTreeSet::new();
    in_place(&published, &mut places);
    for place in places {
        if let Some(Value::Object(map)) = published.pointer_mut(&place)
            && ["additionalProperties", "unevaluatedProperties"]
                .iter()
                .any(|keyword| narrows(map.get(*keyword)))
            && let Value::Object(listed) = map.entry("properties").or_insert_with(|| json!({}))
        {
            listed.entry(OVERSIZED).or_insert_with(
                || json!({ "description": "Where the result was too large: what is left out, and how to read it." }),
            );
        }
    }
    published
}

/// What becomes of keys beside the properties of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    Taken,
    AsWritten,
}

fn written(schema: &Value, others: Others) -> Value {
    let Value::Object(map) = schema else {
        return schema.clone();
    };
    let mut out: Map<String, Value> = rebuilt(map, &|_, below| written(below, others));
    if others == Others::Taken {
        for keyword in ["additionalProperties", "unevaluatedProperties"] {
            if out.get(keyword) == Some(&Value::Bool(false)) {
                out.shift_remove(keyword);
            }
        }
    }
    out.into()
}

/// Whether it counts somewhere that a value does not fit.
fn counts(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return false };
    let mut found = ["oneOf", "not", "if", "maxContains"]
        .iter()
        .any(|keyword| map.contains_key(*keyword));
    each_schema(schema, &mut |_, _, below| found = found || counts(below));
    found
}

fn narrows(keyword: Option<&Value>) -> bool {
    matches!(keyword, Some(Value::Bool(false) | Value::Object(_)))
}

/// The places of all schemas that speak of the root itself.
fn in_place(root: &Value, found: &mut BTreeSet<String>) {
    let mut open = vec![String::new()];
    while let Some(place) = open.pop() {
        if !found.insert(place.clone()) {
            continue;
        }
        let Some(Value::Object(map)) = root.pointer(&place) else {
            continue;
        };
        for (keyword, value) in map {
            match (keyword.as_str(), value) {
                ("allOf" | "anyOf" | "oneOf", Value::Array(parts)) => {
                    open.extend((0..parts.len()).map(|index| format!("{place}/{keyword}/{index}")));
                }
                ("not" | "if" | "then" | "else", Value::Object(_)) => open.push(format!("{place}/{keyword}")),
                ("dependentSchemas", Value::Object(by_key)) => {
                    let names = by_key.keys().map(|name| name.replace('~', "~0").replace('/', "~1"));
                    open.extend(names.map(|name| format!("{place}/{keyword}/{name}")));
                }
                ("$ref", Value::String(reference)) => {
                    open.extend(reference.strip_prefix('#').map(str::to_owned));
                }
                _ => {}
            }
        }
    }
}
