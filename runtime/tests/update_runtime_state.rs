//! `update_runtime_state`: answers, the file, the events, the loop controller, and the real program.

#![cfg(all(feature = "cli", unix))]

mod program;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use devloop_core::runtime_state::{PhaseGraph, Said};
use devloop_core::sandbox::ProjectDir;
use devloop_core::store::Clock;
use devloop_generated::AgentId;
use devloop_runtime::call::{CallOutcome, CallRequest, ToolService};
use devloop_runtime::config::Config;
use devloop_runtime::identity::{Given, identify};
use devloop_runtime::project::{Escalation, LoopController, Project, RuntimeStateChange};
use devloop_runtime::session::Session;
use devloop_runtime::testing::{START, TestProject, TestSession};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use program::program;

const TOOL: &str = "update_runtime_state";
const FILE: &str = "agent-state/pm-runtime.json";
const LATER: &str = "2026-11-30T10:15:05.123Z";

fn as_session(project: &TestProject, session_id: &str) -> TestSession {
    let given = Given {
        session_id: Some(session_id.to_owned()),
        ..Given::default()
    };
    project.session_as(AgentId::Pm.agent(), given)
}

fn config(lock_wait: Duration) -> Config {
    Config {
        lock_wait,
        ..Config::default()
    }
}

#[test]
fn a_state_is_begun_kept_alive_and_brought_to_its_end() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let begin = json!({
        "phase": "drafting", "status": "running", "current_step": "step-001", "message": "起草 🙂\nnow", "progress_pct": 5,
        "ttl_s": 300, "patch": {"pages": {"login": 1, "none": null}}, "expected_version": 0,
    });
    let seen = session.call(TOOL, begin);
    let state = json!({
        "version": 1, "heartbeat_seq": 1, "heartbeat_at": START, "session_id": "session-1", "agent": "pm",
        "call_id": "call-1", "phase": "drafting", "phase_since": START, "status": "running", "current_step": "step-001",
        "message": "起草 🙂\nnow", "progress_pct": 5, "ttl_s": 300, "updated_at": START,
        "data": {"pages": {"login": 1}},
    });
    assert_eq!(
        *seen.success(),
        json!({"ok": true, "version": 1, "state": state, "previous": {}})
    );
    assert_eq!(seen.effects.changed(), [FILE]);
    assert_eq!(
        *seen.effects.event("agent.runtime").unwrap(),
        json!({
            "agent": "pm", "call_id": "call-1", "ts": START, "heartbeat": false, "version": 1, "heartbeat_seq": 1,
            "ttl_s": 300, "session_id": "session-1", "phase": "drafting", "status": "running",
            "current_step": "step-001", "message": "起草 🙂\nnow", "progress_pct": 5, "previous": {},
        })
    );
    let mut kept = state.clone();
    kept["event_at"] = json!(START);
    assert_eq!(project.json(FILE), kept);
    let text = project.text(FILE).unwrap();
    assert!(
        text.starts_with("{\n  \"version\": 1,\n  \"heartbeat_seq\": 1,\n") && text.ends_with("}\n"),
        "{text}"
    );

    project.clock().advance(Duration::from_secs(5));
    let beat = session.call(TOOL, json!({}));
    let mut alive = state;
    alive["heartbeat_seq"] = json!(2);
    alive["heartbeat_at"] = json!(LATER);
    let previous = json!({"phase": "drafting", "status": "running"});
    assert_eq!(
        *beat.success(),
        json!({"ok": true, "version": 1, "state": alive, "previous": previous})
    );
    assert_eq!(beat.effects.event("agent.runtime").unwrap()["heartbeat"], true);

    // The version that was seen before the heartbeat still holds.
    let done = json!({
        "phase": "review", "status": "done", "clear_step": true, "message": "", "patch": {"pages": null, "n": [1]},
        "expected_version": 1,
    });
    let done = session.call(TOOL, done);
    let state = &done.success()["state"];
    assert_eq!(
        (&done.success()["version"], &done.success()["previous"]),
        (&json!(2), &previous)
    );
    assert_eq!(
        (
            &state["current_step"],
            &state["message"],
            &state["data"],
            &state["phase_since"],
            &state["progress_pct"]
        ),
        (&Value::Null, &Value::Null, &json!({"n": [1]}), &json!(LATER), &json!(5))
    );
    assert_eq!(done.success().get("warnings"), None, "there is no list");
    let told = done.effects.event("agent.runtime").unwrap();
    assert_eq!(
        (&told["status"], &told["previous"], told.get("message")),
        (&json!("done"), &previous, None)
    );
}

#[test]
fn each_refusal_has_its_code_and_changes_nothing() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let none = session.call(TOOL, json!({"expected_version": 1}));
    assert_eq!(
        none.failure("version_conflict").details,
        Some(json!({"current_version": 0, "state": {}}))
    );
    assert!(none.effects.is_empty());
    let state = session.call(TOOL, json!({"phase": "a"})).success()["state"].clone();
    for stale in [0, 2] {
        let seen = session.call(TOOL, json!({"phase": "b", "expected_version": stale}));
        let details = seen.failure("version_conflict").details.clone().unwrap();
        assert_eq!(details, json!({"current_version": 1, "state": state}));
        assert!(seen.effects.is_empty());
    }
    let text = "x".repeat(17_000);
    let large = session.call(TOOL, json!({"patch": {"k": text}}));
    assert_eq!(
        large.failure("too_large").details,
        Some(json!({"what": "patch", "bytes": 17_008, "limit": 16_384}))
    );
    let half = "x".repeat(15_000);
    session
        .call(TOOL, json!({"patch": {"one": half, "two": null}}))
        .success();
    session.call(TOOL, json!({"patch": {"two": half}})).success();
    let full = session.call(TOOL, json!({"patch": {"three": half}}));
    assert_eq!(full.failure("too_large").details.as_ref().unwrap()["what"], "data");
    assert!(full.effects.is_empty());
    let deepest = json!({"a": [{"a": [{"a": [{"a": [1]}]}]}]});
    session.call(TOOL, json!({ "patch": deepest })).success();
    for (input, field) in [
        (json!({"patch": {"a": deepest}}), "patch"),
        (json!({"patch": [1]}), "patch"),
        (json!({"clear_step": true, "current_step": "step-001"}), "clear_step"),
        (json!({"phase": "Draft"}), "phase"),
        (json!({"phase": ""}), "phase"),
        (json!({"status": "busy"}), "status"),
        (json!({"current_step": "1"}), "current_step"),
        (json!({"message": "x".repeat(501)}), "message"),
        (json!({"progress_pct": 101}), "progress_pct"),
        (json!({"ttl_s": 4}), "ttl_s"),
        (json!({"ttl_s": 3601}), "ttl_s"),
        (json!({"expected_version": -1}), "expected_version"),
        (json!({"who": "me"}), "who"),
    ] {
        let seen = session.call(TOOL, input.clone());
        assert_eq!(seen.invalid().problems[0].field, field, "{input}");
        assert!(seen.effects.is_empty());
    }
}

#[test]
fn a_null_is_absence_for_a_field_and_a_removal_in_a_patch() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    session
        .call(TOOL, json!({"phase": "a", "patch": {"x": 1, "y": 2}}))
        .success();
    // As clients that fill in every field do, and those that send objects as texts.
    let nulls = json!({
        "phase": null, "status": null, "current_step": null, "clear_step": null, "message": null, "progress_pct": null,
        "ttl_s": null, "patch": null, "expected_version": null,
    });
    let beat = session.call(TOOL, nulls);
    assert_eq!(
        (&beat.success()["version"], &beat.success()["state"]["heartbeat_seq"]),
        (&json!(1), &json!(2))
    );
    let seen = session.call(TOOL, json!({"patch": "{\"x\": null}"}));
    assert_eq!(seen.success()["state"]["data"], json!({"y": 2}));
    let kept = session.call(TOOL, json!({"patch": {}, "clear_step": false}));
    assert_eq!(kept.success()["version"], 2, "that says nothing");
}

#[test]
fn done_with_open_items_is_done_with_a_warning() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let done = || {
        session
            .call(TOOL, json!({"status": "done"}))
            .success()
            .get("warnings")
            .cloned()
    };
    let items = json!([
        {"id": "step-001", "description": "a"}, {"id": "step-002", "description": "b"},
        {"id": "step-003", "description": "c"},
    ]);
    session.call("write_todolist", json!({ "items": items })).success();
    let finish = |id: &str| {
        session
            .call("update_todo_item", json!({"id": id, "status": "done"}))
            .success()
            .clone()
    };
    finish("step-002");
    assert_eq!(done(), Some(json!(["open_items: step-001, step-003"])));
    assert_eq!(project.json(FILE)["status"], "done");
    // Only the call that says it is warned.
    assert_eq!(
        session.call(TOOL, json!({"message": "x"})).success().get("warnings"),
        None
    );
    finish("step-001");
    finish("step-003");
    assert_eq!(done(), None);
    // What is wrong with the list is no matter of this call, and nobody's list is set aside without its lock.
    for (text, why) in [
        ("{\"items\": [", "EOF"),
        ("{\"format\": 9}", "newer devloop"),
        ("[]", "JSON object"),
    ] {
        project.put("agent-state/pm-todo.json", text);
        let seen = session.call(TOOL, json!({"status": "done"}));
        let warnings = &seen.success()["warnings"];
        let warning = warnings[0].as_str().unwrap();
        assert!(
            warning.starts_with("todo_unreadable: ") && warning.contains(why),
            "{warning}"
        );
        assert_eq!(seen.effects.changed(), [FILE]);
    }
    fs::remove_file(project.path().join("agent-state/pm-todo.json")).unwrap();
    symlink("/etc/passwd", project.path().join("agent-state/pm-todo.json")).unwrap();
    let warnings = done().unwrap();
    assert!(warnings[0].as_str().unwrap().contains("symbolic link"), "{warnings}");
}

#[test]
fn a_session_that_was_taken_over_is_fenced() {
    let project = TestProject::new();
    let old = as_session(&project, "old");
    old.call(TOOL, json!({"phase": "a", "patch": {"by": "old"}})).success();
    let new = as_session(&project, "new");
    // A heartbeat takes over, too, and leaves what was said.
    let seen = new.call(TOOL, json!({}));
    assert_eq!(
        (
            &seen.success()["state"]["session_id"],
            &seen.success()["state"]["phase"],
            &seen.success()["version"]
        ),
        (&json!("new"), &json!("a"), &json!(1))
    );
    for input in [json!({}), json!({"phase": "b"}), json!({"expected_version": 77})] {
        let seen = old.call(TOOL, input);
        let body = seen.failure("fenced");
        assert_eq!(body.details, Some(json!({"session_id": "new"})));
        assert!(body.hint.as_ref().unwrap().starts_with("Stop."));
        assert!(seen.effects.is_empty());
    }
    // The same id again is the same session, whichever process it is.
    as_session(&project, "new").call(TOOL, json!({"phase": "b"})).success();
    assert_eq!(project.json(FILE)["superseded"], json!(["old"]));
    assert_eq!(new.call(TOOL, json!({})).success()["state"].get("superseded"), None);
    // Another agent's state is another's.
    let given = Given {
        session_id: Some("old".to_owned()),
        ..Given::default()
    };
    let architect = project.session_as(AgentId::Architect.agent(), given);
    architect.call(TOOL, json!({})).success();
}

#[test]
fn each_unit_has_a_state_of_its_own() {
    let project = TestProject::new();
    for unit in ["unit-a", "unit-b"] {
        let given = Given {
            unit: Some(unit.to_owned()),
            ..Given::default()
        };
        let coder = project.session_as(AgentId::Coder.agent(), given);
        let seen = coder.call(TOOL, json!({ "message": unit }));
        assert_eq!(seen.success()["version"], 1);
        let file = format!("agent-state/coder.{unit}-runtime.json");
        assert_eq!(seen.effects.changed(), [&*file]);
        assert_eq!(project.json(&file)["message"], unit);
        assert_eq!(seen.effects.event("agent.runtime").unwrap()["unit_id"], unit);
    }
}

/// A clock that shows what it is set to.
#[derive(Debug)]
struct Settable(Mutex<Timestamp>);

impl Clock for Settable {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

#[test]
fn heartbeats_are_told_at_most_once_a_second_whichever_process_beats() {
    let clock = Arc::new(Settable(Mutex::new(START.parse().unwrap())));
    let project = TestProject::with(Config::default(), |made| made.with_clock(Arc::clone(&clock) as _));
    // Two projects on one directory share nothing but the files, as two processes do.
    let other = TestProject::with(Config::default(), |made| {
        let dir = ProjectDir::open(project.path()).unwrap();
        Project::new(dir, made.config().clone()).with_clock(Arc::clone(&clock) as _)
    });
    let sessions = [project.session(AgentId::Pm), other.session(AgentId::Pm)];
    let mut told = 0;
    for beat in 0..100 {
        let seen = sessions[beat % 2].call(TOOL, json!({}));
        told += seen.effects.events().len();
        *clock.0.lock().unwrap() += Duration::from_millis(100);
    }
    assert_eq!(project.json(FILE)["heartbeat_seq"], 100);
    assert_eq!(told, 10);
}

#[test]
fn a_clock_that_is_set_back_never_makes_a_heartbeat_older() {
    let start: Timestamp = START.parse().unwrap();
    let clock = Arc::new(Settable(Mutex::new(start)));
    let project = TestProject::with(Config::default(), |made| made.with_clock(Arc::clone(&clock) as _));
    let session = project.session(AgentId::Pm);
    session.call(TOOL, json!({"phase": "a"})).success();
    *clock.0.lock().unwrap() = start - Duration::from_hours(1);
    let seen = session.call(TOOL, json!({"phase": "b"}));
    let state = &seen.success()["state"];
    assert_eq!(
        (&state["heartbeat_at"], &state["phase_since"], &state["heartbeat_seq"]),
        (&json!(START), &json!(START), &json!(2))
    );
    assert_eq!(
        seen.effects.event("agent.runtime").unwrap()["ts"],
        "2026-11-30T09:15:00.123Z"
    );
}

/// A controller that keeps what it is told, and refuses or panics when it is told to.
#[derive(Default)]
struct Controller {
    changes: Mutex<Vec<RuntimeStateChange>>,
    escalations: Mutex<Vec<Escalation>>,
    graph: Option<Arc<PhaseGraph>>,
    act: Mutex<Option<Act>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Refuse,
    Panic,
    /// Refuses, and puts a directory where the state has to go back to.
    Obstruct,
}

impl LoopController for Controller {
    fn escalate(&self, escalation: &Escalation) {
        self.escalations.lock().unwrap().push(escalation.clone());
    }

    fn runtime_state(&self, change: &RuntimeStateChange) -> Result<(), String> {
        self.changes.lock().unwrap().push(change.clone());
        let act = *self.act.lock().unwrap();
        match act {
            None => Ok(()),
            Some(Act::Refuse) => Err("not now".into()),
            Some(Act::Panic) => panic!("out of {}", "order"),
            Some(Act::Obstruct) => {
                let path = change.state.data["path"].as_str().unwrap();
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
                Err("not now".into())
            }
        }
    }

    fn phase_graph(&self, agent: &str) -> Option<Arc<PhaseGraph>> {
        assert_eq!(agent, "pm");
        self.graph.clone()
    }
}

fn controlled(controller: &Arc<Controller>) -> TestProject {
    TestProject::with(Config::default(), |made| {
        made.with_controller(Arc::clone(controller) as _)
    })
}

#[test]
fn the_controller_is_told_of_each_state_when_it_is_on_disk() {
    let controller = Arc::new(Controller::default());
    let project = controlled(&controller);
    let session = project.session(AgentId::Pm);
    session.call(TOOL, json!({"phase": "a"})).success();
    session.call(TOOL, json!({})).success();
    session
        .call(TOOL, json!({"expected_version": 9}))
        .failure("version_conflict");
    let changes = controller.changes.lock().unwrap();
    assert_eq!(changes.len(), 2, "what was refused is not told");
    let [first, second] = &changes[..] else { unreachable!() };
    assert_eq!(
        (&*first.agent, &*first.session_id, &*first.call_id),
        ("pm", "session-1", "call-1")
    );
    assert_eq!(
        (&first.before, first.said, first.state.version),
        (&None, Said::Something, 1)
    );
    assert_eq!(
        (second.before.as_ref(), second.said),
        (Some(&first.state), Said::Heartbeat)
    );
    assert_eq!(serde_json::to_value(&second.state).unwrap(), project.json(FILE));
}

#[test]
fn a_refusal_of_the_controller_puts_the_file_back_byte_by_byte() {
    let controller = Arc::new(Controller::default());
    let project = controlled(&controller);
    let session = project.session(AgentId::Pm);
    // By hand: an indentation, an order and keys that no write of ours would make.
    let by_hand = "\u{FEFF}{\"heartbeat_seq\":3,\n\n\"version\":7,\"mine\":null}";
    for before in [None, Some(by_hand)] {
        match before {
            Some(text) => drop(project.put(FILE, text)),
            None => assert_eq!(project.text(FILE), None),
        }
        for act in [Act::Refuse, Act::Panic] {
            *controller.act.lock().unwrap() = Some(act);
            let seen = session.call(TOOL, json!({"phase": "a"}));
            let CallOutcome::Internal { message, error_id, .. } = &seen.result else {
                panic!("{:?}", seen.result)
            };
            let why = if act == Act::Refuse {
                "not now"
            } else {
                "it panicked: out of order"
            };
            assert!(
                message.contains(why) && message.contains("the file is as it was"),
                "{message}"
            );
            assert_eq!(project.text(FILE).as_deref(), before);
            assert_eq!(
                seen.effects.events(),
                ["loop.escalated"],
                "nobody hears of a state that was not"
            );
            assert_eq!(
                controller.escalations.lock().unwrap().pop().unwrap().error_id,
                *error_id
            );
        }
    }
    *controller.act.lock().unwrap() = None;
    let seen = session.call(TOOL, json!({"phase": "a", "expected_version": 7}));
    assert_eq!(
        (&seen.success()["version"], &seen.success()["state"]["heartbeat_seq"]),
        (&json!(8), &json!(4))
    );
    let state = project.json(FILE);
    assert_eq!(
        state.get("mine"),
        Some(&Value::Null),
        "what others keep in the file stays"
    );
}

#[test]
fn a_state_that_cannot_be_put_back_is_told_with_both_reasons() {
    let controller = Arc::new(Controller::default());
    *controller.act.lock().unwrap() = Some(Act::Obstruct);
    let project = controlled(&controller);
    let session = project.session(AgentId::Pm).session().clone();
    let path = project.path().join(FILE);
    let Value::Object(arguments) = json!({"patch": {"path": path.to_str().unwrap()}}) else {
        unreachable!()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(session.call(CallRequest::new(TOOL, arguments, "t")));
    let CallOutcome::Internal { chain, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        chain.contains("not now") && chain.contains("could not be put back"),
        "{chain}"
    );
    assert!(chain.contains("regular file"), "{chain}");
}

#[test]
fn a_phase_graph_of_the_loop_is_kept_to() {
    let graph = PhaseGraph::new(["plan"], [("plan", "draft"), ("draft", "review"), ("review", "draft")]);
    let controller = Arc::new(Controller {
        graph: Some(Arc::new(graph)),
        ..Controller::default()
    });
    let project = controlled(&controller);
    let session = project.session(AgentId::Pm);
    let to = |phase: &str| session.call(TOOL, json!({ "phase": phase }));
    assert_eq!(
        to("draft").failure("illegal_phase").details,
        Some(json!({"allowed": ["plan"]}))
    );
    assert_eq!(project.text(FILE), None);
    to("plan").success();
    to("plan").success();
    let refused = to("review");
    assert_eq!(
        refused.failure("illegal_phase").details,
        Some(json!({"allowed": ["draft"]}))
    );
    assert!(refused.effects.is_empty());
    to("draft").success();
    session.call(TOOL, json!({"status": "running"})).success();
    to("review").success();
    // Without a graph anything goes.
    TestProject::new()
        .session(AgentId::Pm)
        .call(TOOL, json!({"phase": "review"}))
        .success();
}

#[test]
fn a_broken_file_is_set_aside_and_a_newer_one_is_left() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    session.call(TOOL, json!({"phase": "a"})).success();
    let wrong: [&[u8]; 6] = [
        b"{\"version\": 1, \"heart",
        b"",
        b"\xff\xfe\x00",
        b"\0\0\0\0\0\0",
        b"{\"version\": -1, \"heartbeat_seq\": 1}",
        b"{\"version\": 1, \"heartbeat_seq\": 1, \"status\": \"lost\"}",
    ];
    for bytes in wrong {
        project.put(FILE, bytes);
        project.clock().advance(Duration::from_millis(7));
        let seen = session.call(TOOL, json!({"phase": "b"}));
        let details = seen.failure("state_corrupt").details.clone().unwrap();
        assert_eq!(details["path"], FILE);
        let kept = project.path().join(details["kept_as"].as_str().unwrap());
        assert_eq!(fs::read(kept).unwrap(), bytes);
        assert_eq!(session.call(TOOL, json!({"phase": "b"})).success()["version"], 1);
    }
    let newer = "{\"format\": 2, \"version\": {\"major\": 1}}\n";
    project.put(FILE, newer);
    let seen = session.call(TOOL, json!({"phase": "b"}));
    let CallOutcome::Internal { message, .. } = &seen.result else {
        panic!("{:?}", seen.result)
    };
    assert!(
        message.contains("has format 2") && message.contains("use that devloop"),
        "{message}"
    );
    assert_eq!(project.text(FILE).as_deref(), Some(newer));
    assert_eq!(project.escalations().len(), 1);
}

#[test]
fn what_lies_in_the_way_is_never_written_through() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let path = project.path().join(FILE);
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "{\"version\": 1, \"heartbeat_seq\": 1}").unwrap();
    project.put("agent-state/other", "");
    symlink(&victim, &path).unwrap();
    let seen = session.call(TOOL, json!({}));
    assert!(matches!(seen.result, CallOutcome::Sandbox { .. }), "{:?}", seen.result);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let seen = session.call(TOOL, json!({}));
    assert!(matches!(seen.result, CallOutcome::Sandbox { .. }), "{:?}", seen.result);
    fs::remove_dir(&path).unwrap();
    fs::hard_link(&victim, &path).unwrap();
    assert_eq!(session.call(TOOL, json!({})).success()["state"]["heartbeat_seq"], 2);
    assert_eq!(
        fs::read_to_string(&victim).unwrap(),
        "{\"version\": 1, \"heartbeat_seq\": 1}"
    );
    // Larger than anything that was written here.
    File::create(&path).unwrap().set_len(17 << 20).unwrap();
    let seen = session.call(TOOL, json!({}));
    assert!(seen.failure("state_corrupt").details.as_ref().unwrap()["problem"].is_string());
    session.call(TOOL, json!({})).success();
}

#[test]
fn a_state_that_another_process_is_writing_is_busy_after_the_wait() {
    let project = TestProject::with(config(Duration::from_millis(30)), |made| made);
    let session = project.session(AgentId::Pm);
    session.call(TOOL, json!({})).success();
    let lock = File::options()
        .write(true)
        .open(project.path().join("agent-state/.locks/pm-runtime.lock"))
        .unwrap();
    lock.lock().unwrap();
    let seen = session.call(TOOL, json!({"phase": "a"}));
    assert!(
        seen.failure("busy").details.as_ref().unwrap()["waited_ms"]
            .as_u64()
            .unwrap()
            >= 30
    );
    assert!(seen.effects.is_empty());
    // The list has a lock of its own, and reading it takes none.
    lock.unlock().unwrap();
    session
        .call(
            "write_todolist",
            json!({"items": [{"id": "step-001", "description": "x"}]}),
        )
        .success();
    let list = File::options()
        .write(true)
        .open(project.path().join("agent-state/.locks/pm-todo.lock"))
        .unwrap();
    list.lock().unwrap();
    let seen = session.call(TOOL, json!({"status": "done"}));
    assert_eq!(seen.success()["warnings"], json!(["open_items: step-001"]));
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
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(CancelsUnderTheLock::default());
    let project = Project::new(ProjectDir::open(dir.path()).unwrap(), Config::default());
    let project = project.with_clock(Arc::clone(&clock) as _);
    let agent = AgentId::Pm.agent();
    let identity = identify(agent, project.path(), Given::default(), None).unwrap();
    let session = Session::new(Arc::new(project), agent, identity);
    let request = CallRequest {
        cancel: clock.token.clone(),
        ..CallRequest::new(TOOL, serde_json::Map::new(), "t")
    };
    assert_eq!(session.call(request).await, CallOutcome::Cancelled);
    assert!(clock.looks.load(Ordering::SeqCst) >= 2);
    assert!(!dir.path().join(FILE).exists());
}

fn call(dir: &Path, session: &str, input: &Value) -> Output {
    program()
        .args([
            "call",
            TOOL,
            "--agent",
            "pm",
            "--session-id",
            session,
            "--input",
            &input.to_string(),
        ])
        .arg("--project-dir")
        .arg(dir)
        .output()
        .expect("the program starts")
}

#[test]
fn the_program_answers_and_ends_with_the_code_of_what_came_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let answer = |session: &str, exit: i32, input: &Value| -> Value {
        let output = call(dir, session, input);
        assert_eq!(output.status.code(), Some(exit), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    let first = answer("s", 0, &json!({"phase": "a", "patch": {"n": 1}}));
    assert_eq!(
        (&first["version"], &first["state"]["data"]),
        (&json!(1), &json!({"n": 1}))
    );
    let second = answer("s", 0, &json!({"patch": {"n": null}, "expected_version": 1}));
    assert_eq!((&second["version"], &second["state"]["data"]), (&json!(2), &json!({})));
    let stale = answer("s", 1, &json!({"phase": "b", "expected_version": 1}));
    assert_eq!(
        (&stale["code"], &stale["details"]["state"]["version"]),
        (&json!("version_conflict"), &json!(2))
    );
    answer("t", 0, &json!({}));
    assert_eq!(answer("s", 1, &json!({}))["code"], "fenced");
    assert_eq!(answer("t", 2, &json!({"progress_pct": 101}))["code"], "invalid_input");
    fs::write(dir.join(FILE), "{\"format\": 7}").unwrap();
    let newer = answer("t", 3, &json!({}));
    assert!(newer["reason"].as_str().unwrap().contains("has format 7"), "{newer}");
    let events = fs::read_to_string(dir.join("agent-state/.events/events.ndjson")).unwrap();
    let names: Vec<String> = events
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["name"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    // The heartbeat came within a second of the last event, or did not: machines differ.
    assert_eq!(names[..2], ["agent.runtime", "agent.runtime"]);
    assert_eq!(names.last().unwrap(), "loop.escalated");
}
