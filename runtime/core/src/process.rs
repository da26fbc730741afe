//! Other processes of this machine.
//!
//! Answers for whether one is alive and which one bears a number now. Leaves out starting and ending any.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Whether a process of this number runs. One that ended and was not waited for runs no more; one that cannot be seen
/// from here (another machine's, another container's) neither.
pub(crate) fn is_alive(pid: u32) -> bool {
    if let Some(stat) = Stat::of(pid) {
        return !matches!(stat.state, 'Z' | 'X');
    }
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // Another user's process is one, too.
    matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM))
}

/// When a process began, in the system's own count, where the system tells: the same number later has another one.
pub(crate) fn began(pid: u32) -> Option<u64> {
    Stat::of(pid).map(|stat| stat.began)
}

/// What Linux tells in `/proc/<pid>/stat`; see proc_pid_stat(5).
struct Stat {
    state: char,
    began: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        if !cfg!(target_os = "linux") {
            return None;
        }
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in brackets, may hold anything, brackets and blanks included.
        let mut after_name = text.rsplit_once(')')?.1.split_ascii_whitespace();
        Some(Self {
            state: after_name.next()?.chars().next()?,
            began: after_name.nth(18)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_is_alive_and_an_ended_one_is_not() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(0) && !is_alive(u32::MAX));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(is_alive(child.id()));
        if cfg!(target_os = "linux") {
            assert_ne!(began(child.id()), None);
            assert_eq!(began(child.id()), began(child.id()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
        assert_eq!(began(child.id()), None);
    }
}
