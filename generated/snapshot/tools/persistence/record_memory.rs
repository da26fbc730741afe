// @generated from specs/tools/persistence/record_memory.yaml by `cargo codegen write`. Do not edit.

/// Keeps one thing that this agent should still know in later sessions.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/persistence/record_memory.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct RecordMemory;

impl devloop_contract::Handler for RecordMemory {
    const NAME: &'static str = "record_memory";
    const SPEC: &'static str = "specs/tools/persistence/record_memory.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`RecordMemory`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What it is.
    pub kind: crate::types::MemoryKind,
    /// A short name for it.
    pub title: String,
    /// What to know, in whole sentences.
    pub content: String,
    /// Words to find it by: letters, digits, `_` or `-`.
    pub tags: Vec<String>,
    /// From 1 (nice to know) to 5 (must know).
    pub importance: u64,
    /// Where it shows.
    pub evidence: Vec<Source>,
    /// Ids of memories that this one replaces.
    pub supersedes: Vec<String>,
    /// What to do when something similar is kept: `ask` refuses and shows it, `new` keeps both, `merge`
    /// adds to it.
    pub on_similar: InputOnSimilar,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The file.
    pub path: crate::types::RelPath,
    /// The first line, from 1 on.
    pub line_start: u64,
    /// The last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_end: Option<u64>,
    /// What stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
}

/// What to do when something similar is kept: `ask` refuses and shows it, `new` keeps both, `merge`
/// adds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum InputOnSimilar {
    /// `ask`
    #[serde(rename = "ask")]
    Ask,
    /// `new`
    #[serde(rename = "new")]
    New,
    /// `merge`
    #[serde(rename = "merge")]
    Merge,
}

impl InputOnSimilar {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::New => "new",
            Self::Merge => "merge",
        }
    }
}

/// What [`RecordMemory`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// The id of the memory.
    pub id: String,
    /// The file that holds it.
    pub path: crate::types::RelPath,
    /// What was done.
    pub action: crate::types::MemoryAction,
    /// How often it has been recorded.
    pub hits: u64,
    /// What is similar, most similar first.
    pub similar: Vec<crate::types::SimilarMemory>,
    /// What says the contrary; absent when nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicts: Option<Vec<crate::types::SimilarMemory>>,
    /// What to look at: numbers that differ from what is kept, files that are no memories that can be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnings: Option<Vec<String>>,
    /// True when an earlier call did this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
}

/// The data of [`Failure::SimilarExists`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SimilarExistsDetails {
    /// What is similar, most similar first.
    pub similar: Vec<crate::types::SimilarMemory>,
}

/// The data of [`Failure::LooksSecret`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LooksSecretDetails {
    /// The field.
    pub field: String,
    /// What it looks like.
    pub what: String,
    /// Where it begins, in characters.
    pub start: u64,
    /// Where it ends, in characters.
    pub end: u64,
}

/// The data of [`Failure::UnknownSupersedes`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UnknownSupersedesDetails {
    /// The id that was given.
    pub id: String,
    /// The nearest ids, or what has replaced it.
    pub nearest: Vec<String>,
}

/// The expected failures of [`RecordMemory`].
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// Something similar is kept already.
    SimilarExists(SimilarExistsDetails),
    /// The text seems to contain a secret.
    LooksSecret(LooksSecretDetails),
    /// A memory that is to be replaced is not there.
    UnknownSupersedes(UnknownSupersedesDetails),
}

impl devloop_contract::ExpectedFailure for Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::SimilarExists(_) => "similar_exists",
            Self::LooksSecret(_) => "looks_secret",
            Self::UnknownSupersedes(_) => "unknown_supersedes",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::SimilarExists(_) => "Something similar is kept already.",
            Self::LooksSecret(_) => "The text seems to contain a secret.",
            Self::UnknownSupersedes(_) => "A memory that is to be replaced is not there.",
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::SimilarExists(_) => Some(
                "Look at `details.similar`; then call again with `on_similar: merge` or `new`, with `supersedes`, or not at all.",
            ),
            Self::LooksSecret(_) => Some(
                "Record where the secret is kept, not the secret; write a placeholder such as `<token>` in its place.",
            ),
            Self::UnknownSupersedes(_) => Some("The nearest ids are in `details.nearest`."),
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::SimilarExists(details) => serde_json::to_value(details).ok(),
            Self::LooksSecret(details) => serde_json::to_value(details).ok(),
            Self::UnknownSupersedes(details) => serde_json::to_value(details).ok(),
        }
    }
}

/// The tool `record_memory`, served by [`RecordMemory`].
pub static RECORD_MEMORY: devloop_contract::Tool = devloop_contract::Tool {
    name: "record_memory",
    aliases: &[],
    title: "Record a memory",
    group: "persistence",
    handler: "record_memory",
    spec: "specs/tools/persistence/record_memory.yaml",
    summary: "Keeps one thing that this agent should still know in later sessions.",
    details: r"Record what would otherwise be learnt again: a lesson, a fact, a decision, a pitfall, a preference. One thing for each call.
Before something new is kept, the same thing is looked for: what differs in numbers, case and punctuation alone is a
`duplicate` and only counted; what says the same in other words is `similar_exists`, and you decide with `on_similar`.
What says the contrary is never taken for the same; it is named under `contradicts`: when it is no longer true, call
again with its id in `supersedes`.",
    notes: &[
        "`supersedes` keeps what it replaces as history, out of the index. A memory that was replaced before is not replaced twice.",
        "`merge` counts the most similar memory once more and appends what is new as a section with its time.",
        "There is room for 500 memories and 1 MiB. When it is used up, record one that `supersedes` several.",
        "`memory/devloop/<agent>/INDEX.md` lists what matters most, by importance and recency.",
    ],
    cautions: &["A text with a secret in it is refused; record where the secret is kept."],
    description: r"Keeps one thing that this agent should still know in later sessions.

Record what would otherwise be learnt again: a lesson, a fact, a decision, a pitfall, a preference. One thing for each call.
Before something new is kept, the same thing is looked for: what differs in numbers, case and punctuation alone is a
`duplicate` and only counted; what says the same in other words is `similar_exists`, and you decide with `on_similar`.
What says the contrary is never taken for the same; it is named under `contradicts`: when it is no longer true, call
again with its id in `supersedes`.

Notes:
- `supersedes` keeps what it replaces as history, out of the index. A memory that was replaced before is not replaced twice.
- `merge` counts the most similar memory once more and appends what is new as a section with its time.
- There is room for 500 memories and 1 MiB. When it is used up, record one that `supersedes` several.
- `memory/devloop/<agent>/INDEX.md` lists what matters most, by importance and recency.

Cautions:
- A text with a secret in it is refused; record where the secret is kept.",
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
    tags: &["memory", "lesson", "knowledge"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "record_memory",
        rule: "record_memory",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_secs(10),
    input_schema: r#"{
  "type": "object",
  "required": [
    "kind",
    "title",
    "content"
  ],
  "additionalProperties": false,
  "properties": {
    "kind": {
      "type": "string",
      "description": "What it is.",
      "enum": [
        "lesson",
        "fact",
        "decision",
        "pitfall",
        "preference"
      ]
    },
    "title": {
      "type": "string",
      "description": "A short name for it.",
      "minLength": 3,
      "maxLength": 120,
      "pattern": "\\S"
    },
    "content": {
      "type": "string",
      "description": "What to know, in whole sentences.",
      "minLength": 10,
      "maxLength": 4000,
      "pattern": "\\S"
    },
    "tags": {
      "type": "array",
      "description": "Words to find it by: letters, digits, `_` or `-`.",
      "default": [],
      "maxItems": 10,
      "items": {
        "type": "string",
        "description": "A word.",
        "minLength": 1,
        "maxLength": 32
      }
    },
    "importance": {
      "type": "integer",
      "description": "From 1 (nice to know) to 5 (must know).",
      "minimum": 1,
      "maximum": 5,
      "default": 3
    },
    "evidence": {
      "type": "array",
      "description": "Where it shows.",
      "default": [],
      "maxItems": 5,
      "items": {
        "type": "object",
        "description": "A place in a file.",
        "required": [
          "path",
          "line_start"
        ],
        "additionalProperties": false,
        "properties": {
          "path": {
            "type": "string",
            "description": "The file.",
            "minLength": 1,
            "maxLength": 1024
          },
          "line_start": {
            "type": "integer",
            "description": "The first line, from 1 on.",
            "minimum": 1
          },
          "line_end": {
            "type": "integer",
            "description": "The last line.",
            "minimum": 1
          },
          "quote": {
            "type": "string",
            "description": "What stands there.",
            "minLength": 1,
            "maxLength": 500
          }
        }
      }
    },
    "supersedes": {
      "type": "array",
      "description": "Ids of memories that this one replaces.",
      "default": [],
      "maxItems": 10,
      "items": {
        "type": "string",
        "description": "An id.",
        "minLength": 1,
        "maxLength": 128
      }
    },
    "on_similar": {
      "type": "string",
      "description": "What to do when something similar is kept: `ask` refuses and shows it, `new` keeps both, `merge` adds to it.",
      "enum": [
        "ask",
        "new",
        "merge"
      ],
      "default": "ask"
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "id",
    "path",
    "action",
    "hits",
    "similar"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "id": {
      "type": "string",
      "description": "The id of the memory."
    },
    "path": {
      "type": "string",
      "description": "The file that holds it.",
      "minLength": 1,
      "maxLength": 1024
    },
    "action": {
      "type": "string",
      "description": "What was done.",
      "enum": [
        "created",
        "duplicate",
        "merged"
      ]
    },
    "hits": {
      "type": "integer",
      "description": "How often it has been recorded.",
      "minimum": 1
    },
    "similar": {
      "type": "array",
      "description": "What is similar, most similar first.",
      "items": {
        "type": "object",
        "description": "A memory that is kept.",
        "required": [
          "id",
          "title",
          "score",
          "path"
        ],
        "properties": {
          "id": {
            "type": "string",
            "description": "Its id."
          },
          "title": {
            "type": "string",
            "description": "Its title."
          },
          "score": {
            "type": "number",
            "description": "How much both have in common, from 0 to 1.",
            "minimum": 0,
            "maximum": 1
          },
          "path": {
            "type": "string",
            "description": "Its file.",
            "minLength": 1,
            "maxLength": 1024
          }
        }
      }
    },
    "contradicts": {
      "type": "array",
      "description": "What says the contrary; absent when nothing does.",
      "items": {
        "type": "object",
        "description": "A memory that is kept.",
        "required": [
          "id",
          "title",
          "score",
          "path"
        ],
        "properties": {
          "id": {
            "type": "string",
            "description": "Its id."
          },
          "title": {
            "type": "string",
            "description": "Its title."
          },
          "score": {
            "type": "number",
            "description": "How much both have in common, from 0 to 1.",
            "minimum": 0,
            "maximum": 1
          },
          "path": {
            "type": "string",
            "description": "Its file.",
            "minLength": 1,
            "maxLength": 1024
          }
        }
      }
    },
    "warnings": {
      "type": "array",
      "description": "What to look at: numbers that differ from what is kept, files that are no memories that can be read.",
      "items": {
        "type": "string",
        "description": "What it is and what to do about it."
      }
    },
    "replayed": {
      "type": "boolean",
      "description": "True when an earlier call did this."
    }
  }
}"#,
    bind: "{}",
    rules: &[],
    path_fields: &["/evidence/*/path"],
    effects: devloop_contract::tool::Effects {
        reads: &["memory/devloop/{agent}/**"],
        writes: &[devloop_contract::tool::WriteEffect {
            path: "memory/devloop/{agent}/**",
            only: &[],
            when: "",
        }],
        events: &["agent.memory"],
        host: &[],
    },
    failures: &[
        devloop_contract::tool::FailureSpec {
            code: "similar_exists",
            summary: "Something similar is kept already.",
            hint: "Look at `details.similar`; then call again with `on_similar: merge` or `new`, with `supersedes`, or not at all.",
        },
        devloop_contract::tool::FailureSpec {
            code: "looks_secret",
            summary: "The text seems to contain a secret.",
            hint: "Record where the secret is kept, not the secret; write a placeholder such as `<token>` in its place.",
        },
        devloop_contract::tool::FailureSpec {
            code: "unknown_supersedes",
            summary: "A memory that is to be replaced is not there.",
            hint: "The nearest ids are in `details.nearest`.",
        },
    ],
    common_failures: &["busy", "idempotency_conflict", "quota"],
    examples: &[
        devloop_contract::tool::Example {
            title: "A pitfall",
            input: r#"{"kind":"pitfall","title":"The test database is shared","content":"Two test runs at the same time overwrite each other's rows; run them one after the other.","tags":["tests","database"]}"#,
            output: r#"{"id":"mem-1f9d0c3a","path":"memory/devloop/coder/pitfall/the-test-database-is-shared-1f9d0c3a.md","action":"created","hits":1,"similar":[]}"#,
        },
        devloop_contract::tool::Example {
            title: "A fact that replaces an older one",
            input: r#"{"kind":"fact","title":"Deployments use the new gateway","content":"Since the migration all deployments go through the new gateway.","importance":4,"supersedes":["mem-1f9d0c3a"]}"#,
            output: "",
        },
    ],
};
