//! `timeline_append`: one entry more in the project's timeline.
//!
//! Answers for appending it once, however often the call is repeated, and for telling the subscribers. Leaves out the
//! timeline itself (the core's `timeline`).

use devloop_contract::{Handle, Outcome, Refusal, ToolError};
use devloop_core::store::journal::Repaired as Mended;
use devloop_core::store::replay::{self, Begun, Key};
use devloop_core::store::{StoreError, Wait};
use devloop_core::timeline::{self, Author, Call, Entry, Level, News, Ref};
use devloop_generated::events::TimelineEntry;
use devloop_generated::tools::persistence::timeline_append::{Failure, Input, Output, Repaired, TimelineAppend};
use devloop_generated::types::{TimelineLevel, TimelineRef, TimelineRefKind};
use serde_json::{Value, json};

use crate::context::Context;

/// As deep as data may be nested: what a line holds must be read back by every reader of JSON.
const DEEPEST_DATA: usize = 64;

impl Handle<TimelineAppend> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        if input.type_ == timeline::REPAIRED {
            let reason = format!(
                "`{}` is told by the timeline itself; choose another type",
                timeline::REPAIRED
            );
            return Err(ToolError::validation("type", reason).into());
        }
        if input
            .data
            .as_ref()
            .is_some_and(|data| data.values().any(|value| is_deeper(value, DEEPEST_DATA - 1)))
        {
            let reason = format!(
                "it is nested more than {DEEPEST_DATA} levels deep; put it into a file and name that in `refs`"
            );
            return Err(ToolError::validation("data", reason).into());
        }
        self.blocking(move |context| append(context, input)).await
    }
}

/// Why nothing was appended.
enum Stopped {
    /// It was before, with this answer.
    Before(Value),
    Refused(Refusal<Failure>),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

fn append(context: &Context, input: Input) -> Outcome<Output, Failure> {
    let (timeline, replay) = (context.timeline(), context.replay()?);
    let digest = replay::input_digest(&input)?;
    let key = context.call_key(input.idempotency_key.as_deref());
    let identity = context.identity();
    let author = Author {
        pid: identity.project.clone(),
        agent: identity.agent.to_owned(),
        unit_id: identity.unit_id.clone(),
        call_id: identity.call_id.clone(),
        session_id: identity.session_id.clone(),
    };
    let call = Call {
        tool_use_id: context.tool_use_id().to_owned(),
        idempotency_key: input.idempotency_key.clone(),
    };
    let is_it = |entry: &Entry| {
        entry.author.agent == author.agent
            && match &key {
                Key::Idempotency(key) => entry.idempotency_key.as_ref() == Some(key),
                Key::Call(id) => entry.tool_use_id == *id,
            }
    };
    let find = |hint: &Value| {
        let Some(seq) = hint["seq"].as_u64() else {
            return Ok(None);
        };
        let entry = timeline.durable_entry(seq, is_it).map_err(Stopped::from)?;
        entry.map(|entry| kept(&answer(&entry, None))).transpose()
    };
    let mut ticket = None;
    let cancelled = || context.cancelled();
    let wait = Wait::at_most(context.lock_wait()).unless(&cancelled);
    // The key is looked up and written down under the timeline's lock, so that of two equal calls one comes after the
    // other; and an entry is told from others by its number, which only its writer can have begun.
    let appended = timeline.append(&author, news(input), &call, wait, |seq| {
        if context.cancelled() {
            return Err(Stopped::Refused(ToolError::Cancelled.into()));
        }
        let call = replay::Call {
            tool: context.tool().name,
            key: &key,
            input: &digest,
        };
        match replay.begin(call, json!({ "seq": seq }), find)? {
            Begun::Replayed(answer) => Err(Stopped::Before(answer)),
            Begun::New(begun) => {
                ticket = Some(begun);
                Ok(())
            }
        }
    });
    let appended = match appended {
        Ok(appended) => appended,
        Err(Stopped::Refused(refusal)) => return Err(refusal),
        Err(Stopped::Before(answer)) => {
            let first: Output = serde_json::from_value(answer).map_err(StoreError::Serialize)?;
            return Ok(Output {
                replayed: Some(true),
                ..first
            });
        }
    };
    let output = answer(&appended.entry, appended.repaired.as_ref());
    if let Some(ticket) = ticket
        && let Ok(kept) = kept(&output)
    {
        ticket.complete(&kept);
    }
    for entry in appended.mended.iter().chain([&appended.entry]) {
        context.emit(&told(entry).into())?;
    }
    Ok(output)
}

/// An answer, as it is kept for those who repeat the call.
fn kept(output: &Output) -> Result<Value, Stopped> {
    serde_json::to_value(output).map_err(|error| StoreError::Serialize(error).into())
}

fn answer(entry: &Entry, repaired: Option<&Mended>) -> Output {
    Output {
        seq: entry.seq,
        ts: entry.ts.clone(),
        replayed: None,
        repaired: repaired.map(|repaired| Repaired {
            bytes: repaired.bytes,
            quarantine: repaired.quarantine.as_ref().map(|path| path.to_string().into()),
        }),
    }
}

fn news(input: Input) -> News {
    let refs = input.refs.into_iter().map(|given| Ref {
        kind: given.kind.as_str().to_owned(),
        id: given.id,
    });
    News {
        kind: input.type_,
        level: match input.level {
            TimelineLevel::Debug => Level::Debug,
            TimelineLevel::Info => Level::Info,
            TimelineLevel::Warn => Level::Warn,
            TimelineLevel::Error => Level::Error,
        },
        summary: input.summary,
        data: input.data,
        refs: refs.collect(),
    }
}

fn told(entry: &Entry) -> TimelineEntry {
    let kind = |name: &str| match name {
        "bug" => Some(TimelineRefKind::Bug),
        "unit" => Some(TimelineRefKind::Unit),
        "req" => Some(TimelineRefKind::Req),
        "file" => Some(TimelineRefKind::File),
        "case" => Some(TimelineRefKind::Case),
        "contract" => Some(TimelineRefKind::Contract),
        _ => None,
    };
    let refs = entry.news.refs.iter().filter_map(|about| {
        let kind = kind(&about.kind)?;
        let id = about.id.clone();
        Some(TimelineRef { kind, id })
    });
    let refs: Vec<_> = refs.collect();
    TimelineEntry {
        seq: entry.seq,
        type_: entry.news.kind.clone(),
        level: match entry.news.level {
            Level::Debug => TimelineLevel::Debug,
            Level::Info => TimelineLevel::Info,
            Level::Warn => TimelineLevel::Warn,
            Level::Error => TimelineLevel::Error,
        },
        summary: entry.news.summary.clone(),
        refs: (!refs.is_empty()).then_some(refs),
    }
}

/// Whether a value is nested deeper than so many levels.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let mut inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => return false,
    };
    levels == 0 || inner.any(|value| is_deeper(value, levels - 1))
}
