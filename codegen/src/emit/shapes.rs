//! From JSON Schemas to Rust types: typify decides the types, this module what goes in and what is kept.
//!
//! Answers for the *reduced* schema that typify gets (constraints gone, because input is validated before it is typed;
//! inline objects and enums lifted out under a name), and for turning typify's tokens into plain structs and enums in
//! the spec's order. Leaves out the traits that the types stand behind.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use indexmap::IndexMap;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use serde_json::{Map, Value, json};
use typify::{TypeSpace, TypeSpaceSettings};

use super::rust::{arms, docs, prose};
use crate::diagnostic::Diagnostic;
use crate::model::{Schema, TypesSpec};
use crate::pointer::child;
use crate::resolve::pascal_case;
use crate::yaml::Node;

/// Names that generated code uses itself.
const TAKEN: &[&str] = &["String", "Vec", "Option", "Result", "Box", "Failure", "Event", "Self"];

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

/// One Rust type.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    name: String,
    docs: String,
    kind: Kind,
    /// What typify gets.
    reduced: Value,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Struct { fields: Vec<Field>, closed: bool },
    Enum,
    Newtype(Inner),
}

/// What a newtype holds, as far as its derives go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inner {
    Text,
    /// A whole number or a truth value.
    Exact,
    Float,
    Other,
}

#[derive(Clone, Debug, PartialEq)]
struct Field {
    name: String,
    docs: String,
    optional: bool,
}

impl<'a> Shapes<'a> {
    /// The types of one spec file. `taken` are names that its module uses already.
    pub(super) fn new(path: &'a str, tree: &'a Node, types: &'a TypesSpec, taken: &[&str]) -> Self {
        let taken = TAKEN.iter().chain(taken).map(|name| key_of(name)).collect();
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
        let key = key_of(name);
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
        let key = key_of(&shape.name);
        let name = shape.name.clone();
        let foreign = !at.starts_with("/types/") && self.types.types.keys().any(|shared| key_of(shared) == key);
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
        let file = self.typify()?;
        self.made.values().map(|shape| render_shape(shape, &file)).collect()
    }

    /// Runs typify over the reduced schemas.
    fn typify(&self) -> Result<syn::File, String> {
        let mut settings = TypeSpaceSettings::default();
        settings.with_map_type("::std::collections::BTreeMap");
        let mut definitions: IndexMap<&str, Value> = self
            .made
            .values()
            .map(|shape| (shape.name.as_str(), shape.reduced.clone()))
            .collect();
        for shared in &self.used {
            if !definitions.contains_key(shared.as_str()) {
                settings.with_replacement(shared, format!("crate::types::{shared}"), std::iter::empty());
                definitions.insert(shared, json!({ "type": "string" }));
            }
        }
        let definitions = definitions
            .into_iter()
            .map(|(name, schema)| {
                Ok((
                    name.to_owned(),
                    serde_json::from_value(schema).map_err(|e| e.to_string())?,
                ))
            })
            .collect::<Result<Vec<(String, schemars08::schema::Schema)>, String>>()?;
        // typify panics on some schemas where it could return an error.
        let tokens = catch_unwind(AssertUnwindSafe(|| {
            let mut space = TypeSpace::new(&settings);
            space
                .add_ref_types(definitions)
                .map(|()| space.to_stream())
                .map_err(|error| error.to_string())
        }))
        .unwrap_or_else(|panic| Err(panic_text(panic.as_ref())))
        .map_err(|error| format!("typify cannot make types of this spec: {error}"))?;
        syn::parse2(tokens).map_err(|error| format!("typify's output is not Rust: {error}"))
    }
}

/// What a schema is, as far as Rust types are concerned.
enum Form<'s> {
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

fn form(schema: &Schema) -> Form<'_> {
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

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn title_or(schema: &Schema, name: &str) -> String {
    schema
        .get("title")
        .and_then(Value::as_str)
        .map_or_else(|| name.to_owned(), pascal_case)
}

fn describe(schema: &Schema, fallback: &str) -> String {
    schema
        .get("description")
        .and_then(Value::as_str)
        .map_or_else(|| fallback.to_owned(), prose)
}

/// Names that typify would make one of.
fn key_of(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}

fn render_shape(shape: &Shape, file: &syn::File) -> Result<TokenStream, String> {
    let missing = || format!("typify made no type of `{}`", shape.name);
    let key = key_of(&shape.name);
    let docs = docs(&shape.docs);
    let item = file.items.iter().find(|item| match item {
        syn::Item::Struct(item) => key_of(&item.ident.to_string()) == key,
        syn::Item::Enum(item) => key_of(&item.ident.to_string()) == key,
        _ => false,
    });
    Ok(match (&shape.kind, item.ok_or_else(missing)?) {
        (Kind::Struct { fields, closed }, syn::Item::Struct(item)) => {
            let name = &item.ident;
            let closed = closed.then(|| quote!(#[serde(deny_unknown_fields)]));
            let fields = fields
                .iter()
                .map(|field| render_field(field, item))
                .collect::<Result<Vec<_>, _>>()?;
            quote! {
                #docs
                #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
                #closed
                pub struct #name { #(#fields),* }
            }
        }
        (Kind::Enum, syn::Item::Enum(item)) => render_enum(item, &docs),
        (Kind::Newtype(kind), syn::Item::Struct(item)) => {
            let inner = item.fields.iter().next().ok_or_else(missing)?;
            render_newtype(&item.ident, &plain(&inner.ty), *kind, &docs)
        }
        _ => return Err(missing()),
    })
}

fn render_field(field: &Field, item: &syn::ItemStruct) -> Result<TokenStream, String> {
    let made = item
        .fields
        .iter()
        .find(|made| {
            rename(&made.attrs).or_else(|| made.ident.as_ref().map(Ident::to_string)) == Some(field.name.clone())
        })
        .ok_or_else(|| format!("typify made no field of `{}.{}`", item.ident, field.name))?;
    let name = &made.ident;
    if item.fields.iter().filter(|other| other.ident == *name).count() > 1 {
        return Err(format!(
            "two fields of `{}` have the Rust name of `{}`",
            item.ident, field.name
        ));
    }
    let docs = docs(&field.docs);
    let ty = plain(&made.ty);
    let rename = rename(&made.attrs).map(|name| quote!(rename = #name));
    Ok(if field.optional {
        let ty = if ty.to_string().starts_with("Option <") {
            ty
        } else {
            quote!(Option<#ty>)
        };
        let rename = rename.map(|rename| quote!(#rename,));
        quote!(#docs #[serde(#rename default, skip_serializing_if = "Option::is_none")] pub #name: #ty)
    } else {
        let rename = rename.map(|rename| quote!(#[serde(#rename)]));
        quote!(#docs #rename pub #name: #ty)
    })
}

fn render_enum(item: &syn::ItemEnum, docs: &TokenStream) -> TokenStream {
    let name = &item.ident;
    let values: Vec<(Ident, String)> = item
        .variants
        .iter()
        .map(|variant| {
            let value = rename(&variant.attrs).unwrap_or_else(|| variant.ident.to_string());
            (variant.ident.clone(), value)
        })
        .collect();
    let variants = values.iter().map(|(variant, value)| {
        let docs = super::rust::docs(&format!("`{value}`"));
        let rename = (variant != value).then(|| quote!(#[serde(rename = #value)]));
        quote!(#docs #rename #variant)
    });
    let arms = arms(
        values
            .iter()
            .map(|(variant, value)| (quote!(Self::#variant), quote!(#value))),
    );
    quote! {
        #docs
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum #name { #(#variants),* }

        impl #name {
            /// The word that stands in JSON.
            pub const fn as_str(self) -> &'static str {
                match self { #arms }
            }
        }
    }
}

fn render_newtype(name: &Ident, inner: &TokenStream, kind: Inner, docs: &TokenStream) -> TokenStream {
    if kind != Inner::Text {
        let derives = match kind {
            Inner::Text | Inner::Other => quote!(Clone, Debug, PartialEq),
            Inner::Exact => quote!(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash),
            Inner::Float => quote!(Clone, Copy, Debug, PartialEq, PartialOrd),
        };
        return quote! {
            #docs
            #[derive(#derives, serde::Serialize, serde::Deserialize)]
            #[serde(transparent)]
            pub struct #name(pub #inner);

            impl From<#inner> for #name {
                fn from(value: #inner) -> Self { Self(value) }
            }
        };
    }
    quote! {
        #docs
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct #name(pub String);

        impl #name {
            /// The text.
            pub fn as_str(&self) -> &str { &self.0 }
        }

        impl From<String> for #name {
            fn from(text: String) -> Self { Self(text) }
        }

        impl From<&str> for #name {
            fn from(text: &str) -> Self { Self(text.to_owned()) }
        }

        impl From<#name> for String {
            fn from(value: #name) -> Self { value.0 }
        }

        impl std::fmt::Display for #name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(&self.0) }
        }
    }
}

/// The `rename` of a serde attribute.
fn rename(attrs: &[syn::Attribute]) -> Option<String> {
    let mut name = None;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        // The other keys stand in the way only when they come first; an unread rest is no error here.
        let _ = attr.parse_nested_meta(|meta| {
            let is_name = meta.path.is_ident("rename");
            if let Ok(value) = meta.value() {
                let value: syn::Lit = value.parse()?;
                if let (true, syn::Lit::Str(value)) = (is_name, value) {
                    name = Some(value.value());
                }
            }
            Ok(())
        });
    }
    name
}

/// A type with the paths of the prelude's types cut short, as a person would write it.
fn plain(ty: &syn::Type) -> TokenStream {
    let syn::Type::Path(path) = ty else {
        return ty.to_token_stream();
    };
    let segments: Vec<String> = path
        .path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect();
    let whole = segments.join("::");
    let from = match whole.as_str() {
        "std::string::String" | "std::vec::Vec" | "std::option::Option" | "std::boxed::Box" => segments.len() - 1,
        _ => 0,
    };
    let mut tokens = TokenStream::new();
    for (index, segment) in path.path.segments.iter().enumerate().skip(from) {
        if index > from {
            tokens.extend(quote!(::));
        }
        segment.ident.to_tokens(&mut tokens);
        if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments {
            let arguments = arguments.args.iter().map(|argument| match argument {
                syn::GenericArgument::Type(ty) => plain(ty),
                other => other.to_token_stream(),
            });
            tokens.extend(quote!(<#(#arguments),*>));
        }
    }
    tokens
}
