//! The tools of the catalogue: every agent has them without a grant, so no agent's template says what they may touch.
//!
//! Answers for what such a tool may not be. Leaves out that nobody is granted one, which is a matter of references.

use crate::model::Kind;
use crate::report::Report;
use crate::specs::Specs;

pub(super) fn check(specs: &Specs, report: &mut Report) {
    for tool in specs.tools.iter().filter(|tool| tool.is_of_catalog()) {
        let doc = tool.file.doc();
        let spec = &tool.file.spec;
        if spec.kind == Kind::Execute && report.is_sound(doc, "/kind") {
            let message = "every agent has the tools of the group `catalog`, and not every one may start programs";
            let help = "move the spec to another group, and grant its tools".to_owned();
            report.value(doc, "/kind", message, help);
        }
        for (list, is_empty) in [
            ("reads", spec.effects.reads.is_empty()),
            ("writes", spec.effects.writes.is_empty()),
            ("host", spec.effects.host.is_empty()),
        ] {
            let pointer = format!("/effects/{list}");
            if !is_empty && report.is_sound(doc, &pointer) {
                let message = format!(
                    "every agent has the tools of the group `catalog`, so that no sandbox answers for their `{list}`"
                );
                let help = "remove it, or move the spec to another group and grant its tools".to_owned();
                report.value(doc, &pointer, message, help);
            }
        }
    }
}
