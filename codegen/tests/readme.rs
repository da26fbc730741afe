//! The page about the format says everything about it, and its example is a real one. The same for editors' schemas.

use std::fs;
use std::path::Path;

use devloop_codegen::{editor_schemas, load, skeleton};
use devloop_contract::glob::VARIABLES;
use serde_json::Value;

fn specs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs")
}

fn page() -> String {
    fs::read_to_string(specs().join("README.md")).unwrap()
}

/// The example's files: a comment with the path, then a block of YAML.
fn example() -> Vec<(String, String)> {
    let page = page();
    let files = page.split("<!-- specs/").skip(1).map(|part| {
        let (path, rest) = part.split_once(" -->\n```yaml\n").unwrap();
        (path.to_owned(), rest.split_once("```").unwrap().0.to_owned())
    });
    files.collect()
}

/// The keys of the model: those of every definition and of the root.
fn keys(schema: &Value) -> Vec<String> {
    let definitions = schema["definitions"]
        .as_object()
        .into_iter()
        .flat_map(|map| map.values());
    let alternatives = definitions.clone().filter_map(|one| one["oneOf"].as_array()).flatten();
    let maps = std::iter::once(schema).chain(definitions).chain(alternatives);
    maps.filter_map(|one| one["properties"].as_object())
        .flat_map(|map| map.keys().cloned())
        .collect()
}

#[test]
fn every_key_is_explained_and_shown() {
    let page = page();
    let (prose, shown): (Vec<_>, Vec<_>) = page.split("```").enumerate().partition(|(index, _)| index % 2 == 0);
    let text = |parts: Vec<(usize, &str)>| parts.into_iter().map(|(_, part)| part).collect::<Vec<_>>().join("\n");
    let (prose, shown) = (text(prose), text(shown));
    let mut all = Vec::new();
    for schema in editor_schemas().values() {
        all.extend(keys(&serde_json::from_str(schema).unwrap()));
    }
    for key in all {
        assert!(
            prose.contains(&format!("`{key}`")) || prose.contains(&format!("`{key}:")),
            "`{key}` is not explained"
        );
        // Keywords of JSON Schema are explained; not each is in the example.
        let is_keyword = ["uniqueItems", "title", "$ref"].contains(&key.as_str());
        assert!(
            is_keyword || shown.contains(&format!("{key}:")),
            "`{key}` is not in the example"
        );
    }
    for variable in VARIABLES {
        assert!(
            prose.contains(&format!("| `{{{}}}` | {} |", variable.name, variable.meaning)),
            "{}",
            variable.name
        );
    }
}

#[test]
fn the_example_loads() {
    let dir = tempfile::tempdir().unwrap();
    let files = example();
    assert_eq!(files.len(), 4);
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(dir.path().join("agents/devloop-scribe.md"), "You keep the notes.\n").unwrap();
    let specs = load(dir.path()).unwrap_or_else(|errors| panic!("{errors}"));
    // The page's handler is the printed frame, filled in.
    let page = page();
    let frame = skeleton(&specs.tools[0]);
    let lines = frame.lines().filter(|line| {
        ["use ", "impl ", "    async fn "]
            .iter()
            .any(|word| line.starts_with(word))
    });
    for line in lines {
        assert!(
            page.contains(&format!("\n{line}\n")),
            "the handler does not have: {line}"
        );
    }
    assert!(frame.contains("impl Handle<NoteAdd>") && page.contains("Failure::Full.into()"));
}

fn is_valid(kind: &str, path: &str, text: &str) {
    let schemas = editor_schemas();
    let schema: Value = serde_json::from_str(&schemas[&format!("specs/{kind}.schema.json")]).unwrap();
    let value = devloop_codegen::yaml::parse(path, text).unwrap().to_value();
    let validator = jsonschema::draft7::new(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{path} {}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn an_editor_finds_nothing_in_specs_that_load() {
    for (path, text) in example() {
        let kind = ["tools", "agents", "types", "events"]
            .into_iter()
            .find(|kind| path.starts_with(kind))
            .unwrap();
        is_valid(
            kind.trim_end_matches('s')
                .replace("type", "types")
                .replace("event", "events")
                .as_str(),
            &path,
            &text,
        );
    }
    let own = load(&specs()).unwrap();
    let read = |path: &str| fs::read_to_string(specs().join(path.trim_start_matches("specs/"))).unwrap();
    for tool in &own.tools {
        is_valid("tool", &tool.file.path, &read(&tool.file.path));
    }
    for agent in &own.agents {
        is_valid("agent", &agent.file.path, &read(&agent.file.path));
    }
    is_valid("types", &own.types.path, &read(&own.types.path));
    is_valid("events", &own.events.path, &read(&own.events.path));
}

#[test]
fn editors_get_draft_7_with_descriptions_and_without_null() {
    let schemas = editor_schemas();
    assert_eq!(schemas.len(), 4);
    for (path, text) in &schemas {
        let schema: Value = serde_json::from_str(text).unwrap();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#", "{path}");
        assert!(!text.contains("\"null\""), "{path} offers null");
        assert!(schema["description"].is_string(), "{path}");
        for (name, property) in schema["properties"].as_object().unwrap() {
            assert!(
                property["description"].is_string(),
                "{path}: `{name}` has no description"
            );
        }
    }
    let tool: Value = serde_json::from_str(&schemas["specs/tool.schema.json"]).unwrap();
    assert!(
        tool["definitions"]["Kind"]["oneOf"][0]["description"].is_string(),
        "words are explained"
    );
}

#[test]
fn the_committed_editor_schemas_are_fresh() {
    for (path, text) in editor_schemas() {
        let committed = fs::read_to_string(specs().join(path.trim_start_matches("specs/"))).unwrap_or_default();
        assert_eq!(committed, text, "{path} is stale: run `cargo codegen write`");
    }
}
