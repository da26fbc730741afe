//! Whether a process runs.

use rustix::process::{Pid, test_kill_process};

/// One that nobody has waited for yet does nothing any more either.
pub(crate) fn is_alive(id: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    test_kill_process(Pid::from_raw(id).expect("a process id")).is_ok() && !state.starts_with(['Z', 'X'])
}
