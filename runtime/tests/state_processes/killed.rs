//! The real program, killed at random moments.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::children::scaled;
use super::program::program;
use super::{RUNTIME, Random, TODO, state};

/// Calls that are on their way at once.
const AHEAD: u64 = 6;

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(dir: &Path) -> Self {
        let mut child = program()
            .args(["serve", "--agent", "pm", "--session-id", "s", "--project-dir"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut server = Self { child, input, output };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        });
        server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        assert!(server.answer().is_some());
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, frame: &Value) {
        // After the end there is nobody to read it.
        let _ = writeln!(self.input, "{frame}");
    }

    /// Call `n`: odd ones count in the runtime state, even ones move the list's step there and back.
    fn call(&mut self, n: u64) {
        let (tool, arguments) = if n % 2 == 1 {
            (
                "update_runtime_state",
                json!({"patch": {"n": n, "text": "x".repeat(3_000)}}),
            )
        } else if n.is_multiple_of(4) {
            (
                "update_todo_item",
                json!({"id": "step-001", "status": "todo", "note": n.to_string()}),
            )
        } else {
            (
                "update_todo_item",
                json!({"id": "step-001", "status": "blocked", "reason": "r", "note": n.to_string()}),
            )
        };
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}));
    }

    /// The next whole answer; `None` at the end.
    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        let length = self.output.read_line(&mut line).ok()?;
        (length > 0 && line.ends_with('\n')).then(|| serde_json::from_str(&line).expect("JSON"))
    }
}

/// What is on disk: the last count of each file.
fn counts(dir: &Path) -> [u64; 2] {
    let (runtime, todo) = (state(dir, RUNTIME), state(dir, TODO));
    let count = runtime["data"]["n"].as_u64().unwrap_or(0);
    assert_eq!(
        runtime["version"].as_u64(),
        Some(count.div_ceil(2)),
        "no count without its version, and none without its count"
    );
    let note = todo["items"][0]["note"]
        .as_str()
        .map_or(0, |note| note.parse().expect("a number"));
    assert_eq!(todo["version"].as_u64(), Some(1 + note / 2));
    let expected = if note % 4 == 0 { "todo" } else { "blocked" };
    assert_eq!(todo["items"][0]["status"], expected);
    [count, note]
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_nothing_is_half_written() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let list = json!({"items": [{"id": "step-001", "description": "d"}]});
    let written = program()
        .args([
            "call",
            "write_todolist",
            "--agent",
            "pm",
            "--input",
            &list.to_string(),
            "--project-dir",
        ])
        .arg(dir)
        .output()
        .expect("the program starts");
    assert!(written.status.success(), "{written:?}");
    let mut random = Random::new(7);
    let (mut next, mut acknowledged) = (1, [0; 2]);
    for round in 0..scaled(10, 200) {
        let mut server = Server::start(dir);
        (next..next + AHEAD).for_each(|n| server.call(n));
        let mut sent = next + AHEAD;
        let mut take = |answer: &Value| {
            let n = answer["id"].as_u64().expect("the id of a call");
            let result = &answer["result"]["structuredContent"];
            assert!(
                result["ok"] == true && result.get("changed") != Some(&json!(false)),
                "{answer}"
            );
            acknowledged[usize::from(n.is_multiple_of(2))] = n;
        };
        for _ in 0..random.below(12) {
            take(&server.answer().expect("it is still alive"));
            server.call(sent);
            sent += 1;
        }
        // Anywhere in a call: the next ones are on their way.
        thread::sleep(Duration::from_micros(random.below(3_000) as u64));
        server.child.kill().expect("it was started");
        server.child.wait().expect("it was started");
        // What had left it before counts, too.
        while let Some(answer) = server.answer() {
            take(&answer);
        }
        if fs::exists(dir.join(RUNTIME)).expect("it can be looked for") {
            let on_disk = counts(dir);
            for (on_disk, acknowledged) in on_disk.iter().zip(acknowledged) {
                assert!(
                    *on_disk >= acknowledged,
                    "round {round}: {acknowledged} was acknowledged, {on_disk} is there"
                );
                assert!(*on_disk < sent);
            }
            // Calls run in their order, one at a time: after the last one that had its effect comes the next.
            next = on_disk[0].max(on_disk[1]) + 1;
            assert!(on_disk[0].abs_diff(on_disk[1]) <= 1, "{on_disk:?}");
        } else {
            assert_eq!(acknowledged, [0; 2]);
        }
    }
    let set_aside = fs::read_dir(dir.join("agent-state")).expect("a directory");
    let set_aside = set_aside.filter(|entry| {
        entry
            .as_ref()
            .expect("an entry")
            .file_name()
            .to_string_lossy()
            .contains(".corrupt-")
    });
    assert_eq!(set_aside.count(), 0);
}
