//! Tools and agents in the forms that clients read.
//!
//! Answers for pure functions from the generated tables to JSON. Leaves out which of them a client gets.

use std::sync::Arc;

use devloop_contract::tool::{Exposure, Rule};
use devloop_contract::{Agent, InternalError, Tool};
use rmcp::model::{JsonObject, MetaObject, ToolAnnotations};
use serde_json::{Map, Value, json};

/// The tools granted to an agent, sorted by name.
pub fn tools_of(agent: &Agent) -> Vec<&'static Tool> {
    let mut tools: Vec<_> = agent
        .tools
        .iter()
        .filter_map(|name| devloop_generated::tool(name))
        .collect();
    tools.sort_by_key(|tool| tool.name);
    tools
}

/// A tool as the Anthropic API takes it: `{name, description, input_schema}`.
pub fn anthropic(tool: &Tool) -> Value {
    json!({ "name": tool.name, "description": tool.description, "input_schema": schema(tool.input_schema) })
}

/// A tool as an MCP server lists it, as JSON.
///
/// # Errors
/// As [`mcp_tool`].
pub fn mcp(tool: &Tool) -> Result<Value, InternalError> {
    let listed = mcp_tool(tool)?;
    serde_json::to_value(listed).map_err(|error| InternalError::new(format!("{} cannot be listed", tool.name), error))
}

/// A tool as an MCP server lists it. All four annotations are explicit, because their defaults claim that a tool
/// destroys and reaches the open world.
///
/// # Errors
/// A schema that is no JSON object, which the generator does not write.
pub fn mcp_tool(tool: &Tool) -> Result<rmcp::model::Tool, InternalError> {
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(tool.read_only_hint())
        .destructive(tool.destructive)
        .idempotent(tool.idempotent)
        .open_world(tool.open_world);
    let mut meta = JsonObject::new();
    // Claude Code defers MCP tools behind its own search unless told otherwise.
    if tool.exposure == Exposure::Always {
        meta.insert("anthropic/alwaysLoad".into(), Value::Bool(true));
    }
    if !tool.tags.is_empty() {
        meta.insert("anthropic/searchHint".into(), Value::String(tool.tags.join(" ")));
    }
    let object = |which: &str, text: &str| {
        serde_json::from_str(text).map(Arc::<JsonObject>::new).map_err(|error| {
            InternalError::new(
                format!("the {which} schema of {} in {} is no JSON object", tool.name, tool.spec),
                error,
            )
        })
    };
    let listed = rmcp::model::Tool::new(tool.name, tool.description, object("input", tool.input_schema)?)
        .with_title(tool.title)
        .with_raw_output_schema(object("output", tool.output_schema)?)
        .with_annotations(annotations);
    Ok(if meta.is_empty() {
        listed
    } else {
        listed.with_meta(MetaObject(meta))
    })
}

/// Everything that a spec says about a tool.
pub fn metadata(tool: &Tool) -> Value {
    let writes: Vec<Value> = tool
        .effects
        .writes
        .iter()
        .map(|write| json!({ "path": write.path, "only": write.only, "when": write.when }))
        .collect();
    let failures: Map<String, Value> = tool
        .failures
        .iter()
        .map(|failure| {
            (
                failure.code.to_owned(),
                json!({ "summary": failure.summary, "hint": failure.hint }),
            )
        })
        .collect();
    let examples: Vec<Value> = tool
        .examples
        .iter()
        .map(|example| {
            let mut value = json!({ "title": example.title, "input": schema(example.input) });
            if !example.output.is_empty() {
                value["output"] = schema(example.output);
            }
            value
        })
        .collect();
    json!({
        "name": tool.name,
        "title": tool.title,
        "aliases": tool.aliases,
        "group": tool.group,
        "handler": tool.handler,
        "spec": tool.spec,
        "summary": tool.summary,
        "description": tool.description,
        "kind": tool.kind.as_str(),
        "read_only_hint": tool.read_only_hint(),
        "idempotent": tool.idempotent,
        "destructive": tool.destructive,
        "open_world": tool.open_world,
        "parallelism": tool.parallelism.as_str(),
        "concurrency_safe": tool.concurrency_safe,
        "retry_safe": tool.retry_safe,
        "strict": tool.strict,
        "exposure": tool.exposure.as_str(),
        "category": tool.category,
        "tags": tool.tags,
        "version": tool.version,
        "permission": { "signature": tool.permission.signature, "rule": tool.permission.rule },
        "affected_paths": tool.affected_paths,
        "path_fields": tool.path_fields,
        "timeout_ms": u64::try_from(tool.timeout.as_millis()).unwrap_or(u64::MAX),
        "bind": schema(tool.bind),
        "rules": tool.rules.iter().map(rule).collect::<Vec<_>>(),
        "input_schema": schema(tool.input_schema),
        "output_schema": schema(tool.output_schema),
        "failures": failures,
        "common_failures": tool.common_failures,
        "effects": {
            "reads": tool.effects.reads,
            "writes": writes,
            "events": tool.effects.events,
            "host": tool.effects.host,
        },
        "examples": examples,
    })
}

/// Everything that a template says about an agent, but its prompt.
pub fn agent(agent: &Agent) -> Value {
    let sandbox = &agent.sandbox;
    let write_via: Map<String, Value> = sandbox
        .write_via
        .iter()
        .map(|via| (via.tool.to_owned(), json!(via.paths)))
        .collect();
    let env: Map<String, Value> = sandbox
        .env
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    json!({
        "id": agent.id,
        "name": agent.name,
        "title": agent.title,
        "summary": agent.summary,
        "type": agent.kind,
        "needs_unit": agent.needs_unit,
        "loop": agent.loop_level,
        "upstream": agent.upstream,
        "downstream": agent.downstream,
        "model": agent.model,
        "builtins": agent.builtins,
        "tools": agent.tools,
        "host_tools": agent.host_tools,
        "sandbox": {
            "cwd": sandbox.cwd,
            "write_allow": sandbox.write_allow,
            "raw_deny": sandbox.raw_deny,
            "write_via": write_via,
            "read_allow": sandbox.read_allow,
            "env": env,
            "site": sandbox.site,
        },
    })
}

/// A schema's text, indented.
pub fn pretty_schema(text: &str) -> String {
    serde_json::to_string_pretty(&schema(text)).unwrap_or_else(|_| text.to_owned())
}

/// The generated tables hold JSON as text; the generator wrote it, so it parses.
fn schema(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

fn rule(rule: &Rule) -> Value {
    match rule {
        Rule::ExactlyOneOf(fields) => json!({ "exactly_one_of": fields }),
        Rule::AtMostOneOf(fields) => json!({ "at_most_one_of": fields }),
        Rule::RequiredIf { field, when, is } => {
            let values: Vec<Value> = is.iter().map(|text| schema(text)).collect();
            json!({ "required_if": { "field": field, "when": when, "is": values } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_in_the_tables_is_json() {
        for tool in devloop_generated::all_tools() {
            for text in [tool.input_schema, tool.output_schema, tool.bind] {
                assert!(schema(text).is_object(), "{}: {text}", tool.name);
            }
            assert!(
                tool.examples.iter().all(|example| schema(example.input).is_object()),
                "{}",
                tool.name
            );
        }
    }

    #[test]
    fn every_granted_tool_exists() {
        for agent in devloop_generated::AGENTS {
            assert_eq!(tools_of(agent).len(), agent.tools.len(), "{}", agent.name);
        }
    }
}
