//! State files that a person or another program has edited: read where they make sense, set aside where they do not,
//! and never answered with an internal error.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use devloop_runtime::AgentId;
use devloop_runtime::call::CallOutcome;
use devloop_runtime::testing::{Seen, TestProject, TestSession};
use serde_json::{Value, json};

const LIST: &str = "agent-state/pm-todo.json";

fn begun() -> (TestProject, TestSession) {
    let project = TestProject::new();
    let session = project.session(AgentId::Pm);
    let items = json!([{"id": "step-001", "description": "a"}, {"id": "step-002", "description": "b"}]);
    assert_eq!(
        session.call("write_todolist", json!({"items": items})).success()["version"],
        1
    );
    (project, session)
}

/// Edits the list as a person would.
fn edit(project: &TestProject, change: impl FnOnce(&mut Value)) {
    let mut list = project.json(LIST);
    change(&mut list);
    project.put(LIST, list.to_string());
}

fn start(session: &TestSession) -> Seen<CallOutcome> {
    session.call("update_todo_item", json!({"id": "step-001", "status": "doing"}))
}

#[test]
fn a_list_that_breaks_its_own_rules_is_set_aside_before_anything_is_done() {
    type Edit = fn(&mut Value);
    let changes: [(&str, Edit); 7] = [
        ("`foo` in items[1] is no id of a step", |list| {
            list["items"][1]["id"] = json!("foo");
        }),
        ("items[1] has the id step-001", |list| {
            list["items"][1]["id"] = json!("step-001");
        }),
        ("`x` in items[0]", |list| list["items"][0]["depends_on"] = json!(["x"])),
        ("items[0].evidence[0].path", |list| {
            list["items"][0]["evidence"] = json!([{"path": ""}]);
        }),
        ("items[0].evidence[0].line is 0", |list| {
            list["items"][0]["evidence"] = json!([{"path": "a", "line": 0}]);
        }),
        ("its `version` is 0", |list| list["version"] = json!(0)),
        ("5.5 is no whole number", |list| list["version"] = json!(5.5)),
    ];
    for (problem, change) in changes {
        let (project, session) = begun();
        edit(&project, change);
        let edited = project.text(LIST);
        let seen = start(&session);
        let details = seen.failure("state_corrupt").details.clone().unwrap();
        assert!(details["problem"].as_str().unwrap().contains(problem), "{details}");
        assert_eq!(project.text(details["kept_as"].as_str().unwrap()), edited);
        assert_eq!(seen.effects.events(), [""; 0]);
        assert_eq!(project.escalations(), []);
    }
}

#[test]
fn what_is_worked_out_anyway_costs_no_list() {
    let (project, session) = begun();
    edit(&project, |list| {
        list["version"] = json!(5.0);
        list["progress_pct"] = json!(33.3);
        list["current"] = json!({"what": "ever"});
    });
    let again = json!([{"id": "step-001", "description": "a"}, {"id": "step-002", "description": "b"}]);
    let unchanged = session.call("write_todolist", json!({"items": again}));
    assert_eq!(unchanged.success()["unchanged"], true);
    assert_eq!(unchanged.success()["current"], "step-001");
    assert_eq!(start(&session).success()["version"], 6);
    let list = project.json(LIST);
    assert_eq!(
        (&list["current"], &list["progress_pct"]),
        (&json!("step-001"), &json!(0))
    );
}

#[test]
fn who_closed_a_file_to_others_keeps_it_closed() {
    let (project, session) = begun();
    let file = project.path().join(LIST);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    start(&session).success();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_file_that_would_be_too_large_to_be_read_again_is_not_written() {
    let (project, session) = begun();
    // Each number is on a line of its own when it is written for reading, behind some 80 spaces.
    let deep = (0..40).fold(json!(vec![1; 220_000]), |inner, _| json!([inner]));
    edit(&project, |list| list["notes"] = deep);
    let before = project.text(LIST);
    let seen = start(&session);
    let details = seen.failure("too_large").details.clone().unwrap();
    assert_eq!(details["limit"], 16 * 1024 * 1024);
    assert!(seen.effects.is_empty());
    assert_eq!(project.text(LIST), before);
}

#[test]
fn a_caller_that_saw_another_version_is_told_where_the_list_is() {
    let (_project, session) = begun();
    let seen = session.call(
        "update_todo_item",
        json!({"id": "step-001", "status": "doing", "expected_version": 9}),
    );
    let details = seen.failure("version_conflict").details.clone().unwrap();
    assert_eq!(details, json!({"current_version": 1, "path": LIST}));
}
