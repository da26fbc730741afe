//! Where the machinery keeps its own files inside a project.
//!
//! Answers for telling them from the files of agents and people. Leaves out what is in them.

use jiff::Timestamp;

use super::clock;

/// Earlier versions of state files.
pub(crate) const HISTORY: &str = "agent-state/history";
/// The calls that are known again.
pub(crate) const REPLAY: &str = "agent-state/.replay";

/// What was called, and how it ended.
pub(crate) const CALLS: &str = "agent-state/.calls";

/// The directories of the machinery.
const DIRECTORIES: &[&str] = &[
    CALLS,
    "agent-state/.cache",
    "agent-state/.events",
    "agent-state/.locks",
    REPLAY,
    HISTORY,
    "agent-state/runs",
    "agent-state/timeline",
];

/// What stands between a state file's name and the time when it was set aside.
pub(crate) const SET_ASIDE: &str = ".corrupt-";

/// Whether a project-relative path is the machinery's: in one of its directories.
pub fn is_machinery(path: &str) -> bool {
    DIRECTORIES.iter().any(|directory| is_within(path, directory))
}

fn is_within(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path is for the user alone who made it: what agents send may hold what no pattern knows for a secret.
pub(crate) fn is_private(path: &str) -> bool {
    is_within(path, CALLS)
}

/// Whether a machinery's path is in the history, whose files specs declare.
pub fn is_history(path: &str) -> bool {
    is_within(path, HISTORY)
}

/// The state file that a path was before it was set aside as broken; `None` for any other path.
pub fn before_set_aside(path: &str) -> Option<&str> {
    set_aside(path).map(|(before, _)| before)
}

/// What a path was before it was set aside, and when that was.
pub(crate) fn set_aside(path: &str) -> Option<(&str, Timestamp)> {
    let (before, stamp) = path.rsplit_once(SET_ASIDE)?;
    // Of two within one millisecond the second has a number, too.
    let (stamp, attempt) = stamp.split_once('-').unwrap_or((stamp, "2"));
    let is_attempt = !attempt.is_empty() && attempt.bytes().all(|byte| byte.is_ascii_digit());
    let time = clock::time_of_stamp(stamp)?;
    (is_attempt && !before.is_empty()).then_some((before, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_matched_whole() {
        assert!(is_machinery("agent-state/.locks/pm-todo.lock"));
        assert!(is_machinery("agent-state/history"));
        assert!(!is_machinery("agent-state/history-of-rome.json"));
        assert!(!is_machinery("agent-state/pm-todo.json"));
        assert!(!is_machinery("units/a/agent-state/history/x"));
    }

    #[test]
    fn the_calls_are_private() {
        assert!(is_private("agent-state/.calls") && is_private("agent-state/.calls/calls.000001.ndjson"));
        assert!(!is_private("agent-state") && !is_private("agent-state/.callsign"));
    }

    #[test]
    fn what_was_set_aside_is_known_by_its_stamp() {
        let file = "agent-state/pm-todo.json";
        for name in [".corrupt-20261130T101500123Z", ".corrupt-20261130T101500123Z-2"] {
            assert_eq!(before_set_aside(&format!("{file}{name}")), Some(file), "{name}");
        }
        for name in [
            "",
            ".corrupt-",
            ".corrupt-notes",
            ".corrupt-20261130T101500123Z-",
            ".corrupt-20261130T1015001234",
        ] {
            assert_eq!(before_set_aside(&format!("{file}{name}")), None, "{name}");
        }
    }
}
