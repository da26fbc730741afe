//! Runtime states: what an agent is doing now, and whether it is still there.
//!
//! Answers for the form of `agent-state/{state_key}-runtime.json` and for how one call changes it: versions, heartbeats,
//! which session may write, phases, and the data that an agent keeps with it. Leaves out reading and writing (the
//! store), that nobody else writes meanwhile (the lock of the handler), and who is told (the handler).
//!
//! **Versions and heartbeats.** Every accepted call raises `heartbeat_seq` by one, so that numbers put all writes in
//! order. `version` is raised by the calls that say something ([`Update::says_something`]): a heartbeat breaks nobody's
//! `expected_version`.
//!
//! **Sessions.** One session of an agent writes at a time. A session that was never seen takes over from the one
//! before; a session that was taken over is refused from then on, as it may have been asleep and act on what is no
//! longer so. Ids have no order that could be trusted, so the state remembers the last [`SESSIONS_REMEMBERED`]
//! sessions that were taken over.
//!
//! **Time.** `heartbeat_at` never decreases, whatever the clock does, and no other time of a state is later. Whether an
//! agent is still there is best judged by whether `heartbeat_seq` grows within `ttl_s` of the observer's own clock.

mod merge;
mod phases;
#[cfg(test)]
mod tests;

use devloop_contract::ValidationError;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::store::state::whole;
use crate::store::{StateFile, clock};
use crate::text::json_bytes;
use crate::todo::is_step_id;

pub use self::merge::{depth, depth_of_object, merge, merge_object};
pub use self::phases::PhaseGraph;

/// The largest patch, in bytes of its shortest JSON.
pub const LARGEST_PATCH: u64 = 16 * 1024;

/// How many levels of objects and arrays a patch may have, itself included. A merge makes nothing deeper than that.
pub const DEEPEST_PATCH: usize = 8;

/// The most data that is kept, in bytes of its shortest JSON: every answer has all of it.
pub const LARGEST_DATA: u64 = 32 * 1024;

/// How many sessions that were taken over are remembered.
pub const SESSIONS_REMEMBERED: usize = 64;

/// How long an agent may be silent until somebody should look, when it has never said otherwise.
pub const DEFAULT_TTL_S: u32 = 120;

/// The shortest time between an event and that of a heartbeat.
pub const HEARTBEAT_EVENTS_APART: SignedDuration = SignedDuration::from_secs(1);

/// What an agent is doing, as it stands on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuntimeState {
    /// Raised by one with every call that says something.
    #[serde(deserialize_with = "whole")]
    pub version: u64,
    /// Raised by one with every call.
    #[serde(deserialize_with = "whole")]
    pub heartbeat_seq: u64,
    /// When the last call was, UTC; never before the one before it.
    #[serde(default)]
    pub heartbeat_at: String,
    /// The session that writes.
    #[serde(default)]
    pub session_id: String,
    /// The agent whose state it is: its short name.
    #[serde(default)]
    pub agent: String,
    /// The agent call that wrote last.
    #[serde(default)]
    pub call_id: String,
    /// The phase of the work.
    #[serde(default)]
    pub phase: Option<String>,
    /// When the phase began, UTC.
    #[serde(default)]
    pub phase_since: Option<String>,
    /// How it goes.
    #[serde(default)]
    pub status: Option<Status>,
    /// The step of the todo list that is in work.
    #[serde(default)]
    pub current_step: Option<String>,
    /// A sentence for people.
    #[serde(default)]
    pub message: Option<String>,
    /// How far the work is.
    #[serde(default)]
    pub progress_pct: Option<u8>,
    /// How many seconds of silence are no reason to look.
    #[serde(default = "default_ttl_s")]
    pub ttl_s: u32,
    /// When the version was raised last, UTC.
    #[serde(default)]
    pub updated_at: Option<String>,
    /// Whatever the agent keeps here.
    #[serde(default)]
    pub data: Map<String, Value>,
    /// When an event told of the state last, UTC by the clock of then. Machinery: not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_at: Option<String>,
    /// The sessions that were taken over, the last one last. Machinery: not shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<String>,
    /// What others keep in the file; carried along untouched.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl StateFile for RuntimeState {
    fn check(&self) -> Result<(), String> {
        match &self.current_step {
            Some(id) if !is_step_id(id) => Err(format!(
                "its `current_step` is `{id}`; a step is `step-` and three digits"
            )),
            _ => Ok(()),
        }
    }
}

fn default_ttl_s() -> u32 {
    DEFAULT_TTL_S
}

/// How the work goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing to do.
    Idle,
    /// At work.
    Running,
    /// Waiting for somebody or something that will come.
    Waiting,
    /// Waiting for what will not come by itself.
    Blocked,
    /// Something went wrong.
    Error,
    /// Finished.
    Done,
}

/// What becomes of the step in work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StepChange {
    /// It stays.
    #[default]
    Keep,
    /// None is in work any more.
    Clear,
    /// This one is.
    Set(String),
}

/// One call. What is `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// The phase of the work.
    pub phase: Option<String>,
    /// How it goes.
    pub status: Option<Status>,
    /// The step in work.
    pub current_step: StepChange,
    /// A sentence for people; an empty one takes the last one away.
    pub message: Option<String>,
    /// How far the work is.
    pub progress_pct: Option<u8>,
    /// How many seconds of silence are no reason to look.
    pub ttl_s: Option<u32>,
    /// A merge patch on the data; one without a key says nothing.
    pub patch: Map<String, Value>,
    /// The version that the caller has seen; 0 when there was no state.
    pub expected_version: Option<u64>,
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// The agent's short name.
    pub agent: &'a str,
    /// The agent call.
    pub call_id: &'a str,
    /// The session.
    pub session_id: &'a str,
}

/// What kind of call it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// That the agent is still there.
    Heartbeat,
    /// Something about its work.
    Something,
}

/// A state that is to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The state from now on.
    pub state: RuntimeState,
    /// What kind of call made it.
    pub said: Said,
    /// Whether an event tells of it, which the state has noted already.
    pub event_is_due: bool,
}

/// Why a call is refused. The state stays as it was.
#[derive(Clone, Debug, PartialEq)]
pub enum Refused {
    /// The call makes no sense for any state.
    Invalid(ValidationError),
    /// Another session has taken over from the caller's.
    Fenced {
        /// The session that writes now.
        session_id: String,
    },
    /// The state is not the one that the caller has seen.
    VersionConflict {
        /// The version that it has; 0 when there is none.
        current_version: u64,
    },
    /// The loop does not let this phase follow.
    IllegalPhase {
        /// Those that it does.
        allowed: Vec<String>,
    },
    /// The patch, or the data with it, is too large.
    TooLarge {
        /// Which of the two.
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The most that is allowed.
        limit: u64,
    },
}

impl Update {
    /// Whether the call is more than a heartbeat. One that repeats what the state says already is.
    pub fn says_something(&self) -> bool {
        let Self {
            phase,
            status,
            current_step,
            message,
            progress_pct,
            ttl_s,
            patch,
            expected_version: _,
        } = self;
        phase.is_some()
            || status.is_some()
            || *current_step != StepChange::Keep
            || message.is_some()
            || progress_pct.is_some()
            || ttl_s.is_some()
            || !patch.is_empty()
    }

    /// Checks what can be known without the state. Cost: linear in the patch.
    ///
    /// # Errors
    /// A patch that is too deep or too large.
    pub fn check(&self) -> Result<(), Refused> {
        let depth = depth_of_object(&self.patch);
        if depth > DEEPEST_PATCH {
            let reason = format!(
                "has {depth} levels of objects and arrays; at most {DEEPEST_PATCH} are kept. Keep the inner ones in a file \
                 and name that"
            );
            return Err(Refused::Invalid(ValidationError::one("patch", reason)));
        }
        within("patch", size(&self.patch), LARGEST_PATCH)
    }
}

impl RuntimeState {
    /// What a call makes of the state, or of there being none. Cost: linear in the state and the patch.
    ///
    /// # Errors
    /// The first rule that forbids it: the form of the call, the session, the version, the phase, the size.
    pub fn carry_out(
        before: Option<&Self>,
        update: &Update,
        by: By<'_>,
        phases: Option<&PhaseGraph>,
        now: Timestamp,
    ) -> Result<Accepted, Refused> {
        update.check()?;
        let mut state = before.cloned().unwrap_or_else(Self::nothing);
        state.seat(by)?;
        if update
            .expected_version
            .is_some_and(|expected| expected != state.version)
        {
            return Err(Refused::VersionConflict {
                current_version: state.version,
            });
        }
        let heard = state.hear(now);
        let said = if update.says_something() {
            state.take(update, &heard, phases)?;
            Said::Something
        } else {
            Said::Heartbeat
        };
        let event_is_due = said == Said::Something || state.heartbeat_event_is_due(now);
        if event_is_due {
            state.event_at = Some(clock::iso(now));
        }
        Ok(Accepted {
            state,
            said,
            event_is_due,
        })
    }

    /// The state as answers show it: without what only the machinery needs, and without what others keep in the file,
    /// which may be of any size.
    pub fn shown(&self) -> Map<String, Value> {
        let shown = Self {
            event_at: None,
            superseded: Vec::new(),
            more: Map::new(),
            ..self.clone()
        };
        match serde_json::to_value(shown) {
            Ok(Value::Object(shown)) => shown,
            // A struct with text keys is always one.
            _ => Map::new(),
        }
    }

    /// What stands where there is no file.
    fn nothing() -> Self {
        Self {
            version: 0,
            heartbeat_seq: 0,
            heartbeat_at: String::new(),
            session_id: String::new(),
            agent: String::new(),
            call_id: String::new(),
            phase: None,
            phase_since: None,
            status: None,
            current_step: None,
            message: None,
            progress_pct: None,
            ttl_s: DEFAULT_TTL_S,
            updated_at: None,
            data: Map::new(),
            event_at: None,
            superseded: Vec::new(),
            more: Map::new(),
        }
    }

    /// Lets the caller's session write, if it may.
    fn seat(&mut self, by: By<'_>) -> Result<(), Refused> {
        if self.session_id != by.session_id {
            if self.superseded.iter().any(|id| id == by.session_id) {
                return Err(Refused::Fenced {
                    session_id: self.session_id.clone(),
                });
            }
            let left = std::mem::replace(&mut self.session_id, by.session_id.to_owned());
            // A file that somebody has written by hand may name none.
            if !left.is_empty() {
                self.superseded.push(left);
            }
            let forgotten = self.superseded.len().saturating_sub(SESSIONS_REMEMBERED);
            self.superseded.drain(..forgotten);
        }
        by.agent.clone_into(&mut self.agent);
        by.call_id.clone_into(&mut self.call_id);
        Ok(())
    }

    /// Counts the call as a sign of life; the time by which it counts.
    fn hear(&mut self, now: Timestamp) -> String {
        self.heartbeat_seq = self.heartbeat_seq.saturating_add(1);
        // What is no time, in a file that anybody may have edited, holds nothing up.
        let last = self.heartbeat_at.parse::<Timestamp>().ok();
        self.heartbeat_at = clock::iso(last.map_or(now, |last| last.max(now)));
        self.heartbeat_at.clone()
    }

    fn take(&mut self, update: &Update, heard: &str, phases: Option<&PhaseGraph>) -> Result<(), Refused> {
        self.version = self.version.saturating_add(1);
        self.updated_at = Some(heard.to_owned());
        if let Some(phase) = &update.phase {
            let from = self.phase.as_deref();
            if let Some(graph) = phases.filter(|graph| !graph.allows(from, phase)) {
                return Err(Refused::IllegalPhase {
                    allowed: graph.allowed(from).into_iter().map(str::to_owned).collect(),
                });
            }
            if from != Some(phase) {
                self.phase = Some(phase.clone());
                self.phase_since = Some(heard.to_owned());
            }
        }
        self.status = update.status.or(self.status);
        match &update.current_step {
            StepChange::Keep => {}
            StepChange::Clear => self.current_step = None,
            StepChange::Set(id) => self.current_step = Some(id.clone()),
        }
        if let Some(message) = &update.message {
            self.message = Some(message.clone()).filter(|message| !message.is_empty());
        }
        self.progress_pct = update.progress_pct.or(self.progress_pct);
        self.ttl_s = update.ttl_s.unwrap_or(self.ttl_s);
        if !update.patch.is_empty() {
            let before = size(&self.data);
            merge_object(&mut self.data, &update.patch);
            // Data that somebody else has made too large can still be made smaller.
            within("data", size(&self.data), LARGEST_DATA.max(before))?;
        }
        Ok(())
    }

    /// Whether the last event is long enough ago, by a clock that may have been set meanwhile.
    fn heartbeat_event_is_due(&self, now: Timestamp) -> bool {
        let last = self.event_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        last.is_none_or(|last| now.duration_since(last).abs() >= HEARTBEAT_EVENTS_APART)
    }
}

impl Status {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Error => "error",
            Self::Done => "done",
        }
    }
}

fn within(what: &'static str, bytes: u64, limit: u64) -> Result<(), Refused> {
    if bytes > limit {
        return Err(Refused::TooLarge { what, bytes, limit });
    }
    Ok(())
}

fn size(object: &Map<String, Value>) -> u64 {
    json_bytes(object) as u64
}
