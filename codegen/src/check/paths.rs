//! Path patterns: that each can be read and uses known variables.

use devloop_contract::glob::{Pattern, VARIABLES};

use crate::model::{WriteEntry, WriteWhen};
use crate::pointer::child;
use crate::report::Report;
use crate::specs::{Doc, Specs};
use crate::suggest::suggest;

pub(super) fn check(specs: &Specs, report: &mut Report) {
    for tool in &specs.tools {
        let doc = tool.file.doc();
        let effects = &tool.file.spec.effects;
        for (index, text) in effects.reads.iter().enumerate() {
            pattern(doc, &format!("/effects/reads/{index}"), text, Unit::MayBe, report);
        }
        for (index, entry) in effects.writes.iter().enumerate() {
            let at = write_pointer(index, entry);
            let (WriteEntry::Path(text) | WriteEntry::When(WriteWhen { path: text, .. })) = entry;
            pattern(doc, &at, text, Unit::MayBe, report);
        }
    }
    for agent in &specs.agents {
        let doc = agent.file.doc();
        let sandbox = &agent.file.spec.sandbox;
        let has_none = report.is_sound(doc, "/needs_unit") && !agent.file.spec.needs_unit;
        let unit = if has_none { Unit::None } else { Unit::MayBe };
        let read_allow = sandbox.read_allow.as_deref().unwrap_or_default();
        for (key, texts) in [
            ("write_allow", &sandbox.write_allow[..]),
            ("raw_deny", &sandbox.raw_deny),
            ("read_allow", read_allow),
        ] {
            for (index, text) in texts.iter().enumerate() {
                pattern(doc, &format!("/sandbox/{key}/{index}"), text, unit, report);
            }
        }
        for (tool, texts) in &sandbox.write_via {
            for (index, text) in texts.iter().enumerate() {
                pattern(
                    doc,
                    &format!("{}/{index}", child("/sandbox/write_via", tool)),
                    text,
                    unit,
                    report,
                );
            }
        }
    }
}

/// Where the pattern of a declared write stands.
pub(super) fn write_pointer(index: usize, entry: &WriteEntry) -> String {
    match entry {
        WriteEntry::Path(_) => format!("/effects/writes/{index}"),
        WriteEntry::When(_) => format!("/effects/writes/{index}/path"),
    }
}

/// Whether a pattern is used where there may be a unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    MayBe,
    None,
}

fn pattern(doc: Doc<'_>, pointer: &str, text: &str, unit: Unit, report: &mut Report) {
    let pattern = match Pattern::parse(text) {
        Ok(pattern) => pattern,
        Err(error) => {
            let help = "specs/README.md shows the pattern language".to_owned();
            report.inside(
                doc,
                pointer,
                error.offset,
                format!("`{text}` is no path pattern: {}", error.message),
                help,
            );
            return;
        }
    };
    for name in pattern.variables() {
        let offset = text.find(&format!("{{{name}}}")).unwrap_or_default();
        if !VARIABLES.iter().any(|variable| variable.name == name) {
            let help = suggest(name, VARIABLES.iter().map(|variable| variable.name));
            report.inside(doc, pointer, offset, format!("there is no variable `{{{name}}}`"), help);
        } else if unit == Unit::None && name == "unit_id" {
            let help = "set `needs_unit: true`, or write `*`".to_owned();
            let message = "`{unit_id}` stands for nothing: the agent does not work on a unit";
            report.inside(doc, pointer, offset, message, help);
        }
    }
}
