//! Todo lists: the file that holds one, and what can be worked out from it.
//!
//! Answers for the form of `agent-state/{state_key}-todo.json`, the checks of a new list, which steps are ready, and how
//! a step is moved ([`Move`]). Leaves out reading and writing (the store) and the tools' answers (the handlers).

mod moves;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use devloop_contract::ValidationError;
use devloop_contract::error::PROBLEMS_IN_FULL;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::graph::Dependencies;
use crate::sandbox::RelPath;
use crate::store::StateFile;
use crate::store::state::whole;
use crate::text::nearest;

pub use self::moves::{Move, Moved, OtherStep, Refused};

/// How many circles of dependencies one answer names.
const CIRCLES_NAMED: usize = 5;

/// How many steps are named at each end of a long circle.
const STEPS_NAMED: usize = 10;

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
    /// The step in work, else the first that is ready, else nothing. For other readers; here it is worked out.
    #[serde(default, deserialize_with = "or_default")]
    pub current: Option<String>,
    /// `floor(100 · done / total)`; 0 for an empty list. For other readers; here it is worked out.
    #[serde(default, deserialize_with = "or_default")]
    pub progress_pct: u8,
    /// Raised by one with every change of the list, over replacements too, so that a stale `expected_version` never fits
    /// a newer list by chance.
    #[serde(default = "first_version", deserialize_with = "whole")]
    pub version: u64,
    /// When the list last changed, UTC.
    #[serde(default)]
    pub updated_at: String,
    /// What others keep with the list; carried along untouched until it is replaced.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl StateFile for TodoList {
    /// What every list that was written here keeps to, so that an answer about it can be given: somebody may have
    /// edited the file.
    fn check(&self) -> Result<(), String> {
        if self.version == 0 {
            return Err("its `version` is 0; versions begin at 1".to_owned());
        }
        let mut ids = BTreeSet::new();
        for (index, item) in self.items.iter().enumerate() {
            for id in item.depends_on.iter().chain([&item.id]) {
                if !is_step_id(id) {
                    return Err(format!(
                        "`{id}` in items[{index}] is no id of a step: `step-` and three digits"
                    ));
                }
            }
            if !ids.insert(&item.id) {
                return Err(format!(
                    "items[{index}] has the id {}, which an item above it has",
                    item.id
                ));
            }
            for (place, evidence) in item.evidence.iter().enumerate() {
                let field = format!("items[{index}].evidence[{place}]");
                RelPath::parse(&evidence.path).map_err(|problem| format!("{field}.path: {problem}"))?;
                if evidence.line == Some(0) {
                    return Err(format!("{field}.line is 0; lines begin at 1"));
                }
            }
        }
        Ok(())
    }
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
    /// What the last move that had a note said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why the step is blocked; nothing when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Files that show it, as the last move that named some gave them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Evidence>,
    /// How often the step was done and then taken up again.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reopened: u64,
    /// What later tools keep with a step; carried along untouched.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The file, relative to the project directory.
    pub path: String,
    /// The line, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// What others keep with it; carried along untouched.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// How many steps have each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Not begun.
    pub todo: usize,
    /// In work.
    pub doing: usize,
    /// Finished.
    pub done: usize,
    /// Blocked.
    pub blocked: usize,
}

impl TodoItem {
    /// A step that nobody has moved yet.
    pub fn new(id: String, description: String, depends_on: Vec<String>) -> Self {
        Self {
            id,
            description,
            depends_on,
            status: TodoStatus::Todo,
            note: None,
            reason: None,
            evidence: Vec::new(),
            reopened: 0,
            more: Map::new(),
        }
    }
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
        self.counts().done
    }

    /// How many steps have each status.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for item in &self.items {
            match item.status {
                TodoStatus::Todo => counts.todo += 1,
                TodoStatus::Doing => counts.doing += 1,
                TodoStatus::Done => counts.done += 1,
                TodoStatus::Blocked => counts.blocked += 1,
            }
        }
        counts
    }

    /// Whole percent of the steps that are done: 100 only when all are, 0 for an empty list.
    pub fn work_out_progress(&self) -> u8 {
        let percent = (100 * self.done()).checked_div(self.items.len()).unwrap_or(0);
        u8::try_from(percent).unwrap_or(100)
    }

    /// Ids of the steps that are blocked, in list order.
    pub fn blocked(&self) -> Vec<&str> {
        self.items
            .iter()
            .filter(|item| item.status == TodoStatus::Blocked)
            .map(|item| &*item.id)
            .collect()
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
                    // Looking for the nearest costs more than all the rest; it is done for those that are shown.
                    let near = if problems.len() < PROBLEMS_IN_FULL {
                        nearest(dependency, index_of.keys().copied(), 3)
                    } else {
                        Vec::new()
                    };
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
            in_short(&way)
        );
        problems.push((format!("items[{}].depends_on", circle[0]), reason));
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(ValidationError::all(problems))
    }
}

/// A way from step to step, without the middle of a long one, so that all the circles that are named find room.
fn in_short(way: &[&str]) -> String {
    if way.len() <= 2 * STEPS_NAMED {
        return way.join(" → ");
    }
    let (first, last) = (&way[..STEPS_NAMED], &way[way.len() - STEPS_NAMED..]);
    let between = way.len() - 2 * STEPS_NAMED;
    format!("{} → … {between} more … → {}", first.join(" → "), last.join(" → "))
}

/// `step-` and three digits.
pub(crate) fn is_step_id(text: &str) -> bool {
    let is_number = |digits: &str| digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.strip_prefix("step-").is_some_and(is_number)
}

/// What is worked out anyway is not worth losing a list for.
fn or_default<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(value: D) -> Result<T, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(value)?).unwrap_or_default())
}
