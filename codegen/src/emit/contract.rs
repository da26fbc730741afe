//! `generated/schemas/` and `generated/agents/`: the contract as JSON, for reviewers and for other systems.
//!
//! Answers for the shape of these files. Leaves out what is derived from a spec (see [`crate::resolve`]).

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::{Layout, about_file, json_text, tools};
use crate::FileMap;
use crate::diagnostic::Diagnostic;
use crate::model::{FailureDetail, FailureEntry, Schema};
use crate::resolve::{Face, failure_summary, inline};
use crate::specs::AgentFile;

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Adds the files.
pub(super) fn emit(layout: &Layout<'_>, files: &mut FileMap, errors: &mut Vec<Diagnostic>) {
    let mut add = |path: String, value: &Value| {
        files.insert(path, json_text(value) + "\n");
    };
    for face in &layout.faces {
        add(
            format!("generated/schemas/tools/{}.json", face.name),
            &tool(layout, face),
        );
    }
    add("generated/schemas/events.json".into(), &events(layout));
    add("generated/schemas/types.json".into(), &types(layout));
    let templates: Vec<Value> = layout.agents.iter().map(|agent| template(agent)).collect();
    add(
        "generated/agents/_registry.json".into(),
        &json!({ "templates": templates }),
    );
    for agent in &layout.agents {
        let mut list = Vec::new();
        for name in &agent.file.spec.cli.tools {
            match layout.face(name) {
                Some(face) => list.push(json!({
                    "name": face.name, "description": face.description, "input_schema": face.input,
                })),
                None => errors.push(about_file(
                    &agent.file.path,
                    format!("unknown tool: {name}"),
                    "name a tool that a spec declares, or put it under `host_tools`",
                )),
            }
        }
        add(
            format!("generated/agents/{}/tools.json", agent.file.spec.id),
            &json!({ "tools": list }),
        );
    }
}

/// One tool with everything that a caller or a reviewer can rely on.
fn tool(layout: &Layout<'_>, face: &Face<'_>) -> Value {
    let spec = &face.tool.file.spec;
    let (signature, rule) = tools::permission(face);
    let failures: Map<String, Value> = spec
        .failures
        .iter()
        .map(|(code, entry)| {
            let mut failure = Map::new();
            failure.insert("summary".into(), json!(failure_summary(entry).trim()));
            if let FailureEntry::Detail(FailureDetail { hint, details, .. }) = entry {
                failure.extend(hint.as_ref().map(|hint| ("hint".to_owned(), json!(hint.trim()))));
                failure.extend(
                    details
                        .as_ref()
                        .map(|schema| ("details".to_owned(), inlined(layout, schema))),
                );
            }
            (code.clone(), Value::Object(failure))
        })
        .collect();
    json!({
        "name": face.name,
        "aliases": face.aliases,
        "title": face.title,
        "version": tools::version(face),
        "handler": spec.handler,
        "spec": face.tool.file.path,
        "description": face.description,
        "kind": spec.kind,
        "idempotent": spec.idempotent,
        "destructive": spec.destructive,
        "open_world": spec.open_world,
        "parallelism": tools::parallelism(face),
        "concurrency_safe": spec.concurrency_safe,
        "retry_safe": spec.retry_safe,
        "strict": spec.strict,
        "exposure": spec.exposure,
        "timeout_ms": tools::timeout(face),
        "category": tools::category(face),
        "tags": spec.tags,
        "permission": { "signature": signature, "rule": rule },
        "affected_paths": spec.affected_paths,
        "path_fields": face.path_fields,
        "bind": face.bind,
        "rules": face.rules,
        "input_schema": face.input,
        "output_schema": face.output,
        "failures": failures,
        "common_failures": spec.common_failures,
        "effects": spec.effects,
        "every_agent": face.tool.is_of_catalog(),
        "granted_to": layout
            .grants()
            .filter(|(_, granted)| granted.name == face.name)
            .map(|(agent, _)| agent.file.spec.name.as_str())
            .collect::<Vec<_>>(),
    })
}

fn events(layout: &Layout<'_>) -> Value {
    let events: IndexMap<&String, Value> = layout
        .events
        .spec
        .events
        .iter()
        .map(|(name, event)| {
            (
                name,
                json!({ "summary": event.summary.trim(), "payload": inlined(layout, &event.payload) }),
            )
        })
        .collect();
    json!({
        "description": "Every event with the JSON Schema of its own payload. `agent`, `call_id`, `unit_id` (when there \
                        is one) and `ts` are added to each.",
        "events": events,
    })
}

fn types(layout: &Layout<'_>) -> Value {
    let types: IndexMap<&String, Value> = layout
        .types
        .types
        .iter()
        .map(|(name, schema)| (name, inlined(layout, schema)))
        .collect();
    json!({
        "$schema": DIALECT,
        "description": "The shared value types. Published schemas have them inlined.",
        "$defs": types,
    })
}

fn inlined(layout: &Layout<'_>, schema: &Schema) -> Value {
    Value::Object(inline(schema, layout.types))
}

/// One agent in the source system's shape: these keys, in this order, and nothing else.
fn template(agent: &AgentFile) -> Value {
    let spec = &agent.file.spec;
    let policy: Vec<&String> = spec
        .cli
        .builtins
        .iter()
        .chain(&spec.cli.tools)
        .chain(&spec.cli.host_tools)
        .collect();
    json!({
        "id": spec.id,
        "name": spec.title,
        "type": spec.kind,
        "devloop": {
            "loop": spec.place.level,
            "upstream": spec.place.upstream,
            "downstream": spec.place.downstream,
        },
        "cli": {
            "model": spec.cli.model,
            "systemPromptFile": spec.cli.system_prompt_file,
            "toolPolicy": policy,
        },
        "sandbox": {
            "cwd": spec.sandbox.cwd,
            "writeAllowList": spec.sandbox.write_allow,
        },
    })
}
