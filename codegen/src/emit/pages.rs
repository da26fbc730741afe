//! `runtime/src/handlers/**/mod.rs` and `docs/reference.md`: lists that a person would otherwise keep by hand.
//!
//! Answers for both. Leaves out the handlers themselves: those are written by hand.

use std::fmt::Write;

use serde_json::Value;

use super::Layout;
use super::rust::header;
use crate::FileMap;
use crate::model::Kind;
use crate::resolve::pascal_case;
use crate::specs::ToolFile;

/// Adds the files.
pub(super) fn emit(layout: &Layout<'_>, files: &mut FileMap) {
    let mut groups = header("//", "specs/tools/");
    groups.push_str("\n//! The handlers, one file each: the module is `group::handler`, as in `specs/tools/`.\n\n");
    for (group, tools) in &layout.groups {
        let _ = writeln!(groups, "pub(crate) mod {};", super::rust::ident(group));
        let mut list = header("//", &format!("specs/tools/{group}/"));
        let _ = writeln!(list, "\n//! The handlers of `specs/tools/{group}/`.\n");
        for tool in tools {
            let _ = writeln!(list, "pub(crate) mod {};", super::rust::ident(&tool.file.spec.handler));
        }
        files.insert(format!("runtime/src/handlers/{group}/mod.rs"), list);
    }
    files.insert("runtime/src/handlers/mod.rs".into(), groups);
    files.insert("docs/reference.md".into(), reference(layout));
}

/// A handler's first text, for its author to paste.
pub fn skeleton(tool: &ToolFile) -> String {
    let (group, handler) = (
        super::rust::ident(&tool.group),
        super::rust::ident(&tool.file.spec.handler),
    );
    let marker = pascal_case(&tool.file.spec.handler);
    let summary = tool.file.spec.summary.trim();
    let fields = tool.file.spec.output.get("properties").and_then(Value::as_object);
    let fields: Vec<String> = fields
        .into_iter()
        .flatten()
        .map(|(name, _)| super::rust::ident(name).to_string())
        .collect();
    let mut names = ["Failure", "Input", "Output", &marker];
    names.sort_unstable();
    format!(
        "//! `{handler}`: {summary}\n\
         \n\
         use devloop_contract::{{Handle, Outcome}};\n\
         use devloop_generated::tools::{group}::{handler}::{{{}}};\n\
         \n\
         use crate::context::Context;\n\
         \n\
         impl Handle<{marker}> for Context {{\n    \
             async fn handle(&self, input: Input) -> Outcome<Output, Failure> {{\n        \
                 Ok(Output {{ {} }})\n    \
             }}\n\
         }}\n",
        names.join(", "),
        fields.join(", ")
    )
}

fn reference(layout: &Layout<'_>) -> String {
    let totals = layout.totals();
    let mut text = format!("<!-- {} -->\n", header("", "specs/").trim());
    let _ = write!(
        text,
        "\n# Reference\n\nhandlers={} tools={} names={} grants={} catalog={}\n\n\
         The tools of the group `catalog` are every agent's without a grant, and are counted apart.\n\n## Tools\n\n",
        totals.handlers, totals.tools, totals.names, totals.grants, totals.catalog
    );
    text.push_str("| Tool | Group | Kind | Agents | What it does |\n| --- | --- | --- | --- | --- |\n");
    for face in &layout.faces {
        let agents: Vec<&str> = if face.tool.is_of_catalog() {
            vec!["every agent"]
        } else {
            let grants = layout.grants().filter(|(_, granted)| granted.name == face.name);
            grants.map(|(agent, _)| agent.file.spec.name.as_str()).collect()
        };
        let mut name = format!("`{}`", face.name);
        for alias in face.aliases {
            let _ = write!(name, ", `{alias}`");
        }
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} |",
            face.tool.group,
            kind_word(face.tool.file.spec.kind),
            agents.join(", "),
            cell(face.summary)
        );
    }
    text.push_str("\n## Agents\n\n| Agent | Template | Tools | What it is for |\n| --- | --- | --- | --- |\n");
    for agent in &layout.agents {
        let spec = &agent.file.spec;
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {} | {} |",
            spec.name,
            spec.id,
            spec.cli.tools.len(),
            cell(&spec.summary)
        );
    }
    text.push_str("\n## Events\n\n| Event | When |\n| --- | --- |\n");
    for (name, event) in &layout.events.spec.events {
        let _ = writeln!(text, "| `{name}` | {} |", cell(&event.summary));
    }
    text
}

/// Text for one cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

/// The word that specs use.
fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::ReadOnly => "read_only",
        Kind::Write => "write",
        Kind::Execute => "execute",
    }
}
