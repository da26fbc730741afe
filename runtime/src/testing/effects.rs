//! What a call changed: files and events.
//!
//! Answers for the difference between two looks at a project, and for what of it a spec does not declare. Leaves out
//! the machinery's own files: every call may leave a lock or a record.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use devloop_contract::Tool;
use devloop_core::store::place;
use devloop_generated::Event;
use devloop_generated::events::LoopEscalated;
use serde_json::Value;

use crate::Subscription;

/// What a call did to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Made,
    /// Its content is another.
    Rewritten,
    /// It is gone.
    Removed,
}

/// What a call changed outside the machinery's own files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    files: BTreeMap<String, Change>,
    events: Vec<(String, Value)>,
}

impl Effects {
    /// The files that it made, rewrote or removed, sorted.
    pub fn changed(&self) -> Vec<&str> {
        self.files.keys().map(String::as_str).collect()
    }

    /// What it did to a file; `None` when it let it be.
    pub fn on(&self, path: &str) -> Option<Change> {
        self.files.get(path).copied()
    }

    /// The names of the events that it told, in order.
    pub fn events(&self) -> Vec<&str> {
        self.events.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// What the first event of a name carried.
    pub fn event(&self, name: &str) -> Option<&Value> {
        self.events
            .iter()
            .find(|(told, _)| told == name)
            .map(|(_, payload)| payload)
    }

    /// Whether it changed nothing.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.events.is_empty()
    }

    pub(super) fn between(before: &Tree, after: &Tree, events: &Subscription) -> Self {
        let mut files = BTreeMap::new();
        for (path, now) in &after.0 {
            match before.0.get(path) {
                None => files.insert(path.clone(), Change::Made),
                Some(earlier) if earlier != now => files.insert(path.clone(), Change::Rewritten),
                Some(_) => None,
            };
        }
        let gone = before.0.keys().filter(|path| !after.0.contains_key(*path));
        files.extend(gone.map(|path| (path.clone(), Change::Removed)));
        let events = std::iter::from_fn(|| events.try_recv());
        Self {
            files,
            events: events
                .map(|event| (event.name.clone(), event.payload.clone()))
                .collect(),
        }
    }

    /// What `tool` does not declare, one text each. `may_write` knows its paths.
    pub(super) fn undeclared(&self, tool: &Tool, may_write: impl Fn(&str) -> bool) -> Vec<String> {
        // A broken state file may be set aside by whoever may write it.
        let is_declared = |path: &str| may_write(path) || place::before_set_aside(path).is_some_and(&may_write);
        let files = self.files.iter().filter(|(path, _)| !is_declared(path));
        let escalated = Event::from(LoopEscalated {
            tool: String::new(),
            error_id: String::new(),
            message: String::new(),
        });
        let is_known = |name: &str| tool.effects.events.contains(&name) || name == escalated.name();
        let events = self.events.iter().filter(|(name, _)| !is_known(name));
        files
            .map(|(path, change)| format!("the file `{path}` ({change:?})"))
            .chain(events.map(|(name, _)| format!("the event `{name}`")))
            .collect()
    }
}

/// Everything in a project but the machinery's files.
#[derive(Debug)]
pub(super) struct Tree(BTreeMap<String, Node>);

/// What lies at a path. Directories count by what is in them.
#[derive(Debug, PartialEq)]
enum Node {
    File(Vec<u8>),
    Link(std::path::PathBuf),
    Other,
}

impl Tree {
    pub(super) fn of(root: &Path) -> Self {
        let mut nodes = BTreeMap::new();
        walk(root, "", &mut nodes);
        Self(nodes)
    }
}

fn walk(directory: &Path, within: &str, nodes: &mut BTreeMap<String, Node>) {
    // A directory that goes meanwhile holds nothing any more.
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if within.is_empty() {
            name
        } else {
            format!("{within}/{name}")
        };
        if place::is_machinery(&path) {
            continue;
        }
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            walk(&entry.path(), &path, nodes);
            continue;
        }
        let node = if kind.is_symlink() {
            fs::read_link(entry.path()).map_or(Node::Other, Node::Link)
        } else if kind.is_file() {
            fs::read(entry.path()).map_or(Node::Other, Node::File)
        } else {
            Node::Other
        };
        nodes.insert(path, node);
    }
}
