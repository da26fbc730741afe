//! Examples: that there is one, and that each is what it shows.

use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value, json};

use super::schemas::ToolSchemas;
use super::values::{advice, compile, reason};
use crate::model::{RuleSpec, Schema};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve::map_subschemas;
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
        for (index, example) in spec.examples.iter().enumerate() {
            let pointer = format!("/examples/{index}/input");
            let value = Value::Object(example.input.clone());
            if let Some(input) = &input {
                judge(doc, &pointer, &value, input, &schemas.input, report);
            }
            rules(
                doc,
                &pointer,
                &spec.rules,
                &as_meant(&example.input, &schemas.input),
                report,
            );
            let Some(answer) = &example.output else { continue };
            let pointer = format!("/examples/{index}/output");
            let mut answer = answer.clone();
            if answer.shift_remove("ok").is_some() {
                let help = "remove it: the call path adds `ok` to every answer".to_owned();
                report.key(doc, &child(&pointer, "ok"), "an example's output has no `ok`", help);
            }
            if let Some(output) = &output {
                judge(doc, &pointer, &Value::Object(answer), output, &schemas.output, report);
            }
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

fn rules(doc: Doc<'_>, pointer: &str, rules: &[RuleSpec], input: &Map<String, Value>, report: &mut Report) {
    for (index, rule) in rules.iter().enumerate() {
        // A rule that is wrong itself was reported with the rule.
        if !report.is_sound(doc, &format!("/rules/{index}")) {
            continue;
        }
        let given = |fields: &[String]| fields.iter().filter(|field| input.contains_key(*field)).count();
        let names = |fields: &[String]| list(&fields.iter().map(String::as_str).collect::<Vec<_>>());
        let broken = match rule {
            RuleSpec::ExactlyOneOf(fields) => {
                let count = given(fields);
                (count != 1).then(|| {
                    format!(
                        "exactly one of {} is to be given, the example has {count}",
                        names(fields)
                    )
                })
            }
            RuleSpec::AtMostOneOf(fields) => {
                let count = given(fields);
                (count > 1).then(|| {
                    format!(
                        "at most one of {} is to be given, the example has {count}",
                        names(fields)
                    )
                })
            }
            RuleSpec::RequiredIf(rule) => {
                let decides = input.get(&rule.when).is_some_and(|value| rule.is.contains(value));
                (decides && !input.contains_key(&rule.field))
                    .then(|| format!("`{}` is missing, which `{}` makes required", rule.field, rule.when))
            }
        };
        if let Some(message) = broken {
            let place = doc.tree.key_place(&format!("/rules/{index}"));
            report.key(doc, pointer, message, format!("the rule is in line {}", place.line));
        }
    }
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
