//! Tools that a host program declares in Rust.
//!
//! Answers for putting a [`Definition`] together and for saying everything that is wrong with it at once. Leaves out what
//! carries a call out: the catalogue takes that beside the definition.

use std::borrow::Cow;
use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use devloop_contract::ValidationError;
use devloop_contract::agent::is_template;
use devloop_contract::projection::refusal;
use devloop_contract::tool::{Effects, Exposure, FailureSpec, Kind, Parallelism, Rule, is_semver};
use serde_json::Value;

use super::compiled::{BuildError, CompiledTool};
use super::definition::{Definition, Example, Hints, Naming, Owner, Schema, Text, Trust};
use crate::permission::check_naming;
use crate::text::{harmless, is_harmful};

/// The longest name: `mcp__devloop__` before it makes 64, which is what clients take.
const NAME: usize = 50;
/// The longest description that clients don't cut.
const DESCRIPTION: usize = 2_048;
/// The longest timeout.
const LONGEST: Duration = Duration::from_hours(24);

/// Declares a host's own tool. What is not said is what is safest: it may be anything that runs programs, runs alone, and
/// is never replayed.
///
/// ```
/// use devloop_contract::tool::Kind;
/// use devloop_core::registry::ToolBuilder;
/// use serde_json::json;
///
/// let tool = ToolBuilder::new("weather")
///     .summary("Tells the weather of a city.")
///     .kind(Kind::ReadOnly)
///     .input_schema(json!({
///         "type": "object",
///         "required": ["city"],
///         "properties": { "city": { "type": "string", "description": "Its name." } }
///     }))
///     .example("Oslo", json!({ "city": "Oslo" }))
///     .build()?;
/// assert_eq!(tool.name, "weather");
///
/// let wrong = ToolBuilder::new("get weather").input_schema(json!({ "type": "string" })).build();
/// assert_eq!(wrong.unwrap_err().problems.len(), 3);
/// # Ok::<(), devloop_core::registry::BuilderError>(())
/// ```
#[doc(alias = "createTool")]
#[doc(alias = "FunctionTool")]
#[derive(Clone, Debug)]
#[must_use]
pub struct ToolBuilder {
    tool: Definition,
    parallelism: Option<Parallelism>,
    permission: Option<Naming>,
}

impl ToolBuilder {
    /// A tool of this name: letters, digits, `_` and `-`, at most 50.
    pub fn new(name: impl Into<Text>) -> Self {
        let source = Cow::Borrowed("the host program");
        Self {
            tool: Definition::bare(name.into(), Owner::Host, Trust::Trusted, source),
            parallelism: None,
            permission: None,
        }
    }

    /// The human name; the name by default.
    pub fn title(mut self, title: impl Into<Text>) -> Self {
        self.tool.title = title.into();
        self
    }

    /// What it does, in one sentence. Required.
    pub fn summary(mut self, summary: impl Into<Text>) -> Self {
        self.tool.summary = summary.into();
        self
    }

    /// What follows the summary in the description.
    pub fn details(mut self, details: impl Into<Text>) -> Self {
        self.tool.details = details.into();
        self
    }

    /// One thing that a caller should know.
    pub fn note(mut self, note: impl Into<Text>) -> Self {
        self.tool.notes.push(note.into());
        self
    }

    /// One thing that a caller should beware of.
    pub fn caution(mut self, caution: impl Into<Text>) -> Self {
        self.tool.cautions.push(caution.into());
        self
    }

    /// Another name.
    pub fn alias(mut self, alias: impl Into<Text>) -> Self {
        self.tool.aliases.push(alias.into());
        self
    }

    /// The permission class; `execute` by default.
    pub fn kind(mut self, kind: Kind) -> Self {
        self.tool.kind = kind;
        self
    }

    /// What clients may assume; by default the worst.
    pub fn hints(mut self, hints: Hints) -> Self {
        self.tool.hints = hints;
        self
    }

    /// It may run beside itself on the same path; then it is shared as well, unless something else is said.
    pub fn concurrency_safe(mut self) -> Self {
        self.tool.concurrency_safe = true;
        self
    }

    /// Whether calls of one session may overlap; exclusive by default, shared by default where it is
    /// [concurrency safe](Self::concurrency_safe). It also says where they run: an exclusive call has a thread of the
    /// session's own and may block it, a shared one runs among the tasks of its caller and must not block.
    pub fn parallelism(mut self, parallelism: Parallelism) -> Self {
        self.parallelism = Some(parallelism);
        self
    }

    /// It may be replayed automatically after a transient failure: an internal error with `EBUSY`, `EAGAIN`, `EMFILE` or
    /// `ENFILE` of the system among its causes.
    pub fn retry_safe(mut self) -> Self {
        self.tool.retry_safe = true;
        self
    }

    /// Ask providers for strict arguments.
    pub fn strict(mut self) -> Self {
        self.tool.strict = true;
        self
    }

    /// When its schema is shown; always by default.
    pub fn exposure(mut self, exposure: Exposure) -> Self {
        self.tool.exposure = exposure;
        self
    }

    /// Catalogue data.
    pub fn category(mut self, category: impl Into<Text>) -> Self {
        self.tool.category = category.into();
        self
    }

    /// Catalogue data.
    pub fn tag(mut self, tag: impl Into<Text>) -> Self {
        self.tool.tags.push(tag.into());
        self
    }

    /// The tool's own semantic version; `1.0.0` by default.
    pub fn version(mut self, version: impl Into<Text>) -> Self {
        self.tool.version = version.into();
        self
    }

    /// How permissions name a call; the name by default.
    pub fn permission(mut self, naming: Naming) -> Self {
        self.permission = Some(naming);
        self
    }

    /// JSON Pointer of an input field that names files the call acts on; `*` stands for every item.
    pub fn affected_path(mut self, pointer: impl Into<Text>) -> Self {
        self.tool.affected_paths.push(pointer.into());
        self
    }

    /// JSON Pointer of an input field that holds project-relative paths.
    pub fn path_field(mut self, pointer: impl Into<Text>) -> Self {
        self.tool.path_fields.push(pointer.into());
        self
    }

    /// The longest that a call may take; 30 s by default. Then it is told to stop, and its caller waits no longer.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.tool.timeout = timeout;
        self
    }

    /// The input's JSON Schema. Its root is an object; without one the tool takes no arguments.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.tool.input_schema = schema.into();
        self
    }

    /// The output's JSON Schema. Its root is an object, as the protocol wants it; what is no object is answered as a field
    /// of one.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.tool.output_schema = Some(Schema::from(schema));
        self
    }

    /// The input's schema from a Rust type, in the portable form: without references, and with `null` taken from fields
    /// that are optional anyway. The crate is here as `devloop_core::schemars`.
    #[cfg(feature = "schemars")]
    pub fn input<T: schemars::JsonSchema>(self) -> Self {
        self.input_schema(schema_of::<T>())
    }

    /// The output's schema from a Rust type: a struct, or another one that is an object in JSON.
    #[cfg(feature = "schemars")]
    pub fn output<T: schemars::JsonSchema>(self) -> Self {
        self.output_schema(schema_of::<T>())
    }

    /// A constraint between fields of the input.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.tool.rules.to_mut().push(rule);
        self
    }

    /// What a call touches.
    pub fn effects(mut self, effects: Effects) -> Self {
        self.tool.effects = effects;
        self
    }

    /// An expected failure.
    pub fn failure(mut self, failure: FailureSpec) -> Self {
        self.tool.failures.to_mut().push(failure);
        self
    }

    /// A call that works; checked against the schema of the input.
    pub fn example(mut self, title: impl Into<Text>, input: impl Into<Value>) -> Self {
        self.tool.examples.push(Example {
            title: title.into(),
            input: input.into().to_string().into(),
            output: Text::default(),
        });
        self
    }

    /// A call that works, and what it answers; both are checked against their schemas.
    pub fn example_with_output(
        mut self,
        title: impl Into<Text>,
        input: impl Into<Value>,
        output: impl Into<Value>,
    ) -> Self {
        self = self.example(title, input);
        if let Some(example) = self.tool.examples.last_mut() {
            example.output = output.into().to_string().into();
        }
        self
    }

    /// The definition.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn build(self) -> Result<Definition, BuilderError> {
        let mut tool = self.tool;
        tool.parallelism = self.parallelism.unwrap_or(if tool.concurrency_safe {
            Parallelism::Shared
        } else {
            Parallelism::Exclusive
        });
        if let Some(permission) = self.permission {
            tool.permission = permission;
        }
        tool.description = describe(&tool).into();
        let compiled = CompiledTool::new(tool, |_| Ok(()));
        match unfit(&compiled) {
            None => Ok(Definition::clone(compiled.definition())),
            Some(error) => Err(error),
        }
    }
}

/// Everything that is wrong with a host's tool, whoever put its definition together. The schemas are compiled, unless the
/// input's is one that no client takes.
pub(crate) fn unfit(compiled: &CompiledTool) -> Option<BuilderError> {
    let tool = compiled.definition();
    let mut problems = misnamings(tool);
    for (what, text) in [("title", &tool.title), ("summary", &tool.summary)] {
        if text.contains(is_harmful) {
            problems.push(format!(
                "the {what} has characters that a terminal would obey or that hide others: {}",
                harmless(text)
            ));
        }
    }
    if tool.summary.trim().is_empty() {
        problems.push("the summary is missing: say in one sentence what the tool does".to_owned());
    }
    let length = tool.description.chars().count();
    if length > DESCRIPTION {
        problems.push(format!(
            "the description has {length} characters; clients cut it at {DESCRIPTION}"
        ));
    }
    if !is_semver(&tool.version) {
        problems.push(format!(
            "the version `{}` is not of the form 1.2.3 or 1.2.3-rc.1",
            tool.version.escape_debug()
        ));
    }
    if let Err(error) = check_naming(&tool.permission) {
        problems.push(error.to_string());
    } else {
        // The name is judged as such.
        let of_its_own = |text: &&Text| !text.is_empty() && **text != tool.name;
        let templates = [&tool.permission.signature, &tool.permission.rule].into_iter();
        let foreign = templates.filter(of_its_own).filter(|text| !is_template(text));
        problems.extend(foreign.map(|template| {
            let template = harmless(template);
            format!("the permission template `{template}` makes no rule: parentheses come in pairs, and a name has letters, digits, `_` and `-` alone")
        }));
    }
    if tool.timeout.is_zero() {
        problems.push("the timeout is zero: no call could end in time".to_owned());
    }
    if tool.timeout > LONGEST {
        problems.push("the timeout is longer than a day: 24 hours are the most".to_owned());
    }
    if tool.hints.read_only && !tool.effects.writes.is_empty() {
        problems.push("it is hinted to be read-only and its effects declare writes".to_owned());
    }
    let output_fault = match output_refusal(tool) {
        Some(reason) => Some(format!("the output schema: {reason}")),
        None => compiled.output_fault(),
    };
    let refused = match tool.input_schema.value() {
        Ok(schema) => refusal(schema),
        Err(error) => Some(error.to_owned()),
    };
    if let Some(reason) = refused {
        problems.push(format!("the input schema: {reason}"));
    } else {
        problems.extend(compiled.misled());
        match compiled.check_input() {
            Err(reason) => problems.push(reason),
            Ok(()) => problems.extend(tool.examples.iter().filter_map(|example| {
                let reason = misleading(compiled, example)?;
                Some(format!("the example `{}`: {reason}", example.title.escape_debug()))
            })),
        }
    }
    problems.extend(output_fault);
    (!problems.is_empty()).then(|| BuilderError {
        name: tool.name.clone().into_owned(),
        problems,
    })
}

/// What is wrong with the names of a tool.
fn misnamings(tool: &Definition) -> Vec<String> {
    let mut problems = Vec::new();
    let mut names = HashSet::new();
    for name in tool.names() {
        if let Some(reason) = misnamed(name) {
            problems.push(format!("the name {}: {reason}", quoted(name)));
        }
        if !names.insert(name) {
            problems.push(format!(
                "the name {} stands twice; an alias is another name",
                quoted(name)
            ));
        }
    }
    problems
}

/// A name as it can be shown, whatever it is made of.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.escape_debug())
}

/// Why no client takes the schema of the output, if it is a schema at all. The protocol wants an object at the root, and one tool with
/// another makes clients refuse all tools that are listed with it.
fn output_refusal(tool: &Definition) -> Option<String> {
    match tool.output_schema.as_ref()?.value() {
        Err(_) => None,
        Ok(schema) if schema["type"] == "object" => None,
        Ok(schema) => {
            let found = match &schema["type"] {
                Value::Null => "none".to_owned(),
                kind => kind.to_string(),
            };
            Some(format!(
                "the root must have the type `object`, found {found}: answer with an object that has the value as a field"
            ))
        }
    }
}

/// Why an example is none.
fn misleading(compiled: &CompiledTool, example: &Example) -> Option<String> {
    let Ok(arguments) = serde_json::from_str(&example.input) else {
        return Some("its input must be an object".to_owned());
    };
    match compiled.build(arguments) {
        // The valid example that it would show is this one.
        Err(BuildError::Invalid(error)) => return Some(ValidationError { example: None, ..error }.to_string()),
        Err(BuildError::Internal(error)) => return Some(error.to_string()),
        Ok(_) => {}
    }
    if example.output.is_empty() {
        return None;
    }
    match serde_json::from_str(&example.output) {
        // A schema that is broken is said once, and not by each example.
        Ok(output) if compiled.output_fault().is_none() => compiled
            .check_output(&output)
            .err()
            .map(|reason| format!("its output: {reason}")),
        Ok(_) => None,
        Err(error) => Some(format!("its output is no JSON: {error}")),
    }
}

/// Everything that is wrong with a declared tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuilderError {
    /// The tool's name as declared.
    pub name: String,
    /// Never empty.
    pub problems: Vec<String>,
}

impl fmt::Display for BuilderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tool `{}` can't be declared so", self.name.escape_debug())?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

impl Error for BuilderError {}

/// Why a name is no name of a tool.
pub(crate) fn misnamed(name: &str) -> Option<String> {
    let fit = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(fit) {
        return Some("must begin with a letter and hold letters, digits, `_` and `-` alone".to_owned());
    }
    if name.len() > NAME {
        return Some(format!("has {} characters; clients take {NAME}", name.len()));
    }
    name.contains("__")
        .then(|| "two `_` together are for the tools of upstream servers".to_owned())
}

fn describe(tool: &Definition) -> String {
    let mut parts = vec![tool.summary.trim().to_owned()];
    if !tool.details.trim().is_empty() {
        parts.push(tool.details.trim().to_owned());
    }
    if !tool.rules.is_empty() {
        let rules: Vec<String> = tool.rules.iter().map(sentence).collect();
        parts.push(rules.join("\n"));
    }
    for (heading, lines) in [("Notes:", &tool.notes), ("Cautions:", &tool.cautions)] {
        if !lines.is_empty() {
            let lines: Vec<String> = lines.iter().map(|line| format!("- {}", line.trim())).collect();
            parts.push(format!("{heading}\n{}", lines.join("\n")));
        }
    }
    parts.join("\n\n")
}

/// A rule as a sentence for the model.
fn sentence(rule: &Rule) -> String {
    let list = |fields: &[&str]| {
        let fields: Vec<String> = fields.iter().map(|field| format!("`{field}`")).collect();
        fields.join(", ")
    };
    match rule {
        Rule::ExactlyOneOf(fields) => format!("Give exactly one of {}.", list(fields)),
        Rule::AtMostOneOf(fields) => format!("Give at most one of {}.", list(fields)),
        Rule::RequiredIf { field, when, is } => {
            format!("`{field}` is required when `{when}` is {}.", is.join(" or "))
        }
    }
}

/// The schema of a type, without what only says how Rust stores it.
#[cfg(feature = "schemars")]
fn schema_of<T: schemars::JsonSchema>() -> Value {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    schema
}

/// An `Option` is an optional field; that it may be null as well is how serde reads it.
#[cfg(feature = "schemars")]
fn tidy(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.shift_remove("title");
    let width = |format: &Value| {
        format
            .as_str()
            .is_some_and(|format| format.starts_with("int") || format.starts_with("uint"))
    };
    if map.get("format").is_some_and(width) || map.get("format").is_some_and(|f| *f == "float" || *f == "double") {
        map.shift_remove("format");
    }
    let required: Vec<String> = match map.get("required") {
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    };
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for (name, property) in properties {
            tidy(property);
            let Value::Object(property) = property else { continue };
            if required.contains(name) {
                continue;
            }
            if let Some(Value::Array(kinds)) = property.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [one] = &kinds[..] {
                    let one = one.clone();
                    property.insert("type".to_owned(), one);
                }
                if property.get("default") == Some(&Value::Null) {
                    property.shift_remove("default");
                }
            }
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(below) = map.get_mut(keyword) {
            tidy(below);
        }
    }
}

#[cfg(test)]
mod tests;
