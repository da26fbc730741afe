//! `devloop serve` with the standard streams that a careless client gives it.

#![cfg(all(feature = "cli", unix))]

mod program;
mod waiting;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::{Value, json};

use program::program;
use waiting::{GUARD, until};

fn serve(dir: &Path) -> Command {
    let mut command = program();
    command.args(["serve", "--agent", "pm", "--project-dir"]).arg(dir);
    command
}

fn wait(child: &mut Child) -> ExitStatus {
    until("the end of the server", || child.try_wait().expect("a child"))
}

fn frames(stdout: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, frames) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str(&line).expect("whole frames")).is_err() {
                return;
            }
        }
    });
    frames
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }})
}

fn write_list(id: usize, text: &str) -> Value {
    let items = json!([{"id": "step-001", "description": text}]);
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": "write_todolist", "arguments": {"items": items}}})
}

/// Starts a server whose standard error nobody reads, and has it log far more than the pipe and the queue hold.
fn flooded(dir: &Path) -> (Child, Receiver<Value>) {
    let mut child = serve(dir)
        .env("DEVLOOP_LOG", "trace")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let frames = frames(child.stdout.take().unwrap());
    let stdin = child.stdin.as_mut().unwrap();
    writeln!(stdin, "{}", hello()).unwrap();
    assert_eq!(frames.recv_timeout(GUARD).expect("an answer")["id"], 0);
    // Each of these is refused and logged, with its text in full.
    let method = "x".repeat(2_000);
    for id in 1..=300 {
        writeln!(
            stdin,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","{method}":1,"{method}":2}}"#
        )
        .unwrap();
        assert_eq!(frames.recv_timeout(GUARD).expect("an answer")["id"], id);
    }
    writeln!(stdin, "{}", write_list(301, "still here")).unwrap();
    let answer = frames.recv_timeout(GUARD).expect("an answer");
    assert_eq!(answer["result"]["structuredContent"]["ok"], true, "{answer}");
    (child, frames)
}

#[test]
fn a_log_that_nobody_reads_holds_up_neither_answers_nor_the_end() {
    let dir = tempfile::tempdir().unwrap();
    for how in ["TERM", "INT", "end of input"] {
        let (mut child, _frames) = flooded(dir.path());
        if how == "end of input" {
            drop(child.stdin.take());
        } else {
            let killed = Command::new("kill").args(["-s", how, &child.id().to_string()]).status();
            assert!(killed.unwrap().success());
        }
        assert_eq!(wait(&mut child).code(), Some(0), "{how}");
    }
}

#[test]
fn a_log_in_full_shows_no_input_unless_the_library_is_named() {
    for (wish, is_shown) in [("trace", false), ("debug", false), ("debug,rmcp=debug", true)] {
        let dir = tempfile::tempdir().unwrap();
        let mut child = serve(dir.path())
            .env("DEVLOOP_LOG", wish)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let frames = frames(child.stdout.take().unwrap());
        let stdin = child.stdin.as_mut().unwrap();
        let refused = r#"{"jsonrpc":"2.0","id":2,"method":"ping","a":1,"a":2}"#.to_owned();
        for frame in [hello().to_string(), write_list(1, "opensesame").to_string(), refused] {
            writeln!(stdin, "{frame}").unwrap();
            frames.recv_timeout(GUARD).expect("an answer");
        }
        drop(child.stdin.take());
        assert_eq!(wait(&mut child).code(), Some(0), "{wish}");
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(text.contains("refused a frame"), "{wish}: {text}");
        assert_eq!(text.contains("opensesame"), is_shown, "{wish}: {text}");
    }
}

#[test]
fn a_log_that_is_read_late_says_that_lines_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, _frames) = flooded(dir.path());
    let mut stderr = child.stderr.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    drop(child.stdin.take());
    assert_eq!(wait(&mut child).code(), Some(0));
    let text = reading.join().unwrap().unwrap();
    assert!(text.contains("refused a frame") && text.contains("lines of the log are missing"));
}

#[test]
fn a_log_wish_that_is_not_understood_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let output = serve(dir.path())
        .env("DEVLOOP_LOG", "inof")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("DEVLOOP_LOG") && text.contains("inof"), "{text}");
}

/// The most memory that a process ever had, in KiB.
#[cfg(target_os = "linux")]
fn peak_memory(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_flood_of_calls_whose_answers_nobody_reads_takes_little_memory_and_each_is_answered() {
    const CALLS: usize = 5_000;
    let dir = tempfile::tempdir().unwrap();
    let mut child = serve(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", hello()).unwrap();
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let before = peak_memory(&child);
    let mut text = String::new();
    for id in 1..=CALLS {
        text.push_str(&write_list(id, "the same again").to_string());
        text.push('\n');
    }
    input.write_all(text.as_bytes()).unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": CALLS + 1, "method": "ping"});
    writeln!(input, "{ping}").unwrap();
    let answers = frames(stdout);
    let (mut ids, mut done) = (Vec::new(), 0);
    for _ in 0..=CALLS {
        let answer = answers.recv_timeout(GUARD).expect("an answer");
        ids.push(answer["id"].as_u64().unwrap());
        let result = &answer["result"];
        if result["structuredContent"]["ok"] == json!(true) {
            done += 1;
        } else if result["isError"] == json!(true) {
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(r#""code":"tool_busy""#), "{answer}");
        } else {
            assert_eq!(result, &json!({}), "{answer}");
        }
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(1..=CALLS as u64 + 1));
    assert!(done >= 65, "one runs and 64 wait: {done}");
    let grown = peak_memory(&child) - before;
    assert!(grown < 96 * 1024, "{grown} KiB more");
    drop(input);
    assert!(wait(&mut child).success());
    // Whoever turned a call away, there is a record of it.
    let records = std::fs::read_to_string(dir.path().join("agent-state/.calls/calls.ndjson")).unwrap();
    assert_eq!(records.lines().count(), CALLS);
}

/// Both ends of a pipe.
fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer.into())
}

#[test]
fn streams_in_non_blocking_mode_are_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (stdin, input) = pipe();
    let (output, stdout) = pipe();
    fcntl_setfl(&stdin, OFlags::NONBLOCK).unwrap();
    fcntl_setfl(&stdout, OFlags::NONBLOCK).unwrap();
    let mut child = serve(dir.path())
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = File::from(input);
    writeln!(input, "{}", hello()).unwrap();
    let mut output = BufReader::new(File::from(output));
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains(r#""id":0"#), "{line}");
    // So many answers that the pipe is full long before the first is read.
    let asked = 300;
    for id in 1..=asked {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).unwrap();
    }
    writeln!(input, "{}", write_list(asked + 1, "last")).unwrap();
    let list = dir.path().join("agent-state/pm-todo.json");
    until("the last call", || list.exists().then_some(()));
    drop(input);
    let ids: Vec<u64> = output
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).expect("whole frames"))
        .map(|frame| frame["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), asked + 1);
    assert_eq!(wait(&mut child).code(), Some(0));
}

#[test]
fn streams_that_break_are_a_system_error() {
    let dir = tempfile::tempdir().unwrap();
    let request = dir.path().join("request");
    fs::write(&request, format!("{}\n", hello())).unwrap();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let broken_output = serve(dir.path())
        .stdin(File::open(&request).unwrap())
        .stdout(full())
        .output()
        .unwrap();
    assert_eq!(broken_output.status.code(), Some(3));
    let text = String::from_utf8(broken_output.stderr).unwrap();
    assert!(
        text.contains("the output cannot be written any more: No space left"),
        "{text}"
    );
    // A directory can be opened and not read.
    let broken_input = serve(dir.path())
        .stdin(File::open(dir.path()).unwrap())
        .output()
        .unwrap();
    assert_eq!(broken_input.status.code(), Some(3));
    let text = String::from_utf8(broken_input.stderr).unwrap();
    assert!(text.contains("the input cannot be read any more"), "{text}");
}

/// Makes calls on a connection of their own; what each one answered.
fn on_a_connection(dir: &Path, calls: &[Value]) -> Vec<Value> {
    let mut child = serve(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let frames = frames(child.stdout.take().unwrap());
    let stdin = child.stdin.as_mut().unwrap();
    writeln!(stdin, "{}", hello()).unwrap();
    assert_eq!(frames.recv_timeout(GUARD).expect("an answer")["id"], 0);
    let answers = calls.iter().map(|call| {
        writeln!(stdin, "{call}").unwrap();
        frames.recv_timeout(GUARD).expect("an answer")["result"]["structuredContent"].clone()
    });
    let answers = answers.collect();
    drop(child.stdin.take());
    assert_eq!(wait(&mut child).code(), Some(0));
    answers
}

/// Request ids begin anew with each connection; the name that a client gives to a call does not.
#[test]
fn a_call_is_known_again_by_the_clients_name_for_it_and_not_by_its_request_id() {
    let dir = tempfile::tempdir().unwrap();
    let call = |summary: &str, name: Option<&str>| {
        let mut params = json!({"name": "timeline_append", "arguments": {"type": "t", "summary": summary}});
        if let Some(name) = name {
            params["_meta"] = json!({"claudecode/toolUseId": name});
        }
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    };
    let seqs = |answers: &[Value]| -> Vec<(u64, bool)> {
        let seq = |answer: &Value| {
            (
                answer["seq"].as_u64().expect("a number"),
                answer["replayed"] == json!(true),
            )
        };
        answers.iter().map(seq).collect()
    };
    let first = on_a_connection(dir.path(), &[call("same", None)]);
    let second = on_a_connection(dir.path(), &[call("same", None)]);
    assert_eq!(seqs(&[first, second].concat()), [(1, false), (2, false)]);
    let named = [call("named", Some("toolu_1"))];
    let first = on_a_connection(dir.path(), &named);
    let second = on_a_connection(dir.path(), &named);
    assert_eq!(seqs(&[first, second].concat()), [(3, false), (3, true)]);
    let text = fs::read_to_string(dir.path().join("timeline.ndjson")).unwrap();
    assert_eq!(text.lines().count(), 3);
}
