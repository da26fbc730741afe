//! A second process that leads a group of processes, and ends the group when this process is killed.
//!
//! Answers for starting it and for taking it away. Leaves out the end of the group as long as this process lives, which
//! whoever started it brings about.
//!
//! The end of this process can't be missed by a second one: a shell that waits on a pipe which only we hold. It ends the
//! group a second after the pipe breaks; until then a program that ends with its input can do so by itself.
//! (`PR_SET_PDEATHSIG` would be bound to the thread that started the program, and would reach nothing that the program
//! started.) It runs before there is anything to watch over, and the program is started into its group: so there is no
//! moment at which this process could be killed and the program be missed. A program that leaves the group is out of reach.

use std::io;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Ends its own group a second after standard input breaks.
const SCRIPT: &str = r#"trap '' HUP INT TERM; read -r _; kill -s TERM -- "-$$"; sleep 1; kill -s KILL -- "-$$""#;

/// The program of a watcher, which leads a new group. Its standard input is the pipe. It goes when its group is killed.
pub(crate) fn command() -> Command {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "devloop-guard"])
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

/// A watcher for code that blocks. Dropped, it goes, and the rest of its group stays.
#[derive(Debug)]
pub(crate) struct Watcher(Child);

impl Watcher {
    /// Starts one, and with it a group.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start() -> io::Result<Self> {
        command().spawn().map(Self)
    }

    /// The number of the group. It means nobody else before the watcher is dropped.
    pub(crate) fn group(&self) -> Option<Pid> {
        id_of(&self.0)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // It may have been killed with its group.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The number of a process that was started.
pub(crate) fn id_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}
