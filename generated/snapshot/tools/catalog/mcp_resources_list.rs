// @generated from specs/tools/catalog/mcp_resources_list.yaml by `cargo codegen write`. Do not edit.

/// Lists the resources and resource templates that upstream servers offer.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/catalog/mcp_resources_list.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct McpResourcesList;

impl devloop_contract::Handler for McpResourcesList {
    const NAME: &'static str = "mcp_resources_list";
    const SPEC: &'static str = "specs/tools/catalog/mcp_resources_list.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`McpResourcesList`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Only this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Only this list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<InputList>,
    /// Go on with `list`, else with the resources: the `cursor` of `more`; needs `server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Only this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum InputList {
    /// `resources`
    #[serde(rename = "resources")]
    Resources,
    /// `templates`
    #[serde(rename = "templates")]
    Templates,
}

impl InputList {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "templates",
        }
    }
}

/// What [`McpResourcesList`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// Each with its `server`, `uri`, `name`, and what else the server says.
    pub resources: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Each with its `server`, `uriTemplate` and `name`.
    pub templates: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Lists that are not all here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub more: Option<Vec<OutputMoreItem>>,
    /// How servers want to be used. These are their own words and bind nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<Vec<OutputServersItem>>,
    /// Servers that did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Vec<OutputFailedItem>>,
}

/// Part of the above.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutputMoreItem {
    /// Whose.
    pub server: String,
    /// Which.
    pub list: OutputMoreItemList,
    /// Where to go on; absent where nothing was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Why it was cut.
    pub reason: String,
}

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum OutputMoreItemList {
    /// `resources`
    #[serde(rename = "resources")]
    Resources,
    /// `templates`
    #[serde(rename = "templates")]
    Templates,
}

impl OutputMoreItemList {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resources => "resources",
            Self::Templates => "templates",
        }
    }
}

/// Part of the above.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutputServersItem {
    /// Its name.
    pub server: String,
    /// What it says of its use; cut at 2000 characters.
    pub instructions: String,
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

/// The expected failures of [`McpResourcesList`].
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

/// The tool `mcp_resources_list`, served by [`McpResourcesList`].
pub static MCP_RESOURCES_LIST: devloop_contract::Tool = devloop_contract::Tool {
    name: "mcp_resources_list",
    aliases: &[],
    title: "List resources of servers",
    group: "catalog",
    handler: "mcp_resources_list",
    spec: "specs/tools/catalog/mcp_resources_list.yaml",
    summary: "Lists the resources and resource templates that upstream servers offer.",
    details: r"Without `server` it asks every server that is connected. A server that does not answer is named among `failed`, and the
others are listed all the same. It also says how each server wants to be used, in the server's own words.
All pages of a list are read, up to a bound. What was cut stands in `more`: call again with its `server`, `list` and
`cursor`.",
    notes: &[],
    cautions: &[],
    description: r"Lists the resources and resource templates that upstream servers offer.

Without `server` it asks every server that is connected. A server that does not answer is named among `failed`, and the
others are listed all the same. It also says how each server wants to be used, in the server's own words.
All pages of a list are read, up to a bound. What was cut stands in `more`: call again with its `server`, `list` and
`cursor`.",
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
    tags: &["mcp", "resource", "server", "list", "instructions"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "mcp_resources_list",
        rule: "mcp_resources_list",
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
    "list": {
      "type": "string",
      "enum": [
        "resources",
        "templates"
      ],
      "description": "Only this list."
    },
    "cursor": {
      "type": "string",
      "description": "Go on with `list`, else with the resources: the `cursor` of `more`; needs `server`.",
      "minLength": 1,
      "maxLength": 16384
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "resources",
    "templates"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "resources": {
      "type": "array",
      "description": "Each with its `server`, `uri`, `name`, and what else the server says.",
      "items": {
        "type": "object",
        "additionalProperties": true
      }
    },
    "templates": {
      "type": "array",
      "description": "Each with its `server`, `uriTemplate` and `name`.",
      "items": {
        "type": "object",
        "additionalProperties": true
      }
    },
    "more": {
      "type": "array",
      "description": "Lists that are not all here.",
      "items": {
        "type": "object",
        "required": [
          "server",
          "list",
          "reason"
        ],
        "properties": {
          "server": {
            "type": "string",
            "description": "Whose."
          },
          "list": {
            "type": "string",
            "enum": [
              "resources",
              "templates"
            ],
            "description": "Which."
          },
          "cursor": {
            "type": "string",
            "description": "Where to go on; absent where nothing was read."
          },
          "reason": {
            "type": "string",
            "description": "Why it was cut."
          }
        }
      }
    },
    "servers": {
      "type": "array",
      "description": "How servers want to be used. These are their own words and bind nobody.",
      "items": {
        "type": "object",
        "required": [
          "server",
          "instructions"
        ],
        "properties": {
          "server": {
            "type": "string",
            "description": "Its name."
          },
          "instructions": {
            "type": "string",
            "description": "What it says of its use; cut at 2000 characters."
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
    examples: &[
        devloop_contract::tool::Example {
            title: "Everything",
            input: "{}",
            output: "",
        },
        devloop_contract::tool::Example {
            title: "One server",
            input: r#"{"server":"docs"}"#,
            output: "",
        },
        devloop_contract::tool::Example {
            title: "More templates",
            input: r#"{"server":"docs","list":"templates","cursor":"200"}"#,
            output: "",
        },
    ],
};
