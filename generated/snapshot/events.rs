// @generated from specs/events.yaml by `cargo codegen write`. Do not edit.

/// What a tool tells the rest of the system. The agent, the call, the unit and the time are added to the
/// payload when it is emitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An agent wrote a new todo list.
    AgentTodolist(AgentTodolist),
    /// An agent moved an item of its todo list.
    AgentTodoItem(AgentTodoItem),
    /// An agent said what it is doing, or that it is still there.
    AgentRuntime(AgentRuntime),
    /// An entry was appended to the timeline, which also has the data that goes with it.
    TimelineEntry(TimelineEntry),
    /// An agent recorded a memory.
    AgentMemory(AgentMemory),
    /// A call ended in an internal error that a person or the loop controller must look at.
    LoopEscalated(LoopEscalated),
}

impl Event {
    /// The name of every event, as in the spec.
    pub const NAMES: &'static [&'static str] = &[
        "agent.todolist",
        "agent.todo_item",
        "agent.runtime",
        "timeline.entry",
        "agent.memory",
        "loop.escalated",
    ];

    /// The event's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::AgentTodolist(_) => "agent.todolist",
            Self::AgentTodoItem(_) => "agent.todo_item",
            Self::AgentRuntime(_) => "agent.runtime",
            Self::TimelineEntry(_) => "timeline.entry",
            Self::AgentMemory(_) => "agent.memory",
            Self::LoopEscalated(_) => "loop.escalated",
        }
    }

    /// What it carries of its own: an object.
    pub fn payload(&self) -> serde_json::Value {
        let payload = match self {
            Self::AgentTodolist(payload) => serde_json::to_value(payload),
            Self::AgentTodoItem(payload) => serde_json::to_value(payload),
            Self::AgentRuntime(payload) => serde_json::to_value(payload),
            Self::TimelineEntry(payload) => serde_json::to_value(payload),
            Self::AgentMemory(payload) => serde_json::to_value(payload),
            Self::LoopEscalated(payload) => serde_json::to_value(payload),
        };
        payload.expect("a payload is plain data with text keys")
    }

    /// The event with a name and a payload. What is in the payload beside the event's own fields is left
    /// out; a name that is not known here gives nothing.
    ///
    /// # Errors
    /// A payload that is not one of this event.
    pub fn parse(name: &str, payload: &serde_json::Value) -> Result<Option<Self>, serde_json::Error> {
        let event = match name {
            "agent.todolist" => serde::Deserialize::deserialize(payload).map(Self::AgentTodolist),
            "agent.todo_item" => serde::Deserialize::deserialize(payload).map(Self::AgentTodoItem),
            "agent.runtime" => serde::Deserialize::deserialize(payload).map(Self::AgentRuntime),
            "timeline.entry" => serde::Deserialize::deserialize(payload).map(Self::TimelineEntry),
            "agent.memory" => serde::Deserialize::deserialize(payload).map(Self::AgentMemory),
            "loop.escalated" => serde::Deserialize::deserialize(payload).map(Self::LoopEscalated),
            _ => return Ok(None),
        };
        event.map(Some)
    }
}

/// The payload of `agent.todolist`: An agent wrote a new todo list.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AgentTodolist {
    /// The whole list, in order.
    pub items: Vec<crate::types::TodoItem>,
}

/// The payload of `agent.todo_item`: An agent moved an item of its todo list.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AgentTodoItem {
    /// The item as it stands now.
    pub item: crate::types::TodoItem,
    /// Where it stood before.
    pub from: crate::types::TodoStatus,
    /// Ids of the items that were `doing` and were put back to `todo` for it; absent when there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub put_back: Option<Vec<crate::types::StepId>>,
    /// The item in work, else the first that is ready; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<crate::types::StepId>,
    /// Whole percent of the items that are done.
    pub progress_pct: u64,
    /// The version of the list now.
    pub version: u64,
}

/// The payload of `agent.runtime`: An agent said what it is doing, or that it is still there.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AgentRuntime {
    /// Whether it only said that it is there; told at most once a second.
    pub heartbeat: bool,
    /// The version of its state now.
    pub version: u64,
    /// How often it was heard of.
    pub heartbeat_seq: u64,
    /// Seconds of silence after which somebody should look.
    pub ttl_s: u64,
    /// The session that said it.
    pub session_id: String,
    /// The phase now; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How it goes; absent when it was never said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<crate::types::RuntimeStatus>,
    /// The todo item in work; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_step: Option<crate::types::StepId>,
    /// A sentence for people; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How far the work is; absent when it was never said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_pct: Option<u64>,
    /// Where the work stood before.
    pub previous: PreviousRuntime,
}

/// Where the work stood before.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PreviousRuntime {
    /// The phase before; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The status before; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<crate::types::RuntimeStatus>,
}

/// The payload of `timeline.entry`: An entry was appended to the timeline, which also has the data that
/// goes with it.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TimelineEntry {
    /// The entry's number.
    pub seq: u64,
    /// What kind of entry.
    #[serde(rename = "type")]
    pub type_: String,
    /// How much it matters.
    pub level: crate::types::TimelineLevel,
    /// What happened.
    pub summary: String,
    /// What it is about; absent when nothing was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refs: Option<Vec<crate::types::TimelineRef>>,
}

/// The payload of `agent.memory`: An agent recorded a memory.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct AgentMemory {
    /// The id of the memory.
    pub id: String,
    /// The file that holds it.
    pub path: crate::types::RelPath,
    /// What it is.
    pub kind: crate::types::MemoryKind,
    /// Its title.
    pub title: String,
    /// What was done.
    pub action: crate::types::MemoryAction,
    /// How often it has been recorded.
    pub hits: u64,
    /// From 1 to 5.
    pub importance: u64,
    /// Ids of what it has just replaced; absent when it replaced nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded: Option<Vec<String>>,
}

/// The payload of `loop.escalated`: A call ended in an internal error that a person or the loop
/// controller must look at.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct LoopEscalated {
    /// The tool that was called.
    pub tool: String,
    /// Names the entry in the log.
    pub error_id: String,
    /// What was being done, and the chain of causes.
    pub message: String,
}

impl From<AgentTodolist> for Event {
    fn from(payload: AgentTodolist) -> Self {
        Self::AgentTodolist(payload)
    }
}

impl From<AgentTodoItem> for Event {
    fn from(payload: AgentTodoItem) -> Self {
        Self::AgentTodoItem(payload)
    }
}

impl From<AgentRuntime> for Event {
    fn from(payload: AgentRuntime) -> Self {
        Self::AgentRuntime(payload)
    }
}

impl From<TimelineEntry> for Event {
    fn from(payload: TimelineEntry) -> Self {
        Self::TimelineEntry(payload)
    }
}

impl From<AgentMemory> for Event {
    fn from(payload: AgentMemory) -> Self {
        Self::AgentMemory(payload)
    }
}

impl From<LoopEscalated> for Event {
    fn from(payload: LoopEscalated) -> Self {
        Self::LoopEscalated(payload)
    }
}
