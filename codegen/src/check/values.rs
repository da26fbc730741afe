//! Values against schemas: compiling a schema, and saying in words what is wrong with a value.
//!
//! Leaves out which values are judged.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::model::Schema;
use crate::suggest::{list, suggest};

/// Compiles a cleaned schema.
pub(super) fn compile(schema: &Schema) -> Result<jsonschema::Validator, String> {
    jsonschema::draft7::options()
        .should_validate_formats(false)
        .build(&Value::Object(schema.clone()))
        .map_err(|error| error.to_string())
}

/// What is wrong with a value, in words.
pub(super) fn reason(error: &ValidationError<'_>) -> String {
    let found = short(error.instance());
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("`{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<&str> = unexpected.iter().map(String::as_str).collect();
            format!("unknown field {}", list(&names))
        }
        ValidationErrorKind::Type {
            kind: TypeKind::Single(kind),
        } => format!("expected type `{kind}`, found {found}"),
        ValidationErrorKind::Enum { options } => {
            let options: Vec<&str> = options
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            format!("{found} is none of {}", list(&options))
        }
        ValidationErrorKind::Pattern { pattern } => format!("{found} does not match `{pattern}`"),
        ValidationErrorKind::Minimum { limit } => format!("{found} is below {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("{found} is above {limit}"),
        ValidationErrorKind::MinLength { limit } => format!("{found} is shorter than {limit}"),
        ValidationErrorKind::MaxLength { limit } => format!("{found} is longer than {limit}"),
        ValidationErrorKind::MinItems { limit } => format!("fewer than {limit} items"),
        ValidationErrorKind::MaxItems { limit } => format!("more than {limit} items"),
        ValidationErrorKind::UniqueItems => "an item stands twice".to_owned(),
        _ => error.to_string(),
    }
}

/// What to do about it.
pub(super) fn advice(error: &ValidationError<'_>) -> Option<String> {
    match error.kind() {
        ValidationErrorKind::Type {
            kind: TypeKind::Single(kind),
        } => Some(match (kind.to_string().as_str(), &**error.instance()) {
            ("string", Value::Bool(_) | Value::Number(_)) => "put it in quotes".to_owned(),
            (kind, _) => format!("write a value of type `{kind}`"),
        }),
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().into_iter().flatten().filter_map(Value::as_str);
            suggest(error.instance().as_str()?, options)
        }
        _ => Some("change the value, or the schema".to_owned()),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 60 {
        return format!("`{text}`");
    }
    let head: String = text.chars().take(59).collect();
    format!("`{head}…`")
}
