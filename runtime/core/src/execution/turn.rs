//! The calls of one answer of a model, while it still speaks.
//!
//! Answers for which calls begin before the answer is complete, for their results in the order in which the calls came,
//! and for throwing an answer away. Leaves out how a call runs.
//!
//! Before the answer is complete a call begins only when it can do no harm if the answer is thrown away, and when
//! beginning it changes nothing for the others: it only reads, may run beside itself and may be repeated, and no call
//! before it that is not finished wants to be alone.
//!
//! Cost: each event looks at the calls of the answer, of which there are at most 64; an id is one search in a set.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use devloop_contract::tool::{Kind, Parallelism};

use crate::registry::Definition;

/// As many calls one answer may have.
pub const MOST_CALLS: usize = 64;

/// What decides whether a call may begin early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its permission class.
    pub kind: Kind,
    /// Whether it runs beside others.
    pub parallelism: Parallelism,
    /// Whether it may run beside itself on the same path.
    pub concurrency_safe: bool,
    /// Whether it may be repeated.
    pub retry_safe: bool,
}

impl Facts {
    fn harmless(self) -> bool {
        self.kind == Kind::ReadOnly && self.concurrency_safe && self.retry_safe
    }

    fn is_exclusive(self) -> bool {
        self.parallelism == Parallelism::Exclusive
    }
}

impl From<&Definition> for Facts {
    fn from(tool: &Definition) -> Self {
        Self {
            kind: tool.kind,
            parallelism: tool.parallelism,
            concurrency_safe: tool.concurrency_safe,
            retry_safe: tool.retry_safe,
        }
    }
}

/// Names one call of one answer, also after the answer was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    epoch: u64,
    number: u64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begin the call.
    Launch(Ticket),
    /// Tell the call to stop: nobody wants its result.
    Abort(Ticket),
}

/// Why a call is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The answer has a call of that id already.
    Duplicate,
    /// The answer has as many calls as it may.
    TooMany,
    /// The answer is complete.
    Ended,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate => {
                f.write_str("the answer has a call of this id already; give every call an id of its own")
            }
            Self::TooMany => write!(f, "the answer has {MOST_CALLS} calls already; send the rest in another"),
            Self::Ended => f.write_str("the answer was said to be complete; begin another for more calls"),
        }
    }
}

impl std::error::Error for Refused {}

/// The next result in the order of the calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<I, T> {
    /// It is there.
    Result(I, T),
    /// It is not there yet, or more calls may come.
    Later,
    /// There will be no more.
    Over,
}

/// The calls of one answer, by ids of the caller's.
///
/// ```
/// use devloop_contract::tool::{Kind, Parallelism};
/// use devloop_core::execution::turn::{Facts, Next, Turn};
///
/// let read = Facts {
///     kind: Kind::ReadOnly,
///     parallelism: Parallelism::Shared,
///     concurrency_safe: true,
///     retry_safe: true,
/// };
/// let (mut turn, mut commands) = (Turn::default(), Vec::new());
/// let write = turn.submit("a", Facts { kind: Kind::Write, ..read }, &mut commands)?;
/// let read = turn.submit("b", read, &mut commands)?;
/// assert_eq!(commands.len(), 1, "the second begins before the answer is complete");
/// turn.finish(read, "read", &mut commands);
/// assert_eq!(turn.next_result(), Next::Later, "its result waits for the first one's");
/// turn.end(&mut commands);
/// turn.finish(write, "written", &mut commands);
/// assert_eq!(turn.next_result(), Next::Result("a", "written"));
/// assert_eq!(turn.next_result(), Next::Result("b", "read"));
/// assert_eq!(turn.next_result(), Next::Over);
/// # Ok::<(), devloop_core::execution::turn::Refused>(())
/// ```
#[derive(Clone, Debug)]
pub struct Turn<I, T> {
    epoch: u64,
    speech: Speech,
    /// Those whose results were not taken yet.
    calls: VecDeque<Call<I, T>>,
    /// The number of the first of them.
    first: u64,
    /// The ids of all calls of the answer.
    ids: BTreeSet<I>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    GoesOn,
    Ended,
}

#[derive(Clone, Debug)]
struct Call<I, T> {
    id: I,
    facts: Facts,
    state: State<T>,
}

#[derive(Clone, Debug)]
enum State<T> {
    Held,
    Launched,
    Finished(T),
}

impl<I, T> Default for Turn<I, T> {
    fn default() -> Self {
        Self {
            epoch: 0,
            speech: Speech::GoesOn,
            calls: VecDeque::new(),
            first: 0,
            ids: BTreeSet::new(),
        }
    }
}

impl<I: Ord + Clone, T> Turn<I, T> {
    /// The model has said a call.
    ///
    /// # Errors
    /// Its id is taken, there are too many calls, or the answer is complete: nothing has changed.
    pub fn submit(&mut self, id: I, facts: Facts, commands: &mut Vec<Command>) -> Result<Ticket, Refused> {
        if self.speech == Speech::Ended {
            return Err(Refused::Ended);
        }
        if self.ids.contains(&id) {
            return Err(Refused::Duplicate);
        }
        if self.ids.len() >= MOST_CALLS {
            return Err(Refused::TooMany);
        }
        let ticket = self.ticket(self.calls.len());
        self.ids.insert(id.clone());
        self.calls.push_back(Call {
            id,
            facts,
            state: State::Held,
        });
        self.launch(commands);
        Ok(ticket)
    }

    /// The answer is complete: what did not begin yet begins now, in the order in which it came.
    pub fn end(&mut self, commands: &mut Vec<Command>) {
        self.speech = Speech::Ended;
        self.launch(commands);
    }

    /// A call is done. Its result is dropped when its answer was thrown away.
    pub fn finish(&mut self, ticket: Ticket, result: T, commands: &mut Vec<Command>) {
        let place = ticket
            .number
            .checked_sub(self.first)
            .and_then(|place| usize::try_from(place).ok());
        let call = place
            .filter(|_| ticket.epoch == self.epoch)
            .and_then(|place| self.calls.get_mut(place));
        let Some(call) = call else {
            return;
        };
        // The first result counts.
        if matches!(call.state, State::Launched) {
            call.state = State::Finished(result);
            self.launch(commands);
        }
    }

    /// Takes the next result, in the order in which the calls came.
    pub fn next_result(&mut self) -> Next<I, T> {
        match self.calls.pop_front() {
            Some(Call {
                id,
                state: State::Finished(result),
                ..
            }) => {
                self.first += 1;
                Next::Result(id, result)
            }
            Some(call) => {
                self.calls.push_front(call);
                Next::Later
            }
            None if self.speech == Speech::Ended => Next::Over,
            None => Next::Later,
        }
    }

    /// Throws the answer away: what runs is told to stop, what did not begin never does, what is done is forgotten.
    /// Another answer begins, in which the ids are free.
    pub fn discard(&mut self, commands: &mut Vec<Command>) {
        for (place, call) in self.calls.iter().enumerate() {
            if matches!(call.state, State::Launched) {
                commands.push(Command::Abort(self.ticket(place)));
            }
        }
        *self = Self {
            epoch: self.epoch + 1,
            ..Self::default()
        };
    }

    fn launch(&mut self, commands: &mut Vec<Command>) {
        let mut alone = false;
        for place in 0..self.calls.len() {
            let ticket = self.ticket(place);
            let Some(call) = self.calls.get_mut(place) else {
                return;
            };
            let may_begin = self.speech == Speech::Ended || (call.facts.harmless() && !alone);
            if matches!(call.state, State::Held) && may_begin {
                call.state = State::Launched;
                commands.push(Command::Launch(ticket));
            }
            alone |= call.facts.is_exclusive() && !matches!(call.state, State::Finished(_));
        }
    }

    fn ticket(&self, place: usize) -> Ticket {
        Ticket {
            epoch: self.epoch,
            number: self.first + place as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::execution::testing::config;

    const READ: Facts = Facts {
        kind: Kind::ReadOnly,
        parallelism: Parallelism::Shared,
        concurrency_safe: true,
        retry_safe: true,
    };

    const ALONE: Facts = Facts {
        parallelism: Parallelism::Exclusive,
        ..READ
    };

    /// The model: every call of the answer, with what became of it, never forgotten before the answer is.
    #[derive(Clone, Default)]
    struct Model {
        calls: Vec<Said>,
        ended: bool,
    }

    #[derive(Clone)]
    struct Said {
        id: u8,
        facts: Facts,
        ticket: Ticket,
        begun: bool,
        result: Option<u32>,
        taken: bool,
    }

    impl Model {
        fn begin(&mut self) -> Vec<Command> {
            let mut commands = Vec::new();
            for place in 0..self.calls.len() {
                let (before, rest) = self.calls.split_at_mut(place);
                let call = &mut rest[0];
                let waits_alone =
                    |other: &Said| other.facts.parallelism == Parallelism::Exclusive && other.result.is_none();
                let early = call.facts.kind == Kind::ReadOnly
                    && call.facts.concurrency_safe
                    && call.facts.retry_safe
                    && !before.iter().any(waits_alone);
                if !call.begun && (self.ended || early) {
                    call.begun = true;
                    commands.push(Command::Launch(call.ticket));
                }
            }
            commands
        }
    }

    #[derive(Clone, Default)]
    struct Both {
        turn: Turn<u8, u32>,
        model: Model,
        /// Tickets of answers that were thrown away.
        stale: Vec<Ticket>,
    }

    impl Both {
        fn submit(&mut self, id: u8, facts: Facts) {
            let mut commands = Vec::new();
            let taken = self.turn.submit(id, facts, &mut commands);
            let refused = if self.model.ended {
                Some(Refused::Ended)
            } else if self.model.calls.iter().any(|call| call.id == id) {
                Some(Refused::Duplicate)
            } else if self.model.calls.len() == 64 {
                Some(Refused::TooMany)
            } else {
                None
            };
            assert_eq!(taken.err(), refused);
            if let Ok(ticket) = taken {
                self.model.calls.push(Said {
                    id,
                    facts,
                    ticket,
                    begun: false,
                    result: None,
                    taken: false,
                });
                assert_eq!(commands, self.model.begin());
            }
        }

        fn end(&mut self) {
            let mut commands = Vec::new();
            self.turn.end(&mut commands);
            self.model.ended = true;
            assert_eq!(commands, self.model.begin());
        }

        fn finish(&mut self, ticket: Ticket, result: u32) {
            let mut commands = Vec::new();
            self.turn.finish(ticket, result, &mut commands);
            if let Some(call) = self.model.calls.iter_mut().find(|call| call.ticket == ticket)
                && call.begun
                && call.result.is_none()
            {
                call.result = Some(result);
            }
            assert_eq!(commands, self.model.begin());
        }

        fn next(&mut self) {
            let expected = match self.model.calls.iter_mut().find(|call| !call.taken) {
                Some(call) => match call.result {
                    Some(result) => {
                        call.taken = true;
                        Next::Result(call.id, result)
                    }
                    None => Next::Later,
                },
                None if self.model.ended => Next::Over,
                None => Next::Later,
            };
            assert_eq!(self.turn.next_result(), expected);
        }

        fn discard(&mut self) {
            let mut commands = Vec::new();
            self.turn.discard(&mut commands);
            let model = std::mem::take(&mut self.model);
            let runs = model.calls.iter().filter(|call| call.begun && call.result.is_none());
            let expected: Vec<_> = runs.map(|call| Command::Abort(call.ticket)).collect();
            assert_eq!(commands, expected);
            self.stale.extend(model.calls.iter().map(|call| call.ticket));
        }
    }

    fn explore(both: &Both, comes: u8, depth: usize, nodes: &mut usize) {
        *nodes += 1;
        if depth == 0 {
            return;
        }
        let branch = |nodes: &mut usize, comes: u8, act: &dyn Fn(&mut Both)| {
            let mut both = both.clone();
            act(&mut both);
            explore(&both, comes, depth - 1, nodes);
        };
        if comes < 4 {
            for facts in [
                READ,
                ALONE,
                Facts {
                    kind: Kind::Write,
                    ..READ
                },
            ] {
                branch(nodes, comes + 1, &|both| both.submit(comes, facts));
            }
        }
        for call in &both.model.calls {
            if call.begun && call.result.is_none() {
                branch(nodes, comes, &|both| both.finish(call.ticket, u32::from(call.id)));
            }
        }
        if !both.model.ended && comes > 0 {
            branch(nodes, comes, &Both::end);
        }
        if both.model.calls.iter().any(|call| !call.taken) {
            branch(nodes, comes, &Both::next);
            if both.stale.is_empty() {
                branch(nodes, comes, &Both::discard);
            }
        }
        for ticket in &both.stale {
            // Each late result changes nothing, so that there is no way on from here.
            let mut both = both.clone();
            both.finish(*ticket, 9);
            both.next();
        }
    }

    #[test]
    fn turn_every_interleaving_of_four_calls() {
        let mut nodes = 0;
        explore(&Both::default(), 0, 8, &mut nodes);
        assert!(nodes > 10_000, "{nodes}");
    }

    #[test]
    fn turn_random_operations_do_what_the_model_does() {
        let facts =
            (any::<bool>(), any::<bool>(), any::<bool>(), 0..4_u8).prop_map(|(reads, safe, retry_safe, alone)| Facts {
                kind: if reads { Kind::ReadOnly } else { Kind::Execute },
                parallelism: if alone == 0 {
                    Parallelism::Exclusive
                } else {
                    Parallelism::Shared
                },
                concurrency_safe: safe,
                retry_safe,
            });
        let operation = (0..100, any::<u8>(), facts, any::<prop::sample::Index>());
        proptest!(config(200), |(operations in prop::collection::vec(operation, 1..200))| {
            let mut both = Both::default();
            for (number, (what, id, facts, which)) in operations.into_iter().enumerate() {
                match what {
                    0..=49 => both.submit(id, facts),
                    50..=74 => {
                        let known: Vec<_> = both.model.calls.iter().map(|call| call.ticket).chain(both.stale.clone()).collect();
                        if !known.is_empty() {
                            both.finish(known[which.index(known.len())], u32::try_from(number).unwrap());
                        }
                    }
                    75..=96 => both.next(),
                    97..=98 => both.end(),
                    _ => both.discard(),
                }
            }
        });
    }

    fn launched(commands: &[Command]) -> usize {
        commands
            .iter()
            .filter(|command| matches!(command, Command::Launch(_)))
            .count()
    }

    #[test]
    fn turn_launches_early_only_what_is_harmless_and_not_behind_an_exclusive_call() {
        let early = |facts: &[Facts]| {
            let (mut turn, mut commands) = (Turn::<usize, ()>::default(), Vec::new());
            for (id, facts) in facts.iter().enumerate() {
                turn.submit(id, *facts, &mut commands).unwrap();
            }
            let early = launched(&commands);
            turn.end(&mut commands);
            assert_eq!(launched(&commands), facts.len(), "the end launches the rest");
            early
        };
        assert_eq!(early(&[READ, READ]), 2);
        assert_eq!(
            early(&[Facts {
                kind: Kind::Write,
                ..READ
            }]),
            0
        );
        assert_eq!(
            early(&[Facts {
                kind: Kind::Execute,
                ..READ
            }]),
            0
        );
        assert_eq!(
            early(&[Facts {
                concurrency_safe: false,
                ..READ
            }]),
            0
        );
        assert_eq!(
            early(&[Facts {
                retry_safe: false,
                ..READ
            }]),
            0
        );
        // What is not alone does not hold up those behind it.
        assert_eq!(
            early(&[
                Facts {
                    kind: Kind::Write,
                    ..READ
                },
                READ
            ]),
            1
        );
        assert_eq!(
            early(&[
                READ,
                Facts {
                    kind: Kind::Write,
                    ..ALONE
                },
                READ
            ]),
            1
        );
        assert_eq!(early(&[ALONE, READ]), 1);
    }

    #[test]
    fn turn_yields_results_in_the_order_of_the_calls() {
        let (mut turn, mut commands) = (Turn::default(), Vec::new());
        let tickets: Vec<_> = ["a", "b", "c"]
            .map(|id| turn.submit(id, READ, &mut commands).unwrap())
            .into();
        turn.finish(tickets[2], 3, &mut commands);
        assert_eq!(turn.next_result(), Next::Later);
        turn.finish(tickets[0], 1, &mut commands);
        assert_eq!(turn.next_result(), Next::Result("a", 1));
        assert_eq!(turn.next_result(), Next::Later);
        turn.end(&mut commands);
        turn.finish(tickets[1], 2, &mut commands);
        turn.finish(tickets[1], 9, &mut commands);
        assert_eq!(turn.next_result(), Next::Result("b", 2));
        assert_eq!(turn.next_result(), Next::Result("c", 3));
        assert_eq!(turn.next_result(), Next::Over);
    }

    #[test]
    fn turn_discard_aborts_what_runs_and_drops_late_results() {
        let (mut turn, mut commands) = (Turn::default(), Vec::new());
        let runs = turn.submit("a", READ, &mut commands).unwrap();
        turn.submit(
            "b",
            Facts {
                kind: Kind::Write,
                ..READ
            },
            &mut commands,
        )
        .unwrap();
        commands.clear();
        turn.discard(&mut commands);
        assert_eq!(commands, [Command::Abort(runs)], "what did not begin needs no telling");
        let again = turn.submit("a", READ, &mut commands).unwrap();
        turn.finish(runs, "late", &mut commands);
        assert_eq!(turn.next_result(), Next::Later);
        turn.finish(again, "new", &mut commands);
        assert_eq!(turn.next_result(), Next::Result("a", "new"));
    }

    #[test]
    fn turn_refuses_duplicate_ids_the_65th_call_and_calls_after_the_end() {
        let (mut turn, mut commands) = (Turn::<u32, ()>::default(), Vec::new());
        let first = turn.submit(0, READ, &mut commands).unwrap();
        assert_eq!(turn.submit(0, READ, &mut commands), Err(Refused::Duplicate));
        turn.finish(first, (), &mut commands);
        assert_eq!(turn.next_result(), Next::Result(0, ()));
        assert_eq!(
            turn.submit(0, READ, &mut commands),
            Err(Refused::Duplicate),
            "also of one that is over"
        );
        for id in 1..64 {
            turn.submit(id, READ, &mut commands).unwrap();
        }
        assert_eq!(turn.submit(64, READ, &mut commands), Err(Refused::TooMany));
        turn.end(&mut commands);
        assert_eq!(turn.submit(64, READ, &mut commands), Err(Refused::Ended));
        let said: BTreeMap<_, _> = [Refused::Duplicate, Refused::TooMany, Refused::Ended]
            .into_iter()
            .enumerate()
            .map(|(place, refused)| (place, refused.to_string()))
            .collect();
        assert!(said[&0].contains("id of its own") && said[&1].contains("64 calls") && said[&2].contains("complete"));
    }
}
