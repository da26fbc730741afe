//! Todo lists: the checks of a new one, every rule of a move, and random moves against a naive model.

use super::*;

fn item(id: &str, depends_on: &[&str]) -> TodoItem {
    let depends_on = depends_on.iter().map(|id| (*id).to_owned()).collect();
    TodoItem::new(id.into(), "x".into(), depends_on)
}

fn problems(items: &[TodoItem]) -> Vec<String> {
    match check_new_list(items) {
        Ok(()) => Vec::new(),
        Err(error) => error
            .problems
            .iter()
            .map(|p| format!("{}: {}", p.field, p.reason))
            .collect(),
    }
}

#[test]
fn a_list_may_be_empty_and_depend_forwards() {
    assert_eq!(problems(&[]), [""; 0]);
    assert_eq!(
        problems(&[item("step-000", &["step-001"]), item("step-001", &[])]),
        [""; 0]
    );
}

#[test]
fn every_problem_is_named_at_its_field() {
    let found = problems(&[
        item("step-001", &["step-001", "step-009"]),
        item("step-001", &[]),
        item("step-002", &["step-003"]),
        item("step-003", &["step-002"]),
    ]);
    assert_eq!(
        found,
        [
            "items[1].id: step-001 is already the id of items[0]; every step needs an id of its own",
            "items[0].depends_on[0]: step-001 depends on itself; leave it out",
            "items[0].depends_on[1]: step-009 is not a step of this list; the nearest are step-001, step-002, step-003",
            "items[2].depends_on: these steps wait for each other: step-002 → step-003 → step-002; remove one of the dependencies",
        ]
    );
}

#[test]
fn ready_are_the_steps_with_nothing_left_to_wait_for() {
    let mut list = TodoList {
        agent: "pm".into(),
        call_id: "c".into(),
        created_at: String::new(),
        items: vec![
            item("step-001", &["step-002"]),
            item("step-002", &[]),
            item("step-003", &[]),
        ],
        current: None,
        progress_pct: 0,
        version: 1,
        updated_at: String::new(),
    };
    assert_eq!(list.ready(), ["step-002", "step-003"]);
    assert_eq!(list.work_out_current().as_deref(), Some("step-002"));
    list.items[1].status = TodoStatus::Done;
    assert_eq!(list.ready(), ["step-001", "step-003"]);
    list.items[2].status = TodoStatus::Doing;
    assert_eq!(list.work_out_current().as_deref(), Some("step-003"));
    assert_eq!(list.open(), ["step-001", "step-003"]);
}

#[test]
fn what_a_later_version_keeps_with_a_step_survives() {
    let text = r#"{"id":"step-001","description":"x","status":"doing","note":"half way"}"#;
    let item: TodoItem = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&item).unwrap(), text);
}
