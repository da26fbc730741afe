// @generated from specs/tools/catalog/mcp_task_get.yaml by `cargo codegen write`. Do not edit.

/// Says where one task of an upstream server stands, with its result when it has one.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/catalog/mcp_task_get.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct McpTaskGet;

impl devloop_contract::Handler for McpTaskGet {
    const NAME: &'static str = "mcp_task_get";
    const SPEC: &'static str = "specs/tools/catalog/mcp_task_get.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`McpTaskGet`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The server.
    pub server: String,
    /// The task.
    pub task_id: String,
}

/// What [`McpTaskGet`] answers.
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
    /// The result of the call that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The data of [`Failure::UnknownServer`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UnknownServerDetails {
    /// Those there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
}

/// The expected failures of [`McpTaskGet`].
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

/// The tool `mcp_task_get`, served by [`McpTaskGet`].
pub static MCP_TASK_GET: devloop_contract::Tool = devloop_contract::Tool {
    name: "mcp_task_get",
    aliases: &[],
    title: "Look at a task of a server",
    group: "catalog",
    handler: "mcp_task_get",
    spec: "specs/tools/catalog/mcp_task_get.yaml",
    summary: "Says where one task of an upstream server stands, with its result when it has one.",
    details: "",
    notes: &[],
    cautions: &[],
    description: "Says where one task of an upstream server stands, with its result when it has one.",
    kind: devloop_contract::tool::Kind::ReadOnly,
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
        signature: "mcp_task_get",
        rule: "mcp_task_get",
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
    },
    "result": {
      "type": "object",
      "description": "The result of the call that began it.",
      "additionalProperties": true
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
