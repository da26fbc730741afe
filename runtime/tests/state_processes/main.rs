//! State files and many processes: naive models of the todo list and the runtime state that the real ones are held to,
//! counting by comparison, readers beside writers, processes that are killed, and disks that are full.
//!
//! The short forms run always; `DEVLOOP_LONG=1` runs them as long as it takes to be sure.

#![cfg(all(feature = "cli", unix))]

#[path = "../children/mod.rs"]
mod children;
mod counting;
mod full;
mod killed;
#[path = "../program/mod.rs"]
mod program;
mod runtime_model;
mod todo_model;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use devloop_core::sandbox::ProjectDir;
use devloop_generated::AgentId;
use devloop_runtime::call::{CallRequest, ToolService};
use devloop_runtime::config::Config;
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::project::Project;
use devloop_runtime::session::Session;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const TODO: &str = "agent-state/pm-todo.json";
const RUNTIME: &str = "agent-state/pm-runtime.json";

/// A project as each process has one of its own, to call its tools.
struct Caller {
    project: Arc<Project>,
    runtime: Runtime,
    calls: u64,
}

impl Caller {
    fn at(dir: &Path) -> Self {
        let config = Config {
            lock_wait: Duration::from_mins(1),
            history_kept: 100_000,
            ..Config::default()
        };
        let project = Project::new(ProjectDir::open(dir).expect("a directory"), config);
        Self {
            project: Arc::new(project),
            runtime: Builder::new_current_thread().enable_all().build().expect("a runtime"),
            calls: 0,
        }
    }

    /// A session of the PM; what is not given is the same for all.
    fn session(&self, session_id: &str, call_id: &str) -> Session {
        let agent = AgentId::Pm.agent();
        let given = Given {
            call_id: Some(call_id.to_owned()),
            session_id: Some(session_id.to_owned()),
            ..Given::default()
        };
        let identity = identify(agent, self.project.path(), given, None).expect("it fits the PM");
        Session::new(Arc::clone(&self.project), agent, identity)
    }

    /// Calls until somebody else's lock is no reason to fail: on a slow machine sixteen may wait longer than a call does.
    fn call(&mut self, session: &Session, tool: &str, input: &Value) -> Value {
        loop {
            self.calls += 1;
            let arguments = input.as_object().expect("an object").clone();
            let request = CallRequest::new(tool, arguments, format!("{}:{}", std::process::id(), self.calls));
            let answer = self.runtime.block_on(session.call(request)).to_json();
            if answer["code"] != "busy" {
                return answer;
            }
        }
    }
}

/// What a process did and was answered, call by call, outside the project's own directories.
struct Log(File);

impl Log {
    fn of(dir: &Path, number: usize) -> Self {
        Self(File::create(dir.join(format!("log.{number}"))).expect("a log"))
    }

    fn write(&mut self, tool: &str, input: &Value, session: &str, answer: &Value) {
        let line = json!({"tool": tool, "input": input, "session": session, "answer": answer});
        writeln!(self.0, "{line}").expect("the log is written");
    }
}

/// One call as a log has it.
#[derive(Clone, Debug)]
struct Call {
    tool: String,
    input: Value,
    session: String,
    answer: Value,
}

fn read_log(dir: &Path, number: usize) -> Vec<Call> {
    let text = fs::read_to_string(dir.join(format!("log.{number}"))).expect("a log");
    let call = |line: &str| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        Call {
            tool: line["tool"].as_str().expect("a name").to_owned(),
            input: line["input"].take(),
            session: line["session"].as_str().expect("a name").to_owned(),
            answer: line["answer"].take(),
        }
    };
    text.lines().map(call).collect()
}

fn state(dir: &Path, path: &str) -> Value {
    let bytes = fs::read(dir.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{path} is not whole: {error}"))
}

/// The payloads of the events of one name, in the order of their numbers, which have no gap.
fn events(dir: &Path, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("agent-state/.events/events.ndjson")).expect("a journal");
    let mut told = Vec::new();
    for (line, seq) in text.lines().zip(1..) {
        let mut event: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(event["seq"], json!(seq));
        if event["name"] == name {
            told.push(event["payload"].take());
        }
    }
    told
}

/// For each call of one process, between which two states of the file it can have been: not before the last state that
/// the process had seen, and not after the next one. `seen` is the number of the state that a call has made or looked
/// at; one that made it was before it until then.
fn windows(
    calls: &[Call],
    seen: impl Fn(&Call) -> Option<u64>,
    made: impl Fn(&Call) -> bool,
    last: u64,
) -> Vec<(u64, u64)> {
    let mut windows = vec![(0, last); calls.len()];
    let mut known = 0;
    for (window, call) in windows.iter_mut().zip(calls) {
        window.0 = known;
        known = seen(call).unwrap_or(known);
    }
    let mut next = last;
    for (window, call) in windows.iter_mut().zip(calls).rev() {
        if let Some(number) = seen(call) {
            assert!(number <= next, "a process goes back in time: {number} before {next}");
            next = if made(call) { number - 1 } else { number };
        }
        window.1 = next;
    }
    windows
}

/// A small generator of random numbers: equal runs from equal seeds.
struct Random(u64);

impl Random {
    fn new(seed: usize) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (seed as u64 + 1).wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
