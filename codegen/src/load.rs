//! From a folder of YAML to checked specs.
//!
//! Answers for finding the files, reading each by the model, and running every check. Leaves out the single checks.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::diagnostic::{Diagnostic, SpecErrors};
use crate::model::{AgentSpec, EventsSpec, ToolSpec, TypesSpec};
use crate::yaml::{self, Node};

/// One spec file that could be read.
#[derive(Clone, Debug)]
pub struct SpecFile<T> {
    /// Relative to the root of the repository: `specs/tools/persistence/write_todolist.yaml`.
    pub path: String,
    /// The file's name without `.yaml`.
    pub stem: String,
    /// What it says.
    pub spec: T,
    /// Where it says it.
    pub tree: Node,
}

/// One agent template with its prompt.
#[derive(Clone, Debug)]
pub struct AgentFile {
    /// The template.
    pub file: SpecFile<AgentSpec>,
    /// The text of `<id>.md`.
    pub prompt: String,
}

/// One handler spec with its group.
#[derive(Clone, Debug)]
pub struct ToolFile {
    /// The folder: `persistence`.
    pub group: String,
    /// The handler.
    pub file: SpecFile<ToolSpec>,
}

/// A whole folder of specs, sorted by path.
#[derive(Clone, Debug)]
pub struct Specs {
    /// The handlers, by group and stem.
    pub tools: Vec<ToolFile>,
    /// The agents, by id.
    pub agents: Vec<AgentFile>,
    /// The shared types.
    pub types: SpecFile<TypesSpec>,
    /// The events.
    pub events: SpecFile<EventsSpec>,
}

/// Reads and checks a `specs/` folder.
///
/// # Errors
/// Every error of every file, each with its place.
pub fn load(dir: &Path) -> Result<Specs, SpecErrors> {
    let mut errors = Vec::new();
    let types = read::<TypesSpec>(dir, "types.yaml", &mut errors);
    let events = read::<EventsSpec>(dir, "events.yaml", &mut errors);
    let mut tools = Vec::new();
    for group in names(&dir.join("tools")) {
        for name in names(&dir.join("tools").join(&group)) {
            if let Some(file) = read::<ToolSpec>(dir, &format!("tools/{group}/{name}"), &mut errors) {
                tools.push(ToolFile {
                    group: group.clone(),
                    file,
                });
            }
        }
    }
    let mut agents = Vec::new();
    for name in names(&dir.join("agents"))
        .into_iter()
        .filter(|name| name.ends_with(".yaml"))
    {
        if let Some(file) = read::<AgentSpec>(dir, &format!("agents/{name}"), &mut errors) {
            let prompt = fs::read_to_string(dir.join("agents").join(format!("{}.md", file.stem))).unwrap_or_default();
            agents.push(AgentFile { file, prompt });
        }
    }
    match (types, events, SpecErrors::collect(errors)) {
        (Some(types), Some(events), None) => Ok(Specs {
            tools,
            agents,
            types,
            events,
        }),
        (_, _, Some(errors)) => Err(errors),
        _ => unreachable!("a file that could not be read left an error"),
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

fn read<T: DeserializeOwned>(dir: &Path, name: &str, errors: &mut Vec<Diagnostic>) -> Option<SpecFile<T>> {
    let path = format!("specs/{name}");
    let whole = |message: String| Diagnostic {
        path: path.clone(),
        line: 0,
        column: 0,
        message,
        help: None,
    };
    let text = fs::read_to_string(dir.join(name))
        .map_err(|error| errors.push(whole(error.to_string())))
        .ok()?;
    let tree = yaml::parse(&path, &text).map_err(|error| errors.push(error)).ok()?;
    let spec = serde_json::from_value(tree.to_value())
        .map_err(|error| errors.push(whole(error.to_string())))
        .ok()?;
    let stem = name
        .rsplit('/')
        .next()
        .unwrap_or(name)
        .trim_end_matches(".yaml")
        .to_owned();
    Some(SpecFile { path, stem, spec, tree })
}
