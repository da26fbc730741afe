//! What a call costs that is kept: its record in the audit log, and an artifact. In memory, without a disk to wait for.
//!
//! `TMPDIR=/dev/shm cargo bench -p devloop-core --bench kept`

#![expect(clippy::print_stdout, reason = "a program for people who measure")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use devloop_core::artifacts::page::{From, Room, page};
use devloop_core::artifacts::{ArtifactStore, NewArtifact, oversized};
use devloop_core::audit::{AuditLog, Caller, EndedCall, Excerpt, Outcome};
use devloop_core::sandbox::{ProjectDir, Sandbox};
use devloop_core::store::{Store, SystemClock};
use serde_json::{Map, Value, json};

fn main() {
    let place = tempfile::tempdir().expect("a directory");
    let project = Arc::new(ProjectDir::open(place.path()).expect("a project"));
    let store = Store::new(
        Sandbox::new(Arc::clone(&project), "devloop", Vec::new()),
        Arc::new(SystemClock),
    );
    let log = AuditLog::new(store);
    for (name, items) in [("20 items", 20), ("200 items", 200)] {
        let input = input(items);
        shown(&format!("excerpt of an input of {name}"), 2_000, || {
            drop(Excerpt::of(&input));
        });
        shown(&format!("record of a call with {name}"), 2_000, || {
            log.append([call(&input)]).expect("a record");
        });
    }
    let artifacts = ArtifactStore::new(place.path().join("state"), &project, "session");
    let mut n = 0_u64;
    for (name, size) in [("20 KB", 20_000), ("1 MB", 1_000_000)] {
        let mut bytes = vec![b'x'; size];
        shown(&format!("new artifact of {name}"), 50, || {
            n += 1;
            bytes[..8].copy_from_slice(&n.to_le_bytes());
            put(&artifacts, &bytes);
        });
        shown(&format!("the same artifact of {name} again"), 50, || {
            put(&artifacts, &bytes);
        });
    }
    let value =
        json!({"ok": true, "rows": (0..20_000).map(|n| json!({"n": n, "text": "x".repeat(30)})).collect::<Vec<_>>()});
    let small =
        json!({"ok": true, "rows": (0..20).map(|n| json!({"n": n, "text": "x".repeat(30)})).collect::<Vec<_>>()});
    shown("length of a result of 1 KB", 2_000, || {
        std::hint::black_box(oversized::characters(&small));
    });
    shown("cut of a result of 1 MB", 20, || {
        drop(oversized::cut(&value, &json!({}), oversized::Budget::default(), |_| {
            true
        }));
    });
    let text = "a line of text\n".repeat(70_000);
    let room = Room {
        bytes: 12_000,
        lines: 12_000,
        written: 14_000,
    };
    shown("a part of 1 MB, by a line in its middle", 200, || {
        drop(page(text.as_bytes(), From::Line(35_000), room));
    });
}

fn input(items: usize) -> Map<String, Value> {
    let items: Vec<Value> = (0..items)
        .map(|n| json!({"id": format!("step-{n:03}"), "description": "Write the chapter about logging in"}))
        .collect();
    match json!({ "items": items }) {
        Value::Object(input) => input,
        _ => unreachable!("it is an object"),
    }
}

fn call(input: &Map<String, Value>) -> EndedCall {
    EndedCall {
        caller: Caller {
            agent: "pm".into(),
            unit_id: None,
            call_id: "call-1".into(),
            session_id: "session-1".into(),
            tool_use_id: "toolu-1".into(),
        },
        tool: "write_todolist".into(),
        alias: None,
        input: Excerpt::of(input),
        built: None,
        decision: Excerpt::of_object(&json!({"verdict": "allow", "reason": "granted by the template"})),
        outcome: Outcome {
            code: "ok".into(),
            reason: None,
            error_id: None,
        },
        at: jiff::Timestamp::now(),
        took: Duration::from_micros(100),
    }
}

fn put(store: &ArtifactStore, bytes: &[u8]) {
    let new = NewArtifact {
        kind: "tool_result",
        bytes,
        mime: None,
        source: None,
    };
    store.write(&new).expect("an artifact");
}

/// The median of so many times.
fn shown(what: &str, rounds: usize, mut work: impl FnMut()) {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("{what:<44} {:>10.1} µs", times[rounds / 2].as_secs_f64() * 1e6);
}
