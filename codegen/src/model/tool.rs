//! The format of `specs/tools/<group>/<handler>.yaml`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Schema;
use super::schema::Portable;

/// One handler and the tools that it serves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags are independent keys of the format"
)]
pub struct ToolSpec {
    /// The handler's name, equal to the stem of the file. One handler is one file is one Rust implementation.
    pub handler: String,
    /// The tools that this handler serves. Without this key: one tool, named like the handler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<FaceSpec>,
    /// What the tool does, in one sentence that ends with a full stop. The first thing that a model reads.
    pub summary: String,
    /// More for the model: when to use it, what it returns. Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Things worth knowing, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Things that go wrong, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// The permission class: `read_only` (usable in Plan mode), `write` or `execute`. It says nothing about durable state.
    pub kind: Kind,
    /// A repeated call with the same input changes nothing more.
    #[serde(default)]
    pub idempotent: bool,
    /// May remove or replace what cannot be had back.
    #[serde(default)]
    pub destructive: bool,
    /// Reaches beyond the project and this machine.
    #[serde(default)]
    pub open_world: bool,
    /// `shared`: may run beside other shared calls of a session; `exclusive`: runs alone. Default: `shared` when
    /// `concurrency_safe`, else `exclusive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<Parallelism>,
    /// May run beside itself on the same path.
    #[serde(default)]
    pub concurrency_safe: bool,
    /// May be replayed automatically after a transient failure. Never inferred.
    #[serde(default)]
    pub retry_safe: bool,
    /// Ask providers that have it for strict arguments.
    #[serde(default)]
    pub strict: bool,
    /// `always`: shown from the start; `deferred`: shown after a tool search.
    #[serde(default)]
    pub exposure: Exposure,
    /// The longest that a call may take: a whole number with `ms`, `s` or `m`. Default: `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Catalogue data. Default: the group, that is the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Catalogue data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The tool's semantic version. Default: `1.0.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How permissions name a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<PermissionSpec>,
    /// JSON Pointers of the input fields that name the files a call acts on; `*` stands for every index of an array
    /// and every key of a map.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_paths: Vec<String>,
    /// JSON Schema of the input: a closed object inside the portable subset.
    #[schemars(with = "Portable")]
    pub input: Schema,
    /// JSON Schema of a success: an open object. `ok` is added by the call path and must not stand here.
    #[schemars(with = "Portable")]
    pub output: Schema,
    /// Constraints between input fields that the portable subset cannot say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleSpec>,
    /// The expected failures, each code with its meaning.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub failures: IndexMap<String, FailureEntry>,
    /// The shared failures that a call can have: `busy`, `idempotency_conflict`, `quota`, `state_corrupt`, `too_large`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub common_failures: Vec<String>,
    /// What a call touches. The sandbox lets the handler do this and nothing else.
    #[serde(default)]
    pub effects: EffectsSpec,
    /// At least one example call. Checked against the schemas.
    pub examples: Vec<ExampleSpec>,
    /// Translations, by language tag.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub i18n: IndexMap<String, Translation>,
}

/// One tool of a handler.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaceSpec {
    /// The name that agents call.
    pub name: String,
    /// The human name.
    pub title: String,
    /// Replaces the handler's summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Replaces the handler's details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// Other names of the same tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Input fields that this tool fixes. They vanish from its schema and are set after validation.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub bind: serde_json::Map<String, Value>,
    /// Optional input fields that make no sense for this tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide: Vec<String>,
    /// Optional input fields that this tool requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<String>,
    /// Example calls of this tool, without what it binds. Default: those of the handler that fit it, of which there must
    /// be one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ExampleSpec>,
}

/// A permission class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Usable in Plan mode.
    ReadOnly,
    /// Changes the project.
    Write,
    /// Starts programs; only for agents that may run commands.
    Execute,
}

/// Whether calls of one session may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Parallelism {
    /// Runs beside other shared calls.
    Shared,
    /// Runs alone, in order.
    Exclusive,
}

/// When a tool's schema is shown to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exposure {
    /// From the start.
    #[default]
    Always,
    /// After a tool search loaded it.
    Deferred,
}

/// How permissions name a call: templates over input fields such as `write_chapter({slug})`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionSpec {
    /// What is asked for. Default: the tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// What may be remembered. Default: the tool's name; an empty text forbids remembering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// A constraint between input fields: one key, its value says over which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleSpec {
    /// Exactly one of these fields is given.
    ExactlyOneOf(Vec<String>),
    /// At most one of these fields is given.
    AtMostOneOf(Vec<String>),
    /// A field is required when another one has a certain value.
    RequiredIf(RequiredIf),
}

/// `field` is required when `when` is one of `is`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequiredIf {
    /// The field that becomes required.
    pub field: String,
    /// The field that decides.
    pub when: String,
    /// Its deciding values.
    pub is: Vec<Value>,
}

/// What a failure code means: a sentence, or a map with more.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FailureEntry {
    /// What the code means.
    Text(String),
    /// The meaning with a hint and data.
    Detail(FailureDetail),
}

/// A failure with more than its meaning.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureDetail {
    /// What the code means.
    pub summary: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// JSON Schema of the data that goes with it: an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Portable>")]
    pub details: Option<Schema>,
}

/// What a call touches.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EffectsSpec {
    /// Path patterns that the handler reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// Path patterns that the handler writes: a pattern, or `{path, only: [agents], when: text}`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<WriteEntry>,
    /// Events that the handler emits, as declared in `events.yaml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// State of the machine outside the project, such as `port_leases`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host: Vec<String>,
}

/// One pattern that a handler writes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WriteEntry {
    /// For every agent that is granted the tool.
    Path(String),
    /// For some agents, or under a condition.
    When(WriteWhen),
}

/// A pattern with its condition.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteWhen {
    /// The path pattern.
    pub path: String,
    /// Short names of the agents for which it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// When it happens, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
}

/// One example call.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExampleSpec {
    /// What it shows.
    pub title: String,
    /// The input.
    pub input: serde_json::Map<String, Value>,
    /// The answer, without `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<serde_json::Map<String, Value>>,
}

/// A title and a summary in another language.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Translation {
    /// The human name.
    pub title: String,
    /// The first sentence.
    pub summary: String,
}
