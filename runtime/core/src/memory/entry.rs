//! One memory and its file.
//!
//! Answers for what a memory is made of, for its file as text, and for the texts in it that can be recorded again. Leaves
//! out where files lie and which memories are live (`shelf`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::front;
use super::normal::exact_digest;
use super::tidy::{tidy_content, tidy_title};
use crate::store::clock;

/// What kind of thing a memory is; also the directory that it lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Learnt from what happened.
    Lesson,
    /// How something is.
    Fact,
    /// What was decided.
    Decision,
    /// What goes wrong easily.
    Pitfall,
    /// What somebody wants.
    Preference,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Decision,
        Self::Fact,
        Self::Lesson,
        Self::Pitfall,
        Self::Preference,
    ];

    /// The name in files and paths.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lesson => "lesson",
            Self::Fact => "fact",
            Self::Decision => "decision",
            Self::Pitfall => "pitfall",
            Self::Preference => "preference",
        }
    }
}

/// A place in a file that shows a memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The file.
    pub path: String,
    /// The first line.
    pub line_start: u64,
    /// The last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_end: Option<u64>,
    /// What stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
}

/// What is to be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMemory {
    /// What kind of thing it is.
    pub kind: Kind,
    /// A short name, [tidy](tidy_title).
    pub title: String,
    /// What to know, [tidy](tidy_content).
    pub content: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// From 1 to 5.
    pub importance: u8,
    /// Where it shows.
    pub evidence: Vec<Evidence>,
    /// Ids of what it replaces.
    pub supersedes: Vec<String>,
}

/// A memory that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Its id, unique for the agent.
    pub id: String,
    /// What kind of thing it is.
    pub kind: Kind,
    /// A short name.
    pub title: String,
    /// When it was first recorded.
    pub created: Timestamp,
    /// When it was last recorded.
    pub updated: Timestamp,
    /// How often it was recorded.
    pub hits: u64,
    /// From 1 to 5.
    pub importance: u8,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The digest of its own text's exact form, as it was when the file was written.
    pub sha256: String,
    /// Ids of what it replaced.
    pub supersedes: Vec<String>,
    /// The id of what replaced it: then it is history.
    pub superseded_by: Option<String>,
    /// Where it shows.
    pub evidence: Vec<Evidence>,
    /// Keys of people and of later versions, kept as they are.
    pub more: Map<String, Value>,
    /// What to know.
    pub content: String,
}

/// The most tags and places that merging collects.
const MOST_TAGS: usize = 40;
const MOST_EVIDENCE: usize = 40;

impl Memory {
    /// A memory that was recorded for the first time.
    pub fn new(id: String, new: NewMemory, now: Timestamp) -> Self {
        Self {
            sha256: exact_digest(&new.title, &new.content),
            id,
            kind: new.kind,
            title: new.title,
            created: now,
            updated: now,
            hits: 1,
            importance: new.importance,
            tags: new.tags,
            supersedes: new.supersedes,
            superseded_by: None,
            evidence: new.evidence,
            more: Map::new(),
            content: new.content,
        }
    }

    /// Its file.
    pub fn to_text(&self) -> String {
        let mut front = vec![
            ("id", json!(self.id)),
            ("kind", json!(self.kind)),
            ("title", json!(self.title)),
            ("created", json!(clock::iso(self.created))),
            ("updated", json!(clock::iso(self.updated))),
            ("hits", json!(self.hits)),
            ("importance", json!(self.importance)),
            ("tags", json!(self.tags)),
            ("sha256", json!(self.sha256)),
            ("supersedes", json!(self.supersedes)),
            ("superseded_by", json!(self.superseded_by)),
        ];
        if !self.evidence.is_empty() {
            front.push(("evidence", json!(self.evidence)));
        }
        front::join(&front, &self.more, &self.content)
    }

    /// Reads a file back. `stem` is its name without the ending, for what a person left out; the kind is that of the
    /// directory. A value that cannot be what its key says counts as left out.
    ///
    /// # Errors
    /// What is wrong with the front matter, for a person.
    pub fn from_text(text: &str, kind: Kind, stem: &str) -> Result<Self, String> {
        let (mut front, content) = front::split(text)?;
        // What cannot be read is kept under another name: a person wrote it.
        let mut odd = Map::new();
        let mut take = |key: &str| front.shift_remove(key).unwrap_or(Value::Null);
        let mut known = |key: &str, value: &Value, is_read: bool| {
            if !is_read && !value.is_null() {
                odd.insert(format!("{key}_as_written"), value.clone());
            }
        };
        let mut time = |key: &str, value: Value| {
            let time = as_time(&value);
            known(key, &value, time.is_some());
            time
        };
        let created = time("created", take("created"));
        let updated = time("updated", take("updated"));
        let (hits, importance, evidence) = (take("hits"), take("importance"), take("evidence"));
        let places = as_evidence(&evidence);
        known("hits", &hits, hits.is_u64());
        known("importance", &importance, importance.is_u64());
        known("evidence", &evidence, places.is_some());
        take("kind");
        let title = as_text(take("title"))
            .map(|title| tidy_title(&title))
            .filter(|title| !title.is_empty());
        let created = created.or(updated).unwrap_or(Timestamp::UNIX_EPOCH);
        let importance = importance.as_u64().map_or(3, |importance| importance.clamp(1, 5));
        Ok(Self {
            id: as_text(take("id")).unwrap_or_else(|| stem.to_owned()),
            kind,
            title: title.unwrap_or_else(|| stem.to_owned()),
            created,
            updated: updated.unwrap_or(created).max(created),
            hits: hits.as_u64().unwrap_or(1).max(1),
            importance: u8::try_from(importance).unwrap_or(3),
            tags: as_texts(take("tags")),
            sha256: as_text(take("sha256")).unwrap_or_default(),
            supersedes: as_texts(take("supersedes")),
            superseded_by: as_text(take("superseded_by")),
            evidence: places.unwrap_or_default(),
            more: {
                front.append(&mut odd);
                front
            },
            content: tidy_content(&content),
        })
    }

    /// The texts that were recorded in it, each with its title: its own, and those that were merged into it.
    pub fn texts(&self) -> Vec<(&str, &str)> {
        let mut texts = Vec::new();
        let mut title = self.title.as_str();
        let (mut start, mut at) = (0, 0);
        for line in self.content.split_inclusive('\n') {
            if let Some(of_section) = section_title(line.trim_end()) {
                texts.push((title, self.content[start..at].trim()));
                title = if of_section.is_empty() { &self.title } else { of_section };
                start = at + line.len();
            }
            at += line.len();
        }
        texts.push((title, self.content[start..].trim()));
        texts
    }

    /// Counts another recording of it.
    pub fn count(&mut self, new: &NewMemory, now: Timestamp) {
        self.hits = self.hits.saturating_add(1);
        self.updated = self.updated.max(now);
        self.importance = self.importance.max(new.importance);
        unite(&mut self.tags, &new.tags, MOST_TAGS);
        unite(&mut self.evidence, &new.evidence, MOST_EVIDENCE);
    }

    /// Adds a text that says more than it does, as a section with its time.
    pub fn append(&mut self, new: &NewMemory, now: Timestamp) {
        let title = if new.title == self.title {
            String::new()
        } else {
            format!(" · {}", new.title)
        };
        let section = format!("\n\n## {}{title}\n\n{}", clock::iso(now), new.content);
        self.content.push_str(&section);
    }
}

/// The title of a section that merging made; empty when it is that of the memory.
fn section_title(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("## ")?;
    let (time, title) = rest.split_once(" · ").unwrap_or((rest, ""));
    (time.len() == 24 && time.ends_with('Z') && time.parse::<Timestamp>().is_ok()).then_some(title)
}

fn unite<T: PartialEq + Clone>(kept: &mut Vec<T>, new: &[T], most: usize) {
    for item in new {
        if kept.len() < most && !kept.contains(item) {
            kept.push(item.clone());
        }
    }
}

fn as_text(value: Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text),
        // An id or a title of digits, without quotes.
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn as_texts(value: Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.into_iter().filter_map(as_text).collect(),
        // As people write them: `tags: a, b`.
        Value::String(text) => text
            .split(',')
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .collect(),
        other => as_text(other).into_iter().collect(),
    }
}

fn as_evidence(value: &Value) -> Option<Vec<Evidence>> {
    value
        .as_array()?
        .iter()
        .map(|item| Evidence::deserialize(item).ok())
        .collect()
}

fn as_time(value: &Value) -> Option<Timestamp> {
    let text = value.as_str()?;
    // A person may give a day alone.
    text.parse().or_else(|_| format!("{text}T00:00:00Z").parse()).ok()
}
