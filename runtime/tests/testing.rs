//! The project to try handlers on, and with it every example of every spec.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use devloop_contract::Handle;
use devloop_generated::tools::persistence::write_todolist::{Input, WriteTodolist};
use devloop_runtime::AgentId;
use devloop_runtime::call::{CallOutcome, Listing, ToolService};
use devloop_runtime::testing::{Change, TestProject, UNIT};
use serde_json::{Value, json};

const LIST: &str = "agent-state/pm-todo.json";

fn list() -> Value {
    json!({"items": [{"id": "step-001", "description": "Try it"}]})
}

/// The message of the panic that `work` must end in.
fn panic_of<T>(work: impl FnOnce() -> T) -> String {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(_) => panic!("it was let through"),
        Err(panic) => *panic.downcast::<String>().expect("a message with values in it"),
    }
}

#[test]
fn a_call_shows_its_result_and_what_it_changed() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let seen = session.call("write_todolist", list());
    assert_eq!(seen.success()["path"], LIST);
    assert_eq!(seen.effects.changed(), [LIST]);
    assert_eq!(seen.effects.on(LIST), Some(Change::Made));
    assert_eq!(seen.effects.events(), ["agent.todolist"]);
    assert_eq!(project.json(LIST)["items"][0]["id"], "step-001");
    // Nothing is left to be done.
    assert!(session.call("write_todolist", list()).effects.is_empty());
    project.clock().advance(Duration::from_secs(1));
    let step = json!({"id": "step-001", "status": "doing"});
    let seen = session.call("update_todo_item", step.clone());
    assert_eq!(seen.effects.on(LIST), Some(Change::Rewritten));
    assert_eq!(
        seen.effects.event("agent.todo_item").unwrap()["ts"],
        "2026-11-30T10:15:01.123Z"
    );
    let seen = session.call("update_todo_item", json!({"id": "step-001", "status": "blocked"}));
    assert_eq!(seen.invalid().problems[0].field, "reason");
    let seen = session.call("update_todo_item", json!({"id": "step-009", "status": "done"}));
    assert!(seen.failure("unknown_item").details.is_some());
}

#[test]
fn everything_is_the_same_each_time() {
    let broken = || {
        let project = TestProject::new();
        let session = project.session(AgentId::Pm);
        // Gone under its feet: nothing that the agent did.
        fs::remove_dir(project.path()).unwrap();
        let seen = session.call("write_todolist", list());
        (format!("{:?}", seen.result), project.escalations())
    };
    let first = broken();
    assert_eq!(first.1.len(), 1, "{first:?}");
    assert_eq!(first.1[0].error_id, "err-00000000-0000-0000-0000-000000000001");
    assert_eq!(first, broken());
}

#[test]
fn a_handler_runs_on_typed_input() {
    let project = TestProject::new();
    let input = Input { items: Vec::new() };
    let seen = project
        .session(AgentId::Pm)
        .handle("write_todolist", |context| async move {
            Handle::<WriteTodolist>::handle(&context, input).await
        });
    assert_eq!(seen.result.unwrap().total, 0);
    assert_eq!(seen.effects.changed(), [LIST]);
}

#[test]
fn what_the_spec_does_not_declare_fails_the_test() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let spec = "specs/tools/persistence/write_todolist.yaml does not declare: ";
    let stray = |path: &str| panic_of(|| session.handle("write_todolist", |_| async { project.put(path, "stray") }));
    assert_eq!(stray("prd/index.html"), format!("{spec}`prd/index.html` (Made)"));
    // Another agent's list and history, and the agent's own other files, are not this tool's either.
    assert_eq!(
        stray("agent-state/tester-todo.json"),
        format!("{spec}`agent-state/tester-todo.json` (Made)")
    );
    assert_eq!(
        stray("agent-state/history/tester-todo.20261130T101500123Z.json"),
        format!("{spec}`agent-state/history/tester-todo.20261130T101500123Z.json` (Made)")
    );
    let forged = stray("agent-state/pm-todo.json.corrupt-20261130T101500123Z");
    assert!(forged.ends_with("corrupt-20261130T101500123Z` (Made)"), "{forged}");
    let undeclared = |work: &dyn Fn(&Path)| {
        let panic = panic_of(|| session.handle("write_todolist", |_| async { work(project.path()) }));
        panic.strip_prefix(spec).expect("it names the spec").to_owned()
    };
    let removed = undeclared(&|dir| fs::remove_file(dir.join("prd/index.html")).unwrap());
    assert_eq!(removed, "`prd/index.html` (Removed)");
    assert_eq!(
        undeclared(&|dir| fs::create_dir_all(dir.join("a/b")).unwrap()),
        "`a/b` (Made)"
    );
    assert_eq!(
        undeclared(&|dir| fs::remove_dir(dir.join("a/b")).unwrap()),
        "`a/b` (Removed)"
    );
    let opened = undeclared(&|dir| {
        fs::set_permissions(
            dir.join("agent-state/tester-todo.json"),
            fs::Permissions::from_mode(0o666),
        )
        .unwrap();
    });
    assert_eq!(opened, "`agent-state/tester-todo.json` (Rewritten)");
    session.call("write_todolist", list());
    let events = "agent-state/.events/events.ndjson";
    let lost = undeclared(&|dir| fs::remove_file(dir.join(events)).unwrap());
    assert_eq!(lost, format!("the machinery's `{events}` (Removed)"));
}

#[test]
fn the_history_is_an_effect_like_any_other() {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    session.call("write_todolist", list());
    let seen = session.call("write_todolist", json!({"items": []}));
    assert_eq!(
        seen.effects.changed(),
        ["agent-state/history/pm-todo.20261130T101500123Z.json", LIST]
    );
}

#[test]
fn what_the_machinery_keeps_and_a_file_set_aside_are_nobodys_fault() {
    let project = TestProject::new();
    project.put(LIST, "{");
    let seen = project.session(AgentId::Pm).call("write_todolist", list());
    seen.failure("state_corrupt");
    assert_eq!(
        seen.effects.changed(),
        [LIST, "agent-state/pm-todo.json.corrupt-20261130T101500123Z"]
    );
    assert_eq!(seen.effects.on(LIST), Some(Change::Removed));
}

#[test]
fn a_tool_that_the_agent_does_not_have_says_so() {
    let session = TestProject::new().session(AgentId::Pm);
    assert!(matches!(
        session.call("no_such_tool", json!({})).result,
        CallOutcome::UnknownTool { .. }
    ));
    assert_eq!(
        panic_of(|| session.context("no_such_tool")),
        "pm has no tool `no_such_tool`"
    );
}

/// Every example of every spec, by every agent that may call it: whatever it answers, it changes nothing that is not
/// declared, and nothing breaks.
#[test]
fn the_examples_of_all_specs_change_only_what_is_declared() {
    for agent in AgentId::ALL {
        let project = TestProject::new();
        let session = project.session(*agent);
        assert_eq!(
            session.session().identity().unit_id.as_deref(),
            agent.agent().needs_unit.then_some(UNIT)
        );
        for tool in session.session().tools(Listing::Every) {
            for example in &tool.examples {
                let arguments = serde_json::from_str(&example.input).unwrap();
                let seen = session.call(&tool.name, arguments);
                let is_well = matches!(seen.result, CallOutcome::Success(_) | CallOutcome::Expected(_));
                assert!(is_well, "{} of {}: {:?}", example.title, tool.name, seen.result);
            }
        }
        assert_eq!(project.escalations(), []);
    }
}
