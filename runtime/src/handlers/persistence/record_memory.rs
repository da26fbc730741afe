//! `record_memory`: one thing that an agent should still know later, kept once.
//!
//! Answers for refusing secrets and misshapen tags, for recording once however often the call is repeated, and for telling
//! of it. Leaves out what is similar to what, and the files (the core's `memory`).

use devloop_contract::failure::Because;
use devloop_contract::{CommonFailure, Handle, Outcome, Refusal, ToolError};
use devloop_core::memory::{
    Action, Evidence, Kind, NewMemory, OnSimilar, Plan, Recorded, Refused, Similar, Trouble, tidy_content, tidy_title,
};
use devloop_core::secrets::find_secret;
use devloop_core::store::replay::{self, Begun, Call};
use devloop_core::store::{StoreError, clock};
use devloop_generated::events::AgentMemory;
use devloop_generated::tools::persistence::record_memory::{
    Failure, Input, InputOnSimilar, LooksSecretDetails, Output, RecordMemory, SimilarExistsDetails, Source,
    UnknownSupersedesDetails,
};
use devloop_generated::types::{MemoryAction, MemoryKind, SimilarMemory};
use serde_json::{Value, json};

use crate::context::Context;

/// As in the spec; what is left of a text without control characters must still have it.
const SHORTEST_TITLE: usize = 3;
const SHORTEST_CONTENT: usize = 10;
/// How many broken files are named; the rest is counted.
const MOST_WARNINGS: usize = 5;

impl Handle<RecordMemory> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        refuse_secrets(&input)?;
        let digest = replay::input_digest(&input)?;
        let (new, on_similar) = given(self, input)?;
        self.blocking(move |context| record(context, new, on_similar, &digest))
            .await
    }
}

fn record(context: &Context, new: NewMemory, on_similar: OnSimilar, digest: &str) -> Outcome<Output, Failure> {
    let (shelf, replay, store) = (context.memories()?, context.replay()?, context.store());
    let _lock = context.lock(&shelf.lock_name())?;
    let memories = shelf.open(store)?;
    let planned = memories.plan(new, on_similar, context.now());
    let warnings = warnings(memories.troubles());
    // Also a call that would be refused by now: the first one may have had its effect.
    let hint = planned.as_ref().map_or(Value::Null, |plan| json!(plan.recorded()));
    let key = context.call_key(None);
    let call = Call {
        tool: context.tool().name,
        key: &key,
        input: digest,
    };
    let find = |hint: &Value| {
        let earlier: Option<Recorded> = serde_json::from_value(hint.clone()).ok();
        let found = earlier.filter(|recorded| memories.has(recorded));
        Ok(found.map(|recorded| kept(&answer(&recorded, None))).transpose()?)
    };
    let ticket = match replay.begin::<Refusal<Failure>>(call, hint, find)? {
        Begun::Replayed(first) => {
            let first: Output = serde_json::from_value(first).map_err(StoreError::Serialize)?;
            return Ok(Output {
                replayed: Some(true),
                ..first
            });
        }
        Begun::New(ticket) => ticket,
    };
    let plan = planned.map_err(refusal)?;
    if context.cancelled() {
        return Err(ToolError::Cancelled.into());
    }
    memories.carry_out(store, &plan)?;
    let output = answer(plan.recorded(), warnings);
    ticket.complete(&kept(&output)?);
    // Still under the lock, so that events come in the order of what they tell of.
    context.emit(&told(&plan).into())?;
    Ok(output)
}

/// An answer, as it is kept for those who repeat the call.
fn kept(output: &Output) -> Result<Value, StoreError> {
    serde_json::to_value(output).map_err(StoreError::Serialize)
}

/// Looks at the texts as they will be written: a control character in the midst of a secret hides it from nobody.
fn refuse_secrets(input: &Input) -> Result<(), Refusal<Failure>> {
    let mut texts = vec![
        ("title".to_owned(), tidy_title(&input.title)),
        ("content".to_owned(), tidy_content(&input.content)),
    ];
    let tags = input.tags.iter().enumerate();
    texts.extend(tags.map(|(index, tag)| (format!("tags[{index}]"), tag.clone())));
    for (index, source) in input.evidence.iter().enumerate() {
        texts.push((format!("evidence[{index}].path"), source.path.to_string()));
        let quote = source.quote.as_ref();
        texts.extend(quote.map(|quote| (format!("evidence[{index}].quote"), tidy_content(quote))));
    }
    for (field, text) in texts {
        let Some(secret) = find_secret(&text) else { continue };
        let span = secret.characters(&text);
        let reason = format!(
            "{field} seems to contain {} from character {} on",
            secret.what, span.start
        );
        let details = LooksSecretDetails {
            field,
            what: secret.what.to_owned(),
            start: span.start as u64,
            end: span.end as u64,
        };
        return Err(Failure::LooksSecret(details).because(reason));
    }
    Ok(())
}

fn given(call: &Context, input: Input) -> Result<(NewMemory, OnSimilar), ToolError> {
    let (title, content) = (tidy_title(&input.title), tidy_content(&input.content));
    for (field, text, shortest) in [
        ("title", &title, SHORTEST_TITLE),
        ("content", &content, SHORTEST_CONTENT),
    ] {
        let length = text.trim().chars().count();
        if length < shortest {
            let reason = format!(
                "without control characters and surrounding blanks it has {length} characters, at least {shortest} are needed"
            );
            return Err(ToolError::validation(field, reason));
        }
    }
    let mut tags = Vec::new();
    for (index, tag) in input.tags.into_iter().enumerate() {
        if let Some(character) = tag.chars().find(|c| !(c.is_alphanumeric() || matches!(c, '_' | '-'))) {
            let reason = format!("{character:?} is not allowed in a tag; use letters, digits, `_` or `-`");
            return Err(ToolError::validation(format!("tags[{index}]"), reason));
        }
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    let mut evidence = Vec::new();
    for (index, source) in input.evidence.into_iter().enumerate() {
        evidence.push(place(call, index, source)?);
    }
    let new = NewMemory {
        kind: match input.kind {
            MemoryKind::Lesson => Kind::Lesson,
            MemoryKind::Fact => Kind::Fact,
            MemoryKind::Decision => Kind::Decision,
            MemoryKind::Pitfall => Kind::Pitfall,
            MemoryKind::Preference => Kind::Preference,
        },
        title,
        content,
        tags,
        importance: u8::try_from(input.importance)
            .map_err(|_| ToolError::validation("importance", "it must be from 1 to 5"))?,
        evidence,
        supersedes: input.supersedes,
    };
    let on_similar = match input.on_similar {
        InputOnSimilar::Ask => OnSimilar::Ask,
        InputOnSimilar::New => OnSimilar::New,
        InputOnSimilar::Merge => OnSimilar::Merge,
    };
    Ok((new, on_similar))
}

fn place(context: &Context, index: usize, source: Source) -> Result<Evidence, ToolError> {
    let path = context.path(&format!("evidence[{index}].path"), &source.path)?;
    if let Some(line_end) = source.line_end.filter(|line_end| *line_end < source.line_start) {
        let reason = format!(
            "{line_end} is before `line_start`, {}; give the last line",
            source.line_start
        );
        return Err(ToolError::validation(format!("evidence[{index}].line_end"), reason));
    }
    Ok(Evidence {
        path: path.into(),
        line_start: source.line_start,
        line_end: source.line_end,
        quote: source
            .quote
            .map(|quote| tidy_content(&quote))
            .filter(|quote| !quote.is_empty()),
    })
}

fn refusal(refused: Refused) -> Refusal<Failure> {
    match refused {
        Refused::SimilarExists { similar } => Failure::SimilarExists(SimilarExistsDetails {
            similar: similar.iter().map(shown).collect(),
        })
        .into(),
        Refused::UnknownSupersedes { id, nearest } => {
            let reason = format!("no memory of this agent has the id `{id}`");
            Failure::UnknownSupersedes(UnknownSupersedesDetails { id, nearest }).because(reason)
        }
        Refused::SupersededAlready { id, by } => {
            let reason = format!("`{id}` was replaced already, by `{by}`; supersede that one if it is no longer true");
            Failure::UnknownSupersedes(UnknownSupersedesDetails { id, nearest: vec![by] }).because(reason)
        }
        Refused::Quota {
            what,
            used,
            limit,
            candidates,
        } => {
            let shown = candidates.iter().map(|candidate| {
                json!({
                    "id": candidate.id,
                    "title": candidate.title,
                    "importance": candidate.importance,
                    "hits": candidate.hits,
                    "updated": clock::iso(candidate.updated),
                })
            });
            Refusal::Common(CommonFailure::Quota {
                what: what.to_owned(),
                used,
                limit,
                candidates: shown.collect(),
            })
        }
    }
}

fn answer(recorded: &Recorded, mut warnings: Option<Vec<String>>) -> Output {
    if recorded.other_numbers {
        warnings.get_or_insert_default().insert(0, other_numbers(&recorded.id));
    }
    Output {
        id: recorded.id.clone(),
        path: recorded.path.to_string().into(),
        action: shown_action(recorded.action),
        hits: recorded.hits,
        similar: recorded.similar.iter().map(shown).collect(),
        contradicts: (!recorded.contrary.is_empty()).then(|| recorded.contrary.iter().map(shown).collect()),
        warnings,
        replayed: None,
    }
}

fn told(plan: &Plan) -> AgentMemory {
    let (recorded, memory) = (plan.recorded(), plan.memory());
    let superseded = plan.superseded();
    AgentMemory {
        id: recorded.id.clone(),
        path: recorded.path.to_string().into(),
        kind: match memory.kind {
            Kind::Lesson => MemoryKind::Lesson,
            Kind::Fact => MemoryKind::Fact,
            Kind::Decision => MemoryKind::Decision,
            Kind::Pitfall => MemoryKind::Pitfall,
            Kind::Preference => MemoryKind::Preference,
        },
        title: memory.title.clone(),
        action: shown_action(recorded.action),
        hits: recorded.hits,
        importance: memory.importance.into(),
        superseded: (!superseded.is_empty()).then(|| superseded.to_vec()),
    }
}

fn shown_action(action: Action) -> MemoryAction {
    match action {
        Action::Created => MemoryAction::Created,
        Action::Duplicate => MemoryAction::Duplicate,
        Action::Merged => MemoryAction::Merged,
    }
}

fn shown(similar: &Similar) -> SimilarMemory {
    SimilarMemory {
        id: similar.id.clone(),
        title: similar.title.clone(),
        score: similar.score,
        path: similar.path.clone().into(),
    }
}

fn other_numbers(id: &str) -> String {
    format!(
        "only its numbers differ from those of `{id}`, which stays as it is; record it with `supersedes: [\"{id}\"]` to \
        replace what is kept, or with `on_similar: \"new\"` to keep both"
    )
}

fn warnings(troubles: &[Trouble]) -> Option<Vec<String>> {
    let say = |trouble: &Trouble| {
        format!(
            "{}: {}; it is left as it is and not counted",
            trouble.path, trouble.problem
        )
    };
    let mut warnings: Vec<_> = troubles.iter().take(MOST_WARNINGS).map(say).collect();
    if troubles.len() > MOST_WARNINGS {
        warnings.push(format!("{} more files cannot be read", troubles.len() - MOST_WARNINGS));
    }
    (!warnings.is_empty()).then_some(warnings)
}
