//! Calls on one path, of all sessions.
//!
//! Answers for who has a path to itself: first come, first served on each path, and all paths of a call at once. Leaves
//! out which path is meant: the caller gives the real one, so that a link and its target are one lock. Two paths are the
//! same or not; that one lies in the other is not looked at. Other processes are kept out by the files' own locks.
//!
//! Every call stands in the queues of all its paths from the moment it asks, and has them when it is first in each. So
//! of two calls that share a path the one that asked first goes first, whatever else they wait for: nobody starves. And
//! whoever asked first of all waits for nobody: there is no deadlock, and no order of paths to keep.
//!
//! Cost: for each path of the call one search in the map of paths, and one among those that wait for it.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::CallId;

/// The locks of all paths.
///
/// ```
/// use devloop_core::execution::CallId;
/// use devloop_core::execution::path_locks::PathLocks;
///
/// let (mut locks, mut granted) = (PathLocks::default(), Vec::new());
/// locks.request(CallId(1), ["/p/a".into(), "/p/b".into()], &mut granted);
/// locks.request(CallId(2), ["/p/b".into()], &mut granted);
/// assert_eq!(granted, [CallId(1)]);
/// locks.release(CallId(1), &mut granted);
/// assert_eq!(granted, [CallId(1), CallId(2)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PathLocks {
    queues: BTreeMap<Arc<Path>, VecDeque<CallId>>,
    requests: BTreeMap<CallId, Request>,
}

#[derive(Clone, Debug)]
struct Request {
    /// Sorted, each once.
    paths: Vec<Arc<Path>>,
    /// In how many queues somebody is before it.
    behind: usize,
}

impl PathLocks {
    /// A call wants all of `paths`; none is granted at once. A path may be named twice. When it has them it is added to
    /// `granted`, now or later.
    pub fn request(&mut self, call: CallId, paths: impl IntoIterator<Item = PathBuf>, granted: &mut Vec<CallId>) {
        debug_assert!(!self.requests.contains_key(&call), "{call:?} is known already");
        let mut paths: Vec<Arc<Path>> = paths.into_iter().map(Arc::from).collect();
        paths.sort_unstable();
        paths.dedup();
        let mut behind = 0;
        for path in &paths {
            let queue = self.queues.entry(Arc::clone(path)).or_default();
            behind += usize::from(!queue.is_empty());
            queue.push_back(call);
        }
        if behind == 0 {
            granted.push(call);
        }
        self.requests.insert(call, Request { paths, behind });
    }

    /// A call is done with its paths, or no longer wants them. Those that have theirs now are added to `granted`, in the
    /// order of the paths.
    pub fn release(&mut self, call: CallId, granted: &mut Vec<CallId>) {
        let Some(request) = self.requests.remove(&call) else {
            return;
        };
        for path in &request.paths {
            let Some(queue) = self.queues.get_mut(path) else {
                continue;
            };
            let Some(place) = queue.iter().position(|&other| other == call) else {
                continue;
            };
            queue.remove(place);
            if place > 0 {
                continue;
            }
            let Some(next) = queue.front() else {
                self.queues.remove(path);
                continue;
            };
            if let Some(request) = self.requests.get_mut(next) {
                request.behind -= 1;
                if request.behind == 0 {
                    granted.push(*next);
                }
            }
        }
    }

    /// Whether a call has all its paths.
    pub fn holds(&self, call: CallId) -> bool {
        self.requests.get(&call).is_some_and(|request| request.behind == 0)
    }

    /// How many calls have their paths or wait for them.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether no call has a path or waits for one.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::execution::testing::config;

    /// The model: the calls in the order in which they asked, each with the set of its paths as bits. A call has its
    /// paths when none before it wants one of them.
    #[derive(Clone, Default)]
    struct Model(Vec<(CallId, u8)>);

    impl Model {
        fn holders(&self) -> Vec<CallId> {
            let holds = |place: usize| self.0[..place].iter().all(|other| other.1 & self.0[place].1 == 0);
            (0..self.0.len())
                .filter(|&place| holds(place))
                .map(|place| self.0[place].0)
                .collect()
        }
    }

    fn paths(bits: u8) -> Vec<PathBuf> {
        // In the wrong order, and the last one twice.
        let one = |n: u8| PathBuf::from(format!("/p/{n}"));
        let mut paths: Vec<_> = (0..8).rev().filter(|n| bits & (1 << n) != 0).map(one).collect();
        paths.extend(paths.first().cloned());
        paths
    }

    #[derive(Clone, Default)]
    struct Both {
        locks: PathLocks,
        model: Model,
        /// Who was told.
        told: Vec<CallId>,
    }

    impl Both {
        fn request(&mut self, call: CallId, bits: u8) {
            self.locks.request(call, paths(bits), &mut self.told);
            self.model.0.push((call, bits));
            self.check();
        }

        fn release(&mut self, call: CallId) {
            self.locks.release(call, &mut self.told);
            self.model.0.retain(|other| other.0 != call);
            self.told.retain(|&other| other != call);
            self.check();
        }

        fn check(&self) {
            let mut told = self.told.clone();
            told.sort_unstable();
            let mut holders = self.model.holders();
            holders.sort_unstable();
            // Each is told once, when it has its paths, and never loses them.
            assert_eq!(told, holders);
            for call in &self.model.0 {
                assert_eq!(self.locks.holds(call.0), told.contains(&call.0));
            }
            assert_eq!(self.locks.len(), self.model.0.len());
            // Who asked first of those that are there has its paths: there is no deadlock.
            assert!(self.model.0.first().is_none_or(|first| told.contains(&first.0)));
            if self.model.0.is_empty() {
                assert!(self.locks.queues.is_empty(), "nothing is left behind");
            }
        }
    }

    fn explore(both: &Both, comes: u64, nodes: &mut usize) {
        *nodes += 1;
        if comes < 4 {
            // Every set of three paths.
            for bits in 0..8 {
                let mut both = both.clone();
                both.request(CallId(comes), bits);
                explore(&both, comes + 1, nodes);
            }
        }
        for call in &both.model.0 {
            let mut both = both.clone();
            both.release(call.0);
            explore(&both, comes, nodes);
        }
    }

    #[test]
    fn path_locks_every_interleaving_of_four_calls_on_three_paths() {
        let mut nodes = 0;
        let mut both = Both::default();
        // What one call alone wants makes no difference to its coming first.
        both.request(CallId(0), 7);
        explore(&both, 1, &mut nodes);
        let mut both = Both::default();
        both.request(CallId(0), 1);
        explore(&both, 1, &mut nodes);
        assert!(nodes > 10_000, "{nodes}");
    }

    #[test]
    fn path_locks_random_operations_do_what_the_model_does() {
        let operation = (any::<bool>(), any::<u8>(), any::<prop::sample::Index>());
        proptest!(config(100), |(operations in prop::collection::vec(operation, 1..100))| {
            let mut both = Both::default();
            for (number, (comes, bits, which)) in operations.into_iter().enumerate() {
                if comes || number == 0 {
                    both.request(CallId(number as u64), bits & bits.rotate_left(3));
                } else {
                    both.release(CallId(which.index(number) as u64));
                }
            }
        });
    }

    #[test]
    fn path_locks_nobody_is_overtaken_by_who_asks_later_for_less() {
        let (mut locks, mut granted) = (PathLocks::default(), Vec::new());
        locks.request(CallId(1), paths(0b01), &mut granted);
        locks.request(CallId(2), paths(0b11), &mut granted);
        // The second path is free, and still not his: the second call wants it, too.
        locks.request(CallId(3), paths(0b10), &mut granted);
        assert_eq!(granted, [CallId(1)]);
        locks.release(CallId(1), &mut granted);
        assert_eq!(granted, [CallId(1), CallId(2)]);
        locks.release(CallId(2), &mut granted);
        assert_eq!(granted, [CallId(1), CallId(2), CallId(3)]);
    }

    #[test]
    fn path_locks_a_waiter_that_gives_up_frees_those_behind_it() {
        let (mut locks, mut granted) = (PathLocks::default(), Vec::new());
        locks.request(CallId(1), paths(0b01), &mut granted);
        locks.request(CallId(2), paths(0b11), &mut granted);
        locks.request(CallId(3), paths(0b10), &mut granted);
        locks.release(CallId(2), &mut granted);
        assert_eq!(granted, [CallId(1), CallId(3)]);
        locks.release(CallId(1), &mut granted);
        locks.release(CallId(3), &mut granted);
        assert!(locks.is_empty() && granted.len() == 2);
    }
}
