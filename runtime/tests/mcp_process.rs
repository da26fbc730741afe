//! The MCP face as a process: real pipes, real signals, exit codes.

#[expect(unreachable_pub, reason = "shared with an example and another test")]
mod mcp_fake;
mod waiting;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use devloop_runtime::mcp::{ServeOptions, serve};
use serde_json::{Value, json};

use waiting::{GUARD, until};

const AS_SERVER: &str = "DEVLOOP_TEST_MCP_SERVER";

/// Not a test by itself: the other tests start this program again to have a server of their own.
#[test]
fn server() {
    if std::env::var_os(AS_SERVER).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let reason = runtime.block_on(serve(mcp_fake::Fake::default(), ServeOptions::default()));
    std::process::exit(reason.exit_code());
}

fn spawn() -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "server", "--nocapture", "--quiet"])
        .env(AS_SERVER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts")
}

struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<Value>,
}

impl Server {
    fn start() -> Self {
        let mut child = spawn();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("piped");
        let (sender, frames) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The test harness greets before the server starts; a line that begins like a frame must be one.
                if line.starts_with('{') && sender.send(serde_json::from_str(&line).expect("whole frames")).is_err() {
                    return;
                }
            }
        });
        Self { child, stdin, frames }
    }

    fn open() -> Self {
        let mut server = Self::start();
        server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
        }}));
        assert_eq!(server.next()["id"], json!(0));
        server
    }

    fn send(&mut self, frame: &Value) {
        writeln!(self.stdin.as_mut().expect("open"), "{frame}").expect("the server reads");
    }

    fn call(&mut self, id: u64, name: &str, arguments: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}}));
    }

    fn next(&self) -> Value {
        self.frames.recv_timeout(GUARD).expect("an answer in time")
    }

    /// After this, frames sent before have been taken in.
    fn in_step(&mut self) {
        self.call(99, "echo", &json!({}));
        assert_eq!(self.next()["id"], json!(99));
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()
            .expect("kill runs");
        assert!(status.success());
    }

    fn end(mut self) -> (ExitStatus, Vec<Value>) {
        let status = wait(&mut self.child);
        (status, self.frames.iter().collect())
    }
}

fn wait(child: &mut Child) -> ExitStatus {
    until("the end of the server", || child.try_wait().expect("a child"))
}

#[test]
fn an_immediate_end_of_input_is_exit_code_0() {
    let mut server = Server::start();
    drop(server.stdin.take());
    let (status, frames) = server.end();
    assert_eq!((status.code(), frames), (Some(0), vec![]));
}

#[test]
fn the_end_of_input_with_a_call_in_flight_is_exit_code_0() {
    let mut server = Server::open();
    server.call(1, "sleep", &json!({}));
    server.call(2, "stubborn", &json!({}));
    drop(server.stdin.take());
    let (status, frames) = server.end();
    assert_eq!(status.code(), Some(0));
    let ids: Vec<_> = frames.iter().map(|frame| frame["id"].clone()).collect();
    assert_eq!(ids, [json!(1)]);
}

#[test]
fn a_signal_ends_the_server_while_stdin_is_open() {
    for signal in ["INT", "TERM", "HUP"] {
        let server = Server::open();
        server.signal(signal);
        let (status, _) = server.end();
        assert_eq!(status.code(), Some(0), "{signal}");
    }
}

#[test]
fn a_signal_before_the_opening_ends_the_server() {
    let mut server = Server::start();
    server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    assert_eq!(server.next()["id"], json!(1));
    server.signal("TERM");
    assert_eq!(server.end().0.code(), Some(0));
}

#[test]
fn a_call_finishes_what_it_is_writing_before_a_signal_ends_the_server() {
    for signal in ["INT", "TERM"] {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("written");
        let mut server = Server::open();
        server.call(1, "sleep", &json!({"then_write": file}));
        server.in_step();
        server.signal(signal);
        let (status, frames) = server.end();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert_eq!(std::fs::read_to_string(&file).expect("written"), "whole");
        assert_eq!(frames.len(), 1, "{frames:?}");
    }
}

#[test]
fn a_signal_ends_the_server_though_a_call_ignores_it_and_the_client_does_not_read() {
    let mut child = spawn();
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    writeln!(
        stdin,
        "{}",
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
        }})
    )
    .expect("sent");
    for (id, name) in [(1, "stubborn"), (2, "big")] {
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": name, "arguments": {"size": 4 << 20}}});
        writeln!(stdin, "{frame}").expect("sent");
    }
    // The pipe is filling once the first bytes are there.
    stdout.read_exact(&mut [0; 4096]).expect("answers come");
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-s", "TERM", &id])
            .status()
            .expect("kill runs")
            .success()
    );
    assert_eq!(wait(&mut child).code(), Some(0));
}

#[test]
fn a_client_that_closes_its_end_is_exit_code_0() {
    let mut child = spawn();
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    // The harness's greeting comes through the same pipe.
    stdout.read_exact(&mut [0; 1]).expect("greets");
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).expect("sent");
    let mut seen = Vec::new();
    while !seen.ends_with(b"}\n") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).expect("an answer");
        seen.push(byte[0]);
    }
    drop(stdout);
    // A process that another test is just starting may hold the pipe for a moment, so one write need not fail.
    let status = until("the end of the server", || {
        let _ = writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
        child.try_wait().expect("a child")
    });
    assert_eq!(status.code(), Some(0));
}
