//! From JSON Schemas to Rust types: typify decides the types, this module what goes in and what is kept.
//!
//! Answers for the *reduced* schema that typify gets (constraints gone, because input is validated before it is typed;
//! inline objects and enums lifted out under a name), and for one name standing for one type. The rooms below: what a
//! schema is (`form`), a type in the making (`shape`), the call of typify (`typed`), the tokens (`render`). Leaves out
//! the traits that the types stand behind.

mod form;
mod render;
mod shape;
mod typed;

use std::collections::BTreeSet;

use indexmap::IndexMap;
use proc_macro2::TokenStream;
use serde_json::{Map, Value, json};

use crate::diagnostic::Diagnostic;
use crate::model::{Schema, TypesSpec};
use crate::pointer::child;
use crate::resolve::pascal_case;
use crate::yaml::Node;

use form::{Form, describe, form, title_or};
use render::render_shape;
use shape::{Field, Inner, Kind, Shape};

/// Names that generated code uses itself.
const TAKEN: &[&str] = &["String", "Vec", "Option", "Result", "Box", "Failure", "Event", "Self"];

/// How a reduced schema refers to another one.
const REFERENCE: &str = "#/$defs/";

/// On which side of a call a schema stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// What a caller sends: closed, and its defaults are filled in before it is typed.
    Input,
    /// What a handler builds: open.
    Output,
    /// A shared type: closed when it says so.
    Shared,
}

/// The types of one module in the making.
pub(super) struct Shapes<'a> {
    path: &'a str,
    tree: &'a Node,
    types: &'a TypesSpec,
    made: IndexMap<String, Shape>,
    used: BTreeSet<String>,
    taken: Vec<String>,
    errors: Vec<Diagnostic>,
}

impl<'a> Shapes<'a> {
    /// The types of one spec file. `taken` are names that its module uses already.
    pub(super) fn new(path: &'a str, tree: &'a Node, types: &'a TypesSpec, taken: &[&str]) -> Self {
        let taken = TAKEN.iter().chain(taken).map(|name| (*name).to_owned()).collect();
        Self {
            path,
            tree,
            types,
            made: IndexMap::new(),
            used: BTreeSet::new(),
            taken,
            errors: Vec::new(),
        }
    }

    /// Adds an object as a struct of a given name, with everything inside it. `at` is the JSON Pointer of the schema.
    pub(super) fn add(&mut self, name: &str, schema: &Schema, side: Side, docs: &str, at: &str) {
        self.structure(name, schema, side, docs, at);
    }

    /// Adds every shared type.
    pub(super) fn add_shared(&mut self) {
        for (name, schema) in &self.types.types {
            let at = format!("/types/{name}");
            let docs = describe(schema, &format!("The shared type `{name}`."));
            match form(schema) {
                Form::Struct => {
                    self.structure(name, schema, Side::Shared, &docs, &at);
                }
                Form::Enum => {
                    self.enumeration(name, schema, &docs, &at);
                }
                _ => {
                    let inner = match form(schema) {
                        Form::Plain("string") => Inner::Text,
                        Form::Integer | Form::Plain("boolean") => Inner::Exact,
                        Form::Plain("number") => Inner::Float,
                        _ => Inner::Other,
                    };
                    let reduced = self.reduce(name, schema, Side::Shared, &at);
                    self.define(
                        Shape {
                            name: name.clone(),
                            docs,
                            kind: Kind::Newtype(inner),
                            reduced,
                        },
                        &at,
                    );
                }
            }
        }
    }

    /// The items, in order; or what is wrong with the schemas.
    pub(super) fn finish(mut self) -> Result<Vec<TokenStream>, Vec<Diagnostic>> {
        if self.errors.is_empty() {
            match self.render() {
                Ok(items) => return Ok(items),
                Err(message) => self.errors.push(Diagnostic {
                    path: self.path.to_owned(),
                    line: 0,
                    column: 0,
                    message,
                    help: Some("simplify the schema, or report this as a bug of the generator".to_owned()),
                }),
            }
        }
        Err(self.errors)
    }

    fn error(&mut self, at: &str, message: String, help: &str) {
        let place = self.tree.pointer(at).map(|node| node.place).unwrap_or_default();
        self.errors.push(Diagnostic {
            path: self.path.to_owned(),
            line: place.line,
            column: place.column,
            message,
            help: Some(help.to_owned()),
        });
    }

    /// A reference to the type that `schema` means, as a reduced schema.
    fn reduce(&mut self, name: &str, schema: &Schema, side: Side, at: &str) -> Value {
        match form(schema) {
            Form::Ref(shared) => {
                if !self.types.types.contains_key(shared) {
                    self.error(
                        at,
                        format!("unknown shared type `{shared}`"),
                        "add it to specs/types.yaml",
                    );
                }
                self.used.insert(shared.to_owned());
                reference(shared)
            }
            Form::Struct => {
                let name = title_or(schema, name);
                let docs = describe(schema, "Part of the above.");
                reference(&self.structure(&name, schema, side, &docs, at))
            }
            Form::Enum => {
                let name = title_or(schema, name);
                let docs = describe(schema, "One of a fixed set of words.");
                reference(&self.enumeration(&name, schema, &docs, at))
            }
            Form::Map(values) => {
                let name = format!("{}Value", title_or(schema, name));
                let values = self.reduce(&name, values, side, &format!("{at}/additionalProperties"));
                json!({ "type": "object", "additionalProperties": values })
            }
            Form::Free => json!({ "type": "object" }),
            Form::List(items) => {
                let name = format!("{}Item", title_or(schema, name));
                let items = items.map_or_else(
                    || json!({}),
                    |items| self.reduce(&name, items, side, &format!("{at}/items")),
                );
                json!({ "type": "array", "items": items })
            }
            Form::Integer => {
                let least = schema.get("minimum").and_then(Value::as_f64);
                if least.is_some_and(|least| least >= 0.0) {
                    json!({ "type": "integer", "format": "uint64", "minimum": 0 })
                } else {
                    json!({ "type": "integer", "format": "int64" })
                }
            }
            Form::Plain(kind) => json!({ "type": kind }),
            Form::Unknown => {
                self.error(
                    at,
                    "no Rust type says this".to_owned(),
                    "give it one `type`; say constraints under `rules`",
                );
                json!({})
            }
        }
    }

    fn structure(&mut self, name: &str, schema: &Schema, side: Side, docs: &str, at: &str) -> String {
        let new = self.reserve(name);
        let required: Vec<&str> = match schema.get("required") {
            Some(Value::Array(required)) => required.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut fields = Vec::new();
        let mut properties = Map::new();
        for (field, sub) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let empty = Map::new();
            let sub = sub.as_object().unwrap_or(&empty);
            let at = child(&format!("{at}/properties"), field);
            properties.insert(
                field.clone(),
                self.reduce(&format!("{name}{}", pascal_case(field)), sub, side, &at),
            );
            // A default is filled in before the input is typed, so the handler always finds a value.
            let filled = side != Side::Output && self.has_default(sub);
            fields.push(Field {
                name: field.clone(),
                docs: self.describe_field(field, sub),
                optional: !filled && !required.contains(&field.as_str()),
            });
        }
        if matches!(schema.get("additionalProperties"), Some(Value::Object(_))) {
            self.error(
                at,
                "an object has either `properties` or a schema for `additionalProperties`".to_owned(),
                "put the map into a property of its own",
            );
        }
        let closed = match side {
            Side::Input => true,
            Side::Output => false,
            Side::Shared => schema.get("additionalProperties") == Some(&Value::Bool(false)),
        };
        // Every field is required here: typify decides the type, `Option` is put around it afterwards. (typify makes
        // optional lists plain ones, which a handler could not tell from empty ones.)
        let names: Vec<&String> = properties.keys().collect();
        let reduced =
            json!({ "type": "object", "required": names, "properties": properties, "additionalProperties": false });
        let shape = Shape {
            name: name.to_owned(),
            docs: docs.to_owned(),
            kind: Kind::Struct { fields, closed },
            reduced,
        };
        self.put(shape, new, at)
    }

    fn enumeration(&mut self, name: &str, schema: &Schema, docs: &str, at: &str) -> String {
        let values: Vec<&Value> = schema
            .get("enum")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter(|value| value.is_string())
            .collect();
        let reduced = json!({ "type": "string", "enum": values });
        self.define(
            Shape {
                name: name.to_owned(),
                docs: docs.to_owned(),
                kind: Kind::Enum,
                reduced,
            },
            at,
        )
    }

    fn define(&mut self, shape: Shape, at: &str) -> String {
        let new = self.reserve(&shape.name);
        self.put(shape, new, at)
    }

    /// Keeps a type's place, so that it stands before the types inside it. False when the name is known already.
    fn reserve(&mut self, name: &str) -> bool {
        let key = name.to_owned();
        let new = !self.made.contains_key(&key);
        if new {
            let open = Shape {
                name: name.to_owned(),
                docs: String::new(),
                kind: Kind::Enum,
                reduced: Value::Null,
            };
            self.made.insert(key, open);
        }
        new
    }

    /// Fills the place. Two schemas may share a name only when they are the same type: typify would silently use one
    /// for both.
    fn put(&mut self, shape: Shape, new: bool, at: &str) -> String {
        const HELP: &str = "give one of them another `title`, or make it a shared type in specs/types.yaml";
        let key = shape.name.clone();
        let name = shape.name.clone();
        let foreign = !at.starts_with("/types/") && self.types.types.contains_key(&key);
        let is_root = matches!(at, "/input" | "/output");
        if foreign || (self.taken.contains(&key) && !is_root) {
            let what = if foreign {
                "a shared type"
            } else {
                "used by generated code"
            };
            self.error(
                at,
                format!("the type name `{name}` is {what}"),
                "give the schema another `title`",
            );
            if new {
                self.made.shift_remove(&key);
            }
        } else if new {
            self.made.insert(key, shape);
        } else if let Some(known) = self.made.get(&key)
            && (known.kind != shape.kind || known.reduced != shape.reduced)
        {
            self.error(
                at,
                format!("the type name `{name}` stands for two different schemas"),
                HELP,
            );
        }
        name
    }

    fn has_default(&self, schema: &Schema) -> bool {
        let shared = || self.types.types.get(schema.get("$ref")?.as_str()?);
        schema.contains_key("default") || shared().is_some_and(|shared| shared.contains_key("default"))
    }

    fn describe_field(&self, name: &str, schema: &Schema) -> String {
        let shared = || self.types.types.get(schema.get("$ref")?.as_str()?);
        let fallback = format!("The field `{name}`.");
        describe(
            schema,
            &shared().map_or(fallback.clone(), |shared| describe(shared, &fallback)),
        )
    }

    fn render(&self) -> Result<Vec<TokenStream>, String> {
        let file = typed::file(self.made.values(), &self.used)?;
        self.made.values().map(|shape| render_shape(shape, &file)).collect()
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{REFERENCE}{name}") })
}
