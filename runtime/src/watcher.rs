//! A second process that ends a group of processes when this one is killed.
//!
//! Answers for starting it and for letting it go. Leaves out the group itself, which whoever started it ends as long as
//! this process lives.
//!
//! The end of this process can't be missed by a second one: a shell that waits on a pipe which only we hold. It ends the
//! group a second after the pipe breaks; until then a program that ends with its input can do so by itself.
//! (`PR_SET_PDEATHSIG` would be bound to the thread that started the program, and would reach nothing that the program
//! started.) A program that leaves its group is out of reach.

use std::io::{self, Write as _};
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Ends the group `$1` a second after standard input breaks, unless a line came before.
const SCRIPT: &str =
    r#"trap '' HUP INT TERM; read -r _ && exit 0; kill -s TERM -- "-$1"; sleep 1; kill -s KILL -- "-$1""#;

/// What is written to it when the group has ended.
pub(crate) const DONE: &[u8] = b"done\n";

/// The program of a watcher over the group of this leader. Its standard input is the pipe.
pub(crate) fn command(leader: Pid) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "devloop-guard", &leader.as_raw_pid().to_string()])
        .env_clear()
        .env("PATH", path)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Out of reach of what a terminal sends to us.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command
}

/// A watcher for code that blocks. Dropped, it goes and does nothing.
#[derive(Debug)]
pub(crate) struct Watcher(Child);

impl Watcher {
    /// Starts one.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn over(leader: Pid) -> io::Result<Self> {
        command(leader).spawn().map(Self)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            // It may have been killed, and then does nothing either.
            let _ = stdin.write_all(DONE);
        }
        let _ = self.0.wait();
    }
}
