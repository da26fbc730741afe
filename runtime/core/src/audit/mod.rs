//! The audit log: every call of a tool, what was sent, what was decided, and how it ended.
//!
//! Answers for the form of a record, for keeping it in `agent-state/.calls/` and for reading it. Secrets are redacted and
//! sizes bounded before anything is written. Leaves out when a call is recorded, and what a decision says, which is taken
//! as it comes.
//!
//! A record is made when its call ends. A process that is killed after a call had its effect and before that leaves the
//! effect without a record.
//!
//! The newest some 70 MiB are kept. An append is not synced: a record survives the process, not a power failure. Whoever
//! must not block gives its calls to a [`Writer`].

mod excerpt;
mod flat;
mod hidden;
mod names;
mod place;
mod redacted;
mod writer;

use std::sync::{Arc, Once};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use excerpt::Excerpt;
use hidden::Hidden;
pub use writer::{Entry, Full, Writer};

use crate::sandbox::{Durability, RelPath};
use crate::store::journal::{Follower, Keep, Reader, Rotation, Settings};
use crate::store::place::CALLS;
use crate::store::{Journal, Lock, Store, StoreError, clock};

/// When the live file is full, and how much is kept.
pub const FULL: Rotation = Rotation {
    bytes: 8 * 1024 * 1024,
    lines: 100_000,
    keep: Keep::Newest(8),
};

/// The form that is written.
const FORM: u32 = 1;
/// How long records wait for the log: nothing depends on them.
const WAIT: Duration = Duration::from_secs(5);
/// As much earlier a record may say that its call ended than it was written.
const LATE: Duration = Duration::from_secs(30);
/// The longest reason, in characters.
const LONGEST_REASON: usize = 500;
/// The longest record, as bytes of its line.
const LONGEST: u64 = 256 * 1024;
/// The code of a call that ended well.
pub const OK: &str = "ok";

/// One call, field by field as on its line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// The form of the record.
    pub v: u32,
    /// Its number.
    pub seq: u64,
    /// When the call had ended, UTC with milliseconds.
    pub ts: String,
    /// Who called.
    #[serde(flatten)]
    pub caller: Caller,
    /// The tool's name; as it was called when there is none of that name.
    pub tool: String,
    /// The alias by which it was called, if it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The arguments as they came, redacted and bounded.
    pub input: Value,
    /// The input as built, where that differs; absent when it was not built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built: Option<Value>,
    /// What was decided about it, and by which rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Value>,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, waiting included, in milliseconds.
    pub ms: f64,
}

/// Who called, and how the call is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The agent's short name.
    pub agent: String,
    /// The unit that it works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_id: Option<String>,
    /// The agent call.
    pub call_id: String,
    /// The client's session.
    pub session_id: String,
    /// Names this one call.
    pub tool_use_id: String,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// [`OK`], or what went wrong.
    pub code: String,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Names the entry in the program's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_id: Option<String>,
}

/// A call that has ended, before it is a record.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedCall {
    /// Who called.
    pub caller: Caller,
    /// The tool's name.
    pub tool: String,
    /// The alias by which it was called.
    pub alias: Option<String>,
    /// The arguments as they came.
    pub input: Excerpt,
    /// The input as built.
    pub built: Option<Excerpt>,
    /// What was decided about it, and by which rule.
    pub decision: Option<Excerpt>,
    /// How it ended.
    pub outcome: Outcome,
    /// When it ended.
    pub at: Timestamp,
    /// How long it took.
    pub took: Duration,
}

/// The audit log of a project. Its calls block.
#[derive(Clone, Debug)]
pub struct AuditLog {
    journal: Journal,
    store: Store,
    /// What earlier versions have left open to others was closed.
    closed: Arc<Once>,
}

impl AuditLog {
    /// The log of the store's project. Touches no disk.
    pub fn new(store: Store) -> Self {
        Self::with_rotation(store, FULL)
    }

    /// As [`new`](Self::new), with other limits of a file; for tests.
    pub fn with_rotation(store: Store, rotation: Rotation) -> Self {
        let path = RelPath::parse(&format!("{CALLS}/calls.ndjson")).expect("a constant path that keeps every rule");
        let settings = Settings {
            rotation: Some(rotation),
            longest: LONGEST,
            ..Durability::Cached.into()
        };
        Self {
            journal: Journal::new(store.clone(), path, "calls", settings),
            store,
            closed: Arc::new(Once::new()),
        }
    }

    /// Keeps calls, in one write; gives the number of the last. Looks for secrets in what each record keeps, then makes some
    /// 25 system calls.
    ///
    /// # Errors
    /// Why they could not be kept: to be logged, never to fail a call. None of them is kept then.
    pub fn append(&self, calls: impl IntoIterator<Item = EndedCall>) -> Result<u64, StoreError> {
        // Before the lock, for which others wait: it takes longer than the write.
        let records = calls.into_iter().map(record_of).collect();
        self.append_under(self.journal.lock(WAIT)?, records)
    }

    fn append_under(&self, lock: Lock, mut records: Vec<CallRecord>) -> Result<u64, StoreError> {
        self.closed.call_once(|| self.close_to_others());
        let appended = self.journal.append_numbered_under(lock, |next| {
            for (record, seq) in records.iter_mut().zip(next.seq..) {
                record.seq = seq;
            }
            Ok::<_, StoreError>(records)
        })?;
        Ok(appended.seq)
    }

    /// The log is for its user alone: what agents send may hold secrets that nobody can know for such.
    fn close_to_others(&self) {
        let dir = RelPath::parse(CALLS).expect("a constant path that keeps every rule");
        if let Err(error) = self.store.project().close_to_others(&dir) {
            tracing::debug!("the audit log may be open to other users: {error}");
        }
    }

    /// Keeps everybody else from writing, if nobody writes now.
    fn try_lock(&self) -> Option<Lock> {
        self.journal.lock(Duration::ZERO).ok()
    }

    /// The records from number `from` on, oldest first.
    pub fn read_from(&self, from: u64) -> Reader {
        self.journal.read_from(from)
    }

    /// The records from number `from` on, and those that come.
    pub fn follow_from(&self, from: u64) -> Follower {
        self.journal.follow_from(from)
    }

    /// Where to begin to see all records since a time; some before it may come first. See [`Journal::first_since`].
    ///
    /// # Errors
    /// A refused path or an error of the system.
    pub fn first_since(&self, time: Timestamp) -> Result<u64, StoreError> {
        // Records of several processes are written soon after the calls' ends, not in their order.
        self.journal.first_since(time.saturating_sub(LATE).unwrap_or(time))
    }
}

/// The record of a call, without its secrets and its number.
fn record_of(call: EndedCall) -> CallRecord {
    let built = call.built.filter(|built| *built != call.input);
    let mut hidden = Hidden::default();
    let input = redacted::kept(call.input, &mut hidden);
    let built = built.map(|built| redacted::kept(built, &mut hidden));
    // What goes from it for its name is nowhere else.
    let mut decision = call.decision.map(|said| redacted::kept(said, &mut Hidden::default()));
    if let Some(decision) = &mut decision {
        hidden.take_out_of(decision);
    }
    let mut reason = call.outcome.reason;
    if let Some(mended) = reason.as_deref().and_then(|reason| hidden.out_of(reason)) {
        reason = Some(mended);
    }
    let mut reason = reason.map(without_secrets);
    if let Some(reason) = &mut reason
        && let Some((end, _)) = reason.char_indices().nth(LONGEST_REASON)
    {
        reason.truncate(end);
        reason.push('…');
    }
    CallRecord {
        v: FORM,
        seq: 0,
        ts: clock::iso(call.at),
        caller: call.caller,
        // Whatever was sent as a name stands here.
        tool: without_secrets(call.tool),
        alias: call.alias.map(without_secrets),
        input,
        built,
        decision,
        outcome: Outcome { reason, ..call.outcome },
        ms: (call.took.as_secs_f64() * 1e6).round() / 1e3,
    }
}

fn without_secrets(text: String) -> String {
    redacted::without_secrets("", &text).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::{Map, json};

    use super::*;
    use crate::sandbox::{ProjectDir, Sandbox};
    use crate::store::FixedClock;

    pub(super) fn log(dir: &tempfile::TempDir, rotation: Rotation) -> AuditLog {
        let project = Arc::new(ProjectDir::open(dir.path()).unwrap());
        let clock = FixedClock::new("2026-11-30T10:15:00.123Z".parse().unwrap());
        let store = Store::new(Sandbox::new(project, "devloop", Vec::new()), Arc::new(clock));
        AuditLog::with_rotation(store, rotation)
    }

    pub(super) fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(object) => object,
            _ => unreachable!(),
        }
    }

    pub(super) fn call(input: Value, code: &str) -> EndedCall {
        let input = Excerpt::of(&object(input));
        EndedCall {
            caller: Caller {
                agent: "pm".into(),
                unit_id: None,
                call_id: "call-1".into(),
                session_id: "session-1".into(),
                tool_use_id: "test:1".into(),
            },
            tool: "write_todolist".into(),
            alias: None,
            built: Some(input.clone()),
            input,
            decision: Excerpt::of_object(&json!({"allow": true})),
            outcome: Outcome {
                code: code.into(),
                reason: None,
                error_id: None,
            },
            at: "2026-11-30T10:15:00.123Z".parse().unwrap(),
            took: Duration::from_micros(1_234),
        }
    }

    #[test]
    fn a_record_says_everything_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(&dir, FULL);
        assert_eq!(log.append([call(json!({"items": []}), OK)]).unwrap(), 1);
        let text = fs::read_to_string(dir.path().join("agent-state/.calls/calls.ndjson")).unwrap();
        assert_eq!(
            text,
            "{\"v\":1,\"seq\":1,\"ts\":\"2026-11-30T10:15:00.123Z\",\"agent\":\"pm\",\"call_id\":\"call-1\",\
             \"session_id\":\"session-1\",\"tool_use_id\":\"test:1\",\"tool\":\"write_todolist\",\"input\":{\"items\":[]},\
             \"decision\":{\"allow\":true},\"outcome\":{\"code\":\"ok\"},\"ms\":1.234}\n"
        );
        let built = EndedCall {
            built: Some(Excerpt::of(&object(json!({"items": [], "more": 1})))),
            ..call(json!({"items": []}), OK)
        };
        log.append([built]).unwrap();
        let record = log.read_from(2).next().unwrap().unwrap();
        let record: CallRecord = serde_json::from_value(Value::Object(record.fields)).unwrap();
        assert_eq!(record.built, Some(json!({"items": [], "more": 1})));
    }

    #[test]
    fn reasons_lose_secrets_and_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(&dir, FULL);
        let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2");
        let mut ended = call(json!({}), "invalid_input");
        ended.outcome.reason = Some(format!("got {token} {}", "x".repeat(600)));
        log.append([ended]).unwrap();
        let record = log.read_from(1).next().unwrap().unwrap();
        let reason = record.fields["outcome"]["reason"].as_str().unwrap();
        assert!(reason.starts_with("got [redacted: a GitHub token] x"), "{reason}");
        assert_eq!(reason.chars().count(), LONGEST_REASON + 1);
    }

    fn modes(dir: &tempfile::TempDir) -> Vec<(String, u32)> {
        let calls = dir.path().join("agent-state/.calls");
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        let mut modes = vec![(".calls".to_owned(), mode(&calls))];
        for entry in fs::read_dir(&calls).unwrap() {
            let entry = entry.unwrap();
            modes.push((entry.file_name().into_string().unwrap(), mode(&entry.path())));
        }
        modes
    }

    #[test]
    fn the_log_is_for_its_user_alone_also_one_that_was_open_to_others() {
        let small = Rotation {
            bytes: 2_000,
            lines: 4,
            keep: Keep::Newest(2),
        };
        let dir = tempfile::tempdir().unwrap();
        let keep = |log: &AuditLog| {
            for n in 0..10 {
                log.append([call(json!({ "n": n }), OK)]).unwrap();
            }
        };
        let is_private = || {
            let modes = modes(&dir);
            assert!(modes.len() > 4, "rotated files and the index: {modes:?}");
            for (name, mode) in modes {
                assert_eq!(mode, if name == ".calls" { 0o700 } else { 0o600 }, "{name}");
            }
        };
        keep(&log(&dir, small));
        is_private();
        let calls = dir.path().join("agent-state/.calls");
        for entry in fs::read_dir(&calls).unwrap() {
            fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o644)).unwrap();
        }
        fs::set_permissions(&calls, fs::Permissions::from_mode(0o755)).unwrap();
        let later = log(&dir, small);
        keep(&later);
        is_private();
        assert_eq!(later.read_from(1).last().unwrap().unwrap().seq, 20, "and it goes on");
    }

    #[test]
    fn what_repeats_a_secret_loses_it_too() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(&dir, FULL);
        let words = "zebra ".repeat(30);
        let mut ended = call(
            json!({"password": "swordfish", "token": 471_147, "secret": words}),
            "invalid_input",
        );
        let quoted: String = words.chars().take(60).collect();
        ended.outcome.reason = Some(format!("`swordfish` is too short; got 471147 and {quoted}…"));
        ended.decision = Excerpt::of_object(&json!({"signature": "login(swordfish)", "rule": "login"}));
        log.append([ended]).unwrap();
        let record = log.read_from(1).next().unwrap().unwrap();
        let text = serde_json::to_string(&record.fields).unwrap();
        assert!(
            !text.contains("swordfish") && !text.contains("471147") && !text.contains("zebra"),
            "{text}"
        );
        assert_eq!(record.fields["decision"]["rule"], "login");
    }

    #[test]
    fn old_records_go_and_numbers_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let small = Rotation {
            bytes: 2_000,
            lines: 4,
            keep: Keep::Newest(2),
        };
        let log = log(&dir, small);
        for n in 1..=40 {
            assert_eq!(log.append([call(json!({ "n": n }), OK)]).unwrap(), n);
        }
        let kept: Vec<u64> = log.read_from(1).map(|record| record.unwrap().seq).collect();
        assert_eq!(kept.last(), Some(&40));
        assert!(
            kept.len() <= 12 && kept.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "{kept:?}"
        );
    }

    #[test]
    fn a_link_in_the_way_is_an_error_and_is_not_followed() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(dir.path().join("agent-state")).unwrap();
        std::os::unix::fs::symlink(outside.path(), dir.path().join("agent-state/.calls")).unwrap();
        let error = log(&dir, FULL).append([call(json!({}), OK)]).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
