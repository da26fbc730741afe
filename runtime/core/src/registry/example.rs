//! An example of what a schema takes, for tools that have none.
//!
//! Answers for making a small value from what the schema says: what is required, and the fields that somebody asks about.
//! Leaves out whether it fits: patterns and conditions are not read, so that whoever shows it asks the validator first.

use devloop_contract::projection::resolve;
use serde_json::{Map, Value, json};

/// The most schemas that are looked at.
const STEPS: usize = 500;
/// The deepest that an example goes.
const DEPTH: usize = 16;

/// A value that a schema may take. `wanted` are JSON Pointers of fields that it should have, when the schema knows them.
pub(super) fn example(schema: &Value, wanted: &[&str]) -> Option<Value> {
    let wanted: Vec<Vec<String>> = wanted.iter().map(|pointer| super::place::unescaped(pointer)).collect();
    let wanted: Vec<&[String]> = wanted.iter().map(Vec::as_slice).collect();
    let mut maker = Maker {
        root: schema,
        left: STEPS,
    };
    maker.value(schema, &wanted, 0)
}

struct Maker<'s> {
    root: &'s Value,
    left: usize,
}

impl Maker<'_> {
    fn value(&mut self, schema: &Value, wanted: &[&[String]], depth: usize) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        if depth > DEPTH {
            return None;
        }
        let Value::Object(map) = schema else {
            return (*schema != Value::Bool(false)).then(|| json!("text"));
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            return self.value(resolve(self.root, reference)?, wanted, depth + 1);
        }
        let first = |key: &str| map.get(key)?.as_array()?.first();
        if let Some(value) = map.get("const").or_else(|| first("examples")) {
            return Some(value.clone());
        }
        if wanted.is_empty()
            && let Some(value) = map.get("default")
        {
            return Some(value.clone());
        }
        if let Some(value) = first("enum") {
            return Some(value.clone());
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(alternatives) = map.get(keyword).and_then(Value::as_array) {
                return alternatives.iter().find_map(|below| {
                    let value = self.value(below, wanted, depth + 1)?;
                    Some(self.joined(map, value, wanted, depth))
                });
            }
        }
        let kind = match map.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            // What is not null says more.
            Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null")?,
            _ if map.contains_key("properties") => "object",
            _ => {
                let all = map.get("allOf").and_then(Value::as_array);
                let first = all.and_then(|all| all.iter().find_map(|below| self.value(below, wanted, depth + 1)));
                let value = first.unwrap_or_else(|| json!("text"));
                return Some(self.joined(map, value, wanted, depth));
            }
        };
        Some(match kind {
            "string" => text(map),
            "integer" | "number" => number(map),
            "boolean" => json!(true),
            "null" => Value::Null,
            "array" => self.array(map, wanted, depth)?,
            "object" => {
                let object = self.object(map, wanted, depth)?;
                self.joined(map, object, wanted, depth)
            }
            _ => return None,
        })
    }

    /// An object with what all other parts of its schema ask for.
    fn joined(&mut self, map: &Map<String, Value>, value: Value, wanted: &[&[String]], depth: usize) -> Value {
        let Value::Object(mut object) = value else { return value };
        let own = map
            .contains_key("properties")
            .then(|| self.object(map, wanted, depth))
            .flatten();
        let parts = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
        let mut more: Vec<Value> = own.into_iter().collect();
        more.extend(parts.filter_map(|part| self.value(part, wanted, depth + 1)));
        for part in more {
            if let Value::Object(part) = part {
                for (key, value) in part {
                    object.entry(key).or_insert(value);
                }
            }
        }
        Value::Object(object)
    }

    fn object(&mut self, map: &Map<String, Value>, wanted: &[&[String]], depth: usize) -> Option<Value> {
        let mut object = Map::new();
        let required = map.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|known| known == name));
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let below: Vec<&[String]> = wanted
                .iter()
                .filter_map(|steps| {
                    steps
                        .split_first()
                        .filter(|(first, _)| *first == name)
                        .map(|(_, rest)| rest)
                })
                .collect();
            if is_required(name) {
                object.insert(name.clone(), self.value(schema, &below, depth + 1)?);
            } else if !below.is_empty()
                && let Some(value) = self.value(schema, &below, depth + 1)
            {
                object.insert(name.clone(), value);
            }
        }
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            object.entry(name).or_insert_with(|| json!("text"));
        }
        Some(Value::Object(object))
    }

    fn array(&mut self, map: &Map<String, Value>, wanted: &[&[String]], depth: usize) -> Option<Value> {
        let tuple = map
            .get("prefixItems")
            .or_else(|| map.get("items").filter(|items| items.is_array()));
        if let Some(tuple) = tuple.and_then(Value::as_array) {
            let items = tuple.iter().map(|item| self.value(item, &[], depth + 1));
            return items.collect::<Option<Vec<_>>>().map(Value::from);
        }
        let least = map.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        // One shows what is in it.
        let most = map.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let count = least.max(1).min(most).min(STEPS as u64);
        let below: Vec<&[String]> = wanted.iter().filter_map(|steps| steps.get(1..)).collect();
        let any = json!(true);
        let item = map.get("items").unwrap_or(&any);
        let items = (0..count).map(|_| self.value(item, &below, depth + 1));
        match items.collect::<Option<Vec<_>>>() {
            Some(items) => Some(items.into()),
            None => (least == 0).then(|| json!([])),
        }
    }
}

fn text(map: &Map<String, Value>) -> Value {
    let known = match map.get("format").and_then(Value::as_str) {
        Some("date-time") => Some("2030-01-31T12:00:00Z"),
        Some("date") => Some("2030-01-31"),
        Some("time") => Some("12:00:00Z"),
        Some("uri" | "url" | "iri") => Some("https://example.com/"),
        Some("email") => Some("ada@example.com"),
        Some("uuid") => Some("01890a5d-ac96-774b-bcce-b302099a8057"),
        _ => None,
    };
    let size = |key: &str| {
        map.get(key)
            .and_then(Value::as_u64)
            .and_then(|size| usize::try_from(size).ok())
    };
    let mut text = known.unwrap_or("text").to_owned();
    // A longer one would help nobody.
    let least = size("minLength").unwrap_or(0).min(1_000);
    while text.chars().count() < least {
        text.push('x');
    }
    if let Some(most) = size("maxLength") {
        text = text.chars().take(most).collect();
    }
    text.into()
}

fn number(map: &Map<String, Value>) -> Value {
    let limit = |key: &str| map.get(key).filter(|limit| limit.is_number());
    if let Some(least) = limit("minimum") {
        return least.clone();
    }
    let stepped = |key: &str, by: i64| limit(key)?.as_i64()?.checked_add(by).map(Value::from);
    let most = limit("maximum").filter(|most| most.as_f64().is_some_and(|most| most < 1.0));
    stepped("exclusiveMinimum", 1)
        .or_else(|| most.cloned())
        .or_else(|| limit("multipleOf").cloned())
        .or_else(|| stepped("exclusiveMaximum", -1).filter(|most| most.as_i64().is_some_and(|most| most < 1)))
        .unwrap_or_else(|| json!(1))
}
