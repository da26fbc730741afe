//! What a spec says about the fields of its input: faces, rules, permission templates, affected paths.

use devloop_contract::agent::is_template;
use serde_json::{Map, Value};

use super::schemas::ToolSchemas;
use super::values::{advice, compile, reason};
use crate::model::{RequiredIf, RuleSpec, Schema, ToolSpec};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve::{Why, rules_of};
use crate::specs::{Doc, Specs};
use crate::suggest::{list, suggest};

pub(super) fn check(specs: &Specs, schemas: &[ToolSchemas], report: &mut Report) {
    for (tool, schemas) in specs.tools.iter().zip(schemas) {
        let doc = tool.file.doc();
        // Without properties nothing can be said about fields; the reason was reported with the schema.
        let Some(Value::Object(properties)) = schemas.input.get("properties") else {
            continue;
        };
        let required = schemas
            .input
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let fields = Fields {
            doc,
            properties,
            required: required.filter_map(Value::as_str).collect(),
        };
        fields.faces(&tool.file.spec, report);
        fields.rules(&tool.file.spec, report);
        fields.rules_of_faces(&tool.file.spec, &schemas.input, report);
        fields.permission(&tool.file.spec, report);
        for (index, pointer) in tool.file.spec.affected_paths.iter().enumerate() {
            affected_path(
                doc,
                &format!("/affected_paths/{index}"),
                pointer,
                &schemas.input,
                report,
            );
        }
    }
}

/// The fields of one handler's input.
struct Fields<'a> {
    doc: Doc<'a>,
    properties: &'a Map<String, Value>,
    required: Vec<&'a str>,
}

/// Whether each brace of a template has its partner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Braces {
    Paired,
    Alone,
}

impl Fields<'_> {
    fn faces(&self, spec: &ToolSpec, report: &mut Report) {
        for (index, face) in spec.tools.iter().enumerate() {
            let at = format!("/tools/{index}");
            for (name, value) in &face.bind {
                let pointer = child(&child(&at, "bind"), name);
                if self.exists(name, &pointer, On::Key, report)
                    && let Some((fault, help)) = self.misfit(name, value)
                {
                    report.value(
                        self.doc,
                        &pointer,
                        format!("the value does not fit `{name}`: {fault}"),
                        help,
                    );
                }
            }
            for (number, name) in face.hide.iter().enumerate() {
                let pointer = format!("{at}/hide/{number}");
                if !self.exists(name, &pointer, On::Value, report) {
                } else if face.bind.contains_key(name) {
                    let help = "remove it here: a bound field is hidden anyway".to_owned();
                    report.value(self.doc, &pointer, format!("`{name}` is bound and hidden"), help);
                } else if self.required.contains(&name.as_str()) {
                    let help = "bind it, or make it optional in `input`".to_owned();
                    report.value(
                        self.doc,
                        &pointer,
                        format!("`{name}` is required, no call could succeed without it"),
                        help,
                    );
                } else if face.hide[..number].contains(name) {
                    report.value(
                        self.doc,
                        &pointer,
                        format!("`{name}` is listed twice"),
                        "remove one".to_owned(),
                    );
                }
            }
            for (number, name) in face.require.iter().enumerate() {
                let pointer = format!("{at}/require/{number}");
                if !self.exists(name, &pointer, On::Value, report) {
                } else if face.bind.contains_key(name) || face.hide.contains(name) {
                    let help = "remove it here, or from `bind` and `hide`".to_owned();
                    report.value(
                        self.doc,
                        &pointer,
                        format!("`{name}` is required, but the tool does not have it"),
                        help,
                    );
                } else if self.required.contains(&name.as_str()) {
                    report.value(
                        self.doc,
                        &pointer,
                        format!("`{name}` is required anyway"),
                        "remove it".to_owned(),
                    );
                } else if self.properties[name].get("default").is_some() {
                    let message = format!("`{name}` has a default, which a required field never uses");
                    report.value(
                        self.doc,
                        &pointer,
                        message,
                        "remove it here, or the default in `input`".to_owned(),
                    );
                } else if face.require[..number].contains(name) {
                    report.value(
                        self.doc,
                        &pointer,
                        format!("`{name}` is listed twice"),
                        "remove one".to_owned(),
                    );
                }
            }
        }
    }

    fn rules(&self, spec: &ToolSpec, report: &mut Report) {
        for (index, rule) in spec.rules.iter().enumerate() {
            let at = format!("/rules/{index}");
            match rule {
                RuleSpec::ExactlyOneOf(fields) => self.alternatives(&child(&at, "exactly_one_of"), fields, report),
                RuleSpec::AtMostOneOf(fields) => self.alternatives(&child(&at, "at_most_one_of"), fields, report),
                RuleSpec::RequiredIf(rule) => self.required_if(&child(&at, "required_if"), rule, report),
            }
        }
    }

    fn alternatives(&self, pointer: &str, fields: &[String], report: &mut Report) {
        if fields.len() < 2 {
            report.value(
                self.doc,
                pointer,
                "a choice needs two fields",
                "name at least two".to_owned(),
            );
        }
        for (number, name) in fields.iter().enumerate() {
            let at = format!("{pointer}/{number}");
            if !self.exists(name, &at, On::Value, report) {
            } else if fields[..number].contains(name) {
                report.value(
                    self.doc,
                    &at,
                    format!("`{name}` is listed twice"),
                    "remove one".to_owned(),
                );
            } else if self.required.contains(&name.as_str()) {
                let help = "make it optional in `input`".to_owned();
                report.value(self.doc, &at, format!("`{name}` is required, so it is no choice"), help);
            } else {
                let message = format!("`{name}` is one of a choice, and its default would count as given always");
                self.no_default(name, &at, message, report);
            }
        }
    }

    fn required_if(&self, pointer: &str, rule: &RequiredIf, report: &mut Report) {
        let (field, when) = (child(pointer, "field"), child(pointer, "when"));
        if !self.exists(&rule.field, &field, On::Value, report) {
        } else if self.required.contains(&rule.field.as_str()) {
            let help = "make it optional in `input`, or remove the rule".to_owned();
            report.value(self.doc, &field, format!("`{}` is required anyway", rule.field), help);
        } else if rule.field != rule.when {
            let message = format!(
                "`{}` has a default, so the rule that requires it is never broken",
                rule.field
            );
            self.no_default(&rule.field, &field, message, report);
        }
        if !self.exists(&rule.when, &when, On::Value, report) {
            return;
        }
        if rule.field == rule.when {
            let help = "name the field that decides".to_owned();
            report.value(
                self.doc,
                &when,
                format!("`{}` cannot decide about itself", rule.when),
                help,
            );
            return;
        }
        if rule.is.is_empty() {
            let help = "list the values that make the field required".to_owned();
            report.value(self.doc, &child(pointer, "is"), "no value decides", help);
        }
        for (number, value) in rule.is.iter().enumerate() {
            if let Some((fault, help)) = self.misfit(&rule.when, value) {
                let at = format!("{pointer}/is/{number}");
                report.value(
                    self.doc,
                    &at,
                    format!("`{}` never has this value: {fault}", rule.when),
                    help,
                );
            }
        }
    }

    /// Reports the default of a field: where it stands, or at `at` when the field has it from a shared type. Once.
    fn no_default(&self, name: &str, at: &str, message: String, report: &mut Report) {
        if self.properties[name].get("default").is_none() {
            return;
        }
        let own = format!("{}/default", child("/input/properties", name));
        let place = if self.doc.tree.pointer(&own).is_some() {
            &own
        } else {
            at
        };
        if report.is_sound(self.doc, place) {
            let help = "remove the default, or take the field out of the rule".to_owned();
            report.key(self.doc, place, message, help);
        }
        // The rule is at fault with it: nothing more is said about it.
        report.replace(self.doc.path, at);
    }

    /// Rules that a face cannot have. Of faces and rules that are wrong themselves nothing is said.
    fn rules_of_faces(&self, spec: &ToolSpec, input: &Schema, report: &mut Report) {
        for (index, face) in spec.tools.iter().enumerate() {
            let at = format!("/tools/{index}");
            if !report.is_sound(self.doc, &at) {
                continue;
            }
            for fault in rules_of(&spec.rules, Some(face), input).faults {
                let rule = format!("/rules/{}", fault.rule);
                if !report.is_sound(self.doc, &rule) {
                    continue;
                }
                let names = |fields: &[String]| list(&fields.iter().map(String::as_str).collect::<Vec<_>>());
                let (message, help) = match fault.why {
                    Why::NoneLeft => (
                        "every field of a choice is hidden, of which one is to be given".to_owned(),
                        "bind one of them, or leave one to the caller".to_owned(),
                    ),
                    Why::TwoGiven(fields) => (
                        format!("{} are given always, of which only one may be", names(&fields)),
                        "bind or require one of them, and hide the others".to_owned(),
                    ),
                    Why::InVain { given, others } => (
                        format!("`{given}` is bound, so no call could give {} beside it", names(&others)),
                        format!("add to `hide`: {}", names(&others)),
                    ),
                    Why::Hidden(field) => (
                        format!("`{field}` is hidden, though a rule can require it"),
                        format!("leave `{field}` to the caller, bind it, or bind the field that decides"),
                    ),
                };
                let line = self.doc.tree.key_place(&rule).line;
                report.key(self.doc, &at, message, format!("{help}; the rule is in line {line}"));
            }
        }
    }

    /// Permission templates: text with `{field}` in it.
    fn permission(&self, spec: &ToolSpec, report: &mut Report) {
        let Some(permission) = &spec.permission else { return };
        for (key, text) in [("signature", &permission.signature), ("rule", &permission.rule)] {
            let Some(text) = text else { continue };
            let pointer = format!("/permission/{key}");
            let mut at = 0;
            let mut braces = Braces::Paired;
            while let Some(found) = text[at..].find(['{', '}']).map(|found| at + found) {
                let field = text[found..]
                    .strip_prefix('{')
                    .and_then(|rest| rest.split_once('}'))
                    .map(|(name, _)| name);
                let Some(name) = field else {
                    let help = "write a field as `{name}`".to_owned();
                    report.inside(self.doc, &pointer, found, "a brace without its partner", help);
                    braces = Braces::Alone;
                    break;
                };
                if !self.properties.contains_key(name) {
                    let help = suggest(name, self.properties.keys().map(String::as_str));
                    report.inside(
                        self.doc,
                        &pointer,
                        found,
                        format!("the input has no field `{name}`"),
                        help,
                    );
                }
                at = found + name.len() + 2;
            }
            if braces == Braces::Paired && !text.is_empty() && !is_template(text) {
                let message = format!("`{text}` makes no rule");
                let help =
                    "write a name, or a name and what a call is about: `Edit({path})`; parentheses come in pairs";
                report.value(self.doc, &pointer, message, help.to_owned());
            }
        }
    }

    fn exists(&self, name: &str, pointer: &str, on: On, report: &mut Report) -> bool {
        if self.properties.contains_key(name) {
            return true;
        }
        let message = format!("the input has no field `{name}`");
        let help = suggest(name, self.properties.keys().map(String::as_str));
        match on {
            On::Key => report.key(self.doc, pointer, message, help),
            On::Value => report.value(self.doc, pointer, message, help),
        }
        false
    }

    /// Why a value is none of a field, and what to do.
    fn misfit(&self, name: &str, value: &Value) -> Option<(String, Option<String>)> {
        let schema: &Schema = self.properties.get(name)?.as_object()?;
        let validator = compile(schema).ok()?;
        let misfit = validator
            .validate(value)
            .err()
            .map(|error| (reason(&error), advice(&error)));
        misfit.or_else(|| {
            beyond(schema, value).map(|wide| {
                (
                    format!("`{wide}` is no exact 64-bit integer"),
                    Some("use a whole number below 9e15".to_owned()),
                )
            })
        })
    }
}

/// The first integer in a value that typed code cannot hold.
fn beyond<'v>(schema: &Schema, value: &'v Value) -> Option<&'v Value> {
    let sub = |key: &str| schema.get(key).and_then(Value::as_object);
    match value {
        Value::Number(number) if schema.get("type").is_some_and(|kind| kind == "integer") => {
            // Below this every whole float is one integer exactly.
            let fits = number.as_i64().is_some() || number.as_f64().is_some_and(|float| float.abs() < 9e15);
            (!fits).then_some(value)
        }
        Value::Array(items) => items.iter().find_map(|item| beyond(sub("items")?, item)),
        Value::Object(map) => map.iter().find_map(|(name, value)| {
            let property = sub("properties").and_then(|properties| properties.get(name)?.as_object());
            beyond(property.or_else(|| sub("additionalProperties"))?, value)
        }),
        _ => None,
    }
}

/// Whether a name stands as a key or as a value.
#[derive(Clone, Copy)]
enum On {
    Key,
    Value,
}

fn affected_path(doc: Doc<'_>, at: &str, pointer: &str, input: &Schema, report: &mut Report) {
    if !pointer.starts_with('/') {
        let help = format!("begin with `/`: `/{pointer}`");
        report.value(doc, at, format!("`{pointer}` is no JSON Pointer"), help);
        return;
    }
    let mut now = input;
    for segment in pointer.split('/').skip(1) {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        // Nothing is known about a field whose schema was wrong.
        if now.is_empty() {
            return;
        }
        let next = if segment == "*" {
            now.get("items").or_else(|| now.get("additionalProperties"))
        } else {
            now.get("properties").and_then(|properties| properties.get(&segment))
        };
        let Some(Value::Object(next)) = next else {
            let names: Vec<&str> = now
                .get("properties")
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
                .collect();
            let help = if now.contains_key("items") {
                Some("an array is written `/*`".to_owned())
            } else if names.is_empty() {
                Some("nothing is below this field".to_owned())
            } else {
                suggest(&segment, names.iter().copied()).or_else(|| Some(format!("known: {}", list(&names))))
            };
            report.value(
                doc,
                at,
                format!("`{pointer}` leads to no field: there is no `{segment}`"),
                help,
            );
            return;
        };
        now = next;
    }
    if let Some(kind) = now.get("type").and_then(Value::as_str).filter(|kind| *kind != "string") {
        let help = "name the text that holds the path".to_owned();
        report.value(
            doc,
            at,
            format!("`{pointer}` is of type `{kind}`, a path is a text"),
            help,
        );
    }
}
