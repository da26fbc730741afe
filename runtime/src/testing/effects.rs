//! What a call changed: files and events.
//!
//! Answers for the difference between two looks at a project, and for what of it a spec does not declare. Leaves out what
//! the machinery writes for every call (locks, records), files outside the project, and what happens after the call.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use devloop_contract::Tool;
use devloop_core::store::place;
use devloop_generated::Event;
use devloop_generated::events::LoopEscalated;
use serde_json::Value;

use crate::Subscription;

/// What a call did to a file or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Made,
    /// Its content, its kind or its mode is another.
    Rewritten,
    /// It is gone.
    Removed,
}

/// What a call changed outside the machinery's own files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    changes: BTreeMap<String, Change>,
    /// Directories are in the changes only when nothing in them is.
    events: Vec<(String, Value)>,
    /// Broken state files that were set aside as they were, by their new names.
    set_aside: BTreeSet<String>,
    /// Files of the machinery that are gone, which none ever is but by its own rotation.
    lost: Vec<String>,
}

impl Effects {
    /// The files that it made, rewrote or removed, sorted; directories of which that is all there is to say, too.
    pub fn changed(&self) -> Vec<&str> {
        self.changes.keys().map(String::as_str).collect()
    }

    /// What it did to a file; `None` when it let it be.
    pub fn on(&self, path: &str) -> Option<Change> {
        self.changes.get(path).copied()
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
        self.changes.is_empty() && self.events.is_empty() && self.lost.is_empty()
    }

    pub(super) fn between(before: &Tree, after: &Tree, events: &Subscription) -> Self {
        let mut changes = BTreeMap::new();
        for (path, now) in &after.nodes {
            match before.nodes.get(path) {
                None => changes.insert(path.clone(), Change::Made),
                Some(earlier) if earlier != now => changes.insert(path.clone(), Change::Rewritten),
                Some(_) => None,
            };
        }
        let gone = before.nodes.keys().filter(|path| !after.nodes.contains_key(*path));
        changes.extend(gone.map(|path| (path.clone(), Change::Removed)));
        let is_directory = |path: &str| {
            let node = after.nodes.get(path).or_else(|| before.nodes.get(path));
            matches!(node, Some(Node::Directory { .. }))
        };
        // That a directory came with a file in it, or went with it, the file says.
        let implied: Vec<String> = changes
            .iter()
            .filter(|(path, change)| {
                let below = format!("{path}/");
                let has_more = after.machinery.iter().any(|file| file.starts_with(&below));
                **change != Change::Rewritten
                    && is_directory(path)
                    && (has_more
                        || changes
                            .range(below.clone()..)
                            .next()
                            .is_some_and(|(next, _)| next.starts_with(&below)))
            })
            .map(|(path, _)| path.clone())
            .collect();
        for path in implied {
            changes.remove(&path);
        }
        let is_set_aside = |path: &str| {
            let same = |before_path| before.nodes.get(before_path) == after.nodes.get(path);
            place::before_set_aside(path).is_some_and(same)
        };
        let set_aside = changes.keys().filter(|path| is_set_aside(path)).cloned().collect();
        let lost = before.machinery.difference(&after.machinery);
        let events = std::iter::from_fn(|| events.try_recv());
        Self {
            changes,
            events: events
                .map(|event| (event.name.clone(), event.payload.clone()))
                .collect(),
            set_aside,
            lost: lost.filter(|path| !is_rotated(path)).cloned().collect(),
        }
    }

    /// What `tool` does not declare, one text each. `may_write` knows its paths.
    pub(super) fn undeclared(&self, tool: &Tool, may_write: impl Fn(&str) -> bool) -> Vec<String> {
        let is_declared = |path: &str| {
            let was = self
                .set_aside
                .contains(path)
                .then(|| place::before_set_aside(path))
                .flatten();
            may_write(was.unwrap_or(path))
        };
        let files = self.changes.iter().filter(|(path, _)| !is_declared(path));
        let escalated = Event::from(LoopEscalated {
            tool: String::new(),
            error_id: String::new(),
            message: String::new(),
        });
        let is_known = |name: &str| tool.effects.events.contains(&name) || name == escalated.name();
        let events = self.events.iter().filter(|(name, _)| !is_known(name));
        files
            .map(|(path, change)| format!("`{path}` ({change:?})"))
            .chain(
                self.lost
                    .iter()
                    .map(|path| format!("the machinery's `{path}` (Removed)")),
            )
            .chain(events.map(|(name, _)| format!("the event `{name}`")))
            .collect()
    }
}

/// A full file of a journal, which goes when there are enough newer ones: `events.000001.ndjson`.
fn is_rotated(path: &str) -> bool {
    let number = path.strip_suffix(".ndjson").and_then(|rest| rest.rsplit_once('.'));
    number.is_some_and(|(_, digits)| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Everything in a project.
#[derive(Debug, Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Node>,
    /// The files of the machinery, by name alone: every call changes some. Not the history, which specs declare.
    machinery: BTreeSet<String>,
}

/// What lies at a path.
#[derive(Debug, PartialEq)]
enum Node {
    File { bytes: Vec<u8>, mode: u32 },
    Directory { mode: u32 },
    Link(PathBuf),
    Other,
}

impl Tree {
    pub(super) fn of(root: &Path) -> Self {
        let mut tree = Self::default();
        tree.walk(root, "");
        tree
    }

    fn walk(&mut self, directory: &Path, within: &str) {
        // A directory that goes meanwhile holds nothing any more.
        let Ok(entries) = fs::read_dir(directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if within.is_empty() {
                name
            } else {
                format!("{within}/{name}")
            };
            let Ok(found) = entry.metadata() else { continue };
            let (is_machinery, mode) = (place::is_machinery(&path) && !place::is_history(&path), found.mode());
            if found.is_dir() {
                self.walk(&entry.path(), &path);
            }
            if is_machinery {
                if !found.is_dir() {
                    self.machinery.insert(path);
                }
                continue;
            }
            let node = if found.is_dir() {
                Node::Directory { mode }
            } else if found.is_symlink() {
                fs::read_link(entry.path()).map_or(Node::Other, Node::Link)
            } else if found.is_file() {
                fs::read(entry.path()).map_or(Node::Other, |bytes| Node::File { bytes, mode })
            } else {
                Node::Other
            };
            self.nodes.insert(path, node);
        }
    }
}
