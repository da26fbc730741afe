// @generated from specs/tools/persistence/update_todo_item.yaml by `cargo codegen write`. Do not edit.

/// Moves one item of this agent's todo list to another status.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/persistence/update_todo_item.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct UpdateTodoItem;

impl devloop_contract::Handler for UpdateTodoItem {
    const NAME: &'static str = "update_todo_item";
    const SPEC: &'static str = "specs/tools/persistence/update_todo_item.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`UpdateTodoItem`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The item to move.
    pub id: crate::types::StepId,
    /// Where it stands now.
    pub status: crate::types::TodoStatus,
    /// What happened. Needed to reopen a done item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why the item is blocked. Only with the status `blocked`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Files that show it; `path` and `line`.
    pub evidence: Vec<crate::types::Evidence>,
    /// Put an item that is `doing` back to `todo` for this one.
    pub switch: bool,
    /// The version of the list that you have seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

/// What [`UpdateTodoItem`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// The item as it stands now.
    pub item: crate::types::TodoItem,
    /// Whether the call changed anything.
    pub changed: bool,
    /// Whole percent of the items that are done.
    pub progress_pct: u64,
    /// Ids of the items that `switch` put back to `todo`; absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<Vec<crate::types::StepId>>,
    /// The item that is `doing`, else the first that is ready; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<crate::types::StepId>,
    /// Ids of the items that can be started now, in list order.
    pub ready: Vec<crate::types::StepId>,
    /// Ids of the items that are blocked, in list order.
    pub blocked: Vec<crate::types::StepId>,
    /// How many items have each status.
    pub counts: Counts,
    /// Whether every item is done.
    pub all_done: bool,
    /// The version of the list now.
    pub version: u64,
    /// What deserves a look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// How many items have each status.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Not begun.
    pub todo: u64,
    /// In work.
    pub doing: u64,
    /// Finished.
    pub done: u64,
    /// Blocked.
    pub blocked: u64,
}

/// The data of [`Failure::UnknownItem`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UnknownItemDetails {
    /// The nearest ids of the list.
    pub nearest: Vec<String>,
}

/// The data of [`Failure::BadTransition`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct BadTransitionDetails {
    /// Where the item stands.
    pub from: crate::types::TodoStatus,
    /// Where it can go.
    pub allowed: Vec<crate::types::TodoStatus>,
}

/// The data of [`Failure::DepsOpen`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct DepsOpenDetails {
    /// The ids of those items.
    pub open: Vec<String>,
}

/// The data of [`Failure::AnotherInProgress`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AnotherInProgressDetails {
    /// The item that is doing.
    pub id: String,
}

/// The data of [`Failure::VersionConflict`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct VersionConflictDetails {
    /// The version of the list now.
    pub current_version: u64,
    /// The file that holds the list.
    pub path: crate::types::RelPath,
}

/// The expected failures of [`UpdateTodoItem`].
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// This agent has no todo list yet.
    NoList,
    /// No item of the list has that id.
    UnknownItem(UnknownItemDetails),
    /// An item with this status cannot be moved there.
    BadTransition(BadTransitionDetails),
    /// Items that it depends on are not done.
    DepsOpen(DepsOpenDetails),
    /// Another item is `doing`.
    AnotherInProgress(AnotherInProgressDetails),
    /// The list has changed since you read it.
    VersionConflict(VersionConflictDetails),
}

impl devloop_contract::ExpectedFailure for Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::NoList => "no_list",
            Self::UnknownItem(_) => "unknown_item",
            Self::BadTransition(_) => "bad_transition",
            Self::DepsOpen(_) => "deps_open",
            Self::AnotherInProgress(_) => "another_in_progress",
            Self::VersionConflict(_) => "version_conflict",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::NoList => "This agent has no todo list yet.",
            Self::UnknownItem(_) => "No item of the list has that id.",
            Self::BadTransition(_) => "An item with this status cannot be moved there.",
            Self::DepsOpen(_) => "Items that it depends on are not done.",
            Self::AnotherInProgress(_) => "Another item is `doing`.",
            Self::VersionConflict(_) => "The list has changed since you read it.",
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoList => Some("Call write_todolist first."),
            Self::UnknownItem(_) => Some("The nearest ids are in `details.nearest`."),
            Self::BadTransition(_) => Some("Where it can go from `details.from` is in `details.allowed`."),
            Self::DepsOpen(_) => Some("Finish those in `details.open` first."),
            Self::AnotherInProgress(_) => {
                Some("Finish the one in `details.id` first, or give `switch: true` to put it back to `todo`.")
            }
            Self::VersionConflict(_) => {
                Some("Read the list in `details.path`, then decide again with `details.current_version`.")
            }
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::NoList => None,
            Self::UnknownItem(details) => serde_json::to_value(details).ok(),
            Self::BadTransition(details) => serde_json::to_value(details).ok(),
            Self::DepsOpen(details) => serde_json::to_value(details).ok(),
            Self::AnotherInProgress(details) => serde_json::to_value(details).ok(),
            Self::VersionConflict(details) => serde_json::to_value(details).ok(),
        }
    }
}

/// The tool `update_todo_item`, served by [`UpdateTodoItem`].
pub static UPDATE_TODO_ITEM: devloop_contract::Tool = devloop_contract::Tool {
    name: "update_todo_item",
    aliases: &[],
    title: "Update a todo item",
    group: "persistence",
    handler: "update_todo_item",
    spec: "specs/tools/persistence/update_todo_item.yaml",
    summary: "Moves one item of this agent's todo list to another status.",
    details: r"`todo` becomes `doing`, `blocked` or `done`; `doing` becomes `done`, `blocked` or `todo`; `blocked` becomes `todo` or
`doing`; `done` becomes `doing` again when a `note` says why.
An item becomes `doing` or `done` only when everything that it depends on is done, and one item is `doing` at a time.
The answer has the item, what is ready now, and how far the list is.",
    notes: &[
        "The same status again changes nothing, whatever else the call says, and answers `changed` false.",
        "A `note` and `evidence` stay with the item until a later move brings others; the `reason` stays while it is blocked.",
        "With `expected_version` the call is refused when the list has changed since you read it.",
    ],
    cautions: &[],
    description: r#"Moves one item of this agent's todo list to another status.

`todo` becomes `doing`, `blocked` or `done`; `doing` becomes `done`, `blocked` or `todo`; `blocked` becomes `todo` or
`doing`; `done` becomes `doing` again when a `note` says why.
An item becomes `doing` or `done` only when everything that it depends on is done, and one item is `doing` at a time.
The answer has the item, what is ready now, and how far the list is.

`reason` is required when `status` is "blocked".

Notes:
- The same status again changes nothing, whatever else the call says, and answers `changed` false.
- A `note` and `evidence` stay with the item until a later move brings others; the `reason` stays while it is blocked.
- With `expected_version` the call is refused when the list has changed since you read it."#,
    kind: devloop_contract::tool::Kind::ReadOnly,
    idempotent: false,
    destructive: false,
    open_world: false,
    parallelism: devloop_contract::tool::Parallelism::Exclusive,
    concurrency_safe: false,
    retry_safe: false,
    strict: false,
    exposure: devloop_contract::tool::Exposure::Always,
    category: "persistence",
    tags: &["todo", "step", "status"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "update_todo_item",
        rule: "update_todo_item",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_secs(10),
    input_schema: r#"{
  "type": "object",
  "required": [
    "id",
    "status"
  ],
  "additionalProperties": false,
  "properties": {
    "id": {
      "type": "string",
      "description": "The item to move.",
      "pattern": "^step-\\d{3}$"
    },
    "status": {
      "type": "string",
      "description": "Where it stands now.",
      "enum": [
        "todo",
        "doing",
        "done",
        "blocked"
      ]
    },
    "note": {
      "type": "string",
      "description": "What happened. Needed to reopen a done item.",
      "minLength": 1,
      "maxLength": 1000,
      "pattern": "\\S"
    },
    "reason": {
      "type": "string",
      "description": "Why the item is blocked. Only with the status `blocked`.",
      "minLength": 1,
      "maxLength": 500,
      "pattern": "\\S"
    },
    "evidence": {
      "type": "array",
      "description": "Files that show it; `path` and `line`.",
      "default": [],
      "maxItems": 10,
      "items": {
        "type": "object",
        "description": "A place in a file.",
        "required": [
          "path"
        ],
        "properties": {
          "path": {
            "type": "string",
            "description": "The file.",
            "minLength": 1,
            "maxLength": 1024
          },
          "line": {
            "type": "integer",
            "description": "The line, from 1 on.",
            "minimum": 1
          }
        },
        "additionalProperties": false
      }
    },
    "switch": {
      "type": "boolean",
      "description": "Put an item that is `doing` back to `todo` for this one.",
      "default": false
    },
    "expected_version": {
      "type": "integer",
      "description": "The version of the list that you have seen.",
      "minimum": 1
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "item",
    "changed",
    "progress_pct",
    "ready",
    "blocked",
    "counts",
    "all_done",
    "version"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "item": {
      "type": "object",
      "description": "The item as it stands now.",
      "required": [
        "id",
        "description",
        "status"
      ],
      "properties": {
        "id": {
          "type": "string",
          "description": "The id of a step, such as `step-001`.",
          "pattern": "^step-\\d{3}$"
        },
        "description": {
          "type": "string",
          "description": "What is to be done."
        },
        "depends_on": {
          "type": "array",
          "description": "Ids of items that must be done first.",
          "items": {
            "type": "string",
            "description": "The id of a step, such as `step-001`.",
            "pattern": "^step-\\d{3}$"
          }
        },
        "status": {
          "type": "string",
          "description": "Where an item stands.",
          "enum": [
            "todo",
            "doing",
            "done",
            "blocked"
          ]
        },
        "note": {
          "type": "string",
          "description": "What the last move that had a note said."
        },
        "reason": {
          "type": "string",
          "description": "Why the item is blocked; absent when it is not."
        },
        "evidence": {
          "type": "array",
          "description": "Files that show it, as the last move that named some gave them.",
          "items": {
            "type": "object",
            "description": "A place in a file.",
            "required": [
              "path"
            ],
            "properties": {
              "path": {
                "type": "string",
                "description": "The file.",
                "minLength": 1,
                "maxLength": 1024
              },
              "line": {
                "type": "integer",
                "description": "The line, from 1 on.",
                "minimum": 1
              }
            }
          }
        },
        "reopened": {
          "type": "integer",
          "description": "How often the item was done and then taken up again; absent when never.",
          "minimum": 1
        }
      }
    },
    "changed": {
      "type": "boolean",
      "description": "Whether the call changed anything."
    },
    "progress_pct": {
      "type": "integer",
      "description": "Whole percent of the items that are done.",
      "minimum": 0,
      "maximum": 100
    },
    "put_back": {
      "type": "array",
      "description": "Ids of the items that `switch` put back to `todo`; absent when there were none.",
      "items": {
        "type": "string",
        "description": "The id of a step, such as `step-001`.",
        "pattern": "^step-\\d{3}$"
      }
    },
    "current": {
      "type": "string",
      "description": "The item that is `doing`, else the first that is ready; absent when there is none.",
      "pattern": "^step-\\d{3}$"
    },
    "ready": {
      "type": "array",
      "description": "Ids of the items that can be started now, in list order.",
      "items": {
        "type": "string",
        "description": "The id of a step, such as `step-001`.",
        "pattern": "^step-\\d{3}$"
      }
    },
    "blocked": {
      "type": "array",
      "description": "Ids of the items that are blocked, in list order.",
      "items": {
        "type": "string",
        "description": "The id of a step, such as `step-001`.",
        "pattern": "^step-\\d{3}$"
      }
    },
    "counts": {
      "type": "object",
      "description": "How many items have each status.",
      "required": [
        "todo",
        "doing",
        "done",
        "blocked"
      ],
      "properties": {
        "todo": {
          "type": "integer",
          "description": "Not begun.",
          "minimum": 0
        },
        "doing": {
          "type": "integer",
          "description": "In work.",
          "minimum": 0
        },
        "done": {
          "type": "integer",
          "description": "Finished.",
          "minimum": 0
        },
        "blocked": {
          "type": "integer",
          "description": "Blocked.",
          "minimum": 0
        }
      }
    },
    "all_done": {
      "type": "boolean",
      "description": "Whether every item is done."
    },
    "version": {
      "type": "integer",
      "description": "The version of the list now.",
      "minimum": 1
    },
    "warnings": {
      "type": "array",
      "description": "What deserves a look.",
      "items": {
        "type": "string",
        "description": "`dependents_done: step-005` when a reopened item has dependents that are done."
      }
    }
  }
}"#,
    bind: "{}",
    rules: &[devloop_contract::tool::Rule::RequiredIf {
        field: "reason",
        when: "status",
        is: &[r#""blocked""#],
    }],
    path_fields: &["/evidence/*/path"],
    effects: devloop_contract::tool::Effects {
        reads: &["agent-state/{state_key}-todo.json"],
        writes: &[devloop_contract::tool::WriteEffect {
            path: "agent-state/{state_key}-todo.json",
            only: &[],
            when: "",
        }],
        events: &["agent.todo_item"],
        host: &[],
    },
    failures: &[
        devloop_contract::tool::FailureSpec {
            code: "no_list",
            summary: "This agent has no todo list yet.",
            hint: "Call write_todolist first.",
        },
        devloop_contract::tool::FailureSpec {
            code: "unknown_item",
            summary: "No item of the list has that id.",
            hint: "The nearest ids are in `details.nearest`.",
        },
        devloop_contract::tool::FailureSpec {
            code: "bad_transition",
            summary: "An item with this status cannot be moved there.",
            hint: "Where it can go from `details.from` is in `details.allowed`.",
        },
        devloop_contract::tool::FailureSpec {
            code: "deps_open",
            summary: "Items that it depends on are not done.",
            hint: "Finish those in `details.open` first.",
        },
        devloop_contract::tool::FailureSpec {
            code: "another_in_progress",
            summary: "Another item is `doing`.",
            hint: "Finish the one in `details.id` first, or give `switch: true` to put it back to `todo`.",
        },
        devloop_contract::tool::FailureSpec {
            code: "version_conflict",
            summary: "The list has changed since you read it.",
            hint: "Read the list in `details.path`, then decide again with `details.current_version`.",
        },
    ],
    common_failures: &["busy", "state_corrupt", "too_large"],
    examples: &[
        devloop_contract::tool::Example {
            title: "Begin the first step",
            input: r#"{"id":"step-001","status":"doing"}"#,
            output: r#"{"item":{"id":"step-001","description":"Read the requirements chapter","status":"doing"},"changed":true,"current":"step-001","progress_pct":0,"ready":["step-002"],"blocked":[],"counts":{"todo":2,"doing":1,"done":0,"blocked":0},"all_done":false,"version":2}"#,
        },
        devloop_contract::tool::Example {
            title: "Say why a step is blocked",
            input: r#"{"id":"step-002","status":"blocked","reason":"The test database is down"}"#,
            output: "",
        },
    ],
};
