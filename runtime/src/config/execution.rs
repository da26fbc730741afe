//! `[execution]` of `devloop.toml`: how many calls run and wait at once, and for how long.
//!
//! Answers for the keys, their ranges and what they make together. Leaves out what the limits do (the executor's).

use std::path::Path;
use std::time::Duration;

use devloop_core::execution::scheduler::{Limits, LimitsError, Room};

use super::Problem;
use super::given::Given;
use super::reading::{Place, Table};
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
    ///
    /// # Errors
    /// Everything that does not go together.
    pub(super) fn of(given: &Given, pauses: Option<Vec<Duration>>) -> Result<Self, Vec<Problem>> {
        let defaults = Settings::default();
        let mut wrong = Vec::new();
        let wait = given.get(&key_of(WAIT)).map(|ms| Duration::from_millis(ms.into()));
        let all = room(given, IN_FLIGHT, &defaults.limits.in_flight, None, &mut wrong);
        let own = room(given, PER_SESSION, &defaults.limits.per_session, Some(&all), &mut wrong);
        let mut number = |key: &str, default: usize, wholes: &[(&str, u32)]| {
            given.part(&key_of(key), count(default), wholes, &mut wrong)
        };
        let waiting = number(WAITING, defaults.limits.waiting, &[]);
        let own_waiting = number(
            WAITING_PER_SESSION,
            defaults.limits.waiting_per_session,
            &[(&key_of(WAITING), waiting)],
        );
        let pending = number(PENDING, defaults.pending, &[]);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let settings = Settings {
            limits: Limits {
                in_flight: all,
                per_session: own,
                waiting_per_session: many(own_waiting),
                waiting: many(waiting),
                wait: wait.unwrap_or(defaults.limits.wait),
            },
            pending: many(pending),
            pauses: pauses.unwrap_or(defaults.pauses),
            history: defaults.history,
        };
        Self::new(settings).map_err(|wrong| {
            let expected = in_execution(&wrong.expected);
            vec![given.wrong(&key_of(&wrong.setting), &wrong.found, &expected)]
        })
    }

    /// Reads the section: keeps its numbers, and answers the pauses, which are one setting.
    pub(super) fn read(
        table: &mut Table<'_, '_>,
        given: &mut Given,
        path: &Path,
        place: impl Fn(usize) -> Place,
    ) -> Option<Vec<Duration>> {
        let calls = count(MOST_CALLS);
        for (key, most) in [
            (WAIT, LONGEST_WAIT_MS),
            (PENDING, calls),
            (WAITING, calls),
            (WAITING_PER_SESSION, calls),
        ] {
            let number = table.number(key, 1, most);
            given.put(table.key(key), number, path, &place);
        }
        for room in [IN_FLIGHT, PER_SESSION] {
            table.within(room, |room| {
                for part in [TOTAL, READ_ONLY, WRITE, EXECUTE] {
                    let number = room.number(part, 1, calls);
                    given.put(room.key(part), number, path, &place);
                }
            });
        }
        let longest = u32::try_from(LONGEST_PAUSE.as_millis()).unwrap_or(u32::MAX);
        let pauses = table.number_list(PAUSES, 0, longest)?;
        if pauses.value.len() > MOST_PAUSES {
            let (key, found) = (table.key(PAUSES), pauses.value.len());
            let message = format!("{key} has {found} pauses; expected at most {MOST_PAUSES}");
            table.wrongs.push(pauses.at, message);
        }
        let pauses = pauses.value.into_iter().map(|ms| Duration::from_millis(ms.into()));
        Some(pauses.collect())
    }
}

const SECTION: &str = "execution";
const WAIT: &str = "turn_wait_ms";
const PENDING: &str = "pending";
const WAITING: &str = "waiting";
const WAITING_PER_SESSION: &str = "waiting_per_session";
const IN_FLIGHT: &str = "in_flight";
const PER_SESSION: &str = "per_session";
const TOTAL: &str = "total";
const READ_ONLY: &str = "read_only";
const WRITE: &str = "write";
const EXECUTE: &str = "execute";
const PAUSES: &str = "retry_pauses_ms";

fn key_of(setting: &str) -> String {
    format!("{SECTION}.{setting}")
}

/// What the executor says is expected names other settings, in backquotes, without their section.
fn in_execution(expected: &str) -> String {
    expected.replacen('`', &format!("`{SECTION}."), 1)
}

fn room(given: &Given, name: &str, default: &Room, within: Option<&Room>, wrong: &mut Vec<Problem>) -> Room {
    let key = |room: &str, part: &str| key_of(&format!("{room}.{part}"));
    let all = |part: fn(&Room) -> usize| within.map(|all| count(part(all)));
    let mut part = |part: &str, default: usize, total: Option<u32>, all: Option<u32>| {
        let total = total.map(|total| (key(name, TOTAL), total));
        let all = all.map(|all| (key(IN_FLIGHT, part), all));
        let wholes: Vec<(&str, u32)> = total.iter().chain(&all).map(|(key, whole)| (&**key, *whole)).collect();
        given.part(&key(name, part), count(default), &wholes, wrong)
    };
    let total = part(TOTAL, default.total, None, all(|all| all.total));
    let mut kind = |name: &str, default: usize, all: Option<u32>| many(part(name, default, Some(total), all));
    Room {
        total: many(total),
        read_only: kind(READ_ONLY, default.read_only, all(|all| all.read_only)),
        write: kind(WRITE, default.write, all(|all| all.write)),
        execute: kind(EXECUTE, default.execute, all(|all| all.execute)),
    }
}

fn many(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn count(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
