// @generated from specs/tools/catalog/mcp_prompt_get.yaml by `cargo codegen write`. Do not edit.

/// Gets one prompt of an upstream server, filled in with arguments.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/catalog/mcp_prompt_get.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct McpPromptGet;

impl devloop_contract::Handler for McpPromptGet {
    const NAME: &'static str = "mcp_prompt_get";
    const SPEC: &'static str = "specs/tools/catalog/mcp_prompt_get.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`McpPromptGet`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The server.
    pub server: String,
    /// The prompt.
    pub name: String,
    /// The prompt's arguments.
    pub arguments: std::collections::BTreeMap<String, String>,
}

/// What [`McpPromptGet`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// The server.
    pub server: String,
    /// The prompt.
    pub name: String,
    /// What the prompt is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Each with `role` and `content`.
    pub messages: Vec<serde_json::Map<String, serde_json::Value>>,
}

/// The data of [`Failure::UnknownServer`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UnknownServerDetails {
    /// Those there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
}

/// The expected failures of [`McpPromptGet`].
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// There is no upstream server of that name.
    UnknownServer(UnknownServerDetails),
    /// The server did not answer, or answered with an error.
    ServerFailed,
}

impl devloop_contract::ExpectedFailure for Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownServer(_) => "unknown_server",
            Self::ServerFailed => "server_failed",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::UnknownServer(_) => "There is no upstream server of that name.",
            Self::ServerFailed => "The server did not answer, or answered with an error.",
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownServer(_) => None,
            Self::ServerFailed => Some("Look at the prompt's arguments with mcp_prompts_list, or go on without it."),
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::UnknownServer(details) => serde_json::to_value(details).ok(),
            Self::ServerFailed => None,
        }
    }
}

/// The tool `mcp_prompt_get`, served by [`McpPromptGet`].
pub static MCP_PROMPT_GET: devloop_contract::Tool = devloop_contract::Tool {
    name: "mcp_prompt_get",
    aliases: &[],
    title: "Get a prompt of a server",
    group: "catalog",
    handler: "mcp_prompt_get",
    spec: "specs/tools/catalog/mcp_prompt_get.yaml",
    summary: "Gets one prompt of an upstream server, filled in with arguments.",
    details: "",
    notes: &[],
    cautions: &[],
    description: "Gets one prompt of an upstream server, filled in with arguments.",
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
    tags: &["mcp", "prompt", "server"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "mcp_prompt_get({server}:{name})",
        rule: "mcp_prompt_get({server}:*)",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_mins(1),
    input_schema: r#"{
  "type": "object",
  "required": [
    "server",
    "name"
  ],
  "additionalProperties": false,
  "properties": {
    "server": {
      "type": "string",
      "description": "The server.",
      "minLength": 1,
      "maxLength": 256
    },
    "name": {
      "type": "string",
      "description": "The prompt.",
      "minLength": 1,
      "maxLength": 1024
    },
    "arguments": {
      "type": "object",
      "description": "The prompt's arguments.",
      "additionalProperties": {
        "type": "string"
      },
      "default": {}
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "server",
    "name",
    "messages"
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
    "name": {
      "type": "string",
      "description": "The prompt."
    },
    "description": {
      "type": "string",
      "description": "What the prompt is for."
    },
    "messages": {
      "type": "array",
      "description": "Each with `role` and `content`.",
      "items": {
        "type": "object",
        "additionalProperties": true
      }
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
            code: "server_failed",
            summary: "The server did not answer, or answered with an error.",
            hint: "Look at the prompt's arguments with mcp_prompts_list, or go on without it.",
        },
    ],
    common_failures: &[],
    examples: &[devloop_contract::tool::Example {
        title: "A prompt with an argument",
        input: r#"{"server":"docs","name":"review","arguments":{"language":"rust"}}"#,
        output: "",
    }],
};
