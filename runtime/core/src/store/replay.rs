//! Replay: a call that is made twice has its effect once, and gets the same answer.
//!
//! Answers for knowing a call again by its key, also in another process and after a crash. Leaves out the effects
//! themselves: whoever has one says how it is found again.
//!
//! A key is written down before the effect (*begun*) and once more after it, with the result (*completed*). Between
//! the two a process may die; then the next call with the key looks for the effect by the hint that was written, and
//! only when it is not there is it done anew. Kept per agent in `agent-state/.replay/<agent>.ndjson`, the newest
//! [`KEPT`] calls; not synced, as the effect, which is, can be found by its hint.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use devloop_contract::CommonFailure;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::StoreError;
use super::journal::{Follower, Journal, Keep, Record as Numbered, Rotation, Settings};
use super::place::REPLAY;
use super::{Store, clock};
use crate::digest;
use crate::sandbox::{Durability, FsError, RelPath};

/// How many calls of an agent are known again.
pub const KEPT: usize = 4096;

/// How long a record waits for the journal: others hold it for microseconds.
const WAIT: Duration = Duration::from_secs(5);

/// What names a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// The client's or the server's name for this one call, unique over connections.
    Call(String),
    /// A key that the agent chose; it holds in later sessions, too.
    Idempotency(String),
}

impl Key {
    /// The key as it was given.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Call(key) | Self::Idempotency(key) => key,
        }
    }
}

/// One call that may be a repetition.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The tool's name.
    pub tool: &'a str,
    /// What names the call.
    pub key: &'a Key,
    /// The digest of its input.
    pub input: &'a str,
}

/// What is to be done with a call.
#[derive(Debug)]
#[must_use]
pub enum Begun<'a> {
    /// It is new: have the effect, then [`complete`](Ticket::complete) it.
    New(Ticket<'a>),
    /// It was done before, with this result.
    Replayed(Value),
}

/// A call that was begun. Dropped without being completed, the call counts as never made unless its effect is found.
#[derive(Debug)]
#[must_use]
pub struct Ticket<'a> {
    replay: &'a Replay,
    begun: u64,
}

/// The calls of one agent that are known again. Share one per process and agent: it keeps what it has read.
#[derive(Debug)]
pub struct Replay {
    journal: Journal,
    store: Store,
    known: Mutex<Known>,
}

/// What has been read.
#[derive(Debug, Default)]
struct Known {
    /// Reads on from where it was.
    follower: Option<Follower>,
    begun: BTreeMap<u64, Entry>,
    newest: HashMap<Name, u64>,
}

/// A tool and the key of one of its calls.
type Name = (String, Key);

#[derive(Debug)]
struct Entry {
    name: Name,
    input: String,
    hint: Value,
    result: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum Record {
    Begun {
        ts: String,
        tool: String,
        key: Key,
        input: String,
        hint: Value,
    },
    Completed {
        /// The number of the record that began it.
        call: u64,
        result: Value,
    },
}

impl Replay {
    /// The calls of `agent` in the store's project. Touches no disk.
    ///
    /// # Errors
    /// A name that no file can have.
    pub fn new(store: Store, agent: &str) -> Result<Self, StoreError> {
        let journal = journal(&store, agent)?;
        Ok(Self {
            journal,
            store,
            known: Mutex::default(),
        })
    }

    /// Begins a call, or finds out that it was made before. `hint` is kept with it; when an earlier call with the key
    /// was begun and never completed, `find` gets *its* hint and says what it answered, if its effect is there.
    ///
    /// Hold a lock that every call of this tool and agent takes, from here to the end of the effect. Two appends to a
    /// file that is not synced; what other processes wrote since the last call is read first, all files the first
    /// time (about 4 MB when full).
    ///
    /// # Errors
    /// `idempotency_conflict` when the key was used with other input; `busy`; a refused path; an error of the system;
    /// whatever `find` fails with. Then nothing was begun.
    pub fn begin<E: From<StoreError>>(
        &self,
        call: Call<'_>,
        hint: Value,
        find: impl FnOnce(&Value) -> Result<Option<Value>, E>,
    ) -> Result<Begun<'_>, E> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.catch_up(&mut known)?;
        let conflict = || {
            E::from(StoreError::Common(CommonFailure::IdempotencyConflict {
                key: call.key.as_str().to_owned(),
            }))
        };
        let name = (call.tool.to_owned(), call.key.clone());
        if let Some((&begun, entry)) = known.newest.get(&name).and_then(|seq| known.begun.get_key_value(seq)) {
            let same_input = entry.input == call.input;
            if let Some(result) = &entry.result {
                return if same_input {
                    Ok(Begun::Replayed(result.clone()))
                } else {
                    Err(conflict())
                };
            }
            if let Some(result) = find(&entry.hint)? {
                if !same_input {
                    return Err(conflict());
                }
                self.write_completed(&mut known, begun, &result);
                return Ok(Begun::Replayed(result));
            }
        }
        let record = Record::Begun {
            ts: clock::iso(self.store.clock().now()),
            tool: call.tool.to_owned(),
            key: call.key.clone(),
            input: call.input.to_owned(),
            hint,
        };
        let begun = self.journal.append(&record, WAIT)?.seq;
        if known
            .follower
            .as_ref()
            .is_some_and(|follower| begun < follower.position())
        {
            // The file is a new one: the old was removed for its age.
            *known = Known::default();
        }
        Ok(Begun::New(Ticket { replay: self, begun }))
    }

    /// Writes down how a call ended. That it cannot be written costs nothing but a look for the effect.
    fn write_completed(&self, known: &mut Known, call: u64, result: &Value) {
        let record = Record::Completed {
            call,
            result: result.clone(),
        };
        if let Err(error) = self.journal.append(&record, WAIT) {
            tracing::warn!(journal = %self.journal.path(), "a result cannot be kept for a repeated call: {error}");
        }
        // Known in this process even so.
        if let Some(entry) = known.begun.get_mut(&call) {
            entry.result = Some(result.clone());
        }
    }

    fn catch_up(&self, known: &mut Known) -> Result<(), StoreError> {
        let mut follower = known.follower.take().unwrap_or_else(|| self.journal.follow_from(1));
        loop {
            let batch = follower.next_batch(KEPT)?;
            if batch.is_empty() {
                break;
            }
            for Numbered { seq, fields } in batch {
                // A record of a later version: of no use here, and no reason to fail.
                if let Ok(record) = serde_json::from_value(Value::Object(fields)) {
                    known.take(seq, record);
                }
            }
        }
        known.follower = Some(follower);
        Ok(())
    }
}

impl Known {
    fn take(&mut self, seq: u64, record: Record) {
        match record {
            Record::Begun {
                tool, key, input, hint, ..
            } => {
                let name = (tool, key);
                self.newest.insert(name.clone(), seq);
                let entry = Entry {
                    name,
                    input,
                    hint,
                    result: None,
                };
                self.begun.insert(seq, entry);
            }
            Record::Completed { call, result } => {
                if let Some(entry) = self.begun.get_mut(&call) {
                    entry.result = Some(result);
                }
            }
        }
        while self.begun.len() > KEPT {
            let Some((seq, oldest)) = self.begun.pop_first() else {
                break;
            };
            if self.newest.get(&oldest.name) == Some(&seq) {
                self.newest.remove(&oldest.name);
            }
        }
    }
}

impl Ticket<'_> {
    /// Keeps the result of the call for those that repeat it. The effect must be durable.
    pub fn complete(self, result: &Value) {
        let mut known = self.replay.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Its own beginning is read by the next call at the latest, and the result with it.
        self.replay.write_completed(&mut known, self.begun, result);
    }
}

/// Where the calls of an agent are kept.
pub(crate) fn path(agent: &str) -> Result<RelPath, StoreError> {
    RelPath::parse(&format!("{REPLAY}/{agent}.ndjson")).map_err(|problem| {
        StoreError::Fs(FsError::Io {
            op: "know calls again for",
            path: agent.to_owned(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidInput, problem),
        })
    })
}

/// The journal of the calls of an agent.
pub(crate) fn journal(store: &Store, agent: &str) -> Result<Journal, StoreError> {
    let settings = Settings {
        // Each file holds more calls than are known again.
        rotation: Some(Rotation {
            bytes: 32 * 1024 * 1024,
            lines: 2 * KEPT as u64,
            keep: Keep::Newest(1),
        }),
        ..Durability::Cached.into()
    };
    Ok(Journal::new(
        store.clone(),
        path(agent)?,
        format!("replay-{agent}"),
        settings,
    ))
}

/// The digest of an input, for [`Call::input`].
///
/// # Errors
/// A value that is no JSON.
pub fn input_digest<T: Serialize>(input: &T) -> Result<String, StoreError> {
    let value = serde_json::to_value(input).map_err(StoreError::Serialize)?;
    Ok(digest::of_json(&value))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::store::tests::{Place, place};

    const TOOL: &str = "keep";

    fn replay(store: &Store) -> Replay {
        Replay::new(store.clone(), "pm").unwrap()
    }

    fn key(text: &str) -> Key {
        Key::Idempotency(text.to_owned())
    }

    fn unasked(hint: &Value) -> Result<Option<Value>, StoreError> {
        panic!("asked for {hint}")
    }

    /// Makes a call whose effect gives `result`; what it answers, and whether that was a repetition.
    fn make(replay: &Replay, key: &Key, input: &str, result: &Value) -> Result<(Value, bool), StoreError> {
        let call = Call { tool: TOOL, key, input };
        Ok(
            match replay.begin(call, json!("hint"), |_| Ok::<_, StoreError>(None))? {
                Begun::Replayed(earlier) => (earlier, true),
                Begun::New(ticket) => {
                    ticket.complete(result);
                    (result.clone(), false)
                }
            },
        )
    }

    fn is_conflict(result: Result<(Value, bool), StoreError>) -> bool {
        matches!(result, Err(StoreError::Common(CommonFailure::IdempotencyConflict { key })) if key == "a")
    }

    #[test]
    fn a_repeated_call_gets_the_first_answer_in_every_process() {
        let Place { dir: _dir, store } = place();
        let one = replay(&store);
        assert_eq!(make(&one, &key("a"), "x", &json!(1)).unwrap(), (json!(1), false));
        assert_eq!(make(&one, &key("a"), "x", &json!(2)).unwrap(), (json!(1), true));
        let two = replay(&store);
        assert_eq!(make(&two, &key("a"), "x", &json!(3)).unwrap(), (json!(1), true));
        assert_eq!(make(&two, &key("b"), "x", &json!(4)).unwrap(), (json!(4), false));
        assert_eq!(make(&one, &key("b"), "x", &json!(5)).unwrap(), (json!(4), true));
        // The two kinds of keys are apart, and so are tools and agents.
        assert!(!make(&one, &Key::Call("a".into()), "x", &json!(6)).unwrap().1);
        let other_tool = Call {
            tool: "other",
            key: &key("a"),
            input: "x",
        };
        assert!(matches!(
            one.begin(other_tool, Value::Null, unasked).unwrap(),
            Begun::New(_)
        ));
        let architect = Replay::new(store, "architect").unwrap();
        assert!(!make(&architect, &key("a"), "x", &json!(7)).unwrap().1);
    }

    #[test]
    fn a_key_with_other_input_is_a_conflict() {
        let Place { dir: _dir, store } = place();
        let one = replay(&store);
        make(&one, &key("a"), "x", &json!(1)).unwrap();
        assert!(is_conflict(make(&one, &key("a"), "y", &json!(2))));
        assert!(is_conflict(make(&replay(&store), &key("a"), "y", &json!(2))));
        assert_eq!(make(&one, &key("a"), "x", &json!(3)).unwrap(), (json!(1), true));
    }

    #[test]
    fn a_call_that_died_is_looked_for_by_its_own_hint() {
        let Place { dir: _dir, store } = place();
        let attempt = |replay: &Replay, input: &str, hint: Value, found: Option<Value>| {
            let call = Call {
                tool: TOOL,
                key: &key("a"),
                input,
            };
            let mut asked = None;
            let begun = replay.begin::<StoreError>(call, hint, |hint| {
                asked = Some(hint.clone());
                Ok(found)
            });
            (
                begun.map(|begun| {
                    if let Begun::Replayed(result) = begun {
                        Some(result)
                    } else {
                        None
                    }
                }),
                asked,
            )
        };
        // Its process dies: the ticket is gone, and so is what the process knew.
        assert_eq!(attempt(&replay(&store), "x", json!(1), None).1, None);
        // Not there: it is done anew, with a hint of its own; other input is no conflict, as nothing happened.
        let (begun, asked) = attempt(&replay(&store), "y", json!(2), None);
        assert_eq!((begun.unwrap(), asked), (None, Some(json!(1))));
        // There: other input is a conflict, the same gets its answer, and is not looked for again.
        let (begun, asked) = attempt(&replay(&store), "z", json!(3), Some(json!("done")));
        assert!(matches!(
            begun,
            Err(StoreError::Common(CommonFailure::IdempotencyConflict { .. }))
        ));
        assert_eq!(asked, Some(json!(2)));
        let (begun, _) = attempt(&replay(&store), "y", json!(4), Some(json!("done")));
        assert_eq!(begun.unwrap(), Some(json!("done")));
        let (begun, asked) = attempt(&replay(&store), "y", json!(5), None);
        assert_eq!((begun.unwrap(), asked), (Some(json!("done")), None));
    }

    #[test]
    fn a_search_that_fails_begins_nothing() {
        let Place { dir, store } = place();
        let call = Call {
            tool: TOOL,
            key: &key("a"),
            input: "x",
        };
        drop(replay(&store).begin(call, Value::Null, unasked).unwrap());
        let before = fs::read(dir.path().join("agent-state/.replay/pm.ndjson")).unwrap();
        let again = replay(&store);
        let failed = again.begin(call, Value::Null, |_| Err(StoreError::Cancelled));
        assert!(matches!(failed, Err(StoreError::Cancelled)));
        assert_eq!(
            fs::read(dir.path().join("agent-state/.replay/pm.ndjson")).unwrap(),
            before
        );
    }

    #[test]
    fn broken_lines_cost_their_own_calls_alone() {
        let Place { dir, store } = place();
        make(&replay(&store), &key("a"), "x", &json!(1)).unwrap();
        let file = dir.path().join("agent-state/.replay/pm.ndjson");
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend_from_slice(
            b"{\"seq\":3,\"is\":\"of a later version\"}\n\0\0\0\nnonsense\n{\"seq\":6,\"is\":\"comp",
        );
        fs::write(&file, bytes).unwrap();
        assert_eq!(
            make(&replay(&store), &key("a"), "x", &json!(2)).unwrap(),
            (json!(1), true)
        );
        assert_eq!(
            make(&replay(&store), &key("b"), "x", &json!(3)).unwrap(),
            (json!(3), false)
        );
        assert_eq!(
            make(&replay(&store), &key("b"), "x", &json!(4)).unwrap(),
            (json!(3), true)
        );
    }

    #[test]
    fn calls_that_were_removed_for_their_age_leave_the_numbers() {
        let Place { dir: _dir, store } = place();
        let (here, there) = (replay(&store), replay(&store));
        for name in ["a", "b", "c"] {
            make(&here, &key(name), "x", &json!(1)).unwrap();
        }
        assert!(journal(&store, "pm").unwrap().clear(WAIT, || Ok(true)).unwrap());
        // More than were there before, so that places alone tell nothing.
        for name in 0..8 {
            make(&there, &key(&format!("d{name}")), "x", &json!(name)).unwrap();
        }
        for name in 0..8 {
            let again = make(&here, &key(&format!("d{name}")), "x", &json!(9)).unwrap();
            assert_eq!(again, (json!(name), true), "d{name}");
        }
        assert!(!make(&there, &key("a"), "x", &json!(2)).unwrap().1, "it is forgotten");
    }

    #[test]
    fn a_file_that_was_removed_begins_anew() {
        let Place { dir, store } = place();
        let (here, there) = (replay(&store), replay(&store));
        for name in ["a", "b", "c"] {
            make(&here, &key(name), "x", &json!(1)).unwrap();
        }
        fs::remove_file(dir.path().join("agent-state/.replay/pm.ndjson")).unwrap();
        make(&there, &key("d"), "x", &json!(1)).unwrap();
        assert!(!make(&here, &key("e"), "x", &json!(2)).unwrap().1);
        assert_eq!(make(&here, &key("e"), "x", &json!(3)).unwrap(), (json!(2), true));
        assert_eq!(make(&here, &key("d"), "x", &json!(3)).unwrap(), (json!(1), true));
    }

    #[test]
    fn a_link_in_the_way_refuses_the_call() {
        let Place { dir, store } = place();
        fs::create_dir_all(dir.path().join("agent-state")).unwrap();
        std::os::unix::fs::symlink(Path::new("/tmp"), dir.path().join("agent-state/.replay")).unwrap();
        assert!(make(&replay(&store), &key("a"), "x", &json!(1)).is_err());
    }

    #[test]
    fn the_newest_calls_are_known_and_no_more() {
        let mut known = Known::default();
        let begun = |text: String| Record::Begun {
            ts: String::new(),
            tool: TOOL.to_owned(),
            key: key(&text),
            input: String::new(),
            hint: Value::Null,
        };
        for seq in 1..=2 * KEPT as u64 {
            known.take(seq, begun(seq.to_string()));
        }
        // The first key once more, after it was forgotten and before it would be again.
        known.take(2 * KEPT as u64 + 1, begun("1".to_owned()));
        assert_eq!((known.begun.len(), known.newest.len()), (KEPT, KEPT));
        assert!(known.newest.contains_key(&(TOOL.to_owned(), key("1"))));
        assert!(!known.newest.contains_key(&(TOOL.to_owned(), key("2"))));
        known.take(
            2 * KEPT as u64 + 2,
            Record::Completed {
                call: 2,
                result: json!("of a forgotten call"),
            },
        );
    }

    #[test]
    fn what_is_written_is_one_line_for_each_step() {
        let Place { dir, store } = place();
        make(&replay(&store), &Key::Call("toolu_1".into()), "x", &json!({"seq": 7})).unwrap();
        let text = fs::read_to_string(dir.path().join("agent-state/.replay/pm.ndjson")).unwrap();
        let expected = concat!(
            r#"{"seq":1,"is":"begun","ts":"2026-11-30T10:15:00.123Z","tool":"keep","key":{"call":"toolu_1"},"input":"x","hint":"hint"}"#,
            "\n",
            r#"{"seq":2,"is":"completed","call":1,"result":{"seq":7}}"#,
            "\n"
        );
        assert_eq!(text, expected);
    }
}
