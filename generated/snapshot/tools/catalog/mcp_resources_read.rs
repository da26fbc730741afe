// @generated from specs/tools/catalog/mcp_resources_read.yaml by `cargo codegen write`. Do not edit.

/// Reads one resource of an upstream server.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/catalog/mcp_resources_read.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct McpResourcesRead;

impl devloop_contract::Handler for McpResourcesRead {
    const NAME: &'static str = "mcp_resources_read";
    const SPEC: &'static str = "specs/tools/catalog/mcp_resources_read.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`McpResourcesRead`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The server.
    pub server: String,
    /// The address of the resource.
    pub uri: String,
}

/// What [`McpResourcesRead`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// The server.
    pub server: String,
    /// Each with `uri`, `mimeType`, and `text` or `blob` in base64.
    pub contents: Vec<serde_json::Map<String, serde_json::Value>>,
}

/// The data of [`Failure::UnknownServer`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UnknownServerDetails {
    /// Those there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<String>>,
}

/// The expected failures of [`McpResourcesRead`].
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
            Self::ServerFailed => Some("Look at the address with mcp_resources_list, or go on without it."),
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::UnknownServer(details) => serde_json::to_value(details).ok(),
            Self::ServerFailed => None,
        }
    }
}

/// The tool `mcp_resources_read`, served by [`McpResourcesRead`].
pub static MCP_RESOURCES_READ: devloop_contract::Tool = devloop_contract::Tool {
    name: "mcp_resources_read",
    aliases: &[],
    title: "Read a resource of a server",
    group: "catalog",
    handler: "mcp_resources_read",
    spec: "specs/tools/catalog/mcp_resources_read.yaml",
    summary: "Reads one resource of an upstream server.",
    details: "",
    notes: &["What is too large for an answer becomes an artifact, which `read_artifact` reads in parts."],
    cautions: &[],
    description: r"Reads one resource of an upstream server.

Notes:
- What is too large for an answer becomes an artifact, which `read_artifact` reads in parts.",
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
    tags: &["mcp", "resource", "server", "read"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "mcp_resources_read({server}:{uri})",
        rule: "mcp_resources_read({server}:*)",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_mins(1),
    input_schema: r#"{
  "type": "object",
  "required": [
    "server",
    "uri"
  ],
  "additionalProperties": false,
  "properties": {
    "server": {
      "type": "string",
      "description": "The server.",
      "minLength": 1,
      "maxLength": 256
    },
    "uri": {
      "type": "string",
      "description": "The address of the resource.",
      "minLength": 1,
      "maxLength": 8192
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "server",
    "contents"
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
    "contents": {
      "type": "array",
      "description": "Each with `uri`, `mimeType`, and `text` or `blob` in base64.",
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
            hint: "Look at the address with mcp_resources_list, or go on without it.",
        },
    ],
    common_failures: &[],
    examples: &[devloop_contract::tool::Example {
        title: "A page",
        input: r#"{"server":"docs","uri":"docs://pages/1"}"#,
        output: "",
    }],
};
