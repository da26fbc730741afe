//! What the record of one call costs: mostly the search for secrets in its texts. Many records are written at once, so that
//! little of the write is in the figure, and by a thread that is not the first one to search, as in a server.
//!
//! `TMPDIR=/dev/shm taskset -c 0 cargo bench -p devloop-core --bench audit`

#![expect(clippy::print_stdout, reason = "a program for people who measure")]

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use devloop_core::audit::{AuditLog, Caller, EndedCall, Excerpt, Outcome};
use devloop_core::sandbox::{ProjectDir, Sandbox};
use devloop_core::store::{Store, SystemClock};
use serde_json::{Value, json};

/// Records of one write.
const AT_ONCE: u32 = 64;
const ROUNDS: usize = 200;

fn main() {
    let place = tempfile::tempdir().expect("a directory");
    let project = Arc::new(ProjectDir::open(place.path()).expect("a project"));
    let sandbox = Sandbox::new(project, "devloop", Vec::new());
    let log = AuditLog::new(Store::new(sandbox, Arc::new(SystemClock)));
    log.append([call(&json!({"text": "the first"}))]).expect("a record");
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let measured = thread::spawn(move || {
        for (name, input) in inputs() {
            if chosen.is_empty() || chosen.iter().any(|part| name.contains(part.as_str())) {
                measure(name, &log, &input);
            }
        }
    });
    measured.join().expect("it has measured");
}

fn inputs() -> Vec<(&'static str, Value)> {
    let steps = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|n| {
                json!({
                    "id": format!("step-{n:03}"),
                    "description": format!("Step {n}: write the failing test and make it pass"),
                })
            })
            .collect()
    };
    let short: Vec<Value> = (0..5)
        .map(|n| json!({"id": format!("s{n}"), "description": "Write it"}))
        .collect();
    let prose = "The login page asks for a name and keeps it for the next visit; who leaves is asked to come back. ";
    let code = "let page = Page::of(&list, from); if page.is_empty() { return Err(Refusal::new(\"it is empty\")); }\n";
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2");
    vec![
        ("nothing", json!({})),
        ("5 short items", json!({ "items": short })),
        ("20 items", json!({ "items": steps(20) })),
        ("prose of 4 KB", json!({ "text": prose.repeat(40) })),
        ("code of 4 KB", json!({ "text": code.repeat(40) })),
        (
            "JSON of 2 KB as text",
            json!({ "body": json!({ "items": steps(20) }).to_string() }),
        ),
        (
            "a command with a secret",
            json!({ "command": format!("GH_TOKEN={token} gh pr list --limit 20") }),
        ),
        ("20 items and a secret", json!({ "items": steps(20), "token": token })),
    ]
}

fn call(input: &Value) -> EndedCall {
    let input = Excerpt::of(input.as_object().expect("it is an object"));
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
        built: Some(input.clone()),
        input,
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

fn measure(name: &str, log: &AuditLog, input: &Value) {
    let call = call(input);
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|_| {
            let calls = vec![call.clone(); AT_ONCE as usize];
            let begin = Instant::now();
            log.append(calls).expect("records");
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(AT_ONCE);
    println!(
        "{name:<28} least {:>8.2} µs, median {:>8.2} µs",
        each(times[0]),
        each(times[ROUNDS / 2])
    );
}
