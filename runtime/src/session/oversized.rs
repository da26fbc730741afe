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
use crate::call::Passed;

/// As much of a block of text stays at least.
const SHORTEST_TEXT: usize = 200;

impl Session {
    /// The artifacts of this session; `None` when this machine has no place for them. Nothing removes them but
    /// [`ArtifactStore::remove_all`], and `devloop gc` when they are old.
    pub fn artifacts(&self) -> Option<ArtifactStore> {
        let project = &self.inner.project;
        let root = project.artifacts.as_deref()?;
        Some(ArtifactStore::new(root, &project.dir, &self.inner.identity.session_id))
    }

    /// The answer as the caller gets it: itself, unless it is too large.
    pub(super) async fn within_budget(&self, entry: &Entry<Runner>, ran: Ran) -> Ran {
        let budget = Budget::default();
        let answer = ran?;
        let length = match &answer {
            Answer::Json(value) => oversized::characters(value),
            Answer::Passed(passed) => characters(passed),
        };
        if length <= budget.usual {
            return Ok(answer);
        }
        let (content, mime) = whole(&answer);
        let kept = self.keep(entry.name(), content, mime).await?;
        let fits = |value: &Value| entry.compiled().check_output(value).is_ok();
        let cut = match answer {
            // What is no object was never promised to be one: it is shown as a text.
            Answer::Json(value) if value.is_object() => oversized::cut(&value, &kept, budget, fits).map(Answer::Json),
            Answer::Json(Value::String(text)) => passed(text_only(&text), &kept, budget, fits),
            Answer::Json(value) => passed(text_only(&value.to_string()), &kept, budget, fits),
            Answer::Passed(answer) => passed(answer, &kept, budget, fits),
        };
        cut.ok_or_else(|| ErasedRefusal::Expected(Box::new(too_large(entry.name(), length, budget, &kept))).into())
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
fn whole(answer: &Answer) -> (Vec<u8>, &'static str) {
    const JSON: &str = "application/json";
    match answer {
        Answer::Json(Value::String(text)) => (text.as_bytes().to_vec(), "text/plain"),
        Answer::Json(value) => (oversized::content(value), JSON),
        Answer::Passed(passed) => match (&passed.content[..], &passed.structured_content) {
            ([only], None) if text_of(only).is_some() => {
                (text_of(only).unwrap_or_default().as_bytes().to_vec(), "text/plain")
            }
            _ => (oversized::content(&json!(passed)), JSON),
        },
    }
}

/// What a model reads of a server's answer. Pictures and sounds count by other measures, which are the client's.
fn characters(answer: &Passed) -> usize {
    let texts = answer.content.iter().filter_map(text_of);
    let texts: usize = texts.map(|text| text.chars().count()).sum();
    let structured = answer.structured_content.as_ref().map(oversized::characters);
    // Some clients show the one, some the other.
    texts.max(structured.unwrap_or_default())
}

/// The text of a block of content, or of the resource in it.
fn text_of(block: &Value) -> Option<&str> {
    let text = block.get("text").or_else(|| block.get("resource")?.get("text"));
    text.and_then(Value::as_str)
}

fn text_only(text: &str) -> Passed {
    Passed {
        content: vec![json!({ "type": "text", "text": text })],
        ..Passed::default()
    }
}

/// A server's answer with its texts cut, and a text more that says how to read the whole.
fn passed(mut answer: Passed, kept: &Value, budget: Budget, fits: impl Fn(&Value) -> bool) -> Option<Answer> {
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
        let text = match block {
            Value::Object(block) if block.contains_key("text") => block.get_mut("text"),
            Value::Object(block) => block.get_mut("resource").and_then(|resource| resource.get_mut("text")),
            _ => None,
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
    answer.content.push(json!({ "type": "text", "text": note }));
    Some(Answer::Passed(answer))
}
