//! `devloop mcp`.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::rig::fake;

struct Setup {
    _dir: tempfile::TempDir,
    file: PathBuf,
}

fn setup(servers: &Value) -> Setup {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mcp.json");
    std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).expect("it writes");
    Setup { _dir: dir, file }
}

impl Setup {
    fn devloop(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_devloop"))
            .arg("mcp")
            .args(args)
            .arg("--mcp-config")
            .arg(&self.file)
            .env_remove("DEVLOOP_LOG")
            .output()
            .expect("the program starts")
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ends by itself")
}

#[test]
fn list_shows_how_servers_stand() {
    let setup = setup(&json!({"good": fake(&["bad-tools"]), "lost": {"command": "/no/such/program"}}));
    let output = setup.devloop(&["list"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert_eq!(
        stdout(&output).lines().collect::<Vec<_>>(),
        [
            "good  stdio  connected  10 tools, 8 set aside  fake 1.2.3",
            "lost  stdio  failed     0 tools",
            "  `/no/such/program` can't be started: No such file or directory (os error 2)",
            "2 servers, 1 not well.",
        ]
    );
    let output = setup.devloop(&["list", "--format", "json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(listed["servers"][0]["protocol"], "2025-11-25");
    assert_eq!(listed["servers"][1]["state"], "failed");
}

#[test]
fn list_is_well_when_all_are_and_says_who_needs_longer() {
    let output = setup(&json!({"one": fake(&[]), "two": fake(&[])})).devloop(&["list"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).ends_with("2 servers, all well.\n"));
    let output = setup(&json!({"slow": fake(&["slow", "60"])})).devloop(&["list", "--wait", "1"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("it has not answered yet; give it longer with --wait"));
    let output = setup(&json!({})).devloop(&["list"]);
    assert_eq!(
        (code(&output), stdout(&output)),
        (0, "0 servers, all well.\n".to_owned())
    );
}

#[test]
fn tools_shows_what_is_served_and_what_is_not() {
    let setup = setup(&json!({"good": fake(&["bad-tools"]), "other": fake(&["duplicate"])}));
    let output = setup.devloop(&["tools", "--server", "good"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("good__echo   execute  Does echo.\n"), "{text}");
    assert!(
        text.contains("set aside good: `rooted`: its input schema: `oneOf` at the root"),
        "{text}"
    );
    assert!(text.ends_with("10 tools.\n"), "{text}");
    let output = setup.devloop(&["tools", "--format", "json"]);
    assert_eq!(code(&output), 1, "one list is refused");
    assert!(
        stderr(&output).contains("the name `echo` stands twice"),
        "{}",
        stderr(&output)
    );
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let echo = &listed["tools"][1];
    assert_eq!(
        (&echo["name"], &echo["server"], &echo["source"]),
        (&json!("good__echo"), &json!("good"), &json!("echo"))
    );
    assert_eq!(listed["quarantined"].as_array().map(Vec::len), Some(6));
    let output = setup.devloop(&["tools", "--server", "god"]);
    assert_eq!(code(&output), 64);
    assert!(stderr(&output).contains("the servers are: good, other"));
}

#[test]
fn call_prints_the_result_and_ends_with_its_code() {
    let setup = setup(&json!({"s": fake(&[]), "never started": {"command": "/no/such/program"}}));
    let output = setup.devloop(&["call", "s__steps"]);
    assert_eq!(
        (code(&output), stdout(&output).as_str()),
        (0, "{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}\n")
    );
    let output = setup.devloop(&["call", "s__fail"]);
    assert_eq!(code(&output), 1);
    assert!(stdout(&output).contains("\"isError\":true"));
    let output = setup.devloop(&["call", "s__steps", "--input", "[]"]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    let output = setup.devloop(&["call", "s__exit"]);
    assert_eq!(code(&output), 3);
    assert!(stderr(&output).contains("went away during the call (it ended with exit status: 1"));
    let output = setup.devloop(&["call", "s__ecko"]);
    assert_eq!(code(&output), 64);
    assert!(
        stderr(&output).contains("the nearest are s__echo"),
        "{}",
        stderr(&output)
    );
    let output = setup.devloop(&["call", "nobody__x"]);
    assert_eq!(code(&output), 64);
    assert!(stderr(&output).contains("no server has the tool `nobody__x`; the servers are: never started, s"));
}

#[test]
fn devloop_itself_is_a_server_of_the_version_without_a_handshake() {
    let project = tempfile::tempdir().expect("a directory");
    let serve = ["serve", "--agent", "pm", "--project-dir"].map(Value::from);
    let args: Vec<Value> = serve.into_iter().chain([json!(project.path())]).collect();
    let setup = setup(&json!({"own": {"command": env!("CARGO_BIN_EXE_devloop"), "args": args}}));
    let output = setup.devloop(&["list", "--format", "json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let own = &listed["servers"][0];
    assert_eq!(
        (&own["protocol"], &own["state"]),
        (&json!("2026-07-28"), &json!("connected")),
        "{own}"
    );
    let input = r#"{"items": [{"id": "step-001", "description": "Go through another one"}]}"#;
    let output = setup.devloop(&["call", "own__write_todolist", "--input", input]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["structuredContent"]["total"], 1, "{result}");
    assert!(project.path().join("agent-state/pm-todo.json").is_file());
}

/// Over `subscriptions/listen`, the only way in which a server without a handshake tells changes.
#[test]
fn a_change_of_a_server_without_a_handshake_is_heard() {
    crate::rig::run(async {
        let project = tempfile::tempdir().expect("a directory");
        let inner = setup(&json!({"s": fake(&[])}));
        let mut args = vec![json!("serve"), json!("--agent"), json!("pm"), json!("--project-dir")];
        args.extend([json!(project.path()), json!("--mcp-config"), json!(inner.file)]);
        let own = json!({"command": env!("CARGO_BIN_EXE_devloop"), "args": args});
        let rig = crate::rig::start(&[("own", own)], &crate::rig::options());
        rig.settled().await;
        let has = |source: &str| {
            let all = rig.catalogue.all();
            all.iter().any(|tool| tool.definition().source == source)
        };
        assert!(has("tool_search") && !has("s__echo"), "{:?}", rig.names());
        let query = json!({"query": "select:s__echo"});
        rig.call("own", "tool_search", query).await.expect("it answers");
        crate::rig::until("the loaded tool", || has("s__echo").then_some(())).await;
        rig.upstreams.close().await;
    });
}

#[cfg(feature = "upstream-http")]
#[test]
fn a_secret_of_an_address_or_a_header_is_printed_nowhere() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    let url = format!("http://me:opensesame@127.0.0.1:{port}/mcp?key=topsecret123");
    let setup = setup(&json!({"web": {"url": url, "headers": {"X-Key": "alsosecret456"}}}));
    for log in [None, Some("trace")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_devloop"));
        command
            .args(["mcp", "list", "--wait", "1", "--mcp-config"])
            .arg(&setup.file);
        match log {
            Some(level) => command.env("DEVLOOP_LOG", level),
            None => command.env_remove("DEVLOOP_LOG"),
        };
        let output = command.output().expect("the program starts");
        assert_eq!(code(&output), 1);
        let (out, err) = (stdout(&output), stderr(&output));
        assert!(out.contains("web  http"), "{out}");
        for secret in ["topsecret123", "opensesame", "alsosecret456"] {
            assert!(!out.contains(secret) && !err.contains(secret), "{log:?}: {out}{err}");
        }
        assert_eq!(log.is_none(), !err.contains("ERROR"), "{err}");
    }
}

#[test]
fn a_wrong_file_is_wrong_usage_with_every_place() {
    let output = setup(&json!({"s": {"command": "${DEVLOOP_UNSET_VARIABLE}"}, "t": {}})).devloop(&["list"]);
    assert_eq!(code(&output), 64);
    let text = stderr(&output);
    assert!(
        text.contains("mcpServers.s.command: the variable DEVLOOP_UNSET_VARIABLE is not set"),
        "{text}"
    );
    assert!(text.contains("mcpServers.t: needs `command`"), "{text}");
}
