// @generated from specs/tools/catalog/mcp_task_cancel.yaml by `cargo codegen write`. Do not edit.

/// Tells an upstream server to stop one task.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/catalog/mcp_task_cancel.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct McpTaskCancel;

impl devloop_contract::Handler for McpTaskCancel {
    const NAME: &'static str = "mcp_task_cancel";
    const SPEC: &'static str = "specs/tools/catalog/mcp_task_cancel.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`McpTaskCancel`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The server.
    pub server: String,
    /// The task.
    pub task_id: String,
}

/// What [`McpTaskCancel`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// The server.
    pub server: String,
    /// The task.
    pub task_id: String,
    /// Where it stands.
    pub status: String,
    /// What the server says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The data of [`Failure::UnknownServer`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UnknownServerDetails {
    /// Those there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
}

/// The expected failures of [`McpTaskCancel`].
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// There is no upstream server of that name.
    UnknownServer(UnknownServerDetails),
    /// The server has no such task, or not any more.
    UnknownTask,
    /// The server did not answer, or answered with an error.
    ServerFailed,
}

impl devloop_contract::ExpectedFailure for Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownServer(_) => "unknown_server",
            Self::UnknownTask => "unknown_task",
            Self::ServerFailed => "server_failed",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::UnknownServer(_) => "There is no upstream server of that name.",
            Self::UnknownTask => "The server has no such task, or not any more.",
            Self::ServerFailed => "The server did not answer, or answered with an error.",
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownServer(_) | Self::UnknownTask => None,
            Self::ServerFailed => Some("Go on without it. If it only did not answer, try again later."),
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::UnknownServer(details) => serde_json::to_value(details).ok(),
            Self::UnknownTask | Self::ServerFailed => None,
        }
    }
}

/// The tool `mcp_task_cancel`, served by [`McpTaskCancel`].
pub static MCP_TASK_CANCEL: devloop_contract::Tool = devloop_contract::Tool {
    name: "mcp_task_cancel",
    aliases: &[],
    title: "Cancel a task of a server",
    group: "catalog",
    handler: "mcp_task_cancel",
    spec: "specs/tools/catalog/mcp_task_cancel.yaml",
    summary: "Tells an upstream server to stop one task.",
    details: "",
    notes: &[],
    cautions: &[],
    description: "Tells an upstream server to stop one task.",
    kind: devloop_contract::tool::Kind::Write,
    idempotent: true,
    destructive: false,
    open_world: true,
    parallelism: devloop_contract::tool::Parallelism::Shared,
    concurrency_safe: true,
    retry_safe: false,
    strict: false,
    exposure: devloop_contract::tool::Exposure::Deferred,
    category: "catalog",
    tags: &["mcp", "task", "server"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "mcp_task_cancel",
        rule: "mcp_task_cancel",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_mins(1),
    input_schema: r#"{
  "type": "object",
  "required": [
    "server",
    "task_id"
  ],
  "additionalProperties": false,
  "properties": {
    "server": {
      "type": "string",
      "description": "The server.",
      "minLength": 1,
      "maxLength": 256
    },
    "task_id": {
      "type": "string",
      "description": "The task.",
      "minLength": 1,
      "maxLength": 1024
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "server",
    "task_id",
    "status"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "server": {
      "type": "string",
      "description": "The server."
    },
    "task_id": {
      "type": "string",
      "description": "The task."
    },
    "status": {
      "type": "string",
      "description": "Where it stands."
    },
    "message": {
      "type": "string",
      "description": "What the server says about it."
    }
  }
}"#,
    bind: "{}",
    rules: &[],
    path_fields: &[],
    effects: devloop_contract::tool::Effects {
        reads: &[],
        writes: &[],
        events: &[],
        host: &[],
    },
    failures: &[
        devloop_contract::tool::FailureSpec {
            code: "unknown_server",
            summary: "There is no upstream server of that name.",
            hint: "",
        },
        devloop_contract::tool::FailureSpec {
            code: "unknown_task",
            summary: "The server has no such task, or not any more.",
            hint: "",
        },
        devloop_contract::tool::FailureSpec {
            code: "server_failed",
            summary: "The server did not answer, or answered with an error.",
            hint: "Go on without it. If it only did not answer, try again later.",
        },
    ],
    common_failures: &[],
    examples: &[devloop_contract::tool::Example {
        title: "One task",
        input: r#"{"server":"docs","task_id":"task-1"}"#,
        output: "",
    }],
};
