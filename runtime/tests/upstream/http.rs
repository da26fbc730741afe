//! Servers over streamable HTTP.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use devloop_core::catalogue::ConnectionState;
use devloop_runtime::upstream::{CallError, CallOptions};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::rig::{options, run, start, until};

/// A fake server; killed when dropped.
struct Fake {
    process: Child,
    port: u16,
}

impl Fake {
    fn start(mode: &str, port: u16) -> Self {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/http_server.py");
        let mut process = Command::new("python3")
            .arg(program)
            .args([mode, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let port = line.trim().parse().expect("a port");
        Self { process, port }
    }

    fn config(&self) -> Value {
        json!({"type": "http", "url": format!("http://127.0.0.1:{}/mcp", self.port)})
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_is_merged_and_called() {
    run(async {
        let fake = Fake::start("good", 0);
        let rig = start(&[("h", fake.config())], &options());
        rig.settled().await;
        assert_eq!(
            (rig.status("h").state, rig.status("h").tools),
            (ConnectionState::Connected, 7)
        );
        let result = rig.call("h", "echo", json!({"a": [1]})).await.expect("it answers");
        assert_eq!(result["structuredContent"], json!({"a": [1]}));
        let (send, mut steps) = mpsc::unbounded_channel();
        let with_progress = CallOptions {
            progress: Some(send),
            ..CallOptions::default()
        };
        rig.call_with("h", "steps", json!({}), with_progress)
            .await
            .expect("it answers");
        let seen: Vec<f64> = std::iter::from_fn(|| steps.try_recv().ok())
            .map(|step| step.done)
            .collect();
        assert_eq!(seen, [1.0, 2.0, 3.0]);
        rig.call("h", "change", json!({})).await.expect("it answers");
        until("the new tool", || rig.catalogue.has("h__new").then_some(())).await;
        let limited = CallOptions {
            timeout: Duration::from_millis(50),
            ..CallOptions::default()
        };
        let error = rig
            .call_with("h", "wait", json!({}), limited)
            .await
            .expect_err("too long");
        assert_eq!(error.code(), "tool_timeout");
        for round in 0.. {
            let seen = rig.structured("h", "seen").await;
            if seen["cancelled"] == json!(["it took too long"]) {
                break;
            }
            assert!(round < 300, "{seen}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        rig.upstreams.close().await;
    });
}

#[test]
fn a_crash_during_a_call_is_told_and_the_server_is_found_again() {
    run(async {
        let fake = Fake::start("good", 0);
        let rig = start(&[("h", fake.config())], &options());
        rig.settled().await;
        let error = rig.call("h", "crash", json!({})).await.expect_err("it is gone");
        assert_eq!(error.code(), "server_lost", "{error}");
        let down = rig.call("h", "echo", json!({})).await.expect_err("nobody is there");
        assert_eq!(down.code(), "server_down", "{down}");
        let port = fake.port;
        drop(fake);
        let _again = Fake::start("good", port);
        rig.call("h", "echo", json!({})).await.expect("it is back");
        rig.upstreams.close().await;
    });
}

#[test]
fn an_answer_that_is_too_large_is_refused_in_either_form() {
    run(async {
        let fake = Fake::start("good", 0);
        let rig = start(&[("h", fake.config())], &options());
        let fits = rig
            .call("h", "big", json!({"bytes": 10 << 20, "stream": true}))
            .await
            .expect("it fits");
        assert_eq!(fits["content"][0]["text"].as_str().map(str::len), Some(10 << 20));
        for stream in [false, true] {
            let limited = CallOptions {
                timeout: Duration::from_secs(20),
                ..CallOptions::default()
            };
            let arguments = json!({"bytes": 20 << 20, "stream": stream});
            let error = rig
                .call_with("h", "big", arguments, limited)
                .await
                .expect_err("too large");
            match error {
                CallError::TooLarge { limit, .. } if !stream => assert_eq!(limit, 16 << 20),
                // The library does not say why it ended the stream.
                CallError::Lost { reason, .. } if stream => {
                    assert!(reason.contains("larger than 16777216 bytes"), "{reason}");
                }
                other => panic!("{stream}: {other:?}"),
            }
        }
        rig.call("h", "echo", json!({})).await.expect("it goes on");
        rig.upstreams.close().await;
    });
}

#[test]
fn a_token_is_sent_and_a_missing_one_is_told_without_trying_for_ever() {
    run(async {
        let fake = Fake::start("locked", 0);
        let mut with = fake.config();
        with["headers"] = json!({"Authorization": "Bearer open-sesame"});
        let mut wrong = fake.config();
        wrong["headers"] = json!({"Authorization": "Bearer close-sesame"});
        let rig = start(&[("with", with), ("wrong", wrong)], &options());
        rig.call("with", "echo", json!({})).await.expect("it answers");
        rig.settled().await;
        let ConnectionState::Failed { reason } = rig.status("wrong").state else {
            panic!("{:?}", rig.status("wrong"));
        };
        assert!(reason.contains("HTTP 401") && !reason.contains("sesame"), "{reason}");
        rig.upstreams.close().await;
    });
}
