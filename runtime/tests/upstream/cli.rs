//! `devloop mcp`.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};

use crate::alive::is_alive;
use crate::program::program;
use crate::rig::{dead, fake};

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
        program()
            .arg("mcp")
            .args(args)
            .arg("--mcp-config")
            .arg(&self.file)
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

/// What a program that is told to stop leaves.
fn ended_by(signal: &str, child: Child) -> Output {
    let killed = Command::new("kill")
        .args(["-s", signal, &child.id().to_string()])
        .status();
    assert!(killed.expect("it runs").success());
    child.wait_with_output().expect("it ends")
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
    let libraries = "trace,rmcp=trace,reqwest=trace,hyper_util=trace,hyper=trace";
    for log in [None, Some("trace"), Some(libraries)] {
        let mut command = program();
        command
            .args(["mcp", "list", "--wait", "1", "--mcp-config"])
            .arg(&setup.file);
        command.envs(log.map(|level| ("DEVLOOP_LOG", level)));
        let output = command.output().expect("the program starts");
        assert_eq!(code(&output), 1);
        let (out, err) = (stdout(&output), stderr(&output));
        assert!(out.contains("web  http"), "{out}");
        for secret in ["topsecret123", "opensesame", "alsosecret456"] {
            assert!(!out.contains(secret) && !err.contains(secret), "{log:?}: {out}{err}");
        }
        assert_eq!(log == Some(libraries), err.contains("ERROR"), "{err}");
    }
}

#[test]
fn what_a_server_says_is_in_the_log_faults_for_everybody_and_the_rest_for_whoever_asks() {
    let mut chatty = fake(&["chatty"]);
    chatty["env"] = json!({ "FAKE_TOKEN": "opensesame99" });
    let setup = setup(&json!({ "g": fake(&["garbage"]), "c": chatty }));
    for (log, rest) in [(None, false), (Some("debug"), true)] {
        let mut command = program();
        command.args(["mcp", "list", "--mcp-config"]).arg(&setup.file);
        command.envs(log.map(|level| ("DEVLOOP_LOG", level)));
        let output = command.output().expect("the program starts");
        let err = stderr(&output);
        assert_eq!(code(&output), 0, "{err}");
        assert!(
            err.contains("an upstream server says (stdout): not a frame of the protocol: Welcome"),
            "{err}"
        );
        assert!(!err.contains("opensesame99") && !err.contains('\u{1b}'), "{err}");
        assert_eq!(err.contains("says (stderr): warming up"), rest, "{err}");
        let faults = err.matches("the stove is cold").count();
        assert!(
            if rest { faults == 50 } else { (1..=10).contains(&faults) },
            "{faults}: {err}"
        );
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

/// A project and servers, for commands that work for an agent.
struct Project {
    dir: tempfile::TempDir,
    servers: PathBuf,
}

impl Project {
    fn new(servers: &Value) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("mcp.json");
        std::fs::write(&file, json!({ "mcpServers": servers }).to_string()).expect("it writes");
        Self { dir, servers: file }
    }

    fn devloop(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program starts")
    }

    fn command(&self, args: &[&str]) -> Command {
        let project = self.dir.path().join("project");
        std::fs::create_dir_all(&project).expect("a directory");
        let mut command = program();
        command.args(args).arg("--mcp-config").arg(&self.servers);
        if args[0] != "tools" {
            command.args(["--agent", "pm", "--project-dir"]).arg(&project);
        }
        command.env("XDG_STATE_HOME", self.dir.path().join("state"));
        command
    }
}

#[test]
fn explain_waits_for_the_server_that_it_is_asked_about_and_names_it_when_it_does_not_answer() {
    let project = Project::new(&json!({ "quick": fake(&[]), "hang": fake(&["hang"]) }));
    let began = std::time::Instant::now();
    let output = project.devloop(&["explain", "quick__echo"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    assert!(stdout(&output).contains("no rule speaks of it"), "{}", stdout(&output));
    // A tool of ours needs no server at all.
    assert_eq!(code(&project.devloop(&["explain", "tool_search"])), 0);
    assert!(began.elapsed().as_secs() < 30, "nobody waited for the other server");
    for command in ["explain", "call"] {
        let output = project.devloop(&[command, "hang__a", "--wait", "1"]);
        assert_eq!(code(&output), 1, "{command}: {}", stderr(&output));
        assert!(
            stderr(&output).contains("hang: it has not answered yet; give it longer with --wait"),
            "{command}: {}",
            stderr(&output)
        );
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(answer["code"], "server_down", "{command}: {answer}");
        let output = project.devloop(&[command, "nobody__a"]);
        assert_eq!(code(&output), 64);
        assert!(
            stderr(&output).contains("no server has the tool `nobody__a`; the servers are: hang, quick"),
            "{command}: {}",
            stderr(&output)
        );
        let output = project.devloop(&[command, "quick__ecko"]);
        assert_eq!(code(&output), 64);
        assert!(
            stdout(&output).contains("quick__echo"),
            "{command}: {}",
            stdout(&output)
        );
    }
}

#[test]
fn call_reaches_tools_of_servers_on_the_path_of_all_calls() {
    let project = Project::new(&json!({ "s": fake(&[]), "hang": fake(&["hang"]) }));
    let answer = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).expect("JSON");
    let allow = ["--allow", "s__*"];
    let with = |args: &[&str]| project.devloop(&[args, &allow[..]].concat());
    let output = with(&["call", "s__echo", "--input", "{\"a\":1}"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(answer(&output)["structuredContent"]["echo"]["a"], 1);
    assert_eq!(code(&with(&["call", "s__fail"])), 1);
    let output = with(&["call", "s__echo", "--dry-run"]);
    assert_eq!(answer(&output)["would"]["decision"]["verdict"], "allow");
    // The registry's own tools that go on to a server wait for the one that is named.
    let output = with(&[
        "call",
        "mcp_resources_read",
        "--input",
        r#"{"server":"s","uri":"file:///a"}"#,
    ]);
    assert_eq!(
        answer(&output)["contents"][0]["text"],
        "contents",
        "{}",
        stderr(&output)
    );
    let output = with(&[
        "call",
        "tool_search",
        "--wait",
        "2",
        "--input",
        r#"{"query":"select:s__echo"}"#,
    ]);
    assert_eq!(answer(&output)["loaded"], json!(["s__echo"]), "{}", stderr(&output));
    let lines =
        "{\"tool\":\"s__echo\",\"input\":{\"b\":2}}\n{\"tool\":\"tool_search\",\"input\":{\"query\":\"echo\"}}\n";
    let batch = project.dir.path().join("batch.ndjson");
    std::fs::write(&batch, lines).expect("it writes");
    let output = with(&["call", "--wait", "2", "--batch", batch.to_str().expect("UTF-8")]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let told: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(told[0]["result"]["structuredContent"]["echo"]["b"], 2);
    assert_eq!(told[1]["result"]["tools"][0]["name"], "s__echo");
    // It stands in the audit log like all others.
    let calls = std::fs::read_to_string(project.dir.path().join("project/agent-state/.calls/calls.ndjson"));
    assert_eq!(calls.expect("a log").matches("\"tool\":\"s__echo\"").count(), 2);
}

/// Waits until a file says something.
fn until_said(file: &std::path::Path, part: &str) {
    crate::rig::run(async {
        crate::rig::until(part, || {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            text.contains(part).then_some(())
        })
        .await;
    });
}

#[test]
fn a_call_that_is_told_to_stop_tells_its_server_and_is_recorded() {
    const SLEEP: &str = r#"{"tool":"s__sleep","input":{"seconds":60}}"#;
    for (signal, expected) in [("INT", 130), ("TERM", 143)] {
        for is_batch in [false, true] {
            let logs = tempfile::tempdir().expect("a directory");
            let log = logs.path().join("log");
            // One that does not end must hold up nothing.
            let mut server = fake(if is_batch { &["stubborn"] } else { &[] });
            server["env"] = json!({ "FAKE_LOG": log });
            let project = Project::new(&json!({ "s": server }));
            let batch = logs.path().join("batch.ndjson");
            std::fs::write(&batch, format!("{{\"tool\":\"s__steps\"}}\n{SLEEP}\n{SLEEP}\n")).expect("it writes");
            let args: &[&str] = if is_batch {
                &["call", "--allow", "s__*", "--batch", batch.to_str().expect("UTF-8")]
            } else {
                &["call", "s__sleep", "--allow", "s__*", "--input", "{\"seconds\":60}"]
            };
            let mut command = project.command(args);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().expect("the program starts");
            until_said(&log, "sleep\n");
            let output = ended_by(signal, child);
            assert_eq!(code(&output), expected, "{signal}: {output:?}");
            let lines: Vec<Value> = stdout(&output)
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"))
                .collect();
            let last = lines.last().expect("an answer");
            let told = if is_batch { &last["result"] } else { last };
            assert_eq!(told["code"], "cancelled", "{output:?}");
            assert_eq!(lines.len(), if is_batch { 2 } else { 1 }, "the third call is not made");
            until_said(&log, "cancelled: the caller cancelled\n");
            let calls = project.dir.path().join("project/agent-state/.calls/calls.ndjson");
            let calls = std::fs::read_to_string(calls).expect("a log");
            let records: Vec<Value> = calls
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .filter(|record: &Value| record["tool"] == "s__sleep")
                .collect();
            assert_eq!(records.len(), 1, "{calls}");
            assert_eq!(records[0]["outcome"]["code"], "cancelled", "{calls}");
        }
    }
}

/// The processes of a server in whose log their numbers stand.
fn pids(log: &std::path::Path) -> Vec<i32> {
    until_said(log, "pids ");
    let text = std::fs::read_to_string(log).expect("a log");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("pids "))
        .expect("a line");
    line.split(' ').map(|pid| pid.parse().expect("a number")).collect()
}

/// Without a project: nothing but the exit code and what the server hears tells of it.
#[test]
fn what_looks_at_servers_without_a_project_ends_them_when_it_is_told_to_stop() {
    let sleep = ["mcp", "call", "s__sleep", "--input", r#"{"seconds":60}"#];
    for (args, mode, signal, expected) in [
        (&sleep[..], "good", "INT", 130),
        (&sleep, "good", "TERM", 143),
        // One that does not end must hold up nothing.
        (&sleep, "stubborn", "INT", 130),
        (&["mcp", "list"], "hang", "INT", 130),
        (&["mcp", "tools"], "hang", "TERM", 143),
        (&["tools"], "hang", "INT", 130),
    ] {
        let logs = tempfile::tempdir().expect("a directory");
        let log = logs.path().join("log");
        let mut server = fake(&[mode, "parent"]);
        server["env"] = json!({ "FAKE_LOG": log });
        let setup = setup(&json!({ "s": server }));
        let mut command = program();
        command.args(args).arg("--mcp-config").arg(&setup.file);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the program starts");
        let pids = pids(&log);
        assert!(pids.len() == 2 && pids.iter().all(|pid| is_alive(*pid)), "{pids:?}");
        let is_call = mode != "hang";
        if is_call {
            until_said(&log, "sleep\n");
        }
        let output = ended_by(signal, child);
        assert_eq!(code(&output), expected, "{args:?} {signal}: {output:?}");
        assert_eq!(stdout(&output), "", "{args:?}: what has not come is not printed");
        if is_call {
            until_said(&log, "cancelled: the caller cancelled\n");
            assert!(
                stderr(&output).contains("the call was cancelled"),
                "{}",
                stderr(&output)
            );
        }
        crate::rig::run(async {
            for pid in pids {
                dead(pid).await;
            }
        });
    }
}

#[test]
fn the_help_of_calls_by_hand_says_that_they_leave_no_record() {
    for args in [&["mcp", "--help"][..], &["mcp", "call", "--help"]] {
        let output = program().args(args).output().expect("it starts");
        let help = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "no record",
            "devloop call TOOL --agent A --project-dir DIR --mcp-config FILE",
        ] {
            assert!(help.contains(part), "{part}: {help}");
        }
    }
}

#[test]
fn explain_call_and_dry_run_end_alike() {
    let project = Project::new(&json!({ "s": fake(&[]) }));
    for (rules, expected) in [
        (&["--allow", "s__*"][..], 0),
        (&[], 1),
        (&["--deny", "s__*"], 2),
        (&["--mode", "plan"], 2),
    ] {
        for command in [&["explain"][..], &["call"], &["call", "--dry-run"]] {
            let output = project.devloop(&[command, &["s__echo"], rules].concat());
            assert_eq!(code(&output), expected, "{command:?} {rules:?}: {output:?}");
        }
    }
    // Wrong input is refused whatever the rules say.
    for command in [&["explain"][..], &["call"], &["call", "--dry-run"]] {
        let output = project.devloop(&[command, &["s__echo", "--input", "[]"]].concat());
        assert_eq!(code(&output), 2, "{command:?}: {output:?}");
    }
}

#[test]
fn explain_makes_an_input_for_a_tool_that_shows_none() {
    let project = Project::new(&json!({ "s": fake(&["needs"]) }));
    let output = project.devloop(&["explain", "s__needs", "--allow", "s__*"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let output = project.devloop(&["explain", "s__needs", "--allow", "s__*", "--input", "{}"]);
    assert_eq!(code(&output), 2, "{output:?}");
}

#[test]
fn tools_of_servers_are_shown_in_every_form_with_what_is_lost() {
    let project = Project::new(&json!({ "s": fake(&["says"]), "lost": { "command": "/no/such/program" } }));
    for (format, pointer, losses) in [
        ("json", "/name", &[][..]),
        ("mcp", "/name", &[]),
        ("anthropic", "/name", &[]),
        (
            "openai",
            "/function/name",
            &["s__wordy: description: it has 1900 characters, at most 1024 are taken"],
        ),
        (
            "openai-strict",
            "/function/name",
            &[
                "s__wordy: the root",
                "description: it has 1900 characters, at most 1024 are taken",
                "s__typeless: /properties/p: a schema without a type",
            ],
        ),
        ("gemini", "/name", &["s__always: "]),
    ] {
        let output = project.devloop(&["tools", "--agent", "pm", "--format", format]);
        // One server is not well.
        assert_eq!(code(&output), 1, "{format}: {}", stderr(&output));
        let told = stderr(&output);
        for part in [
            &["lost: `/no/such/program` can't be started", "set aside s: `rooted`: "],
            losses,
        ]
        .concat()
        {
            assert!(told.contains(part), "{format}: {part}: {told}");
        }
        let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let list = match format {
            "gemini" => &listed["tools"][0]["functionDeclarations"],
            _ => &listed["tools"],
        };
        let names: Vec<&str> = list
            .as_array()
            .expect("a list")
            .iter()
            .map(|tool| tool.pointer(pointer).and_then(Value::as_str).expect("a name"))
            .collect();
        for name in ["s__always", "s__hinted", "s__wordy", "write_todolist", "tool_search"] {
            assert!(names.contains(&name), "{format}: {name}: {names:?}");
        }
        assert!(!names.contains(&"s__rooted"), "{format}");
    }
    let output = project.devloop(&["tools"]);
    let table = stdout(&output);
    assert!(table.contains("s__hinted"), "{table}");
    // What is too long for a table is cut there; the one sentence has 2,000 characters.
    let line = table
        .lines()
        .find(|line| line.starts_with("s__breathless"))
        .expect("a line");
    assert!(line.ends_with('…') && line.chars().count() < 230, "{line}");
}

#[test]
fn a_tool_that_was_set_aside_is_not_called_unknown() {
    let project = Project::new(&json!({ "s": fake(&["needs"]) }));
    for command in ["call", "explain"] {
        let output = project.devloop(&[command, "s__rooted"]);
        assert_eq!(code(&output), 1, "{output:?}");
        let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(told["code"], "tool_set_aside", "{told}");
        let reason = told["reason"].as_str().expect("a text");
        assert!(
            reason.contains("set aside: its input schema: `oneOf` at the root"),
            "{reason}"
        );
        // What its server does not have is unknown as ever.
        assert_eq!(code(&project.devloop(&[command, "s__rootet"])), 64);
    }
}
