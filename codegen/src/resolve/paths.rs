//! Which texts of a value are paths, and which of these are none.
//!
//! Answers for finding the fields of the shared type `RelPath` in a value and judging them as a call would be judged.
//! Leaves out patterns of paths: those are no values.

use devloop_contract::path::{PathProblem, path_problem};
use serde_json::Value;
use unicode_normalization::{UnicodeNormalization, is_nfc};

use super::PATH_TYPE;
use crate::model::{Schema, TypesSpec};
use crate::pointer::child;

/// Pointers into `value`, each with what is wrong with the path there. `schema` still has its references.
pub(crate) fn path_faults(schema: &Schema, types: &TypesSpec, value: &Value) -> Vec<(String, PathProblem)> {
    let mut faults = Vec::new();
    walk(schema, types, value, "", &mut Vec::new(), &mut faults);
    faults
}

fn walk<'a>(
    schema: &'a Schema,
    types: &'a TypesSpec,
    value: &Value,
    pointer: &str,
    open: &mut Vec<&'a str>,
    faults: &mut Vec<(String, PathProblem)>,
) {
    if let Some(Value::String(name)) = schema.get("$ref") {
        if name == PATH_TYPE {
            faults.extend(
                value
                    .as_str()
                    .and_then(problem)
                    .map(|problem| (pointer.to_owned(), problem)),
            );
        } else if let Some(shared) = types.types.get(name)
            && !open.contains(&name.as_str())
        {
            open.push(name);
            walk(shared, types, value, pointer, open, faults);
            open.pop();
        }
    }
    let sub = |key: &str| schema.get(key).and_then(Value::as_object);
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if let Some(schema) = sub("items") {
                    walk(schema, types, item, &format!("{pointer}/{index}"), open, faults);
                }
            }
        }
        Value::Object(map) => {
            for (name, value) in map {
                let property = sub("properties").and_then(|properties| properties.get(name)?.as_object());
                if let Some(schema) = property.or_else(|| sub("additionalProperties")) {
                    walk(schema, types, value, &child(pointer, name), open, faults);
                }
            }
        }
        _ => {}
    }
}

fn problem(text: &str) -> Option<PathProblem> {
    path_problem(text).or_else(|| {
        (!is_nfc(text)).then(|| PathProblem::NotNfc {
            nfc: text.nfc().collect(),
        })
    })
}
