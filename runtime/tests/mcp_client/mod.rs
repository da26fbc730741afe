//! A client that says and hears frames as they are on the wire, for tests of the MCP face over in-memory pipes.

use std::time::Duration;

use devloop_runtime::call::ToolService;
use devloop_runtime::mcp::{ExitReason, ServeOptions, serve_io};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// No test may hang.
pub const GUARD: Duration = Duration::from_mins(1);

/// The client's end of a connection.
pub struct Wire {
    pub writer: Option<WriteHalf<DuplexStream>>,
    pub lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub serving: JoinHandle<ExitReason>,
}

impl Wire {
    /// Serves a service to this client.
    pub fn start(service: impl ToolService, options: ServeOptions) -> Self {
        let (near, far) = tokio::io::duplex(256 * 1024);
        let (reader, writer) = split(far);
        let serving = tokio::spawn(serve_io(service, options, reader, writer));
        let (reader, writer) = split(near);
        Self {
            writer: Some(writer),
            lines: BufReader::new(reader).lines(),
            serving,
        }
    }

    /// Opens a session with this `initialize`.
    pub async fn greet(&mut self, initialize: &Value) {
        self.send(initialize).await;
        assert_eq!(self.next().await["id"], initialize["id"]);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("the input is open");
        timeout(GUARD, writer.write_all(bytes))
            .await
            .expect("the server reads")
            .expect("the server is there");
    }

    pub async fn send(&mut self, frame: &Value) {
        self.send_bytes(format!("{frame}\n").as_bytes()).await;
    }

    pub async fn next(&mut self) -> Value {
        let line = timeout(GUARD, self.lines.next_line())
            .await
            .expect("an answer in time")
            .expect("readable");
        serde_json::from_str(&line.expect("a line")).expect("JSON")
    }

    /// Asks for something else; what comes back first must be the answer to that.
    pub async fn nothing_but_a_ping(&mut self) {
        self.send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}))
            .await;
        assert_eq!(self.next().await, json!({"jsonrpc": "2.0", "id": "ping", "result": {}}));
    }

    pub async fn call(&mut self, id: u64, name: &str, arguments: Value) {
        self.send(&call(id, name, arguments)).await;
    }

    pub async fn end_input(&mut self) {
        let mut writer = self.writer.take().expect("the input is open");
        writer.shutdown().await.expect("the server is there");
    }

    /// Waits for the end; the reason, and the frames not yet read.
    pub async fn ended(self) -> (ExitReason, Vec<Value>) {
        let Self { mut lines, serving, .. } = self;
        let ended = async {
            let reason = serving.await.expect("no panic");
            let mut rest = Vec::new();
            while let Ok(Some(line)) = lines.next_line().await {
                rest.push(serde_json::from_str(&line).expect("JSON"));
            }
            (reason, rest)
        };
        timeout(GUARD, ended).await.expect("the server ends")
    }
}

pub fn initialize(version: &str, client: &str, capabilities: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": client, "version": "1"}
    }})
}

#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
pub fn call(id: u64, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// A request of the era without a handshake.
#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
pub fn modern(id: u64, method: &str, params: Value, capabilities: &Value) -> Value {
    let mut frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    frame["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    frame
}

pub fn cancelled(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "x"}})
}

#[track_caller]
pub fn error_of(frame: &Value) -> (i64, &str) {
    let error = &frame["error"];
    let code = error["code"].as_i64().unwrap_or_else(|| panic!("an error: {frame}"));
    (code, error["message"].as_str().expect("a message"))
}

#[track_caller]
pub fn text_of(frame: &Value) -> &str {
    assert_eq!(frame["result"]["content"].as_array().map(Vec::len), Some(1), "{frame}");
    frame["result"]["content"][0]["text"].as_str().expect("a text")
}
