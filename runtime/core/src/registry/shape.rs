//! An input schema as a tree that code can walk.
//!
//! Answers for reading a JSON Schema of the portable subset once, and for refusing what lies outside: a keyword that
//! nobody here understands must not be passed over in silence. Leaves out the verdict on a value, which is the
//! validator's: the tree guides normalising and explains refusals.

use std::fmt;
use std::sync::OnceLock;

use devloop_contract::projection::resolve;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::{Map, Number, Value, json};

use super::place::{Pattern as Pointer, Step};

/// Schemas nest at most this deep. It bounds every recursion over a shape, and so over a value.
pub const DEPTH: usize = 32;

/// The compiled form of one schema.
#[derive(Debug)]
pub struct Shape {
    pub(super) kind: Kind,
    /// As written; whoever takes it over normalises it.
    pub(super) default: Option<Value>,
}

/// What a schema describes: the portable subset has one type per schema.
#[derive(Debug)]
pub(super) enum Kind {
    String(Text),
    Integer(Range),
    Number(Range),
    Boolean,
    Array(Box<Items>),
    Object(Fields),
    /// Outside the subset, which only the tools of others may be: nobody but the validator looks inside.
    Foreign(Null),
}

/// Whether a schema outside the subset may take null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Null {
    Refused,
    Perhaps,
}

/// The constraints of a string.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) allowed: Option<Vec<String>>,
    /// The string is a project-relative path, which a rule beyond the schema checks.
    pub(super) is_path: bool,
}

/// A regular expression in ECMAScript syntax.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) text: String,
    /// Only explaining needs it, so it is built then, by the same engine that judges.
    matcher: OnceLock<Option<Validator>>,
}

impl Pattern {
    pub(super) fn is_match(&self, value: &Value) -> bool {
        let matcher = self
            .matcher
            .get_or_init(|| options().build(&json!({ "pattern": self.text })).ok());
        matcher.as_ref().is_none_or(|matcher| matcher.is_valid(value))
    }
}

/// The bounds of a number, both included.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) min: Option<Number>,
    pub(super) max: Option<Number>,
}

/// The constraints of an array.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) shape: Shape,
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
    pub(super) uniqueness: Uniqueness,
}

/// Whether equal items may stand in one array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uniqueness {
    Free,
    Required,
}

/// The constraints of an object.
#[derive(Debug)]
pub(super) struct Fields {
    /// In the order that the schema's author chose. Searched one by one: objects of tools are small.
    pub(super) properties: Vec<Property>,
    pub(super) extra: Extra,
}

impl Fields {
    pub(super) fn get(&self, name: &str) -> Option<&Property> {
        self.properties.iter().find(|property| property.name == name)
    }
}

/// One named property.
#[derive(Debug)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) need: Need,
}

/// Whether a property may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Optional,
    Required,
}

/// What may stand in an object beside its named properties.
#[derive(Debug)]
pub(super) enum Extra {
    Refused,
    Free,
    Each(Box<Shape>),
}

/// What has to be where a place ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Text,
    Anything,
}

/// Why a schema has no shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError {
    place: String,
    reason: String,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.place.is_empty() { "the root" } else { &self.place };
        write!(f, "the schema at {place}: {}", self.reason)
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// Reads a schema.
    ///
    /// # Errors
    /// The first thing that is outside the portable subset, with its place.
    pub fn compile(schema: &Value) -> Result<Self, ShapeError> {
        Reader {
            place: String::new(),
            foreign: Foreign::Refused,
            root: schema,
        }
        .shape(schema, 0)
    }

    /// Reads any schema. What lies outside the subset has a shape that says nothing.
    pub(super) fn compile_openly(schema: &Value) -> Self {
        let reader = Reader {
            place: String::new(),
            foreign: Foreign::Kept,
            root: schema,
        };
        let mut reader = reader;
        let shape = reader.shape(schema, 0).unwrap_or(Shape {
            kind: Kind::Foreign(Null::Perhaps),
            default: None,
        });
        match (&shape.kind, schema) {
            // Conditions and patterns of keys are the validator's; what the root says of its fields counts beside them.
            (Kind::Foreign(_), Value::Object(map)) if map.get("type").is_some_and(|kind| kind == "object") => Shape {
                kind: reader.open_fields(map).map_or(shape.kind, Kind::Object),
                default: None,
            },
            _ => shape,
        }
    }

    /// Whether this shape words what the validator has found at a place: the keyword stands at a schema that the shape has.
    pub(super) fn words(&self, place: &[Step<'_>], error: &ValidationError<'_>) -> bool {
        let mut shape = self;
        let mut path = String::new();
        for step in place {
            shape = match (&shape.kind, step) {
                (Kind::Array(items), Step::Index(_)) => {
                    path.push_str("/items");
                    &items.shape
                }
                (Kind::Object(fields), Step::Key(key)) => match (fields.get(key), &fields.extra) {
                    (Some(property), _) => {
                        path.push_str("/properties/");
                        path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                        &property.shape
                    }
                    (None, Extra::Each(each)) => {
                        path.push_str("/additionalProperties");
                        each
                    }
                    (None, _) => return false,
                },
                _ => return false,
            };
        }
        let keyword = error
            .schema_path()
            .as_str()
            .strip_prefix(&*path)
            .and_then(|rest| rest.strip_prefix('/'));
        let Some(keyword) = keyword else { return false };
        match (&shape.kind, error.kind()) {
            (Kind::Foreign(_), _) => false,
            (Kind::Object(fields), ValidationErrorKind::Required { property }) => {
                keyword == "required" && property.as_str().is_some_and(|name| fields.get(name).is_some())
            }
            (Kind::Object(fields), ValidationErrorKind::AdditionalProperties { .. }) => {
                keyword == "additionalProperties" && matches!(fields.extra, Extra::Refused)
            }
            _ => WORDED.contains(&keyword),
        }
    }

    /// Whether nobody but the validator knows what is wrong at a place.
    pub(super) fn is_foreign_at(&self, place: &[Step<'_>]) -> bool {
        let mut shape = self;
        for step in place {
            let below = match (&shape.kind, step) {
                (Kind::Foreign(_), _) => return true,
                (Kind::Array(items), Step::Index(_)) => Some(&items.shape),
                (Kind::Object(fields), Step::Key(key)) => match (fields.get(key), &fields.extra) {
                    (Some(property), _) => Some(&property.shape),
                    (None, Extra::Each(each)) => Some(&**each),
                    // A pattern of keys may speak of it.
                    (None, Extra::Free) => return true,
                    (None, Extra::Refused) => None,
                },
                _ => None,
            };
            match below {
                Some(below) => shape = below,
                None => return false,
            }
        }
        matches!(shape.kind, Kind::Foreign(_))
    }

    /// Whether a value that fits may have something at a place; `*` stands for every item of an array and every key of a
    /// map.
    pub(super) fn leads_to(&self, steps: &[String], end: End) -> bool {
        let Some((step, rest)) = steps.split_first() else {
            return match &self.kind {
                Kind::String(_) | Kind::Foreign(_) => true,
                _ => end == End::Anything,
            };
        };
        match &self.kind {
            // Only the validator knows.
            Kind::Foreign(_) => true,
            Kind::Array(items) => {
                (step == "*" || (end == End::Anything && step.parse::<usize>().is_ok()))
                    && items.shape.leads_to(rest, end)
            }
            Kind::Object(fields) => match (fields.get(step), &fields.extra) {
                (Some(property), _) => property.shape.leads_to(rest, end),
                (None, Extra::Each(each)) => each.leads_to(rest, end),
                (None, Extra::Free) => true,
                (None, Extra::Refused) => false,
            },
            Kind::String(_) | Kind::Integer(_) | Kind::Number(_) | Kind::Boolean => false,
        }
    }

    /// Marks the strings that `pointer` reaches as project-relative paths. Fails when it reaches none.
    pub(super) fn mark_paths(&mut self, pointer: &Pointer) -> Result<(), ShapeError> {
        let mut shape = self;
        let mut place = String::new();
        let mut steps = pointer.steps().iter();
        loop {
            let step = steps.next();
            if let Some(step) = step {
                place = format!("{place}/{step}");
            }
            let below = match (&mut shape.kind, step) {
                (Kind::String(text), None) => {
                    text.is_path = true;
                    return Ok(());
                }
                (Kind::Array(items), Some(step)) if step == "*" => Some(&mut items.shape),
                (Kind::Object(fields), Some(step)) => fields.below(step),
                _ => None,
            };
            let Some(below) = below else {
                let reason = "a path field must be a string of this schema".to_owned();
                return Err(ShapeError { place, reason });
            };
            shape = below;
        }
    }
}

impl Fields {
    /// The shape of a property, or, for `*`, of every value of a map.
    fn below(&mut self, step: &str) -> Option<&mut Shape> {
        let property = self.properties.iter_mut().find(|property| property.name == step);
        match (property, &mut self.extra) {
            (Some(property), _) => Some(&mut property.shape),
            (None, Extra::Each(each)) if step == "*" => Some(each),
            (None, _) => None,
        }
    }
}

/// How every validator of this module is built: Draft 2020-12, nothing fetched, and patterns in linear time, because
/// the texts that they run over are chosen by others. `\d`, `\w` and `\s` mean what they mean in JavaScript; the engine
/// sees to that for all patterns it can run, and refuses look-around and back-references.
pub(super) fn options() -> ValidationOptions<'static> {
    jsonschema::draft202012::options().with_pattern_options(PatternOptions::regex())
}

/// How the schemas of others are judged: they are of 2020-12 once they are here, and patterns may look around but not for
/// ever.
pub(super) fn open_options() -> ValidationOptions<'static> {
    jsonschema::draft202012::options()
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS))
        .should_validate_formats(false)
}

/// Where a pattern of an open schema gives up; the text is refused then.
const BACKTRACKS: usize = 100_000;

/// Keywords that only say something, or that only the validator has to understand: beside them the rest of a schema
/// means what it always means.
const BESIDE: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "format",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minProperties",
    "maxProperties",
    "propertyNames",
];

/// Keywords whose violations a shape words, where it has them.
const WORDED: &[&str] = &[
    "type",
    "enum",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
];

/// What happens to a schema outside the subset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Foreign {
    Refused,
    Kept,
}

struct Reader<'s> {
    place: String,
    foreign: Foreign,
    root: &'s Value,
}

impl Reader<'_> {
    fn shape(&mut self, schema: &Value, depth: usize) -> Result<Shape, ShapeError> {
        if self.foreign == Foreign::Refused {
            return self.portable(schema, depth);
        }
        let back = self.place.len();
        let shape = self.portable(schema, depth).unwrap_or_else(|_| {
            let mut steps = NULL_STEPS;
            Shape {
                kind: Kind::Foreign(null(schema, self.root, 0, &mut steps)),
                default: None,
            }
        });
        self.place.truncate(back);
        Ok(shape)
    }

    fn portable(&mut self, schema: &Value, depth: usize) -> Result<Shape, ShapeError> {
        if depth >= DEPTH {
            return self.fail(format!("nested deeper than {DEPTH} levels"));
        }
        let Value::Object(schema) = schema else {
            return self.fail("must be an object");
        };
        let Some(Value::String(kind)) = schema.get("type") else {
            return self.fail("`type` must be one word");
        };
        let kind = match kind.as_str() {
            "string" => Kind::String(self.text(schema)?),
            "integer" => Kind::Integer(self.range(schema)?),
            "number" => Kind::Number(self.range(schema)?),
            "boolean" => {
                self.only(schema, &[])?;
                Kind::Boolean
            }
            "array" => Kind::Array(Box::new(self.items(schema, depth)?)),
            "object" => Kind::Object(self.fields(schema, depth)?),
            other => return self.fail(format!("type `{other}` is outside the portable subset")),
        };
        let default = schema.get("default").cloned();
        Ok(Shape { kind, default })
    }

    fn text(&mut self, schema: &Map<String, Value>) -> Result<Text, ShapeError> {
        self.only(schema, &["enum", "pattern", "minLength", "maxLength"])?;
        let pattern = match schema.get("pattern") {
            None => None,
            Some(Value::String(text)) => Some(self.pattern(text)?),
            Some(_) => return self.fail("`pattern` must be a string"),
        };
        let allowed = match schema.get("enum") {
            None => None,
            Some(Value::Array(values)) => {
                let words: Option<Vec<String>> = values.iter().map(|v| v.as_str().map(str::to_owned)).collect();
                match words {
                    Some(words) if !words.is_empty() => Some(words),
                    _ => return self.fail("`enum` must hold strings, at least one"),
                }
            }
            Some(_) => return self.fail("`enum` must be an array"),
        };
        Ok(Text {
            min: self.count(schema, "minLength")?,
            max: self.count(schema, "maxLength")?,
            pattern,
            allowed,
            is_path: false,
        })
    }

    fn pattern(&mut self, text: &str) -> Result<Pattern, ShapeError> {
        // The engine's `\b` looks for Unicode words where JavaScript's looks for ASCII ones, and nothing translates it.
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c == '\\' && matches!(chars.next(), Some('b' | 'B')) {
                return self.fail(format!("pattern {text}: `\\b` is outside the portable subset"));
            }
        }
        if self.foreign == Foreign::Kept && options().build(&json!({ "pattern": text })).is_err() {
            return self.fail(format!("pattern {text}: looks around"));
        }
        Ok(Pattern {
            text: text.to_owned(),
            matcher: OnceLock::new(),
        })
    }

    fn range(&mut self, schema: &Map<String, Value>) -> Result<Range, ShapeError> {
        self.only(schema, &["minimum", "maximum"])?;
        Ok(Range {
            min: self.number(schema, "minimum")?,
            max: self.number(schema, "maximum")?,
        })
    }

    fn items(&mut self, schema: &Map<String, Value>, depth: usize) -> Result<Items, ShapeError> {
        self.only(schema, &["items", "minItems", "maxItems", "uniqueItems"])?;
        let Some(items) = schema.get("items") else {
            return self.fail("an array needs `items`");
        };
        let uniqueness = match schema.get("uniqueItems") {
            None | Some(Value::Bool(false)) => Uniqueness::Free,
            Some(Value::Bool(true)) => Uniqueness::Required,
            Some(_) => return self.fail("`uniqueItems` must be true or false"),
        };
        Ok(Items {
            min: self.count(schema, "minItems")?,
            max: self.count(schema, "maxItems")?,
            uniqueness,
            shape: self.below("/items", items, depth)?,
        })
    }

    fn fields(&mut self, schema: &Map<String, Value>, depth: usize) -> Result<Fields, ShapeError> {
        self.only(schema, &["properties", "required", "additionalProperties"])?;
        let empty = Map::new();
        let named = match schema.get("properties") {
            None => &empty,
            Some(Value::Object(named)) => named,
            Some(_) => return self.fail("`properties` must be an object"),
        };
        let mut required = Vec::new();
        match schema.get("required") {
            None => {}
            Some(Value::Array(needed)) => {
                for name in needed {
                    match name.as_str() {
                        Some(name) if named.contains_key(name) => required.push(name),
                        _ => return self.fail(format!("`required` names {name}, which is no property")),
                    }
                }
            }
            Some(_) => return self.fail("`required` must be an array"),
        }
        let mut properties = Vec::with_capacity(named.len());
        for (name, schema) in named {
            let step = format!("/properties/{name}");
            let need = if required.contains(&name.as_str()) {
                Need::Required
            } else {
                Need::Optional
            };
            properties.push(Property {
                name: name.clone(),
                shape: self.below(&step, schema, depth)?,
                need,
            });
        }
        let extra = match schema.get("additionalProperties") {
            None => Extra::Free,
            Some(Value::Bool(false)) => Extra::Refused,
            Some(each) => Extra::Each(Box::new(self.below("/additionalProperties", each, depth)?)),
        };
        Ok(Fields { properties, extra })
    }

    /// The named fields of a root that has keywords outside of the subset.
    fn open_fields(&mut self, schema: &Map<String, Value>) -> Result<Fields, ShapeError> {
        let required = schema.get("required").and_then(Value::as_array);
        let mut properties = Vec::new();
        for (name, below) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let is_required = required.is_some_and(|names| names.iter().any(|known| known == name));
            properties.push(Property {
                name: name.clone(),
                shape: self.below(&format!("/properties/{name}"), below, 0)?,
                need: if is_required { Need::Required } else { Need::Optional },
            });
        }
        let extra = match schema.get("additionalProperties") {
            // Whether a key is one of these, the validator knows.
            _ if schema.contains_key("patternProperties") => Extra::Free,
            None => Extra::Free,
            Some(Value::Bool(false)) => Extra::Refused,
            Some(each) => Extra::Each(Box::new(self.below("/additionalProperties", each, 0)?)),
        };
        Ok(Fields { properties, extra })
    }

    fn below(&mut self, step: &str, schema: &Value, depth: usize) -> Result<Shape, ShapeError> {
        let back = self.place.len();
        self.place.push_str(step);
        let shape = self.shape(schema, depth + 1)?;
        self.place.truncate(back);
        Ok(shape)
    }

    fn only(&self, schema: &Map<String, Value>, known: &[&str]) -> Result<(), ShapeError> {
        let everywhere = ["type", "title", "description", "default"];
        let beside = |key: &str| match self.foreign {
            Foreign::Refused => false,
            Foreign::Kept => BESIDE.contains(&key),
        };
        match schema
            .keys()
            .map(String::as_str)
            .find(|key| !everywhere.contains(key) && !known.contains(key) && !beside(key))
        {
            None => Ok(()),
            Some(key) => self.fail(format!("`{key}` is outside the portable subset for this type")),
        }
    }

    fn count(&self, schema: &Map<String, Value>, key: &str) -> Result<Option<u64>, ShapeError> {
        match schema.get(key) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(count) => Ok(Some(count)),
                None => self.fail(format!("`{key}` must be a whole number, 0 or more")),
            },
        }
    }

    fn number(&self, schema: &Map<String, Value>, key: &str) -> Result<Option<Number>, ShapeError> {
        match schema.get(key) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number.clone())),
            Some(_) => self.fail(format!("`{key}` must be a number")),
        }
    }

    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, ShapeError> {
        Err(ShapeError {
            place: self.place.clone(),
            reason: reason.into(),
        })
    }
}

/// How many schemas are looked at to know whether one may take null. References could lead to any number of them.
const NULL_STEPS: usize = 256;

/// Whether a schema may take null, as far as its own words say.
fn null(schema: &Value, root: &Value, depth: usize, steps: &mut usize) -> Null {
    if *steps == 0 {
        return Null::Perhaps;
    }
    *steps -= 1;
    let Value::Object(map) = schema else {
        return match schema {
            Value::Bool(false) => Null::Refused,
            _ => Null::Perhaps,
        };
    };
    let is_null = |value: &Value| value.is_null();
    let refused = match (map.get("type"), map.get("enum"), map.get("const")) {
        (Some(Value::String(kind)), ..) => kind != "null",
        (Some(Value::Array(kinds)), ..) => !kinds.iter().any(|kind| kind == "null"),
        (None, Some(Value::Array(values)), _) => !values.iter().any(is_null),
        (None, None, Some(value)) => !value.is_null(),
        _ => false,
    };
    // A chain of references that is longer is somebody's joke.
    let refused = refused
        || depth < 8 && {
            let alternatives = ["anyOf", "oneOf"]
                .iter()
                .filter_map(|keyword| map.get(*keyword)?.as_array());
            let mut below = |schema: &Value| null(schema, root, depth + 1, steps) == Null::Refused;
            let mut refused = false;
            for parts in alternatives {
                refused |= parts.iter().all(&mut below);
            }
            if let Some(Value::Array(parts)) = map.get("allOf") {
                refused |= parts.iter().any(&mut below);
            }
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                refused |= resolve(root, reference).is_some_and(below);
            }
            refused
        };
    if refused { Null::Refused } else { Null::Perhaps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(schema: &Value) -> String {
        Shape::compile(schema).unwrap_err().to_string()
    }

    #[test]
    fn what_nobody_here_understands_is_refused_with_its_place() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"oneOf": []}}}});
        assert_eq!(
            refusal(&schema),
            "the schema at /properties/a/items: `type` must be one word"
        );
        assert_eq!(
            refusal(&json!({"type": "object", "patternProperties": {}})),
            "the schema at the root: `patternProperties` is outside the portable subset for this type"
        );
        for schema in [
            json!(true),
            json!({"type": ["string", "null"]}),
            json!({"type": "array"}),
            json!({"type": "string", "enum": [1]}),
            json!({"type": "string", "pattern": r"\bword\b"}),
            json!({"type": "object", "required": ["a"]}),
            json!({"type": "integer", "exclusiveMinimum": 1}),
        ] {
            Shape::compile(&schema).expect_err(&schema.to_string());
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nest = |depth| {
            (0..depth).fold(
                json!({"type": "boolean"}),
                |inner, _| json!({"type": "array", "items": inner}),
            )
        };
        Shape::compile(&nest(DEPTH - 1)).unwrap();
        assert!(refusal(&nest(DEPTH)).ends_with("nested deeper than 32 levels"));
    }

    #[test]
    fn whether_null_may_stand_is_asked_in_bounded_time() {
        let parts = vec![json!({"$ref": "#/$defs/a"}); 3_000];
        let root = json!({"$defs": {"a": {"allOf": parts}}});
        let ask = |schema: Value| {
            let mut steps = NULL_STEPS;
            null(&schema, &root, 0, &mut steps)
        };
        assert_eq!(ask(json!({"$ref": "#/$defs/a"})), Null::Perhaps);
        for refuses in [
            json!({"type": "string"}),
            json!({"enum": [1]}),
            json!({"const": 1}),
            json!(false),
            json!({"anyOf": [{"type": "string"}, {"const": 1}]}),
            json!({"allOf": [{}, {"type": "string"}]}),
        ] {
            assert_eq!(ask(refuses.clone()), Null::Refused, "{refuses}");
        }
        for takes in [
            json!({}),
            json!(true),
            json!({"type": ["string", "null"]}),
            json!({"enum": [1, null]}),
            json!({"oneOf": [{"type": "string"}, {"type": "null"}]}),
        ] {
            assert_eq!(ask(takes.clone()), Null::Perhaps, "{takes}");
        }
    }

    #[test]
    fn digits_and_words_are_ascii_as_in_javascript() {
        let fits = |pattern: &str, text: &str| {
            options()
                .build(&json!({"type": "string", "pattern": pattern}))
                .unwrap()
                .is_valid(&json!(text))
        };
        assert!(fits(r"^\d$", "7") && !fits(r"^\d$", "٧"));
        assert!(fits(r"^\w+$", "a_Z9") && !fits(r"^\w+$", "é") && !fits(r"^\w+$", "ſ"));
        assert!(fits(r"^[\w-]+$", "a-b") && !fits(r"^[\w-]+$", "é"));
        assert!(fits(r"^\W$", "é") && fits(r"^\D$", "٧") && fits(r"^[^\d]$", "٧"));
        assert!(fits(r"^\s$", "\u{feff}") && fits(r"^\S$", "a"));
        // `$` is the end of the text, not of a line before it.
        assert!(!fits("^a$", "a\n") && !fits("^[ab]$", "a\n"));
        assert!(!fits("^.$", "\n") && !fits("^.$", "\u{2028}"));
    }

    #[test]
    fn a_pattern_that_could_run_away_is_refused() {
        for pattern in [r"^(?!\.)\d$", r"(?<=a)b", r"(a)\1"] {
            options()
                .build(&json!({"type": "string", "pattern": pattern}))
                .expect_err(pattern);
        }
    }

    #[test]
    fn a_path_field_must_be_a_string_of_the_schema() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}});
        let mut shape = Shape::compile(&schema).unwrap();
        shape.mark_paths(&Pointer::parse("/a/*").unwrap()).unwrap();
        for wrong in ["/a", "/b", "/a/0", "/a/*/x"] {
            shape.mark_paths(&Pointer::parse(wrong).unwrap()).expect_err(wrong);
        }
    }
}
