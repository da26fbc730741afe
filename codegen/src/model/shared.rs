//! The format of `specs/types.yaml` and `specs/events.yaml`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Schema;
use super::schema::Portable;

/// Shared value types. A schema anywhere refers to one as `$ref: Name`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypesSpec {
    /// Type name, in Pascal case, to JSON Schema.
    #[schemars(with = "IndexMap<String, Portable>")]
    pub types: IndexMap<String, Schema>,
}

/// Every event that a tool can emit.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventsSpec {
    /// Event name, `subject.event`, to its description.
    pub events: IndexMap<String, EventSpec>,
}

/// One event. `agent`, `call_id`, `unit_id` and `ts` are added to every payload and must not stand here.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// When it is emitted, in one sentence.
    pub summary: String,
    /// JSON Schema of what the event carries of its own: an object.
    #[schemars(with = "Portable")]
    pub payload: Schema,
}
