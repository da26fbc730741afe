//! The timeline and many processes: numbers without a gap, processes that are killed, torn ends, full disks, and
//! `devloop timeline` beside all that.
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
mod shown;

use std::fs;
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

const FILE: &str = "timeline.ndjson";
const TORN: &str = "agent-state/timeline/timeline.torn.ndjson";

/// One process's own way to the tools of a project.
struct Caller {
    session: Session,
    runtime: Runtime,
    calls: u64,
}

impl Caller {
    fn new(dir: &Path, agent: AgentId) -> Self {
        let config = Config {
            lock_wait: Duration::from_mins(1),
            ..Config::default()
        };
        let project = Project::new(ProjectDir::open(dir).expect("a directory"), config);
        let identity = identify(agent.agent(), project.path(), Given::default(), None).expect("it fits");
        Self {
            session: Session::new(Arc::new(project), agent.agent(), identity),
            runtime: Builder::new_current_thread().enable_all().build().expect("a runtime"),
            calls: 0,
        }
    }

    /// Appends an entry; calls until somebody else's lock is no reason to fail.
    fn append(&mut self, data: &Value) -> Value {
        let arguments = json!({"type": "test", "summary": "x", "data": data});
        loop {
            self.calls += 1;
            let arguments = arguments.as_object().expect("an object").clone();
            let request = CallRequest::new(
                "timeline_append",
                arguments,
                format!("{}:{}", std::process::id(), self.calls),
            );
            let answer = self.runtime.block_on(self.session.call(request)).to_json();
            if answer["code"] != "busy" {
                return answer;
            }
        }
    }
}

/// The lines of the live file: each one a record, numbered from 1 on without a gap.
fn entries(dir: &Path) -> Vec<Value> {
    let text = fs::read(dir.join(FILE)).unwrap_or_default();
    let Some(lines) = text.strip_suffix(b"\n") else {
        assert!(text.is_empty(), "the last line has no end");
        return Vec::new();
    };
    let entries: Vec<Value> = lines
        .split(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {}", line.escape_ascii())))
        .collect();
    for (entry, seq) in entries.iter().zip(1_u64..) {
        assert_eq!(entry["seq"], seq, "{entry}");
    }
    entries
}

/// A small generator of random numbers: equal runs from equal seeds.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % limit
    }
}
