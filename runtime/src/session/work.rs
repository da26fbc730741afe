//! A call on its way: what is known of it, and what its turn does.
//!
//! Answers for building and typing input, for judging before the turn and running in it. Leaves out when the turn comes (the
//! executor's) and what is told of the end.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{self, Poll};
use std::time::Duration;

use devloop_contract::failure::ErasedRefusal;
use devloop_contract::tool::Parallelism;
use devloop_contract::{InternalError, Tool, ToolError};
use devloop_core::catalogue::Entry;
use devloop_core::execution::retry::{Replay, Transient};
use devloop_core::permission;
use devloop_core::registry::{BuildError, Definition, Invocation};
use devloop_generated::{AnyInput, dispatch};
use serde_json::{Map, Value};
use tokio::runtime::Handle;

use super::admission::Judged;
use super::{Answer, Carried, Overrun, Runner, RunnerCall, RunnerError, Session, ToolRunner};
use crate::call::{Approver, Ask, Boxed, CallOutcome};
use crate::context::Context;
use crate::execution::{Facts, Grip, LetGo, Pending, Try, Verdict, Work};

/// So long a call that was told to stop may take before it is dropped, where that is allowed.
const DROPPED_AFTER: Duration = Duration::from_secs(2);

/// How the way of a call ended.
pub(super) type Ran = Result<Answer, Stop>;

/// Why a call gave no answer.
pub(super) enum Stop {
    /// It was refused, or failed.
    Refused(ErasedRefusal),
    /// A person must say yes first, and the caller is to ask.
    Asks(Box<Ask>),
}

impl From<ErasedRefusal> for Stop {
    fn from(refusal: ErasedRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What became of a call so far.
pub(super) enum Begun {
    /// It waits for its turn, or runs.
    Waits(Arc<Entry<Runner>>, Arc<Track>, Pending<Ran>),
    /// Its input was refused, or nothing could be made ready for it.
    Refused(Arc<Entry<Runner>>, ErasedRefusal),
    /// That was all.
    Over(CallOutcome),
}

/// A caller that waits for the end of its call.
pub(super) struct Carrying {
    /// What is left to be done; nothing when all is.
    pub(super) rest: Option<Boxed<'static, Carried>>,
    pub(super) grip: Option<Grip>,
}

impl Future for Carrying {
    type Output = Carried;

    fn poll(mut self: Pin<&mut Self>, context: &mut task::Context<'_>) -> Poll<Carried> {
        let mut rest = self.rest.take().expect("a future is not polled after its end");
        // Put back only then: what panicked is not polled again.
        let polled = rest.as_mut().poll(context);
        if polled.is_pending() {
            self.rest = Some(rest);
        }
        polled
    }
}

impl Drop for Carrying {
    /// What has begun has an end, and hooks, events and the audit log are to hear of it.
    fn drop(&mut self) {
        let Some(rest) = self.rest.take() else { return };
        let let_go = self.grip.as_ref().map(Grip::let_go);
        if let_go != Some(LetGo::NeverBegins)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(rest);
        }
    }
}

/// What is known of a call while it is on its way and when it has ended.
pub(super) struct Track {
    pub(super) tool_use_id: String,
    /// How it was judged, once it was.
    pub(super) judged: OnceLock<Judged>,
    /// Whether it was let through.
    pub(super) ran: AtomicBool,
    /// How often it was tried again.
    pub(super) retries: AtomicUsize,
}

/// The work of a call.
pub(super) struct Call {
    pub(super) session: Session,
    pub(super) entry: Arc<Entry<Runner>>,
    pub(super) track: Arc<Track>,
    /// Nothing once it was judged.
    pub(super) invocation: Option<Invocation>,
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) body: Body,
    pub(super) replay: Replay,
    /// The calls within which it was made.
    pub(super) outer: Vec<Within>,
}

impl Call {
    /// The calls that host code runs for which this one has to do with.
    fn within(&self) -> Vec<Within> {
        let mut all = self.outer.clone();
        all.push(Within {
            session: self.session.address(),
            entry: Arc::clone(&self.entry),
        });
        all
    }

    /// The input is another than the one that the call was made ready for.
    fn change(&mut self, invocation: &Invocation) -> Result<(), ErasedRefusal> {
        match &mut self.body {
            Body::Handler { context, input } => *input = Some(typed(context.tool(), invocation)?),
            Body::Service { call, .. } => call.input = invocation.input().clone(),
        }
        Ok(())
    }
}

pub(super) enum Body {
    /// The handler of a spec.
    Handler {
        context: Context,
        /// Nothing after the only try.
        input: Option<AnyInput>,
    },
    /// Other code.
    Service {
        runner: Arc<dyn ToolRunner>,
        call: RunnerCall,
    },
}

impl Work for Call {
    type Answer = Ran;

    async fn prepare(&mut self, facts: &mut Facts) -> Result<(), Ran> {
        let Some(invocation) = self.invocation.take() else {
            return Ok(());
        };
        let judged = self.session.judge(&self.entry, invocation, &self.track.tool_use_id);
        let judged = WITHIN.scope(self.within(), judged).await;
        let consent = self.session.consent(&judged, self.approver.as_ref());
        let mut result = WITHIN.scope(self.within(), consent).await;
        // While a person thought about it, the mode may have become a stricter one.
        if judged.decision.verdict == permission::Verdict::Ask && result.is_ok() {
            result = self.session.still_allowed(&judged);
        }
        if judged.changed && result.is_ok() {
            facts.paths = self.session.real_paths(&judged.invocation);
            result = self.change(&judged.invocation).map_err(Stop::from);
        }
        self.track.ran.store(result.is_ok(), Ordering::Release);
        // It is prepared once.
        let _ = self.track.judged.set(judged);
        result.map_err(Err)
    }

    async fn run(&mut self, _attempt: Try) -> Self::Answer {
        let within = self.within();
        let answer = match &mut self.body {
            Body::Handler { context, input } => {
                let input = match self.replay {
                    Replay::Safe => input.clone(),
                    Replay::Never => input.take(),
                };
                let Some(input) = input else {
                    let twice = InternalError::bare("a call that may not be repeated was tried twice");
                    return Err(ErasedRefusal::Tool(twice.into()).into());
                };
                Answer::Json(dispatch(context, input).await?)
            }
            Body::Service { runner, call } => {
                let answer = WITHIN.scope(within, until_dropped(&**runner, call)).await;
                answer.map_err(ErasedRefusal::from)?
            }
        };
        Ok(finished(&self.entry, answer)?)
    }

    fn judge(&self, answer: &Self::Answer) -> Verdict {
        match answer {
            Ok(Answer::Passed(passed)) if passed.is_error => Verdict::Failure,
            Ok(_) => Verdict::Success,
            Err(Stop::Refused(ErasedRefusal::Tool(ToolError::Internal(error)))) => {
                Transient::cause_of(error).map_or(Verdict::Failure, Verdict::Transient)
            }
            Err(_) => Verdict::Failure,
        }
    }
}

/// Carries a call out. One that is told to stop and does not is dropped when its runner allows that: otherwise it would
/// keep its place for ever.
async fn until_dropped(runner: &dyn ToolRunner, call: &RunnerCall) -> Result<Answer, RunnerError> {
    let answer = runner.run(call.clone());
    match runner.overrun() {
        Overrun::GoesOn => answer.await,
        Overrun::IsDropped => tokio::select! {
            biased;
            answer = answer => answer,
            () = async {
                call.cancel.cancelled().await;
                tokio::time::sleep(DROPPED_AFTER).await;
            } => Err(RunnerError::Cancelled),
        },
    }
}

tokio::task_local! {
    /// The calls that the code which runs here belongs to, the innermost last.
    static WITHIN: Vec<Within>;
}

/// A call that host code runs for: its tool's, its hooks', its approver's.
#[derive(Clone)]
pub(super) struct Within {
    /// Never followed, and no other session's while this one is held.
    session: usize,
    entry: Arc<Entry<Runner>>,
}

impl Within {
    /// The calls for which the code runs that makes a call.
    pub(super) fn here() -> Vec<Self> {
        WITHIN.try_with(Clone::clone).unwrap_or_default()
    }

    /// A call whose end a new one would wait for, while it waits for the new one.
    pub(super) fn waits_for(session: &Session, tool: &Definition) -> Option<Arc<Entry<Runner>>> {
        let alone = |tool: &Definition| tool.parallelism == Parallelism::Exclusive;
        let blocks =
            |outer: &&Self| outer.session == session.address() && (alone(outer.entry.definition()) || alone(tool));
        let found = WITHIN.try_with(|all| all.iter().find(blocks).map(|outer| Arc::clone(&outer.entry)));
        found.ok().flatten()
    }
}

/// The input of a call, built. Nothing else is ever run.
pub(super) fn build(entry: &Entry<Runner>, arguments: Map<String, Value>) -> Result<Invocation, ErasedRefusal> {
    let built = entry.compiled().build(arguments);
    built.map_err(|error: BuildError| ErasedRefusal::Tool(error.into()))
}

/// The input as its handler takes it. Valid input that has no type is the caller's to mend all the same: the schema lets
/// some numbers through that no Rust integer holds.
pub(super) fn typed(tool: &'static Tool, invocation: &Invocation) -> Result<AnyInput, ErasedRefusal> {
    AnyInput::parse(tool, invocation.input())
        .map_err(|error| ErasedRefusal::Tool(ToolError::validation("", format!("the input cannot be read: {error}"))))
}

/// A runner's output as the result of the call, checked against the published schema.
pub(super) fn finished(entry: &Entry<Runner>, answer: Answer) -> Result<Answer, ErasedRefusal> {
    let tool = entry.definition();
    let output = match answer {
        // A server's answer is its own; who offers a schema for it says nothing that we promised.
        Answer::Passed(_) => return Ok(answer),
        Answer::Json(output) => output,
    };
    let result = match tool.built_in() {
        Some(_) => {
            let mut result = Map::new();
            result.insert("ok".into(), Value::Bool(true));
            if let Value::Object(output) = output {
                result.extend(output);
            }
            Value::Object(result)
        }
        None => output,
    };
    if let Err(mismatch) = entry.compiled().check_output(&result) {
        let message = format!(
            "the answer of {} breaks the output schema of {}: {mismatch}",
            tool.name, tool.source
        );
        return Err(ErasedRefusal::Tool(InternalError::bare(message).into()));
    }
    Ok(Answer::Json(result))
}
