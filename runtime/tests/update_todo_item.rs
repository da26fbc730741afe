//! `update_todo_item` through the real program: answers, exit codes, the file, the events, and many processes at once.

#![cfg(all(feature = "cli", unix))]

mod program;

use std::fs::{self, File};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use devloop_core::sandbox::ProjectDir;
use devloop_core::store::Clock;
use devloop_generated::AgentId;
use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
use devloop_runtime::config::Config;
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::project::Project;
use devloop_runtime::session::Session;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use program::program;

const OK: i32 = 0;
const EXPECTED: i32 = 1;
const REFUSED: i32 = 2;

fn call(dir: &Path, tool: &str, input: &Value) -> Output {
    program()
        .args(["call", tool, "--agent", "pm", "--call-id", "call-1"])
        .args(["--input", &input.to_string()])
        .arg("--project-dir")
        .arg(dir)
        .output()
        .expect("the program starts")
}

/// Moves an item; the answer, after a look at the exit code.
#[track_caller]
fn update(dir: &Path, exit: i32, input: &Value) -> Value {
    let output = call(dir, "update_todo_item", input);
    assert_eq!(output.status.code(), Some(exit), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A refusal's code and its data.
#[track_caller]
fn refused(dir: &Path, exit: i32, input: &Value) -> (String, Value) {
    let before = (text(dir), events(dir).len());
    let answer = update(dir, exit, input);
    assert_eq!(answer["ok"], false);
    assert_eq!((text(dir), events(dir).len()), before, "a refusal changes nothing");
    (answer["code"].as_str().unwrap().to_owned(), answer["details"].clone())
}

/// A project with three steps, the last waiting for the first.
fn project() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let items = json!({"items": [
        {"id": "step-001", "description": "a"},
        {"id": "step-002", "description": "b"},
        {"id": "step-003", "description": "c", "depends_on": ["step-001"]},
    ]});
    assert_eq!(call(dir.path(), "write_todolist", &items).status.code(), Some(OK));
    dir
}

fn text(dir: &Path) -> String {
    fs::read_to_string(dir.join("agent-state/pm-todo.json")).unwrap_or_default()
}

fn list(dir: &Path) -> Value {
    let text = text(dir);
    assert!(text.ends_with("}\n"), "a state file ends with a line end: {text}");
    serde_json::from_str(&text).expect("JSON")
}

/// The events of the journal, which must have every number once.
fn events(dir: &Path) -> Vec<Value> {
    let text = fs::read_to_string(dir.join("agent-state/.events/events.ndjson")).unwrap_or_default();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (event, seq) in events.iter().zip(1..) {
        assert_eq!(event["seq"], json!(seq));
    }
    events
}

#[test]
fn a_list_is_worked_through_from_the_first_step_to_the_last() {
    let dir = project();
    let dir = dir.path();
    assert_eq!(
        update(dir, OK, &json!({"id": "step-001", "status": "doing"})),
        json!({
            "ok": true, "item": {"id": "step-001", "description": "a", "status": "doing"}, "changed": true,
            "progress_pct": 0, "current": "step-001", "ready": ["step-002"], "blocked": [],
            "counts": {"todo": 2, "doing": 1, "done": 0, "blocked": 0}, "all_done": false, "version": 2,
        })
    );
    let evidence = json!([{"path": "prd/login.html", "line": 12}, {"path": "prd/index.html"}]);
    update(
        dir,
        OK,
        &json!({"id": "step-001", "status": "done", "note": "读完了 🙂", "evidence": evidence}),
    );
    let answer = update(
        dir,
        OK,
        &json!({"id": "step-002", "status": "blocked", "reason": "no answer yet"}),
    );
    assert_eq!(
        (
            &answer["progress_pct"],
            &answer["current"],
            &answer["ready"],
            &answer["blocked"]
        ),
        (
            &json!(33),
            &json!("step-003"),
            &json!(["step-003"]),
            &json!(["step-002"])
        )
    );
    assert_eq!(answer["item"]["reason"], "no answer yet");
    let state = list(dir);
    let updated = state["updated_at"].as_str().unwrap();
    assert!(updated > state["created_at"].as_str().unwrap(), "{state}");
    assert_eq!(
        state["items"],
        json!([
            {"id": "step-001", "description": "a", "status": "done", "note": "读完了 🙂", "evidence": evidence},
            {"id": "step-002", "description": "b", "status": "blocked", "reason": "no answer yet"},
            {"id": "step-003", "description": "c", "depends_on": ["step-001"], "status": "todo"},
        ])
    );
    assert_eq!(
        (&state["current"], &state["progress_pct"], &state["version"]),
        (&json!("step-003"), &json!(33), &json!(4))
    );
    update(dir, OK, &json!({"id": "step-002", "status": "doing"}));
    update(dir, OK, &json!({"id": "step-002", "status": "done"}));
    let last = update(dir, OK, &json!({"id": "step-003", "status": "done"}));
    assert_eq!(
        (
            &last["progress_pct"],
            &last["all_done"],
            last.get("current"),
            &last["version"]
        ),
        (&json!(100), &json!(true), None, &json!(7))
    );
    assert_eq!(list(dir)["current"], Value::Null);
    let told: Vec<_> = events(dir)
        .iter()
        .filter(|event| event["name"] == "agent.todo_item")
        .map(|event| {
            let payload = &event["payload"];
            assert_eq!(
                (&payload["agent"], &payload["call_id"]),
                (&json!("pm"), &json!("call-1"))
            );
            json!([
                payload["item"]["id"],
                payload["from"],
                payload["item"]["status"],
                payload["version"]
            ])
        })
        .collect();
    assert_eq!(
        Value::from(told),
        json!([
            ["step-001", "todo", "doing", 2],
            ["step-001", "doing", "done", 3],
            ["step-002", "todo", "blocked", 4],
            ["step-002", "blocked", "doing", 5],
            ["step-002", "doing", "done", 6],
            ["step-003", "todo", "done", 7],
        ])
    );
}

#[test]
fn the_same_status_again_changes_nothing() {
    let dir = project();
    let dir = dir.path();
    update(dir, OK, &json!({"id": "step-001", "status": "doing"}));
    let before = (text(dir), events(dir).len());
    let answer = update(dir, OK, &json!({"id": "step-001", "status": "doing", "note": "still"}));
    assert_eq!(
        (&answer["changed"], &answer["version"], answer["item"].get("note")),
        (&json!(false), &json!(2), None)
    );
    assert_eq!((text(dir), events(dir).len()), before);
}

#[test]
fn each_refusal_has_its_code_and_what_helps() {
    let empty = tempfile::tempdir().unwrap();
    let begin = json!({"id": "step-001", "status": "doing"});
    assert_eq!(refused(empty.path(), EXPECTED, &begin).0, "no_list");

    let dir = project();
    let dir = dir.path();
    let code = |code: &str, details: Value| (code.to_owned(), details);
    assert_eq!(
        refused(dir, EXPECTED, &json!({"id": "step-004", "status": "done"})),
        code("unknown_item", json!({"nearest": ["step-001", "step-002", "step-003"]}))
    );
    assert_eq!(
        refused(
            dir,
            EXPECTED,
            &json!({"id": "step-003", "status": "doing", "switch": true})
        ),
        code("deps_open", json!({"open": ["step-001"]}))
    );
    update(dir, OK, &begin);
    assert_eq!(
        refused(dir, EXPECTED, &json!({"id": "step-002", "status": "doing"})),
        code("another_in_progress", json!({"id": "step-001"}))
    );
    assert_eq!(
        refused(
            dir,
            EXPECTED,
            &json!({"id": "step-001", "status": "done", "expected_version": 1})
        ),
        code(
            "version_conflict",
            json!({"current_version": 2, "path": "agent-state/pm-todo.json"})
        )
    );
    update(
        dir,
        OK,
        &json!({"id": "step-001", "status": "done", "expected_version": 2}),
    );
    assert_eq!(
        refused(
            dir,
            EXPECTED,
            &json!({"id": "step-001", "status": "blocked", "reason": "x"})
        ),
        code("bad_transition", json!({"from": "done", "allowed": ["doing"]}))
    );
    // What no list would make right is refused as an input.
    for (input, field) in [
        (json!({"id": "step-1", "status": "done"}), "id"),
        (json!({"id": "step-002", "status": "finished"}), "status"),
        (json!({"id": "step-002", "status": "blocked"}), "reason"),
        (json!({"id": "step-002", "status": "done", "reason": "x"}), "reason"),
        (json!({"id": "step-001", "status": "doing"}), "note"),
        (json!({"id": "step-001", "status": "doing", "note": " "}), "note"),
        (
            json!({"id": "step-002", "status": "done", "evidence": [{"path": "../x"}]}),
            "evidence[0].path",
        ),
        (json!({"id": "step-002", "status": "done", "why": "x"}), "why"),
    ] {
        let (code, details) = refused(dir, REFUSED, &input);
        assert_eq!(code, "invalid_input", "{input}");
        assert_eq!(details["problems"][0]["field"], field, "{input}: {details}");
    }
}

#[test]
fn a_switch_puts_the_other_step_back_and_says_so() {
    let dir = project();
    let dir = dir.path();
    update(dir, OK, &json!({"id": "step-001", "status": "doing"}));
    let answer = update(dir, OK, &json!({"id": "step-002", "status": "doing", "switch": true}));
    assert_eq!(
        (&answer["put_back"], &answer["current"], &answer["counts"]["doing"]),
        (&json!(["step-001"]), &json!("step-002"), &json!(1))
    );
    assert_eq!(list(dir)["items"][0]["status"], "todo");
    assert_eq!(events(dir).last().unwrap()["payload"]["put_back"], json!(["step-001"]));
}

#[test]
fn a_reopened_step_counts_and_warns_of_what_was_built_on_it() {
    let dir = project();
    let dir = dir.path();
    for id in ["step-001", "step-003"] {
        update(dir, OK, &json!({"id": id, "status": "done"}));
    }
    let answer = update(
        dir,
        OK,
        &json!({"id": "step-001", "status": "doing", "note": "it was not"}),
    );
    assert_eq!(answer["warnings"], json!(["dependents_done: step-003"]));
    assert_eq!(
        (&answer["item"]["reopened"], &answer["progress_pct"]),
        (&json!(1), &json!(33))
    );
    let unwarned = update(dir, OK, &json!({"id": "step-001", "status": "done"}));
    assert_eq!(unwarned.get("warnings"), None);
    assert_eq!(unwarned["item"]["note"], "it was not");
}

/// The other tool takes a list for untouched only when nothing is kept with its items.
#[test]
fn the_same_list_written_again_begins_anew_when_something_has_moved() {
    let dir = project();
    let dir = dir.path();
    let items = json!({"items": [
        {"id": "step-001", "description": "a"},
        {"id": "step-002", "description": "b"},
        {"id": "step-003", "description": "c", "depends_on": ["step-001"]},
    ]});
    let again = || -> Value { serde_json::from_slice(&call(dir, "write_todolist", &items).stdout).unwrap() };
    assert_eq!(again()["unchanged"], true);
    // Moved and moved back, but the note is still there.
    update(dir, OK, &json!({"id": "step-001", "status": "doing", "note": "begun"}));
    update(dir, OK, &json!({"id": "step-001", "status": "todo"}));
    assert_eq!(again()["replaced"]["open"], json!(["step-001", "step-002", "step-003"]));
    assert_eq!(list(dir)["items"][0].get("note"), None);
    // The version goes on, so that one seen before fits no longer.
    assert_eq!(list(dir)["version"], 4);
    update(dir, OK, &json!({"id": "step-001", "status": "done"}));
    assert_eq!(again()["replaced"]["done"], 1);
}

#[test]
fn what_a_later_version_keeps_with_an_item_survives() {
    let dir = project();
    let dir = dir.path();
    let mut state = list(dir);
    state["items"][1]["estimate"] = json!({"hours": 3});
    fs::write(dir.join("agent-state/pm-todo.json"), state.to_string()).unwrap();
    update(dir, OK, &json!({"id": "step-001", "status": "doing"}));
    update(dir, OK, &json!({"id": "step-002", "status": "done"}));
    assert_eq!(list(dir)["items"][1]["estimate"], json!({"hours": 3}));
}

/// Both tools read the list in one way: keys of others stay until the list is replaced, and then are in the history.
#[test]
fn what_others_keep_with_a_list_stays_until_it_is_replaced() {
    let dir = project();
    let dir = dir.path();
    let mut state = list(dir);
    state["owner"] = json!({"name": "a person", "since": null});
    fs::write(dir.join("agent-state/pm-todo.json"), state.to_string()).unwrap();
    update(
        dir,
        OK,
        &json!({"id": "step-001", "status": "done", "evidence": [{"path": "a"}]}),
    );
    let mut state = list(dir);
    assert_eq!(state["owner"], json!({"name": "a person", "since": null}));
    state["items"][0]["evidence"][0]["quote"] = json!("q");
    fs::write(dir.join("agent-state/pm-todo.json"), state.to_string()).unwrap();
    update(dir, OK, &json!({"id": "step-002", "status": "done"}));
    assert_eq!(list(dir)["items"][0]["evidence"], json!([{"path": "a", "quote": "q"}]));
    let other = json!({"items": [{"id": "step-001", "description": "other"}]});
    assert_eq!(call(dir, "write_todolist", &other).status.code(), Some(OK));
    assert_eq!(list(dir).get("owner"), None);
    let kept = fs::read_dir(dir.join("agent-state/history")).unwrap().next().unwrap();
    let kept: Value = serde_json::from_slice(&fs::read(kept.unwrap().path()).unwrap()).unwrap();
    assert_eq!(kept["owner"]["name"], "a person");
}

#[test]
fn a_list_of_a_newer_format_is_refused_by_both_tools_and_left_as_it_is() {
    let dir = project();
    let dir = dir.path();
    // Whether or not the rest would do.
    let mut newer = list(dir);
    newer["format"] = json!(2);
    for text in [newer.to_string(), "{\"format\": 3, \"steps\": []}".to_owned()] {
        fs::write(dir.join("agent-state/pm-todo.json"), &text).unwrap();
        let items = json!({"items": [{"id": "step-001", "description": "a"}]});
        for (tool, input) in [
            ("update_todo_item", json!({"id": "step-001", "status": "doing"})),
            ("write_todolist", items),
        ] {
            let output = call(dir, tool, &input);
            assert_eq!(output.status.code(), Some(3), "{output:?}");
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            let reason = answer["reason"].as_str().unwrap();
            assert!(
                reason.contains("newer devloop") && reason.contains("move the file away"),
                "{reason}"
            );
        }
        assert_eq!(self::text(dir), text);
    }
    // One that says today's format is today's.
    newer["format"] = json!(1);
    fs::write(dir.join("agent-state/pm-todo.json"), newer.to_string()).unwrap();
    update(dir, OK, &json!({"id": "step-001", "status": "doing"}));
    assert_eq!(list(dir).get("format"), None);
}

#[test]
fn a_list_that_cannot_be_read_is_set_aside_and_a_locked_one_is_busy() {
    let dir = project();
    let dir = dir.path();
    let begin = json!({"id": "step-001", "status": "doing"});
    fs::write(dir.join("devloop.toml"), "[limits]\nlock_wait_ms = 30\n").unwrap();
    let lock = File::options()
        .write(true)
        .open(dir.join("agent-state/.locks/pm-todo.lock"))
        .unwrap();
    lock.lock().unwrap();
    let (code, details) = refused(dir, EXPECTED, &begin);
    assert_eq!(code, "busy");
    assert!(details["waited_ms"].as_u64().unwrap() >= 30, "{details}");
    lock.unlock().unwrap();

    fs::write(dir.join("agent-state/pm-todo.json"), "{\"items\": [").unwrap();
    let answer = update(dir, EXPECTED, &begin);
    assert_eq!(answer["code"], "state_corrupt");
    let kept = dir.join(answer["details"]["kept_as"].as_str().unwrap());
    assert_eq!(fs::read_to_string(kept).unwrap(), "{\"items\": [");
    assert_eq!(refused(dir, EXPECTED, &begin).0, "no_list");
}

/// Cancels its call when it is looked at for the second time: under the lock, which is dated before.
#[derive(Debug, Default)]
struct CancelsUnderTheLock {
    looks: AtomicUsize,
    token: CancellationToken,
}

impl Clock for CancelsUnderTheLock {
    fn now(&self) -> Timestamp {
        if self.looks.fetch_add(1, Ordering::SeqCst) == 1 {
            self.token.cancel();
        }
        Timestamp::now()
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_under_its_lock_writes_nothing() {
    let dir = project();
    let before = (text(dir.path()), events(dir.path()).len());
    let clock = Arc::new(CancelsUnderTheLock::default());
    let project = ProjectDir::open(dir.path()).unwrap();
    let project = Project::new(project, Config::default()).with_clock(Arc::clone(&clock) as _);
    let agent = AgentId::Pm.agent();
    let identity = identify(agent, project.path(), Given::default(), None).unwrap();
    let session = Session::new(Arc::new(project), agent, identity);
    let Value::Object(arguments) = json!({"id": "step-001", "status": "doing"}) else {
        unreachable!()
    };
    let request = CallRequest {
        cancel: clock.token.clone(),
        ..CallRequest::new("update_todo_item", arguments, "t")
    };
    assert_eq!(session.call(request).await, CallOutcome::Cancelled);
    assert!(clock.looks.load(Ordering::SeqCst) >= 2);
    assert_eq!((text(dir.path()), events(dir.path()).len()), before);
}

/// Eight writers, each on steps of its own: whatever one has written, no other overwrites with what it had read before.
#[test]
fn of_eight_writers_on_steps_of_their_own_none_loses_an_update() {
    const WRITERS: usize = 8;
    let rounds = if std::env::var_os("DEVLOOP_LONG").is_some() {
        200
    } else {
        10
    };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::write(dir.join("devloop.toml"), "[limits]\nlock_wait_ms = 60000\n").unwrap();
    let items: Vec<_> = (0..WRITERS)
        .map(|n| json!({"id": format!("step-{n:03}"), "description": "x"}))
        .collect();
    let written = call(dir, "write_todolist", &json!({ "items": items }));
    assert_eq!(written.status.code(), Some(OK));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let id = format!("step-{writer:03}");
                for round in 0..rounds {
                    // Blocked and free again: the two statuses that need nothing of the other steps.
                    let input = if round % 2 == 0 {
                        json!({"id": id, "status": "blocked", "reason": "r", "note": format!("{writer}/{round}")})
                    } else {
                        json!({"id": id, "status": "todo", "note": format!("{writer}/{round}")})
                    };
                    let answer = update(dir, OK, &input);
                    assert_eq!(
                        (&answer["changed"], &answer["item"]["note"]),
                        (&json!(true), &input["note"])
                    );
                }
            });
        }
    });
    let state = list(dir);
    assert_eq!(state["version"], 1 + WRITERS * rounds);
    for writer in 0..WRITERS {
        let note = format!("{writer}/{}", rounds - 1);
        assert_eq!(state["items"][writer]["note"], note);
    }
    // Each change has its event, in the order of the versions, and each writer's are in its own order.
    let moves: Vec<Value> = events(dir).split_off(1);
    assert_eq!(moves.len(), WRITERS * rounds);
    let mut next = [0; WRITERS];
    for (event, version) in moves.iter().zip(2..) {
        let payload = &event["payload"];
        assert_eq!(payload["version"], json!(version));
        let writer: usize = payload["item"]["id"].as_str().unwrap()[5..].parse().unwrap();
        assert_eq!(payload["item"]["note"], format!("{writer}/{}", next[writer]));
        next[writer] += 1;
    }
}
