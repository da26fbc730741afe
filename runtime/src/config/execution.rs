//! `[execution]` of `devloop.toml`: how many calls run and wait at once, and for how long.
//!
//! Answers for the keys, their ranges and what they make together. Leaves out what the limits do (the executor's).

use std::path::Path;
use std::time::Duration;

use devloop_core::execution::scheduler::{Limits, LimitsError, Room};
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::given::Given;
use super::permissions::Wrong;
use crate::execution::{Executor, LONGEST_PAUSE, MOST_CALLS, MOST_PAUSES, Settings};

/// The longest wait that may be set: a week.
const LONGEST_WAIT_MS: u32 = 7 * 24 * 60 * 60 * 1_000;

/// Settings of an executor that make sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution(Settings);

impl Execution {
    /// Settings that were judged.
    ///
    /// # Errors
    /// The first setting that makes no sense.
    pub fn new(settings: Settings) -> Result<Self, LimitsError> {
        settings.check().map(|()| Self(settings))
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0
    }

    /// What keeps the settings: the executor of the process for the default ones, one of its own for others.
    pub(crate) fn executor(&self) -> Executor {
        if self.0 == Settings::default() {
            return Executor::of_process();
        }
        Executor::new(self.0.clone()).expect("the settings were judged when this was made")
    }

    /// The settings that all files together make: what no file says follows the whole that it is a part of.
    pub(super) fn of(given: &Given, pauses: Option<Vec<Duration>>) -> Result<Self, ConfigError> {
        let defaults = Settings::default();
        let number = |key: &str, default: usize| given.part(&key_of(key), count(default), u32::MAX);
        let wait = given.get(&key_of(WAIT)).map(|ms| Duration::from_millis(ms.into()));
        let all = room(given, IN_FLIGHT, &defaults.limits.in_flight, None);
        let waiting = number("waiting", defaults.limits.waiting);
        let settings = Settings {
            limits: Limits {
                per_session: room(given, PER_SESSION, &defaults.limits.per_session, Some(&all)),
                in_flight: all,
                waiting_per_session: many(given.part(
                    &key_of("waiting_per_session"),
                    count(defaults.limits.waiting_per_session),
                    waiting,
                )),
                waiting: many(waiting),
                wait: wait.unwrap_or(defaults.limits.wait),
            },
            pending: many(number("pending", defaults.pending)),
            pauses: pauses.unwrap_or(defaults.pauses),
            history: defaults.history,
        };
        Self::new(settings)
            .map_err(|wrong| given.wrong(&key_of(&wrong.setting), &wrong.found, &in_execution(&wrong.expected)))
    }
}

const WAIT: &str = "turn_wait_ms";
const IN_FLIGHT: &str = "in_flight";
const PER_SESSION: &str = "per_session";

fn key_of(setting: &str) -> String {
    format!("execution.{setting}")
}

/// What the executor says is expected names other settings, in backquotes, without their section.
fn in_execution(expected: &str) -> String {
    expected.replacen('`', "`execution.", 1)
}

fn room(given: &Given, name: &str, default: &Room, within: Option<&Room>) -> Room {
    let key = |part: &str| key_of(&format!("{name}.{part}"));
    let whole = within.map_or(u32::MAX, |all| count(all.total));
    let total = given.part(&key("total"), count(default.total), whole);
    let part = |part: &str, default: usize, all: Option<usize>| {
        let whole = all.map_or(total, |all| total.min(count(all)));
        many(given.part(&key(part), count(default), whole))
    };
    Room {
        total: many(total),
        read_only: part("read_only", default.read_only, within.map(|all| all.read_only)),
        write: part("write", default.write, within.map(|all| all.write)),
        execute: part("execute", default.execute, within.map(|all| all.execute)),
    }
}

fn many(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The section as written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Section {
    turn_wait_ms: Option<Spanned<i64>>,
    pending: Option<Spanned<i64>>,
    waiting: Option<Spanned<i64>>,
    waiting_per_session: Option<Spanned<i64>>,
    #[serde(default)]
    in_flight: RoomSection,
    #[serde(default)]
    per_session: RoomSection,
    retry_pauses_ms: Option<Spanned<Vec<Spanned<i64>>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoomSection {
    total: Option<Spanned<i64>>,
    read_only: Option<Spanned<i64>>,
    write: Option<Spanned<i64>>,
    execute: Option<Spanned<i64>>,
}

impl Section {
    /// Judges each number by itself and keeps it; answers the pauses, which are one setting.
    pub(super) fn keep(
        self,
        given: &mut Given,
        path: &Path,
        place: impl Fn(usize) -> (usize, usize),
    ) -> Result<Option<Vec<Duration>>, Wrong> {
        let calls = count(MOST_CALLS);
        let mut keep = |setting: &str, said: Option<Spanned<i64>>, most: u32| {
            let Some(said) = said else { return Ok(()) };
            let at = said.span().start;
            let value = between(&key_of(setting), &said, 1, most)?;
            given.put(key_of(setting), value, path, place(at));
            Ok(())
        };
        keep(WAIT, self.turn_wait_ms, LONGEST_WAIT_MS)?;
        keep("pending", self.pending, calls)?;
        keep("waiting", self.waiting, calls)?;
        keep("waiting_per_session", self.waiting_per_session, calls)?;
        for (name, room) in [(IN_FLIGHT, self.in_flight), (PER_SESSION, self.per_session)] {
            for (part, said) in [
                ("total", room.total),
                ("read_only", room.read_only),
                ("write", room.write),
                ("execute", room.execute),
            ] {
                keep(&format!("{name}.{part}"), said, calls)?;
            }
        }
        let Some(pauses) = self.retry_pauses_ms else {
            return Ok(None);
        };
        let at = pauses.span().start;
        let pauses = pauses.into_inner();
        if pauses.len() > MOST_PAUSES {
            let message = format!(
                "execution.retry_pauses_ms has {} pauses; expected at most {MOST_PAUSES}",
                pauses.len()
            );
            return Err(Wrong { at, message });
        }
        let longest = u32::try_from(LONGEST_PAUSE.as_millis()).unwrap_or(u32::MAX);
        let pauses = pauses
            .iter()
            .map(|pause| between("a pause of execution.retry_pauses_ms", pause, 0, longest));
        let pauses: Result<Vec<u32>, Wrong> = pauses.collect();
        Ok(Some(
            pauses?.into_iter().map(|ms| Duration::from_millis(ms.into())).collect(),
        ))
    }
}

/// A number within its range.
pub(super) fn between(key: &str, said: &Spanned<i64>, least: u32, most: u32) -> Result<u32, Wrong> {
    let value = *said.get_ref();
    match u32::try_from(value) {
        Ok(fitting) if (least..=most).contains(&fitting) => Ok(fitting),
        _ => Err(Wrong {
            at: said.span().start,
            message: format!("{key} is {value}; expected {least} to {most}"),
        }),
    }
}
