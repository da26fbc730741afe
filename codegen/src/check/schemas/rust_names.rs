//! Rust names of nested types: that each stands for one type in its module.
//!
//! A nested object or enum is called by its title, else by its parent and its property. Leaves out the form of a title
//! (`keywords`).

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::model::{Schema, TypesSpec};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve::{self, pascal_case};
use crate::specs::Doc;

/// The nested types of one Rust module. A nested object or enum is called by its title, else by its parent and its property.
pub(super) struct RustNames<'a> {
    types: &'a TypesSpec,
    /// What the module calls something of its own.
    taken: Vec<String>,
    seen: HashMap<String, (u64, Value)>,
}

impl<'a> RustNames<'a> {
    pub(super) fn new(types: &'a TypesSpec, taken: Vec<String>) -> Self {
        Self {
            types,
            taken,
            seen: HashMap::new(),
        }
    }

    pub(super) fn walk(&mut self, doc: Doc<'_>, schema: &Schema, pointer: &str, name: &str, report: &mut Report) {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (key, sub) in properties {
                let below = child(&child(pointer, "properties"), key);
                let sub = sub.as_object().cloned().unwrap_or_default();
                self.nested(doc, &sub, &below, &format!("{name}{}", pascal_case(key)), report);
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(Value::Object(sub)) = schema.get(key) {
                let suffix = if key == "items" { "Item" } else { "Value" };
                self.nested(doc, sub, &child(pointer, key), &format!("{name}{suffix}"), report);
            }
        }
    }

    fn nested(&mut self, doc: Doc<'_>, schema: &Schema, pointer: &str, derived: &str, report: &mut Report) {
        let title = schema.get("title").and_then(Value::as_str);
        let name = title.unwrap_or(derived);
        if title.is_some() || schema.contains_key("properties") || schema.contains_key("enum") {
            let at = if title.is_some() {
                child(pointer, "title")
            } else {
                pointer.to_owned()
            };
            let place = if title.is_some() {
                doc.tree.value_place(&at)
            } else {
                doc.tree.key_place(&at)
            };
            let shape = shape(schema);
            if self.taken.iter().any(|taken| taken == name) {
                let message = format!("the nested type would be called `{name}`, which is taken in Rust");
                report.at(doc, &at, place, message, "give it another `title`".to_owned());
            } else if self.types.types.contains_key(name) {
                let message = format!("the nested type would be called `{name}` like a shared one");
                let help = "use `$ref`, or give it another `title`".to_owned();
                report.at(doc, &at, place, message, help);
            } else {
                match self.seen.get(name) {
                    Some((line, other)) if *other != shape => {
                        let message =
                            format!("two different nested types are called `{name}`, the first in line {line}");
                        report.at(doc, &at, place, message, "give one of them another `title`".to_owned());
                    }
                    Some(_) => {}
                    None => _ = self.seen.insert(name.to_owned(), (place.line, shape)),
                }
            }
        }
        self.walk(doc, schema, pointer, name, report);
    }
}

/// What makes two nested types the same: everything but their texts and defaults.
fn shape(schema: &Schema) -> Value {
    let mut schema = resolve::map_subschemas(schema, &mut |sub| match shape(sub) {
        Value::Object(sub) => sub,
        _ => Map::new(),
    });
    for key in ["description", "default", "title"] {
        schema.shift_remove(key);
    }
    Value::Object(schema)
}
