// @generated from specs/tools/persistence/update_runtime_state.yaml by `cargo codegen write`. Do not edit.

/// Says what this agent is doing now, so that the loop and people can see it.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/persistence/update_runtime_state.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct UpdateRuntimeState;

impl devloop_contract::Handler for UpdateRuntimeState {
    const NAME: &'static str = "update_runtime_state";
    const SPEC: &'static str = "specs/tools/persistence/update_runtime_state.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`UpdateRuntimeState`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The phase of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How an agent's work goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<crate::types::RuntimeStatus>,
    /// The todo item in work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step: Option<crate::types::StepId>,
    /// No todo item is in work any more.
    pub clear_step: bool,
    /// A sentence for people; an empty one takes the last one away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How far the work is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_pct: Option<u64>,
    /// Seconds of silence after which somebody should look; 120 until you say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    /// A merge patch on the state's own data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<serde_json::Map<String, serde_json::Value>>,
    /// The version that you have seen; 0 when there was no state yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_version: Option<u64>,
}

/// What [`UpdateRuntimeState`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// The version of the state now.
    pub version: u64,
    /// The whole state.
    pub state: serde_json::Map<String, serde_json::Value>,
    /// Where the work stood before.
    pub previous: Previous,
    /// What deserves a look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
}

/// Where the work stood before.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Previous {
    /// The phase before; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The status before; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<crate::types::RuntimeStatus>,
}

/// The data of [`Failure::VersionConflict`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct VersionConflictDetails {
    /// The version now.
    pub current_version: u64,
    /// The state now; without a key when there is none.
    pub state: serde_json::Map<String, serde_json::Value>,
}

/// The data of [`Failure::Fenced`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct FencedDetails {
    /// The session that writes now.
    pub session_id: String,
}

/// The data of [`Failure::IllegalPhase`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct IllegalPhaseDetails {
    /// The phases that can come next.
    pub allowed: Vec<String>,
}

/// The expected failures of [`UpdateRuntimeState`].
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The state has changed since you read it.
    VersionConflict(VersionConflictDetails),
    /// Another session of this agent has taken over; this one must stop.
    Fenced(FencedDetails),
    /// The loop does not allow this phase now.
    IllegalPhase(IllegalPhaseDetails),
}

impl devloop_contract::ExpectedFailure for Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::VersionConflict(_) => "version_conflict",
            Self::Fenced(_) => "fenced",
            Self::IllegalPhase(_) => "illegal_phase",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::VersionConflict(_) => "The state has changed since you read it.",
            Self::Fenced(_) => "Another session of this agent has taken over; this one must stop.",
            Self::IllegalPhase(_) => "The loop does not allow this phase now.",
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::VersionConflict(_) => Some("Take `details.state` and decide again."),
            Self::Fenced(_) => Some("Stop. Whoever wants this session's work to go on begins a new session."),
            Self::IllegalPhase(_) => Some("Go to one of the phases in `details.allowed`, or stay where you are."),
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::VersionConflict(details) => serde_json::to_value(details).ok(),
            Self::Fenced(details) => serde_json::to_value(details).ok(),
            Self::IllegalPhase(details) => serde_json::to_value(details).ok(),
        }
    }
}

/// The tool `update_runtime_state`, served by [`UpdateRuntimeState`].
pub static UPDATE_RUNTIME_STATE: devloop_contract::Tool = devloop_contract::Tool {
    name: "update_runtime_state",
    aliases: &[],
    title: "Update the runtime state",
    group: "persistence",
    handler: "update_runtime_state",
    spec: "specs/tools/persistence/update_runtime_state.yaml",
    summary: "Says what this agent is doing now, so that the loop and people can see it.",
    details: r"Every field is optional and stays as it is when it is left out; an empty call is a heartbeat and only says that you are
still there.
`patch` is merged into the state's own `data` (RFC 7396): a null removes a key, an object is merged, anything else
replaces what was there, an array as a whole. Answers with the whole state.",
    notes: &[
        "A heartbeat does not raise the version, so it never breaks another caller's `expected_version`; any other call does.",
        "A session that was not seen before takes over the state; the one before it is refused as `fenced` from then on.",
        "A patch has at most 16 KiB and 8 levels, itself included, and the data 32 KiB.",
    ],
    cautions: &[],
    description: r"Says what this agent is doing now, so that the loop and people can see it.

Every field is optional and stays as it is when it is left out; an empty call is a heartbeat and only says that you are
still there.
`patch` is merged into the state's own `data` (RFC 7396): a null removes a key, an object is merged, anything else
replaces what was there, an array as a whole. Answers with the whole state.

Notes:
- A heartbeat does not raise the version, so it never breaks another caller's `expected_version`; any other call does.
- A session that was not seen before takes over the state; the one before it is refused as `fenced` from then on.
- A patch has at most 16 KiB and 8 levels, itself included, and the data 32 KiB.",
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
    tags: &["status", "heartbeat", "phase"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "update_runtime_state",
        rule: "update_runtime_state",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_secs(10),
    input_schema: r#"{
  "type": "object",
  "required": [],
  "additionalProperties": false,
  "properties": {
    "phase": {
      "type": "string",
      "description": "The phase of the work.",
      "pattern": "^[a-z][a-z0-9_-]{0,31}$"
    },
    "status": {
      "type": "string",
      "description": "How an agent's work goes.",
      "enum": [
        "idle",
        "running",
        "waiting",
        "blocked",
        "error",
        "done"
      ]
    },
    "current_step": {
      "type": "string",
      "description": "The todo item in work.",
      "pattern": "^step-\\d{3}$"
    },
    "clear_step": {
      "type": "boolean",
      "description": "No todo item is in work any more.",
      "default": false
    },
    "message": {
      "type": "string",
      "description": "A sentence for people; an empty one takes the last one away.",
      "maxLength": 500
    },
    "progress_pct": {
      "type": "integer",
      "description": "How far the work is.",
      "minimum": 0,
      "maximum": 100
    },
    "ttl_s": {
      "type": "integer",
      "description": "Seconds of silence after which somebody should look; 120 until you say otherwise.",
      "minimum": 5,
      "maximum": 3600
    },
    "patch": {
      "type": "object",
      "description": "A merge patch on the state's own data."
    },
    "expected_version": {
      "type": "integer",
      "description": "The version that you have seen; 0 when there was no state yet.",
      "minimum": 0
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "version",
    "state",
    "previous"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "version": {
      "type": "integer",
      "description": "The version of the state now.",
      "minimum": 0
    },
    "state": {
      "type": "object",
      "description": "The whole state."
    },
    "previous": {
      "type": "object",
      "description": "Where the work stood before.",
      "properties": {
        "phase": {
          "type": "string",
          "description": "The phase before; absent when there was none."
        },
        "status": {
          "type": "string",
          "description": "The status before; absent when there was none.",
          "enum": [
            "idle",
            "running",
            "waiting",
            "blocked",
            "error",
            "done"
          ]
        }
      }
    },
    "warnings": {
      "type": "array",
      "description": "What deserves a look.",
      "items": {
        "type": "string",
        "description": "`open_items: step-002` when the call says `done` and the todo list does not; `todo_unreadable: …` when it cannot tell."
      }
    }
  }
}"#,
    bind: "{}",
    rules: &[],
    path_fields: &[],
    effects: devloop_contract::tool::Effects {
        reads: &[
            "agent-state/{state_key}-runtime.json",
            "agent-state/{state_key}-todo.json",
        ],
        writes: &[devloop_contract::tool::WriteEffect {
            path: "agent-state/{state_key}-runtime.json",
            only: &[],
            when: "",
        }],
        events: &["agent.runtime"],
        host: &[],
    },
    failures: &[
        devloop_contract::tool::FailureSpec {
            code: "version_conflict",
            summary: "The state has changed since you read it.",
            hint: "Take `details.state` and decide again.",
        },
        devloop_contract::tool::FailureSpec {
            code: "fenced",
            summary: "Another session of this agent has taken over; this one must stop.",
            hint: "Stop. Whoever wants this session's work to go on begins a new session.",
        },
        devloop_contract::tool::FailureSpec {
            code: "illegal_phase",
            summary: "The loop does not allow this phase now.",
            hint: "Go to one of the phases in `details.allowed`, or stay where you are.",
        },
    ],
    common_failures: &["busy", "state_corrupt", "too_large"],
    examples: &[
        devloop_contract::tool::Example {
            title: "Begin to work",
            input: r#"{"phase":"drafting","status":"running","current_step":"step-001"}"#,
            output: "",
        },
        devloop_contract::tool::Example {
            title: "A heartbeat",
            input: "{}",
            output: "",
        },
        devloop_contract::tool::Example {
            title: "Count something, if nobody else has",
            input: r#"{"patch":{"pages":3},"expected_version":7}"#,
            output: "",
        },
    ],
};
