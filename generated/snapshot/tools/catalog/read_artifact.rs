// @generated from specs/tools/catalog/read_artifact.yaml by `cargo codegen write`. Do not edit.

/// Reads a part of an artifact of this session, such as a result that was too large to be shown whole.
///
/// Takes an [`Input`], answers with an [`Output`], and fails with a [`Failure`]. Declared in
/// `specs/tools/catalog/read_artifact.yaml`.
#[derive(Clone, Copy, Debug)]
pub struct ReadArtifact;

impl devloop_contract::Handler for ReadArtifact {
    const NAME: &'static str = "read_artifact";
    const SPEC: &'static str = "specs/tools/catalog/read_artifact.yaml";
    type Input = Input;
    type Output = Output;
    type Failure = Failure;
}

/// What [`ReadArtifact`] takes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The artifact's id.
    pub id: String,
    /// The byte at which to begin; 0 is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The line at which to begin; 1 is the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// How many bytes at most.
    pub bytes: u64,
    /// How many lines at most.
    pub lines: u64,
}

/// What [`ReadArtifact`] answers.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Output {
    /// The artifact's id.
    pub id: String,
    /// How many bytes the artifact has.
    pub size: u64,
    /// The byte at which this part begins.
    pub offset: u64,
    /// The part.
    pub text: String,
    /// The byte at which the next part begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// The line at which the next part begins; absent at the end and inside of a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
}

/// The data of [`Failure::OutOfRange`].
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OutOfRangeDetails {
    /// How many bytes the artifact has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How many lines it has; absent when an `offset` was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
}

/// The expected failures of [`ReadArtifact`].
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// This session has no artifact with that id.
    UnknownArtifact,
    /// The artifact ends before that place.
    OutOfRange(OutOfRangeDetails),
    /// The artifact is no text in UTF-8.
    NotText,
    /// The file of the artifact is not what was written.
    Damaged,
}

impl devloop_contract::ExpectedFailure for Failure {
    fn code(&self) -> &'static str {
        match self {
            Self::UnknownArtifact => "unknown_artifact",
            Self::OutOfRange(_) => "out_of_range",
            Self::NotText => "not_text",
            Self::Damaged => "damaged",
        }
    }

    fn summary(&self) -> &'static str {
        match self {
            Self::UnknownArtifact => "This session has no artifact with that id.",
            Self::OutOfRange(_) => "The artifact ends before that place.",
            Self::NotText => "The artifact is no text in UTF-8.",
            Self::Damaged => "The file of the artifact is not what was written.",
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownArtifact => {
                Some("Take the id from the result that tells of it; artifacts of other sessions cannot be read.")
            }
            Self::OutOfRange(_) => None,
            Self::NotText => Some("A person can look at the file."),
            Self::Damaged => Some("Make the call again that wrote it; a person should look why the file changed."),
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::UnknownArtifact | Self::NotText | Self::Damaged => None,
            Self::OutOfRange(details) => serde_json::to_value(details).ok(),
        }
    }
}

/// The tool `read_artifact`, served by [`ReadArtifact`].
pub static READ_ARTIFACT: devloop_contract::Tool = devloop_contract::Tool {
    name: "read_artifact",
    aliases: &[],
    title: "Read an artifact",
    group: "catalog",
    handler: "read_artifact",
    spec: "specs/tools/catalog/read_artifact.yaml",
    summary: "Reads a part of an artifact of this session, such as a result that was too large to be shown whole.",
    details: r"A result that was cut short names its artifact by `id`. Without `offset` and `line` the part begins at the beginning.
`next_offset` says where the next part begins, and `next_line` too where a line has just ended; at the end of the artifact
neither is there.",
    notes: &[
        "A part has `bytes` bytes or `lines` lines at most, and fewer where they would not fit into one answer.",
        "An `offset` inside of a character counts as the beginning of that character.",
        "Lines count from 1. With `line` a part ends after a whole line, unless that line alone is too long.",
    ],
    cautions: &[],
    description: r"Reads a part of an artifact of this session, such as a result that was too large to be shown whole.

A result that was cut short names its artifact by `id`. Without `offset` and `line` the part begins at the beginning.
`next_offset` says where the next part begins, and `next_line` too where a line has just ended; at the end of the artifact
neither is there.

Give at most one of `offset`, `line`.

Notes:
- A part has `bytes` bytes or `lines` lines at most, and fewer where they would not fit into one answer.
- An `offset` inside of a character counts as the beginning of that character.
- Lines count from 1. With `line` a part ends after a whole line, unless that line alone is too long.",
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
    tags: &["artifact", "result", "page"],
    version: "1.0.0",
    permission: devloop_contract::tool::Permission {
        signature: "read_artifact",
        rule: "read_artifact",
    },
    affected_paths: &[],
    timeout: std::time::Duration::from_secs(10),
    input_schema: r#"{
  "type": "object",
  "required": [
    "id"
  ],
  "additionalProperties": false,
  "properties": {
    "id": {
      "type": "string",
      "description": "The artifact's id.",
      "pattern": "^[0-9a-f]{64}$"
    },
    "offset": {
      "type": "integer",
      "description": "The byte at which to begin; 0 is the first.",
      "minimum": 0
    },
    "line": {
      "type": "integer",
      "description": "The line at which to begin; 1 is the first.",
      "minimum": 1
    },
    "bytes": {
      "type": "integer",
      "description": "How many bytes at most.",
      "minimum": 4,
      "maximum": 12000,
      "default": 12000
    },
    "lines": {
      "type": "integer",
      "description": "How many lines at most.",
      "minimum": 1,
      "maximum": 12000,
      "default": 12000
    }
  }
}"#,
    output_schema: r#"{
  "type": "object",
  "required": [
    "ok",
    "id",
    "size",
    "offset",
    "text"
  ],
  "properties": {
    "ok": {
      "type": "boolean",
      "description": "Always true in a success."
    },
    "id": {
      "type": "string",
      "description": "The artifact's id."
    },
    "size": {
      "type": "integer",
      "description": "How many bytes the artifact has.",
      "minimum": 0
    },
    "offset": {
      "type": "integer",
      "description": "The byte at which this part begins.",
      "minimum": 0
    },
    "text": {
      "type": "string",
      "description": "The part."
    },
    "next_offset": {
      "type": "integer",
      "description": "The byte at which the next part begins; absent at the end.",
      "minimum": 1
    },
    "next_line": {
      "type": "integer",
      "description": "The line at which the next part begins; absent at the end and inside of a line.",
      "minimum": 2
    }
  }
}"#,
    bind: "{}",
    rules: &[devloop_contract::tool::Rule::AtMostOneOf(&["offset", "line"])],
    path_fields: &[],
    effects: devloop_contract::tool::Effects {
        reads: &[],
        writes: &[],
        events: &[],
        host: &[],
    },
    failures: &[
        devloop_contract::tool::FailureSpec {
            code: "unknown_artifact",
            summary: "This session has no artifact with that id.",
            hint: "Take the id from the result that tells of it; artifacts of other sessions cannot be read.",
        },
        devloop_contract::tool::FailureSpec {
            code: "out_of_range",
            summary: "The artifact ends before that place.",
            hint: "",
        },
        devloop_contract::tool::FailureSpec {
            code: "not_text",
            summary: "The artifact is no text in UTF-8.",
            hint: "A person can look at the file.",
        },
        devloop_contract::tool::FailureSpec {
            code: "damaged",
            summary: "The file of the artifact is not what was written.",
            hint: "Make the call again that wrote it; a person should look why the file changed.",
        },
    ],
    common_failures: &[],
    examples: &[
        devloop_contract::tool::Example {
            title: "The beginning of a long result",
            input: r#"{"id":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}"#,
            output: r#"{"id":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","size":3,"offset":0,"text":"abc"}"#,
        },
        devloop_contract::tool::Example {
            title: "Forty lines from line 1,200 on",
            input: r#"{"id":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","line":1200,"lines":40}"#,
            output: "",
        },
    ],
};
