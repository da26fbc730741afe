//! What a schema is, as far as Rust types are concerned, and what it says about itself.
//!
//! Leaves out schemas outside the portable subset: the checks say what is wrong with them.

use serde_json::Value;

use crate::emit::rust::prose;
use crate::model::Schema;
use crate::resolve::pascal_case;

/// What a schema is, as far as Rust types are concerned.
pub(super) enum Form<'s> {
    Ref(&'s str),
    Struct,
    Enum,
    Map(&'s Schema),
    Free,
    List(Option<&'s Schema>),
    Integer,
    Plain(&'s str),
    /// Outside the portable subset; the checks say it better.
    Unknown,
}

pub(super) fn form(schema: &Schema) -> Form<'_> {
    if let Some(Value::String(name)) = schema.get("$ref") {
        return Form::Ref(name);
    }
    if ["oneOf", "anyOf", "allOf", "not", "if", "const"]
        .iter()
        .any(|key| schema.contains_key(*key))
    {
        return Form::Unknown;
    }
    if let Some(Value::Array(values)) = schema.get("enum")
        && values.iter().all(Value::is_string)
    {
        return Form::Enum;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => match (schema.get("properties"), schema.get("additionalProperties")) {
            (Some(_), _) | (None, Some(Value::Bool(false))) => Form::Struct,
            (None, Some(Value::Object(values))) => Form::Map(values),
            (None, _) => Form::Free,
        },
        Some("array") => Form::List(schema.get("items").and_then(Value::as_object)),
        Some("integer") => Form::Integer,
        Some(kind @ ("string" | "boolean" | "number")) => Form::Plain(kind),
        _ => Form::Unknown,
    }
}

pub(super) fn title_or(schema: &Schema, name: &str) -> String {
    schema
        .get("title")
        .and_then(Value::as_str)
        .map_or_else(|| name.to_owned(), pascal_case)
}

pub(super) fn describe(schema: &Schema, fallback: &str) -> String {
    schema
        .get("description")
        .and_then(Value::as_str)
        .map_or_else(|| fallback.to_owned(), prose)
}
