//! Schemas for function declarations of the Gemini API.
//!
//! Answers for the subset of an OpenAPI 3.0 schema object that its reference lists under `Schema`: types as the words
//! of its enumeration, `nullable`, texts as the only listed values, counts as texts (they are 64-bit in protobuf's JSON),
//! no object without properties. Leaves out `parametersJsonSchema`, which takes other schemas and not every model knows.

use serde_json::{Map, Value, json};

use super::{
    DEPTH, LOOKS, Loss, Notes, Projected, SILENT, description_of, implied_type, overlap, resolve, takes_text, types,
    written_as_json,
};

/// References are written out, and each could stand for two others, and so on: this many schemas are written.
const SCHEMAS: usize = 10_000;

/// The end of the loss for what is asked for so.
const AS_JSON: &str = "is asked for as a JSON text";

/// What is kept as it is.
const KEPT: &[&str] = &["title", "default", "minimum", "maximum", "pattern"];
/// Counts.
const COUNTS: &[&str] = &[
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
];
/// An input schema as `parameters` of a function declaration; `null` when there are none. What the dialect can't say at
/// all is asked for as a JSON text, which admission reads; where texts are taken as well, as a text alone, and said so.
pub fn gemini(schema: &Value) -> Projected {
    let mut walker = Walker {
        root: schema,
        notes: Notes::default(),
        open: Vec::new(),
        left: SCHEMAS,
        texts: Texts::Refused,
    };
    let has_properties = |schema: &Value| schema["properties"].as_object().is_some_and(|map| !map.is_empty());
    let schema = if has_properties(schema) {
        walker.schema(schema, 0)
    } else {
        match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => {}
            Some(_) => walker.notes.add("keys of any name are not asked for"),
        }
        Value::Null
    };
    Projected {
        schema,
        losses: walker.notes.losses,
    }
}

struct Walker<'s> {
    root: &'s Value,
    notes: Notes,
    /// References that are being followed.
    open: Vec<String>,
    /// How many schemas may still be written.
    left: usize,
    /// Of the place in the input that is being written.
    texts: Texts,
}

/// Whether a place takes a text that is JSON as the text that it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Texts {
    Refused,
    Taken,
}

impl<'s> Walker<'s> {
    fn below(&mut self, steps: &[&str], schema: &'s Value, depth: usize) -> Value {
        let back = self.notes.enter(steps);
        let projected = self.schema(schema, depth + 1);
        self.notes.leave(back);
        projected
    }

    /// Like [`below`](Self::below) for what is another place in the input, too.
    fn inside(&mut self, steps: &[&str], schema: &'s Value, depth: usize) -> Value {
        let texts = if takes_text(self.root, schema, &mut { LOOKS }) {
            Texts::Taken
        } else {
            Texts::Refused
        };
        let around = std::mem::replace(&mut self.texts, texts);
        let projected = self.below(steps, schema, depth);
        self.texts = around;
        projected
    }

    fn schema(&mut self, schema: &'s Value, depth: usize) -> Value {
        let Value::Object(map) = schema else {
            return self.as_text(None, "a schema that allows anything");
        };
        if self.left == 0 {
            return self.as_text(map.get("description"), "what lies beyond the first 10000 schemas");
        }
        self.left -= 1;
        if depth > DEPTH {
            return self.as_text(map.get("description"), "a schema nested this deeply");
        }
        if let Some(Value::String(reference)) = map.get("$ref") {
            return self.reference(reference, map, depth);
        }
        if let Some(Value::Array(parts)) = map.get("allOf") {
            if let ([one], false) = (&parts[..], map.contains_key("properties")) {
                let one = self.below(&["allOf", "0"], one, depth);
                return described(one, map);
            }
            return self.as_text(map.get("description"), "a combination of schemas");
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(parts)) = map.get(keyword) {
                return self.alternatives(keyword, parts, map, depth);
            }
        }
        self.typed(map, depth)
    }

    fn reference(&mut self, reference: &str, map: &'s Map<String, Value>, depth: usize) -> Value {
        let target = resolve(self.root, reference);
        match target {
            Some(target) if !self.open.iter().any(|open| open == reference) => {
                self.open.push(reference.to_owned());
                let projected = self.schema(target, depth + 1);
                self.open.pop();
                described(projected, map)
            }
            Some(_) => self.as_text(map.get("description"), "a schema that contains itself"),
            None => self.as_text(map.get("description"), "a schema that stands elsewhere"),
        }
    }

    fn alternatives(&mut self, keyword: &str, parts: &'s [Value], map: &'s Map<String, Value>, depth: usize) -> Value {
        let is_null = |part: &Value| part["type"] == "null" || part.get("const") == Some(&Value::Null);
        let null = parts.iter().any(is_null);
        let mut kept = Vec::new();
        let before = self.notes.losses.len();
        for (index, part) in parts.iter().enumerate().filter(|(_, part)| !is_null(part)) {
            kept.push(self.below(&[keyword, &index.to_string()], part, depth));
        }
        let asked = |loss: &Loss| loss.what.ends_with(AS_JSON);
        if overlap(self.root, parts) && self.notes.losses[before..].iter().any(asked) {
            self.notes
                .add("a JSON text in one alternative could be taken as it is by another one");
        }
        if keyword == "oneOf" && kept.len() > 1 {
            self.notes.add("`oneOf` is told as `anyOf`");
        }
        if map.contains_key("properties") {
            self.notes.add(format!("properties beside `{keyword}` are not told"));
        }
        let mut projected = match kept.len() {
            0 => return self.as_text(map.get("description"), "null alone"),
            1 => kept.remove(0),
            _ => json!({ "anyOf": kept }),
        };
        if null {
            projected["nullable"] = Value::Bool(true);
        }
        if let Some(default) = map.get("default") {
            projected["default"] = default.clone();
        }
        described(projected, map)
    }

    fn typed(&mut self, map: &'s Map<String, Value>, depth: usize) -> Value {
        let (mut kinds, null) = types(map);
        if kinds.is_empty() {
            kinds.extend(implied_type(map));
        }
        let projected = match &kinds[..] {
            [one] => self.one_type(one, map, depth),
            [] => self.as_text(map.get("description"), "a schema without a type"),
            several => {
                let alternatives: Vec<Value> = several.iter().map(|kind| self.one_type(kind, map, depth)).collect();
                json!({ "anyOf": alternatives })
            }
        };
        if null {
            let mut projected = projected;
            projected["nullable"] = Value::Bool(true);
            return projected;
        }
        projected
    }

    fn one_type(&mut self, kind: &str, map: &'s Map<String, Value>, depth: usize) -> Value {
        let word = match kind {
            "object"
                if map
                    .get("properties")
                    .and_then(Value::as_object)
                    .is_none_or(Map::is_empty) =>
            {
                return self.as_text(map.get("description"), "an object without properties of its own");
            }
            "array" if !map.get("items").is_some_and(Value::is_object) || map.contains_key("prefixItems") => {
                return self.as_text(map.get("description"), "an array without one schema for its items");
            }
            "string" | "number" | "integer" | "boolean" | "array" | "object" => kind.to_uppercase(),
            _ => return self.as_text(map.get("description"), "a type of this name"),
        };
        let mut out = Map::new();
        out.insert("type".into(), word.into());
        out.extend(description_of(map));
        self.values(kind, map, &mut out);
        for (key, value) in map {
            match key.as_str() {
                key if KEPT.contains(&key) => {
                    out.insert(key.to_owned(), value.clone());
                }
                key if COUNTS.contains(&key) => match value.as_u64() {
                    Some(count) => {
                        out.insert(key.to_owned(), count.to_string().into());
                    }
                    None => self.notes.add(format!("`{key}` is not told")),
                },
                "format" if is_format(kind, value) => {
                    out.entry("format").or_insert_with(|| value.clone());
                }
                key if SILENT.contains(&key) => {}
                key => self.notes.add(format!("`{key}` is not told")),
            }
        }
        if kind == "array" {
            let items = self.inside(&["items"], &map["items"], depth);
            out.insert("items".into(), items);
        }
        if kind == "object" {
            self.object(map, &mut out, depth);
        }
        out.into()
    }

    fn values(&mut self, kind: &str, map: &Map<String, Value>, out: &mut Map<String, Value>) {
        let listed: Vec<&Value> = match (map.get("enum"), map.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().collect(),
            (None, Some(value)) => vec![value],
            _ => return,
        };
        if kind != "string" {
            self.notes.add("listed values that are no texts are not told");
            return;
        }
        if listed.iter().any(|value| value.is_null()) {
            out.insert("nullable".into(), Value::Bool(true));
        }
        let texts: Vec<Value> = listed
            .iter()
            .filter(|value| value.as_str().is_some_and(|text| !text.is_empty()))
            .map(|value| (*value).clone())
            .collect();
        if listed.iter().any(|value| value.as_str() == Some("")) {
            // The API takes no empty text in the list; a list without it would forbid it.
            self.notes
                .add("listed values with an empty text among them are not told");
            return;
        }
        if !texts.is_empty() {
            out.insert("format".into(), "enum".into());
            out.insert("enum".into(), texts.into());
        }
    }

    fn object(&mut self, map: &'s Map<String, Value>, out: &mut Map<String, Value>, depth: usize) {
        self.notes.keys_beside(map);
        let Some(Value::Object(named)) = map.get("properties") else {
            return;
        };
        let mut properties = Map::new();
        for (name, property) in named {
            let projected = self.inside(&["properties", name], property, depth);
            properties.insert(name.clone(), projected);
        }
        let order: Vec<Value> = named.keys().map(|name| Value::from(name.as_str())).collect();
        let required: Vec<Value> = match map.get("required") {
            Some(Value::Array(required)) => required
                .iter()
                .filter(|name| name.as_str().is_some_and(|name| named.contains_key(name)))
                .cloned()
                .collect(),
            _ => Vec::new(),
        };
        out.insert("properties".into(), properties.into());
        out.insert("required".into(), required.into());
        out.insert("propertyOrdering".into(), order.into());
    }

    fn as_text(&mut self, description: Option<&Value>, what: &str) -> Value {
        if self.texts == Texts::Taken {
            self.notes.add(format!(
                "of {what} texts alone are asked for: a JSON text would be taken as it is"
            ));
            let mut text = json!({ "type": "STRING" });
            if let Some(description) = description {
                text["description"] = description.clone();
            }
            return text;
        }
        self.notes.add(format!("{what} {AS_JSON}"));
        json!({ "type": "STRING", "description": written_as_json(description) })
    }
}

/// What stands beside a reference is nearer to the field than what it refers to.
fn described(mut projected: Value, map: &Map<String, Value>) -> Value {
    let is_text_of_json = projected["description"]
        .as_str()
        .is_some_and(|text| text.ends_with("Write it as a JSON text."));
    if let Some(description) = map.get("description") {
        projected["description"] = if is_text_of_json {
            written_as_json(Some(description))
        } else {
            description.clone()
        };
    }
    projected
}

fn is_format(kind: &str, value: &Value) -> bool {
    match kind {
        "integer" => matches!(value.as_str(), Some("int32" | "int64")),
        "number" => matches!(value.as_str(), Some("float" | "double")),
        "string" => value.as_str() == Some("date-time"),
        _ => false,
    }
}
