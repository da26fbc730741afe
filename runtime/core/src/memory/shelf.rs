//! The memories of one agent on disk: `memory/devloop/<agent>/<kind>/<slug>-<hash>.md`, and `INDEX.md` beside the kinds.
//!
//! Answers for reading them, for finding out what a new memory is to those that are kept, and for writing what follows
//! from that in an order that survives a crash at every step. Leaves out the lock around it, which the caller takes
//! ([`Shelf::lock_name`]), and repeated calls.
//!
//! The files are the truth. A new memory is written first, then what it replaces is marked, then the index: whoever opens
//! the shelf next finishes what was left undone. A file that cannot be read is told and left as it is; the rest works.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::entry::{Kind, Memory, NewMemory};
use super::index::{by_worth, index};
use super::likeness::Verdict;
use super::normal::{exact_digest, numbers};
use super::reading::Reading;
use super::sketch::Sketch;
use super::tidy::slug;
use crate::digest;
use crate::sandbox::{Durability, EntryKind, FsError, Metadata, PathProblem, RelPath};
use crate::store::{Store, StoreError};
use crate::text::nearest;

/// The most live memories of an agent.
pub const MOST_LIVE: usize = 500;
/// The most bytes that their files have together.
pub const MOST_LIVE_BYTES: u64 = 1024 * 1024;
/// The largest file that is read: a memory that others were merged into.
pub const LARGEST_FILE: u64 = 256 * 1024;
/// From this size on nothing is merged into a memory any more.
const FULL_FILE: usize = 32 * 1024;
/// How many similar memories are told.
const MOST_SIMILAR: usize = 5;
/// How many memories to evict are proposed.
const CANDIDATES: usize = 10;
/// From which score on exact forms are compared: equal forms have nearly equal words.
const MAY_BE_EXACT: f32 = 0.4;
/// A file that was written so short a time ago can be replaced by another one of the same size and time.
const SETTLED_AFTER: SignedDuration = SignedDuration::from_secs(2);

/// What to do when something similar is kept already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSimilar {
    /// Refuse, and show it.
    Ask,
    /// Keep both.
    New,
    /// Add to it.
    Merge,
}

/// A kept memory that is similar to a new one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Similar {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// How much both have in common, from 0 to 1.
    pub score: f64,
    /// Its file.
    pub path: String,
}

/// A memory that could make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// From 1 to 5.
    pub importance: u8,
    /// How often it was recorded.
    pub hits: u64,
    /// When it was last recorded.
    pub updated: Timestamp,
}

/// Why a memory is not recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// Something similar is kept.
    SimilarExists {
        /// What, most similar first.
        similar: Vec<Similar>,
    },
    /// What is to be replaced is not there.
    UnknownSupersedes {
        /// The id that was given.
        id: String,
        /// The nearest ids.
        nearest: Vec<String>,
    },
    /// What is to be replaced was replaced before.
    SupersededAlready {
        /// The id that was given.
        id: String,
        /// The id of what stands in its place now.
        by: String,
    },
    /// There is no room.
    Quota {
        /// What is counted: `memories` or `bytes`.
        what: &'static str,
        /// How much would be used.
        used: u64,
        /// The most that is allowed.
        limit: u64,
        /// What could make room, best first.
        candidates: Vec<Candidate>,
    },
}

/// What becomes of a new memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It is kept in a file of its own.
    Created,
    /// It was kept already.
    Duplicate,
    /// It was added to another one.
    Merged,
}

/// What will have been done: the answer to a call, and how its effect is found again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// The id of the memory.
    pub id: String,
    /// Its file.
    pub path: RelPath,
    /// What was done.
    pub action: Action,
    /// How often it has been recorded.
    pub hits: u64,
    /// What is similar, most similar first.
    pub similar: Vec<Similar>,
    /// What says the contrary, most alike first.
    pub contrary: Vec<Similar>,
    /// Whether it is a duplicate but for its numbers, of which those that were kept already stay.
    #[serde(default)]
    pub other_numbers: bool,
}

/// A recording that is decided and not carried out.
#[derive(Debug)]
pub struct Plan {
    recorded: Recorded,
    memory: Memory,
    replaces: Vec<usize>,
    superseded: Vec<String>,
    text: String,
}

impl Plan {
    /// What will have been done.
    pub fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Ids of what it replaces now.
    pub fn superseded(&self) -> &[String] {
        &self.superseded
    }

    /// The memory as it will be.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }
}

/// A file that is no memory that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The memories of one agent. Share one per process and agent: it keeps what it has read.
#[derive(Debug)]
pub struct Shelf {
    agent: String,
    dir: RelPath,
    known: Mutex<BTreeMap<RelPath, Arc<Kept>>>,
}

/// A memory with its file.
#[derive(Debug)]
struct Kept {
    path: RelPath,
    memory: Memory,
    bytes: u64,
    modified: Timestamp,
    settled: bool,
    sketch: OnceLock<Sketch>,
    readings: OnceLock<Vec<Reading>>,
}

impl Kept {
    /// A memory that was written just now; its file is looked at again.
    fn written(path: RelPath, memory: Memory, text: &str) -> Self {
        Self {
            path,
            memory,
            bytes: text.len() as u64,
            modified: Timestamp::UNIX_EPOCH,
            settled: false,
            sketch: OnceLock::new(),
            readings: OnceLock::new(),
        }
    }

    fn sketch(&self) -> &Sketch {
        self.sketch
            .get_or_init(|| Sketch::new([self.memory.title.as_str(), self.memory.content.as_str()]))
    }

    fn readings(&self) -> &[Reading] {
        self.readings.get_or_init(|| {
            let texts = self.memory.texts();
            texts
                .into_iter()
                .map(|(title, content)| Reading::new(title, content))
                .collect()
        })
    }
}

/// The memories of an agent, as they were when its lock was taken.
#[derive(Debug)]
pub struct Memories<'s> {
    shelf: &'s Shelf,
    kept: Vec<Arc<Kept>>,
    troubles: Vec<Trouble>,
    /// Names in use, also of files that cannot be read.
    names: BTreeSet<String>,
}

impl Shelf {
    /// The memories of `agent`. Touches no disk.
    ///
    /// # Errors
    /// A name that no directory can have.
    pub fn new(agent: &str) -> Result<Self, PathProblem> {
        Ok(Self {
            agent: agent.to_owned(),
            dir: RelPath::parse(&format!("memory/devloop/{agent}"))?,
            known: Mutex::default(),
        })
    }

    /// The lock that is held from [`open`](Self::open) to the end of [`carry_out`](Memories::carry_out).
    pub fn lock_name(&self) -> String {
        format!("memory-{}", self.agent)
    }

    /// Reads all memories, finishes what a crash left undone, and rewrites the index when it is not what it should be.
    /// Hold the lock. Two system calls for a file that this process knows, five and its reading for another one.
    ///
    /// # Errors
    /// A directory or an index that is none, a refused path, or an error of the system.
    pub fn open(&self, store: &Store) -> Result<Memories<'_>, StoreError> {
        let mut memories = Memories {
            shelf: self,
            kept: Vec::new(),
            troubles: Vec::new(),
            names: BTreeSet::new(),
        };
        memories.read(store)?;
        memories.finish_replacing(store)?;
        memories.write_index(store)?;
        Ok(memories)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<RelPath, Arc<Kept>>> {
        // Entries are whole or not there.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memories<'_> {
    /// Files that are no memories that can be read. They are left as they are.
    pub fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    /// The live memories, what matters most first.
    pub fn live(&self) -> Vec<&Memory> {
        let mut live: Vec<&Memory> = self.live_kept().map(|kept| &kept.memory).collect();
        live.sort_by(|one, other| by_worth(one, other));
        live
    }

    /// Whether the effect of a recording that was decided earlier is there: its process may have died before it answered.
    pub fn has(&self, recorded: &Recorded) -> bool {
        let found = self
            .kept
            .iter()
            .find(|kept| kept.path == recorded.path && kept.memory.id == recorded.id);
        found.is_some_and(|kept| kept.memory.hits >= recorded.hits)
    }

    /// Decides what becomes of a new memory. Touches no disk. Compares it with every live memory; those that this process
    /// has not read before are read, which is most of the cost (about 0.1 s for a megabyte).
    ///
    /// # Errors
    /// Why it is not recorded.
    pub fn plan(&self, new: NewMemory, on_similar: OnSimilar, now: Timestamp) -> Result<Plan, Refused> {
        let given = self.replaced(&new.supersedes)?;
        let found = self.find(&new, &given);
        // Of a text that was recorded before, together with what it replaces: that was done then.
        let done = |index: &usize| match (&self.kept[*index].memory.superseded_by, found.exact) {
            (Some(by), Some(exact)) => *by == self.kept[exact].memory.id,
            _ => false,
        };
        if let Some(index) = given
            .iter()
            .find(|index| self.kept[**index].memory.superseded_by.is_some() && !done(index))
        {
            let id = self.kept[*index].memory.id.clone();
            return Err(Refused::SupersededAlready {
                by: self.successor(*index),
                id,
            });
        }
        let replaces: Vec<usize> = given
            .into_iter()
            .filter(|index| self.kept[*index].memory.superseded_by.is_none())
            .collect();
        let (action, target) = match (found.exact, found.similar.first(), on_similar) {
            // Both are wanted, and both are not the same.
            (Some(_), _, OnSimilar::New) if found.other_numbers => (Action::Created, None),
            (Some(exact), ..) => (Action::Duplicate, Some(exact)),
            (None, Some(_), OnSimilar::Ask) => {
                return Err(Refused::SimilarExists {
                    similar: self.shown(&found.similar),
                });
            }
            (None, Some((index, _)), OnSimilar::Merge) if self.has_room(*index, &new) => (Action::Merged, Some(*index)),
            _ => (Action::Created, None),
        };
        let (memory, path) = if let Some(target) = target {
            let kept = &self.kept[target];
            let mut memory = kept.memory.clone();
            memory.count(&new, now);
            for index in &replaces {
                let id = &self.kept[*index].memory.id;
                if !memory.supersedes.contains(id) {
                    memory.supersedes.push(id.clone());
                }
            }
            // Also when it seems to say nothing new: what one word more means only a reader can tell.
            if action == Action::Merged {
                memory.append(&new, now);
            }
            memory.sha256 = digest_of(&memory);
            (memory, kept.path.clone())
        } else {
            let (id, path) = self.free_name(&new);
            (Memory::new(id, new, now), path)
        };
        let text = memory.to_text();
        self.check_room(target, &replaces, text.len() as u64, action)?;
        let recorded = Recorded {
            id: memory.id.clone(),
            path,
            action,
            hits: memory.hits,
            similar: self.shown(&found.similar),
            contrary: self.shown(&found.contrary),
            other_numbers: action == Action::Duplicate && found.other_numbers,
        };
        let superseded = replaces
            .iter()
            .map(|index| self.kept[*index].memory.id.clone())
            .collect();
        Ok(Plan {
            recorded,
            memory,
            replaces,
            superseded,
            text,
        })
    }

    /// Carries out what was decided: the memory, then the marks of what it replaces, then the index. Still under the
    /// lock. About 8 system calls and two fsyncs for each file that changes.
    ///
    /// # Errors
    /// A refused path or an error of the system. What was written by then stays, and the next [`Shelf::open`] goes on.
    pub fn carry_out(mut self, store: &Store, plan: &Plan) -> Result<(), StoreError> {
        let path = &plan.recorded.path;
        if plan.recorded.action == Action::Created {
            store.sandbox().create_new(path, plan.text.as_bytes())?;
        } else {
            store.sandbox().replace(path, plan.text.as_bytes())?;
        }
        for index in &plan.replaces {
            self.mark(store, *index, &plan.memory.id)?;
        }
        let kept = Arc::new(Kept::written(path.clone(), plan.memory.clone(), &plan.text));
        match self.kept.iter_mut().find(|kept| kept.path == *path) {
            Some(place) => *place = kept,
            None => self.kept.push(kept),
        }
        self.write_index(store)
    }

    fn read(&mut self, store: &Store) -> Result<(), StoreError> {
        let sandbox = store.sandbox();
        let mut known = std::mem::take(&mut *self.shelf.known());
        let mut next = BTreeMap::new();
        let mut ids = BTreeMap::new();
        for kind in Kind::ALL {
            let dir = below(&self.shelf.dir, kind.as_str())?;
            for entry in sandbox.list(&dir)?.unwrap_or_default() {
                self.names.insert(entry.name.clone());
                let Some(stem) = entry.name.strip_suffix(".md") else {
                    continue;
                };
                // A name that is no path here, such as one that a person's system made.
                let Ok(path) = dir.join(&entry.name) else {
                    self.trouble(
                        format!("{dir}/{}", entry.name),
                        "its name is none that a file of a project may have; rename it",
                    );
                    continue;
                };
                if entry.kind != EntryKind::File {
                    self.trouble(path.to_string(), "it is no regular file; it is not followed");
                    continue;
                }
                // The directory was judged when it was listed, and a name that ends in `.md` changes nothing: to judge each
                // path again would cost more than all the rest. Gone since then: a person tidies up.
                let metadata = sandbox
                    .project()
                    .metadata(&path)
                    .map_err(|error| error.by(sandbox.agent()))?;
                let Some(metadata) = metadata else {
                    continue;
                };
                let same = |kept: &Arc<Kept>| {
                    kept.settled && kept.bytes == metadata.bytes && kept.modified == metadata.modified
                };
                let kept = match known.remove(&path).filter(same) {
                    Some(kept) => kept,
                    None => match read_one(store, &path, kind, stem, &metadata) {
                        Ok(Some(kept)) => Arc::new(kept),
                        Ok(None) => continue,
                        Err(problem) => {
                            self.trouble(path.to_string(), &problem);
                            continue;
                        }
                    },
                };
                if let Some(other) = ids.get(&kept.memory.id).cloned() {
                    // The older one had it first.
                    let first = self.kept.iter().position(|known| known.path == other);
                    let first = first.filter(|first| kept.memory.created < self.kept[*first].memory.created);
                    let (with, out) = if first.is_some() {
                        (&path, &other)
                    } else {
                        (&other, &path)
                    };
                    let problem = format!("it has the id of {with}; give it another one or remove one of them");
                    self.trouble(out.to_string(), &problem);
                    let Some(first) = first else { continue };
                    self.kept.remove(first);
                    next.remove(&other);
                }
                ids.insert(kept.memory.id.clone(), path.clone());
                next.insert(path, Arc::clone(&kept));
                self.kept.push(kept);
            }
        }
        *self.shelf.known() = next;
        Ok(())
    }

    fn trouble(&mut self, path: String, problem: &str) {
        self.troubles.push(Trouble {
            path,
            problem: problem.to_owned(),
        });
    }

    /// Marks what a live memory says that it replaced and that does not know it yet.
    fn finish_replacing(&mut self, store: &Store) -> Result<(), StoreError> {
        let by_id: BTreeMap<&str, usize> = self
            .kept
            .iter()
            .enumerate()
            .map(|(index, kept)| (kept.memory.id.as_str(), index))
            .collect();
        let mut marks = BTreeMap::new();
        for kept in &self.kept {
            for id in &kept.memory.supersedes {
                let Some(index) = by_id.get(id.as_str()) else { continue };
                let old = &self.kept[*index].memory;
                // A circle, which only a person can make, would leave nothing live: its newest stays.
                let circle = self.reaches(&by_id, *index, &kept.memory.id)
                    && !self.in_circle(&by_id, *index).any(|other| newer(&other.memory, old));
                if old.superseded_by.is_none() && kept.memory.superseded_by.is_none() && !circle {
                    marks.entry(*index).or_insert_with(|| kept.memory.id.clone());
                }
            }
        }
        for (index, by) in marks {
            self.mark(store, index, &by)?;
        }
        Ok(())
    }

    /// Whether a memory says that it replaced the one with this id, or one that did.
    fn reaches(&self, by_id: &BTreeMap<&str, usize>, from: usize, id: &str) -> bool {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(index) = left.pop() {
            if !seen.insert(index) {
                continue;
            }
            let replaced = &self.kept[index].memory.supersedes;
            if replaced.iter().any(|replaced| replaced == id) {
                return true;
            }
            left.extend(replaced.iter().filter_map(|id| by_id.get(id.as_str())));
        }
        false
    }

    /// The memories that are in a circle with this one.
    fn in_circle<'a>(&'a self, by_id: &'a BTreeMap<&str, usize>, index: usize) -> impl Iterator<Item = &'a Arc<Kept>> {
        let id = self.kept[index].memory.id.as_str();
        let others = self.kept.iter().enumerate();
        others
            .filter(move |(other, kept)| {
                !kept.memory.supersedes.is_empty()
                    && self.reaches(by_id, *other, id)
                    && self.reaches(by_id, index, &kept.memory.id)
            })
            .map(|(_, kept)| kept)
    }

    fn mark(&mut self, store: &Store, index: usize, by: &str) -> Result<(), StoreError> {
        let old = &self.kept[index];
        let mut memory = old.memory.clone();
        memory.superseded_by = Some(by.to_owned());
        memory.sha256 = digest_of(&memory);
        let text = memory.to_text();
        store.sandbox().replace(&old.path, text.as_bytes())?;
        self.kept[index] = Arc::new(Kept::written(old.path.clone(), memory, &text));
        Ok(())
    }

    fn write_index(&self, store: &Store) -> Result<(), StoreError> {
        let mut live: Vec<&Arc<Kept>> = self.live_kept().collect();
        live.sort_by(|one, other| by_worth(&one.memory, &other.memory));
        let base = self.shelf.dir.as_str().len() + 1;
        let page = index(live.iter().map(|kept| (&kept.memory, &kept.path.as_str()[base..])));
        let path = below(&self.shelf.dir, "INDEX.md")?;
        let old = match store.sandbox().read(&path, LARGEST_FILE) {
            Ok(old) => old,
            Err(FsError::TooLarge { .. }) => Some(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        if old.as_deref() == Some(page.as_bytes()) || old.is_none() && page.is_empty() {
            return Ok(());
        }
        // It can be made again.
        let sandbox = store.sandbox().clone().with_durability(Durability::Cached);
        Ok(sandbox.replace(&path, page.as_bytes())?)
    }

    fn live_kept(&self) -> impl Iterator<Item = &Arc<Kept>> {
        self.kept.iter().filter(|kept| kept.memory.superseded_by.is_none())
    }

    /// The places of what is to be replaced.
    fn replaced(&self, ids: &[String]) -> Result<Vec<usize>, Refused> {
        let mut replaced = Vec::new();
        for id in ids {
            let Some(index) = self.kept.iter().position(|kept| kept.memory.id == *id) else {
                return Err(Refused::UnknownSupersedes {
                    id: id.clone(),
                    nearest: self.nearest(id),
                });
            };
            if !replaced.contains(&index) {
                replaced.push(index);
            }
        }
        Ok(replaced)
    }

    /// Ids near to one that is none: by a typing error, or by the path or the title that was given in its place.
    fn nearest(&self, id: &str) -> Vec<String> {
        let by_name = self.live_kept().filter(|kept| {
            let name = kept.path.file_name();
            id.ends_with(name) || name.strip_suffix(".md") == Some(id) || kept.memory.title == id
        });
        let mut found: Vec<String> = by_name.map(|kept| kept.memory.id.clone()).collect();
        for near in nearest(id, self.live_kept().map(|kept| kept.memory.id.as_str()), MOST_SIMILAR) {
            if !found.iter().any(|known| known == near) {
                found.push(near.to_owned());
            }
        }
        found.truncate(MOST_SIMILAR);
        found
    }

    /// What stands in the place of a replaced memory by now.
    fn successor(&self, index: usize) -> String {
        let mut id = self.kept[index].memory.id.as_str();
        let mut steps = 0;
        while let Some(kept) = self.kept.iter().find(|kept| kept.memory.id == id) {
            match &kept.memory.superseded_by {
                Some(by) if steps <= self.kept.len() => id = by,
                _ => break,
            }
            steps += 1;
        }
        id.to_owned()
    }

    /// What a new memory is to the live ones, without those that it replaces.
    fn find(&self, new: &NewMemory, replaced: &[usize]) -> Found {
        let reading = Reading::new(&new.title, &new.content);
        let digest = exact_digest(&new.title, &new.content);
        let sketch = Sketch::new([new.title.as_str(), new.content.as_str()]);
        let own_numbers = numbers_of(&new.title, &new.content);
        let mut found = Found::default();
        for (index, kept) in self.kept.iter().enumerate() {
            let is_out = kept.memory.superseded_by.is_some() || replaced.contains(&index);
            if is_out || !kept.sketch().may_be_like(&sketch) {
                continue;
            }
            let likes = kept.readings().iter().map(|known| reading.compare(known));
            let Some(best) = likes.reduce(|one, other| {
                let rank = |like: &super::Likeness| (like.verdict == Verdict::Same, like.score);
                if rank(&other) > rank(&one) { other } else { one }
            }) else {
                continue;
            };
            let texts = kept.memory.texts();
            // Also as a whole: with what was merged into it, or when its own text has a line that looks like a merge's.
            let whole = (texts.len() > 1).then_some((kept.memory.title.as_str(), kept.memory.content.as_str()));
            let parts = texts.into_iter().filter(|_| best.score >= MAY_BE_EXACT);
            let texts: Vec<_> = parts.chain(whole).collect();
            if !texts.is_empty() && (found.exact.is_none() || found.other_numbers) {
                let mut exact = texts
                    .iter()
                    .filter(|(title, content)| exact_digest(title, content) == digest)
                    .peekable();
                if exact.peek().is_some() {
                    let other_numbers = !exact.any(|(title, content)| numbers_of(title, content) == own_numbers);
                    // Of two the one with the same numbers.
                    if found.exact.is_none() || !other_numbers {
                        (found.exact, found.other_numbers) = (Some(index), other_numbers);
                        continue;
                    }
                }
            }
            match best.verdict {
                Verdict::Same => found.similar.push((index, best.score)),
                Verdict::Contrary => found.contrary.push((index, best.score)),
                Verdict::Different => {}
            }
        }
        for list in [&mut found.similar, &mut found.contrary] {
            list.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        }
        found
    }

    fn shown(&self, found: &[(usize, f32)]) -> Vec<Similar> {
        let show = |(index, score): &(usize, f32)| {
            let kept = &self.kept[*index];
            Similar {
                id: kept.memory.id.clone(),
                title: kept.memory.title.clone(),
                score: (f64::from(*score) * 100.0).round() / 100.0,
                path: kept.path.to_string(),
            }
        };
        found.iter().take(MOST_SIMILAR).map(show).collect()
    }

    fn has_room(&self, index: usize, new: &NewMemory) -> bool {
        self.kept[index].memory.content.len() + new.content.len() <= FULL_FILE
    }

    /// The id and the file of a new memory. The same text had them before when it is history by now.
    fn free_name(&self, new: &NewMemory) -> (String, RelPath) {
        let digest = exact_digest(&new.title, &new.content);
        let slug = slug(&new.title);
        let mut hash = digest.clone();
        let mut attempt = 1_u32;
        loop {
            let short = &hash[..8];
            let (id, name) = (format!("mem-{short}"), format!("{slug}-{short}.md"));
            let taken = self.kept.iter().any(|kept| kept.memory.id == id) || self.names.contains(&name);
            if !taken {
                let path = format!("{}/{}/{name}", self.shelf.dir, new.kind.as_str());
                return (id, RelPath::parse(&path).expect("a slug and a hash make a name"));
            }
            attempt += 1;
            hash = digest::sha256_hex(format!("{digest} {attempt}"));
        }
    }

    fn check_room(&self, target: Option<usize>, replaces: &[usize], bytes: u64, action: Action) -> Result<(), Refused> {
        if action == Action::Duplicate {
            return Ok(());
        }
        let stays = |(index, kept): &(usize, &Arc<Kept>)| {
            kept.memory.superseded_by.is_none() && !replaces.contains(index) && Some(*index) != target
        };
        let staying: Vec<_> = self.kept.iter().enumerate().filter(stays).collect();
        let live = staying.len() + 1;
        let used = staying.iter().map(|(_, kept)| kept.bytes).sum::<u64>() + bytes;
        let (what, used, limit) = if live > MOST_LIVE && target.is_none() {
            ("memories", live as u64, MOST_LIVE as u64)
        } else if used > MOST_LIVE_BYTES {
            ("bytes", used, MOST_LIVE_BYTES)
        } else {
            return Ok(());
        };
        let candidates = self.live().into_iter().rev().take(CANDIDATES).map(|memory| Candidate {
            id: memory.id.clone(),
            title: memory.title.clone(),
            importance: memory.importance,
            hits: memory.hits,
            updated: memory.updated,
        });
        Err(Refused::Quota {
            what,
            used,
            limit,
            candidates: candidates.collect(),
        })
    }
}

/// What a new memory is to those that are kept.
#[derive(Debug, Default)]
struct Found {
    exact: Option<usize>,
    /// Whether that one has other numbers.
    other_numbers: bool,
    similar: Vec<(usize, f32)>,
    contrary: Vec<(usize, f32)>,
}

/// `None` when it is gone. What is wrong with it is for a person.
fn read_one(
    store: &Store,
    path: &RelPath,
    kind: Kind,
    stem: &str,
    metadata: &Metadata,
) -> Result<Option<Kept>, String> {
    let bytes = match store.sandbox().project().read(path, LARGEST_FILE) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| format!("it is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))?;
    let memory = Memory::from_text(&text, kind, stem)?;
    // By the machine's clock, as file times are.
    let since = Timestamp::now().duration_since(metadata.modified);
    Ok(Some(Kept {
        path: path.clone(),
        memory,
        bytes: metadata.bytes,
        modified: metadata.modified,
        settled: since > SETTLED_AFTER,
        sketch: OnceLock::new(),
        readings: OnceLock::new(),
    }))
}

/// Whether a memory is newer than another one, in an order that has no two alike.
fn newer(one: &Memory, other: &Memory) -> bool {
    (one.updated, one.created, &one.id) > (other.updated, other.created, &other.id)
}

/// The digest of a memory's own text, without what was merged into it.
fn digest_of(memory: &Memory) -> String {
    let texts = memory.texts();
    let (title, content) = texts.first().copied().unwrap_or_default();
    exact_digest(title, content)
}

fn numbers_of(title: &str, content: &str) -> Vec<String> {
    numbers(&format!("{title}\n{content}"))
}

fn below(dir: &RelPath, name: &str) -> Result<RelPath, StoreError> {
    dir.join(name).map_err(|problem| {
        StoreError::Fs(FsError::Io {
            op: "name a memory in",
            path: dir.to_string(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, problem),
        })
    })
}
