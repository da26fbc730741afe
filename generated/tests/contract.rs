//! The committed contract against the compiled one, and the parts that other systems take word for word.

use std::fs;
use std::path::{Path, PathBuf};

use devloop_generated::{AGENTS, AgentId, GRANTS, ToolId, UnknownTool, counts, tool, tool_list};
use serde_json::{Value, json};

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .replace("\r\n", "\n")
}

#[test]
fn an_unknown_tool_is_told_in_the_words_of_the_source_system() {
    let error = tool_list(&["write_todolist", "write_todolists"]).unwrap_err();
    assert_eq!(error, UnknownTool("write_todolists".into()));
    assert_eq!(error.to_string(), "unknown tool: write_todolists");
}

#[test]
fn the_committed_tool_lists_are_those_of_the_grants() {
    for agent in AGENTS {
        let committed = read(&package().join("agents").join(agent.id).join("tools.json"));
        assert_eq!(tool_list(agent.tools).unwrap(), committed, "{}", agent.id);
        let list: Value = serde_json::from_str(&committed).unwrap();
        for entry in list["tools"].as_array().unwrap() {
            let keys: Vec<&String> = entry.as_object().unwrap().keys().collect();
            assert_eq!(keys, ["name", "description", "input_schema"]);
        }
    }
}

#[test]
fn the_committed_snapshot_is_what_is_compiled() {
    fn compare(snapshot: &Path, out: &Path) {
        for entry in fs::read_dir(snapshot).unwrap() {
            let path = entry.unwrap().path();
            let twin = out.join(path.file_name().unwrap());
            if path.is_dir() {
                compare(&path, &twin);
            } else {
                assert_eq!(
                    read(&path),
                    read(&twin),
                    "{}: run `cargo codegen write`",
                    path.display()
                );
            }
        }
    }
    compare(&package().join("snapshot"), Path::new(env!("OUT_DIR")));
}

#[test]
fn the_registry_has_the_source_systems_shape() {
    let registry: Value = serde_json::from_str(&read(&package().join("agents/_registry.json"))).unwrap();
    let templates = registry["templates"].as_array().unwrap();
    let ids: Vec<&str> = templates
        .iter()
        .map(|template| template["id"].as_str().unwrap())
        .collect();
    let order =
        ["pm", "architect", "coder", "tester", "integrator", "bug-triager"].map(|name| format!("devloop-{name}"));
    if ids.len() == order.len() {
        assert_eq!(ids, order, "the order of the loop");
    }
    // A further agent may stand anywhere, and change the order: who hands work to whom is for its author to say.
    for id in &order {
        assert!(ids.contains(&id.as_str()), "{id}");
    }

    let document = json!({
        "id": "devloop-pm",
        "name": "PM Agent",
        "type": "executor",
        "devloop": { "loop": "L3", "upstream": ["human"], "downstream": ["architect"] },
        "cli": {
            "model": "claude-sonnet-4-6",
            "systemPromptFile": "system/templates/devloop-pm.md",
            "toolPolicy": [
                "Read", "Write", "bootstrap_prd_site", "write_chapter", "archive_doc", "diff_html", "update_search_index",
                "validate_prd_site", "echo_diff", "write_todolist", "update_todo_item", "update_runtime_state",
                "timeline_append", "record_memory",
            ],
        },
        "sandbox": {
            "cwd": "data/companies/{cid}/projects/{pid}/",
            "writeAllowList": ["prd/**", "memory/devloop/pm/**", "agent-state/**", "timeline.ndjson"],
        },
    });
    // Tools arrive one by one: what is granted stands in the document's order. Tools and neighbours that the document
    // does not know are somebody's own.
    let mut expected = document.clone();
    let mut pm = templates
        .iter()
        .find(|template| template["id"] == "devloop-pm")
        .unwrap()
        .clone();
    for list in ["/cli/toolPolicy", "/devloop/upstream", "/devloop/downstream"] {
        let (known, granted) = (document.pointer(list).unwrap(), pm.pointer(list).unwrap().clone());
        let among = |values: &Value, name: &Value| values.as_array().unwrap().contains(name);
        let of = |template: &mut Value, values: &Value| {
            let list = template.pointer_mut(list).unwrap().as_array_mut().unwrap();
            list.retain(|name| among(values, name));
        };
        of(&mut pm, known);
        of(&mut expected, &granted);
    }
    // As text, because the order of the keys counts.
    assert_eq!(pm.to_string(), expected.to_string());
    for template in templates {
        assert_eq!(keys(template), keys(&document), "{}", template["id"]);
    }
}

/// Every key path, in order.
fn keys(value: &Value) -> Vec<String> {
    let own = value.as_object().into_iter().flatten();
    own.flat_map(|(key, sub)| {
        std::iter::once(key.clone()).chain(keys(sub).into_iter().map(move |below| format!("{key}.{below}")))
    })
    .collect()
}

#[test]
fn lookups_agree_with_the_lists() {
    let counts = counts();
    assert_eq!(
        (ToolId::ALL.len(), GRANTS.len()),
        (counts.tools + counts.catalog, counts.grants)
    );
    for id in ToolId::ALL {
        assert_eq!(ToolId::find(id.name()), Some(*id));
        assert!(std::ptr::eq(tool(id.name()).unwrap(), id.tool()));
        for alias in id.tool().aliases {
            assert_eq!(ToolId::find(alias), Some(*id));
        }
        for schema in [id.tool().input_schema, id.tool().output_schema] {
            assert!(serde_json::from_str::<Value>(schema).unwrap().is_object());
        }
    }
    for id in AgentId::ALL {
        assert_eq!(
            (AgentId::parse(id.name()), AgentId::parse(id.id())),
            (Some(*id), Some(*id))
        );
    }
    assert!(AgentId::parse("PM").is_none() && tool("").is_none());
}
