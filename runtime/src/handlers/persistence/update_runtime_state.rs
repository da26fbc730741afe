//! `update_runtime_state`: what an agent is doing now, and that it is still there.
//!
//! Answers for writing the state so that no call is lost, and for who is told: the loop controller, which may refuse,
//! then the events. Leaves out what a call makes of a state (the core's `runtime_state`).

use devloop_contract::{CommonFailure, Handle, InternalError, Outcome, Refusal, ToolError};
use devloop_core::runtime_state::{Accepted, By, Refused, RuntimeState, Said, Status, StepChange, Update};
use devloop_core::sandbox::RelPath;
use devloop_core::todo::TodoList;
use devloop_generated::events::{AgentRuntime, PreviousRuntime};
use devloop_generated::tools::persistence::update_runtime_state::{
    Failure, FencedDetails, IllegalPhaseDetails, Input, Output, Previous, UpdateRuntimeState, VersionConflictDetails,
};
use devloop_generated::types::RuntimeStatus;

use crate::context::Context;
use crate::project::RuntimeStateChange;
use crate::todo::list_path;

impl Handle<UpdateRuntimeState> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let update = given_update(input)?;
        // Before anything is waited for; the rest of the rules needs the state.
        update.check().map_err(|refused| refusal(refused, None))?;
        self.blocking(move |context| write(context, &update)).await
    }
}

fn write(context: &Context, update: &Update) -> Outcome<Output, Failure> {
    let identity = context.identity();
    let key = identity.state_key();
    let (store, project) = (context.store(), context.project());
    let path = RelPath::parse(&format!("agent-state/{key}-runtime.json"))
        .map_err(|problem| InternalError::new("the state key makes no path", problem))?;
    let _lock = context.lock(&format!("{key}-runtime"))?;
    let kept = store.read_state_kept::<RuntimeState>(&path)?;
    let before = kept.as_ref().map(|kept| &kept.value);
    let by = By {
        agent: identity.agent,
        call_id: &identity.call_id,
        session_id: &identity.session_id,
    };
    let phases = update
        .phase
        .as_ref()
        .and_then(|_| project.controller.phase_graph(identity.agent));
    let Accepted {
        state,
        said,
        event_is_due,
    } = RuntimeState::carry_out(before, update, by, phases.as_deref(), context.now())
        .map_err(|refused| refusal(refused, before))?;
    let warnings: Option<Vec<String>> = (update.status == Some(Status::Done))
        .then(|| open_items(context, &key).map(|warning| vec![warning]))
        .flatten();
    if context.cancelled() {
        return Err(ToolError::Cancelled.into());
    }
    store.write_state(&path, &state)?;

    let change = RuntimeStateChange {
        agent: identity.agent.to_owned(),
        unit_id: identity.unit_id.clone(),
        call_id: identity.call_id.clone(),
        session_id: identity.session_id.clone(),
        said,
        before: before.cloned(),
        state,
    };
    if let Err(reason) = project.tell_runtime_state(&change) {
        let refused = format!("the loop controller refused the runtime state of {key}: {reason}");
        let bytes = kept.as_ref().map(|kept| &*kept.bytes);
        return Err(match store.restore_state(&path, bytes) {
            Ok(()) => InternalError::bare(format!("{refused}; the file is as it was")).into(),
            Err(error) => InternalError::new(format!("{refused}; `{path}` could not be put back"), error).into(),
        });
    }
    let RuntimeStateChange { state, .. } = change;
    if event_is_due {
        // Still under the lock, so that events come in the order of the calls that they tell of.
        context.emit(&event(before, &state, said).into())?;
    }
    let (phase, status) = standing(before);
    Ok(Output {
        version: state.version,
        state: state.shown(),
        previous: Previous { phase, status },
        warnings,
    })
}

fn given_update(input: Input) -> Result<Update, ToolError> {
    let current_step = match (input.current_step, input.clear_step) {
        (Some(_), true) => {
            let reason = "cannot be true beside `current_step`: give the one that holds";
            return Err(ToolError::validation("clear_step", reason));
        }
        (Some(id), false) => StepChange::Set(id.into()),
        (None, true) => StepChange::Clear,
        (None, false) => StepChange::Keep,
    };
    Ok(Update {
        phase: input.phase,
        status: input.status.map(given_status),
        current_step,
        message: input.message,
        // The schema has bounded both.
        progress_pct: input.progress_pct.and_then(|percent| u8::try_from(percent).ok()),
        ttl_s: input.ttl_s.and_then(|seconds| u32::try_from(seconds).ok()),
        patch: input.patch.unwrap_or_default(),
        expected_version: input.expected_version,
    })
}

fn refusal(refused: Refused, before: Option<&RuntimeState>) -> Refusal<Failure> {
    match refused {
        Refused::Invalid(error) => ToolError::from(error).into(),
        Refused::Fenced { session_id } => Failure::Fenced(FencedDetails { session_id }).into(),
        Refused::VersionConflict { current_version } => Failure::VersionConflict(VersionConflictDetails {
            current_version,
            state: before.map(RuntimeState::shown).unwrap_or_default(),
        })
        .into(),
        Refused::IllegalPhase { allowed } => Failure::IllegalPhase(IllegalPhaseDetails { allowed }).into(),
        Refused::TooLarge { what, bytes, limit } => Refusal::Common(CommonFailure::TooLarge {
            what: what.to_owned(),
            bytes,
            limit,
        }),
    }
}

/// What the todo list says against being done. It is looked at without its lock, as it is replaced whole: whoever moves
/// an item at this moment does so before or after this call. What is wrong with it is no matter of this call.
fn open_items(context: &Context, key: &str) -> Option<String> {
    let list = list_path(key).map_err(|error| error.to_string()).and_then(|path| {
        context
            .store()
            .peek_state::<TodoList>(&path)
            .map_err(|error| error.to_string())
    });
    match list {
        Ok(None) => None,
        Ok(Some(list)) => {
            let open = list.open();
            (!open.is_empty()).then(|| format!("open_items: {}", open.join(", ")))
        }
        Err(problem) => Some(format!("todo_unreadable: {problem}")),
    }
}

/// The phase and the status of a state.
fn standing(state: Option<&RuntimeState>) -> (Option<String>, Option<RuntimeStatus>) {
    (
        state.and_then(|state| state.phase.clone()),
        state.and_then(|state| state.status).map(shown_status),
    )
}

fn event(before: Option<&RuntimeState>, state: &RuntimeState, said: Said) -> AgentRuntime {
    let (phase, status) = standing(before);
    AgentRuntime {
        heartbeat: said == Said::Heartbeat,
        version: state.version,
        heartbeat_seq: state.heartbeat_seq,
        ttl_s: state.ttl_s.into(),
        session_id: state.session_id.clone(),
        phase: state.phase.clone(),
        status: state.status.map(shown_status),
        current_step: state.current_step.clone().map(Into::into),
        message: state.message.clone(),
        progress_pct: state.progress_pct.map(Into::into),
        previous: PreviousRuntime { phase, status },
    }
}

fn given_status(status: RuntimeStatus) -> Status {
    match status {
        RuntimeStatus::Idle => Status::Idle,
        RuntimeStatus::Running => Status::Running,
        RuntimeStatus::Waiting => Status::Waiting,
        RuntimeStatus::Blocked => Status::Blocked,
        RuntimeStatus::Error => Status::Error,
        RuntimeStatus::Done => Status::Done,
    }
}

fn shown_status(status: Status) -> RuntimeStatus {
    match status {
        Status::Idle => RuntimeStatus::Idle,
        Status::Running => RuntimeStatus::Running,
        Status::Waiting => RuntimeStatus::Waiting,
        Status::Blocked => RuntimeStatus::Blocked,
        Status::Error => RuntimeStatus::Error,
        Status::Done => RuntimeStatus::Done,
    }
}
