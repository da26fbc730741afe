//! Results that are too large for a model: kept as artifacts, and cut down to what says how to read them.
//!
//! Answers for results of handlers, of a host's tools and of upstream servers alike. Leaves out how a value is cut (the
//! core's `artifacts::oversized`) and reading the rest, which is the tool `read_artifact`.

use std::fmt::Write;

use devloop_contract::InternalError;
use devloop_contract::failure::{ErasedRefusal, FailureBody};
use devloop_core::artifacts::oversized::{self, Budget};
use devloop_core::artifacts::{ArtifactStore, NewArtifact};
use devloop_core::catalogue::Entry;
use devloop_generated::ToolId;
use serde_json::{Value, json};

use super::work::Ran;
use super::{Answer, Runner, Session};
use crate::call::{Passed, text_block};

/// As much of a block of text stays at least.
const SHORTEST_TEXT: usize = 200;

/// How much an answer may have.
#[derive(Clone, Copy)]
struct Room {
    /// Characters.
    budget: Budget,
    /// Bytes of pictures, sounds and other binary content, in base64.
    binary: usize,
}

impl Session {
    /// The artifacts of this session; `None` when this machine has no place for them. Nothing removes them but
    /// [`ArtifactStore::remove_all`], and `devloop gc` when they are old.
    pub fn artifacts(&self) -> Option<ArtifactStore> {
        let project = &self.inner.project;
        let root = project.artifacts.as_deref()?;
        let store = ArtifactStore::new(root, &project.dir, &self.inner.identity.session_id);
        Some(store.with_limits(project.config.artifacts))
    }

    /// The answer as the caller gets it: itself, unless it is too large.
    pub(super) async fn within_budget(&self, entry: &Entry<Runner>, ran: Ran) -> Ran {
        let settings = self.inner.project.config();
        let room = Room {
            budget: settings.budget(),
            binary: settings.result_binary_bytes,
        };
        let answer = ran?;
        let length = match &answer {
            Answer::Json(value) => oversized::characters(value),
            Answer::Passed(passed) => characters(passed),
        };
        let fits_binary = match &answer {
            Answer::Json(_) => true,
            Answer::Passed(passed) => binary(passed) <= room.binary,
        };
        if length <= room.budget.usual && fits_binary {
            return Ok(answer);
        }
        let (content, mime) = whole(&answer, settings.artifacts.file_bytes);
        let kept = self.keep(entry.name(), content, mime).await?;
        let fits = |value: &Value| entry.compiled().check_output(value).is_ok();
        let cut = match answer {
            // What is no object was never promised to be one: it is shown as a text.
            Answer::Json(value) if value.is_object() => {
                oversized::cut(&value, &kept, room.budget, fits).map(Answer::Json)
            }
            Answer::Json(Value::String(text)) => passed(Passed::of_text(&text), &kept, room, fits),
            Answer::Json(value) => passed(Passed::of_text(&value.to_string()), &kept, room, fits),
            Answer::Passed(answer) => passed(answer, &kept, room, fits),
        };
        cut.ok_or_else(|| ErasedRefusal::Expected(Box::new(too_large(entry.name(), length, room.budget, &kept))).into())
    }

    /// Keeps the whole; gives what names it to a model.
    async fn keep(&self, tool: &str, content: Vec<u8>, mime: &'static str) -> Result<Value, ErasedRefusal> {
        let Some(store) = self.artifacts() else {
            return Ok(not_kept(
                "this machine has no directory for artifacts (XDG_STATE_HOME, HOME)",
            ));
        };
        let source = tool.to_owned();
        let write = move || {
            store.write(&NewArtifact {
                kind: oversized::KIND,
                bytes: &content,
                mime: Some(mime),
                source: Some(&source),
            })
        };
        let written = tokio::task::spawn_blocking(write).await;
        let written = written.map_err(|error| {
            ErasedRefusal::Tool(InternalError::new("the artifact's writer did not end", error).into())
        })?;
        Ok(match written {
            Ok(artifact) => json!({
                "id": artifact.id,
                "size": artifact.size,
                "kind": artifact.kind,
                "mime": artifact.mime,
                "source": artifact.source,
                "read": format!("Call `{}` with this `id` to read all of it, part by part.", ToolId::ReadArtifact.name()),
            }),
            Err(error) => {
                tracing::warn!(
                    tool,
                    "a result that is too large to be shown could not be kept: {error}"
                );
                not_kept(&error.to_string())
            }
        })
    }
}

fn not_kept(why: &str) -> Value {
    json!({ "not_kept": format!("What is missing cannot be read: {why}. Ask for less at once.") })
}

fn too_large(tool: &str, length: usize, budget: Budget, kept: &Value) -> FailureBody {
    let hint = kept
        .get("read")
        .or_else(|| kept.get("not_kept"))
        .and_then(Value::as_str);
    FailureBody {
        ok: false,
        code: "result_too_large".to_owned(),
        reason: format!(
            "{tool} did its work; its result has {length} characters, and no part of it with at most {} has its shape",
            budget.most
        ),
        hint: hint.map(str::to_owned),
        details: Some(json!({ oversized::FIELD: { "whole": kept } })),
    }
}

/// The content of the artifact: a lone text as it is, anything else as JSON in lines.
fn whole(answer: &Answer, most: u64) -> (Vec<u8>, &'static str) {
    const JSON: &str = "application/json";
    match answer {
        Answer::Json(Value::String(text)) => (text.as_bytes().to_vec(), "text/plain"),
        Answer::Json(value) => (oversized::content(value, most), JSON),
        Answer::Passed(passed) => match (&passed.content[..], &passed.structured_content) {
            ([only], None) if text_of(only).is_some() => {
                (text_of(only).unwrap_or_default().as_bytes().to_vec(), "text/plain")
            }
            _ => (oversized::content(&json!(passed), most), JSON),
        },
    }
}

/// What a model reads of a server's answer, in characters: texts, and every other block as its JSON; but not pictures and
/// sounds, which count [apart](binary).
fn characters(answer: &Passed) -> usize {
    let blocks = answer.content.iter().map(|block| match part_of(block) {
        Part::Text(text) => text.chars().count(),
        Part::Binary(_) => 0,
        Part::Other => oversized::characters(block),
    });
    let blocks: usize = blocks.sum();
    let structured = answer.structured_content.as_ref().map(oversized::characters);
    // Some clients show the one, some the other.
    blocks.max(structured.unwrap_or_default())
}

/// The bytes of pictures, sounds and binary resources in a server's answer, as they are sent.
fn binary(answer: &Passed) -> usize {
    let bytes = answer.content.iter().map(|block| match part_of(block) {
        Part::Binary(data) => data.len(),
        Part::Text(_) | Part::Other => 0,
    });
    bytes.sum()
}

/// A block of content, as a model takes it.
enum Part<'b> {
    /// A text, or a resource that is one.
    Text(&'b str),
    /// Data in base64.
    Binary(&'b str),
    /// A link, or something that nobody knows here.
    Other,
}

fn part_of(block: &Value) -> Part<'_> {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => block
            .get("text")
            .and_then(Value::as_str)
            .map_or(Part::Other, Part::Text),
        Some("image" | "audio") => block
            .get("data")
            .and_then(Value::as_str)
            .map_or(Part::Other, Part::Binary),
        Some("resource") => {
            let resource = block.get("resource");
            let field = |name: &str| resource.and_then(|resource| resource.get(name)).and_then(Value::as_str);
            match (field("text"), field("blob")) {
                (Some(text), None) => Part::Text(text),
                (None, Some(blob)) => Part::Binary(blob),
                _ => Part::Other,
            }
        }
        _ => Part::Other,
    }
}

/// The text of a block that is one.
fn text_of(block: &Value) -> Option<&str> {
    match part_of(block) {
        Part::Text(text) => Some(text),
        Part::Binary(_) | Part::Other => None,
    }
}

/// A server's answer with its texts cut, and a text more that says how to read the whole.
fn passed(mut answer: Passed, kept: &Value, room: Room, fits: impl Fn(&Value) -> bool) -> Option<Answer> {
    let Room {
        budget,
        binary: mut binary_room,
    } = room;
    if let Some(structured) = &answer.structured_content
        && oversized::characters(structured) > budget.usual
    {
        answer.structured_content = Some(oversized::cut(structured, kept, budget, fits)?);
    }
    // So many blocks that even their beginnings are too much.
    let most_blocks = budget.usual / SHORTEST_TEXT;
    let missing = answer.content.len().saturating_sub(most_blocks);
    answer.content.truncate(most_blocks);
    let mut note = json!({ "whole": kept });
    if missing > 0 {
        note["missing"] = json!({ "/content": missing });
    }
    let note = json!({ oversized::FIELD: note }).to_string();
    let mut room = budget.usual.saturating_sub(note.chars().count());
    for block in &mut answer.content {
        let left_out = match part_of(block) {
            Part::Text(_) => None,
            Part::Binary(data) if data.len() <= binary_room => {
                binary_room -= data.len();
                continue;
            }
            Part::Binary(data) => Some(format!("{} bytes in base64", data.len())),
            Part::Other => {
                let length = oversized::characters(block);
                if length <= room {
                    room -= length;
                    continue;
                }
                Some(format!("{length} characters of JSON"))
            }
        };
        if let Some(size) = left_out {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or("unknown");
            let kind: String = kind.chars().take(40).collect();
            let text = format!("(content of type `{kind}` was left out: {size})");
            room = room.saturating_sub(text.chars().count());
            *block = text_block(&text);
            continue;
        }
        let text = match block.get("type").and_then(Value::as_str) {
            Some("text") => block.get_mut("text"),
            _ => block.get_mut("resource").and_then(|resource| resource.get_mut("text")),
        };
        let Some(Value::String(text)) = text else { continue };
        let length = text.chars().count();
        let most = room.max(SHORTEST_TEXT);
        if let Some((end, _)) = text.char_indices().nth(most) {
            text.truncate(end);
            let _ = write!(text, "… ({} characters more)", length - most);
        }
        room = room.saturating_sub(length);
    }
    answer.content.push(text_block(&note));
    Some(Answer::Passed(answer))
}
