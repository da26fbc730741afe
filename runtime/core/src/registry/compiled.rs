//! One tool, ready to admit calls.
//!
//! Answers for the order of admission and for what comes out of it: an [`Invocation`] that can't be changed, or every
//! reason why not. Leaves out each step itself.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use devloop_contract::projection::{each_schema, published, published_output};
use devloop_contract::{InternalError, Tool, ToolError, ValidationError};
use jsonschema::Validator;
use serde_json::{Map, Value};

use super::definition::{Definition, Dialect, Naming, Schema, Text};
use super::example::example;
use super::mend::{self, mended};
use super::normalise::{self, Changes, Integers, normalise};
use super::place::{Pattern, Step, bracket, cut, steps, unescaped};
use super::rules::Constraint;
use super::shape::{End, Extra, Kind, Shape, open_options, options};
use super::validate::{Report, explain};
use super::words::Words;
use super::{PathRule, cost};

/// A tool with everything that is derived from its texts, each part derived once, when it is first needed.
#[derive(Debug)]
pub struct CompiledTool {
    definition: Arc<Definition>,
    path_rule: PathRule,
    input: OnceLock<Result<Input, String>>,
    output: OnceLock<Result<Validator, String>>,
}

/// What admission needs.
#[derive(Debug)]
struct Input {
    shape: Shape,
    validator: Validator,
    bind: Map<String, Value>,
    rules: Vec<Constraint>,
    paths: Vec<Pattern>,
    affected: Vec<Pattern>,
}

impl CompiledTool {
    /// Cheap: reads no schema. A schema that can't be compiled is an internal error of the first call; [`check`](Self::check)
    /// finds it earlier.
    pub fn new(tool: impl Into<Definition>, path_rule: PathRule) -> Self {
        Self {
            definition: Arc::new(tool.into()),
            path_rule,
            input: OnceLock::new(),
            output: OnceLock::new(),
        }
    }

    /// Everything that is said about the tool.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// Compiles the schemas now.
    ///
    /// # Errors
    /// What is wrong with the tool's own texts.
    pub fn check(&self) -> Result<(), String> {
        self.check_input()?;
        self.output_fault().map_or(Ok(()), Err)
    }

    /// Compiles the schema of the input now.
    pub(super) fn check_input(&self) -> Result<(), String> {
        self.compiled().map(drop).map_err(str::to_owned)
    }

    /// What is wrong with the schema of the output, which is compiled now.
    pub(super) fn output_fault(&self) -> Option<String> {
        self.validator_of_output()?.as_ref().err().cloned()
    }

    /// Admits a call: normalises the arguments, fills in defaults, validates, checks rules and paths, adds what the
    /// face binds.
    ///
    /// Cost: one walk to normalise and one to validate; the arguments are not copied. A todo list of twenty items takes
    /// 1.5 µs where the validator alone takes 0.9 µs, and 0.7 µs more when twenty defaults are missing: `cargo bench -p
    /// devloop-core --bench admission`. The first call also compiles the schema (20 µs).
    ///
    /// Validation comes after the defaults: unique items that differ only by a default left out are refused as equal.
    ///
    /// An input that a schema outside of the portable subset refuses is read once more, as declarations for providers ask
    /// for it: `null` for an optional field that is absent, and JSON texts for values.
    ///
    /// # Errors
    /// Everything that is wrong with the arguments, or a tool whose own texts are wrong.
    pub fn build(&self, arguments: Map<String, Value>) -> Result<Invocation, BuildError> {
        let input = self.input()?;
        let mut value = Value::Object(arguments);
        let mut changes = normalise::arguments(&input.shape, &mut value);
        let mut report = self.judge(input, &value, changes.integers())?;
        if !report.is_empty() && self.definition.dialect == Dialect::Open {
            if let Some(meant) = input.mended(&value) {
                changes.replace_root(&mut value, meant);
                report = self.judge(input, &value, changes.integers())?;
            } else if let Some(read) = input.read(&value) {
                // Still refused, and told by what is wrong inside of the texts.
                let inside = self.judge(input, &read, changes.integers())?;
                if !inside.is_empty() {
                    report = inside;
                }
            }
        }
        if !report.is_empty() {
            let shown = self.definition.examples.first();
            let example = match shown.map(|example| example.input.clone().into_owned()) {
                Some(example) => Some(example),
                None => input.example(&self.published()?, self.path_rule, &report),
            };
            return Err(BuildError::Invalid(report.into_error(example)));
        }
        let mut affected = Vec::new();
        if let Value::Object(root) = &mut value {
            for (key, bound) in &input.bind {
                changes.add_at_root(root, key, bound.clone());
            }
            for pattern in &input.affected {
                pattern.strings(root, &mut |path| {
                    if !affected.iter().any(|known| known == path) {
                        affected.push(path.to_owned());
                    }
                });
            }
        }
        Ok(Invocation {
            definition: Arc::clone(&self.definition),
            input: value,
            changes,
            original: OnceLock::new(),
            affected,
        })
    }

    /// An input as JSON that would be accepted: the tool's first example, else a small one that its schema allows. Nothing
    /// where none is found.
    pub fn example(&self) -> Option<String> {
        if let Some(shown) = self.definition.examples.first() {
            return Some(shown.input.clone().into_owned());
        }
        let published = self.published().ok()?;
        self.compiled()
            .ok()?
            .example(&published, self.path_rule, &Report::default())
    }

    /// Checks a success against the tool's output schema, when it has one.
    ///
    /// # Errors
    /// The first place that does not fit, and why; or that the schema itself is broken.
    pub fn check_output(&self, output: &Value) -> Result<(), String> {
        let Some(validator) = self.validator_of_output() else {
            return Ok(());
        };
        let validator = validator
            .as_ref()
            .map_err(|error| format!("`{}`: {error}", self.definition.name))?;
        if validator.is_valid(output) {
            return Ok(());
        }
        Err(refusal(validator, output).unwrap_or_else(|| "does not fit its schema".to_owned()))
    }

    /// What the tool says of its input that no input has: fields of the templates of its permission, and paths. Nothing
    /// where the schema can't be compiled.
    pub(super) fn misled(&self) -> Vec<String> {
        let Ok(input) = self.compiled() else { return Vec::new() };
        let mut misled = Vec::new();
        let Naming { signature, rule } = &self.definition.permission;
        for template in [signature, rule] {
            for field in template.split('{').skip(1).filter_map(|text| text.split('}').next()) {
                // A field whose own name has a dot comes first.
                let whole = [field.to_owned()];
                let steps: Vec<String> = field.split('.').map(str::to_owned).collect();
                if !input.shape.leads_to(&whole, End::Anything) && !input.shape.leads_to(&steps, End::Anything) {
                    misled.push(format!(
                        "the permission template `{template}`: the input has no field `{field}`"
                    ));
                }
            }
        }
        for (text, pattern) in self.definition.affected_paths.iter().zip(&input.affected) {
            if !input.shape.leads_to(pattern.steps(), End::Text) {
                misled.push(format!(
                    "the affected path `{text}` leads to no text of the input: write the JSON Pointer of a field, such as `/path` or `/files/*`"
                ));
            }
        }
        misled
    }

    fn validator_of_output(&self) -> Option<&Result<Validator, String>> {
        let schema = self.definition.output_schema.as_ref()?;
        Some(self.output.get_or_init(|| {
            let built = match self.definition.dialect {
                Dialect::Portable => options().build(read("output_schema", schema)?),
                Dialect::Open => {
                    let schema = published_output(read("output_schema", schema)?);
                    if let Some(reason) = cost::refusal(&schema) {
                        return Err(format!("output_schema: {reason}"));
                    }
                    open_options().build(&schema)
                }
            };
            built.map_err(|error| format!("output_schema: {error}"))
        }))
    }

    /// The input schema that is published and judged by. Read again: only refusals need it.
    fn published(&self) -> Result<Value, BuildError> {
        let schema = read("input_schema", &self.definition.input_schema);
        schema
            .map(published)
            .map_err(|error| BuildError::Internal(InternalError::bare(error)))
    }

    fn compiled(&self) -> Result<&Input, &str> {
        let input = self
            .input
            .get_or_init(|| Input::compile(&self.definition, self.path_rule));
        input.as_ref().map_err(String::as_str)
    }

    fn input(&self) -> Result<&Input, BuildError> {
        self.compiled().map_err(|error| {
            let message = format!("the tool {}: {error}", self.definition.who());
            BuildError::Internal(InternalError::bare(message))
        })
    }

    fn judge(&self, input: &Input, value: &Value, integers: Integers) -> Result<Report, BuildError> {
        let empty = Map::new();
        let root = value.as_object().unwrap_or(&empty);
        let sound = integers == Integers::Fit
            && input.validator.is_valid(value)
            && input.paths.iter().all(|pattern| self.follows_path_rule(pattern, root));
        let mut report = Report::default();
        if !sound {
            report = explain(&input.shape, value, self.path_rule);
            if self.definition.dialect == Dialect::Open {
                input.explain_openly(&self.published()?, value, &mut report);
            }
            if report.is_empty() {
                // Better the validator's words than none, should the two ever differ.
                let Some(words) = refusal(&input.validator, value) else {
                    let message = format!(
                        "an input of `{}` was refused and nothing says why",
                        self.definition.name
                    );
                    return Err(BuildError::Internal(InternalError::bare(message)));
                };
                report.add(&[], || words);
            }
        }
        for rule in &input.rules {
            rule.check(root, &input.bind, &mut report);
        }
        Ok(report)
    }

    fn follows_path_rule(&self, pattern: &Pattern, root: &Map<String, Value>) -> bool {
        let mut follows = true;
        pattern.strings(root, &mut |path| follows &= (self.path_rule)(path).is_ok());
        follows
    }
}

impl Input {
    fn compile(tool: &Definition, path_rule: PathRule) -> Result<Self, String> {
        let schema = read("input_schema", &tool.input_schema)?;
        if tool.dialect == Dialect::Open
            && let Some(reason) = unfillable(schema)
        {
            return Err(format!("input_schema: {reason}"));
        }
        // What is judged by is what is published.
        let schema = published(schema);
        let (mut shape, validator) = match tool.dialect {
            Dialect::Portable => {
                let shape = Shape::compile(&schema).map_err(|error| error.to_string())?;
                (shape, options().build(&schema))
            }
            Dialect::Open => {
                if let Some(reason) = cost::refusal(&schema) {
                    return Err(format!("input_schema: {reason}"));
                }
                let mut shape = Shape::compile_openly(&schema);
                keep_fit_defaults(&mut shape, path_rule);
                (shape, open_options().build(&schema))
            }
        };
        let validator = validator.map_err(|error| format!("input_schema: {error}"))?;
        let bind = match tool.bind.trim() {
            "" => Map::new(),
            text => match json("bind", text)? {
                Value::Object(bind) => bind,
                _ => return Err("bind: must be an object".to_owned()),
            },
        };
        let (bound, paths): (Vec<_>, Vec<_>) = patterns(&tool.path_fields)?
            .into_iter()
            .partition(|pattern| pattern.steps().first().is_some_and(|first| bind.contains_key(first)));
        for pattern in &bound {
            let mut fault = None;
            pattern.strings(&bind, &mut |path| fault = fault.take().or(path_rule(path).err()));
            if let Some(fault) = fault {
                return Err(format!("bind: {fault}"));
            }
        }
        for pattern in &paths {
            shape.mark_paths(pattern).map_err(|error| error.to_string())?;
        }
        let Kind::Object(fields) = &shape.kind else {
            return Err("the schema at the root: must describe an object, with `\"type\": \"object\"`".to_owned());
        };
        if let Some(key) = bind.keys().find(|key| fields.get(key).is_some()) {
            return Err(format!("bind: `{key}` is bound and can be sent as well"));
        }
        if !bind.is_empty() && !matches!(fields.extra, Extra::Refused) {
            return Err("bind: the input must be closed, or bound fields can be sent".to_owned());
        }
        defaults(&shape, path_rule)?;
        let rules = tool.rules.iter().map(Constraint::compile);
        let rules: Vec<_> = rules
            .collect::<Result<_, _>>()
            .map_err(|error| format!("rules: {error}"))?;
        let preset = |name: &&&str| {
            fields
                .get(name)
                .is_some_and(|property| property.shape.default.is_some())
        };
        if let Some(name) = rules.iter().flat_map(Constraint::choices).find(preset) {
            return Err(format!(
                "rules: `{name}` is one of a choice and has a default, so it is given always"
            ));
        }
        Ok(Self {
            validator,
            shape,
            bind,
            rules,
            paths,
            affected: patterns(&tool.affected_paths)?,
        })
    }
}

/// Why no value can be an object where the schema asks for one, as far as patterns of keys decide it: a key that has to be
/// there fits none of them. The rest is known [without patterns](devloop_contract::projection::refusal).
fn unfillable(schema: &Value) -> Option<String> {
    let mut refusal = missed(schema);
    each_schema(schema, &mut |keyword, _, below| {
        // One part of a composition may be for other values.
        let is_asked_for = matches!(
            keyword,
            "properties"
                | "patternProperties"
                | "additionalProperties"
                | "items"
                | "prefixItems"
                | "$defs"
                | "definitions"
        );
        if refusal.is_none() && is_asked_for {
            refusal = unfillable(below);
        }
    });
    refusal
}

/// A required key of a closed object that is neither listed nor fits a pattern.
fn missed(schema: &Value) -> Option<String> {
    let patterns = schema.get("patternProperties")?.as_object()?;
    if schema["additionalProperties"] != false {
        return None;
    }
    let listed = |name: &str| {
        schema["properties"]
            .as_object()
            .is_some_and(|listed| listed.contains_key(name))
    };
    let required = schema["required"].as_array()?.iter().filter_map(Value::as_str);
    let mut open = required.filter(|name| !listed(name)).peekable();
    open.peek()?;
    // A pattern that is none is told later.
    let build = |pattern: &String| open_options().build(&serde_json::json!({ "pattern": pattern })).ok();
    let patterns: Vec<Validator> = patterns.keys().map(build).collect::<Option<_>>()?;
    let name = open.find(|name| {
        let name = Value::from(*name);
        !patterns.iter().any(|pattern| pattern.is_valid(&name))
    })?;
    Some(format!(
        "`{}` is required and may not be sent: it is not listed, and fits no pattern of keys",
        cut(name, 80)
    ))
}

/// A default that the schema refuses would be blamed on the caller, call by call.
fn defaults(shape: &Shape, path_rule: PathRule) -> Result<(), String> {
    match &shape.kind {
        Kind::Array(items) => defaults(&items.shape, path_rule),
        Kind::Object(fields) => {
            for property in &fields.properties {
                if let Some(default) = &property.shape.default {
                    let mut default = default.clone();
                    normalise(&property.shape, &mut default);
                    let report = explain(&property.shape, &default, path_rule);
                    if !report.is_empty() {
                        let error = report.into_error(None);
                        return Err(format!("the default of `{}`: {error}", property.name));
                    }
                }
                defaults(&property.shape, path_rule)?;
            }
            match &fields.extra {
                Extra::Each(each) => defaults(each, path_rule),
                Extra::Free | Extra::Refused => Ok(()),
            }
        }
        Kind::String(_) | Kind::Integer(_) | Kind::Number(_) | Kind::Boolean | Kind::Foreign(_) => Ok(()),
    }
}

/// Takes away the defaults of somebody else's schema that would make an input wrong, or that nobody here can judge.
fn keep_fit_defaults(shape: &mut Shape, path_rule: PathRule) {
    match &mut shape.kind {
        Kind::Array(items) => keep_fit_defaults(&mut items.shape, path_rule),
        Kind::Object(fields) => {
            for property in &mut fields.properties {
                keep_fit_defaults(&mut property.shape, path_rule);
                let Some(default) = &property.shape.default else {
                    continue;
                };
                let mut default = default.clone();
                normalise(&property.shape, &mut default);
                if !explain(&property.shape, &default, path_rule).is_empty() {
                    property.shape.default = None;
                }
            }
            if let Extra::Each(each) = &mut fields.extra {
                keep_fit_defaults(each, path_rule);
            }
        }
        Kind::String(_) | Kind::Integer(_) | Kind::Number(_) | Kind::Boolean | Kind::Foreign(_) => {}
    }
}

/// Above so many values in an input the validator's list of all errors could be out of proportion.
const EXPLAINED: usize = 10_000;

impl Input {
    /// The value as it was meant, where it was sent as declarations for providers ask for it.
    fn mended(&self, value: &Value) -> Option<Value> {
        let values = count_values(value, EXPLAINED);
        if values >= EXPLAINED {
            return None;
        }
        mended(&self.validator, value, values, &|place, value| {
            self.is_open(place, value)
        })
    }

    /// The value with its JSON texts read, where it is wrong even so.
    fn read(&self, value: &Value) -> Option<Value> {
        if count_values(value, EXPLAINED) >= EXPLAINED {
            return None;
        }
        mend::read(&self.validator, value, &|place, value| self.is_open(place, value))
    }

    /// Whether nobody but the validator knows what belongs to a place.
    fn is_open(&self, place: &str, value: &Value) -> bool {
        let unescaped = unescaped(place);
        self.shape.is_foreign_at(&steps(&unescaped, value))
    }

    /// Adds what the shape knows nothing of. `schema` is what the validator judges by.
    fn explain_openly(&self, schema: &Value, value: &Value, report: &mut Report) {
        if count_values(value, EXPLAINED) >= EXPLAINED {
            return;
        }
        let words = Words::new(schema, value);
        for error in self.validator.iter_errors(value) {
            let place = unescaped(error.instance_path().as_str());
            if !self.shape.words(&steps(&place, value), &error) {
                words.add(&error, report);
            }
        }
    }

    /// An input that would be accepted, for a tool that shows none.
    fn example(&self, schema: &Value, path_rule: PathRule, report: &Report) -> Option<String> {
        const LONGEST: usize = 1_000;
        let mut pointers: Vec<&str> = report.pointers().collect();
        loop {
            let value = example(schema, &pointers)?;
            let root = value.as_object()?;
            let follows = |pattern: &Pattern| {
                let mut follows = true;
                pattern.strings(root, &mut |path| follows &= path_rule(path).is_ok());
                follows
            };
            let mut ruled = Report::default();
            for rule in &self.rules {
                rule.check(root, &self.bind, &mut ruled);
            }
            if self.validator.is_valid(&value) && ruled.is_empty() && self.paths.iter().all(follows) {
                let text = value.to_string();
                return (text.len() <= LONGEST).then_some(text);
            }
            // Without the fields that are asked about it may be simpler.
            if pointers.is_empty() {
                return None;
            }
            pointers.clear();
        }
    }
}

/// How many values there are, at most `most`.
fn count_values(value: &Value, most: usize) -> usize {
    let mut count = 1;
    let below: &mut dyn Iterator<Item = &Value> = match value {
        Value::Array(items) => &mut items.iter(),
        Value::Object(map) => &mut map.values(),
        _ => return count,
    };
    for value in below {
        if count >= most {
            break;
        }
        count += count_values(value, most - count);
    }
    count
}

fn read<'s>(what: &str, schema: &'s Schema) -> Result<&'s Value, String> {
    schema.value().map_err(|error| format!("{what}: {error}"))
}

fn json(what: &str, text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{what}: {error}"))
}

fn patterns(texts: &[Text]) -> Result<Vec<Pattern>, String> {
    texts.iter().map(|text| Pattern::parse(text)).collect()
}

/// The validator's own words on its first problem, with its place and without the value, which may be long.
fn refusal(validator: &Validator, value: &Value) -> Option<String> {
    let error = validator.validate(value).err()?;
    let place = error.instance_path().as_str().to_owned();
    let unescaped = unescaped(&place);
    let steps = steps(&unescaped, value);
    Some(error.masked_with(field(&steps)).to_string())
}

fn field(steps: &[Step<'_>]) -> String {
    match bracket(steps) {
        field if field.is_empty() => "the value".to_owned(),
        field => format!("`{field}`"),
    }
}

/// An admitted call: the input as built, and as it was sent. It can't be changed: other input is another call, which is
/// built anew.
#[derive(Debug)]
pub struct Invocation {
    definition: Arc<Definition>,
    input: Value,
    changes: Changes,
    /// The arguments as sent, worked out when somebody asks and something was changed.
    original: OnceLock<Map<String, Value>>,
    affected: Vec<String>,
}

impl Invocation {
    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Everything that is said about the tool.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.definition
    }

    /// The tool of the spec, when there is one: what typed input is parsed by.
    pub fn built_in(&self) -> Option<&'static Tool> {
        self.definition.built_in()
    }

    /// The templates by which permissions name this call; they are filled in from [`input`](Self::input).
    pub fn permission(&self) -> &Naming {
        &self.definition.permission
    }

    /// Whether the call may be replayed automatically.
    pub fn retry_safe(&self) -> bool {
        self.definition.retry_safe
    }

    /// The input that the handler gets: an object, with defaults and what the face binds.
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// The arguments as they were sent, key order included. Cost: nothing when admission changed nothing, else a copy
    /// on the first call.
    pub fn original(&self) -> &Map<String, Value> {
        match &self.input {
            Value::Object(input) if self.changes.is_empty() => input,
            _ => self.original.get_or_init(|| {
                let mut value = self.input.clone();
                self.changes.undo(&mut value);
                match value {
                    Value::Object(original) => original,
                    _ => unreachable!("arguments are an object, and nothing replaces the root"),
                }
            }),
        }
    }

    /// The strings in the fields that name files the call acts on, in document order, each once.
    pub fn affected_paths(&self) -> &[String] {
        &self.affected
    }
}

/// Why a call was not admitted.
#[derive(Debug)]
pub enum BuildError {
    /// The arguments are wrong; the sender can mend them.
    Invalid(ValidationError),
    /// The tool is wrong.
    Internal(InternalError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(error) => error.fmt(f),
            Self::Internal(error) => error.fmt(f),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(error) => error.source(),
            Self::Internal(error) => error.source(),
        }
    }
}

impl From<BuildError> for ToolError {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Invalid(error) => Self::Validation(error),
            BuildError::Internal(error) => Self::Internal(error),
        }
    }
}
