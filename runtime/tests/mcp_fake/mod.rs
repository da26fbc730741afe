//! A tool service whose tools do what a test of the MCP face needs, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use devloop_contract::tool::{Exposure, Kind, Parallelism, Permission};
use devloop_contract::{FailureBody, Tool, ValidationError};
use devloop_core::registry::Definition;
use devloop_core::registry::fixture;
use devloop_runtime::call::{CallOutcome, CallRequest, Listing, Progress, ToolService};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

const TOOL: Tool = Tool {
    title: "Echo",
    summary: "Answers with its arguments.",
    description: "Answers with its arguments.",
    parallelism: Parallelism::Shared,
    concurrency_safe: true,
    retry_safe: true,
    tags: &["say", "again"],
    permission: Permission {
        signature: "echo",
        rule: "echo",
    },
    timeout: Duration::from_secs(5),
    input_schema: r#"{"type":"object","properties":{"text":{"type":"string","description":"What to say."}}}"#,
    output_schema: r#"{"type":"object","properties":{"ok":{"type":"boolean","description":"Always true."}},"required":["ok"]}"#,
    ..fixture::tool("echo")
};

const fn tool(name: &'static str) -> Tool {
    Tool {
        name,
        exposure: Exposure::Deferred,
        tags: &[],
        kind: Kind::Write,
        destructive: true,
        ..TOOL
    }
}

/// Sorted by name.
static TOOLS: [&Tool; 10] = [
    &tool("big"),
    &TOOL,
    &tool("fail"),
    &tool("lull"),
    &tool("meet"),
    &tool("panic"),
    &tool("progress"),
    &tool("sleep"),
    &tool("stubborn"),
    &tool("who"),
];

/// The service; clones share what they count.
#[derive(Clone)]
pub struct Fake {
    /// Calls that saw their cancellation.
    pub cancelled: Arc<AtomicUsize>,
    /// Calls that have begun.
    pub begun: Arc<AtomicUsize>,
    /// Lets calls of `lull` go on.
    pub go_on: Arc<Semaphore>,
    meeting: Arc<AtomicUsize>,
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            cancelled: Arc::default(),
            begun: Arc::default(),
            go_on: Arc::new(Semaphore::new(0)),
            meeting: Arc::default(),
        }
    }
}

impl ToolService for Fake {
    fn tools(&self, _listing: Listing) -> Vec<Arc<Definition>> {
        TOOLS.iter().map(|tool| Arc::new(Definition::from(*tool))).collect()
    }

    fn instructions(&self) -> String {
        "A service for tests.".to_owned()
    }

    async fn call(&self, request: CallRequest) -> CallOutcome {
        self.begun.fetch_add(1, Ordering::SeqCst);
        match request.tool.as_str() {
            "echo" => CallOutcome::Success(json!({"ok": true, "echo": request.arguments})),
            "who" => CallOutcome::Success(json!({"ok": true, "tool_use_id": request.tool_use_id})),
            "big" => {
                let size = request.arguments.get("size").and_then(Value::as_u64).unwrap_or(1 << 20);
                let size = usize::try_from(size).expect("a size fits");
                CallOutcome::Success(json!({"ok": true, "text": "x".repeat(size)}))
            }
            "fail" => failure(request.arguments.get("how").and_then(Value::as_str).unwrap_or_default()),
            // Silent, then one step, and silent again, each until it is told to go on.
            "lull" => {
                self.go_on.acquire().await.expect("open").forget();
                if let Some(progress) = request.progress {
                    let _ = progress.send(Progress {
                        done: 0.0,
                        total: Some(1.0),
                        message: Some("half".to_owned()),
                    });
                }
                self.go_on.acquire().await.expect("open").forget();
                CallOutcome::Success(json!({"ok": true}))
            }
            // Two calls meet, or the first waits for ever.
            "meet" => {
                self.meeting.fetch_add(1, Ordering::SeqCst);
                while self.meeting.load(Ordering::SeqCst) < 2 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                CallOutcome::Success(json!({"ok": true}))
            }
            "panic" => panic!("as asked"),
            "progress" => {
                // The second and third lead back or stand still; the face must not pass them on.
                for done in [1.0, 0.5, 1.0, f64::NAN, 2.0, 3.0] {
                    if let Some(progress) = &request.progress {
                        let _ = progress.send(Progress {
                            done,
                            total: Some(3.0),
                            message: Some(format!("step {done}")),
                        });
                    }
                    tokio::task::yield_now().await;
                }
                CallOutcome::Success(json!({"ok": true, "asked": request.progress.is_some()}))
            }
            // Sleeps until cancelled, and then finishes what it is writing.
            "sleep" => {
                request.cancel.cancelled().await;
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                if let Some(path) = request.arguments.get("then_write").and_then(Value::as_str) {
                    let path = path.to_owned();
                    let written = tokio::task::spawn_blocking(move || {
                        std::thread::sleep(Duration::from_millis(20));
                        std::fs::write(path, "whole")
                    });
                    written.await.expect("joins").expect("writes");
                }
                CallOutcome::Cancelled
            }
            // Ignores its cancellation.
            "stubborn" => {
                std::future::pending::<()>().await;
                CallOutcome::Cancelled
            }
            name => CallOutcome::UnknownTool {
                name: name.to_owned(),
                nearest: vec!["echo".into()],
            },
        }
    }
}

fn failure(how: &str) -> CallOutcome {
    match how {
        "expected" => CallOutcome::Expected(FailureBody {
            ok: false,
            code: "no_list".into(),
            reason: "there is no list".into(),
            hint: Some("Write one first.".into()),
            details: Some(json!({"looked": "here"})),
        }),
        "invalid" => CallOutcome::Invalid(ValidationError::one("items[3].id", "no such id")),
        "long" => CallOutcome::Invalid(ValidationError::one("text", "é".repeat(10_000))),
        "sandbox" => CallOutcome::Sandbox {
            message: "Sandbox violation:pm tried to write units/x".into(),
            hint: Some("pm may write prd/**.".into()),
        },
        "cancelled" => CallOutcome::Cancelled,
        _ => CallOutcome::Internal {
            message: "the list cannot be read".into(),
            chain: "the list cannot be read: no space".into(),
            error_id: "e-1".into(),
            hint: "This was reported.".into(),
        },
    }
}
