//! Dependencies between named things: what is unknown, what depends on itself, what goes round in a circle.
//!
//! Answers for the checks that todo lists and unit registries share. Leaves out the wording for a field: the caller knows
//! where its things stand.

use std::collections::{BTreeMap, VecDeque};

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

    /// At most `limit` circles, one for each group of things that all depend on each other, in order of the first thing
    /// in it. Each begins and ends with that thing and is as short as a circle through it can be. Things that depend on
    /// themselves alone are left to the caller. Cost: linear in things and edges, and one search for each circle given.
    pub fn circles(&self, limit: usize) -> Vec<Vec<usize>> {
        let mut graph = DiGraph::<(), ()>::with_capacity(self.edges.len(), 0);
        let nodes: Vec<NodeIndex> = self.edges.iter().map(|_| graph.add_node(())).collect();
        for (from, targets) in self.edges.iter().enumerate() {
            for to in targets {
                graph.add_edge(nodes[from], nodes[*to], ());
            }
        }
        let mut starts: Vec<(usize, Vec<usize>)> = tarjan_scc(&graph)
            .into_iter()
            .filter(|group| group.len() > 1)
            .map(|group| {
                let members: Vec<usize> = group.into_iter().map(NodeIndex::index).collect();
                (members.iter().copied().min().unwrap_or_default(), members)
            })
            .collect();
        starts.sort_unstable();
        starts
            .into_iter()
            .take(limit)
            .map(|(start, members)| self.circle_through(start, &members))
            .collect()
    }

    /// The shortest way from `start` back to itself inside a group where everything can be reached from everything.
    fn circle_through(&self, start: usize, members: &[usize]) -> Vec<usize> {
        let mut came_from: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for &next in &self.edges[at] {
                if next == start && at != start {
                    let mut circle = vec![start, at];
                    let mut back = at;
                    while back != start {
                        back = came_from[&back];
                        circle.push(back);
                    }
                    circle.reverse();
                    return circle;
                }
                if next != start && members.contains(&next) && !came_from.contains_key(&next) {
                    came_from.insert(next, at);
                    queue.push_back(next);
                }
            }
        }
        vec![start]
    }
}

#[cfg(test)]
mod tests {
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
    fn the_shortest_circle_is_shown() {
        assert_eq!(
            graph(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (1, 0)]).circles(5),
            [vec![0, 1, 0]]
        );
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
