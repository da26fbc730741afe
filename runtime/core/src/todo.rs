//! Todo lists: the file that holds one, and what can be worked out from it.
//!
//! Answers for the form of `agent-state/{state_key}-todo.json`, the checks of a new list, and which steps are ready.
//! Leaves out reading and writing (the store) and the tools' answers (the handlers).

use std::collections::BTreeMap;

use devloop_contract::ValidationError;
use serde::{Deserialize, Serialize};

use crate::graph::Dependencies;
use crate::text::nearest;

/// How many circles of dependencies one answer names.
const CIRCLES_NAMED: usize = 5;

/// A todo list as it stands on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TodoList {
    /// The agent whose list it is: its short name.
    pub agent: String,
    /// The agent call that wrote the list.
    pub call_id: String,
    /// When the list was written, UTC.
    pub created_at: String,
    /// The steps, in the order given.
    pub items: Vec<TodoItem>,
    /// The step in work, else the first that is ready, else nothing.
    pub current: Option<String>,
    /// `floor(100 · done / total)`; 0 for an empty list.
    pub progress_pct: u8,
    /// Raised by one with every change of the list, over replacements too, so that a stale `expected_version` never fits
    /// a newer list by chance.
    #[serde(default = "first_version")]
    pub version: u64,
    /// When the list last changed, UTC.
    #[serde(default)]
    pub updated_at: String,
}

fn first_version() -> u64 {
    1
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TodoItem {
    /// `step-` and three digits.
    pub id: String,
    /// What is to be done.
    pub description: String,
    /// Steps that must be done first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Where the step stands.
    pub status: TodoStatus,
    /// What later tools keep with a step; carried along untouched.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TodoStatus {
    /// Not begun.
    Todo,
    /// In work.
    Doing,
    /// Finished.
    Done,
    /// Waiting for something outside the list.
    Blocked,
}

impl TodoList {
    /// Ids of the steps that can be started now: not begun, and all that they depend on is done. In list order.
    /// Cost: linear in steps and dependencies.
    pub fn ready(&self) -> Vec<&str> {
        let status: BTreeMap<&str, TodoStatus> = self.items.iter().map(|item| (&*item.id, item.status)).collect();
        let done = |id: &String| status.get(id.as_str()) == Some(&TodoStatus::Done);
        self.items
            .iter()
            .filter(|item| item.status == TodoStatus::Todo && item.depends_on.iter().all(done))
            .map(|item| &*item.id)
            .collect()
    }

    /// The step in work, else the first that is ready.
    pub fn work_out_current(&self) -> Option<String> {
        let doing = self
            .items
            .iter()
            .find(|item| item.status == TodoStatus::Doing)
            .map(|item| &*item.id);
        doing.or_else(|| self.ready().first().copied()).map(str::to_owned)
    }

    /// How many steps are done.
    pub fn done(&self) -> usize {
        self.items.iter().filter(|item| item.status == TodoStatus::Done).count()
    }

    /// Ids of the steps that are not done, in list order.
    pub fn open(&self) -> Vec<String> {
        self.items
            .iter()
            .filter(|item| item.status != TodoStatus::Done)
            .map(|item| item.id.clone())
            .collect()
    }
}

/// Checks what a schema cannot: ids are unique, dependencies name other steps of the list, and none goes in a circle.
/// Cost: linear in steps and dependencies.
///
/// # Errors
/// Every problem, each with its field.
pub fn check_new_list(items: &[TodoItem]) -> Result<(), ValidationError> {
    let mut problems: Vec<(String, String)> = Vec::new();
    let mut index_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(first) = index_of.get(&*item.id) {
            problems.push((
                format!("items[{index}].id"),
                format!(
                    "{} is already the id of items[{first}]; every step needs an id of its own",
                    item.id
                ),
            ));
        } else {
            index_of.insert(&item.id, index);
        }
    }
    let mut graph = Dependencies::new(items.len());
    for (index, item) in items.iter().enumerate() {
        for (place, dependency) in item.depends_on.iter().enumerate() {
            let field = || format!("items[{index}].depends_on[{place}]");
            match index_of.get(dependency.as_str()) {
                None => {
                    let near = nearest(dependency, index_of.keys().copied(), 3);
                    let hint = if near.is_empty() {
                        String::new()
                    } else {
                        format!("; the nearest are {}", near.join(", "))
                    };
                    problems.push((field(), format!("{dependency} is not a step of this list{hint}")));
                }
                Some(_) if *dependency == item.id => {
                    problems.push((field(), format!("{dependency} depends on itself; leave it out")));
                }
                // With a doubled id the edge would be a guess; the doubled id is reported already.
                Some(&to) if index_of.get(&*item.id) == Some(&index) => graph.add(index, to),
                Some(_) => {}
            }
        }
    }
    for circle in graph.circles(CIRCLES_NAMED) {
        let way: Vec<&str> = circle.iter().map(|index| &*items[*index].id).collect();
        let reason = format!(
            "these steps wait for each other: {}; remove one of the dependencies",
            way.join(" → ")
        );
        problems.push((format!("items[{}].depends_on", circle[0]), reason));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ValidationError::all(problems))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: &str, depends_on: &[&str]) -> TodoItem {
        TodoItem {
            id: id.into(),
            description: "x".into(),
            depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
            status: TodoStatus::Todo,
            more: serde_json::Map::new(),
        }
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
}
