// @generated from specs/tools/catalog/tool_search.yaml by `cargo codegen write`. Do not edit.

/// Finds tools that are there but not shown, and shows them from now on.
///
/// Takes an [`Input`], answers with an [`Output`], and has no failures of its own. Declared in
/// `specs/tools/catalog/tool_search.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct ToolSearch;

impl devloop_contract::Handler for ToolSearch {
    const NAME: &'static str = "tool_search";
    const SPEC: &'static str = "specs/tools/catalog/tool_search.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`ToolSearch`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Words to look for, or `select:` and names with commas between them.
    pub query: String,
    /// How many tools at most.
    pub max_results: u64,
}

/// What [`ToolSearch`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// What was found, best first or in the order of the names.
    pub tools: Vec<OutputToolsItem>,
    /// Those that were not shown before.
    pub loaded: Vec<String>,
    /// Selected names that no tool has, each with the nearest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Vec<OutputUnknownItem>>,
    /// Selected tools that plan mode does without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Vec<String>>,
    /// Selected tools beyond `max_results`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Vec<String>>,
    /// How many tools are there still and not shown.
    pub total_deferred: u64,
}

/// Part of the above.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutputToolsItem {
    /// The name to call.
    pub name: String,
    /// The human name.
    pub title: String,
    /// What it does.
    pub summary: String,
    /// Its permission class.
    pub kind: String,
    /// JSON Schema of its input.
    pub input_schema: serde_json::Map<String, serde_json::Value>,
}

/// Part of the above.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutputUnknownItem {
    /// The name.
    pub name: String,
    /// Names that could be selected.
    pub nearest: Vec<String>,
}

/// [`ToolSearch`] has no failures of its own.
pub type Failure = devloop_contract::failure::NoFailure;

/// The tool `tool_search`, served by [`ToolSearch`].
pub static TOOL_SEARCH: devloop_contract::Tool = devloop_contract::Tool {
    name: "tool_search",
    aliases: &[],
    title: "Search tools",
    group: "catalog",
    handler: "tool_search",
    spec: "specs/tools/catalog/tool_search.yaml",
    summary: "Finds tools that are there but not shown, and shows them from now on.",
    details: r"Some tools, such as those of upstream servers, are not listed until they were searched for. A query of words finds those
whose name, title, summary, tags or parameters have them, best first; `select:NAME,NAME` takes tools by name.
The answer has each tool's input schema, so that it can be called at once.",
    notes: &[
        "A tool whose name is known can be called without a search.",
        "In plan mode tools that change something are neither found nor shown.",
    ],
    cautions: &[],
    description: r"Finds tools that are there but not shown, and shows them from now on.

Some tools, such as those of upstream servers, are not listed until they were searched for. A query of words finds those
whose name, title, summary, tags or parameters have them, best first; `select:NAME,NAME` takes tools by name.
The answer has each tool's input schema, so that it can be called at once.

Notes:
- A tool whose name is known can be called without a search.
- In plan mode tools that change something are neither found nor shown.",
    kind: devloop_contract::tool::Kind::ReadOnly,
    idempotent: true,
    destructive: false,
    open_world: false,
    parallelism: devloop_contract::tool::Parallelism::Shared,
    concurrency_safe: true,
    retry_safe: true,
    strict: false,
    exposure: devloop_contract::tool::Exposure::Always,
    category: "catalog",
    tags: &["tool", "search", "deferred", "load"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "tool_search",
        rule: "tool_search",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_secs(10),
    input_schema: r#"{
  "type": "object",
  "required": [
    "query"
  ],
  "additionalProperties": false,
  "properties": {
    "query": {
      "type": "string",
      "description": "Words to look for, or `select:` and names with commas between them.",
      "minLength": 1,
      "maxLength": 1000,
      "pattern": "\\S"
    },
    "max_results": {
      "type": "integer",
      "description": "How many tools at most.",
      "minimum": 1,
      "maximum": 20,
      "default": 5
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "tools",
    "loaded",
    "total_deferred"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "tools": {
      "type": "array",
      "description": "What was found, best first or in the order of the names.",
      "items": {
        "type": "object",
        "required": [
          "name",
          "title",
          "summary",
          "kind",
          "input_schema"
        ],
        "properties": {
          "name": {
            "type": "string",
            "description": "The name to call."
          },
          "title": {
            "type": "string",
            "description": "The human name."
          },
          "summary": {
            "type": "string",
            "description": "What it does."
          },
          "kind": {
            "type": "string",
            "description": "Its permission class."
          },
          "input_schema": {
            "type": "object",
            "description": "JSON Schema of its input.",
            "additionalProperties": true
          }
        }
      }
    },
    "loaded": {
      "type": "array",
      "description": "Those that were not shown before.",
      "items": {
        "type": "string"
      }
    },
    "unknown": {
      "type": "array",
      "description": "Selected names that no tool has, each with the nearest.",
      "items": {
        "type": "object",
        "required": [
          "name",
          "nearest"
        ],
        "properties": {
          "name": {
            "type": "string",
            "description": "The name."
          },
          "nearest": {
            "type": "array",
            "description": "Names that could be selected.",
            "items": {
              "type": "string"
            }
          }
        }
      }
    },
    "hidden": {
      "type": "array",
      "description": "Selected tools that plan mode does without.",
      "items": {
        "type": "string"
      }
    },
    "omitted": {
      "type": "array",
      "description": "Selected tools beyond `max_results`.",
      "items": {
        "type": "string"
      }
    },
    "total_deferred": {
      "type": "integer",
      "description": "How many tools are there still and not shown.",
      "minimum": 0
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
    failures: &[],
    common_failures: &[],
    examples: &[
        devloop_contract::tool::Example {
            title: "By words",
            input: r#"{"query":"read a file"}"#,
            output: "",
        },
        devloop_contract::tool::Example {
            title: "By name",
            input: r#"{"query":"select:docs__read,docs__list","max_results":2}"#,
            output: "",
        },
    ],
};
