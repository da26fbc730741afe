//! What a schema outside of the portable subset refuses, in words.
//!
//! Answers for the errors of the JSON Schema validator that no shape words: references, unions, tuples, conditions. Each
//! says what was got, what is expected and, for a key or a word, the nearest known one; of a union that speaks of several
//! things the alternative that was meant is looked for. Leaves out what the subset has (`validate`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use devloop_contract::projection::resolve;
use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

use super::place::cut;
use super::validate::{Report, VALUE_SHOWN, count, list, show, sizes, unread};
use crate::text::nearest;

/// References and alternatives are followed so far.
const DEPTH: usize = 8;
/// So many alternatives are named.
const ALTERNATIVES: usize = 5;
/// A longer constant or description is cut.
const EXPECTED_SHOWN: usize = 300;

/// Words errors of one schema.
pub(super) struct Words<'s> {
    root: &'s Value,
    value: &'s Value,
}

impl<'s> Words<'s> {
    /// Of errors that the schema `root` has with `value`.
    pub(super) fn new(root: &'s Value, value: &'s Value) -> Self {
        Self { root, value }
    }

    /// Adds what an error says. Costs a description of the schema at its place.
    pub(super) fn add(&self, error: &ValidationError<'_>, report: &mut Report) {
        self.add_within(error, 0, report);
    }

    fn add_within(&self, error: &ValidationError<'_>, depth: usize, report: &mut Report) {
        use ValidationErrorKind::{
            AdditionalProperties, AnyOf, OneOfNotValid, PropertyNames, Required, UnevaluatedProperties,
        };
        let pointer = error.instance_path().as_str();
        match error.kind() {
            AdditionalProperties { unexpected } | UnevaluatedProperties { unexpected } => {
                let mut known = BTreeSet::new();
                self.properties(self.parent(error), 0, &mut known);
                let there = error.instance().as_object();
                for key in unexpected {
                    report.add_once(&below(pointer, key), self.value, || unknown(key, &known, there));
                }
            }
            Required { property } => {
                let name = property.as_str().unwrap_or_default();
                report.add_once(&below(pointer, name), self.value, || {
                    let mut said = self.hosts(error).filter_map(|host| self.property(Some(host), name, 0));
                    let expected = said.find_map(|schema| self.described(schema, 0));
                    let expected = cut(expected.as_deref().unwrap_or("a value"), EXPECTED_SHOWN);
                    format!("`{}` is missing; expected {expected}", cut(name, VALUE_SHOWN))
                });
            }
            AnyOf { context } | OneOfNotValid { context } => self.alternatives(error, context, depth, report),
            PropertyNames { error: inner } => report.add_once(pointer, self.value, || {
                let key = inner.instance().as_str().unwrap_or_default();
                format!("the key `{}` is refused: {}", cut(key, VALUE_SHOWN), self.reason(inner))
            }),
            _ => report.add_once(pointer, self.value, || self.reason(error)),
        }
    }

    /// A union: when the value is of another kind than all of its alternatives, what they are; else what is wrong with it as
    /// the alternative that was meant.
    fn alternatives(
        &self,
        error: &ValidationError<'_>,
        context: &[Vec<ValidationError<'static>>],
        depth: usize,
        report: &mut Report,
    ) {
        let here = error.instance_path().as_str();
        let of_a_kind: Vec<&Vec<ValidationError<'static>>> = context
            .iter()
            .filter(|errors| {
                !errors
                    .iter()
                    .any(|error| error.instance_path().as_str() == here && is_of_kind(error))
            })
            .collect();
        if depth < DEPTH {
            if let [meant] = of_a_kind[..] {
                for error in meant {
                    self.add_within(error, depth + 1, report);
                }
                return;
            }
            // All may be told apart by one field, `kind` or `type`, which none of them has so.
            if let Some((pointer, expected, got)) = told_apart(&of_a_kind) {
                report.add_once(&pointer, self.value, || not_one_of(&got, &expected));
                return;
            }
            let by_field = |errors: &&&Vec<ValidationError<'static>>| !errors.iter().any(is_fixed);
            let fitting: Vec<_> = of_a_kind.iter().filter(by_field).collect();
            if let [meant] = fitting[..] {
                for error in *meant {
                    self.add_within(error, depth + 1, report);
                }
                return;
            }
        }
        report.add_once(here, self.value, || {
            let schema = self.parent(error);
            let unread = context.iter().flatten().find_map(|error| self.unread(error));
            let mut reason = format!(
                "expected {}, got {}{}",
                self.expected(schema, 0),
                show(error.instance()),
                unread.unwrap_or_default()
            );
            let nearest = of_a_kind.iter().min_by_key(|errors| errors.len());
            if let Some(first) = nearest.and_then(|errors| errors.first()) {
                let mut inner = Report::default();
                self.add_within(first, DEPTH, &mut inner);
                if let Some(problem) = inner.first() {
                    let _ = match problem.field.as_str() {
                        "" => write!(reason, "; of the nearest one: {}", problem.reason),
                        field => write!(reason, "; of the nearest one: {field}: {}", problem.reason),
                    };
                }
            }
            reason
        });
    }

    /// What one error says of its own place.
    fn reason(&self, error: &ValidationError<'_>) -> String {
        use ValidationErrorKind as Kind;
        let value = error.instance();
        let got = || show(value);
        let size = |limit: u64, word: &str, unit: &str, size: usize| {
            format!(
                "has {}; {word} {limit} {}",
                count(size, unit),
                if word == "at least" { "expected" } else { "allowed" }
            )
        };
        let characters = || value.as_str().map_or(0, |text| text.chars().count());
        let items = || value.as_array().map_or(0, Vec::len);
        let keys = || value.as_object().map_or(0, Map::len);
        match error.kind() {
            Kind::Type { .. } => {
                let unread = self.unread(error).unwrap_or_default();
                format!(
                    "expected {}, got {}{unread}",
                    self.expected(self.parent(error), 0),
                    got()
                )
            }
            Kind::Enum { options } => match options.as_array() {
                Some(options) => not_one_of(value, options),
                None => format!("expected {}, got {}", literal(options), got()),
            },
            Kind::Constant { expected_value } => format!("expected {}, got {}", literal(expected_value), got()),
            Kind::Minimum { limit } => format!("{value} is too small; the minimum is {limit}"),
            Kind::Maximum { limit } => format!("{value} is too large; the maximum is {limit}"),
            Kind::ExclusiveMinimum { limit } => format!("{value} is too small; it must be more than {limit}"),
            Kind::ExclusiveMaximum { limit } => format!("{value} is too large; it must be less than {limit}"),
            Kind::MultipleOf { multiple_of } => format!("{value} is no multiple of {multiple_of}"),
            Kind::MinLength { limit } => size(*limit, "at least", "character", characters()),
            Kind::MaxLength { limit } => size(*limit, "at most", "character", characters()),
            Kind::MinItems { limit } => size(*limit, "at least", "item", items()),
            Kind::MaxItems { limit } => size(*limit, "at most", "item", items()),
            Kind::MinProperties { limit } => size(*limit, "at least", "key", keys()),
            Kind::MaxProperties { limit } => size(*limit, "at most", "key", keys()),
            Kind::AdditionalItems { limit } => size(*limit as u64, "at most", "item", items()),
            Kind::UnevaluatedItems { unexpected } => {
                format!("has {} beyond those that are expected", count(unexpected.len(), "item"))
            }
            Kind::Pattern { pattern } => format!(
                "`{}` does not match {}",
                cut(value.as_str().unwrap_or_default(), VALUE_SHOWN),
                cut(pattern, EXPECTED_SHOWN)
            ),
            Kind::UniqueItems => format!("two items of {} are equal; every item must differ", got()),
            Kind::Contains => {
                let inner = self.parent(error).and_then(|schema| schema.get("contains"));
                let expected = inner.map_or_else(String::new, |schema| self.expected(schema, 0));
                format!("no item is {expected}, and one is expected; got {}", got())
            }
            Kind::Not { schema } => format!("it must not be {}, got {}", self.expected(schema, 0), got()),
            Kind::OneOfMultipleValid { .. } => format!(
                "{} fits several of the alternatives, and must fit one alone: {}",
                got(),
                self.expected(self.parent(error), 0)
            ),
            Kind::FalseSchema => format!("nothing is expected here, got {}; leave it out", got()),
            Kind::Format { format } => format!("expected a text of the format {format}, got {}", got()),
            _ => format!("{}, got {}", error.masked_with("it"), got()),
        }
    }

    /// Why a text was not read as the JSON that it begins like, where an error says that another type is wanted.
    fn unread(&self, error: &ValidationError<'_>) -> Option<String> {
        let (ValidationErrorKind::Type { .. }, Value::String(text)) = (error.kind(), error.instance().as_ref()) else {
            return None;
        };
        let kinds = match self.parent(error)?.get("type")? {
            Value::Array(kinds) => kinds.iter().collect(),
            kind => vec![kind],
        };
        let why = kinds.into_iter().find_map(|kind| unread(kind.as_str()?, text))?;
        Some(format!(": {why}"))
    }

    /// The schema whose keyword an error is about.
    fn parent(&self, error: &ValidationError<'_>) -> Option<&'s Value> {
        let (parent, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.root.pointer(parent)
    }

    /// That schema, and those that it is a part of and that speak of the same value.
    fn hosts(&self, error: &ValidationError<'_>) -> impl Iterator<Item = &'s Value> {
        let mut paths = Vec::new();
        let mut path = error
            .schema_path()
            .as_str()
            .rsplit_once('/')
            .map(|(parent, _)| parent.to_owned());
        while let Some(at) = path {
            path = at.rsplit_once('/').and_then(|(before, last)| match last {
                "if" | "then" | "else" => Some(before.to_owned()),
                _ if last.bytes().all(|byte| byte.is_ascii_digit()) => {
                    let (host, list) = before.rsplit_once('/')?;
                    ["allOf", "anyOf", "oneOf"].contains(&list).then(|| host.to_owned())
                }
                _ => None,
            });
            paths.push(at);
        }
        paths.into_iter().filter_map(|path| self.root.pointer(&path))
    }

    /// A schema, or what it refers to.
    fn resolved(&self, mut schema: &'s Value) -> &'s Value {
        for _ in 0..DEPTH {
            let reference = schema.get("$ref").and_then(Value::as_str);
            match reference.and_then(|reference| resolve(self.root, reference)) {
                Some(below) => schema = below,
                None => break,
            }
        }
        schema
    }

    /// The names that a schema has for keys, in all of its parts.
    fn properties(&self, schema: Option<&'s Value>, depth: usize, known: &mut BTreeSet<&'s str>) {
        let Some(schema) = schema.map(|schema| self.resolved(schema)) else {
            return;
        };
        if depth > DEPTH {
            return;
        }
        if let Some(named) = schema.get("properties").and_then(Value::as_object) {
            let is_taken = |schema: &Value| *schema != Value::Bool(false);
            known.extend(
                named
                    .iter()
                    .filter(|(_, schema)| is_taken(schema))
                    .map(|(name, _)| name.as_str()),
            );
        }
        for part in parts(schema) {
            self.properties(Some(part), depth + 1, known);
        }
    }

    /// What a schema says of a key, in any of its parts.
    fn property(&self, schema: Option<&'s Value>, name: &str, depth: usize) -> Option<&'s Value> {
        let schema = self.resolved(schema?);
        let own = schema.get("properties").and_then(|named| named.get(name));
        if own.is_some() || depth > DEPTH {
            return own;
        }
        parts(schema).find_map(|part| self.property(Some(part), name, depth + 1))
    }

    /// What a schema describes.
    fn expected<'a>(&'a self, schema: impl Into<Option<&'a Value>>, depth: usize) -> String {
        let Some(schema) = schema.into() else {
            return "what its schema describes".to_owned();
        };
        let text = self
            .described(schema, depth)
            .unwrap_or_else(|| "what its schema describes".to_owned());
        cut(&text, EXPECTED_SHOWN)
    }

    fn described(&self, schema: &Value, depth: usize) -> Option<String> {
        if depth > DEPTH {
            return None;
        }
        let Value::Object(map) = schema else {
            return Some(
                if *schema == Value::Bool(false) {
                    "nothing"
                } else {
                    "any value"
                }
                .to_owned(),
            );
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            return self.described(resolve(self.root, reference)?, depth + 1);
        }
        if let Some(value) = map.get("const") {
            return Some(literal(value));
        }
        if let Some(options) = map.get("enum").and_then(Value::as_array) {
            return Some(one_of(options));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(alternatives) = map.get(keyword).and_then(Value::as_array) {
                return Some(joined(alternatives.iter().map(|below| self.expected(below, depth + 1))));
            }
        }
        match map.get("type") {
            Some(Value::String(kind)) => Some(self.of_type(map, kind, depth)),
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                Some(joined(kinds.map(|kind| self.of_type(map, kind, depth))))
            }
            _ if map.contains_key("properties") => Some(self.of_type(map, "object", depth)),
            _ => {
                let all = map.get("allOf").and_then(Value::as_array)?;
                all.iter().find_map(|below| self.described(below, depth + 1))
            }
        }
    }

    fn of_type(&self, map: &Map<String, Value>, kind: &str, depth: usize) -> String {
        let whole = |key: &str| map.get(key).and_then(Value::as_u64);
        match kind {
            "string" => {
                let mut text = format!("a string{}", sizes(whole("minLength"), whole("maxLength"), "character"));
                if let Some(pattern) = map.get("pattern").and_then(Value::as_str) {
                    let _ = write!(text, " that matches {pattern}");
                }
                text
            }
            "integer" | "number" => {
                let article = if kind == "integer" { "an" } else { "a" };
                let mut text = format!("{article} {kind}");
                for (key, words) in [
                    ("minimum", "of at least"),
                    ("exclusiveMinimum", "more than"),
                    ("maximum", "of at most"),
                    ("exclusiveMaximum", "less than"),
                ] {
                    if let Some(limit) = map.get(key).filter(|limit| limit.is_number()) {
                        let _ = write!(text, " {words} {limit}");
                    }
                }
                text
            }
            "boolean" => "true or false".to_owned(),
            "array" => {
                let tuple = map
                    .get("prefixItems")
                    .or_else(|| map.get("items").filter(|items| items.is_array()));
                if let Some(tuple) = tuple.and_then(Value::as_array) {
                    let items: Vec<String> = tuple.iter().map(|item| self.expected(item, depth + 1)).collect();
                    return format!("an array of {} ({})", count(tuple.len(), "item"), items.join(", "));
                }
                let sizes = sizes(whole("minItems"), whole("maxItems"), "item");
                match map.get("items").filter(|items| items.is_object()) {
                    Some(items) if depth < 2 => format!("an array{sizes} (each {})", self.expected(items, depth + 1)),
                    _ => format!("an array{sizes}"),
                }
            }
            "object" => {
                let fixed = |name: &str| {
                    let schema = map.get("properties")?.get(name)?;
                    let value = schema.get("const")?;
                    Some(format!("`{name}`: {}", literal(value)))
                };
                let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
                let names = required
                    .filter_map(Value::as_str)
                    .map(|name| fixed(name).unwrap_or_else(|| format!("`{name}`")));
                match names.collect::<Vec<_>>().join(", ") {
                    names if names.is_empty() => "an object".to_owned(),
                    names => format!("an object with {names}"),
                }
            }
            other => other.to_owned(),
        }
    }
}

/// The schemas that a schema is made of, beside its own words.
fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter();
    let lists = lists.filter_map(|keyword| schema.get(keyword)?.as_array()).flatten();
    let single = ["if", "then", "else"]
        .into_iter()
        .filter_map(|keyword| schema.get(keyword));
    lists.chain(single)
}

/// Whether an error says that the value is something else altogether.
fn is_of_kind(error: &ValidationError<'_>) -> bool {
    use ValidationErrorKind::{Constant, Enum, FalseSchema, Type};
    matches!(error.kind(), Type { .. } | Constant { .. } | Enum { .. } | FalseSchema)
}

/// Whether an error says that a field has another word than the alternative asks for.
fn is_fixed(error: &ValidationError<'_>) -> bool {
    matches!(
        error.kind(),
        ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. }
    )
}

/// The field by which all alternatives are told apart, what they expect there, and what it is.
fn told_apart(alternatives: &[&Vec<ValidationError<'static>>]) -> Option<(String, Vec<Value>, Value)> {
    let (first, _) = alternatives.split_first()?;
    first.iter().filter(|error| is_fixed(error)).find_map(|candidate| {
        let pointer = candidate.instance_path().as_str();
        let mut expected = Vec::new();
        for errors in alternatives {
            let at = errors
                .iter()
                .find(|error| is_fixed(error) && error.instance_path().as_str() == pointer)?;
            match at.kind() {
                ValidationErrorKind::Constant { expected_value } => expected.push((**expected_value).clone()),
                ValidationErrorKind::Enum { options } => {
                    expected.extend(options.as_array().into_iter().flatten().cloned());
                }
                _ => return None,
            }
        }
        Some((pointer.to_owned(), expected, candidate.instance().as_ref().clone()))
    })
}

fn not_one_of(value: &Value, options: &[Value]) -> String {
    let mut reason = format!("expected {}, got {}", one_of(options), show(value));
    if let Some(word) = value.as_str() {
        let words = options.iter().filter_map(Value::as_str);
        if let Some(near) = nearest(&cut(word, VALUE_SHOWN), words, 1).first() {
            let _ = write!(reason, "; did you mean `{near}`?");
        }
    }
    reason
}

fn unknown(key: &str, known: &BTreeSet<&str>, there: Option<&Map<String, Value>>) -> String {
    let key = cut(key, VALUE_SHOWN);
    // A key that is there already can't be what was meant.
    let free = known
        .iter()
        .copied()
        .filter(|name| there.is_none_or(|map| !map.contains_key(*name)));
    match nearest(&key, free, 1).first() {
        Some(near) => format!("`{key}` is not a known key; did you mean `{near}`?"),
        None if known.is_empty() => format!("`{key}` is not a known key; none is expected here"),
        None => format!("`{key}` is not a known key; known are {}", list(known.iter().copied())),
    }
}

/// `one of "a", 1`, or the only one.
fn one_of(options: &[Value]) -> String {
    let words: Option<Vec<&str>> = options.iter().map(Value::as_str).collect();
    match (options, words) {
        ([only], _) => literal(only),
        (_, Some(words)) => format!("one of {}", list(words)),
        (_, None) => {
            let all: Vec<String> = options.iter().map(literal).collect();
            cut(&format!("one of {}", all.join(", ")), EXPECTED_SHOWN)
        }
    }
}

fn literal(value: &Value) -> String {
    cut(&value.to_string(), VALUE_SHOWN)
}

/// `a, b or c`, each once.
fn joined(alternatives: impl Iterator<Item = String>) -> String {
    let mut each: Vec<String> = Vec::new();
    for alternative in alternatives {
        if !each.contains(&alternative) {
            each.push(alternative);
        }
    }
    let more = each.len().saturating_sub(ALTERNATIVES);
    if more > 0 {
        each.truncate(ALTERNATIVES);
        each.push(format!("{more} others"));
    }
    match each.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        Some((last, _)) => last.clone(),
        None => "nothing".to_owned(),
    }
}

fn below(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use devloop_contract::ValidationError as Refusal;
    use serde_json::json;

    use crate::registry::{BuildError, CompiledTool, ToolBuilder};

    use super::*;

    fn tool(schema: Value) -> CompiledTool {
        let tool = ToolBuilder::new("tool").summary("Does it.").input_schema(schema);
        let tool = CompiledTool::new(tool.build().unwrap(), |_| Ok(()));
        tool.check().unwrap();
        tool
    }

    fn refused(tool: &CompiledTool, sent: &Value) -> Refusal {
        match tool.build(sent.as_object().unwrap().clone()) {
            Err(BuildError::Invalid(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    fn of(property: &Value, sent: &Value) -> (CompiledTool, Refusal) {
        let tool = tool(json!({"type": "object", "properties": {"f": property}, "$defs": {
            "Point": {"type": "object", "additionalProperties": false, "required": ["x"],
                "properties": {"x": {"type": "integer", "minimum": 0}, "label": {"type": "string"}}},
            "Circle": {"type": "object", "required": ["kind", "radius"], "additionalProperties": false,
                "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}},
            "Square": {"type": "object", "required": ["kind", "side"], "additionalProperties": false,
                "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}}}}));
        let error = refused(&tool, &json!({"f": sent}));
        (tool, error)
    }

    #[test]
    fn what_lies_beyond_the_subset_is_told_with_what_was_got_and_what_is_expected() {
        let point = json!({"$ref": "#/$defs/Point"});
        let shapes = json!({"oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]});
        let tuple = json!({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": false});
        for (property, sent, expected) in [
            (
                &point,
                json!({"x": 1, "lable": "a"}),
                "f.lable: `lable` is not a known key; did you mean `label`?",
            ),
            (
                &point,
                json!({"x": 1, "zebra": "a"}),
                "f.zebra: `zebra` is not a known key; known are `label`, `x`",
            ),
            (
                &point,
                json!({}),
                "f.x: `x` is missing; expected an integer of at least 0",
            ),
            (&point, json!({"x": -1}), "f.x: -1 is too small; the minimum is 0"),
            (&point, json!(5), "f: expected an object with `x`, got the number 5"),
            (
                &json!({"type": ["string", "null"]}),
                json!(5),
                "f: expected a string or null, got the number 5",
            ),
            (
                &json!({"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]}),
                json!("a"),
                "f: expected an integer, an array (each a string) or null, got the string \"a\"",
            ),
            (
                &json!({"anyOf": [point, {"type": "null"}]}),
                json!({"x": 1, "lable": "a"}),
                "f.lable: `lable` is not a known key; did you mean `label`?",
            ),
            (
                &shapes,
                json!({"kind": "circel", "radius": 1}),
                "f.kind: expected one of `circle`, `square`, got the string \"circel\"; did you mean `circle`?",
            ),
            (
                &shapes,
                json!({"kind": "square", "side": "a"}),
                "f.side: expected a number, got the string \"a\"",
            ),
            (
                &tuple,
                json!(["a", "b"]),
                "f[1]: expected an integer, got the string \"b\"",
            ),
            (
                &tuple,
                json!(["a", 1, 2]),
                "f[2]: nothing is expected here, got the number 2; leave it out",
            ),
            (
                &tuple,
                json!(7),
                "f: expected an array of 2 items (a string, an integer), got the number 7",
            ),
            (
                &json!({"enum": [1, "two", null]}),
                json!("tow"),
                "f: expected one of 1, \"two\", null, got the string \"tow\"; did you mean `two`?",
            ),
            (
                &json!({"const": {"a": 1}}),
                json!(2),
                "f: expected {\"a\":1}, got the number 2",
            ),
            (
                &json!({"type": "integer", "exclusiveMinimum": 3}),
                json!(3),
                "f: 3 is too small; it must be more than 3",
            ),
            (
                &json!({"type": "integer", "multipleOf": 5}),
                json!(3),
                "f: 3 is no multiple of 5",
            ),
            (
                &json!({"not": {"type": "string"}}),
                json!("a"),
                "f: it must not be a string, got the string \"a\"",
            ),
            (
                &json!(false),
                json!(1),
                "f: nothing is expected here, got the number 1; leave it out",
            ),
        ] {
            let (tool, error) = of(property, &sent);
            let told: Vec<String> = error
                .problems
                .iter()
                .map(|p| format!("{}: {}", p.field, p.reason))
                .collect();
            assert_eq!(told, [expected], "{property} {sent}");
            assert!(error.problems[0].pointer.starts_with("/f"));
            if let Some(example) = error.example {
                let example: Value = serde_json::from_str(&example).unwrap();
                tool.build(example.as_object().unwrap().clone()).unwrap();
                assert!(
                    *property == json!(false) || example.get("f").is_some() || property.get("not").is_some(),
                    "{example}"
                );
            }
        }
    }

    #[test]
    fn an_example_is_made_where_one_can_be() {
        let (_, error) = of(&json!({"$ref": "#/$defs/Point"}), &json!({"x": 1, "y": 2}));
        assert_eq!(error.example.as_deref(), Some(r#"{"f":{"x":0}}"#));
        let schema = json!({"type": "object", "required": ["a", "when", "tags"], "properties": {
            "a": {"type": "string", "minLength": 6}, "when": {"type": "string", "format": "date"},
            "tags": {"type": "array", "minItems": 2, "items": {"enum": ["x", "y"]}}, "other": {"type": "integer"}}});
        let error = refused(&tool(schema), &json!({"a": "b"}));
        assert_eq!(
            error.example.as_deref(),
            Some(r#"{"a":"textxx","when":"2030-01-31","tags":["x","x"]}"#)
        );
        // None is better than a wrong one.
        let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "pattern": "^[0-9]{9}$"}}});
        assert_eq!(refused(&tool(schema), &json!({})).example, None);
        // One that never ends has none.
        let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/A"}},
            "$defs": {"A": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/A"}}}}});
        assert_eq!(refused(&tool(schema), &json!({})).example, None);
    }

    #[test]
    fn what_is_wrong_inside_of_a_json_text_is_named_at_its_place_however_the_schema_gets_there() {
        let inner = json!({"type": "object", "properties": {"n": {"type": "integer"}, "more": {"$ref": "#/$defs/I"}},
            "required": [], "additionalProperties": false});
        let ways = [
            json!({"$ref": "#/$defs/I"}),
            json!({"allOf": [{"$ref": "#/$defs/I"}]}),
            json!({"anyOf": [{"$ref": "#/$defs/I"}, {"type": "null"}]}),
            json!({"oneOf": [{"$ref": "#/$defs/I"}, {"type": "integer"}]}),
            json!({"type": ["object", "null"], "properties": {"n": {"type": "integer"}, "more": {"$ref": "#/$defs/I"}}}),
        ];
        // The last way gets there by the name of the key.
        for way in 0..=ways.len() {
            let mut schema = json!({"type": "object", "properties": {"g": {}}, "$defs": {"I": inner}});
            match ways.get(way) {
                Some(property) => schema["properties"]["f"] = property.clone(),
                None => schema["patternProperties"] = json!({"^f$": {"$ref": "#/$defs/I"}}),
            }
            let inline = tool(
                json!({"type": "object", "properties": {"f": {"type": "object", "properties": {
                "n": {"type": "integer"}, "more": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}}),
            );
            let tool = tool(schema.clone());
            for (sent, fields) in [
                (r#"{"n":"five"}"#, &["f.n"][..]),
                (r#"{"n":1.5,"zz":1}"#, &["f.n", "f.zz"]),
                (r#"{"more":{"n":true}}"#, &["f.more.n"]),
                (r#"{"more":"{\"n\":true}"}"#, &["f.more.n"]),
                (r#"{"n":"#, &["f"]),
                ("[1]", &["f"]),
                ("plain", &["f"]),
            ] {
                let error = refused(&tool, &json!({ "f": sent }));
                let mut told: Vec<&str> = error.problems.iter().map(|problem| &*problem.field).collect();
                told.sort_unstable();
                assert_eq!(told, fields, "{schema} {sent}: {error}");
                let known = refused(&inline, &json!({ "f": sent }));
                let mut known: Vec<&str> = known.problems.iter().map(|problem| &*problem.field).collect();
                known.sort_unstable();
                assert_eq!(told, known, "as for an object that stands there itself: {sent}");
                if sent == r#"{"n":"# {
                    assert!(error.to_string().contains("is not read as JSON because"), "{error}");
                }
            }
            let read = tool
                .build(json!({"f": r#"{"n":5}"#}).as_object().unwrap().clone())
                .unwrap();
            assert_eq!(*read.input(), json!({"f": {"n": 5}}));
        }
        let map = tool(json!({"type": "object", "properties": {
            "d": {"type": "object", "patternProperties": {"^x": {"type": "string"}}, "additionalProperties": {"$ref": "#/$defs/I"}}},
            "$defs": {"I": {"type": "integer"}}}));
        for (sent, field) in [(r#"{"x1":5}"#, "d.x1"), (r#"{"y":"five"}"#, "d.y")] {
            let error = refused(&map, &json!({ "d": sent }));
            assert_eq!(error.problems[0].field, field, "{error}");
        }
    }

    #[test]
    fn conditions_and_patterns_of_keys_at_the_root_are_served_and_told() {
        let conditional = tool(json!({"type": "object", "additionalProperties": false,
            "properties": {"mode": {"enum": ["a", "b"]}, "path": {"type": "string"}, "n": {"type": "integer"}},
            "if": {"properties": {"mode": {"const": "a"}}, "required": ["mode"]},
            "then": {"required": ["path"], "properties": {"path": {"minLength": 3}}}}));
        // Normalised by what the root says of its fields.
        let built = conditional
            .build(json!({"mode": "b", "n": "7"}).as_object().unwrap().clone())
            .unwrap();
        assert_eq!(*built.input(), json!({"mode": "b", "n": 7}));
        let told = |sent: Value| {
            let error = refused(&conditional, &sent);
            error
                .problems
                .iter()
                .map(|p| format!("{}: {}", p.field, p.reason))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            told(json!({"mode": "a"})),
            ["path: `path` is missing; expected a string"]
        );
        assert_eq!(
            told(json!({"mode": "a", "path": "x"})),
            ["path: has 1 character; at least 3 expected"]
        );
        assert_eq!(
            told(json!({"mode": "b", "pth": "x", "n": "q"})),
            [
                "pth: `pth` is not a known key; did you mean `path`?",
                "n: expected an integer of at most 64 bits, got the string \"q\""
            ]
        );
        let patterned = tool(
            json!({"type": "object", "additionalProperties": false, "required": ["id", "x_more"],
            "properties": {"id": {"type": "integer"}}, "patternProperties": {"^x_": {"type": "string"}}}),
        );
        patterned
            .build(json!({"id": 1, "x_more": "a"}).as_object().unwrap().clone())
            .unwrap();
        let error = refused(&patterned, &json!({"id": "q", "x_a": 1, "di": 2}));
        let told: Vec<String> = error
            .problems
            .iter()
            .map(|p| format!("{}: {}", p.pointer, p.reason))
            .collect();
        for part in [
            "/id: expected an integer of at most 64 bits, got the string \"q\"",
            "/x_a: expected a string, got the number 1",
            "/di: `di` is not a known key; known are `id`, `x_more`",
            "/x_more: `x_more` is missing; expected what its schema describes",
        ] {
            assert!(told.iter().any(|reason| reason == part), "{part}: {told:#?}");
        }
        assert_eq!(told.len(), 4, "{told:#?}");
    }
}
