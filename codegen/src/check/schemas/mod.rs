//! JSON Schemas: inside the portable subset, valid, and able to become Rust types.
//!
//! Answers for `input`, `output`, `payload`, the `details` of failures and the shared types, and for a cleaned copy of each
//! with everything wrong left out, by which later checks can judge values without repeating an error. Leaves out the values
//! of examples.

mod deferred;
mod keywords;
mod patterns;
mod rust_names;
mod shared;
mod subset;
mod walk;

use crate::model::{FailureEntry, Schema, TypesSpec};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve::{self, pascal_case};
use crate::specs::{Doc, Specs};

use rust_names::RustNames;
use subset::Role;
use walk::Judge;

/// The schemas of one handler, cleaned and with references inlined.
pub(super) struct ToolSchemas {
    pub(super) input: Schema,
    pub(super) output: Schema,
}

/// Judges every schema. The result has one entry per handler, in order.
pub(super) fn check(specs: &Specs, report: &mut Report) -> Vec<ToolSchemas> {
    let mut judge = Judge::new(specs.types.doc(), report);
    let types = shared::types(&mut judge, specs);
    let mut tools = Vec::new();
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let input = judge.root(doc, "/input", Role::Input);
        let output = judge.root(doc, "/output", Role::Output);
        let spec = &tool.file.spec;
        let data = spec.failures.iter().filter(|(_, entry)| has_details(entry));
        let taken = ["Input", "Output", "Failure"].map(str::to_owned).into_iter();
        let taken = taken
            .chain([pascal_case(&spec.handler)])
            .chain(data.map(|(code, _)| details_name(code)));
        let mut names = RustNames::new(&types, taken.collect());
        names.walk(doc, &input, "/input", "Input", judge.report);
        names.walk(doc, &output, "/output", "Output", judge.report);
        for (code, entry) in &tool.file.spec.failures {
            if has_details(entry) {
                let pointer = child(&child("/failures", code), "details");
                let details = judge.root(doc, &pointer, Role::Details);
                not_shared(doc, &pointer, &details_name(code), &types, judge.report);
                names.walk(doc, &details, &pointer, &details_name(code), judge.report);
            }
        }
        judge.settle(doc, &types);
        tools.push(ToolSchemas {
            input: resolve::inline(&input, &types),
            output: resolve::inline(&output, &types),
        });
    }
    let doc = specs.events.doc();
    let payloads = specs.events.spec.events.keys().map(|name| pascal_case(name));
    let mut names = RustNames::new(&types, payloads.chain(["Event".to_owned()]).collect());
    for name in specs.events.spec.events.keys() {
        let pointer = child(&child("/events", name), "payload");
        let payload = judge.root(doc, &pointer, Role::Payload);
        not_shared(doc, &pointer, &pascal_case(name), &types, judge.report);
        names.walk(doc, &payload, &pointer, &pascal_case(name), judge.report);
    }
    judge.settle(doc, &types);
    tools
}

/// A payload or the data of a failure cannot be called like a shared type.
fn not_shared(doc: Doc<'_>, pointer: &str, name: &str, types: &TypesSpec, report: &mut Report) {
    if types.types.contains_key(name) {
        let message = format!("this would be called `{name}` in Rust, like a shared type");
        report.key(doc, pointer, message, "rename one of them".to_owned());
    }
}

fn has_details(entry: &FailureEntry) -> bool {
    matches!(entry, FailureEntry::Detail(detail) if detail.details.is_some())
}

/// How the data of a failure is called in Rust.
fn details_name(code: &str) -> String {
    format!("{}Details", pascal_case(code))
}
