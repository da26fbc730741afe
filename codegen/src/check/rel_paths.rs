//! Values of the shared type `RelPath`: that a default, a bound value or an example is a path, by the rules of run time.
//!
//! Answers for finding them by the schema, before its references are inlined. Leaves out what the type's own schema says
//! (`examples`, `faces`, `schemas`), and who may touch the path.

use devloop_contract::path::{PathProblem, path_problem};
use serde_json::Value;
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::model::{Schema, TypesSpec};
use crate::pointer::child;
use crate::report::Report;
use crate::specs::{Doc, Specs};

/// The shared type whose values are paths.
pub(super) const REL_PATH: &str = "RelPath";

/// Bound values and examples. Defaults are judged with the schemas that they stand in.
pub(super) fn check(specs: &Specs, report: &mut Report) {
    let types = &specs.types.spec;
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let spec = &tool.file.spec;
        let properties = spec.input.get("properties").and_then(Value::as_object);
        for (index, face) in spec.tools.iter().enumerate() {
            for (name, value) in &face.bind {
                let schema = properties.and_then(|properties| properties.get(name)?.as_object());
                let pointer = child(&format!("/tools/{index}/bind"), name);
                judge(doc, &pointer, schema, types, value, report);
            }
        }
        for (number, example) in spec.examples.iter().enumerate() {
            let at = format!("/examples/{number}");
            let input = Value::Object(example.input.clone());
            judge(doc, &format!("{at}/input"), Some(&spec.input), types, &input, report);
            if let Some(output) = &example.output {
                let output = Value::Object(output.clone());
                judge(doc, &format!("{at}/output"), Some(&spec.output), types, &output, report);
            }
        }
    }
}

/// Reports every text in a value that its schema calls a path and that is none.
pub(super) fn judge(
    doc: Doc<'_>,
    pointer: &str,
    schema: Option<&Schema>,
    types: &TypesSpec,
    value: &Value,
    report: &mut Report,
) {
    let mut found = Vec::new();
    if let Some(schema) = schema {
        collect(schema, types, value, pointer, 0, &mut found);
    }
    for (at, problem) in found {
        tell(doc, &at, &problem, report);
    }
}

/// Reports what is wrong with a path.
pub(super) fn tell(doc: Doc<'_>, pointer: &str, problem: &PathProblem, report: &mut Report) {
    // A value that does not even fit its schema was reported with that.
    if report.is_sound(doc, pointer) {
        let text = problem.to_string();
        let (message, help) = match text.split_once("; ") {
            Some((message, help)) => (message, Some(help.to_owned())),
            None => (&text[..], None),
        };
        report.value(doc, pointer, message, help);
    }
}

/// The first rule that a path breaks.
pub(super) fn problem(text: &str) -> Option<PathProblem> {
    let not_nfc = || PathProblem::NotNfc {
        nfc: text.nfc().collect(),
    };
    path_problem(text).or_else(|| (!is_nfc(text)).then(not_nfc))
}

fn collect(
    schema: &Schema,
    types: &TypesSpec,
    value: &Value,
    pointer: &str,
    depth: usize,
    found: &mut Vec<(String, PathProblem)>,
) {
    // A type that contains itself was reported as such.
    if depth > 32 {
        return;
    }
    let mut below = |schema: Option<&Value>, value: &Value, pointer: &str| {
        if let Some(Value::Object(schema)) = schema {
            collect(schema, types, value, pointer, depth + 1, found);
        }
    };
    match (schema.get("$ref").and_then(Value::as_str), value) {
        (Some(REL_PATH), Value::String(text)) => {
            found.extend(problem(text).map(|problem| (pointer.to_owned(), problem)));
        }
        (Some(name), _) => {
            if let Some(shared) = types.types.get(name) {
                collect(shared, types, value, pointer, depth + 1, found);
            }
        }
        (None, Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                below(schema.get("items"), item, &format!("{pointer}/{index}"));
            }
        }
        (None, Value::Object(fields)) => {
            for (name, field) in fields {
                let own = schema.get("properties").and_then(|properties| properties.get(name));
                below(
                    own.or_else(|| schema.get("additionalProperties")),
                    field,
                    &child(pointer, name),
                );
            }
        }
        _ => {}
    }
}
