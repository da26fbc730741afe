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
fn a_server_that_breaks_at_the_question_of_the_newer_era_is_spoken_to_in_the_older_one() {
    run(async {
        for mode in ["older-500", "older-null", "older-empty"] {
            let fake = Fake::start(mode, 0);
            let rig = start(&[("h", fake.config())], &options());
            rig.settled().await;
            assert_eq!(rig.status("h").state, ConnectionState::Connected, "{mode}");
            rig.call("h", "echo", json!({})).await.expect("it answers");
            rig.upstreams.close().await;
        }
    });
}

#[test]
fn a_call_that_ends_its_connection_costs_those_after_it_nothing() {
    run(async {
        let fake = Fake::start("good", 0);
        let rig = start(&[("h", fake.config())], &options());
        rig.settled().await;
        for round in 0..6 {
            for status in [404, 401] {
                let refused = rig.call("h", "status", json!({"status": status})).await;
                refused.expect_err("the server takes none");
                let after = rig.call("h", "echo", json!({"round": round})).await;
                let after = after.unwrap_or_else(|error| panic!("{status}, {round}: {error}"));
                assert_eq!(after["structuredContent"]["round"], round);
            }
        }
        rig.upstreams.close().await;
    });
}

#[test]
fn a_server_is_merged_and_called() {
    run(async {
        let fake = Fake::start("good", 0);
        let rig = start(&[("h", fake.config())], &options());
        rig.settled().await;
        assert_eq!(
            (rig.status("h").state, rig.status("h").tools),
            (ConnectionState::Connected, 11)
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
            // Long enough for the server to hear of the call before.
            timeout: Duration::from_secs(1),
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

/// With streams that can be taken up again, nobody but the client itself says that there is nobody to take them up with.
#[test]
fn a_kill_during_a_call_is_told_at_once_and_the_server_is_found_again() {
    run(async {
        let mut fake = Fake::start("numbered", 0);
        let other = Fake::start("good", 0);
        let rig = start(&[("h", fake.config()), ("o", other.config())], &options());
        rig.settled().await;
        let call = async {
            let error = rig.call("h", "hang", json!({})).await.expect_err("it is gone");
            let CallError::Lost { reason, .. } = &error else {
                panic!("{error:?}")
            };
            assert!(
                reason.starts_with("the connection broke") || reason.contains("refused"),
                "{reason}"
            );
            assert!(error.to_string().contains("`h` went away during the call"), "{error}");
        };
        let kill = async {
            rig.logged("begun").await;
            fake.process.kill().expect("it runs");
            fake.process.wait().expect("it ends");
        };
        tokio::join!(call, kill);
        let down = rig.call("h", "echo", json!({})).await.expect_err("nobody is there");
        assert_eq!(down.code(), "server_down", "{down}");
        let place = format!("nobody can be reached at 127.0.0.1:{} (Connection refused", fake.port);
        assert!(down.to_string().contains(&place), "{down}");
        rig.call("o", "echo", json!({})).await.expect("the other one goes on");
        let _again = Fake::start("numbered", fake.port);
        rig.call("h", "echo", json!({})).await.expect("it is back");
        rig.upstreams.close().await;
    });
}

/// Nothing tells the client that the server was started anew, until it says so of a request.
#[test]
fn a_session_that_is_forgotten_leads_to_a_new_handshake_and_costs_no_call() {
    run(async {
        for mode in ["forgets-404", "forgets-400"] {
            let fake = Fake::start(mode, 0);
            let rig = start(&[("h", fake.config())], &options());
            rig.settled().await;
            rig.call("h", "echo", json!({})).await.expect("it answers");
            let port = fake.port;
            drop(fake);
            let again = Fake::start(mode, port);
            let calls = [(); 3].map(|()| rig.call("h", "echo", json!({"a": 1})));
            let [one, two, three] = calls;
            let (one, two, three) = tokio::join!(one, two, three);
            for result in [one, two, three] {
                assert_eq!(result.expect(mode)["structuredContent"], json!({"a": 1}));
            }
            assert_eq!(rig.structured("h", "seen").await["handshakes"], 1, "{mode}");
            rig.upstreams.close().await;
            drop(again);
        }
    });
}

#[test]
fn what_an_address_answers_is_told_with_its_cause_and_what_to_do() {
    run(async {
        let table = [
            (
                "302",
                false,
                "a redirection that is not followed (HTTP 302 Found): put the address",
            ),
            (
                "401",
                false,
                "it wants to know who asks (HTTP 401): put what it takes into `headers`",
            ),
            (
                "403",
                false,
                "it does not allow this (HTTP 403 Forbidden): put what it takes into `headers`",
            ),
            (
                "404",
                false,
                "no MCP server at this address (HTTP 404 Not Found): mend its `url`",
            ),
            ("500", true, "it answered with HTTP 500 Internal Server Error"),
            ("503", true, "it answered with HTTP 503 Service Unavailable"),
            (
                "200",
                false,
                "is no MCP server (it answered with `text/html` instead of JSON or events): mend its `url`",
            ),
        ];
        for (mode, hope, part) in table {
            let fake = Fake::start(mode, 0);
            let rig = start(&[("h", fake.config())], &options());
            let state = rig
                .changed(|state| matches!(state, ConnectionState::Lost { .. } | ConnectionState::Failed { .. }))
                .await;
            let (reason, again) = match state {
                ConnectionState::Lost { reason } => (reason, true),
                ConnectionState::Failed { reason } => (reason, false),
                other => panic!("{other:?}"),
            };
            assert!(
                reason.contains(part) && !reason.contains("Nothing for programs"),
                "{mode}: {reason}"
            );
            assert_eq!(again, hope, "{mode}: {reason}");
            rig.upstreams.close().await;
        }
    });
}

#[test]
fn what_befalls_one_request_is_its_own_affair() {
    run(async {
        let fake = Fake::start("good", 0);
        let rig = start(&[("h", fake.config())], &options());
        rig.settled().await;
        for status in [400, 403, 429, 500, 503] {
            let error = rig
                .call("h", "status", json!({"status": status}))
                .await
                .expect_err("it is one");
            let CallError::Refused { code, message, .. } = error else {
                panic!("{error:?}")
            };
            assert_eq!(code, status, "{message}");
            assert!(message.contains(&format!("HTTP {status}")), "{message}");
        }
        let error = rig.call("h", "breaks", json!({})).await.expect_err("it broke off");
        let CallError::Lost { reason, .. } = error else {
            panic!("{error:?}")
        };
        assert!(reason.starts_with("the stream of its answer broke: "), "{reason}");
        assert_eq!(rig.structured("h", "seen").await["handshakes"], 1);
        rig.upstreams.close().await;
    });
}

#[test]
fn a_server_that_freezes_is_asked_and_lost() {
    run(async {
        let fake = Fake::start("good", 0);
        let mut options = options();
        options.rules.silence = Some(Duration::from_millis(100));
        options.rules.pong = Duration::from_millis(200);
        let rig = start(&[("h", fake.config())], &options);
        rig.call("h", "freeze", json!({}))
            .await
            .expect("it answers a last time");
        let lost = rig.changed(|state| matches!(state, ConnectionState::Lost { .. })).await;
        let ConnectionState::Lost { reason } = lost else {
            panic!("{lost:?}")
        };
        assert!(reason.contains("did not answer a ping"), "{reason}");
        drop(fake);
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
            let CallError::TooLarge { limit, .. } = error else {
                panic!("{stream}: {error:?}");
            };
            assert_eq!(limit, 16 << 20);
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
