//! Schemas for strict functions of the OpenAI API.
//!
//! Answers for the subset that its guide on structured outputs names: closed objects, every property required (an
//! optional one may be null instead), no default, no length of texts, at most ten levels. Leaves out functions that are
//! not strict: those take any JSON Schema.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{
    DEPTH, LOOKS, Loss, Notes, Projected, SILENT, description_of, each_schema, implied_type, overlap, resolve,
    takes_text, types, written_as_json,
};

/// The API's bounds for one schema.
const LEVELS: usize = 10;
const PROPERTIES: usize = 5_000;
const CHARACTERS: usize = 120_000;
const ENUM_VALUES: usize = 1_000;
/// A list of more than `MANY_VALUES` texts may have this many characters in all.
const MANY_VALUES: usize = 250;
const MANY_CHARACTERS: usize = 15_000;

const FORMATS: &[&str] = &[
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
];
/// What is kept as it is, and what for.
const KEPT: &[&str] = &[
    "title",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];

/// An input schema for a strict function. An absent optional arrives as `null`, which admission takes for absence; an
/// object without properties of its own arrives as a JSON text, which admission reads.
///
/// # Errors
/// What strict mode can't say at all, or could be understood in two ways; the function has to be declared without it then.
pub fn openai_strict(schema: &Value) -> Result<Projected, Loss> {
    let mut walker = Walker {
        root: schema,
        notes: Notes::default(),
        properties: 0,
        characters: 0,
        values: 0,
    };
    let mut projected = walker.schema(schema, Place::Root, 0)?;
    let mut shared = Map::new();
    for keyword in ["$defs", "definitions"] {
        let Some(Value::Object(named)) = schema.get(keyword) else {
            continue;
        };
        for (name, one) in named {
            walker.characters += name.chars().count();
            let back = walker.notes.enter(&[keyword, name]);
            let one = walker.schema(one, Place::Below, 1)?;
            walker.notes.leave(back);
            shared.insert(name.clone(), one);
        }
    }
    if !shared.is_empty() {
        projected["$defs"] = Value::Object(shared);
    }
    walker.within_bounds()?;
    Ok(Projected {
        schema: projected,
        losses: walker.notes.losses,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Below,
}

struct Walker<'s> {
    root: &'s Value,
    notes: Notes,
    properties: usize,
    characters: usize,
    values: usize,
}

impl<'s> Walker<'s> {
    fn unfit<T>(&self, what: impl Into<String>) -> Result<T, Loss> {
        Err(Loss {
            pointer: self.notes.place.clone(),
            what: what.into(),
        })
    }

    fn within_bounds(&self) -> Result<(), Loss> {
        let bounds = [
            (self.properties, PROPERTIES, "properties"),
            (self.characters, CHARACTERS, "characters of names and listed values"),
            (self.values, ENUM_VALUES, "listed values"),
        ];
        match bounds.iter().find(|(is, most, _)| is > most) {
            None => Ok(()),
            Some((is, most, what)) => self.unfit(format!("has {is} {what}; strict mode takes {most}")),
        }
    }

    fn below(&mut self, steps: &[&str], schema: &'s Value, depth: usize) -> Result<Value, Loss> {
        let back = self.notes.enter(steps);
        // Left as it is on an error, which then names the place.
        let projected = self.schema(schema, Place::Below, depth)?;
        self.notes.leave(back);
        Ok(projected)
    }

    fn schema(&mut self, schema: &'s Value, place: Place, depth: usize) -> Result<Value, Loss> {
        let Value::Object(map) = schema else {
            return self.unfit("a schema that allows anything has no type to be strict about");
        };
        if depth > DEPTH.min(LEVELS * 2) {
            return self.unfit("is nested too deeply for strict mode");
        }
        if place == Place::Below
            && asks_for_text(self.root, schema, &mut { LOOKS })
            && takes_text(self.root, schema, &mut { LOOKS })
        {
            return self.unfit("an object of any form where texts are taken as well is outside of strict mode");
        }
        let mut out = Map::new();
        if let Some(Value::String(reference)) = map.get("$ref") {
            if let Some(key) = map.keys().find(|key| !super::BESIDE_REFERENCE.contains(&key.as_str())) {
                return self.unfit(format!("`{key}` beside a reference is outside of strict mode"));
            }
            return self.reference(reference);
        }
        if let Some(Value::Array(parts)) = map.get("allOf") {
            return match &parts[..] {
                [one] if types(map).0.is_empty() && !map.contains_key("properties") => {
                    let mut one = self.below(&["allOf", "0"], one, depth)?;
                    if let (Some(description), Some(one)) = (map.get("description"), one.as_object_mut())
                        && !one.contains_key("$ref")
                    {
                        one.insert("description".into(), description.clone());
                    }
                    Ok(one)
                }
                _ => self.unfit("`allOf` is outside of strict mode"),
            };
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(parts)) = map.get(keyword) {
                if place == Place::Root {
                    return self.unfit(format!("`{keyword}` at the root is outside of strict mode"));
                }
                if keyword == "oneOf" {
                    self.notes.add("`oneOf` is told as `anyOf`");
                }
                if map.contains_key("properties") {
                    return self.unfit(format!("properties beside `{keyword}` are outside of strict mode"));
                }
                if overlap(self.root, parts) && asks_below(self.root, parts) {
                    return self.unfit("an object of any form in one of several objects is outside of strict mode");
                }
                let mut alternatives = Vec::new();
                for (index, part) in parts.iter().enumerate() {
                    alternatives.push(self.below(&[keyword, &index.to_string()], part, depth)?);
                }
                out.extend(description_of(map));
                out.insert("anyOf".into(), alternatives.into());
                return Ok(out.into());
            }
        }
        self.typed(map, place, depth)
    }

    fn reference(&mut self, reference: &str) -> Result<Value, Loss> {
        let to = match reference.strip_prefix("#/definitions/") {
            Some(name) => format!("#/$defs/{name}"),
            None => reference.to_owned(),
        };
        let shared = to.strip_prefix("#/$defs/").is_some_and(|name| !name.contains('/'));
        if (to != "#" && !shared) || resolve(self.root, reference).is_none() {
            return self.unfit(format!("strict mode follows no reference to `{reference}`"));
        }
        Ok(json!({ "$ref": to }))
    }

    fn typed(&mut self, map: &'s Map<String, Value>, place: Place, depth: usize) -> Result<Value, Loss> {
        let (mut kinds, null) = types(map);
        if kinds.is_empty() {
            match implied_type(map).or(null.then_some("null")) {
                Some(kind) => kinds.push(kind),
                None => return self.unfit("a schema without a type is outside of strict mode"),
            }
        }
        let mut out = Map::new();
        let free = kinds.contains(&"object") && has_free_keys(map);
        if free && place == Place::Root {
            return match map.get("additionalProperties") {
                Some(Value::Bool(false)) | None => Ok(json!({
                    "type": "object", "properties": {}, "required": [], "additionalProperties": false
                })),
                Some(_) => self.unfit("an object with keys of any name is outside of strict mode"),
            };
        }
        if free && kinds.len() > 1 {
            return self.unfit("an object of any form beside other types is outside of strict mode");
        }
        if free {
            self.notes
                .add("an object without properties of its own is asked for as a JSON text");
            let kind = if null {
                json!(["string", "null"])
            } else {
                json!("string")
            };
            out.insert("type".into(), kind);
            out.insert("description".into(), written_as_json(map.get("description")));
            return Ok(out.into());
        }
        let kind = match (&kinds[..], null && !kinds.contains(&"null")) {
            ([one], false) => json!(one),
            (several, true) => several.iter().copied().chain(["null"]).collect(),
            (several, false) => json!(several),
        };
        out.insert("type".into(), kind);
        out.extend(description_of(map));
        self.values(map, &mut out)?;
        for (key, value) in map {
            match key.as_str() {
                key if KEPT.contains(&key) => {
                    out.insert(key.to_owned(), value.clone());
                }
                "pattern" if value.as_str().is_some_and(looks_around) => {
                    self.notes.add("a pattern that looks around is not told");
                }
                "pattern" => {
                    out.insert(key.clone(), value.clone());
                }
                "format" if value.as_str().is_some_and(|format| FORMATS.contains(&format)) => {
                    out.insert(key.clone(), value.clone());
                }
                key if SILENT.contains(&key) => {}
                key => self.notes.add(format!("`{key}` is not told")),
            }
        }
        if kinds.contains(&"array") {
            match map.get("items") {
                Some(items @ Value::Object(_)) if !map.contains_key("prefixItems") => {
                    let items = self.below(&["items"], items, depth + 1)?;
                    out.insert("items".into(), items);
                }
                _ => return self.unfit("an array without one schema for its items is outside of strict mode"),
            }
        }
        if kinds.contains(&"object") {
            self.object(map, &mut out, depth)?;
        }
        Ok(out.into())
    }

    fn values(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>) -> Result<(), Loss> {
        if let Some(value) = map.get("const") {
            out.insert("const".into(), value.clone());
            self.characters += value.as_str().map_or(0, |text| text.chars().count());
        }
        let Some(Value::Array(values)) = map.get("enum") else {
            return Ok(());
        };
        let characters: usize = values
            .iter()
            .filter_map(Value::as_str)
            .map(|text| text.chars().count())
            .sum();
        self.characters += characters;
        self.values += values.len();
        if values.len() > MANY_VALUES && characters > MANY_CHARACTERS {
            return self.unfit(format!(
                "lists {} texts of {characters} characters; strict mode takes {MANY_CHARACTERS} for so many",
                values.len()
            ));
        }
        out.insert("enum".into(), values.clone().into());
        Ok(())
    }

    fn object(&mut self, map: &'s Map<String, Value>, out: &mut Map<String, Value>, depth: usize) -> Result<(), Loss> {
        if depth + 1 > LEVELS {
            return self.unfit(format!("objects nest deeper than the {LEVELS} levels of strict mode"));
        }
        self.notes.keys_beside(map);
        let needed: Vec<&str> = match map.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let mut properties = Map::new();
        if let Some(Value::Object(named)) = map.get("properties") {
            for (name, property) in named {
                self.properties += 1;
                self.characters += name.chars().count();
                let mut projected = self.below(&["properties", name], property, depth + 1)?;
                if !needed.contains(&name.as_str()) {
                    projected = or_null(projected);
                }
                properties.insert(name.clone(), projected);
            }
        }
        let names: Vec<Value> = properties.keys().map(|name| Value::from(name.as_str())).collect();
        out.insert("properties".into(), properties.into());
        out.insert("required".into(), names.into());
        out.insert("additionalProperties".into(), Value::Bool(false));
        Ok(())
    }
}

/// Whether an object has no properties of its own and may have any.
fn has_free_keys(map: &Map<String, Value>) -> bool {
    map.get("properties")
        .and_then(Value::as_object)
        .is_none_or(|properties| properties.is_empty() && map.get("additionalProperties") != Some(&Value::Bool(false)))
}

/// Whether an object may be asked for as a JSON text where the schema stands. In doubt it may.
fn asks_for_text(root: &Value, schema: &Value, looks: &mut usize) -> bool {
    let Value::Object(map) = schema else { return false };
    if *looks == 0 {
        return true;
    }
    *looks -= 1;
    if let Some(target) = map.get("$ref").and_then(Value::as_str) {
        return resolve(root, target).is_some_and(|target| asks_for_text(root, target, looks));
    }
    let mut parts = ["allOf", "anyOf", "oneOf"]
        .iter()
        .filter_map(|keyword| map.get(*keyword)?.as_array());
    if let Some(parts) = parts.next() {
        return parts.iter().any(|part| asks_for_text(root, part, looks));
    }
    let (kinds, _) = types(map);
    let is_object = kinds.contains(&"object") || (kinds.is_empty() && map.contains_key("properties"));
    is_object && has_free_keys(map)
}

/// How many schemas are looked at for [`asks_below`].
const BELOW: usize = 1_024;

/// Whether an object may be asked for as a JSON text anywhere inside of the alternatives. In doubt it may.
fn asks_below<'s>(root: &'s Value, parts: &'s [Value]) -> bool {
    let mut seen = HashSet::new();
    let mut open: Vec<&'s Value> = parts.iter().collect();
    for _ in 0..BELOW {
        let Some(schema) = open.pop() else { return false };
        if asks_for_text(root, schema, &mut { LOOKS }) {
            return true;
        }
        each_schema(schema, &mut |_, _, below| open.push(below));
        if let Some(target) = schema.get("$ref").and_then(Value::as_str)
            && seen.insert(target)
        {
            open.extend(resolve(root, target));
        }
    }
    true
}

/// The same, or null.
fn or_null(mut schema: Value) -> Value {
    // Called `null`, `json!` would take it for the word.
    let nothing = json!({ "type": "null" });
    let Value::Object(map) = &mut schema else { return schema };
    if map.contains_key("$ref") || map.contains_key("const") {
        return json!({ "anyOf": [schema, nothing] });
    }
    if let Some(Value::Array(alternatives)) = map.get_mut("anyOf") {
        if !alternatives.contains(&nothing) {
            alternatives.push(nothing);
        }
        return schema;
    }
    match map.get_mut("type") {
        Some(Value::Array(kinds)) if kinds.iter().any(|kind| kind == "null") => {}
        Some(Value::Array(kinds)) => kinds.push("null".into()),
        Some(kind) if *kind != "null" => *kind = json!([kind, "null"]),
        _ => {}
    }
    if let Some(Value::Array(values)) = map.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    schema
}

fn looks_around(pattern: &str) -> bool {
    ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|sign| pattern.contains(sign))
}
