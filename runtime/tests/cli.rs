//! The `devloop` program as a person or a script meets it.

#![cfg(all(feature = "cli", unix))]

mod program;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use program::program;

const USAGE: i32 = 64;

fn devloop(args: &[&str]) -> Output {
    command(args).output().expect("the program starts")
}

fn command(args: &[&str]) -> Command {
    let mut command = program();
    command.args(args);
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

fn answer(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The program under a user for whom modes mean something: at uid 0 they stop nothing.
/// It runs from `place`, as the target directory may lie where that user cannot go.
fn unprivileged(place: &Path) -> Command {
    let program = place.join("devloop");
    // Not copied here: a child that another test starts meanwhile would hold the file open for writing, and what is open
    // for writing cannot be run.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_devloop"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
    let is_root = place.metadata().unwrap().uid() == 0;
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"])
            .arg(program);
        command
    } else {
        Command::new(program)
    };
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

/// Calls `write_todolist` for the PM.
fn write_list(dir: &Path, input: &str) -> Output {
    let dir = dir.to_str().expect("UTF-8");
    devloop(&[
        "call",
        "write_todolist",
        "--agent",
        "pm",
        "--project-dir",
        dir,
        "--call-id",
        "call-1",
        "--input",
        input,
    ])
}

fn list(dir: &Path, key: &str) -> Value {
    let text = fs::read_to_string(dir.join(format!("agent-state/{key}-todo.json"))).expect("the list is there");
    assert!(text.ends_with("}\n"), "a state file ends with a line end: {text}");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_call_answers_json_and_writes_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let input = r#"{"items":[{"id":"step-001","description":"读需求 🙂\nsecond line"},{"id":"step-002","description":"b","depends_on":["step-001"]}]}"#;
    let output = write_list(dir.path(), input);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        answer(&output),
        json!({"ok": true, "total": 2, "path": "agent-state/pm-todo.json", "current": "step-001", "ready": ["step-001"], "version": 1})
    );
    let list = list(dir.path(), "pm");
    let created = list["created_at"].as_str().unwrap();
    assert!(created.len() == 24 && created.ends_with('Z'), "{created}");
    assert_eq!(
        list,
        json!({
            "agent": "pm", "call_id": "call-1", "created_at": created,
            "items": [
                {"id": "step-001", "description": "读需求 🙂\nsecond line", "status": "todo"},
                {"id": "step-002", "description": "b", "depends_on": ["step-001"], "status": "todo"},
            ],
            "current": "step-001", "progress_pct": 0, "version": 1, "updated_at": created,
        })
    );
    let keys: Vec<_> = list.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "agent",
            "call_id",
            "created_at",
            "items",
            "current",
            "progress_pct",
            "version",
            "updated_at"
        ]
    );
}

#[test]
fn an_empty_list_has_nothing_current() {
    let dir = tempfile::tempdir().unwrap();
    let output = write_list(dir.path(), r#"{"items":[]}"#);
    assert_eq!(
        answer(&output),
        json!({"ok": true, "total": 0, "path": "agent-state/pm-todo.json", "ready": [], "version": 1})
    );
    assert_eq!(list(dir.path(), "pm")["current"], Value::Null);
}

#[test]
fn a_replaced_list_is_kept_and_told() {
    let dir = tempfile::tempdir().unwrap();
    write_list(dir.path(), r#"{"items":[{"id":"step-001","description":"old"}]}"#);
    let first = fs::read(dir.path().join("agent-state/pm-todo.json")).unwrap();
    let output = write_list(dir.path(), r#"{"items":[{"id":"step-002","description":"new"}]}"#);
    assert_eq!(
        answer(&output)["replaced"],
        json!({"total": 1, "done": 0, "open": ["step-001"]})
    );
    let history: Vec<_> = fs::read_dir(dir.path().join("agent-state/history"))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(history.len(), 1);
    let name = history[0].file_name().into_string().unwrap();
    assert!(name.starts_with("pm-todo.20") && name.ends_with("Z.json"), "{name}");
    assert_eq!(
        fs::read(history[0].path()).unwrap(),
        first,
        "the old list is kept byte by byte"
    );
    assert_eq!(list(dir.path(), "pm")["version"], 2);
}

#[test]
fn the_same_list_again_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let input = r#"{"items":[{"id":"step-001","description":"x"}]}"#;
    write_list(dir.path(), input);
    let before = fs::read(dir.path().join("agent-state/pm-todo.json")).unwrap();
    let events = || {
        fs::read_to_string(dir.path().join("agent-state/.events/events.ndjson"))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!(events(), 1);
    let output = write_list(dir.path(), input);
    assert_eq!(answer(&output)["unchanged"], true);
    assert_eq!(fs::read(dir.path().join("agent-state/pm-todo.json")).unwrap(), before);
    assert_eq!(events(), 1, "nothing happened, so nothing is told");
    assert!(!dir.path().join("agent-state/history").exists());
}

#[test]
fn the_event_carries_the_call_and_the_list() {
    let dir = tempfile::tempdir().unwrap();
    write_list(dir.path(), r#"{"items":[{"id":"step-001","description":"x"}]}"#);
    let journal = fs::read_to_string(dir.path().join("agent-state/.events/events.ndjson")).unwrap();
    let event: Value = serde_json::from_str(journal.trim_end()).unwrap();
    assert_eq!((&event["seq"], &event["name"]), (&json!(1), &json!("agent.todolist")));
    let payload = &event["payload"];
    assert_eq!(
        (&payload["agent"], &payload["call_id"]),
        (&json!("pm"), &json!("call-1"))
    );
    assert_eq!(
        payload["items"],
        json!([{"id": "step-001", "description": "x", "status": "todo"}])
    );
    assert!(payload["ts"].is_string() && payload.get("unit_id").is_none());
}

#[test]
fn a_coder_has_a_list_for_each_unit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let input = r#"{"items":[]}"#;
    let args = [
        "call",
        "write_todolist",
        "--agent",
        "devloop-coder",
        "--project-dir",
        path,
        "--input",
        input,
    ];
    let without = devloop(&args);
    assert_eq!((without.status.code(), stdout(&without)), (Some(USAGE), String::new()));
    assert!(stderr(&without).contains("--unit UNIT"));
    let with = devloop(&[&args[..], &["--unit", "todo-be"]].concat());
    assert_eq!(answer(&with)["path"], "agent-state/coder.todo-be-todo.json");
    assert_eq!(list(dir.path(), "coder.todo-be")["agent"], "coder");
}

#[test]
fn refused_input_names_every_problem_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for (input, texts) in [
        (
            r#"{"items":[{"id":"step-1","description":""}],"extra":1}"#,
            &["items[0].id", "items[0].description", "extra"][..],
        ),
        (
            r#"{"items":[{"id":"step-001","description":"a"},{"id":"step-001","description":"b"}]}"#,
            &["items[1].id: step-001 is already"],
        ),
        (
            r#"{"items":[{"id":"step-001","description":"a","depends_on":["step-009"]}]}"#,
            &["items[0].depends_on[0]: step-009"],
        ),
        (
            r#"{"items":[{"id":"step-001","description":"a","depends_on":["step-002"]},{"id":"step-002","description":"b","depends_on":["step-001"]}]}"#,
            &["step-001 → step-002 → step-001"],
        ),
        (r#"{"items":[],"items":[]}"#, &["duplicate key \"items\""]),
        ("[]", &["JSON object"]),
        ("{", &["no JSON"]),
        (
            r#"{"items":[{"id":"step-001","description":"   "}]}"#,
            &["items[0].description"],
        ),
    ] {
        let output = write_list(dir.path(), input);
        assert_eq!(output.status.code(), Some(2), "{input}");
        let answer = answer(&output);
        assert_eq!(
            (&answer["ok"], &answer["code"]),
            (&json!(false), &json!("invalid_input"))
        );
        for text in texts {
            let reason = answer["reason"].as_str().unwrap();
            assert!(reason.contains(text), "{input}: {reason}");
            assert!(stderr(&output).contains(text), "{input}");
        }
    }
    let left = fs::read_dir(dir.path().join("agent-state")).unwrap();
    let mut left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(
        left,
        [".calls", ".locks"],
        "refused input leaves its record and nothing else"
    );
}

#[test]
fn two_hundred_items_are_a_list_and_one_more_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let items = |count: usize| {
        let items: Vec<_> = (0..count)
            .map(|n| json!({"id": format!("step-{n:03}"), "description": "x"}))
            .collect();
        json!({ "items": items }).to_string()
    };
    assert_eq!(answer(&write_list(dir.path(), &items(200)))["total"], 200);
    assert_eq!(write_list(dir.path(), &items(201)).status.code(), Some(2));
}

#[test]
fn what_clients_send_instead_of_an_array_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let items = r#"[{"id":"step-001","description":"x"}]"#;
    let output = write_list(
        dir.path(),
        &json!({"items": items, "wait_for_previous": true}).to_string(),
    );
    assert_eq!(answer(&output)["total"], 1, "{}", stderr(&output));
}

#[test]
fn a_corrupt_list_is_set_aside_and_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("agent-state")).unwrap();
    fs::write(dir.path().join("agent-state/pm-todo.json"), "{\"agent\": \"pm\", \"ite").unwrap();
    let output = write_list(dir.path(), r#"{"items":[]}"#);
    assert_eq!(output.status.code(), Some(1));
    let answer = answer(&output);
    assert_eq!(answer["code"], "state_corrupt");
    let kept = answer["details"]["kept_as"].as_str().unwrap();
    assert_eq!(
        fs::read_to_string(dir.path().join(kept)).unwrap(),
        "{\"agent\": \"pm\", \"ite"
    );
    assert_eq!(
        write_list(dir.path(), r#"{"items":[]}"#).status.code(),
        Some(0),
        "the next call starts afresh"
    );
}

#[test]
fn a_link_in_the_way_is_a_sandbox_violation() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("agent-state")).unwrap();
    let output = write_list(dir.path(), r#"{"items":[]}"#);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let answer = answer(&output);
    assert_eq!(answer["code"], "sandbox_violation");
    assert!(
        answer["reason"]
            .as_str()
            .unwrap()
            .starts_with("Sandbox violation:pm tried to write agent-state/"),
        "{answer}"
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_broken_environment_is_a_system_error_with_an_id() {
    let dir = tempfile::tempdir().unwrap();
    // A directory that this user may not write to: nothing that the agent did, and nothing that it can mend.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let path = dir.path().to_str().unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut call = unprivileged(place.path());
    call.args([
        "call",
        "write_todolist",
        "--agent",
        "pm",
        "--project-dir",
        path,
        "--input",
        r#"{"items":[]}"#,
    ]);
    let output = call.output().unwrap();
    let answer = answer(&output);
    assert_eq!(
        (output.status.code(), &answer["code"]),
        (Some(3), &json!("internal")),
        "{answer}"
    );
    let error_id = answer["details"]["error_id"].as_str().unwrap();
    assert!(error_id.starts_with("err-"));
    let text = stderr(&output);
    assert_eq!(text.matches(error_id).count(), 1, "told once: {text}");
}

#[test]
fn input_comes_from_a_file_or_standard_input_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("input.json");
    fs::write(&file, r#"{"items":[]}"#).unwrap();
    assert_eq!(
        write_list(dir.path(), &format!("@{}", file.display())).status.code(),
        Some(0)
    );
    assert_eq!(write_list(dir.path(), "@/nonexistent").status.code(), Some(USAGE));
    let path = dir.path().to_str().unwrap();
    let mut child = command(&[
        "call",
        "write_todolist",
        "--agent",
        "pm",
        "--project-dir",
        path,
        "--input",
        "-",
    ])
    .stdin(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    child.stdin.take().unwrap().write_all(br#"{"items":[]}"#).unwrap();
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn wrong_usage_is_64_and_names_the_nearest_right_thing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for (args, text) in [
        (
            &["call", "write_todo_list", "--agent", "pm", "--project-dir", path][..],
            "write_todolist",
        ),
        (
            &["call", "write_todolist", "--agent", "pn", "--project-dir", path],
            "did you mean `pm`",
        ),
        (
            &[
                "call",
                "write_todolist",
                "--agent",
                "pm",
                "--project-dir",
                "/nonexistent",
            ],
            "/nonexistent",
        ),
        (&["call", "write_todolist", "--agent", "pm", "--project-dir", "/"], "/"),
        (
            &[
                "call",
                "write_todolist",
                "--agent",
                "pm",
                "--unit",
                "web",
                "--project-dir",
                path,
            ],
            "leave out --unit",
        ),
        (&["tolls"], "tools"),
        (&["tools", "--format", "xml"], "table"),
        (&[], "Usage"),
    ] {
        let output = devloop(args);
        assert_eq!(output.status.code(), Some(USAGE), "{args:?}");
        assert!(stderr(&output).contains(text), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}

#[test]
fn a_settings_file_with_an_unknown_key_is_refused_with_its_position() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("devloop.toml"), "[limits]\nlock_wait = 1\n").unwrap();
    let output = write_list(dir.path(), r#"{"items":[]}"#);
    assert_eq!(output.status.code(), Some(USAGE));
    assert!(stderr(&output).contains("line 2, column 1"), "{}", stderr(&output));
}

#[test]
fn the_catalogue_has_seven_forms_and_totals() {
    let anthropic: Value = answer(&devloop(&["tools", "--agent", "pm", "--format", "anthropic"]));
    let tool = &anthropic["tools"][0];
    let keys: Vec<_> = tool.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["name", "description", "input_schema"]);
    let mcp: Value = answer(&devloop(&["tools", "--format", "mcp"]));
    let named = |list: &Value| -> Value {
        let tools = list["tools"].as_array().unwrap().iter();
        tools
            .into_iter()
            .find(|tool| tool["name"] == "write_todolist")
            .unwrap()
            .clone()
    };
    let annotations = &named(&mcp)["annotations"];
    for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
        assert!(annotations[hint].is_boolean(), "{hint}");
    }
    assert_eq!(named(&mcp)["outputSchema"]["type"], "object");
    let all: Value = answer(&devloop(&["tools", "--format", "json"]));
    assert_eq!(named(&all)["kind"], "read_only");
    for (format, strict) in [("openai", false), ("openai-strict", true)] {
        let list: Value = answer(&devloop(&["tools", "--agent", "pm", "--format", format]));
        assert_eq!(list["tools"][0]["type"], "function");
        assert_eq!(list["tools"][0]["function"]["strict"], strict);
    }
    let gemini: Value = answer(&devloop(&["tools", "--agent", "pm", "--format", "gemini"]));
    let declared = &gemini["tools"][0]["functionDeclarations"][0];
    assert_eq!(declared["parameters"]["type"], "OBJECT");
    assert!(
        stdout(&devloop(&["tools"]))
            .lines()
            .any(|line| line.starts_with("write_todolist"))
    );
    let counts = devloop_generated::counts();
    assert_eq!(stdout(&devloop(&["tools", "--counts"])), format!("{counts}\n"));
}

#[test]
fn agents_and_a_tool_can_be_looked_at() {
    let agents: Value = answer(&devloop(&["agents", "--format", "json"]));
    let agents = agents["agents"].as_array().unwrap();
    // Anybody may add one.
    assert!(agents.len() >= 6 && agents.iter().any(|agent| agent["id"] == "devloop-pm"));
    assert_eq!(stdout(&devloop(&["agents"])).lines().count(), agents.len());
    let shown = stdout(&devloop(&["show", "write_todolist"]));
    for text in [
        "Writes this agent's whole todo list",
        "agent-state/{state_key}-todo.json",
        "state_corrupt",
        "Granted to",
    ] {
        assert!(shown.contains(text), "{text}");
    }
}

#[test]
fn output_that_is_piped_has_no_colour() {
    for args in [&["agents"][..], &["show", "write_todolist"], &["tools"], &["--help"]] {
        assert!(!stdout(&devloop(args)).contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn verify_makes_a_real_call_in_a_directory_of_its_own_or_a_given_one() {
    let output = devloop(&["verify"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(
        text.contains("✓ write_todolist · Writes this agent's whole todo list, rep\n"),
        "{text}"
    );
    for step in ["✓ serve", "✓ call", "✓ file", "✓ event"] {
        assert!(text.contains(step), "{step}: {text}");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    // What a run that was killed has left behind is in nobody's use.
    fs::create_dir(dir.path().join("agent-state")).unwrap();
    let left = r#"{"call_id":"verify-1","items":[]}"#;
    fs::write(dir.path().join("agent-state/pm-todo.json"), left).unwrap();
    for _ in 0..2 {
        assert_eq!(devloop(&["verify", "--project-dir", path]).status.code(), Some(0));
        assert!(
            !dir.path().join("agent-state/pm-todo.json").exists(),
            "nothing is left in the PM's way"
        );
        assert!(!dir.path().join("agent-state/history").exists());
    }
    let output = write_list(dir.path(), r#"{"items":[{"id":"step-001","description":"in use"}]}"#);
    assert!(answer(&output).get("replaced").is_none(), "{output:?}");
    let refused = devloop(&["verify", "--project-dir", path]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(list(dir.path(), "pm")["items"][0]["description"], "in use");
}

#[test]
fn a_project_that_was_initialised_is_in_good_health() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("shop");
    let path = project.to_str().unwrap();
    assert_eq!(devloop(&["init", path]).status.code(), Some(0));
    let output = devloop(&["doctor", "--project-dir", path]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert_eq!(
        devloop(&["doctor", "--project-dir", "/nonexistent"]).status.code(),
        Some(1)
    );
    assert_eq!(devloop(&["init", "/"]).status.code(), Some(USAGE));
}

#[test]
fn the_doctor_tells_of_rules_that_mean_no_tool_and_what_was_meant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert_eq!(devloop(&["init", path]).status.code(), Some(0));
    let rules = "[permissions]\ndeny = [\n  'write_todolst',\n  'Write_Todolist',\n  'mcp__devloop__write_todolst',\n  \
                 'Write_*',\n  'docs__unknown',\n  'mcp__docs',\n  'mcp__docs__*',\n  'write_todolist',\n  \
                 'mcp__devloop__write_todolist',\n  'Read(.env)',\n]\nallow = ['mcp__devloop__write_todolist', 'Bash(git *)']\n";
    fs::write(dir.path().join("devloop.toml"), rules).unwrap();
    let output = devloop(&["doctor", "--project-dir", path]);
    let text = stdout(&output);
    // It warns of what may be meant so.
    assert_eq!(output.status.code(), Some(0), "{text}");
    let warnings: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("! permission · "))
        .collect();
    let expected = [
        (
            "allow rule `mcp__devloop__write_todolist`",
            "did you mean `write_todolist`?",
        ),
        (
            "allow rule `Bash(git *)`",
            "devloop.toml:14); `Bash` is a client's own tool, and only the client's settings speak of those",
        ),
        (
            "deny rule `write_todolst`",
            "devloop.toml:3); did you mean `write_todolist`?",
        ),
        ("deny rule `Write_Todolist`", "did you mean `write_todolist`?"),
        (
            "deny rule `mcp__devloop__write_todolst`",
            "did you mean `mcp__devloop__write_todolist`?",
        ),
        ("deny rule `Write_*`", "did you mean `write_*`?"),
        (
            "deny rule `Read(.env)`",
            "`Read` is a client's own tool, and only the client's settings speak of those",
        ),
    ];
    assert_eq!(warnings.len(), expected.len(), "{text}");
    for (warning, (rule, end)) in warnings.iter().zip(expected) {
        assert!(warning.contains(rule) && warning.ends_with(end), "{warning}");
    }
}

#[test]
fn the_doctor_tells_of_rules_whose_content_is_not_heeded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert_eq!(devloop(&["init", path]).status.code(), Some(0));
    let rules = "[permissions]\nallow = ['two__run(git status*)', 'mcp_resources_read(docs:*)', 'two__run(*)']\nask = \
                 ['mcp__two(x)']\ndeny = ['two__Write(.env)', 'mcp_resources_list(x)', 'mcp__devloop__two__Write(x)', \
                 'mcp__devloop__mcp_resources_read(x)']\n";
    fs::write(dir.path().join("devloop.toml"), rules).unwrap();
    let output = devloop(&["doctor", "--project-dir", path]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let warnings: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("! permission · "))
        .collect();
    let expected = [
        (
            "calls of `two__run` are about",
            "allow rule `two__run(git status*)`",
            "allows none of them",
        ),
        (
            "calls of `mcp__two` are about",
            "ask rule `mcp__two(x)`",
            "asks for each of them",
        ),
        (
            "calls of `two__Write` are about",
            "deny rule `two__Write(.env)`",
            "denies each of them",
        ),
        (
            "calls of `mcp_resources_list` are about",
            "deny rule `mcp_resources_list(x)`",
            "denies each of them",
        ),
        (
            "calls of `mcp__devloop__two__Write` are about",
            "deny rule `mcp__devloop__two__Write(x)`",
            "denies each of them",
        ),
    ];
    assert_eq!(warnings.len(), expected.len(), "{text}");
    for (warning, (what, rule, effect)) in warnings.iter().zip(expected) {
        assert!(
            warning.contains("rules are not told what ") && warning.contains(what),
            "{warning}"
        );
        assert!(warning.contains(rule) && warning.contains(effect), "{warning}");
    }
}

#[test]
fn a_look_at_a_directory_leaves_nothing_in_it() {
    let all = |dir: &Path| {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .chain(fs::read_dir(dir.join("agent-state")).into_iter().flatten())
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        names
    };
    let doctor = |dir: &Path| {
        let before = all(dir);
        let output = devloop(&["doctor", "--project-dir", dir.to_str().unwrap()]);
        assert_eq!(all(dir), before);
        (output.status.code(), stdout(&output))
    };
    let dir = tempfile::tempdir().unwrap();
    let (code, text) = doctor(dir.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("is no project yet; `devloop init") && !text.contains("Everything"),
        "{text}"
    );

    assert_eq!(devloop(&["init", dir.path().to_str().unwrap()]).status.code(), Some(0));
    assert_eq!(doctor(dir.path()).0, Some(0));

    fs::remove_dir(dir.path().join("agent-state")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), dir.path().join("agent-state")).unwrap();
    let (code, text) = doctor(dir.path());
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("follow no link") && !text.contains("writable") && !text.contains("advisory"),
        "{text}"
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_told_so_and_nothing_about_locks() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert_eq!(devloop(&["init", path]).status.code(), Some(0));
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(dir.path().join("agent-state"), fs::Permissions::from_mode(0o555)).unwrap();
    let output = unprivileged(place.path())
        .args(["doctor", "--project-dir", path])
        .output()
        .unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for check in ["✗ writing", "✗ locks"] {
        let line = text
            .lines()
            .find(|line| line.starts_with(check))
            .unwrap_or_else(|| panic!("{text}"));
        assert!(
            line.ends_with("let this user read and write there, or work as one who may"),
            "{line}"
        );
    }
}

#[test]
fn what_goes_wrong_beside_a_call_is_told_on_standard_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("agent-state/.events/events.ndjson")).unwrap();
    let output = write_list(dir.path(), r#"{"items":[]}"#);
    assert_eq!((output.status.code(), &answer(&output)["ok"]), (Some(0), &json!(true)));
    assert!(
        stderr(&output).contains("WARN the event journal cannot be written"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_byte_order_mark_before_the_input_is_no_part_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let input = "\u{FEFF}{\"items\":[]}";
    assert_eq!(write_list(dir.path(), input).status.code(), Some(0));
    let file = dir.path().join("input.json");
    fs::write(&file, input).unwrap();
    let output = write_list(dir.path(), &format!("@{}", file.display()));
    assert_eq!(answer(&output)["unchanged"], true, "{output:?}");
}

#[test]
fn the_clients_session_is_blamed_by_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let output = command(&["call", "write_todolist", "--agent", "pm", "--project-dir", path])
        .env("CLAUDE_CODE_SESSION_ID", "a\tb")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(USAGE));
    assert!(
        stderr(&output).starts_with("error: CLAUDE_CODE_SESSION_ID must"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&devloop(&["completions", shell])).contains("devloop"), "{shell}");
    }
}

/// What `devloop explain` says of a call of the PM.
fn explain(dir: &Path, args: &[&str]) -> Output {
    let dir = dir.to_str().expect("UTF-8");
    devloop(&[&["explain", "--agent", "pm", "--project-dir", dir][..], args].concat())
}

#[test]
fn an_explanation_ends_as_the_call_would() {
    let dir = tempfile::tempdir().unwrap();
    let list = r#"{"items":[]}"#;
    for (args, code, parts) in [
        (
            &["write_todolist", "--input", list][..],
            0,
            &[
                "allow: ",
                "of the agent's template",
                "agent-state/pm-todo.json",
                "exclusive, at most 10s",
            ][..],
        ),
        // The first example stands for an input; a grant is an allow rule, which comes before rules that ask.
        (&["write_todolist", "--ask", "write_*"], 0, &["allow: "]),
        (
            &["write_todolist", "--deny", "write_*", "--allow", "write_todolist"],
            2,
            &["deny: ", "the deny rule `write_*`", "(--deny)"],
        ),
        (&["write_todolist", "--mode", "plan"], 0, &["allow: "]),
        (
            &["mcp_task_cancel", "--mode", "plan"],
            2,
            &["deny: ", "the mode is `plan`"],
        ),
        (
            &["mcp_task_cancel", "--mode", "bypass", "--deny", "mcp_*"],
            2,
            &["deny: ", "`mcp_*`"],
        ),
        (
            &["tool_search"],
            0,
            &["no file of the project", "tried again after a failure that passes"],
        ),
    ] {
        let output = explain(dir.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        for part in parts {
            assert!(stdout(&output).contains(part), "{args:?}: {part}: {}", stdout(&output));
        }
    }
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        0,
        "nothing runs, and nothing is kept"
    );
}

#[test]
fn an_explanation_as_json_has_the_decision_and_its_rule() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["write_todolist", "--deny", "write_*", "--format", "json"];
    let output = explain(dir.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    let explanation = answer(&output);
    assert_eq!(explanation["decision"]["verdict"], "deny");
    assert_eq!(
        explanation["decision"]["basis"],
        json!({"by": "rule", "list": "deny", "rule": "write_*", "origin": {"source": "host", "place": "--deny"}})
    );
    assert_eq!(explanation["turn"]["parallelism"], "exclusive");
    assert_eq!(explanation["input"]["items"][0]["depends_on"], json!([]), "as built");
    assert_eq!(
        explanation["sandbox"]["writes"],
        json!(["agent-state/pm-todo.json", "agent-state/history/pm-todo.*.json"])
    );
}

#[test]
fn the_rules_of_a_projects_settings_are_explained_and_a_grant_outdoes_what_they_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let settings = "[permissions]\nask = [\"write_todolist\"]\ndeny = [\"record_*\"]\n";
    fs::write(dir.path().join("devloop.toml"), settings).unwrap();
    let denied = explain(dir.path(), &["record_memory"]);
    assert_eq!(denied.status.code(), Some(2));
    for part in ["the deny rule `record_*`", "devloop.toml"] {
        assert!(stdout(&denied).contains(part), "{part}: {}", stdout(&denied));
    }
    assert_eq!(explain(dir.path(), &["write_todolist"]).status.code(), Some(0));
}

#[test]
fn a_call_of_an_upstream_servers_tool_is_explained_too() {
    let dir = tempfile::tempdir().unwrap();
    let (own, other) = (dir.path().join("own"), dir.path().join("other"));
    for project in [&own, &other] {
        assert!(devloop(&["init", project.to_str().unwrap()]).status.success());
    }
    // This program is a server that is at hand.
    let servers = dir.path().join("mcp.json");
    let arguments = ["serve", "--agent", "pm", "--project-dir", other.to_str().unwrap()];
    let config = json!({ "mcpServers": { "other": { "command": env!("CARGO_BIN_EXE_devloop"), "args": arguments } } });
    fs::write(&servers, config.to_string()).unwrap();
    let ask = |more: &[&str]| {
        let args = ["other__write_todolist", "--input", r#"{"items":[]}"#, "--mcp-config"];
        explain(&own, &[&args[..], &[servers.to_str().unwrap()], more].concat())
    };
    let asked = ask(&[]);
    assert_eq!(asked.status.code(), Some(1), "{asked:?}");
    let said = String::from_utf8(asked.stdout).unwrap();
    assert!(
        said.contains("no rule speaks of it") && said.contains("--allow 'other__write_todolist'"),
        "{said}"
    );
    assert_eq!(ask(&["--allow", "other__*"]).status.code(), Some(0));
    assert_eq!(ask(&["--deny", "mcp__other__*"]).status.code(), Some(2));
    // Nothing was called.
    assert!(!other.join("agent-state/pm-todo.json").exists());
}

#[test]
fn what_cannot_be_explained_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = explain(dir.path(), &["write_todolst"]);
    assert_eq!(unknown.status.code(), Some(USAGE));
    assert!(
        stderr(&unknown).contains("did you mean write_todolist?"),
        "{}",
        stderr(&unknown)
    );
    for (args, part) in [
        (&["write_todolist", "--allow", "("][..], "--allow"),
        (&["write_todolist", "--mode", "yolo"], "bypass"),
        (&["write_todolist", "--input", "@/nonexistent"], "/nonexistent"),
    ] {
        let output = explain(dir.path(), args);
        assert_eq!(output.status.code(), Some(USAGE), "{args:?}");
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
    for (input, part) in [
        ("[]", "must be a JSON object"),
        ("{", "no JSON"),
        (r#"{"itms":[]}"#, "itms"),
    ] {
        let output = explain(dir.path(), &["write_todolist", "--input", input]);
        assert_eq!(output.status.code(), Some(2), "{input}");
        let answer = answer(&output);
        assert_eq!(answer["code"], "invalid_input");
        assert!(answer["reason"].as_str().unwrap().contains(part), "{input}: {answer}");
    }
}

#[test]
fn the_tools_that_every_agent_has_are_shown_like_the_others() {
    let listed = stdout(&devloop(&["tools", "--agent", "coder"]));
    for name in ["tool_search", "read_artifact", "mcp_resources_read", "mcp_task_cancel"] {
        assert!(listed.lines().any(|line| line.starts_with(name)), "{name}: {listed}");
        let shown = stdout(&devloop(&["show", name]));
        for part in [
            "nobody: every agent has it",
            "specs/tools/catalog/",
            "Example: ",
            "none in the project",
        ] {
            assert!(shown.contains(part), "{name}: {part}: {shown}");
        }
    }
    for format in ["json", "anthropic", "openai", "openai-strict", "gemini", "mcp"] {
        let output = devloop(&["tools", "--agent", "coder", "--format", format]);
        assert!(stdout(&output).contains("\"tool_search\""), "{format}: {output:?}");
    }
}

#[test]
fn what_a_provider_is_not_told_is_said_beside_its_declarations() {
    for format in ["openai-strict", "gemini"] {
        let output = devloop(&["tools", "--format", format]);
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.starts_with("mcp_prompt_get: "))
            .collect();
        assert_eq!(lines.len(), 1, "{format}: {said}");
        assert!(lines[0].contains("/properties/arguments: "), "{format}: {said}");
        assert!(serde_json::from_slice::<Value>(&output.stdout).is_ok(), "{format}");
    }
    // Plain functions lose nothing but what a description has too much.
    let said = String::from_utf8(devloop(&["tools", "--format", "openai"]).stderr).unwrap();
    assert!(
        said.lines().all(|line| line.contains(": description: it has ")),
        "{said}"
    );
    assert_eq!(devloop(&["tools", "--format", "anthropic"]).stderr, b"");
}

#[test]
fn completions_know_the_commands_and_the_words_of_a_mode() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&devloop(&["completions", shell]));
        for word in ["explain", "mcp-config", "deny"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            stdout(&devloop(&["completions", shell])).contains("auto_edit"),
            "{shell}"
        );
    }
}
