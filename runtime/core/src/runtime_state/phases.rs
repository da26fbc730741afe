//! Which phase may follow which.
//!
//! Answers for the graph that whoever drives the loop may set up. Leaves out what the phases mean: that is the loop's.

use std::collections::{BTreeMap, BTreeSet};

/// The phases of one agent's work and the ways between them. To stay in a phase is always allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseGraph {
    first: BTreeSet<String>,
    next: BTreeMap<String, BTreeSet<String>>,
}

impl PhaseGraph {
    /// A graph of the phases that work may begin with and of arrows from one phase to another.
    pub fn new<'a>(
        first: impl IntoIterator<Item = &'a str>,
        arrows: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut next: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in arrows {
            next.entry(from.to_owned()).or_default().insert(to.to_owned());
            next.entry(to.to_owned()).or_default();
        }
        let first: BTreeSet<String> = first.into_iter().map(str::to_owned).collect();
        for phase in &first {
            next.entry(phase.clone()).or_default();
        }
        Self { first, next }
    }

    /// Where work can go from a phase, sorted. From none, and from one that the graph does not know, to where it may
    /// begin.
    pub fn allowed(&self, from: Option<&str>) -> Vec<&str> {
        let phases = from.and_then(|from| self.next.get(from)).unwrap_or(&self.first);
        phases.iter().map(String::as_str).collect()
    }

    /// Whether work can go from one phase to another, or stay there.
    pub fn allows(&self, from: Option<&str>, to: &str) -> bool {
        from == Some(to) || self.allowed(from).contains(&to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_leads_along_its_arrows_and_to_itself() {
        let graph = PhaseGraph::new(["plan"], [("plan", "draft"), ("draft", "review"), ("review", "draft")]);
        assert_eq!(graph.allowed(None), ["plan"]);
        assert_eq!(graph.allowed(Some("of-old")), ["plan"]);
        assert_eq!(graph.allowed(Some("plan")), ["draft"]);
        assert!(graph.allows(Some("draft"), "review") && graph.allows(Some("review"), "draft"));
        assert!(graph.allows(Some("draft"), "draft") && graph.allows(Some("of-old"), "of-old"));
        assert!(!graph.allows(Some("plan"), "review") && !graph.allows(None, "draft"));
        let end = PhaseGraph::new(["only"], []);
        assert_eq!(end.allowed(Some("only")), [""; 0], "the last phase leads nowhere");
        assert_eq!(PhaseGraph::default().allowed(None), [""; 0]);
    }
}
