//! The whole call of `timeline_append`, from arguments to the answer, next to the least that any program must do for the
//! same promise: write the line, and share an fdatasync with whoever waits for one. Both run in turns in one run, on the
//! file system of the target directory.
//!
//! `cargo bench --package devloop-tests --bench timeline`
//!
//! A call also notes that it begins and that it is complete, so that a repetition is known, and tells an event.

#![expect(clippy::print_stdout, reason = "a program for people who measure")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use devloop_core::sandbox::ProjectDir;
use devloop_generated::AgentId;
use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
use devloop_runtime::config::Config;
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::project::Project;
use devloop_runtime::session::Session;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// One measurement of each side.
const SLICE: Duration = Duration::from_millis(400);
const ROUNDS: usize = 7;

fn main() {
    // Not a temporary directory of the system: that may be in memory.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    println!(
        "{:<20} {:>12} {:>12} {:>7}",
        "per second (medians)", "calls", "bare", "ratio"
    );
    for sessions in [1, 4, 16] {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let dir = place.path().join(format!("{sessions}-{round}"));
            fs::create_dir(&dir).expect("a directory");
            let opened = ProjectDir::open(&fs::canonicalize(&dir).expect("a directory")).expect("a project");
            let project = Arc::new(Project::new(opened, Config::default()));
            let peer = Bare::new(&dir.join("bare.ndjson"));
            let calls = || Calls::new(&project);
            let call = |calls: &mut Calls| calls.append();
            let append = |(): &mut ()| peer.append();
            // In turns, so that neither always has the quieter half.
            if round % 2 == 0 {
                ours.push(rate(sessions, calls, call));
                bare.push(rate(sessions, || (), append));
            } else {
                bare.push(rate(sessions, || (), append));
                ours.push(rate(sessions, calls, call));
            }
        }
        let (ours, bare) = (median(ours), median(bare));
        let name = format!("{sessions} sessions");
        println!("{name:<20} {ours:>12.0} {bare:>12.0} {:>7.2}", ours / bare);
    }
}

/// How many times per second `work` is done by so many threads.
fn rate<T>(threads: usize, prepare: impl Fn() -> T + Sync, work: impl Fn(&mut T) + Sync) -> f64 {
    let begun = Instant::now();
    let done: usize = std::thread::scope(|scope| {
        let counts: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = prepare();
                    let mut count = 0;
                    while begun.elapsed() < SLICE {
                        work(&mut mine);
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        counts.into_iter().map(|count| count.join().expect("it ended")).sum()
    });
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let done = done as f64;
    done / begun.elapsed().as_secs_f64()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn arguments() -> Value {
    json!({
        "type": "decision", "summary": "Sessions live in Redis, so that a restart logs nobody out",
        "refs": [{"kind": "req", "id": "REQ-AUTH-001"}],
    })
}

/// One session.
struct Calls {
    session: Session,
    runtime: Runtime,
}

static CALLS: AtomicU64 = AtomicU64::new(0);

impl Calls {
    fn new(project: &Arc<Project>) -> Self {
        let agent = AgentId::Pm.agent();
        let identity = identify(agent, project.path(), Given::default(), None).expect("it fits");
        Self {
            session: Session::new(Arc::clone(project), agent, identity),
            runtime: Builder::new_current_thread().enable_all().build().expect("a runtime"),
        }
    }

    fn append(&mut self) {
        let request = CallRequest {
            tool: "timeline_append".to_owned(),
            arguments: arguments().as_object().expect("an object").clone(),
            tool_use_id: format!("bench:{}", CALLS.fetch_add(1, Ordering::Relaxed)),
            cancel: tokio_util::sync::CancellationToken::new(),
            progress: None,
            approver: None,
        };
        let outcome = self.runtime.block_on(self.session.call(request));
        assert!(matches!(outcome, CallOutcome::Success(_)), "{outcome:?}");
    }
}

/// The peer: an open file, a line that is ready, a write under a mutex, and the same group commit.
struct Bare {
    file: File,
    line: Vec<u8>,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    entered: u64,
    durable: u64,
    led: bool,
}

impl Bare {
    fn new(path: &Path) -> Self {
        let mut line = arguments();
        line["padding"] = json!("x".repeat(200));
        Self {
            file: OpenOptions::new().create(true).append(true).open(path).expect("a file"),
            line: format!("{line}\n").into_bytes(),
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    fn append(&self) {
        let mut state = self.state.lock().expect("nobody panics");
        (&self.file).write_all(&self.line).expect("a write");
        state.entered += 1;
        let number = state.entered;
        while state.durable < number {
            if state.led {
                state = self.ended.wait(state).expect("nobody panics");
                continue;
            }
            state.led = true;
            let all = state.entered;
            drop(state);
            self.file.sync_data().expect("an fdatasync");
            state = self.state.lock().expect("nobody panics");
            state.led = false;
            state.durable = all;
            self.ended.notify_all();
        }
    }
}
