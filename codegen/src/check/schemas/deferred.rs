//! What can be judged only once every shared type is known: defaults, and whether what a `$ref` leads to is closed.
//!
//! Leaves out finding them (`walk`), and references that lead nowhere.

use serde_json::{Value, json};

use super::keywords::BOUNDS;
use super::subset::Role;
use crate::check::values::{advice, compile, reason};
use crate::model::{Schema, TypesSpec};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve;
use crate::specs::Doc;

/// What waits.
#[derive(Default)]
pub(super) struct Deferred {
    pub(super) narrowed: Vec<Narrowed>,
    pub(super) defaults: Vec<Preset>,
    pub(super) references: Vec<Reference>,
}

/// A default with the schema that it stands in.
pub(super) struct Preset {
    pub(super) pointer: String,
    pub(super) value: Value,
    pub(super) schema: Schema,
}

/// A `$ref` with bounds beside it. `pointer` is that of the schema around it.
pub(super) struct Narrowed {
    pub(super) pointer: String,
    pub(super) schema: Schema,
}

/// A `$ref`. `pointer` is that of the schema around it.
pub(super) struct Reference {
    pub(super) pointer: String,
    pub(super) to: String,
    pub(super) role: Role,
    pub(super) closing: Closing,
}

/// What stands beside a `$ref` about additional properties.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    Unsaid,
    Closed,
    Open,
}

impl Deferred {
    /// Judges what had to wait until every type was known.
    pub(super) fn settle(&mut self, doc: Doc<'_>, types: &TypesSpec, report: &mut Report) {
        for Reference {
            pointer,
            to: name,
            role,
            closing,
        } in std::mem::take(&mut self.references)
        {
            let Some(schema) = types.types.get(&name) else { continue };
            let mut schema = resolve::inline(schema, types);
            match closing {
                Closing::Unsaid => {}
                Closing::Closed => _ = schema.insert("additionalProperties".into(), json!(false)),
                Closing::Open => _ = schema.shift_remove("additionalProperties"),
            }
            let wanted = if role == Role::Input {
                Closing::Closed
            } else {
                Closing::Open
            };
            if role == Role::Shared {
                continue;
            }
            let Some(inner) = first_with_other_closing(&schema, wanted, "") else {
                continue;
            };
            let what = if inner.is_empty() {
                format!("`{name}`")
            } else {
                format!("`{name}` at `{inner}`")
            };
            let (message, help) = match (wanted, inner.is_empty()) {
                (Closing::Closed, true) => (
                    format!("{what} is an open object, inputs are closed"),
                    "write `additionalProperties: false` beside the `$ref`".to_owned(),
                ),
                (Closing::Closed, false) => (
                    format!("{what} is an open object, inputs are closed"),
                    "make a closed twin of the type, or write the object out".to_owned(),
                ),
                _ => (
                    format!("{what} is a closed object, a field added later would break its readers"),
                    "write `additionalProperties: true` beside the `$ref`, or open the type".to_owned(),
                ),
            };
            report.key(doc, &child(&pointer, "$ref"), message, help);
        }
        for Narrowed { pointer, schema } in std::mem::take(&mut self.narrowed) {
            let whole = resolve::inline(&schema, types);
            for (low, high) in BOUNDS {
                let number = |name: &str| whole.get(name).and_then(Value::as_f64);
                if number(low) <= number(high) || number(low).is_none() || number(high).is_none() {
                    continue;
                }
                let (own, other) = if schema.contains_key(*high) {
                    (high, low)
                } else {
                    (low, high)
                };
                // Both stand here: that was told where they stand.
                if schema.contains_key(*other) || !schema.contains_key(*own) {
                    continue;
                }
                let message = format!("`{own}` contradicts the `{other}` of the type: nothing fits");
                let help = format!("write `{other}` beside it, too, or change `{own}`");
                report.value(doc, &child(&pointer, own), message, help);
            }
        }
        for Preset { pointer, value, schema } in std::mem::take(&mut self.defaults) {
            let whole = resolve::inline(&schema, types);
            if let Ok(validator) = compile(&whole)
                && let Err(error) = validator.validate(&value)
            {
                let at = error.instance_path().as_str().to_owned();
                let message = format!("the default does not fit its own schema: {}", reason(&error));
                report.value(doc, &format!("{pointer}{at}"), message, advice(&error));
            }
        }
    }
}

/// Where the first object stands that is not closed as wanted, as a pointer.
fn first_with_other_closing(schema: &Schema, wanted: Closing, pointer: &str) -> Option<String> {
    let closing = match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => Closing::Closed,
        _ => Closing::Open,
    };
    if schema.contains_key("properties") && closing != wanted {
        return Some(pointer.to_owned());
    }
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let items = schema.get("items").map(|items| ("*", items));
    properties
        .map(|(name, sub)| (name.as_str(), sub))
        .chain(items)
        .find_map(|(name, sub)| first_with_other_closing(sub.as_object()?, wanted, &child(pointer, name)))
}
