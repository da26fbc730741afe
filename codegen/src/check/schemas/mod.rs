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

use crate::model::{FailureEntry, Schema};
use crate::pointer::child;
use crate::report::Report;
use crate::resolve::{self, pascal_case};
use crate::specs::Specs;

use rust_names::{RustNames, Scope};
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
        let mut names = RustNames::new(&types, Scope::Beside);
        names.walk(doc, &input, "/input", "Input", judge.report);
        names.walk(doc, &output, "/output", "Output", judge.report);
        for (code, entry) in &tool.file.spec.failures {
            if matches!(entry, FailureEntry::Detail(detail) if detail.details.is_some()) {
                let pointer = child(&child("/failures", code), "details");
                let details = judge.root(doc, &pointer, Role::Details);
                names.walk(doc, &details, &pointer, &pascal_case(code), judge.report);
            }
        }
        judge.settle(doc, &types);
        tools.push(ToolSchemas {
            input: resolve::inline(&input, &types),
            output: resolve::inline(&output, &types),
        });
    }
    let doc = specs.events.doc();
    let mut names = RustNames::new(&types, Scope::Beside);
    for name in specs.events.spec.events.keys() {
        let pointer = child(&child("/events", name), "payload");
        let payload = judge.root(doc, &pointer, Role::Payload);
        names.walk(doc, &payload, &pointer, &pascal_case(name), judge.report);
    }
    judge.settle(doc, &types);
    tools
}
