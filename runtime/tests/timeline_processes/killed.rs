//! The real program, killed at random moments.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::children::scaled;
use super::program::program;
use super::{Random, TORN, entries};

/// Calls that are on their way at once, to each server.
const AHEAD: u64 = 4;

struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    sent: u64,
}

impl Server {
    fn start(dir: &Path, agent: &str) -> Self {
        let mut child = program()
            .args(["serve", "--agent", agent, "--project-dir"])
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut server = Self {
            child,
            input,
            output,
            sent: 0,
        };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        });
        server.send(&json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello}));
        assert!(server.answer().is_some());
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, frame: &Value) {
        // After the end there is nobody to read it.
        let _ = writeln!(self.input, "{frame}");
    }

    /// Appends an entry with a key of its own.
    fn call(&mut self, round: u64) {
        let key = format!("{}-{round}-{}", self.child.id(), self.sent);
        let arguments = json!({
            "type": "test", "summary": key, "idempotency_key": key, "data": {"text": "x".repeat(2_000)},
        });
        let params = json!({"name": "timeline_append", "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": key, "method": "tools/call", "params": params}));
        self.sent += 1;
    }

    /// The next whole answer; `None` at the end.
    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        let length = self.output.read_line(&mut line).ok()?;
        (length > 0 && line.ends_with('\n')).then(|| serde_json::from_str(&line).expect("JSON"))
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill_and_no_line_is_fused() {
    let place = tempfile::tempdir().expect("a directory");
    let dir = place.path();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut acknowledged: Vec<(String, u64)> = Vec::new();
    for round in 0..scaled(10, 200) {
        let mut servers = ["pm", "architect"].map(|agent| Server::start(dir, agent));
        for server in &mut servers {
            (0..AHEAD).for_each(|_| server.call(round));
        }
        let mut take = |answer: &Value| {
            let result = &answer["result"]["structuredContent"];
            assert_eq!(result["ok"], true, "{answer}");
            let key = answer["id"].as_str().expect("the id of a call").to_owned();
            acknowledged.push((key, result["seq"].as_u64().expect("a number")));
        };
        for _ in 0..random.below(10) {
            for server in &mut servers {
                take(&server.answer().expect("it is still alive"));
                server.call(round);
            }
        }
        // Anywhere in a call: the next ones are on their way.
        std::thread::sleep(Duration::from_micros(random.below(2_000)));
        for server in &mut servers {
            server.child.kill().expect("it was started");
        }
        for server in &mut servers {
            server.child.wait().expect("it was started");
            // What had left it before counts, too.
            while let Some(answer) = server.answer() {
                take(&answer);
            }
        }
        if round % 3 == 0 {
            // What a kill cannot do, a power failure can.
            let cut = random.below(900) + 1;
            let torn = format!("{{\"v\":1,\"seq\":99,\"summary\":\"{}", "t".repeat(1_000));
            let cut = usize::try_from(cut).expect("a small number");
            let mut file = fs::File::options()
                .append(true)
                .open(dir.join(super::FILE))
                .expect("it is there");
            file.write_all(&torn.as_bytes()[..cut]).expect("room");
        }
    }
    // The next append mends what the last one left.
    let mut last = Server::start(dir, "pm");
    last.call(9_999);
    let answer = last.answer().expect("it is alive");
    assert_eq!(answer["result"]["structuredContent"]["ok"], true, "{answer}");
    last.child.kill().expect("it was started");
    last.child.wait().expect("it was started");

    let entries = entries(dir);
    for (key, seq) in &acknowledged {
        let entry = &entries[usize::try_from(*seq).expect("a small number") - 1];
        assert_eq!(entry["summary"], **key, "acknowledged and there");
    }
    let mut keys: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry["idempotency_key"].as_str())
        .collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all, "no entry twice");
    let repaired = entries.iter().filter(|entry| entry["type"] == "timeline.repaired");
    let told: u64 = repaired
        .map(|entry| entry["data"]["bytes"].as_u64().expect("a number") + 1)
        .sum();
    let kept = fs::metadata(dir.join(TORN)).map_or(0, |found| found.len());
    assert_eq!(kept, told, "what was torn is kept and told");
    assert!(kept > 0);
}
