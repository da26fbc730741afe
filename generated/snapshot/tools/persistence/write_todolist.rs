// @generated from specs/tools/persistence/write_todolist.yaml by `cargo codegen write`. Do not edit.

/// Writes this agent's whole todo list, replacing the one before it.
///
/// Takes an [`Input`], answers with an [`Output`], and has no failures of its own. Declared in
/// `specs/tools/persistence/write_todolist.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct WriteTodolist;

impl devloop_contract::Handler for WriteTodolist {
    const NAME: &'static str = "write_todolist";
    const SPEC: &'static str = "specs/tools/persistence/write_todolist.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`WriteTodolist`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// All steps, in the order in which you mean to take them.
    pub items: Vec<Item>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// `step-` and three digits, unique in the list.
    pub id: crate::types::StepId,
    /// What is to be done, in one sentence.
    pub description: String,
    /// Ids of steps that must be done first.
    pub depends_on: Vec<crate::types::StepId>,
}

/// What [`WriteTodolist`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// How many items the list has.
    pub total: u64,
    /// The file that holds the list, relative to the project directory.
    pub path: crate::types::RelPath,
    /// The first step that is ready; absent when the list is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// Ids of the steps that can be started now, in list order.
    pub ready: Vec<crate::types::StepId>,
    /// The version of the list, for `expected_version` of update_todo_item.
    pub version: u64,
    /// True when the list was already this one; nothing was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unchanged: Option<bool>,
    /// What was in the list before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Replaced>,
}

/// What was in the list before this one.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Replaced {
    /// How many items it had.
    pub total: u64,
    /// How many of them were done.
    pub done: u64,
    /// Ids of the items that were not done, in list order.
    pub open: Vec<String>,
}

/// [`WriteTodolist`] has no failures of its own.
pub type Failure = devloop_contract::failure::NoFailure;

/// The tool `write_todolist`, served by [`WriteTodolist`].
pub static WRITE_TODOLIST: devloop_contract::Tool = devloop_contract::Tool {
    name: "write_todolist",
    aliases: &[],
    title: "Write the todo list",
    group: "persistence",
    handler: "write_todolist",
    spec: "specs/tools/persistence/write_todolist.yaml",
    summary: "Writes this agent's whole todo list, replacing the one before it.",
    details: r"Call it once when you have a plan, with every step in the order you mean to take them. A step may depend on steps
anywhere in the list. Every item starts as `todo`.
The answer names the steps that are `ready` (nothing left to wait for) and, when a list was replaced, what was still
open in it. The old list is kept in `agent-state/history/`.",
    notes: &[
        "An empty list is allowed and means that there is nothing to do.",
        "Sending the same items again while nothing has moved changes nothing and answers `unchanged`.",
    ],
    cautions: &[
        "A list that was replaced loses its progress; carry over the steps under `replaced.open` that still matter.",
    ],
    description: r"Writes this agent's whole todo list, replacing the one before it.

Call it once when you have a plan, with every step in the order you mean to take them. A step may depend on steps
anywhere in the list. Every item starts as `todo`.
The answer names the steps that are `ready` (nothing left to wait for) and, when a list was replaced, what was still
open in it. The old list is kept in `agent-state/history/`.

Notes:
- An empty list is allowed and means that there is nothing to do.
- Sending the same items again while nothing has moved changes nothing and answers `unchanged`.

Cautions:
- A list that was replaced loses its progress; carry over the steps under `replaced.open` that still matter.",
    kind: devloop_contract::tool::Kind::ReadOnly,
    idempotent: true,
    destructive: false,
    open_world: false,
    parallelism: devloop_contract::tool::Parallelism::Exclusive,
    concurrency_safe: false,
    retry_safe: false,
    strict: false,
    exposure: devloop_contract::tool::Exposure::Always,
    category: "persistence",
    tags: &["todo", "plan", "steps"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "write_todolist",
        rule: "write_todolist",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_secs(10),
    input_schema: r#"{
  "type": "object",
  "required": [
    "items"
  ],
  "additionalProperties": false,
  "properties": {
    "items": {
      "type": "array",
      "description": "All steps, in the order in which you mean to take them.",
      "minItems": 0,
      "maxItems": 200,
      "items": {
        "type": "object",
        "description": "One step.",
        "required": [
          "id",
          "description"
        ],
        "additionalProperties": false,
        "properties": {
          "id": {
            "type": "string",
            "description": "`step-` and three digits, unique in the list.",
            "pattern": "^step-\\d{3}$"
          },
          "description": {
            "type": "string",
            "description": "What is to be done, in one sentence.",
            "minLength": 1,
            "maxLength": 500,
            "pattern": "\\S"
          },
          "depends_on": {
            "type": "array",
            "description": "Ids of steps that must be done first.",
            "default": [],
            "maxItems": 200,
            "items": {
              "type": "string",
              "description": "The id of a step, such as `step-001`.",
              "pattern": "^step-\\d{3}$"
            }
          }
        }
      }
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "total",
    "path",
    "ready",
    "version"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "total": {
      "type": "integer",
      "description": "How many items the list has.",
      "minimum": 0
    },
    "path": {
      "type": "string",
      "description": "The file that holds the list, relative to the project directory.",
      "minLength": 1,
      "maxLength": 1024
    },
    "current": {
      "type": "string",
      "description": "The first step that is ready; absent when the list is empty."
    },
    "ready": {
      "type": "array",
      "description": "Ids of the steps that can be started now, in list order.",
      "items": {
        "type": "string",
        "description": "The id of a step, such as `step-001`.",
        "pattern": "^step-\\d{3}$"
      }
    },
    "version": {
      "type": "integer",
      "description": "The version of the list, for `expected_version` of update_todo_item.",
      "minimum": 1
    },
    "unchanged": {
      "type": "boolean",
      "description": "True when the list was already this one; nothing was written."
    },
    "replaced": {
      "type": "object",
      "description": "What was in the list before this one.",
      "required": [
        "total",
        "done",
        "open"
      ],
      "properties": {
        "total": {
          "type": "integer",
          "description": "How many items it had.",
          "minimum": 0
        },
        "done": {
          "type": "integer",
          "description": "How many of them were done.",
          "minimum": 0
        },
        "open": {
          "type": "array",
          "description": "Ids of the items that were not done, in list order.",
          "items": {
            "type": "string",
            "description": "An item's id."
          }
        }
      }
    }
  }
}"#,
    bind: "{}",
    rules: &[],
    path_fields: &[],
    effects: devloop_contract::tool::Effects {
        reads: &["agent-state/{state_key}-todo.json"],
        writes: &[
            devloop_contract::tool::WriteEffect {
                path: "agent-state/{state_key}-todo.json",
                only: &[],
                when: "",
            },
            devloop_contract::tool::WriteEffect {
                path: "agent-state/history/{state_key}-todo.*.json",
                only: &[],
                when: "A list is replaced; the fifty newest are kept.",
            },
        ],
        events: &["agent.todolist"],
        host: &[],
    },
    failures: &[],
    common_failures: &["busy", "state_corrupt", "too_large"],
    examples: &[devloop_contract::tool::Example {
        title: "Three steps, the last waiting for both others",
        input: r#"{"items":[{"id":"step-001","description":"Read the requirements chapter"},{"id":"step-002","description":"Write the login test"},{"id":"step-003","description":"Implement the login","depends_on":["step-001","step-002"]}]}"#,
        output: r#"{"total":3,"path":"agent-state/pm-todo.json","current":"step-001","ready":["step-001","step-002"],"version":1}"#,
    }],
};
