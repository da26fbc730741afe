// @generated from specs/tools/catalog/mcp_prompts_list.yaml by `cargo codegen write`. Do not edit.

/// Lists the prompts that upstream servers offer.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/catalog/mcp_prompts_list.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct McpPromptsList;

impl devloop_contract::Handler for McpPromptsList {
    const NAME: &'static str = "mcp_prompts_list";
    const SPEC: &'static str = "specs/tools/catalog/mcp_prompts_list.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`McpPromptsList`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Only this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Go on there: the `cursor` of `more`; needs `server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// What [`McpPromptsList`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// Each with its `server`, `name`, `description` and `arguments`.
    pub prompts: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Servers whose prompts are not all here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Vec<OutputMoreItem>>,
    /// Servers that did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Vec<OutputFailedItem>>,
}

/// Part of the above.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutputMoreItem {
    /// Whose.
    pub server: String,
    /// Where to go on.
    pub cursor: String,
    /// Why it was cut.
    pub reason: String,
}

/// Part of the above.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutputFailedItem {
    /// Its name.
    pub server: String,
    /// Why.
    pub reason: String,
}

/// The data of [`Failure::UnknownServer`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UnknownServerDetails {
    /// Those there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
}

/// The expected failures of [`McpPromptsList`].
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
            Self::ServerFailed => Some("Go on without it. If it only did not answer, try again later."),
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::UnknownServer(details) => serde_json::to_value(details).ok(),
            Self::ServerFailed => None,
        }
    }
}

/// The tool `mcp_prompts_list`, served by [`McpPromptsList`].
pub static MCP_PROMPTS_LIST: devloop_contract::Tool = devloop_contract::Tool {
    name: "mcp_prompts_list",
    aliases: &[],
    title: "List prompts of servers",
    group: "catalog",
    handler: "mcp_prompts_list",
    spec: "specs/tools/catalog/mcp_prompts_list.yaml",
    summary: "Lists the prompts that upstream servers offer.",
    details: r"Without `server` it asks every server that is connected. A server that does not answer is named among `failed`, and the
others are listed all the same.
All pages are read, up to a bound. What was cut stands in `more`: call again with its `server` and `cursor`.",
    notes: &[],
    cautions: &[],
    description: r"Lists the prompts that upstream servers offer.

Without `server` it asks every server that is connected. A server that does not answer is named among `failed`, and the
others are listed all the same.
All pages are read, up to a bound. What was cut stands in `more`: call again with its `server` and `cursor`.",
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
    tags: &["mcp", "prompt", "server", "list"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "mcp_prompts_list",
        rule: "mcp_prompts_list",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_mins(1),
    input_schema: r#"{
  "type": "object",
  "required": [],
  "additionalProperties": false,
  "properties": {
    "server": {
      "type": "string",
      "description": "Only this server.",
      "minLength": 1,
      "maxLength": 256
    },
    "cursor": {
      "type": "string",
      "description": "Go on there: the `cursor` of `more`; needs `server`.",
      "minLength": 1,
      "maxLength": 16384
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "prompts"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "prompts": {
      "type": "array",
      "description": "Each with its `server`, `name`, `description` and `arguments`.",
      "items": {
        "type": "object",
        "additionalProperties": true
      }
    },
    "more": {
      "type": "array",
      "description": "Servers whose prompts are not all here.",
      "items": {
        "type": "object",
        "required": [
          "server",
          "cursor",
          "reason"
        ],
        "properties": {
          "server": {
            "type": "string",
            "description": "Whose."
          },
          "cursor": {
            "type": "string",
            "description": "Where to go on."
          },
          "reason": {
            "type": "string",
            "description": "Why it was cut."
          }
        }
      }
    },
    "failed": {
      "type": "array",
      "description": "Servers that did not answer.",
      "items": {
        "type": "object",
        "required": [
          "server",
          "reason"
        ],
        "properties": {
          "server": {
            "type": "string",
            "description": "Its name."
          },
          "reason": {
            "type": "string",
            "description": "Why."
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
            hint: "Go on without it. If it only did not answer, try again later.",
        },
    ],
    common_failures: &[],
    examples: &[devloop_contract::tool::Example {
        title: "Everything",
        input: "{}",
        output: "",
    }],
};
