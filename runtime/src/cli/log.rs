//! The program's log on standard error.
//!
//! Answers for what is logged (`DEVLOOP_LOG`) and that a server never waits for whoever reads its standard error: lines
//! go through a bounded queue to a thread of their own, and those that find no room are counted and told later. Leaves
//! out what is worth a line.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::patient;

/// The variable that says what is logged.
const VARIABLE: &str = "DEVLOOP_LOG";

/// Warnings. rmcp warns of every error answer, which the client has been given anyway; and what its client over HTTP
/// calls an error is told as the state of the connection, in words. A wish for more than warnings is added to this.
const DEFAULT_FILTER: &str = "warn,rmcp=error,rmcp::transport::worker=off,rmcp::transport::streamable_http_client=off,rmcp::transport::common=off";

/// As many bytes of lines wait for a reader that is slow.
const QUEUE_LIMIT: usize = 256 * 1024;

/// How lines get to standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// At once, and the program waits for whoever reads: for a program that ends with its answer.
    Direct,
    /// Through the queue: for a program that must go on.
    Queued,
}

/// The queue of lines, if there is one.
#[derive(Debug)]
pub(super) struct Log {
    queue: Option<Arc<Queue>>,
}

impl Log {
    /// Starts the log of this process.
    pub(super) fn start(delivery: Delivery) -> Self {
        let (filter, problem) = filter(std::env::var_os(VARIABLE));
        let coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(coloured)
            .with_target(false);
        let queue = match delivery {
            Delivery::Direct => None,
            // Without a thread or a handle there is the direct way, which is better than no log.
            Delivery::Queued => io::stderr()
                .as_fd()
                .try_clone_to_owned()
                .and_then(|stderr| Queue::start(File::from(stderr)))
                .ok(),
        };
        // A second subscriber can only be a host's own, which then has the log already.
        let _ = match &queue {
            Some(queue) => log.with_writer(Lines(Arc::clone(queue))).try_init(),
            None => log.with_writer(io::stderr).try_init(),
        };
        if queue.is_some() {
            std::panic::set_hook(Box::new(|panic| {
                // The usual hook writes to standard error itself, and would wait for its reader.
                let backtrace = Backtrace::capture();
                if backtrace.status() == BacktraceStatus::Captured {
                    tracing::error!("{panic}\n{backtrace}");
                } else {
                    tracing::error!("{panic}");
                }
            }));
        }
        if let Some(problem) = problem {
            tracing::warn!("{problem}");
        }
        Self { queue }
    }

    /// Waits for the reader to take what is queued, as long as it takes something within `stall`.
    pub(super) fn end(self, stall: Duration) {
        if let Some(queue) = self.queue {
            queue.flushed(stall);
        }
    }
}

/// What is logged, and what is wrong with the wish.
fn filter(wish: Option<std::ffi::OsString>) -> (EnvFilter, Option<String>) {
    let usual = || EnvFilter::new(DEFAULT_FILTER);
    let Some(wish) = wish.filter(|wish| !wish.is_empty()) else {
        return (usual(), None);
    };
    let wish = wish.to_string_lossy();
    let refused = |why: String| {
        let problem = format!(
            "{VARIABLE}={wish:?} is not understood ({why}), so warnings are logged; expected error, warn, info, debug, \
             trace, off, or target=level, with commas between several"
        );
        (usual(), Some(problem))
    };
    // To the library every other word is the name of a target, so that a misspelt level silences all the rest.
    let words: Vec<&str> = wish.split(',').map(str::trim).collect();
    if let Some(word) = words.iter().find(|word| is_no_level(word)) {
        return refused(format!("{word:?} is no level"));
    }
    match EnvFilter::try_new(meant(&words)) {
        Ok(filter) => (filter, None),
        Err(error) => refused(error.to_string()),
    }
}

/// What a wish means. A level that is more than warnings is for devloop's own lines: libraries would print every input,
/// secrets included. Who wants their lines names them.
fn meant(words: &[&str]) -> String {
    let is_more = |word: &&str| word.parse::<LevelFilter>().is_ok_and(|level| level > LevelFilter::WARN);
    if !words.iter().any(is_more) {
        return words.join(",");
    }
    let names_rmcp = words.iter().any(|word| word.starts_with("rmcp="));
    let usual = DEFAULT_FILTER
        .split(',')
        .filter(|usual| !(names_rmcp && usual.starts_with("rmcp")));
    let wished = words.iter().map(|word| {
        if is_more(word) {
            format!("devloop={word}")
        } else {
            (*word).to_owned()
        }
    });
    usual.map(str::to_owned).chain(wished).collect::<Vec<_>>().join(",")
}

fn is_no_level(word: &str) -> bool {
    !word.is_empty() && !word.contains(['=', '[', ':']) && word.parse::<LevelFilter>().is_err()
}

/// Lines on their way to a file.
#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    /// Wakes the writing thread.
    ready: Condvar,
    /// Something was written.
    progress: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// Taken by the thread and not yet written.
    writing: usize,
    /// Lines that found no room since the last that did.
    lost: u64,
}

impl Queue {
    fn start(mut sink: File) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self {
            state: Mutex::default(),
            ready: Condvar::new(),
            progress: Condvar::new(),
        });
        let shared = Arc::clone(&queue);
        std::thread::Builder::new().name("log".into()).spawn(move || {
            loop {
                let bytes = shared.take();
                // A standard error that cannot be written leaves nowhere to say so; lines are taken and forgotten.
                let _ = patient::write(&mut sink, &bytes, |count| shared.written(count));
                shared.written(usize::MAX);
            }
        })?;
        Ok(queue)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line, or counts it as lost.
    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.bytes.len() + state.writing + line.len() > QUEUE_LIMIT {
            state.lost += 1;
            return;
        }
        state.tell_of_lost();
        state.bytes.extend_from_slice(line);
        drop(state);
        self.ready.notify_one();
    }

    /// Waits for lines.
    fn take(&self) -> Vec<u8> {
        let mut state = self.lock();
        while state.bytes.is_empty() && state.lost == 0 {
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.tell_of_lost();
        let bytes = std::mem::take(&mut state.bytes);
        state.writing = bytes.len();
        bytes
    }

    fn written(&self, count: usize) {
        let mut state = self.lock();
        state.writing = state.writing.saturating_sub(count);
        drop(state);
        self.progress.notify_all();
    }

    fn flushed(&self, stall: Duration) {
        let mut state = self.lock();
        loop {
            let left = state.bytes.len() + state.writing;
            if left == 0 {
                return;
            }
            let (next, waited) = self
                .progress
                .wait_timeout(state, stall)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
            if waited.timed_out() && state.bytes.len() + state.writing >= left {
                return;
            }
        }
    }
}

impl State {
    fn tell_of_lost(&mut self) {
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            let told = format!("… here {lost} lines of the log are missing: standard error was not read in time\n");
            self.bytes.extend_from_slice(told.as_bytes());
        }
    }
}

/// Makes each event one line of the queue; the formatter writes an event at once.
struct Lines(Arc<Queue>);

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Queue;

    fn make_writer(&'a self) -> Self::Writer {
        &self.0
    }
}

impl Write for &Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn a_reader_that_comes_late_is_told_how_many_lines_it_missed() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = Queue::start(File::from(OwnedFd::from(writer))).unwrap();
        let line = format!("{}\n", "x".repeat(1_023));
        // More than the pipe and the queue hold; none of these waits.
        let all = 2_000_u64;
        for _ in 0..all {
            queue.push(line.as_bytes());
        }
        let mut lines = BufReader::new(reader).lines();
        let (mut whole, mut lost) = (0, 0);
        while whole + lost < all {
            let seen = lines.next().unwrap().unwrap();
            if let Some(rest) = seen.strip_prefix("… here ") {
                lost += rest.split(' ').next().unwrap().parse::<u64>().unwrap();
            } else {
                assert_eq!(seen.len(), 1_023);
                whole += 1;
            }
        }
        assert!(lost > 0 && whole + lost == all, "{whole} whole, {lost} lost");
        // What was read may not be counted as written yet.
        queue.flushed(Duration::from_secs(5));
        queue.push(b"after\n");
        assert_eq!(lines.next().unwrap().unwrap(), "after");
        queue.flushed(Duration::from_secs(5));
        assert_eq!(queue.lock().writing, 0);
    }

    #[test]
    fn a_level_is_for_devloop_and_a_library_is_named() {
        assert_eq!(meant(&["debug"]), format!("{DEFAULT_FILTER},devloop=debug"));
        assert_eq!(meant(&["info", "rmcp=trace"]), "warn,devloop=info,rmcp=trace");
        let inner = "rmcp::service=debug";
        assert_eq!(meant(&["5", inner]), format!("{DEFAULT_FILTER},devloop=5,{inner}"));
        for as_it_is in ["warn", "error", "off", "devloop_runtime::mcp=debug"] {
            assert_eq!(meant(&[as_it_is]), as_it_is);
        }
    }

    #[test]
    fn a_wish_that_is_no_filter_is_refused_with_what_is_wrong_in_it() {
        for good in [
            "",
            "debug",
            "WARN",
            "off",
            "info,rmcp=trace",
            "devloop_runtime::mcp=debug",
            "warn, rmcp=off",
        ] {
            assert_eq!(filter(Some(good.into())).1, None, "{good}");
        }
        assert_eq!(filter(None).1, None);
        for (bad, part) in [
            ("verbose", "\"verbose\" is no level"),
            ("warn,inof", "inof"),
            ("a=b=c", "a=b=c"),
        ] {
            let (used, problem) = filter(Some(bad.into()));
            let problem = problem.unwrap_or_else(|| panic!("{bad} is taken as {used}"));
            assert!(problem.contains(part) && problem.contains("DEVLOOP_LOG"), "{problem}");
            assert_eq!(used.to_string(), EnvFilter::new(DEFAULT_FILTER).to_string());
        }
    }
}
