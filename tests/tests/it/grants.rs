//! The counts are a test, not a rule of the build: a fixture lists what the finished product has.

use std::collections::BTreeMap;

use devloop_generated::{AGENTS, all_tools};

/// The tools of the source system, each with its agents.
pub(crate) fn fixture() -> BTreeMap<&'static str, Vec<&'static str>> {
    include_str!("../../fixtures/grants.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(": ").expect("`tool: agent, agent`"))
        .map(|(tool, agents)| (tool, agents.split(", ").collect()))
        .collect()
}

#[test]
fn the_fixture_has_35_tools_and_79_grants() {
    let fixture = fixture();
    assert_eq!((fixture.len(), fixture.values().map(Vec::len).sum::<usize>()), (35, 79));
}

#[test]
fn every_source_tool_that_exists_is_granted_to_exactly_its_agents() {
    let fixture = fixture();
    for tool in all_tools() {
        let Some(expected) = fixture.get(tool.name) else {
            continue;
        };
        let granted: Vec<&str> = AGENTS
            .iter()
            .filter(|agent| agent.tools.contains(&tool.name))
            .map(|agent| agent.name)
            .filter(|name| crate::SOURCE_AGENTS.contains(name))
            .collect();
        // A further agent may change the order of the loop.
        let sorted = |mut names: Vec<_>| {
            names.sort_unstable();
            names
        };
        assert_eq!(sorted(granted), sorted(expected.clone()), "{}", tool.name);
    }
}

#[test]
fn the_generated_counts_are_the_tables() {
    let counts = devloop_generated::counts();
    let granted = || all_tools().filter(|tool| !tool.is_of_catalog());
    let names: usize = granted().map(|tool| 1 + tool.aliases.len()).sum();
    let grants: usize = AGENTS.iter().map(|agent| agent.tools.len()).sum();
    assert_eq!(
        (counts.tools, counts.names, counts.grants),
        (granted().count(), names, grants)
    );
    assert_eq!(counts.catalog, all_tools().len() - counts.tools);
}

#[test]
fn every_agent_has_the_tools_of_the_catalogue_and_is_granted_none() {
    let fixture = fixture();
    let catalog: Vec<_> = all_tools().filter(|tool| tool.is_of_catalog()).collect();
    assert!(catalog.iter().any(|tool| tool.name == "read_artifact"));
    for tool in catalog {
        assert!(!fixture.contains_key(tool.name), "{} is among the 35", tool.name);
        for agent in AGENTS {
            assert!(agent.has(tool), "{} does not have {}", agent.name, tool.name);
            assert!(
                !agent.tools.contains(&tool.name),
                "{} is granted {}",
                agent.name,
                tool.name
            );
        }
    }
}
