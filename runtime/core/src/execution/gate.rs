//! The order of one session's calls.
//!
//! Answers for who may go in: first come, first served; shared calls that follow each other go in together; an exclusive
//! call goes in alone, and no later call before it. Leaves out how many calls run at once over all sessions, and time.
//!
//! Cost: going straight in and leaving are a search among the calls that are inside; a call that waits is taken out by a
//! search among those that wait, of which there are at most as many as the limit.

use std::collections::VecDeque;
use std::fmt;

use devloop_contract::tool::Parallelism;

use super::CallId;

/// As many calls of one session may wait.
pub const PENDING: usize = 64;

/// The gate of one session.
///
/// ```
/// use devloop_contract::tool::Parallelism::{Exclusive, Shared};
/// use devloop_core::execution::CallId;
/// use devloop_core::execution::gate::Gate;
///
/// let (mut gate, mut inside) = (Gate::default(), Vec::new());
/// gate.submit(CallId(1), Shared, &mut inside)?;
/// gate.submit(CallId(2), Exclusive, &mut inside)?;
/// gate.submit(CallId(3), Shared, &mut inside)?;
/// assert_eq!(inside, [CallId(1)]);
/// gate.leave(CallId(1), &mut inside);
/// assert_eq!(inside, [CallId(1), CallId(2)]);
/// # Ok::<(), devloop_core::execution::gate::Full>(())
/// ```
#[derive(Clone, Debug)]
pub struct Gate {
    limit: usize,
    waiting: VecDeque<(CallId, Parallelism)>,
    inside: Vec<CallId>,
    /// Whether the one that is inside is exclusive.
    alone: bool,
}

/// As many calls wait as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// How many wait.
    pub limit: usize,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls of this session wait already", self.limit)
    }
}

impl std::error::Error for Full {}

/// Where a call was that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It waited, and never goes in.
    Waiting,
    /// It was inside.
    Inside,
    /// Nowhere: it had left already, or never came.
    Nowhere,
}

impl Default for Gate {
    fn default() -> Self {
        Self::with_limit(PENDING)
    }
}

impl Gate {
    /// A gate before which `limit` calls may wait; none means that a call goes in at once or is refused.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            waiting: VecDeque::new(),
            inside: Vec::new(),
            alone: false,
        }
    }

    /// A call comes. When it need not wait, it is added to `entered`.
    ///
    /// # Errors
    /// It would have to wait, and as many wait as may: the gate is as it was.
    pub fn submit(&mut self, call: CallId, parallelism: Parallelism, entered: &mut Vec<CallId>) -> Result<(), Full> {
        debug_assert!(!self.knows(call), "{call:?} is known already");
        if self.waiting.is_empty() && self.has_room_for(parallelism) {
            self.enter(call, parallelism);
            entered.push(call);
            return Ok(());
        }
        if self.waiting.len() >= self.limit {
            return Err(Full { limit: self.limit });
        }
        self.waiting.push_back((call, parallelism));
        Ok(())
    }

    /// A call is done, was cancelled or gives up, wherever it is. Those that may go in now are added to `entered`.
    pub fn leave(&mut self, call: CallId, entered: &mut Vec<CallId>) -> Left {
        let left = if let Some(place) = self.inside.iter().position(|&other| other == call) {
            self.inside.swap_remove(place);
            self.alone = false;
            Left::Inside
        } else if let Some(place) = self.waiting.iter().position(|&(other, _)| other == call) {
            self.waiting.remove(place);
            Left::Waiting
        } else {
            return Left::Nowhere;
        };
        while let Some(&(next, parallelism)) = self.waiting.front() {
            if !self.has_room_for(parallelism) {
                break;
            }
            self.waiting.pop_front();
            self.enter(next, parallelism);
            entered.push(next);
        }
        left
    }

    /// How many calls wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many calls are inside.
    pub fn inside(&self) -> usize {
        self.inside.len()
    }

    /// Whether nothing waits and nothing is inside, so that nothing is lost when it is thrown away.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.inside.is_empty()
    }

    fn knows(&self, call: CallId) -> bool {
        self.inside.contains(&call) || self.waiting.iter().any(|&(other, _)| other == call)
    }

    fn has_room_for(&self, parallelism: Parallelism) -> bool {
        match parallelism {
            Parallelism::Shared => !self.alone,
            Parallelism::Exclusive => self.inside.is_empty(),
        }
    }

    fn enter(&mut self, call: CallId, parallelism: Parallelism) {
        self.alone = parallelism == Parallelism::Exclusive;
        self.inside.push(call);
    }
}

#[cfg(test)]
mod tests {
    use devloop_contract::tool::Parallelism::{Exclusive, Shared};
    use proptest::prelude::*;

    use super::*;
    use crate::execution::testing::config;

    /// The model: every call that ever came, in order, and what became of it. A call is let in when none of those before
    /// it that still wait or are inside stands in its way.
    #[derive(Clone, Default)]
    struct Model {
        calls: Vec<(CallId, Parallelism, Place)>,
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Place {
        Waits,
        Inside,
        Gone,
    }

    impl Model {
        fn count(&self, place: Place) -> usize {
            self.calls.iter().filter(|call| call.2 == place).count()
        }

        fn let_in(&mut self) -> Vec<CallId> {
            let mut entered = Vec::new();
            for place in 0..self.calls.len() {
                let (call, parallelism, Place::Waits) = self.calls[place] else {
                    continue;
                };
                let mut before = self.calls[..place].iter().filter(|other| other.2 != Place::Gone);
                if before.all(|other| parallelism == Shared && other.1 == Shared && other.2 == Place::Inside) {
                    self.calls[place].2 = Place::Inside;
                    entered.push(call);
                }
            }
            entered
        }

        fn submit(&mut self, call: CallId, parallelism: Parallelism, limit: usize) -> Option<Vec<CallId>> {
            self.calls.push((call, parallelism, Place::Waits));
            let entered = self.let_in();
            if self.count(Place::Waits) > limit {
                self.calls.pop();
                return None;
            }
            Some(entered)
        }

        fn leave(&mut self, call: CallId) -> (Place, Vec<CallId>) {
            let found = self.calls.iter_mut().find(|other| other.0 == call);
            let was = found.map_or(Place::Gone, |found| std::mem::replace(&mut found.2, Place::Gone));
            (was, self.let_in())
        }
    }

    fn check(gate: &Gate, model: &Model) {
        assert_eq!(gate.waiting(), model.count(Place::Waits));
        assert_eq!(gate.inside(), model.count(Place::Inside));
        // Work goes on: whoever waits, waits for somebody.
        assert!(gate.waiting() == 0 || gate.inside() > 0, "{gate:?}");
    }

    fn submit(gate: &mut Gate, model: &mut Model, call: CallId, parallelism: Parallelism) {
        let mut entered = Vec::new();
        let taken = gate.submit(call, parallelism, &mut entered);
        let expected = model.submit(call, parallelism, gate.limit);
        assert_eq!(taken.ok().map(|()| entered), expected, "{gate:?}");
        check(gate, model);
    }

    fn leave(gate: &mut Gate, model: &mut Model, call: CallId) {
        let mut entered = Vec::new();
        let left = gate.leave(call, &mut entered);
        let (was, expected) = model.leave(call);
        let was = match was {
            Place::Waits => Left::Waiting,
            Place::Inside => Left::Inside,
            Place::Gone => Left::Nowhere,
        };
        assert_eq!((left, entered), (was, expected), "{gate:?}");
        check(gate, model);
    }

    /// Every order in which up to four calls can come and leave, also those that leave before they are inside.
    fn explore(gate: &Gate, model: &Model, comes: u64, nodes: &mut usize) {
        *nodes += 1;
        if comes < 4 {
            for parallelism in [Shared, Exclusive] {
                let (mut gate, mut model) = (gate.clone(), model.clone());
                submit(&mut gate, &mut model, CallId(comes), parallelism);
                explore(&gate, &model, comes + 1, nodes);
            }
        }
        for call in model.calls.iter().filter(|call| call.2 != Place::Gone) {
            let (mut gate, mut model) = (gate.clone(), model.clone());
            leave(&mut gate, &mut model, call.0);
            explore(&gate, &model, comes, nodes);
        }
    }

    #[test]
    fn gate_every_interleaving_of_four_calls() {
        for limit in 0..=3 {
            let mut nodes = 0;
            explore(&Gate::with_limit(limit), &Model::default(), 0, &mut nodes);
            assert!(nodes > 500, "{nodes}");
        }
    }

    #[test]
    fn gate_random_operations_do_what_the_model_does() {
        let operation = (any::<bool>(), any::<bool>(), any::<prop::sample::Index>());
        proptest!(config(120), |(limit in 0_usize..6, operations in prop::collection::vec(operation, 1..120))| {
            let (mut gate, mut model) = (Gate::with_limit(limit), Model::default());
            for (number, (comes, exclusive, which)) in operations.into_iter().enumerate() {
                if comes || number == 0 {
                    let parallelism = if exclusive { Exclusive } else { Shared };
                    submit(&mut gate, &mut model, CallId(number as u64), parallelism);
                } else {
                    // Also calls that have left, or were never taken.
                    leave(&mut gate, &mut model, CallId(which.index(number) as u64));
                }
            }
        });
    }

    fn all(gate: &mut Gate, calls: &[(u64, Parallelism)]) -> Vec<CallId> {
        let mut entered = Vec::new();
        for &(call, parallelism) in calls {
            gate.submit(CallId(call), parallelism, &mut entered).unwrap();
        }
        entered
    }

    #[test]
    fn gate_shared_calls_go_in_together_and_an_exclusive_one_is_a_barrier() {
        let mut gate = Gate::default();
        let entered = all(
            &mut gate,
            &[(1, Shared), (2, Shared), (3, Exclusive), (4, Shared), (5, Shared)],
        );
        assert_eq!(entered, [CallId(1), CallId(2)]);
        let mut entered = Vec::new();
        gate.leave(CallId(1), &mut entered);
        assert_eq!(entered, [], "the second is still inside");
        gate.leave(CallId(2), &mut entered);
        assert_eq!(entered, [CallId(3)]);
        gate.leave(CallId(3), &mut entered);
        assert_eq!(entered, [CallId(3), CallId(4), CallId(5)]);
    }

    #[test]
    fn gate_refuses_the_65th_pending_call_and_takes_the_next_after_one_has_left() {
        let mut gate = Gate::default();
        let calls: Vec<_> = (0..=64).map(|n| (n, Exclusive)).collect();
        assert_eq!(all(&mut gate, &calls), [CallId(0)]);
        let mut entered = Vec::new();
        let full = gate.submit(CallId(65), Shared, &mut entered).unwrap_err();
        assert_eq!(full.to_string(), "64 calls of this session wait already");
        assert_eq!(gate.leave(CallId(65), &mut entered), Left::Nowhere);
        gate.leave(CallId(30), &mut entered);
        gate.submit(CallId(65), Shared, &mut entered).unwrap();
        assert_eq!(entered, []);
    }

    #[test]
    fn gate_a_cancelled_waiter_never_goes_in_and_frees_those_behind_it() {
        let mut gate = Gate::default();
        all(&mut gate, &[(1, Shared), (2, Exclusive), (3, Shared)]);
        let mut entered = Vec::new();
        assert_eq!(gate.leave(CallId(2), &mut entered), Left::Waiting);
        assert_eq!(entered, [CallId(3)]);
        gate.leave(CallId(1), &mut entered);
        gate.leave(CallId(3), &mut entered);
        assert_eq!(entered, [CallId(3)]);
        assert!(gate.is_idle());
    }
}
