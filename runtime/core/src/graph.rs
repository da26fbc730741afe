//! Dependencies between named things: what is unknown, what depends on itself, what goes round in a circle.
//!
//! Answers for the checks that todo lists and unit registries share. Leaves out the wording for a field: the caller knows
//! where its things stand.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

/// A dependency graph over things that are numbered in list order. An edge `a → b` says that `a` depends on `b`.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    edges: Vec<Vec<usize>>,
}

impl Dependencies {
    /// A graph of `count` things without edges.
    pub fn new(count: usize) -> Self {
        Self {
            edges: vec![Vec::new(); count],
        }
    }

    /// Says that `from` depends on `to`.
    ///
    /// # Panics
    /// When one of them is not below `count`.
    pub fn add(&mut self, from: usize, to: usize) {
        assert!(to < self.edges.len(), "thing {to} of {}", self.edges.len());
        self.edges[from].push(to);
    }

    /// At most `limit` different circles. Each group of things that all depend on each other gives one first, the
    /// shortest through its first thing; then each edge of a group that is in no circle yet gives the shortest through
    /// it, so that below the limit every edge to look at is named. A circle begins and ends with its first thing, and
    /// they are ordered by their things. Things that depend on themselves alone are left to the caller. Cost: linear in
    /// things and edges, and one search for each circle given.
    pub fn circles(&self, limit: usize) -> Vec<Vec<usize>> {
        let groups = Groups::of(self);
        let shortest = groups.members.iter().map(|group| (group[0], &self.edges[group[0]][..]));
        let each_edge = groups.members.iter().flatten().flat_map(|from| {
            let edges = self.edges[*from].iter();
            edges.map(|to| (*from, std::slice::from_ref(to)))
        });
        let mut circles: Vec<Vec<usize>> = Vec::new();
        let mut named: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (start, first) in shortest.chain(each_edge) {
            if circles.len() == limit {
                break;
            }
            if first
                .iter()
                .any(|to| groups.share(start, *to) && !named.contains(&(start, *to)))
            {
                let circle = self.circle(&groups, start, first);
                named.extend(circle.windows(2).map(|edge| (edge[0], edge[1])));
                circles.push(circle);
            }
        }
        circles.sort_unstable();
        circles
    }

    /// The shortest way from `start` by one of the edges to `first` back to itself, turned so that it begins with its
    /// first thing. One of `first` is in the group of `start`, where everything can be reached from everything.
    fn circle(&self, groups: &Groups, start: usize, first: &[usize]) -> Vec<usize> {
        let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::new();
        let mut step = |from: usize, targets: &[usize], queue: &mut VecDeque<usize>| {
            for &to in targets.iter().filter(|to| groups.share(from, **to)) {
                if let Entry::Vacant(place) = came_from.entry(to) {
                    place.insert(from);
                    queue.push_back(to);
                }
            }
        };
        step(start, first, &mut queue);
        while let Some(at) = queue.pop_front().filter(|at| *at != start) {
            step(at, &self.edges[at], &mut queue);
        }
        let mut circle = Vec::new();
        let mut back = start;
        while let Some(&before) = came_from.get(&back) {
            circle.push(before);
            back = before;
            if back == start {
                break;
            }
        }
        circle.reverse();
        let least = (0..circle.len()).min_by_key(|at| circle[*at]).unwrap_or_default();
        circle.rotate_left(least);
        circle.extend(circle.first().copied());
        circle
    }
}

/// The things that depend on each other in both directions, however indirectly.
#[derive(Debug)]
struct Groups {
    /// Those with more than one thing, ordered by their first one; each in list order.
    members: Vec<Vec<usize>>,
    /// The group of each thing.
    of: Vec<usize>,
}

impl Groups {
    fn of(dependencies: &Dependencies) -> Self {
        let mut graph = DiGraph::<(), ()>::with_capacity(dependencies.edges.len(), 0);
        let nodes: Vec<NodeIndex> = dependencies.edges.iter().map(|_| graph.add_node(())).collect();
        for (from, targets) in dependencies.edges.iter().enumerate() {
            for to in targets {
                graph.add_edge(nodes[from], nodes[*to], ());
            }
        }
        let mut groups = Self {
            members: Vec::new(),
            of: vec![0; dependencies.edges.len()],
        };
        for (number, group) in tarjan_scc(&graph).into_iter().enumerate() {
            let mut members: Vec<usize> = group.into_iter().map(NodeIndex::index).collect();
            for member in &members {
                groups.of[*member] = number;
            }
            if members.len() > 1 {
                members.sort_unstable();
                groups.members.push(members);
            }
        }
        groups.members.sort_unstable();
        groups
    }

    /// Whether two different things are in one group.
    fn share(&self, one: usize, other: usize) -> bool {
        one != other && self.of[one] == self.of[other]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn graph(count: usize, edges: &[(usize, usize)]) -> Dependencies {
        let mut graph = Dependencies::new(count);
        for (from, to) in edges {
            graph.add(*from, *to);
        }
        graph
    }

    #[test]
    fn a_diamond_is_no_circle() {
        assert!(graph(4, &[(1, 0), (2, 0), (3, 1), (3, 2)]).circles(5).is_empty());
    }

    #[test]
    fn a_circle_begins_and_ends_with_its_first_thing() {
        assert_eq!(graph(4, &[(1, 2), (2, 1), (3, 1)]).circles(5), [[1, 2, 1]]);
        assert_eq!(graph(3, &[(0, 1), (1, 2), (2, 0)]).circles(5), [[0, 1, 2, 0]]);
    }

    #[test]
    fn the_shortest_circle_is_shown_first_and_then_what_is_in_none_yet() {
        let graph = graph(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (1, 0)]);
        assert_eq!(graph.circles(1), [[0, 1, 0]]);
        assert_eq!(graph.circles(5), [vec![0, 1, 0], vec![0, 1, 2, 3, 0]]);
    }

    #[test]
    fn circles_that_share_a_thing_are_all_named() {
        assert_eq!(
            graph(3, &[(0, 1), (0, 2), (1, 0), (2, 0)]).circles(5),
            [[0, 1, 0], [0, 2, 0]]
        );
        // The first circle of every group comes before a second one of any.
        let edges = [(0, 1), (0, 2), (1, 0), (2, 0), (3, 4), (4, 3)];
        assert_eq!(graph(5, &edges).circles(2), [[0, 1, 0], [3, 4, 3]]);
    }

    proptest! {
        #[test]
        fn circles_are_real_different_and_below_the_limit_miss_no_edge(
            edges in proptest::collection::vec((0..9_usize, 0..9_usize), 0..30),
        ) {
            let graph = graph(9, &edges);
            let circles = graph.circles(100);
            let mut named = BTreeSet::new();
            for circle in &circles {
                prop_assert_eq!(circle.first(), circle.last());
                let things: BTreeSet<_> = circle.iter().collect();
                prop_assert!(circle.len() > 2 && things.len() == circle.len() - 1, "{circle:?} goes through a thing twice");
                prop_assert_eq!(things.first(), Some(&&circle[0]));
                for edge in circle.windows(2) {
                    prop_assert!(edges.contains(&(edge[0], edge[1])), "{circle:?} has no such edge");
                    named.insert((edge[0], edge[1]));
                }
            }
            prop_assert!(circles.windows(2).all(|two| two[0] < two[1]), "one is named twice");
            for limit in 0..4 {
                prop_assert_eq!(graph.circles(limit).len(), circles.len().min(limit));
            }
            // Without the named edges nothing goes round any more.
            let left: Vec<_> = edges.iter().copied().filter(|edge| !named.contains(edge)).collect();
            prop_assert!(self::graph(9, &left).circles(1).is_empty());
        }
    }

    #[test]
    fn one_circle_for_each_group_up_to_the_limit() {
        let edges: Vec<_> = (0..7).flat_map(|n| [(2 * n, 2 * n + 1), (2 * n + 1, 2 * n)]).collect();
        let circles = graph(14, &edges).circles(5);
        assert_eq!(circles.len(), 5);
        assert_eq!(circles[4], [8, 9, 8]);
    }

    #[test]
    fn a_thing_that_depends_on_itself_is_left_to_the_caller() {
        assert!(graph(2, &[(0, 0), (1, 0)]).circles(5).is_empty());
    }
}
