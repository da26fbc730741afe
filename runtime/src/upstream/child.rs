//! The program of a server: started in a group of its own, and ended as a group.
//!
//! Answers for its environment (a few variables of ours that programs can't do without, and those of its configuration;
//! nothing else), for what it writes to standard error, for the order in which it is asked to end, and for its end when
//! this process is killed itself. Leaves out what is said over its standard input and output.
//!
//! When this process is killed, a [`watcher`], which leads the group, ends it. A program that leaves its group is out of
//! reach.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::timeout;

use super::config::Hidden;
use crate::lines::{Line, Lines};
use crate::watcher;

/// What a program gets of our environment: where things are and how texts are written, nothing that grants anything.
const BASE: [&str; 17] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LOGNAME",
    "NO_COLOR",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
];

/// The longest line of standard error that is kept whole.
const STDERR_LINE: usize = 4 * 1024;

/// A running program, and its way in and out.
pub(super) struct Started {
    pub(super) program: Program,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
}

/// A program that was started. Dropped, it is killed with its group.
#[derive(Debug)]
pub(super) struct Program {
    group: Arc<Group>,
    ended: watch::Receiver<Option<Ended>>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    status: Option<ExitStatus>,
}

impl Ended {
    pub(super) fn is_success(self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.status {
            Some(status) => status.fmt(f),
            None => f.write_str("an unknown status"),
        }
    }
}

/// How long a program may take to end: after the end of its input, and after it was told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// After the end of its input.
    pub input: Duration,
    /// After `SIGTERM`; then it is killed.
    pub term: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        // Clients kill a server half a second after they have told it to end.
        Self {
            input: Duration::from_millis(150),
            term: Duration::from_millis(150),
        }
    }
}

/// Starts a program. `said` gets each line that it writes to standard error.
///
/// # Errors
/// The system's, when it can't be started.
pub(super) fn start<'e>(
    command: &str,
    args: &[Hidden],
    env: impl IntoIterator<Item = (&'e String, &'e Hidden)>,
    directory: Option<&Path>,
    said: impl FnMut(&str) + Send + 'static,
) -> io::Result<Started> {
    let mut program = Command::new(command);
    program
        .args(args.iter().map(Hidden::reveal))
        .env_clear()
        .envs(base())
        .envs(env.into_iter().map(|(name, value)| (name, value.reveal())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(directory) = directory {
        program.current_dir(directory);
    }
    let unwatched =
        |error| tracing::debug!("nothing watches over a server in case that this process is killed: {error}");
    let mut watcher = Command::from(watcher::command()).spawn().map_err(unwatched).ok();
    let leader = watcher.as_ref().and_then(id_of);
    // Without a watcher it leads its group itself.
    program.process_group(leader.map_or(0, Pid::as_raw_pid));
    let mut child = program.spawn().inspect_err(|_| {
        if let Some(watcher) = &mut watcher {
            // It would go by itself a second later.
            let _ = watcher.start_kill();
        }
    })?;
    let missing = || io::Error::other("a pipe to the program is missing");
    let leader = leader.or_else(|| id_of(&child));
    let leader = leader.ok_or_else(|| io::Error::other("the program has no process id"))?;
    let group = Arc::new(Group::new(leader));
    let stdin = child.stdin.take().ok_or_else(missing)?;
    let stdout = child.stdout.take().ok_or_else(missing)?;
    let stderr = child.stderr.take().ok_or_else(missing)?;
    tokio::spawn(read_stderr(stderr, said));
    let (tell, ended) = watch::channel(None);
    let processes = Processes {
        program: child,
        watcher,
        group: Arc::clone(&group),
    };
    tokio::spawn(watch_over(processes, tell));
    let program = Program { group, ended };
    Ok(Started { program, stdin, stdout })
}

fn base() -> impl Iterator<Item = (&'static str, OsString)> {
    BASE.into_iter()
        .filter_map(|name| Some((name, std::env::var_os(name)?)))
}

impl Program {
    /// Waits for its end.
    pub(super) async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.unwrap_or(Ended { status: None }),
            Err(_) => Ended { status: None },
        }
    }

    /// Ends it; its input must have been closed. Returns when nothing of its group is left, or when it can't be killed:
    /// how it ended, when it did so by itself.
    pub(super) async fn end(self, grace: Grace) -> Option<Ended> {
        if let Ok(ended) = timeout(grace.input, self.ended()).await {
            return Some(ended);
        }
        self.group.signal(Signal::TERM);
        if timeout(grace.term, self.ended()).await.is_err() {
            self.group.signal(Signal::KILL);
            // What sleeps in the kernel can't be waited for.
            let _ = timeout(Duration::from_secs(2), self.ended()).await;
        }
        None
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
    }
}

/// The processes of a program, as long as it is known that there are any.
#[derive(Debug)]
struct Group {
    leader: Mutex<Option<Pid>>,
}

impl Group {
    fn new(leader: Pid) -> Self {
        Self {
            leader: Mutex::new(Some(leader)),
        }
    }

    fn signal(&self, signal: Signal) {
        let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leader) = *leader {
            // It may be gone, which is what is wanted.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// The leader has ended: what it left behind is killed, and the number may belong to others from now on.
    fn sweep(&self) {
        let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(leader) = leader {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// The processes that must be waited for. Dropped, as when its runtime ends, it kills the group.
struct Processes {
    program: Child,
    watcher: Option<Child>,
    group: Arc<Group>,
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.group.sweep();
    }
}

/// Waits for the program and sweeps up behind it.
async fn watch_over(mut processes: Processes, tell: watch::Sender<Option<Ended>>) {
    let status = processes.program.wait().await.ok();
    processes.group.sweep();
    let _ = tell.send(Some(Ended { status }));
    if let Some(watcher) = &mut processes.watcher {
        // It was killed with its group.
        let _ = watcher.wait().await;
    }
}

fn id_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()?).ok()?)
}

async fn read_stderr(mut stderr: impl AsyncRead + Unpin, mut said: impl FnMut(&str)) {
    let mut lines = Lines::new(STDERR_LINE);
    let mut buffer = vec![0; 8 * 1024];
    let mut tell = |line: Line<'_>| match line {
        Line::Whole(line) => {
            let text = String::from_utf8_lossy(line);
            let text = text.trim_end();
            if !text.is_empty() {
                said(text);
            }
        }
        Line::TooLong { bytes, .. } => said(&format!("(a line of {bytes} bytes)")),
    };
    loop {
        match stderr.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => lines.push(&buffer[..count], &mut tell),
        }
    }
    lines.finish(tell);
}
