//! `write_todolist`: an agent's whole list, written at once.
//!
//! Answers for replacing the list without losing the one before it. Leaves out what a list means (the core's `todo`).

use devloop_contract::{Handle, Outcome, ToolError};
use devloop_core::sandbox::RelPath;
use devloop_core::store::{Kept, clock};
use devloop_core::todo::{TodoItem, TodoList, check_new_list};
use devloop_generated::events::AgentTodolist;
use devloop_generated::tools::persistence::write_todolist::{Failure, Input, Item, Output, Replaced, WriteTodolist};
use jiff::{SignedDuration, Timestamp};
use serde_json::Map;

use crate::context::Context;
use crate::todo::{count, ids, list_lock, list_path, shown_item};

impl Handle<WriteTodolist> for Context {
    async fn handle(&self, input: Input) -> Outcome<Output, Failure> {
        let items: Vec<TodoItem> = input.items.into_iter().map(new_item).collect();
        check_new_list(&items).map_err(ToolError::from)?;
        self.blocking(move |context| write(context, items)).await
    }
}

fn write(context: &Context, items: Vec<TodoItem>) -> Outcome<Output, Failure> {
    let key = context.identity().state_key();
    let store = context.store();
    let path = list_path(&key)?;
    // A list is replaced whole, so it can be looked at without the lock; whatever is wrong with it is found under it.
    let untouched = |list: &TodoList| list.items == items;
    if let Some(list) = store.peek_state(&path).ok().flatten().filter(untouched) {
        return Ok(unchanged(&list, &path));
    }
    let _lock = context.lock(&list_lock(&key))?;
    let kept = store.read_state_kept::<TodoList>(&path)?;
    let previous = kept.as_ref().map(|kept| &kept.value);
    if let Some(list) = previous.filter(|list| untouched(list)) {
        return Ok(unchanged(list, &path));
    }

    let created_at = clock::iso(after(previous, context.now()));
    let mut list = TodoList {
        agent: context.identity().agent.to_owned(),
        call_id: context.identity().call_id.clone(),
        created_at: created_at.clone(),
        items,
        current: None,
        progress_pct: 0,
        version: previous.map_or(1, |list| list.version.saturating_add(1)),
        updated_at: created_at,
        // What others kept with the list before was about that one; its bytes are in the history.
        more: Map::new(),
    };
    list.current = list.work_out_current();
    // From here on there is no way back: a list that was kept in the history is replaced, too.
    if context.cancelled() {
        return Err(ToolError::Cancelled.into());
    }
    if let Some(Kept { value: previous, bytes }) = &kept {
        // What is no time, in a file that anybody may have edited, makes no name either.
        let stamp = clock::stamp(previous.created_at.parse().unwrap_or_else(|_| context.now()));
        let prefix = format!("{key}-todo.");
        store.keep_in_history(&format!("{prefix}{stamp}.json"), bytes)?;
        store.prune_history(&prefix, context.project().config().history_kept)?;
    }
    store.write_state(&path, &list)?;
    // Still under the lock, so that events come in the order of the lists that they tell of.
    context.emit(
        &AgentTodolist {
            items: list.items.iter().map(shown_item).collect(),
        }
        .into(),
    )?;
    let replaced = previous.map(|list| Replaced {
        total: count(list.items.len()),
        done: count(list.done()),
        open: list.open(),
    });
    Ok(answer(&list, &path, replaced))
}

/// Now, or a millisecond after the list before: lists of one agent never share a time, whatever the clock does, and so
/// never a name in the history.
fn after(previous: Option<&TodoList>, now: Timestamp) -> Timestamp {
    let next = previous
        .and_then(|list| list.created_at.parse::<Timestamp>().ok())
        .and_then(|created| created.checked_add(SignedDuration::from_millis(1)).ok());
    next.map_or(now, |next| next.max(now))
}

fn new_item(item: Item) -> TodoItem {
    let depends_on = item.depends_on.into_iter().map(Into::into).collect();
    TodoItem::new(item.id.into(), item.description, depends_on)
}

fn unchanged(list: &TodoList, path: &RelPath) -> Output {
    Output {
        unchanged: Some(true),
        ..answer(list, path, None)
    }
}

fn answer(list: &TodoList, path: &RelPath, replaced: Option<Replaced>) -> Output {
    Output {
        total: count(list.items.len()),
        path: path.to_string().into(),
        // Worked out, not read: somebody may have edited the file.
        current: list.work_out_current(),
        ready: ids(&list.ready()),
        version: list.version,
        unchanged: None,
        replaced,
    }
}
