//! Paths that a spec writes itself: defaults, bound values and examples of `RelPath` fields.
//!
//! Answers for judging them as a call would be judged, so that no tool fails by its own spec. Leaves out path patterns.

use serde_json::{Map, Value};

use crate::model::{FailureEntry, Schema, TypesSpec};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve::{PATH_TYPE, path_faults};
use crate::specs::{Doc, Specs};

pub(super) fn check(specs: &Specs, report: &mut Report) {
    let types = &specs.types.spec;
    let mut shared = Paths {
        doc: specs.types.doc(),
        types,
        report,
    };
    for (name, schema) in &types.types {
        let pointer = child("/types", name);
        if name == PATH_TYPE {
            let as_reference = Map::from_iter([("$ref".to_owned(), Value::from(PATH_TYPE))]);
            if let Some(default) = schema.get("default") {
                shared.value(&as_reference, default, &child(&pointer, "default"));
            }
        }
        shared.defaults(schema, &pointer);
    }
    for tool in &specs.tools {
        let spec = &tool.file.spec;
        let mut paths = Paths {
            doc: tool.file.doc(),
            types,
            report,
        };
        paths.defaults(&spec.input, "/input");
        paths.defaults(&spec.output, "/output");
        for (code, entry) in &spec.failures {
            if let FailureEntry::Detail(detail) = entry
                && let Some(details) = &detail.details
            {
                paths.defaults(details, &child(&child("/failures", code), "details"));
            }
        }
        for (index, face) in spec.tools.iter().enumerate() {
            let bound = Value::Object(face.bind.clone());
            paths.value(&spec.input, &bound, &format!("/tools/{index}/bind"));
        }
        let own = spec.tools.iter().enumerate().flat_map(|(index, face)| {
            let examples = face.examples.iter().enumerate();
            examples.map(move |(number, example)| (format!("/tools/{index}/examples/{number}"), example))
        });
        let examples = spec.examples.iter().enumerate();
        for (at, example) in examples
            .map(|(index, example)| (format!("/examples/{index}"), example))
            .chain(own)
        {
            let input = Value::Object(example.input.clone());
            paths.value(&spec.input, &input, &child(&at, "input"));
            if let Some(output) = &example.output {
                paths.value(&spec.output, &Value::Object(output.clone()), &child(&at, "output"));
            }
        }
    }
    let mut events = Paths {
        doc: specs.events.doc(),
        types,
        report,
    };
    for (name, event) in &specs.events.spec.events {
        events.defaults(&event.payload, &child(&child("/events", name), "payload"));
    }
}

struct Paths<'a, 'r> {
    doc: Doc<'a>,
    types: &'a TypesSpec,
    report: &'r mut Report,
}

impl Paths<'_, '_> {
    /// Judges every default below a schema that still has its references.
    fn defaults(&mut self, schema: &Schema, pointer: &str) {
        if let Some(default) = schema.get("default") {
            self.value(schema, default, &child(pointer, "default"));
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        for (name, sub) in properties.into_iter().flatten() {
            if let Value::Object(sub) = sub {
                self.defaults(sub, &child(&child(pointer, "properties"), name));
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(Value::Object(sub)) = schema.get(key) {
                self.defaults(sub, &child(pointer, key));
            }
        }
    }

    fn value(&mut self, schema: &Schema, value: &Value, pointer: &str) {
        for (below, problem) in path_faults(schema, self.types, value) {
            let at = format!("{pointer}{below}");
            // A value that does not fit its schema was reported.
            if !self.report.is_sound(self.doc, &at) {
                continue;
            }
            let text = problem.to_string();
            let (message, help) = text.split_once("; ").unwrap_or((&text, ""));
            let help = (!help.is_empty()).then(|| help.to_owned());
            self.report.value(self.doc, &at, message, help);
        }
    }
}
