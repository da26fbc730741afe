//! Updates of state files through whole calls, next to the least that a durable update must do: write a temporary file,
//! sync it, rename it, sync its directory.
//!
//! `cargo bench --package devloop-tests --bench updates`; `DEVLOOP_LONG=1` makes 10,000 updates of each kind instead of
//! 2,000, `DEVLOOP_BENCH_DIR` says on which disk. The kinds take turns, so that each meets the same moods of the disk.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
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

/// How many updates of one kind come before those of the next.
const TURN: usize = 50;

/// The least that is wanted of the bare rate.
const FLOOR: f64 = 0.6;

#[expect(clippy::print_stdout, reason = "the figures are what it is for")]
fn main() {
    let rounds: usize = if std::env::var_os("DEVLOOP_LONG").is_some() {
        10_000
    } else {
        2_000
    };
    let place = std::env::var_os("DEVLOOP_BENCH_DIR").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    let dir = tempfile::tempdir_in(place).expect("a directory");
    let tools = Tools::at(dir.path());
    tools.begin();
    let bare = Bare::at(dir.path());
    let list = bytes(dir.path(), "pm-todo.json");
    let mut state = Vec::new();
    let mut kinds = [
        Kind::new("bare, the bytes of the todo list", |n| {
            bare.update("bare-todo.json", &list, n);
        }),
        Kind::new("update_todo_item", |n| tools.move_step(n)),
        Kind::new("bare, the bytes of the runtime state", |n| {
            // Read anew for each turn, as the file grows a little.
            if n % TURN == 0 {
                state = bytes(dir.path(), "pm-runtime.json");
            }
            bare.update("bare-runtime.json", &state, n);
        }),
        Kind::new("update_runtime_state", |n| tools.count(n)),
    ];
    for turn in 0..rounds / TURN {
        for kind in &mut kinds {
            let start = Instant::now();
            (turn * TURN..(turn + 1) * TURN).for_each(&mut kind.update);
            kind.took += start.elapsed();
        }
    }
    let rates: Vec<(&str, f64)> = kinds.iter().map(|kind| (kind.name, rate(rounds, kind.took))).collect();
    for (name, rate) in &rates {
        println!("{name:<40} {rate:>8.0}/s");
    }
    for pair in rates.chunks(2) {
        let ratio = pair[1].1 / pair[0].1;
        let verdict = if ratio >= FLOOR { "reached" } else { "MISSED" };
        println!("{:<40} {ratio:>8.2} of the bare rate; {FLOOR} {verdict}", pair[1].0);
    }
}

/// One kind of update, by its number, and how long those so far took.
struct Kind<'a> {
    name: &'static str,
    update: Box<dyn FnMut(usize) + 'a>,
    took: Duration,
}

impl<'a> Kind<'a> {
    fn new(name: &'static str, update: impl FnMut(usize) + 'a) -> Self {
        Self {
            name,
            update: Box::new(update),
            took: Duration::ZERO,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count for people")]
fn rate(rounds: usize, took: Duration) -> f64 {
    rounds as f64 / took.as_secs_f64()
}

fn bytes(dir: &Path, name: &str) -> Vec<u8> {
    fs::read(dir.join("agent-state").join(name)).expect("it was written")
}

/// The peer: nothing is checked, locked, read or told.
struct Bare {
    files: PathBuf,
    dir: File,
}

impl Bare {
    fn at(path: &Path) -> Self {
        let files = path.join("bare");
        fs::create_dir(&files).expect("a directory");
        Self {
            dir: File::open(&files).expect("a directory"),
            files,
        }
    }

    fn update(&self, name: &str, bytes: &[u8], n: usize) {
        let temporary = self.files.join(format!("tmp-{n}"));
        let mut file = File::create_new(&temporary).expect("a new file");
        file.write_all(bytes).expect("written");
        file.sync_all().expect("synced");
        fs::rename(&temporary, self.files.join(name)).expect("renamed");
        self.dir.sync_all().expect("synced");
    }
}

struct Tools {
    session: Session,
    runtime: Runtime,
}

impl Tools {
    fn at(dir: &Path) -> Self {
        let project = Project::new(ProjectDir::open(dir).expect("a directory"), Config::default());
        let agent = AgentId::Pm.agent();
        let identity = identify(agent, project.path(), Given::default(), None).expect("the PM needs nothing more");
        Self {
            session: Session::new(Arc::new(project), agent, identity),
            runtime: Builder::new_current_thread().enable_all().build().expect("a runtime"),
        }
    }

    fn call(&self, tool: &str, input: &Value) {
        let request = CallRequest {
            tool: tool.to_owned(),
            arguments: input.as_object().expect("an object").clone(),
            tool_use_id: "bench".to_owned(),
            cancel: tokio_util::sync::CancellationToken::new(),
            progress: None,
            approver: None,
        };
        let outcome = self.runtime.block_on(self.session.call(request));
        assert!(matches!(outcome, CallOutcome::Success(_)), "{outcome:?}");
    }

    /// A list of 20 steps, and a state with some data.
    fn begin(&self) {
        let items: Vec<Value> = (1..=20)
            .map(|n| {
                let description = format!("Step {n}: read the chapter, write the failing test, make it pass, tidy up");
                json!({ "id": format!("step-{n:03}"), "description": description })
            })
            .collect();
        self.call("write_todolist", &json!({ "items": items }));
        self.count(0);
    }

    fn move_step(&self, n: usize) {
        let id = format!("step-{:03}", 1 + n % 20);
        let input = if (n / 20).is_multiple_of(2) {
            json!({"id": id, "status": "blocked", "reason": "waiting for an answer"})
        } else {
            json!({"id": id, "status": "todo"})
        };
        self.call("update_todo_item", &input);
    }

    fn count(&self, n: usize) {
        let input = json!({"phase": "drafting", "status": "running", "progress_pct": n % 100, "patch": {"pages": n}});
        self.call("update_runtime_state", &input);
    }
}
