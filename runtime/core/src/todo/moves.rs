//! Moves: how a step of a todo list gets from one status to another.
//!
//! Answers for the state machine, for what else must hold before a step is moved, and for what is kept with it. Leaves
//! out who may move it and that nobody else writes the list meanwhile (the lock of the handler).

use std::collections::BTreeSet;

use devloop_contract::ValidationError;
use jiff::Timestamp;

use super::{Evidence, TodoList, TodoStatus};
use crate::store::clock;
use crate::text::nearest;

/// How many ids an unknown one is answered with.
const NEAREST: usize = 3;

/// One step to another status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The step.
    pub id: String,
    /// Where it shall stand.
    pub to: TodoStatus,
    /// What happened. A step that is done is taken up again only with one.
    pub note: Option<String>,
    /// Why it is blocked: there when and only when it shall be.
    pub reason: Option<String>,
    /// Files that show it.
    pub evidence: Vec<Evidence>,
    /// What becomes of another step that is in work, when this one shall be.
    pub other: OtherStep,
    /// The version of the list that the caller has seen.
    pub expected_version: Option<u64>,
}

/// What becomes of another step that is in work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherStep {
    /// It stays, and the move is refused.
    Stays,
    /// It goes back to [`TodoStatus::Todo`].
    IsPutBack,
}

/// What a move has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Nothing: the step was there already.
    Unchanged,
    /// The list is another now, one version on.
    Changed {
        /// Where the step stood before.
        from: TodoStatus,
        /// Steps that were in work and had to make room.
        put_back: Vec<String>,
        /// Steps that are done although they depend on this one, which is not done any more.
        dependents_done: Vec<String>,
    },
}

/// Why a move is refused. The list is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The move itself makes no sense, in this list or in any.
    Invalid(ValidationError),
    /// The list is not the one that the caller has seen.
    VersionConflict {
        /// The version that it has.
        current_version: u64,
    },
    /// The list has no such step.
    UnknownItem {
        /// Ids that a typing error could explain.
        nearest: Vec<String>,
    },
    /// The state machine has no such arrow.
    BadTransition {
        /// Where the step stands.
        from: TodoStatus,
        /// Where it could go.
        allowed: &'static [TodoStatus],
    },
    /// Steps that it depends on are not done.
    DepsOpen {
        /// Those steps, as the step names them.
        open: Vec<String>,
    },
    /// Another step is in work.
    AnotherInProgress {
        /// That step.
        id: String,
    },
}

impl TodoStatus {
    /// Where a step that stands here can go.
    pub const fn next(self) -> &'static [Self] {
        match self {
            Self::Todo => &[Self::Doing, Self::Blocked, Self::Done],
            Self::Doing => &[Self::Done, Self::Blocked, Self::Todo],
            Self::Blocked => &[Self::Todo, Self::Doing],
            Self::Done => &[Self::Doing],
        }
    }
}

impl Move {
    /// Checks what can be known without the list.
    ///
    /// # Errors
    /// A blocked step without a reason, or a reason for a step that is not.
    pub fn check(&self) -> Result<(), ValidationError> {
        match (&self.reason, self.to) {
            (None, TodoStatus::Blocked) => Err(ValidationError::one(
                "reason",
                "is missing; a step that is blocked needs one",
            )),
            (Some(_), TodoStatus::Todo | TodoStatus::Doing | TodoStatus::Done) => Err(ValidationError::one(
                "reason",
                "goes with the status `blocked` only; say it in `note`",
            )),
            (Some(_), TodoStatus::Blocked) | (None, _) => Ok(()),
        }
    }
}

impl TodoList {
    /// Carries out a move, and works out anew what follows from it. Cost: linear in steps and dependencies.
    ///
    /// # Errors
    /// The first rule that forbids it. The list is left as it was.
    pub fn carry_out(&mut self, step: &Move, now: Timestamp) -> Result<Moved, Refused> {
        step.check().map_err(Refused::Invalid)?;
        if step.expected_version.is_some_and(|expected| expected != self.version) {
            return Err(Refused::VersionConflict {
                current_version: self.version,
            });
        }
        let Some(index) = self.items.iter().position(|item| item.id == step.id) else {
            let ids = self.items.iter().map(|item| &*item.id);
            let nearest = nearest(&step.id, ids, NEAREST).into_iter().map(str::to_owned).collect();
            return Err(Refused::UnknownItem { nearest });
        };
        let from = self.items[index].status;
        if from == step.to {
            return Ok(Moved::Unchanged);
        }
        if !from.next().contains(&step.to) {
            return Err(Refused::BadTransition {
                from,
                allowed: from.next(),
            });
        }
        if from == TodoStatus::Done && step.note.is_none() {
            let reason = format!(
                "is missing; {} is done, and is taken up again only with a note that says why",
                step.id
            );
            return Err(Refused::Invalid(ValidationError::one("note", reason)));
        }
        if matches!(step.to, TodoStatus::Doing | TodoStatus::Done) {
            let open = self.open_dependencies(index);
            if !open.is_empty() {
                return Err(Refused::DepsOpen { open });
            }
        }
        let put_back = match step.to {
            TodoStatus::Doing => self.make_room(index, step.other)?,
            TodoStatus::Todo | TodoStatus::Done | TodoStatus::Blocked => Vec::new(),
        };
        // From here on nothing is refused any more.
        let item = &mut self.items[index];
        item.status = step.to;
        item.reason.clone_from(&step.reason);
        if step.note.is_some() {
            item.note.clone_from(&step.note);
        }
        if !step.evidence.is_empty() {
            item.evidence.clone_from(&step.evidence);
        }
        let dependents_done = if from == TodoStatus::Done {
            item.reopened = item.reopened.saturating_add(1);
            self.dependents_done(index)
        } else {
            Vec::new()
        };
        self.current = self.work_out_current();
        self.progress_pct = self.work_out_progress();
        self.version = self.version.saturating_add(1);
        // A clock that was set back does not make the list look older than it was.
        let before = self.updated_at.parse::<Timestamp>().unwrap_or(now);
        self.updated_at = clock::iso(now.max(before));
        Ok(Moved::Changed {
            from,
            put_back,
            dependents_done,
        })
    }

    /// What a step depends on and is not done. A step that the list does not have is never done.
    fn open_dependencies(&self, index: usize) -> Vec<String> {
        let done: BTreeSet<&str> = self
            .items
            .iter()
            .filter(|item| item.status == TodoStatus::Done)
            .map(|item| &*item.id)
            .collect();
        self.items[index]
            .depends_on
            .iter()
            .filter(|id| !done.contains(id.as_str()))
            .cloned()
            .collect()
    }

    /// Makes the step the only one in work. There is at most one other, but a file may have been edited by hand.
    fn make_room(&mut self, index: usize, other: OtherStep) -> Result<Vec<String>, Refused> {
        let mut put_back = Vec::new();
        for (place, item) in self.items.iter_mut().enumerate() {
            if place == index || item.status != TodoStatus::Doing {
                continue;
            }
            match other {
                // The first one ends it, so that nothing has been put back by then.
                OtherStep::Stays => return Err(Refused::AnotherInProgress { id: item.id.clone() }),
                OtherStep::IsPutBack => {
                    item.status = TodoStatus::Todo;
                    put_back.push(item.id.clone());
                }
            }
        }
        Ok(put_back)
    }

    /// Steps that are done and depend on this one.
    fn dependents_done(&self, index: usize) -> Vec<String> {
        let id = &self.items[index].id;
        self.items
            .iter()
            .filter(|item| item.status == TodoStatus::Done && item.depends_on.contains(id))
            .map(|item| item.id.clone())
            .collect()
    }
}
