//! The format of `specs/agents/<id>.yaml`. The agent's prompt stands beside it, in `<id>.md`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tool::Translation;

/// One agent template.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// The template's id, equal to the stem of the file: `devloop-pm`.
    pub id: String,
    /// The short name that state files and events carry: `pm`.
    pub name: String,
    /// The human name: `PM Agent`.
    pub title: String,
    /// What the agent is for, in one sentence.
    pub summary: String,
    /// The template's type in the source system.
    #[serde(rename = "type")]
    pub kind: String,
    /// Works on one unit: then every call needs one.
    #[serde(default)]
    pub needs_unit: bool,
    /// Its place in the loop.
    #[serde(rename = "devloop")]
    pub place: AgentLoop,
    /// How the client is started.
    pub cli: AgentCli,
    /// What it may touch.
    pub sandbox: AgentSandbox,
    /// What is asked for and denied beside the grants.
    #[serde(default, skip_serializing_if = "AgentPolicy::is_empty")]
    pub policy: AgentPolicy,
    /// Translations, by language tag.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub i18n: IndexMap<String, Translation>,
}

/// A place in the loop.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentLoop {
    /// The level: `L3`.
    #[serde(rename = "loop")]
    pub level: String,
    /// Who hands work to it: short names, or `human`.
    pub upstream: Vec<String>,
    /// Whom it hands work to: short names, or `human`.
    pub downstream: Vec<String>,
}

/// How the client is started.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentCli {
    /// The model.
    pub model: String,
    /// Where the source system finds the prompt; exported as it is.
    pub system_prompt_file: String,
    /// The client's own tools that the role may use. `Bash` makes it an agent that may run commands.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub builtins: Vec<String>,
    /// The tools granted, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Tools that a host provides; exempt from the existence check.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_tools: Vec<String>,
}

/// What an agent may touch in a project. Path patterns; see `specs/README.md`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSandbox {
    /// The working directory in the source system; exported as it is.
    pub cwd: String,
    /// What the agent may write; exported as it is.
    pub write_allow: Vec<String>,
    /// What the client's own Write, Edit and Bash may not touch although `write_allow` has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw_deny: Vec<String>,
    /// What the agent may write only through one tool: tool name to patterns.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub write_via: IndexMap<String, Vec<String>>,
    /// What the agent may read. Default: `**`. `.git/**` and files that hold secrets are never readable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_allow: Option<Vec<String>>,
    /// Environment of the agent's process.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// The document site that is the role's own: `prd` or `sdd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
}

/// What an agent may call, beside its grants. Whoever runs it can be stricter and not looser.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPolicy {
    /// The loosest permission mode that the agent may run in, whatever settings and flags say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<PolicyMode>,
    /// Rules `Tool` or `Tool(content)` of calls that run without being asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Rules of calls that a person is asked for each time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ask: Vec<String>,
    /// Rules of calls that never run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Programs that hear of calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<AgentHook>,
}

impl AgentPolicy {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How much runs without being asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PolicyMode {
    /// What is not `read_only` is denied.
    Plan,
    /// Rules and answers decide.
    Default,
    /// What is not `execute` runs.
    AutoEdit,
}

impl PolicyMode {
    /// The word of the specs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Default => "default",
            Self::AutoEdit => "auto_edit",
        }
    }
}

/// A program that hears of calls, started for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentHook {
    /// When.
    pub event: HookEvent,
    /// Of which calls: a rule. Default: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The longest that it may take: `10s` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

/// When a hook is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// Before a call.
    PreToolUse,
    /// After a call.
    PostToolUse,
}

impl HookEvent {
    /// The word of the specs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreToolUse => "pre_tool_use",
            Self::PostToolUse => "post_tool_use",
        }
    }
}
