//! From a folder of YAML to checked specs.
//!
//! Answers for finding the files, reading each by the model, and running every check. Leaves out the reading of one file
//! (`yaml`, `decode`) and the single checks (`check`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::check;
use crate::decode::decode;
use crate::diagnostic::{Diagnostic, SpecErrors};
use crate::editor;
use crate::model::{AgentSpec, EventsSpec, ToolSpec, TypesSpec};
use crate::report::Report;
use crate::specs::{AgentFile, SpecFile, Specs, ToolFile};
use crate::suggest::nearest;
use crate::yaml::{self, Node, NodeKind, Place};

/// Reads and checks a `specs/` folder.
///
/// # Errors
/// Every error of every file, each with its place.
pub fn load(dir: &Path) -> Result<Specs, SpecErrors> {
    let mut report = Report::default();
    let specs = read_all(dir, &mut report);
    if let Some(specs) = &specs {
        check::run(specs, &mut report);
    }
    match (specs, SpecErrors::collect(report.into_errors())) {
        (Some(specs), None) => Ok(specs),
        (_, Some(errors)) => Err(errors),
        (None, None) => unreachable!("a folder that could not be read left an error"),
    }
}

fn read_all(dir: &Path, report: &mut Report) -> Option<Specs> {
    let root = Folder::open(dir, "specs", report)?;
    let mut reader = Reader { report };
    let types = reader.one::<TypesSpec>(&root, "types.yaml", &editor::TYPES);
    let events = reader.one::<EventsSpec>(&root, "events.yaml", &editor::EVENTS);

    let (mut tools, mut agents) = (Vec::new(), Vec::new());
    for entry in &root.entries {
        match (entry.name.as_str(), entry.is_dir) {
            ("tools", true) => tools = reader.tools(&root, entry),
            ("agents", true) => agents = reader.agents(&root, entry),
            (
                "types.yaml" | "events.yaml" | "README.md" | "tool.schema.json" | "agent.schema.json"
                | "types.schema.json" | "events.schema.json",
                false,
            ) => {}
            _ => reader.stray(
                &root,
                entry,
                "specs hold `types.yaml`, `events.yaml`, `tools/` and `agents/`",
            ),
        }
    }
    Some(Specs {
        tools,
        agents,
        types,
        events,
    })
}

/// A folder that was listed, in the order of names.
struct Folder {
    /// As diagnostics name it: `specs/tools`.
    path: String,
    dir: std::path::PathBuf,
    entries: Vec<Listed>,
}

struct Listed {
    name: String,
    is_dir: bool,
}

impl Folder {
    fn open(dir: &Path, path: &str, report: &mut Report) -> Option<Self> {
        let refused = |error: std::io::Error| {
            let help = "give the folder that holds `types.yaml`, `events.yaml`, `tools/` and `agents/`".to_owned();
            (format!("the folder `{}` cannot be read: {error}", dir.display()), help)
        };
        let listing = match fs::read_dir(dir) {
            Ok(listing) => listing,
            Err(error) => {
                let (message, help) = refused(error);
                report.file(path, message, help);
                report.unread(&format!("{path}/"), None);
                return None;
            }
        };
        let mut entries = Vec::new();
        for entry in listing {
            match entry.map(|entry| (entry.file_name(), fs::metadata(entry.path()).is_ok_and(|m| m.is_dir()))) {
                Ok((name, is_dir)) => match name.into_string() {
                    Ok(name) if name.starts_with('.') => {}
                    Ok(name) => entries.push(Listed { name, is_dir }),
                    Err(name) => {
                        let message = format!("the name {} is not UTF-8", name.display());
                        report.file(path, message, "rename it".to_owned());
                    }
                },
                Err(error) => {
                    let (message, help) = refused(error);
                    report.file(path, message, help);
                }
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Some(Self {
            path: path.to_owned(),
            dir: dir.to_owned(),
            entries,
        })
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }
}

struct Reader<'a> {
    report: &'a mut Report,
}

impl Reader<'_> {
    fn tools(&mut self, root: &Folder, entry: &Listed) -> Vec<ToolFile> {
        let mut tools = Vec::new();
        let Some(folder) = self.folder(root, entry) else {
            return tools;
        };
        for entry in &folder.entries {
            if entry.name == "README.md" && !entry.is_dir {
                continue;
            }
            if !entry.is_dir {
                self.stray(
                    &folder,
                    entry,
                    "a tool stands in the folder of its group: `specs/tools/<group>/<handler>.yaml`",
                );
                continue;
            }
            let Some(group) = self.folder(&folder, entry) else {
                continue;
            };
            check::group_name(&group.path, &entry.name, self.report);
            for file in &group.entries {
                match file.name.strip_suffix(".yaml") {
                    Some(_) if !file.is_dir => {
                        if let Some(spec) = self.spec::<ToolSpec>(&group, &file.name, &editor::TOOL) {
                            tools.push(ToolFile {
                                group: entry.name.clone(),
                                file: spec,
                            });
                        }
                    }
                    _ if file.name == "README.md" && !file.is_dir => {}
                    _ => self.stray(&group, file, "a group holds `<handler>.yaml` files"),
                }
            }
        }
        tools
    }

    fn agents(&mut self, root: &Folder, entry: &Listed) -> Vec<AgentFile> {
        let mut agents = Vec::new();
        let Some(folder) = self.folder(root, entry) else {
            return agents;
        };
        // By stem: the text, or nothing when it could not be read.
        let mut prompts: BTreeMap<&str, Option<String>> = BTreeMap::new();
        for file in folder
            .entries
            .iter()
            .filter(|file| !file.is_dir && file.name != "README.md")
        {
            if let Some(stem) = file.name.strip_suffix(".md") {
                prompts.insert(stem, self.text(&folder, &file.name));
            }
        }
        let stems: Vec<&str> = folder
            .entries
            .iter()
            .filter(|file| !file.is_dir)
            .filter_map(|file| file.name.strip_suffix(".yaml"))
            .collect();
        // A prompt that belongs to nobody stands for the missing one that it is named like.
        let mut excused = Vec::new();
        for stem in prompts.keys().filter(|stem| !stems.contains(stem)) {
            let lacking = stems.iter().filter(|stem| !prompts.contains_key(**stem)).copied();
            let meant = nearest(stem, lacking);
            excused.extend(meant);
            let help = match meant {
                Some(meant) => format!("rename it to `{meant}.md`"),
                None => "remove it, or write the agent's template beside it".to_owned(),
            };
            let message = format!("a prompt without an agent: there is no `{stem}.yaml`");
            self.report.file(&folder.path_of(&format!("{stem}.md")), message, help);
        }
        for entry in &folder.entries {
            match entry.name.rsplit_once('.') {
                Some((stem, "yaml")) if !entry.is_dir => {
                    let path = folder.path_of(&entry.name);
                    let prompt_path = folder.path_of(&format!("{stem}.md"));
                    let prompt = if let Some(prompt) = prompts.get(stem) {
                        if prompt.as_ref().is_some_and(|text| text.trim().is_empty()) {
                            let help = "write what the agent is and how it works".to_owned();
                            self.report.file(&prompt_path, "the prompt is empty", help);
                        }
                        prompt.clone().unwrap_or_default()
                    } else {
                        if !excused.contains(&stem) {
                            let message = format!("the agent has no prompt: `{prompt_path}` is missing");
                            self.report
                                .file(&path, message, "write the prompt into that file".to_owned());
                        }
                        String::new()
                    };
                    if let Some(file) = self.spec::<AgentSpec>(&folder, &entry.name, &editor::AGENT) {
                        agents.push(AgentFile { file, prompt });
                    }
                }
                Some((_, "md")) if !entry.is_dir => {}
                _ => self.stray(&folder, entry, "agents are `<id>.yaml` with their prompt in `<id>.md`"),
            }
        }
        agents
    }

    fn folder(&mut self, parent: &Folder, entry: &Listed) -> Option<Folder> {
        Folder::open(&parent.dir.join(&entry.name), &parent.path_of(&entry.name), self.report)
    }

    /// A file that must exist. When it can't be read an empty one stands in for it.
    fn one<T: DeserializeOwned + Default>(&mut self, root: &Folder, name: &str, schema: &Value) -> SpecFile<T> {
        let is_there = root.entries.iter().any(|entry| entry.name == name && !entry.is_dir);
        if !is_there {
            let path = root.path_of(name);
            let key = name.trim_end_matches(".yaml");
            // A twin with the other ending gets an error of its own.
            let twin = format!("{key}.yml");
            if !root.entries.iter().any(|entry| entry.name == twin) {
                self.report.file(
                    &path,
                    "the file is missing",
                    format!("write it; with nothing in it, it is `{key}: {{}}`"),
                );
                self.report.unread(&path, None);
            }
        }
        let read = is_there.then(|| self.spec(root, name, schema)).flatten();
        read.unwrap_or_else(|| SpecFile {
            path: root.path_of(name),
            stem: name.trim_end_matches(".yaml").to_owned(),
            spec: T::default(),
            tree: Node {
                place: Place::default(),
                kind: NodeKind::Map(Vec::new()),
            },
        })
    }

    fn spec<T: DeserializeOwned>(&mut self, folder: &Folder, name: &str, schema: &Value) -> Option<SpecFile<T>> {
        let path = folder.path_of(name);
        let Some(text) = self.text(folder, name) else {
            self.report.unread(&path, None);
            return None;
        };
        let read = match yaml::parse(&path, &text) {
            Ok(mut tree) => {
                self.report.text(&path, text.clone());
                decode(&path, &mut tree, schema, self.report).map(|spec| (spec, tree))
            }
            Err(error) => {
                self.report.raw(error);
                None
            }
        };
        let Some((spec, tree)) = read else {
            self.report.unread(&path, Some(text));
            return None;
        };
        let stem = name.trim_end_matches(".yaml").to_owned();
        Some(SpecFile { path, stem, spec, tree })
    }

    fn text(&mut self, folder: &Folder, name: &str) -> Option<String> {
        let path = folder.path_of(name);
        // Reading a pipe would wait for ever.
        let file = folder.dir.join(name);
        let is_file = fs::metadata(&file).map(|data| data.is_file());
        let read = match is_file {
            Ok(true) => fs::read(&file),
            Ok(false) => Err(std::io::Error::other("it is no regular file")),
            Err(error) => Err(error),
        };
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                let help = "make it a file that you may read, or remove it".to_owned();
                self.report
                    .file(&path, format!("the file cannot be read: {error}"), help);
                return None;
            }
        };
        match String::from_utf8(bytes) {
            Ok(text) => Some(text),
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let before = String::from_utf8_lossy(valid);
                let line = before.matches('\n').count() as u64 + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
                self.report.raw(Diagnostic {
                    path,
                    line,
                    column,
                    message: "the file is not UTF-8".to_owned(),
                    help: Some("save it as UTF-8".to_owned()),
                });
                None
            }
        }
    }

    fn stray(&mut self, folder: &Folder, entry: &Listed, expected: &str) {
        let path = folder.path_of(&entry.name);
        let (message, help) = match entry.name.strip_suffix(".yml") {
            Some(stem) if !entry.is_dir => (
                "the file would not be read".to_owned(),
                format!("rename it to `{stem}.yaml`"),
            ),
            _ if entry.is_dir => ("this folder does not belong here".to_owned(), expected.to_owned()),
            _ => ("this file does not belong here".to_owned(), expected.to_owned()),
        };
        // It may well declare what others refer to.
        let file = folder.dir.join(&entry.name);
        let text = fs::metadata(&file)
            .is_ok_and(|data| data.is_file())
            .then(|| fs::read_to_string(&file).unwrap_or_default());
        self.report.unread(&path, text);
        self.report.file(&path, message, help);
    }
}
