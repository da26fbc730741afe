//! Agents in the form that clients read, and which tools an agent has.
//!
//! Answers for pure functions from the generated tables to JSON. Leaves out tools: their forms are
//! [`devloop_core::registry::projection`], which here only meets the types of the protocol library.

use std::sync::Arc;

use devloop_contract::agent::Hook;
use devloop_contract::{Agent, InternalError, Tool};
use devloop_core::registry::{Definition, projection};
use serde_json::{Map, Value, json};

/// The tools that an agent has: those granted to it, and those of the group `catalog`. Sorted by name.
pub fn tools_of(agent: &Agent) -> Vec<&'static Tool> {
    devloop_generated::all_tools().filter(|tool| agent.has(tool)).collect()
}

/// A tool as an MCP server lists it, in the types of the protocol library.
///
/// # Errors
/// A schema that is no JSON object, which the generator does not write.
pub fn mcp_tool(tool: &Definition) -> Result<rmcp::model::Tool, InternalError> {
    let mut listed = projection::mcp(tool)?;
    // The schemas, nearly all of it, are what the library holds already: they need not be read by it.
    let mut schema = |name: &str| match listed.get_mut(name).map(Value::take) {
        Some(Value::Object(schema)) => Some(Arc::new(schema)),
        _ => None,
    };
    let (input, output) = (schema("inputSchema"), schema("outputSchema"));
    if let Value::Object(rest) = &mut listed {
        rest.insert("inputSchema".to_owned(), json!({}));
        rest.remove("outputSchema");
    }
    let listed = serde_json::from_value::<rmcp::model::Tool>(listed);
    let mut listed = listed.map_err(|error| InternalError::new(format!("{} cannot be listed", tool.name), error))?;
    listed.input_schema =
        input.ok_or_else(|| InternalError::bare(format!("the input schema of {} is no object", tool.name)))?;
    listed.output_schema = output;
    Ok(listed)
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
        "policy": {
            "mode": agent.policy.mode,
            "allow": agent.policy.allow,
            "ask": agent.policy.ask,
            "deny": agent.policy.deny,
            "hooks": agent.policy.hooks.iter().map(hook).collect::<Vec<_>>(),
        },
    })
}

fn hook(hook: &Hook) -> Value {
    json!({
        "event": hook.event,
        "calls": hook.calls,
        "command": hook.command,
        "timeout_ms": u64::try_from(hook.timeout.as_millis()).unwrap_or(u64::MAX),
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
    fn the_librarys_tool_says_what_the_projection_says() {
        for tool in devloop_generated::all_tools() {
            let tool = Definition::from(tool);
            let listed = serde_json::to_value(mcp_tool(&tool).unwrap()).unwrap();
            assert_eq!(listed, projection::mcp(&tool).unwrap());
        }
    }

    #[test]
    fn every_granted_tool_exists() {
        for agent in devloop_generated::AGENTS {
            let granted = tools_of(agent).into_iter().filter(|tool| !tool.is_of_catalog());
            assert_eq!(granted.count(), agent.tools.len(), "{}", agent.name);
        }
    }
}
