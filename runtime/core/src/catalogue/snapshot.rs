//! A catalogue at one moment.
//!
//! Answers for everything that only reads: finding tools by name, owner, category, tag and words, and which of them a
//! model is shown. Leaves out changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use devloop_contract::tool::{Exposure, Kind};

use super::search::{self, Words};
use super::{Entry, Tools, names};
use crate::registry::{Definition, Owner, Text};
use crate::text::distance;

/// The tool that loads others. Without it in a catalogue nothing is deferred.
pub const TOOL_SEARCH: &str = "tool_search";

/// What a model may do at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It plans: only what is `read_only`.
    Plan,
    /// It acts: everything.
    Act,
}

/// A catalogue as it was at one moment; cheap to clone.
#[derive(Debug)]
pub struct Snapshot<R = ()> {
    revision: u64,
    tools: Arc<Tools<R>>,
    loaded: Arc<BTreeSet<Text>>,
    veil: Option<Veil>,
}

/// Says which tools are hidden: they can be called by name, and are neither shown nor found.
#[derive(Clone)]
pub(super) struct Veil(pub(super) Arc<dyn Fn(&Definition) -> bool + Send + Sync>);

impl fmt::Debug for Veil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Veil")
    }
}

impl<R> Clone for Snapshot<R> {
    fn clone(&self) -> Self {
        Self {
            revision: self.revision,
            tools: Arc::clone(&self.tools),
            loaded: Arc::clone(&self.loaded),
            veil: self.veil.clone(),
        }
    }
}

/// How much there is of everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The revision that was counted.
    pub revision: u64,
    /// Tools.
    pub tools: usize,
    /// Names and aliases.
    pub names: usize,
    /// Tools of specs.
    pub built_in: usize,
    /// Tools of the host.
    pub host: usize,
    /// Tools of each server.
    pub servers: BTreeMap<Text, usize>,
    /// Tools that are `read_only`.
    pub read_only: usize,
    /// Tools that write.
    pub write: usize,
    /// Tools that run programs.
    pub execute: usize,
    /// Tools that are shown after a search alone.
    pub deferred: usize,
    /// Those of them that were loaded.
    pub loaded: usize,
    /// Tools that were set aside.
    pub quarantined: usize,
}

impl<R> Snapshot<R> {
    pub(super) fn new(revision: u64, tools: Arc<Tools<R>>, loaded: Arc<BTreeSet<Text>>, veil: Option<Veil>) -> Self {
        Self {
            revision,
            tools,
            loaded,
            veil,
        }
    }

    /// Counts the changes of the catalogue. Equal revisions of one catalogue are equal catalogues.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The tool of a name or an alias.
    pub fn get(&self, name: &str) -> Option<&Arc<Entry<R>>> {
        self.tools.index.get(name)
    }

    /// Whether a name or an alias is taken.
    pub fn has(&self, name: &str) -> bool {
        self.tools.index.contains_key(name)
    }

    /// All tools, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Entry<R>>> {
        self.tools.sorted.values()
    }

    /// The tools of one owner, by name.
    pub fn of(&self, owner: &Owner) -> impl Iterator<Item = &Arc<Entry<R>>> {
        self.all().filter(move |entry| entry.definition().owner == *owner)
    }

    /// The tools of specs, by name.
    pub fn builtin(&self) -> impl Iterator<Item = &Arc<Entry<R>>> {
        self.of(&Owner::BuiltIn)
    }

    /// The tools of servers, by name.
    pub fn dynamic(&self) -> impl Iterator<Item = &Arc<Entry<R>>> {
        self.all()
            .filter(|entry| matches!(entry.definition().owner, Owner::Server(_)))
    }

    /// The tools of a category, by name.
    pub fn by_category(&self, category: &str) -> impl Iterator<Item = &Arc<Entry<R>>> {
        self.all().filter(move |entry| entry.definition().category == category)
    }

    /// The tools with a tag, by name.
    pub fn by_tag(&self, tag: &str) -> impl Iterator<Item = &Arc<Entry<R>>> {
        self.all()
            .filter(move |entry| entry.definition().tags.iter().any(|one| one == tag))
    }

    /// All categories, sorted.
    pub fn categories(&self) -> Vec<Text> {
        let all: BTreeSet<&Text> = self.all().map(|entry| &entry.definition().category).collect();
        all.into_iter()
            .filter(|category| !category.is_empty())
            .cloned()
            .collect()
    }

    /// All tags, sorted.
    pub fn tags(&self) -> Vec<Text> {
        let all: BTreeSet<&Text> = self.all().flat_map(|entry| &entry.definition().tags).collect();
        all.into_iter().cloned().collect()
    }

    /// How much there is of everything but what was set aside, which the catalogue alone knows.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            revision: self.revision,
            tools: self.tools.sorted.len(),
            names: self.tools.index.len(),
            loaded: self.loaded.len(),
            ..Stats::default()
        };
        for entry in self.all() {
            let tool = entry.definition();
            match &tool.owner {
                Owner::BuiltIn => stats.built_in += 1,
                Owner::Host => stats.host += 1,
                Owner::Server(server) => *stats.servers.entry(server.clone()).or_default() += 1,
            }
            match tool.kind {
                Kind::ReadOnly => stats.read_only += 1,
                Kind::Write => stats.write += 1,
                Kind::Execute => stats.execute += 1,
            }
            stats.deferred += usize::from(is_deferred(tool));
        }
        stats
    }

    /// The tools that a query finds, best first, equals by name. Cost: one run over the words of all tools for each word
    /// of the query; a tool's words are collected when it is first searched.
    pub fn search(&self, query: &str) -> Vec<Arc<Entry<R>>> {
        self.search_among(query, |_| true)
    }

    pub(super) fn search_among(&self, query: &str, among: impl Fn(&Entry<R>) -> bool) -> Vec<Arc<Entry<R>>> {
        let tools: Vec<(&Definition, &Words, &Arc<Entry<R>>)> = self
            .all()
            .filter(|entry| among(entry))
            .map(|entry| (&**entry.definition(), entry.words(), entry))
            .collect();
        let found = search::rank(query, &tools);
        found.into_iter().map(|entry| Arc::clone(entry)).collect()
    }

    /// The names and aliases nearest to one that is not there, best first, at most three. A server's tool is found by what
    /// the server calls it, too, and however clients write that.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        self.nearest_among(name, |entry| !self.hides(entry.definition()))
    }

    pub(super) fn nearest_among(&self, name: &str, among: impl Fn(&Entry<R>) -> bool) -> Vec<String> {
        let plain = names::plain(name);
        let mut near: Vec<(usize, &str)> = Vec::new();
        for entry in self.all().filter(|entry| among(entry)) {
            let tool = entry.definition();
            near.extend(tool.names().filter_map(|known| Some((distance(name, known)?, known))));
            if let Some(nearer) = made_up(tool).iter().filter_map(|known| distance(&plain, known)).min() {
                near.push((nearer, &*tool.name));
            }
        }
        near.sort_unstable();
        let mut nearest: Vec<String> = Vec::new();
        for (_, known) in near {
            if nearest.len() < 3 && !nearest.iter().any(|one| one == known) {
                nearest.push(known.to_owned());
            }
        }
        nearest
    }

    /// The tools that a model is shown, by name, each once: those that are permitted in this phase and are not deferred, or
    /// were loaded. Without a way to search for the others, all that are permitted.
    pub fn declarations(&self, phase: Phase) -> impl Iterator<Item = &Arc<Entry<R>>> {
        let can_search = self.can_search(phase);
        self.all().filter(move |entry| {
            self.permits(entry.definition(), phase)
                && (!can_search || !is_deferred(entry.definition()) || self.is_loaded(entry.name()))
        })
    }

    /// The tools that the phase permits, shown or not, by name.
    pub fn permitted(&self, phase: Phase) -> impl Iterator<Item = &Arc<Entry<R>>> {
        self.all().filter(move |entry| self.permits(entry.definition(), phase))
    }

    /// The tools that are permitted and not shown, as a text for the model; empty when there are none. The same tools give
    /// the same bytes.
    pub fn deferred_listing(&self, phase: Phase) -> String {
        let mut text = String::new();
        if self.can_search(phase) {
            for entry in self.all() {
                let tool = entry.definition();
                if self.permits(tool, phase) && is_deferred(tool) && !self.is_loaded(&tool.name) {
                    text.push_str(&tool.name);
                    text.push('\n');
                }
            }
        }
        if text.is_empty() {
            return text;
        }
        format!("<available-deferred-tools>\n{text}</available-deferred-tools>")
    }

    /// How many tools are permitted and not shown.
    pub fn deferred(&self, phase: Phase) -> usize {
        if !self.can_search(phase) {
            return 0;
        }
        let waits = |entry: &&Arc<Entry<R>>| {
            let tool = entry.definition();
            self.permits(tool, phase) && is_deferred(tool) && !self.is_loaded(&tool.name)
        };
        self.all().filter(waits).count()
    }

    /// Whether a deferred tool was loaded.
    pub fn is_loaded(&self, name: &str) -> bool {
        self.loaded.contains(name)
    }

    fn can_search(&self, phase: Phase) -> bool {
        let search = self.tools.sorted.get(TOOL_SEARCH);
        search.is_some_and(|entry| self.permits(entry.definition(), phase))
    }

    /// Whether a tool may be shown in this phase.
    pub(super) fn permits(&self, tool: &Definition, phase: Phase) -> bool {
        is_permitted(tool, phase) && !self.hides(tool)
    }

    fn hides(&self, tool: &Definition) -> bool {
        self.veil.as_ref().is_some_and(|veil| (veil.0)(tool))
    }
}

fn is_permitted(tool: &Definition, phase: Phase) -> bool {
    phase == Phase::Act || tool.kind == Kind::ReadOnly
}

/// Whether a tool waits for a search. The search itself can't: nothing would find it.
pub(super) fn is_deferred(tool: &Definition) -> bool {
    tool.exposure == Exposure::Deferred && tool.name != TOOL_SEARCH
}

/// How else a server's tool may be called whose name is made up: as the server calls it, and without the suffix.
fn made_up(tool: &Definition) -> Vec<String> {
    let Owner::Server(server) = &tool.owner else {
        return Vec::new();
    };
    let original = format!("{server}__{}", tool.source);
    if original == *tool.name {
        return Vec::new();
    }
    vec![names::plain(&original), names::plain(&tool.name)]
}
