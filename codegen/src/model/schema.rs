//! The portable subset of JSON Schema as a JSON Schema, for editors.
//!
//! Answers for what an editor offers under `input`, `output`, `payload` and the shared types. Leaves out the judging of
//! schemas: `check::schemas` does that, with better words.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// Stands for a schema-valued key in the model's own schema; never built.
pub(crate) enum Portable {}

/// The name of its definition.
pub(crate) const PORTABLE: &str = "PortableSchema";

impl JsonSchema for Portable {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed(PORTABLE)
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let sub = generator.subschema_for::<Self>();
        let count = |text: &str| json_schema!({ "description": text, "type": "integer", "minimum": 0 });
        json_schema!({
            "description": "A JSON Schema inside the subset that every model provider reads alike.",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "$ref": { "description": "The name of a shared type of `types.yaml`.", "type": "string" },
                "type": {
                    "description": "One type. There are no lists of types and no `null`: leave an optional field out.",
                    "enum": ["object", "array", "string", "integer", "number", "boolean"]
                },
                "title": {
                    "description": "The name of the nested type in Rust, in Pascal case.",
                    "type": "string",
                    "pattern": "^[A-Z][A-Za-z0-9]*$"
                },
                "description": { "description": "What it is, for the model. Every property needs one.", "type": "string" },
                "default": { "description": "The value when the field is left out. Only for optional fields." },
                "enum": {
                    "description": "The allowed texts.",
                    "type": "array",
                    "items": { "type": "string" },
                    "minItems": 1,
                    "uniqueItems": true
                },
                "properties": {
                    "description": "The fields of an object.",
                    "type": "object",
                    "propertyNames": { "pattern": "^[a-z][a-z0-9_]{0,63}$" },
                    "additionalProperties": sub
                },
                "required": {
                    "description": "The fields that must be given.",
                    "type": "array",
                    "items": { "type": "string" },
                    "uniqueItems": true
                },
                "additionalProperties": {
                    "description": "`false` on every object with properties of an input; a schema makes a map.",
                    "anyOf": [{ "type": "boolean" }, sub]
                },
                "items": sub,
                "minItems": count("The fewest items."),
                "maxItems": count("The most items."),
                "uniqueItems": { "description": "No item twice.", "type": "boolean" },
                "minLength": count("The fewest characters."),
                "maxLength": count("The most characters."),
                "pattern": {
                    "description": "An ECMAScript regular expression without flags, look-around, `\\A`, `\\z` and `\\p`.",
                    "type": "string"
                },
                "minimum": { "description": "The smallest number.", "type": "number" },
                "maximum": { "description": "The largest number.", "type": "number" }
            }
        })
    }
}
