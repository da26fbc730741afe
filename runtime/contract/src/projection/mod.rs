//! Schemas in the forms that providers accept.
//!
//! Answers for one form of JSON Schema, whatever draft it was written in ([`in_2020_12`]), for pure functions from there to
//! each provider's dialect, for what gets lost on the way ([`Loss`]), and for what no client accepts ([`refusal`]). They
//! live here because the generator tells the author of a
//! spec the same losses that the runtime will have. Leaves out the rest of a declaration (name, description), and
//! validation.
//!
//! Only places that hold schemas are rewritten. `default`, `enum`, `const` and `examples` hold data, and the keys of
//! `properties` are names: all of these pass through as they are.

mod description;
mod draft;
mod gemini;
mod openai;
mod output;

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};

pub use description::{OPENAI_DESCRIPTION, description};
pub use draft::in_2020_12;
pub use gemini::gemini;
pub use openai::openai_strict;
pub use output::{OVERSIZED, published_output};

/// What may stand beside a reference without changing what it takes.
const BESIDE_REFERENCE: &[&str] = &[
    "$ref",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$defs",
    "definitions",
];

/// Schemas that nest deeper are refused; it bounds every recursion here.
pub const DEPTH: usize = 64;

/// Something that a schema says and a provider is not told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    /// JSON Pointer into the schema; `description` for the text beside it.
    pub pointer: String,
    /// What is lost, and what happens instead.
    pub what: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() {
            "the root"
        } else {
            &self.pointer
        };
        write!(f, "{place}: {}", self.what)
    }
}

/// A schema in a provider's dialect.
#[derive(Clone, Debug, PartialEq)]
pub struct Projected {
    /// The schema, or `null` where the provider wants none.
    pub schema: Value,
    /// What the provider is not told, in document order. Admission still checks it.
    pub losses: Vec<Loss>,
}

/// The schema as it is published and judged by: annotations of the runtime are gone; an object with properties says what
/// is `required` and, unless something else was said or it is one part of a composition, that nothing else may be in it.
/// A key that is required and not listed is listed, as it may be sent and must be.
///
/// An annotation is a key of a schema that begins with `~` or `x-`. Idempotent.
pub fn published(schema: &Value) -> Value {
    let shared = if open_references(schema) {
        Closing::Never
    } else {
        Closing::Here
    };
    let mut published = publish(schema, Closing::Here, shared);
    if let Value::Object(root) = &mut published
        && root.get("type").is_some_and(|kind| kind == "object")
        && !root.contains_key("properties")
    {
        // Clients want `properties`; that the object is open has to be said then, as it would read as closed.
        root.insert("properties".into(), json!({}));
        list_required(root);
        root.entry("required").or_insert_with(|| json!([]));
        root.entry("additionalProperties").or_insert(Value::Bool(true));
    }
    published
}

/// Why no client takes the schema as a tool's input, if so.
///
/// One tool whose root is no plain object makes clients drop it or all tools of the server, and one property with
/// another name makes a provider refuse the whole request.
pub fn refusal(schema: &Value) -> Option<String> {
    let Some(root) = schema.as_object() else {
        return Some("the schema must be an object".to_owned());
    };
    if root.get("type").is_none_or(|kind| kind != "object") {
        let found = root.get("type").map_or_else(|| "none".to_owned(), Value::to_string);
        return Some(format!("the root must have the type `object`, found {}", cut(&found)));
    }
    let alternatives = ["oneOf", "anyOf", "allOf", "not", "enum", "const", "$ref"];
    if let Some(keyword) = alternatives.iter().find(|keyword| root.contains_key(**keyword)) {
        return Some(format!("`{keyword}` at the root is dropped or refused by clients"));
    }
    if root.get("properties").is_some_and(|properties| !properties.is_object()) {
        return Some("`properties` must be an object".to_owned());
    }
    refused_below(schema, 0).or_else(|| unfillable(schema, Closing::Here))
}

fn refused_below(schema: &Value, depth: usize) -> Option<String> {
    if depth > DEPTH {
        return Some(format!("nested deeper than {DEPTH} levels"));
    }
    let lists = |map: &&Map<String, Value>| depth == 0 || map.contains_key("properties");
    let mut refusal = schema.as_object().filter(lists).and_then(|map| {
        let name = unlisted(map).chain(needed(map)).find(|name| !is_property_name(name))?;
        Some(format!(
            "the key {}, which is required, is not of the form [a-zA-Z0-9_.-]{{1,64}} that providers accept",
            cut(&Value::from(name).to_string())
        ))
    });
    each_schema(schema, &mut |keyword, name, below| {
        if refusal.is_some() {
            return;
        }
        if keyword == "properties" && !is_property_name(name) {
            refusal = Some(format!(
                "the property {} is not of the form [a-zA-Z0-9_.-]{{1,64}} that providers accept",
                cut(&Value::from(name).to_string())
            ));
        } else {
            refusal = refused_below(below, depth + 1);
        }
    });
    refusal
}

/// Why no value can be an object where the schema asks for one, if so: a key has to be there and may not. What is one part
/// of a composition is not looked at, and of alternatives one has to be left.
fn unfillable(schema: &Value, closing: Closing) -> Option<String> {
    let map = schema.as_object()?;
    if closing == Closing::Here
        && is_object(map)
        && let Some(name) = unlisted(map).next()
        && is_closed(map)
    {
        return Some(format!(
            "{} is required and may not be sent: `properties` does not list it, and nothing else is allowed",
            cut(&Value::from(name).to_string())
        ));
    }
    let mut refusal = None;
    let mut left = false;
    let mut alternative = None;
    each_schema(schema, &mut |keyword, _, below| {
        let found = unfillable(below, closing_below(map, keyword, closing, Closing::Here));
        match keyword {
            "anyOf" | "oneOf" if found.is_some() => alternative = alternative.take().or(found),
            "anyOf" | "oneOf" => left = true,
            _ => refusal = refusal.take().or(found),
        }
    });
    refusal.or(alternative.filter(|_| !left))
}

/// Whether a schema describes objects, perhaps beside something else.
fn is_object(map: &Map<String, Value>) -> bool {
    match map.get("type") {
        None => map.contains_key("properties"),
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(kind) => kind == "object",
    }
}

/// Whether an object takes no other keys than its `properties`.
fn is_closed(map: &Map<String, Value>) -> bool {
    let refused = |keyword: &str| map.get(keyword) == Some(&Value::Bool(false));
    !map.contains_key("patternProperties")
        && (refused("additionalProperties") || (refused("unevaluatedProperties") && composition(map) == 1))
}

/// The keys that an object requires and does not list.
fn unlisted(map: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
    let listed = map.get("properties").and_then(Value::as_object);
    required
        .filter_map(Value::as_str)
        .filter(move |name| listed.is_none_or(|listed| !listed.contains_key(*name)))
}

/// The keys that have to be beside others.
fn needed(map: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let needs = map.get("dependentRequired").and_then(Value::as_object);
    let needs = needs.into_iter().flat_map(Map::values).filter_map(Value::as_array);
    needs.flatten().filter_map(Value::as_str)
}

/// The most bytes that are written again to say of keys what a schema says of all others.
const REPEATED: usize = 16 << 10;

/// Lists the keys that an object requires, each as what may stand there now: some readers are told of listed keys alone,
/// and who closes an object means those as well.
fn list_required(map: &mut Map<String, Value>) {
    if is_closed(map) || map.contains_key("unevaluatedProperties") {
        return;
    }
    let names: BTreeSet<String> = unlisted(map).chain(needed(map)).map(str::to_owned).collect();
    if names.is_empty() {
        return;
    }
    let each = match map.get("additionalProperties") {
        // Where patterns of keys hold for them, too, these go on to hold.
        Some(each @ Value::Object(_)) if !map.contains_key("patternProperties") => each.clone(),
        _ => json!({}),
    };
    // Not without bounds, as an object in an object in an object would double each time.
    let each = if each.to_string().len().saturating_mul(names.len()) <= REPEATED {
        each
    } else {
        json!({})
    };
    if let Some(Value::Object(listed)) = map.get_mut("properties") {
        for name in names {
            listed.entry(name).or_insert_with(|| each.clone());
        }
    }
}

fn is_property_name(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Keywords whose value is a schema.
const ONE: &[&str] = &[
    "items",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords whose value is a list of schemas. Older drafts have one under `items`, too.
const LISTS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems", "items"];
/// Keywords whose value maps names to schemas.
const MAPS: &[&str] = &[
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];
/// Keywords with which a schema is more than its own properties.
const COMPOSED: &[&str] = &[
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$ref",
    "$dynamicRef",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
];

/// Whether an object may be closed where it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    Here,
    /// It is one part of a composition: closed, it would refuse what the other parts describe.
    Never,
}

/// Calls `found` with every schema directly below one, with the keyword and, in a map, the name.
pub fn each_schema<'s>(schema: &'s Value, found: &mut dyn FnMut(&str, &str, &'s Value)) {
    let Value::Object(map) = schema else { return };
    for (key, value) in map {
        match value {
            Value::Object(_) if ONE.contains(&key.as_str()) => found(key, "", value),
            Value::Array(list) if LISTS.contains(&key.as_str()) => {
                for below in list {
                    found(key, "", below);
                }
            }
            Value::Object(named) if MAPS.contains(&key.as_str()) => {
                for (name, below) in named {
                    found(key, name, below);
                }
            }
            _ => {}
        }
    }
}

/// How far a schema below `keyword` may be closed.
fn closing_below(map: &Map<String, Value>, keyword: &str, closing: Closing, shared: Closing) -> Closing {
    match keyword {
        "$defs" | "definitions" => shared,
        "properties" | "patternProperties" | "items" | "prefixItems" | "additionalProperties" | "contains" => closing,
        // Alternatives are whole schemas when nothing stands beside them.
        "anyOf" | "oneOf" if !map.contains_key("properties") && composition(map) == 1 => closing,
        _ => Closing::Never,
    }
}

fn composition(map: &Map<String, Value>) -> usize {
    COMPOSED.iter().filter(|keyword| map.contains_key(**keyword)).count()
}

/// Whether a shared schema is used as one part of a composition.
fn open_references(schema: &Value) -> bool {
    fn uses(schema: &Value, closing: Closing, depth: usize) -> bool {
        let Value::Object(map) = schema else { return false };
        if depth > DEPTH {
            return true;
        }
        let is_part = closing == Closing::Never || map.contains_key("properties") || composition(map) > 1;
        if map.contains_key("$dynamicRef") || (map.contains_key("$ref") && is_part) {
            return true;
        }
        let mut found = false;
        each_schema(schema, &mut |keyword, _, below| {
            found |= uses(below, closing_below(map, keyword, closing, Closing::Here), depth + 1);
        });
        found
    }
    uses(schema, Closing::Here, 0)
}

fn is_annotation(key: &str) -> bool {
    key.starts_with('~') || key.starts_with("x-")
}

/// The schema with everything directly below it replaced by what `below` makes of it, and without annotations.
fn rebuilt(map: &Map<String, Value>, below: &dyn Fn(&str, &Value) -> Value) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, value) in map.iter().filter(|(key, _)| !is_annotation(key)) {
        let value = match value {
            Value::Object(_) if ONE.contains(&key.as_str()) => below(key, value),
            Value::Array(list) if LISTS.contains(&key.as_str()) => list.iter().map(|one| below(key, one)).collect(),
            Value::Object(named) if MAPS.contains(&key.as_str()) => {
                let named = named.iter().map(|(name, one)| (name.clone(), below(key, one)));
                named.collect::<Map<_, _>>().into()
            }
            other => other.clone(),
        };
        out.insert(key.clone(), value);
    }
    out
}

fn publish(schema: &Value, closing: Closing, shared: Closing) -> Value {
    let Value::Object(map) = schema else {
        return schema.clone();
    };
    let mut out = rebuilt(map, &|key, below| {
        publish(below, closing_below(map, key, closing, shared), shared)
    });
    if is_object(&out) && out.get("properties").is_some_and(Value::is_object) {
        if closing == Closing::Here {
            list_required(&mut out);
        }
        out.entry("required").or_insert_with(|| json!([]));
        // With fewer keys than it must have nothing would be an object.
        let fewest = out.get("minProperties").and_then(Value::as_u64).unwrap_or_default();
        let listed = out["properties"].as_object().map_or(0, Map::len) as u64;
        if closing == Closing::Here && composition(&out) == 0 && fewest <= listed {
            out.entry("additionalProperties").or_insert(Value::Bool(false));
        }
    }
    Value::Object(out)
}

/// Collects losses while a schema is walked.
#[derive(Default)]
struct Notes {
    place: String,
    losses: Vec<Loss>,
}

impl Notes {
    fn add(&mut self, what: impl Into<String>) {
        self.losses.push(Loss {
            pointer: self.place.clone(),
            what: what.into(),
        });
    }

    /// Goes down; what it gives leads back by [`leave`](Self::leave).
    fn enter(&mut self, steps: &[&str]) -> usize {
        let back = self.place.len();
        for step in steps {
            self.place.push('/');
            self.place.push_str(&step.replace('~', "~0").replace('/', "~1"));
        }
        back
    }

    fn leave(&mut self, back: usize) {
        self.place.truncate(back);
    }

    /// An object that takes keys beside its properties, where these alone are asked for.
    fn keys_beside(&mut self, map: &Map<String, Value>) {
        match map.get("additionalProperties") {
            None | Some(Value::Bool(false)) => {}
            Some(_) => self.add("keys beside the properties are not asked for"),
        }
    }
}

/// What OpenAI's and Gemini's subsets handle beside their loops over the keywords, or what says nothing to a model.
const SILENT: &[&str] = &[
    "type",
    "description",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "$defs",
    "definitions",
    "$schema",
    "$id",
    "$comment",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];

/// How many schemas are looked at to know what one place takes. References could lead to any number of them.
const LOOKS: usize = 256;

/// Whether a text that is JSON may be valid where the schema stands, just as it is. Then it can't stand for the value
/// that it holds. In doubt it may.
fn takes_text(root: &Value, schema: &Value, looks: &mut usize) -> bool {
    let Value::Object(map) = schema else {
        return *schema != Value::Bool(false);
    };
    if *looks == 0 {
        return true;
    }
    *looks -= 1;
    let is_json = |value: &Value| {
        value
            .as_str()
            .is_some_and(|text| serde_json::from_str::<Value>(text).is_ok())
    };
    let own = match map.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => true,
    };
    let listed = match (map.get("enum"), map.get("const")) {
        (Some(Value::Array(values)), _) => values.iter().any(is_json),
        (None, Some(value)) => is_json(value),
        _ => true,
    };
    if !own || !listed {
        return false;
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(parts)) = map.get(keyword)
            && !parts.iter().any(|part| takes_text(root, part, looks))
        {
            return false;
        }
    }
    if let Some(Value::Array(parts)) = map.get("allOf")
        && !parts.iter().all(|part| takes_text(root, part, looks))
    {
        return false;
    }
    match map.get("$ref").and_then(Value::as_str) {
        Some(reference) => resolve(root, reference).is_none_or(|target| takes_text(root, target, looks)),
        None => true,
    }
}

/// Whether one value could be taken by two of the alternatives as far as types say. Something in it that stands for
/// something else, taken by the one as it is, would then never be read for the other. In doubt it could.
fn overlap(root: &Value, parts: &[Value]) -> bool {
    let mut count = (0, 0);
    let mut looks = LOOKS;
    for part in parts {
        structured(root, part, &mut count, &mut looks);
    }
    looks == 0 || count.0 > 1 || count.1 > 1
}

/// Counts the alternatives that take objects, and those that take arrays.
fn structured(root: &Value, schema: &Value, count: &mut (usize, usize), looks: &mut usize) {
    let Value::Object(map) = schema else {
        *count = (count.0 + 1, count.1 + 1);
        return;
    };
    if *looks == 0 {
        return;
    }
    *looks -= 1;
    if let Some(target) = map.get("$ref").and_then(Value::as_str).and_then(|to| resolve(root, to)) {
        return structured(root, target, count, looks);
    }
    for keyword in ["anyOf", "oneOf"] {
        if let Some(Value::Array(parts)) = map.get(keyword) {
            for part in parts {
                structured(root, part, count, looks);
            }
            return;
        }
    }
    let (kinds, null) = types(map);
    let untyped = kinds.is_empty() && !null;
    count.0 += usize::from(untyped || kinds.contains(&"object"));
    count.1 += usize::from(untyped || kinds.contains(&"array"));
}

/// The schema that a reference inside the same document names.
pub fn resolve<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    root.pointer(reference.strip_prefix('#')?)
}

/// A description with a word on how to write the value.
fn written_as_json(description: Option<&Value>) -> Value {
    let note = "Write it as a JSON text.";
    match description.and_then(Value::as_str).map(str::trim_end) {
        Some(text) if !text.is_empty() => {
            let stop = if text.ends_with(['.', '!', '?', '。']) {
                ""
            } else {
                "."
            };
            format!("{text}{stop} {note}").into()
        }
        _ => note.into(),
    }
}

/// The types that a schema names, `null` taken out, and whether it was there.
fn types(schema: &Map<String, Value>) -> (Vec<&str>, bool) {
    let named: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let before = named.len();
    let kept: Vec<&str> = named.into_iter().filter(|kind| *kind != "null").collect();
    let null = kept.len() < before;
    (kept, null)
}

/// The type of a schema that names none: that of its listed values, or an object where it has properties.
fn implied_type(map: &Map<String, Value>) -> Option<&'static str> {
    match (map.get("enum"), map.get("const")) {
        (Some(Value::Array(values)), _) => type_of_values(values),
        (None, Some(value)) => type_of_values(std::slice::from_ref(value)),
        _ if map.contains_key("properties") => Some("object"),
        _ => None,
    }
}

/// The description, as an entry of what is written.
fn description_of(map: &Map<String, Value>) -> Option<(String, Value)> {
    map.get("description")
        .map(|text| ("description".to_owned(), text.clone()))
}

/// The type that all values have, when one word says it.
fn type_of_values(values: &[Value]) -> Option<&'static str> {
    let kind = |value: &Value| match value {
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::Null => "null",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let first = kind(values.iter().find(|value| !value.is_null())?);
    let fits = |value: &Value| value.is_null() || kind(value) == first;
    values.iter().all(fits).then_some(first)
}

#[cfg(test)]
mod tests;
