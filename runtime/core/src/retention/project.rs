//! Leftovers inside a project.
//!
//! Answers for walking a project without following a link and for judging each file by its place, its name and its age.
//! Leaves out version control and installed packages, where no tool writes, and what lies outside.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::{Candidate, Policy, Why};
use crate::sandbox::{Durability, EntryKind, Metadata, RelPath};
use crate::store::place::{self, CALLS, HISTORY, REPLAY};
use crate::store::{Store, StoreError, clock, replay};
use crate::timeline::{self, Timeline};

/// Where journals keep what was torn.
const JOURNALS: &[&str] = &["agent-state/.events", CALLS, REPLAY, crate::timeline::BESIDE];

/// How long to wait for whoever uses a journal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Directories in which no tool writes, and which can be very large.
const UNWALKED: &[&str] = &[".git", "node_modules"];

/// What was found in a project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// What may go, sorted by reason and path.
    pub candidates: Vec<Candidate>,
    /// The directories that could not be looked at, and why.
    pub unseen: Vec<String>,
}

/// Finds what may go. Lists every directory once and looks at the files that may be leftovers by their names.
///
/// # Errors
/// The project directory itself cannot be listed.
pub fn find(store: &Store, policy: &Policy) -> Result<Leftovers, StoreError> {
    let mut walk = Walk {
        store,
        policy,
        now: store.clock().now(),
        found: Leftovers::default(),
        history: BTreeMap::new(),
    };
    walk.directory(None)?;
    walk.judge_history();
    walk.judge_timeline();
    walk.found.candidates.sort_unstable();
    Ok(walk.found)
}

/// Removes a candidate; says whether it was still there.
///
/// # Errors
/// `busy` when somebody uses it, a refused path, or an error of the system.
pub fn remove(store: &Store, policy: &Policy, candidate: &Candidate) -> Result<bool, StoreError> {
    let path = RelPath::parse(&candidate.path).map_err(|problem| {
        StoreError::Fs(crate::sandbox::FsError::Io {
            op: "remove",
            path: candidate.path.clone(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, problem),
        })
    })?;
    let _lock = match candidate.why {
        // The next rotation names its file after the newest one that is there.
        Why::Timeline => Some(store.lock(timeline::LOCK, PATIENCE)?),
        Why::Replay => {
            let agent = agent_of(&path).unwrap_or_default();
            let journal = replay::journal(store, agent)?;
            // The agent may have come back since it was looked at.
            return journal.clear(PATIENCE, || Ok(is_old_replay(store, policy, &path)?.is_some()));
        }
        _ => None,
    };
    // What comes back after a power failure is found again.
    Ok(store.project().remove_file(&path, Durability::Cached)?)
}

struct Walk<'a> {
    store: &'a Store,
    policy: &'a Policy,
    now: Timestamp,
    found: Leftovers,
    /// Earlier versions, by what they are versions of; names end in a time, so their order is that of age.
    history: BTreeMap<String, BTreeMap<String, u64>>,
}

impl Walk<'_> {
    fn directory(&mut self, directory: Option<&RelPath>) -> Result<(), StoreError> {
        let project = self.store.project();
        let join = |name: &str| match directory {
            Some(directory) => directory.join(name),
            None => RelPath::parse(name),
        };
        for (name, bytes) in project.left_behind(directory, self.now)? {
            if let Ok(path) = join(&name) {
                self.keep(Why::Temporary, &path, bytes);
            }
        }
        for entry in project.list(directory)?.unwrap_or_default() {
            // A name that no tool may use is nothing that a tool left.
            let Ok(path) = join(&entry.name) else { continue };
            match entry.kind {
                EntryKind::Directory if !UNWALKED.contains(&&*entry.name) => {
                    if let Err(error) = self.directory(Some(&path)) {
                        self.found.unseen.push(error.to_string());
                    }
                }
                EntryKind::File => self.file(&path),
                _ => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &RelPath) {
        let Some(why) = Self::kind_of(path) else { return };
        let found = match self.store.project().metadata(path) {
            Ok(Some(found)) => found,
            // Somebody was faster.
            Ok(None) => return,
            Err(error) => {
                self.found.unseen.push(error.to_string());
                return;
            }
        };
        match why {
            Why::History => {
                if let Some((of, _)) = version_of(path.file_name()) {
                    let versions = self.history.entry(of.to_owned()).or_default();
                    versions.insert(path.to_string(), found.bytes);
                }
            }
            Why::Replay => match is_old_replay(self.store, self.policy, path) {
                Ok(Some(bytes)) => self.keep(why, path, bytes),
                Ok(None) => {}
                Err(error) => self.found.unseen.push(error.to_string()),
            },
            why if self.is_old(path, found) => self.keep(why, path, found.bytes),
            _ => {}
        }
    }

    /// What a file would be left over as, by its name alone.
    fn kind_of(path: &RelPath) -> Option<Why> {
        let within = |directory: &str| path.parent().is_some_and(|parent| parent.as_str() == directory);
        if within(HISTORY) {
            version_of(path.file_name()).map(|_| Why::History)
        } else if JOURNALS.iter().any(|directory| within(directory)) && path.as_str().ends_with(".torn.ndjson") {
            Some(Why::Torn)
        } else if within(REPLAY) && agent_of(path).is_some() {
            Some(Why::Replay)
        } else if path.as_str().starts_with("agent-state/") {
            // Where state files are; elsewhere such a name is somebody else's.
            place::before_set_aside(path.as_str()).map(|_| Why::SetAside)
        } else {
            None
        }
    }

    fn is_old(&self, path: &RelPath, found: Metadata) -> bool {
        // Being set aside does not change a file's time, but its name says it.
        let since = place::set_aside(path.as_str()).map_or(found.modified, |(_, time)| time);
        self.now.duration_since(since) > self.policy.set_aside
    }

    fn judge_history(&mut self) {
        for versions in std::mem::take(&mut self.history).into_values() {
            let old = versions.len().saturating_sub(self.policy.history);
            for (path, bytes) in versions.into_iter().take(old) {
                self.found.candidates.push(Candidate {
                    why: Why::History,
                    path,
                    bytes,
                });
            }
        }
    }

    fn judge_timeline(&mut self) {
        let Some(kept) = self.policy.timeline_files else { return };
        let full = match Timeline::new(self.store.clone()).full_files() {
            Ok(full) => full,
            Err(error) => {
                self.found.unseen.push(error.to_string());
                return;
            }
        };
        let old = full.len().saturating_sub(kept);
        for file in full.into_iter().take(old) {
            self.found.candidates.push(Candidate {
                why: Why::Timeline,
                path: format!("{}/{}", timeline::BESIDE, file.file),
                bytes: file.bytes,
            });
        }
    }

    fn keep(&mut self, why: Why, path: &RelPath, bytes: u64) {
        self.found.candidates.push(Candidate {
            why,
            path: path.to_string(),
            bytes,
        });
    }
}

/// The agent whose calls a file holds: `pm.ndjson`. Neither full files nor the index have such a name.
fn agent_of(path: &RelPath) -> Option<&str> {
    let agent = path.file_name().strip_suffix(".ndjson")?;
    (!agent.contains('.')).then_some(agent)
}

/// How large the calls of an agent are, when it has made none for long; the full files that they are in included.
fn is_old_replay(store: &Store, policy: &Policy, live: &RelPath) -> Result<Option<u64>, StoreError> {
    let Some(found) = store.project().metadata(live)? else {
        return Ok(None);
    };
    if store.clock().now().duration_since(found.modified) <= policy.replay {
        return Ok(None);
    }
    let full = replay::journal(store, agent_of(live).unwrap_or_default())?.rotated()?;
    Ok(Some(found.bytes + full.iter().map(|file| file.bytes).sum::<u64>()))
}

/// What a file of the history is a version of, and of when: `pm-todo` and the stamp of `pm-todo.<stamp>.json`.
fn version_of(name: &str) -> Option<(&str, Timestamp)> {
    let (of, stamp) = name.strip_suffix(".json")?.rsplit_once('.')?;
    Some((of, clock::time_of_stamp(stamp)?))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::SystemTime;

    use jiff::SignedDuration;

    use super::*;
    use crate::store::tests::{Place, place};

    const DAY: u64 = 24 * 60 * 60;

    fn policy() -> Policy {
        Policy {
            history: 2,
            set_aside: SignedDuration::from_hours(30 * 24),
            replay: SignedDuration::from_hours(10 * 24),
            timeline_files: None,
            artifacts: SignedDuration::from_hours(24),
        }
    }

    /// Puts a file there that last changed so many days before the store's time.
    fn put(dir: &Path, path: &str, days: u64) {
        let now: jiff::Timestamp = "2026-11-30T10:15:00.123Z".parse().unwrap();
        let file = dir.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "12345").unwrap();
        let time = SystemTime::try_from(now).unwrap() - Duration::from_secs(days * DAY + 1);
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_modified(time)
            .unwrap();
    }

    fn paths(found: &Leftovers, why: Why) -> Vec<&str> {
        let of = found.candidates.iter().filter(|candidate| candidate.why == why);
        of.map(|candidate| &*candidate.path).collect()
    }

    #[test]
    fn what_is_old_or_superseded_may_go_and_nothing_else() {
        let Place { dir, store } = place();
        let at = |path: &str, days| put(dir.path(), path, days);
        for day in 1..=4 {
            at(
                &format!("agent-state/history/pm-todo.2026110{day}T101500123Z.json"),
                500,
            );
        }
        at("agent-state/history/coder.a-todo.20261101T101500123Z.json", 500);
        at("agent-state/history/notes.json", 500);
        at("agent-state/pm-todo.json", 500);
        at("agent-state/pm-todo.json.corrupt-20261001T101500123Z", 0);
        at("agent-state/pm-todo.json.corrupt-20261001T101500123Z-2", 0);
        at("agent-state/pm-todo.json.corrupt-20261129T101500123Z", 500);
        at("memory/devloop/pm/fact/corrupt-20261001T101500123Z", 500);
        at("agent-state/timeline/timeline.torn.ndjson", 31);
        at("agent-state/.events/events.torn.ndjson", 29);
        at("notes/mine.torn.ndjson", 500);
        at("agent-state/.replay/pm.ndjson", 11);
        at("agent-state/.replay/coder.ndjson", 9);
        at("agent-state/.replay/README", 500);
        at("docs/report.corrupt-20200101T000000000Z", 500);
        at("agent-state/runs/r1/out.torn.ndjson", 500);
        at("agent-state/.locks/pm-todo.lock", 500);
        at("prd/.devloop-tmp-1-gone", 2);
        at("prd/.devloop-tmp-99999999-gone", 0);
        at("node_modules/x/.devloop-tmp-99999999-gone", 2);
        at("timeline.ndjson", 500);
        let found = find(&store, &policy()).unwrap();
        assert_eq!(found.unseen, Vec::<String>::new());
        assert_eq!(
            paths(&found, Why::History),
            [
                "agent-state/history/pm-todo.20261101T101500123Z.json",
                "agent-state/history/pm-todo.20261102T101500123Z.json"
            ]
        );
        assert_eq!(
            paths(&found, Why::SetAside),
            [
                "agent-state/pm-todo.json.corrupt-20261001T101500123Z",
                "agent-state/pm-todo.json.corrupt-20261001T101500123Z-2"
            ]
        );
        assert_eq!(paths(&found, Why::Torn), ["agent-state/timeline/timeline.torn.ndjson"]);
        assert_eq!(paths(&found, Why::Replay), ["agent-state/.replay/pm.ndjson"]);
        assert_eq!(paths(&found, Why::Temporary), ["prd/.devloop-tmp-1-gone"]);
        assert_eq!(found.candidates.len(), 7);
        assert!(found.candidates.iter().all(|candidate| candidate.bytes == 5));
        for candidate in &found.candidates {
            assert!(remove(&store, &policy(), candidate).unwrap(), "{candidate:?}");
            assert!(!remove(&store, &policy(), candidate).unwrap(), "{candidate:?}");
            assert!(!dir.path().join(&candidate.path).exists());
        }
        assert_eq!(find(&store, &policy()).unwrap(), Leftovers::default());
    }

    #[test]
    fn no_link_is_followed() {
        let (Place { dir, store }, outside) = (place(), tempfile::tempdir().unwrap());
        put(outside.path(), "pm-todo.json.corrupt-20261001T101500123Z", 100);
        put(outside.path(), "pm.ndjson", 100);
        fs::create_dir_all(dir.path().join("agent-state/.replay")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("agent-state/history")).unwrap();
        std::os::unix::fs::symlink(
            outside.path().join("pm.ndjson"),
            dir.path().join("agent-state/.replay/pm.ndjson"),
        )
        .unwrap();
        assert_eq!(find(&store, &policy()).unwrap(), Leftovers::default());
    }

    #[test]
    fn the_newest_full_files_of_the_timeline_stay_and_numbers_go_on() {
        let Place { dir, store } = place();
        let journal = crate::store::Journal::new(
            store.clone(),
            RelPath::parse(timeline::FILE).unwrap(),
            timeline::LOCK,
            crate::store::journal::Settings {
                durability: Durability::Cached,
                rotation: Some(crate::store::journal::Rotation {
                    lines: 2,
                    ..timeline::FULL
                }),
                beside: Some(RelPath::parse(timeline::BESIDE).unwrap()),
                longest: timeline::LONGEST_ENTRY,
            },
        );
        // Long enough that the lines are counted, which those of a short file are not.
        let record = serde_json::json!({"text": "x".repeat(40)});
        for _ in 0..9 {
            journal.append(&record, PATIENCE).unwrap();
        }
        assert_eq!(
            find(&store, &policy()).unwrap(),
            Leftovers::default(),
            "all stay unless somebody says so"
        );
        let kept = Policy {
            timeline_files: Some(1),
            ..policy()
        };
        let found = find(&store, &kept).unwrap();
        let expected = [1, 2, 3].map(|number| format!("agent-state/timeline/timeline.00000{number}.ndjson"));
        assert_eq!(paths(&found, Why::Timeline), expected);
        for candidate in &found.candidates {
            assert!(remove(&store, &policy(), candidate).unwrap());
        }
        assert_eq!(journal.append(&record, PATIENCE).unwrap().seq, 10);
        assert_eq!(find(&store, &kept).unwrap().candidates.len(), 0);
        assert!(dir.path().join("agent-state/timeline/timeline.000004.ndjson").exists());
    }

    #[test]
    fn an_agent_that_came_back_keeps_its_calls() {
        let Place { dir, store } = place();
        put(dir.path(), "agent-state/.replay/pm.ndjson", 11);
        let found = find(&store, &policy()).unwrap();
        fs::write(dir.path().join("agent-state/.replay/pm.ndjson"), "123456").unwrap();
        assert!(!remove(&store, &policy(), &found.candidates[0]).unwrap());
        assert!(dir.path().join("agent-state/.replay/pm.ndjson").exists());
    }
}
