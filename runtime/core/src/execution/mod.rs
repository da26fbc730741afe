//! When a call may run: order, exclusion, fairness, retries, and what was run.
//!
//! Answers for the rules, as state machines that know no thread, no task and no clock: whoever drives them passes the
//! time in, tells them what happened, and carries out what they answer. So every interleaving of a few calls can be
//! checked. Leaves out the driving, which is the runtime's, and what a call does.
//!
//! | module | answers for |
//! |---|---|
//! | [`gate`] | the order of one session's calls |
//! | [`path_locks`] | calls on one path, of all sessions |
//! | [`scheduler`] | how many calls run at once, and whose turn is next |
//! | [`flow`] | the three in a row: the way of a call from its submission to its end |
//! | [`retry`] | whether a call that failed is tried again |
//! | [`history`] | what was run, how long it took and how often it failed |
//! | [`turn`] | the calls of one answer of a model, while it still speaks |
//!
//! Times are durations since a moment that the caller chooses, the same for all calls to one machine.

pub mod flow;
pub mod gate;
pub mod history;
pub mod path_locks;
pub mod retry;
pub mod scheduler;
#[cfg(test)]
mod testing;
pub mod turn;

/// Names one call of one machine. The caller gives it, and never the same again while the call is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Names one session of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);
