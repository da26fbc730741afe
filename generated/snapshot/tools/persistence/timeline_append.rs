// @generated from specs/tools/persistence/timeline_append.yaml by `cargo codegen write`. Do not edit.

/// Appends one entry to the project's timeline, which all agents and people read.
///
/// Takes an [`Input`], answers with an [`Output`], and has no failures of its own. Declared in
/// `specs/tools/persistence/timeline_append.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct TimelineAppend;

impl devloop_contract::Handler for TimelineAppend {
    const NAME: &'static str = "timeline_append";
    const SPEC: &'static str = "specs/tools/persistence/timeline_append.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`TimelineAppend`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What kind of entry, such as `decision` or `test.run`.
    #[serde(rename = "type")]
    pub type_: String,
    /// What happened.
    pub summary: String,
    /// How much it matters.
    pub level: crate::types::TimelineLevel,
    /// Data that goes with it; at most 32 KiB as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Map<String, serde_json::Value>>,
    /// What it is about; `kind` and `id`.
    pub refs: Vec<crate::types::TimelineRef>,
    /// Makes a repetition of this very entry harmless, in later sessions, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// What [`TimelineAppend`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// The entry's number.
    pub seq: u64,
    /// When it was appended: UTC with milliseconds.
    pub ts: String,
    /// True when an earlier call appended the entry; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<bool>,
    /// A torn end of the file that was mended first; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repaired: Option<Repaired>,
}

/// A torn end of the file that was mended first; absent when there was none.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Repaired {
    /// How many bytes were cut off; none when only a line end was missing.
    pub bytes: u64,
    /// The file that keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<crate::types::RelPath>,
}

/// [`TimelineAppend`] has no failures of its own.
pub type Failure = devloop_contract::failure::NoFailure;

/// The tool `timeline_append`, served by [`TimelineAppend`].
pub static TIMELINE_APPEND: devloop_contract::Tool = devloop_contract::Tool {
    name: "timeline_append",
    aliases: &[],
    title: "Append to the timeline",
    group: "persistence",
    handler: "timeline_append",
    spec: "specs/tools/persistence/timeline_append.yaml",
    summary: "Appends one entry to the project's timeline, which all agents and people read.",
    details: r"Use it for what others must know later: decisions, findings, results. The timeline only grows; an entry is never changed.
The answer has the entry's number, `seq`, unique in the project and without a gap, and its time. When it comes, the entry
survives a power failure.",
    notes: &[
        "The same `idempotency_key` with the same input appends nothing and answers the first entry with `replayed`.",
        "`data` over 32 KiB, or an entry over 64 KiB, is `too_large`: put the payload into a file and name it in `refs`.",
        "When a crash had torn the end of the file, `repaired` says so; an entry of the type `timeline.repaired`, which only the timeline itself tells, is for the others.",
    ],
    cautions: &[],
    description: r"Appends one entry to the project's timeline, which all agents and people read.

Use it for what others must know later: decisions, findings, results. The timeline only grows; an entry is never changed.
The answer has the entry's number, `seq`, unique in the project and without a gap, and its time. When it comes, the entry
survives a power failure.

Notes:
- The same `idempotency_key` with the same input appends nothing and answers the first entry with `replayed`.
- `data` over 32 KiB, or an entry over 64 KiB, is `too_large`: put the payload into a file and name it in `refs`.
- When a crash had torn the end of the file, `repaired` says so; an entry of the type `timeline.repaired`, which only the timeline itself tells, is for the others.",
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
    tags: &["timeline", "log", "history"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "timeline_append",
        rule: "timeline_append",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_secs(10),
    input_schema: r#"{
  "type": "object",
  "required": [
    "type",
    "summary"
  ],
  "additionalProperties": false,
  "properties": {
    "type": {
      "type": "string",
      "description": "What kind of entry, such as `decision` or `test.run`.",
      "pattern": "^[a-z][a-z0-9_.-]{0,63}$"
    },
    "summary": {
      "type": "string",
      "description": "What happened.",
      "minLength": 1,
      "maxLength": 2000,
      "pattern": "\\S"
    },
    "level": {
      "type": "string",
      "description": "How much it matters.",
      "enum": [
        "debug",
        "info",
        "warn",
        "error"
      ],
      "default": "info"
    },
    "data": {
      "type": "object",
      "description": "Data that goes with it; at most 32 KiB as JSON."
    },
    "refs": {
      "type": "array",
      "description": "What it is about; `kind` and `id`.",
      "default": [],
      "maxItems": 20,
      "items": {
        "type": "object",
        "description": "Something that an entry of the timeline is about.",
        "required": [
          "kind",
          "id"
        ],
        "properties": {
          "kind": {
            "type": "string",
            "description": "What kind of thing.",
            "enum": [
              "bug",
              "unit",
              "req",
              "file",
              "case",
              "contract"
            ]
          },
          "id": {
            "type": "string",
            "description": "Its id or path.",
            "minLength": 1,
            "maxLength": 256,
            "pattern": "\\S"
          }
        },
        "additionalProperties": false
      }
    },
    "idempotency_key": {
      "type": "string",
      "description": "Makes a repetition of this very entry harmless, in later sessions, too.",
      "minLength": 1,
      "maxLength": 128
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "seq",
    "ts"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "seq": {
      "type": "integer",
      "description": "The entry's number.",
      "minimum": 1
    },
    "ts": {
      "type": "string",
      "description": "When it was appended: UTC with milliseconds."
    },
    "replayed": {
      "type": "boolean",
      "description": "True when an earlier call appended the entry; else absent."
    },
    "repaired": {
      "type": "object",
      "description": "A torn end of the file that was mended first; absent when there was none.",
      "required": [
        "bytes"
      ],
      "properties": {
        "bytes": {
          "type": "integer",
          "description": "How many bytes were cut off; none when only a line end was missing.",
          "minimum": 0
        },
        "quarantine": {
          "type": "string",
          "description": "The file that keeps them.",
          "minLength": 1,
          "maxLength": 1024
        }
      }
    }
  }
}"#,
    bind: "{}",
    rules: &[],
    path_fields: &[],
    effects: devloop_contract::tool::Effects {
        reads: &["timeline.ndjson"],
        writes: &[devloop_contract::tool::WriteEffect {
            path: "timeline.ndjson",
            only: &[],
            when: "",
        }],
        events: &["timeline.entry"],
        host: &[],
    },
    failures: &[],
    common_failures: &["busy", "idempotency_conflict", "too_large"],
    examples: &[
        devloop_contract::tool::Example {
            title: "A decision",
            input: r#"{"type":"decision","summary":"Sessions live in Redis","refs":[{"kind":"req","id":"REQ-AUTH-001"}]}"#,
            output: r#"{"seq":17,"ts":"2026-11-30T10:15:00.123Z"}"#,
        },
        devloop_contract::tool::Example {
            title: "A result with its data",
            input: r#"{"type":"test.run","summary":"3 of 27 tests fail","level":"warn","data":{"failed":3,"total":27},"idempotency_key":"run-8"}"#,
            output: "",
        },
    ],
};
