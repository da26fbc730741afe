//! Appends to a journal next to the least that any program must do for the same promise: write the line, and share an
//! fdatasync with whoever waits for one. Both run in turns in one run, on the file system of the target directory.
//!
//! `cargo bench --package devloop-core --bench journal`
//!
//! Also: appends without a disk to wait for, and the first append to a journal of a million lines.

#![expect(clippy::print_stdout, reason = "a program for people who measure")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use devloop_contract::glob::Pattern;
use devloop_core::sandbox::{Durability, ProjectDir, RelPath, Sandbox};
use devloop_core::store::journal::{Keep, Rotation, Settings};
use devloop_core::store::{Journal, Store, SystemClock};
use serde_json::json;

/// One measurement of each side.
const SLICE: Duration = Duration::from_millis(400);
const ROUNDS: usize = 7;
const WAIT: Duration = Duration::from_secs(30);

fn main() {
    // Not a temporary directory of the system: that may be in memory.
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    println!(
        "{:<34} {:>12} {:>12} {:>7}",
        "appends per second (medians)", "journal", "bare", "ratio"
    );
    for threads in [1, 4, 16] {
        compare(place.path(), Durability::Synced, threads);
    }
    for threads in [1, 4] {
        compare(place.path(), Durability::Cached, threads);
    }
    million(place.path());
}

fn compare(place: &Path, durability: Durability, threads: usize) {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let dir = place.join(format!("{durability:?}-{threads}-{round}"));
        fs::create_dir(&dir).expect("a directory");
        let journal = journal(&dir, durability);
        let one = || drop(journal.append(&record(), WAIT).expect("an append"));
        let peer = Bare::new(&dir.join("bare.ndjson"), durability);
        let other = || peer.append();
        // In turns, so that neither always has the quieter half.
        if round % 2 == 0 {
            ours.push(rate(threads, &one));
            bare.push(rate(threads, &other));
        } else {
            bare.push(rate(threads, &other));
            ours.push(rate(threads, &one));
        }
    }
    let (ours, bare) = (median(ours), median(bare));
    let name = format!("{durability:?}, {threads} threads");
    println!("{name:<34} {ours:>12.0} {bare:>12.0} {:>7.2}", ours / bare);
}

fn record() -> serde_json::Value {
    json!({
        "v": 1, "seq": 0, "ts": "2026-11-30T10:15:00.123Z", "pid": "shop", "agent": "coder", "unit_id": "login",
        "call_id": "01a22d3c-2856-7016-8008-cbe609d4d0f9", "session_id": "01a22d3c-2856-7016-8008-cbe609d4d0f9",
        "type": "decision", "level": "info", "summary": "Sessions live in Redis, so that a restart logs nobody out",
        "refs": [{"kind": "req", "id": "REQ-AUTH-001"}],
    })
}

fn journal(dir: &Path, durability: Durability) -> Journal {
    let project = Arc::new(ProjectDir::open(&fs::canonicalize(dir).expect("a directory")).expect("a project"));
    let sandbox = Sandbox::new(project, "coder", vec![Pattern::parse("**").expect("a pattern")]);
    let settings = Settings {
        durability,
        rotation: Some(Rotation {
            bytes: 64 * 1024 * 1024,
            lines: 500_000,
            keep: Keep::All,
        }),
        beside: Some(RelPath::parse("agent-state/timeline").expect("a path")),
        ..durability.into()
    };
    let path = RelPath::parse("timeline.ndjson").expect("a path");
    Journal::new(Store::new(sandbox, Arc::new(SystemClock)), path, "timeline", settings)
}

/// How many times per second `work` is done by so many threads.
fn rate(threads: usize, work: &(dyn Fn() + Sync)) -> f64 {
    let begun = Instant::now();
    let done: usize = std::thread::scope(|scope| {
        let counts: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    while begun.elapsed() < SLICE {
                        work();
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

/// The peer: an open file, a line that is ready, a write under a mutex, and the same group commit.
struct Bare {
    file: File,
    line: Vec<u8>,
    durability: Durability,
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
    fn new(path: &Path, durability: Durability) -> Self {
        let mut line = serde_json::to_vec(&record()).expect("JSON");
        line.push(b'\n');
        let file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
        Self {
            file,
            line,
            durability,
            state: Mutex::default(),
            ended: Condvar::new(),
        }
    }

    fn append(&self) {
        let mut state = self.state.lock().expect("nobody panics");
        (&self.file).write_all(&self.line).expect("a write");
        state.entered += 1;
        let number = state.entered;
        while self.durability == Durability::Synced && state.durable < number {
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

/// The first append of a process to a journal of a million lines, which also has to be rotated away.
fn million(place: &Path) {
    println!("\nfirst append to a million lines     (medians of {ROUNDS})");
    for (name, lines) in [
        ("a million lines, rotated away", 500_000),
        ("a million lines, not rotated", u64::MAX / 100),
    ] {
        let mut times = Vec::new();
        for round in 0..ROUNDS {
            let dir = place.join(format!("million-{lines}-{round}"));
            fs::create_dir(&dir).expect("a directory");
            let path = dir.join("timeline.ndjson");
            let mut text = Vec::with_capacity(64 << 20);
            for seq in 1..=1_000_000 {
                writeln!(text, "{{\"v\":1,\"seq\":{seq},\"ts\":\"2026-11-30T10:15:00.123Z\"}}").expect("memory");
            }
            fs::write(&path, &text).expect("a file");
            File::open(&path).and_then(|file| file.sync_all()).expect("a sync");
            let settings = Settings {
                rotation: Some(Rotation {
                    bytes: 1 << 30,
                    lines,
                    keep: Keep::All,
                }),
                beside: Some(RelPath::parse("agent-state/timeline").expect("a path")),
                ..Durability::Synced.into()
            };
            let begun = Instant::now();
            let project = Arc::new(ProjectDir::open(&fs::canonicalize(&dir).expect("a directory")).expect("a project"));
            let sandbox = Sandbox::new(project, "coder", vec![Pattern::parse("**").expect("a pattern")]);
            let store = Store::new(sandbox, Arc::new(SystemClock));
            let timeline = RelPath::parse("timeline.ndjson").expect("a path");
            let journal = Journal::new(store, timeline, "timeline", settings);
            let appended = journal.append(&record(), WAIT).expect("an append");
            times.push(begun.elapsed().as_secs_f64() * 1_000.0);
            assert_eq!(appended.seq, 1_000_001);
            fs::remove_dir_all(&dir).expect("removed");
        }
        println!("{name:<34} {:>9.2} ms", median(times));
    }
}
