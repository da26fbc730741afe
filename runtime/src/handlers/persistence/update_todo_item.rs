//! `update_todo_item`: one item of an agent's list to another status.
//!
//! Answers for changing the list so that no update is lost. Leaves out the rules of a move (the core's `todo`).

use devloop_contract::{Handle, InternalError, Outcome, Refusal, ToolError};
use devloop_core::sandbox::RelPath;
use devloop_core::todo::{Evidence, Move, Moved, OtherStep, Refused, TodoItem, TodoList};
use devloop_generated::events::AgentTodoItem;
use devloop_generated::tools::persistence::update_todo_item::{
    AnotherInProgressDetails, BadTransitionDetails, Counts, DepsOpenDetails, Failure, Input, Output,
    UnknownItemDetails, UpdateTodoItem, VersionConflictDetails,
};
use serde_json::Map;

use crate::context::Context;
use crate::todo::{count, given_status, ids, list_lock, list_path, shown_item, shown_status};

impl Handle<UpdateTodoItem> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let step = given_move(input);
        // Before anything is waited for; the rest of the rules needs the list.
        step.check().map_err(ToolError::from)?;
        self.blocking(move |context| update(context, &step)).await
    }
}

fn update(context: &Context, step: &Move) -> Outcome<Output, Failure> {
    let key = context.identity().state_key();
    let store = context.store();
    let path = list_path(&key)?;
    let _lock = context.lock(&list_lock(&key))?;
    let Some(mut list) = store.read_state::<TodoList>(&path)? else {
        return Err(Failure::NoList.into());
    };
    let moved = list
        .carry_out(step, context.now())
        .map_err(|refused| refusal(refused, &path))?;
    let item = list
        .items
        .iter()
        .find(|item| item.id == step.id)
        .ok_or_else(|| InternalError::bare("the item that was moved is not in the list"))?;
    let Moved::Changed {
        from,
        put_back,
        dependents_done,
    } = moved
    else {
        return Ok(answer(&list, item));
    };
    if context.cancelled() {
        return Err(ToolError::Cancelled.into());
    }
    store.write_state(&path, &list)?;
    let put_back = (!put_back.is_empty()).then(|| ids(&put_back));
    // Still under the lock, so that events come in the order of the changes that they tell of.
    context.emit(
        &AgentTodoItem {
            item: shown_item(item),
            from: shown_status(from),
            put_back: put_back.clone(),
            current: list.current.clone().map(Into::into),
            progress_pct: list.progress_pct.into(),
            version: list.version,
        }
        .into(),
    )?;
    let warnings =
        (!dependents_done.is_empty()).then(|| vec![format!("dependents_done: {}", dependents_done.join(", "))]);
    Ok(Output {
        changed: true,
        put_back,
        warnings,
        ..answer(&list, item)
    })
}

fn given_move(input: Input) -> Move {
    let evidence = input.evidence.into_iter().map(|evidence| Evidence {
        path: evidence.path.into(),
        line: evidence.line,
        more: Map::new(),
    });
    Move {
        id: input.id.into(),
        to: given_status(input.status),
        note: input.note,
        reason: input.reason,
        evidence: evidence.collect(),
        other: if input.switch {
            OtherStep::IsPutBack
        } else {
            OtherStep::Stays
        },
        expected_version: input.expected_version,
    }
}

fn refusal(refused: Refused, path: &RelPath) -> Refusal<Failure> {
    match refused {
        Refused::Invalid(error) => ToolError::from(error).into(),
        Refused::VersionConflict { current_version } => {
            let path = path.to_string().into();
            Failure::VersionConflict(VersionConflictDetails { current_version, path }).into()
        }
        Refused::UnknownItem { nearest } => Failure::UnknownItem(UnknownItemDetails { nearest }).into(),
        Refused::BadTransition { from, allowed } => Failure::BadTransition(BadTransitionDetails {
            from: shown_status(from),
            allowed: allowed.iter().copied().map(shown_status).collect(),
        })
        .into(),
        Refused::DepsOpen { open } => Failure::DepsOpen(DepsOpenDetails { open }).into(),
        Refused::AnotherInProgress { id } => Failure::AnotherInProgress(AnotherInProgressDetails { id }).into(),
    }
}

/// Where the list stands, as after a call that changed nothing.
fn answer(list: &TodoList, item: &TodoItem) -> Output {
    let counts = list.counts();
    Output {
        item: shown_item(item),
        changed: false,
        // Worked out, not read: somebody may have edited the file.
        progress_pct: list.work_out_progress().into(),
        put_back: None,
        current: list.work_out_current().map(Into::into),
        ready: ids(&list.ready()),
        blocked: ids(&list.blocked()),
        counts: Counts {
            todo: count(counts.todo),
            doing: count(counts.doing),
            done: count(counts.done),
            blocked: count(counts.blocked),
        },
        all_done: counts.done == list.items.len(),
        version: list.version,
        warnings: None,
    }
}
