//! The audit log: one record of each call, whatever became of it.

#![cfg(feature = "cli")]

mod program;

use std::borrow::Cow;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use devloop_contract::tool::Kind;
use devloop_core::permission::Mode;
use devloop_core::registry::ToolBuilder;
use devloop_runtime::AgentId;
use devloop_runtime::call::{Boxed, CallOutcome, CallRequest, Passed, ToolService};
use devloop_runtime::hooks::{After, Hook, HookCall};
use devloop_runtime::session::{Answer, Runner, RunnerCall, RunnerError, Session, ToolRunner, empty_catalogue};
use devloop_runtime::testing::{TestProject, TestSession};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use program::program;

const LOG: &str = "agent-state/.calls/calls.ndjson";

fn records_in(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join(LOG)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The records of a project of this process.
fn records(session: &TestSession) -> Vec<Value> {
    let project = session.session().project();
    project.flush(Duration::from_mins(1)).unwrap();
    records_in(project.path())
}

fn list(text: &str) -> Value {
    json!({"items": [{"id": "step-001", "description": text}]})
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => unreachable!(),
    }
}

/// A host's tool that ends as it is told to.
fn ender(session: &TestSession) {
    struct Ender;
    impl ToolRunner for Ender {
        fn run(&self, call: RunnerCall) -> devloop_runtime::call::Boxed<'_, Result<Answer, RunnerError>> {
            Box::pin(async move {
                match call.input["how"].as_str().unwrap() {
                    "panic" => panic!("told to"),
                    "fail" => Err(RunnerError::expected("no_luck", "it did not work", None)),
                    "pass" => Ok(Answer::Passed(Passed {
                        content: vec![json!({"type": "text", "text": "the server says no"})],
                        structured_content: None,
                        is_error: true,
                        meta: None,
                    })),
                    _ => Ok(Answer::Json(json!({}))),
                }
            })
        }
    }
    let tool = ToolBuilder::new("ender")
        .alias("end_it")
        .summary("Ends as it is told to.")
        .kind(Kind::ReadOnly)
        .input_schema(
            json!({"type": "object", "required": ["how"], "additionalProperties": false, "properties": {
                "how": {"type": "string", "description": "How."},
                "times": {"type": "integer", "description": "How often.", "default": 1},
            }}),
        )
        .example("Well", json!({"how": "well"}))
        .build()
        .unwrap();
    session
        .session()
        .catalogue()
        .register(tool, Runner::new(Ender))
        .unwrap();
}

#[test]
fn each_call_is_one_record_that_says_how_it_ended() {
    let project = TestProject::new();
    let session = project.session(AgentId::Coder);
    ender(&session);
    session.session().set_mode(Mode::Bypass);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut count = 0;
    let mut ended = |tool: &str, input: Value| {
        count += 1;
        let request = CallRequest::new(tool, object(input), format!("test:{count}"));
        runtime.block_on(session.session().call(request));
        let all = records(&session);
        assert_eq!(all.len(), count, "one record of each call");
        let record = all.last().unwrap().clone();
        assert_eq!(record["seq"], count);
        (record["outcome"]["code"].as_str().unwrap().to_owned(), record)
    };
    let (code, record) = ended("write_todolist", list("Try it"));
    assert_eq!(code, "ok");
    assert_eq!(
        (&record["agent"], &record["unit_id"]),
        (&json!("coder"), &json!("unit-a"))
    );
    assert_eq!(
        (&record["call_id"], &record["session_id"]),
        (&json!("call-1"), &json!("session-1"))
    );
    assert_eq!(
        (&record["tool_use_id"], &record["tool"]),
        (&json!("test:1"), &json!("write_todolist"))
    );
    assert_eq!(record["input"], list("Try it"));
    assert_eq!(
        record["built"]["items"][0]["depends_on"],
        json!([]),
        "defaults are filled in"
    );
    assert_eq!(record["decision"]["verdict"], "allow");
    assert!(
        record["decision"]["basis"].is_object() || record["decision"]["basis"].is_string(),
        "{record}"
    );
    assert!(record["ms"].as_f64() > Some(0.0) && record["alias"].is_null());

    assert_eq!(ended("write_todolist", json!({})).0, "invalid_input");
    let (code, record) = ended("write_todolists", json!({}));
    assert_eq!(
        (code.as_str(), &record["tool"]),
        ("unknown_tool", &json!("write_todolists"))
    );
    assert!(record["built"].is_null() && record["decision"].is_null());
    let (code, record) = ended("update_todo_item", json!({"id": "step-009", "status": "done"}));
    assert_eq!(code, "unknown_item");
    assert!(record["outcome"]["reason"].is_string());
    let (code, record) = ended("end_it", json!({"how": "well"}));
    assert_eq!(
        (code.as_str(), &record["tool"], &record["alias"]),
        ("ok", &json!("ender"), &json!("end_it"))
    );
    assert_eq!(record["built"], json!({"how": "well", "times": 1}));
    assert!(
        ended("ender", json!({"how": "well", "times": 1})).1["built"].is_null(),
        "as it was sent"
    );
    assert_eq!(ended("ender", json!({"how": "fail"})).0, "no_luck");
    let (code, record) = ended("ender", json!({"how": "pass"}));
    assert_eq!(
        (code.as_str(), &record["outcome"]["reason"]),
        ("upstream_failure", &json!("the server says no"))
    );
    let (code, record) = ended("ender", json!({"how": "panic"}));
    assert_eq!(code, "internal");
    assert_eq!(
        record["outcome"]["error_id"],
        "err-00000000-0000-0000-0000-000000000001"
    );
    session.session().set_mode(Mode::Plan);
    assert_eq!(
        ended("read_artifact", json!({"id": "0".repeat(64)})).0,
        "unknown_artifact"
    );
}

#[test]
fn what_is_denied_says_by_which_rule() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    ender(&session);
    session
        .call("ender", json!({"how": "well"}))
        .failure("permission_denied");
    let record = records(&session).pop().expect("a record");
    assert_eq!(record["outcome"]["code"], "permission_denied");
    assert_eq!(record["decision"]["verdict"], "ask");
    assert_eq!(record["decision"]["signature"], "ender");
}

#[test]
fn a_call_that_nobody_waits_for_is_recorded_too() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    ender(&session);
    session.session().set_mode(Mode::Bypass);
    let request = |how: &str| CallRequest::new("ender", object(json!({ "how": how })), "host:1");
    drop(session.session().submit(request("never begun")));
    let record = |n: usize| records(&session).get(n).map(|record| record["outcome"].clone());
    let abandoned = record(0).unwrap();
    assert_eq!(abandoned["code"], "abandoned");
    let cancelled = request("well");
    cancelled.cancel.cancel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(session.session().submit(cancelled));
    assert_eq!(record(1).unwrap()["code"], "cancelled");
}

/// Counts the calls whose end it hears of.
#[derive(Debug, Default)]
struct Counts(AtomicUsize);

impl Hook for Counts {
    fn name(&self) -> Cow<'static, str> {
        "counts".into()
    }

    fn after<'a>(&'a self, _call: HookCall<'a>, _outcome: &'a CallOutcome) -> Boxed<'a, After> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { After::Pass })
    }
}

#[test]
fn who_goes_away_leaves_a_call_that_is_ended_as_any_other_or_never_begins() {
    let project = TestProject::new();
    let identity = project.session(AgentId::Pm).session().identity().clone();
    let (counts, catalogue) = (Arc::new(Counts::default()), empty_catalogue());
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runner = {
        let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
        Runner::of(move |_| {
            let (begun, go) = (Arc::clone(&begun), Arc::clone(&go));
            async move {
                begun.notify_one();
                go.notified().await;
                panic!("too late for anybody")
            }
        })
    };
    let tool = ToolBuilder::new("slow")
        .summary("Breaks in the end.")
        .kind(Kind::ReadOnly)
        .input_schema(json!({"type": "object", "properties": {}, "additionalProperties": false}));
    catalogue.register(tool.build().unwrap(), runner).unwrap();
    let session = Session::builder(Arc::clone(project.project()), AgentId::Pm.agent(), identity)
        .tools(&catalogue)
        .mode(Mode::Bypass)
        .hook(Arc::clone(&counts) as Arc<dyn Hook>)
        .build()
        .unwrap();
    let submit = |id: &str| Box::pin(session.submit(CallRequest::new("slow", Map::new(), id)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let all = runtime.block_on(async {
        let first = submit("host:1");
        begun.notified().await;
        // Tools are exclusive unless they say otherwise: the second waits for the first.
        drop(submit("host:2"));
        drop(first);
        go.notify_one();
        loop {
            project.project().flush(Duration::from_mins(1)).unwrap();
            match records_in(project.path()) {
                all if all.len() == 2 => return all,
                _ => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    });
    let ends: Vec<_> = all
        .iter()
        .map(|record| (&record["tool_use_id"], &record["outcome"]))
        .collect();
    assert_eq!((ends[0].0, &ends[0].1["code"]), (&json!("host:2"), &json!("abandoned")));
    assert!(
        ends[0].1["reason"].as_str().unwrap().ends_with("it was not done"),
        "{all:?}"
    );
    assert_eq!((ends[1].0, &ends[1].1["code"]), (&json!("host:1"), &json!("internal")));
    assert_eq!(counts.0.load(Ordering::SeqCst), 1, "of the one that ran");
    assert_eq!(project.escalations().len(), 1);
}

#[test]
fn secrets_and_long_inputs_are_not_kept() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2");
    session.call("write_todolist", list(&format!("Log in with {token}")));
    session.call(
        "write_todolist",
        json!({"items": [], "password": "Tr0ub4dor&3xyz", "more": "x".repeat(100_000)}),
    );
    let records = records(&session);
    let text = project.text(LOG).unwrap();
    assert!(!text.contains("aB3dE5") && !text.contains("Tr0ub4dor"), "{text}");
    assert!(text.len() < 10_000);
    assert_eq!(
        records[0]["input"]["items"][0]["description"],
        "Log in with [redacted: a GitHub token]"
    );
    assert!(
        records[1]["input"]["more"]
            .as_str()
            .unwrap()
            .ends_with("characters more)")
    );
}

#[test]
fn a_log_that_cannot_be_written_fails_no_call() {
    let project = TestProject::new();
    project.put("agent-state/.calls", "in the way");
    let session = project.session(AgentId::Pm);
    session.call("write_todolist", list("x")).success();
    assert_eq!(project.escalations(), []);
}

fn devloop(args: &[&str], dir: &Path) -> Command {
    let mut command = program();
    command.args(args).arg("--project-dir").arg(dir).stdin(Stdio::null());
    command
}

fn run(args: &[&str], dir: &Path) -> Output {
    devloop(args, dir).output().unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers(output: &Output) -> Vec<u64> {
    lines(output).iter().map(|line| line["seq"].as_u64().unwrap()).collect()
}

fn some_calls(dir: &Path) {
    for (tool, agent, input) in [
        ("write_todolist", "pm", r#"{"items":[]}"#),
        ("write_todolist", "pm", "{}"),
        ("update_todo_item", "architect", r#"{"id":"step-001","status":"done"}"#),
        ("write_todolist", "architect", r#"{"items":[]}"#),
    ] {
        run(&["call", tool, "--agent", agent, "--input", input], dir);
    }
}

#[test]
fn calls_are_chosen_by_what_is_in_them() {
    let dir = tempfile::tempdir().unwrap();
    some_calls(dir.path());
    let json = |args: &[&str]| run(&[&["calls", "--format", "json"], args].concat(), dir.path());
    assert_eq!(numbers(&json(&[])), [1, 2, 3, 4]);
    assert_eq!(numbers(&json(&["--failed"])), [2, 3]);
    assert_eq!(numbers(&json(&["--agent", "devloop-pm"])), [1, 2]);
    assert_eq!(
        numbers(&json(&["--tool", "write_todolist", "--agent", "architect"])),
        [4]
    );
    assert_eq!(numbers(&json(&["--since", "3"])), [3, 4]);
    assert_eq!(numbers(&json(&["--since", "1h", "--failed"])), [2, 3]);
    let none = json(&["--since", "2999-01-01"]);
    assert_eq!(String::from_utf8(none.stderr).unwrap(), "No call is like that.\n");
    let table = String::from_utf8(run(&["calls", "--failed"], dir.path()).stdout).unwrap();
    assert_eq!(table.lines().count(), 2);
    assert!(table.contains("invalid_input") && table.contains("items"), "{table}");
    let wrong = run(&["calls", "--agent", "pmm"], dir.path());
    assert_eq!(wrong.status.code(), Some(64));
    let fresh = tempfile::tempdir().unwrap();
    assert_eq!(run(&["calls"], fresh.path()).status.code(), Some(64), "no project");
    fs::create_dir(fresh.path().join("agent-state")).unwrap();
    let empty = run(&["calls"], fresh.path());
    assert_eq!(
        String::from_utf8(empty.stderr).unwrap(),
        "No tool has been called in this project.\n"
    );
}

#[test]
fn calls_that_come_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    some_calls(dir.path());
    let mut child = devloop(&["calls", "--follow", "--failed", "--format", "json"], dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&shown.next().unwrap().unwrap()).unwrap()["seq"].clone();
    assert_eq!((next(), next()), (json!(2), json!(3)));
    some_calls(dir.path());
    assert_eq!((next(), next()), (json!(6), json!(7)));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_dry_run_tells_what_would_be_and_does_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let input = r#"{"items":[{"id":"step-001","description":"x"}]}"#;
    let call = |agent: &str, input: &str| {
        run(
            &[
                "call",
                "write_todolist",
                "--agent",
                agent,
                "--input",
                input,
                "--dry-run",
            ],
            dir.path(),
        )
    };
    let output = call("pm", input);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let told = &lines(&output)[0];
    assert_eq!(told["dry_run"], true);
    let would = &told["would"];
    assert_eq!(
        (&would["tool"], &would["decision"]["verdict"]),
        (&json!("write_todolist"), &json!("allow"))
    );
    assert_eq!(would["input"]["items"][0]["depends_on"], json!([]));
    assert!(
        would["sandbox"]["writes"]
            .to_string()
            .contains("agent-state/pm-todo.json"),
        "{told}"
    );
    assert_eq!(call("pm", "{}").status.code(), Some(2));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was done");
}

#[test]
fn a_batch_answers_each_line_and_ends_with_the_worst_code() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("calls.ndjson");
    let text = [
        r#"{"tool":"write_todolist","input":{"items":[{"id":"step-001","description":"x"}]},"tool_use_id":"mine"}"#,
        "",
        r#"{"input":{"id":"step-009","status":"done"}}"#,
        r#"{"tool":"write_todolist","input":{}}"#,
        r#"{"tool":"write_todolist","inputs":{}}"#,
        r#"{"tool":"write_todolist","tool":"write_todolist"}"#,
        "no json",
        r#"{"input":{"id":"step-001","status":"done"}}"#,
    ];
    fs::write(&file, text.join("\n")).unwrap();
    let project = dir.path().join("project");
    fs::create_dir(&project).unwrap();
    let batch = |more: &[&str]| {
        let args = [
            "call",
            "update_todo_item",
            "--agent",
            "pm",
            "--batch",
            file.to_str().unwrap(),
        ];
        run(&[&args[..], more].concat(), &project)
    };
    let dry = batch(&["--dry-run"]);
    assert_eq!(dry.status.code(), Some(2));
    assert_eq!(lines(&dry)[0]["result"]["would"]["tool"], "write_todolist");
    assert_eq!(fs::read_dir(&project).unwrap().count(), 0);
    let output = batch(&[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let answers = lines(&output);
    // Each says of which tool it is, where that can be read.
    assert_eq!(
        answers.iter().map(|answer| &answer["tool"]).collect::<Vec<_>>(),
        [
            "write_todolist",
            "update_todo_item",
            "write_todolist",
            "write_todolist",
            "write_todolist",
            "",
            "update_todo_item"
        ]
    );
    let told: Vec<_> = answers
        .iter()
        .map(|answer| {
            (
                answer["line"].as_u64().unwrap(),
                answer["result"]["code"].as_str().unwrap_or("ok"),
            )
        })
        .collect();
    let invalid = "invalid_input";
    assert_eq!(
        told,
        [
            (1, "ok"),
            (3, "unknown_item"),
            (4, invalid),
            (5, invalid),
            (6, invalid),
            (7, invalid),
            (8, "ok")
        ]
    );
    assert!(
        answers[3]["result"]["reason"]
            .as_str()
            .unwrap()
            .contains("unknown key `inputs`")
    );
    let records = records_in(&project);
    // Lines that name no call are none.
    assert_eq!(records.len(), 4);
    assert_eq!(records[0]["tool_use_id"], "mine");
    let stopped = batch(&["--stop-on-failure"]);
    assert_eq!(stopped.status.code(), Some(1));
    assert_eq!(lines(&stopped).len(), 2);
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("Stopped at line 3."));
    let missing = run(&["call", "--agent", "pm", "--batch", "/nonexistent/x"], &project);
    assert_eq!(missing.status.code(), Some(64));
    assert_eq!(run(&["call", "--agent", "pm"], &project).status.code(), Some(64));
    let output = run(
        &["call", "--agent", "pm", "--batch", dir.path().to_str().unwrap()],
        &project,
    );
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains(&format!(
            "cannot read line 1 of {}: Is a directory",
            dir.path().display()
        )),
        "{told}"
    );
}

#[test]
fn a_batch_comes_through_a_pipe_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = devloop(&["call", "write_todolist", "--agent", "pm", "--batch", "-"], dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    // Each is answered before the next one is sent.
    for n in 1..=3 {
        writeln!(input, "{}", json!({"input": list(&format!("x{n}"))})).unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!((&answer["line"], &answer["result"]["ok"]), (&json!(n), &json!(true)));
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

/// The writing end of a pipe, and of a socket, that nobody reads.
fn unread() -> [Stdio; 2] {
    let (reader, pipe) = std::io::pipe().unwrap();
    let (other, socket) = std::os::unix::net::UnixStream::pair().unwrap();
    drop((reader, other));
    [pipe.into(), std::os::fd::OwnedFd::from(socket).into()]
}

#[test]
fn a_batch_whose_answers_nobody_reads_stops_and_says_what_was_not_done() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    fs::create_dir(&project).unwrap();
    let file = dir.path().join("calls.ndjson");
    let line = json!({"tool": "write_todolist", "input": list("x")});
    fs::write(&file, format!("{line}\n\n{line}\n \n{line}")).unwrap();
    let batch = |file: &str, more: &[&str]| {
        let args = ["call", "--agent", "pm", "--batch", file];
        devloop(&[&args[..], more].concat(), &project)
    };
    let name = file.to_str().unwrap();
    let done = |output: Output, expected: &str| {
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(expected), "{told}");
    };
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    for out in unread() {
        let output = batch(name, &[]).stdout(out).output().unwrap();
        done(
            output,
            &format!("stopped before line 1 of {name}; 3 calls were not carried out"),
        );
    }
    for out in unread() {
        let output = batch(name, &["--dry-run"]).stdout(out).output().unwrap();
        done(
            output,
            &format!("stopped before line 1 of {name}; 3 calls were not explained"),
        );
    }
    assert_eq!(fs::read_dir(&project).unwrap().count(), 0, "nothing was done");
    let output = batch("-", &[])
        .stdin(fs::File::open(&file).unwrap())
        .stdout(full())
        .output()
        .unwrap();
    done(
        output,
        "stopped before line 3 of standard input; 2 calls were not carried out",
    );
    assert_eq!(records_in(&project).len(), 1);
    // Whoever writes the lines may never end.
    for rest in [None, Some(&line)] {
        let before = records_in(&project).len();
        let mut child = batch("-", &[])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let mut answers = BufReader::new(child.stdout.take().unwrap());
        writeln!(input, "{line}").unwrap();
        answers.read_line(&mut String::new()).unwrap();
        drop(answers);
        if let Some(rest) = rest {
            writeln!(input, "{rest}").unwrap();
            let output = child.wait_with_output().unwrap();
            done(
                output,
                "stopped before line 2 of standard input; it and what comes after it were not carried out",
            );
        } else {
            drop(input);
            let output = child.wait_with_output().unwrap();
            assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
        }
        assert_eq!(records_in(&project).len(), before + 1);
    }
}

#[test]
fn what_only_shows_something_ends_quietly_when_nobody_reads() {
    let dir = tempfile::tempdir().unwrap();
    let made = run(
        &[
            "call",
            "timeline_append",
            "--agent",
            "pm",
            "--input",
            r#"{"type":"x","summary":"y"}"#,
        ],
        dir.path(),
    );
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    for args in [
        &["calls"][..],
        &["calls", "--format", "json"],
        &["calls", "--follow"],
        &["timeline"],
        &["explain", "tool_search", "--agent", "pm", "--input", r#"{"query":"x"}"#],
    ] {
        for out in unread() {
            let output = devloop(args, dir.path()).stdout(out).output().unwrap();
            assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{args:?}");
        }
    }
    for args in [
        &["tools"][..],
        &["agents"],
        &["show", "tool_search"],
        &["completions", "bash"],
    ] {
        for out in unread() {
            let output = Command::new(env!("CARGO_BIN_EXE_devloop"))
                .args(args)
                .stdout(out)
                .output()
                .unwrap();
            assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{args:?}");
        }
    }
}

#[test]
fn calls_that_were_pruned_are_no_damage_and_are_told_only_to_whoever_asks_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("calls.ndjson");
    let line = json!({"tool": "write_todolist", "input": list("x")});
    fs::write(&file, format!("{line}\n{line}\n{line}\n")).unwrap();
    let made = run(
        &["call", "--agent", "pm", "--batch", file.to_str().unwrap()],
        dir.path(),
    );
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let mut kept = records_in(dir.path());
    for (record, (seq, time)) in kept.iter_mut().zip([(421, "10"), (422, "11"), (423, "12")]) {
        record["seq"] = json!(seq);
        record["ts"] = json!(format!("2026-01-01T{time}:00:00.000Z"));
    }
    // As after many full files, of which the newest are kept.
    fs::remove_file(dir.path().join(LOG)).unwrap();
    let write = |kept: &[Value]| {
        let lines: Vec<String> = kept.iter().map(Value::to_string).collect();
        let text = lines.join("\n") + "\n";
        fs::write(dir.path().join("agent-state/.calls/calls.000012.ndjson"), text).unwrap();
    };
    write(&kept);
    let shown = |args: &[&str]| {
        let output = run(&[&["calls", "--format", "json"], args].concat(), dir.path());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let numbers: Vec<u64> = lines(&output)
            .iter()
            .map(|line| line["seq"].as_u64().unwrap())
            .collect();
        (numbers, String::from_utf8(output.stderr).unwrap())
    };
    let all = vec![421, 422, 423];
    let older = "Older entries were pruned: the oldest one that is kept has number 421.\n";
    assert_eq!(shown(&[]), (all.clone(), String::new()));
    assert_eq!(shown(&["--agent", "pm"]), (all.clone(), String::new()));
    for since in ["1", "420", "2025-12-31"] {
        assert_eq!(shown(&["--since", since]), (all.clone(), older.to_owned()), "{since}");
    }
    for (since, from) in [("421", 0), ("422", 1), ("2026-01-01T10:00", 0), ("2026-01-01T11:00", 1)] {
        assert_eq!(
            shown(&["--since", since]),
            (all[from..].to_vec(), String::new()),
            "{since}"
        );
    }
    assert_eq!(shown(&["--failed"]), (Vec::new(), "No call is like that.\n".to_owned()));
    // A number that is missing among those that are kept is damage.
    kept.remove(1);
    write(&kept);
    assert_eq!(
        shown(&[]),
        (vec![421, 423], "Left out: 1 number that no entry has.\n".to_owned())
    );
}
