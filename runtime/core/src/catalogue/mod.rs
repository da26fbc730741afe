//! Which tools there are, whoever they come from, and which of them a model is shown.
//!
//! Answers for one set of tools under unique names: those of specs, those of a host program and those of upstream servers,
//! which come and go; for finding them; for deferral (a tool that is shown once it was searched for); for telling changes.
//! Leaves out running them and permission. What carries a call out is `R`, which the catalogue keeps beside a tool and
//! never looks into.
//!
//! A [`Catalogue`] is changed under a lock that is held for the change alone; reading takes a [`Snapshot`], which costs two
//! counters and stays as it is. The first change after a snapshot copies the indexes (pointers, not tools) when the
//! snapshot is still held: 0.3 ms for 5,000 tools.
//!
//! ```
//! use devloop_core::catalogue::{Catalogue, Phase};
//! use devloop_core::registry::ToolBuilder;
//!
//! let catalogue = Catalogue::new(|_| Ok(()));
//! let tool = ToolBuilder::new("echo").summary("Says it again.").build().unwrap();
//! catalogue.register(tool, ()).unwrap();
//! assert!(catalogue.has("echo"));
//! assert_eq!(catalogue.declarations(Phase::Act).len(), 1);
//! // It may run programs, so planning does without it.
//! assert!(catalogue.declarations(Phase::Plan).is_empty());
//! ```

mod deferral;
pub mod names;
mod offered;
mod queues;
mod search;
mod snapshot;
#[cfg(test)]
mod testing;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use deferral::{Found, InvalidMaximum, Maximum, Unknown, selected};
pub use offered::{BYTES, DESCRIPTION_BYTES, NAME_CHARS, Offered, Quarantined, Reason, Refused, SCHEMA_BYTES, TOOLS};
pub use queues::{
    ConnectionChange, ConnectionState, ContentChange, ContentList, Drained, Instructions, LogLine, Notice,
    ResourceChange, TaskChange,
};
pub use snapshot::{Phase, Snapshot, Stats, TOOL_SEARCH};

use crate::events::{Broker, Subscription, Wakers};
use crate::registry::{BuilderError, CompiledTool, Conflict, Definition, Owner, PathRule, Text, unfit};

use offered::{same, take};
use queues::Queues;
use search::Words;
use snapshot::Veil;

/// How many changes a listener may be behind before it loses the oldest.
const LISTENED: usize = 256;

/// A tool and what carries out its calls.
#[derive(Debug)]
pub struct Entry<R = ()> {
    compiled: Arc<CompiledTool>,
    words: Arc<OnceLock<Words>>,
    runner: R,
}

impl<R> Entry<R> {
    fn new(compiled: Arc<CompiledTool>, runner: R) -> Self {
        Self {
            compiled,
            words: Arc::default(),
            runner,
        }
    }

    /// The same tool, whose calls are carried out otherwise from now on.
    fn with(&self, runner: R) -> Self {
        Self {
            compiled: Arc::clone(&self.compiled),
            words: Arc::clone(&self.words),
            runner,
        }
    }

    /// The tool, ready to admit calls.
    pub fn compiled(&self) -> &Arc<CompiledTool> {
        &self.compiled
    }

    /// Everything that is said about it.
    pub fn definition(&self) -> &Arc<Definition> {
        self.compiled.definition()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.definition().name
    }

    /// What carries out its calls.
    pub fn runner(&self) -> &R {
        &self.runner
    }

    fn words(&self) -> &Words {
        self.words.get_or_init(|| Words::of(self.definition()))
    }

    /// Reads the words now, so that no search has to: about 9 µs. Tools of specs are few, and there a process that starts
    /// would pay for what it may never do.
    fn ready_to_be_found(&self) {
        if self.definition().owner != Owner::BuiltIn {
            self.words();
        }
    }
}

/// The tools under their names.
#[derive(Debug)]
struct Tools<R> {
    sorted: BTreeMap<Text, Arc<Entry<R>>>,
    /// By name and alias.
    index: HashMap<Text, Arc<Entry<R>>>,
}

impl<R> Clone for Tools<R> {
    fn clone(&self) -> Self {
        Self {
            sorted: self.sorted.clone(),
            index: self.index.clone(),
        }
    }
}

impl<R> Tools<R> {
    fn insert(&mut self, entry: &Arc<Entry<R>>) {
        let tool = entry.definition();
        for name in std::iter::once(&tool.name).chain(&tool.aliases) {
            self.index.insert(name.clone(), Arc::clone(entry));
        }
        self.sorted.insert(tool.name.clone(), Arc::clone(entry));
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Entry<R>>> {
        let entry = self.sorted.remove(name)?;
        for name in entry.definition().names() {
            self.index.remove(name);
        }
        Some(entry)
    }
}

/// What made a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Tools were registered.
    Registered,
    /// A tool was unregistered.
    Unregistered,
    /// A server's list came, or came anew.
    Replaced {
        /// Whose.
        server: Text,
    },
    /// A server is gone.
    Removed {
        /// Whose.
        server: Text,
    },
    /// Tools were searched for and are shown from now on.
    Loaded,
    /// The session plans now, acts again, or has servers: other tools are shown.
    Phase,
}

/// One change of a catalogue. All names are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The catalogue's revision after it.
    pub revision: u64,
    /// What made it.
    pub cause: Cause,
    /// New tools.
    pub added: Vec<Text>,
    /// Tools that are gone.
    pub removed: Vec<Text>,
    /// Tools that are described otherwise now.
    pub updated: Vec<Text>,
    /// Tools that are shown from now on.
    pub loaded: Vec<Text>,
}

/// What a server's list changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The catalogue's revision after it.
    pub revision: u64,
    /// New tools.
    pub added: Vec<Text>,
    /// Tools that are gone.
    pub removed: Vec<Text>,
    /// Tools that are described otherwise now.
    pub updated: Vec<Text>,
    /// Tools that are as they were.
    pub kept: Vec<Text>,
    /// Tools that were set aside.
    pub quarantined: Vec<Quarantined>,
}

/// Every reason why tools were not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterError {
    /// Names with two owners.
    pub conflicts: Vec<Conflict>,
    /// Tools of servers, which come by [`Catalogue::replace_dynamic`] alone.
    pub foreign: Vec<String>,
    /// Tools that nobody could call, or that are not whose they say they are.
    pub unfit: Vec<BuilderError>,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conflicts = self.conflicts.iter().map(ToString::to_string);
        let foreign = self
            .foreign
            .iter()
            .map(|who| format!("{who} belongs to a server, whose tools are replaced as a whole"));
        let unfit = self.unfit.iter().map(ToString::to_string);
        let lines: Vec<String> = conflicts.chain(foreign).chain(unfit).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Error for RegisterError {}

/// The tools of one session or of one process.
#[doc(alias = "ToolRegistry")]
#[doc(alias = "DeferredToolManager")]
#[derive(Debug)]
pub struct Catalogue<R = ()> {
    path_rule: PathRule,
    state: Mutex<State<R>>,
    listeners: Broker<Change>,
    veil: Option<Veil>,
}

#[derive(Debug)]
struct State<R> {
    tools: Arc<Tools<R>>,
    /// Names of deferred tools that are shown all the same.
    loaded: Arc<BTreeSet<Text>>,
    quarantined: BTreeMap<Text, Vec<Quarantined>>,
    revision: u64,
    queues: Queues,
    /// Who waits for what was told and is woken when the lock is released.
    waiting: Wakers,
    /// Tools that went away, whose runners are somebody else's code as well and are dropped then.
    gone: Vec<Arc<Entry<R>>>,
}

/// The state under its lock. Code of others runs when it is released, so that it may come back to the catalogue at once.
struct Entered<'c, R>(Option<MutexGuard<'c, State<R>>>);

impl<R> Deref for Entered<'_, R> {
    type Target = State<R>;

    fn deref(&self) -> &State<R> {
        self.0.as_ref().expect(LOCKED)
    }
}

impl<R> DerefMut for Entered<'_, R> {
    fn deref_mut(&mut self) -> &mut State<R> {
        self.0.as_mut().expect(LOCKED)
    }
}

impl<R> Drop for Entered<'_, R> {
    fn drop(&mut self) {
        let Some(mut state) = self.0.take() else { return };
        let waiting = std::mem::replace(&mut state.waiting, Wakers::none());
        let gone = std::mem::take(&mut state.gone);
        drop(state);
        drop(gone);
        waiting.wake();
    }
}

/// Why there is a guard.
const LOCKED: &str = "the lock is released by the drop alone";

impl<R> Catalogue<R> {
    /// An empty catalogue whose tools judge their paths by `path_rule`.
    pub fn new(path_rule: PathRule) -> Self {
        let tools = Tools {
            sorted: BTreeMap::new(),
            index: HashMap::new(),
        };
        Self::of(path_rule, Arc::new(tools), BTreeMap::new(), 0)
    }

    fn of(
        path_rule: PathRule,
        tools: Arc<Tools<R>>,
        quarantined: BTreeMap<Text, Vec<Quarantined>>,
        revision: u64,
    ) -> Self {
        Self {
            path_rule,
            state: Mutex::new(State {
                tools,
                loaded: Arc::default(),
                quarantined,
                revision,
                queues: Queues::default(),
                waiting: Wakers::none(),
                gone: Vec::new(),
            }),
            listeners: Broker::new(),
            veil: None,
        }
    }

    /// Hides tools: they stay callable by name, and are neither declared, listed, searched nor suggested. A fork hides
    /// nothing until it is told.
    #[must_use]
    pub fn hiding(mut self, hidden: impl Fn(&Definition) -> bool + Send + Sync + 'static) -> Self {
        self.veil = Some(Veil(Arc::new(hidden)));
        self
    }

    fn enter(&self) -> Entered<'_, R> {
        // A change is made of parts that can't panic after the first of them.
        Entered(Some(self.state.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Adds one tool.
    ///
    /// # Errors
    /// Everything that is wrong with it, as [`register_all`](Self::register_all) says.
    pub fn register(&self, tool: impl Into<Definition>, runner: R) -> Result<(), RegisterError> {
        self.register_all([(tool.into(), runner)])
    }

    /// Adds all of the tools or none. A host's tool is judged wholly, as
    /// [`ToolBuilder::build`](crate::registry::ToolBuilder::build) does, by the path rule of this catalogue, and its schemas
    /// are compiled, so that its first call need not. The texts of a spec's tool were judged when it was generated.
    ///
    /// # Errors
    /// Everything that is wrong with any of them: names and aliases that are taken, with both owners; tools of servers;
    /// what is wrong with a definition itself, whose fields anybody can change; a tool that says it is a spec's and is not.
    pub fn register_all(&self, tools: impl IntoIterator<Item = (Definition, R)>) -> Result<(), RegisterError> {
        let entries: Vec<Arc<Entry<R>>> = tools
            .into_iter()
            .map(|(tool, runner)| Entry::new(Arc::new(CompiledTool::new(tool, self.path_rule)), runner))
            .map(Arc::new)
            .collect();
        for entry in &entries {
            entry.ready_to_be_found();
        }
        // Schemas are compiled before the lock is taken.
        let unfit = entries
            .iter()
            .filter_map(|entry| misdeclared(entry.compiled()))
            .collect();
        let mut state = self.enter();
        let mut error = RegisterError {
            conflicts: conflicts(&state.tools.index, &entries),
            foreign: Vec::new(),
            unfit,
        };
        for entry in &entries {
            if let Owner::Server(_) = entry.definition().owner {
                error.foreign.push(entry.definition().who());
            }
        }
        if !(error.conflicts.is_empty() && error.foreign.is_empty() && error.unfit.is_empty()) {
            return Err(error);
        }
        if entries.is_empty() {
            return Ok(());
        }
        let tools = Arc::make_mut(&mut state.tools);
        let mut added = Vec::new();
        for entry in &entries {
            tools.insert(entry);
            added.push(entry.definition().name.clone());
        }
        self.changed(&mut state, Cause::Registered, |change| change.added = added);
        Ok(())
    }

    /// Takes away the tool of this name; aliases name none here. A tool that comes again starts deferred.
    pub fn unregister(&self, name: &str) -> Option<Arc<Entry<R>>> {
        let mut state = self.enter();
        if !state.tools.sorted.contains_key(name) {
            return None;
        }
        let entry = Arc::make_mut(&mut state.tools).remove(name)?;
        forget(&mut state.loaded, [name]);
        let removed = vec![entry.definition().name.clone()];
        self.changed(&mut state, Cause::Unregistered, |change| change.removed = removed);
        Some(entry)
    }

    /// Replaces the tools of a server by a new list, whole or not at all. Names that stay keep their loaded state, new
    /// ones start deferred. A list that changes nothing is no change. `runner` gives what carries out the calls of each.
    ///
    /// # Errors
    /// The list as a whole can't be taken; the one before stays.
    pub fn replace_dynamic(
        &self,
        server: &str,
        offered: Vec<Offered>,
        mut runner: impl FnMut(&Arc<Definition>) -> R,
    ) -> Result<Replaced, Refused> {
        let mut taken = take(server, offered)?;
        // Schemas are compiled before the lock is taken, and only those that are new.
        let known = self.snapshot();
        let mut entries = Vec::with_capacity(taken.tools.len());
        for tool in std::mem::take(&mut taken.tools) {
            let before = known.get(&tool.name).filter(|entry| {
                let before = entry.definition();
                before.owner == tool.owner && same(before, &tool)
            });
            if let Some(entry) = before {
                entries.push(Arc::new(entry.with(runner(entry.definition()))));
                continue;
            }
            let compiled = Arc::new(CompiledTool::new(tool, self.path_rule));
            match compiled.check() {
                Ok(()) => {
                    let runner = runner(compiled.definition());
                    entries.push(Arc::new(Entry::new(compiled, runner)));
                }
                Err(reason) => {
                    let name = &compiled.definition().source;
                    taken.quarantined.push(offered::set_aside(name, reason));
                }
            }
        }
        drop(known);
        for entry in &entries {
            entry.ready_to_be_found();
        }
        let mut state = self.enter();
        let owner = Owner::Server(server.to_owned().into());
        let clashes = conflicts_of(&state.tools.index, &entries, &owner);
        if !clashes.is_empty() {
            let reasons = clashes.into_iter().map(Reason::Clash).collect();
            let server = server.to_owned();
            return Err(Refused { server, reasons });
        }
        Ok(self.swap(&mut state, server, &owner, entries, taken.quarantined))
    }

    fn swap(
        &self,
        state: &mut State<R>,
        server: &str,
        owner: &Owner,
        entries: Vec<Arc<Entry<R>>>,
        quarantined: Vec<Quarantined>,
    ) -> Replaced {
        let mut replaced = Replaced {
            revision: 0,
            added: Vec::new(),
            removed: Vec::new(),
            updated: Vec::new(),
            kept: Vec::new(),
            quarantined,
        };
        let server: Text = server.to_owned().into();
        let mut gone: BTreeSet<Text> = owned(&state.tools.sorted, owner);
        let tools = Arc::make_mut(&mut state.tools);
        for entry in entries {
            let name = entry.definition().name.clone();
            gone.remove(&name);
            match tools.remove(&name) {
                None => replaced.added.push(name),
                Some(before) => {
                    let is_same = same(before.definition(), entry.definition());
                    let names = if is_same {
                        &mut replaced.kept
                    } else {
                        &mut replaced.updated
                    };
                    names.push(name);
                    state.gone.push(before);
                }
            }
            tools.insert(&entry);
        }
        state.gone.extend(gone.iter().filter_map(|name| tools.remove(name)));
        forget(&mut state.loaded, gone.iter().map(|name| &**name));
        replaced.removed = gone.into_iter().collect();
        for names in [&mut replaced.added, &mut replaced.updated, &mut replaced.kept] {
            names.sort_unstable();
        }
        if replaced.quarantined.is_empty() {
            state.quarantined.remove(&server);
        } else {
            state.quarantined.insert(server.clone(), replaced.quarantined.clone());
        }
        let silent = replaced.added.is_empty() && replaced.removed.is_empty() && replaced.updated.is_empty();
        if !silent {
            self.changed(state, Cause::Replaced { server }, |change| {
                change.added.clone_from(&replaced.added);
                change.removed.clone_from(&replaced.removed);
                change.updated.clone_from(&replaced.updated);
            });
        }
        replaced.revision = state.revision;
        replaced
    }

    /// Takes away all tools of a server, by their owner and not by their names. The names, sorted.
    pub fn remove_dynamic(&self, server: &str) -> Vec<Text> {
        let mut entered = self.enter();
        let state = &mut *entered;
        let server: Text = server.to_owned().into();
        state.quarantined.remove(&server);
        let gone = owned(&state.tools.sorted, &Owner::Server(server.clone()));
        if gone.is_empty() {
            return Vec::new();
        }
        let tools = Arc::make_mut(&mut state.tools);
        state.gone.extend(gone.iter().filter_map(|name| tools.remove(name)));
        forget(&mut state.loaded, gone.iter().map(|name| &**name));
        let gone: Vec<Text> = gone.into_iter().collect();
        self.changed(state, Cause::Removed { server }, |change| {
            change.removed.clone_from(&gone);
        });
        gone
    }

    /// Counts and tells that other tools are shown because the session's phase is another; the tools are the same.
    pub fn phase_changed(&self) {
        let mut state = self.enter();
        self.changed(&mut state, Cause::Phase, |_| {});
    }

    /// A catalogue of the same tools that goes its own way from here. What was loaded here is deferred there, and what was
    /// not drained here is not told there.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.enter();
        Self::of(
            self.path_rule,
            Arc::clone(&state.tools),
            state.quarantined.clone(),
            state.revision,
        )
    }

    /// Listens to changes from now on. A listener that is more than 256 behind loses the oldest.
    pub fn subscribe(&self) -> Subscription<Change> {
        self.listeners.subscribe(LISTENED)
    }

    /// The catalogue as it is now; later changes don't show in it. Its [`revision`](Snapshot::revision) tells whether
    /// there were any.
    pub fn snapshot(&self) -> Snapshot<R> {
        let state = self.enter();
        Snapshot::new(
            state.revision,
            Arc::clone(&state.tools),
            Arc::clone(&state.loaded),
            self.veil.clone(),
        )
    }

    /// The tool of a name or an alias.
    pub fn get(&self, name: &str) -> Option<Arc<Entry<R>>> {
        self.enter().tools.index.get(name).cloned()
    }

    /// Whether a name or an alias is taken.
    pub fn has(&self, name: &str) -> bool {
        self.enter().tools.index.contains_key(name)
    }

    /// All tools, by name. This and the others below look at one [`snapshot`](Self::snapshot).
    pub fn all(&self) -> Vec<Arc<Entry<R>>> {
        self.snapshot().all().cloned().collect()
    }

    /// The tools of specs, by name.
    pub fn builtin(&self) -> Vec<Arc<Entry<R>>> {
        self.snapshot().builtin().cloned().collect()
    }

    /// The tools of servers, by name.
    pub fn dynamic(&self) -> Vec<Arc<Entry<R>>> {
        self.snapshot().dynamic().cloned().collect()
    }

    /// The tools of a category, by name.
    pub fn by_category(&self, category: &str) -> Vec<Arc<Entry<R>>> {
        self.snapshot().by_category(category).cloned().collect()
    }

    /// The tools with a tag, by name.
    pub fn by_tag(&self, tag: &str) -> Vec<Arc<Entry<R>>> {
        self.snapshot().by_tag(tag).cloned().collect()
    }

    /// All categories, sorted.
    pub fn categories(&self) -> Vec<Text> {
        self.snapshot().categories()
    }

    /// All tags, sorted.
    pub fn tags(&self) -> Vec<Text> {
        self.snapshot().tags()
    }

    /// How much there is of everything.
    pub fn stats(&self) -> Stats {
        let quarantined = self.enter().quarantined.values().map(Vec::len).sum();
        Stats {
            quarantined,
            ..self.snapshot().stats()
        }
    }

    /// The tools that a query finds, best first.
    pub fn search(&self, query: &str) -> Vec<Arc<Entry<R>>> {
        self.snapshot().search(query)
    }

    /// The tools that a model is shown, by name.
    pub fn declarations(&self, phase: Phase) -> Vec<Arc<Entry<R>>> {
        self.snapshot().declarations(phase).cloned().collect()
    }

    /// The tools that are there and not shown, as a text for the model.
    pub fn deferred_listing(&self, phase: Phase) -> String {
        self.snapshot().deferred_listing(phase)
    }

    /// What was set aside, by server.
    pub fn quarantined(&self) -> BTreeMap<Text, Vec<Quarantined>> {
        self.enter().quarantined.clone()
    }

    /// Puts something into its queue.
    pub fn notify(&self, notice: Notice) {
        self.enter().queues.push(notice);
    }

    /// The changes of this catalogue, at most 32.
    pub fn drain_catalog(&self) -> Drained<Change> {
        self.enter().queues.drain_catalog()
    }

    /// The changes of content lists, at most 32.
    pub fn drain_content(&self) -> Drained<ContentChange> {
        self.enter().queues.drain_content()
    }

    /// The changes of resources, the newest of each, at most 32.
    pub fn drain_resource(&self) -> Drained<ResourceChange> {
        self.enter().queues.drain_resource()
    }

    /// The changes of connections, at most 32.
    pub fn drain_connection(&self) -> Drained<ConnectionChange> {
        self.enter().queues.drain_connection()
    }

    /// What servers logged, at most 64 lines.
    pub fn drain_log(&self) -> Drained<LogLine> {
        self.enter().queues.drain_log()
    }

    /// How servers want to be used, at most 32.
    pub fn drain_instructions(&self) -> Drained<Instructions> {
        self.enter().queues.drain_instructions()
    }

    /// The changes of tasks, at most 64.
    pub fn drain_task(&self) -> Drained<TaskChange> {
        self.enter().queues.drain_task()
    }

    /// Counts a change and tells it. The lock is held, so that all see one order.
    fn changed(&self, state: &mut State<R>, cause: Cause, fill: impl FnOnce(&mut Change)) {
        state.revision += 1;
        let mut change = Change {
            revision: state.revision,
            cause,
            added: Vec::new(),
            removed: Vec::new(),
            updated: Vec::new(),
            loaded: Vec::new(),
        };
        fill(&mut change);
        for names in [
            &mut change.added,
            &mut change.removed,
            &mut change.updated,
            &mut change.loaded,
        ] {
            names.sort_unstable();
        }
        state.queues.changed(change.clone());
        state.waiting.append(self.listeners.hand_out(change));
    }
}

/// What is wrong with a tool that is to be registered, apart from who else has its names.
fn misdeclared(compiled: &CompiledTool) -> Option<BuilderError> {
    let tool = compiled.definition();
    let mut error = match tool.owner {
        Owner::Host => unfit(compiled),
        // Of a spec, or of a server, whose tools are refused here whatever they are.
        Owner::BuiltIn | Owner::Server(_) => None,
    };
    if let Some(claim) = tool.misclaimed() {
        let mut told = error.unwrap_or_else(|| BuilderError {
            name: tool.name.clone().into_owned(),
            problems: Vec::new(),
        });
        told.problems.insert(0, claim);
        error = Some(told);
    }
    error
}

fn forget<'n>(loaded: &mut Arc<BTreeSet<Text>>, names: impl IntoIterator<Item = &'n str>) {
    for name in names {
        if loaded.contains(name) {
            Arc::make_mut(loaded).remove(name);
        }
    }
}

fn owned<R>(sorted: &BTreeMap<Text, Arc<Entry<R>>>, owner: &Owner) -> BTreeSet<Text> {
    let mine = sorted.iter().filter(|(_, entry)| entry.definition().owner == *owner);
    mine.map(|(name, _)| name.clone()).collect()
}

/// Names that are taken already, or twice among the new ones.
fn conflicts<R>(index: &HashMap<Text, Arc<Entry<R>>>, entries: &[Arc<Entry<R>>]) -> Vec<Conflict> {
    conflicts_with(entries, |name| index.get(name))
}

/// The same for a server's list, which may take its own names again.
fn conflicts_of<R>(index: &HashMap<Text, Arc<Entry<R>>>, entries: &[Arc<Entry<R>>], owner: &Owner) -> Vec<Conflict> {
    conflicts_with(entries, |name| {
        index.get(name).filter(|entry| entry.definition().owner != *owner)
    })
}

fn conflicts_with<'e, R: 'e>(
    entries: &'e [Arc<Entry<R>>],
    taken: impl Fn(&str) -> Option<&'e Arc<Entry<R>>>,
) -> Vec<Conflict> {
    let mut new: HashMap<&str, &Arc<Entry<R>>> = HashMap::new();
    let mut told = HashSet::new();
    let mut conflicts = Vec::new();
    for entry in entries {
        for name in entry.definition().names() {
            let earlier = taken(name).or_else(|| new.get(name).copied());
            if let Some(earlier) = earlier
                && told.insert((name, Arc::as_ptr(entry)))
            {
                conflicts.push(Conflict {
                    name: name.to_owned(),
                    owners: [earlier.definition().who(), entry.definition().who()],
                });
            }
            new.entry(name).or_insert(entry);
        }
    }
    conflicts
}

#[cfg(test)]
mod tests;
