//! From checked specs to generated files.
//!
//! Answers for the set of files and what all emitters share: the order of things and the totals. Leaves out reading and
//! checking specs, and writing files.

mod agents;
mod contract;
mod events;
mod pages;
mod rust;
mod shapes;
mod tables;
mod tools;

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenStream;
use quote::quote;
use serde::Serialize;

use crate::FileMap;
use crate::diagnostic::{Diagnostic, SpecErrors};
use crate::editor::editor_schemas;
use crate::model::{EventsSpec, TypesSpec};
use crate::resolve::{Face, faces};
use crate::specs::{AgentFile, SpecFile, Specs, ToolFile};

pub use pages::skeleton;

/// The folder whose files are the Rust of `devloop-generated`: what its build script writes into `OUT_DIR`.
pub const SNAPSHOT: &str = "generated/snapshot/";

/// The list of all generated files: what `cargo codegen write` may remove once no spec gives it any more.
pub const MANIFEST: &str = "generated/manifest.txt";

/// Every generated file. The same specs give the same bytes, in whatever order they were read.
///
/// # Errors
/// Schemas that no Rust type can be made of, and type names that clash.
pub fn generate(specs: &Specs) -> Result<FileMap, SpecErrors> {
    let layout = Layout::new(specs);
    let mut files = FileMap::new();
    let mut errors = Vec::new();
    tools::emit(&layout, &mut files, &mut errors);
    events::emit(&layout, &mut files, &mut errors);
    tables::emit(&layout, &mut files);
    agents::emit(&layout, &mut files);
    contract::emit(&layout, &mut files, &mut errors);
    pages::emit(&layout, &mut files);
    files.extend(editor_schemas());
    let manifest = manifest(&files);
    files.insert(MANIFEST.to_owned(), manifest);
    SpecErrors::collect(errors).map_or(Ok(files), Err)
}

fn manifest(files: &FileMap) -> String {
    let mut text = rust::header("#", "specs/");
    for path in files.keys() {
        text.push_str(path);
        text.push('\n');
    }
    text
}

/// The specs in the order in which generated files speak of them.
struct Layout<'s> {
    /// Handlers, by group and name.
    groups: BTreeMap<&'s str, Vec<&'s ToolFile>>,
    /// Tools, by name.
    faces: Vec<Face<'s>>,
    /// Agents, in the order of the loop.
    agents: Vec<&'s AgentFile>,
    types: &'s TypesSpec,
    types_file: &'s SpecFile<TypesSpec>,
    events: &'s SpecFile<EventsSpec>,
}

/// How much there is of everything. The tools of the catalogue are counted apart: they are no part of what is granted.
struct Totals {
    handlers: usize,
    tools: usize,
    names: usize,
    grants: usize,
    catalog: usize,
}

impl<'s> Layout<'s> {
    fn new(specs: &'s Specs) -> Self {
        let mut groups: BTreeMap<&str, Vec<&ToolFile>> = BTreeMap::new();
        for tool in &specs.tools {
            groups.entry(&tool.group).or_default().push(tool);
        }
        for tools in groups.values_mut() {
            tools.sort_by(|a, b| a.file.stem.cmp(&b.file.stem));
        }
        Self {
            groups,
            faces: faces(specs),
            agents: in_loop_order(&specs.agents),
            types: &specs.types.spec,
            types_file: &specs.types,
            events: &specs.events,
        }
    }

    fn handlers(&self) -> impl Iterator<Item = &'s ToolFile> {
        self.groups.values().flatten().copied()
    }

    /// The tool of a name or an alias.
    fn face(&self, name: &str) -> Option<&Face<'s>> {
        self.faces
            .iter()
            .find(|face| face.name == name || face.aliases.iter().any(|alias| alias == name))
    }

    /// Who may call what, in the order of the loop and of each agent's list.
    fn grants(&self) -> impl Iterator<Item = (&'s AgentFile, &Face<'s>)> {
        self.agents.iter().flat_map(move |agent| {
            let tools = &agent.file.spec.cli.tools;
            tools
                .iter()
                .filter_map(move |name| self.face(name).map(|face| (*agent, face)))
        })
    }

    fn totals(&self) -> Totals {
        let granted = || self.faces.iter().filter(|face| !face.tool.is_of_catalog());
        Totals {
            handlers: self.handlers().filter(|tool| !tool.is_of_catalog()).count(),
            tools: granted().count(),
            names: granted().map(|face| 1 + face.aliases.len()).sum(),
            grants: self.grants().count(),
            catalog: self.faces.len() - granted().count(),
        }
    }
}

/// Agents as work passes through them: those that a person hands work to, by id; then, in turn, those whom each hands
/// work to, in the order of its list; then agents outside the loop, by id.
fn in_loop_order(agents: &[AgentFile]) -> Vec<&AgentFile> {
    let mut by_id: Vec<&AgentFile> = agents.iter().collect();
    by_id.sort_by(|a, b| a.file.spec.id.cmp(&b.file.spec.id));
    let mut ordered: Vec<&AgentFile> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let first = by_id
        .iter()
        .filter(|agent| agent.file.spec.place.upstream.iter().any(|name| name == "human"));
    for agent in first.chain(&by_id) {
        let mut next = ordered.len();
        if seen.insert(&agent.file.spec.id) {
            ordered.push(agent);
        }
        while let Some(agent) = ordered.get(next) {
            for name in &agent.file.spec.place.downstream {
                let found = by_id.iter().find(|other| other.file.spec.name == *name);
                if let Some(found) = found.filter(|found| seen.insert(&found.file.spec.id)) {
                    ordered.push(found);
                }
            }
            next += 1;
        }
    }
    ordered
}

/// The module of a handler, from the root of the generated crate.
fn module(tool: &ToolFile) -> TokenStream {
    let (group, handler) = (rust::ident(&tool.group), rust::ident(&tool.file.spec.handler));
    quote!(crate::tools::#group::#handler)
}

/// JSON as people read it: two spaces, keys in their author's order, no line end.
fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("a JSON value is JSON")
}

/// An error about a file as a whole.
fn about_file(path: &str, message: String, help: &str) -> Diagnostic {
    Diagnostic {
        path: path.to_owned(),
        line: 0,
        column: 0,
        message,
        help: Some(help.to_owned()),
    }
}
