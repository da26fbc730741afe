//! What an upstream server offers, and what is taken.
//!
//! Answers for the bounds of a server's list, for setting single tools aside with a reason, and for the definition of a
//! tool that came over the wire. Leaves out the wire, and clashes with the tools of others.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use devloop_contract::projection::{in_2020_12, refusal};
use devloop_contract::tool::{Exposure, Kind, Parallelism};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::served;
use crate::registry::{Conflict, Definition, Hints, Owner, Schema, Text, Trust};
use crate::text::{is_harmful, json_bytes};

/// How long a server's tool may take: nobody knows what it does.
const TIMEOUT: Duration = Duration::from_mins(3);

/// The longest list.
pub const TOOLS: usize = 1_000;
/// The largest list, as JSON.
pub const BYTES: usize = 4 << 20;
/// The longest name.
pub const NAME_CHARS: usize = 256;
/// The key of `_meta` by which a tool asks to be shown without a search; it is of clients, and so are the next.
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";
/// The key for words that it is to be found by.
const SEARCH_HINT: &str = "anthropic/searchHint";
/// The key for the characters of a result that are to be shown.
const LARGEST_RESULT: &str = "anthropic/maxResultSizeChars";
/// The most that clients take there.
const RESULT_CHARS: u64 = 500_000;
/// The longest hint.
const HINT_BYTES: usize = 1_024;
/// As many words of it are taken.
const HINT_WORDS: usize = 32;
/// The longest title.
const TITLE_CHARS: usize = 256;
/// The longest description.
pub const DESCRIPTION_BYTES: usize = 16 << 10;
/// The largest schema, as JSON.
pub const SCHEMA_BYTES: usize = 256 << 10;

/// What is noted of a tool whose output has a schema that is no object.
const NO_OUTPUT_SCHEMA: &str =
    "The server's schema of its output is left out: its root does not have the type `object`.";

/// One tool as a server lists it: what of the protocol's `Tool` is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offered {
    /// The server's own name of it.
    pub name: String,
    /// The human name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The model-facing text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the input.
    pub input_schema: Value,
    /// JSON Schema of a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// What the server claims about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Map<String, Value>>,
    /// What it says to clients of some kind.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Map<String, Value>>,
}

/// A tool that was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// The server's own name of it, cut and with control characters escaped.
    pub name: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Quarantined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.name, self.reason)
    }
}

/// Why a server's whole list was refused. What it offered before stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Whose list.
    pub server: String,
    /// Never empty.
    pub reasons: Vec<Reason>,
}

/// One reason to refuse a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Too many tools.
    TooMany {
        /// How many.
        tools: usize,
    },
    /// Too much in all.
    TooLarge {
        /// How much, as JSON.
        bytes: usize,
    },
    /// One name stands twice.
    Duplicate {
        /// The server's own name.
        name: String,
    },
    /// A name has another owner already.
    Clash(Conflict),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { tools } => write!(f, "it has {tools} tools; at most {TOOLS} are taken"),
            Self::TooLarge { bytes } => write!(f, "it has {bytes} bytes; at most {BYTES} are taken"),
            Self::Duplicate { name } => write!(f, "the name `{name}` stands twice"),
            Self::Clash(conflict) => conflict.fmt(f),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tools of the server `{}` are refused", self.server)?;
        self.reasons.iter().try_for_each(|reason| write!(f, "\n- {reason}"))
    }
}

impl std::error::Error for Refused {}

/// The definitions of a list, and what was set aside.
pub(super) struct Taken {
    pub(super) tools: Vec<Definition>,
    pub(super) quarantined: Vec<Quarantined>,
}

/// Judges a list by itself.
pub(super) fn take(server: &str, offered: Vec<Offered>) -> Result<Taken, Refused> {
    let mut reasons = Vec::new();
    if offered.len() > TOOLS {
        reasons.push(Reason::TooMany { tools: offered.len() });
    }
    let mut seen = HashSet::new();
    let mut told = HashSet::new();
    let mut bytes = 0_usize;
    for tool in &offered {
        bytes = bytes.saturating_add(json_bytes(tool));
        if !seen.insert(tool.name.as_str()) && told.insert(tool.name.as_str()) {
            reasons.push(Reason::Duplicate {
                name: shown(&tool.name),
            });
        }
    }
    if bytes > BYTES {
        reasons.push(Reason::TooLarge { bytes });
    }
    if !reasons.is_empty() {
        let server = server.to_owned();
        return Err(Refused { server, reasons });
    }
    let mut taken = Taken {
        tools: Vec::with_capacity(offered.len()),
        quarantined: Vec::new(),
    };
    for tool in offered {
        match fault(&tool) {
            Some(reason) => taken.quarantined.push(Quarantined {
                name: shown(&tool.name),
                reason,
            }),
            None => taken.tools.push(definition(server, tool)),
        }
    }
    Ok(taken)
}

/// Why a tool can't be served, as far as its own texts say.
fn fault(tool: &Offered) -> Option<String> {
    let characters = tool.name.chars().count();
    if characters > NAME_CHARS {
        return Some(format!(
            "its name has {characters} characters; at most {NAME_CHARS} are taken"
        ));
    }
    if tool.name.is_empty() {
        return Some("its name is empty".to_owned());
    }
    if tool.name.chars().any(char::is_control) {
        return Some("its name has control characters".to_owned());
    }
    if tool.name.contains(is_harmful) {
        return Some("its name has characters that change how others are shown".to_owned());
    }
    let description = tool.description.as_deref().unwrap_or_default();
    if description.len() > DESCRIPTION_BYTES {
        return Some(format!(
            "its description has {} bytes; at most {DESCRIPTION_BYTES} are taken",
            description.len()
        ));
    }
    let schemas = [
        ("input", Some(&tool.input_schema)),
        ("output", tool.output_schema.as_ref()),
    ];
    schemas.into_iter().find_map(|(which, schema)| {
        let schema = schema?;
        let bytes = json_bytes(schema);
        if bytes > SCHEMA_BYTES {
            return Some(format!(
                "its {which} schema has {bytes} bytes; at most {SCHEMA_BYTES} are taken"
            ));
        }
        // A schema of the output that no client takes is left out; the tool can be called all the same.
        let refusal = match in_2020_12(schema) {
            Ok(schema) if which == "input" => refusal(&schema),
            Ok(_) => None,
            Err(reason) => Some(reason.to_string()),
        };
        refusal.map(|reason| format!("its {which} schema: {reason}"))
    })
}

fn definition(server: &str, offered: Offered) -> Definition {
    let name: Text = served(server, &offered.name).into();
    let owner = Owner::Server(server.to_owned().into());
    let mut tool = Definition::bare(name, owner, Trust::Untrusted, offered.name.clone().into());
    tool.timeout = TIMEOUT;
    let claims = offered.annotations.unwrap_or_default();
    let claim = |key: &str| claims.get(key).and_then(Value::as_bool);
    // One that says both, that it only reads and that it destroys, is believed what is worse.
    let says_it_destroys = claim("destructiveHint");
    let read_only = claim("readOnlyHint") == Some(true) && says_it_destroys != Some(true);
    let destructive = !read_only && says_it_destroys.unwrap_or(true);
    tool.hints = Hints {
        read_only,
        destructive,
        idempotent: claim("idempotentHint").unwrap_or(false),
        open_world: claim("openWorldHint").unwrap_or(true),
    };
    // What it does when it does not only read, nobody knows; `Write` would let it pass where edits are let pass.
    tool.kind = if read_only { Kind::ReadOnly } else { Kind::Execute };
    tool.concurrency_safe = read_only;
    tool.parallelism = if read_only {
        Parallelism::Shared
    } else {
        Parallelism::Exclusive
    };
    let meta = offered.meta.unwrap_or_default();
    let always = meta.get(ALWAYS_LOAD).and_then(Value::as_bool) == Some(true);
    tool.exposure = if always { Exposure::Always } else { Exposure::Deferred };
    tool.tags = hint(meta.get(SEARCH_HINT).and_then(Value::as_str).unwrap_or_default());
    tool.largest_result = meta
        .get(LARGEST_RESULT)
        .and_then(Value::as_u64)
        .filter(|most| *most > 0);
    tool.largest_result = tool.largest_result.map(|most| most.min(RESULT_CHARS));
    let titles = [
        offered.title.as_deref(),
        claims.get("title").and_then(Value::as_str),
        Some(&offered.name),
    ];
    let title = titles.into_iter().flatten().find(|title| is_title(title));
    tool.title = title.unwrap_or_default().to_owned().into();
    let description = offered.description.unwrap_or_default();
    tool.summary = first_sentence(&description).to_owned().into();
    tool.description = description.into();
    tool.category = server.to_owned().into();
    tool.input_schema = offered.input_schema.into();
    // The protocol wants an object, and one tool with another output makes clients refuse the whole list.
    tool.output_schema = offered.output_schema.map(Schema::from);
    let is_object = |schema: &Schema| schema.value().is_ok_and(|schema| schema["type"] == "object");
    if tool.output_schema.as_ref().is_some_and(|schema| !is_object(schema)) {
        tool.notes.push(NO_OUTPUT_SCHEMA.into());
        tool.output_schema = None;
    }
    tool.annotations = (!claims.is_empty()).then_some(claims);
    tool
}

/// The words of a hint, which are found like tags; of one that is no such thing nothing.
fn hint(hint: &str) -> Vec<Text> {
    if hint.contains(is_harmful) || hint.len() > HINT_BYTES {
        return Vec::new();
    }
    let words = hint.split_whitespace().take(HINT_WORDS);
    words.map(|word| word.to_owned().into()).collect()
}

/// Whether two definitions of one served tool say the same.
pub(super) fn same(one: &Definition, other: &Definition) -> bool {
    let output = |tool: &Definition| {
        tool.output_schema
            .as_ref()
            .and_then(|schema| schema.value().ok().cloned())
    };
    one.source == other.source
        && one.title == other.title
        && one.description == other.description
        && one.annotations == other.annotations
        && one.notes == other.notes
        && one.exposure == other.exposure
        && one.tags == other.tags
        && one.largest_result == other.largest_result
        && one.input_schema.value() == other.input_schema.value()
        && output(one) == output(other)
}

/// Whether a title can be shown to people; the name stands for one that can't.
fn is_title(title: &str) -> bool {
    !title.trim().is_empty()
        && title.chars().take(TITLE_CHARS + 1).count() <= TITLE_CHARS
        && !title.contains(is_harmful)
}

fn first_sentence(text: &str) -> &str {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    let end = line
        .match_indices(['.', '!', '?', '。'])
        .map(|(at, sign)| at + sign.len())
        .find(|end| line[*end..].starts_with(char::is_whitespace) || line[..*end].ends_with('。'));
    &line[..end.unwrap_or(line.len())]
}

/// A name for people: at most 80 characters, nothing that a terminal would obey.
fn shown(name: &str) -> String {
    let cut: String = name.chars().take(80).collect();
    let more = if cut.len() < name.len() { "…" } else { "" };
    format!("{}{more}", cut.escape_debug())
}

/// A tool that can't be compiled.
pub(super) fn set_aside(name: &str, reason: String) -> Quarantined {
    Quarantined {
        name: shown(name),
        reason,
    }
}
