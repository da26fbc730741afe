// @generated from specs/types.yaml by `cargo codegen write`. Do not edit.

/// A path relative to the project directory, with `/` between its parts and no `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct RelPath(pub String);

impl RelPath {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for RelPath {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for RelPath {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<RelPath> for String {
    fn from(value: RelPath) -> Self {
        value.0
    }
}

impl std::fmt::Display for RelPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The id of a step, such as `step-001`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct StepId(pub String);

impl StepId {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for StepId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for StepId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<StepId> for String {
    fn from(value: StepId) -> Self {
        value.0
    }
}

impl std::fmt::Display for StepId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum TodoStatus {
    /// `todo`
    #[serde(rename = "todo")]
    Todo,
    /// `doing`
    #[serde(rename = "doing")]
    Doing,
    /// `done`
    #[serde(rename = "done")]
    Done,
    /// `blocked`
    #[serde(rename = "blocked")]
    Blocked,
}

impl TodoStatus {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::Doing => "doing",
            Self::Done => "done",
            Self::Blocked => "blocked",
        }
    }
}

/// One item of a todo list.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TodoItem {
    /// The id of a step, such as `step-001`.
    pub id: StepId,
    /// What is to be done.
    pub description: String,
    /// Ids of items that must be done first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<StepId>>,
    /// Where an item stands.
    pub status: TodoStatus,
    /// What the last move that had a note said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Why the item is blocked; absent when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Files that show it, as the last move that named some gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Vec<Evidence>>,
    /// How often the item was done and then taken up again; absent when never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reopened: Option<u64>,
}

/// How an agent's work goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum RuntimeStatus {
    /// `idle`
    #[serde(rename = "idle")]
    Idle,
    /// `running`
    #[serde(rename = "running")]
    Running,
    /// `waiting`
    #[serde(rename = "waiting")]
    Waiting,
    /// `blocked`
    #[serde(rename = "blocked")]
    Blocked,
    /// `error`
    #[serde(rename = "error")]
    Error,
    /// `done`
    #[serde(rename = "done")]
    Done,
}

impl RuntimeStatus {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Error => "error",
            Self::Done => "done",
        }
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Evidence {
    /// The file.
    pub path: RelPath,
    /// The line, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// How much an entry of the timeline matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum TimelineLevel {
    /// `debug`
    #[serde(rename = "debug")]
    Debug,
    /// `info`
    #[serde(rename = "info")]
    Info,
    /// `warn`
    #[serde(rename = "warn")]
    Warn,
    /// `error`
    #[serde(rename = "error")]
    Error,
}

impl TimelineLevel {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Something that an entry of the timeline is about.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TimelineRef {
    /// What kind of thing.
    pub kind: TimelineRefKind,
    /// Its id or path.
    pub id: String,
}

/// What kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum TimelineRefKind {
    /// `bug`
    #[serde(rename = "bug")]
    Bug,
    /// `unit`
    #[serde(rename = "unit")]
    Unit,
    /// `req`
    #[serde(rename = "req")]
    Req,
    /// `file`
    #[serde(rename = "file")]
    File,
    /// `case`
    #[serde(rename = "case")]
    Case,
    /// `contract`
    #[serde(rename = "contract")]
    Contract,
}

impl TimelineRefKind {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bug => "bug",
            Self::Unit => "unit",
            Self::Req => "req",
            Self::File => "file",
            Self::Case => "case",
            Self::Contract => "contract",
        }
    }
}

/// What kind of thing a memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryKind {
    /// `lesson`
    #[serde(rename = "lesson")]
    Lesson,
    /// `fact`
    #[serde(rename = "fact")]
    Fact,
    /// `decision`
    #[serde(rename = "decision")]
    Decision,
    /// `pitfall`
    #[serde(rename = "pitfall")]
    Pitfall,
    /// `preference`
    #[serde(rename = "preference")]
    Preference,
}

impl MemoryKind {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lesson => "lesson",
            Self::Fact => "fact",
            Self::Decision => "decision",
            Self::Pitfall => "pitfall",
            Self::Preference => "preference",
        }
    }
}

/// What became of a memory that was to be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryAction {
    /// `created`
    #[serde(rename = "created")]
    Created,
    /// `duplicate`
    #[serde(rename = "duplicate")]
    Duplicate,
    /// `merged`
    #[serde(rename = "merged")]
    Merged,
}

impl MemoryAction {
    /// The word that stands in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Duplicate => "duplicate",
            Self::Merged => "merged",
        }
    }
}

/// A memory that is kept.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SimilarMemory {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// How much both have in common, from 0 to 1.
    pub score: f64,
    /// Its file.
    pub path: RelPath,
}
