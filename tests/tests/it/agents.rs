//! The agents as the source system reads them.

use std::fs;

use devloop_contract::Agent;
use devloop_generated::AGENTS;
use serde_json::{Value, json};

fn registry() -> Value {
    let text = fs::read_to_string(crate::root().join("generated/agents/_registry.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The source's agents, each once.
fn source_agents() -> impl Iterator<Item = &'static Agent> {
    crate::SOURCE_AGENTS.iter().map(|name| {
        let agent = AGENTS.iter().find(|agent| agent.name == *name);
        *agent.unwrap_or_else(|| panic!("there is no `{name}`"))
    })
}

/// Those of an agent's neighbours that the source knows.
fn neighbours(names: &[&'static str]) -> Vec<&'static str> {
    let known = |name: &&str| *name == "human" || crate::SOURCE_AGENTS.contains(name);
    names.iter().copied().filter(known).collect()
}

/// The PM's entry as the source document prints it, key by key and in its order. Of the tools, those that exist and that
/// the source has are compared: the rest is granted when it is built, and anybody may add one.
#[test]
fn the_pm_equals_the_source_document() {
    let source = json!({
        "id": "devloop-pm",
        "name": "PM Agent",
        "type": "executor",
        "devloop": { "loop": "L3", "upstream": ["human"], "downstream": ["architect"] },
        "cli": {
            "model": "claude-sonnet-4-6",
            "systemPromptFile": "system/templates/devloop-pm.md",
            "toolPolicy": [
                "Read", "Write",
                "bootstrap_prd_site", "write_chapter", "archive_doc", "diff_html", "update_search_index",
                "validate_prd_site", "echo_diff",
                "write_todolist", "update_todo_item", "update_runtime_state", "timeline_append", "record_memory"
            ]
        },
        "sandbox": {
            "cwd": "data/companies/{cid}/projects/{pid}/",
            "writeAllowList": ["prd/**", "memory/devloop/pm/**", "agent-state/**", "timeline.ndjson"]
        }
    });
    let registry = registry();
    let mut pm = registry["templates"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["id"] == "devloop-pm")
        .unwrap()
        .clone();
    let tools = crate::grants::fixture();
    let of_source = |name: &Value| {
        let name = name.as_str().unwrap();
        devloop_generated::tool(name).is_none_or(|tool| tools.contains_key(tool.name))
    };
    pm["cli"]["toolPolicy"].as_array_mut().unwrap().retain(of_source);
    for side in ["upstream", "downstream"] {
        let known = |name: &Value| *name == "human" || crate::SOURCE_AGENTS.iter().any(|known| name == known);
        pm["devloop"][side].as_array_mut().unwrap().retain(known);
    }
    let mut expected = source.clone();
    let built = |name: &Value| {
        let name = name.as_str().unwrap();
        name.chars().next().unwrap().is_uppercase() || devloop_generated::tool(name).is_some()
    };
    expected["cli"]["toolPolicy"].as_array_mut().unwrap().retain(built);
    assert_eq!(pm, expected);
    assert_eq!(keys(&pm), keys(&source));
    assert_eq!(keys(&pm["cli"]), keys(&source["cli"]));
    assert_eq!(keys(&pm["sandbox"]), keys(&source["sandbox"]));
}

#[test]
fn the_loop_closes() {
    let place: Vec<_> = source_agents()
        .map(|agent| (agent.name, neighbours(agent.upstream), neighbours(agent.downstream)))
        .collect();
    assert_eq!(
        place,
        [
            ("pm", vec!["human"], vec!["architect"]),
            ("architect", vec!["pm"], vec!["coder"]),
            ("coder", vec!["architect"], vec!["tester"]),
            ("tester", vec!["coder"], vec!["integrator"]),
            ("integrator", vec!["tester"], vec!["bug-triager"]),
            ("bug-triager", vec!["tester", "integrator"], vec!["coder"]),
        ]
    );
    assert!(source_agents().all(|agent| agent.loop_level == "L3" && agent.kind == "executor"));
}

#[test]
fn only_the_three_that_run_things_have_bash() {
    let with = |builtin: &str| -> Vec<&str> {
        source_agents()
            .filter(|agent| agent.builtins.contains(&builtin))
            .map(|agent| agent.name)
            .collect()
    };
    assert_eq!(with("Bash"), ["coder", "tester", "integrator"]);
    assert!(!with("Write").contains(&"bug-triager"));
}

#[test]
fn each_agents_tools_file_has_its_grants_in_the_form_of_the_source() {
    for agent in AGENTS {
        let path = crate::root().join(format!("generated/agents/{}/tools.json", agent.id));
        let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(keys(&file), ["tools"]);
        let tools = file["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, agent.tools, "{}", agent.id);
        assert!(
            tools
                .iter()
                .all(|tool| keys(tool) == ["name", "description", "input_schema"])
        );
    }
}
