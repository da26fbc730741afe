//! Examples: that every tool has one, and that each is what it shows.

use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value, json};

use super::schemas::ToolSchemas;
use super::values::{advice, compile, reason};
use crate::model::{ExampleSpec, RuleSpec, Schema};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve::{holds, map_subschemas, view, with_defaults};
use crate::specs::{Doc, Specs};
use crate::suggest::{list, nearest, suggest};

pub(super) fn check(specs: &Specs, schemas: &[ToolSchemas], report: &mut Report) {
    for (tool, schemas) in specs.tools.iter().zip(schemas) {
        let doc = tool.file.doc();
        let spec = &tool.file.spec;
        if spec.examples.is_empty() {
            let help = "show one call with its answer: a title, `input` and `output`".to_owned();
            report.value(doc, "/examples", "there is no example", help);
        }
        // A schema that does not compile was reported with the schema.
        let input = compile(&schemas.input).ok();
        // Outputs are open for the tools of tomorrow; an example shows today's.
        let output = compile(&closed(&schemas.output)).ok();
        let whole = Judge {
            doc,
            input: &schemas.input,
            validator: input.as_ref(),
            output: &schemas.output,
            output_validator: output.as_ref(),
            rules: spec.rules.iter().cloned().enumerate().collect(),
        };
        for (index, example) in spec.examples.iter().enumerate() {
            whole.example(&format!("/examples/{index}"), example, report);
        }
        for (index, face) in spec.tools.iter().enumerate() {
            let view = view(spec, Some(face), &schemas.input);
            let own = compile(&view.input).ok();
            let narrowed = Judge {
                input: &view.input,
                validator: own.as_ref(),
                rules: view
                    .rules
                    .rules
                    .iter()
                    .map(|rule| (origin(rule, &spec.rules), rule.clone()))
                    .collect(),
                ..whole
            };
            let at = format!("/tools/{index}");
            for (number, example) in face.examples.iter().enumerate() {
                narrowed.example(&format!("{at}/examples/{number}"), example, report);
            }
            let sound = ["/examples", "/input", &at];
            if view.examples.is_empty() && !spec.examples.is_empty() && sound.iter().all(|at| report.is_sound(doc, at))
            {
                let message = format!("no example shows a call of `{}`", face.name);
                let help = "add one under `examples` here: without bound and hidden fields, with all that is required";
                report.key(doc, &at, message, help.to_owned());
            }
        }
    }
}

/// The rule of the handler that a face's rule came from.
fn origin(rule: &RuleSpec, rules: &[RuleSpec]) -> usize {
    let from = |whole: &RuleSpec| match (rule, whole) {
        (RuleSpec::ExactlyOneOf(left), RuleSpec::ExactlyOneOf(all))
        | (RuleSpec::AtMostOneOf(left), RuleSpec::AtMostOneOf(all)) => left.iter().all(|field| all.contains(field)),
        (RuleSpec::RequiredIf(one), RuleSpec::RequiredIf(other)) => one.field == other.field && one.when == other.when,
        _ => false,
    };
    rules.iter().position(from).unwrap_or_default()
}

/// What examples are judged by.
struct Judge<'a> {
    doc: Doc<'a>,
    input: &'a Schema,
    validator: Option<&'a jsonschema::Validator>,
    output: &'a Schema,
    output_validator: Option<&'a jsonschema::Validator>,
    /// Each with the index of the rule in the spec.
    rules: Vec<(usize, RuleSpec)>,
}

impl Judge<'_> {
    fn example(&self, at: &str, example: &ExampleSpec, report: &mut Report) {
        let pointer = format!("{at}/input");
        let value = Value::Object(example.input.clone());
        if let Some(input) = self.validator {
            judge(self.doc, &pointer, &value, input, self.input, report);
        }
        self.rules(&pointer, &as_meant(&example.input, self.input), report);
        let Some(answer) = &example.output else { return };
        let pointer = format!("{at}/output");
        let mut answer = answer.clone();
        if answer.shift_remove("ok").is_some() {
            let help = "remove it: the call path adds `ok` to every answer".to_owned();
            report.key(
                self.doc,
                &child(&pointer, "ok"),
                "an example's output has no `ok`",
                help,
            );
        }
        if let Some(output) = self.output_validator {
            let answer = Value::Object(answer);
            judge(self.doc, &pointer, &answer, output, self.output, report);
        }
    }

    fn rules(&self, pointer: &str, input: &Map<String, Value>, report: &mut Report) {
        let whole = with_defaults(self.input, input);
        for (index, rule) in &self.rules {
            // A rule that is wrong itself was reported with the rule.
            let place = format!("/rules/{index}");
            if !report.is_sound(self.doc, &place) || holds(rule, self.input, input) {
                continue;
            }
            let given = |fields: &[String]| fields.iter().filter(|field| whole.contains_key(*field)).count();
            let names = |fields: &[String]| list(&fields.iter().map(String::as_str).collect::<Vec<_>>());
            let message = match rule {
                RuleSpec::ExactlyOneOf(fields) => format!(
                    "exactly one of {} is to be given, the example has {}",
                    names(fields),
                    given(fields)
                ),
                RuleSpec::AtMostOneOf(fields) => format!(
                    "at most one of {} is to be given, the example has {}",
                    names(fields),
                    given(fields)
                ),
                RuleSpec::RequiredIf(rule) => {
                    format!("`{}` is missing, which `{}` makes required", rule.field, rule.when)
                }
            };
            let line = self.doc.tree.key_place(&place).line;
            report.key(self.doc, pointer, message, format!("the rule is in line {line}"));
        }
    }
}

fn judge(
    doc: Doc<'_>,
    pointer: &str,
    value: &Value,
    validator: &jsonschema::Validator,
    schema: &Schema,
    report: &mut Report,
) {
    for error in validator.iter_errors(value) {
        let at = error.instance_path().as_str();
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let known = fields_at(schema, at);
                for name in unexpected {
                    let below = child(&format!("{pointer}{at}"), name);
                    let help = suggest(name, known.iter().map(String::as_str));
                    report.key(doc, &below, format!("the schema has no field `{name}`"), help);
                }
            }
            ValidationErrorKind::Required { property } => {
                // A misspelt field is an unknown one already.
                let name = property.as_str().unwrap_or_default();
                let given = error.instance();
                let known = fields_at(schema, at);
                let strangers = given.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
                let mut strangers = strangers.filter(|name| !known.iter().any(|known| known == name));
                if strangers.any(|stranger| nearest(stranger, [name]).is_some()) {
                    continue;
                }
                report.key(
                    doc,
                    &format!("{pointer}{at}"),
                    reason(&error),
                    format!("the schema requires `{name}`"),
                );
            }
            _ => report.value(doc, &format!("{pointer}{at}"), reason(&error), advice(&error)),
        }
    }
}

/// The input with misspelt fields under the names that they are meant to have.
fn as_meant(input: &Map<String, Value>, schema: &Schema) -> Map<String, Value> {
    let known = fields_at(schema, "");
    let mut meant = Map::new();
    for (name, value) in input {
        let free = known
            .iter()
            .map(String::as_str)
            .filter(|known| !input.contains_key(*known));
        let name = if known.contains(name) {
            name
        } else {
            nearest(name, free).unwrap_or(name)
        };
        meant.insert(name.to_owned(), value.clone());
    }
    meant
}

/// The names of the fields of the object at a pointer into a value.
fn fields_at(schema: &Schema, pointer: &str) -> Vec<String> {
    let mut now = schema;
    for segment in pointer.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        let next = match now.get("properties").and_then(|properties| properties.get(&segment)) {
            Some(next) => Some(next),
            None => now.get("items").or_else(|| now.get("additionalProperties")),
        };
        match next.and_then(Value::as_object) {
            Some(next) => now = next,
            None => return Vec::new(),
        }
    }
    now.get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name.clone())
        .collect()
}

fn closed(schema: &Schema) -> Schema {
    let mut schema = map_subschemas(schema, &mut closed);
    if schema.contains_key("properties") {
        schema.insert("additionalProperties".into(), json!(false));
    }
    schema
}
