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
            pattern(doc, &format!("/effects/reads/{index}"), text, ANY, report);
        }
        for (index, entry) in effects.writes.iter().enumerate() {
            let at = write_pointer(index, entry);
            let (WriteEntry::Path(text) | WriteEntry::When(WriteWhen { path: text, .. })) = entry;
            pattern(doc, &at, text, ANY, report);
        }
    }
    for agent in &specs.agents {
        let doc = agent.file.doc();
        let sandbox = &agent.file.spec.sandbox;
        let has_none = report.is_sound(doc, "/needs_unit") && !agent.file.spec.needs_unit;
        let no_site = report.is_sound(doc, "/sandbox/site") && sandbox.site.is_none();
        let bound = Bound {
            unit: if has_none { Known::Nothing } else { Known::Something },
            site: if no_site { Known::Nothing } else { Known::Something },
        };
        let read_allow = sandbox.read_allow.as_deref().unwrap_or_default();
        for (key, texts) in [
            ("write_allow", &sandbox.write_allow[..]),
            ("raw_deny", &sandbox.raw_deny),
            ("read_allow", read_allow),
        ] {
            for (index, text) in texts.iter().enumerate() {
                pattern(doc, &format!("/sandbox/{key}/{index}"), text, bound, report);
            }
        }
        for (tool, texts) in &sandbox.write_via {
            for (index, text) in texts.iter().enumerate() {
                pattern(
                    doc,
                    &format!("{}/{index}", child("/sandbox/write_via", tool)),
                    text,
                    bound,
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

/// What the variables of an agent stand for where a pattern is used.
#[derive(Clone, Copy)]
struct Bound {
    unit: Known,
    site: Known,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Something,
    Nothing,
}

/// In a tool, every variable may stand for something: it depends on the agent.
const ANY: Bound = Bound {
    unit: Known::Something,
    site: Known::Something,
};

fn pattern(doc: Doc<'_>, pointer: &str, text: &str, bound: Bound, report: &mut Report) {
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
        } else if bound.unit == Known::Nothing && name == "unit_id" {
            let help = "set `needs_unit: true`, or write `*`".to_owned();
            let message = "`{unit_id}` stands for nothing: the agent does not work on a unit";
            report.inside(doc, pointer, offset, message, help);
        } else if bound.site == Known::Nothing && name == "site" {
            let help = "set `site`, or write `prd` or `sdd`".to_owned();
            let message = "`{site}` stands for nothing: the agent has no site";
            report.inside(doc, pointer, offset, message, help);
        }
    }
}
