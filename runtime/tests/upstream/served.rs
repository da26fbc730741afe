//! `devloop serve --mcp-config`: what a client and whoever reads the log get of upstream servers.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::program::program;
use crate::rig::fake;

/// No test may hang.
const GUARD: Duration = Duration::from_mins(1);

/// The program as a client has it.
pub(crate) struct Served {
    child: Child,
    frames: Receiver<Value>,
    log: Receiver<String>,
    /// Notifications that came while an answer was waited for.
    pub(crate) heard: Vec<Value>,
    id: u64,
    _dir: tempfile::TempDir,
}

impl Served {
    pub(crate) fn start(servers: &Value) -> Self {
        Self::start_with(servers, &[], "2025-11-25")
    }

    pub(crate) fn start_with(servers: &Value, args: &[&str], version: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("mcp.json");
        std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).expect("it writes");
        let mut child = program()
            .args(["serve", "--agent", "pm", "--allow", "s__*", "--project-dir"])
            .arg(dir.path())
            .arg("--mcp-config")
            .arg(&file)
            .args(args)
            .env("XDG_STATE_HOME", dir.path().join("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let frames = lines(child.stdout.take().expect("a pipe"), |line| {
            serde_json::from_str(&line).expect("whole frames")
        });
        let log = lines(child.stderr.take().expect("a pipe"), |line| line);
        let mut served = Self {
            child,
            frames,
            log,
            heard: Vec::new(),
            id: 0,
            _dir: dir,
        };
        let hello = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
        });
        served.ask("initialize", hello);
        served.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        served
    }

    fn send(&mut self, frame: &Value) {
        writeln!(self.child.stdin.as_mut().expect("a pipe"), "{frame}").expect("it reads");
    }

    /// The result of a request.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params }));
        loop {
            let mut frame = self.frames.recv_timeout(GUARD).expect("an answer in time");
            if frame["id"] == self.id {
                assert!(frame.get("error").is_none(), "{frame}");
                return frame["result"].take();
            }
            self.heard.push(frame);
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Waits for a line of the log; those before it come, too.
    pub(crate) fn logged(&self, part: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.log.recv_timeout(GUARD);
            lines.push(line.unwrap_or_else(|_| panic!("`{part}` is not in {lines:#?}")));
            if lines.last().is_some_and(|line| line.contains(part)) {
                return lines;
            }
        }
    }

    /// Ends it; the rest of the log.
    pub(crate) fn end(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let ended = self.child.wait().expect("it ends");
        assert!(ended.success(), "{ended}");
        let mut rest = Vec::new();
        while let Ok(line) = self.log.recv_timeout(GUARD) {
            rest.push(line);
        }
        rest
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines<T: Send + 'static>(
    stream: impl Read + Send + 'static,
    each: impl Fn(String) -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(each(line)).is_err() {
                return;
            }
        }
    });
    receiver
}

#[test]
fn tools_that_are_set_aside_are_warned_of_in_the_log_once_each() {
    let mut served = Served::start(&json!({ "s": fake(&["renews", "bad"]) }));
    let mut log = served.logged("`wordy`: its description has 20000 bytes");
    // The same tools are set aside in each list, and the server has another list after each of these calls.
    for version in 1..=3 {
        served.call("s__renew", json!({}));
        loop {
            let shown = served.call("tool_search", json!({ "query": "select:s__renew" }));
            if shown.to_string().contains(&format!("Version {version}.")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    log.extend(served.end());
    let aside: Vec<&String> = log.iter().filter(|line| line.contains("is set aside")).collect();
    assert_eq!(aside.len(), 2, "{log:#?}");
    assert!(
        aside[0].contains("WARN") && aside[0].contains("the tool `rooted`: its input schema: `oneOf` at the root"),
        "{log:#?}"
    );
    assert!(aside.iter().all(|line| line.contains("server=\"s\"")), "{log:#?}");
}

#[test]
fn a_list_that_is_refused_is_warned_of_in_the_log() {
    let mut served = Served::start(&json!({ "s": fake(&["renews", "many"]), "two": fake(&["duplicate"]) }));
    served.call("s__renew", json!({}));
    let log = served.logged("the tools of the server `s` are refused: it has 1004 tools; at most 1000 are taken");
    assert!(
        log.iter()
            .any(|line| line.contains("the tools of the server `two` are refused: the name `echo` stands twice")),
        "{log:#?}"
    );
    // The list before stays.
    assert_eq!(served.call("s__steps", json!({}))["content"][0]["text"], "done");
    let rest = served.end();
    assert!(!rest.iter().any(|line| line.contains("refused")), "{rest:#?}");
}

#[test]
fn what_a_server_says_to_clients_reaches_them() {
    let mut served = Served::start(&json!({ "s": fake(&["says"]) }));
    let listed = served.ask("tools/list", json!({}));
    let tools = listed["tools"].as_array().expect("a list");
    let meta = |name: &str| {
        tools
            .iter()
            .find(|tool| tool["name"] == name)
            .map(|tool| &tool["_meta"])
    };
    assert_eq!(
        meta("s__always"),
        Some(&json!({ "anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": 90_000 }))
    );
    assert_eq!(meta("s__hinted"), None, "it is searched for");
    let found = served.call("tool_search", json!({ "query": "the booking" }));
    assert_eq!(found["structuredContent"]["loaded"], json!(["s__hinted"]));
    // Data without a text stands in a text, too, and what is said beside it is passed on.
    let answer = served.call("s__answers", json!({}));
    assert_eq!(
        answer["content"][1],
        json!({ "type": "text", "text": "{\"a\":1}" }),
        "{answer}"
    );
    assert_eq!(answer["_meta"], json!({ "x.y/cost": 3 }), "{answer}");
    let none = served.call("mcp_task_get", json!({ "server": "s", "task_id": "t" }));
    let text = none["content"][0]["text"].as_str().expect("a text");
    assert!(
        text.contains("it does not offer this at all") && text.contains("Go on without it."),
        "{none}"
    );
    let empty = served.call("tool_search", json!({ "query": "SELECT: ," }));
    assert!(
        empty["isError"] == true
            && empty["content"][0]["text"]
                .as_str()
                .is_some_and(|text| text.contains("no name follows")),
        "{empty}"
    );
    served.end();
}
