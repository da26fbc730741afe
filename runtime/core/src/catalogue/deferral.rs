//! Searching for tools that are there and not shown, and showing what was found.
//!
//! Answers for what a call of `tool_search` does. Leaves out the tool itself (a spec) and what it answers with.

use std::collections::HashSet;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use super::snapshot::is_deferred;
use super::{Catalogue, Cause, Entry, Phase};
use crate::registry::Text;

/// What a query by name begins with.
const SELECT: &str = "select:";

/// So many unknown names are told with the nearest ones. Each costs a look at every name there is.
const EXPLAINED: usize = 20;

/// How many tools one search loads at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maximum(usize);

impl Default for Maximum {
    fn default() -> Self {
        Self(5)
    }
}

impl TryFrom<u64> for Maximum {
    type Error = InvalidMaximum;

    fn try_from(number: u64) -> Result<Self, InvalidMaximum> {
        match usize::try_from(number) {
            Ok(fit @ 1..=20) => Ok(Self(fit)),
            _ => Err(InvalidMaximum(number)),
        }
    }
}

/// A number of results that is not from 1 to 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidMaximum(pub u64);

impl fmt::Display for InvalidMaximum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max_results is {}; it must be from 1 to 20", self.0)
    }
}

impl Error for InvalidMaximum {}

/// A selected name that no tool has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The name.
    pub name: String,
    /// The nearest ones that could be selected.
    pub nearest: Vec<String>,
}

/// What a search found. All of it is shown from now on.
#[derive(Debug)]
pub struct Found<R = ()> {
    /// The tools, in the order of the names or best first.
    pub tools: Vec<Arc<Entry<R>>>,
    /// Those of them that were not shown before.
    pub loaded: Vec<Text>,
    /// Selected names that no tool has.
    pub unknown: Vec<Unknown>,
    /// Selected tools that planning does without.
    pub hidden: Vec<Text>,
    /// Selected tools beyond the maximum.
    pub omitted: Vec<Text>,
}

/// The names of a query by name, which says so in whatever case.
pub fn selected(query: &str) -> Option<impl Iterator<Item = &str>> {
    let query = query.trim();
    let (begin, names) = query.split_at_checked(SELECT.len())?;
    let names = begin.eq_ignore_ascii_case(SELECT).then_some(names)?;
    Some(names.split(',').map(str::trim).filter(|name| !name.is_empty()))
}

impl<R> Catalogue<R> {
    /// Finds tools and loads them: `select:A,B` by name or alias, anything else by words among the deferred ones. What the
    /// phase hides is neither found nor loaded.
    pub fn tool_search(&self, query: &str, maximum: Maximum, phase: Phase) -> Found<R> {
        let snapshot = self.snapshot();
        let permitted = |entry: &Entry<R>| snapshot.permits(entry.definition(), phase);
        let mut found = Found {
            tools: Vec::new(),
            loaded: Vec::new(),
            unknown: Vec::new(),
            hidden: Vec::new(),
            omitted: Vec::new(),
        };
        if let Some(names) = selected(query) {
            let mut seen = HashSet::new();
            for name in names {
                let entry = snapshot.get(name);
                let key = entry.map_or(name, |entry| entry.name());
                if !seen.insert(key) {
                    continue;
                }
                match entry {
                    None => found.unknown.push(Unknown {
                        name: name.to_owned(),
                        nearest: if found.unknown.len() < EXPLAINED {
                            snapshot.nearest_among(name, permitted)
                        } else {
                            Vec::new()
                        },
                    }),
                    Some(entry) if !permitted(entry) => found.hidden.push(entry.definition().name.clone()),
                    Some(entry) if found.tools.len() == maximum.0 => {
                        found.omitted.push(entry.definition().name.clone());
                    }
                    Some(entry) => found.tools.push(Arc::clone(entry)),
                }
            }
        } else {
            found.tools = snapshot.search_among(query, |entry| permitted(entry) && is_deferred(entry.definition()));
            found.tools.truncate(maximum.0);
        }
        found.loaded = self.load(&found.tools);
        found
    }

    /// Shows deferred tools from now on; those that are there still, and are still the same.
    fn load(&self, entries: &[Arc<Entry<R>>]) -> Vec<Text> {
        let mut state = self.enter();
        let mut loaded = Vec::new();
        for entry in entries {
            let tool = entry.definition();
            let is_there = state.tools.sorted.get(&tool.name).is_some_and(|now| {
                let now = now.definition();
                now.owner == tool.owner && now.kind == tool.kind
            });
            if is_there && is_deferred(tool) && !state.loaded.contains(&tool.name) {
                Arc::make_mut(&mut state.loaded).insert(tool.name.clone());
                loaded.push(tool.name.clone());
            }
        }
        if !loaded.is_empty() {
            self.changed(&mut state, Cause::Loaded, |change| change.loaded.clone_from(&loaded));
        }
        loaded
    }
}
