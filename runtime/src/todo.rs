//! What the handlers of todo lists have in common.
//!
//! Answers for where a list and its lock are, and for the one translation between the core's items and those of answers
//! and events. Leaves out what a list means: that is the core's [`devloop_core::todo`].

use devloop_contract::InternalError;
use devloop_core::sandbox::RelPath;
use devloop_core::todo::{Evidence, TodoItem, TodoStatus};
use devloop_generated::types;

/// Where the list of a state key is.
pub(crate) fn list_path(key: &str) -> Result<RelPath, InternalError> {
    RelPath::parse(&format!("agent-state/{key}-todo.json"))
        .map_err(|problem| InternalError::new("the state key makes no path", problem))
}

/// The lock that whoever changes that list holds.
pub(crate) fn list_lock(key: &str) -> String {
    format!("{key}-todo")
}

/// An item as answers and events show it. What a later version keeps with it is not shown.
pub(crate) fn shown_item(item: &TodoItem) -> types::TodoItem {
    types::TodoItem {
        id: item.id.clone().into(),
        description: item.description.clone(),
        depends_on: (!item.depends_on.is_empty()).then(|| ids(&item.depends_on)),
        status: shown_status(item.status),
        note: item.note.clone(),
        reason: item.reason.clone(),
        evidence: (!item.evidence.is_empty()).then(|| item.evidence.iter().map(shown_evidence).collect()),
        reopened: (item.reopened > 0).then_some(item.reopened),
    }
}

/// A status as answers and events show it.
pub(crate) fn shown_status(status: TodoStatus) -> types::TodoStatus {
    match status {
        TodoStatus::Todo => types::TodoStatus::Todo,
        TodoStatus::Doing => types::TodoStatus::Doing,
        TodoStatus::Done => types::TodoStatus::Done,
        TodoStatus::Blocked => types::TodoStatus::Blocked,
    }
}

/// A status that a caller has named.
pub(crate) fn given_status(status: types::TodoStatus) -> TodoStatus {
    match status {
        types::TodoStatus::Todo => TodoStatus::Todo,
        types::TodoStatus::Doing => TodoStatus::Doing,
        types::TodoStatus::Done => TodoStatus::Done,
        types::TodoStatus::Blocked => TodoStatus::Blocked,
    }
}

/// Ids of items.
pub(crate) fn ids<T: AsRef<str>>(ids: &[T]) -> Vec<types::StepId> {
    ids.iter().map(|id| id.as_ref().to_owned().into()).collect()
}

/// A length as the generated types count.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn shown_evidence(evidence: &Evidence) -> types::Evidence {
    types::Evidence {
        path: evidence.path.clone().into(),
        line: evidence.line,
    }
}
