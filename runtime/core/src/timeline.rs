//! The project's timeline: what happened, told by all agents, for all agents and people.
//!
//! Answers for the form of `timeline.ndjson`, for appending an entry so that it is durable and numbered without a gap, and
//! for reading entries. Leaves out repeated calls (the replay of the store, which an append gives a say) and the tool's
//! answer.
//!
//! The live file is in the project directory, where the loop looks for it; torn ends, full files and their index are in
//! `agent-state/timeline/`. Within a file the time of an entry is never before that of the one above it, whatever the
//! clock does.

use devloop_contract::CommonFailure;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::sandbox::{Durability, RelPath};
use crate::store::journal::{Follower, Keep, Reader, Repaired, Rotated, Rotation, Settings};
use crate::store::{Journal, Store, StoreError, Wait, clock};

/// The live file.
pub const FILE: &str = "timeline.ndjson";
/// The lock that whoever appends holds.
pub const LOCK: &str = "timeline";
/// The most bytes of an entry's data, as JSON.
pub const LARGEST_DATA: u64 = 32 * 1024;
/// The most bytes of an entry's line.
pub const LONGEST_ENTRY: u64 = 64 * 1024;
/// When the live file is full.
pub const FULL: Rotation = Rotation {
    bytes: 64 * 1024 * 1024,
    lines: 500_000,
    keep: Keep::All,
};

/// The type of the entry that tells of a mended end.
pub const REPAIRED: &str = "timeline.repaired";

/// The directory beside.
pub(crate) const BESIDE: &str = "agent-state/timeline";
/// The form that is written.
const FORM: u32 = 1;

/// How much an entry matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For who looks into a problem.
    Debug,
    /// For who follows the work.
    Info,
    /// For who should look.
    Warn,
    /// For who must act.
    Error,
}

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ref {
    /// What kind of thing: `bug`, `unit`, `req`, `file`, `case` or `contract`.
    pub kind: String,
    /// Its id or path.
    pub id: String,
}

/// One entry, field by field as on its line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The form of the entry.
    pub v: u32,
    /// Its number.
    pub seq: u64,
    /// When, UTC with milliseconds.
    pub ts: String,
    /// Who, and in which call.
    #[serde(flatten)]
    pub author: Author,
    /// What.
    #[serde(flatten)]
    pub news: News,
    /// Names the one call of a tool that appended it.
    pub tool_use_id: String,
    /// The key by which a repetition of it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Who appends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The project.
    pub pid: String,
    /// The agent's short name.
    pub agent: String,
    /// The unit that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_id: Option<String>,
    /// The agent call.
    pub call_id: String,
    /// The client's session.
    pub session_id: String,
}

/// What is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct News {
    /// What kind of entry: `decision`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How much it matters.
    pub level: Level,
    /// What happened.
    pub summary: String,
    /// Data that goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<Ref>,
}

/// What tells one call of a tool from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Names the call.
    pub tool_use_id: String,
    /// The key that the agent gave it.
    pub idempotency_key: Option<String>,
}

/// What was appended.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// The entry.
    pub entry: Entry,
    /// The entry before it that tells of a mended end, if there was one.
    pub mended: Option<Entry>,
    /// What was mended.
    pub repaired: Option<Repaired>,
}

/// The timeline of a project. Its calls block.
#[derive(Clone, Debug)]
pub struct Timeline {
    store: Store,
    journal: Journal,
}

impl Timeline {
    /// The timeline of the store's project. Touches no disk.
    pub fn new(store: Store) -> Self {
        Self::with_rotation(store, FULL)
    }

    /// As [`new`](Self::new), with other limits of a file; for tests.
    pub fn with_rotation(store: Store, rotation: Rotation) -> Self {
        let settings = Settings {
            durability: Durability::Synced,
            rotation: Some(rotation),
            beside: Some(constant(BESIDE)),
            longest: LONGEST_ENTRY,
        };
        let journal = Journal::new(store.clone(), constant(FILE), LOCK, settings);
        Self { store, journal }
    }

    /// Appends an entry and waits until it is durable. `begin` gets the number that it will have, under the lock and
    /// before anything is written; when it fails, nothing is. A torn end is mended first, and an entry of the type
    /// `timeline.repaired` tells of it.
    ///
    /// Some 25 system calls and a share in an fdatasync.
    ///
    /// # Errors
    /// `too_large`, `busy`, a refused path, an error of the system, and whatever `begin` fails with.
    pub fn append<'w, E: From<StoreError>>(
        &self,
        author: &Author,
        news: News,
        call: &Call,
        wait: impl Into<Wait<'w>>,
        begin: impl FnOnce(u64) -> Result<(), E>,
    ) -> Result<Appended, E> {
        let entry = |seq, ts: &str, news| Entry {
            v: FORM,
            seq,
            ts: ts.to_owned(),
            author: author.clone(),
            news,
            tool_use_id: call.tool_use_id.clone(),
            idempotency_key: call.idempotency_key.clone(),
        };
        refuse_large(&entry(1, &clock::iso(Timestamp::UNIX_EPOCH), news.clone()))?;
        let mut written = Vec::new();
        let appended = self.journal.append_all_with(wait, |next| {
            let ts = clock::iso(next.time(self.store.clock().now()));
            let mut seq = next.seq;
            if let Some(repaired) = next.repaired {
                written.push(Entry {
                    idempotency_key: None,
                    ..entry(seq, &ts, told(repaired))
                });
                seq += 1;
            }
            begin(seq)?;
            written.push(entry(seq, &ts, news));
            Ok::<_, E>(written.clone())
        })?;
        // The entry is the last of them.
        let Some(entry) = written.pop() else {
            unreachable!("what was appended was put there before")
        };
        Ok(Appended {
            entry,
            mended: written.pop(),
            repaired: appended.repaired,
        })
    }

    /// The entry with a number, if it is there and can be read, made durable whoever appended it. Hold the timeline's
    /// lock. Reads some pieces of the file; then a write of its line and an fdatasync.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn durable_entry(&self, seq: u64, is_it: impl FnOnce(&Entry) -> bool) -> Result<Option<Entry>, StoreError> {
        let Some(record) = self.journal.record(seq)? else {
            return Ok(None);
        };
        let entry = serde_json::from_value::<Entry>(Value::Object(record.fields)).ok();
        let Some(entry) = entry.filter(is_it) else {
            return Ok(None);
        };
        self.journal.make_durable(seq)?;
        Ok(Some(entry))
    }

    /// The entries from number `from` on, oldest first, with what cannot be read left out and counted.
    pub fn read_from(&self, from: u64) -> Reader {
        self.journal.read_from(from)
    }

    /// As [`read_from`](Self::read_from), stopping with an error at the first that is damaged or missing.
    pub fn read_strictly_from(&self, from: u64) -> Reader {
        self.journal.read_strictly_from(from)
    }

    /// The entries from number `from` on, and those that come.
    pub fn follow_from(&self, from: u64) -> Follower {
        self.journal.follow_from(from)
    }

    /// A number to begin at for the entries since `time`: none of them is before it, and few others are after it. Reads
    /// the last entry of each full file, and some dozen entries of one.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn first_since(&self, time: Timestamp) -> Result<u64, StoreError> {
        self.journal.first_since(time)
    }

    /// The full files, oldest first.
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn full_files(&self) -> Result<Vec<Rotated>, StoreError> {
        self.journal.rotated()
    }
}

fn constant(path: &str) -> RelPath {
    RelPath::parse(path).expect("a constant path that keeps every rule")
}

fn told(repaired: &Repaired) -> News {
    let Repaired { bytes, quarantine } = repaired;
    let summary = match quarantine {
        Some(path) => format!("A crash had torn the end of the timeline; its last {bytes} bytes are kept in {path}"),
        None => "A crash had taken the line end of the last entry of the timeline; it was put back".to_owned(),
    };
    let data = match json!({ "bytes": bytes, "quarantine": quarantine }) {
        Value::Object(mut data) => {
            data.retain(|_, value| !value.is_null());
            Some(data)
        }
        _ => None,
    };
    News {
        kind: REPAIRED.to_owned(),
        level: Level::Warn,
        summary,
        data,
        refs: Vec::new(),
    }
}

/// Refuses what does not fit before anything is waited for.
fn refuse_large(entry: &Entry) -> Result<(), StoreError> {
    let too_large = |what: &str, bytes, limit| {
        Err(StoreError::Common(CommonFailure::TooLarge {
            what: what.to_owned(),
            bytes,
            limit,
        }))
    };
    if let Some(data) = &entry.news.data {
        let bytes = size_of(data)?;
        if bytes > LARGEST_DATA {
            return too_large("`data`", bytes, LARGEST_DATA);
        }
    }
    // With its line end.
    let bytes = size_of(entry)? + 1;
    if bytes > LONGEST_ENTRY {
        return too_large("an entry of the timeline", bytes, LONGEST_ENTRY);
    }
    Ok(())
}

/// The bytes of a value as JSON.
fn size_of<T: Serialize>(value: &T) -> Result<u64, StoreError> {
    let json = serde_json::to_vec(value).map_err(StoreError::Serialize)?;
    Ok(json.len() as u64)
}
